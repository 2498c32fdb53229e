//! `zprof rocprofv3`: a program under AMD's profiler.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::output::tell;
use crate::run::{
    CommandLine, Folder, Launch, Missing, Program, SKIP_PJRT, execute, is_executable, on_path, print_commands,
    replaced, variable,
};

const NAME: &str = "rocprofv3";

/// What is traced, and what the report is.
const DEFAULTS: [&str; 13] = [
    "--sys-trace",
    "--runtime-trace",
    "--hip-trace",
    "--kernel-trace",
    "--memory-copy-trace",
    "--hip-runtime-trace",
    "--hsa-core-trace",
    "--scratch-memory-trace",
    "--marker-trace",
    "--kernel-rename",
    "--stats",
    "--output-format",
    "pftrace",
];

/// Run a program under AMD's rocprofv3.
///
/// System, runtime, HIP, HSA, kernels, copies, scratch memory and ROCTx markers are traced. `ZPROF_ROCPROFV3_ARGS`
/// (or `ZML_ROCPROFV3_ARGS`) replaces all of these options.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  A program with arguments:
    zprof rocprofv3 -- target/release/model --seqlen 128
  With a ROCm of its own:
    zprof rocprofv3 --rocm-root /opt/rocm-7 -- target/release/model")]
pub(crate) struct Args {
    /// Where ROCm is; without it: `ROCM_PATH`, `ROCM_HOME`, /opt/rocm, or by way of `PATH`.
    #[arg(long, value_name = "FOLDER")]
    rocm_root: Option<PathBuf>,
    #[command(flatten)]
    program: Program,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let found = match &args.rocm_root {
        Some(root) => match Tool::below(root) {
            None if !args.program.dry_run => {
                bail!("`{}` has no `bin/{NAME}`; ROCm 6.2 and later bring it along", root.display())
            }
            found => found.or_else(|| Some(Tool::supposed(root))),
        },
        None => tool(),
    };
    let arguments = replaced("ROCPROFV3").unwrap_or_else(|| DEFAULTS.map(OsString::from).into());
    if args.program.dry_run {
        let tool = found.unwrap_or_else(|| Tool::supposed(Path::new("/opt/rocm")));
        return print_commands(&[command(&tool, &arguments, &args.program.program)]);
    }
    let tool = found.ok_or_else(missing)?;
    let command = command(&tool, &arguments, &args.program.program);
    let folder = Folder::watch(report_folder(&arguments), &[".pftrace", "_results.db", "_results.json"], 2);
    let ended = execute(&Launch { tool: NAME, command: &command, program: &args.program.program, is_root: false })?;
    if ended.aborted {
        tell("aborted; there is no report");
    } else {
        report(&folder);
    }
    Ok(ExitCode::from(ended.code))
}

/// The profiler, and the ROCm that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) path: PathBuf,
    /// Not known where it lies in no `bin`.
    root: Option<PathBuf>,
}

impl Tool {
    fn below(root: &Path) -> Option<Self> {
        let tool = Self::supposed(root);
        is_executable(&tool.path).then_some(tool)
    }

    fn supposed(root: &Path) -> Self {
        Self { path: root.join("bin").join(NAME), root: Some(root.to_owned()) }
    }
}

/// The first that is there.
pub(crate) fn tool() -> Option<Tool> {
    let roots = [variable("ROCM_PATH"), variable("ROCM_HOME"), Some("/opt/rocm".into())];
    let below = roots.into_iter().flatten().find_map(|root| Tool::below(Path::new(&root)));
    below.or_else(|| {
        let path = on_path(NAME)?;
        // A link in /usr/bin leads to where its ROCm is.
        let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let root = real.parent().filter(|bin| bin.ends_with("bin")).and_then(Path::parent).map(Path::to_owned);
        Some(Tool { path: NAME.into(), root })
    })
}

pub(crate) fn missing() -> Missing {
    Missing {
        tool: NAME,
        places: "`--rocm-root`, ROCM_PATH, ROCM_HOME, /opt/rocm and PATH".to_owned(),
        cure: "it comes with ROCm 6.2 and later (https://rocm.docs.amd.com), as the package `rocprofiler-sdk` of AMD's \
               repository",
    }
}

fn command(tool: &Tool, arguments: &[OsString], program: &[OsString]) -> CommandLine {
    let mut command = CommandLine::new(&tool.path);
    if let Some(root) = &tool.root {
        command = command.arg("--rocm-root").arg(root);
    }
    command.args(arguments).arg("--").args(program).env(SKIP_PJRT.0, SKIP_PJRT.1)
}

/// The folder of `-d` or `-o`, or the present one, where the report is `<host>/<process>_results.pftrace`. What stands
/// for something, such as `%hostname%`, and all after it is for looking.
fn report_folder(arguments: &[OsString]) -> PathBuf {
    let mut folder = PathBuf::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(PathBuf::from(value))),
            None => (text.into_owned(), None),
        };
        if matches!(name.as_str(), "-d" | "--output-directory") {
            folder = value.or_else(|| words.next().map(PathBuf::from)).unwrap_or_default();
        }
    }
    let plain = folder.iter().take_while(|part| !part.to_string_lossy().contains(['%', '$']));
    env::current_dir().unwrap_or_else(|_| PathBuf::from(".")).join(plain.collect::<PathBuf>())
}

/// Says where the report is, and whether texts in the form of zprof's labels are in it.
fn report(folder: &Folder) {
    let reports = folder.changed();
    for path in &reports {
        tell(format_args!("report: {}", path.display()));
        match fs::File::open(path).and_then(holds_label) {
            Ok(true) => tell("ranges: zprof's are in the report"),
            Ok(false) => tell(
                "ranges: no label with metadata, as zprof writes them, is in the report; ROCTx marks nothing else as \
                 zprof's. Was the program built with zprof's feature `roctx`?",
            ),
            Err(error) => tell(format_args!("ranges: unknown, because the report cannot be read: {error}")),
        }
    }
    if reports.is_empty() {
        tell(format_args!("rocprofv3 has left no report in {}", folder.path().display()));
    }
}

/// Whether bytes hold a label with metadata: `name#key=value#`, with nothing unprintable in it.
fn holds_label(mut bytes: impl Read) -> io::Result<bool> {
    const LONGEST: usize = 4096;
    let mut window: Vec<u8> = Vec::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        let read = bytes.read(&mut chunk)?;
        if read == 0 {
            return Ok(false);
        }
        window.extend_from_slice(&chunk[..read]);
        let printable = window.split(|byte| byte.is_ascii_control());
        if printable.into_iter().any(is_label) {
            return Ok(true);
        }
        window.drain(..window.len().saturating_sub(LONGEST));
    }
}

fn is_label(text: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.:".contains(byte);
    let mut parts = text.split(|byte| *byte == b'#').peekable();
    while let Some(name) = parts.next() {
        let metadata = parts.peek().copied().unwrap_or_default();
        let key = metadata.iter().position(|byte| *byte == b'=').map(|end| &metadata[..end]);
        // What follows the second sign is another part, be it empty.
        let closed = parts.clone().nth(1).is_some();
        if closed
            && name.last().is_some_and(is_name)
            && key.is_some_and(|key| !key.is_empty() && key.iter().all(is_name))
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_told_from_other_bytes() {
        for (text, expected) in [
            (&b"\x0a\x12llm.step#step=1#\x10"[..], true),
            (b"xx \x01decode#mode=Greedy,n=2#", true),
            (b"llm.step", false),
            (b"#a=1#", false),
            (b"name#a=1", false),
            (b"name#=1#", false),
            (b"na\x01#a=\x021#", false),
        ] {
            assert_eq!(holds_label(text).expect("memory can be read"), expected, "{}", text.escape_ascii());
        }
        // Each text is looked at once: a check of all that follows each sign would take hours.
        for (text, expected) in [(&b"#"[..], false), (b"a#", false), (b"a#=", false), (b"x#a=1", true)] {
            let long = text.repeat((4 << 20) / text.len());
            assert_eq!(holds_label(long.as_slice()).expect("memory can be read"), expected, "{}", text.escape_ascii());
        }
        let mut late = vec![b' '; (1 << 20) - 5];
        late.extend_from_slice(b"decode#n=1#");
        assert!(holds_label(late.as_slice()).expect("memory can be read"), "over two chunks");
    }

    #[test]
    fn the_reports_folder_is_what_is_sure_of_the_output() {
        let here = env::current_dir().expect("there is one");
        let folder = |text: &str| report_folder(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(folder("--sys-trace"), here.join(""));
        assert_eq!(folder("-d out/%hostname%/x"), here.join("out"));
        assert_eq!(folder("--output-directory=/a/b -o name"), Path::new("/a/b"));
    }
}
