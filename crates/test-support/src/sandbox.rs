//! A view of this machine on which every change is thrown away, and in which a test runs again.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{current_test, program};

/// Is set inside.
const MARK: &str = "MGMT_TEST_SANDBOX";

/// Mounts an empty file system of memory, this machine's files below it, and runs a program there. Everything goes away
/// with the last process.
const SCRIPT: &str = r#"
set -e
place=$1 program=$2 prepare=$3 own=$4 other=$5
shift 5
mount -t tmpfs tmpfs "$place"
mkdir "$place/upper" "$place/work" "$place/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$place/root"
cd "$place/root"
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount --rbind /dev dev
touch mgmt-test-program
mount --bind "$program" mgmt-test-program
if [ "$own" ]; then
    touch "./$own"
    mount --bind "$other" "./$own"
fi
eval "$prepare"
exec chroot . /mgmt-test-program "$@"
"#;

/// What it is like inside.
#[derive(Default)]
pub struct Sandbox<'a> {
    /// With a name and a network of its own.
    pub apart: bool,
    /// What a shell does before, in the directory that becomes the root.
    pub prepare: &'a str,
    /// Another file that is to be there, by its path inside and outside.
    pub also: Option<(&'a str, &'a Path)>,
    /// What the test finds in its environment.
    pub environment: &'a [(&'a str, &'a OsStr)],
}

/// This process is inside.
pub fn is_inside() -> bool {
    std::env::var_os(MARK).is_some()
}

impl Sandbox<'_> {
    /// True inside. Outside, runs the test `name` again inside and is false.
    #[track_caller]
    pub fn is_around(&self, name: &str) -> bool {
        is_inside() || {
            self.run(name);
            false
        }
    }

    /// Runs the test `name` again inside; it must succeed.
    #[track_caller]
    pub fn run(&self, name: &str) {
        let output = self.output(name);
        let (out, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("1 passed"), "{out}\n{errors}");
    }

    fn output(&self, name: &str) -> Output {
        // One at a time: they share all their caches, and gain nothing from each other.
        static ONE: Mutex<()> = Mutex::new(());
        let _one: MutexGuard<'_, ()> = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = tempfile::tempdir().unwrap();
        let apart: &[&str] = if self.apart { &["--uts", "--net"] } else { &[] };
        let (own, other) = self.also.unwrap_or(("", Path::new("")));
        Command::new("unshare")
            .args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"])
            .args(apart)
            .args(["--", "sh", "-c", SCRIPT, "sandbox"])
            .arg(place.path())
            .arg(std::env::current_exe().unwrap())
            .args([self.prepare, own])
            .arg(other)
            .args(["--exact", &current_test::sibling(name), "--nocapture"])
            .env(MARK, "1")
            .env(program::BINARY, program::binary())
            .env("TMPDIR", "/tmp")
            .env("HOME", "/root")
            .envs(self.environment.iter().copied())
            .current_dir("/")
            .output()
            .unwrap_or_else(|error| panic!("this test needs unshare: {error}"))
    }
}
