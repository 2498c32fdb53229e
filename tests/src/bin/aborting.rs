//! A program that profiles itself if the environment asks for it, and panics: a test builds it with `-C panic=abort`.

fn main() {
    zprof::init_from_env().expect("the environment is right");
    zprof::scope!("open");
    zprof::scope!("work", {});
    println!("{}", cfg!(panic = "abort"));
    panic!("the end");
}
