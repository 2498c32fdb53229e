//! Futures that are recorded: each poll on its thread, the whole on a line of its own, and how tasks end.

use std::cell::Cell;
use std::future::{Future, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;

use zprof::{ProfilerOptions, TraceFuture as _};
use zprof_tests::profile::{Event, Recorded, Session, Stat, Stats, record, recorded, stats};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls until the future is ready.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = poll(future.as_mut()) {
            return value;
        }
    }
}

/// Pending so many times.
async fn pend(mut times: u32) {
    poll_fn(|_| {
        times = times.wrapping_sub(1);
        if times == u32::MAX { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Number of the task that an event belongs to, and its other stats.
fn flow(event: &Event) -> (u64, Stats) {
    let (flows, others): (Stats, Stats) = event.stats.iter().cloned().partition(|(name, _)| name == "flow");
    match flows.as_slice() {
        [(_, Stat::Uint(flow))] => (*flow, others),
        [(_, Stat::Int(flow))] => (u64::try_from(*flow).expect("flows are positive"), others),
        other => panic!("`{}` has flows {other:?}", event.name),
    }
}

/// What a whole has besides its own stats.
fn whole<const N: usize>(own: [(&str, Stat); N], polls: i64) -> Stats {
    let mut all = stats(own);
    all.extend(stats([("polls", polls.into()), ("_a", 1.into())]));
    all
}

#[zprof::trace(n, text = "a")]
async fn counted(n: u32) -> u32 {
    pend(n).await;
    n
}

#[test]
fn each_poll_is_a_slice_and_the_whole_is_a_span() {
    let recorded = recorded(|| block_on(counted(2)));
    assert_eq!(recorded.value, 2);
    let polls = &recorded.own_line().events;
    let spans = &recorded.line("async").events;
    assert_eq!(recorded.lines.len(), 2);
    assert_eq!(polls.iter().map(|poll| poll.name.as_str()).collect::<Vec<_>>(), ["counted"; 3]);
    let [span] = spans.as_slice() else { panic!("{spans:?}") };
    let (number, own) = flow(span);
    assert_eq!(own, whole([("n", 2.into()), ("text", "a".into())], 3));
    assert!(polls.iter().all(|poll| flow(poll).0 == number));
    assert_eq!(flow(&polls[0]).1, stats([("n", 2.into()), ("text", "a".into())]));
    assert_eq!(flow(&polls[1]).1, stats([]));
    assert_eq!(span.start_ps, polls[0].start_ps);
    assert!(span.end_ps >= polls[2].end_ps && polls.windows(2).all(|pair| pair[0].end_ps <= pair[1].start_ps));
    assert_eq!((&span.name, &span.site), (&polls[0].name, &polls[0].site));
    assert_eq!(span.site[0], ("module_path".to_owned(), module_path!().into()));
    assert_eq!(recorded.warnings, Vec::<String>::new());
}

#[test]
fn a_described_future_has_its_metadata_from_where_it_was_described() {
    let recorded = recorded(|| {
        let mut text = String::from("first");
        let future = pend(1).traced(zprof::task!("described", text, n = 1.5, none = None::<u32>, root = true));
        text.push_str(", then changed");
        drop(pend(0).traced(zprof::task!("never polled")));
        block_on(future);
    });
    let [span] = recorded.line("async").events.as_slice() else { panic!("{recorded:?}") };
    let own = [("text", "first".into()), ("n", 1.5.into()), ("_r", 1.into())];
    assert_eq!(flow(span).1, whole(own, 2));
    // The whole is the step.
    assert_eq!(flow(&recorded.own_line().events[0]).1, stats([("text", "first".into()), ("n", 1.5.into())]));
    assert_eq!(recorded.own_line().names(), ["described"; 2]);
}

#[test]
fn what_was_described_before_the_session_has_no_metadata() {
    let mut session = Session::new(ProfilerOptions::default());
    let mut early = pin!(pend(2).traced(zprof::task!("early", n = 1)));
    let mut polled = pin!(pend(2).traced(zprof::task!("polled", n = 1)));
    assert!(poll(polled.as_mut()).is_pending());
    session.start();
    assert!(poll(early.as_mut()).is_pending());
    assert!(poll(polled.as_mut()).is_pending());
    let first = session.stop();
    assert!(poll(early.as_mut()).is_pending());
    session.start();
    assert!(poll(early.as_mut()).is_ready());
    assert!(poll(polled.as_mut()).is_ready());
    let second = session.stop();
    let told = |recorded: &Recorded| -> Vec<(String, Stats)> {
        let lines = recorded.lines.iter().filter(|line| line.name.starts_with("async"));
        let mut all: Vec<_> =
            lines.flat_map(|line| &line.events).map(|event| (event.name.clone(), flow(event).1)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    let of = |name: &str, stats: Stats| (name.to_owned(), stats);
    assert_eq!(
        told(&first),
        [
            of("early", whole([("unfinished", 1.into())], 1)),
            of("polled", whole([("unfinished", 1.into()), ("started_before", 1.into())], 1))
        ]
    );
    assert_eq!(
        told(&second),
        [of("early", whole([("started_before", 1.into())], 1)), of("polled", whole([("started_before", 1.into())], 1))]
    );
    let starts: Vec<i64> =
        second.lines.iter().filter(|line| line.name.starts_with("async")).map(|l| l.events[0].start_ps).collect();
    assert_eq!(starts, [0, 0]);
}

#[test]
fn a_dropped_task_is_cancelled_and_one_that_panics_says_so() {
    let recorded = recorded(|| {
        let mut dropped = Box::pin(counted(5));
        assert!(poll(dropped.as_mut()).is_pending());
        thread::scope(|scope| {
            scope.spawn(move || drop(dropped));
        });
        let panics = async {
            pend(1).await;
            zprof::scope!("inside");
            panic!("as it must");
        };
        let panics = AssertUnwindSafe(|| block_on(panics.traced(zprof::task!("panics"))));
        assert!(catch_unwind(panics).is_err());
        block_on(ready(1).traced(zprof::task!("after")));
    });
    let line = recorded.line("async");
    let own: Vec<(&str, Stats)> = line.events.iter().map(|event| (event.name.as_str(), flow(event).1)).collect();
    assert_eq!(
        own,
        [
            ("counted", whole([("n", 5.into()), ("text", "a".into()), ("cancelled", 1.into())], 1)),
            ("panics", whole([("panicked", 1.into())], 2)),
            ("after", whole([], 1)),
        ]
    );
    assert_eq!(recorded.own_line().tree(), "counted panics panics(inside) after");
    assert_eq!(recorded.warnings, Vec::<String>::new());
}

#[test]
fn a_task_moves_between_threads() {
    let recorded = recorded(|| {
        let mut future = Box::pin(counted(3));
        for n in 0..3 {
            thread::scope(|scope| {
                let future = &mut future;
                let body = move || assert!(poll(future.as_mut()).is_pending());
                thread::Builder::new().name(format!("worker {n}")).spawn_scoped(scope, body).expect("a thread");
            });
        }
        assert!(poll(future.as_mut()).is_ready());
    });
    let [span] = recorded.line("async").events.as_slice() else { panic!("{recorded:?}") };
    let number = flow(span).0;
    assert_eq!(flow(span).1, whole([("n", 3.into()), ("text", "a".into())], 4));
    for name in ["worker 0", "worker 1", "worker 2"] {
        let [poll] = recorded.line(name).events.as_slice() else { panic!("{recorded:?}") };
        assert_eq!((flow(poll).0, poll.is_inside(span)), (number, true));
    }
}

#[zprof::trace]
async fn outer(n: u32) -> u32 {
    let one = inner(n).await;
    let one = zprof::scope!("between", { one + 1 });
    let both = poll_both(inner(1), inner(3)).await;
    one + both - 1
}

#[zprof::trace]
async fn inner(n: u32) -> u32 {
    pend(n).await;
    n
}

/// Polls two futures until both are ready.
async fn poll_both<A: Future<Output = u32>, B: Future<Output = u32>>(a: A, b: B) -> u32 {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let mut ready: [Option<u32>; 2] = [None; 2];
    poll_fn(move |context| {
        for (index, value) in ready.iter_mut().enumerate() {
            if value.is_none() {
                let polled = if index == 0 { a.as_mut().poll(context) } else { b.as_mut().poll(context) };
                if let Poll::Ready(number) = polled {
                    *value = Some(number);
                }
            }
        }
        match ready {
            [Some(a), Some(b)] => Poll::Ready(a + b),
            _ => Poll::Pending,
        }
    })
    .await
}

#[test]
fn what_a_task_awaits_stands_inside_it() {
    let recorded = recorded(|| block_on(outer(1)));
    assert_eq!(recorded.value, 5);
    assert_eq!(recorded.line("async").tree(), "outer(inner inner)");
    assert_eq!(recorded.line("async 2").tree(), "inner");
    assert_eq!(
        recorded.own_line().tree(),
        "outer(inner) outer(inner between inner inner) outer(inner inner) outer(inner) outer(inner)"
    );
    let ids: Vec<i64> =
        recorded.lines.iter().filter(|line| line.name.starts_with("async")).map(|line| line.id).collect();
    assert!(ids[0] >= 1 << 30 && ids[0] != ids[1], "{ids:?}");
}

#[zprof::trace("unheard", level = verbose, n)]
async fn verbose(n: u32) {
    pend(n).await;
}

#[test]
fn what_is_not_heard_adds_nothing_to_what_is() {
    let recorded = record(ProfilerOptions::default().host_tracer_level(1), || {
        block_on(async { verbose(1).await }.traced(zprof::task!("heard")));
        block_on(verbose(1).traced(zprof::task!("unheard too", level = info)));
    });
    assert_eq!(recorded.own_line().names(), ["heard"; 2]);
    let [span] = recorded.line("async").events.as_slice() else { panic!("{recorded:?}") };
    assert_eq!(flow(span).1, whole([], 2));
}

#[zprof::trace(ret, err, text)]
async fn parsed(text: &str) -> Result<u32, std::num::ParseIntError> {
    pend(1).await;
    let number = text.parse()?;
    Ok(number)
}

#[zprof::trace(ret)]
fn boxed(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(async move {
        pend(1).await;
        n
    })
}

#[test]
fn what_a_future_gives_is_recorded() {
    let recorded = recorded(|| {
        assert_eq!(block_on(parsed("7")), Ok(7));
        assert!(block_on(parsed("x")).is_err());
        assert_eq!(block_on(boxed(3)), 3);
    });
    let own: Vec<Stats> = recorded.line("async").events.iter().map(|event| flow(event).1).collect();
    assert_eq!(
        own,
        [
            whole([("text", "7".into()), ("return", 7.into())], 2),
            whole([("text", "x".into()), ("error", "invalid digit found in string".into())], 2),
            whole([("return", 3.into())], 2),
        ]
    );
}

#[zprof::trace(ret)]
fn doubled(n: u32) -> u32 {
    if n == 0 {
        return 1;
    }
    n * 2
}

#[zprof::trace(err)]
fn failing(text: &str) -> Result<u32, String> {
    let number: u32 = text.parse().map_err(|_| text.repeat(100))?;
    Ok(number)
}

struct Cache;

#[zprof::trace(level = info)]
impl Cache {
    fn get(&self) -> u32 {
        doubled(0)
    }

    #[zprof::trace(n)]
    async fn later(&self, n: u32) {
        pend(n).await;
    }

    #[zprof::trace(skip)]
    fn skipped(&self) {}
}

#[zprof::trace("kv")]
mod store {
    pub(super) fn open() {}

    #[zprof::trace("named")]
    pub(super) fn other() {}

    pub(super) trait Close {
        fn close(&self) {}
    }

    impl Close for super::Cache {}
}

#[test]
fn blocks_name_their_functions() {
    use store::Close as _;
    let body = || {
        let cache = Cache;
        cache.get();
        cache.skipped();
        block_on(cache.later(0));
        store::open();
        store::other();
        cache.close();
    };
    let expected =
        ["Cache::get", "doubled", "Cache::later", "kv::open", "named", "kv::Close::close"].map(str::to_owned);
    let all = recorded(body);
    assert_eq!(all.own_line().names(), expected);
    let critical = record(ProfilerOptions::default().host_tracer_level(1), body);
    assert_eq!(
        critical.own_line().names(),
        [&expected[1], &expected[3], &expected[4], &expected[5]].map(String::as_str)
    );
    let line = |name: &str| match &all.own_line().event(name).site[1].1 {
        Stat::Text(text) => text.rsplit(':').next().and_then(|line| line.parse::<u32>().ok()).expect("a line"),
        other => panic!("{other:?}"),
    };
    assert_eq!(line("Cache::later") - line("Cache::get"), 5, "each has a line of its own");
}

#[test]
fn what_a_function_gives_is_recorded() {
    let recorded = recorded(|| {
        assert_eq!((doubled(4), doubled(0)), (8, 1));
        assert_eq!(failing("7"), Ok(7));
        assert_eq!(failing("abc").map_err(|error| error.len()), Err(300));
    });
    let cut = format!("{}a…", "abc".repeat(85));
    let told: Vec<Stats> = recorded.own_line().events.iter().map(|event| event.stats.clone()).collect();
    assert_eq!(
        told,
        [
            stats([("return", 8.into())]),
            stats([("return", 1.into())]),
            stats([]),
            stats([("error", cut.as_str().into())])
        ]
    );
}

/// Bytes that a future takes more than one without the attribute.
#[test]
fn a_traced_future_is_little_larger() {
    async fn level_0(text: String, numbers: [u64; 16]) -> usize {
        pend(1).await;
        text.len() + numbers.len()
    }
    async fn level_1(text: String, numbers: [u64; 16]) -> usize {
        level_0(text, numbers).await
    }
    async fn level_2(text: String, numbers: [u64; 16]) -> usize {
        level_1(text, numbers).await
    }
    #[zprof::trace(length = text.len())]
    async fn traced_0(text: String, numbers: [u64; 16]) -> usize {
        pend(1).await;
        text.len() + numbers.len()
    }
    #[zprof::trace(ret)]
    async fn traced_1(text: String, numbers: [u64; 16]) -> usize {
        traced_0(text, numbers).await
    }
    #[zprof::trace]
    async fn traced_2(text: String, numbers: [u64; 16]) -> usize {
        traced_1(text, numbers).await
    }
    let more = |traced: usize, plain: usize| traced - plain;
    let arguments = || (String::new(), [0; 16]);
    let (a, b) = arguments();
    let (c, d) = arguments();
    assert!(more(size_of_val(&traced_0(a, b)), size_of_val(&level_0(c, d))) <= 8);
    let (a, b) = arguments();
    let (c, d) = arguments();
    let three = more(size_of_val(&traced_2(a, b)), size_of_val(&level_2(c, d)));
    assert!(three <= 3 * 8, "{three} bytes for three levels");
    let described = level_0(String::new(), [0; 16]).traced(zprof::task!("described", n = 1));
    assert!(more(size_of_val(&described), size_of_val(&level_0(String::new(), [0; 16]))) <= 32);
    let counted = Cell::new(0);
    block_on(async { counted.set(counted.get() + 1) }.traced(zprof::task!("once")));
    assert_eq!(counted.get(), 1);
}

/// Awaits where the attribute does not see it.
macro_rules! awaited {
    ($future:expr) => {
        $future.await
    };
}

#[zprof::trace]
async fn holds_a_block() {
    zprof::scope!("block", { awaited!(pend(1)) });
}

#[zprof::trace]
async fn holds_a_span() {
    let span = zprof::span!("span");
    awaited!(pend(1));
    zprof::scope!("within", {});
    span.end();
}

#[zprof::trace]
async fn holds_nothing() {
    pend(1).await;
    zprof::scope!("work", {});
}

/// Lines of the marks above.
const HELD: [(&str, u32); 2] = [("block", line!() - 18), ("span", line!() - 13)];

fn warnings_of_held() -> [String; 2] {
    HELD.map(|(name, line)| {
        format!(
            "scope `{name}` ({}:{line}) ended out of order or was held across an await; it is on a line of its own, `… (overlap)`",
            file!()
        )
    })
}

#[test]
fn only_what_was_held_across_an_await_is_to_blame() {
    let recorded = recorded(|| {
        let (mut block, mut span) = (pin!(holds_a_block()), pin!(holds_a_span()));
        let mut innocent = pin!(holds_nothing());
        for is_last in [false, true] {
            for is_ready in
                [poll(block.as_mut()), poll(span.as_mut()), poll(innocent.as_mut())].map(|poll| poll.is_ready())
            {
                assert_eq!(is_ready, is_last);
            }
        }
    });
    let own = recorded.own_line();
    let polls = "holds_a_block holds_a_span holds_nothing";
    assert_eq!(own.tree(), format!("{polls} holds_a_block holds_a_span(within) holds_nothing(work)"));
    let overlaps: Vec<(&str, &Stats)> =
        recorded.lines.iter().filter(|line| line.name.contains("overlap")).flat_map(|line| line.told()).collect();
    let tid = stats([("tid", recorded.tid.into())]);
    assert_eq!(overlaps, [("block", &tid), ("span", &tid)]);
    assert_eq!(recorded.warnings, warnings_of_held());
}

#[test]
fn what_was_held_since_before_the_session_is_to_blame() {
    let mut session = Session::new(ProfilerOptions::default());
    let mut block = pin!(holds_a_block());
    assert!(poll(block.as_mut()).is_pending());
    session.start();
    assert!(poll(block.as_mut()).is_ready());
    block_on(holds_nothing());
    let recorded = session.stop();
    let own = recorded.own_line();
    assert_eq!(own.tree(), "holds_a_block holds_nothing holds_nothing(work)");
    let overlap = recorded.line(&format!("{} (overlap)", own.name));
    let held = stats([("started_before", 1.into()), ("tid", recorded.tid.into())]);
    assert_eq!(overlap.told(), [("block", &held)]);
    assert_eq!(recorded.warnings, warnings_of_held()[..1]);
}
