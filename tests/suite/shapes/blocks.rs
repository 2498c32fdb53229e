//! Shapes of whole blocks: `impl`, `trait` and `mod` with the attribute, and what stands in them.

#![allow(clippy::missing_const_for_fn, clippy::unused_self, reason = "what stands in a block is the point")]

struct Wrap<const N: usize>;

struct Cache<T, const N: usize> {
    items: [T; N],
}

#[zprof::trace(level = info)]
impl<T: Copy + PartialOrd, const N: usize> Cache<T, N> {
    const SIZE: usize = N;

    const fn constant(&self) -> usize {
        Self::SIZE
    }

    fn largest(&self) -> Option<T> {
        self.items.iter().copied().reduce(|a, b| if a < b { b } else { a })
    }

    #[zprof::trace(skip)]
    fn skipped(&self) -> usize {
        N
    }

    #[zprof::trace("cache.named", n = N)]
    fn named(&mut self) -> &mut [T; N] {
        &mut self.items
    }

    #[zprof::trace(size = Self::SIZE,)]
    fn own_fields(self) -> [T; N] {
        self.items
    }

    #[allow(clippy::future_not_send, reason = "it is as its type")]
    async fn later(&self) -> usize {
        self.items.len()
    }

    /// Documented, inlined.
    #[inline]
    #[must_use]
    fn array() -> [u8; 3]
    where
        Wrap<{ 1 + 2 }>: Sized,
    {
        [0; 3]
    }
}

#[zprof::trace]
trait Shape {
    type Unit;
    const SIDES: u32;

    fn area(&self) -> u32;

    fn twice(&self) -> u32 {
        self.area() * 2
    }
}

#[zprof::trace]
impl<T, const N: usize> Shape for Cache<T, N> {
    type Unit = u8;
    const SIDES: u32 = 4;

    fn area(&self) -> u32 {
        Self::SIDES + u32::try_from(self.items.len()).unwrap_or(u32::MAX)
    }
}

#[zprof::trace]
mod inner {
    //! A module may have docs, and everything else.
    #![allow(clippy::use_self, reason = "an inner attribute stays")]
    use std::fmt::Debug;

    pub(super) struct Unit;
    pub(super) struct Tuple(pub(super) u32);
    pub(super) enum Kind {
        A = 3,
    }
    static ONE: u32 = Tuple(1).0;
    type Word = u32;

    macro_rules! made {
        ($name:ident) => {
            fn $name() -> u32 {
                3
            }
        };
    }
    made! { by_macro }

    const fn constant(n: u32) -> u32 {
        n
    }

    pub(super) fn function(n: Word) -> u32 {
        constant(n) + ONE + by_macro()
    }

    #[zprof::trace("inner.named", n)]
    pub(super) fn named(n: u32) -> u32 {
        n
    }

    #[zprof::trace(skip)]
    pub(super) fn skipped<T: Debug>(value: &T) -> String {
        format!("{value:?}")
    }

    impl Tuple {
        pub(super) fn method(&self) -> u32 {
            self.0
        }
    }

    #[zprof::trace(skip)]
    impl Unit {
        pub(super) fn method(&self) -> u32 {
            1
        }
    }

    impl From<Kind> for Tuple {
        fn from(kind: Kind) -> Self {
            Self(kind as u32)
        }
    }

    pub(super) mod deeper {
        pub(in super::super) fn function() -> u32 {
            2
        }
    }
}

#[test]
fn what_stands_in_blocks_does_what_it_did() {
    let mut cache = Cache { items: [1, 3, 2] };
    assert_eq!((cache.constant(), cache.skipped(), cache.largest()), (3, 3, Some(3)));
    cache.named()[0] = 9;
    assert_eq!((cache.area(), cache.twice()), (7, 14));
    assert_eq!(Cache::<u8, 3>::array(), [0; 3]);
    drop(cache.later());
    assert_eq!(cache.own_fields(), [9, 3, 2]);
    assert_eq!((inner::function(1), inner::named(2), inner::skipped(&3)), (5, 2, String::from("3")));
    assert_eq!((inner::Tuple(4).method(), inner::Unit.method()), (4, 1));
    assert_eq!(inner::Tuple::from(inner::Kind::A).method(), 3);
    assert_eq!(inner::deeper::function(), 2);
}
