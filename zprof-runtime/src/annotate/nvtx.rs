//! NVTX: ranges and marks in Nsight Systems and all that injects itself through `NVTX_INJECTION64_PATH`.
//!
//! They are push/pop ranges of the domain `TSL`, which XLA uses too. A range has the colour and category of its module; the
//! category's name is the module's path. A label without values of its own is registered once per site.

use std::ffi::{CStr, CString, OsString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nvtx_sys::ffi;
use nvtx_sys::{
    ColorType, EventAttributes, MessageType, MessageValue, NVTX_EVENT_ATTRIBUTES_SIZE, NVTX_VERSION, PayloadType,
    PayloadValue,
};

use super::{Backend, Label};
use crate::dylib::Library;
use crate::environment;
use crate::site::{Level, Site};
use crate::warn::warn;

/// The backend.
pub(super) struct Nvtx;

/// Variable that names the library of a tool.
const INJECTION: &str =
    if cfg!(target_pointer_width = "64") { "NVTX_INJECTION64_PATH" } else { "NVTX_INJECTION32_PATH" };
/// What a tool's library must export.
const ENTRY: &str = "InitializeInjectionNvtx2";
/// Domain of our ranges.
const DOMAIN_NAME: &CStr = c"TSL";

/// The domain of an attached tool.
struct Domain(ffi::nvtxDomainHandle_t);

// SAFETY: NVTX gives out the handle for use by any thread, and it is never destroyed.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

static DOMAIN: OnceLock<Domain> = OnceLock::new();
/// It is settled that there is no tool: NVTX itself never looks again, and a mistake is told once.
static ABSENT: AtomicBool = AtomicBool::new(false);

impl Backend for Nvtx {
    fn may_load(&self) -> bool {
        injection().is_some() && !ABSENT.load(Ordering::Relaxed)
    }

    fn attach(&self) -> bool {
        if ABSENT.load(Ordering::Relaxed) {
            return false;
        }
        let domain = find().map(|domain| DOMAIN.set(domain));
        ABSENT.store(domain.is_none(), Ordering::Relaxed);
        domain.is_some_and(|set| set.is_ok())
    }

    #[inline]
    fn push(&self, label: Label<'_>, _id: u64) {
        let Some(prepared) = Prepared::of(label.site) else { return };
        if label.written.is_none() {
            push(prepared.domain, &prepared.attributes);
        } else {
            let message = MessageValue { ascii: label.as_ptr() };
            push(prepared.domain, &EventAttributes { message, ..prepared.attributes });
        }
    }

    fn mark(&self, label: Label<'_>) {
        let Some(prepared) = Prepared::of(label.site) else { return };
        let mut attributes = prepared.attributes;
        if label.written.is_some() {
            attributes.message = MessageValue { ascii: label.as_ptr() };
        }
        // SAFETY: the handle is the one that NVTX gave, and the attributes live through the call with what they point at.
        unsafe { ffi::nvtxDomainMarkEx(prepared.domain, &raw const attributes) };
    }

    #[inline]
    fn pop(&self, _id: u64) {
        if let Some(Domain(domain)) = DOMAIN.get() {
            // SAFETY: the handle is the one that NVTX gave.
            let _level = unsafe { ffi::nvtxDomainRangePop(*domain) };
        }
    }

    fn name_thread(&self, tid: u64, name: &CStr) {
        if let Ok(tid) = u32::try_from(tid) {
            // SAFETY: the name is a C string.
            unsafe { ffi::nvtxNameOsThreadA(tid, name.as_ptr()) };
        }
    }
}

/// The library that the variable names, unless the program runs with raised privileges. It is often emptied to be unset.
fn injection() -> Option<OsString> {
    environment::variable(INJECTION)
}

/// Our domain of the tool, where there is one.
fn find() -> Option<Domain> {
    if environment::is_privileged() {
        // NVTX reads the variable by itself at its first call, and would load what the caller of the program named.
        return None;
    }
    let injection = injection();
    if let Some(path) = &injection {
        // NVTX would do without the tool and say nothing.
        let found = Library::open(path.as_ref()).and_then(|library| library.address(ENTRY));
        if let Err(error) = found {
            let path = path.to_string_lossy();
            warn(format_args!("no NVTX ranges: {INJECTION} names `{path}`, which is no tool: {error}"));
            return None;
        }
    }
    // SAFETY: the name is a C string.
    let domain = unsafe { ffi::nvtxDomainCreateA(DOMAIN_NAME.as_ptr()) };
    if !domain.is_null() {
        return Some(Domain(domain));
    }
    // Without a tool there is no domain.
    if let Some(path) = injection {
        let path = path.to_string_lossy();
        warn(format_args!(
            "no NVTX ranges: the tool `{path}` that {INJECTION} names failed to start or takes no domain"
        ));
    }
    None
}

#[inline]
fn push(domain: ffi::nvtxDomainHandle_t, attributes: *const EventAttributes) {
    // SAFETY: the handle is the one that NVTX gave, and the attributes live through the call with what they point at.
    let _level = unsafe { ffi::nvtxDomainRangePushEx(domain, attributes) };
}

/// What NVTX is told of each range of a site. Made once a site, and never freed.
struct Prepared {
    domain: ffi::nvtxDomainHandle_t,
    attributes: EventAttributes,
}

impl Prepared {
    #[inline]
    fn of(site: &'static Site) -> Option<&'static Self> {
        let mut prepared = site.memo.get();
        if prepared.is_null() {
            prepared = Self::make(site)?;
        }
        // SAFETY: only `make` fills the memo of a site, with a box that is never freed.
        Some(unsafe { &*prepared.cast::<Self>() })
    }

    #[cold]
    fn make(site: &'static Site) -> Option<*mut ()> {
        let Domain(domain) = *DOMAIN.get()?;
        let (kind, message) = if site.is_whole() {
            let label = Label { site, written: None };
            // SAFETY: the handle is the one that NVTX gave, and the label is a C string.
            let registered = unsafe { ffi::nvtxDomainRegisterStringA(domain, label.as_ptr()) };
            if registered.is_null() {
                // The tool keeps no strings.
                (MessageType::NVTX_MESSAGE_TYPE_ASCII, MessageValue { ascii: label.as_ptr() })
            } else {
                (MessageType::NVTX_MESSAGE_TYPE_REGISTERED, MessageValue { registered })
            }
        } else {
            // Each range brings its own.
            (MessageType::NVTX_MESSAGE_TYPE_ASCII, MessageValue { ascii: c"".as_ptr() })
        };
        let category = category(site.module_path, domain);
        let attributes = EventAttributes {
            version: NVTX_VERSION.unsigned_abs(),
            size: u16::try_from(NVTX_EVENT_ATTRIBUTES_SIZE).unwrap_or(u16::MAX),
            category,
            colorType: ColorType::NVTX_COLOR_ARGB.into(),
            color: colour(category, site.level),
            payloadType: PayloadType::NVTX_PAYLOAD_UNKNOWN.into(),
            reserved0: 0,
            payload: PayloadValue { ullValue: 0 },
            messageType: kind.into(),
            message,
        };
        let made = Box::into_raw(Box::new(Self { domain, attributes }));
        let kept = site.memo.put(made.cast());
        if kept != made.cast() {
            // SAFETY: another thread was first, so nobody else has seen this box.
            drop(unsafe { Box::from_raw(made) });
        }
        Some(kept)
    }
}

/// A module that has ranges, and the next one.
struct Module {
    path: &'static str,
    category: u32,
    next: OnceLock<Box<Module>>,
}

/// The category of a module: numbers from 1 in the order in which the modules come, and the module's path as name.
///
/// No lock is held while this allocates or calls the tool: scopes of the allocator come here under locks of the
/// recorder's, and the other way round.
fn category(path: &'static str, domain: ffi::nvtxDomainHandle_t) -> u32 {
    static FIRST: OnceLock<Box<Module>> = OnceLock::new();
    let (mut place, mut category) = (&FIRST, 1);
    loop {
        if let Some(module) = place.get() {
            if module.path == path {
                return module.category;
            }
            (place, category) = (&module.next, module.category.saturating_add(1));
        } else if place.set(Box::new(Module { path, category, next: OnceLock::new() })).is_ok() {
            let name = CString::new(path).unwrap_or_default();
            // SAFETY: the handle is the one that NVTX gave, and the name is a C string.
            unsafe { ffi::nvtxDomainNameCategoryA(domain, category, name.as_ptr()) };
        }
    }
}

/// Colours that are told apart on light and on dark ground, as red, green and blue; modules take them in turn.
const PALETTE: [u32; 8] =
    [0x4e_79_a7, 0xf2_8e_2b, 0x59_a1_4f, 0xe1_57_59, 0x76_b7_b2, 0xb0_7a_a1, 0xed_c9_48, 0x9c_75_5f];

/// The colour of a range: of its module, the lighter the more detail it is.
fn colour(category: u32, level: Level) -> u32 {
    let place = usize::try_from(category).unwrap_or(0).wrapping_sub(1) % PALETTE.len();
    // Parts of 4 that are white.
    let white = match level {
        Level::Critical => 0,
        Level::Info => 1,
        Level::Verbose => 2,
    };
    let blend = |shift: u32| {
        let part = PALETTE[place] >> shift & 0xff;
        ((part * (4 - white) + 0xff * white) / 4) << shift
    };
    0xff << 24 | blend(16) | blend(8) | blend(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_more_is_lighter_and_a_module_has_its_colour() {
        assert_eq!(colour(1, Level::Critical), 0xff_4e_79_a7);
        assert_eq!(colour(1, Level::Info), 0xff_7a_9a_bd);
        assert_eq!(colour(1, Level::Verbose), 0xff_a6_bc_d3);
        assert_eq!(colour(9, Level::Critical), colour(1, Level::Critical));
        let all: std::collections::BTreeSet<_> = (1..=8).map(|category| colour(category, Level::Critical)).collect();
        assert_eq!(all.len(), 8);
    }
}
