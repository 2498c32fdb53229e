//! The attribute is invisible to rustc and clippy: with and without it, each function gets the same warnings and errors, in
//! the same places. Only places and names of lints are compared, no words.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Line, column, and the lint or the number of the error.
type Found = BTreeSet<(u64, u64, String)>;

/// The lint that is right only without the attribute: a function that is recorded cannot be `const`.
const EXCEPT: &str = "clippy::missing_const_for_fn";

/// A package outside of the workspace, with its own target folder, which later runs use again. Each test has a name of its own
/// for it, because cargo takes packages of one name in different folders for the same one there.
struct Package {
    name: &'static str,
    folder: tempfile::TempDir,
    target: PathBuf,
}

impl Package {
    fn new(name: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the repository");
        let zprof = root.join("zprof");
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[lib]\npath = \
             \"lib.rs\"\n[dependencies]\nzprof = {{ path = {zprof:?} }}\n"
        );
        fs::write(folder.path().join("Cargo.toml"), manifest).expect("the folder can be written");
        fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).expect("the lock file can be copied");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lints");
        Self { name, folder, target }
    }

    /// Runs a subcommand of cargo on a library of this text.
    fn cargo(&self, subcommand: &str, text: &str) -> Output {
        fs::write(self.folder.path().join("lib.rs"), text).expect("the folder can be written");
        Command::new(env!("CARGO"))
            .current_dir(self.folder.path())
            .args([subcommand, "--offline", "--quiet", "--message-format", "json", "--target-dir"])
            .arg(&self.target)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS")
            .output()
            .expect("cargo can be run")
    }

    /// What a subcommand of cargo finds in the functions, with these attributes in the place of `T`, `TE` and `TR`.
    fn found(&self, subcommand: &str, functions: &str, attributes: [&str; 3]) -> Found {
        let mut text = functions.to_owned();
        for (name, attribute) in ["#[T]", "#[TE]", "#[TR]"].iter().zip(attributes) {
            text = text.replace(name, attribute);
        }
        let output = self.cargo(subcommand, &text);
        let text = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
        let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let ours = messages
            .filter(|message| message["reason"] == "compiler-message" && message["target"]["name"] == self.name);
        let found: Found = ours.filter_map(|message| place(&message["message"])).collect();
        assert!(!found.is_empty(), "{subcommand}: {}", String::from_utf8_lossy(&output.stderr));
        found
    }

    /// Compares all three kinds of attribute with none.
    fn compare(&self, subcommand: &str, functions: &str) {
        let none = self.found(subcommand, functions, ["#[rustfmt::skip]"; 3]);
        let traced =
            self.found(subcommand, functions, ["#[zprof::trace]", "#[zprof::trace(err)]", "#[zprof::trace(ret)]"]);
        let line = |at: &(u64, u64, String)| {
            let line = usize::try_from(at.0 - 1).ok().and_then(|line| functions.lines().nth(line));
            format!("{}: {}", at.2, line.unwrap_or_default().trim())
        };
        let gained: Vec<String> = traced.difference(&none).map(line).collect();
        let lost: Vec<String> = none.difference(&traced).map(line).collect();
        assert_eq!((gained, lost), (Vec::new(), Vec::new()), "what {subcommand} says more and less with the attribute");
    }
}

/// Where a message points, and its code.
fn place(message: &serde_json::Value) -> Option<(u64, u64, String)> {
    let spans = message["spans"].as_array()?;
    let primary = spans.iter().find(|span| span["is_primary"] == true)?;
    let code = message["code"]["code"].as_str().or(message["level"].as_str())?.to_owned();
    (code != EXCEPT).then_some((primary["line_start"].as_u64()?, primary["column_start"].as_u64()?, code))
}

#[test]
fn warnings_are_the_same_with_and_without_the_attribute() {
    let package = Package::new("compared_warnings");
    for subcommand in ["check", "clippy"] {
        package.compare(subcommand, include_str!("warned.in"));
    }
}

#[test]
fn errors_are_the_same_with_and_without_the_attribute() {
    let package = Package::new("compared_errors");
    for functions in [include_str!("types.in"), include_str!("borrows.in"), include_str!("names.in")] {
        package.compare("check", functions);
    }
}

/// Rustc instantiates one function at most 128 times in a chain, and each of these awaits the one before.
#[test]
fn two_hundred_futures_that_await_each_other_compile() {
    const LEVELS: usize = 200;
    let mut text = String::from("use std::future::{Future, ready};\n");
    text += "#[zprof::trace] pub async fn f0(x: &u32) -> u32 { ready(*x).await }\n";
    for level in 1..LEVELS {
        let before = level - 1;
        let body = format!("let x = f{before}(x).await; ready(x + 1).await");
        writeln!(text, "#[zprof::trace] pub async fn f{level}(x: &u32) -> u32 {{ {body} }}").expect("memory");
    }
    text += "fn poll<F: Future>(future: F) -> bool { let mut future = std::pin::pin!(future); \
             let mut context = std::task::Context::from_waker(std::task::Waker::noop()); \
             future.as_mut().poll(&mut context).is_ready() }\n";
    let last = LEVELS - 1;
    writeln!(text, "pub fn run() -> bool {{ poll(async {{ f{last}(&1).await }}) }}").expect("memory");
    let output = Package::new("deep_futures").cargo("build", &text);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
