//! Inside other macros: fragments of every kind, hygiene between two expansions, code made by code.

#![deny(warnings)]

macro_rules! timed {
    ($name:literal, $($key:ident = $value:expr),* ; $body:block) => {{
        zprof::scope!($name, $($key = $value),*);
        $body
    }};
}

macro_rules! named {
    ($name:expr $(, $key:ident = $value:expr)* $(,)?) => {{
        zprof::scope!(dyn $name $(, $key = $value)*);
        let _task = zprof::task!(dyn $name $(, $key = $value)*);
        zprof::scope!(dyn $name, { zprof::instant!(dyn $name); });
    }};
}

macro_rules! timed_block {
    ($name:expr, $key:ident, { $($body:tt)* }) => {
        zprof::scope!($name, $key, { $($body)* })
    };
}

macro_rules! around {
    ($name:literal, $value:expr, $body:block) => {
        zprof::scope!($name, value = $value, $body)
    };
}

macro_rules! scope_here {
    ($name:literal) => {
        zprof::scope!($name)
    };
    ($name:literal, $($arguments:tt)*) => {
        zprof::scope!($name, $($arguments)*)
    };
}

macro_rules! functions {
    ($($vis:vis $name:ident($($argument:ident: $type:ty),*) -> $output:ty = $label:literal { $($body:tt)* })*) => {
        $(
            #[zprof::trace($label, $($argument),*)]
            $vis fn $name($($argument: $type),*) -> $output { $($body)* }
        )*
    };
}

macro_rules! wrapper {
    ($item:item) => {
        #[zprof::trace]
        $item
    };
}

macro_rules! whole_function {
    ($name:ident, $level:ident, $bit:literal, $path:path) => {
        #[zprof::trace(level = $level, filter = $bit, crate = $path)]
        fn $name() -> &'static str {
            let guard = "outer";
            zprof::scope!("inside", level = $level);
            guard
        }
    };
}

macro_rules! held {
    ($name:literal $(, $key:ident = $value:expr)*) => {
        zprof::span!($name $(, $key = $value)*)
    };
}

macro_rules! modes {
    ($name:ident { $($variant:ident),* }) => {
        #[derive(zprof::Value)]
        enum $name { $($variant),* }
    };
}

functions! {
    pub(crate) add(a: u32, b: u32) -> u32 = "add" { a + b }
    double(n: u32) -> u32 = "double" { let twice = n * 2; twice + n }
}

wrapper! {
    /// Documented.
    #[inline]
    fn wrapped<T: Into<u64>>(n: T) -> u64 {
        n.into()
    }
}

modes!(Mode { A, B });

fn main() {
    let n = 3;
    let total = timed!("timed", sum = n + 1, product = n * 2; { n * 10 });
    assert_eq!(total, 30);
    assert_eq!(timed_block!("block", n, { n + 1 }), 4);
    scope_here!("here");
    scope_here!("here", n, mode = Mode::A, other = Mode::B);
    assert_eq!(scope_here!("here", { 5 }), 5);
    named!(String::from("a name"));
    named!(concat!("a", "name"), n = n,);
    assert_eq!(around!("a block fragment", n + 1, { n * 2 }), 6);
    assert_eq!((add(1, 2), double(4), wrapped(7_u8)), (3, 12, 7));
    assert_eq!(levelled(), "outer");
    held!("held", n = n).end();
    let closure = |n: u32| zprof::scope!("in a closure", n, { n + 1 });
    assert_eq!(closure(1), 2);
}

whole_function!(levelled, info, 3, ::zprof);
