//! `ret` and `err`: what a function gives back becomes metadata of its scope.
//!
//! A value can be seen only where the body has one way out, and `return` and `?` leave a function, not a block. So the
//! body of a function that asks for this, and of no other, becomes a closure that is called at once. It moves nothing
//! that the body does not move itself: arguments are dropped where they were, and borrows of them may be returned.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};

use crate::args::Args;
use crate::body::{Parts, braced};
use crate::errors::Errors;
use crate::expand;
use crate::function::{Function, inferred};
use crate::tokens::{is_punct, is_word};

/// Rules over the return type, as far as it is written.
pub(crate) fn check(args: &Args, function: &Function, errors: &mut Errors) {
    let output = function.output();
    if let Some(ret) = args.ret.get() {
        if output.is_empty() {
            errors.at(ret, format_args!("`ret` finds no value to record: `{}` returns none; remove it", function.name));
        } else if is_never(output) {
            errors
                .at(ret, format_args!("`ret` finds no value to record: `{}` never returns; remove it", function.name));
        }
    }
    if let Some(err) = args.err.get() {
        if output.is_empty() || is_never(output) {
            errors.at(
                err,
                format_args!("`err` needs a function that returns a `Result`, and `{}` does not", function.name),
            );
        }
    }
}

pub(crate) fn is_never(output: &[TokenTree]) -> bool {
    matches!(output, [bang] if is_punct(bang, '!'))
}

/// The body of a function that is not asynchronous, with its guard and what becomes of the value.
pub(crate) fn body(path: &TokenStream, args: &Args, function: &Function, guard: &TokenStream) -> TokenStream {
    let here = Span::mixed_site();
    let Parts { attributes, items, rest, span } = Parts::of(&function.body);
    let output = inferred(function.output());
    let rest = braced(rest, span);
    let told = told(path, args, false);
    let body = quote_spanned! {here=>
        #attributes
        #items
        #guard
        let __zprof_value = #path::__private::call(|| -> #(#output)* #rest);
        #told
        __zprof_value
    };
    braced(body, span).to_token_stream()
}

/// The call that records `block`, a future, as `description` says, and looks at what it gives where somebody asks.
///
/// The block's own `poll` is named for the compiler alone, which finds the block's code by it, from this function. By the
/// wrapper's `poll` only, which is one function for all, a chain of futures that await each other would look like one
/// function that instantiates itself without end, and rustc stops that at 128 levels.
pub(crate) fn traced(path: &TokenStream, args: &Args, description: &TokenStream, block: &TokenStream) -> TokenStream {
    let here = Span::mixed_site();
    let poll = quote_spanned!(here=> #path::__private::core::future::Future::poll);
    if args.ret.get().is_none() && args.err.get().is_none() {
        return quote_spanned!(here=> #path::__private::polled(#description, #block, #poll));
    }
    let told = told(path, args, true);
    quote_spanned! {here=>
        #path::__private::polled_and(
            #description,
            #block,
            #poll,
            |__zprof_guard: &#path::__private::Guard, __zprof_value: &_| { #told },
        )
    }
}

/// The statement that only has the types of what `ret` and `err` record looked at; it does nothing. None where the
/// returned type has no name.
pub(crate) fn looked_at(path: &TokenStream, args: &Args, function: &Function) -> Option<TokenStream> {
    let output = function.output();
    let has_no_name = output.is_empty() || is_never(output) || inferred(output).iter().any(is_inferred);
    if has_no_name || args.ret.get().is_none() && args.err.get().is_none() {
        return None;
    }
    let here = Span::mixed_site();
    let told = told(path, args, true);
    Some(quote_spanned! {here=>
        #[allow(clippy::ref_option_ref)]
        let __zprof_told = |__zprof_guard: &#path::__private::Guard, __zprof_value: &#(#output)*| { #told };
    })
}

/// Whether a `_` stands in the token.
fn is_inferred(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(inner) => inner.stream().into_iter().any(|token| is_inferred(&token)),
        token => is_word(token, "_"),
    }
}

/// Statements that record `__zprof_value`; it and the guard may be references. Wrong types are shown at the words that
/// ask for them.
fn told(path: &TokenStream, args: &Args, are_references: bool) -> TokenStream {
    let here = Span::mixed_site();
    let of = |name: &str, place: Span| {
        let name = Ident::new(name, place);
        if are_references { quote_spanned!(place=> *#name) } else { name.into_token_stream() }
    };
    let guard = of("__zprof_guard", here);
    let value = |word: &Ident| of("__zprof_value", here.located_at(word.span()));
    let ret = args.ret.get().map(|ret| {
        let place = here.located_at(ret.span());
        let value = value(ret);
        let value = match args.err.get() {
            Some(_) => quote_spanned!(place=> __zprof::Fallible::value(&#value)),
            None => value,
        };
        let raw = expand::returned(value);
        quote_spanned!(here=> __zprof::returned(&#guard, #raw);)
    });
    let err = args.err.get().map(|err| {
        let place = here.located_at(err.span());
        let value = value(err);
        quote_spanned!(place=> __zprof::Fallible::fail(&#value, &#guard);)
    });
    quote_spanned!(here=> { use #path::__private as __zprof; #ret #err })
}
