//! Prints the expansions. Paths are absolute through the crate's path, locals are `mixed_site`, and items, which
//! hygiene does not cover, carry a `__zprof` name.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::Lit;

use crate::args::{Args, Field, Level, Place, Sort, literal};
use crate::errors::Errors;
use crate::label::Label;
use crate::{body, check};

/// `scope!`: a statement that binds a guard in the caller's block, or an expression that is the block's value.
pub(crate) fn scope(input: TokenStream) -> TokenStream {
    scope_or_step(Place::Scope, input)
}

/// `step!`: the same with its number, as a root.
pub(crate) fn step(input: TokenStream) -> TokenStream {
    scope_or_step(Place::Step, input)
}

fn scope_or_step(place: Place, input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let (path, args) = read(place, input, &mut errors);
    check::check(&args, &mut errors);
    let block = args.block.as_ref();
    if let Some(errors) = errors.into_tokens() {
        // The block stays, so that its value and its own mistakes are seen.
        return match block {
            Some(block) => body::with_guard(block, &errors).to_token_stream(),
            None => errors,
        };
    }
    let name = args.site_name();
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
    let name = args.site_name();
    let opening = opening(&path, &name, &args);
    quote_spanned!(Span::mixed_site()=> #path::Span::__new(#opening))
}

/// `task!`: an expression of type `Task`.
pub(crate) fn task(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let (path, args) = read(Place::Task, input, &mut errors);
    check::check(&args, &mut errors);
    if let Some(errors) = errors.into_tokens() {
        return quote!({ #errors });
    }
    let name = args.site_name();
    description(&path, &name, &args)
}

/// Takes the `[$crate]` off the front and reads the rest.
pub(crate) fn read(place: Place, input: TokenStream, errors: &mut Errors) -> (TokenStream, Args) {
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
    let (keys, values) = metadata(args);
    let site = site(path, name, args, &keys);
    quote_spanned! {Span::mixed_site()=>
        '__zprof: {
            #site
            let __zprof_word = __zprof::word_at::<__ZprofSite>();
            let true = __zprof::hears::<__ZprofSite>(__zprof_word) else {
                break '__zprof __zprof::inert::<__ZprofSite>(__zprof_word);
            };
            __zprof::open_at(__ZprofSite, __zprof_word, (#(#values,)*))
        }
    }
}

/// The expression that describes a task: its metadata is taken where something listens, and kept.
pub(crate) fn description(path: &TokenStream, name: &str, args: &Args) -> TokenStream {
    let (keys, values) = metadata(args);
    let site = site(path, name, args, &keys);
    quote_spanned! {Span::mixed_site()=>
        '__zprof: {
            #site
            let true = __zprof::hears::<__ZprofSite>(__zprof::word_at::<__ZprofSite>()) else {
                break '__zprof __zprof::undescribed(__ZprofSite);
            };
            __zprof::described(__ZprofSite, (#(#values,)* __zprof::NUMBER,))
        }
    }
}

/// The expression that names an asynchronous function: its metadata comes from inside, by [`entry`].
pub(crate) fn named(path: &TokenStream, name: &str, args: &Args) -> TokenStream {
    let site = site(path, name, args, &[]);
    quote_spanned!(Span::mixed_site()=> { #site __zprof::Here(__ZprofSite) })
}

/// The statement by which the body of an asynchronous function gives its metadata: at its first poll, where something
/// listens.
pub(crate) fn entry(path: &TokenStream, args: &Args) -> TokenStream {
    let (keys, values) = metadata(args);
    if keys.is_empty() {
        return TokenStream::new();
    }
    let level = level(args);
    quote_spanned! {Span::mixed_site()=>
        '__zprof: {
            use #path::__private as __zprof;
            let __zprof::core::option::Option::Some(__zprof_entered) = __zprof::entered(__zprof::Level::#level) else {
                break '__zprof
            };
            #(__zprof_entered.record(#keys, #values);)*
        }
    }
}

/// Keys, and the expressions that read their values.
pub(crate) fn metadata(args: &Args) -> (Vec<&str>, Vec<TokenStream>) {
    let mut keys: Vec<&str> = args.fields.iter().map(|field| field.key.as_str()).collect();
    let reader = |sort| match sort {
        Sort::Value | Sort::Display | Sort::Debug => VALUE,
        Sort::Step => ["StepNumber", "step_number"],
        Sort::Sample => ["Sample", "sample"],
    };
    let value = |field: &Field| {
        let value = field.value.to_token_stream();
        let value = match field.sort {
            Sort::Display => shown("display", value),
            Sort::Debug => shown("debug", value),
            Sort::Value | Sort::Step | Sort::Sample => value,
        };
        read_by(reader(field.sort), value)
    };
    let mut values: Vec<TokenStream> = args.fields.iter().map(value).collect();
    if let Some(name) = &args.given_name {
        // It comes first, and its key is empty.
        keys.insert(0, "");
        values.insert(0, read_by(["Named", "named"], name.to_token_stream()));
    }
    match args.root.get() {
        // Nothing to record, and nothing to check.
        Some(value) if matches!(literal(value), Ok(Lit::Bool(root)) if !root.value) => {}
        Some(value) => {
            keys.push("_r");
            values.push(raw(quote_spanned!(Span::mixed_site()=> __zprof::Root(#value))));
        }
        None => {}
    }
    for (flow, key, reader) in [(&args.sends, "_p", "sends"), (&args.receives, "_c", "receives")] {
        if let Some(value) = flow.get() {
            keys.push(key);
            values.push(read_by(["Link", reader], value.to_token_stream()));
        }
    }
    (keys, values)
}

/// The items that stand for the call site in a block of ours: `__ZprofSite`, and `__zprof` for what is called.
pub(crate) fn site(path: &TokenStream, name: &str, args: &Args, keys: &[&str]) -> TokenStream {
    let here = Span::mixed_site();
    let Label { text: label, given } =
        if keys.is_empty() || args.given_name.is_some() { Label::plain(name) } else { Label::of(name, args) };
    let label = format!("{label}\0");
    let level = level(args);
    let filter = match args.filter.get() {
        Some(bit) => quote_spanned!(here=> 1 << #bit),
        None => quote_spanned!(here=> __zprof::NO_FILTER),
    };
    quote_spanned! {here=>
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
    }
}

/// Name of the level's variant.
fn level(args: &Args) -> TokenStream {
    match args.level.get() {
        None | Some(Level::Critical) => quote!(Critical),
        Some(Level::Info) => quote!(Info),
        Some(Level::Verbose) => quote!(Verbose),
    }
}

/// `Value::raw(&(value))`: parentheses, since any expression may stand there; all of it placed at the value's own
/// tokens, so that rustc points there when the type is no metadata value.
pub(crate) fn raw(value: TokenStream) -> TokenStream {
    read_by(VALUE, value)
}

/// `display(&(value))` or `debug(&(value))`, placed as [`raw`] is.
fn shown(by: &str, value: TokenStream) -> TokenStream {
    let (first, argument) = borrowed(value);
    let by = Ident::new(by, first);
    quote_spanned!(first=> __zprof::#by #argument)
}

/// Trait and method that read metadata.
const VALUE: [&str; 2] = ["Value", "raw"];

/// The same by another trait and its method.
fn read_by(reader: [&str; 2], value: TokenStream) -> TokenStream {
    let (first, argument) = borrowed(value);
    let [reader, method] = reader.map(|name| Ident::new(name, first));
    quote_spanned!(first=> __zprof::#reader::#method #argument)
}

/// `(&(value))`, and the place of the value's first token.
fn borrowed(value: TokenStream) -> (Span, TokenTree) {
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
    (first, parenthesised(quote_spanned!(first=> &#value)).into())
}

/// What [`raw`] does for a value that `ret` records.
pub(crate) fn returned(value: TokenStream) -> TokenStream {
    read_by(["Returned", "returned"], value)
}
