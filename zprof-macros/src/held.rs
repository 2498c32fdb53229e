//! Finds scopes that do not last as long as they seem to, in the tokens of a traced function.
//!
//! In a future, a scope must not be open where an `.await` stands: the task may go on in another thread, while the scope is
//! on this one. In every function, `let _ = span!(…)` ends at once, and `let name = scope!(…)` is no expression.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::errors::Errors;
use crate::futures::block_end;
use crate::tokens::{group, is_punct, is_word, word};

/// Scopes that are open at an `.await` of the same block.
enum Held {
    /// A `scope!` or `step!` statement, to the end of the block.
    Scope,
    /// A `span!` of this name, until it is ended, dropped or given away.
    Span(String),
}

/// Looks through the block of a future. What other macros make of their arguments is not seen.
pub(crate) fn check(block: &Group, errors: &mut Errors) {
    let tokens: Vec<TokenTree> = block.stream().into_iter().collect();
    let mut held: Vec<(Held, &TokenTree)> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some(end) = not_ours(&tokens, at) {
            at = end;
            continue;
        }
        let awaits = match token {
            TokenTree::Group(group) => {
                check(group, errors);
                awaits(group)
            }
            _ => is_await(&tokens, at),
        };
        held.retain(|(held, _)| !matches!(held, Held::Span(name) if ends(&tokens, at, name)));
        if awaits {
            for (what, place) in held.drain(..) {
                errors.at(
                    place,
                    match what {
                        Held::Scope => ACROSS_AWAIT,
                        Held::Span(_) => SPAN_ACROSS_AWAIT,
                    },
                );
            }
        }
        if let Some(call) = call(&tokens[at..], &["scope", "step"]).filter(|call| call.length == ONE_WORD) {
            if !has_block(call.arguments) {
                held.push((Held::Scope, token));
                at += call.length;
                continue;
            }
            if self::awaits(call.arguments) {
                errors.at(token, AWAITS_INSIDE);
            }
        }
        if let Some((name, place, length)) = held_span(&tokens[at..]) {
            held.push((Held::Span(name), place));
            at += length;
            continue;
        }
        at += 1;
    }
}

const ACROSS_AWAIT: &str = "a scope cannot be held across an `.await`; end it before, in a block of its own: \
     `scope!(\"name\", { … })`, or record the awaited future: `future.traced(zprof::task!(\"name\")).await`";
const SPAN_ACROSS_AWAIT: &str = "a span cannot be held across an `.await`; end it before: `span.end()`, or record the \
     awaited future: `future.traced(zprof::task!(\"name\")).await`";
const AWAITS_INSIDE: &str = "the block of a scope cannot hold an `.await`; record it as a future: \
     `async { … }.traced(zprof::task!(\"name\")).await`, with `use zprof::TraceFuture as _`";
const ENDS_AT_ONCE: &str = "`let _` keeps nothing, so this span ends at once; give it a name: `let _span = …`, or use \
     `scope!(\"name\");` for the rest of the block";
const NO_EXPRESSION: &str = "`scope!` is a statement that lasts to the end of its block: `scope!(\"name\");`; a scope \
     that is held by name is a span: `let span = span!(\"name\");`";

/// Looks through the body of any function for scopes that are bound as they cannot be.
pub(crate) fn check_bindings(body: TokenStream, errors: &mut Errors) {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some(end) = inner_function(&tokens, at) {
            at = end;
            continue;
        }
        if let TokenTree::Group(inside) = token {
            check_bindings(inside.stream(), errors);
        }
        if let Some((pattern, value)) = binding(&tokens[at..]) {
            let ends_there = |call: &Call| value.get(call.length).is_none_or(|next| is_punct(next, ';'));
            let ignored = matches!(pattern, [name] if is_word(name, "_"));
            if ignored && call(value, &["span"]).is_some_and(|call| is_ours(&call) && ends_there(&call)) {
                errors.at(&pattern[0], ENDS_AT_ONCE);
            }
            if let Some(call) = call(value, &["scope"]).filter(|call| is_ours(call) && !has_block(call.arguments)) {
                errors.at(call.name, NO_EXPRESSION);
            }
        }
        at += 1;
    }
}

/// `let pattern = value …` at the front: the pattern, without a type, and what follows the `=`.
fn binding(tokens: &[TokenTree]) -> Option<(&[TokenTree], &[TokenTree])> {
    let (first, rest) = tokens.split_first()?;
    if !is_word(first, "let") {
        return None;
    }
    let end = rest.iter().position(|token| is_punct(token, '=') || is_punct(token, ';'))?;
    let (pattern, value) = (&rest[..end], &rest[end + 1..]);
    let colon = pattern.iter().position(|token| is_punct(token, ':'));
    is_punct(&rest[end], '=').then_some((&pattern[..colon.unwrap_or(end)], value))
}

/// `let name = span!(…);` at the front: the name, the macro's, and how many tokens that is.
fn held_span(tokens: &[TokenTree]) -> Option<(String, &TokenTree, usize)> {
    let (pattern, value) = binding(tokens)?;
    let name = match pattern {
        [name] => name,
        [mutable, name] if is_word(mutable, "mut") => name,
        _ => return None,
    };
    let call = call(value, &["span"]).filter(is_ours)?;
    let is_all = value.get(call.length).is_some_and(|next| is_punct(next, ';'));
    let length = tokens.len() - value.len() + call.length;
    (is_all && !is_word(name, "_")).then_some((word(name)?.to_string(), call.name, length))
}

/// Whether the token ends the span of this name, or may: whatever is done with it but adding metadata. What stands in a
/// group is looked at as well.
fn ends(tokens: &[TokenTree], at: usize, name: &str) -> bool {
    match &tokens[at] {
        TokenTree::Group(inside) => {
            let tokens: Vec<TokenTree> = inside.stream().into_iter().collect();
            (0..tokens.len()).any(|at| ends(&tokens, at, name))
        }
        token => {
            let records = matches!(&tokens[at + 1..], [dot, method, ..]
                if is_punct(dot, '.') && is_word(method, "record"));
            let is_field = at.checked_sub(1).is_some_and(|before| is_punct(&tokens[before], '.'));
            let is_macro = tokens.get(at + 1).is_some_and(|next| is_punct(next, '!'));
            is_word(token, name) && !records && !is_field && !is_macro
        }
    }
}

/// A call of one of our macros: `path::name!(…)`.
struct Call<'a> {
    name: &'a TokenTree,
    arguments: &'a Group,
    /// How many tokens it takes.
    length: usize,
}

/// Tokens of a call by one word: `name ! (…)`.
const ONE_WORD: usize = 3;

/// The call at the front of the tokens.
fn call<'a>(tokens: &'a [TokenTree], names: &[&str]) -> Option<Call<'a>> {
    let path = tokens.iter().take_while(|token| word(token).is_some() || is_punct(token, ':')).count();
    let (name, rest) = tokens[..path].split_last().zip(tokens.get(path..)).map(|((name, _), rest)| (name, rest))?;
    let [bang, TokenTree::Group(arguments), ..] = rest else { return None };
    let is_one = is_punct(bang, '!') && names.iter().any(|expected| is_word(name, expected));
    is_one.then_some(Call { name, arguments, length: path + 2 })
}

/// Whether the arguments begin as ours do, with a name: `tracing` has macros that are called like ours.
fn is_ours(call: &Call<'_>) -> bool {
    let first = call.arguments.stream().into_iter().next();
    first.is_some_and(|first| matches!(first, TokenTree::Literal(_)) || is_word(&first, "dyn"))
}

/// Past what runs elsewhere: an `async` block, or a function in the function.
fn not_ours(tokens: &[TokenTree], at: usize) -> Option<usize> {
    block_end(tokens, at).or_else(|| inner_function(tokens, at))
}

/// Past a function in the function.
fn inner_function(tokens: &[TokenTree], at: usize) -> Option<usize> {
    if !is_word(&tokens[at], "fn") {
        return None;
    }
    let body = tokens[at..].iter().position(|token| group(token, Delimiter::Brace).is_some())?;
    Some(at + body + 1)
}

fn is_await(tokens: &[TokenTree], at: usize) -> bool {
    is_word(&tokens[at], "await") && at.checked_sub(1).is_some_and(|before| is_punct(&tokens[before], '.'))
}

fn awaits(group: &Group) -> bool {
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(end) = not_ours(&tokens, at) {
            at = end;
            continue;
        }
        match &tokens[at] {
            TokenTree::Group(group) if awaits(group) => return true,
            _ if is_await(&tokens, at) => return true,
            _ => at += 1,
        }
    }
    false
}

/// Whether the arguments of `scope!` or `step!` end in a block of its own.
fn has_block(arguments: &Group) -> bool {
    let arguments: Vec<TokenTree> = arguments.stream().into_iter().collect();
    let arguments = match arguments.as_slice() {
        [rest @ .., comma] if is_punct(comma, ',') => rest,
        all => all,
    };
    matches!(arguments, [.., comma, block] if is_punct(comma, ',') && group(block, Delimiter::Brace).is_some())
}
