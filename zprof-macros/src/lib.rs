//! The procedural macros of zprof: parse, check, expand. Use them through the `zprof` crate.
//!
//! One file a stage: `read` makes `args` of what stands between the parentheses, `marks` what is peculiar to steps, instants and counters, `item` finds out what stands behind the
//! attribute, `function` cuts a function where it must be cut, `check` and `held` hold the rules, `expand` prints tokens
//! and cannot fail, `label` is the part of it that is text, `body` takes a block apart. `futures` is what `async` needs,
//! `outcome` what `ret` and `err` need, and `block` hands the attribute on to each function of an `impl` or `mod`.
//! `derive` is `derive(Value)`. Nothing here panics or gives up at the first mistake: `errors` collects them.

mod args;
mod block;
mod body;
mod check;
mod derive;
mod errors;
mod expand;
mod function;
mod futures;
mod held;
mod item;
mod label;
mod marks;
mod outcome;
mod placeholder;
mod read;
mod tokens;

use proc_macro::TokenStream;

/// Records every call of a function, or of each function in a block, as a scope; documented where it is re-exported, as `zprof::trace`.
#[proc_macro_attribute]
pub fn trace(args: TokenStream, item: TokenStream) -> TokenStream {
    item::trace(args.into(), item.into()).into()
}

/// Makes an enum without fields a metadata value; documented where it is re-exported, as `zprof::Value`.
#[proc_macro_derive(Value, attributes(zprof))]
pub fn value(item: TokenStream) -> TokenStream {
    derive::value(item.into()).into()
}

/// What `zprof::scope!` expands to: `[$crate]`, then its arguments.
#[doc(hidden)]
#[proc_macro]
pub fn __scope(input: TokenStream) -> TokenStream {
    expand::scope(input.into()).into()
}

/// What `zprof::span!` expands to: `[$crate]`, then its arguments.
#[doc(hidden)]
#[proc_macro]
pub fn __span(input: TokenStream) -> TokenStream {
    expand::span(input.into()).into()
}

/// What `zprof::step!` expands to: `[$crate]`, then its arguments.
#[doc(hidden)]
#[proc_macro]
pub fn __step(input: TokenStream) -> TokenStream {
    expand::step(input.into()).into()
}

/// What `zprof::instant!` expands to: `[$crate]`, then its arguments.
#[doc(hidden)]
#[proc_macro]
pub fn __instant(input: TokenStream) -> TokenStream {
    marks::instant(input.into()).into()
}

/// What `zprof::counter!` expands to: `[$crate]`, then its arguments.
#[doc(hidden)]
#[proc_macro]
pub fn __counter(input: TokenStream) -> TokenStream {
    marks::counter(input.into()).into()
}

/// What `zprof::task!` expands to: `[$crate]`, then its arguments.
#[doc(hidden)]
#[proc_macro]
pub fn __task(input: TokenStream) -> TokenStream {
    expand::task(input.into()).into()
}
