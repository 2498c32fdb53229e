//! Every type that metadata may have comes back from the profile exactly, typed as its Rust type says.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use zprof_tests::profile::{Event, Stat, Stats, recorded, stats};

/// Records one scope per value; gives what the profile has for the key `v` of each.
macro_rules! recorded_values {
    ($($value:expr),* $(,)?) => {{
        let recorded = recorded(|| {
            $({ zprof::scope!("value", v = $value); })*
        });
        assert_eq!(recorded.warnings, Vec::<String>::new());
        recorded.own_line().events.iter().map(only).collect::<Vec<Stat>>()
    }};
}

fn only(event: &Event) -> Stat {
    match event.stats.as_slice() {
        [(name, value)] if name == "v" => value.clone(),
        other => panic!("not one `v`: {other:?}"),
    }
}

fn text(text: impl Into<String>) -> Stat {
    Stat::Text(text.into())
}

#[derive(Clone, Copy, zprof::Value)]
enum Mode {
    Greedy,
    #[allow(non_camel_case_types)]
    r#Beam_4,
}

#[test]
fn integers_and_bools() {
    let (signed, unsigned) = (i64::MIN, u64::MAX);
    let values = recorded_values![
        true,
        false,
        i8::MIN,
        i16::MIN,
        i32::MIN,
        i64::MIN,
        isize::MIN,
        i8::MAX,
        i64::MAX,
        -1_i8,
        0_u8,
        u8::MAX,
        u16::MAX,
        u32::MAX,
        i64::MAX as u64,
        i64::MAX as u64 + 1,
        u64::MAX,
        usize::MAX,
        &signed,
        &&unsigned,
        &mut 3_i32,
    ];
    let int = Stat::Int;
    let expected = [
        int(1),
        int(0),
        int(i8::MIN.into()),
        int(i16::MIN.into()),
        int(i32::MIN.into()),
        int(i64::MIN),
        int(i64::MIN),
        int(i8::MAX.into()),
        int(i64::MAX),
        int(-1),
        int(0),
        int(u8::MAX.into()),
        int(u16::MAX.into()),
        int(u32::MAX.into()),
        int(i64::MAX),
        Stat::Uint(1 << 63),
        Stat::Uint(u64::MAX),
        Stat::Uint(u64::MAX),
        int(i64::MIN),
        Stat::Uint(u64::MAX),
        int(3),
    ];
    assert_eq!(values, expected);
}

#[test]
fn floats_to_the_bit() {
    let quiet = f64::from_bits(0xfff8_0000_0000_1234);
    let values = recorded_values![
        0.0,
        -0.0,
        0.1,
        0.1_f32,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        quiet,
        f32::INFINITY,
        f32::MAX,
    ];
    let expected = [
        0.0,
        -0.0,
        0.1,
        f64::from(0.1_f32),
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        quiet,
        f64::INFINITY,
        f64::from(f32::MAX),
    ];
    assert_eq!(values, expected.map(Stat::Double));
}

#[test]
fn all_that_holds_text() {
    let owned = "owned".to_owned();
    let values = recorded_values![
        "literal",
        owned,
        &owned,
        Box::<str>::from("boxed"),
        Rc::<str>::from("counted"),
        Arc::<str>::from("shared"),
        Cow::Borrowed("borrowed"),
        Cow::<str>::Owned("cow".into()),
        'c',
        '\0',
        'ü',
        '🦀',
        Mode::Greedy,
        &Mode::r#Beam_4,
        "007",
        "1e3",
        String::from("a,b=c(\"#'"),
        "  spaces  ",
        "two\nlines\r\n",
        "nul\0inside\0",
        "Grüße, 世界 🦀",
        "v",
    ];
    let expected = [
        "literal",
        "owned",
        "owned",
        "boxed",
        "counted",
        "shared",
        "borrowed",
        "cow",
        "c",
        "\0",
        "ü",
        "🦀",
        "Greedy",
        "Beam_4",
        "007",
        "1e3",
        "a,b=c(\"#'",
        "  spaces  ",
        "two\nlines\r\n",
        "nul\0inside\0",
        "Grüße, 世界 🦀",
        "v",
    ];
    assert_eq!(values, expected.map(text));
}

#[test]
fn values_of_the_standard_library() {
    use std::ffi::OsStr;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::num::NonZero;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    let path = PathBuf::from("weights/ü.bin");
    let values = recorded_values![
        Duration::from_millis(1500),
        Duration::MAX,
        NonZero::new(7_u8),
        NonZero::new(-7_i64),
        NonZero::new(1_u128 << 64),
        u128::MAX,
        i128::MIN,
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        Ipv6Addr::from([0xabcd; 8]),
        SocketAddr::from(([127, 0, 0, 1], 8080)),
        path,
        Path::new(""),
        Cow::Borrowed(Path::new("a")),
        OsStr::new("os"),
        Box::new(3_u8),
        Rc::new(2.5),
        Arc::new(String::from("shared")),
        Cow::Borrowed(&4_u32),
        Some(Arc::<Path>::from(Path::new("b"))),
    ];
    let expected = [
        Stat::Double(1.5),
        Stat::Double(Duration::MAX.as_secs_f64()),
        Stat::Int(7),
        Stat::Int(-7),
        text("18446744073709551616"),
        text("340282366920938463463374607431768211455"),
        text("-170141183460469231731687303715884105728"),
        text("127.0.0.1"),
        text("abcd:abcd:abcd:abcd:abcd:abcd:abcd:abcd"),
        text("127.0.0.1:8080"),
        text("weights/ü.bin"),
        text(""),
        text("a"),
        text("os"),
        Stat::Int(3),
        Stat::Double(2.5),
        text("shared"),
        Stat::Int(4),
        text("b"),
    ];
    assert_eq!(values, expected);
}

/// Prints itself, and records a scope of its own with text while it does.
struct Recording;

impl std::fmt::Display for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = 5;
        zprof::scope!("printed", %inner);
        f.write_str("itself")
    }
}

#[zprof::trace(%n, debug = ?text)]
fn with_text(n: u32, text: &str) -> u32 {
    n
}

#[test]
fn values_that_print_themselves() {
    let long = "ü".repeat(600);
    let recorded = recorded(|| {
        let pair = (1, "a");
        zprof::scope!("both", ?pair, a = %pair.1, b = ?pair.1, c = %format_args!("{}-{}", pair.0, 2));
        zprof::scope!("long", %long);
        zprof::scope!("nested", a = %Recording, b = %Recording);
        zprof::instant!("instant", ?pair);
        assert_eq!(with_text(3, "x"), 3);
    });
    let cut = format!("{}…", "ü".repeat(512));
    let printed = stats([("inner", "5".into())]);
    let expected = [
        (
            "both",
            &stats([("pair", "(1, \"a\")".into()), ("a", "a".into()), ("b", "\"a\"".into()), ("c", "1-2".into())]),
        ),
        ("long", &stats([("long", cut.as_str().into())])),
        ("printed", &printed),
        ("printed", &printed),
        ("nested", &stats([("a", "itself".into()), ("b", "itself".into())])),
        ("instant", &stats([("pair", "(1, \"a\")".into())])),
        ("with_text", &stats([("n", "3".into()), ("debug", "\"x\"".into())])),
    ];
    assert_eq!(recorded.own_line().told(), expected);
}

#[test]
fn values_are_not_printed_while_nothing_records() {
    struct Never;
    impl std::fmt::Debug for Never {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("nothing records");
        }
    }
    zprof::scope!("silent", value = ?Never);
    zprof::instant!("silent", value = ?Never);
}

#[test]
fn text_of_every_length_around_a_word_and_of_more_than_a_chunk() {
    let alphabet: String = ('a'..='z').collect();
    let mut texts: Vec<String> = (0..=17).map(|len| alphabet[..len].to_owned()).collect();
    texts.extend((0..=5).map(|len| "🦀".repeat(len)));
    // Around a small chunk, a large one, and what fits neither.
    for len in [4000, 4096, 64 << 10, (64 << 10) + 1, 1 << 20] {
        texts.push(alphabet.chars().cycle().take(len).collect());
    }
    let recorded = recorded(|| {
        for (index, v) in texts.iter().enumerate() {
            zprof::scope!("text", before = index, v, after = index);
        }
    });
    let with = |(index, text): (usize, &String)| {
        let index = Stat::Int(i64::try_from(index).expect("a small number"));
        stats([("before", index.clone()), ("v", Stat::Text(text.clone())), ("after", index)])
    };
    let expected: Vec<Stats> = texts.iter().enumerate().map(with).collect();
    let found: Vec<&Stats> = recorded.own_line().events.iter().map(|event| &event.stats).collect();
    assert!(found.iter().copied().eq(&expected), "texts of other lengths, or other texts");
    assert_eq!(recorded.profile.dropped_scopes, 0);
}

#[test]
fn what_is_none_is_left_out() {
    let name = Some("n".to_owned());
    let recorded = recorded(|| {
        zprof::scope!("some", a = Some(1_u8), b = name.as_deref(), c = Some(Some(2.5)), d = &name, e = Some(true));
        zprof::scope!("none", a = None::<u8>, b = None::<&str>, c = Some(None::<f64>), d = &None::<String>, e = 7);
    });
    let line = recorded.own_line();
    let some = stats([("a", 1.into()), ("b", "n".into()), ("c", 2.5.into()), ("d", "n".into()), ("e", 1.into())]);
    assert_eq!(line.told(), [("some", &some), ("none", &stats([("e", 7.into())]))]);
}

#[test]
fn sixteen_values_keep_their_order() {
    let recorded = recorded(|| {
        zprof::scope!(
            "many",
            a = 0,
            b = "1",
            c = 2.0,
            d = true,
            e = 'x',
            f = Some(5),
            g = None::<i32>,
            h = Mode::Greedy,
            i = 8,
            j = 9,
            k = "ten and more",
            l = 11,
            m = "",
            n = 13_u8,
            o = -14,
            p = u64::MAX
        );
    });
    let expected = stats([
        ("a", 0.into()),
        ("b", "1".into()),
        ("c", 2.0.into()),
        ("d", 1.into()),
        ("e", "x".into()),
        ("f", 5.into()),
        ("h", "Greedy".into()),
        ("i", 8.into()),
        ("j", 9.into()),
        ("k", "ten and more".into()),
        ("l", 11.into()),
        ("m", "".into()),
        ("n", 13.into()),
        ("o", (-14).into()),
        ("p", Stat::Uint(u64::MAX)),
    ]);
    assert_eq!(recorded.own_line().event("many").stats, expected);
}

#[test]
fn the_root_marker_is_one_or_absent() {
    let recorded = recorded(|| {
        for root in [true, false] {
            zprof::scope!("dynamic", root = root, step_num = 1);
        }
        zprof::scope!("always", root = true);
        zprof::scope!("never", root = false);
        zprof::scope!("key", r#root = 3, r#level = 4);
    });
    let expected = [
        ("dynamic", &stats([("step_num", 1.into()), ("_r", 1.into())])),
        ("dynamic", &stats([("step_num", 1.into())])),
        ("always", &stats([("_r", 1.into())])),
        ("never", &stats([])),
        ("key", &stats([("root", 3.into()), ("level", 4.into())])),
    ];
    assert_eq!(recorded.own_line().told(), expected);
}

#[test]
fn values_recorded_on_an_open_span() {
    let big = "x".repeat(1 << 20);
    let recorded = recorded(|| {
        let mut outer = zprof::span!("outer", first = 1);
        let mut inner = zprof::span!("inner");
        outer.record("late", "o");
        inner.record("n", 2);
        inner.record("none", None::<u8>);
        inner.record("n", -2.5);
        inner.record("mode", Mode::Greedy);
        inner.end();
        // More than the chunk of the span's begin holds, so that the notes below stand in other chunks.
        for i in 0..2000_u32 {
            zprof::scope!("filler", i);
        }
        outer.record("big", big.as_str());
        outer.record("last", true);
        drop(outer);
    });
    let line = recorded.own_line();
    let outer =
        stats([("first", 1.into()), ("late", "o".into()), ("big", Stat::Text(big.clone())), ("last", 1.into())]);
    let inner = stats([("n", 2.into()), ("n", (-2.5).into()), ("mode", "Greedy".into())]);
    assert!(line.event("outer").stats == outer, "the notes of the outer span");
    assert_eq!(line.event("inner").stats, inner);
    let filler: Vec<Stats> = (0..2000).map(|i| stats([("i", Stat::Int(i))])).collect();
    assert!(line.events[2..].iter().map(|event| &event.stats).eq(&filler), "the scopes between");
}

#[test]
fn the_site_is_metadata_of_the_kind_of_event() {
    let first = line!() + 2;
    let recorded = recorded(|| {
        zprof::scope!("same", n = 1);
        zprof::scope!("same", n = 2);
        inner::traced(3);
    });
    let site = |path: &str, line: u32| {
        let source = format!("{}:{line}", file!());
        stats([("module_path", path.into()), ("source", Stat::Text(source))])
    };
    let found: Vec<_> = recorded.own_line().events.iter().map(|event| (event.name.as_str(), &event.site)).collect();
    let (here, there) = (module_path!(), concat!(module_path!(), "::inner"));
    let expected =
        [("same", &site(here, first)), ("same", &site(here, first + 1)), ("traced", &site(there, inner::LINE))];
    assert_eq!(found, expected);
}

mod inner {
    pub(super) const LINE: u32 = line!() + 2;

    #[zprof::trace(n)]
    pub(super) fn traced(n: u32) -> u32 {
        n
    }
}
