//! The part of PJRT's C interface that the example calls: argument structs and the places of the functions.
//!
//! Layouts are those of version 0.81 on a 64-bit machine. Fields are only ever added at the end, so newer plugins read
//! the same ones; every struct begins with its size, by which both sides know how far the other's goes.

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr;

/// Something of the plugin's that is only passed around.
pub(crate) type Handle = *mut c_void;

/// How every argument struct begins.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Head {
    /// Size of the whole struct in bytes.
    pub(crate) struct_size: usize,
    /// First of a chain of extensions.
    pub(crate) extension_start: *const c_void,
}

/// The plugin's table, as far as it lies in front of the functions.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) head: Head,
    pub(crate) version: Version,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) head: Head,
    pub(crate) major: i32,
    pub(crate) minor: i32,
}

/// The symbol that a plugin exports.
pub(crate) type GetApi = unsafe extern "C" fn() -> *const Api;

/// What the functions of the table are. What they return is null or an error, which then belongs to the caller.
pub(crate) type Function<A> = unsafe extern "C" fn(*mut A) -> Handle;

/// The two functions about errors that cannot fail.
pub(crate) type Procedure<A> = unsafe extern "C" fn(*mut A);

/// A place of the table that holds a function pointer of type `F`, or null.
#[derive(Debug)]
pub(crate) struct Slot<F> {
    /// Bytes from the table's start.
    pub(crate) offset: usize,
    pub(crate) name: &'static str,
    function: PhantomData<F>,
}

impl<F> Slot<F> {
    const fn new(offset: usize, name: &'static str) -> Self {
        Self { offset, name, function: PhantomData }
    }
}

/// A type with a zero for the plugin to see.
trait Zero {
    const ZERO: Self;
}

impl Zero for usize {
    const ZERO: Self = 0;
}

impl Zero for i32 {
    const ZERO: Self = 0;
}

impl<T> Zero for *const T {
    const ZERO: Self = ptr::null();
}

impl<T> Zero for *mut T {
    const ZERO: Self = ptr::null_mut();
}

macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident, $size:literal: { $($field:ident: $type:ty = $offset:literal,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub(crate) struct $name {
            pub(crate) head: Head,
            $(pub(crate) $field: $type,)*
        }

        impl $name {
            /// The struct with its size, and zeros: nothing given.
            pub(crate) fn new() -> Self {
                Self { head: Self::head(ptr::null()), $($field: Zero::ZERO,)* }
            }

            /// The struct's size, and a chain of extensions.
            pub(crate) fn head(extension_start: *const c_void) -> Head {
                Head { struct_size: size_of::<Self>(), extension_start }
            }
        }

        const _: () = assert!(size_of::<$name>() == $size);
        $(const _: () = assert!(offset_of!($name, $field) == $offset);)*
    )*};
}

// Name and size, then each field with its offset.
arguments! {
    /// What all functions take that need one object and nothing else.
    Object, 24: { object: Handle = 16, }
    ErrorMessage, 40: { error: Handle = 16, message: *const c_char = 24, message_size: usize = 32, }
    ErrorGetCode, 32: { error: Handle = 16, code: i32 = 24, }
    PluginInitialize, 16: {}
    ClientCreate, 88: {
        create_options: *const c_void = 16, num_options: usize = 24,
        kv_get_callback: *const c_void = 32, kv_get_user_arg: *mut c_void = 40,
        kv_put_callback: *const c_void = 48, kv_put_user_arg: *mut c_void = 56,
        client: Handle = 64,
        kv_try_get_callback: *const c_void = 72, kv_try_get_user_arg: *mut c_void = 80,
    }
    ClientPlatformName, 40: { client: Handle = 16, name: *const c_char = 24, name_size: usize = 32, }
    ClientAddressableDevices, 40: { client: Handle = 16, devices: *const Handle = 24, num_devices: usize = 32, }
    ClientCompile, 56: {
        client: Handle = 16, program: *const Program = 24,
        compile_options: *const c_char = 32, compile_options_size: usize = 40,
        executable: Handle = 48,
    }
    Program, 48: { code: *const c_char = 16, code_size: usize = 24, format: *const c_char = 32, format_size: usize = 40, }
    BufferFromHost, 120: {
        client: Handle = 16, data: *const c_void = 24, element: i32 = 32,
        dims: *const i64 = 40, num_dims: usize = 48, byte_strides: *const i64 = 56, num_byte_strides: usize = 64,
        semantics: i32 = 72, device: Handle = 80, memory: Handle = 88, layout: *const c_void = 96,
        done_with_host_buffer: Handle = 104, buffer: Handle = 112,
    }
    GetExecutable, 32: { loaded: Handle = 16, executable: Handle = 24, }
    NumOutputs, 32: { executable: Handle = 16, num_outputs: usize = 24, }
    ExecuteOptions, 112: {
        send_callbacks: *const c_void = 16, recv_callbacks: *const c_void = 24,
        num_send_ops: usize = 32, num_recv_ops: usize = 40, launch_id: i32 = 48,
        non_donatable: *const i64 = 56, num_non_donatable: usize = 64,
        context: Handle = 72, call_location: *const c_char = 80,
        num_tasks: usize = 88, task_ids: *const i32 = 96, incarnation_ids: *const i64 = 104,
    }
    Execute, 80: {
        executable: Handle = 16, options: *const ExecuteOptions = 24,
        // For each device the list of its arguments, and room for its outputs.
        argument_lists: *const *const Handle = 32, num_devices: usize = 40, num_args: usize = 48,
        output_lists: *const *mut Handle = 56,
        // Room for one event for each device.
        complete_events: *mut Handle = 64,
        device: Handle = 72,
    }
    BufferToHost, 56: { buffer: Handle = 16, layout: *const c_void = 24, data: *mut c_void = 32, size: usize = 40, event: Handle = 48, }
}

const _: () = assert!(size_of::<Head>() == 16 && offset_of!(Api, version) == 16 && size_of::<Api>() == 40);
const _: () = assert!(offset_of!(Version, major) == 16 && offset_of!(Version, minor) == 20);

/// `PJRT_Buffer_Type_F32`.
pub(crate) const F32: i32 = 11;

/// `PJRT_HostBufferSemantics_kImmutableOnlyDuringCall`: the plugin has copied the data when the call returns.
pub(crate) const ONLY_DURING_CALL: i32 = 0;

pub(crate) const ERROR_DESTROY: Slot<Procedure<Object>> = Slot::new(40, "PJRT_Error_Destroy");
pub(crate) const ERROR_MESSAGE: Slot<Procedure<ErrorMessage>> = Slot::new(48, "PJRT_Error_Message");

macro_rules! functions {
    ($($slot:ident = $offset:literal, $name:literal: $arguments:ident;)*) => {
        $(pub(crate) const $slot: Slot<Function<$arguments>> = Slot::new($offset, $name);)*

        /// Every place that the example reads.
        pub(crate) const ALL: &[(usize, &str)] = &[
            (ERROR_DESTROY.offset, ERROR_DESTROY.name),
            (ERROR_MESSAGE.offset, ERROR_MESSAGE.name),
            $(($offset, $name),)*
        ];
    };
}

functions! {
    ERROR_GET_CODE = 56, "PJRT_Error_GetCode": ErrorGetCode;
    PLUGIN_INITIALIZE = 64, "PJRT_Plugin_Initialize": PluginInitialize;
    EVENT_DESTROY = 80, "PJRT_Event_Destroy": Object;
    EVENT_AWAIT = 104, "PJRT_Event_Await": Object;
    CLIENT_CREATE = 120, "PJRT_Client_Create": ClientCreate;
    CLIENT_DESTROY = 128, "PJRT_Client_Destroy": Object;
    CLIENT_PLATFORM_NAME = 136, "PJRT_Client_PlatformName": ClientPlatformName;
    CLIENT_ADDRESSABLE_DEVICES = 168, "PJRT_Client_AddressableDevices": ClientAddressableDevices;
    CLIENT_COMPILE = 200, "PJRT_Client_Compile": ClientCompile;
    BUFFER_FROM_HOST = 216, "PJRT_Client_BufferFromHostBuffer": BufferFromHost;
    EXECUTABLE_DESTROY = 360, "PJRT_Executable_Destroy": Object;
    EXECUTABLE_NUM_OUTPUTS = 392, "PJRT_Executable_NumOutputs": NumOutputs;
    LOADED_EXECUTABLE_DESTROY = 440, "PJRT_LoadedExecutable_Destroy": Object;
    GET_EXECUTABLE = 448, "PJRT_LoadedExecutable_GetExecutable": GetExecutable;
    EXECUTE = 480, "PJRT_LoadedExecutable_Execute": Execute;
    BUFFER_DESTROY = 504, "PJRT_Buffer_Destroy": Object;
    BUFFER_TO_HOST = 600, "PJRT_Buffer_ToHostBuffer": BufferToHost;
}
