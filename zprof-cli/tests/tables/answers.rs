//! What the commands answer: in text, JSON and CSV, one as the other.

use std::collections::BTreeMap;
use std::fs;

use prost::Message as _;
use serde_json::Value;
use zprof_proto::XSpace;

use super::profiles::{of_a_future, of_all_kinds, of_runs, spread, write};
use super::{csv, fixture, output, run, run_on};

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("is JSON")
}

#[test]
fn a_summary_reads_in_eighty_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = write(folder.path(), "p.xplane.pb", &of_runs(&[("load", 2_000), ("step", 500), ("step", 700)]));
    let expected = format!(
        "`{profile}`: 1 plane, 3 events

/host:CPU
1 line, 3 events, 3.20µs from first to last

line  events    busy    span
main       3  3.20µs  3.20µs

scope  count   total    self  share    mean     p50     p99     max
load       1  2.00µs  2.00µs  62.5%  2.00µs  2.00µs  2.00µs  2.00µs
step       2  1.20µs  1.20µs  37.5%   600ns   500ns   700ns   700ns
"
    );
    assert_eq!(output(&["summary", &profile]), expected);
    for arguments in [&["summary"][..], &["summary", "--steps"], &["check"]] {
        let text = output(&[arguments, &[&fixture("jax_cpu_mid.xplane.pb")]].concat());
        let tables = text.lines().filter(|line| !line.contains("xplane.pb"));
        let widest = tables.map(|line| line.chars().count()).max().expect("lines");
        assert!(arguments[0] == "check" || widest <= 80, "{widest}: {text}");
    }
}

#[test]
fn what_the_profiler_says_comes_before_the_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bytes = of_runs(&[("load", 2_000)]);
    let (errors, warnings) = (vec!["no device".to_owned()], vec!["thread `a\u{1b}` dropped 3 scopes".to_owned()]);
    // Messages that follow each other are one.
    bytes.extend(XSpace { errors, warnings, ..Default::default() }.encode_to_vec());
    let profile = write(folder.path(), "p.xplane.pb", &bytes);
    let expected = format!(
        "`{profile}`: 1 plane, 1 event
error: no device
warning: thread `a ` dropped 3 scopes

/host:CPU
"
    );
    let told = output(&["summary", &profile]);
    assert_eq!(told.split_inclusive('\n').take(5).collect::<String>(), expected);
    let document = json(&output(&["summary", "--json", &profile]));
    assert_eq!(document[0]["errors"], json(r#"["no device"]"#));
    assert_eq!(document[0]["warnings"], json(r#"["thread `a\u001b` dropped 3 scopes"]"#));
    let (_, checked, _) = run(&["check", &profile]);
    assert!(checked.contains("warning[reported]: the profiler warned: thread `a"), "{checked}");
}

#[test]
fn waiting_does_not_lead_the_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile =
        write(folder.path(), "p.xplane.pb", &of_a_future(&[("fetch", 500), ("parse", 3_000), ("fetch", 700)], 90_000));
    let expected = format!(
        "`{profile}`: 1 plane, 4 events

/host:CPU
2 lines, 4 events, 90.0µs from first to last

line   events    busy    span
main        3  4.20µs  4.20µs
async       1       -  90.0µs

scope  count   total    self  share    mean     p50     p99     max
parse      1  3.00µs  3.00µs  71.4%  3.00µs  3.00µs  3.00µs  3.00µs
fetch      2  1.20µs  1.20µs  28.6%   600ns   500ns   700ns   700ns

async  count   total  polled  waiting    mean     p99     max
fetch      1  90.0µs  1.20µs   88.8µs  90.0µs  90.0µs  90.0µs
"
    );
    assert_eq!(output(&["summary", &profile]), expected);
    let csv = output(&["summary", "--csv", "--async", &profile]);
    let head =
        "space,plane,async,count,total_ps,polls,polled_ps,waiting_ps,mean_ps,min_ps,p50_ps,p99_ps,max_ps,deviation_ps";
    let row = "/host:CPU,fetch,1,90000000,2,1200000,88800000,90000000,90000000,90000000,90000000,90000000,";
    assert_eq!(csv, format!("{head}\n{profile},{row}\n"));
    let told = json(&output(&["summary", "--json", &profile]));
    let expected = serde_json::json!([{
        "name": "fetch", "count": 1, "total_ps": 90_000_000, "polls": 2, "polled_ps": 1_200_000, "waiting_ps": 88_800_000,
        "mean_ps": 90_000_000.0, "min_ps": 90_000_000, "p50_ps": 90_000_000, "p99_ps": 90_000_000, "max_ps": 90_000_000,
        "deviation_ps": null,
    }]);
    assert_eq!(told[0]["planes"][0]["async"], expected);
    // A change of the waiting does not lead the table of the work either.
    let longer =
        write(folder.path(), "q.xplane.pb", &of_a_future(&[("fetch", 500), ("parse", 3_500), ("fetch", 700)], 190_000));
    let expected = "\
scope  runs           mean  change   total
parse     1  3.00µs→3.50µs  +16.7%  +500ns  too few
fetch     2          600ns   +0.0%       0  too few

async  runs          mean  change   total
fetch     1  90.0µs→190µs   +111%  +100µs  too few
";
    assert_eq!(output(&["diff", &profile, &longer]), expected);
    let rows = json(&output(&["diff", "--json", &profile, &profile]));
    let mut names: Vec<&str> =
        rows.as_array().expect("rows").iter().map(|row| row["scope"].as_str().expect("a name")).collect();
    names.sort_unstable();
    assert_eq!(names, ["fetch", "fetch (async)", "parse"]);
}

#[test]
fn what_has_no_time_is_no_zero_and_counters_have_their_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = write(folder.path(), "p.xplane.pb", &of_all_kinds());
    let head = format!("`{profile}`: 1 plane, 12 events\n\n");
    let expected = "\
/host:CPU
4 lines, 12 events, 9.00µs from first to last, 6 samples of counters

line         events    busy    span
worker (72)       2  9.00µs  9.00µs
worker (71)       2  3.00µs  3.00µs
lane #1           1       -       -
lane #2           1       -       -

scope          count   total    self  share    mean     p50     p99     max
wait for more      1  9.00µs  9.00µs  75.0%  9.00µs  9.00µs  9.00µs  9.00µs
load               2  3.00µs  3.00µs  25.0%  1.50µs   500ps  3.00µs  3.00µs
cache.evict        1       -       -      -       -       -       -       -
mark               2       -       -      -       -       -       -       -

counter            samples        min       mean        max       last
heap (bytes)             2  1,048,576  2,097,152  3,145,728  1,048,576
load (per second)        2      0.125      0.125      0.125      0.125
queue                    2          1        2.5          4          1
";
    assert_eq!(output(&["summary", &profile]), head.clone() + expected);

    // Without the waiting, shares are those of the work.
    let text = output(&["summary", "--exclude", "wait*,mark,queue", &profile]);
    let expected = "\
scope        count   total    self  share    mean    p50     p99     max
load             2  3.00µs  3.00µs   100%  1.50µs  500ps  3.00µs  3.00µs
cache.evict      1       -       -      -       -      -       -       -

counter            samples        min       mean        max       last
heap (bytes)             2  1,048,576  2,097,152  3,145,728  1,048,576
load (per second)        2      0.125      0.125      0.125      0.125
";
    assert_eq!(&text[text.find("scope").expect("a table")..], expected);
    let names = |rows: &[BTreeMap<String, String>]| rows.iter().map(|row| row["scope"].clone()).collect::<Vec<_>>();
    let rows = csv(&output(&["summary", "--csv", "--exclude", "wait", &profile]));
    assert_eq!(names(&rows), ["load", "cache.evict", "mark"]);
    assert_eq!(rows.iter().map(|row| row["share"].as_str()).collect::<Vec<_>>(), ["1", "0", "0"]);
    let rows = csv(&output(&["diff", "--csv", "--exclude", "wait,mark", &profile, &profile]));
    assert_eq!(names(&rows), ["cache.evict", "load"]);

    let told = json(&output(&["summary", "--json", &profile]));
    let expected = serde_json::json!([
        {"name": "heap", "unit": "bytes", "samples": 2, "min": 1_048_576.0, "mean": 2_097_152.0, "max": 3_145_728.0, "last": 1_048_576.0},
        {"name": "load", "unit": "per second", "samples": 2, "min": 0.125, "mean": 0.125, "max": 0.125, "last": 0.125},
        {"name": "queue", "unit": "value", "samples": 2, "min": 1.0, "mean": 2.5, "max": 4.0, "last": 1.0},
    ]);
    assert_eq!(told[0]["planes"][0]["counters"], expected);
    assert_eq!(told[0]["planes"][0]["scopes"][0]["share"], 9_000_000.0 / 12_000_500.0);
    let lines = output(&["summary", "--csv", "--counters", &profile]).replace(&profile, "p");
    let expected = "space,plane,counter,unit,samples,min,mean,max,last
p,/host:CPU,heap,bytes,2,1048576,2097152,3145728,1048576
p,/host:CPU,load,per second,2,0.125,0.125,0.125,0.125
p,/host:CPU,queue,value,2,1,2.5,4,1
";
    assert_eq!(lines, expected);

    let expected = "\
scope          runs    mean  change  total
cache.evict       1       -       -      -  too few
load              2  1.50µs   +0.0%      0  too few
mark              2       -       -      -  too few
wait for more     1  9.00µs   +0.0%      0  too few
";
    assert_eq!(output(&["diff", &profile, &profile]), expected);
}

#[test]
fn a_diff_of_recorded_profiles_reads_in_eighty_columns() {
    let text = output(&["diff", &fixture("jax_cpu_small.xplane.pb"), &fixture("jax_cpu_mid.xplane.pb")]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("too few"), "{text}");
}

#[test]
fn csv_and_json_tell_the_same() {
    let profile = fixture("jax_cpu_mid.xplane.pb");
    let document = json(&output(&["summary", "--json", &profile]));
    let plane = document[0]["planes"].as_array().expect("planes").iter().find(|plane| plane["name"] == "/host:CPU");
    let scopes = plane.expect("the host")["scopes"].as_array().expect("scopes").clone();
    let rows = csv(&output(&["summary", "--csv", &profile]));
    assert_eq!((scopes.len(), rows.len()), (47, 47));
    for (scope, row) in scopes.iter().zip(&rows) {
        assert_eq!(scope["name"].as_str(), Some(row["scope"].as_str()));
        for key in ["count", "total_ps", "self_ps", "min_ps", "p50_ps", "p99_ps", "max_ps"] {
            assert_eq!(scope[key].to_string(), row[key], "{key} of {scope}");
        }
    }
    let steps = csv(&output(&["summary", "--csv", "--steps", &profile]));
    let numbers: Vec<i64> = steps.iter().map(|step| step["number"].parse().expect("a number")).collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
    assert!(steps.iter().all(|step| step["steps"] == "train"), "{:?}", steps[0]);
    // The function that a step calls is most of it, but where JAX had to compile.
    let in_fwd = steps.iter().filter(|step| step["largest"] == "fwd").count();
    assert!(in_fwd > 290, "{in_fwd}");
}

#[test]
fn rows_are_sorted_and_cut_as_asked() {
    let profile = fixture("jax_cpu_small.xplane.pb");
    for (sort, column) in [
        ("total", "total_ps"),
        ("self", "self_ps"),
        ("count", "count"),
        ("mean", "mean_ps"),
        ("p99", "p99_ps"),
        ("max", "max_ps"),
    ] {
        let rows = csv(&output(&["summary", "--csv", "--sort", sort, &profile]));
        let values: Vec<f64> = rows.iter().map(|row| row[column].parse().expect("a number")).collect();
        assert!(values.len() > 40 && values.is_sorted_by(|left, right| left >= right), "{sort}: {values:?}");
    }
    let rows = csv(&output(&["summary", "--csv", "--sort", "name", "--top", "3", &profile]));
    let names: Vec<&str> = rows.iter().map(|row| row["scope"].as_str()).collect();
    assert!(names.len() == 3 && names.is_sorted(), "{names:?}");
    let text = output(&["summary", "--top", "3", &profile]);
    assert!(text.contains("44 more scopes; --top 0 shows all"), "{text}");
    assert!(!output(&["summary", "--top", "0", &profile]).contains("more"));
    assert_eq!(output(&["summary", "--planes", "*meta*", "--csv", &profile]).lines().count(), 1);
}

#[test]
fn a_diff_says_how_sure_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = |parts: &[(&'static str, i64, i64)]| {
        of_runs(&parts.iter().flat_map(|(name, mean, count)| spread(name, *mean, *count)).collect::<Vec<_>>())
    };
    let before =
        runs(&[("worse", 1_000, 50), ("better", 5_000, 50), ("same", 300, 50), ("rare", 9_000, 4), ("old", 100, 20)]);
    let after =
        runs(&[("worse", 1_500, 60), ("better", 4_000, 50), ("same", 300, 50), ("rare", 9_500, 4), ("added", 100, 20)]);
    let (before, after) = (write(folder.path(), "a.pb", &before), write(folder.path(), "b.pb", &after));
    let document = json(&output(&["diff", "--json", &before, &after]));
    let rows = document.as_array().expect("rows");
    let told: BTreeMap<&str, &str> = rows
        .iter()
        .map(|row| (row["scope"].as_str().expect("a name"), row["verdict"].as_str().expect("a verdict")))
        .collect();
    let expected = [
        ("added", "new"),
        ("better", "faster"),
        ("old", "gone"),
        ("rare", "too-few"),
        ("same", "unsure"),
        ("worse", "slower"),
    ];
    assert_eq!(told, expected.into_iter().collect());
    let changes: Vec<f64> = rows.iter().map(|row| row["total_change_ps"].as_f64().expect("a number").abs()).collect();
    assert!(changes.is_sorted_by(|left, right| left >= right), "{changes:?}");
    let worse = rows.iter().find(|row| row["scope"] == "worse").expect("is there");
    assert!((worse["mean_change"].as_f64().expect("a share") - 0.5).abs() < 1e-9, "{worse}");
    // Both sides vary by a fourteenth: the margin is 2.63 · √(71.4²/50 + 107²/60) / 1000 in 102 degrees of freedom.
    let margin = worse["margin"].as_f64().expect("a share");
    assert!((0.040..0.050).contains(&margin), "{worse}");

    let text = output(&["diff", &before, &after]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let row = text.lines().find(|line| line.starts_with("worse")).expect("is there");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        [cells[1], cells[2], cells[3], cells[5], cells[6]],
        ["50→60", "1.00µs→1.50µs", "+50.0%", "+40.0µs", "slower"]
    );
    assert_eq!(csv(&output(&["diff", "--csv", &before, &after])).len(), 6);

    assert_eq!(run(&["diff", "--fail-on-regression", "40", &before, &after]).0, 1);
    assert_eq!(run(&["diff", "--fail-on-regression", "60", &before, &after]).0, 0);
    let same = json(&output(&["diff", "--json", &before, &before]));
    assert!(same.as_array().expect("rows").iter().all(|row| row["total_change_ps"] == 0.0));
}

#[test]
fn stacks_and_picture_add_up_to_the_summary() {
    let profile = fixture("jax_cpu_mid.xplane.pb");
    let rows = csv(&output(&["summary", "--csv", &profile]));
    let own: u128 = rows.iter().map(|row| row["self_ps"].parse::<u128>().expect("a number")).sum();
    for arguments in [&["flame", "--folded"][..], &["flame", "--folded", "--by-thread"]] {
        let folded = output(&[arguments, &[&profile]].concat());
        let units =
            folded.lines().map(|line| line.rsplit_once(' ').expect("a number").1.parse::<u128>().expect("a number"));
        let (sum, lines) = (units.sum::<u128>(), folded.lines().count() as u128);
        assert!((sum * 1_000).abs_diff(own) <= lines * 500, "{sum} ns for {own} ps");
    }
    let by_thread = output(&["flame", "--folded", "--by-thread", &profile]);
    assert!(by_thread.lines().all(|line| line.starts_with("python;") || line.starts_with("tf_XLAPjRtCpuClient/")));

    let folder = tempfile::tempdir().expect("a folder");
    let svg_path = folder.path().join("flame.svg");
    assert_eq!(output(&["flame", &profile, "-o", svg_path.to_str().expect("is UTF-8")]), "");
    let svg = fs::read_to_string(&svg_path).expect("is there");
    assert_eq!(fs::read_dir(folder.path()).expect("is there").count(), 1, "nothing else is left");
    let folded = output(&["flame", "--folded", &profile]);
    let sum: u64 =
        folded.lines().map(|line| line.rsplit_once(' ').expect("a number").1.parse::<u64>().expect("a number")).sum();
    let with_commas = |number: u64| {
        let digits = number.to_string();
        let groups: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits")).collect();
        groups.join(",")
    };
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains(&format!("<title>all ({} ns, 100%)</title>", with_commas(sum))), "{}", &svg[..3_000]);
    assert!(svg.contains("<title>fwd ("));
}

#[test]
fn a_check_says_it_with_its_exit_code() {
    let profile = fixture("jax_cpu_small.xplane.pb");
    let (code, text, _) = run(&["check", &profile]);
    assert_eq!(code, 0);
    let last = "sound: 0 errors, 21 warnings in 903 events on 3 lines of 3 planes\n";
    assert!(text.ends_with(last), "{text}");
    assert!(text.contains("warning[overlap]: 15 more like this"), "{text}");
    assert_eq!(run(&["check", "--strict", &profile]).0, 1);
    let raw = fixture("raw_host_planes.xplane.pb");
    assert_eq!(run(&["check", &raw]).0, 1);
    let (code, text, _) = run(&["check", "--json", "--max-per-kind", "1", &raw]);
    let document = json(&text);
    assert_eq!((code, &document[0]["sound"], &document[0]["errors"]), (1, &false.into(), &11.into()));
    let first = &document[0]["findings"][0];
    assert_eq!(
        [&first["kind"], &first["severity"], &first["plane"], &first["line"]],
        ["time-overflow", "error", "/host:CPU", "worker"]
    );
    assert_eq!([&first["event"], &first["at"]], [&Value::from(0), &Value::from(38)]);
}

#[test]
fn standard_input_and_folders_are_profiles_too() {
    let small = fs::read(fixture("jax_cpu_small.xplane.pb")).expect("is there");
    let (code, text, _) = run_on(&small, &["summary", "--csv", "-"]);
    let named = output(&["summary", "--csv", &fixture("jax_cpu_small.xplane.pb")]);
    assert_eq!(code, 0);
    let without_space =
        |text: &str| text.lines().map(|line| line.split_once(',').map(|(_, rest)| rest.to_owned())).collect::<Vec<_>>();
    assert_eq!(without_space(&text), without_space(&named));

    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "one.xplane.pb", &of_runs(&[("a", 100)]));
    write(folder.path(), "two.xplane.pb", &of_runs(&[("a", 300)]));
    let path = folder.path().to_str().expect("is UTF-8");
    let totals: Vec<String> =
        csv(&output(&["summary", "--csv", path])).iter().map(|row| row["total_ps"].clone()).collect();
    assert_eq!(totals, ["100000", "300000"]);
    assert_eq!(output(&["flame", "--folded", path]), "one;a 100\ntwo;a 300\n");
    let rows = json(&output(&["diff", "--json", path, path]));
    let hosts: Vec<&str> =
        rows.as_array().expect("rows").iter().map(|row| row["host"].as_str().expect("a host")).collect();
    assert_eq!(hosts.len(), 2, "{rows}");
}
