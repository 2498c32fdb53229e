//! What other crates record, recorded here: spans and events of `tracing`, messages of `log`.

mod fields;
#[cfg(unix)]
mod forks;
mod idle;
mod levels;
mod logger;
mod spans;
mod tasks;
mod viewers;

use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt as _;
use zprof_tests::profile::{Event, Recorded, recorded};

use crate::global_raw::flow;

/// A registry with our layer.
fn dispatch() -> Dispatch {
    tracing_subscriber::registry().with(zprof::tracing::layer()).into()
}

/// Records what `body` tells `tracing`.
fn told<T>(body: impl FnOnce() -> T) -> Recorded<T> {
    tracing::dispatcher::with_default(&dispatch(), || recorded(body))
}

/// The wholes, in the order of their lines.
fn wholes<T>(recorded: &Recorded<T>) -> Vec<&Event> {
    recorded.lines.iter().filter(|line| line.name.starts_with("async")).flat_map(|line| &line.events).collect()
}
