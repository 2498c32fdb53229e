//! Sites of C: each is known to the recorder under the keys that its scopes have had.
//!
//! A scope brings its keys along, as arguments do in C, while a site of the recorder has fixed ones. At almost every site
//! they are the same literals each time, which comparing pointers shows; what differs has a variant of its own.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::abi::{self, Arg, Site};
use crate::recorder::{Description, MOST_KEYS, MOST_SITES, RawSite, is_dropped_in_handler};
use crate::warn_once;

/// Most variants of a site. Scopes with yet other keys are recorded without arguments.
const MOST_VARIANTS: usize = 64;

/// A site under one list of keys.
#[derive(Debug)]
pub struct Variant {
    keys: Box<[Key]>,
    raw: Option<&'static RawSite>,
    next: AtomicPtr<Variant>,
}

/// A key as C gave it first.
#[derive(Debug)]
struct Key {
    pointer: *const c_char,
    text: Box<CStr>,
}

impl Key {
    /// # Safety
    ///
    /// `other` is null or leads to text that ends at a NUL.
    #[inline]
    unsafe fn is(&self, other: *const c_char) -> bool {
        // SAFETY: passed on.
        self.pointer == other || unsafe { self.reads(other) }
    }

    /// # Safety
    ///
    /// As [`is`](Self::is).
    #[cold]
    unsafe fn reads(&self, other: *const c_char) -> bool {
        if other.is_null() || self.pointer.is_null() {
            return false;
        }
        // SAFETY: it leads to such text, says the caller.
        let other = unsafe { CStr::from_ptr(other) };
        *self.text == *other
    }
}

impl Variant {
    /// # Safety
    ///
    /// The keys of the arguments are null or lead to text that ends at a NUL.
    #[inline]
    unsafe fn has(&self, args: &[Arg]) -> bool {
        // SAFETY: passed on.
        let is = |(key, arg): (&Key, &Arg)| unsafe { key.is(arg.key) };
        self.keys.len() == args.len() && self.keys.iter().zip(args).all(is)
    }

    /// Puts a variant that came too late, if there is one, to the end: its site is never freed, and so must be reachable for
    /// those who look for leaks.
    fn append(&self, late: *mut Self) {
        let mut last = self;
        if !late.is_null() {
            while let Err(next) = last.next.compare_exchange(ptr::null_mut(), late, Ordering::AcqRel, Ordering::Acquire)
            {
                // SAFETY: variants are never freed.
                let Some(next) = (unsafe { next.as_ref() }) else { return };
                last = next;
            }
        }
    }

    /// # Safety
    ///
    /// As [`of`].
    unsafe fn make(site: &Site, args: &[Arg]) -> Self {
        let key = |arg: &Arg| {
            let text = if arg.key.is_null() {
                c""
            } else {
                // SAFETY: it leads to such text, says the caller.
                unsafe { CStr::from_ptr(arg.key) }
            };
            Key { pointer: arg.key, text: text.into() }
        };
        let keys: Box<[Key]> = args.iter().map(key).collect();
        let texts: Vec<_> = keys.iter().map(|key| key.text.to_string_lossy().into_owned().into()).collect();
        // SAFETY: the site's texts are such, says the caller.
        let text = |pointer| unsafe { abi::text(pointer) }.into();
        static TOLD: AtomicBool = AtomicBool::new(false);
        let raw = RawSite::make(Description {
            name: text(site.name),
            keys: &texts,
            level: site.level(),
            filter: site.filter(),
            module_path: text(site.module),
            file: text(site.file),
            line: site.line,
        });
        if raw.is_none() {
            warn_once(&TOLD, || format!("the program has {MOST_SITES} sites; scopes of others are not recorded"));
        }
        Self { keys, raw, next: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// The recorder's site for a site with these arguments, and how many of them it takes; `None` where the program has too
/// many sites already.
///
/// # Safety
///
/// The site's texts and the arguments' keys are null or lead to text that ends at a NUL; no argument is beyond
/// [`MOST_KEYS`].
#[inline]
pub(crate) unsafe fn of(site: &Site, args: &[Arg]) -> Option<(&'static RawSite, usize)> {
    // SAFETY: variants are never freed.
    if let Some(first) = unsafe { site.variants().as_ref() } {
        // SAFETY: passed on.
        if unsafe { first.has(args) } {
            return first.raw.map(|raw| (raw, args.len()));
        }
    }
    // SAFETY: passed on.
    unsafe { other(site, args) }
}

/// # Safety
///
/// As [`of`].
#[cold]
unsafe fn other(site: &Site, args: &[Arg]) -> Option<(&'static RawSite, usize)> {
    debug_assert!(args.len() <= MOST_KEYS);
    let (mut args, mut made): (&[Arg], *mut Variant) = (args, ptr::null_mut());
    let (mut place, mut met) = (&site.cache, 0);
    loop {
        // SAFETY: variants are never freed.
        if let Some(variant) = unsafe { place.load(Ordering::Acquire).as_ref() } {
            // SAFETY: passed on.
            if unsafe { variant.has(args) } {
                variant.append(made);
                return variant.raw.map(|raw| (raw, args.len()));
            }
            (place, met) = (&variant.next, met + 1);
        } else if met >= MOST_VARIANTS && !args.is_empty() {
            static TOLD: AtomicBool = AtomicBool::new(false);
            warn_once(&TOLD, || {
                // SAFETY: it is such text, says the caller.
                let name = unsafe { abi::text(site.name) };
                format!(
                    "scope `{name}` has had {MOST_VARIANTS} different lists of keys; with yet others, its arguments are left out"
                )
            });
            (place, met, args) = (&site.cache, 0, &[]);
        } else {
            if made.is_null() {
                if is_dropped_in_handler() {
                    return None;
                }
                // SAFETY: passed on.
                made = Box::into_raw(Box::new(unsafe { Variant::make(site, args) }));
            }
            // Release, which pairs with the Acquire of those who read it. Where another thread was first, its variant is
            // looked at next.
            let _ = place.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire).map(|_| {
                made = ptr::null_mut();
            });
        }
    }
}
