//! Tasks under tokio's multi-thread runtime: ten thousand at once, select, spawned tasks, and what is lost.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use zprof::TraceFuture as _;
use zprof_tests::profile::{Event, Recorded, Stat, recorded};

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).thread_name("worker").build().expect("a runtime")
}

fn stat(event: &Event, name: &str) -> Option<u64> {
    event.stats.iter().find(|stat| stat.0 == name).map(|stat| match stat.1 {
        Stat::Int(value) => u64::try_from(value).expect("positive"),
        Stat::Uint(value) => value,
        ref other => panic!("{other:?}"),
    })
}

/// Counts the polls of a future.
struct Counted<F> {
    future: Pin<Box<F>>,
    polls: Arc<AtomicU32>,
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.future.as_mut().poll(context)
    }
}

/// A sequence of numbers that look random.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[zprof::trace(n)]
async fn leaf(n: u64, turns: u64) -> u64 {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
    n
}

async fn work(seed: u64) -> u64 {
    let mut state = seed + 1;
    let mut sum = 0;
    for _ in 0..random(&mut state) % 4 {
        match random(&mut state) % 3 {
            0 => tokio::task::yield_now().await,
            1 => sum += leaf(seed, random(&mut state) % 3).await,
            _ => {
                let (sender, receiver) = oneshot::channel();
                tokio::spawn(async move { sender.send(1) });
                sum += receiver.await.expect("the other task sends");
            }
        }
        zprof::scope!("piece", { sum += 1 });
    }
    sum
}

/// Slices of each task, by its number; on each thread no two of the tasks overlap.
fn slices(recorded: &Recorded<impl Sized>, name: &str) -> HashMap<u64, Vec<(i64, i64)>> {
    let mut found: HashMap<u64, Vec<(i64, i64)>> = HashMap::new();
    for line in recorded.lines.iter().filter(|line| !line.name.starts_with("async")) {
        assert!(!line.name.contains("overlap"), "{}", line.name);
        assert!(!line.tree().is_empty());
        let mut last = 0;
        for event in line.events.iter().filter(|event| event.name == name) {
            assert!(event.start_ps >= last, "two slices overlap on `{}`", line.name);
            last = event.end_ps;
            let number = stat(event, "flow").expect("a poll has the number of its task");
            found.entry(number).or_default().push((event.start_ps, event.end_ps));
        }
    }
    found
}

fn spans<'a>(recorded: &'a Recorded<impl Sized>, name: &str) -> Vec<&'a Event> {
    let lines = recorded.lines.iter().filter(|line| line.name.starts_with("async"));
    lines.flat_map(|line| &line.events).filter(|event| event.name == name).collect()
}

#[test]
fn ten_thousand_tasks_add_up() {
    const TASKS: u64 = 10_000;
    let recorded = recorded(|| {
        let runtime = runtime(4);
        let counts: Vec<Arc<AtomicU32>> = (0..TASKS).map(|_| Arc::default()).collect();
        let tasks: Vec<_> = (0..TASKS)
            .zip(&counts)
            .map(|(n, polls)| {
                let counted = Counted { future: Box::pin(work(n)), polls: Arc::clone(polls) };
                runtime.spawn(counted.traced(zprof::task!("work", n)))
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).expect("the task ends well");
        }
        counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).collect::<Vec<u64>>()
    });
    assert_eq!((&recorded.warnings, recorded.profile.dropped_scopes), (&Vec::new(), 0));
    let slices = slices(&recorded, "work");
    let spans = spans(&recorded, "work");
    assert_eq!((slices.len(), spans.len()), (10_000, 10_000));
    let mut seen = BTreeMap::new();
    for span in spans {
        let n = usize::try_from(stat(span, "n").expect("the task has its number")).expect("small");
        let polls = &slices[&stat(span, "flow").expect("a span has it too")];
        assert_eq!(stat(span, "polls"), Some(recorded.value[n]), "task {n}");
        assert_eq!(polls.len() as u64, recorded.value[n], "task {n}");
        let (first, last) = (polls.iter().map(|poll| poll.0).min(), polls.iter().map(|poll| poll.1).max());
        assert_eq!(first, Some(span.start_ps), "task {n}");
        assert!(last <= Some(span.end_ps), "task {n}");
        assert!(
            ["cancelled", "panicked", "unfinished", "started_before"].iter().all(|mark| stat(span, mark).is_none())
        );
        assert_eq!(seen.insert(n, ()), None);
    }
    // A line holds one task at a time, or one inside another.
    let lines = recorded.lines.iter().filter(|line| line.name.starts_with("async"));
    let trees = lines.map(|line| line.tree()).collect::<Vec<_>>();
    assert!(trees.iter().all(|tree| !tree.contains("work(work") && !tree.contains("leaf(work")));
}

#[test]
fn select_cancels_the_loser_and_spawned_tasks_panic_alone() {
    let recorded = recorded(|| {
        let runtime = runtime(2);
        let order = Arc::new(Mutex::new(Vec::new()));
        runtime.block_on(async {
            let (_kept, never) = oneshot::channel::<()>();
            tokio::select! {
                _ = never.traced(zprof::task!("loser")) => order.lock().expect("nobody panics here").push("loser"),
                () = async { leaf(1, 2).await; }.traced(zprof::task!("winner")) => {
                    order.lock().expect("nobody panics here").push("winner");
                }
            }
            let panics = tokio::spawn(async { panic!("alone") }.traced(zprof::task!("panics")));
            let error = panics.await.expect_err("it panics");
            assert!(error.is_panic());
            let aborted = tokio::spawn(std::future::pending::<()>().traced(zprof::task!("aborted")));
            tokio::task::yield_now().await;
            aborted.abort();
            assert!(aborted.await.expect_err("it was aborted").is_cancelled());
        });
        drop(runtime);
        Arc::try_unwrap(order).expect("nobody else has it").into_inner().expect("nobody panicked")
    });
    assert_eq!(recorded.value, ["winner"]);
    let marks = |name: &str| -> Vec<String> {
        let [span] = spans(&recorded, name)[..] else { panic!("no single span `{name}`") };
        let marks = ["cancelled", "panicked", "unfinished"].iter().filter(|mark| stat(span, mark).is_some());
        marks.map(|mark| (*mark).to_owned()).collect()
    };
    assert_eq!((marks("loser"), marks("winner")), (vec!["cancelled".to_owned()], vec![]));
    assert_eq!(marks("panics"), ["panicked"]);
    // Where it was aborted before its first poll, there is nothing of it.
    if !spans(&recorded, "aborted").is_empty() {
        assert_eq!(marks("aborted"), ["cancelled"]);
    }
    assert_eq!(spans(&recorded, "leaf").len(), 1);
}

#[tokio::test]
#[zprof::trace]
async fn the_attribute_stands_behind_tokios() {
    assert_eq!(leaf(1, 1).await, 1);
}

#[zprof::trace(n = 1)]
#[tokio::test]
async fn the_attribute_stands_before_tokios() {
    assert_eq!(leaf(2, 1).await, 2);
}

/// A future that is polled on the thread that waits for it need not be `Send`.
#[test]
fn block_on_takes_what_is_not_send() {
    let recorded = recorded(|| {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let shared = std::rc::Rc::new(3_u64);
        let future = async {
            let value = leaf(*shared, 1).await;
            value + *shared
        };
        runtime.block_on(pin!(future.traced(zprof::task!("local"))))
    });
    assert_eq!(recorded.value, 6);
    assert_eq!(recorded.line("async").tree(), "local(leaf)");
    assert_eq!(recorded.own_line().tree(), "local(leaf) local(leaf)");
}
