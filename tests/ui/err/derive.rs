//! `derive(Value)` on what is no enum without fields.

#[derive(zprof::Value)]
enum Shape {
    Empty,
    Circle(f32),
    Square { side: f32 },
}

#[derive(zprof::Value)]
struct Point {
    x: i32,
}

#[derive(zprof::Value)]
union Bits {
    a: u32,
}

#[derive(zprof::Value)]
#[zprof(rename = "x")]
enum Renamed {
    A,
}

#[derive(zprof::Value)]
#[zprof(crate = zprof, crate = zprof)]
enum Twice {
    A,
}

fn main() {
    let shape = Shape::Empty;
    zprof::scope!("one mistake is one message", shape);
}
