//! What is peculiar to `step!`, `instant!` and `counter!`: a number behind the name, and events without length.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Expr, Token, parse_quote};

use crate::args::{Args, Field, Place, Sort};
use crate::check::{self, ONE_ARROW};
use crate::errors::Errors;
use crate::expand::{metadata, read, site};
use crate::read::open_span;

/// `instant!`: a statement, or an expression of type `()`.
pub(crate) fn instant(input: TokenStream) -> TokenStream {
    without_length(
        Place::Instant,
        input,
        |values| quote_spanned!(Span::mixed_site()=> __zprof::mark_at(__ZprofSite, __zprof_word, (#(#values,)*))),
    )
}

/// `counter!`: likewise.
pub(crate) fn counter(input: TokenStream) -> TokenStream {
    without_length(
        Place::Counter,
        input,
        |values| quote_spanned!(Span::mixed_site()=> __zprof::count_at(__ZprofSite, __zprof_word, #(#values)*)),
    )
}

fn without_length(place: Place, input: TokenStream, call: impl FnOnce(&[TokenStream]) -> TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let (path, args) = read(place, input, &mut errors);
    check::check(&args, &mut errors);
    if let Some(errors) = errors.into_tokens() {
        return quote!({ #errors });
    }
    let name = args.site_name();
    let (keys, values) = metadata(&args);
    let site = site(&path, &name, &args, &keys);
    let call = call(&values);
    quote_spanned! {Span::mixed_site()=>
        '__zprof: {
            #site
            let __zprof_word = __zprof::word_at::<__ZprofSite>();
            let true = __zprof::hears::<__ZprofSite>(__zprof_word) else { break '__zprof };
            #call
        }
    }
}

impl Args {
    /// Reads what follows the name of a step or a counter, and the comma behind it.
    pub(crate) fn read_number(&mut self, place: Place, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
        let missing = match place {
            Place::Step => "a step has its number behind its name: `step!(\"name\", n)`",
            _ => "a counter has its value behind its name: `counter!(\"name\", value)`",
        };
        if place == Place::Step {
            self.root.set(Ident::new("root", input.span()), parse_quote!(true), errors);
        }
        if input.is_empty() {
            match (self.name.get(), &self.given_name) {
                (Some(name), _) => errors.at(name, missing),
                (None, Some(name)) => errors.at(name, missing),
                (None, None) => {}
            }
            return Ok(());
        }
        let next: TokenTree = input.fork().parse()?;
        let assigns = input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]);
        let is_reserved = ["crate", "filter", "level", "receives", "root", "sends"].iter().any(|word| is(&next, word));
        let is_block = place == Place::Step && input.peek(syn::token::Brace);
        if is_block || input.peek(Token![,]) || assigns && (place == Place::Step || is_reserved) {
            errors.at_span(open_span(&next), missing);
            if input.peek(Token![,]) {
                input.parse::<Token![,]>()?;
            }
            return Ok(());
        }
        let here = next.span();
        let (key, ident, sort) = if assigns {
            let ident = input.call(Ident::parse_any)?;
            input.parse::<Token![=]>()?;
            (ident.unraw().to_string(), ident, Sort::Sample)
        } else {
            let (key, sort) = if place == Place::Step { ("step_num", Sort::Step) } else { ("value", Sort::Sample) };
            (key.to_owned(), Ident::new(key, here), sort)
        };
        let value: Expr = input.parse()?;
        self.fields.push(Field { key, ident, value, sort });
        if input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
        } else if !input.is_empty() {
            let next: TokenTree = input.fork().parse()?;
            let message = if input.peek(syn::token::Brace) {
                "missing `,` before the block: `step!(\"name\", n, { … })`"
            } else {
                "missing `,` before this"
            };
            errors.at_span(open_span(&next), message);
        }
        Ok(())
    }
}

const ONE_VALUE: &str =
    "a counter has one value; more go to counters of their own, or into `instant!(\"name\", key = value)`";

/// What stands behind the value of a counter, without a value of its own.
pub(crate) fn one_value(args: &Args, errors: &mut Errors) {
    for field in args.fields.iter().filter(|field| field.sort != Sort::Sample) {
        errors.at(&field.ident, ONE_VALUE);
    }
}

fn is(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// Whether `key = …` says what cannot be said in this place; the mistake is noted.
pub(crate) fn refused(place: Place, word: &str, key: &Ident, errors: &mut Errors) -> bool {
    let message = match (place, word) {
        (Place::Step, "root") => "a step is a root; remove this (`r#root = …` records a key called `root`)".to_owned(),
        (Place::Instant, "root") => {
            "an instant cannot be a root, since nothing is inside it; use `step!(\"name\", n)` (`r#root = …` records a \
             key called `root`)"
                .to_owned()
        }
        (Place::Task, "sends" | "receives") => {
            format!("`{word}` cannot stand on a future, {ONE_ARROW}: `instant!(\"name\", {word} = …)`")
        }
        (Place::Counter, "level" | "filter") => return false,
        (Place::Counter, _) => ONE_VALUE.to_owned(),
        _ => return false,
    };
    errors.at(key, message);
    true
}
