//! What a function that makes a future needs: its polls and its whole life are recorded, not the call that makes it.
//!
//! An `async fn` becomes what the compiler makes of it, a function that returns `impl Future`, with every argument moved
//! into one `async move` block first, so that they are dropped in the same order as before. The block is wrapped where
//! it stands: a second one around it would keep the arguments twice. The `impl` has this crate's edition, 2024, so that
//! it captures what an `async fn` captures, whatever the edition of the caller.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};

use crate::args::Args;
use crate::body::{Parts, braced, visible};
use crate::expand;
use crate::function::{Function, inferred};
use crate::outcome;
use crate::tokens::{attributes, between_commas, group, is_punct, is_word};

/// The expansion of an `async fn`; `asyncness` is the place of that word.
pub(crate) fn async_fn(
    path: &TokenStream,
    label: &str,
    args: &Args,
    function: Function,
    asyncness: usize,
) -> TokenStream {
    let here = Span::mixed_site();
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
    let bindings = &parameters.bindings;
    let block = braced(quote!(#items #bindings #expected #entry #rest), span);
    let traced = outcome::traced(path, args, &named, &quote_spanned!(here=> async move #block));
    let body = quote!(#attributes #traced);

    let mut head = function.head;
    let where_clause: Vec<TokenTree> = head.split_off(function.output.end);
    head.truncate(function.parameters);
    head.push(parameters.group.into());
    head.remove(asyncness);
    let mut tokens = TokenStream::from_iter(head);
    tokens.extend(quote_spanned!(here=> -> impl #path::__private::core::future::Future<Output = #awaited>));
    tokens.extend(where_clause);
    braced(body, span).to_tokens(&mut tokens);
    tokens
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
            // What decides whether the parameter is there, and what is allowed of it, holds for its binding too.
            let conditions = kept(before);
            written.extend(before.iter().cloned());
            let colon = colon(parameter);
            let (pattern, rest) = parameter.split_at(colon.unwrap_or(parameter.len()));
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

/// Those of the attributes that a binding may have as well.
fn kept(attributes: &[TokenTree]) -> TokenStream {
    let kept = attributes.chunks(2).filter(|attribute| {
        let words = attribute.get(1).and_then(|token| group(token, Delimiter::Bracket)).map(Group::stream);
        let first = words.and_then(|words| words.into_iter().next());
        first.is_some_and(|first| ["cfg", "allow"].iter().any(|word| is_word(&first, word)))
    });
    kept.flatten().cloned().collect()
}

/// The body of a function that is not `async` and ends in a block that is: `async { … }`, with or without calls behind
/// it, or `Box::pin(async { … })`. The block is recorded, and the function is not.
pub(crate) fn tail(path: &TokenStream, label: &str, args: &Args, body: &Group) -> Option<TokenStream> {
    let body = visible(body);
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
    Some(braced(tokens.into_iter().collect(), body.span()).to_token_stream())
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
