//! The tables that the plugin shows, made anew by each `GetPjrtApi` and never freed, as static ones would be.

use std::ffi::c_void;
use std::ptr;

use crate::{calls, number, told, told_of};

/// Words of eight bytes: a table is a row of these, whatever the types of its fields are in the header.
type Row = Vec<u64>;

/// Gives a row away for good; it is found from a static list, so it is no leak.
fn keep(row: Row) -> *const c_void {
    static KEPT: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());
    let start: *mut [u64] = Box::into_raw(row.into_boxed_slice());
    crate::lock(&KEPT).push(start.cast::<u64>() as usize);
    start.cast::<c_void>().cast_const()
}

fn word(pointer: *const c_void) -> u64 {
    pointer as u64
}

/// A table with the head of `PJRT_Api`: size, extensions, version, and as many null functions as 0.116 has.
pub(crate) fn api() -> *const c_void {
    if told("null-api") {
        return ptr::null();
    }
    let (major, minor): (i32, i32) = (number("major", 0), number("minor", 116));
    let version = u64::from(major as u32) | u64::from(minor as u32) << 32;
    let mut row: Row = vec![0; 1144 / 8];
    row[0] = number("head", 1144);
    row[1] = if minor >= 45 { word(extensions()) } else { word(old_extensions()) };
    row[2] = 24;
    row[4] = version;
    keep(row)
}

/// An extension: size, kind, next, and what the kind has.
fn node(size: u64, kind: u64, next: *const c_void, rest: &[u64]) -> *const c_void {
    keep([&[size, kind, word(next)], rest].concat())
}

/// The chain that the CUDA plugin has, more or less, with kinds that nobody knows and one of a silly size.
fn extensions() -> *const c_void {
    let last = node(24, 777, ptr::null(), &[]);
    if told("circle") {
        let first = node(24, 10, last, &[]);
        // SAFETY: `last` is a row of three words that nobody else looks at yet.
        unsafe { last.cast::<u64>().cast_mut().add(2).write(word(first)) };
        return first;
    }
    let stream = node(33, 3, last, &[0, 0]);
    let profiler = if told("no-profiler") {
        stream
    } else {
        let table = if told("no-table") { ptr::null() } else { profiler() };
        // -1: no call of the plugin's is linked to one of the program's.
        node(number("node", 40), 1, stream, &[word(table), u64::MAX])
    };
    node(0, 4, profiler, &[0; 4])
}

/// The same before extensions had a size.
fn old_extensions() -> *const c_void {
    let stream = keep(vec![3, 0]);
    let profiler = if told("no-profiler") { stream } else { keep(vec![1, word(stream), word(profiler())]) };
    keep(vec![0, word(profiler)])
}

/// The profiler's table: size, private pointer, functions. Where it announces fewer bytes, the rest is not there.
fn profiler() -> *const c_void {
    let size: u64 = number("table", 104);
    let slots = [
        ("error_destroy", calls::error_destroy as *const c_void),
        ("error_message", calls::error_message as *const c_void),
        ("error_get_code", calls::error_get_code as *const c_void),
        ("create", calls::create as *const c_void),
        ("destroy", calls::destroy as *const c_void),
        ("start", calls::start as *const c_void),
        ("stop", calls::stop as *const c_void),
        ("collect_data", calls::collect_data as *const c_void),
        ("consume", calls::consume as *const c_void),
        ("consume_result_destroy", calls::consume_result_destroy as *const c_void),
        ("serialize", calls::serialize as *const c_void),
    ];
    let mut row: Row = vec![size, calls::PRIVATE as u64];
    row.extend(slots.map(|(name, function)| if told_of("null", name) { 0 } else { word(function) }));
    row.truncate((size.max(8) / 8) as usize);
    keep(row)
}
