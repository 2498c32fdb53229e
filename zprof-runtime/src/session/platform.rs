//! Platforms: what a profiler profiles besides the host.

use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};

use super::Profiler;
use super::options::ProfilerOptions;
use crate::error::Result;
use crate::pjrt::Plugin;

/// What a profiler looks at: the host, and where there is a PJRT plugin, its accelerator.
///
/// A plugin is loaded for the rest of the process, since few survive being unloaded. zprof asks it for its profile and
/// for nothing else: it makes no client, and leaves `PJRT_Plugin_Initialize` to the program. Where program and zprof
/// name the same file, it is the same plugin.
///
/// Without the feature `pjrt` there is the host alone.
#[derive(Clone)]
pub struct Platform {
    plugin: Option<Plugin>,
    /// In a few words, why it is this plugin or none.
    reason: String,
}

impl Platform {
    /// The host alone: the program's own scopes.
    #[must_use]
    pub fn host() -> Self {
        Self { plugin: None, reason: "as the program asked".to_owned() }
    }

    /// The host and the accelerator whose plugin is found first, or the host alone. [`describe`](Self::describe) says
    /// which and why, and so does the log.
    ///
    /// The first that can profile is taken; of those that a variable of the environment names, the first that loads:
    ///
    /// 1. `PJRT_PLUGIN_LIBRARY_PATH`: the plugin's library, or a folder of such, or a list of these as in `PATH`.
    /// 2. `PJRT_NAMES_AND_LIBRARY_PATHS`: `name:path,name:path`, as JAX has it.
    /// 3. `TPU_LIBRARY_PATH`: the library of the TPU plugin.
    /// 4. A plugin that the process has loaded already (Linux).
    /// 5. Libraries in `LD_LIBRARY_PATH` and in the system's usual folders whose names are those of plugins, such as
    ///    `libtpu.so`, `xla_cuda_plugin.so` or `pjrt_c_api_gpu_plugin.so`.
    /// 6. The same in Python packages (`jax_plugins`, `xla_plugins`, `libtpu`, `libneuronxla`, `pjrt_plugin_…`) below
    ///    `PYTHONPATH`, `VIRTUAL_ENV`, `CONDA_PREFIX`, `~/.local`, `/usr/local`, `/usr` and their like. Python does not
    ///    run.
    ///
    /// In the last two, plugins whose device this machine has come first. A plugin that fails to load is passed over; one
    /// that the environment names goes to the log then.
    ///
    /// In a program that runs with raised privileges (setuid, setgid or file capabilities) no variable is read. Of what the
    /// other places have, only a library that root alone can replace is tried there: root owns the file and every folder
    /// above it, and nobody else may write to them.
    ///
    /// # Errors
    ///
    /// None at present: where nothing can be used, the host is left.
    pub fn auto() -> Result<Self> {
        let (plugin, reason) = Plugin::find();
        let platform = Self { plugin, reason };
        log::info!("profiling platform: {}", platform.describe());
        Ok(platform)
    }

    /// The host and the accelerator of the plugin at `path`. A path without a slash is looked for where the system looks
    /// for libraries. The library's initialisers run, so name only what you trust.
    ///
    /// A plugin without a profiler is loaded too: [`has_profiler`](Self::has_profiler) tells, and a session has the
    /// host's part alone.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Plugin`](crate::ErrorKind::Plugin) if the file cannot be loaded, is no plugin, or speaks a PJRT of
    /// another major version. [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) without the feature `pjrt`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let plugin = Plugin::load(path.as_ref())?;
        Ok(Self { plugin: Some(plugin), reason: "loaded as the program asked".to_owned() })
    }

    /// The host and the accelerator of a plugin that the program has loaded by itself: `api` is what its `GetPjrtApi`
    /// gave, whatever binding of PJRT holds it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Plugin`](crate::ErrorKind::Plugin) if `api` is null or a PJRT of another major version.
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) without the feature `pjrt`.
    ///
    /// # Safety
    ///
    /// `api` is null or points to a `PJRT_Api` that stays as it is, with its plugin loaded, for the rest of the process.
    pub unsafe fn from_api(api: *const c_void) -> Result<Self> {
        // SAFETY: the caller says so.
        let plugin = unsafe { Plugin::from_api(api) }?;
        Ok(Self { plugin: Some(plugin), reason: "given by the program".to_owned() })
    }

    /// The name: `host`, or the plugin's, which is its library's without the ending or what
    /// `PJRT_NAMES_AND_LIBRARY_PATHS` calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.plugin.as_ref().map_or("host", Plugin::name)
    }

    /// The plugin's library, where zprof has loaded it.
    #[must_use]
    pub fn library(&self) -> Option<PathBuf> {
        self.plugin.as_ref().and_then(Plugin::path).map(Path::to_owned)
    }

    /// Major and minor version of the plugin's PJRT; `None` for the host alone.
    #[must_use]
    pub fn api_version(&self) -> Option<(i32, i32)> {
        self.plugin.as_ref().map(Plugin::api_version)
    }

    /// Names of the plugin's extensions, such as `profiler` or `memory descriptions`, in its order.
    #[must_use]
    pub fn extensions(&self) -> Vec<String> {
        self.plugin.as_ref().map(Plugin::extensions).unwrap_or_default()
    }

    /// Whether there is a plugin that can profile its accelerator.
    #[must_use]
    pub fn has_profiler(&self) -> bool {
        self.plugin.as_ref().is_some_and(|plugin| plugin.lacks_profiler().is_none())
    }

    /// What this is and why, in a sentence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let Some(plugin) = &self.plugin else { return format!("the host alone: {}", self.reason) };
        let (major, minor) = plugin.api_version();
        let at = plugin.path().map(|path| format!(" at `{}`", path.display())).unwrap_or_default();
        let profiler =
            plugin.lacks_profiler().map_or_else(|| "can profile".to_owned(), |why| format!("cannot profile: {why}"));
        format!("PJRT plugin `{}`{at}, PJRT {major}.{minor}, {profiler}; {}", plugin.name(), self.reason)
    }

    /// A profiler of this platform; it records nothing before [`Profiler::start`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) where an option cannot work.
    pub fn profiler(&self, options: ProfilerOptions) -> Result<Profiler> {
        Profiler::new(self.plugin.clone(), options)
    }

    /// The plugin, if it is not the host alone.
    pub(crate) fn plugin(&self) -> Option<&Plugin> {
        self.plugin.as_ref()
    }
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Platform");
        out.field("name", &self.name());
        if let Some(plugin) = &self.plugin {
            let (major, minor) = plugin.api_version();
            out.field("library", &plugin.path())
                .field("api_version", &format_args!("{major}.{minor}"))
                .field("extensions", &plugin.extensions())
                .field("profiler", &plugin.lacks_profiler().unwrap_or("present"));
        }
        out.field("reason", &self.reason).finish()
    }
}
