//! The locks of `apt` and `dpkg`: who holds them, and waiting until nobody does.

use std::fmt;
use std::fs::File;
use std::time::Duration;

use mgmt_resource::{Error, Result};
use rustix::process::{Flock, FlockOffsetType, FlockType, Pid, fcntl_getlk};
use tokio::time::Instant;

use crate::kinds::pkg::backend::Job;

/// How long somebody else may be at work. Upgrades of a whole system take their time.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How often a look is taken. Locks do not tell when they are released.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Whoever holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    file: &'static str,
    pid: Option<Pid>,
    program: Option<String>,
}

/// Waits until nobody holds any of the locks. Somebody may take one right after.
pub(super) async fn wait_until_free(files: &[&'static str], job: &Job<'_>) -> Result<()> {
    let mut told: Option<Holder> = None;
    let until = Instant::now() + PATIENCE;
    loop {
        let Some(holder) = files.iter().find_map(|file| holder(file)) else { return Ok(()) };
        if Instant::now() >= until {
            return Err(Error::new(format_args!("the package database is locked by {holder}"))
                .with_hint("wait until it is done, or find out why it does not come to an end"));
        }
        if told.as_ref() != Some(&holder) {
            tracing::info!(
                target: "mgmt::resource", resource = %job.id,
                "the package database is locked by {holder}; waiting until it is done"
            );
            told = Some(holder);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = job.cancel.cancelled() => return Err(Error::Cancelled),
        }
    }
}

/// Who holds a lock now. A file that is not there, or not ours to see, is locked by nobody that we know.
fn holder(file: &'static str) -> Option<Holder> {
    let open = File::open(file).ok()?;
    let whole = Flock {
        start: 0,
        length: 0,
        pid: None,
        typ: FlockType::WriteLock,
        offset_type: FlockOffsetType::Set,
    };
    let lock = fcntl_getlk(&open, &whole).ok().flatten()?;
    let program =
        lock.pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok());
    Some(Holder { file, pid: lock.pid, program: program.map(|program| program.trim_end().to_owned()) })
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.program, self.pid) {
            (Some(program), Some(pid)) => {
                write!(f, "{} (process {})", program.escape_debug(), pid.as_raw_nonzero())?;
            }
            (None, Some(pid)) => write!(f, "process {}", pid.as_raw_nonzero())?,
            (_, None) => f.write_str("a process that we cannot see")?,
        }
        write!(f, ", which holds {}", self.file)
    }
}
