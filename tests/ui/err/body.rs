//! Mistakes in a traced body are shown where they are, as without the attribute.

#[zprof::trace]
fn missing_value() -> u32 {
    5;
}

#[zprof::trace(n)]
fn wrong_type(n: u32) -> u32 {
    String::from("text")
}

#[zprof::trace(unknown = unknown)]
fn unknown_name() {}

fn main() {
    let _: u32 = zprof::scope!("block", { "text" });
}
