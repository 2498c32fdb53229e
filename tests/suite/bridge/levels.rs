//! What is recorded is a matter of sessions and levels, and no other layer's.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use zprof::ProfilerOptions;
use zprof::tracing::layer;
use zprof_tests::profile::{Session, record, stats};

use super::dispatch;

fn one_of_each() {
    tracing::error!("e");
    tracing::warn!("w");
    tracing::info!("i");
    tracing::debug!("d");
    tracing::trace!("t");
    tracing::info_span!("info").in_scope(|| tracing::trace_span!("trace").in_scope(|| ()));
}

#[test]
fn levels_of_tracing_are_levels_of_ours() {
    let all = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].map(|level| format!("{level} {}", module_path!()));
    let spans = ["info".to_owned(), "trace".to_owned()];
    let expected =
        [(0, vec![]), (1, all[..2].to_vec()), (2, [&all[..3], &spans[..1]].concat()), (3, [&all[..], &spans].concat())];
    for (level, names) in expected {
        let recorded = tracing::dispatcher::with_default(&dispatch(), || {
            record(ProfilerOptions::default().host_tracer_level(level), one_of_each)
        });
        let told: Vec<&str> = recorded.lines.iter().flat_map(|line| line.names()).collect();
        assert_eq!(told, names, "level {level}");
    }
}

#[test]
fn where_nothing_listens_every_callsite_of_events_is_off() {
    let on = || [tracing::enabled!(tracing::Level::ERROR), tracing::enabled!(tracing::Level::TRACE)];
    tracing::dispatcher::with_default(&dispatch(), || {
        let mut session = Session::new(ProfilerOptions::default().host_tracer_level(2));
        assert_eq!(on(), [false, false]);
        let unheard = tracing::info_span!("unheard");
        session.start();
        assert_eq!(on(), [true, false]);
        unheard.in_scope(|| tracing::info!("heard"));
        let first = session.stop();
        assert_eq!(on(), [false, false]);
        one_of_each();
        session.start();
        tracing::error!("again");
        let second = session.stop();
        let name = |level: &str| format!("{level} {}", module_path!());
        assert_eq!(first.own_line().names(), [name("INFO")]);
        assert_eq!(second.own_line().told(), [(name("ERROR").as_str(), &stats([("message", "again".into())]))]);
    });
}

/// What a layer of another kind writes.
#[derive(Clone, Default)]
pub(super) struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    pub(super) fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8(bytes).expect("text").lines().map(|line| line.trim().to_owned()).collect()
    }
}

pub(super) fn format<S>(written: &Written) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    let writer = written.clone();
    let layer = tracing_subscriber::fmt::layer().without_time().with_ansi(false).with_target(false);
    layer.with_writer(move || writer.clone())
}

#[test]
fn other_layers_get_what_they_get_without_ours() {
    let written = Written::default();
    let writer = &written;
    let registry = tracing_subscriber::registry;
    let only = Targets::new().with_target(module_path!(), LevelFilter::WARN);
    let name = |level: &str| format!("{level} {}", module_path!());
    let all = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].map(name).to_vec();
    let spans = ["info".to_owned(), "trace".to_owned()];
    let everything = [all.as_slice(), &spans].concat();
    let three = || vec!["ERROR e".to_owned(), "WARN w".to_owned(), "INFO i".to_owned()];
    let five = || [three(), vec!["DEBUG d".to_owned(), "TRACE t".to_owned()]].concat();
    // Ours inside and outside, filters on either, and one over all.
    let cases: [(Dispatch, Vec<String>, Vec<String>); 6] = [
        (registry().with(layer()).with(format(writer)).into(), five(), everything.clone()),
        (registry().with(format(writer)).with(layer()).into(), five(), everything.clone()),
        (
            registry().with(format(writer).with_filter(LevelFilter::INFO)).with(layer()).into(),
            three(),
            everything.clone(),
        ),
        (registry().with(layer()).with(format(writer).with_filter(LevelFilter::INFO)).into(), three(), everything),
        (registry().with(layer().with_filter(only)).with(format(writer)).into(), five(), all[..2].to_vec()),
        (
            registry().with(layer()).with(format(writer)).with(LevelFilter::INFO).into(),
            three(),
            [&all[..3], &spans[..1]].concat(),
        ),
    ];
    for (number, (dispatch, lines, events)) in cases.into_iter().enumerate() {
        tracing::dispatcher::with_default(&dispatch, || {
            let mut session = Session::new(ProfilerOptions::default());
            one_of_each();
            assert_eq!(written.take(), lines, "case {number}, before");
            session.start();
            one_of_each();
            let recorded = session.stop();
            assert_eq!(written.take(), lines, "case {number}, during");
            assert_eq!(recorded.own_line().names(), events, "case {number}");
            one_of_each();
            assert_eq!(written.take(), lines, "case {number}, after");
        });
    }
}

#[test]
fn a_session_may_start_where_no_subscriber_is() {
    let written = Written::default();
    let dispatch: Dispatch = tracing_subscriber::registry().with(layer()).with(format(&written)).into();
    let work = || {
        let work = || {
            tracing::dispatcher::with_default(&dispatch, || {
                tracing::info_span!("work").in_scope(|| tracing::info!("at work"))
            })
        };
        thread::scope(|scope| {
            thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, work).expect("a thread");
        });
    };
    // The callsites are known before, and this thread tells nobody.
    work();
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    work();
    let recorded = session.stop();
    work();
    let event = format!("INFO {}", module_path!());
    assert_eq!(recorded.line("worker").tree(), format!("work({event})"));
    assert_eq!(written.take().len(), 3);
}

#[test]
fn registries_of_one_process_do_not_mix() {
    let [one, two] = [dispatch(), dispatch()];
    let recorded = zprof_tests::profile::recorded(|| {
        let within = |dispatch, name: &'static str| {
            tracing::dispatcher::with_default(dispatch, || {
                if name == "one" { tracing::info_span!("one", n = 1) } else { tracing::info_span!("two", n = 2) }
            })
        };
        // The first spans of two registries have the same id.
        let (first, second) = (within(&one, "one"), within(&two, "two"));
        assert_eq!(first.id(), second.id());
        first.in_scope(|| second.in_scope(|| ()));
        let (first, second) = (first.entered(), second.entered());
        drop(first);
        drop(second);
    });
    let line = recorded.own_line();
    assert_eq!(line.tree(), "one(two) one");
    assert_eq!(recorded.line(&format!("{} (overlap)", line.name)).names(), ["two"]);
    let of_first = [stats([("n", 1.into())]), stats([("n", 2.into())])];
    assert_eq!(line.events[..2].iter().map(|event| event.stats.clone()).collect::<Vec<_>>(), of_first);
}
