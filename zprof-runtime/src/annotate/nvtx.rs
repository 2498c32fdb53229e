//! NVTX: ranges and marks in Nsight Systems and all that injects itself through `NVTX_INJECTION64_PATH`.
//!
//! They are push/pop ranges of the domain `TSL`, which XLA uses too. A range has the colour and category of its module; the
//! category's name is the module's path. A label without values of its own is registered once per site.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, OnceLock, PoisonError};

use nvtx_sys::ffi;
use nvtx_sys::{
    ColorType, EventAttributes, MessageType, MessageValue, NVTX_EVENT_ATTRIBUTES_SIZE, NVTX_VERSION, PayloadType,
    PayloadValue,
};

use super::{Backend, Label};
use crate::dylib::Library;
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

impl Backend for Nvtx {
    fn may_load(&self) -> bool {
        std::env::var_os(INJECTION).is_some()
    }

    fn attach(&self) -> bool {
        if let Some(path) = std::env::var_os(INJECTION) {
            // NVTX would do without the tool and say nothing.
            let found = Library::open(path.as_ref()).and_then(|library| library.address(ENTRY));
            if let Err(error) = found {
                let path = path.to_string_lossy();
                warn(format_args!("no NVTX ranges: {INJECTION} names `{path}`, which is no tool: {error}"));
                return false;
            }
        }
        // SAFETY: the name is a C string.
        let domain = unsafe { ffi::nvtxDomainCreateA(DOMAIN_NAME.as_ptr()) };
        // Without a tool there is no domain.
        !domain.is_null() && DOMAIN.set(Domain(domain)).is_ok()
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
            (MessageType::NVTX_MESSAGE_TYPE_REGISTERED, MessageValue { registered })
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

/// The category of a module: numbers from 1 in the order in which the modules come, and the module's path as name.
fn category(module: &'static str, domain: ffi::nvtxDomainHandle_t) -> u32 {
    static CATEGORIES: Mutex<BTreeMap<&str, u32>> = Mutex::new(BTreeMap::new());
    let mut categories = CATEGORIES.lock().unwrap_or_else(PoisonError::into_inner);
    let next = u32::try_from(categories.len()).map_or(u32::MAX, |count| count + 1);
    *categories.entry(module).or_insert_with(|| {
        let name = CString::new(module).unwrap_or_default();
        // SAFETY: the handle is the one that NVTX gave, and the name is a C string.
        unsafe { ffi::nvtxDomainNameCategoryA(domain, next, name.as_ptr()) };
        next
    })
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
