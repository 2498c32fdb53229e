//! The expansion of a function that makes a future: its polls and its whole life are recorded, not the call that makes
//! it.
//!
//! An `async fn` has up to two expansions, of which `cfg` chooses one.
//!
//! - Compilers get one of these [forms](Form). Usually the function becomes what the compiler itself makes of an
//!   `async fn`: a function that returns `impl Future`, with every argument moved into one `async move` block first, so
//!   that they are dropped in the same order as before. The block is wrapped where it stands, since a second future
//!   around it would store the arguments twice. The `impl` token has this crate's edition, 2024, so that it captures
//!   what an `async fn` captures, whatever the edition of the caller. A function of which rustc must know that it is
//!   `async` keeps its signature instead, and awaits such a block.
//! - Clippy and rustdoc get the function as it was written, with its metadata in front to be checked. So their lints and
//!   pages are those of the function without the attribute.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};

use crate::args::Args;
use crate::body::{Parts, braced, visible};
use crate::expand;
use crate::function::{Function, inferred};
use crate::outcome;
use crate::tokens::{attributes, between_commas, group, is_punct, is_word, word};

/// How an `async fn` that is recorded looks to rustc.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `fn f(…) -> impl Future<Output = R> { traced(async move { … }) }`: takes no memory but the record's own.
    Plain,
    /// `async fn f(…) -> R { traced(async move { … }).await }`: the outer future stores the arguments a second time. It is
    /// for what rustc gives to an `async fn` only: a `#[must_use]` that speaks of the output, anonymous lifetimes in an
    /// `impl Trait` argument, the lint `async_fn_in_trait` where the function has an attribute for it, and messages about
    /// the lifetimes of an output that borrows.
    Async,
}

impl Form {
    fn of(function: &Function) -> Self {
        let head = &function.head;
        let mut attributes = head[..attributes(head)].iter().filter_map(|token| group(token, Delimiter::Bracket));
        let needs_async = attributes.any(|inside| {
            let tokens: Vec<TokenTree> = inside.stream().into_iter().collect();
            let lints = tokens.last().and_then(|last| group(last, Delimiter::Parenthesis)).map(Group::stream);
            tokens.first().is_some_and(|first| is_word(first, "must_use"))
                || lints.is_some_and(|lints| lints.into_iter().any(|lint| is_word(&lint, "async_fn_in_trait")))
        });
        let has_anonymous_lifetime = match &head[function.parameters] {
            TokenTree::Group(parameters) => impl_has_anonymous_lifetime(&parameters.stream()),
            _ => false,
        };
        let borrows = function.output().iter().any(has_lifetime);
        if needs_async || has_anonymous_lifetime || borrows { Self::Async } else { Self::Plain }
    }
}

/// The expansion of an `async fn`; `asyncness` is the place of that word.
pub(crate) fn async_fn(
    path: &TokenStream,
    label: &str,
    args: &Args,
    function: Function,
    asyncness: usize,
) -> TokenStream {
    let recorded = recorded(path, label, args, &function, asyncness);
    let (entry, told) = (expand::entry(path, args), outcome::looked_at(path, args, &function));
    with_the_written(recorded, &function, &quote!(#entry #told))
}

/// The function that is recorded, and for tools the function as it was written, with `checked`, in which the metadata and
/// the types of recorded results are looked at, in front of its statements.
pub(crate) fn with_the_written(recorded: TokenStream, function: &Function, checked: &TokenStream) -> TokenStream {
    let Parts { attributes, items, rest, span } = Parts::of(&function.body);
    let head = function.head.iter();
    let body = braced(quote!(#attributes #items #checked #rest), span);
    quote_spanned! {Span::mixed_site()=>
        #[cfg(not(any(clippy, doc)))]
        #recorded
        #[cfg(any(clippy, doc))]
        #(#head)* #body
    }
}

/// The function that is recorded.
fn recorded(path: &TokenStream, label: &str, args: &Args, function: &Function, asyncness: usize) -> TokenStream {
    let here = Span::mixed_site();
    let form = Form::of(function);
    let Parts { attributes, items, rest, span } = Parts::of(&function.body);
    let parameters = Parameters::of(&function.head[function.parameters], path);
    let output = function.output();
    let never = outcome::is_never(output);
    let awaited = match (output.is_empty(), never) {
        (true, _) => quote!(()),
        // The never type has no name on stable but this one.
        (_, true) => quote_spanned!(here=> <fn() -> ! as #path::__private::Returns>::Value),
        _ => output.iter().cloned().collect(),
    };
    let expected = (!never).then(|| {
        let awaited = if output.is_empty() { quote!(()) } else { inferred(output).into_iter().collect() };
        // The type of the block is known from here on, as that of a function's body is: `?` and coercions need it.
        quote_spanned! {here=>
            let true = #path::__private::always() else { return #path::__private::never::<#awaited>() };
        }
    });
    let named = expand::named(path, label, args);
    let entry = expand::entry(path, args);
    let rest_end = rest.clone().into_iter().last();
    let bindings = &parameters.bindings;
    let block = braced(quote!(#items #bindings #expected #entry #rest), span);
    // The place of the user's `async`: messages about the future that rustc has for an `async fn` point at the function.
    let word = here.located_at(function.head[asyncness].span());
    let traced = outcome::traced(path, args, &named, &quote_spanned!(word=> async move #block));
    // The place of the value at the end of the body, or of the body.
    let value = match rest_end {
        Some(end) if !is_punct(&end, ';') => here.located_at(end.span()),
        _ => here.located_at(span),
    };
    let body = match (form, never) {
        (Form::Plain, _) => quote!(#attributes #traced),
        (Form::Async, false) => quote_spanned!(value=> #attributes #traced.await),
        (Form::Async, true) => {
            quote_spanned!(here=> #attributes #traced.await; #path::__private::never::<#awaited>())
        }
    };

    let mut head = function.head.clone();
    head[function.parameters] = parameters.group.into();
    if form == Form::Async {
        let mut tokens = TokenStream::from_iter(head);
        braced(body, span).to_tokens(&mut tokens);
        return tokens;
    }
    let where_clause: Vec<TokenTree> = head.split_off(function.output.end);
    head.truncate(function.parameters + 1);
    head.remove(asyncness);
    // The function begins where it began, also where `async` was its first word.
    head[asyncness].set_span(function.head[asyncness].span());
    // The return type stands at the place of the one that was written, or where one would stand, so that messages about
    // the signature point at the function.
    let place = match output.first() {
        Some(first) => first.span(),
        None => match &function.head[function.parameters] {
            TokenTree::Group(parameters) => parameters.span_close(),
            other => other.span(),
        },
    };
    let opaque = Ident::new("impl", here.located_at(place));
    let mut tokens = TokenStream::from_iter(head);
    tokens.extend(quote_spanned!(place=> -> #opaque #path::__private::core::future::Future<Output = #awaited>));
    tokens.extend(where_clause);
    braced(body, span).to_tokens(&mut tokens);
    tokens
}

/// Whether a `&` or a lifetime stands in the token.
fn has_lifetime(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(inner) => inner.stream().into_iter().any(|token| has_lifetime(&token)),
        token => is_punct(token, '&') || is_punct(token, '\''),
    }
}

/// Whether an `impl Trait` in parameters has a lifetime without a name: `'_`, or a `&` without one. The lifetimes inside
/// `Fn(…) -> …` are the closure's own.
fn impl_has_anonymous_lifetime(parameters: &TokenStream) -> bool {
    fn search(tokens: TokenStream, mut in_impl: bool) -> bool {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (around, mut depth) = (in_impl, 0_usize);
        let mut own_output = false;
        for (at, token) in tokens.iter().enumerate() {
            let next = tokens.get(at + 1);
            let before = at.checked_sub(1).map(|before| &tokens[before]);
            match token {
                TokenTree::Ident(word) if word == "impl" => (in_impl, depth) = (true, 0),
                TokenTree::Punct(punct) => match punct.as_char() {
                    '<' => depth += 1,
                    '>' if before.is_some_and(|before| is_punct(before, '-')) => own_output = true,
                    '>' | ',' | '+' => {
                        own_output = false;
                        if punct.as_char() == '>' {
                            depth = depth.saturating_sub(1);
                        } else if punct.as_char() == ',' && depth == 0 {
                            in_impl = around;
                        }
                    }
                    '&' if in_impl && !own_output && !next.is_some_and(|next| is_punct(next, '\'')) => return true,
                    '\'' if in_impl && !own_output && next.is_some_and(|next| is_word(next, "_")) => return true,
                    _ => {}
                },
                TokenTree::Group(inner) => {
                    let is_call = inner.delimiter() == Delimiter::Parenthesis
                        && before.and_then(word).is_some_and(|word| word != "mut" && word != "const" && word != "dyn");
                    if !(own_output || in_impl && is_call) && search(inner.stream(), in_impl) {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }
    search(parameters.clone(), false)
}

/// The parameters of an `async fn`, and the statements that move them into its block.
struct Parameters {
    group: Group,
    bindings: TokenStream,
}

impl Parameters {
    fn of(token: &TokenTree, path: &TokenStream) -> Self {
        let here = Span::mixed_site();
        let TokenTree::Group(group) = token else {
            return Self { group: Group::new(Delimiter::Parenthesis, token.to_token_stream()), bindings: quote!() };
        };
        let mut bindings = TokenStream::new();
        let mut written = TokenStream::new();
        for (index, parameter) in between_commas(group.stream()).into_iter().enumerate() {
            let (before, parameter) = parameter.split_at(attributes(&parameter));
            let colon = colon(parameter);
            let (pattern, rest) = parameter.split_at(colon.unwrap_or(parameter.len()));
            let [on_parameter, conditions] = [Side::Parameter, Side::Binding].map(|side| side.attributes(before));
            written.extend(on_parameter);
            if let Some(receiver) = pattern.iter().find(|token| is_word(token, "self")) {
                if !is_punct(&pattern[0], '&') {
                    // All of it, though the body may use only a part or nothing.
                    bindings.extend(quote_spanned!(here=> #conditions let _ = &#receiver;));
                }
                written.extend(parameter.iter().cloned());
            } else {
                let hidden = Ident::new(&format!("__zprof_argument_{index}"), here);
                let (name, binding) = match pattern {
                    [TokenTree::Ident(name)] if name == "_" => {
                        (&hidden, quote_spanned!(here=> #conditions let #hidden = #hidden;))
                    }
                    // Clippy finds fault with what uses such a name, and with what gives it without doing anything.
                    [TokenTree::Ident(name)] if name.to_string().starts_with('_') => {
                        let same = quote_spanned!(here=> #path::__private::core::convert::identity);
                        (&hidden, quote_spanned!(here=> #conditions let #name = #same(#hidden);))
                    }
                    [TokenTree::Ident(name)] => (name, quote_spanned!(here=> #conditions let #name = #name;)),
                    [TokenTree::Ident(mutable), TokenTree::Ident(name)] if mutable == "mut" => {
                        (name, quote_spanned!(here=> #conditions let #mutable #name = #name;))
                    }
                    _ => {
                        let pattern = TokenStream::from_iter(pattern.iter().cloned());
                        let binding = quote_spanned! {here=>
                            #conditions let #hidden = #hidden;
                            #conditions let #pattern = #hidden;
                        };
                        (&hidden, binding)
                    }
                };
                bindings.extend(binding);
                name.to_tokens(&mut written);
                written.extend(rest.iter().cloned());
            }
            written.extend(quote_spanned!(here=> ,));
        }
        let mut parameters = Group::new(Delimiter::Parenthesis, written);
        parameters.set_span(group.span());
        Self { group: parameters, bindings }
    }
}

/// The `:` between pattern and type.
fn colon(parameter: &[TokenTree]) -> Option<usize> {
    let mut path = false;
    for (at, token) in parameter.iter().enumerate() {
        if is_punct(token, ':') {
            let next = parameter.get(at + 1).is_some_and(|next| is_punct(next, ':'));
            if !path && !next {
                return Some(at);
            }
            path = next && !path;
        } else {
            path = false;
        }
    }
    None
}

/// Where the two halves of a parameter stand: in the signature, and as a `let` in the block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Parameter,
    Binding,
}

impl Side {
    /// The attributes of a parameter that its half on this side gets.
    fn attributes(self, attributes: &[TokenTree]) -> TokenStream {
        let mut kept = TokenStream::new();
        for attribute in attributes.chunks(2) {
            let [sharp, TokenTree::Group(inside)] = attribute else {
                if self == Self::Parameter {
                    kept.extend(attribute.iter().cloned());
                }
                continue;
            };
            if let Some(stream) = self.attribute(inside.stream()) {
                let mut group = Group::new(inside.delimiter(), stream);
                group.set_span(inside.span());
                kept.extend([sharp.clone(), group.into()]);
            }
        }
        kept
    }

    /// One attribute without its brackets, as this side gets it. Lint levels and conditions go to both sides; of what is
    /// expected, each side gets the lints that are found there, since the others would stay unfulfilled.
    fn attribute(self, attribute: TokenStream) -> Option<TokenStream> {
        let tokens: Vec<TokenTree> = attribute.clone().into_iter().collect();
        let [name, rest @ ..] = tokens.as_slice() else { return Some(attribute) };
        let name = word(name).map(ToString::to_string).unwrap_or_default();
        let arguments = rest.last().and_then(|last| group(last, Delimiter::Parenthesis));
        match (name.as_str(), arguments) {
            ("cfg" | "allow" | "warn" | "deny" | "forbid", _) => Some(attribute),
            ("expect", Some(lints)) => {
                let (reason, lints): (Vec<_>, Vec<_>) = between_commas(lints.stream()).into_iter().partition(|lint| {
                    is_word(&lint[0], "reason") && lint.get(1).is_some_and(|next| is_punct(next, '='))
                });
                let mut ours: Vec<Vec<TokenTree>> = lints.into_iter().filter(|lint| self.finds(lint)).collect();
                if ours.is_empty() {
                    return None;
                }
                ours.extend(reason);
                Some(with_arguments(&tokens, ours))
            }
            ("cfg_attr", Some(inside)) => {
                let mut pieces = between_commas(inside.stream()).into_iter();
                let mut kept: Vec<Vec<TokenTree>> = pieces.next().into_iter().collect();
                let ours = pieces.filter_map(|piece| self.attribute(piece.into_iter().collect()));
                kept.extend(ours.map(|piece| piece.into_iter().collect()));
                (kept.len() > 1).then(|| with_arguments(&tokens, kept))
            }
            _ => (self == Self::Parameter).then_some(attribute),
        }
    }

    /// Whether rustc finds this lint in what stands on this side: the type is the parameter's, the pattern the binding's.
    fn finds(self, lint: &[TokenTree]) -> bool {
        let of_patterns = matches!(lint, [name] if PATTERN_LINTS.iter().any(|lint| is_word(name, lint)));
        of_patterns == (self == Self::Binding)
    }
}

/// Lints about a pattern and what becomes of its variables, and the groups that they are in.
const PATTERN_LINTS: [&str; 8] = [
    "bindings_with_variant_name",
    "non_snake_case",
    "nonstandard_style",
    "unused",
    "unused_assignments",
    "unused_mut",
    "unused_variables",
    "warnings",
];

/// `name(arguments, …)`; all but the last of `tokens` stays.
fn with_arguments(tokens: &[TokenTree], arguments: Vec<Vec<TokenTree>>) -> TokenStream {
    let Some((last, name)) = tokens.split_last() else { return TokenStream::new() };
    let arguments = arguments.iter().map(|argument| argument.iter().cloned().collect::<TokenStream>());
    let mut group = Group::new(Delimiter::Parenthesis, quote!(#(#arguments),*));
    group.set_span(last.span());
    let name = name.iter();
    quote!(#(#name)* #group)
}

/// A function that is not `async` and ends in a block that is: `async { … }`, with or without calls behind
/// it, or `Box::pin(async { … })`. The block is recorded, and the function is not.
pub(crate) fn tail(path: &TokenStream, label: &str, args: &Args, function: &Function) -> Option<TokenStream> {
    let body = visible(&function.body);
    let mut tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    if let Some(at) = block_at_the_end(&tokens) {
        let rest = tokens.split_off(at);
        let traced = wrapped(path, label, args, rest);
        tokens.extend(traced);
    } else {
        let [.., boxed, colon, _, pin, TokenTree::Group(arguments)] = tokens.as_slice() else { return None };
        if !(is_word(boxed, "Box") && is_punct(colon, ':') && is_word(pin, "pin")) {
            return None;
        }
        let inside: Vec<TokenTree> = arguments.stream().into_iter().collect();
        if block_at_the_end(&inside) != Some(0) {
            return None;
        }
        let mut pinned = Group::new(Delimiter::Parenthesis, wrapped(path, label, args, inside));
        pinned.set_span(arguments.span());
        tokens.pop();
        tokens.push(pinned.into());
    }
    let head = function.head.iter();
    let recorded = braced(tokens.into_iter().collect(), body.span());
    let checked = (!args.fields.is_empty() || args.root.get().is_some()).then(|| {
        let description = expand::description(path, label, args);
        quote_spanned!(Span::mixed_site()=> let __zprof_task = #description;)
    });
    // The type that the block gives has no name here, so the recorded results are looked at in the recorded function only.
    Some(with_the_written(quote!(#(#head)* #recorded), function, &checked.into_token_stream()))
}

/// Where the expression at the end begins, if that is an `async` block or calls on one.
fn block_at_the_end(tokens: &[TokenTree]) -> Option<usize> {
    let at = (0..tokens.len()).rev().find(|&at| block_end(tokens, at).is_some())?;
    let begins = match at.checked_sub(1).map(|before| &tokens[before]) {
        None => true,
        Some(before) => is_punct(before, ';') || is_word(before, "return") || group(before, Delimiter::Brace).is_some(),
    };
    let rest = &tokens[block_end(tokens, at)?..];
    let called = rest.first().is_none_or(|next| is_punct(next, '.') || is_punct(next, ','));
    (begins && called && !rest.iter().any(|token| is_punct(token, ';'))).then_some(at)
}

/// Past the `async` block that begins at `at`.
pub(crate) fn block_end(tokens: &[TokenTree], at: usize) -> Option<usize> {
    if !is_word(tokens.get(at)?, "async") {
        return None;
    }
    let brace = if is_word(tokens.get(at + 1)?, "move") { at + 2 } else { at + 1 };
    group(tokens.get(brace)?, Delimiter::Brace).map(|_| brace + 1)
}

/// The `async` block at the front, recorded, and what follows it.
fn wrapped(path: &TokenStream, label: &str, args: &Args, mut tokens: Vec<TokenTree>) -> TokenStream {
    let Some(end) = block_end(&tokens, 0) else { return tokens.into_iter().collect() };
    let rest = tokens.split_off(end);
    let description = expand::description(path, label, args);
    let traced = outcome::traced(path, args, &description, &tokens.into_iter().collect());
    quote!(#traced #(#rest)*)
}

/// The block of every future that is recorded here: the body of an `async fn`, or the `async` block at the end.
pub(crate) fn block_of(is_async: bool, body: &Group) -> Option<Group> {
    let body = visible(body);
    if is_async {
        return Some(body);
    }
    let mut tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    if let Some(TokenTree::Group(arguments)) = tokens.last() {
        if arguments.delimiter() == Delimiter::Parenthesis && tokens.iter().any(|token| is_word(token, "pin")) {
            tokens = arguments.stream().into_iter().collect();
        }
    }
    let at = block_at_the_end(&tokens)?;
    match tokens.get(block_end(&tokens, at)? - 1)? {
        TokenTree::Group(block) => Some(block.clone()),
        _ => None,
    }
}
