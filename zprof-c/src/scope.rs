//! Recording: the functions behind the macros of `zprof.h`.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::{ptr, slice, str};

use crate::abi::{self, Arg, Scope, Site, UNTIL_NUL, kind};
use crate::recorder::{self, AtomicU64, MOST_KEYS, RawGuard, RawSite, RawValue, is_off};
use crate::{names, open, shielded, site};

/// Where the word is that says who listens.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)] // it is C's
pub static zprof_state: &AtomicU64 = recorder::STATE;

/// A scope that there is none of.
const NONE: Scope = Scope { id: 0, site: ptr::null() };

/// Text that is no UTF-8.
struct Broken<'a>(&'a [u8]);

/// The text of an argument.
///
/// # Safety
///
/// The argument is a text: it is null, or leads to `length` bytes or to a NUL, which stay for `'a`.
#[inline]
unsafe fn text_of<'a>(arg: &Arg) -> Result<RawValue<'a>, Broken<'a>> {
    // SAFETY: the argument is a text.
    let pointer = unsafe { arg.value.s };
    if pointer.is_null() {
        return Ok(RawValue::Absent);
    }
    let bytes = if arg.length == UNTIL_NUL {
        // SAFETY: there is a NUL, says the caller.
        unsafe { CStr::from_ptr(pointer) }.to_bytes()
    } else {
        // Addresses have at least 32 bits.
        #[allow(clippy::cast_possible_truncation)]
        let length = arg.length as usize;
        // SAFETY: there are as many bytes, says the caller.
        unsafe { slice::from_raw_parts(pointer.cast::<u8>(), length) }
    };
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8; and this is found out faster, for texts as short as they are.
        return Ok(RawValue::Text(unsafe { str::from_utf8_unchecked(bytes) }));
    }
    str::from_utf8(bytes).map(RawValue::Text).map_err(|_| Broken(bytes))
}

/// The value of an argument.
///
/// # Safety
///
/// A text is null, or leads to `length` bytes or to a NUL, which stay for `'a`.
#[inline]
unsafe fn value<'a>(arg: &Arg) -> Result<RawValue<'a>, Broken<'a>> {
    if arg.key.is_null() {
        return Ok(RawValue::Absent);
    }
    // SAFETY: all bits are numbers, and no member of the union is shorter than another, but for pointers of 32 bits, which
    // the kind says are not there.
    let bits = || unsafe { arg.value.u };
    Ok(match arg.kind {
        kind::BOOL => RawValue::Bool(bits() != 0),
        kind::INT => RawValue::Signed(i64::from_ne_bytes(bits().to_ne_bytes())),
        kind::UINT => RawValue::Unsigned(bits()),
        kind::FLOAT => RawValue::Float(f64::from_bits(bits())),
        // SAFETY: it is a text.
        kind::TEXT => return unsafe { text_of(arg) },
        kind::SENDS => RawValue::Sends(bits()),
        kind::RECEIVES => RawValue::Receives(bits()),
        _ => RawValue::Absent,
    })
}

/// Gives the recorder's site and values to `with`.
///
/// # Safety
///
/// Site and arguments are as the header says.
#[inline]
unsafe fn told<R>(site: &Site, args: &[Arg], with: impl FnOnce(&'static RawSite, &[RawValue<'_>]) -> R) -> Option<R> {
    let args = &args[..args.len().min(MOST_KEYS)];
    // SAFETY: they are, says the caller.
    let (raw, taken) = unsafe { site::of(site, args) }?;
    Some(match &args[..taken] {
        [] => with(raw, &[]),
        // SAFETY: as above.
        args if args.len() <= 4 => unsafe { valued::<4, R>(raw, args, with) },
        // SAFETY: as above.
        args => unsafe { valued::<MOST_KEYS, R>(raw, args, with) },
    })
}

/// # Safety
///
/// As [`told`]; there are at most `N` arguments.
#[inline]
unsafe fn valued<const N: usize, R>(
    site: &'static RawSite,
    args: &[Arg],
    with: impl FnOnce(&'static RawSite, &[RawValue<'_>]) -> R,
) -> R {
    let mut values = [RawValue::Absent; N];
    for (place, arg) in values.iter_mut().zip(args) {
        // SAFETY: passed on.
        match unsafe { value(arg) } {
            Ok(value) => *place = value,
            // SAFETY: passed on.
            Err(_) => return unsafe { repaired(site, args, with) },
        }
    }
    with(site, &values[..args.len().min(N)])
}

/// The same for arguments among which is text that is no UTF-8.
///
/// # Safety
///
/// As [`told`].
#[cold]
unsafe fn repaired<R>(
    site: &'static RawSite,
    args: &[Arg],
    with: impl FnOnce(&'static RawSite, &[RawValue<'_>]) -> R,
) -> R {
    // SAFETY: passed on.
    let values: Vec<Result<RawValue<'_>, Broken<'_>>> = args.iter().map(|arg| unsafe { value(arg) }).collect();
    let texts: Vec<Cow<'_, str>> = values
        .iter()
        .map(|value| value.as_ref().map_or_else(|broken| String::from_utf8_lossy(broken.0), |_| Cow::Borrowed("")))
        .collect();
    let told: Vec<RawValue<'_>> = values
        .iter()
        .zip(&texts)
        .map(|(value, text)| value.as_ref().map_or(RawValue::Text(text), |value| *value))
        .collect();
    with(site, &told)
}

/// The site, if it has a name.
///
/// # Safety
///
/// It is null, or a site that stays.
#[inline]
unsafe fn named<'a>(site: *const Site) -> Option<&'a Site> {
    // SAFETY: it is, says the caller.
    let site = unsafe { site.as_ref() }?;
    (!site.name.is_null()).then_some(site)
}

/// Opens a scope.
///
/// # Safety
///
/// As the header says: the site is null or stays for good, and `args` is null or leads to `count` arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_begin(site: *const Site, args: *const Arg, count: usize) -> Scope {
    // SAFETY: passed on.
    unsafe { begin(site, args, count) }
}

/// The same for calls from here: an exported function may turn out to be that of another copy of zprof.
///
/// # Safety
///
/// As [`zprof_begin`].
#[inline]
unsafe fn begin(site: *const Site, args: *const Arg, count: usize) -> Scope {
    // Nothing below panics: it indexes within bounds that it has just taken, and the recorder promises it of itself.
    // SAFETY: passed on.
    let Some(known) = (unsafe { named(site) }) else { return NONE };
    if is_off() {
        return Scope { id: 0, site };
    }
    // SAFETY: passed on.
    let args = unsafe { abi::args(args, count) };
    // SAFETY: passed on.
    match unsafe { told(known, args, open::begin) } {
        None | Some(0) => NONE,
        Some(id) => Scope { id, site },
    }
}

/// Opens a scope of a name that is known only now.
///
/// # Safety
///
/// As [`zprof_begin`]; the name is null or ends at a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_begin_named(name: *const c_char, args: *const Arg, count: usize) -> Scope {
    shielded(NONE, || {
        if name.is_null() {
            return NONE;
        }
        if is_off() {
            // Its name would have to be kept until somebody listens.
            return NONE;
        }
        // SAFETY: it is no null, so there is a NUL.
        let text = unsafe { CStr::from_ptr(name) };
        let known = names::NAMES.known(text);
        if known.is_none() && recorder::is_dropped_in_handler() {
            return NONE;
        }
        if let Some(kept) = known.or_else(|| names::NAMES.keep(text)) {
            // SAFETY: the site stays; the arguments are passed on.
            return unsafe { begin(&raw const kept.site, args, count) };
        }
        let own = Arg { key: c"name".as_ptr(), value: abi::Payload { s: name }, kind: kind::TEXT, length: UNTIL_NUL };
        // SAFETY: passed on.
        let others = unsafe { abi::args(args, count) };
        let args = [slice::from_ref(&own), others].concat();
        // SAFETY: site and key are statics, and the rest is passed on.
        unsafe { begin(&raw const names::MORE_NAMES, args.as_ptr(), args.len()) }
    })
}

/// Ends a scope.
///
/// # Safety
///
/// The scope is one that was given out here, whatever became of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_end(scope: Scope) -> bool {
    if scope.id != 0 {
        return open::end(scope.id);
    }
    if !is_off() {
        // SAFETY: its site stays.
        unsafe { end_unheard(scope.site) };
    }
    true
}

/// Ends a scope that opened while nothing listened.
///
/// # Safety
///
/// The site is null or stays for good.
#[cold]
unsafe fn end_unheard(site: *const Site) {
    // SAFETY: passed on.
    if let Some(known) = unsafe { named(site) } {
        // Such a scope has no values, so it does not matter which of the variants it is.
        // SAFETY: variants are never freed.
        if let Some((raw, _)) = unsafe { site::of(known, &[]) } {
            RawGuard::unheard(raw).end();
        }
    }
}

/// Adds an argument to an open scope.
///
/// # Safety
///
/// As [`zprof_end`]; the argument is as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_note(scope: Scope, arg: Arg) -> bool {
    shielded(false, || {
        // SAFETY: passed on.
        let value = unsafe { value(&arg) };
        if scope.id == 0 || matches!(value, Ok(RawValue::Absent)) {
            return false;
        }
        // SAFETY: there is a key, since there is a value.
        let key = unsafe { CStr::from_ptr(arg.key) };
        if names::KEYS.known(key).is_none() && recorder::is_dropped_in_handler() {
            return false;
        }
        let text = value.as_ref().map_or_else(|broken| String::from_utf8_lossy(broken.0), |_| Cow::Borrowed(""));
        let value = value.as_ref().map_or(RawValue::Text(&text), |value| *value);
        names::KEYS.keep(key).is_some_and(|key| open::note(scope.id, &key.text, value))
    })
}

/// Records an instant.
///
/// # Safety
///
/// As [`zprof_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_instant(site: *const Site, args: *const Arg, count: usize) {
    // SAFETY: passed on.
    let Some(known) = (unsafe { named(site) }) else { return };
    if !is_off() {
        // SAFETY: passed on.
        let args = unsafe { abi::args(args, count) };
        // SAFETY: passed on.
        unsafe { told(known, args, |raw, values| recorder::instant(raw, values)) };
    }
}

/// Records a sample of a counter.
///
/// # Safety
///
/// As [`zprof_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_counter(site: *const Site, arg: Arg) {
    // SAFETY: passed on.
    let Some(known) = (unsafe { named(site) }) else { return };
    if !is_off() {
        let count = |raw, values: &[RawValue<'_>]| values.iter().for_each(|&value| recorder::count(raw, value));
        // SAFETY: passed on.
        unsafe { told(known, slice::from_ref(&arg), count) };
    }
}

/// A new flow.
#[unsafe(no_mangle)]
pub extern "C" fn zprof_flow() -> u64 {
    recorder::new_flow()
}

/// Names the calling thread.
///
/// # Safety
///
/// The name is null or ends at a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zprof_thread_name(name: *const c_char) -> bool {
    shielded(false, || {
        if name.is_null() {
            return false;
        }
        // SAFETY: it is no null, so there is a NUL.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        recorder::name_thread(&name);
        crate::thread::name(&name)
    })
}
