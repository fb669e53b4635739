//! Files of the kernel that tell when what they show changes.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The name of the host.
pub(super) const HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// What is mounted, as this process sees it.
pub(super) const MOUNTS: &str = "/proc/self/mountinfo";

/// The open file. The kernel compares with what this very file has heard of last.
#[derive(Debug)]
pub(super) struct PolledFile(AsyncFd<OwnedFd>);

impl PolledFile {
    pub(super) fn open(path: &str) -> io::Result<PolledFile> {
        // It can always be read; that something is urgent is said once per change.
        Ok(PolledFile(super::waiting(File::open(path)?.into(), Interest::PRIORITY)?))
    }

    /// Waits for the next change.
    pub(super) async fn changed(&self) -> io::Result<()> {
        self.0.ready(Interest::PRIORITY).await?.clear_ready();
        Ok(())
    }
}
