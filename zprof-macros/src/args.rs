//! The arguments of `#[trace]` and of the macros: a name, reserved arguments, metadata, a block.
//!
//! Every argument keeps the tokens it was written with, so that a later complaint can point at them.

use proc_macro2::{Group, Ident, TokenStream};
use quote::ToTokens;
use syn::{Expr, Lit, LitStr};

use crate::errors::Errors;

/// Which macro the arguments stand in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// `#[zprof::trace(…)]`
    Trace,
    /// `zprof::scope!(…)`
    Scope,
    /// `zprof::span!(…)`
    Span,
    /// `zprof::task!(…)`
    Task,
    /// `zprof::step!(…)`
    Step,
    /// `zprof::instant!(…)`
    Instant,
    /// `zprof::counter!(…)`
    Counter,
}

impl Place {
    /// The macro's name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Scope => "scope",
            Self::Span => "span",
            Self::Task => "task",
            Self::Step => "step",
            Self::Instant => "instant",
            Self::Counter => "counter",
        }
    }

    /// The macro's name with its article.
    pub(crate) fn one(self) -> String {
        format!("{} {}", if self == Self::Instant { "an" } else { "a" }, self.word())
    }
}

/// A value that may be given once.
pub(crate) struct Once<T> {
    word: &'static str,
    value: Option<T>,
}

impl<T> Once<T> {
    pub(crate) const fn new(word: &'static str) -> Self {
        Self { word, value: None }
    }

    /// Takes the value; a second one is a mistake at `at`.
    pub(crate) fn set(&mut self, at: impl ToTokens, value: T, errors: &mut Errors) {
        if self.value.is_some() {
            errors.at(at, format_args!("`{}` is given twice; remove one", self.word));
        } else {
            self.value = Some(value);
        }
    }

    /// The value, where one was given.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }
}

/// Detail levels, as they are written.
#[derive(Clone, Copy)]
pub(crate) enum Level {
    Critical,
    Info,
    Verbose,
}

impl Level {
    /// The level as it is written in arguments.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Info => "info",
            Self::Verbose => "verbose",
        }
    }
}

/// What the type of a value must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Metadata.
    Value,
    /// `%value`: the text that it displays.
    Display,
    /// `?value`: the text by which it is debugged.
    Debug,
    /// The number of a step.
    Step,
    /// A sample of a counter.
    Sample,
}

/// One piece of metadata.
pub(crate) struct Field {
    /// The key, without `r#`.
    pub(crate) key: String,
    /// The key as written.
    pub(crate) ident: Ident,
    /// The expression that gives the value.
    pub(crate) value: Expr,
    pub(crate) sort: Sort,
}

impl Field {
    pub(crate) fn of(sort: Sort, key: String, ident: Ident, value: Expr) -> Self {
        Self { key, ident, value, sort }
    }
}

/// All arguments of one macro call.
pub(crate) struct Args {
    pub(crate) name: Once<LitStr>,
    /// The expression behind `dyn`, which gives the name when the scope opens.
    pub(crate) given_name: Option<Expr>,
    pub(crate) level: Once<Level>,
    pub(crate) filter: Once<u32>,
    pub(crate) root: Once<Expr>,
    /// The flow that begins here.
    pub(crate) sends: Once<Expr>,
    /// The flow that ends here.
    pub(crate) receives: Once<Expr>,
    /// Path of the zprof crate.
    pub(crate) path: Once<TokenStream>,
    /// The word `skip`: nothing of this is recorded.
    pub(crate) skip: Once<Ident>,
    /// The word `ret`: the returned value is recorded.
    pub(crate) ret: Once<Ident>,
    /// The word `err`: a returned error is recorded.
    pub(crate) err: Once<Ident>,
    /// The attribute stands behind all others of its function; see `item`.
    pub(crate) is_last: bool,
    pub(crate) fields: Vec<Field>,
    /// The block of `scope!("name", { … })`.
    pub(crate) block: Option<Group>,
}

impl Args {
    /// What the site is called: its name, or what gives each scope its own.
    pub(crate) fn site_name(&self) -> String {
        match (self.name.get(), &self.given_name) {
            (Some(name), _) => name.value(),
            (None, Some(name)) => one_line(name, 80).replace('#', "_"),
            (None, None) => String::new(),
        }
    }

    /// The reserved arguments that are recorded like metadata, by their names.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (&'static str, &Expr)> {
        [("root", &self.root), ("sends", &self.sends), ("receives", &self.receives)]
            .into_iter()
            .filter_map(|(word, value)| Some((word, value.get()?)))
    }
}

/// The literal that an expression is, also behind the invisible group that a macro fragment comes in.
pub(crate) fn literal(value: &Expr) -> Result<Lit, &Expr> {
    match value {
        Expr::Lit(lit) if lit.attrs.is_empty() => Ok(lit.lit.clone()),
        Expr::Group(group) => literal(&group.expr),
        other => Err(other),
    }
}

/// An expression as it was written, more or less; what has more than `most` characters is left out.
pub(crate) fn one_line(value: &Expr, most: usize) -> String {
    let text = value
        .to_token_stream()
        .to_string()
        .replace(" . ", ".")
        .replace(" :: ", "::")
        .replace(" (", "(")
        .replace(" [", "[");
    if text.chars().count() > most { String::from("…") } else { text }
}
