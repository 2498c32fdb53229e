//! More values than a scope takes.

fn main() {
    let (a, b, c, d, e, f, g, h) = (0, 0, 0, 0, 0, 0, 0, 0);
    let (i, j, k, l, m, n, o, p, q) = (0, 0, 0, 0, 0, 0, 0, 0, 0);
    zprof::scope!("a", a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q);
    zprof::scope!("a", root = true, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
}
