//! Tests a program by what it records: exact times on a clock that the test moves, and a tree to compare.

use std::time::Duration;

use zprof::testing::{Clock, record};

struct Cache<'a> {
    keys: Vec<u32>,
    clock: &'a Clock,
}

impl Cache<'_> {
    /// What the program does; the clock stands for work that takes time.
    #[zprof::trace(key, ret)]
    fn get(&mut self, key: u32) -> bool {
        let is_known = self.keys.contains(&key);
        if is_known {
            zprof::instant!("hit", key);
        } else {
            self.load(key);
        }
        zprof::counter!("cached", self.keys.len());
        is_known
    }

    #[zprof::trace]
    fn load(&mut self, key: u32) {
        self.clock.advance(Duration::from_millis(5));
        self.keys.push(key);
    }
}

fn main() -> zprof::Result<()> {
    let recorded = record(|clock| {
        let mut cache = Cache { keys: Vec::new(), clock };
        assert!(!cache.get(7) && cache.get(7));
    })?;
    println!("{}", recorded.tree());
    assert_eq!(
        recorded.tree(),
        "get key=7 return=0 5ms\n  load 5ms\nget key=7 return=1\n  hit key=7 @5ms\n\
         counters\n  cached value=1 @5ms\n  cached value=1 @5ms"
    );
    let loads = recorded.scopes().filter(|scope| scope.name == "load");
    assert_eq!(loads.map(|load| load.duration).sum::<Duration>(), Duration::from_millis(5));
    Ok(())
}
