//! A PJRT plugin, safe to use: the only module of the example with unsafe code.
//!
//! What is in the file that [`Plugin::load`] is given, nobody can check; that it is a PJRT plugin and keeps to the
//! interface is what the safety of all that follows rests on.

use std::error::Error as StdError;
use std::ffi::c_char;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::slice;

use libloading::Library;
use zprof::Linkage;

use crate::abi::{self, Api, Function, GetApi, Handle, Object, Slot};

type Result<T, E = Error> = std::result::Result<T, E>;

/// A serialised `CompileOptionsProto`: field 3, the build options, says device -1 (whichever the plugin takes), one
/// replica and one partition (fields 1, 4 and 5).
const COMPILE_OPTIONS: &[u8] =
    &[0x1a, 15, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x20, 1, 0x28, 1];

/// What went wrong between the example and the plugin.
#[derive(Debug)]
pub(crate) enum Error {
    /// The file is not there, or no library, or no plugin.
    Open { path: PathBuf, source: libloading::Error },
    /// The plugin lacks what the example needs.
    Unfit { version: (i32, i32), problem: String },
    /// The plugin has reported an error; `code` is an `absl::StatusCode`.
    Call { function: &'static str, code: i32, message: String },
    /// The plugin has reported success and given something else than expected.
    Unexpected { function: &'static str, problem: String },
}

/// A plugin. It stays loaded until the process ends: plugins have threads of their own that would lose their code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plugin {
    /// Holds at least an [`Api`] and every slot of [`abi::ALL`], and lives as long as the process.
    api: NonNull<Api>,
}

impl Plugin {
    /// Loads and initialises a plugin.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let open = |source| Error::Open { path: path.to_owned(), source };
        // SAFETY: loading runs the plugin's initialisers; the module's text says what we rely on.
        let library = unsafe { Library::new(path) }.map_err(open)?;
        // SAFETY: the symbol of this name is a function of this type in every PJRT plugin.
        let symbol = unsafe { library.get::<GetApi>(b"GetPjrtApi\0") }.map_err(open)?;
        let get_api = *symbol;
        mem::forget(library);
        // SAFETY: the function takes nothing and may be called at any time.
        let api = NonNull::new(unsafe { get_api() }.cast_mut())
            .ok_or_else(|| Error::Unexpected { function: "GetPjrtApi", problem: "no table".to_owned() })?;
        let plugin = Self { api };
        plugin.check()?;
        // SAFETY: the arguments refer to nothing.
        unsafe { plugin.call(&abi::PLUGIN_INITIALIZE, &mut abi::PluginInitialize::new()) }?;
        Ok(plugin)
    }

    /// Major and minor version of the plugin's PJRT.
    pub(crate) fn version(self) -> (i32, i32) {
        // SAFETY: the table holds a whole `Api` and lives on.
        let api = unsafe { self.api.as_ref() };
        (api.version.major, api.version.minor)
    }

    /// Refuses a table that has not all that the example calls, so that nothing is missing half-way.
    fn check(self) -> Result<()> {
        // SAFETY: every table begins with its size.
        let size = unsafe { self.api.cast::<usize>().read() };
        let unfit = |version, problem| Err(Error::Unfit { version, problem });
        if size < size_of::<Api>() {
            return unfit((0, 0), format!("its table of {size} bytes has no version"));
        }
        let version = self.version();
        if version.0 != 0 {
            return unfit(version, "the example knows major version 0 only".to_owned());
        }
        for (offset, name) in abi::ALL {
            if size < offset + size_of::<Handle>() {
                return unfit(version, format!("its table of {size} bytes ends before {name}"));
            }
            // SAFETY: the table has this slot, and it is as large as a pointer.
            let slot = unsafe { self.api.as_ptr().byte_add(*offset) };
            // SAFETY: slots are aligned pointers.
            if unsafe { slot.cast::<Handle>().read() }.is_null() {
                return unfit(version, format!("it has no {name}"));
            }
        }
        Ok(())
    }

    /// The function in a slot.
    fn function<F: Copy>(self, slot: &Slot<F>) -> F {
        // SAFETY: `check` has found the slot inside the table.
        let place = unsafe { self.api.as_ptr().byte_add(slot.offset) };
        // SAFETY: the slot holds a function of this type, which `check` has found not to be null.
        unsafe { place.cast::<F>().read() }
    }

    /// Calls a function of the table.
    ///
    /// # Safety
    ///
    /// Everything in `arguments` that the function reads must be as it expects, and stay for as long as it wants it.
    unsafe fn call<A>(self, slot: &Slot<Function<A>>, arguments: &mut A) -> Result<()> {
        let function = self.function(slot);
        // SAFETY: the caller vouches for the arguments.
        let error = unsafe { function(arguments) };
        if error.is_null() { Ok(()) } else { Err(self.take_error(slot.name, error)) }
    }

    /// Reads an error of the plugin's, which is not null and ours, and frees it.
    fn take_error(self, function: &'static str, error: Handle) -> Error {
        let mut text = abi::ErrorMessage { error, ..abi::ErrorMessage::new() };
        // SAFETY: the error is alive.
        unsafe { self.function(&abi::ERROR_MESSAGE)(&mut text) };
        // SAFETY: the message lives as long as the error, which is freed below.
        let message = unsafe { string(text.message, text.message_size) };
        let mut status = abi::ErrorGetCode { error, ..abi::ErrorGetCode::new() };
        // SAFETY: the error is alive.
        let second = unsafe { self.function(&abi::ERROR_GET_CODE)(&mut status) };
        // An error about the error; asking for its text could go on for ever.
        for error in [second, error] {
            // SAFETY: each is null, which the function permits, or ours, and not used again.
            unsafe { self.function(&abi::ERROR_DESTROY)(&mut Object { object: error, ..Object::new() }) };
        }
        Error::Call { function, code: status.code, message }
    }
}

/// Something of the plugin's that we have to destroy while the client lives.
struct Owned<'c> {
    plugin: Plugin,
    /// Not null.
    handle: Handle,
    destroy: Slot<Function<Object>>,
    /// Stands here, where `Drop` is, so that rustc lets nothing outlive its client.
    client: PhantomData<&'c Client>,
}

impl Owned<'_> {
    /// Takes what `function` has given.
    fn new(plugin: Plugin, function: &'static str, handle: Handle, destroy: Slot<Function<Object>>) -> Result<Self> {
        if handle.is_null() {
            return Err(Error::Unexpected { function, problem: "a null pointer".to_owned() });
        }
        Ok(Self { plugin, handle, destroy, client: PhantomData })
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        let mut object = Object { object: self.handle, ..Object::new() };
        // SAFETY: the object is ours and not used again.
        if let Err(error) = unsafe { self.plugin.call(&self.destroy, &mut object) } {
            eprintln!("pjrt: {error}");
        }
    }
}

/// The plugin's devices and memory.
pub(crate) struct Client {
    owned: Owned<'static>,
    /// The first device that this process can use; lives as long as the client.
    device: Handle,
}

impl Client {
    /// Creates a client with the plugin's own options.
    pub(crate) fn new(plugin: Plugin) -> Result<Self> {
        let mut create = abi::ClientCreate::new();
        // SAFETY: nothing is given: no option, no callback.
        unsafe { plugin.call(&abi::CLIENT_CREATE, &mut create) }?;
        let owned = Owned::new(plugin, abi::CLIENT_CREATE.name, create.client, abi::CLIENT_DESTROY)?;

        let mut list = abi::ClientAddressableDevices { client: owned.handle, ..abi::ClientAddressableDevices::new() };
        // SAFETY: the client is alive.
        unsafe { plugin.call(&abi::CLIENT_ADDRESSABLE_DEVICES, &mut list) }?;
        if list.num_devices == 0 || list.devices.is_null() {
            let problem = "no device".to_owned();
            return Err(Error::Unexpected { function: abi::CLIENT_ADDRESSABLE_DEVICES.name, problem });
        }
        // SAFETY: the list lives as long as the client and is not empty.
        let device = unsafe { list.devices.read() };
        Ok(Self { owned, device })
    }

    /// What the plugin calls its kind of device, e.g. `cpu` or `cuda`.
    pub(crate) fn platform_name(&self) -> Result<String> {
        let mut name = abi::ClientPlatformName { client: self.owned.handle, ..abi::ClientPlatformName::new() };
        // SAFETY: the client is alive.
        unsafe { self.owned.plugin.call(&abi::CLIENT_PLATFORM_NAME, &mut name) }?;
        // SAFETY: the name lives as long as the client.
        Ok(unsafe { string(name.name, name.name_size) })
    }

    /// Compiles a StableHLO module, for one device. The plugin hears from `link` who calls.
    pub(crate) fn compile(&self, code: &str, link: &Linkage) -> Result<Executable<'_>> {
        let plugin = self.owned.plugin;
        let program = abi::Program {
            code: code.as_ptr().cast(),
            code_size: code.len(),
            format: "mlir".as_ptr().cast(),
            format_size: 4,
            ..abi::Program::new()
        };
        let mut compile = abi::ClientCompile {
            head: abi::ClientCompile::head(link.as_ptr()),
            client: self.owned.handle,
            program: &program,
            compile_options: COMPILE_OPTIONS.as_ptr().cast(),
            compile_options_size: COMPILE_OPTIONS.len(),
            ..abi::ClientCompile::new()
        };
        // SAFETY: client, program, options and link outlive the call, and their lengths are right.
        unsafe { plugin.call(&abi::CLIENT_COMPILE, &mut compile) }?;
        let function = abi::CLIENT_COMPILE.name;
        let owned = Owned::new(plugin, function, compile.executable, abi::LOADED_EXECUTABLE_DESTROY)?;

        let mut get = abi::GetExecutable { loaded: owned.handle, ..abi::GetExecutable::new() };
        // SAFETY: the loaded executable is alive.
        unsafe { plugin.call(&abi::GET_EXECUTABLE, &mut get) }?;
        let description = Owned::new(plugin, abi::GET_EXECUTABLE.name, get.executable, abi::EXECUTABLE_DESTROY)?;
        let mut count = abi::NumOutputs { executable: description.handle, ..abi::NumOutputs::new() };
        // SAFETY: the executable is alive.
        unsafe { plugin.call(&abi::EXECUTABLE_NUM_OUTPUTS, &mut count) }?;
        if count.num_outputs != 1 {
            let problem = format!("{} outputs; the example handles one", count.num_outputs);
            return Err(Error::Unexpected { function: abi::EXECUTABLE_NUM_OUTPUTS.name, problem });
        }
        Ok(Executable { owned })
    }

    /// Copies a dense row-major array to the device.
    ///
    /// # Panics
    ///
    /// Panics unless `data` has as many elements as `dims` says.
    pub(crate) fn upload(&self, data: &[f32], dims: &[i64]) -> Result<Buffer<'_>> {
        let elements = i64::try_from(data.len()).expect("a slice has fewer elements");
        assert_eq!(elements, dims.iter().product::<i64>(), "the array has not the shape {dims:?}");
        let plugin = self.owned.plugin;
        let mut upload = abi::BufferFromHost {
            client: self.owned.handle,
            data: data.as_ptr().cast(),
            element: abi::F32,
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            semantics: abi::ONLY_DURING_CALL,
            device: self.device,
            ..abi::BufferFromHost::new()
        };
        // SAFETY: the client is alive, the data has the shape, and the plugin does not look at it after the call.
        unsafe { plugin.call(&abi::BUFFER_FROM_HOST, &mut upload) }?;
        let function = abi::BUFFER_FROM_HOST.name;
        let owned = Owned::new(plugin, function, upload.buffer, abi::BUFFER_DESTROY)?;
        if !upload.done_with_host_buffer.is_null() {
            Event::new(plugin, function, upload.done_with_host_buffer)?.wait()?;
        }
        Ok(Buffer { owned })
    }
}

/// A compiled program with one output.
pub(crate) struct Executable<'c> {
    owned: Owned<'c>,
}

impl<'c> Executable<'c> {
    /// Starts the program; its output can be used at once, and the event says when it is there. The plugin hears from
    /// `link` who calls.
    pub(crate) fn execute(&self, arguments: &[&Buffer<'c>], link: &Linkage) -> Result<(Buffer<'c>, Event<'c>)> {
        let plugin = self.owned.plugin;
        let arguments: Vec<Handle> = arguments.iter().map(|buffer| buffer.owned.handle).collect();
        let mut output: Handle = ptr::null_mut();
        let mut complete: Handle = ptr::null_mut();
        let mut execute = abi::Execute {
            head: abi::Execute::head(link.as_ptr()),
            executable: self.owned.handle,
            options: &abi::ExecuteOptions::new(),
            argument_lists: &arguments.as_ptr(),
            num_devices: 1,
            num_args: arguments.len(),
            output_lists: &(&raw mut output),
            complete_events: &raw mut complete,
            ..abi::Execute::new()
        };
        // SAFETY: executable, buffers and link are alive, the lists have the lengths told, `compile` has seen that there is
        // one output, and the temporaries live to the end of the function. The plugin checks number and sizes of the
        // buffers.
        unsafe { plugin.call(&abi::EXECUTE, &mut execute) }?;
        let function = abi::EXECUTE.name;
        let event = Event::new(plugin, function, complete);
        let output = Owned::new(plugin, function, output, abi::BUFFER_DESTROY)?;
        Ok((Buffer { owned: output }, event?))
    }
}

/// An array on the device.
pub(crate) struct Buffer<'c> {
    owned: Owned<'c>,
}

impl Buffer<'_> {
    /// Waits for the array and copies it into `data`, which must be as long, in the layout of the device: row-major
    /// where the compiler has chosen no other, and it does so for outputs on CPUs and GPUs.
    pub(crate) fn download(&self, data: &mut [f32]) -> Result<()> {
        let (plugin, buffer) = (self.owned.plugin, self.owned.handle);
        let function = abi::BUFFER_TO_HOST.name;
        let mut download = abi::BufferToHost { buffer, ..abi::BufferToHost::new() };
        // SAFETY: the buffer is alive; without a place for the data the plugin tells its size.
        unsafe { plugin.call(&abi::BUFFER_TO_HOST, &mut download) }?;
        let size = size_of_val(data);
        if download.size != size {
            let problem = format!("an array of {} bytes; it should have {size}", download.size);
            return Err(Error::Unexpected { function, problem });
        }
        let data = data.as_mut_ptr().cast();
        let mut download = abi::BufferToHost { buffer, data, size, ..abi::BufferToHost::new() };
        // SAFETY: the buffer is alive, and the place has the size told and stays borrowed until the copy is done.
        unsafe { plugin.call(&abi::BUFFER_TO_HOST, &mut download) }?;
        Event::new(plugin, function, download.event)?.wait()
    }
}

/// Something that the plugin does meanwhile.
pub(crate) struct Event<'c> {
    owned: Owned<'c>,
}

impl Event<'_> {
    fn new(plugin: Plugin, function: &'static str, handle: Handle) -> Result<Self> {
        let owned = Owned::new(plugin, function, handle, abi::EVENT_DESTROY)?;
        Ok(Self { owned })
    }

    /// Blocks until it is done; an error is what it has ended with.
    pub(crate) fn wait(self) -> Result<()> {
        let mut event = Object { object: self.owned.handle, ..Object::new() };
        // SAFETY: the event is alive.
        unsafe { self.owned.plugin.call(&abi::EVENT_AWAIT, &mut event) }
    }
}

/// A copy of a text of the plugin's.
///
/// # Safety
///
/// `text` must be null or point at `size` bytes.
unsafe fn string(text: *const c_char, size: usize) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for it.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, .. } => write!(f, "`{}` is no PJRT plugin that can be loaded", path.display()),
            Self::Unfit { version: (major, minor), problem } => {
                write!(f, "the plugin, of PJRT {major}.{minor}, cannot be used: {problem}")
            }
            Self::Call { function, code, message } => {
                write!(f, "{function} failed with status {code}: {}", message.trim_end())
            }
            Self::Unexpected { function, problem } => write!(f, "{function} succeeded and gave {problem}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Open { source, .. } => Some(source),
            _ => None,
        }
    }
}
