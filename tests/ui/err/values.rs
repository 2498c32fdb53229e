//! Values that hold `#`, and values that would leave the function.

fn leaving(text: &str) -> Result<u32, std::num::ParseIntError> {
    zprof::scope!("a", number = text.parse::<u32>()?);
    zprof::scope!("a", number = if text.is_empty() { return Ok(1) } else { 2 });
    loop {
        zprof::scope!("a", root = break);
    }
}

async fn waits() {
    zprof::scope!("a", number = std::future::ready(1).await);
}

fn main() {
    zprof::scope!("a", text = "x#y", letter = '#');
    zprof::scope!("a", text = "x#y", { 1 });
    let _ = zprof::span!("a", text = r#"x#y"#);
}

#[zprof::trace(text = "x#y")]
fn traced() {}
