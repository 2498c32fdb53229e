//! The block form: its value, and every way out of it.

#![deny(warnings)]

fn question_mark(text: &str) -> Result<u32, std::num::ParseIntError> {
    let number: u32 = zprof::scope!("parse", length = text.len(), { text.parse()? });
    Ok(number + 1)
}

fn returns(n: u32) -> u32 {
    zprof::scope!("maybe", n, {
        if n > 2 {
            return 100;
        }
    });
    n
}

fn labels() -> (u32, u32) {
    let mut rounds = 0;
    let found = 'outer: loop {
        for n in 0..10 {
            rounds += 1;
            zprof::scope!("round", n, {
                if n == 1 {
                    continue;
                }
                if n == 3 {
                    break 'outer n;
                }
            });
        }
    };
    (found, rounds)
}

fn tail(items: &mut Vec<u32>) -> &mut u32 {
    zprof::scope!("tail", {
        items.push(1);
        items.last_mut().expect("just pushed")
    })
}

fn argument(n: u32) -> u32 {
    u32::max(zprof::scope!("left", { n + 1 }), zprof::scope!("right", level = info, { 3 },))
        + zprof::scope!("sum", { 1 })
}

fn nested() -> u32 {
    zprof::scope!(
        "outer",
        {
            #![allow(unused_variables)]
            const ADDEND: u32 = 2;
            let unused = 1;
            zprof::scope! { "inner", a = ADDEND, { ADDEND + zprof::scope!("innermost", value = { 3 }, { 4 }) } }
        }
    )
}

fn never(n: u32) -> u32 {
    zprof::scope!("never", {
        if n > 0 {
            return n;
        }
        panic!("zero")
    })
}

fn unit() {
    zprof::scope!("empty", {});
    zprof::scope! { "braces" }
    zprof::scope!("brackets");
    zprof::scope!["brackets"];
    let _moved = zprof::scope!("moves", {
        let mut text = String::from("a");
        text.push('b');
        text
    });
}

fn method() -> usize {
    zprof::scope!("method", { "text" }).len()
}

fn main() {
    assert_eq!((question_mark("1"), question_mark("x").is_err()), (Ok(2), true));
    assert_eq!((returns(1), returns(3)), (1, 100));
    assert_eq!(labels(), (3, 4));
    let mut items = vec![];
    *tail(&mut items) += 1;
    assert_eq!(items, [2]);
    assert_eq!(argument(5), 7);
    assert_eq!(nested(), 6);
    assert_eq!(never(4), 4);
    assert_eq!(method(), 4);
    unit();
}
