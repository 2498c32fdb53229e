//! Sites that are made while the program runs, each with the shapes that its scopes have had.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::value::{Args, Slice, Values};
use crate::site::{Level, Memo, Origin, Site};
use crate::value::{Kind, Shape, TAGGED, is_plain};
use crate::warn::warn;

/// Most keys of a site.
pub const MOST_KEYS: usize = 32;
/// Most sites of a program; each takes a few hundred bytes for good.
pub const MOST_SITES: usize = 1 << 16;
/// Shapes of a site before its values bring their kinds along.
const MOST_SHAPES: usize = 16;

/// What a site is made of. Texts that are no literals are kept for good.
#[derive(Clone, Debug)]
pub struct Description<'a> {
    /// Name of its scopes.
    pub name: Cow<'static, str>,
    /// Keys of their values; those past the first [`MOST_KEYS`] are left out.
    pub keys: &'a [Cow<'static, str>],
    /// How much detail they are.
    pub level: Level,
    /// Filter bits; [`NO_FILTER`](crate::__private::NO_FILTER) for none.
    pub filter: u64,
    /// Module that holds the site.
    pub module_path: Cow<'static, str>,
    /// Source file.
    pub file: Cow<'static, str>,
    /// Line in it.
    pub line: u32,
}

/// A site that was made while the program ran.
#[derive(Debug)]
pub struct RawSite {
    pub(super) site: Site,
    shapes: OnceLock<Box<Node>>,
    /// The one that was made before.
    before: AtomicPtr<RawSite>,
}

/// A shape that a site has met.
#[derive(Debug)]
struct Node {
    code: u128,
    shape: Shape,
    next: OnceLock<Box<Node>>,
}

/// Sites that were made.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// The last of all sites. Nobody walks the chain: it says, to whoever looks for memory that is lost, that none of theirs is.
static LAST: AtomicPtr<RawSite> = AtomicPtr::new(std::ptr::null_mut());

/// How many sites the program has made.
#[must_use]
pub fn sites() -> usize {
    MADE.load(Ordering::Relaxed).min(MOST_SITES)
}

#[cold]
fn warn_of_too_many() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "the program has made {MOST_SITES} sites of scopes while it ran; what comes from other places is not recorded"
        ));
    }
}

fn keep(text: Cow<'static, str>) -> &'static str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => Box::leak(text.into_boxed_str()),
    }
}

impl RawSite {
    /// Makes a site, or nothing where the program has [`MOST_SITES`] already, of which it warns once. Each call makes another one: the caller keeps
    /// what it was given, one for each place.
    #[must_use]
    pub fn make(description: Description<'_>) -> Option<&'static Self> {
        if MADE.fetch_add(1, Ordering::Relaxed) >= MOST_SITES {
            MADE.store(MOST_SITES, Ordering::Relaxed);
            warn_of_too_many();
            return None;
        }
        let Description { name, keys, level, filter, module_path, file, line } = description;
        let name = keep(name);
        let keys: Vec<&'static str> = keys.iter().take(MOST_KEYS).cloned().map(keep).collect();
        // As the macros write it: a name and the first key, behind one byte and before one.
        let clean = |text: &str| text.replace(['\0', '\n', '\r'], " ").replace('#', "_");
        let first = keys.first().map(|key| format!("#{}=", clean(key))).unwrap_or_default();
        let label = format!("{}{first}\0", clean(name));
        let site = Site {
            name,
            label: keep(label.into()),
            given: 0,
            keys: Vec::leak(keys),
            level,
            filter,
            module_path: keep(module_path),
            file: keep(file),
            line,
            memo: Memo::new(),
        };
        let made: &'static Self =
            Box::leak(Box::new(Self { site, shapes: OnceLock::new(), before: AtomicPtr::default() }));
        made.before.store(LAST.swap(std::ptr::from_ref(made).cast_mut(), Ordering::Relaxed), Ordering::Relaxed);
        Some(made)
    }

    /// What it was made of.
    #[must_use]
    pub fn site(&'static self) -> &'static Site {
        &self.site
    }

    /// How many values a slice has.
    #[inline]
    pub(super) fn count(&'static self, slice: Slice) -> usize {
        match slice {
            Slice::Alone | Slice::Own { .. } | Slice::Told { .. } => self.site.keys.len(),
            Slice::Next { .. } => 0,
            Slice::Sample => 1,
        }
    }

    /// The shape of the first `count` values, and the values as a record takes them.
    #[inline]
    pub(super) fn args<'v, V: Values + ?Sized>(
        &'static self,
        values: &'v V,
        count: usize,
        slice: Slice,
    ) -> (&'static Shape, Args<'v, V>) {
        let (mut low, mut words) = (0, 0);
        for place in 0..count.min(AT_ONCE) {
            let value = values.at(place);
            low |= u64::from(value.code()) << (3 * place);
            words += value.words();
        }
        let mut code = slice.code() | u128::from(low);
        if count > AT_ONCE {
            for place in AT_ONCE..count {
                let value = values.at(place);
                code |= u128::from(value.code()) << (3 * place);
                words += value.words();
            }
        }
        let (shape, with_kinds) = match self.shapes.get() {
            Some(first) if first.code == code => (&first.shape, false),
            _ => self.other_shape(code, count, slice),
        };
        (shape, Args { values, count, words, with_kinds, slice })
    }

    #[cold]
    fn other_shape(&'static self, code: u128, count: usize, slice: Slice) -> (&'static Shape, bool) {
        let (mut place, mut met, mut code) = (&self.shapes, 0, code);
        loop {
            match place.get() {
                Some(node) if node.code == code => return (&node.shape, code & WITH_KINDS != 0),
                Some(node) => (place, met) = (&node.next, met + 1),
                // Samples are numbers, of three kinds, and have no room for these.
                None if met >= MOST_SHAPES && code & WITH_KINDS == 0 && slice != Slice::Sample => {
                    (place, code) = (&self.shapes, slice.code() | WITH_KINDS);
                }
                None => {
                    let kinds = kinds(code, count, slice);
                    let shape = Shape { site: Origin::Made(&self.site), plain: is_plain(&kinds), kinds: kinds.into() };
                    // Another thread may have been first: then this one goes, and that one is looked at.
                    let _ = place.set(Box::new(Node { code, shape, next: OnceLock::new() }));
                }
            }
        }
    }
}

/// Values whose kinds fit one word of a shape's code.
const AT_ONCE: usize = 21;

/// Bit of a shape's code: its values bring their kinds along.
const WITH_KINDS: u128 = 1 << 100;

/// The kinds that a code stands for.
fn kinds(code: u128, count: usize, slice: Slice) -> Vec<Kind> {
    let kind = |place: usize| {
        if code & WITH_KINDS != 0 {
            return Kind::Tagged;
        }
        let tag = usize::try_from(code >> (3 * place) & 7).unwrap_or(0);
        TAGGED.get(tag).copied().unwrap_or(Kind::Flag)
    };
    let mut kinds: Vec<Kind> = (0..count).map(kind).collect();
    match slice {
        Slice::Alone | Slice::Sample => {}
        Slice::Own { .. } => kinds.push(Kind::Slice),
        Slice::Told { .. } => kinds.extend([Kind::Since, Kind::Number]),
        Slice::Next { .. } => kinds.push(Kind::Number),
    }
    kinds
}
