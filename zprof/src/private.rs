//! All that an expansion may touch. None of it is meant to be written by hand; it keeps its meaning within a major
//! version, since crates built with an older zprof-macros call it.

pub use core;

pub use zprof_macros::{__counter, __instant, __scope, __span, __step, __task};
pub use zprof_runtime::__private::{
    Callsite, ENABLED, Entered, Fallible, Guard, Here, Level, Link, Memo, NO_FILTER, NUMBER, Named, Returned, Returns,
    Root, Sample, Shown, Site, StepNumber, Value, Variant, Variants, Word, always, call, count_at, debug, described,
    display, entered, hears, inert, mark_at, never, open_at, polled, polled_and, returned, traced, traced_and,
    undescribed, word, word_at,
};

/// Its name is the advice that rustc prints where a value is expected: "this error originates in the macro …".
#[doc(hidden)]
pub use crate::__a_scope_is_a_statement_end_it_with_a_semicolon_or_use_span_to_hold_it;
