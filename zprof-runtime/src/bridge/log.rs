//! What goes to the `log` crate, recorded as instants beside zprof's own.
//!
//! A program has one logger; [`Recorder`] stands around it. While a session runs or a tool is attached, each message is an
//! instant on its thread: its name is its level and target, `WARN my_crate::net`, and its text is the metadata `message`, cut
//! to 1024 bytes.
//!
//! ```
//! # struct Mine;
//! # impl log::Log for Mine {
//! #     fn enabled(&self, _: &log::Metadata<'_>) -> bool { true }
//! #     fn log(&self, _: &log::Record<'_>) {}
//! #     fn flush(&self) {}
//! # }
//! # use zprof_runtime::bridge as zprof;
//! let logger = zprof::log::Recorder::around(Mine); // the program's own logger
//! log::set_boxed_logger(Box::new(logger)).expect("no logger is set");
//! log::set_max_level(log::LevelFilter::Info);
//! log::info!("ready"); // to the logger, and into the profile if a session runs
//! ```
//!
//! The example needs `log` with its feature `std`. Where `tracing_subscriber`'s own feature `tracing-log` makes messages into
//! events of `tracing`, as its default features and `init()` do, that is the program's logger already: take one of the two, and
//! with this one `set_global_default`, or `tracing-subscriber` without that feature.
//!
//! `error!` and `warn!` are recorded from session level 1, `info!` from 2, `debug!` and `trace!` from 3, which is the
//! default. What `log`'s own maximum level leaves out reaches no logger, and so not this one. What zprof itself warns of is
//! passed on and not recorded.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use log::{Log, Metadata, Record};

use crate::raw::{Description, NO_FILTER, RawSite, RawValue, instant, listens};
use crate::record::outcome::write_cut;
use crate::record::primitive::{Mutex, MutexGuard};
use crate::site::Level;
use crate::warn;

/// Bytes that are kept of a message.
const LONGEST: usize = 1024;

/// A logger that records what goes to the logger in it; the [module](self) says how.
#[derive(Debug)]
pub struct Recorder<L> {
    logger: L,
    /// For what has no site of its own, as the program has too many; by level.
    any: [Option<&'static RawSite>; 5],
}

impl<L: Log> Recorder<L> {
    /// Stands around the program's logger, which gets what it would get without. `log::logger()` is none, where none is set.
    pub fn around(logger: L) -> Self {
        let any = [1, 2, 3, 4, 5].map(|level| {
            let level = log::Level::iter().nth(level - 1)?;
            make(level.as_str().to_owned(), &["message", "target"], level, ("", "", 0))
        });
        Self { logger, any }
    }
}

impl<L> Recorder<L> {
    #[cold]
    fn note(&self, record: &Record<'_>) {
        // Late in a thread's life there is no memory kept.
        let mut text = TEXT.try_with(Cell::take).unwrap_or_default();
        write_cut(&mut text, LONGEST, *record.args());
        let message = RawValue::Text(&text);
        if let Some(site) = site(record) {
            instant(site, &[message]);
        } else if let Some(&Some(site)) = self.any.get(record.level() as usize - 1) {
            instant(site, &[message, RawValue::Text(record.target())]);
        }
        text.clear();
        let _ = TEXT.try_with(|kept| kept.set(text));
    }
}

impl<L: Log> Log for Recorder<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        listens(level_of(metadata.level()), NO_FILTER) || self.logger.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if listens(level_of(record.level()), NO_FILTER) && !warn::is_saying() {
            self.note(record);
        }
        if self.logger.enabled(record.metadata()) {
            self.logger.log(record);
        }
    }

    fn flush(&self) {
        self.logger.flush();
    }
}

/// How much detail a level of `log` is.
fn level_of(level: log::Level) -> Level {
    match level {
        log::Level::Error | log::Level::Warn => Level::Critical,
        log::Level::Info => Level::Info,
        log::Level::Debug | log::Level::Trace => Level::Verbose,
    }
}

thread_local! {
    /// Memory for messages.
    static TEXT: Cell<String> = const { Cell::new(String::new()) };
}

type Sites = HashMap<u64, Vec<&'static RawSite>, FixedState>;

static SITES: Mutex<Option<Sites>> = Mutex::new(None);

/// The lock that a fork must not find taken.
pub(crate) type Held = MutexGuard<'static, Option<Sites>>;

/// Takes it.
pub(crate) fn hold_all() -> Held {
    SITES.lock()
}

/// The site of a record: one for each place, level and target.
fn site(record: &Record<'_>) -> Option<&'static RawSite> {
    let (target, file, line) = (record.target(), record.file().unwrap_or_default(), record.line().unwrap_or_default());
    let level = record.level();
    let hash = FixedState::default().hash_one((target, file, line, level));
    let is_it = |site: &&&'static RawSite| {
        let site = site.site();
        let name = site.name.strip_prefix(level.as_str()).and_then(|rest| rest.strip_prefix(' '));
        name == Some(target) && site.file == file && site.line == line
    };
    let known = SITES.lock().get_or_insert_default().get(&hash).and_then(|same| same.iter().find(is_it).copied());
    known.or_else(|| {
        let place = (record.module_path().unwrap_or(target), file, line);
        let made = make(format!("{level} {target}"), &["message"], level, place)?;
        SITES.lock().get_or_insert_default().entry(hash).or_default().push(made);
        Some(made)
    })
}

fn make(name: String, keys: &[&'static str], level: log::Level, place: (&str, &str, u32)) -> Option<&'static RawSite> {
    let keys: Vec<_> = keys.iter().map(|key| (*key).into()).collect();
    let (module_path, file, line) = place;
    RawSite::make(Description {
        name: name.into(),
        keys: &keys,
        level: level_of(level),
        filter: NO_FILTER,
        module_path: module_path.to_owned().into(),
        file: file.to_owned().into(),
        line,
    })
}
