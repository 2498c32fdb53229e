//! Cost of one scope while an NVTX tool is attached that does nothing, beside the bare NVTX calls; and while there is none.
//!
//! A tool is there for the whole of a process, so each table is a process: this one, run again. All rows of a table run round
//! by round in turn, and the least of the rounds counts.

use std::env;
use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::io::Write;
use std::process::Command;
use std::time::Instant;

use nvtx_sys::{ColorType, EventAttributes, MessageType, MessageValue, PayloadType, PayloadValue, ffi};

const SCOPES: u64 = 100_000;
/// Variable by which this program tells itself which table is wanted.
const PART: &str = "ZPROF_BENCH_PART";

fn main() {
    match env::var(PART).as_deref() {
        Ok("alone") => table("no tool, no session", "nvtx push and pop, registered"),
        Ok(_) => table("a tool that does nothing, no session", "nvtx push and pop, registered"),
        Err(_) => {
            run("alone", None);
            run("tool", Some(zprof_tests::fake::built("zprof_fake_tool").as_os_str()));
        }
    }
}

fn run(part: &str, tool: Option<&std::ffi::OsStr>) {
    let mut command = Command::new(env::current_exe().expect("a running program has a path"));
    command.args(env::args_os().skip(1)).env(PART, part);
    match tool {
        Some(tool) => command.env("NVTX_INJECTION64_PATH", tool),
        None => command.env_remove("NVTX_INJECTION64_PATH"),
    };
    assert!(command.status().expect("this program can be run again").success());
}

fn time(mut body: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for index in 0..SCOPES {
        body(index);
    }
    start.elapsed().as_nanos() as f64 / SCOPES as f64
}

fn attributes(kind: MessageType, message: MessageValue) -> EventAttributes {
    EventAttributes {
        version: 3,
        size: 48,
        category: 1,
        colorType: ColorType::NVTX_COLOR_ARGB.into(),
        color: 0xff00_ff00,
        payloadType: PayloadType::NVTX_PAYLOAD_UNKNOWN.into(),
        reserved0: 0,
        payload: PayloadValue { ullValue: 0 },
        messageType: kind.into(),
        message,
    }
}

#[derive(Clone, Copy)]
struct Domain(ffi::nvtxDomainHandle_t);

impl Domain {
    fn new(name: &CStr) -> Self {
        // SAFETY: the name is a C string.
        Self(unsafe { ffi::nvtxDomainCreateA(name.as_ptr()) })
    }

    fn range(self, attributes: &EventAttributes) {
        // SAFETY: the handle is what NVTX gave, and the attributes are whole.
        black_box(unsafe { ffi::nvtxDomainRangePushEx(self.0, attributes) });
        // SAFETY: as above.
        black_box(unsafe { ffi::nvtxDomainRangePop(self.0) });
    }
}

fn table(title: &str, floor: &str) {
    let rounds = if env::args().any(|argument| argument == "--quick") { 5 } else { 60 };
    let domain = Domain::new(c"bare");
    // SAFETY: the handle is what NVTX gave, and the text is a C string.
    let registered = unsafe { ffi::nvtxDomainRegisterStringA(domain.0, c"matmul".as_ptr()) };
    let registered = attributes(MessageType::NVTX_MESSAGE_TYPE_REGISTERED, MessageValue { registered });
    let text = CString::new("matmul#m=1234,n=7#").expect("no NUL");
    let text = text.into_raw();
    let path = black_box(String::from("weights"));
    let mut rows: Vec<(&str, Box<dyn FnMut() -> f64>)> = vec![
        ("nvtx push and pop, registered", Box::new(move || time(|_| domain.range(black_box(&registered))))),
        (
            "nvtx push and pop, ready text",
            Box::new(move || {
                time(|_| {
                    let message = MessageValue { ascii: black_box(text) };
                    domain.range(&attributes(MessageType::NVTX_MESSAGE_TYPE_ASCII, message));
                })
            }),
        ),
        (
            "nvtx push and pop, write! of 2 ints",
            Box::new(move || {
                time(|index| {
                    let mut buffer = [0_u8; 64];
                    let _ = write!(&mut buffer[..63], "matmul#m={},n={}#", index, black_box(7_u32));
                    let message = MessageValue { ascii: black_box(&buffer).as_ptr().cast() };
                    domain.range(&attributes(MessageType::NVTX_MESSAGE_TYPE_ASCII, message));
                })
            }),
        ),
        (
            "zprof, static label",
            Box::new(|| {
                time(|_| {
                    zprof::scope!("matmul");
                })
            }),
        ),
        (
            "zprof, all literal",
            Box::new(|| {
                time(|_| {
                    zprof::scope!("matmul", m = 1234, n = 7);
                })
            }),
        ),
        (
            "zprof, 2 ints",
            Box::new(|| {
                time(|index| {
                    zprof::scope!("matmul", m = index, n = 7_u32);
                })
            }),
        ),
        (
            "zprof, text + int",
            Box::new(move || {
                time(|index| {
                    zprof::scope!("read", path, n = index);
                })
            }),
        ),
    ];
    let mut best = vec![f64::INFINITY; rows.len()];
    for _ in 0..rounds {
        for ((_, run), best) in rows.iter_mut().zip(&mut best) {
            *best = best.min(run());
        }
    }
    let base = rows.iter().zip(&best).find(|((name, _), _)| *name == floor).map_or(f64::NAN, |(_, best)| *best);
    println!("\n{title}\n{:<34}{:>10}{:>10}", "", "ns", "ratio");
    for ((name, _), best) in rows.iter().zip(&best) {
        println!("{name:<34}{best:>10.2}{:>10.2}", best / base);
    }
}
