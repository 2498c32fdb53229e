//! `#[trace]` on an `impl`, a `trait` or a `mod`: it goes on to each function inside, as an attribute of its own.
//!
//! So other attributes of the block, such as `async_trait`, find functions as they were written. Items are cut at their
//! ends and come back token by token.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::LitStr;
use syn::ext::IdentExt;

use crate::args::{Args, Place};
use crate::errors::Errors;
use crate::function::{Kind, kind};
use crate::tokens::{Angles, attributes, group, is_punct, is_word, position, visible, word};

/// What the functions of a block get from its attribute.
struct Block {
    /// What stands before the name of a function: a type, a trait, or what the attribute says.
    prefix: Option<String>,
    path: TokenStream,
    level: Option<TokenStream>,
    filter: Option<TokenStream>,
}

/// The block with the attribute on each function in it; `at` is the place of the block's word. `None` where it has no
/// body.
pub(crate) fn trace(args: &Args, mut item: Vec<TokenTree>, at: usize, errors: &mut Errors) -> Option<TokenStream> {
    let body = match item.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => {
            let cure = "`#[zprof::trace]` needs the module's text and finds none; put it on the functions in its file";
            errors.at(&item[at], cure);
            return None;
        }
    };
    let name = args.name.get().map(LitStr::value);
    let prefix = match word(&item[at]).map(ToString::to_string).as_deref() {
        Some("impl") => Some(name.unwrap_or_else(|| self_type(&item[at + 1..]))),
        Some("trait") => Some(name.unwrap_or_else(|| item.get(at + 1).map(plain).unwrap_or_default())),
        _ => name,
    };
    let block = Block {
        prefix,
        path: args.path.get().cloned().unwrap_or_else(|| quote!(::zprof)),
        level: args.level.get().map(|level| {
            let level = proc_macro2::Ident::new(level.word(), Span::call_site());
            quote!(level = #level)
        }),
        filter: args.filter.get().map(|bit| {
            let bit = proc_macro2::Literal::u32_unsuffixed(*bit);
            quote!(filter = #bit)
        }),
    };
    let inside: Vec<TokenTree> = body.stream().into_iter().collect();
    let mut traced = Group::new(Delimiter::Brace, block.items(&inside));
    traced.set_span(body.span());
    item.push(traced.into());
    Some(item.into_iter().collect())
}

impl Block {
    fn items(&self, mut tokens: &[TokenTree]) -> TokenStream {
        let mut found = TokenStream::new();
        while !tokens.is_empty() {
            let (item, rest) = tokens.split_at(item_end(tokens));
            found.extend(self.item(item));
            tokens = rest;
        }
        found
    }

    fn item(&self, item: &[TokenTree]) -> TokenStream {
        // A `$item` fragment comes in an invisible group.
        if let [TokenTree::Group(fragment)] = item {
            if fragment.delimiter() == Delimiter::None {
                let inside: Vec<TokenTree> = fragment.stream().into_iter().collect();
                return Group::new(Delimiter::None, self.items(&inside)).into_token_stream();
            }
        }
        let (before, rest) = item.split_at(attributes(item));
        let has_body = rest.last().is_some_and(|last| group(last, Delimiter::Brace).is_some());
        let name = match kind(rest) {
            Kind::Function { is_const: None, at, .. } if has_body => rest.get(at + 1),
            Kind::Block { at } if has_body && is_word(&rest[at], "impl") => Some(&rest[at]),
            Kind::Block { at } if has_body => rest.get(at + 1),
            _ => None,
        };
        let Some(name) = name else { return item.iter().cloned().collect() };
        let is_function = matches!(kind(rest), Kind::Function { .. });
        let mut kept = TokenStream::new();
        let mut own = None;
        for attribute in before.chunks(2) {
            match self.arguments(attribute) {
                Own::No => kept.extend(attribute.iter().cloned()),
                Own::Hidden => return item.iter().cloned().collect(),
                Own::Yes(arguments) => {
                    let mut errors = Errors::default();
                    let args = Args::read(Place::Trace, arguments.clone(), &mut errors);
                    if args.skip.get().is_some() {
                        // It says so itself where it says more than that.
                        let alone = arguments.into_iter().count() == 1;
                        let said = (!alone).then(|| attribute.iter().cloned().collect::<TokenStream>());
                        return quote!(#kept #said #(#rest)*);
                    }
                    own = Some((args, arguments));
                }
            }
        }
        let (args, arguments) = match own {
            Some((args, arguments)) => (Some(args), arguments),
            None => (None, TokenStream::new()),
        };
        let arguments = self.with_ours(args.as_ref(), arguments, name, rest, is_function);
        let path = match args.as_ref().and_then(|args| args.path.get()) {
            Some(path) => path,
            None => &self.path,
        };
        // At the function's own place: `line!()` in the expansion is the line of the attribute.
        let place = name.span();
        quote_spanned!(place=> #kept #[#path::trace(#arguments)] #(#rest)*)
    }

    /// A function's own arguments first; what they leave open is ours.
    fn with_ours(
        &self,
        args: Option<&Args>,
        own: TokenStream,
        name: &TokenTree,
        rest: &[TokenTree],
        is_function: bool,
    ) -> TokenStream {
        let mut all: Vec<TokenStream> = Vec::new();
        let open = |is_set: Option<bool>| !is_set.unwrap_or(false);
        let own: Vec<TokenTree> = own.into_iter().collect();
        match own.as_slice() {
            [] => {}
            [own @ .., comma] if is_punct(comma, ',') => all.push(own.iter().cloned().collect()),
            own => all.push(own.iter().cloned().collect()),
        }
        if open(args.map(|args| args.name.get().is_some())) {
            if let Some(prefix) = &self.prefix {
                let name = if is_function || !is_word(name, "impl") { plain(name) } else { self_type(&rest[1..]) };
                // A name is read as a format string is.
                let label = format!("{prefix}::{name}").replace('{', "{{").replace('}', "}}");
                let label = LitStr::new(&label, Span::call_site());
                all.push(quote!(name = #label));
            }
        }
        if open(args.map(|args| args.level.get().is_some())) {
            all.extend(self.level.clone());
        }
        if open(args.map(|args| args.filter.get().is_some())) {
            all.extend(self.filter.clone());
        }
        if open(args.map(|args| args.path.get().is_some())) {
            let path = &self.path;
            all.push(quote!(crate = #path));
        }
        quote!(#(#all),*)
    }

    /// What an attribute says if it is ours.
    fn arguments(&self, attribute: &[TokenTree]) -> Own {
        let Some(inside) = attribute.get(1).and_then(|token| group(token, Delimiter::Bracket)) else { return Own::No };
        let tokens: Vec<TokenTree> = inside.stream().into_iter().collect();
        if tokens.first().is_some_and(|first| is_word(first, "cfg_attr")) {
            let text = inside.stream().to_string().replace(' ', "");
            let hidden = ["zprof::trace".to_owned(), squeezed(&self.path.to_string()) + "::trace"];
            return if hidden.iter().any(|path| text.contains(path)) { Own::Hidden } else { Own::No };
        }
        let (path, arguments) = match tokens.split_last() {
            Some((TokenTree::Group(arguments), path)) => (path, arguments.stream()),
            _ => (tokens.as_slice(), TokenStream::new()),
        };
        let text = squeezed(&path.iter().cloned().collect::<TokenStream>().to_string());
        let ours = squeezed(&self.path.to_string()) + "::trace";
        let is_ours = ["trace", "zprof::trace", "::zprof::trace", ours.as_str()].contains(&text.as_str());
        if is_ours { Own::Yes(arguments) } else { Own::No }
    }
}

/// Whether an attribute is ours.
enum Own {
    No,
    Yes(TokenStream),
    /// Behind a condition: it decides itself.
    Hidden,
}

/// How many tokens the first item takes. Text that ends too early is one item.
fn item_end(tokens: &[TokenTree]) -> usize {
    // `#![…]`, and what no item begins with.
    if let [sharp, bang, ..] = tokens {
        if is_punct(sharp, '#') && is_punct(bang, '!') {
            return 3.min(tokens.len());
        }
    }
    let start = attributes(tokens);
    let Some(first) = tokens.get(start) else { return tokens.len() };
    if group(first, Delimiter::None).is_some_and(|_| start == 0) && !begins_item(&tokens[1..]) {
        return 1;
    }
    let item = &tokens[start..];
    let to_semicolon = matches!(kind(item), Kind::Other)
        && item
            .iter()
            .filter_map(word)
            .find(|word| !["pub", "unsafe", "default", "safe"].iter().any(|skipped| word == skipped))
            .is_some_and(|word| ["const", "static", "type", "use"].iter().any(|own| word == own));
    let mut angles = Angles::default();
    for (at, token) in item.iter().enumerate() {
        let outside = if to_semicolon { true } else { angles.outside(token) };
        if outside && is_punct(token, ';') {
            return start + at + 1;
        }
        let is_macro = !to_semicolon && is_punct(token, '!') && at > 0 && matches!(kind(item), Kind::Other);
        if is_macro {
            let group = item[at..].iter().position(|token| matches!(token, TokenTree::Group(_)));
            let end = group.map_or(item.len(), |group| at + group + 1);
            let semicolon = item.get(end).is_some_and(|next| is_punct(next, ';'));
            return start + end + usize::from(semicolon);
        }
        if outside && !to_semicolon && group(token, Delimiter::Brace).is_some() {
            return start + at + 1;
        }
    }
    tokens.len()
}

/// Whether a `$vis` fragment may stand before this.
fn begins_item(tokens: &[TokenTree]) -> bool {
    let words = ["async", "const", "default", "enum", "extern", "fn", "mod", "static", "struct", "trait", "type"];
    let more = ["union", "unsafe", "use"];
    tokens.first().and_then(word).is_some_and(|word| words.iter().chain(&more).any(|item| word == item))
}

/// The name of the type behind `impl`: `Cache` of `impl<T> Read for a::Cache<T>`.
fn self_type(tokens: &[TokenTree]) -> String {
    let is_for = |at: usize| is_word(&tokens[at], "for") && !tokens.get(at + 1).is_some_and(|next| is_punct(next, '<'));
    let end = position(tokens, |token| is_word(token, "where") || group(token, Delimiter::Brace).is_some());
    let tokens = &tokens[..end.unwrap_or(tokens.len())];
    let mut angles = Angles::default();
    let mut start = 0;
    // Past the generics of the block.
    if tokens.first().is_some_and(|first| is_punct(first, '<')) {
        angles.outside(&tokens[0]);
        start = 1;
        while start < tokens.len() && angles.are_open() {
            angles.outside(&tokens[start]);
            start += 1;
        }
    }
    let mut angles = Angles::default();
    let after_for = (start..tokens.len()).find(|&at| angles.outside(&tokens[at]) && is_for(at));
    type_name(&visible(&tokens[after_for.map_or(start, |at| at + 1)..]))
}

/// A path's last word; the text of other types.
fn type_name(tokens: &[TokenTree]) -> String {
    if let [amp, rest @ ..] = tokens {
        if is_punct(amp, '&') {
            let rest = match rest {
                [tick, _, rest @ ..] if is_punct(tick, '\'') => rest,
                rest => rest,
            };
            let (mutable, rest) = match rest {
                [mutable, rest @ ..] if is_word(mutable, "mut") => ("mut ", rest),
                rest => ("", rest),
            };
            return format!("&{mutable}{}", type_name(&visible(rest)));
        }
    }
    let mut angles = Angles::default();
    let outside: Vec<&TokenTree> = tokens.iter().filter(|token| angles.outside(token)).collect();
    let is_path = outside.iter().all(|token| word(token).is_some() || is_punct(token, ':'))
        && !outside.iter().any(|token| ["dyn", "fn", "impl"].iter().any(|no| is_word(token, no)));
    match outside.last() {
        Some(last) if is_path => plain(last),
        _ => squeezed(&tokens.iter().cloned().collect::<TokenStream>().to_string()).replace('#', ""),
    }
}

/// A word without `r#`.
fn plain(token: &TokenTree) -> String {
    word(token).map_or_else(|| token.to_string(), |word| word.unraw().to_string())
}

/// Text of tokens with spaces between words only.
fn squeezed(text: &str) -> String {
    let letters: Vec<char> = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let is_word = |at: usize| letters.get(at).is_some_and(|letter| letter.is_alphanumeric() || *letter == '_');
    let keeps = |at: usize| letters[at] != ' ' || (at > 0 && is_word(at - 1) && is_word(at + 1));
    (0..letters.len()).filter(|&at| keeps(at)).map(|at| letters[at]).collect()
}
