//! What other crates record, recorded here: spans and events of `tracing`, messages of `log`.

mod fields;
#[cfg(unix)]
mod forks;
mod levels;
mod logger;
mod spans;
mod tasks;
mod viewers;

use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt as _;
use zprof_tests::profile::{Event, Recorded, Stat, Stats, recorded};

/// A registry with our layer.
fn dispatch() -> Dispatch {
    tracing_subscriber::registry().with(zprof::tracing::layer()).into()
}

/// Records what `body` tells `tracing`.
fn told<T>(body: impl FnOnce() -> T) -> Recorded<T> {
    tracing::dispatcher::with_default(&dispatch(), || recorded(body))
}

/// Number of the whole that an event belongs to, and its other stats.
fn flow(event: &Event) -> (Option<u64>, Stats) {
    let (flows, others): (Stats, Stats) = event.stats.iter().cloned().partition(|(name, _)| name == "flow");
    let number = flows.first().map(|(_, stat)| match stat {
        Stat::Uint(number) => *number,
        Stat::Int(number) => u64::try_from(*number).expect("flows are positive"),
        other => panic!("{other:?}"),
    });
    (number, others)
}

/// The wholes, in the order of their lines.
fn wholes<T>(recorded: &Recorded<T>) -> Vec<&Event> {
    recorded.lines.iter().filter(|line| line.name.starts_with("async")).flat_map(|line| &line.events).collect()
}
