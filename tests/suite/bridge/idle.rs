//! Spans that were made while nothing recorded, and that are entered in a session.

use std::thread;

use tracing::dispatcher::{get_default, with_default};
use tracing::field::Empty;
use tracing::{Dispatch, Span};
use tracing_subscriber::layer::SubscriberExt as _;
use zprof::ProfilerOptions;
use zprof_tests::profile::{Event, Recorded, Session, Stats, stats};

use super::levels::{Written, format};
use super::{dispatch, flow, wholes};

/// A registry with a layer that keeps spans that are made while nothing records.
fn keeping() -> Dispatch {
    tracing_subscriber::registry().with(zprof::tracing::layer().keep_idle_spans(true)).into()
}

/// A part of a model as candle has it: it makes its span when it is loaded, and enters it each time that it is used.
struct Linear {
    span: Span,
}

impl Linear {
    fn load(n: u64) -> Self {
        Self { span: tracing::trace_span!("linear", n) }
    }

    fn forward(&self) {
        let _enter = self.span.enter();
    }
}

struct Block {
    span: Span,
    up: Linear,
    down: Linear,
}

impl Block {
    fn load(n: u64) -> Self {
        Self {
            span: tracing::span!(tracing::Level::TRACE, "block"),
            up: Linear::load(2 * n),
            down: Linear::load(2 * n + 1),
        }
    }

    fn forward(&self) {
        let _enter = self.span.enter();
        self.up.forward();
        self.down.forward();
    }
}

/// Where the spans of a [`Linear`] are made.
const LINEAR: u32 = 27;
const TOKENS: u64 = 20;
const WORKERS: u64 = 3;

/// The threads of the model that share its first block, each with one block more to itself.
fn generate(dispatch: &Dispatch, blocks: &[Block]) {
    let generate = |worker: usize| {
        with_default(dispatch, || {
            for _ in 0..TOKENS {
                blocks[0].forward();
                blocks[worker + 1].forward();
            }
        });
    };
    thread::scope(|scope| {
        for worker in 0..blocks.len() - 1 {
            let thread = thread::Builder::new().name(format!("worker {worker}"));
            thread.spawn_scoped(scope, move || generate(worker)).expect("a thread");
        }
    });
}

fn load(dispatch: &Dispatch) -> Vec<Block> {
    with_default(dispatch, || (0..=WORKERS).map(Block::load).collect())
}

fn of_model(recorded: &Recorded) -> impl Iterator<Item = &Event> {
    recorded.lines.iter().filter(|line| line.name.starts_with("worker")).flat_map(|line| &line.events)
}

#[test]
fn spans_that_a_loaded_model_stores_are_all_recorded_where_they_are_kept() {
    let dispatch = keeping();
    let mut session = Session::new(ProfilerOptions::default());
    let blocks = load(&dispatch);
    // What runs before the session is no part of it.
    generate(&dispatch, &blocks);
    session.start();
    generate(&dispatch, &blocks);
    let recorded = session.stop();
    assert_eq!(recorded.warnings, Vec::<String>::new());
    assert_eq!(recorded.profile.dropped_scopes, 0);
    let token = "block(linear linear)";
    let tokens = vec![token; usize::try_from(2 * TOKENS).expect("few")].join(" ");
    for worker in 0..WORKERS {
        let line = recorded.line(&format!("worker {worker}"));
        assert_eq!(line.tree(), tokens, "{}", line.name);
        let own: Vec<Stats> =
            line.events.iter().filter(|event| event.name == "linear").map(|event| flow(event).1).collect();
        // Each slice of a span that one thread enters has its fields.
        let of_token = |n: u64| [2 * n, 2 * n + 1].map(|n| stats([("n", i64::try_from(n).expect("few").into())]));
        assert_eq!(own.len() as u64, 4 * TOKENS);
        for token in own.chunks(4) {
            assert_eq!(token[2..], of_token(worker + 1));
        }
    }
    // The block that all threads enter is there as a whole, with its two parts; the others have no line of their own.
    let mut shared: Vec<(&str, Stats)> =
        wholes(&recorded).into_iter().map(|whole| (whole.name.as_str(), flow(whole).1)).collect();
    shared.sort_by_key(|(name, stats)| (*name, format!("{stats:?}")));
    let polls = i64::try_from(WORKERS * TOKENS).expect("few");
    let whole = |own: Stats| {
        [
            own,
            stats([("unfinished", 1.into()), ("started_before", 1.into()), ("polls", polls.into()), ("_a", 1.into())]),
        ]
        .concat()
    };
    let expected = [
        ("block", whole(stats([]))),
        ("linear", whole(stats([("n", 0.into())]))),
        ("linear", whole(stats([("n", 1.into())]))),
    ];
    assert_eq!(shared, expected);
}

#[test]
fn a_profile_says_how_often_unknown_spans_were_entered_and_what_to_do() {
    let dispatch = dispatch();
    let mut session = Session::new(ProfilerOptions::default());
    let linears: Vec<Linear> = with_default(&dispatch, || (0..4).map(Linear::load).collect());
    let forward = || with_default(&dispatch, || linears.iter().for_each(Linear::forward));
    forward();
    session.start();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..10).for_each(|_| forward()));
        }
    });
    with_default(&dispatch, || Linear::load(9).forward());
    let first = session.stop();
    let warning = |times: &str| {
        format!(
            "spans of `tracing` that were made while nothing recorded, such as `linear` ({}:{LINEAR}), were entered {times}, and \
             are not in the profile; make the layer by `zprof::tracing::layer().keep_idle_spans(true)`, or start the session \
             before the spans are made",
            file!()
        )
    };
    assert_eq!(first.warnings, [warning("120 times")]);
    assert_eq!(first.own_line().told(), [("linear", &stats([("n", 9.into())]))]);
    assert_eq!(of_model(&first).count(), 0);
    // The next session counts anew, and one that does not want the spans is not told of them.
    session.start();
    with_default(&dispatch, || linears[0].forward());
    assert_eq!(session.stop().warnings, [warning("once")]);
    session.start();
    assert_eq!(session.stop().warnings, Vec::<String>::new());
    drop(session);
    let mut session = Session::new(ProfilerOptions::default().host_tracer_level(2));
    session.start();
    forward();
    assert_eq!(session.stop().warnings, Vec::<String>::new());
}

#[test]
fn what_is_told_of_a_kept_span_before_the_session_stays_with_it() {
    with_default(&keeping(), || {
        let mut session = Session::new(ProfilerOptions::default());
        let (entered, stored) = (tracing::info_span!("entered"), tracing::info_span!("stored", a = 1, b = Empty));
        let [early, gone] = [&entered, &tracing::info_span!("gone")].map(Span::clone);
        drop(gone);
        stored.record("b", "late");
        let guard = early.enter();
        // Events are never kept.
        tracing::info!("unheard");
        session.start();
        stored.in_scope(|| ());
        drop(guard);
        entered.in_scope(|| ());
        let recorded = session.stop();
        let told: Vec<(&str, &Stats)> = recorded.own_line().told();
        let (before, fields) = (stats([("started_before", 1.into())]), stats([("a", 1.into()), ("b", "late".into())]));
        assert_eq!(told, [("entered", &before), ("stored", &fields), ("entered", &stats([]))]);
        assert_eq!((wholes(&recorded), &recorded.warnings), (Vec::<&Event>::new(), &Vec::new()));
    });
}

#[test]
fn a_callsite_is_off_while_nothing_records_once_its_spans_have_ended() {
    let short = || tracing::info_span!("short");
    with_default(&dispatch(), || {
        let mut session = Session::new(ProfilerOptions::default());
        let is_on = short().in_scope(|| tracing::enabled!(tracing::Level::ERROR));
        assert!(!is_on, "events are off at once");
        (0..64).for_each(|_| drop(short()));
        assert!(short().is_disabled());
        session.start();
        short().in_scope(|| ());
        let recorded = session.stop();
        assert_eq!(recorded.own_line().names(), ["short"]);
        assert_eq!(recorded.warnings, Vec::<String>::new());
        assert!(short().is_disabled());
    });
    with_default(&keeping(), || {
        let _session = Session::new(ProfilerOptions::default());
        (0..100).for_each(|_| assert!(!short().is_disabled()));
    });
}

#[test]
fn spans_that_only_other_layers_see_are_counted_when_they_are_entered() {
    let written = Written::default();
    let dispatch: Dispatch = tracing_subscriber::registry().with(zprof::tracing::layer()).with(format(&written)).into();
    let make = || tracing::info_span!("made");
    with_default(&dispatch, || {
        let mut session = Session::new(ProfilerOptions::default());
        (0..100).for_each(|_| drop(make()));
        // Our filter does not let it through any more.
        let stored = make();
        session.start();
        stored.in_scope(|| tracing::info!("heard"));
        let recorded = session.stop();
        assert_eq!(recorded.own_line().names(), [format!("INFO {}", module_path!())]);
        assert_eq!(recorded.warnings.len(), 1, "{:?}", recorded.warnings);
        assert!(recorded.warnings[0].contains("such as `made`") && recorded.warnings[0].contains("entered once"));
        assert_eq!(written.take(), ["INFO made: heard"]);
    });
}

#[test]
fn callsites_are_not_asked_where_no_subscriber_can_answer() {
    let written = Written::default();
    let dispatch: Dispatch = tracing_subscriber::registry().with(zprof::tracing::layer()).with(format(&written)).into();
    with_default(&dispatch, || {
        let _session = Session::new(ProfilerOptions::default());
        tracing::info!("before");
        let mut spans: Vec<Span> = (0..200).map(|_| tracing::info_span!("idle")).collect();
        // Nobody has a subscriber here, as `tracing` keeps those who are called from calling themselves.
        get_default(|_| spans.clear());
        let _ = tracing::info_span!("idle");
        (0..2).for_each(|_| tracing::info!("after"));
        assert_eq!(written.take(), ["INFO before", "INFO after", "INFO after"]);
    });
}
