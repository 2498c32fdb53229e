//! Instructions of a scope, counted by valgrind's callgrind: exact, and the same on every machine that has this compiler.

use std::path::Path;
use std::process::Command;

use crate::actor::optimised;

/// Instructions that the whole program executes.
fn instructions(program: &Path, arguments: &[String]) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .output()
        .expect("valgrind is installed");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "valgrind ended with {}\n{text}", output.status);
    let (_, count) = text.rsplit_once("Collected : ").unwrap_or_else(|| panic!("valgrind counted nothing:\n{text}"));
    let count = count.lines().next().unwrap_or_default().trim();
    count.parse().unwrap_or_else(|_| panic!("no number: {count}"))
}

/// Instructions of one scope, begin and end and the loop around it.
fn of_one_scope(shape: &str) -> f64 {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = folder.path().to_str().expect("temporary folders have plain names");
    of_one_round(&optimised(), |count| ["hot", folder, shape, &count.to_string()].map(str::to_owned).to_vec())
}

/// Instructions of one round of a program's loop: what the second half of twice as many adds. `arguments` makes the program do
/// as many.
pub(crate) fn of_one_round(program: &Path, arguments: impl Fn(u64) -> Vec<String>) -> f64 {
    const COUNT: u64 = 50_000;
    let [once, twice] = [COUNT, 2 * COUNT].map(|count| instructions(program, &arguments(count)));
    let (added, count) = (u32::try_from(twice - once).expect("a few millions"), u32::try_from(COUNT).expect("small"));
    f64::from(added) / f64::from(count)
}

#[test]
fn instructions_of_a_scope_are_few() {
    // Ten per cent above what was measured. A scope while there is no session takes one instruction more than it did, since
    // the compiler clears a register in the loop and no longer before it.
    for (shape, most) in
        [("off", 14.2), ("none", 61.7), ("ints", 65.1), ("text", 100.3), ("taken", 105.7), ("left out", 89.1)]
    {
        let measured = of_one_scope(shape);
        println!("{shape}: {measured:.1} instructions");
        assert!(measured <= most, "a scope of shape `{shape}` takes {measured:.1} instructions; {most} are allowed");
    }
}
