//! Marks of types that they cannot have: the message stands at the value.

fn main() {
    let text = "a";
    zprof::counter!("text", text);
    zprof::counter!("bool", 1 > 2);
    zprof::counter!("optional", bytes = Some(1));
    zprof::step!("float", 1.5, {});
    zprof::step!("text", text, {});
    zprof::instant!("value", unit = ());
    zprof::instant!("flow", sends = 7_u64, receives = text);
}
