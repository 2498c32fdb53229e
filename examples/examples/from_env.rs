//! A program that nobody profiles unless the environment asks for it.
//!
//! ```sh
//! cargo build --release -p zprof-examples --example from_env
//! target/release/examples/from_env
//! ZPROF=1 target/release/examples/from_env
//! target/release/examples/from_env --check    # runs itself both ways and looks at what is left
//! ```

use std::env;
use std::error::Error;
use std::fs;
use std::process::Command;
use std::thread;

#[zprof::trace(limit)]
fn count_primes(limit: u32) -> usize {
    (2..limit).filter(|n| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0)).count()
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Err(error) = zprof::init_from_env() {
        // Such as a folder that cannot be written. The program is as good without a profile.
        eprintln!("{error}");
    }
    if env::args().nth(1).as_deref() == Some("--check") {
        return check();
    }
    let limits = [20_000, 40_000, 60_000];
    let counts = thread::scope(|scope| {
        let threads = limits.map(|limit| scope.spawn(move || count_primes(limit)));
        threads.map(|thread| thread.join().expect("a thread ends"))
    });
    println!("{counts:?} primes");
    Ok(())
}

/// Runs this program with and without a profile.
fn check() -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("zprof-from-env-{}", std::process::id()));
    let run = |value: &str| -> Result<(), Box<dyn Error>> {
        let mut command = Command::new(env::current_exe()?);
        let output = command.env("ZPROF", value).env("ZPROF_PJRT", "off").current_dir(env::temp_dir()).output()?;
        assert_eq!(String::from_utf8(output.stdout)?, "[2262, 4203, 6057] primes\n");
        print!("ZPROF={value}: {}", String::from_utf8(output.stderr)?);
        Ok(())
    };
    run("off")?;
    println!("no profile");
    assert!(!folder.exists());
    let profile = folder.join("primes.xplane.pb");
    run(&profile.to_string_lossy())?;
    let json = fs::read_to_string(folder.join("primes.trace.json"))?;
    let calls = json.matches("\"name\":\"count_primes\"").count();
    assert_eq!(calls, 3, "one scope a thread");
    assert!(profile.metadata()?.len() > 0);
    fs::remove_dir_all(folder)?;
    Ok(())
}
