//! A program whose time-stamp counter is at fault: `jumping PART FOLDER`. Linux lets a process catch the instruction that
//! reads the counter, and this program puts its own numbers in the place of what it reads.
#![allow(unsafe_code)] // catches a signal

use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [part, folder] = arguments.as_slice() else { return Err("jumping PART FOLDER".into()) };
    counter::play(part, folder.as_ref())
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod counter {
    pub(super) fn play(_part: &str, _folder: &std::path::Path) -> super::Outcome {
        Err("this system does not let a program catch reads of its counter".into())
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod counter {
    use std::arch::x86_64::__rdtscp;
    use std::cell::Cell;
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;
    use std::path::Path;
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use zprof::{Platform, ProfilerOptions};

    /// So far is a counter off: some days.
    const FAR: u64 = 1 << 50;

    /// Added to the counter of all threads.
    static OFFSET: AtomicU64 = AtomicU64::new(FAR);
    /// Where the system's code is that programs call to read a clock: it has the true counter.
    static SYSTEM: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        /// Added to the counter of this thread.
        static OWN: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn play(part: &str, folder: &Path) -> super::Outcome {
        catch();
        let mut profiler = Platform::host().profiler(ProfilerOptions::default().repository_path(folder))?;
        profiler.start()?;
        zprof::scope!("outer");
        let work = |from: i32| {
            for n in from..from + 100 {
                zprof::scope!("work", n);
                zprof::counter!("count", n);
            }
        };
        let on_thread = |own: u64| -> super::Outcome {
            let work = move || {
                OWN.set(own);
                work(100);
            };
            let thread = thread::Builder::new().name("other".to_owned()).spawn(work)?;
            thread.join().map_err(|_| "the thread panicked".into())
        };
        work(0);
        match part {
            "steady" => work(100),
            "back" => {
                OFFSET.store(0, Ordering::Relaxed);
                work(100);
            }
            "ahead" => on_thread(FAR)?,
            "behind" => on_thread(FAR.wrapping_neg())?,
            _ => return Err(format!("no such part: {part}").into()),
        }
        profiler.stop()?;
        Ok(())
    }

    fn catch() {
        // SAFETY: getauxval takes any number.
        SYSTEM.store(unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) }, Ordering::Relaxed);
        // SAFETY: all bits zero are a valid sigaction.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_read;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler takes what SA_SIGINFO gives and calls only what a handler may call.
        assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, null_mut()) }, 0);
        let_read(false);
    }

    /// Lets this thread, and threads that it starts, read the counter, or has them send a signal.
    fn let_read(may: bool) {
        let mode = if may { libc::PR_TSC_ENABLE } else { libc::PR_TSC_SIGSEGV };
        // SAFETY: the call changes nothing but whether the counter can be read.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_TSC, mode) }, 0);
    }

    fn place(register: c_int) -> usize {
        usize::try_from(register).unwrap_or(0)
    }

    extern "C" fn on_read(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: a handler is given the context of what it has interrupted.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        let registers = &mut context.uc_mcontext.gregs;
        let at = registers[place(libc::REG_RIP)].cast_unsigned();
        let code = std::ptr::with_exposed_provenance::<[u8; 3]>(usize::try_from(at).unwrap_or(0));
        // SAFETY: the program was about to run what stands there; neither instruction is at the very end of its page.
        let len = match unsafe { code.read_unaligned() } {
            [0x0f, 0x31, _] => 2,
            [0x0f, 0x01, 0xf9] => 3,
            // Another fault.
            _ => std::process::abort(),
        };
        let_read(true);
        let mut processor = 0;
        // SAFETY: processors that Linux lets catch this have the instruction, and the pointer is to a live number.
        let counter = unsafe { __rdtscp(&raw mut processor) };
        let_read(false);
        let is_system = at.wrapping_sub(SYSTEM.load(Ordering::Relaxed)) < 1 << 14;
        let own = OFFSET.load(Ordering::Relaxed).wrapping_add(OWN.get());
        let counter = if is_system { counter } else { counter.wrapping_add(own) };
        registers[place(libc::REG_RAX)] = i64::from(counter as u32);
        registers[place(libc::REG_RDX)] = i64::from((counter >> 32) as u32);
        if len == 3 {
            registers[place(libc::REG_RCX)] = i64::from(processor);
        }
        registers[place(libc::REG_RIP)] = at.wrapping_add(len).cast_signed();
    }
}
