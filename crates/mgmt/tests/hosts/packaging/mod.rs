//! Packages of the program as it was built for the tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use mgmt_release::{Inventory, Release, Tree, product};

/// The time of everything in them.
pub(crate) const EPOCH: u64 = 1_763_251_200;

/// The program without what only a debugger reads, which makes it a tenth of its size.
pub(crate) fn stripped(place: &Path) -> PathBuf {
    let binary = place.join("mgmt");
    let status =
        Command::new("strip").arg("-o").arg(&binary).arg(env!("CARGO_BIN_EXE_mgmt")).status().unwrap();
    assert!(status.success());
    binary
}

pub(crate) fn tree(binary: &Path, release: &Release) -> Tree {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let inventory = Inventory::of(&workspace, "x86_64-unknown-linux-gnu").unwrap();
    product::tree(binary, &inventory, release).unwrap()
}
