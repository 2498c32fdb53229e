//! Rules over finished arguments: each function is one rule, its message says the cure.

use std::collections::HashSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Lit;

use crate::args::{Args, literal};
use crate::errors::Errors;

/// How many values the recorder takes in one scope.
const MAX_FIELDS: usize = 16;

/// Runs every rule.
pub(crate) fn check(args: &Args, errors: &mut Errors) {
    name(args, errors);
    alone(args, errors);
    keys(args, errors);
    duplicates(args, errors);
    values(args, errors);
    leaving(args, errors);
    count(args, errors);
}

/// A name is shown as it is, and `#` ends it in the label that tools get.
fn name(args: &Args, errors: &mut Errors) {
    let Some(name) = args.name.get() else { return };
    if name.value().is_empty() {
        errors.at(name, "a name cannot be empty");
    } else if name.value().contains('#') {
        errors.at(name, "a name cannot hold `#`, which ends the name in a label; remove it");
    }
}

/// What is not recorded has nothing to say.
fn alone(args: &Args, errors: &mut Errors) {
    let Some(skip) = args.skip.get() else { return };
    let others = args.name.get().is_some()
        || args.level.get().is_some()
        || args.filter.get().is_some()
        || args.recorded().next().is_some()
        || args.ret.get().is_some()
        || args.err.get().is_some()
        || !args.fields.is_empty();
    if others {
        errors.at(
            skip,
            "`skip` stands alone, since it leaves the function out; no argument is captured that is not named",
        );
    }
}

/// What an attribute on a whole block may say: the rest is a function's own.
pub(crate) fn block(args: &Args, word: &str, errors: &mut Errors) {
    for field in &args.fields {
        errors.at(&field.ident, format_args!("metadata goes on a function, not on a whole `{word}`"));
    }
    for (argument, value) in args.recorded() {
        errors.at(value, format_args!("`{argument}` goes on a function, not on a whole `{word}`"));
    }
    for outcome in [args.ret.get(), args.err.get()].into_iter().flatten() {
        errors.at(outcome, format_args!("`{outcome}` goes on a function, not on a whole `{word}`"));
    }
}

/// What a future may not say: its polls are joined by arrows already, and an event can have one.
pub(crate) fn future(args: &Args, errors: &mut Errors) {
    for (word, value) in args.recorded().filter(|(word, _)| *word != "root") {
        errors.at(
            value,
            format_args!("`{word}` cannot stand on a future, {ONE_ARROW}: `instant!(\"name\", {word} = …)`"),
        );
    }
}

/// Why a task has no flow of its own, and the way out.
pub(crate) const ONE_ARROW: &str =
    "whose polls are joined by arrows of their own; put it on a scope or an instant inside";

/// Readers keep keys with a leading underscore for themselves (`_r` marks a step).
fn keys(args: &Args, errors: &mut Errors) {
    for field in args.fields.iter().filter(|field| field.key.starts_with('_')) {
        let trimmed = field.key.trim_start_matches('_');
        let better = if trimmed.is_empty() { "key" } else { trimmed };
        errors.at(&field.ident, format_args!("keys that begin with `_` are reserved; rename it: `{better} = …`"));
    }
}

/// A reader keeps one value a key.
fn duplicates(args: &Args, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (key, word) in [("return", args.ret.get()), ("error", args.err.get())] {
        if let Some(field) = args.fields.iter().find(|field| word.is_some() && field.key == key) {
            errors.at(
                &field.ident,
                format_args!("key `{key}` is what `{}` records; rename this one", word.into_token_stream()),
            );
        }
    }
    for field in &args.fields {
        if !seen.insert(&field.key) {
            errors.at(&field.ident, format_args!("key `{}` is given twice; remove or rename one", field.key));
        }
    }
}

/// A value known now must not end the label early.
fn values(args: &Args, errors: &mut Errors) {
    for field in &args.fields {
        let sharp = match literal(&field.value) {
            Ok(Lit::Str(text)) => text.value().contains('#'),
            Ok(Lit::Char(text)) => text.value() == '#',
            _ => false,
        };
        if sharp {
            errors.at(&field.value, "a literal value cannot hold `#`, which ends the metadata in a label; remove it");
        }
    }
}

/// A value is evaluated only while something listens, so it must not decide where the program goes on.
fn leaving(args: &Args, errors: &mut Errors) {
    let metadata = args.fields.iter().map(|field| &field.value).chain(args.recorded().map(|recorded| recorded.1));
    for value in metadata.chain(&args.given_name) {
        let tokens = value.to_token_stream();
        let has_a_body_of_its_own = any(&tokens, &|token| match token {
            TokenTree::Punct(punct) => punct.as_char() == '|',
            TokenTree::Ident(word) => ["async", "fn", "for", "loop", "try", "while"].iter().any(|inner| word == inner),
            _ => false,
        });
        // In a closure or a loop it may well stay inside; telling would need names resolved.
        if has_a_body_of_its_own.is_some() {
            continue;
        }
        let leaves = any(&tokens, &|token| match token {
            TokenTree::Punct(punct) => punct.as_char() == '?',
            TokenTree::Ident(word) => {
                ["await", "break", "continue", "return", "yield"].iter().any(|leaving| word == leaving)
            }
            _ => false,
        });
        if let Some(token) = leaves {
            let message = format!(
                "`{token}` cannot stand in metadata, which is evaluated only while something listens; put the value \
                 into a variable before"
            );
            errors.at(token, message);
        }
    }
}

/// The first token, in groups too, that `is` says yes to.
fn any(tokens: &TokenStream, is: &dyn Fn(&TokenTree) -> bool) -> Option<TokenTree> {
    tokens.clone().into_iter().find_map(|token| match token {
        TokenTree::Group(group) => any(&group.stream(), is),
        token => is(&token).then_some(token),
    })
}

fn count(args: &Args, errors: &mut Errors) {
    let reserved: Vec<String> = args.recorded().map(|(word, _)| format!("`{word}`")).collect();
    if let Some(field) = args.fields.get(MAX_FIELDS - reserved.len()) {
        let given = args.fields.len() + reserved.len();
        let with = match reserved.as_slice() {
            [] => String::new(),
            [one] => format!(", {one} is one of them"),
            several => format!(", {} are among them", several.join(" and ")),
        };
        errors.at(
            &field.ident,
            format_args!("{given} values are given{with}; a scope takes {MAX_FIELDS}: move the rest to a scope inside"),
        );
    }
}
