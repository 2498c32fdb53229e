//! Finds a `scope!` or `step!` statement that an `.await` of the same block stands behind: the task may go on in another thread,
//! while the scope is on this one.

use proc_macro2::{Delimiter, Group, TokenTree};

use crate::errors::Errors;
use crate::futures::block_end;
use crate::tokens::{group, is_punct, is_word};

/// Looks through the block of a future. What other macros make of their arguments is not seen.
pub(crate) fn check(block: &Group, errors: &mut Errors) {
    let tokens: Vec<TokenTree> = block.stream().into_iter().collect();
    let mut held: Vec<&TokenTree> = Vec::new();
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
        if awaits {
            for scope in held.drain(..) {
                errors.at(
                    scope,
                    "a scope cannot be held across an `.await`; end it before, in a block of its own: \
                     `scope!(\"name\", { … })`, or record the awaited future: \
                     `future.traced(zprof::task!(\"name\")).await`",
                );
            }
        }
        if is_statement_scope(&tokens, at) {
            held.push(token);
            at += 2;
        }
        at += 1;
    }
}

/// Past what runs elsewhere: an `async` block, or a function in the function.
fn not_ours(tokens: &[TokenTree], at: usize) -> Option<usize> {
    if let Some(end) = block_end(tokens, at) {
        return Some(end);
    }
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

/// `scope ! ( … )` or `step ! ( … )` that does not end in a block of its own.
fn is_statement_scope(tokens: &[TokenTree], at: usize) -> bool {
    let [scope, bang, TokenTree::Group(arguments), ..] = &tokens[at..] else { return false };
    if !["scope", "step"].iter().any(|word| is_word(scope, word)) || !is_punct(bang, '!') {
        return false;
    }
    let arguments: Vec<TokenTree> = arguments.stream().into_iter().collect();
    let arguments = match arguments.as_slice() {
        [rest @ .., comma] if is_punct(comma, ',') => rest,
        all => all,
    };
    !matches!(arguments, [.., comma, block] if is_punct(comma, ',') && group(block, Delimiter::Brace).is_some())
}
