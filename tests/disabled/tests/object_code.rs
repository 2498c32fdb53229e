//! Without `enable`, marks compile to nothing: the object code is that of the program without them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};
use zprof::TraceFuture as _;

/// What the linker would put in: where, and what. Its target is named if it is a function, since other data is not.
type Patch = (u64, i64, Option<String>);

/// A function's code, and what refers to others in it.
#[derive(Debug, PartialEq)]
struct Code {
    bytes: Vec<u8>,
    patches: Vec<Patch>,
}

/// Compiles the example `twin`, with marks or without, and returns its object file.
fn compiled(marked: bool) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("twin");
    let object = folder.join(if marked { "marked.o" } else { "plain.o" });
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["rustc", "--quiet", "--release", "--example", "twin"]);
    cargo.arg("--target-dir").arg(&folder).args(["--", "-Ccodegen-units=1", "-Cdebuginfo=0"]);
    cargo.arg(format!("--emit=obj={}", object.display()));
    if marked {
        cargo.args(["--cfg", "zprof_marked"]);
    }
    let output = cargo.output().expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(object).expect("cargo has made it")
}

/// The functions of an object file, by the path that they have in the source.
fn functions(content: &[u8]) -> BTreeMap<String, Code> {
    let file = object::File::parse(content).expect("an object file");
    let path = |name: &str| format!("{:#}", rustc_demangle::demangle(name));
    let mut functions = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition()) {
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok()).expect("a section");
        let (start, end) = (symbol.address(), symbol.address() + symbol.size());
        let bytes = section.data_range(start, end - start).expect("is read").expect("lies in its section").to_vec();
        let patches = section.relocations().filter(|(at, _)| (start..end).contains(at)).map(|(at, patch)| {
            let target = match patch.target() {
                RelocationTarget::Symbol(index) => file.symbol_by_index(index).ok(),
                _ => None,
            };
            let name = target.and_then(|target| target.name().ok().map(path)).filter(|name| name.contains("::"));
            (at - start, patch.addend(), name)
        });
        let code = Code { bytes, patches: patches.collect() };
        functions.insert(path(symbol.name().expect("a name")), code);
    }
    functions
}

fn holds(content: &[u8], text: &str) -> bool {
    content.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn the_object_code_is_that_of_a_program_without_marks() {
    let (plain, marked) = (compiled(false), compiled(true));
    assert!(holds(&plain, "twins: ") && holds(&marked, "twins: "), "a text is found where there is one");
    let (plain, marked_functions) = (functions(&plain), functions(&marked));
    for name in ["twin::function", "twin::body", "twin::asynchronous", "twin::main"] {
        let code = plain.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", plain.keys()));
        assert!(code.bytes.len() > 4, "{name} is more than a return");
    }
    assert_eq!(marked_functions.keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>());
    for (name, code) in &plain {
        assert_eq!(&marked_functions[name], code, "{name}");
    }
    for text in ["marked.", "zprof"] {
        assert!(!holds(&marked, text), "`{text}` stands in the object file");
    }
}

#[test]
fn types_take_no_room() {
    assert_eq!((size_of::<zprof::Span>(), size_of::<zprof::Task>()), (0, 0));
    let plain = |n: u64| async move { n };
    let (bare, traced) = (plain(1), plain(1).traced(zprof::task!("task", n = 1)));
    assert_eq!(size_of_val(&traced), size_of_val(&bare));
}
