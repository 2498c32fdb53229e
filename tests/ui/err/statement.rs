//! The statement form where a value is expected: the macro's name is the advice.

fn tail() {
    zprof::scope!("tail")
}

fn main() {
    let held = zprof::scope!("held");
    match 1 {
        1 => zprof::scope!("arm"),
        _ => tail(),
    }
}
