//! `derive(Value)`: an enum without fields is recorded by its variant's name.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, Path, Variant};

use crate::errors::Errors;

/// Expands the derive. On a mistake the implementation is there all the same, so that one mistake is one message.
pub(crate) fn value(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::default();
    let path = crate_path(&input, &mut errors);
    let variants: Vec<&Variant> = match &input.data {
        Data::Enum(data) => data.variants.iter().collect(),
        Data::Struct(data) => {
            errors.at(data.struct_token, NOT_AN_ENUM);
            Vec::new()
        }
        Data::Union(data) => {
            errors.at(data.union_token, NOT_AN_ENUM);
            Vec::new()
        }
    };
    for variant in &variants {
        if !variant.fields.is_empty() {
            errors.at(
                &variant.ident,
                format_args!(
                    "variant `{}` has fields, and a metadata value is one word; record the fields under keys of \
                     their own",
                    variant.ident
                ),
            );
        }
    }
    let errors = errors.into_tokens();
    let arms = if errors.is_some() { Vec::new() } else { variants };
    let implementation = implementation(&input, &path, &arms, errors.is_some());
    quote!(#errors #implementation)
}

const NOT_AN_ENUM: &str = "`Value` is derived for an enum without fields; record each field under a key of its own";

fn implementation(input: &DeriveInput, path: &TokenStream, variants: &[&Variant], failed: bool) -> TokenStream {
    let here = Span::mixed_site();
    let ident = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let names = variants.iter().map(|variant| variant.ident.unraw().to_string());
    let arms = variants.iter().enumerate().map(|(index, variant)| {
        let name = &variant.ident;
        let rest = match variant.fields {
            Fields::Unit => TokenStream::new(),
            Fields::Unnamed(_) => quote!(()),
            Fields::Named(_) => quote!({}),
        };
        quote_spanned!(here=> Self::#name #rest => #index,)
    });
    let index = match (failed, variants.is_empty()) {
        (true, _) => quote!(0),
        (false, true) => quote_spanned!(here=> match *self {}),
        (false, false) => quote_spanned!(here=> match self { #(#arms)* }),
    };
    quote_spanned! {here=>
        #[automatically_derived]
        #[allow(deprecated)]
        impl #generics #path::__private::Variants for #ident #arguments #bounds {
            const NAMES: &'static [&'static #path::__private::core::primitive::str] = &[#(#names),*];
            fn index(&self) -> #path::__private::core::primitive::usize { #index }
        }
        #[automatically_derived]
        #[allow(deprecated)]
        impl #generics #path::Value for #ident #arguments #bounds {
            type Raw<'__zprof> = #path::__private::Variant<#ident #arguments>;
            fn raw(&self) -> <Self as #path::Value>::Raw<'_> {
                #path::__private::Variant::of(self)
            }
        }
    }
}

/// `#[zprof(crate = path)]`, or `::zprof`.
fn crate_path(input: &DeriveInput, errors: &mut Errors) -> TokenStream {
    let mut found: Option<Path> = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("zprof")) {
        let read = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown argument; `#[zprof(crate = ::zprof)]` is the only one"));
            }
            if found.is_some() {
                return Err(meta.error("`crate` is given twice; remove one"));
            }
            found = Some(meta.value()?.call(Path::parse_mod_style)?);
            Ok(())
        });
        if let Err(error) = read {
            errors.add(error);
        }
    }
    found.map_or_else(|| quote!(::zprof), ToTokens::into_token_stream)
}
