//! Finds the function behind `#[trace]` and puts the guard first in its body.
//!
//! The item is re-emitted token by token as it was given; only the body's bracket is opened. Nothing of the signature
//! is parsed or printed anew, so no part of it can be lost, syntax newer than this crate passes, and a body that is
//! being typed stays as it is.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;

use crate::args::{Args, Place};
use crate::errors::Errors;
use crate::expand;
use crate::{body, check};

/// `#[trace(args)] item`. On a mistake the item comes back unchanged behind the messages.
pub(crate) fn trace(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::read(Place::Trace, args, &mut errors);
    check::check(&args, &mut errors);
    let function = Function::find(&item, &mut errors);
    match (errors.into_tokens(), function) {
        (None, Some(function)) => function.with_guard(&args),
        (errors, _) => quote!(#errors #item),
    }
}

/// A function that can be traced, cut where its body begins.
struct Function {
    name: Ident,
    /// Everything before the body.
    head: Vec<TokenTree>,
    body: Group,
}

impl Function {
    fn find(item: &TokenStream, errors: &mut Errors) -> Option<Self> {
        let mut head = flatten(item.clone());
        let (name, is_async) = match signature(&head) {
            Ok(found) => found,
            Err((at, message)) => {
                errors.at(at, message);
                return None;
            }
        };
        if let Some(at) = is_async {
            errors.at(
                at,
                "`#[zprof::trace]` on an `async fn` is not available in this version; put \
                 `zprof::scope!(\"name\", { … })` around the parts that do not await",
            );
            return None;
        }
        match head.pop() {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => Some(Self { name, head, body }),
            _ => {
                errors.at(
                    &name,
                    format_args!("`#[zprof::trace]` needs a body and `{name}` has none; put it on the implementation"),
                );
                None
            }
        }
    }

    fn with_guard(self, args: &Args) -> TokenStream {
        let Self { name, head, body } = self;
        let path = args.path.get().cloned().unwrap_or_else(|| quote!(::zprof));
        let label = args.name.get().map_or_else(|| name.unraw().to_string(), syn::LitStr::value);
        let guard = expand::guard(&expand::opening(&path, &label, args));
        let mut tokens = TokenStream::from_iter(head);
        body::with_guard(&body, &guard).to_tokens(&mut tokens);
        tokens
    }
}

/// Opens the invisible groups that macro fragments (`$vis`, `$body:block`, `$item`) come in, where they stand at the
/// top of the item; types and expressions, which need theirs, are left alone.
fn flatten(item: TokenStream) -> Vec<TokenTree> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    while let [TokenTree::Group(group)] = tokens.as_slice() {
        if group.delimiter() != Delimiter::None {
            break;
        }
        tokens = group.stream().into_iter().collect();
    }
    if let Some(TokenTree::Group(body)) = tokens.last_mut() {
        *body = body::visible(body);
    }
    tokens
}

/// The function's identifier, and its `async` where it has one; else a message and where it belongs.
fn signature(item: &[TokenTree]) -> Result<(Ident, Option<Ident>), (TokenTree, String)> {
    let mut is_async = None;
    let mut is_const = None;
    let mut tokens = item.iter().peekable();
    while let Some(token) = tokens.next() {
        let TokenTree::Ident(word) = token else {
            // Attributes, `pub(…)`, a `$vis` fragment and the name of an ABI stand before `fn`.
            continue;
        };
        match word.to_string().as_str() {
            "pub" | "unsafe" | "safe" | "default" | "extern" => {}
            "const" => is_const = Some(word.clone()),
            "async" => is_async = Some(word.clone()),
            "fn" => {
                if let Some(at) = is_const {
                    let message = "`#[zprof::trace]` cannot record a `const fn`: the compiler may run it, and it has no \
                                   clock; remove `const` or the attribute";
                    return Err((at.into(), message.to_owned()));
                }
                return match tokens.next() {
                    Some(TokenTree::Ident(name)) => Ok((name.clone(), is_async)),
                    _ => Err((token.clone(), String::from("`#[zprof::trace]` finds no name behind this `fn`"))),
                };
            }
            "impl" | "mod" | "trait" => {
                let message = format!(
                    "`#[zprof::trace]` on a whole `{word}` is not available in this version; put it on each function"
                );
                return Err((token.clone(), message));
            }
            _ => break,
        }
    }
    let at = item.iter().find(|token| matches!(token, TokenTree::Ident(word) if word != "pub"));
    let at = at.cloned().unwrap_or_else(|| TokenTree::Ident(Ident::new("item", Span::call_site())));
    Err((at, String::from("`#[zprof::trace]` goes on a function with a body")))
}

#[cfg(test)]
mod tests {
    use super::trace;

    fn traced(args: &str, item: &str) -> String {
        trace(args.parse().expect("tokens"), item.parse().expect("tokens")).to_string()
    }

    /// The item without the guard: what the macro did to the rest.
    fn without_guard(output: &str) -> String {
        let start = output.find("let __zprof_guard").expect("a guard");
        let body = &output[start..];
        let mut depth = 0;
        let end = body.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            *c == ';' && depth == 0
        });
        let end = end.expect("the guard's end").0 + 1;
        format!("{}{}", &output[..start], body[end..].trim_start())
    }

    fn tokens(text: &str) -> String {
        text.parse::<proc_macro2::TokenStream>().expect("tokens").to_string()
    }

    #[test]
    fn an_item_comes_back_token_by_token() {
        let items = [
            "fn f() {}",
            "#[inline] /// doc\n pub(in crate::a) safe extern \"C\" fn f<'a, T: ?Sized, const N: usize>(a: &'a [T; {N}], ...) \
             -> impl Sized + use<'a, T> where T: Tr<{ N }>, { #![allow(x)] g() }",
            "fn half_typed(&self) { let x = self. }",
            "fn items() { use a::b; const C: u32 = 1; #[test] fn inner() {} struct D; C + 1 }",
            "default fn f(&self) -> [u8; { 1 + 2 }] { [0; 3] }",
        ];
        for item in items {
            assert_eq!(without_guard(&traced("", item)), tokens(item));
        }
    }

    #[test]
    fn a_guard_stands_behind_what_must_be_first() {
        let output = traced("", "fn f() { #![allow(x)] use a::b; const C: u32 = 1; fn inner() {} C + 1; struct D; }");
        let place = |text: &str| output.find(&tokens(text)).unwrap_or_else(|| panic!("no {text} in {output}"));
        assert!(place("fn inner() {}") < place("let __zprof_guard"));
        assert!(place("let __zprof_guard") < place("C + 1;"));
        let output = traced("", "fn f() { const { 1 }; g() }");
        assert!(output.find("let __zprof_guard") < output.find("const {"), "{output}");
    }

    #[test]
    fn a_mistake_leaves_the_item_behind_the_message() {
        for item in ["const fn f() {}", "async fn f() {}", "fn f();", "struct S;", "impl S { fn f() {} }", "fn", ""] {
            let output = traced("", item);
            assert!(output.starts_with(":: core :: compile_error !"), "{output}");
            assert!(output.ends_with(&tokens(item)), "{output}");
        }
        for item in
            ["pub async fn f() {}", "pub(crate) async safe extern \"C\" fn f() {}", "#[a] async fn f<T>(self) {}"]
        {
            assert!(traced("", item).contains("on an `async fn` is not available"), "{item}");
        }
        assert!(traced("n = ", "fn f(n: u32) { n }").ends_with(&tokens("fn f(n: u32) { n }")));
    }
}
