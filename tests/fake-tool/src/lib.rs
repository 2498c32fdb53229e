//! A tool that annotations reach: an NVTX injection library and a ROCTx tracer, which write down each call that they see.
//!
//! Its layouts are written down anew, from the headers' numbers, so that a mistake of zprof's is not made twice. It serves any
//! program, unmodified:
//!
//! | variable | |
//! |---|---|
//! | `NVTX_INJECTION64_PATH=THIS` | NVTX loads this library at the program's first NVTX call |
//! | `LD_PRELOAD=THIS` | needed for ROCTx: the tracer attaches before the program's `main` |
//! | `ZPROF_FAKE_TOOL_LOG=FILE` | lines are appended there; without it the tool is attached to NVTX and does nothing, to measure with |
//! | `ZPROF_FAKE_TOOL_ROCTX=FILE` | AMD's library, which is loaded and traced; who loads its name after that gets the same one |
//! | `ZPROF_FAKE_TOOL_ROCTX_GLOBAL=1` | loads it so that its functions are found among the symbols of the process |
//!
//! A line is one call, as a JSON object; its keys:
//!
//! | key | |
//! |---|---|
//! | `api` | `nvtx` or `roctx` |
//! | `call` | `push`, `pop`, `start`, `end`, `mark`, `name thread`, `name category`, `create domain`, `destroy domain`, `register`, `create resource`, `initialize`, or `misuse` |
//! | `pid`, `tid` | of the caller, as the kernel counts |
//! | `domain` | name of the domain, or null: the default one, or ROCTx |
//! | `label` | message, name, or what was misused; null where there is none. Bytes that are not UTF-8 become U+FFFD |
//! | `registered` | whether the message was a registered string |
//! | `color` | ARGB, or null |
//! | `category` | of an event, or what is named by `name category` |
//! | `id` | of a range by start and end, of the thread that is named, or the level of a push or pop by NVTX: from 0, -1 for a pop too many; else null |
//!
//! Lines are written call by call, by one system call each: they are there whatever happens to the process after, a fork's child
//! writes its own, and no state of a thread is needed when its destructors run. Up to 15 domains have levels of their own.

#![cfg(all(unix, target_pointer_width = "64"))] // it takes the place of libraries that 64-bit Linux and macOS have

mod log;
mod nvtx;
mod roctx;
