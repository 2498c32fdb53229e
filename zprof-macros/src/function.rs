//! Says what an item is, and cuts a function where its attribute needs it. Nothing of the signature is parsed deeper or
//! printed anew, so no part of it can be lost, syntax newer than this crate passes, and a body that is being typed
//! stays as it is.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Ident, TokenTree};

use crate::tokens::{Angles, group, is_punct, is_word, position, word};

/// What an item is.
pub(crate) enum Kind {
    Function {
        /// Place of `fn`.
        at: usize,
        /// Place of `async`.
        is_async: Option<usize>,
        /// Place of `const`.
        is_const: Option<usize>,
    },
    /// An `impl`, a `mod` or a `trait`.
    Block {
        /// Place of that word.
        at: usize,
    },
    Other,
}

/// Looks at the words before the item's own.
pub(crate) fn kind(item: &[TokenTree]) -> Kind {
    let (mut is_async, mut is_const) = (None, None);
    for (at, token) in item.iter().enumerate() {
        if group(token, Delimiter::Brace).is_some() {
            return Kind::Other;
        }
        // Attributes, `pub(…)`, a `$vis` fragment and the name of an ABI stand between.
        let Some(word) = word(token) else { continue };
        match word.to_string().as_str() {
            "pub" | "unsafe" | "safe" | "default" | "extern" => {}
            "const" => is_const = Some(at),
            "async" => is_async = Some(at),
            "fn" => return Kind::Function { at, is_async, is_const },
            "impl" | "mod" | "trait" => return Kind::Block { at },
            _ => return Kind::Other,
        }
    }
    Kind::Other
}

/// A function with a body.
pub(crate) struct Function {
    pub(crate) name: Ident,
    /// Everything before the body.
    pub(crate) head: Vec<TokenTree>,
    /// Place of the parameters.
    pub(crate) parameters: usize,
    /// Places of the return type; none without one.
    pub(crate) output: Range<usize>,
    pub(crate) body: Group,
}

impl Function {
    /// Cuts the function whose `fn` stands at `at`; `None` where it has no name, parameters or body.
    pub(crate) fn cut(mut item: Vec<TokenTree>, at: usize) -> Option<Self> {
        let name = word(item.get(at + 1)?)?.clone();
        let body = match item.pop()? {
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => body,
            _ => return None,
        };
        let head = item;
        let rest = at + 2;
        let parameters = rest + position(head.get(rest..)?, |token| group(token, Delimiter::Parenthesis).is_some())?;
        let after = parameters + 1;
        let output = match head.get(after..after + 2) {
            Some([dash, arrow]) if is_punct(dash, '-') && is_punct(arrow, '>') => {
                let start = after + 2;
                let end = position(&head[start..], |token| is_word(token, "where"));
                start..end.map_or(head.len(), |length| start + length)
            }
            _ => after..after,
        };
        Some(Self { name, head, parameters, output, body })
    }

    /// The return type; empty where none is written.
    pub(crate) fn output(&self) -> &[TokenTree] {
        &self.head[self.output.clone()]
    }
}

/// A return type that may stand in an expression: `impl Trait` becomes `_`.
pub(crate) fn inferred(tokens: &[TokenTree]) -> Vec<TokenTree> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Group(inner) => {
                let stream: Vec<TokenTree> = inner.stream().into_iter().collect();
                let mut group = Group::new(inner.delimiter(), inferred(&stream).into_iter().collect());
                group.set_span(inner.span());
                found.push(group.into());
            }
            TokenTree::Ident(word) if word == "impl" => {
                found.push(Ident::new("_", word.span()).into());
                let mut angles = Angles::default();
                // To the comma behind it, or to the bracket that closes what it stands in.
                at += tokens[at..]
                    .iter()
                    .take_while(|token| {
                        let inside = angles.are_open();
                        let outside = angles.outside(token);
                        !(outside && is_punct(token, ',')) && (inside || outside || angles.are_open())
                    })
                    .count();
            }
            _ => found.push(token.clone()),
        }
    }
    found
}
