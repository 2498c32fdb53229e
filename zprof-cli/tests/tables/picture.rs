//! Flame graphs of profiles that are deep, or whose names are no text for a picture; and the picture's own script in a browser.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use prost::Message as _;
use zprof_proto::x_event::Data;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace};

use super::profiles::{of_runs, write};
use super::{output, run, run_on};

/// A thread with scopes within scopes, each with two nanoseconds of its own but the innermost, which has more.
fn nested(depth: i64, name: impl Fn(i64) -> String) -> Vec<u8> {
    let mut plane = XPlane { name: "/host:CPU".into(), ..Default::default() };
    let mut line = XLine { id: 1, name: "main".into(), ..Default::default() };
    for level in 0..depth {
        plane.event_metadata.insert(level, XEventMetadata { id: level, name: name(level), ..Default::default() });
        let (start, duration_ps) = (level * 1_000, (depth - level) * 2_000 + 3_000);
        line.events.push(XEvent { metadata_id: level, data: Some(Data::OffsetPs(start)), duration_ps, stats: vec![] });
    }
    plane.lines.push(line);
    XSpace { planes: vec![plane], ..Default::default() }.encode_to_vec()
}

/// Runs `zprof flame` with no more address space than 64 MiB, code and stacks included.
fn limited(arguments: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", r#"ulimit -v 65536 && exec "$@""#, "sh", env!("CARGO_BIN_EXE_zprof"), "flame"])
        .args(arguments)
        .output()
        .expect("sh starts")
}

/// Titles of a picture's frames, in the order of the file.
fn titles(svg: &str) -> Vec<String> {
    let titles = svg.split("<title>").skip(1);
    titles.map(|title| title.split("</title>").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_deep_picture_takes_memory_and_room_in_proportion_to_the_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sizes = Vec::new();
    for depth in [4_000, 8_000] {
        let profile = write(folder.path(), "deep.xplane.pb", &nested(depth, |level| format!("f{level}")));
        let done = limited(&[&profile]);
        assert_eq!((done.status.code(), &*String::from_utf8_lossy(&done.stderr)), (Some(0), ""));
        let svg = String::from_utf8(done.stdout).expect("is UTF-8");
        assert_eq!(titles(&svg).len(), usize::try_from(depth).expect("is small") + 1);
        sizes.push(svg.len());
    }
    assert!(sizes[1] < 2 * sizes[0] + sizes[0] / 10, "{sizes:?}");
}

#[test]
fn what_is_too_high_for_a_picture_is_counted() {
    let profile = nested(10_003, |level| format!("f{level}"));
    let (code, svg, error) = run_on(&profile, &["flame", "-"]);
    let said =
        "zprof: 3 scopes on 10,000 others are not drawn; their time is in what they stand on, and `--folded` has all\n";
    assert_eq!((code, error.as_str()), (0, said));
    assert_eq!(titles(&svg).len(), 10_001);
    assert!(svg.contains(">3 frames on 10,000 others are not drawn.</text>"));
}

#[test]
fn folded_stacks_are_written_with_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = |level: i64| format!("{level:04}{}", "x".repeat(56));
    let profile = write(folder.path(), "deep.xplane.pb", &nested(1_800, name));
    let target = folder.path().join("stacks");
    let done = limited(&["--folded", &profile, "-o", target.to_str().expect("is UTF-8")]);
    assert_eq!((done.status.code(), &*String::from_utf8_lossy(&done.stderr)), (Some(0), ""));
    // As long as the stacks are, with a `;` or a space behind each frame, and a number.
    let frames: u64 = (1..=1_800).sum();
    assert_eq!(fs::metadata(&target).expect("is there").len(), 61 * frames + 1_800 * 2);
}

#[test]
fn a_number_at_the_end_of_a_name_belongs_to_it() {
    let profile = of_runs(&[("layer 1", 10_000), ("layer 2", 30_000)]);
    let (_, svg, _) = run_on(&profile, &["flame", "-"]);
    let expected = ["all (40,000 ns, 100%)", "layer 2 (30,000 ns, 75.00%)", "layer 1 (10,000 ns, 25.00%)"];
    assert_eq!(titles(&svg), expected);
    assert_eq!(run_on(&profile, &["flame", "--folded", "-"]).1, "layer_1 10000\nlayer_2 30000\n");
    // Inside another scope, under a thread, and with blanks after the number.
    let deep =
        nested(3, |level| ["forward 7", "layer 1.5", "layer 1 \u{a0}"][usize::try_from(level).expect("small")].into());
    let titles_of =
        |svg: &str| titles(svg).into_iter().map(|title| title.split(" (").next().unwrap_or_default().to_owned());
    let (_, svg, _) = run_on(&deep, &["flame", "--by-thread", "-"]);
    assert_eq!(titles_of(&svg).collect::<Vec<_>>(), ["all", "main", "forward 7", "layer 1.5", "layer 1 \u{a0}"]);
    assert!(!svg.contains("%; "), "a difference between two profiles");
    let folded = "forward_7 2\nforward_7;layer_1.5 2\nforward_7;layer_1.5;layer_1 5\n";
    assert_eq!(run_on(&deep, &["flame", "--folded", "-"]).1, folded);
}

#[test]
fn any_name_gives_a_picture_that_is_xml() {
    let names: Vec<String> = (0..0x20_u32)
        .chain([0x7f, 0x85, 0x9b, 0x202e, 0xfffd, 0xfffe, 0xffff, 0x1_fffe, 0x10_ffff])
        .filter_map(char::from_u32)
        .map(|letter| format!("a{letter}b"))
        .chain(["<script>alert(1)</script>", "]]>", "&lt;", "\"'", "<![CDATA[", "-->"].map(str::to_owned))
        .collect();
    let runs: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1_000)).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let profile = write(folder.path(), "names.xplane.pb", &of_runs(&runs));
    let picture = folder.path().join("x.svg");
    let title = "t\u{1}\u{8}\u{1b}\u{fffe}\u{ffff}</text><script>]]>&";
    assert_eq!(output(&["flame", &profile, "--title", title, "-o", picture.to_str().expect("is UTF-8")]), "");
    // The parser's own words, and what it has read.
    let reader = r#"
import sys, xml.dom.minidom
svg = xml.dom.minidom.parse(sys.argv[1])
print(len(svg.getElementsByTagName("title")), len(svg.getElementsByTagName("script")))
"#;
    let python = Command::new("python3").args(["-c", reader]).arg(&picture).output().expect("python3 runs");
    let said = (String::from_utf8_lossy(&python.stdout), String::from_utf8_lossy(&python.stderr));
    assert_eq!((&*said.0, &*said.1), (&*format!("{} 1\n", names.len() + 1), ""));
}

/// Points at a frame, zooms into it and out again, and searches, as a person does; writes down what is to be seen.
const PERSON: &str = r##"<script><![CDATA[
const frames = [...document.querySelectorAll("#frames > g")];
const frame = (name) => frames.find((group) => group.querySelector("title").textContent.startsWith(name + " ("));
const rect = (name) => frame(name).querySelector("rect");
const send = (element, kind) => element.dispatchEvent(new MouseEvent(kind, { bubbles: true }));
const text = (id) => document.querySelector("#" + id).textContent;
const shown = (name) => frame(name).style.display === "none" ? "hidden" : rect(name).getAttribute("width");
const seen = [];
send(rect("inner"), "mouseover");
seen.push(text("details"));
send(rect("inner"), "click");
seen.push(["all", "outer", "inner", "other"].map(shown).join(" "));
send(document.querySelector("#reset"), "click");
seen.push(["all", "outer", "inner", "other"].map(shown).join(" "));
const fill = rect("inner").getAttribute("fill");
window.prompt = () => "INNER|outer";
send(document.querySelector("#search"), "click");
seen.push(text("matched"), rect("inner").getAttribute("fill"));
send(document.querySelector("#search"), "click");
seen.push(text("matched") + rect("inner").getAttribute("fill") === fill ? "plain" : "coloured");
document.documentElement.setAttribute("seen", seen.join("|"));
]]></script>
</svg>"##;

fn browsed(picture: &Path, profile: &Path) -> String {
    let browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", picture.display()))
        .stdin(Stdio::null())
        .output()
        .expect("chromium starts; see scripts/test");
    let page = String::from_utf8_lossy(&browser.stdout).into_owned();
    page.split(" seen=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or(&page).to_owned()
}

#[test]
fn the_picture_says_zooms_and_searches_in_a_browser() {
    // Two thirds of `outer` are `inner`, and `other` is beside both.
    let mut profile = XSpace::decode(&*nested(1, |_| "outer".to_owned())).expect("is a space");
    let plane = &mut profile.planes[0];
    for (id, name, start, duration) in [(0, "outer", 0, 6_000), (1, "inner", 1_000, 4_000), (2, "other", 7_000, 6_000)]
    {
        plane.event_metadata.insert(id, XEventMetadata { id, name: name.into(), ..Default::default() });
        let event = XEvent { metadata_id: id, data: Some(Data::OffsetPs(start)), duration_ps: duration, stats: vec![] };
        plane.lines[0].events.push(event);
    }
    plane.lines[0].events.remove(0);
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), "p.xplane.pb", &profile.encode_to_vec());
    let (code, svg, error) = run(&["flame", &path]);
    assert_eq!((code, error.as_str()), (0, ""));
    let picture = folder.path().join("browsed.svg");
    fs::write(&picture, svg.replace("</svg>", PERSON)).expect("is written");
    assert_eq!(
        browsed(&picture, &folder.path().join("profile")),
        "inner (4 ns, 33.33%)|1180.000 1180.000 1180.000 hidden|1180.000 590.000 393.333 590.000|Matched: 50.00%|\
         rgb(230,0,230)|plain"
    );
}
