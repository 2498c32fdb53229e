//! temp
#[derive(zprof::Value)]
enum Mode { Greedy, Sample }
#[zprof::trace(n)]
fn fib(n: u64) -> u64 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
fn main() {
    let platform = zprof::Platform::host();
    let mut p = platform.profiler(zprof::ProfilerOptions::default().repository_path("/tmp/zp").prefault_bytes(1<<20)).unwrap();
    let outer = zprof::span!("before");
    p.start().unwrap();
    drop(outer);
    { zprof::scope!("step", root = true, step_num = 3, mode = Mode::Greedy, s = "hé\"llo", f = 1.5, big = u64::MAX, none = None::<i32>); 
      let _ = Mode::Sample;
      println!("{}", fib(12)); }
    std::thread::Builder::new().name("worker-with-a-long-name".into()).spawn(|| { zprof::scope!("in thread"); let x = zprof::scope!("b", k = 1, { 42 }); assert_eq!(x, 42); }).unwrap().join().unwrap();
    let leak = zprof::span!("leaked"); { zprof::scope!("enclosing"); std::mem::forget(zprof::span!("leaky")); }
    let open = zprof::span!("open at stop");
    let r = p.stop().unwrap().unwrap();
    drop(open); drop(leak);
    println!("{r:#?}");
}
