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
//! metadata. A span that several threads enter, as that of an instrumented future whose polls move between threads, is also
//! shown as a whole: from when it was made to when it is closed, on a line `async` of its own, as tasks are; arrows join its
//! slices. A span that only one thread enters, however often, is those slices and nothing more, such as a span that a struct
//! stores and its methods enter. What is exited on another thread than it was entered on stays open where it was entered, and is told as `leaked` or
//! `unfinished`. `tracing` also enters the span of an instrumented future while that is dropped, which nothing tells apart from
//! a poll: the last slice is the drop, and `polls` counts it.
//!
//! Fields have their types: integers, floats, truth values and text. What is only `Debug` or `Display` becomes text, cut to
//! 1024 bytes with an ellipsis behind; an error is followed by its sources. What is recorded on an open span is added to its
//! slice if that is open on the same thread, and stands on those that follow. Once a second thread has entered a span, its later
//! slices have no fields, which the whole has. Where one span follows from another that is open on this thread, an arrow leads
//! there.
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
//! Spans that were made while nothing recorded are not in a later session's profile, even if they are entered then. A warning
//! of the profile says how often such spans were entered. [`keep_idle_spans`](ZprofLayer::keep_idle_spans) keeps their names and
//! fields, so that they are recorded. A span that one session knew and that ends in the next has the mark `started_before`.
//!
//! While nothing listens, the layer disables the callsites of events for itself, and those of spans as soon as one of their
//! spans has ended: where no other layer wants them, each costs what a disabled callsite costs, 1 ns or less. Spans of a callsite
//! none of which has ended stay known to the registry, so that the layer sees when they are entered in a session; to
//! enter and leave one takes 29 ns while nothing records. With `keep_idle_spans`, a span takes 110 to 160 ns from its making to its end while nothing records, and to enter and leave one that
//! is stored takes 23 ns (x86-64, a registry with no other layer); a span that is stored takes some 250 bytes. Other layers, and
//! filters on this one, work as before.

mod fields;
#[allow(unsafe_code)] // passes on what the registry asks a layer for
mod layer;
mod sites;
mod spans;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use fields::Fields;
pub use layer::ZprofLayer;
use spans::{Lent, Span};
use tracing_core::callsite::rebuild_interest_cache;
use tracing_core::dispatcher::{self, Dispatch, WeakDispatch};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::{Interest, NoSubscriber};
use tracing_core::{Event, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::ENABLED;
use crate::ceiling::is_compiled;
use crate::os::in_signal_handler;
use crate::raw::{Key, RawValue, count_unknown, hold, instant, listens, look, take, watch};
use crate::record::primitive::{Mutex, MutexGuard};
use crate::record::{Link as _, flow};
use crate::site::{Level, NO_FILTER};

/// A layer that records spans and events; the module says how.
#[must_use]
pub fn layer<S>() -> ZprofLayer<S>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    static LAYERS: AtomicU32 = AtomicU32::new(0);
    watch(ask_again);
    let number = LAYERS.fetch_add(1, Ordering::Relaxed);
    ZprofLayer::new(Bridge { number, spans: Lent::take(), keeps_idle: false })
}

/// The subscribers that layers of ours are in, as far as they are alive.
static SUBSCRIBERS: Mutex<Vec<WeakDispatch>> = Mutex::new(Vec::new());

/// Held while callsites are asked, so that answers from before a change do not overwrite those from after it.
static ASKING: Mutex<()> = Mutex::new(());

/// The locks that a fork must not find taken.
pub(crate) type Held = (MutexGuard<'static, ()>, MutexGuard<'static, Vec<WeakDispatch>>, spans::Held, sites::Held);

/// Takes them.
pub(crate) fn hold_all() -> Held {
    (ASKING.lock(), SUBSCRIBERS.lock(), spans::hold(), sites::hold())
}

/// Has each callsite ask anew who wants it.
fn ask_again() {
    ask(&ASKING.lock());
}

/// Has each callsite ask anew who wants it.
///
/// Where there is one subscriber in the program, `tracing` asks that of the calling thread, which may have none; so it is given
/// one of ours.
fn ask(_: &MutexGuard<'_, ()>) {
    // Not dropped under the lock, as these may be the last.
    let mut alive = Vec::new();
    SUBSCRIBERS.lock().retain(|subscriber| subscriber.upgrade().map(|subscriber| alive.push(subscriber)).is_some());
    if let Some(subscriber) = alive.first() {
        dispatcher::with_default(subscriber, rebuild_interest_cache);
    }
}

/// Callsites whose spans have begun to end since all callsites were asked, and whether there are any.
static HAS_NEW_ENDS: AtomicBool = AtomicBool::new(false);

/// Spans that have ended since then. They were made for nothing.
static IDLE_ENDS: AtomicUsize = AtomicUsize::new(0);

/// Spans made for nothing before the callsites are asked again. That takes some nanoseconds for each callsite of the program.
const MOST_IDLE_ENDS: usize = 64;

/// Notes that a span has ended that was made while nothing recorded. From now on, the layer need not know of spans of this
/// callsite while nothing records: they are no spans that are stored for long.
///
/// Callsites remember their answers until all of them are asked again. That is done rarely: each time, at least one callsite has
/// been found since the last time, so there are no more such times than callsites.
fn end_idle(metadata: &'static Metadata<'static>) {
    if in_signal_handler() {
        return;
    }
    if sites::callsite(metadata).end_idle() {
        HAS_NEW_ENDS.store(true, Ordering::Relaxed);
    }
    if HAS_NEW_ENDS.load(Ordering::Relaxed) && IDLE_ENDS.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_IDLE_ENDS {
        // Within `get_default`, no other subscriber can be made the thread's default. Nobody finds one there either, as on a thread
        // that has none. Where that is so, or somebody asks already, on this thread or another, a later span does it.
        let may_ask = dispatcher::get_default(|current| !current.is::<NoSubscriber>());
        if let Some(asking) = may_ask.then(|| ASKING.try_lock()).flatten() {
            IDLE_ENDS.store(0, Ordering::Relaxed);
            HAS_NEW_ENDS.store(false, Ordering::Relaxed);
            ask(&asking);
        }
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

/// Lets through what somebody listens to, and spans that may be entered when somebody does. Its answers are kept by each
/// callsite until a session starts or stops.
#[derive(Debug)]
struct Listening {
    /// Spans are kept that are made while nothing records.
    keeps_idle: bool,
}

impl Listening {
    fn wants(&self, metadata: &Metadata<'_>, ends_idle: impl FnOnce() -> bool) -> bool {
        let level = level_of(*metadata.level());
        let may_keep = || ENABLED && metadata.is_span() && is_compiled(level);
        listens(level, NO_FILTER) || may_keep() && (self.keeps_idle || !ends_idle())
    }
}

impl<S> Filter<S> for Listening {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.wants(metadata, || sites::ends_idle(metadata))
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.wants(metadata, || sites::callsite(metadata).ends_idle()) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // Spans of all levels may be wanted while nothing listens.
        Some(if ENABLED { LevelFilter::TRACE } else { LevelFilter::OFF })
    }
}

/// The layer itself, which is told of new spans and of events that the filter lets through, and of whatever happens to any span.
#[derive(Debug)]
struct Bridge {
    /// Tells layers apart: each has a registry of its own, whose ids may be those of another.
    number: u32,
    spans: Lent,
    keeps_idle: bool,
}

impl Bridge {
    fn key(&self, id: &Id) -> Key {
        Key::Span(self.number, id.into_u64())
    }

    fn add_values(&self, id: &Id, values: &Record<'_>) {
        if !self.spans.has(id.into_u64()) {
            return;
        }
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

    fn follow(&self, id: &Id, follows: &Id) {
        if !self.spans.has(id.into_u64()) {
            return;
        }
        let number = flow().number();
        if look(self.key(follows), |guard| guard.note("_p", RawValue::Sends(number))) {
            self.spans.with(id.into_u64(), |span| span.receives = number);
        }
    }

    fn enter(&self, id: &Id, metadata: impl FnOnce() -> Option<&'static Metadata<'static>>) {
        let mut is_unknown = false;
        hold(self.key(id), || {
            let opened = self.spans.with(id.into_u64(), |span| {
                let guard = span.whole.open(span.site, &span.fields);
                let receives = std::mem::take(&mut span.receives);
                if receives != 0 {
                    guard.note("_c", RawValue::Receives(receives));
                }
                guard
            });
            is_unknown = opened.is_none();
            opened
        });
        // Asking for a handler is a call of the system's, so it comes last.
        if is_unknown && crate::raw::heard_level().is_some() && !in_signal_handler() {
            if let Some(site) = metadata().and_then(sites::of) {
                count_unknown(site);
            }
        }
    }

    fn exit(&self, id: &Id) {
        if let Some(guard) = take(self.key(id)) {
            guard.end();
        }
    }

    fn close(&self, id: &Id, metadata: impl FnOnce() -> Option<&'static Metadata<'static>>) {
        // Closed before it was exited, it is not heard of again.
        while let Some(guard) = take(self.key(id)) {
            guard.end();
        }
        if let Some(span) = self.spans.remove(id.into_u64()) {
            span.whole.end(span.site);
            span.put_back();
        } else if let Some(metadata) = metadata() {
            end_idle(metadata);
        }
    }
}

impl<S: Subscriber> Layer<S> for Bridge {
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        SUBSCRIBERS.lock().push(subscriber.downgrade());
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let metadata = attributes.metadata();
        if !self.keeps_idle && !listens(level_of(*metadata.level()), NO_FILTER) {
            return;
        }
        if let Some(site) = sites::of(metadata) {
            let mut span = Span::make(site);
            attributes.record(&mut span.fields);
            self.spans.add(id.into_u64(), span);
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
}
