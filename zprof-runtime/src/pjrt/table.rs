//! Foreign tables and calls made safe: fields are read only where the table covers them, errors are read and freed,
//! sessions are destroyed.
//!
//! What cannot be checked is trusted: that a pointer the plugin gives leads to what it says. Nothing of ours is called
//! from the plugin's side, so no panic can cross the border; an exception of C++ that leaves a call ends the process,
//! as it does when C calls the plugin.

use std::alloc::{Layout, alloc_zeroed};
use std::ffi::c_void;
use std::fmt;
use std::mem::offset_of;
use std::ptr::NonNull;

use super::abi::{
    ApiHead, ApiVersion, CODES, CollectDataArgs, ConsumeArgs, ConsumeResult, ConsumeResultDestroyArgs, CreateArgs,
    ENTRY, ErrorDestroyArgs, ErrorGetCodeArgs, ErrorMessageArgs, Extension, Function, GetApi, KIND_PROFILER, MAJOR,
    MINOR_EXTENSIONS, MINOR_SIZED_EXTENSIONS, Procedure, Profiler, ProfilerApi, ProfilerArgs, ProfilerError,
    ProfilerExtension, SerializeArgs, UNIMPLEMENTED, UNKNOWN, UnsizedExtension, UnsizedProfilerExtension,
};
use crate::dylib::{Library, LoadError};

/// What is kept of an error's message.
const MAX_MESSAGE: usize = 64 << 10;

/// What a plugin says of itself before it is asked to do anything.
#[derive(Debug)]
pub(super) struct Description {
    /// Major and minor version of PJRT.
    pub(super) version: (i32, i32),
    /// Kinds of the extensions, in the plugin's order.
    pub(super) extensions: Vec<i32>,
    /// The profiler, or why there is none that can be used.
    pub(super) profiler: Result<Table, String>,
}

/// Calls the entry function of a plugin's library and reads what it gives.
pub(super) fn enter(library: &Library) -> Result<Result<Description, String>, LoadError> {
    let entry = library.address(ENTRY)?;
    if entry.is_null() {
        return Ok(Err(format!("symbol `{ENTRY}` is null")));
    }
    // SAFETY: a function pointer is as wide as an address, and the address is not null. That a symbol of this name is
    // PJRT's entry function is what makes the library a plugin.
    let entry = unsafe { std::mem::transmute::<*mut c_void, GetApi>(entry) };
    // SAFETY: the entry function takes nothing, and the library stays loaded.
    let api = unsafe { entry() };
    // SAFETY: what a plugin's entry function gives is its static table or null.
    Ok(unsafe { describe(api) })
}

/// Reads the table that a plugin's entry function gave.
///
/// # Safety
///
/// `api` is null or a `PJRT_Api` that stays as it is for the rest of the process.
pub(super) unsafe fn describe(api: *const c_void) -> Result<Description, String> {
    if api.is_null() {
        return Err("its table of functions is null".to_owned());
    }
    // SAFETY: every table begins with its size.
    let size = unsafe { read::<usize>(api, 0) };
    if size < size_of::<ApiHead>() {
        return Err(format!("its table of functions announces {size} bytes, too few to hold a version"));
    }
    let version_at = offset_of!(ApiHead, version);
    // SAFETY: the table covers the version.
    let major = unsafe { read::<i32>(api, version_at + offset_of!(ApiVersion, major)) };
    // SAFETY: the table covers the version.
    let minor = unsafe { read::<i32>(api, version_at + offset_of!(ApiVersion, minor)) };
    if major != MAJOR {
        return Err(format!("it speaks PJRT {major}.{minor}; this zprof knows major version {MAJOR}"));
    }
    let mut description = Description {
        version: (major, minor),
        extensions: Vec::new(),
        profiler: Err("the plugin has no profiler extension".to_owned()),
    };
    if minor >= MINOR_EXTENSIONS {
        // SAFETY: the table covers its head, and since that minor version this field is the chain.
        let first = unsafe { read::<*const c_void>(api, offset_of!(ApiHead, extension_start)) };
        // SAFETY: the chain is the plugin's, of the layout that its version has.
        unsafe { walk(first, minor >= MINOR_SIZED_EXTENSIONS, &mut description) };
    }
    Ok(description)
}

/// Follows a chain of extensions.
///
/// # Safety
///
/// `node` is null or the first extension of a plugin, `sized` says whether extensions begin with their size, and the
/// chain stays as it is for the rest of the process.
unsafe fn walk(mut node: *const c_void, sized: bool, into: &mut Description) {
    let (kind_at, next_at) = if sized {
        (offset_of!(Extension, kind), offset_of!(Extension, next))
    } else {
        (offset_of!(UnsizedExtension, kind), offset_of!(UnsizedExtension, next))
    };
    // A chain that comes back to itself is read once.
    let mut seen = Vec::new();
    while !node.is_null() && !seen.contains(&node) {
        seen.push(node);
        // SAFETY: every extension begins with what `Extension` or `UnsizedExtension` has, whatever size it announces:
        // that of old plugins cannot be trusted.
        let kind = unsafe { read::<i32>(node, kind_at) };
        if kind == KIND_PROFILER && !into.extensions.contains(&kind) {
            // SAFETY: the node is a profiler's extension.
            into.profiler = unsafe { profiler(node, sized) };
        }
        into.extensions.push(kind);
        // SAFETY: as above.
        node = unsafe { read::<*const c_void>(node, next_at) };
    }
}

/// The table of a profiler's extension.
///
/// # Safety
///
/// `node` is a profiler's extension, `sized` says whether it begins with its size, and it stays as it is for the rest
/// of the process.
unsafe fn profiler(node: *const c_void, sized: bool) -> Result<Table, String> {
    let api_at = if sized {
        // SAFETY: sized extensions begin with their size.
        let size = unsafe { read::<usize>(node, offset_of!(Extension, struct_size)) };
        let needed = offset_of!(ProfilerExtension, profiler_api) + size_of::<*const c_void>();
        if size < needed {
            return Err(format!("the profiler extension announces {size} bytes, fewer than its {needed}"));
        }
        offset_of!(ProfilerExtension, profiler_api)
    } else {
        offset_of!(UnsizedProfilerExtension, profiler_api)
    };
    // SAFETY: the size covers it, or there is none and every profiler's extension has it.
    let api = unsafe { read::<*const c_void>(node, api_at) };
    if api.is_null() {
        return Err("the profiler extension's table of functions is null".to_owned());
    }
    // SAFETY: the table is the plugin's and not null.
    unsafe { Table::read(api) }
}

/// Reads a value at an offset, aligned or not.
///
/// # Safety
///
/// The value lies there, initialised, in memory that may be read.
unsafe fn read<T: Copy>(base: *const c_void, offset: usize) -> T {
    // SAFETY: the caller says so.
    unsafe { base.wrapping_byte_add(offset).cast::<T>().read_unaligned() }
}

/// Reads a function of a table, if the table covers it and has one there.
///
/// # Safety
///
/// `table` begins `size` bytes that may be read, and at `offset` in them lies a function pointer of this type or null.
unsafe fn slot<F: Copy>(table: *const c_void, size: usize, offset: usize) -> Option<F> {
    if size < offset + size_of::<Option<F>>() {
        return None;
    }
    // SAFETY: the size covers it; null is None.
    unsafe { read::<Option<F>>(table, offset) }
}

/// The functions of a plugin's profiler, with what makes a profile: create, destroy, start, stop, and a way to
/// collect. A copy: the plugin's table is not looked at again.
#[derive(Clone, Copy)]
pub(super) struct Table {
    private: *mut c_void,
    error_destroy: Option<Procedure<ErrorDestroyArgs>>,
    error_message: Option<Procedure<ErrorMessageArgs>>,
    error_get_code: Option<Function<ErrorGetCodeArgs>>,
    create: Function<CreateArgs>,
    destroy: Function<ProfilerArgs>,
    start: Function<ProfilerArgs>,
    stop: Function<ProfilerArgs>,
    collect: Option<Function<CollectDataArgs>>,
    chunks: Option<Chunks>,
}

/// The functions that give events away before the end of a session; of use only together.
#[derive(Clone, Copy)]
struct Chunks {
    consume: Function<ConsumeArgs>,
    destroy: Procedure<ConsumeResultDestroyArgs>,
    serialize: Function<SerializeArgs>,
}

// SAFETY: the functions may be called from any thread, because PJRT's tables are static and its frameworks do; the
// private pointer is only handed back to them.
unsafe impl Send for Table {}
// SAFETY: as above; a table is never changed.
unsafe impl Sync for Table {}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("collect", &self.collect.is_some())
            .field("chunks", &self.chunks.is_some())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Reads a table, or says what it lacks.
    ///
    /// # Safety
    ///
    /// `api` is a `PLUGIN_Profiler_Api` of a plugin that stays loaded.
    unsafe fn read(api: *const c_void) -> Result<Self, String> {
        // SAFETY: every table begins with its size.
        let size = unsafe { read::<usize>(api, offset_of!(ProfilerApi, struct_size)) };
        macro_rules! function {
            ($field:ident) => {
                // SAFETY: the table has this many bytes, and the type is that of the field.
                unsafe { slot(api, size, offset_of!(ProfilerApi, $field)) }
            };
        }
        let (create, destroy, start, stop) = (function!(create), function!(destroy), function!(start), function!(stop));
        let collect = function!(collect_data);
        let chunks = match (function!(consume), function!(consume_result_destroy), function!(serialize)) {
            (Some(consume), Some(destroy), Some(serialize)) => Some(Chunks { consume, destroy, serialize }),
            _ => None,
        };
        let lacking = |missing: &[&str]| {
            let names = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            Err(format!("the profiler's table of functions, of {size} bytes, lacks {names}"))
        };
        let (Some(create), Some(destroy), Some(start), Some(stop)) = (create, destroy, start, stop) else {
            let slots = [
                ("create", create.is_none()),
                ("destroy", destroy.is_none()),
                ("start", start.is_none()),
                ("stop", stop.is_none()),
            ];
            return lacking(&slots.iter().filter(|slot| slot.1).map(|slot| slot.0).collect::<Vec<_>>());
        };
        if collect.is_none() && chunks.is_none() {
            return lacking(&["collect_data"]);
        }
        let private_at = offset_of!(ProfilerApi, private);
        // SAFETY: a table that covers `create` covers this, which lies before it.
        let private = unsafe { read::<*mut c_void>(api, private_at) };
        let (error_destroy, error_message) = (function!(error_destroy), function!(error_message));
        let error_get_code = function!(error_get_code);
        Ok(Self {
            private,
            error_destroy,
            error_message,
            error_get_code,
            create,
            destroy,
            start,
            stop,
            collect,
            chunks,
        })
    }

    /// The outcome of a call, with its error read and freed.
    fn outcome(&self, error: *mut ProfilerError) -> Result<(), Status> {
        NonNull::new(error).map_or(Ok(()), |raw| Err(OwnedError { table: self, raw }.status()))
    }
}

/// What a plugin said when it refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: i32,
    pub(super) message: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = usize::try_from(self.code).ok().and_then(|code| CODES.get(code));
        write!(f, "{} ({})", name.unwrap_or(&"an unknown code"), self.code)?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl std::error::Error for Status {}

/// An error of the plugin, which is destroyed with this.
struct OwnedError<'a> {
    table: &'a Table,
    raw: NonNull<ProfilerError>,
}

impl OwnedError<'_> {
    fn status(&self) -> Status {
        Status { code: self.code(), message: self.message() }
    }

    fn code(&self) -> i32 {
        let Some(function) = self.table.error_get_code else { return UNKNOWN };
        let mut args = ErrorGetCodeArgs::new();
        (args.private, args.error) = (self.table.private, self.raw.as_ptr());
        // SAFETY: the error is alive, because only `drop` destroys it, and the arguments outlive the call.
        let failed = unsafe { function(&mut args) };
        match NonNull::new(failed) {
            None => args.code,
            // An error about an error: freed, and not asked for its code in turn.
            Some(raw) => {
                drop(OwnedError { table: self.table, raw });
                UNKNOWN
            }
        }
    }

    fn message(&self) -> String {
        let Some(function) = self.table.error_message else { return String::new() };
        let mut args = ErrorMessageArgs::new();
        (args.private, args.error) = (self.table.private, self.raw.as_ptr());
        // SAFETY: the error is alive, because only `drop` destroys it, and the arguments outlive the call.
        unsafe { function(&mut args) };
        if args.message.is_null() {
            return String::new();
        }
        let size = args.message_size.min(MAX_MESSAGE);
        // SAFETY: the message has at least this many bytes and lives as long as the error.
        let bytes = unsafe { std::slice::from_raw_parts(args.message.cast::<u8>(), size) };
        String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
    }
}

impl Drop for OwnedError<'_> {
    fn drop(&mut self) {
        let Some(function) = self.table.error_destroy else { return };
        let mut args = ErrorDestroyArgs::new();
        (args.private, args.error) = (self.table.private, self.raw.as_ptr());
        // SAFETY: the error is alive and never used after this; the arguments outlive the call.
        unsafe { function(&mut args) };
    }
}

/// Why there are no bytes.
#[derive(Debug)]
pub(super) enum Failure {
    /// The plugin refused.
    Refused(Status),
    /// What the plugin gave does not fit together.
    Broken(String),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// A session of the plugin's profiler, which is destroyed with this.
#[derive(Debug)]
pub(super) struct Handle {
    table: Table,
    raw: NonNull<Profiler>,
}

// SAFETY: no function of the table is bound to a thread, and `&mut self` keeps calls one after another.
unsafe impl Send for Handle {}

impl Handle {
    /// Makes a session with these serialised `ProfileOptions`.
    pub(super) fn create(table: Table, options: &[u8]) -> Result<Self, Failure> {
        let mut args = CreateArgs::new();
        (args.options, args.options_size) = (options.as_ptr().cast(), options.len());
        // SAFETY: the function is the table's; the arguments and the options outlive the call.
        let error = unsafe { (table.create)(&mut args) };
        // What stands in the session's place beside an error is not one: a leak would be the lesser evil.
        table.outcome(error)?;
        let raw = NonNull::new(args.profiler);
        let raw = raw.ok_or_else(|| Failure::Broken("it gave neither a session nor an error".to_owned()))?;
        Ok(Self { table, raw })
    }

    pub(super) fn start(&mut self) -> Result<(), Status> {
        self.call(self.table.start)
    }

    pub(super) fn stop(&mut self) -> Result<(), Status> {
        self.call(self.table.stop)
    }

    fn call(&mut self, function: Function<ProfilerArgs>) -> Result<(), Status> {
        let mut args = ProfilerArgs::new();
        args.profiler = self.raw.as_ptr();
        // SAFETY: the session is alive, because only `drop` destroys it; the arguments outlive the call.
        self.table.outcome(unsafe { function(&mut args) })
    }

    /// Hands the collected bytes to `look`, in the plugin's own memory where they are there.
    ///
    /// A session gives its data once. Whoever calls this again gets what is left, mostly nothing.
    pub(super) fn collect<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<T, Failure> {
        let Some(function) = self.table.collect else { return self.chunk(look) };
        let mut args = CollectDataArgs::new();
        args.profiler = self.raw.as_ptr();
        // SAFETY: the session is alive, because only `drop` destroys it; the arguments outlive the call.
        let error = unsafe { function(&mut args) };
        match self.table.outcome(error) {
            Err(status) if status.code == UNIMPLEMENTED && self.table.chunks.is_some() => return self.chunk(look),
            outcome => outcome?,
        }
        if !args.buffer.is_null() || args.buffer_size == 0 {
            return self.lend(args.buffer, args.buffer_size, look);
        }
        // The documented protocol: a size first, then the caller's own buffer.
        let announced = args.buffer_size;
        // SAFETY: a size of 0 has returned above.
        let mut bytes = unsafe { reserved(announced) }?;
        let own = bytes.as_mut_ptr();
        args.struct_size = CollectDataArgs::STRUCT_SIZE;
        (args.buffer, args.buffer_size) = (own, announced);
        // SAFETY: as above; the buffer has the size that the plugin asked for and outlives the call.
        let error = unsafe { function(&mut args) };
        self.table.outcome(error)?;
        let (buffer, size) = (args.buffer, args.buffer_size);
        if size == 0 {
            return Err(Failure::Broken(format!("it announced {announced} bytes and gave none")));
        }
        if buffer != own && !buffer.is_null() {
            return self.lend(buffer, size, look);
        }
        let written = bytes.get(..size);
        written.map(look).ok_or_else(|| Failure::Broken(format!("it announced {announced} bytes and gave {size}")))
    }

    /// Whether it can give events away before the end.
    pub(super) fn gives_chunks(&self) -> bool {
        self.table.chunks.is_some()
    }

    /// Takes the events so far, if the plugin can do that, and hands their bytes to `look`.
    pub(super) fn chunk<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<T, Failure> {
        let Some(Chunks { consume, destroy, serialize }) = self.table.chunks else {
            return Err(Failure::Broken("it has no function that gives events before the end".to_owned()));
        };
        let mut args = ConsumeArgs::new();
        args.profiler = self.raw.as_ptr();
        // SAFETY: the session is alive, because only `drop` destroys it; the arguments outlive the call.
        let error = unsafe { consume(&mut args) };
        self.table.outcome(error)?;
        let Some(raw) = NonNull::new(args.result) else { return Ok(look(&[])) };
        let chunk = Chunk { destroy, raw };
        let mut args = SerializeArgs::new();
        (args.profiler, args.result) = (self.raw.as_ptr(), chunk.raw.as_ptr());
        // SAFETY: session and chunk are alive, because only their `drop` destroys them; the arguments outlive the call.
        let error = unsafe { serialize(&mut args) };
        self.table.outcome(error)?;
        self.lend(args.bytes, args.size, look)
    }

    /// Lends bytes that the plugin keeps until the session's next call, which cannot be made meanwhile.
    fn lend<T>(&mut self, bytes: *const u8, size: usize, look: impl FnOnce(&[u8]) -> T) -> Result<T, Failure> {
        if size == 0 {
            return Ok(look(&[]));
        }
        if bytes.is_null() || isize::try_from(size).is_err() {
            return Err(Failure::Broken(format!("it gave {size} bytes at {bytes:p}")));
        }
        // SAFETY: the plugin says that this many bytes lie there; they are its own until it is called again, and
        // `&mut self` keeps that from happening while the slice lives.
        Ok(look(unsafe { std::slice::from_raw_parts(bytes, size) }))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(status) = self.call(self.table.destroy) {
            log::debug!("a PJRT plugin failed to destroy its profiler's session: {status}");
        }
    }
}

/// Events that the plugin gave away, which are destroyed with this.
struct Chunk {
    destroy: Procedure<ConsumeResultDestroyArgs>,
    raw: NonNull<ConsumeResult>,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut args = ConsumeResultDestroyArgs::new();
        args.result = self.raw.as_ptr();
        // SAFETY: the chunk is alive and never used after this; the arguments outlive the call.
        unsafe { (self.destroy)(&mut args) };
    }
}

/// Zeroed memory of a size that a plugin announced, which may be anything. Its pages come into being when they are
/// written, so a size that is only talk costs nothing.
///
/// # Safety
///
/// `size` is not 0.
unsafe fn reserved(size: usize) -> Result<Vec<u8>, Failure> {
    let none = || Failure::Broken(format!("it announced {size} bytes, for which there is no memory"));
    let layout = Layout::array::<u8>(size).map_err(|_| none())?;
    // SAFETY: the size is not 0, as the caller says.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return Err(none());
    }
    // SAFETY: the allocator of `Vec` has just given this many initialised bytes with this layout.
    Ok(unsafe { Vec::from_raw_parts(start, size, size) })
}
