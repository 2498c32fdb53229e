//! Who can reach the server, and what clients that do not behave can do to it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use super::served::{Served, received};

/// The local addresses of a process's listening sockets, as the kernel writes them.
fn listening(process: u32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
    let own: BTreeSet<String> = links
        .filter_map(|link| Some(fs::read_link(link.ok()?.path()).ok()?.to_string_lossy().into_owned()))
        .filter_map(|target| Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let table = fs::read_to_string(format!("/proc/{process}/net/{table}")).expect("the kernel tells");
        for line in table.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            // 0A is LISTEN, 07 what a datagram socket is always in.
            if own.contains(columns[9]) && ["0A", "07"].contains(&columns[3]) {
                found.push(columns[1].to_owned());
            }
        }
    }
    found
}

#[test]
fn only_the_loopback_address_is_listened_on() {
    let served = Served::holding(b"trace");
    assert_eq!(listening(served.process.id()), [format!("0100007F:{:04X}", served.port)]);
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_away() {
    // A busy machine may take long for a reply, but not each time.
    const TRIES: usize = 5;
    let served = Served::holding(b"trace");
    let mut took = Vec::new();
    // The silent ones are given up after ten seconds; the reply comes before.
    while took.last().is_none_or(|took| *took > Duration::from_secs(9)) {
        assert!(took.len() < TRIES, "{took:?}");
        let silent: Vec<_> = (0..300).map(|_| served.connect()).collect();
        let mut slow: Vec<_> = (0..100).map(|_| served.connect()).collect();
        for stream in &mut slow {
            // One that was given up already to make room is not to be written to.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nX: ");
        }
        let began = Instant::now();
        assert_eq!(served.fetch(), b"trace");
        took.push(began.elapsed());
        let threads = fs::read_dir(format!("/proc/{}/task", served.process.id())).expect("it runs").count();
        assert!(threads < 100, "{threads} threads");
        drop(silent);
    }
}

#[test]
fn clients_do_not_end_a_server_that_may_have_few_open_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("a.json");
    fs::write(&trace, "trace").expect("is written");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 32; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_zprof"), "view", "--no-open"]);
    let mut served = Served::started(command.args(["--port", "0"]).arg(&trace));
    for _ in 0..3 {
        let silent: Vec<_> = (0..40).map(|_| served.connect()).collect();
        assert_eq!(served.fetch(), b"trace");
        drop(silent);
    }
    assert!(served.process.try_wait().expect("it is a child").is_none());
}

#[test]
fn clients_that_read_nothing_do_not_keep_others_away() {
    let content = vec![7; 32 << 20];
    let served = Served::holding(&content);
    let lazy: Vec<_> = (0..30)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(served.request("GET", &served.path, "").as_bytes()).expect("is sent");
            stream.read_exact(&mut [0; 8]).expect("the reply begins");
            stream
        })
        .collect();
    assert!(served.fetch() == content);
    drop(lazy);
    assert!(served.fetch() == content);
}

#[test]
fn a_request_that_does_not_end_is_given_up() {
    let served = Served::holding(b"trace");
    let mut stream = served.connect();
    let began = Instant::now();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: ").expect("is sent");
    assert_eq!(received(&mut stream), b"");
    assert!(began.elapsed() > Duration::from_secs(8), "{:?}", began.elapsed());
    // One that ends too early, at once.
    let mut stream = served.connect();
    stream.write_all(b"GET / HTTP/1.1\r\n").expect("is sent");
    stream.shutdown(std::net::Shutdown::Write).expect("is connected");
    assert_eq!(received(&mut stream), b"");
}

#[test]
fn a_client_that_goes_away_changes_nothing() {
    let content = vec![7; 32 << 20];
    let served = Served::holding(&content);
    for _ in 0..20 {
        let mut stream = served.connect();
        stream.write_all(served.request("GET", &served.path, "").as_bytes()).expect("is sent");
        stream.read_exact(&mut [0; 8]).expect("the reply begins");
    }
    assert!(served.fetch() == content);
}
