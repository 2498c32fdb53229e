//! Calls NVTX or ROCTx itself, without zprof, so that what the tools show of known calls can be tested: `annotate nvtx|long|roctx`.
#![allow(unsafe_code)] // calls C functions

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int};
use std::{env, thread};

use libloading::Library;
use nvtx_sys::ffi;

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        Some("nvtx") => nvtx(),
        Some("long") => long(),
        Some("roctx") => roctx(),
        other => Err(format!("no such part: {other:?}").into()),
    }
}

#[derive(Clone, Copy)]
struct Domain(ffi::nvtxDomainHandle_t);

// SAFETY: NVTX allows its handles on any thread.
unsafe impl Send for Domain {}

#[derive(Clone, Copy)]
enum Message<'a> {
    Plain(&'a CStr),
    Registered(ffi::nvtxStringHandle_t),
}

impl Domain {
    fn new(name: &CStr) -> Self {
        // SAFETY: the name is a C string.
        Self(unsafe { ffi::nvtxDomainCreateA(name.as_ptr()) })
    }

    fn register<'a>(self, text: &CStr) -> Message<'a> {
        // SAFETY: the handle is this domain's, the text is a C string.
        Message::Registered(unsafe { ffi::nvtxDomainRegisterStringA(self.0, text.as_ptr()) })
    }

    fn push(self, message: Message<'_>, color: Option<u32>, category: u32) -> c_int {
        let event = event(message, color, category);
        // SAFETY: the handle is this domain's, the structure is whole and alive.
        unsafe { ffi::nvtxDomainRangePushEx(self.0, &raw const event) }
    }

    fn pop(self) -> c_int {
        // SAFETY: the handle is this domain's.
        unsafe { ffi::nvtxDomainRangePop(self.0) }
    }
}

fn event(message: Message<'_>, color: Option<u32>, category: u32) -> ffi::nvtxEventAttributes_t {
    let (kind, value) = match message {
        Message::Plain(text) => {
            (ffi::nvtxMessageType_t::NVTX_MESSAGE_TYPE_ASCII, ffi::nvtxMessageValue_t { ascii: text.as_ptr() })
        }
        Message::Registered(handle) => {
            (ffi::nvtxMessageType_t::NVTX_MESSAGE_TYPE_REGISTERED, ffi::nvtxMessageValue_t { registered: handle })
        }
    };
    ffi::nvtxEventAttributes_t {
        version: nvtx_sys::NVTX_VERSION.unsigned_abs(),
        size: u16::try_from(nvtx_sys::NVTX_EVENT_ATTRIBUTES_SIZE).expect("48 bytes"),
        category,
        colorType: i32::from(color.is_some()),
        color: color.unwrap_or_default(),
        payloadType: 0,
        reserved0: 0,
        payload: ffi::nvtxEventAttributes_v2_payload_t { ullValue: 0 },
        messageType: kind.into(),
        message: value,
    }
}

fn name_thread(name: &CStr) {
    // SAFETY: gettid only asks the kernel.
    let thread = unsafe { libc::gettid() }.unsigned_abs();
    // SAFETY: the name is a C string.
    unsafe { ffi::nvtxNameOsThreadA(thread, name.as_ptr()) };
}

/// Everything that zprof may use, on two threads.
fn nvtx() -> Result<(), Box<dyn Error>> {
    name_thread(c"the main one");
    let domain = Domain::new(c"TSL");
    if domain.0.is_null() {
        println!("no tool: {} {}", domain.push(Message::Plain(c"nothing"), None, 0), domain.pop());
    }
    // SAFETY: the handle is this domain's, the name is a C string.
    unsafe { ffi::nvtxDomainNameCategoryA(domain.0, 7, c"llm::decode".as_ptr()) };
    let step = domain.register(c"llm.step#step=1#");
    domain.push(step, Some(0xff00_ff00), 7);
    domain.push(Message::Plain(c"matmul#m=2,n=3#"), Some(0x80ff_0000), 7);
    domain.pop();
    domain.push(Message::Plain(c""), None, 0);
    domain.push(Message::Plain(c"caf\u{e9} \u{1f980}\tline\nbreak"), None, 0);
    domain.pop();
    domain.pop();
    domain.pop();
    domain.pop();
    let other = Domain::new(c"another");
    other.push(Message::Plain(c"elsewhere"), None, 0);
    domain.push(step, None, 0);
    other.pop();
    domain.pop();
    let mark = event(Message::Plain(c"a mark"), None, 0);
    // SAFETY: the handle is this domain's, the structure is whole and alive.
    unsafe { ffi::nvtxDomainMarkEx(domain.0, &raw const mark) };
    let begun = event(Message::Plain(c"async"), Some(0xff00_00ff), 3);
    // SAFETY: as above.
    let here = unsafe { ffi::nvtxDomainRangeStartEx(domain.0, &raw const begun) };
    // SAFETY: as above.
    let there = unsafe { ffi::nvtxDomainRangeStartEx(domain.0, &raw const begun) };
    // SAFETY: as above.
    unsafe { ffi::nvtxDomainRangeStartEx(domain.0, &raw const begun) };
    let work = move || {
        let domain = domain;
        name_thread(c"worker with a name of more than 15");
        // SAFETY: the range was started and is ended once.
        unsafe { ffi::nvtxDomainRangeEnd(domain.0, there) };
        domain.push(Message::Plain(c"in the worker"), None, 0);
        domain.pop();
        domain.push(Message::Plain(c"left open"), None, 0);
    };
    thread::spawn(work).join().map_err(|_| "the worker panicked")?;
    // SAFETY: as above.
    unsafe { ffi::nvtxDomainRangeEnd(domain.0, here) };
    Ok(())
}

/// Messages of lengths around what Nsight Systems takes, each between two others in a range.
fn long() -> Result<(), Box<dyn Error>> {
    let domain = Domain::new(c"TSL");
    for length in [65_000, 66_000] {
        let text = CString::new("x".repeat(length))?;
        domain.push(Message::Plain(c"around"), None, 0);
        domain.push(Message::Plain(&text), Some(1), 2);
        domain.pop();
        domain.push(Message::Plain(c"after"), None, 0);
        domain.pop();
        domain.pop();
        domain.push(domain.register(&text), Some(1), 2);
        domain.pop();
    }
    Ok(())
}

/// Every function of ROCTx, found as zprof does.
fn roctx() -> Result<(), Box<dyn Error>> {
    #[cfg(unix)]
    let global = Library::from(libloading::os::unix::Library::this());
    // SAFETY: the function has that type wherever it is.
    let found = unsafe { global.get::<Push>(b"roctxRangePushA\0") }.is_ok();
    println!("in the process: {found}");
    // SAFETY: the library has no constructors of its own.
    let load = || unsafe { Library::new("libroctx64.so.4") };
    let library = if found { global } else { load()? };
    // SAFETY: the types are those of AMD's header, here and below.
    let mark = unsafe { library.get::<unsafe extern "C" fn(*const c_char)>(b"roctxMarkA\0") }?;
    // SAFETY: as above.
    let push = unsafe { library.get::<Push>(b"roctxRangePushA\0") }?;
    // SAFETY: as above.
    let pop = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"roctxRangePop\0") }?;
    // SAFETY: as above.
    let start = unsafe { library.get::<unsafe extern "C" fn(*const c_char) -> u64>(b"roctxRangeStartA\0") }?;
    // SAFETY: as above.
    let stop = unsafe { library.get::<unsafe extern "C" fn(u64)>(b"roctxRangeStop\0") }?;
    // SAFETY: the message is a C string.
    let push = |text: &CStr| unsafe { push(text.as_ptr()) };
    // SAFETY: a pop too many is allowed.
    let pop = || unsafe { pop() };

    println!("push {}", push(c"outer"));
    println!("push {}", push(c"inner#k=v#"));
    println!("pop {}", pop());
    // SAFETY: the message is a C string.
    unsafe { mark(c"a mark".as_ptr()) };
    println!("pop {}", pop());
    println!("pop {}", pop());
    // SAFETY: the message is a C string.
    let range = unsafe { start(c"async".as_ptr()) };
    println!("start {range}");
    // SAFETY: the range was started.
    unsafe { stop(range) };
    Ok(())
}

type Push = unsafe extern "C" fn(*const c_char) -> c_int;
