//! Perfetto's own format: what the exporter makes, packed, small, and nothing of it lost.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;

use flate2::read::ZlibDecoder;
use serde_json::Value;
use zprof_runtime::export::{PerfettoOptions, write_perfetto};

use super::space::{bytes, event_metadata, int, message, stat_metadata};
use super::{arguments, convert, convert_input, fixture, read, run};

/// The plain trace that a packed one holds.
fn unpacked(mut packed: &[u8]) -> Vec<u8> {
    fn varint(bytes: &mut &[u8]) -> usize {
        let len = bytes.iter().position(|byte| *byte < 0x80).expect("ends") + 1;
        let (head, rest) = bytes.split_at(len);
        *bytes = rest;
        head.iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f))
    }
    let mut trace = Vec::new();
    while !packed.is_empty() {
        assert_eq!(varint(&mut packed), 1 << 3 | 2, "a packet");
        let len = varint(&mut packed);
        let (mut packet, rest) = packed.split_at(len);
        packed = rest;
        assert_eq!(varint(&mut packet), 50 << 3 | 2, "compressed packets");
        assert_eq!(varint(&mut packet), packet.len(), "and nothing else");
        ZlibDecoder::new(packet).read_to_end(&mut trace).expect("is zlib");
    }
    trace
}

/// The exporter's trace.
fn exported(profile: &Path) -> Vec<u8> {
    let mut trace = Vec::new();
    let file = File::open(profile).expect("is there");
    write_perfetto(&file, &mut trace, &PerfettoOptions::default()).expect("is an XSpace");
    trace
}

#[test]
fn perfetto_s_own_format_is_the_exporter_s_packed() {
    let (folder, profile) = run();
    let expected = exported(&profile);
    for name in ["a.pftrace", "a.perfetto-trace"] {
        let out = folder.path().join(name);
        convert(arguments([&profile, &"-o", &out])).quiet("");
        assert!(unpacked(&read(&out)) == expected, "{name}");
    }
    let piped = convert(arguments([&profile, &"-o", &"-", &"--format", &"pftrace"])).quiet("");
    assert!(unpacked(&piped) == expected);
    assert!(convert(arguments([&profile, &"--format", &"pftrace"])).error.ends_with("vm.pftrace`\n"));
    // Options reach it.
    let few = convert(arguments([&profile, &"-o", &"-", &"--format", &"pftrace", &"--max-events", &"3"]));
    let few = unpacked(&few.quiet("zprof: left out 900 events after the first 3 (--max-events)\n"));
    assert!(few.len() < expected.len() / 2);
}

#[test]
fn planes_and_events_left_out_are_counted() {
    let line = |events: usize| message(3, &[message(4, &[int(1, 1), int(2, 5), int(3, 1_000)]).repeat(events)]);
    let plane = |name: &str, fields: &[Vec<u8>]| message(1, &[bytes(2, name), fields.concat()]);
    let planes = [
        plane("/host:CPU", &[line(3)]),
        plane("/device:GPU:0", &[]),
        plane("/custom:mine", &[line(4), line(5)]),
        plane("no lines, no process", &[]),
        plane("kept", &[line(2)]),
    ];
    let format = ["-", "--format", "pftrace", "--planes"];
    let kept = convert_input(planes.concat(), &[&format[..], &["kept"]].concat());
    let alone = convert_input(planes[4].clone(), &[&format[..], &["kept"]].concat()).quiet("");
    assert!(kept.quiet("zprof: left out 3 planes and 12 events, as asked for\n") == alone);
}

/// A host that decodes with a model of 24 layers: names, nesting and arguments as such a program marks them.
fn model() -> Vec<u8> {
    const STEPS: i64 = 150;
    const LAYERS: i64 = 24;
    let mut noise = 1_u32;
    let mut lasts = |about: i64| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        about + about * i64::from(noise >> 16) / 400_000
    };
    let mut events = Vec::new();
    let mut time = 1_000_000;
    let event = |kind: i64, start: i64, end: i64, stats: &[Vec<u8>]| {
        message(4, &[int(1, kind), int(2, start), int(3, end - start), stats.concat()])
    };
    let stat = |key: i64, value: i64| message(4, &[int(1, key), int(4, value)]);
    for step in 0..STEPS {
        let begin = time;
        let mut layers = Vec::new();
        for layer in 0..LAYERS {
            let layer_begin = time + lasts(800_000);
            let attention = (layer_begin + lasts(500_000), layer_begin + lasts(90_000_000));
            let mlp = (attention.1 + lasts(700_000), attention.1 + lasts(60_000_000));
            time = mlp.1 + lasts(300_000);
            layers.push(event(2, layer_begin, time, &[stat(2, layer)]));
            layers.push(event(3, attention.0, attention.1, &[stat(2, layer), stat(3, 128 + step)]));
            layers.push(event(4, mlp.0, mlp.1, &[stat(2, layer)]));
        }
        time += lasts(2_000_000);
        let text = message(4, &[int(1, 4), bytes(5, format!("token {}", step * 7_919 % 32_000))]);
        events.push(event(1, begin, time, &[stat(1, step), text]));
        events.extend(layers);
        time += lasts(5_000_000);
    }
    let names = ["llm.step", "llm.layer", "llm.attention", "llm.mlp"];
    let names = (1..).zip(names).map(|(id, name)| event_metadata(id, &[bytes(2, name)]));
    let keys = (1..).zip(["step", "layer", "seqlen", "token"]).map(|(id, name)| stat_metadata(id, name));
    let line = message(3, &[int(1, 4_711), bytes(2, "main"), events.concat()]);
    let names: Vec<u8> = names.chain(keys).flatten().collect();
    message(1, &[bytes(2, "/host:CPU"), line, names])
}

#[test]
fn a_trace_is_at_most_a_fifth_of_the_json_and_holds_all_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let llm = folder.path().join("llm.xplane.pb");
    fs::write(&llm, model()).expect("is written");
    for profile in [fixture("jax_cpu_mid.xplane.pb"), fixture("jax_cpu_small.xplane.pb"), llm] {
        let [trace, json] = ["x.pftrace", "x.json"].map(|name| folder.path().join(name));
        for out in [&trace, &json] {
            convert(arguments([&profile, &"-o", out])).quiet("");
        }
        let sizes = [&trace, &json].map(|path| path.metadata().expect("is there").len());
        assert!(sizes[0] * 5 <= sizes[1], "{}: {sizes:?}", profile.display());
        assert!(unpacked(&read(&trace)) == exported(&profile), "{}", profile.display());

        // Perfetto's own protos read all of the JSON from it.
        let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/perfetto-check");
        let done = Command::new(check).arg(format!("{}:{}", trace.display(), json.display())).output();
        let done = done.expect("python3 starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let report: Value = serde_json::from_slice(&done.stdout).expect("is JSON");
        assert!(report["packed"].as_u64().is_some_and(|packed| packed > 0), "{}", report["packed"]);
    }
}
