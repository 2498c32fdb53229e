//! Shapes of bodies: recursion, items inside, shadowed names, functions that macros make.

mod shadowed {
    //! The prelude's names mean something else here.
    pub(super) struct Option(pub(super) u32);
    pub(super) struct Result;
    pub(super) struct Box;
    pub(super) struct Some;
    pub(super) struct Ok;

    #[zprof::trace(n, m = n + 1)]
    pub(super) fn function(n: u32) -> (Option, Result, Box, Some, Ok) {
        zprof::scope!("inside", n);
        (Option(n), Result, Box, Some, Ok)
    }
}

#[zprof::trace(n)]
fn recursive(n: u64) -> u64 {
    if n < 2 { n } else { recursive(n - 1) + recursive(n - 2) }
}

#[zprof::trace]
fn nested(n: u32) -> u32 {
    const ADDEND: u32 = 1;
    #[zprof::trace(n)]
    fn inner(n: u32) -> u32 {
        n + ADDEND
    }
    struct Here;
    impl Here {
        const WORD: u32 = 2;
    }
    inner(n) + Here::WORD
}

struct Here {
    depth: u32,
}

impl Here {
    const SITE: u32 = 4;

    #[zprof::trace(site = Self::SITE, depth = Self { depth: 5 }.depth, own = self.depth)]
    fn names(&self) -> u32 {
        zprof::scope!("names", depth = Self { depth: 6 }.depth);
        self.depth + Self::SITE
    }
}

macro_rules! traced {
    ($(#[$attribute:meta])* $vis:vis fn $name:ident($argument:ident: $type:ty) -> $output:ty $body:block) => {
        $(#[$attribute])*
        #[zprof::trace($argument)]
        $vis fn $name($argument: $type) -> $output $body
    };
    (named $label:literal, $key:ident = $value:expr; $item:item) => {
        #[zprof::trace($label, $key = $value, crate = ::zprof)]
        $item
    };
}

traced! {
    /// Documented.
    fn from_a_macro(n: u32) -> u32 { n + 1 }
}

traced! {
    pub(super) fn public_from_a_macro(n: u32) -> u32 {
        let twice = n * 2;
        twice + n
    }
}

traced! { named "macro.item", size = 1 + 2; fn whole_item(n: u32) -> u32 { n + 3 } }

/// Clippy counts branches: those of an expansion are not the user's.
#[zprof::trace]
fn many_scopes(n: u32) -> u32 {
    zprof::scope!("a", n);
    zprof::scope!("b", n);
    zprof::scope!("c", n);
    zprof::scope!("d", n);
    zprof::scope!("e", n);
    zprof::scope!("f", n);
    zprof::scope!("g", n);
    zprof::scope!("h", n);
    zprof::scope!("i", n);
    zprof::scope!("j", n);
    zprof::scope!("k", n);
    zprof::scope!("l", n);
    zprof::scope!("m", n);
    zprof::scope!("n", n);
    zprof::scope!("o", n);
    zprof::scope!("p", n);
    zprof::scope!("q", n);
    zprof::scope!("r", n);
    zprof::scope!("s", n);
    zprof::scope!("t", n);
    zprof::scope!("u", n);
    zprof::scope!("v", n);
    zprof::scope!("w", n);
    zprof::scope!("x", n);
    zprof::scope!("y", n);
    zprof::scope!("z", n);
    n
}

#[test]
fn bodies_do_what_they_did() {
    assert_eq!(shadowed::function(3).0.0, 3);
    assert_eq!(recursive(10), 55);
    assert_eq!(nested(1), 4);
    assert_eq!(Here { depth: 1 }.names(), 5);
    assert_eq!((from_a_macro(1), public_from_a_macro(2), whole_item(1)), (2, 6, 4));
    assert_eq!(many_scopes(1), 1);
}
