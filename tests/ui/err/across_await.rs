//! A scope held across an await cannot be in a future that must be `Send`: the help line says why.

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(async {
        zprof::scope!("held");
        std::future::ready(1).await;
    });
}
