//! The file that holds the name of the host, which tells when the name changes.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const PATH: &str = "/proc/sys/kernel/hostname";

/// The open file. The kernel compares with what this very file has heard of last.
#[derive(Debug)]
pub(super) struct HostnameFile(AsyncFd<OwnedFd>);

impl HostnameFile {
    pub(super) fn open() -> io::Result<HostnameFile> {
        // It can always be read; that something is urgent is said once per change.
        Ok(HostnameFile(super::waiting(File::open(PATH)?.into(), Interest::PRIORITY)?))
    }

    /// Waits for the next change.
    pub(super) async fn changed(&self) -> io::Result<()> {
        self.0.ready(Interest::PRIORITY).await?.clear_ready();
        Ok(())
    }
}
