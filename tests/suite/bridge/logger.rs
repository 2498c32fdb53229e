//! Messages of the `log` crate, by the recorder around a program's logger.

use std::sync::{Arc, Mutex, PoisonError};

use log::{Level, LevelFilter, Log, Metadata, Record};
use zprof::ProfilerOptions;
use zprof::log::Recorder;
use zprof_tests::profile::{Session, Stat, stats};

/// Keeps what it is given, up to a level.
#[derive(Clone)]
struct Kept(LevelFilter, Arc<Mutex<Vec<String>>>);

impl Log for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= self.0
    }

    fn log(&self, record: &Record<'_>) {
        let text = format!("{} {}: {}", record.level(), record.target(), record.args());
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn flush(&self) {
        self.log(&Record::builder().args(format_args!("flushed")).build());
    }
}

impl Kept {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.1.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[test]
fn messages_are_instants_and_reach_the_logger_as_before() {
    log::set_max_level(LevelFilter::Trace);
    let kept = Kept(LevelFilter::Info, Arc::default());
    let recorder = Recorder::around(kept.clone());
    let both = || {
        log::warn!(logger: recorder, "literal");
        for n in 0..2 {
            log::info!(logger: recorder, target: "other target", "number {n}");
        }
        log::trace!(logger: recorder, "detail");
        recorder.flush();
    };
    let lines = || {
        let module = module_path!();
        let info = |n: u32| format!("INFO other target: number {n}");
        vec![format!("WARN {module}: literal"), info(0), info(1), "INFO : flushed".to_owned()]
    };
    let mut session = Session::new(ProfilerOptions::default());
    both();
    assert_eq!(kept.take(), lines());
    assert!(recorder.enabled(&Metadata::builder().level(Level::Info).build()));
    assert!(!recorder.enabled(&Metadata::builder().level(Level::Debug).build()));
    session.start();
    assert!(recorder.enabled(&Metadata::builder().level(Level::Trace).build()));
    let line = line!() + 1;
    log::error!(logger: recorder, "{}", "ü".repeat(1_000));
    kept.take();
    both();
    let recorded = session.stop();
    assert_eq!(kept.take(), lines());
    both();

    let cut = format!("{}…", "ü".repeat(512));
    let message = |text: &str| stats([("message", text.into())]);
    let module = module_path!();
    let names = ["ERROR", "WARN", "TRACE"].map(|level| format!("{level} {module}"));
    let [error, warn, trace] = names.each_ref().map(String::as_str);
    assert_eq!(
        recorded.own_line().told(),
        [
            (error, &message(&cut)),
            (warn, &message("literal")),
            ("INFO other target", &message("number 0")),
            ("INFO other target", &message("number 1")),
            (trace, &message("detail")),
        ]
    );
    let event = recorded.own_line().event(error);
    let source = format!("{}:{line}", file!());
    assert_eq!(event.site, stats([("module_path", module.into()), ("source", source.as_str().into())]));
    assert_eq!(event.start_ps, event.end_ps);
}

#[test]
fn levels_of_log_are_levels_of_ours() {
    log::set_max_level(LevelFilter::Trace);
    let recorder = Recorder::around(Kept(LevelFilter::Off, Arc::default()));
    for (level, count) in [(0, 0), (1, 2), (2, 3), (3, 5)] {
        let mut session = Session::new(ProfilerOptions::default().host_tracer_level(level));
        session.start();
        for level in Level::iter() {
            log::log!(logger: recorder, level, "a message");
        }
        let recorded = session.stop();
        assert_eq!(recorded.lines.iter().map(|line| line.events.len()).sum::<usize>(), count, "level {level}");
    }
}

#[test]
fn a_program_of_endless_targets_records_them_all() {
    const TARGETS: usize = 70_000;
    log::set_max_level(LevelFilter::Trace);
    let kept = Kept(LevelFilter::Off, Arc::default());
    let recorder = Recorder::around(kept);
    let mut session = Session::new(ProfilerOptions::default());
    session.start();
    for n in 0..TARGETS {
        log::info!(logger: recorder, target: &format!("target {n}"), "{n}");
    }
    let recorded = session.stop();
    let told: Vec<String> = recorded
        .own_line()
        .told()
        .into_iter()
        .map(|(name, stats)| match &stats[..] {
            [(_, Stat::Text(message))] => format!("{name}: {message}"),
            [(_, Stat::Text(message)), (key, Stat::Text(target))] if key == "target" => {
                assert_eq!(name, "INFO");
                format!("{name} {target}: {message}")
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, (0..TARGETS).map(|n| format!("INFO target {n}: {n}")).collect::<Vec<_>>());
}
