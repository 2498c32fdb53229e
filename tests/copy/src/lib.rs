//! A plugin that holds a copy of zprof of its own, with statics of its own.
#![allow(unsafe_code)] // exports functions

use std::sync::Mutex;

use zprof::{Platform, Profiler, ProfilerOptions, SessionId};

/// A profiler that nobody stops.
static PROFILER: Mutex<Option<Profiler>> = Mutex::new(None);

/// Lets the environment ask for a session, and records a scope: whether the copy is profiled.
#[unsafe(no_mangle)]
pub extern "C" fn copy_from_env() -> bool {
    let is_profiled = zprof::init_from_env().is_ok_and(|is_profiled| is_profiled);
    zprof::scope!("of the plugin", {});
    is_profiled
}

/// Starts a session of a profiler that nobody stops, and records a scope: whether that went well.
#[unsafe(no_mangle)]
pub extern "C" fn copy_start() -> bool {
    let options = ProfilerOptions::default().repository_path("plugin").session_id(SessionId::from("plugin"));
    let Ok(mut profiler) = Platform::host().profiler(options) else { return false };
    let is_started = profiler.start().is_ok();
    zprof::scope!("of the plugin", {});
    if let Ok(mut kept) = PROFILER.lock() {
        *kept = Some(profiler);
    }
    is_started
}
