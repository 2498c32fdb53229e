//! The NVTX injection library: it puts its functions in the place of NVTX's, which then call it directly.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use crate::log::{Call, fail, file, text};

/// What the caller says of an event, as of version 2 of the structure.
#[repr(C)]
struct EventAttributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

/// What the caller says of a resource, such as a thread.
#[repr(C)]
struct ResourceAttributes {
    version: u16,
    size: u16,
    identifier_type: i32,
    identifier: u64,
    message_type: i32,
    message: *const c_void,
}

const _: () = assert!(size_of::<EventAttributes>() == 48 && size_of::<ResourceAttributes>() == 32);

const ASCII: i32 = 1;
const REGISTERED: i32 = 3;
const ARGB: i32 = 1;

/// Behind a domain's handle. Never freed: a handle may be used at any time.
struct Domain {
    name: String,
    /// Where its levels are, in [`LEVELS`].
    slot: usize,
}

/// Behind the handle of a registered string. Never freed either.
struct Registered {
    domain: *const Domain,
    label: String,
}

const SLOTS: usize = 16;

thread_local! {
    /// Ranges that the thread has open, by slot of the domain; the first is the default domain's. It has no destructor, so it
    /// can be used while the thread's own ones run.
    static LEVELS: [Cell<i64>; SLOTS] = const { [const { Cell::new(0) }; SLOTS] };
}

/// Pointers to the places of NVTX's function pointers; the number of a function is its index.
type Table = *const *mut *const c_void;

#[repr(C)]
struct Callbacks {
    size: usize,
    table: unsafe extern "C" fn(module: c_int, table: *mut Table, count: *mut c_uint) -> c_int,
}

type ExportTable = unsafe extern "C" fn(id: u32) -> *const Callbacks;

const CORE: c_int = 1;
const CORE2: c_int = 5;

/// What NVTX calls once it has loaded this library; gives 1, for success.
///
/// # Safety
///
/// `export` is NVTX's own function.
#[unsafe(no_mangle)]
unsafe extern "C" fn InitializeInjectionNvtx2(export: ExportTable) -> c_int {
    // SAFETY: 1 asks for the table of callbacks.
    let callbacks = unsafe { export(1).as_ref() };
    let Some(callbacks) = callbacks.filter(|found| found.size >= size_of::<Callbacks>()) else {
        fail("NVTX has no table of callbacks")
    };
    let functions = if file().is_some() { WRITING } else { QUIET };
    for &(module, count, functions) in functions {
        let mut table: Table = null();
        let mut size = 0;
        // SAFETY: both pointers are to live variables of the right types.
        let found = unsafe { (callbacks.table)(module, &raw mut table, &raw mut size) };
        // The module's functions and, at 0, none.
        if found == 0 || size < count {
            fail(&format!("NVTX has {size} functions in module {module}, not {count}"));
        }
        for &(number, Function(function)) in functions {
            // SAFETY: the table has more than `number` entries, because `number` is less than `count`.
            let place = unsafe { *table.add(number) };
            // SAFETY: NVTX's place for the pointer to this function; no call goes through it before this returns.
            unsafe { *place = function };
        }
    }
    1
}

/// A function of any type.
#[derive(Clone, Copy)]
struct Function(*const c_void);

// SAFETY: functions have no state.
unsafe impl Sync for Function {}

/// Module, how many entries its table has, and what stands where.
type Module = (c_int, c_uint, &'static [(usize, Function)]);

macro_rules! functions {
    ($($number:literal $function:expr),+ $(,)?) => { &[$(($number, Function($function as *const c_void))),+] };
}

static WRITING: &[Module] = &[
    (
        CORE,
        16,
        functions![
            1 mark_ex, 2 mark_a, 3 wide::<3>, 4 start_ex, 5 start_a, 6 wide::<6>, 7 end, 8 push_ex, 9 push_a,
            10 wide::<10>, 11 pop, 12 name_category, 13 wide::<13>, 14 name_thread, 15 wide::<15>
        ],
    ),
    (
        CORE2,
        16,
        functions![
            1 domain_mark, 2 domain_start, 3 domain_end, 4 domain_push, 5 domain_pop, 6 create_resource,
            8 domain_name_category, 9 wide::<9>, 10 register, 11 wide::<11>, 12 create_domain, 13 wide::<13>,
            14 destroy_domain, 15 initialize
        ],
    ),
];

/// Calls that return at once, for measuring.
static QUIET: &[Module] = &[
    (
        CORE,
        16,
        functions![
            1 quiet, 2 quiet, 4 quiet_id, 5 quiet_id, 7 quiet, 8 quiet, 9 quiet, 11 quiet, 12 quiet, 14 quiet
        ],
    ),
    (
        CORE2,
        16,
        functions![
            1 quiet, 2 quiet_id, 3 quiet, 4 quiet, 5 quiet, 6 quiet_id, 7 quiet, 8 quiet, 10 quiet_id, 12 quiet_id,
            14 quiet, 15 quiet
        ],
    ),
];

/// Takes whatever it is given; every push and pop is at level 0.
extern "C" fn quiet() -> c_int {
    0
}

/// Every range, domain and string has this handle.
extern "C" fn quiet_id() -> u64 {
    16
}

fn write(call: Call<'_>) {
    Call { api: "nvtx", ..call }.write();
}

fn misuse(what: &str) {
    write(Call { call: "misuse", label: Some(what), ..Call::default() });
}

/// Stands where functions with wide characters are, which zprof does not use.
extern "C" fn wide<const NUMBER: usize>() -> usize {
    misuse(&format!("function {NUMBER}, with wide characters"));
    0
}

/// # Safety
///
/// `domain` is null, or a handle that `create_domain` gave.
unsafe fn domain<'a>(domain: *const Domain) -> Option<&'a Domain> {
    // SAFETY: domains are never freed.
    unsafe { domain.as_ref() }
}

/// The text of a message, and whether it is registered.
///
/// # Safety
///
/// `message` is what `kind` says, and a registered string has a handle that `register` gave.
unsafe fn message(of: *const Domain, kind: i32, message: *const c_void) -> (Option<String>, bool) {
    match kind {
        _ if message.is_null() => misuse("a message that is null"),
        // SAFETY: an ASCII message is a C string.
        ASCII => return (unsafe { text(message.cast()) }, false),
        REGISTERED => {
            // SAFETY: not null, and such handles are never freed.
            let registered = unsafe { &*message.cast::<Registered>() };
            if registered.domain != of {
                misuse("a string that another domain has registered");
            }
            return (Some(registered.label.clone()), true);
        }
        _ => misuse(&format!("a message of type {kind}")),
    }
    (None, false)
}

/// Writes down a call with attributes.
///
/// # Safety
///
/// As of [`domain`] and [`message`].
unsafe fn event(call: &'static str, of: *const Domain, attributes: *const EventAttributes, id: Option<i64>) {
    // SAFETY: the caller's structure is alive for the call, or null.
    let Some(attributes) = (unsafe { attributes.as_ref() }) else { return misuse("attributes that are null") };
    let EventAttributes { version, size, category, color_type, color, message_type, .. } = *attributes;
    if version != 3 || size != 48 {
        return misuse(&format!("attributes of version {version} and size {size}"));
    }
    // SAFETY: as this function demands.
    let (label, registered) = unsafe { message(of, message_type, attributes.message) };
    // SAFETY: as this function demands.
    let domain = unsafe { domain(of) }.map(|domain| domain.name.as_str());
    let color = (color_type == ARGB).then_some(color);
    write(Call { call, domain, label: label.as_deref(), registered, color, category, id, ..Call::default() });
}

/// Writes down a call with a name alone.
///
/// # Safety
///
/// As of [`text`].
unsafe fn named(call: &'static str, label: *const c_char, id: Option<i64>) {
    // SAFETY: as this function demands.
    let label = unsafe { text(label) };
    write(Call { call, label: label.as_deref(), id, ..Call::default() });
}

/// Counts a range that is opened; gives its level.
///
/// # Safety
///
/// As of [`domain`].
unsafe fn descend(of: *const Domain) -> i64 {
    // SAFETY: as this function demands.
    let slot = unsafe { domain(of) }.map_or(0, |domain| domain.slot);
    LEVELS.with(|levels| levels[slot].replace(levels[slot].get() + 1))
}

fn next_range() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A level as NVTX returns it.
fn level(level: i64) -> c_int {
    c_int::try_from(level).unwrap_or(c_int::MAX)
}

// The functions that NVTX calls. What each demands of its caller is what NVTX's documentation does.

unsafe extern "C" fn mark_ex(attributes: *const EventAttributes) {
    // SAFETY: the caller's arguments, as NVTX passes them on.
    unsafe { event("mark", null(), attributes, None) };
}

unsafe extern "C" fn mark_a(label: *const c_char) {
    // SAFETY: as above.
    unsafe { named("mark", label, None) };
}

unsafe extern "C" fn start_ex(attributes: *const EventAttributes) -> u64 {
    // SAFETY: as above.
    unsafe { domain_start(null(), attributes) }
}

unsafe extern "C" fn start_a(label: *const c_char) -> u64 {
    let id = next_range();
    // SAFETY: as above.
    unsafe { named("start", label, Some(id)) };
    id.unsigned_abs()
}

unsafe extern "C" fn end(id: u64) {
    // SAFETY: the default domain.
    unsafe { domain_end(null(), id) };
}

unsafe extern "C" fn push_ex(attributes: *const EventAttributes) -> c_int {
    // SAFETY: as above.
    unsafe { domain_push(null(), attributes) }
}

unsafe extern "C" fn push_a(label: *const c_char) -> c_int {
    // SAFETY: the default domain.
    let depth = unsafe { descend(null()) };
    // SAFETY: as above.
    unsafe { named("push", label, Some(depth)) };
    level(depth)
}

unsafe extern "C" fn pop() -> c_int {
    // SAFETY: the default domain.
    unsafe { domain_pop(null()) }
}

unsafe extern "C" fn name_category(category: u32, name: *const c_char) {
    // SAFETY: as above.
    unsafe { domain_name_category(null(), category, name) };
}

unsafe extern "C" fn name_thread(thread: u32, name: *const c_char) {
    // SAFETY: as above.
    unsafe { named("name thread", name, Some(i64::from(thread))) };
}

unsafe extern "C" fn domain_mark(of: *const Domain, attributes: *const EventAttributes) {
    // SAFETY: as above.
    unsafe { event("mark", of, attributes, None) };
}

unsafe extern "C" fn domain_start(of: *const Domain, attributes: *const EventAttributes) -> u64 {
    let id = next_range();
    // SAFETY: as above.
    unsafe { event("start", of, attributes, Some(id)) };
    id.unsigned_abs()
}

unsafe extern "C" fn domain_end(of: *const Domain, id: u64) {
    // SAFETY: as above.
    let domain = unsafe { domain(of) }.map(|domain| domain.name.as_str());
    write(Call { call: "end", domain, id: Some(i64::try_from(id).unwrap_or(-1)), ..Call::default() });
}

unsafe extern "C" fn domain_push(of: *const Domain, attributes: *const EventAttributes) -> c_int {
    // SAFETY: as above.
    let depth = unsafe { descend(of) };
    // SAFETY: as above.
    unsafe { event("push", of, attributes, Some(depth)) };
    level(depth)
}

unsafe extern "C" fn domain_pop(of: *const Domain) -> c_int {
    // SAFETY: as above.
    let domain = unsafe { domain(of) };
    let slot = domain.map_or(0, |domain| domain.slot);
    let depth = LEVELS.with(|levels| {
        let left = levels[slot].get() - 1;
        levels[slot].set(left.max(0));
        left
    });
    let domain = domain.map(|domain| domain.name.as_str());
    write(Call { call: "pop", domain, id: Some(depth), ..Call::default() });
    level(depth)
}

unsafe extern "C" fn create_resource(of: *const Domain, attributes: *const ResourceAttributes) -> usize {
    // SAFETY: the caller's structure is alive for the call, or null.
    let Some(attributes) = (unsafe { attributes.as_ref() }) else {
        misuse("attributes that are null");
        return 0;
    };
    let ResourceAttributes { version, size, identifier, message_type, .. } = *attributes;
    if version != 3 || size != 32 {
        misuse(&format!("attributes of version {version} and size {size}"));
        return 0;
    }
    // SAFETY: as above.
    let (label, registered) = unsafe { message(of, message_type, attributes.message) };
    // SAFETY: as above.
    let domain = unsafe { domain(of) }.map(|domain| domain.name.as_str());
    let id = Some(i64::try_from(identifier).unwrap_or(-1));
    write(Call { call: "create resource", domain, label: label.as_deref(), registered, id, ..Call::default() });
    1
}

unsafe extern "C" fn domain_name_category(of: *const Domain, category: u32, name: *const c_char) {
    // SAFETY: as above.
    let domain = unsafe { domain(of) }.map(|domain| domain.name.as_str());
    // SAFETY: as above.
    let label = unsafe { text(name) };
    write(Call { call: "name category", domain, label: label.as_deref(), category, ..Call::default() });
}

unsafe extern "C" fn register(of: *const Domain, label: *const c_char) -> *const Registered {
    // SAFETY: as above.
    let name = unsafe { domain(of) }.map(|domain| domain.name.as_str());
    // SAFETY: as above.
    let Some(label) = (unsafe { text(label) }) else {
        misuse("a registered string that is null");
        return null();
    };
    write(Call { call: "register", domain: name, label: Some(&label), ..Call::default() });
    Box::leak(Box::new(Registered { domain: of, label }))
}

unsafe extern "C" fn create_domain(name: *const c_char) -> *const Domain {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    // SAFETY: as above.
    let name = unsafe { text(name) }.unwrap_or_default();
    let slot = NEXT.fetch_add(1, Ordering::Relaxed);
    if slot >= SLOTS {
        misuse("too many domains");
        return null();
    }
    write(Call { call: "create domain", domain: Some(&name), ..Call::default() });
    Box::leak(Box::new(Domain { name, slot }))
}

unsafe extern "C" fn destroy_domain(of: *const Domain) {
    // SAFETY: as above.
    let domain = unsafe { domain(of) }.map(|domain| domain.name.as_str());
    write(Call { call: "destroy domain", domain, ..Call::default() });
}

unsafe extern "C" fn initialize(_reserved: *const c_void) {
    write(Call { call: "initialize", ..Call::default() });
}
