//! Running the programs that change debconf's database.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use mgmt_resource::{Context, Error, Result};
use mgmt_sys::process::{Command, Finished, Signal, Status};
use mgmt_value::Str;
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Between the signal that asks it to stop and the one that makes it.
const GRACE: Duration = Duration::from_secs(5);

/// Debconf locks its database, and whoever comes while it is locked fails.
static ONE: Mutex<()> = Mutex::const_new(());

/// A program of debconf.
pub(super) struct Program {
    pub(super) path: &'static str,
    /// It is told the package as an argument.
    takes_package: bool,
}

/// Sets answers.
pub(super) const SET: Program = Program { path: "/usr/bin/debconf-set-selections", takes_package: false };
/// Speaks debconf's own protocol, in which a question can be removed.
pub(super) const REMOVE: Program = Program { path: "/usr/bin/debconf-communicate", takes_package: true };

impl Program {
    pub(super) fn is_installed(&self) -> bool {
        Path::new(self.path).exists()
    }

    pub(super) fn missing(&self) -> Error {
        Error::new(format_args!("the program {} is not installed", self.path))
            .with_hint("install the package debconf; only Debian and what is derived from it has it")
    }

    /// Runs it with this input. It has to succeed.
    pub(super) async fn run(&self, package: &Str, orders: &[u8], cx: &Context<'_>) -> Result<()> {
        let _one = tokio::select! {
            one = ONE.lock() => one,
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        };
        let package = self.takes_package.then(|| OsStr::from_bytes(package).to_owned());
        let mut command = Command::new([self.path.into()].into_iter().chain(package));
        let environment = [
            ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("HOME", "/"),
            ("DEBIAN_FRONTEND", "noninteractive"),
        ];
        command.env = environment.map(|(name, value)| (name.into(), value.into())).into();
        command.cwd = Some("/".into());
        command.helper = cx.host.helper.clone();
        let (running, mut input) = command.spawn_listening().map_err(Error::new)?;
        // Who ends before all is written has told why, and the rest is of no use.
        let tell = async {
            let _ = input.write_all(orders).await;
            drop(input);
            std::future::pending::<()>().await;
        };
        // Whichever comes first; which one it was is seen by the cancellation.
        let stop = async {
            tokio::select! { () = cx.cancel.cancelled() => {}, () = tokio::time::sleep(LIMIT) => {} }
        };
        let finished = tokio::select! {
            finished = running.wait_with(stop, cx.cancel.interrupted(), Signal::TERM, Some(GRACE)) => finished,
            () = tell => return Err(Error::new("debconf was told all, and more")),
        };
        let finished =
            finished.map_err(|error| Error::new(format_args!("cannot run {}: {error}", self.path)))?;
        if matches!(finished.status, Status::Cancelled | Status::Interrupted) {
            cx.checkpoint()?;
            return Err(Error::new(format_args!(
                "{} took longer than {} seconds",
                self.path,
                LIMIT.as_secs()
            )));
        }
        match finished.status.success() {
            true => Ok(()),
            false => Err(self.failure(&finished)),
        }
    }

    /// Only its errors are told: what it was told may be a secret, and so may be what it answers.
    fn failure(&self, finished: &Finished) -> Error {
        let said = String::from_utf8_lossy(&finished.stderr.bytes);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        let is_locked = said.contains("is locked by another process");
        let failed = Error::new(format_args!("{}: {}: {last}", self.path, finished.status));
        match is_locked {
            true => failed.with_hint("a package is being configured; this is tried again"),
            false => failed,
        }
    }
}
