//! A scope that the attribute sees before an await of the same block: refused wherever the future goes.

#[zprof::trace]
async fn held() {
    zprof::scope!("whole", n = 1);
    std::future::ready(1).await;
}

#[zprof::trace]
async fn in_a_block(n: u32) -> u32 {
    if n > 1 {
        zprof::scope!("inner");
        return std::future::ready(n).await;
    }
    zprof::scope!("after the last await");
    n
}

#[zprof::trace]
fn boxed() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async {
        zprof::scope!("boxed");
        std::future::ready(()).await;
    })
}

fn main() {}

#[zprof::trace]
async fn step(n: u32) {
    zprof::step!("step", n);
    std::future::ready(()).await;
}
