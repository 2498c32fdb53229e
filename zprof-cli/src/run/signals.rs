//! Signals that ask a program to end: caught, and read one after another, with whether a person at the terminal sent
//! them.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use libc::{SIG_IGN, SIGHUP, SIGINT, SIGTERM, SIGTTOU, c_int};

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) signal: c_int,
    /// Whether the system sent it, as the terminal does at Ctrl-C, rather than a process.
    pub(super) from_terminal: bool,
}

/// Signals to this process, from now on until it ends.
#[derive(Debug)]
pub(super) struct Signals {
    reader: UnixStream,
}

impl Signals {
    /// Catches SIGINT, SIGTERM and SIGHUP. A SIGHUP that is ignored already, as under nohup, stays so.
    pub(super) fn catch() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        // A handler must not wait; what does not fit is one of many of the same.
        writer.set_nonblocking(true)?;
        let caught = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP));
        for signal in caught {
            let writer = writer.try_clone()?;
            let number = u8::try_from(signal).map_err(io::Error::other)?;
            let handler = move |info: &libc::siginfo_t| {
                // A positive code is the system's; kill(2) gives 0 on Linux and more than 0xffff on macOS.
                let from_terminal = (1..0x10000).contains(&info.si_code);
                let _ = rustix::io::write(writer.as_fd(), &[number, u8::from(from_terminal)]);
            };
            // SAFETY: the handler makes one system call on a descriptor that it owns; it neither allocates nor locks, and
            // cannot panic. The library keeps errno.
            unsafe { signal_hook_registry::register_sigaction(signal, handler) }?;
        }
        Ok(Self { reader })
    }

    /// The next signal, waiting at most so long.
    pub(super) fn next(&mut self, limit: Option<Duration>) -> io::Result<Option<Event>> {
        self.reader.set_read_timeout(limit)?;
        let mut bytes = [0; 2];
        match self.reader.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(Event { signal: bytes[0].into(), from_terminal: bytes[1] == 1 })),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Lets this process change who has the terminal while it has not got it itself.
pub(super) fn ignore_ttou() {
    // SAFETY: the signal exists, and ignoring it runs no code.
    unsafe { libc::signal(SIGTTOU, SIG_IGN) };
}

fn is_ignored(signal: c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with no new action the call only writes the present one to the pointer, which is good for it.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all bits zero are a valid sigaction, and what the call wrote is one.
    let action = unsafe { action.assume_init() };
    result == 0 && action.sa_sigaction == SIG_IGN
}
