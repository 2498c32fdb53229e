//! `zprof neuron ingest`: makes runs known to the server, and captures device profiles where the run has none.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::{DATA, NAME, ROOT, code_of, explorer, place, require};
use crate::output::tell;
use crate::run::{CommandLine, print_commands};

/// Files that make up a system profile; the first must be there.
const SYSTEM: [&str; 4] = ["ntrace.pb", "trace_info.pb", "cpu_util.pb", "host_mem.pb"];

/// Make runs known to the server.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  All runs:
    zprof neuron ingest")]
pub(crate) struct Args {
    /// Folders of runs, or of many runs; without any, the folder that `profile` keeps runs in.
    #[arg(value_name = "RUN", default_value = ROOT)]
    runs: Vec<PathBuf>,
    /// Where the server keeps what it has read.
    #[arg(long, value_name = "FOLDER", default_value = DATA)]
    data_path: PathBuf,
    /// Print the commands as a shell takes them, and run nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    if !args.dry_run {
        require()?;
    }
    let data = place(&args.data_path, !args.dry_run)?;
    let mut count: usize = 0;
    for folder in &args.runs {
        for run in runs(folder)? {
            let mut work = Work { run: &run, data: &data, dry_run: args.dry_run, count: 0 };
            if let Some(code) = work.all()? {
                return Ok(code);
            }
            count += work.count;
        }
    }
    if !args.dry_run {
        tell(format_args!("{count} profiles ingested; `zprof neuron server` shows them"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A run, or the runs of a folder, by name.
fn runs(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_usual = folder == Path::new(ROOT);
    let folder = &place(folder, false)?;
    if folder.join("execution").is_dir() {
        return Ok(vec![folder.to_owned()]);
    }
    let none = || format!("no runs in `{}` yet; `zprof neuron profile` makes one", folder.display());
    if is_usual && !folder.exists() {
        bail!(none());
    }
    let entries = sorted(folder)?;
    let runs: Vec<PathBuf> = entries.into_iter().filter(|path| path.join("execution").is_dir()).collect();
    if runs.is_empty() && is_usual {
        bail!(none());
    }
    if runs.is_empty() {
        bail!("`{}` holds no run: no folder `execution` is in it or in its folders", folder.display());
    }
    Ok(runs)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("failed to list `{}`", folder.display());
    let entries = fs::read_dir(folder).with_context(what)?.collect::<io::Result<Vec<_>>>().with_context(what)?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// What is to be done for one run.
struct Work<'a> {
    run: &'a Path,
    data: &'a Path,
    dry_run: bool,
    /// Profiles that the server knows now.
    count: usize,
}

impl Work<'_> {
    /// All of it; the exit code of what has failed, if something has.
    fn all(&mut self) -> Result<Option<ExitCode>> {
        let mut folders = Vec::new();
        for host in sorted(&self.run.join("execution"))?.into_iter().filter(|path| path.is_dir()) {
            folders.extend(sorted(&host)?.into_iter().filter(|path| path.is_dir()));
        }
        for folder in &folders {
            if folder.join(SYSTEM[0]).is_file() {
                if let Some(code) = self.system(folder)? {
                    return Ok(Some(code));
                }
            }
        }
        for folder in &folders {
            for neff in sorted(folder)?.into_iter().filter(|path| path.extension() == Some(OsStr::new("neff"))) {
                if let Some(code) = self.device(&neff)? {
                    return Ok(Some(code));
                }
            }
        }
        Ok(None)
    }

    /// The system's profile of one process: its files, gathered in a folder that holds nothing else.
    fn system(&mut self, folder: &Path) -> Result<Option<ExitCode>> {
        let files: Vec<PathBuf> = SYSTEM.iter().map(|name| folder.join(name)).filter(|path| path.is_file()).collect();
        let gathered = tempfile::Builder::new().prefix("zprof-ingest-").tempdir();
        let gathered = gathered.context("failed to make a temporary folder")?;
        if self.dry_run {
            print_commands(&[
                CommandLine::new("mkdir").arg(gathered.path()),
                CommandLine::new("cp").args(&files).arg(gathered.path()),
            ])?;
        } else {
            for file in &files {
                let copy = gathered.path().join(file.file_name().unwrap_or_default());
                // A second name costs nothing; another file system makes it a copy.
                fs::hard_link(file, &copy)
                    .or_else(|_| fs::copy(file, &copy).map(drop))
                    .with_context(|| format!("failed to copy `{}`", file.display()))?;
            }
        }
        self.view(&format!("{}:system", self.name()), |command| command.arg("-d").arg(gathered.path()))
    }

    /// The profiles of one program on the device, captured first if there are none.
    fn device(&mut self, neff: &Path) -> Result<Option<ExitCode>> {
        let file = File::open(neff).with_context(|| format!("failed to open `{}`", neff.display()))?;
        let Some(program) = program_name(file).with_context(|| format!("failed to read `{}`", neff.display()))? else {
            bail!("`{}` names no program: no `MODULE_<name>` is in it", neff.display());
        };
        let mut profiles = profiles_of(neff)?;
        if profiles.is_empty() {
            let profile = neff.with_extension("ntff");
            let capture = explorer().args(["capture", "-n"]).arg(neff).arg("-s").arg(&profile).args([
                "--num-exec=2",
                "--profile-nth-exec=2",
                "--io-from=neff",
            ]);
            if let Some(code) = self.do_or_print(&capture)? {
                return Ok(Some(code));
            }
            profiles = if self.dry_run { vec![profile] } else { profiles_of(neff)? };
        }
        for profile in profiles {
            let suffix = suffix(&profile).map(|suffix| format!("_{suffix}")).unwrap_or_default();
            let name = format!("{}:{program}{suffix}", self.name());
            let code = self.view(&name, |command| command.arg("-n").arg(neff).arg("-s").arg(&profile))?;
            if code.is_some() {
                return Ok(code);
            }
        }
        Ok(None)
    }

    fn view(&mut self, name: &str, what: impl FnOnce(CommandLine) -> CommandLine) -> Result<Option<ExitCode>> {
        let command = explorer().args(["view", "--ingest-only", "--force", "--data-path"]).arg(self.data);
        let command = what(command.arg("--display-name").arg(name));
        self.count += 1;
        self.do_or_print(&command)
    }

    fn do_or_print(&self, command: &CommandLine) -> Result<Option<ExitCode>> {
        if self.dry_run {
            print_commands(std::slice::from_ref(command))?;
            return Ok(None);
        }
        let status = command.to_command().status().with_context(|| format!("failed to run `{NAME}`"))?;
        if status.success() {
            return Ok(None);
        }
        let shown = command.shell().map(|line| String::from_utf8_lossy(&line).into_owned()).unwrap_or_default();
        tell(format_args!("failed ({status}): {shown}"));
        Ok(Some(code_of(status)))
    }

    fn name(&self) -> String {
        let path = fs::canonicalize(self.run).unwrap_or_else(|_| self.run.to_owned());
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Profiles of a program beside it: `<name>_rank_<k>.ntff`, or `<name>.ntff`.
fn profiles_of(neff: &Path) -> Result<Vec<PathBuf>> {
    let folder = neff.parent().unwrap_or(Path::new("."));
    let stem = neff.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_own = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(stem.as_str());
        path.extension() == Some(OsStr::new("ntff"))
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("_rank_"))
    };
    Ok(sorted(folder)?.into_iter().filter(is_own).collect())
}

/// What tells profiles of one program apart: `nc<k>` of `…_rank_<k>…`, `vnc_<k>` of `…_vnc_<k>`.
fn suffix(profile: &Path) -> Option<String> {
    let name = profile.file_stem()?.to_string_lossy().into_owned();
    let number = |mark: &str| {
        let rest = &name[name.rfind(mark)? + mark.len()..];
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (!digits.is_empty()).then_some(digits)
    };
    number("_rank_").map(|k| format!("nc{k}")).or_else(|| number("_vnc_").map(|k| format!("vnc_{k}")))
}

/// The name of a compiled program: the first `MODULE_<name>` of its bytes, without a last `_<digits>`.
fn program_name(mut bytes: impl Read) -> io::Result<Option<String>> {
    const MARK: &[u8] = b"MODULE_";
    /// Names are shorter.
    const OVERLAP: usize = 4096;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let mut window: Vec<u8> = Vec::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        let read = bytes.read(&mut chunk)?;
        window.extend_from_slice(&chunk[..read]);
        let ended = read == 0;
        for (start, _) in window.windows(MARK.len()).enumerate().filter(|(_, bytes)| *bytes == MARK) {
            let rest = &window[start + MARK.len()..];
            let length = rest.iter().take_while(|byte| is_name(byte)).count();
            if length == rest.len() && !ended {
                // It may go on in the next chunk.
                break;
            }
            if length > 0 {
                let name = String::from_utf8_lossy(&rest[..length]).into_owned();
                return Ok(Some(without_number(&name).to_owned()));
            }
        }
        if ended {
            return Ok(None);
        }
        window.drain(..window.len().saturating_sub(OVERLAP));
    }
}

/// A name without a last `_<digits>`.
fn without_number(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((start, digits)) if !start.is_empty() && !digits.is_empty() => {
            if digits.bytes().all(|byte| byte.is_ascii_digit()) { start } else { name }
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_name_is_the_first_module_of_its_bytes() {
        let name = |bytes: &[u8]| program_name(bytes).expect("memory can be read");
        assert_eq!(name(b"\0xMODULE_jit_step_1234\0MODULE_other"), Some("jit_step".to_owned()));
        assert_eq!(name(b"MODULE_decode"), Some("decode".to_owned()));
        assert_eq!(name(b"MODULE_\0MODULE_a_b"), Some("a_b".to_owned()));
        assert_eq!(name(b"MODULE"), None);
        let mut late = vec![0; (1 << 20) - 9];
        late.extend_from_slice(b"MODULE_split_over_two_7 ");
        assert_eq!(name(&late), Some("split_over_two".to_owned()));
    }

    #[test]
    fn profiles_are_told_apart_by_core() {
        let suffix = |name: &str| suffix(Path::new(name));
        assert_eq!(suffix("/r/a_rank_3.ntff"), Some("nc3".to_owned()));
        assert_eq!(suffix("/r/1_vnc_2.ntff"), Some("vnc_2".to_owned()));
        assert_eq!(suffix("/r/1_vnc_2_rank_11_x.ntff"), Some("nc11".to_owned()));
        assert_eq!(suffix("/r/a.ntff"), None);
    }
}
