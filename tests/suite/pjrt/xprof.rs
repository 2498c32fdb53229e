//! The real XProf opens the profile of a session with a plugin: rows of host and device, steps over both, and arrows.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use zprof::{Linkage, Platform, ProfilerOptions};
use zprof_tests::fake::{Fake, library, spin};
use zprof_tests::profile::exclusive;

const STEPS: usize = 4;
const DEVICE: &str = "profiling /device:GPU:0";
const HOST: &str = "profiling /host:CPU";
/// How far the plugin's clock may be from ours, in µs.
const CLOCKS: f64 = 1.0;

/// What `scripts/xprof-check` says of a session with some steps, each of which calls the fake and launches a kernel.
fn shown() -> Value {
    let fake = Fake::new("space=gpu+metadata+host");
    let platform = Platform::load(library()).expect("the fake is a plugin");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = ProfilerOptions::default().repository_path(folder.path());
    let mut profiler = platform.profiler(options).expect("good options");
    profiler.start().expect("nothing else runs");
    for step in 0..STEPS {
        zprof::scope!("train", root = true, step_num = step);
        spin();
        let link = zprof::scope!("call", { Linkage::execute(&platform) });
        assert_eq!(Some(fake.execute(Some(&link))), link.id());
        let _ = fake.launch(3_000);
        spin();
    }
    profiler.stop().expect("the files can be written").expect("it was running");

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository");
    let output = Command::new("scripts/xprof-check").arg(folder.path()).current_dir(root).output();
    let output = output.expect("the script is there");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "xprof-check failed; XProf comes with scripts/get-xprof\n{stderr}");
    serde_json::from_slice(&output.stdout).expect("xprof-check prints JSON")
}

/// The only event of this name that a process has in a group.
fn event<'a>(host: &'a Value, process: &str, name: &str, group: usize) -> &'a Value {
    let events = host["events"].as_array().expect("events are a list");
    let is_it = |event: &&Value| {
        let pid = event["pid"].to_string();
        host["processes"][pid] == process && event["name"] == name && event["args"]["group_id"] == json!(group)
    };
    let found: Vec<&Value> = events.iter().filter(is_it).collect();
    let [event] = found[..] else { panic!("`{name}` of {process} in group {group}: {found:?}") };
    event
}

fn times(event: &Value) -> (f64, f64) {
    let number = |key: &str| event[key].as_f64().unwrap_or_else(|| panic!("no `{key}` in {event}"));
    (number("ts"), number("ts") + number("dur"))
}

/// The event has an arrow to the other one, of this category.
fn points_to(from: &Value, to: &Value, category: &str) {
    assert!(from["bind_id"].is_u64(), "{from} has no arrow");
    assert_eq!(from["bind_id"], to["bind_id"]);
    let ends = |event: &Value| [&event["flow_out"], &event["flow_in"], &event["cat"]].map(Clone::clone);
    assert_eq!(ends(from), [json!(true), Value::Null, json!(category)], "{from}");
    assert_eq!(ends(to), [Value::Null, json!(true), json!(category)], "{to}");
}

#[test]
fn xprof_shows_steps_and_arrows_over_host_and_device() {
    let _alone = exclusive();
    let report = shown();
    for tool in ["trace_viewer@", "overview_page", "kernel_stats"] {
        assert!(report["tools"].as_array().is_some_and(|tools| tools.contains(&json!(tool))), "no `{tool}`: {report}");
    }
    let host = &report["hosts"]["profiling"];
    assert_eq!(host["processes"], json!({"1001": DEVICE, "1701": HOST}));
    let threads = host["threads"].as_object().expect("threads are a map");
    let rows =
        |pid: &str| threads.iter().filter(|(at, _)| at.starts_with(pid)).map(|(_, name)| name).collect::<Vec<_>>();
    for row in ["Steps", "Stream #13(Compute)", "Stream #14(MemcpyH2D)"] {
        assert!(rows("1001/").contains(&&json!(row)), "no `{row}`: {threads:?}");
    }
    let [own] = rows("1701/")[..] else { panic!("one thread alone has scopes, and the plugin's events: {threads:?}") };
    assert_ne!(own, "launching");

    for step in 0..STEPS {
        let name = format!("train {step}");
        let on_host = event(host, HOST, &name, step);
        let on_device = event(host, DEVICE, &name, step);
        let launch = event(host, HOST, "cuLaunchKernel", step);
        let kernel = event(host, DEVICE, if step % 2 == 0 { "gemm_fusion" } else { "loop_add_fusion" }, step);
        let link = event(host, HOST, "PJRT_LoadedExecutable_Execute linkage", step);
        let call = event(host, HOST, "PJRT_LoadedExecutable_Execute", step);
        points_to(launch, kernel, "gpu_launch");
        points_to(link, call, "pjrt_library_call");
        assert_ne!(launch["bind_id"], link["bind_id"]);

        let (begin, end) = times(on_host);
        for inner in [launch, kernel, link, call, event(host, HOST, "call", step)] {
            let (at, _) = times(inner);
            assert!((begin - CLOCKS..end + CLOCKS).contains(&at), "{inner} is not in {on_host}");
        }
        assert_eq!(times(on_device), times(kernel));
    }
}
