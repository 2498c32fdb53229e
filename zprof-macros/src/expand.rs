//! Prints the expansions. Paths are absolute through the crate's path, locals are `mixed_site`, and items, which
//! hygiene does not cover, carry a `__zprof` name.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::Lit;

use crate::args::{Args, Level, Place, literal};
use crate::errors::Errors;
use crate::label::Label;
use crate::{body, check};

/// `scope!`: a statement that binds a guard in the caller's block, or an expression that is the block's value.
pub(crate) fn scope(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let (path, args) = read(Place::Scope, input, &mut errors);
    check::check(&args, &mut errors);
    let block = args.block.as_ref();
    if let Some(errors) = errors.into_tokens() {
        // The block stays, so that its value and its own mistakes are seen.
        return match block {
            Some(block) => body::with_guard(block, &errors).to_token_stream(),
            None => errors,
        };
    }
    let name = args.name.get().map(syn::LitStr::value).unwrap_or_default();
    let opening = opening(&path, &name, &args);
    match block {
        Some(block) => body::with_guard(block, &guard(&opening)).to_token_stream(),
        // Where a value is expected, rustc names the macro that a `let` came from: its name is the advice.
        None => quote_spanned! {Span::mixed_site()=>
            #path::__private::__a_scope_is_a_statement_end_it_with_a_semicolon_or_use_span_to_hold_it! { #opening }
        },
    }
}

/// `span!`: an expression of type `Span`.
pub(crate) fn span(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let (path, args) = read(Place::Span, input, &mut errors);
    check::check(&args, &mut errors);
    if let Some(errors) = errors.into_tokens() {
        return quote!({ #errors });
    }
    let name = args.name.get().map(syn::LitStr::value).unwrap_or_default();
    let opening = opening(&path, &name, &args);
    quote_spanned!(Span::mixed_site()=> #path::Span::__new(#opening))
}

/// Takes the `[$crate]` off the front and reads the rest.
fn read(place: Place, input: TokenStream, errors: &mut Errors) -> (TokenStream, Args) {
    let mut tokens = input.into_iter();
    let path = match tokens.next() {
        Some(TokenTree::Group(group)) => group.stream(),
        other => other.into_token_stream(),
    };
    (path, Args::read(place, tokens.collect(), errors))
}

/// The statement that holds a scope open to the end of the block it stands in.
pub(crate) fn guard(opening: &TokenStream) -> TokenStream {
    quote_spanned!(Span::mixed_site()=> let __zprof_guard = #opening;)
}

/// The expression that opens a scope: the word is loaded once, and values are evaluated only where something listens.
///
/// The branch is a `let … else`, since an `if` in each scope would count towards clippy's `cognitive_complexity` of
/// the user's function. Paths go through an import of ours: rustc shows a value of a wrong type in its place only if
/// the call around it begins with a token of the same origin.
pub(crate) fn opening(path: &TokenStream, name: &str, args: &Args) -> TokenStream {
    let here = Span::mixed_site();
    let Label { text: label, given } = Label::of(name, args);
    let label = format!("{label}\0");
    let level = match args.level.get() {
        None | Some(Level::Critical) => quote!(Critical),
        Some(Level::Info) => quote!(Info),
        Some(Level::Verbose) => quote!(Verbose),
    };
    let filter = match args.filter.get() {
        Some(bit) => quote_spanned!(here=> 1 << #bit),
        None => quote_spanned!(here=> __zprof::NO_FILTER),
    };
    let mut keys: Vec<&str> = args.fields.iter().map(|field| field.key.as_str()).collect();
    let mut values: Vec<TokenStream> = args.fields.iter().map(|field| raw(field.value.to_token_stream())).collect();
    match args.root.get() {
        // Nothing to record, and nothing to check.
        Some(value) if matches!(literal(value), Ok(Lit::Bool(root)) if !root.value) => {}
        Some(value) => {
            keys.push("_r");
            values.push(raw(quote_spanned!(here=> __zprof::Root(#value))));
        }
        None => {}
    }
    quote_spanned! {here=>
        '__zprof: {
            use #path::__private as __zprof;
            struct __ZprofSite;
            impl __zprof::Callsite for __ZprofSite {
                const LEVEL: __zprof::Level = __zprof::Level::#level;
                const FILTER: __zprof::core::primitive::u64 = #filter;
                fn site() -> &'static __zprof::Site {
                    static __ZPROF_SITE: __zprof::Site = __zprof::Site {
                        name: #name,
                        label: #label,
                        given: #given,
                        keys: &[#(#keys),*],
                        level: __zprof::Level::#level,
                        filter: #filter,
                        module_path: __zprof::core::module_path!(),
                        file: __zprof::core::file!(),
                        line: __zprof::core::line!(),
                        memo: __zprof::Memo::new(),
                    };
                    &__ZPROF_SITE
                }
            }
            let __zprof_word = __zprof::word();
            let true = __zprof::hears::<__ZprofSite>(__zprof_word) else {
                break '__zprof __zprof::inert::<__ZprofSite>(__zprof_word);
            };
            __zprof::open_at(__ZprofSite, __zprof_word, (#(#values,)*))
        }
    }
}

/// `Value::raw(&(value))`: parentheses, since any expression may stand there; all of it placed at the value's own
/// tokens, so that rustc points there when the type is no metadata value.
fn raw(value: TokenStream) -> TokenStream {
    let mut spans = value.clone().into_iter().map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    let last = spans.last().unwrap_or(first);
    let (first, last) = (Span::mixed_site().located_at(first), Span::mixed_site().located_at(last));
    let parenthesised = |tokens: TokenStream| {
        let mut group = Group::new(Delimiter::Parenthesis, tokens);
        group.set_span(last);
        group
    };
    let value = parenthesised(value);
    let argument = parenthesised(quote_spanned!(first=> &#value));
    quote_spanned!(first=> __zprof::Value::raw #argument)
}
