//! The real Nsight Systems: records a program, and gives what its own export holds.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::{Range, Span, Thread, fetched, run};

/// What Nsight Systems recorded of one process.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the program wrote to standard output, and nsys besides.
    pub stdout: String,
    /// Ranges by push and pop of one domain, a thread each, in the order of their first range.
    pub threads: Vec<Thread>,
    /// Ranges by start and end of that domain, in the order of their starts.
    pub spans: Vec<Span>,
    /// Marks of that domain.
    pub marks: Vec<String>,
    /// Names of that domain's categories.
    pub categories: BTreeMap<u32, String>,
    /// Names of all domains that were created.
    pub domains: Vec<String>,
}

/// Reads what is needed of nsys's tables. Texts may not be UTF-8, which sqlite3 does not expect.
const READ: &str = "
import json, sqlite3, sys
base = sqlite3.connect(sys.argv[1])
base.text_factory = lambda text: text.decode('utf-8', 'replace')
tables = {name for (name,) in base.execute('select name from sqlite_master')}
events = []
if 'NVTX_EVENTS' in tables:
    events = base.execute('''
        select start, end, eventType, coalesce(text, value, ''), textId is not null, color, coalesce(category, 0), domainId,
            globalTid, endGlobalTid
        from NVTX_EVENTS left join StringIds on id = textId order by start, NVTX_EVENTS.rowid''').fetchall()
names = base.execute('select globalTid, value from ThreadNames join StringIds on id = nameId').fetchall()
(end,) = base.execute('select duration from ANALYSIS_DETAILS').fetchone()
json.dump({'events': events, 'names': names, 'end': end}, sys.stdout)
";

const CATEGORY: u64 = 33;
const MARK: u64 = 34;
const PUSHED: u64 = 59;
const STARTED: u64 = 60;
const DOMAIN: u64 = 75;

/// A row of nsys's table of events.
struct Event {
    start: u64,
    end: Option<u64>,
    kind: u64,
    label: String,
    registered: bool,
    color: Option<u32>,
    category: u32,
    domain: u64,
    thread: u32,
    end_thread: Option<u32>,
}

/// Runs a program under Nsight Systems, which records its NVTX calls, and gives those of one domain.
///
/// # Panics
///
/// Panics if the program or nsys ends badly. Where nsys says that its agent failed, the memory that its instances share was left
/// locked by one that was killed: remove `/dev/shm/NSys-*`.
#[must_use]
pub fn profile(command: &Command, domain: &str) -> Report {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (report, base) = (folder.path().join("run.nsys-rep"), folder.path().join("run.sqlite"));
    let nsys = fetched("get-nsys");
    let mut under = Command::new(&nsys);
    under.args(["profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none", "--output"]).arg(&report);
    under.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => under.env(name, value),
            None => under.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        under.current_dir(folder);
    }
    // Its instances share memory under a lock in the temporary folder: one folder for all, or they destroy each other's.
    under.env_remove("TMPDIR");
    let (stdout, _) = run(&mut under);
    run(Command::new(&nsys).args(["export", "--type=sqlite", "--quiet=true", "--output"]).arg(&base).arg(&report));
    let (text, _) = run(Command::new("python3").args(["-c", READ]).arg(&base));
    let tables: Value = serde_json::from_str(&text).expect("the reader prints JSON");
    let rows = tables["events"].as_array().expect("a list");
    let events: Vec<Event> = rows.iter().map(Event::read).collect();
    let numbers: Vec<u64> =
        events.iter().filter(|event| event.kind == DOMAIN && event.label == domain).map(|event| event.domain).collect();
    let of = |kind: u64| events.iter().filter(move |event| event.kind == kind);
    let ours = |kind: u64| of(kind).filter(|event| numbers.contains(&event.domain));

    let end = tables["end"].as_u64().expect("a number");

    Report {
        stdout,
        threads: threads(ours(PUSHED), &names(&tables["names"]), end),
        spans: ours(STARTED).map(|event| event.span(end)).collect(),
        marks: ours(MARK).map(|event| event.label.clone()).collect(),
        categories: ours(CATEGORY).map(|event| (event.category, event.label.clone())).collect(),
        domains: of(DOMAIN).map(|event| event.label.clone()).collect(),
    }
}

/// The thread's number, in what nsys makes of machine, process and thread.
fn thread(global: &Value) -> Option<u32> {
    global.as_u64().map(|global| u32::try_from(global & 0xff_ffff).expect("24 bits"))
}

/// Names of threads of every process of the machine, by their number; those of threads that had ended were given by NVTX.
fn names(rows: &Value) -> BTreeMap<u32, String> {
    let rows = rows.as_array().expect("a list").iter();
    rows.filter_map(|row| Some((thread(&row[0])?, row[1].as_str()?.to_owned()))).collect()
}

fn threads<'a>(events: impl Iterator<Item = &'a Event>, names: &BTreeMap<u32, String>, end: u64) -> Vec<Thread> {
    let mut threads: Vec<(Thread, Vec<&Event>)> = Vec::new();
    for event in events {
        let known = threads.iter().position(|(thread, _)| thread.id == event.thread);
        let position = known.unwrap_or_else(|| {
            let name = names.get(&event.thread).cloned();
            threads.push((Thread { id: event.thread, name, ranges: vec![], open: 0, surplus: 0 }, vec![]));
            threads.len() - 1
        });
        threads[position].1.push(event);
    }
    let finish = |(mut thread, events): (Thread, Vec<&Event>)| {
        thread.open = events.iter().filter(|event| event.is_open(end)).count();
        thread.ranges = nest(&mut events.into_iter().peekable(), u64::MAX);
        thread
    };
    threads.into_iter().map(finish).collect()
}

/// The ranges that start before `end`, with what lies in them.
fn nest<'a>(events: &mut std::iter::Peekable<impl Iterator<Item = &'a Event>>, end: u64) -> Vec<Range> {
    let mut ranges = Vec::new();
    while let Some(event) = events.next_if(|event| event.start < end) {
        let mut range = event.range();
        range.children = nest(events, event.end.unwrap_or(end));
        ranges.push(range);
    }
    ranges
}

impl Event {
    fn read(row: &Value) -> Self {
        let number = |column: usize| row[column].as_u64();
        let small = |column: usize| number(column).map(|number| u32::try_from(number).expect("32 bits"));
        Self {
            start: number(0).expect("every event starts"),
            end: number(1),
            kind: number(2).expect("every event has a type"),
            label: row[3].as_str().expect("coalesced to a text").to_owned(),
            registered: number(4) == Some(1),
            color: small(5),
            category: small(6).expect("coalesced to a number"),
            domain: number(7).unwrap_or_default(),
            thread: thread(&row[8]).expect("every event has a thread"),
            end_thread: thread(&row[9]),
        }
    }

    fn range(&self) -> Range {
        let Self { registered, color, category, .. } = *self;
        Range { label: self.label.clone(), registered, color, category, children: vec![] }
    }

    /// Whether it was never ended: then it lasts as long as the recording.
    fn is_open(&self, end: u64) -> bool {
        self.end.is_none_or(|its| its >= end)
    }

    fn span(&self, end: u64) -> Span {
        let Range { label, registered, color, category, .. } = self.range();
        // Where a range ends on the thread that started it, nsys names that only once.
        let ended_on = if self.is_open(end) { vec![] } else { vec![self.end_thread.unwrap_or(self.thread)] };
        Span { label, registered, color, category, started_on: self.thread, ended_on }
    }
}
