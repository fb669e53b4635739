//! Running `augtool`: a text goes in, and a text comes out.
//!
//! Invariants
//! - What is in the declaration goes through its input, never into its arguments, which everybody can see.
//! - It ends: by itself, after [`LIMIT`], or with the run that has started it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use mgmt_resource::{Context, Error, Result};
use mgmt_sys::process::{Command, Finished, Signal, Status, find_program};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::place::Place;
use super::script::{Inexpressible, Step, steps};
use super::{Augeas, answer};

const PROGRAM: &str = "augtool";
const DIRECTORIES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long it may take. Some formats are hard to read, but not that hard.
const LIMIT: Duration = Duration::from_secs(60);
/// Between the signal that asks it to stop and the one that makes it.
const GRACE: Duration = Duration::from_secs(1);
/// How much of what it says is kept: that a tree does not fit is told with the whole tree.
const LONGEST_ANSWER: usize = 8 << 20;

/// They do nothing but reckon, so more of them than processors are no faster.
static AT_ONCE: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)));

/// Where the program is, if it is installed.
pub(super) fn program() -> Option<PathBuf> {
    let own = std::env::var_os("PATH").unwrap_or_default();
    find_program(OsStr::new(PROGRAM), OsStr::new(DIRECTORIES))
        .or_else(|| find_program(OsStr::new(PROGRAM), &own))
}

/// What the edits make of a text.
pub(super) async fn edited(declared: &Augeas, text: &[u8], cx: &Context<'_>) -> Result<Vec<u8>> {
    if text.contains(&0) {
        return Err(Error::new("the file has a null byte, and is no configuration file"));
    }
    let steps = steps(declared);
    let script = script(declared, &steps)?;
    let program = program().ok_or_else(|| {
        Error::new("the program augtool is not installed")
            .with_hint("install it: the package is called augeas-tools (Debian, Ubuntu) or augeas (Fedora)")
    })?;
    let _turn = tokio::select! {
        turn = AT_ONCE.acquire() => turn,
        () = cx.cancel.cancelled() => return Err(Error::Cancelled),
    };
    let place = Place::with(text)
        .map_err(|error| Error::new(format_args!("cannot make a directory for augtool: {error}")))?;
    let finished = run(program, &place, &script, cx).await?;
    let said_all = answer::check(declared, &steps, &finished.stdout.bytes, &finished.stderr.bytes)?;
    // A mark is an error to it, so it always ends with one.
    if !said_all || !matches!(finished.status, Status::Exited(0 | 1)) {
        return Err(broken(&finished));
    }
    place.text().map_err(|error| Error::new(format_args!("cannot read what augtool has written: {error}")))
}

fn script(declared: &Augeas, steps: &[Step<'_>]) -> Result<Vec<u8>> {
    let mut script = Vec::new();
    for step in steps {
        step.write(&declared.lens, &mut script).map_err(|Inexpressible(why)| {
            let what = match step {
                Step::Remove(path) => format!("remove {}", answer::shown(path)),
                Step::Clear(path) => format!("clear {}", answer::shown(path)),
                Step::Set(set) => format!("set {}", answer::shown(&set.path)),
                Step::Insert(insert) => format!("insert beside {}", answer::shown(&insert.path)),
                Step::Begin | Step::Load | Step::Save => "use the lens".to_owned(),
            };
            Error::new(format_args!("cannot {what}: {why}"))
        })?;
    }
    Ok(script)
}

async fn run(program: PathBuf, place: &Place, script: &[u8], cx: &Context<'_>) -> Result<Finished> {
    let root = place.path().as_os_str().to_owned();
    let options = ["--noload", "--noautoload", "--root"].map(OsString::from);
    let mut command = Command::new([program.into_os_string()].into_iter().chain(options).chain([root]));
    command.env = place.environment().into();
    command.cwd = Some("/".into());
    command.credentials = place.who.clone();
    command.helper = cx.host.helper.clone();
    command.capture_limit = LONGEST_ANSWER;
    let (running, mut input) = command.spawn_listening().map_err(Error::new)?;
    // Who ends before all is written has told why, and the rest is of no use.
    let tell = async {
        let _ = input.write_all(script).await;
        drop(input);
        std::future::pending::<()>().await;
    };
    // Whichever comes first; which one it was is seen by the cancellation.
    let stop = async {
        tokio::select! { () = cx.cancel.cancelled() => {}, () = tokio::time::sleep(LIMIT) => {} }
    };
    let finished = tokio::select! {
        finished = running.wait_with(stop, cx.cancel.interrupted(), Signal::TERM, Some(GRACE)) => finished,
        () = tell => return Err(Error::new("augtool was told all, and more")),
    };
    let finished = finished.map_err(|error| Error::new(format_args!("cannot run augtool: {error}")))?;
    if matches!(finished.status, Status::Cancelled | Status::Interrupted) {
        cx.checkpoint()?;
        return Err(Error::new(format_args!("augtool took longer than {} seconds", LIMIT.as_secs()))
            .with_hint(
                "the file may be too large for its lens; a `file` with a template has no such limit",
            ));
    }
    Ok(finished)
}

/// It has not come to the end of what it was told.
fn broken(finished: &Finished) -> Error {
    let told = String::from_utf8_lossy(&finished.stderr.bytes);
    let last =
        told.lines().map(str::trim).rfind(|line| !line.is_empty() && !line.contains(super::script::MARK));
    let last = last.map(|line| format!(": {line}")).unwrap_or_default();
    Error::new(format_args!(
        "augtool has not done what it was told, and has ended with {}{last}",
        finished.status
    ))
}
