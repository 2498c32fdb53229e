//! Call sites: what the compiler knows of a scope, fixed in the binary as one static each.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::atomic::AtomicU64;

/// How much detail a scope is; a session records scopes up to its `host_tracer_level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Recorded whenever a session records host scopes at all (level 1 and above).
    Critical = 1,
    /// Recorded from level 2.
    Info = 2,
    /// Recorded from level 3, the default of a session.
    Verbose = 3,
}

/// Longest label that tools are given, in bytes, the NUL at its end included. Nsight Systems loses ranges with labels of
/// more than 65,000 bytes, and with them the order of the others.
pub(crate) const LABEL_SIZE: usize = 4096;

/// One call site of a scope, span or traced function.
#[derive(Debug)]
pub struct Site {
    /// Name of the scope, as written.
    pub name: &'static str,
    /// Static part of the one-line label: `name`, `name#key=` before the first value that is no literal, or the whole
    /// `name#k=v#` where every value is one. A NUL follows, so that C can read it.
    pub label: &'static str,
    /// How many of the values stand in the label.
    pub given: usize,
    /// Metadata keys, in the order of the values.
    pub keys: &'static [&'static str],
    /// Detail level.
    pub level: Level,
    /// Filter bits; a site without a filter has all of them.
    pub filter: u64,
    /// Module that holds the site.
    pub module_path: &'static str,
    /// Source file, as the compiler was given it.
    pub file: &'static str,
    /// Line of the macro call.
    pub line: u32,
    /// What was found out about the site at run time.
    pub memo: Memo,
}

impl Site {
    /// Whether the label can be shown as it is: it needs no values of a scope's own, and is not too long.
    #[inline]
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.given == self.keys.len() && self.label.len() <= LABEL_SIZE
    }

    /// The label without the NUL behind it.
    #[must_use]
    pub fn label(&self) -> &'static str {
        self.label.trim_end_matches('\0')
    }
}

/// A place in each site for what is found out at run time. It begins empty.
#[derive(Debug)]
pub struct Memo {
    /// What an annotation backend prepared for the site. Filled once.
    prepared: AtomicPtr<()>,
    /// Whether the directives of a session take the site, in the lowest bit, and the number of that session, in the upper
    /// half. Written by any thread; that of another session is of no use.
    verdict: AtomicU64,
}

#[allow(dead_code)] // it is for backends, which are a matter of features
impl Memo {
    /// An empty one.
    #[must_use]
    #[allow(clippy::new_without_default)] // for statics, which only constants can fill
    pub const fn new() -> Self {
        Self { prepared: AtomicPtr::new(std::ptr::null_mut()), verdict: AtomicU64::new(0) }
    }

    /// What was put there, or null.
    #[inline]
    pub(crate) fn get(&self) -> *mut () {
        // Acquire pairs with the Release in `put`: what the pointer leads to is whole.
        self.prepared.load(Ordering::Acquire)
    }

    /// Puts `value` there if the place is empty. Gives what stands there then: `value`, or what another thread put.
    pub(crate) fn put(&self, value: *mut ()) -> *mut () {
        // Release pairs with the Acquire in `get`, and Acquire here is that same load.
        match self.prepared.compare_exchange(std::ptr::null_mut(), value, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => value,
            Err(other) => other,
        }
    }

    /// Whether session `epoch` takes the site, where that is known. Sessions are numbered from 1.
    #[inline]
    pub(crate) fn verdict(&self, epoch: u32) -> Option<bool> {
        // The whole answer is in this one word.
        let verdict = self.verdict.load(Ordering::Relaxed);
        (verdict >> 32 == u64::from(epoch)).then_some(verdict & 1 != 0)
    }

    /// Keeps whether session `epoch` takes the site.
    pub(crate) fn set_verdict(&self, epoch: u32, is_taken: bool) {
        self.verdict.store(u64::from(epoch) << 32 | u64::from(is_taken), Ordering::Relaxed);
    }
}

/// How a record finds its site.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// By the function of a call site.
    Coded(fn() -> &'static Site),
    /// It was made while the program ran.
    Made(&'static Site),
}

impl Origin {
    /// The site.
    #[must_use]
    pub fn site(self) -> &'static Site {
        match self {
            Self::Coded(site) => site(),
            Self::Made(site) => site,
        }
    }
}

/// Filter bits of a site that names no filter.
pub const NO_FILTER: u64 = u64::MAX;

/// Gives a type to a call site, so that its level is a constant where it is tested and its static has a name.
pub trait Callsite {
    /// Level of the site.
    const LEVEL: Level;
    /// Filter bits of the site.
    const FILTER: u64;
    /// The site's static.
    fn site() -> &'static Site;
}
