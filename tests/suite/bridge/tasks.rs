//! Spans of asynchronous work: many of them on several threads, and those of a library that knows nothing of us.

use std::collections::{BTreeMap, BTreeSet};

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tracing::{Dispatch, Instrument as _};
use zprof_tests::profile::{Event, Recorded, Stat, Stats, recorded, stats};

use super::{dispatch, flow, wholes};

/// A runtime whose threads tell `dispatch`.
fn runtime(workers: usize, dispatch: &Dispatch) -> Runtime {
    let dispatch = dispatch.clone();
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(workers).enable_io().on_thread_start(move || {
        // For as long as the thread lives.
        std::mem::forget(tracing::dispatcher::set_default(&dispatch));
    });
    builder.build().expect("a runtime")
}

const DRIVERS: u64 = 8;
const JOBS: u64 = 1_250;

#[tracing::instrument]
async fn job(n: u64) -> u64 {
    tokio::task::yield_now().await;
    step(n).instrument(tracing::debug_span!("step", n, text = "of a job")).await
}

async fn step(n: u64) -> u64 {
    tokio::task::yield_now().await;
    tracing::trace!(n, "stepped");
    n
}

#[test]
fn ten_thousand_asynchronous_spans_lose_nothing() {
    let dispatch = dispatch();
    let recorded = recorded(|| {
        let runtime = runtime(4, &dispatch);
        let drive = |driver: u64| async move {
            for n in 0..JOBS {
                assert_eq!(job(driver * JOBS + n).await, driver * JOBS + n);
            }
        };
        let drivers: Vec<_> = (0..DRIVERS).map(|driver| runtime.spawn(drive(driver))).collect();
        for driver in drivers {
            runtime.block_on(driver).expect("it ends well");
        }
    });
    assert_eq!((recorded.profile.dropped_scopes, recorded.warnings.len()), (0, 0), "{:?}", recorded.warnings);
    let n_of = |stats: &Stats| match stats.first() {
        Some((key, Stat::Int(n))) if key == "n" => *n,
        other => panic!("{other:?}"),
    };
    // Slices by the number of the span on several threads that they belong to; those of the other spans, by name, span and line.
    let mut slices: BTreeMap<u64, i64> = BTreeMap::new();
    let mut alone: BTreeMap<(&str, i64, &str), i64> = BTreeMap::new();
    let mut events = 0_u64;
    for line in recorded.lines.iter().filter(|line| !line.name.starts_with("async")) {
        assert!(!line.name.contains("overlap"), "{}", line.name);
        // Fails where slices cross.
        let tree = line.tree();
        assert!(!tree.contains("step(step") && !tree.contains("job(job"), "{}", line.name);
        for event in &line.events {
            match (flow(event), event.name.as_str()) {
                ((Some(number), _), _) => *slices.entry(number).or_default() += 1,
                ((None, stats), name @ ("job" | "step")) => {
                    *alone.entry((name, n_of(&stats), &line.name)).or_default() += 1;
                }
                ((None, _), "TRACE suite::bridge::tasks") => events += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    // Each span is there once, with its fields and all its slices: as a whole if several threads entered it, and else on the
    // line of one thread.
    let mut found: BTreeMap<(&str, i64), Vec<i64>> = BTreeMap::new();
    for whole in wholes(&recorded) {
        let (number, stats_of_it) = flow(whole);
        let polls = slices.remove(&number.expect("a whole has a number")).expect("it has slices");
        let text = if whole.name == "step" { stats([("text", "of a job".into())]) } else { Stats::new() };
        let rest = stats([("polls", polls.into()), ("_a", 1.into())]);
        assert_eq!(stats_of_it[1..], [text, rest].concat(), "{}", whole.name);
        found.entry((&whole.name, n_of(&stats_of_it))).or_default().push(polls);
    }
    assert_eq!(slices, BTreeMap::new(), "each slice has its whole");
    for ((name, n, _), polls) in alone {
        found.entry((name, n)).or_default().push(polls);
    }
    let jobs = i64::try_from(DRIVERS * JOBS).expect("few");
    // Polled once more than there were yields, and entered to be dropped.
    let expected = [("job", 4), ("step", 3)]
        .into_iter()
        .flat_map(|(name, polls)| (0..jobs).map(move |n| ((name, n), vec![polls])));
    assert_eq!(found, expected.collect());
    assert_eq!(events, DRIVERS * JOBS);
}

/// Serves one request over HTTP/2, and makes it.
async fn request() -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut connection = h2::server::handshake(stream).await.expect("a handshake");
        while let Some(request) = connection.accept().await {
            let (_, mut respond) = request.expect("a request");
            let mut body = respond.send_response(http::Response::new(()), false).expect("a response");
            body.send_data(bytes::Bytes::from_static(b"served"), true).expect("data");
        }
    });
    let stream = TcpStream::connect(address).await.expect("a server");
    let (mut client, connection) = h2::client::handshake(stream).await.expect("a handshake");
    let connection = tokio::spawn(connection);
    let request = http::Request::get("http://127.0.0.1/").body(()).expect("a request");
    let (response, _) = client.send_request(request, true).expect("it is sent");
    let mut body = response.await.expect("a response").into_body();
    let data = body.data().await.expect("data").expect("it arrives").to_vec();
    drop((body, client));
    connection.await.expect("no panic").expect("it closes");
    server.await.expect("no panic");
    data
}

#[test]
fn a_library_that_uses_tracing_shows_up() {
    let dispatch = dispatch();
    let recorded: Recorded<Vec<u8>> =
        recorded(|| runtime(2, &dispatch).block_on(async { tokio::spawn(request()).await.expect("no panic") }));
    assert_eq!(recorded.value, b"served");
    let events = || recorded.lines.iter().flat_map(|line| &line.events);
    // Its sites are h2's own.
    let of_h2 = events().filter(|event| match &event.site[..] {
        [(_, Stat::Text(module)), (_, Stat::Text(source))] => module.starts_with("h2::") && source.contains("/h2-"),
        _ => false,
    });
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    of_h2.for_each(|event| *count.entry(event.name.as_str()).or_default() += 1);
    assert_eq!(count.values().sum::<usize>(), events().count());
    for name in ["Connection", "FramedRead::poll_next", "FramedWrite::flush", "DEBUG h2::codec::framed_write"] {
        assert!(count.get(name).is_some_and(|count| *count > 0), "no `{name}` among {count:?}");
    }
    // The connection's own span is entered at each poll, on either side, and says so in the first slice and where it changes
    // its thread.
    let of_peer = |event: &Event| event.stats.iter().find(|(key, _)| key == "peer").cloned();
    let peers = events().filter(|event| event.name == "Connection").filter_map(of_peer);
    let peers: BTreeSet<String> = peers.map(|peer| format!("{peer:?}")).collect();
    assert_eq!(peers, ["Client", "Server"].map(|peer| format!("{:?}", stats([("peer", peer.into())])[0])).into());
    for line in &recorded.lines {
        // Fails where slices cross.
        assert!(!line.tree().is_empty());
    }
    assert_eq!((recorded.profile.dropped_scopes, recorded.warnings.len()), (0, 0));
}
