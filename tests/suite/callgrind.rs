//! Instructions of a scope, counted by valgrind's callgrind: exact, and the same on every machine that has this compiler.

use std::path::Path;
use std::process::Command;

use crate::actor::optimised;

/// Instructions that the whole program executes.
fn instructions(program: &Path, folder: &Path, shape: &str, count: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .arg("hot")
        .arg(folder)
        .args([shape, &count.to_string()])
        .output()
        .expect("valgrind is installed");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "valgrind ended with {}\n{text}", output.status);
    let (_, count) = text.rsplit_once("Collected : ").unwrap_or_else(|| panic!("valgrind counted nothing:\n{text}"));
    let count = count.lines().next().unwrap_or_default().trim();
    count.parse().unwrap_or_else(|_| panic!("no number: {count}"))
}

/// Instructions of one scope, begin and end and the loop around it: what the second half of twice as many adds.
fn of_one_scope(shape: &str) -> f64 {
    const COUNT: u64 = 50_000;
    let (program, folder) = (optimised(), tempfile::tempdir().expect("a temporary folder can be made"));
    let [once, twice] = [COUNT, 2 * COUNT].map(|count| instructions(&program, folder.path(), shape, count));
    let (added, count) = (u32::try_from(twice - once).expect("a few millions"), u32::try_from(COUNT).expect("small"));
    f64::from(added) / f64::from(count)
}

#[test]
fn instructions_of_a_scope_are_few() {
    // Ten per cent above what was measured.
    for (shape, most) in [("off", 13.2), ("none", 61.7), ("ints", 65.1), ("text", 100.3)] {
        let measured = of_one_scope(shape);
        println!("{shape}: {measured:.1} instructions");
        assert!(measured <= most, "a scope of shape `{shape}` takes {measured:.1} instructions; {most} are allowed");
    }
}
