//! Rules over finished arguments: each function is one rule, its message says the cure.

use std::collections::HashSet;

use syn::Lit;

use crate::args::{Args, literal};
use crate::errors::Errors;

/// How many values the recorder takes in one scope.
const MAX_FIELDS: usize = 16;

/// Runs every rule.
pub(crate) fn check(args: &Args, errors: &mut Errors) {
    name(args, errors);
    keys(args, errors);
    duplicates(args, errors);
    values(args, errors);
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

fn count(args: &Args, errors: &mut Errors) {
    let root = usize::from(args.root.get().is_some());
    if let Some(field) = args.fields.get(MAX_FIELDS - root) {
        let given = args.fields.len() + root;
        let with = if root == 1 { ", `root` is one of them" } else { "" };
        errors.at(
            &field.ident,
            format_args!("{given} values are given{with}; a scope takes {MAX_FIELDS}: move the rest to a scope inside"),
        );
    }
}
