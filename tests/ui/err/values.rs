//! Literal values that hold `#`.

fn main() {
    zprof::scope!("a", text = "x#y", letter = '#');
    zprof::scope!("a", text = "x#y", { 1 });
    let _ = zprof::span!("a", text = r#"x#y"#);
}

#[zprof::trace(text = "x#y")]
fn traced() {}
