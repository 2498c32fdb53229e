//! The procedural macros of zprof: parse, check, expand. Use them through the `zprof` crate.
//!
//! One file a stage: `read` makes `args` of what stands between the parentheses, `item` finds the function behind the
//! attribute, `check` holds every rule over finished arguments, `expand` prints tokens and cannot fail, `label` is the
//! part of it that is text, `body` puts a guard into a block. `derive` is `derive(Value)`. Nothing here panics or gives
//! up at the first mistake: `errors` collects them.

mod args;
mod body;
mod check;
mod derive;
mod errors;
mod expand;
mod item;
mod label;
mod read;

use proc_macro::TokenStream;

/// Records every call of a function as a scope; documented where it is re-exported, as `zprof::trace`.
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
