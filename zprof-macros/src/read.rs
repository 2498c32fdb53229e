//! Reads arguments, token by token, and says what is wrong with the first that makes no sense.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Lit, LitStr, Path, Token};

use crate::args::{Args, Field, Level, Once, Place, Sort, literal, one_line};
use crate::errors::Errors;
use crate::marks::{one_value, refused};
use crate::placeholder::placeholder;

impl Args {
    /// Reads `tokens`; what is wrong goes to `errors`, what could be read is returned all the same.
    pub(crate) fn read(place: Place, tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self {
            name: Once::new("name"),
            given_name: None,
            level: Once::new("level"),
            filter: Once::new("filter"),
            root: Once::new("root"),
            sends: Once::new("sends"),
            receives: Once::new("receives"),
            path: Once::new("crate"),
            skip: Once::new("skip"),
            ret: Once::new("ret"),
            err: Once::new("err"),
            is_last: false,
            fields: Vec::new(),
            block: None,
        };
        let hint = block_without_comma(place, &tokens);
        let read = |input: ParseStream| -> syn::Result<()> {
            args.read_all(place, input, errors)?;
            // What an early stop left over has its message already.
            input.step(|cursor| {
                let mut rest = *cursor;
                while let Some((_, next)) = rest.token_tree() {
                    rest = next;
                }
                Ok(((), rest))
            })
        };
        if let Err(error) = read.parse2(tokens) {
            match hint {
                Some(open) => errors.at_span(open, missing_comma(place)),
                None => errors.add(error),
            }
        }
        if place == Place::Counter {
            one_value(&args, errors);
        }
        args
    }

    fn read_all(&mut self, place: Place, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
        if place != Place::Trace {
            let more = self.read_name(place, input, errors)?;
            if matches!(place, Place::Step | Place::Counter) {
                self.read_number(place, input, errors)?;
            } else if !more {
                return Ok(());
            }
        }
        while !input.is_empty() {
            self.read_one(place, input, errors)?;
            if input.is_empty() {
                break;
            }
            if input.peek(Token![,]) {
                input.parse::<Token![,]>()?;
            } else {
                let next: TokenTree = input.fork().parse()?;
                if input.peek(syn::token::Brace) {
                    errors.at_span(open_span(&next), missing_comma(place));
                    return Ok(());
                }
                errors.at(&next, "missing `,` before this");
                if !input.peek(Ident::peek_any) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads the name that the macros begin with and the comma behind it; false where nothing more makes
    /// sense.
    fn read_name(&mut self, place: Place, input: ParseStream, errors: &mut Errors) -> syn::Result<bool> {
        let word = place.word();
        let one = place.one();
        let missing = format!("{one} begins with its name: `{word}!(\"name\", …)`");
        if input.is_empty() {
            errors.at_span(Span::call_site(), missing);
            return Ok(false);
        }
        let key_first = input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]);
        if key_first || input.peek(syn::token::Brace) || input.peek(Token![,]) {
            let next: TokenTree = input.fork().parse()?;
            errors.at_span(open_span(&next), missing);
            if input.peek(Token![,]) {
                input.parse::<Token![,]>()?;
            }
            return Ok(true);
        }
        if input.peek(Token![dyn]) {
            self.read_given_name(place, input, errors)?;
        } else {
            match literal(&input.parse()?) {
                Ok(Lit::Str(name)) => self.set_name(place, &name, &name, errors),
                Ok(other) => errors.at(other, NAME_NOT_A_STRING),
                Err(other) => {
                    let metadata = format!("what changes goes into metadata: `{word}!(\"name\", key = value)`");
                    let given = if takes_given_name(place) {
                        format!(", or stands behind `dyn`: `{word}!(dyn {}, …)`", one_line(other, 40))
                    } else {
                        String::new()
                    };
                    errors.at(other, format_args!("a name is a string literal; {metadata}{given}"));
                }
            }
        }
        if input.is_empty() {
            return Ok(false);
        }
        if input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
        } else {
            let next: TokenTree = input.fork().parse()?;
            let message = if input.peek(syn::token::Brace) { missing_comma(place) } else { "missing `,` before this" };
            errors.at_span(open_span(&next), message);
        }
        Ok(true)
    }

    /// Takes the name, which is written like a format string without values: `{{` is a brace.
    fn set_name(&mut self, place: Place, at: impl ToTokens, name: &LitStr, errors: &mut Errors) {
        let text = name.value();
        if let Some(hole) = placeholder(&text) {
            let word = place.word();
            let inside = hole.trim_matches(['{', '}']).split(':').next().unwrap_or_default();
            let value = if syn::parse_str::<Ident>(inside).is_ok() { inside } else { "key = value" };
            let given = if takes_given_name(place) {
                format!(", or the name behind `dyn`: `{word}!(dyn format!({}), …)`", name.token())
            } else {
                String::new()
            };
            let metadata = if place == Place::Trace {
                format!("`#[zprof::trace(\"name\", {value})]`")
            } else {
                format!("`{word}!(\"name\", {value})`")
            };
            errors.at(
                name,
                format_args!(
                    "a name is no format string, so `{hole}` would be recorded as it is; what changes goes into \
                     metadata: {metadata}{given}; a brace of the name itself is written twice: `{{{hole}}}`"
                ),
            );
        }
        let text = text.replace("{{", "{").replace("}}", "}");
        self.name.set(at, LitStr::new(&text, name.span()), errors);
    }

    /// Reads `dyn` and the expression behind it.
    fn read_given_name(&mut self, place: Place, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
        let word: Token![dyn] = input.parse()?;
        if input.is_empty() || input.peek(Token![,]) {
            errors.at(
                word,
                format_args!("an expression that gives the name follows `dyn`: `{}!(dyn name, …)`", place.word()),
            );
            return Ok(());
        }
        let name: Expr = input.parse()?;
        if !takes_given_name(place) {
            let one = place.one();
            errors.at(word, format_args!("the name of {one} is a literal: `{}!(\"name\", …)`", place.word()));
        } else if literal(&name).is_ok() {
            errors.at(word, "a literal name stands without `dyn`");
        } else {
            self.given_name = Some(name);
        }
        Ok(())
    }

    fn read_one(&mut self, place: Place, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
        if input.peek(syn::token::Brace) {
            return self.read_block(place, input, errors);
        }
        if input.peek(Token![dyn]) && place == Place::Trace {
            let word: Token![dyn] = input.parse()?;
            errors.at(
                word,
                "the name of a function is a literal; a scope in its body can have another: `zprof::scope!(dyn name)`",
            );
            input.parse::<Expr>()?;
            return Ok(());
        }
        if let Some(sort) = read_sort(input)? {
            if !input.peek(Ident::peek_any) {
                return Err(input.error("a variable follows `%` or `?`; any other value needs a key: `key = %value`"));
            }
            return self.read_short(place, sort, input, errors);
        }
        if input.peek(Ident::peek_any) {
            let assigned = input.peek2(Token![=]) && !input.peek2(Token![==]) && !input.peek2(Token![=>]);
            if assigned {
                let key = input.call(Ident::parse_any)?;
                input.parse::<Token![=]>()?;
                if input.is_empty() || input.peek(Token![,]) {
                    errors.at(&key, format_args!("`{key}` has no value; write `{key} = value`"));
                    return Ok(());
                }
                return self.read_assigned(place, key, input, errors);
            }
            if input.peek2(Token![:]) && !input.peek2(Token![::]) {
                let key = input.call(Ident::parse_any)?;
                let colon: Token![:] = input.parse()?;
                errors.at(colon, format_args!("a value follows its key with `=`: `{} = value`", key.unraw()));
                input.parse::<Expr>()?;
                return Ok(());
            }
        }
        if input.peek(Lit) && place == Place::Trace && self.fields.is_empty() {
            let literal: Lit = input.parse()?;
            if input.peek(Token![=]) {
                return key_is_a_literal(&literal, input, errors);
            }
            match literal {
                Lit::Str(name) => self.set_name(place, &name, &name, errors),
                other => errors.at(other, NAME_NOT_A_STRING),
            }
            return Ok(());
        }
        if input.peek(Lit) {
            let literal: Lit = input.parse()?;
            if input.peek(Token![=]) {
                return key_is_a_literal(&literal, input, errors);
            }
            errors.at(literal, "a value needs a key: `key = value`");
            return Ok(());
        }
        self.read_short(place, Sort::Value, input, errors)
    }

    fn read_block(&mut self, place: Place, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
        let block: Group = match input.parse::<TokenTree>()? {
            TokenTree::Group(group) => group,
            other => return Err(syn::Error::new_spanned(other, "expected a block")),
        };
        match place {
            Place::Scope | Place::Step => {
                let rest: TokenStream = input.fork().parse()?;
                let last = rest.is_empty() || (input.peek(Token![,]) && rest.into_iter().count() == 1);
                if !last {
                    let form = form_with_block(place);
                    errors.at_span(
                        block.span_open(),
                        format_args!(
                            "the block comes last: {form}; a value that is a block follows its key: `key = {{ … }}`"
                        ),
                    );
                }
                self.block = Some(block);
            }
            Place::Span => {
                errors.at_span(block.span_open(), "a span takes no block; use `scope!(\"name\", key = value, { … })`");
            }
            Place::Task => {
                errors.at_span(
                    block.span_open(),
                    "a task takes no block; it describes a future: `async { … }.traced(task!(\"name\"))`",
                );
            }
            Place::Instant | Place::Counter => {
                let one = place.one();
                errors.at_span(
                    block.span_open(),
                    format_args!("{one} takes no block, since it has no length; use `scope!(\"name\", {{ … }})`"),
                );
            }
            Place::Trace => errors.at_span(block.span_open(), EXPECTED_FIELD_TRACE),
        }
        Ok(())
    }

    /// Reads the value of `key = …`, be it reserved or metadata.
    fn read_assigned(&mut self, place: Place, key: Ident, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
        let word = key.to_string();
        let in_trace = place == Place::Trace;
        match word.as_str() {
            "crate" if in_trace => {
                let fork = input.fork();
                match fork.call(Path::parse_mod_style) {
                    Ok(path) if fork.is_empty() || fork.peek(Token![,]) => {
                        self.path.set(&key, path.to_token_stream(), errors);
                        input.call(Path::parse_mod_style)?;
                    }
                    _ => {
                        let other: Expr = input.parse()?;
                        errors.at(other, "`crate` takes the path of the zprof crate: `crate = ::zprof`");
                    }
                }
                return Ok(());
            }
            "crate" => {
                input.parse::<Expr>()?;
                errors.at(
                    &key,
                    "`crate` is an argument of `#[zprof::trace]` only; a macro is found by its path: \
                     `path::scope!(…)`",
                );
                return Ok(());
            }
            _ => {}
        }
        let sort = read_sort(input)?;
        if sort.is_some() && (input.is_empty() || input.peek(Token![,])) {
            errors.at(&key, format_args!("`{key}` has no value; write `{key} = value`"));
            return Ok(());
        }
        let value: Expr = input.parse()?;
        if refused(place, &word, &key, errors) {
            return Ok(());
        }
        if sort.is_some() && is_reserved(&word, place) {
            errors.at(
                &key,
                format_args!("`{word}` is reserved, and takes no text; `r#{word} = …` records a key called `{word}`"),
            );
            return Ok(());
        }
        match word.as_str() {
            "level" => match level(&value) {
                Some(level) => self.level.set(&key, level, errors),
                None => errors.at(
                    &value,
                    format_args!(
                        "unknown level `{}`; it is `critical`, `info` or `verbose` (`r#level = …` records a key \
                         called `level`)",
                        one_line(&value, 40)
                    ),
                ),
            },
            "filter" => match filter(&value) {
                Some(bit) => self.filter.set(&key, bit, errors),
                None => errors.at(
                    &value,
                    "`filter` takes the number of a bit, a literal from 0 to 31 (`r#filter = …` records a key called \
                     `filter`)",
                ),
            },
            "root" => match literal(&value) {
                Ok(lit) if !matches!(lit, Lit::Bool(_)) => {
                    errors.at(&value, "`root` takes a bool: `root = true` (`r#root = …` records a key called `root`)")
                }
                _ => self.root.set(&key, value, errors),
            },
            "sends" => self.sends.set(&key, value, errors),
            "receives" => self.receives.set(&key, value, errors),
            "name" if in_trace => match literal(&value) {
                Ok(Lit::Str(name)) => self.set_name(place, &key, &name, errors),
                _ => errors.at(
                    &value,
                    "`name` takes a string literal: `name = \"…\"` (`r#name = …` records a key called `name`)",
                ),
            },
            "skip" | "ret" | "err" if in_trace => errors.at(
                &key,
                format_args!("`{word}` takes no value; write `{word}` (`r#{word} = …` records a key called `{word}`)"),
            ),
            "self" | "Self" | "super" | "_" => {
                errors.at(&key, format_args!("`{word}` cannot be a key; give the value a name: `key = …`"));
            }
            _ => {
                let sort = sort.unwrap_or(Sort::Value);
                self.fields.push(Field::of(sort, key.unraw().to_string(), key, value));
            }
        }
        Ok(())
    }

    /// Reads `key` or `self.key`, behind `%` or `?` where `sort` says so.
    fn read_short(&mut self, place: Place, sort: Sort, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
        let expected =
            if place == Place::Trace { EXPECTED_FIELD_TRACE } else { "expected `key = value`, `key` or `self.key`" };
        if !input.peek(Ident::peek_any) {
            let next: TokenTree = input.parse()?;
            if matches!(&next, TokenTree::Punct(punct) if punct.as_char() == '#') {
                errors.at(next, "a key cannot hold `#`, which ends the name in a label; remove it");
                skip_to_comma(input)?;
                return Ok(());
            }
            return Err(syn::Error::new_spanned(next, expected));
        }
        let fork = input.fork();
        let ident = fork.call(Ident::parse_any)?;
        if fork.peek(Token![#]) {
            let sharp: Token![#] = fork.parse()?;
            errors.at(sharp, "a key cannot hold `#`, which ends the name in a label; remove it");
            return skip_to_comma(input);
        }
        let alone = fork.is_empty() || fork.peek(Token![,]) || !fork.peek(Token![.]) && ends_word(&fork);
        let word = ident.to_string();
        if alone {
            input.call(Ident::parse_any)?;
            if sort != Sort::Value && syn::parse2::<Ident>(quote!(#ident)).is_ok() {
                // What follows is a variable of any name: no reserved argument looks like this.
                let value = variable(&ident);
                self.fields.push(Field::of(sort, ident.unraw().to_string(), ident, value));
                return Ok(());
            }
            match word.as_str() {
                "level" => {
                    errors.at(
                        &ident,
                        "`level` is reserved: write `level = critical`, `info` or `verbose`, or `r#level` to record \
                         the variable",
                    );
                }
                "filter" => {
                    errors.at(&ident, "`filter` is reserved: write `filter = 3`, or `r#filter` to record the variable");
                }
                "root" => {
                    errors.at(&ident, "`root` is reserved: write `root = true`, or `r#root` to record the variable");
                }
                "sends" | "receives" => {
                    errors.at(
                        &ident,
                        format_args!(
                            "`{word}` is reserved: write `{word} = flow`, or `r#{word}` to record the variable"
                        ),
                    );
                }
                "name" if place == Place::Trace => {
                    errors.at(&ident, "`name` is reserved: write `name = \"…\"`, or `r#name` to record the variable");
                }
                "skip" if place == Place::Trace => self.skip.set(&ident, ident.clone(), errors),
                "ret" if place == Place::Trace => self.ret.set(&ident, ident.clone(), errors),
                "err" if place == Place::Trace => self.err.set(&ident, ident.clone(), errors),
                LAST if place == Place::Trace => self.is_last = true,
                _ if syn::parse2::<Ident>(quote!(#ident)).is_err() => {
                    if input.peek(syn::token::Brace) {
                        input.parse::<TokenTree>()?;
                        errors.at(&ident, format_args!("the block is a plain one: `{{ {word} {{ … }} }}`"));
                    } else {
                        errors.at(&ident, format_args!("`{word}` is no variable; write `key = value`"));
                    }
                }
                _ => {
                    let value = variable(&ident);
                    self.fields.push(Field::of(sort, ident.unraw().to_string(), ident, value));
                }
            }
            return Ok(());
        }
        let value: Expr = input.parse()?;
        match &value {
            Expr::Field(field) => match (&*field.base, &field.member) {
                (Expr::Path(base), syn::Member::Named(key)) if base.path.is_ident("self") => {
                    self.fields.push(Field::of(sort, key.unraw().to_string(), key.clone(), value));
                }
                (_, syn::Member::Named(key)) => {
                    errors
                        .at(&value, format_args!("a value needs a key: `{} = {}`", key.unraw(), one_line(&value, 40)));
                }
                (_, syn::Member::Unnamed(_)) => {
                    errors.at(&value, format_args!("a value needs a key: `key = {}`", one_line(&value, 40)));
                }
            },
            _ => errors.at(&value, format_args!("a value needs a key: `key = {}`", one_line(&value, 40))),
        }
        Ok(())
    }
}

/// Reads the `%` or `?` in front of a value that is recorded as text.
fn read_sort(input: ParseStream) -> syn::Result<Option<Sort>> {
    Ok(if input.peek(Token![%]) {
        input.parse::<Token![%]>()?;
        Some(Sort::Display)
    } else if input.peek(Token![?]) {
        input.parse::<Token![?]>()?;
        Some(Sort::Debug)
    } else {
        None
    })
}

/// Whether `word = …` is no metadata there.
fn is_reserved(word: &str, place: Place) -> bool {
    let own = ["name", "skip", "ret", "err"];
    ["level", "filter", "root", "sends", "receives"].contains(&word) || place == Place::Trace && own.contains(&word)
}

/// The word by which the attribute marks itself when it moves behind all others.
pub(crate) const LAST: &str = "__zprof_last";
const NAME_NOT_A_STRING: &str = "a name is a string literal: `\"…\"`";
const EXPECTED_FIELD_TRACE: &str = "expected `\"name\"`, `key = value`, `key` or `self.key`";

/// Whether each scope may have a name of its own there. What has one name is one counter, so a counter's is known.
fn takes_given_name(place: Place) -> bool {
    matches!(place, Place::Scope | Place::Span | Place::Step | Place::Instant | Place::Task)
}

fn missing_comma(place: Place) -> &'static str {
    match place {
        Place::Step => "missing `,` before the block: `step!(\"name\", n, { … })`",
        _ => "missing `,` before the block: `scope!(\"name\", key = value, { … })`",
    }
}

fn form_with_block(place: Place) -> &'static str {
    match place {
        Place::Step => "`step!(\"name\", n, { … })`",
        _ => "`scope!(\"name\", key = value, { … })`",
    }
}

fn level(value: &Expr) -> Option<Level> {
    let Expr::Path(path) = value else { return None };
    let ident = path.path.get_ident()?;
    [("critical", Level::Critical), ("info", Level::Info), ("verbose", Level::Verbose)]
        .into_iter()
        .find_map(|(word, level)| (ident == word).then_some(level))
}

fn filter(value: &Expr) -> Option<u32> {
    match literal(value) {
        Ok(Lit::Int(bit)) => bit.base10_parse().ok().filter(|bit| *bit < 32),
        _ => None,
    }
}

fn variable(ident: &Ident) -> Expr {
    Expr::Path(syn::ExprPath { attrs: Vec::new(), qself: None, path: ident.clone().into() })
}

/// Whether what follows an identifier cannot go on as an expression, so that it stands alone and a comma is missing.
fn ends_word(input: ParseStream) -> bool {
    input.peek(Ident::peek_any) || input.peek(Lit) || input.peek(syn::token::Brace)
}

fn key_is_a_literal(literal: &Lit, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
    let (text, sharp) = match literal {
        Lit::Str(text) => (text.value(), text.value().contains('#')),
        _ => (String::from("key"), false),
    };
    if sharp {
        errors
            .at(literal, "a key cannot hold `#`, which ends the name in a label, and is an identifier: `key = value`");
    } else if syn::parse_str::<Ident>(&text).is_ok() {
        errors.at(literal, format_args!("a key is an identifier: `{text} = value`"));
    } else {
        errors.at(literal, "a key is an identifier: `key = value`");
    }
    input.parse::<Token![=]>()?;
    input.parse::<Expr>()?;
    Ok(())
}

fn skip_to_comma(input: ParseStream) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

/// Where `key = value { … }` was written: syn sees a struct literal and complains inside the block.
fn block_without_comma(place: Place, tokens: &TokenStream) -> Option<Span> {
    if !matches!(place, Place::Scope | Place::Step) {
        return None;
    }
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    match tokens.as_slice() {
        [.., TokenTree::Ident(_), TokenTree::Group(group)] if group.delimiter() == Delimiter::Brace => {
            Some(group.span_open())
        }
        _ => None,
    }
}

/// The first place of a token tree: a group is shown by its opening bracket, not by all that it holds.
pub(crate) fn open_span(token: &TokenTree) -> Span {
    match token {
        TokenTree::Group(group) if group.delimiter() != Delimiter::None => group.span_open(),
        other => other.span(),
    }
}
