//! The part of PJRT's C interface that a profiler needs, as `repr(C)` types whose layout is tested.
//!
//! Tables and argument structs begin with their size as their author knew it: fields were added at the end over the
//! years. Nothing here may be read through a reference, because the author of a plugin may have known fewer fields.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// The major version of the interface whose layouts these are.
pub(super) const MAJOR: i32 = 0;
/// The first minor version with a chain of extensions; what stands in its place before is the plugin's own.
pub(super) const MINOR_EXTENSIONS: i32 = 31;
/// The first minor version whose extensions begin with their size.
pub(super) const MINOR_SIZED_EXTENSIONS: i32 = 45;

/// The kind of [`ProfilerExtension`].
pub(super) const KIND_PROFILER: i32 = 1;

/// Names of the kinds of extensions, in the order of their numbers.
pub(super) const KINDS: [&str; 25] = [
    "gpu custom call",
    "profiler",
    "custom partitioner",
    "stream",
    "layouts",
    "ffi",
    "memory descriptions",
    "triton",
    "raw buffer",
    "phase compile",
    "example",
    "unknown",
    "cross host transfers",
    "executable metadata",
    "callback",
    "host allocator",
    "tpu topology",
    "tpu executable",
    "megascale",
    "shardings",
    "abi version",
    "collectives",
    "multi slice",
    "host memory allocator",
    "xla transform",
];

/// A code that says the plugin knows the call but does not do it.
pub(super) const UNIMPLEMENTED: i32 = 12;
/// The code of an error that says nothing of itself.
pub(super) const UNKNOWN: i32 = 2;

/// Names of status codes, in the order of their numbers.
pub(super) const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The symbol that every plugin exports; a [`GetApi`].
pub(super) const ENTRY: &str = "GetPjrtApi";

/// What [`ENTRY`] is.
pub(super) type GetApi = unsafe extern "C" fn() -> *const c_void;

/// The first fields of `PJRT_Api`.
#[repr(C)]
pub(super) struct ApiHead {
    pub(super) struct_size: usize,
    pub(super) extension_start: *const c_void,
    pub(super) version: ApiVersion,
}

/// `PJRT_Api_Version`.
#[repr(C)]
pub(super) struct ApiVersion {
    pub(super) struct_size: usize,
    pub(super) extension_start: *const c_void,
    pub(super) major: i32,
    pub(super) minor: i32,
}

/// `PJRT_Extension_Base`, the start of every extension.
#[repr(C)]
pub(super) struct Extension {
    pub(super) struct_size: usize,
    pub(super) kind: i32,
    pub(super) next: *const c_void,
}

/// `PJRT_Profiler_Extension`.
#[repr(C)]
pub(super) struct ProfilerExtension {
    pub(super) base: Extension,
    pub(super) profiler_api: *const c_void,
    pub(super) traceme_context_id: i64,
}

/// The start of an extension before [`MINOR_SIZED_EXTENSIONS`].
#[repr(C)]
pub(super) struct UnsizedExtension {
    pub(super) kind: i32,
    pub(super) next: *const c_void,
}

/// The profiler's extension before [`MINOR_SIZED_EXTENSIONS`].
#[repr(C)]
pub(super) struct UnsizedProfilerExtension {
    pub(super) base: UnsizedExtension,
    pub(super) profiler_api: *const c_void,
}

/// An error that the plugin owns until it is destroyed: `PLUGIN_Profiler_Error`.
#[repr(C)]
pub(super) struct ProfilerError {
    _opaque: [u8; 0],
}

/// A profiling session of the plugin: `PLUGIN_Profiler`.
#[repr(C)]
pub(super) struct Profiler {
    _opaque: [u8; 0],
}

/// Events that a session gave away before its end.
#[repr(C)]
pub(super) struct ConsumeResult {
    _opaque: [u8; 0],
}

/// A function of the table that may fail.
pub(super) type Function<A> = unsafe extern "C" fn(*mut A) -> *mut ProfilerError;
/// A function of the table that cannot fail.
pub(super) type Procedure<A> = unsafe extern "C" fn(*mut A);

/// `PLUGIN_Profiler_Api`. The last three functions are missing in older plugins.
#[repr(C)]
pub(super) struct ProfilerApi {
    pub(super) struct_size: usize,
    pub(super) private: *mut c_void,
    pub(super) error_destroy: Option<Procedure<ErrorDestroyArgs>>,
    pub(super) error_message: Option<Procedure<ErrorMessageArgs>>,
    pub(super) error_get_code: Option<Function<ErrorGetCodeArgs>>,
    pub(super) create: Option<Function<CreateArgs>>,
    pub(super) destroy: Option<Function<ProfilerArgs>>,
    pub(super) start: Option<Function<ProfilerArgs>>,
    pub(super) stop: Option<Function<ProfilerArgs>>,
    pub(super) collect_data: Option<Function<CollectDataArgs>>,
    pub(super) consume: Option<Function<ConsumeArgs>>,
    pub(super) consume_result_destroy: Option<Procedure<ConsumeResultDestroyArgs>>,
    pub(super) serialize: Option<Function<SerializeArgs>>,
}

macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = $value:expr,)* } last $last:ident: $last_type:ty;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(super) struct $name {
            pub(super) struct_size: usize,
            $(pub(super) $field: $type,)*
        }

        impl $name {
            /// The size to announce: to the end of the last field, without padding.
            pub(super) const STRUCT_SIZE: usize = std::mem::offset_of!($name, $last) + size_of::<$last_type>();

            /// Arguments of nothing, with their size set.
            pub(super) const fn new() -> Self {
                Self { struct_size: Self::STRUCT_SIZE, $($field: $value,)* }
            }
        }
    )*};
}

arguments! {
    /// Of `error_destroy`.
    ErrorDestroyArgs {
        private: *mut c_void = null_mut(),
        error: *mut ProfilerError = null_mut(),
    } last error: *mut ProfilerError;

    /// Of `error_message`; the message is the error's and need not end in NUL.
    ErrorMessageArgs {
        private: *mut c_void = null_mut(),
        error: *mut ProfilerError = null_mut(),
        message: *const c_char = std::ptr::null(),
        message_size: usize = 0,
    } last message_size: usize;

    /// Of `error_get_code`.
    ErrorGetCodeArgs {
        private: *mut c_void = null_mut(),
        error: *mut ProfilerError = null_mut(),
        code: i32 = UNKNOWN,
    } last code: i32;

    /// Of `create`; the options are a serialised `ProfileOptions`.
    CreateArgs {
        options: *const c_char = std::ptr::null(),
        options_size: usize = 0,
        profiler: *mut Profiler = null_mut(),
    } last profiler: *mut Profiler;

    /// Of `destroy`, `start` and `stop`.
    ProfilerArgs {
        profiler: *mut Profiler = null_mut(),
    } last profiler: *mut Profiler;

    /// Of `collect_data`.
    CollectDataArgs {
        profiler: *mut Profiler = null_mut(),
        buffer: *mut u8 = null_mut(),
        buffer_size: usize = 0,
    } last buffer_size: usize;

    /// Of `consume`.
    ConsumeArgs {
        profiler: *mut Profiler = null_mut(),
        result: *mut ConsumeResult = null_mut(),
    } last result: *mut ConsumeResult;

    /// Of `consume_result_destroy`.
    ConsumeResultDestroyArgs {
        result: *mut ConsumeResult = null_mut(),
    } last result: *mut ConsumeResult;

    /// Of `serialize`; the bytes are the plugin's until the next call.
    SerializeArgs {
        profiler: *mut Profiler = null_mut(),
        result: *mut ConsumeResult = null_mut(),
        bytes: *const u8 = std::ptr::null(),
        size: usize = 0,
    } last size: usize;
}

// The numbers are those of 64-bit systems, for which alone there are plugins.
#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Size, alignment and offsets of a type, beside the numbers of the C header on 64-bit systems.
    macro_rules! layout {
        ($type:ident is $size:literal: $($field:ident $offset:literal),*) => {
            assert_eq!((size_of::<$type>(), align_of::<$type>()), ($size, 8), stringify!($type));
            $(assert_eq!(offset_of!($type, $field), $offset, concat!(stringify!($type), ".", stringify!($field)));)*
        };
    }

    #[test]
    fn the_heads_of_tables_lie_as_in_the_header() {
        layout!(ApiVersion is 24: struct_size 0, extension_start 8, major 16, minor 20);
        layout!(ApiHead is 40: struct_size 0, extension_start 8, version 16);
        layout!(Extension is 24: struct_size 0, kind 8, next 16);
        layout!(ProfilerExtension is 40: base 0, profiler_api 24, traceme_context_id 32);
        layout!(UnsizedExtension is 16: kind 0, next 8);
        layout!(UnsizedProfilerExtension is 24: base 0, profiler_api 16);
        layout!(ProfilerApi is 104: struct_size 0, private 8, error_destroy 16, error_message 24, error_get_code 32,
            create 40, destroy 48, start 56, stop 64, collect_data 72, consume 80, consume_result_destroy 88, serialize 96);
    }

    #[test]
    fn arguments_lie_as_in_the_header() {
        layout!(ErrorDestroyArgs is 24: struct_size 0, private 8, error 16);
        layout!(ErrorMessageArgs is 40: struct_size 0, private 8, error 16, message 24, message_size 32);
        layout!(ErrorGetCodeArgs is 32: struct_size 0, private 8, error 16, code 24);
        layout!(CreateArgs is 32: struct_size 0, options 8, options_size 16, profiler 24);
        layout!(ProfilerArgs is 16: struct_size 0, profiler 8);
        layout!(CollectDataArgs is 32: struct_size 0, profiler 8, buffer 16, buffer_size 24);
        layout!(ConsumeArgs is 24: struct_size 0, profiler 8, result 16);
        layout!(ConsumeResultDestroyArgs is 16: struct_size 0, result 8);
        layout!(SerializeArgs is 40: struct_size 0, profiler 8, result 16, bytes 24, size 32);
    }

    #[test]
    fn announced_sizes_end_with_the_last_field() {
        let announced = [
            ErrorDestroyArgs::new().struct_size,
            ErrorMessageArgs::new().struct_size,
            ErrorGetCodeArgs::new().struct_size,
            CreateArgs::new().struct_size,
            ProfilerArgs::new().struct_size,
            CollectDataArgs::new().struct_size,
            ConsumeArgs::new().struct_size,
            ConsumeResultDestroyArgs::new().struct_size,
            SerializeArgs::new().struct_size,
        ];
        assert_eq!(announced, [24, 40, 28, 32, 16, 32, 24, 16, 40]);
    }

    #[test]
    fn numbers_have_the_names_of_the_header() {
        assert_eq!([KINDS[1], KINDS[11], KINDS[24]], ["profiler", "unknown", "xla transform"]);
        assert_eq!([CODES[2], CODES[10], CODES[12]], ["UNKNOWN", "ABORTED", "UNIMPLEMENTED"]);
    }
}
