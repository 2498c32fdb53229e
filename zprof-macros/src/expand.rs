//! Prints the expansions. Paths are absolute through the crate's path, locals are `mixed_site`, and items, which
//! hygiene does not cover, carry a `__zprof` name.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, Lit};

use crate::args::{Args, Level, Place, literal};
use crate::errors::Errors;
use crate::label::label;
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
            Some(block) => quote!({ #errors #block }),
            None => errors,
        };
    }
    let name = args.name.get().map(syn::LitStr::value).unwrap_or_default();
    let guard = guard(&opening(&path, &name, &args));
    match block {
        Some(block) => body::with_guard(block, &guard).to_token_stream(),
        // Where a value is expected, rustc names the macro that a `let` came from: its name is the advice.
        None => quote_spanned! {Span::mixed_site()=>
            #path::__private::__a_scope_is_a_statement_end_it_with_a_semicolon_or_use_span_to_hold_it! { #guard }
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
/// the user's function.
pub(crate) fn opening(path: &TokenStream, name: &str, args: &Args) -> TokenStream {
    let here = Span::mixed_site();
    let label = label(name, args);
    let level = match args.level.get() {
        None | Some(Level::Critical) => quote!(Critical),
        Some(Level::Info) => quote!(Info),
        Some(Level::Verbose) => quote!(Verbose),
    };
    let filter = match args.filter.get() {
        Some(bit) => quote_spanned!(here=> 1 << #bit),
        None => quote_spanned!(here=> #path::__private::NO_FILTER),
    };
    let mut keys: Vec<&str> = args.fields.iter().map(|field| field.key.as_str()).collect();
    let mut values: Vec<TokenStream> = args.fields.iter().map(|field| reference(&field.value)).collect();
    match args.root.get() {
        // Nothing to record, and nothing to check.
        Some((_, value)) if matches!(literal(value), Ok(Lit::Bool(root)) if !root.value) => {}
        Some((_, value)) => {
            keys.push("_r");
            values.push(quote_spanned!(here=> &#path::__private::Root(#value)));
        }
        None => {}
    }
    quote_spanned! {here=>
        '__zprof: {
            struct __ZprofSite;
            impl #path::__private::Callsite for __ZprofSite {
                const LEVEL: #path::__private::Level = #path::__private::Level::#level;
                const FILTER: #path::__private::core::primitive::u64 = #filter;
                fn site() -> &'static #path::__private::Site {
                    static __ZPROF_SITE: #path::__private::Site = #path::__private::Site {
                        name: #name,
                        label: #label,
                        keys: &[#(#keys),*],
                        level: #path::__private::Level::#level,
                        filter: #filter,
                        module_path: #path::__private::core::module_path!(),
                        file: #path::__private::core::file!(),
                        line: #path::__private::core::line!(),
                    };
                    &__ZPROF_SITE
                }
            }
            let __zprof_word = #path::__private::word();
            let true = #path::__private::hears::<__ZprofSite>(__zprof_word) else {
                break '__zprof #path::__private::inert::<__ZprofSite>(__zprof_word);
            };
            #path::__private::open::<__ZprofSite, _>(__zprof_word, (#(#values,)*))
        }
    }
}

/// `&(value)`: parentheses, since any expression may stand there; placed at the value's own tokens, so that rustc
/// points there when the type is no metadata value.
fn reference(value: &Expr) -> TokenStream {
    let tokens = value.to_token_stream();
    let mut spans = tokens.clone().into_iter().map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    let last = spans.last().unwrap_or(first);
    let and = quote_spanned!(Span::mixed_site().located_at(first)=> &);
    let mut group = proc_macro2::Group::new(proc_macro2::Delimiter::Parenthesis, tokens);
    group.set_span(Span::mixed_site().located_at(last));
    quote!(#and #group)
}
