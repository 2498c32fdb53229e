//! Keys: reserved, doubled, with `#`, forgotten.

struct Args {
    seqlen: usize,
    pair: (u8, u8),
}

fn main() {
    let (step, _hidden, level, name) = (1, 2, 3, 4);
    let args = Args { seqlen: 1, pair: (1, 2) };
    zprof::scope!("a", _r = 1);
    zprof::scope!("a", _hidden);
    zprof::scope!("a", _ = 1);
    zprof::scope!("a", step, step = 2, step);
    zprof::scope!("a", step #b = 1);
    zprof::scope!("a", "key" = 1);
    zprof::scope!("a", "k#y" = 1);
    zprof::scope!("a", args.seqlen);
    zprof::scope!("a", args.pair.0);
    zprof::scope!("a", step + 1);
    zprof::scope!("a", step: 1);
    zprof::scope!("a", step =);
    zprof::scope!("a", level);
    zprof::scope!("a", name, 7);
    zprof::scope!("a", self = 1);
    zprof::scope!("a", %);
    zprof::scope!("a", type);
}
