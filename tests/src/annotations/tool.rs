//! The fake tool: runs a program with it, and gives the calls that it saw.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{Range, Span, Thread, fetched, run};
use crate::fake::built;

/// How the program finds the ROCTx library, which is loaded and traced before its `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roctx {
    /// It must load `libroctx64.so.4`.
    ByName,
    /// The functions are among the symbols of the process, as under rocprof.
    InProcess,
}

/// What the fake tool attaches to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// It is an NVTX injection library.
    pub nvtx: bool,
    /// It traces AMD's library.
    pub roctx: Option<Roctx>,
}

/// One call as the fake tool wrote it down; the crate `zprof-fake-tool` documents the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `nvtx` or `roctx`.
    pub api: String,
    /// `push`, `pop`, …
    pub call: String,
    /// The process that called.
    pub pid: u32,
    /// The thread that called.
    pub tid: u32,
    /// Name of the domain.
    pub domain: Option<String>,
    /// Message or name.
    pub label: Option<String>,
    /// Whether the message was a registered string.
    pub registered: bool,
    /// ARGB.
    pub color: Option<u32>,
    /// Number of the category.
    pub category: u32,
    /// Level of a push or pop, or number of a range or thread.
    pub id: Option<i64>,
}

/// What a program did, and what the tool saw of it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the program wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// In the order in which the tool saw them.
    pub calls: Vec<Call>,
}

/// Runs a program with the tool attached.
///
/// # Panics
///
/// Panics if the program ends badly, or if the tool saw a misuse: attributes of a wrong size, null for a message, …
#[must_use]
pub fn watch(command: &mut Command, attach: Attach) -> Seen {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let log = folder.path().join("calls");
    let tool = built("zprof_fake_tool");
    command.env("ZPROF_FAKE_TOOL_LOG", &log);
    if attach.nvtx {
        command.env("NVTX_INJECTION64_PATH", &tool);
    }
    if let Some(found) = attach.roctx {
        command.env("LD_PRELOAD", &tool).env("ZPROF_FAKE_TOOL_ROCTX", fetched("get-roctx"));
        if found == Roctx::InProcess {
            command.env("ZPROF_FAKE_TOOL_ROCTX_GLOBAL", "1");
        }
    }
    let (stdout, stderr) = run(command);
    // Without a call there is no file.
    let text = fs::read_to_string(log).unwrap_or_default();
    let calls: Vec<Call> = text.lines().map(Call::read).collect();
    let misused: Vec<&Call> = calls.iter().filter(|call| call.call == "misuse").collect();
    assert!(misused.is_empty(), "{command:?}: {misused:#?}");
    Seen { stdout, stderr, calls }
}

impl Call {
    fn read(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let number = |key: &str| value[key].as_u64().map(|number| u32::try_from(number).expect("32 bits"));
        Self {
            api: text("api").expect("every call has an api"),
            call: text("call").expect("every call has a name"),
            pid: number("pid").expect("every call has a process"),
            tid: number("tid").expect("every call has a thread"),
            domain: text("domain"),
            label: text("label"),
            registered: value["registered"] == true,
            color: number("color"),
            category: number("category").unwrap_or_default(),
            id: value["id"].as_i64(),
        }
    }

    fn label(&self) -> String {
        self.label.clone().unwrap_or_default()
    }
}

impl Seen {
    /// The calls of that name and API.
    pub fn of<'a>(&'a self, api: &'a str, call: &'a str) -> impl Iterator<Item = &'a Call> {
        self.calls.iter().filter(move |one| one.api == api && one.call == call)
    }

    /// How many calls of that name and API there are.
    #[must_use]
    pub fn count(&self, api: &str, call: &str) -> usize {
        self.of(api, call).count()
    }

    /// The threads that pushed or popped in a domain, in the order of their first such call.
    #[must_use]
    pub fn threads(&self, api: &str, domain: Option<&str>) -> Vec<Thread> {
        let mut threads: Vec<(Thread, Vec<Range>)> = Vec::new();
        let calls = self.calls.iter().filter(|one| one.api == api && one.domain.as_deref() == domain);
        for call in calls.filter(|one| one.call == "push" || one.call == "pop") {
            let known = threads.iter().position(|(thread, _)| thread.id == call.tid);
            let (thread, open) = match known {
                Some(position) => &mut threads[position],
                None => {
                    let name = self.name(call.tid);
                    threads.push((Thread { id: call.tid, name, ranges: vec![], open: 0, surplus: 0 }, vec![]));
                    threads.last_mut().expect("one was pushed")
                }
            };
            if call.call == "push" {
                let Call { registered, color, category, .. } = *call;
                open.push(Range { label: call.label(), registered, color, category, children: vec![] });
            } else {
                match open.pop() {
                    Some(range) => close(range, open, &mut thread.ranges),
                    None => thread.surplus += 1,
                }
            }
        }
        let finish = |(mut thread, mut open): (Thread, Vec<Range>)| {
            thread.open = open.len();
            while let Some(range) = open.pop() {
                close(range, &mut open, &mut thread.ranges);
            }
            thread
        };
        threads.into_iter().map(finish).collect()
    }

    /// The last name that a thread was given, through NVTX.
    fn name(&self, thread: u32) -> Option<String> {
        self.of("nvtx", "name thread").filter(|call| call.id == Some(i64::from(thread))).last()?.label.clone()
    }

    /// The ranges by start and end, in the order of their starts.
    #[must_use]
    pub fn spans(&self, api: &str) -> Vec<Span> {
        let span = |start: &Call| {
            let Call { registered, color, category, tid, .. } = *start;
            let ended_on = self.of(api, "end").filter(|end| end.id == start.id && end.pid == start.pid);
            let ended_on = ended_on.map(|end| end.tid).collect();
            Span { label: start.label(), registered, color, category, started_on: tid, ended_on }
        };
        self.of(api, "start").map(span).collect()
    }
}

/// Puts a range that has ended where it belongs.
fn close(range: Range, open: &mut [Range], ranges: &mut Vec<Range>) {
    match open.last_mut() {
        Some(parent) => parent.children.push(range),
        None => ranges.push(range),
    }
}
