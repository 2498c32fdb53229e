//! Fields of spans and events keep their types and places.

use std::error::Error;
use std::fmt;

use tracing::Level;
use tracing::field::Empty;
use zprof_tests::profile::{Stat, Stats, stats};

use super::told;

#[derive(Debug)]
struct Failed(Option<Box<Failed>>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "outer" } else { "inner" })
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.as_deref().map(|error| error as _)
    }
}

#[derive(Debug)]
struct Opaque {
    #[allow(dead_code)] // shown by `Debug`
    a: u8,
}

/// Fields of every type on a span and on an event, and one that comes late.
pub(super) fn typed() {
    let error = Failed(Some(Box::new(Failed(None))));
    let error: &(dyn Error + 'static) = &error;
    let span = tracing::info_span!(
        "typed",
        signed = -5,
        unsigned = u64::MAX,
        float = 0.5,
        yes = true,
        text = "plain",
        debug = ?Opaque { a: 1 },
        late = Empty,
        display = %"shown",
        error,
        big = 1_i128 << 100,
    );
    span.in_scope(|| {
        tracing::warn!(n = 1, error, "a message of {}", 2);
        span.record("late", 7);
    });
}

pub(super) fn of_typed() -> [Stats; 2] {
    let span = stats([
        ("signed", (-5).into()),
        ("unsigned", Stat::Uint(u64::MAX)),
        ("float", 0.5.into()),
        ("yes", 1.into()),
        ("text", "plain".into()),
        ("debug", "Opaque { a: 1 }".into()),
        ("display", "shown".into()),
        ("error", "outer: inner".into()),
        ("big", "1267650600228229401496703205376".into()),
        ("late", 7.into()),
    ]);
    let event = stats([("message", "a message of 2".into()), ("n", 1.into()), ("error", "outer: inner".into())]);
    [span, event]
}

#[test]
fn fields_keep_their_types() {
    let recorded = told(typed);
    let [span, event] = of_typed();
    assert_eq!(recorded.own_line().told(), [("typed", &span), ("WARN suite::bridge::fields", &event)]);
    let [span, event] = &recorded.own_line().events[..] else { panic!("{recorded:?}") };
    assert!(event.is_inside(span) && event.start_ps == event.end_ps);
    let line = |stats: &Stats| match &stats[..] {
        [(module, Stat::Text(path)), (source, Stat::Text(place))]
            if (module.as_str(), path.as_str(), source.as_str())
                == ("module_path", "suite::bridge::fields", "source") =>
        {
            let (file, line) = place.rsplit_once(':').expect("file and line");
            assert_eq!(file, file!());
            line.parse::<u32>().expect("a number")
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(line(&event.site) - line(&span.site), 14);
    assert_eq!(recorded.warnings, Vec::<String>::new());
}

#[test]
fn names_and_targets_are_the_programs() {
    let recorded = told(|| {
        tracing::event!(name: "my.event", Level::ERROR, x = 1);
        tracing::trace!(target: "another::target", "literal");
        tracing::info_span!(target: "third", "span").in_scope(|| tracing::debug!(r#type = "raw", a.b = 2_u8));
    });
    let told: Vec<(&str, Stats)> =
        recorded.own_line().events.iter().map(|event| (event.name.as_str(), event.stats.clone())).collect();
    assert_eq!(
        told,
        [
            ("my.event", stats([("x", 1.into())])),
            ("TRACE another::target", stats([("message", "literal".into())])),
            ("span", stats([])),
            ("DEBUG suite::bridge::fields", stats([("type", "raw".into()), ("a.b", 2.into())])),
        ]
    );
    let modules: Vec<&Stat> = recorded.own_line().events.iter().map(|event| &event.site[0].1).collect();
    assert_eq!(modules[1..3], [&"another::target".into(), &"third".into()]);
}

/// Prints itself endlessly, unless somebody stops it.
struct Endless;

impl fmt::Debug for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        loop {
            f.write_str("äö")?;
        }
    }
}

#[test]
fn what_prints_itself_is_cut_and_says_so() {
    let text = "t".repeat(100_000);
    let recorded = told(|| {
        tracing::info!(endless = ?Endless, text);
        let span = tracing::info_span!("span", endless = ?Endless, text, n = 1);
        // Recorded over and over, it is there once.
        for n in 0..1_000 {
            span.record("n", n);
            span.record("text", n.to_string());
        }
        span.in_scope(|| ());
    });
    let cut = format!("{}…", "äö".repeat(256));
    let both = |text: &str| stats([("endless", cut.as_str().into()), ("text", text.into())]);
    let [event, span] = &recorded.own_line().events[..] else { panic!("{recorded:?}") };
    assert_eq!(event.stats, both(&text));
    assert_eq!(span.stats, [both("999"), stats([("n", 999.into())])].concat());
}

#[test]
fn a_span_may_have_as_many_fields_as_tracing_allows() {
    let recorded = told(|| {
        tracing::info_span!(
            "many",
            a = 1,
            b = 2,
            c = 3,
            d = "4",
            e = 5,
            f = 6,
            g = "7",
            h = 8,
            i = 9,
            j = 10,
            k = 11,
            l = 12,
            m = 13,
            n = 14,
            o = 15,
            p = 16,
            q = 17,
            r = 18,
            s = 19,
            t = 20,
            u = 21,
            v = 22,
            w = 23,
            x = 24,
            y = 25,
            z = 26,
            aa = 27,
            ab = 28,
            ac = 29,
            ad = 30,
            ae = 31,
            af = "32"
        )
        .in_scope(|| ());
    });
    let [event] = &recorded.own_line().events[..] else { panic!("{recorded:?}") };
    let values = event.stats.iter().map(|(_, value)| match value {
        Stat::Int(value) => *value,
        Stat::Text(text) => text.parse().expect("a number"),
        other => panic!("{other:?}"),
    });
    assert_eq!(values.collect::<Vec<_>>(), (1..=32).collect::<Vec<_>>());
}
