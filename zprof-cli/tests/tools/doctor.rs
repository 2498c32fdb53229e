//! What `zprof doctor` says with stand-ins for tools, and of plugins that are none.

use std::fs;

use crate::stand_in::{Bench, err, out};

fn checks(text: &str) -> Vec<serde_json::Value> {
    let value: serde_json::Value = serde_json::from_str(text).expect("it is JSON");
    value["checks"].as_array().expect("a list").clone()
}

fn named<'a>(checks: &'a [serde_json::Value], name: &str) -> &'a serde_json::Value {
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no check of {name}"))
}

fn text_of<'a>(check: &'a serde_json::Value, key: &str) -> &'a str {
    check[key].as_str().expect("a text")
}

fn name(check: &serde_json::Value) -> &str {
    text_of(check, "name")
}

#[test]
fn stand_ins_are_found_with_their_versions_and_the_rest_has_cures() {
    let bench = Bench::new();
    bench.script("bin/nsys", "echo NVIDIA Nsight Systems version 2099.1\n");
    let output = bench.run(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let checks = checks(&out(&output));
    let nsys = named(&checks, "nsys");
    assert_eq!(nsys["works"], true);
    let detail = format!("NVIDIA Nsight Systems version 2099.1, at {}", bench.path("bin/nsys"));
    assert_eq!(nsys["detail"], detail);
    for check in &checks {
        let has = |key: &str| check[key].is_string();
        // What does not work has a cure, or is of no use here.
        assert!(if check["works"] == true { !has("cure") } else { has("cure") != has("note") }, "{check}");
    }
    assert_eq!(named(&checks, "xctrace")["note"].is_string(), !cfg!(target_os = "macos"));
    assert!(named(&checks, "nvtx")["works"] == true || named(&checks, "nvtx")["note"].is_string());
    for name in ["rocprofv3", "neuron-explorer", "xctrace", "xprof"] {
        assert_eq!(named(&checks, name)["works"], false);
    }
    for name in ["enable", "pjrt", "profiles"] {
        assert_eq!(named(&checks, name)["works"], true);
    }
    assert_eq!(bench.run(&["doctor", "--strict"]).status.code(), Some(1), "not all is here");
    let text = out(&bench.run(&["doctor"]));
    assert!(text.contains(&format!("  yes  nsys: {detail}\n")), "{text}");
    let all = out(&bench.run(&["doctor", "--all"]));
    for check in &checks {
        let line = format!(
            "  {}  {}: {}\n",
            if check["works"] == true { "yes" } else { "no " },
            name(check),
            text_of(check, "detail")
        );
        assert!(all.contains(&line), "{line}{all}");
        // People see what they have use for, and at the end the names of the rest.
        assert_eq!(text.contains(&line), check["note"].is_null(), "{check}\n{text}");
        let last = text.lines().last().expect("a line");
        let is_left_out = last.starts_with("of no use here, and left out: ") && last.contains(name(check));
        assert!(check["note"].is_null() || is_left_out, "{check}\n{last}");
    }
    for name in ["rocprofv3", "neuron-explorer", "xprof"] {
        bench.script(&format!("bin/{name}"), "echo 1\n");
    }
    let strict = bench.run(&["doctor", "--strict", "--json"]);
    let left = self::checks(&out(&strict)).iter().any(|check| check["cure"].is_string());
    assert_eq!(strict.status.code(), Some(i32::from(left)), "only what has a cure counts");
}

#[test]
fn a_plugin_that_cannot_be_loaded_harms_nobody() {
    let bench = Bench::new();
    let path = bench.path("broken_pjrt.so");
    fs::write(&path, "no library").expect("the folder is ours");
    let output =
        bench.zprof(&["doctor", "--json"]).env("PJRT_PLUGIN_LIBRARY_PATH", &path).output().expect("zprof runs");
    let checks = checks(&out(&output));
    // Nobody needs what only tools need: none is here.
    let has_tools = ["nsys", "rocprofv3", "neuron-explorer"].iter().any(|tool| named(&checks, tool)["note"].is_null());
    for check in checks.iter().filter(|check| ["perf_event_paranoid", "ptrace_scope"].contains(&name(check))) {
        assert_eq!(check["note"].is_null(), has_tools, "{check}");
    }
    let plugin = named(&checks, &path);
    assert_eq!(plugin["works"], false);
    let detail = plugin["detail"].as_str().expect("a text");
    assert!(detail.starts_with(&format!("cannot be used: failed to load PJRT plugin `{path}`")), "{detail}");
    assert!(detail.ends_with("; found by `PJRT_PLUGIN_LIBRARY_PATH`"), "{detail}");
}
