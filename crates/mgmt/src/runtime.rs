//! The runtime in which everything waits.

use std::os::fd::{AsFd, OwnedFd};

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// How many descriptors a runtime opens before it can say that one is missing.
const DESCRIPTORS: usize = 6;

/// Starts one, with as many threads as there are processors or as are given.
pub(crate) fn start(threads: Option<usize>) -> Result<Runtime, Failure> {
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot start: {error}"));
    has_room().map_err(cannot)?;
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.enable_all().build().map_err(cannot)
}

/// Fails if there are too few descriptors left. The part of the runtime that waits for signals panics then, so that it has to
/// be asked before.
fn has_room() -> std::io::Result<()> {
    let all: Result<Vec<OwnedFd>, _> =
        (0..DESCRIPTORS).map(|_| std::io::stderr().as_fd().try_clone_to_owned()).collect();
    all.map(drop)
}
