//! Names that the program gives its threads.

use super::guard::word;
use super::thread::with_local;
use crate::{ENABLED, annotate, thread_name};

/// Names the calling thread's line in profiles, and the thread in live tools.
///
/// Without it a thread is called as the system calls it last, or as `std::thread::Builder` has named it; on Windows and other
/// systems than Linux and macOS, names that other code gives a thread after its first scope are not seen. The name holds from now
/// on, in every session, and may be given at any time: a profile shows the last. An empty one gives the system's name back.
/// What the system calls the thread stays as it is.
///
/// ```
/// # use zprof_runtime as zprof;
/// std::thread::spawn(|| {
///     zprof::name_thread("loader");
///     // what this thread records is on the line `loader`
/// })
/// # .join().unwrap();
/// ```
#[inline]
pub fn name_thread(name: impl AsRef<str>) {
    if ENABLED {
        set(name.as_ref());
    }
}

/// Names the threads of a pool by their numbers: gives a function that calls the thread that it runs on `<pool> <number>`.
///
/// It is what rayon takes, whose threads have no names of their own, as
/// `ThreadPoolBuilder::new().start_handler(zprof::name_worker("rayon"))`, and what any pool can call:
///
/// ```
/// # use zprof_runtime as zprof;
/// let named = zprof::name_worker("loader");
/// std::thread::scope(|scope| {
///     for number in 0..4 {
///         let named = &named;
///         scope.spawn(move || named(number)); // lines `loader 0` to `loader 3`
///     }
/// });
/// ```
#[inline]
pub fn name_worker(pool: impl AsRef<str> + Send + Sync + 'static) -> impl Fn(usize) + Send + Sync + 'static {
    move |number| {
        if ENABLED {
            set(&format!("{} {number}", pool.as_ref()));
        }
    }
}

#[cold]
fn set(name: &str) {
    if thread_name::give_name(Some(name).filter(|name| !name.is_empty())) {
        with_local(super::thread::Local::rename);
        // Where nobody has looked for tools yet, they are told with the first scope.
        let seen = word().seen();
        if seen != 0 {
            annotate::rename(seen);
        }
    }
}
