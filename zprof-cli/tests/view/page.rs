//! Perfetto's own page, under its own address in a real browser, fetches what `zprof view` serves and shows it.
//!
//! The page is the one that scripts/get-perfetto has installed, and no other host can be reached.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::served::{Served, fixture, repository, zprof};

#[test]
fn perfettos_own_page_shows_the_profile() {
    let input = fixture("jax_cpu_small.xplane.pb");
    let served = Served::started(zprof().args(["view", "--no-open"]).arg(&input));
    let mut page = Command::new(repository().join("scripts/perfetto-page"));
    let output = page.args(["--click", "host:CPU 701", "--url", &served.page]).stdin(Stdio::null()).output();
    let output = output.expect("scripts/perfetto-page runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "see scripts/get-perfetto and scripts/get-packages: {message}");
    let shown: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert_eq!(shown["errors"], json!([]));
    let mut tracks: Vec<&str> =
        shown["tracks"].as_array().expect("is a list").iter().map(|name| name.as_str().expect("is text")).collect();
    tracks.sort_unstable();
    assert_eq!(
        tracks,
        [
            "System",
            "host:CPU 701",
            "python (2) (-1013406460)",
            "python -1013406460",
            "tf_XLAPjRtCpuClient/6879622912620529902 -681408274",
            "tf_XLAPjRtCpuClient/878773770891168448 -1276769600",
        ]
    );
}
