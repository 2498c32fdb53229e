//! Puts a guard into a block that somebody wrote, so that the block's own messages and lints stay as they were.
//!
//! The guard goes into the block, not around it: a block in the block would trip `unused_braces` and make rustc's words
//! on a missing return value worse.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::quote;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Item, Stmt};

/// The block with the guard in front of its first statement.
pub(crate) fn with_guard(block: &Group, guard: &TokenStream) -> Group {
    let Parts { attributes, items, rest, span } = Parts::of(block);
    braced(quote!(#attributes #items #guard #rest), span)
}

/// A block, cut where something may be put in.
pub(crate) struct Parts {
    /// The `#![…]` at its front.
    pub(crate) attributes: TokenStream,
    /// The items that stand before all statements.
    pub(crate) items: TokenStream,
    pub(crate) rest: TokenStream,
    pub(crate) span: Span,
}

impl Parts {
    pub(crate) fn of(block: &Group) -> Self {
        let block = visible(block);
        let tokens: Vec<TokenTree> = block.stream().into_iter().collect();
        let (attributes, tokens) = tokens.split_at(inner_attributes(&tokens));
        let (items, rest) = tokens.split_at(items(tokens));
        let [attributes, items, rest] = [attributes, items, rest].map(|part| part.iter().cloned().collect());
        Self { attributes, items, rest, span: block.span() }
    }
}

/// `{ tokens }`, at the place of a block that somebody wrote.
pub(crate) fn braced(tokens: TokenStream, span: Span) -> Group {
    let mut group = Group::new(Delimiter::Brace, tokens);
    group.set_span(span);
    group
}

/// The block inside the invisible groups that a macro fragment (`$body:block`) comes in.
pub(crate) fn visible(block: &Group) -> Group {
    let mut tokens = block.stream().into_iter();
    match (block.delimiter(), tokens.next(), tokens.next()) {
        (Delimiter::None, Some(TokenTree::Group(inner)), None) => visible(&inner),
        _ => block.clone(),
    }
}

/// How many tokens the `#![…]` make that a block begins with: they must stay first.
fn inner_attributes(tokens: &[TokenTree]) -> usize {
    let mut length = 0;
    while let [TokenTree::Punct(sharp), TokenTree::Punct(bang), TokenTree::Group(group), ..] = &tokens[length..] {
        if sharp.as_char() != '#' || bang.as_char() != '!' || group.delimiter() != Delimiter::Bracket {
            break;
        }
        length += 3;
    }
    length
}

/// How many tokens the items make that a block begins with. Behind a statement of ours, clippy's
/// `items_after_statements` would blame them. What does not parse is no item: half-typed code stays where it is.
fn items(tokens: &[TokenTree]) -> usize {
    let begins_with_item = match tokens {
        [TokenTree::Punct(sharp), ..] => sharp.as_char() == '#',
        [TokenTree::Ident(word), ..] => ITEM_WORDS.iter().any(|item| word == item),
        _ => false,
    };
    // syn looks through invisible groups, so that its tokens could not be counted.
    let countable =
        |token: &TokenTree| !matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::None);
    if !begins_with_item || !tokens.iter().all(countable) {
        return 0;
    }
    let rest = |input: ParseStream| -> syn::Result<usize> {
        loop {
            let ahead = input.fork();
            match ahead.parse::<Stmt>() {
                Ok(Stmt::Item(item)) if !matches!(item, Item::Macro(_) | Item::Verbatim(_)) => input.advance_to(&ahead),
                _ => return Ok(input.parse::<TokenStream>()?.into_iter().count()),
            }
        }
    };
    let stream: TokenStream = tokens.iter().cloned().collect();
    tokens.len() - rest.parse2(stream).unwrap_or(tokens.len())
}

const ITEM_WORDS: [&str; 13] =
    ["const", "enum", "extern", "fn", "impl", "mod", "pub", "static", "struct", "trait", "type", "unsafe", "use"];
