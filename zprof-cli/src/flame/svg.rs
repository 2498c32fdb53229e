//! The picture of a flame graph: an SVG with a small script of its own, which zooms, searches and says what is pointed at.
//!
//! Time and memory are linear in the number of frames. A name is written once for each frame that is drawn, so it is cut.

use std::cmp::Ordering;
use std::io::{self, Write};

use unicode_width::UnicodeWidthChar;
use zprof_runtime::display::shown;
use zprof_runtime::export::StackTree;

/// Size of the picture and its parts, in pixels. The script has the same.
const WIDTH: f64 = 1200.0;
const SIDE: f64 = 10.0;
const ABOVE: u64 = 50;
const BELOW: u64 = 40;
const FRAME: u64 = 16;
/// Width of a letter.
const LETTER: f64 = 7.2;
/// Frames that are narrower cannot be seen and are left out.
const NARROWEST: f64 = 0.1;
/// Frames that are drawn one above another, at most: browsers fail at pictures of some million pixels.
pub(super) const HIGHEST: u64 = 10_000;
/// Letters of a name, at most.
const LONGEST: usize = 400;

/// The zooming and searching.
const SCRIPT: &str = include_str!("script.js");

/// How many frames the picture lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Narrower than a tenth of a pixel, or above such a frame.
    pub(super) narrow: usize,
    /// Above more frames than are drawn.
    pub(super) high: usize,
}

/// A frame that is drawn.
struct Drawn {
    /// `None` stands for all.
    frame: Option<usize>,
    x_ns: u128,
    total_ns: u128,
    level: u64,
}

/// Writes the picture; says what is not in it.
pub(super) fn write(out: &mut dyn Write, tree: &StackTree, title: &str) -> io::Result<Missing> {
    let layout = Layout::of(tree);
    let (drawn, missing) = layout.drawn();
    let levels = drawn.iter().map(|drawn| drawn.level + 1).max().unwrap_or(1);
    let height = ABOVE + BELOW + FRAME * levels;
    write_head(out, title, height, missing)?;
    let labels: Vec<String> = tree.names().iter().map(|name| label(name)).collect();
    let pixels = (WIDTH - 2.0 * SIDE) / wide(layout.all_ns);
    for Drawn { frame, x_ns, total_ns, level } in &drawn {
        let name = frame.map_or("all", |frame| &labels[tree.name_of(frame)]);
        let (x, width) = (SIDE + wide(*x_ns) * pixels, wide(*total_ns) * pixels);
        let y = height - BELOW - FRAME * (level + 1);
        let share = 100.0 * wide(*total_ns) / wide(layout.all_ns);
        let share = if *total_ns == layout.all_ns { "100".to_owned() } else { format!("{share:.2}") };
        write!(out, "<g><title>")?;
        write_text(out, name)?;
        write!(out, " ({} ns, {share}%)</title>", grouped(*total_ns))?;
        let (red, green, blue) = frame.map_or((200, 200, 200), |_| colour(name));
        write!(
            out,
            r#"<rect x="{x:.3}" y="{y}" width="{width:.3}" height="{}" fill="rgb({red},{green},{blue})"/>"#,
            FRAME - 1
        )?;
        write!(out, r#"<text x="{:.3}" y="{}">"#, x + 3.0, y + 12)?;
        write_text(out, &cut(name, width))?;
        writeln!(out, "</text></g>")?;
    }
    writeln!(out, "</g>\n<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>")?;
    Ok(missing)
}

/// Everything before the frames.
fn write_head(out: &mut dyn Write, title: &str, height: u64, missing: Missing) -> io::Result<()> {
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8" standalone="no"?>"#)?;
    writeln!(
        out,
        r#"<svg version="1.1" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg">"#
    )?;
    writeln!(
        out,
        "<style>text {{ font-family: monospace; font-size: 12px; fill: black; }} #title {{ text-anchor: middle; font-size: 17px; }} \
         #matched {{ text-anchor: end; }} #search {{ text-anchor: end; cursor: pointer; }} #reset {{ cursor: pointer; }} \
         #frames text {{ pointer-events: none; }} #frames > g:hover > rect {{ stroke: black; stroke-width: 0.5; cursor: pointer; }}</style>"
    )?;
    writeln!(out, r##"<rect width="100%" height="100%" fill="#f8f8f8"/>"##)?;
    write!(out, r#"<text id="title" x="{}" y="26">"#, WIDTH / 2.0)?;
    write_text(out, &label(title))?;
    writeln!(out, "</text>")?;
    write!(out, r#"<text id="details" x="{SIDE}" y="{}">"#, height - 14)?;
    let frames = |count: usize, why: &str| match count {
        0 => String::new(),
        1 => format!("1 frame {why} is not drawn. "),
        count => format!("{} frames {why} are not drawn. ", grouped(count as u128)),
    };
    let narrow = frames(missing.narrow, "narrower than a tenth of a pixel");
    write_text(out, (narrow + &frames(missing.high, &format!("on {} others", grouped(HIGHEST.into())))).trim_end())?;
    writeln!(out, "</text>")?;
    writeln!(out, r#"<text id="reset" x="{SIDE}" y="26" style="display:none">Reset zoom</text>"#)?;
    writeln!(out, r#"<text id="search" x="{}" y="26">Search</text>"#, WIDTH - SIDE)?;
    writeln!(out, r#"<text id="matched" x="{}" y="{}"></text>"#, WIDTH - SIDE, height - 14)?;
    writeln!(out, r#"<g id="frames">"#)
}

/// Where frames are: their times with all above them, and what stands on what.
struct Layout {
    all_ns: u128,
    /// By frame.
    total_ns: Vec<u128>,
    /// Frames by the one below, those on one by name; the lowest come first.
    order: Vec<usize>,
    /// By frame, and for the lowest in the first place: where those on it begin in `order`.
    begins: Vec<usize>,
}

impl Layout {
    fn of(tree: &StackTree) -> Self {
        let frames = 0..tree.len();
        let mut total_ns: Vec<u128> = frames.clone().map(|frame| tree.own_ns(frame)).collect();
        let mut all_ns = 0;
        // What stands on a frame comes after it, so its time is whole when its turn comes.
        for frame in frames.clone().rev() {
            match tree.below(frame) {
                Some(below) => total_ns[below] += total_ns[frame],
                None => all_ns += total_ns[frame],
            }
        }
        // Comparing names once for each pair of frames would take a time that their length decides.
        let mut by_name: Vec<usize> = (0..tree.names().len()).collect();
        by_name.sort_by(|one, other| tree.names()[*one].cmp(&tree.names()[*other]));
        let mut rank = vec![0; by_name.len()];
        for (place, name) in by_name.into_iter().enumerate() {
            rank[name] = place;
        }
        let below = |frame: usize| tree.below(frame).map_or(0, |below| below + 1);
        let mut order: Vec<usize> = frames.filter(|frame| total_ns[*frame] > 0).collect();
        order.sort_unstable_by(|one, other| match below(*one).cmp(&below(*other)) {
            Ordering::Equal => (rank[tree.name_of(*one)], *one).cmp(&(rank[tree.name_of(*other)], *other)),
            unequal => unequal,
        });
        let mut begins = vec![0; tree.len() + 2];
        for frame in &order {
            begins[below(*frame) + 1] += 1;
        }
        for place in 1..begins.len() {
            begins[place] += begins[place - 1];
        }
        Self { all_ns, total_ns, order, begins }
    }

    /// The frames that stand on this one, or the lowest, by name.
    fn on(&self, frame: Option<usize>) -> &[usize] {
        let place = frame.map_or(0, |frame| frame + 1);
        &self.order[self.begins[place]..self.begins[place + 1]]
    }

    /// The frames to draw, and how many others there are that take time.
    fn drawn(&self) -> (Vec<Drawn>, Missing) {
        let narrowest = wide(self.all_ns) * NARROWEST / (WIDTH - 2.0 * SIDE);
        let mut drawn = Vec::new();
        let mut missing = Missing::default();
        let mut open = vec![Drawn { frame: None, x_ns: 0, total_ns: self.all_ns, level: 0 }];
        while let Some(lower) = open.pop() {
            let mut x_ns = lower.x_ns;
            for frame in self.on(lower.frame) {
                let total_ns = self.total_ns[*frame];
                let upper = Drawn { frame: Some(*frame), x_ns, total_ns, level: lower.level + 1 };
                x_ns += total_ns;
                if wide(total_ns) < narrowest {
                    missing.narrow += self.count(*frame);
                } else if upper.level > HIGHEST {
                    missing.high += self.count(*frame);
                } else {
                    open.push(upper);
                }
            }
            drawn.push(lower);
        }
        (drawn, missing)
    }

    /// A frame and all that stand on it.
    fn count(&self, frame: usize) -> usize {
        let mut open = vec![frame];
        let mut count = 0;
        while let Some(frame) = open.pop() {
            count += 1;
            open.extend(self.on(Some(frame)));
        }
        count
    }
}

#[allow(clippy::cast_precision_loss)] // a picture has no more than 53 bits
fn wide(ns: u128) -> f64 {
    ns as f64
}

/// A name as it is shown: one line, not longer than a picture can have it for each frame, with both its ends.
fn label(name: &str) -> String {
    if name.len() <= LONGEST || name.chars().count() <= LONGEST {
        return name.chars().map(shown).collect();
    }
    let half = LONGEST / 2;
    let head = name.chars().take(half);
    let tail: Vec<char> = name.chars().rev().take(half - 1).collect();
    head.chain(['…']).chain(tail.into_iter().rev()).map(shown).collect()
}

/// As much of a name as fits on a frame; nothing where that would be less than three letters.
fn cut(name: &str, width: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most the picture's width
    let room = ((width - 6.0) / LETTER).max(0.0) as usize;
    let width_of = |letter: char| letter.width().unwrap_or(0);
    if name.chars().map(width_of).sum::<usize>() <= room {
        return name.to_owned();
    }
    let mut left = if room < 3 { return String::new() } else { room - 2 };
    let fitting = name.chars().take_while(|letter| match left.checked_sub(width_of(*letter)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    });
    fitting.collect::<String>() + ".."
}

/// The colour of a name, which is the same in every picture: warm, as flames are.
fn colour(name: &str) -> (u8, u8, u8) {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let part = |shift: u32, range: u64| u8::try_from((((hash >> shift) & 0xffff) * range) >> 16).unwrap_or(0);
    (205 + part(0, 50), 80 + part(16, 130), part(32, 60))
}

/// Writes a text into XML. Characters that no XML may hold, escaped or not, become U+FFFD.
fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let mut rest = text;
    let is_special =
        |letter: char| matches!(letter, '<' | '>' | '&' | '"' | '\'' | '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    while let Some(at) = rest.find(is_special) {
        out.write_all(&rest.as_bytes()[..at])?;
        let mut letters = rest[at..].chars();
        out.write_all(match letters.next() {
            Some('<') => b"&lt;",
            Some('>') => b"&gt;",
            Some('&') => b"&amp;",
            Some('"') => b"&quot;",
            Some('\'') => b"&apos;",
            _ => "\u{fffd}".as_bytes(),
        })?;
        rest = letters.as_str();
    }
    out.write_all(rest.as_bytes())
}

/// A number as people read it: `1,234,567`.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_to_its_frame() {
        assert_eq!(cut("decode", 6.0 + 6.0 * LETTER), "decode");
        assert_eq!(cut("decode", 5.0 + 6.0 * LETTER), "dec..");
        assert_eq!(cut("日本語", 6.0 + 5.0 * LETTER), "日..");
        assert_eq!(cut("decode", 6.0 + 2.0 * LETTER), "");
        assert_eq!(cut("decode", 0.1), "");
    }

    #[test]
    fn a_label_is_one_line_of_limited_length() {
        assert_eq!(label("a\u{1b}[31m\nb\u{202e}"), "a [31m b\u{fffd}");
        let long = label(&format!("begin{}end", "\u{301}".repeat(64 << 10)));
        assert_eq!(long.chars().count(), LONGEST);
        assert!(long.starts_with("begin") && long.ends_with("end"), "{long}");
    }

    #[test]
    fn text_is_what_xml_may_hold() {
        let mut out = Vec::new();
        write_text(&mut out, "<a b='c\">&amp; \0\u{8}\t\u{fffe}\u{ffff}é]]>").expect("memory takes everything");
        let expected = "&lt;a b=&apos;c&quot;&gt;&amp;amp; \u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}é]]&gt;";
        assert_eq!(String::from_utf8(out).expect("is UTF-8"), expected);
    }

    #[test]
    fn the_script_fits_into_the_picture() {
        assert!(!SCRIPT.contains("]]>") && SCRIPT.is_ascii());
    }
}
