//! Finds out what stands behind `#[trace]`, and hands it to the file that expands it.
//!
//! The item is re-emitted token by token as it was given; of a function that is not `async`, only the body's bracket is
//! opened.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;

use crate::args::{Args, Place};
use crate::errors::Errors;
use crate::function::{Function, Kind, kind};
use crate::read::LAST;
use crate::tokens::{attributes, group, is_punct, word};
use crate::{block, body, check, expand, futures, held, outcome};

/// `#[trace(args)] item`. On a mistake the item comes back unchanged behind the messages.
pub(crate) fn trace(given: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::read(Place::Trace, given.clone(), &mut errors);
    check::check(&args, &mut errors);
    let expanded = match args.skip.get() {
        Some(_) => None,
        None => expanded(&args, given, &item, &mut errors),
    };
    match (errors.into_tokens(), expanded) {
        (None, Some(expanded)) => expanded,
        (errors, _) => quote!(#errors #item),
    }
}

fn expanded(args: &Args, given: TokenStream, item: &TokenStream, errors: &mut Errors) -> Option<TokenStream> {
    let tokens = flatten(item.clone());
    match kind(&tokens) {
        Kind::Block { at } => {
            check::block(args, &tokens[at].to_string(), errors);
            block::trace(args, tokens, at, errors)
        }
        Kind::Function { is_const: Some(at), .. } => {
            errors.at(
                &tokens[at],
                "`#[zprof::trace]` cannot record a `const fn`: the compiler may run it, and it has no clock; remove \
                 `const` or the attribute",
            );
            None
        }
        Kind::Function { at, is_async, is_const: None } => function(args, given, tokens, at, is_async, errors),
        Kind::Other => {
            let at = tokens.iter().find(|token| matches!(token, TokenTree::Ident(word) if word != "pub"));
            let at = at.cloned().unwrap_or_else(|| TokenTree::Ident(Ident::new("item", Span::call_site())));
            errors.at(
                at,
                "`#[zprof::trace]` goes on a function with a body, or on an `impl`, `trait` or `mod` that holds some",
            );
            None
        }
    }
}

fn function(
    args: &Args,
    given: TokenStream,
    tokens: Vec<TokenTree>,
    at: usize,
    is_async: Option<usize>,
    errors: &mut Errors,
) -> Option<TokenStream> {
    let Some(name) = tokens.get(at + 1).and_then(word).cloned() else {
        errors.at(&tokens[at], "`#[zprof::trace]` finds no name behind this `fn`");
        return None;
    };
    let path = args.path.get().cloned().unwrap_or_else(|| quote!(::zprof));
    if is_async.is_some() && !args.is_last && has_others(&tokens) {
        return Some(moved_behind(&path, &given, tokens));
    }
    let Some(function) = Function::cut(tokens, at) else {
        errors.at(
            &name,
            format_args!("`#[zprof::trace]` needs a body and `{name}` has none; put it on the implementation"),
        );
        return None;
    };
    let label = args.name.get().map_or_else(|| name.unraw().to_string(), syn::LitStr::value);
    held::check_bindings(function.body.stream(), errors);
    let future = futures::block_of(is_async.is_some(), &function.body);
    if let Some(block) = &future {
        held::check(block, errors);
        check::future(args, errors);
    }
    if is_async.is_some() || future.is_none() {
        outcome::check(args, &function, errors);
    }
    if let Some(asyncness) = is_async {
        return Some(futures::async_fn(&path, &label, args, function, asyncness));
    }
    if let Some(function) = futures::tail(&path, &label, args, &function) {
        return Some(function);
    }
    let guard = expand::guard(&expand::opening(&path, &label, args));
    if args.ret.get().is_some() || args.err.get().is_some() {
        let (head, body) = (function.head.iter(), outcome::body(&path, args, &function, &guard));
        let told = outcome::looked_at(&path, args, &function);
        return Some(futures::with_the_written(quote!(#(#head)* #body), &function, &quote!(#guard #told)));
    }
    let body = body::with_guard(&function.body, &guard);
    let head = function.head;
    Some(quote!(#(#head)* #body))
}

/// Whether there are attributes that may want to see an `async fn`, such as `#[tokio::main]`.
fn has_others(item: &[TokenTree]) -> bool {
    let attributes = &item[..attributes(item)];
    attributes.iter().filter_map(|token| group(token, Delimiter::Bracket)).any(|inside| {
        let first = inside.stream().into_iter().next();
        !first.as_ref().and_then(word).is_some_and(|first| INERT.iter().any(|inert| first == inert))
    })
}

/// Built-in attributes that expand to nothing.
const INERT: [&str; 17] = [
    "allow",
    "cfg",
    "clippy",
    "cold",
    "deny",
    "deprecated",
    "doc",
    "expect",
    "export_name",
    "forbid",
    "inline",
    "link_section",
    "must_use",
    "no_mangle",
    "rustfmt",
    "unsafe",
    "warn",
];

/// The function with this attribute behind all others, which expand before it.
fn moved_behind(path: &TokenStream, given: &TokenStream, mut tokens: Vec<TokenTree>) -> TokenStream {
    let rest = tokens.split_off(attributes(&tokens));
    let last = Ident::new(LAST, Span::call_site());
    // Arguments may end in a comma.
    let mut given: Vec<TokenTree> = given.clone().into_iter().collect();
    if given.last().is_some_and(|last| is_punct(last, ',')) {
        given.pop();
    }
    let comma = (!given.is_empty()).then(|| quote!(,));
    let place = Span::call_site();
    quote_spanned!(place=> #(#tokens)* #[#path::trace(#(#given)* #comma #last)] #(#rest)*)
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
        for item in ["const fn f() {}", "async fn f();", "fn f();", "struct S;", "mod m;", "fn", ""] {
            let output = traced("", item);
            assert!(output.starts_with(":: core :: compile_error !"), "{output}");
            assert!(output.ends_with(&tokens(item)), "{output}");
        }
        assert!(traced("n = ", "fn f(n: u32) { n }").ends_with(&tokens("fn f(n: u32) { n }")));
    }

    /// The item that is recorded, without its body and the condition.
    fn head(output: &str) -> String {
        let output = &output[..output.rfind("# [cfg (any (clippy , doc))]").expect("a second expansion")];
        let start = tokens("#[cfg(not(any(clippy, doc)))]").len();
        let end = output.rfind("{ :: zprof :: __private :: polled").expect("a wrapped body");
        output[start..end].trim().to_owned()
    }

    #[test]
    fn an_async_fn_becomes_what_the_compiler_makes_of_it() {
        let output = traced(
            "",
            "#[inline] pub(crate) async safe fn f<'a, T: Into<[u8; { 1 }]>>(&'a self, mut n: HashMap<T, u8>, (a, b): \
             a::P, #[cfg(x)] _: fn(u8) -> u8) -> Result<impl Fn(u8) -> T, T> where T: X { n }",
        );
        let expected = "#[inline] pub(crate) safe fn f<'a, T: Into<[u8; { 1 }]>>(&'a self, n: HashMap<T, u8>, \
                        __zprof_argument_2: a::P, #[cfg(x)] __zprof_argument_3: fn(u8) -> u8,) -> impl \
                        ::zprof::__private::core::future::Future<Output = Result<impl Fn(u8) -> T, T> > where T: X";
        assert_eq!(tokens(&head(&output).replace("self , n", "self, n")), tokens(expected));
        let bindings = "let mut n = n; let __zprof_argument_2 = __zprof_argument_2; let (a, b) = __zprof_argument_2; \
                        #[cfg(x)] let __zprof_argument_3 = __zprof_argument_3;";
        assert!(output.contains(&format!("async move {{ {}", tokens(bindings))), "{output}");
        assert!(output.contains(":: never :: < Result < _ , T > > ()"), "{output}");
    }

    #[test]
    fn a_scope_that_is_bound_as_it_cannot_be_is_found() {
        let ends_at_once = "this span ends at once";
        let no_expression = "`scope!` is a statement";
        let cases = [
            ("let _ = span!(\"a\");", ends_at_once),
            ("if x { let _: zprof::Span = zprof::span!(dyn name, n); }", ends_at_once),
            ("run(|| { let _ = span!(\"a\"); });", ends_at_once),
            ("let guard = scope!(\"a\");", no_expression),
            ("let _ = zprof::scope!(\"a\", n = { 1 });", no_expression),
        ];
        for (body, message) in cases {
            for item in [format!("fn f() {{ {body} }}"), format!("async fn f() {{ {body} }}")] {
                assert!(traced("", &item).contains(message), "{item}");
            }
        }
        let fine = [
            "let _span = span!(\"a\");",
            "let _ = span!(\"a\").end();",
            "let _ = tracing::span!(LEVEL, \"a\");",
            "let y = scope!(\"a\", { 1 });",
            "fn inner() { let _ = span!(\"a\"); }",
            "let x = 1; scope!(\"a\");",
        ];
        for body in fine {
            assert!(!traced("", &format!("fn f() {{ {body} }}")).contains("compile_error"), "{body}");
        }
    }

    #[test]
    fn an_async_fn_keeps_its_signature_where_rustc_must_see_it() {
        let kept = [
            "#[must_use] async fn f() -> u8 { 1 }",
            "#[must_use = \"why\"] pub async fn f() -> u8 { 1 }",
            "#[expect(async_fn_in_trait)] async fn f() {}",
            "async fn f(k: impl Into<K<'_>>) {}",
            "async fn f(k: impl IntoIterator<Item = &u32>) {}",
            "async fn f(k: Vec<impl Into<(u8, [&u8; 2])>>) {}",
            "async fn f(x: u8, k: &mut impl Into<Box<dyn Fn(&str) -> &str + '_>>) {}",
            "async fn f(k: &str) -> &str { k }",
            "async fn f<'a>(k: K<'a>) -> Option<(u8, K<'a>)> { k }",
        ];
        for item in kept {
            let output = traced("", item);
            let name = item.find("f(").or(item.find("f<")).expect("a name");
            let start = tokens(&format!("#[cfg(not(any(clippy, doc)))] {}", &item[..name]));
            assert_eq!(output.get(..start.len()), Some(start.as_str()), "{item}");
            assert!(output.contains(") . await"), "{output}");
        }
        let rewritten = [
            "async fn f(k: &str, l: K<'_>, m: impl for<'a> Tr<'a>) {}",
            "async fn f(k: impl Fn(&str) -> &str + Send, l: impl Into<fn(&u8) -> &u8>) {}",
            "async fn f(k: Vec<impl Fn(&str)>, l: &str) {}",
            "async fn f(k: impl Into<&'static str>, l: &'static str) {}",
        ];
        for item in rewritten {
            let output = traced("", item);
            assert!(output.starts_with(&tokens("#[cfg(not(any(clippy, doc)))] fn f")), "{output}");
        }
    }

    #[test]
    fn attributes_of_a_parameter_go_where_their_lints_are_found() {
        let output = traced(
            "",
            "async fn f(#[expect(unused_mut, clippy::ptr_arg, reason = \"r\")] #[cfg(a)] #[cfg_attr(b, \
             expect(unused_variables), allow(x))] mut n: u8) {}",
        );
        let parameter = "(#[expect(clippy::ptr_arg, reason = \"r\")] #[cfg(a)] #[cfg_attr(b, allow(x))] n: u8,)";
        assert!(output.contains(&tokens(parameter)), "{output}");
        let binding = "#[expect(unused_mut, reason = \"r\")] #[cfg(a)] #[cfg_attr(b, expect(unused_variables), \
                       allow(x))] let mut n = n;";
        assert!(output.contains(&tokens(binding)), "{output}");
    }

    #[test]
    fn a_block_hands_the_attribute_on() {
        let cases = [
            ("", "impl<T: Tr<{ N }>> a::Cache<T> { }", "impl<T: Tr<{ N }>> a::Cache<T> { }"),
            (
                "level = info",
                "impl Tr<u8> for &mut a::Cache<T> where T: X { const A: S = S { a: 1 }; fn f() -> A<{ 1 }> { 1 } type B = u8; }",
                "impl Tr<u8> for &mut a::Cache<T> where T: X { const A: S = S { a: 1 }; #[::zprof::trace(name = \
                 \"&mut Cache::f\", level = info, crate = ::zprof)] fn f() -> A<{ 1 }> { 1 } type B = u8; }",
            ),
            (
                "filter = 3, crate = other",
                "mod m { #![x] fn f(); const fn g() {} #[trace(n,)] fn h() {} #[trace(skip)] fn i() {} impl A { } m! { fn }}",
                "mod m { #![x] fn f(); const fn g() {} #[other::trace(n, filter = 3, crate = other)] fn h() {} fn i() {} \
                 #[other::trace(filter = 3, crate = other)] impl A { } m! { fn }}",
            ),
            (
                "\"kv\"",
                "mod m { impl A for B { } m!(fn a() {}); fn r#type() {} #[cfg_attr(x, zprof::trace)] fn c() {} mod d; }",
                "mod m { #[::zprof::trace(name = \"kv::B\", crate = ::zprof)] impl A for B { } m!(fn a() {}); \
                 #[::zprof::trace(name = \"kv::type\", crate = ::zprof)] fn r#type() {} #[cfg_attr(x, zprof::trace)] fn c() {} \
                 mod d; }",
            ),
            (
                "",
                "trait T: for<'a> F<&'a u8> { fn f(); #[fastrace::trace] fn g() {} }",
                "trait T: for<'a> F<&'a u8> { fn f(); #[fastrace::trace] #[::zprof::trace(name = \"T::g\", crate = \
                 ::zprof)] fn g() {} }",
            ),
            (
                "",
                "default impl<'a> T for dyn Fn(&'a u8) -> u8 { async fn f(x: impl Fn() -> A<B>) {} }",
                "default impl<'a> T for dyn Fn(&'a u8) -> u8 { #[::zprof::trace(name = \"dyn Fn(&'a u8)->u8::f\", crate = \
                 ::zprof)] async fn f(x: impl Fn() -> A<B>) {} }",
            ),
        ];
        for (args, item, expected) in cases {
            assert_eq!(traced(args, item), tokens(expected), "{item}");
        }
    }

    #[test]
    fn a_block_at_the_end_is_wrapped_where_it_stands() {
        let wrapped = [
            "fn f() -> F { g(); async move { 1 } }",
            "fn f() -> F { async { 1 }.boxed() }",
            "fn f() -> F { if x {} async { 1 } }",
            "fn f() -> F { ::std::boxed::Box::pin(async move { 1 }) }",
            "fn f() -> F { g(); return async move { 1 } }",
        ];
        for item in wrapped {
            let output = traced("n", item);
            assert!(output.contains("__private :: polled (") && !output.contains("__zprof_guard"), "{output}");
        }
        let not = [
            "fn f() -> F { let x = async { 1 }; x }",
            "fn f() -> F { g(async { 1 }) }",
            "fn f() -> F { Box::new(async { 1 }) }",
            "fn f() -> F { Box::pin(g(async { 1 })) }",
            "fn f() { spawn(async { 1 }); }",
        ];
        for item in not {
            assert!(traced("", item).contains("__zprof_guard"), "{item}");
        }
    }

    #[test]
    fn a_scope_before_an_await_of_its_block_is_found() {
        let held = [
            "scope!(\"a\"); x.await",
            "if y { zprof::scope!(\"a\", b = { 1 }); loop { f(x.await?); } }",
            "let z = { scope!(\"a\"); async { 1 }.await };",
        ];
        for body in held {
            let output = traced("", &format!("async fn f() {{ {body} }}"));
            assert!(output.contains("cannot be held across"), "{body}");
        }
        for body in ["scope!(\"a\", { x.await })", "let y = zprof::step!(\"a\", n, { f(async { 1 }); x.await + 1 });"] {
            let output = traced("", &format!("async fn f() {{ {body} }}"));
            assert!(output.contains("the block of a scope cannot hold an `.await`"), "{body}");
        }
        let spans = [
            "let span = span!(\"a\"); x.await; span.end()",
            "let mut s = zprof::span!(dyn name); s.record(\"n\", 1); if y { x.await; }",
            "let _span = span!(\"a\"); x.await",
        ];
        for body in spans {
            let output = traced("", &format!("async fn f() {{ {body} }}"));
            assert!(output.contains("a span cannot be held across"), "{body}");
        }
        let fine = [
            "scope!(\"a\"); x()",
            "{ scope!(\"a\"); } x.await",
            "scope!(\"a\", b, { y }); x.await",
            "x.await; scope!(\"a\")",
            "scope!(\"a\"); spawn(async { x.await })",
            "scope!(\"a\"); async fn g() { x.await }",
            "spawn(async { scope!(\"a\"); }); x.await",
            "let s = span!(\"a\"); s.end(); x.await",
            "let s = span!(\"a\"); drop(s); x.await",
            "let s = span!(\"a\"); if y { give(s); } x.await",
            "{ let s = span!(\"a\"); } x.await",
            "let s = tracing::span!(LEVEL, \"a\"); x.await",
            "let y = scope!(\"a\", { async { x.await } }); y.await",
        ];
        for body in fine {
            assert!(!traced("", &format!("async fn f() {{ {body} }}")).contains("compile_error"), "{body}");
        }
        let future = "fn f() -> F { Box::pin(async move { scope!(\"a\"); x.await }) }";
        assert!(traced("", future).contains("cannot be held across"));
    }
}
