//! The header: it compiles everywhere without a word, says what Rust says, and is nothing where it is switched off.

use std::fmt::Write as _;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

use zprof_c::abi::{self, Arg, Options, Payload, Profile, Scope, Site};

use crate::build::{C99, CXX11, Linked, WARNINGS, installed, package, program, run};

/// Whether a compiler is there.
fn is_there(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Compiles `every_macro.c`; gives the symbols that the object needs.
fn needed(compiler: &[&str], language: &str, more: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let object = folder.path().join("object.o");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(WARNINGS).args(more).args(["-x", language, "-c"]);
    command.arg("-I").arg(installed().join("include")).arg("-o").arg(&object);
    run(command.arg(package().join("programs/every_macro.c")));
    let (symbols, _) = run(Command::new("nm").arg("-u").arg(&object));
    symbols.split_whitespace().filter(|word| word.starts_with("zprof")).map(str::to_owned).collect()
}

#[test]
fn every_macro_compiles_in_both_languages_without_a_warning() {
    let all = ["zprof_begin", "zprof_counter", "zprof_end", "zprof_instant", "zprof_note", "zprof_state"];
    let mut tried = 0;
    for (compiler, language, standards) in [
        ("gcc", "c", ["c99", "c17"]),
        ("clang", "c", ["c99", "c17"]),
        ("g++", "c++", ["c++11", "c++20"]),
        ("clang++", "c++", ["c++11", "c++20"]),
    ] {
        // gcc is what CI has; clang is tried where there is one.
        if !is_there(compiler) && compiler.starts_with("clang") {
            continue;
        }
        for standard in standards {
            for level in ["-O0", "-O2"] {
                let standard = format!("-std={standard}");
                let compiler = [compiler, &standard, level];
                assert_eq!(needed(&compiler, language, &[]), all, "{compiler:?}");
                assert_eq!(needed(&compiler, language, &["-DZPROF_DISABLE"]), [""; 0], "{compiler:?}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 8);
}

/// What `layout.c` prints, from Rust's side.
fn expected() -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
    macro_rules! layout {
        ($($name:literal $type:ident { $($field:ident: $of:ty),* })*) => {$(
            line(format!("{} {} {}", $name, size_of::<$type>(), align_of::<$type>()));
            $(line(format!("{}.{} {} {}", $name, stringify!($field), offset_of!($type, $field), size_of::<$of>()));)*
        )*};
    }
    type Text = *const std::ffi::c_char;
    layout! {
        "zprof_site" Site { name: Text, module: Text, file: Text, cache: Text, filter: u64, line: u32, level: u32 }
        "zprof_value" Payload { }
        "zprof_arg" Arg { key: Text, value: Payload, kind: u32, length: u32 }
        "zprof_scope" Scope { id: u64, site: Text }
        "zprof_options" Options {
            size: usize, repository_path: Text, session_id: Text, hostname: Text, plugin: Text, directives: Text,
            filter_mask: u64, max_buffer_bytes: u64, prefault_bytes: u64, keep_last_ns: u64, keep_last_bytes: u64, host_tracer_level: u32, device_tracer_level: u32,
            python_tracer_level: u32, unique_session: u8, must_have_plugin: u8, no_hlo: u8, reserved: u8
        }
        "zprof_profile" Profile {
            size: usize, protobuf_path: Text, perfetto_path: Text, warnings: Text, warning_count: usize, scopes: u64,
            threads: u64, dropped_scopes: u64, duration_ns: u64
        }
    }
    line("zprof_status 4 4".to_owned());
    let number = |text: &str| text.parse().expect("a number");
    let constants: [(&str, i64); 25] = [
        ("CRITICAL", zprof::Level::Critical as i64),
        ("INFO", zprof::Level::Info as i64),
        ("VERBOSE", zprof::Level::Verbose as i64),
        ("KIND_NONE", abi::kind::NONE.into()),
        ("KIND_BOOL", abi::kind::BOOL.into()),
        ("KIND_INT", abi::kind::INT.into()),
        ("KIND_UINT", abi::kind::UINT.into()),
        ("KIND_FLOAT", abi::kind::FLOAT.into()),
        ("KIND_TEXT", abi::kind::TEXT.into()),
        ("KIND_SENDS", abi::kind::SENDS.into()),
        ("KIND_RECEIVES", abi::kind::RECEIVES.into()),
        ("MOST_ARGS", i64::try_from(zprof_runtime::raw::MOST_KEYS).expect("it is small")),
        ("UNTIL_NUL", abi::UNTIL_NUL.into()),
        ("OK", abi::status::OK.into()),
        ("ALREADY_ACTIVE", abi::status::ALREADY_ACTIVE.into()),
        ("WRONG_STATE", abi::status::WRONG_STATE.into()),
        ("INVALID_INPUT", abi::status::INVALID_INPUT.into()),
        ("INVALID_DATA", abi::status::INVALID_DATA.into()),
        ("IO", abi::status::IO.into()),
        ("PLUGIN", abi::status::PLUGIN.into()),
        ("UNSUPPORTED", abi::status::UNSUPPORTED.into()),
        ("INTERNAL", abi::status::INTERNAL.into()),
        ("VERSION_MAJOR", number(env!("CARGO_PKG_VERSION_MAJOR"))),
        ("VERSION_MINOR", number(env!("CARGO_PKG_VERSION_MINOR"))),
        ("VERSION_PATCH", number(env!("CARGO_PKG_VERSION_PATCH"))),
    ];
    for (name, value) in constants {
        line(format!("ZPROF_{name} {value}"));
    }
    line(format!("ZPROF_VERSION {}", env!("CARGO_PKG_VERSION")));
    line(format!("ZPROF_OPTIONS_INIT {}", bytes(&abi::OPTIONS_INIT)));
    text
}

/// The bytes of options, in their order.
fn bytes(options: &Options) -> String {
    let Options {
        size,
        filter_mask,
        max_buffer_bytes,
        prefault_bytes,
        keep_last_ns,
        keep_last_bytes,
        host_tracer_level,
        device_tracer_level,
        python_tracer_level,
        ..
    } = *options;
    let nulls = [options.repository_path, options.session_id, options.hostname, options.plugin, options.directives];
    assert!(nulls.iter().all(|pointer| pointer.is_null()));
    let mut bytes = size.to_ne_bytes().to_vec();
    bytes.extend([0; 5 * size_of::<usize>()]);
    let sizes = [filter_mask, max_buffer_bytes, prefault_bytes, keep_last_ns, keep_last_bytes];
    bytes.extend(sizes.iter().flat_map(|number| number.to_ne_bytes()));
    let levels = [host_tracer_level, device_tracer_level, python_tracer_level];
    bytes.extend(levels.iter().flat_map(|number| number.to_ne_bytes()));
    bytes.extend([options.unique_session, options.must_have_plugin, options.no_hlo, options.reserved]);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn header_and_rust_agree_on_every_size_place_and_constant() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = program(C99, "layout.c", Linked::Static, &[], folder.path());
    let (told, _) = run(&mut Command::new(program));
    assert_eq!(told, expected());
    // The options of the header mean what Rust's defaults mean.
    let ours = zprof::ProfilerOptions::default();
    let init = abi::OPTIONS_INIT;
    assert_eq!(
        (ours.host_tracer_level, ours.device_tracer_level, ours.python_tracer_level),
        (init.host_tracer_level, init.device_tracer_level, init.python_tracer_level)
    );
}

#[test]
fn the_library_is_looked_for_under_its_installed_name_and_exports_what_the_header_has() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = program(CXX11, "raii.cpp", Linked::Shared, &[], folder.path());
    let (dynamic, _) = run(Command::new("readelf").arg("-d").arg(program));
    let version = format!("{}.{}", env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    assert!(dynamic.contains(&format!("Shared library: [libzprof.so.{version}]")), "{dynamic}");

    let library = installed().join("lib/libzprof.so");
    let (symbols, _) = run(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library));
    let mut exported: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(installed().join("include/zprof.h")).expect("it is installed");
    let declared = header.lines().filter(|line| line.contains("ZPROF_API ")).filter_map(|line| {
        let name = line.split(['(', ';']).next()?.rsplit([' ', '*']).next()?;
        Some(name)
    });
    let mut declared: Vec<&str> = declared.filter(|name| name.starts_with("zprof_")).collect();
    declared.sort_unstable();
    assert_eq!(declared.len(), 19, "{declared:?}");
    assert_eq!(exported, declared);
}
