//! Collects every mistake, so that one build shows them all, each at its own tokens.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Errors {
    all: Option<syn::Error>,
}

impl Errors {
    /// Adds a mistake that shows at `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// Adds a mistake that shows at `span`.
    pub(crate) fn at_span(&mut self, span: Span, message: impl std::fmt::Display) {
        self.add(syn::Error::new(span, message));
    }

    /// Adds what syn said.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.all {
            Some(all) => all.combine(error),
            None => self.all = Some(error),
        }
    }

    /// The messages as tokens for rustc to print; `None` where nothing was wrong.
    pub(crate) fn into_tokens(self) -> Option<TokenStream> {
        self.all.map(|all| all.to_compile_error())
    }
}
