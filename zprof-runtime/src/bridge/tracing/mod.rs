//! Spans and events of the `tracing` crate, recorded beside zprof's own scopes.
//!
//! A [`layer`] joins the program's `tracing_subscriber` registry. While a session runs or a tool is attached, whatever the
//! program and its libraries tell `tracing` of is recorded; our own scopes do not go the other way.
//!
//! ```
//! # mod zprof { pub use zprof_runtime::{bridge::tracing, Platform, ProfilerOptions}; }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tracing_subscriber::layer::SubscriberExt as _;
//!
//! let subscriber = tracing_subscriber::registry().with(zprof::tracing::layer()); // beside other layers
//! tracing::subscriber::set_global_default(subscriber)?;
//!
//! let folder = std::env::temp_dir().join(format!("zprof-tracing-{}", std::process::id()));
//! let options = zprof::ProfilerOptions::default().repository_path(&folder);
//! let mut profiler = zprof::Platform::host().profiler(options)?;
//! profiler.start()?;
//! let span = tracing::info_span!("request", path = "/", bytes = 512);
//! span.in_scope(|| tracing::warn!("slow"));
//! if let Some(profile) = profiler.stop()? {
//!     assert_eq!(profile.scopes, 2);
//! }
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Spans
//!
//! Each time that a span is entered is a slice on the thread that enters it, under the span's name; its fields are its
//! metadata. A span that is entered again, as that of an instrumented future is at each poll, is also shown as a whole: from
//! when it was made to when it is closed, on a line `async` of its own, as tasks are; arrows join the slices from the second
//! on. What is exited on another thread than it was entered on stays open where it was entered, and is told as `leaked` or
//! `unfinished`. `tracing` also enters the span of an instrumented future while that is dropped, which nothing tells apart from
//! a poll: the last slice is the drop, and `polls` counts it.
//!
//! Fields have their types: integers, floats, truth values and text. What is only `Debug` or `Display` becomes text, cut to
//! 1024 bytes with an ellipsis behind; an error is followed by its sources. What is recorded on an open span is added to its
//! slice if that is open on the same thread, and stands on all that follow. Where one span follows from another that is open
//! on this thread, an arrow leads there.
//!
//! # Events
//!
//! An event is an instant. Its name is its level and target, `WARN hyper::proto`, unless the program gives it a name; its
//! text is the metadata `message`.
//!
//! Messages of `log` that `tracing-log` hands on, a default feature of `tracing-subscriber` that `init()` installs, are events of the
//! target `log`: their own target is the metadata `log.target`, directives know them as `log`, and what zprof itself logs is among
//! them. Feature `log` has a recorder that keeps targets and levels.
//!
//! # Levels and cost
//!
//! `ERROR` and `WARN` are recorded from session level 1, `INFO` from 2, `DEBUG` and `TRACE` from 3, which is the default. A
//! span's target stands where our scopes have their module.
//!
//! While nothing listens the layer disables its callsites for itself: where no other layer wants them, each costs what it
//! costs without a subscriber. Other layers, and filters on this one, work as before. What is made while nothing listens is
//! not recorded later, even if it is entered then; a span that one session knew and that ends in the next is told as
//! `started_before`.

mod fields;
mod sites;
mod spans;

use std::sync::atomic::{AtomicU32, Ordering};

use fields::Fields;
use spans::{Lent, Span};
use tracing_core::callsite::rebuild_interest_cache;
use tracing_core::dispatcher::{self, Dispatch, WeakDispatch};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::raw::{Key, RawValue, hold, instant, listens, look, take, watch};
use crate::record::primitive::{Mutex, MutexGuard};
use crate::record::{Link as _, flow};
use crate::site::{Level, NO_FILTER};

/// A layer that records spans and events; the module says how. It brings its own per-layer filter, and takes another one by
/// [`with_filter`](Layer::with_filter).
pub fn layer<S>() -> impl Layer<S> + Send + Sync + 'static
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    static LAYERS: AtomicU32 = AtomicU32::new(0);
    watch(ask_again);
    let number = LAYERS.fetch_add(1, Ordering::Relaxed);
    Bridge { number, spans: Lent::take() }.with_filter(Listening)
}

/// The subscribers that layers of ours are in, as far as they are alive.
static SUBSCRIBERS: Mutex<Vec<WeakDispatch>> = Mutex::new(Vec::new());

/// The locks that a fork must not find taken.
pub(crate) type Held = (MutexGuard<'static, Vec<WeakDispatch>>, spans::Held, sites::Held);

/// Takes them.
pub(crate) fn hold_all() -> Held {
    (SUBSCRIBERS.lock(), spans::hold(), sites::hold())
}

/// Has each callsite ask anew who wants it.
///
/// Where there is one subscriber in the program, `tracing` asks that of the calling thread, which may have none; so it is given
/// one of ours.
fn ask_again() {
    // Not dropped under the lock, as these may be the last.
    let mut alive = Vec::new();
    SUBSCRIBERS.lock().retain(|subscriber| subscriber.upgrade().map(|subscriber| alive.push(subscriber)).is_some());
    if let Some(subscriber) = alive.first() {
        dispatcher::with_default(subscriber, rebuild_interest_cache);
    }
}

/// How much detail a level of `tracing` is.
fn level_of(level: tracing_core::Level) -> Level {
    match level {
        tracing_core::Level::ERROR | tracing_core::Level::WARN => Level::Critical,
        tracing_core::Level::INFO => Level::Info,
        _ => Level::Verbose,
    }
}

/// Lets through what somebody listens to. Its answers are kept by each callsite until a session starts or stops.
struct Listening;

impl<S> Filter<S> for Listening {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        listens(level_of(*metadata.level()), NO_FILTER)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if listens(level_of(*metadata.level()), NO_FILTER) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match crate::raw::heard_level() {
            None => LevelFilter::OFF,
            Some(Level::Critical) => LevelFilter::WARN,
            Some(Level::Info) => LevelFilter::INFO,
            Some(Level::Verbose) => LevelFilter::TRACE,
        })
    }
}

/// The layer itself, which expects to hear only of what is recorded.
struct Bridge {
    /// Tells layers apart: each has a registry of its own, whose ids may be those of another.
    number: u32,
    spans: Lent,
}

impl Bridge {
    fn key(&self, id: &Id) -> Key {
        Key::Span(self.number, id.into_u64())
    }
}

impl<S: Subscriber> Layer<S> for Bridge {
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        SUBSCRIBERS.lock().push(subscriber.downgrade());
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if let Some(site) = sites::of(attributes.metadata()) {
            let mut span = Span::make(site);
            attributes.record(&mut span.fields);
            self.spans.add(id.into_u64(), span);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        // What prints itself may tell of spans of its own, so nothing is held meanwhile.
        let mut added = Fields::default();
        values.record(&mut added);
        let Some(keys) = self.spans.with(id.into_u64(), |span| {
            span.fields.take_over(&added);
            span.site.site().keys
        }) else {
            return;
        };
        look(self.key(id), |guard| {
            for (key, value) in keys.iter().zip(added.iter()) {
                guard.note(key, value);
            }
        });
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        let number = flow().number();
        if look(self.key(follows), |guard| guard.note("_p", RawValue::Sends(number))) {
            self.spans.with(id.into_u64(), |span| span.receives = number);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Some(site) = sites::of(event.metadata()) {
            let mut fields = Fields::reused();
            event.record(&mut fields);
            instant(site, &fields);
            fields.put_back();
        }
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        hold(self.key(id), || {
            self.spans.with(id.into_u64(), |span| {
                let guard = span.whole.open(span.site, &span.fields);
                let receives = std::mem::take(&mut span.receives);
                if receives != 0 {
                    guard.note("_c", RawValue::Receives(receives));
                }
                guard
            })
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        if let Some(guard) = take(self.key(id)) {
            guard.end();
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        // Closed before it was exited, it is not heard of again.
        while let Some(guard) = take(self.key(&id)) {
            guard.end();
        }
        if let Some(span) = self.spans.remove(id.into_u64()) {
            span.whole.end(span.site);
            span.put_back();
        }
    }
}
