//! os_signpost: intervals and events in Instruments, on the track *Points of Interest*.
//!
//! Instruments can start at any time, so the backend always counts as attached, and asks for each scope whether
//! signposts are taken now: nothing is formatted or sent otherwise. What is sent, and when, is decided here over the
//! trait [`System`], which tests play; the calls themselves are in `system.rs`. Those last few lines have not been run
//! under Instruments.

#[cfg(target_os = "macos")]
#[allow(unsafe_code)] // calls the system
mod system;

use std::ffi::{CStr, c_char};

use super::{Backend, Label};

/// The backend on this system.
#[cfg(target_os = "macos")]
pub(super) static OS: Signpost<system::Macos> = Signpost(system::Macos);

/// Kind of a signpost, as the system numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Something happens.
    Event = 0,
    /// An interval begins.
    Begin = 1,
    /// The interval with the same id ends.
    End = 2,
}

/// What signposts need of a system.
pub(super) trait System: Sync {
    /// Whether the system has signposts at all.
    fn has_log(&self) -> bool;
    /// Whether anybody takes those of our log now.
    fn is_enabled(&self) -> bool;
    /// Sends one. `arguments` are encoded as its format wants them, and what they point at lives through the call.
    fn emit(&self, kind: Kind, id: u64, arguments: Option<Arguments>);
}

/// The arguments of the format `%{public}s`, as os_log encodes them: flags, count, then for each argument its type, its
/// size and its bytes.
pub(super) type Arguments = [u8; 4 + size_of::<usize>()];

/// Flags of the whole: some argument is no plain number.
const HAS_NON_SCALAR: u8 = 0x02;
/// Type of an argument: a C string, in the upper half, which may be shown to anybody, in the lower.
const PUBLIC_STRING: u8 = 0x22;

/// The id of what needs none, as the system has it (`OS_SIGNPOST_ID_EXCLUSIVE`).
const NO_ID: u64 = 0xeeee_b0b5_b2b2_eeee;

fn arguments(label: *const c_char) -> Arguments {
    let mut arguments = [0; 4 + size_of::<usize>()];
    let size = const { size_of::<usize>() as u8 }; // 4 or 8
    arguments[..4].copy_from_slice(&[HAS_NON_SCALAR, 1, PUBLIC_STRING, size]);
    arguments[4..].copy_from_slice(&label.addr().to_ne_bytes());
    arguments
}

/// Signposts of a system.
pub(super) struct Signpost<S>(S);

impl<S: System> Backend for Signpost<S> {
    fn may_load(&self) -> bool {
        false
    }

    fn attach(&self) -> bool {
        self.0.has_log()
    }

    fn push(&self, label: Label<'_>, id: u64) {
        if self.0.is_enabled() {
            self.0.emit(Kind::Begin, id, Some(arguments(label.as_ptr())));
        }
    }

    fn mark(&self, label: Label<'_>) {
        if self.0.is_enabled() {
            self.0.emit(Kind::Event, NO_ID, Some(arguments(label.as_ptr())));
        }
    }

    /// An end whose begin was not taken is ignored by the system, and a begin is not left open because recording
    /// stopped in between: ends are sent whenever somebody takes them.
    fn pop(&self, id: u64) {
        if self.0.is_enabled() {
            self.0.emit(Kind::End, id, None);
        }
    }

    /// The system knows its threads' names.
    fn name_thread(&self, _tid: u64, _name: &CStr) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::site::{Level, Memo, NO_FILTER, Site};

    /// A system that keeps what it is sent.
    struct Fake {
        enabled: AtomicBool,
        sent: Mutex<Vec<(Kind, u64, Option<Arguments>)>>,
    }

    impl System for Fake {
        fn has_log(&self) -> bool {
            true
        }

        fn is_enabled(&self) -> bool {
            self.enabled.load(Ordering::Relaxed)
        }

        fn emit(&self, kind: Kind, id: u64, arguments: Option<Arguments>) {
            self.sent.lock().expect("no test panics with it").push((kind, id, arguments));
        }
    }

    static SITE: Site = Site {
        name: "a",
        label: "a#k=1#\0",
        given: 1,
        keys: &["k"],
        level: Level::Critical,
        filter: NO_FILTER,
        module_path: "m",
        file: "f",
        line: 1,
        memo: Memo::new(),
    };
    const LABEL: Label<'static> = Label { site: &SITE, written: None };

    #[test]
    fn signposts_go_out_only_while_somebody_takes_them() {
        let signpost = Signpost(Fake { enabled: AtomicBool::new(false), sent: Mutex::new(Vec::new()) });
        assert!(signpost.attach() && !signpost.may_load());
        signpost.push(LABEL, 1);
        signpost.mark(LABEL);
        signpost.0.enabled.store(true, Ordering::Relaxed);
        signpost.push(LABEL, 2);
        signpost.mark(LABEL);
        signpost.pop(2);
        signpost.pop(1);
        signpost.push(LABEL, 3);
        signpost.0.enabled.store(false, Ordering::Relaxed);
        signpost.pop(3);
        let label = SITE.label.as_ptr().addr().to_ne_bytes();
        let size = u8::try_from(label.len()).expect("4 or 8");
        let begin = [vec![2, 1, 0x22, size], label.to_vec()].concat();
        let begin = Some(Arguments::try_from(begin).expect("has the length"));
        let sent = signpost.0.sent.into_inner().expect("no test panics with it");
        let expected = [
            (Kind::Begin, 2, begin),
            (Kind::Event, NO_ID, begin),
            (Kind::End, 2, None),
            (Kind::End, 1, None),
            (Kind::Begin, 3, begin),
        ];
        assert_eq!(sent, expected);
    }
}
