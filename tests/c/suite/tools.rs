//! Scopes of C reach live tools.

use std::process::Command;

use zprof_tests::annotations::tool::{Attach, watch};

use crate::build::{C99, Linked, program};

#[test]
fn scopes_and_instants_of_c_are_ranges_and_marks() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = program(C99, "threads.c", Linked::Shared, &[], folder.path());
    let seen = watch(Command::new(program).arg(folder.path()), Attach { nvtx: true, roctx: None });
    assert_eq!(seen.count("nvtx", "push"), seen.count("nvtx", "pop"));
    let mut trees: Vec<String> = seen.threads("nvtx", Some("TSL")).iter().map(|thread| thread.tree()).collect();
    trees.sort();
    let tree = |index: u32| {
        let minus = if index == 0 { "" } else { "-" };
        let (half, first) = (f64::from(index) / 2.0, u8::from(index == 0));
        let mut tree = format!(
            "work#index={minus}{index},large=18446744073709551615,half={half},name=worker {index},first={first}#\n"
        );
        for round in 0..3 {
            tree += &format!("  round#_r=1,step_num={round}#\n    innermost#round={round},cut=abc#\n");
        }
        tree
    };
    let mut expected: Vec<String> = (0..4).map(tree).collect();
    expected.sort();
    assert_eq!(trees, expected);
    let mut marks: Vec<_> = seen.of("nvtx", "mark").filter_map(|call| call.label.as_deref()).collect();
    marks.sort_unstable();
    let mut expected = vec!["tick"; 12];
    expected.extend(["tock#odd=0#"; 8]);
    expected.extend(["tock#odd=1#"; 4]);
    assert_eq!(marks, expected);
}
