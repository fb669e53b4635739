//! What the tests on the real file system share.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
use mgmt_sys::{Result, Stat};

/// A directory that goes away with the test.
pub(crate) struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// In memory if there is a place for it, where a race has many more rounds than on a disk.
    pub(crate) fn in_memory() -> Self {
        tempfile::tempdir_in("/dev/shm").map_or_else(|_| Self::new(), |directory| Self { directory })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn at(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path().join(Path::new(name.as_ref()))
    }

    /// The scratch directory itself, as the parent of what is in it.
    pub(crate) fn parent(&self) -> Parent {
        Parent::open_itself(&managed(self.path())).unwrap()
    }

    /// The names of all entries.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.path())
    }
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

pub(crate) fn managed(path: &Path) -> ManagedPath {
    ManagedPath::new(path.as_os_str().as_bytes()).unwrap()
}

pub(crate) const UNDECLARED: Attributes<'static> =
    Attributes { owner: None, group: None, mode: None, label: None };

pub(crate) fn mode(bits: u32) -> Attributes<'static> {
    Attributes { mode: Some(bits), ..UNDECLARED }
}

/// Replaces `name` in the scratch directory without waiting for the disk.
pub(crate) fn replace(
    parent: &Parent,
    name: &str,
    content: &[u8],
    declared: &Attributes<'_>,
    expect: Expect,
) -> Result<Stat> {
    let mut new = Replacement::begin(parent, name.as_bytes(), InPlace::Refuse)?;
    new.write_all(content)?;
    new.commit(declared, expect, Durability::None)
}

/// Runs a command that must succeed.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&OsStr]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// True inside a mount namespace of its own. Outside, runs the test `name` again inside one and is false.
#[track_caller]
pub(crate) fn in_private_mounts(name: &str) -> bool {
    again_inside("MGMT_TEST_PRIVATE_MOUNTS", name, "unshare", &["--mount", "--propagation", "private", "--"])
}

/// True as a user without any rights. Outside, runs the test `name` again as such a user and is false.
#[track_caller]
pub(crate) fn as_nobody(name: &str) -> bool {
    let arguments = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    again_inside("MGMT_TEST_NOBODY", name, "setpriv", &arguments)
}

#[track_caller]
fn again_inside(mark: &str, name: &str, program: &str, arguments: &[&str]) -> bool {
    if std::env::var_os(mark).is_some() {
        return true;
    }
    // A copy, because the other user may not be able to reach the build directory.
    let place = Scratch::new();
    run("chmod", &[OsStr::new("755"), place.path().as_os_str()]);
    let program_copy = place.at("test");
    // By another process: a program that we hold open for writing, if only in a child about to start, cannot be run.
    run("cp", &[std::env::current_exe().unwrap().as_os_str(), program_copy.as_os_str()]);
    let output = Command::new(program)
        .args(arguments)
        .arg(&program_copy)
        .args(["--exact", &mgmt_test_support::current_test::sibling(name), "--nocapture"])
        .env(mark, "1")
        .env("TMPDIR", "/tmp")
        .output()
        .unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "inside {program}:\n{text}\n{complaints}");
    assert!(text.contains("1 passed"), "{program} ran no test called {name}:\n{text}\n{complaints}");
    false
}
