//! Runs a tool that runs a program, on systems without process groups: the console's Ctrl-C goes to both.

use anyhow::{Context, Result};

use super::{Ended, Launch};

/// Runs it to its end.
pub(crate) fn execute(launch: &Launch) -> Result<Ended> {
    let status = launch.command.to_command().status().with_context(|| format!("failed to run `{}`", launch.tool))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(Ended { code, aborted: false })
}
