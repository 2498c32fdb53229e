//! `skip`, `ret` and `err` where they cannot work, and what a whole block cannot say.

use zprof::TraceFuture as _;

#[zprof::trace("name", skip)]
fn skip_and_more() {}

#[zprof::trace(ret)]
fn nothing() {}

#[zprof::trace(ret)]
fn never() -> ! {
    loop {}
}

#[zprof::trace(err)]
fn no_result() -> u32 {
    1
}

#[zprof::trace(err)]
async fn no_result_later() -> Option<u32> {
    None
}

#[zprof::trace(ret)]
fn no_value() -> Vec<u8> {
    Vec::new()
}

#[zprof::trace(ret, err)]
fn no_value_in_it(n: u8) -> Result<Vec<u8>, String> {
    Ok(vec![n])
}

#[zprof::trace(ret, ret, r#return = 1)]
fn twice() -> u32 {
    1
}

struct Model;

#[zprof::trace(self.seqlen, root = true, ret)]
impl Model {
    fn run(&self) {}
}

fn main() {
    std::future::ready(1).traced(zprof::task!());
    std::future::ready(1).traced(zprof::task!("a", { 1 }));
    std::future::ready(1).traced(zprof::task!("a", n = vec![1]));
}
