//! Whether the command has to run.

use std::io::ErrorKind;

use mgmt_resource::{Cancel, Context, Error, Result};
use mgmt_sys::process::Capture;
use mgmt_value::Str;

use super::Exec;
use super::kept::{Kept, Seen};
use super::run::{self, Runner};

/// Why the command need not run. `None`: it has to.
///
/// A newer file in `mtimes` overrides every guard. Then the guards are asked in order, and the first that says no
/// decides. A guard that gave no answer, because it could not run or was killed, is an error.
pub(super) async fn needless(
    exec: &Exec,
    runner: &mut Runner<'_>,
    kept: &Kept,
    seen: Option<&Seen>,
    cx: &Context<'_>,
) -> Result<Option<String>> {
    if let Some(seen) = seen
        && kept.seen.as_ref().is_none_or(|last| seen.newer_than(last).is_some())
    {
        return Ok(None);
    }
    if let Some(line) = exec.if_line() {
        let answer = runner.ask(&line).await?;
        if answer.code != 0 {
            return Ok(Some(format!("`ifcmd` ended with exit status {}", answer.code)));
        }
        if equals(&exec.ifequals, &answer.finished.combined) {
            return Ok(Some("the output of `ifcmd` is what `ifequals` says".into()));
        }
        if equals(&exec.ifequals_stdout, &answer.finished.stdout) {
            return Ok(Some("the standard output of `ifcmd` is what `ifequals_stdout` says".into()));
        }
    }
    if let Some(line) = exec.nif_line()
        && runner.ask(&line).await?.code == 0
    {
        return Ok(Some("`nifcmd` has succeeded".into()));
    }
    if !exec.creates.is_empty() && exists(cx.cancel, &exec.creates).await? {
        return Ok(Some(format!("{:?} in `creates` exists", exec.creates)));
    }
    let unguarded = exec.ifcmd.is_empty() && exec.nifcmd.is_empty() && exec.creates.is_empty();
    if seen.is_some() && unguarded && !cx.refresh {
        return Ok(Some("no file in `mtimes` is newer than at the last run".into()));
    }
    Ok(None)
}

/// Whether a path of `creates` exists. Anything that hides the answer is an error: a file server that does not
/// answer is no reason to run the command again.
pub(super) async fn exists(cancel: &Cancel, path: &Str) -> Result<bool> {
    let path = path.clone();
    run::blocking(cancel, move || match std::fs::metadata(path.as_path()) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Error::new(format_args!("cannot look at {path:?} in `creates`: {error}"))),
    })
    .await
}

fn equals(wanted: &Option<Str>, capture: &Capture) -> bool {
    wanted.as_ref().is_some_and(|wanted| capture.dropped == 0 && capture.bytes == wanted.as_bytes())
}
