//! A hub, a sink that remembers, and a directory to play in.
#![allow(dead_code, reason = "each test file uses its part of it")]
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use mgmt_watch::{Change, FileHub, FileHubOptions, Notice, Sink, SubscriptionId, Token, WatchPath};
use tempfile::TempDir;

/// How long an event may take before a test gives up. Nothing is ever this slow.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

const MARKER: Token = Token(u64::MAX);

#[derive(Default)]
pub(crate) struct Memory {
    heard: Mutex<Heard>,
    changed: Condvar,
}

#[derive(Default)]
struct Heard {
    tokens: HashMap<Token, u64>,
    created: HashMap<Token, u64>,
    notices: Vec<Notice>,
}

impl Sink for Memory {
    fn changed(&self, token: Token) {
        *self.heard.lock().unwrap().tokens.entry(token).or_default() += 1;
        self.changed.notify_all();
    }

    fn changes(&self, changes: &[(Token, Change)]) {
        for (token, _) in changes.iter().filter(|(_, change)| *change == Change::Created) {
            *self.heard.lock().unwrap().created.entry(*token).or_default() += 1;
        }
        changes.iter().for_each(|(token, _)| self.changed(*token));
    }

    fn notice(&self, notice: Notice) {
        self.heard.lock().unwrap().notices.push(notice);
        self.changed.notify_all();
    }
}

impl Memory {
    fn wait(&self, mut done: impl FnMut(&Heard) -> bool) -> bool {
        let start = Instant::now();
        let mut heard = self.heard.lock().unwrap();
        while !done(&heard) {
            let Some(left) = EVENT_TIMEOUT.checked_sub(start.elapsed()) else { return false };
            heard = self.changed.wait_timeout(heard, left).unwrap().0;
        }
        true
    }
}

pub(crate) struct TestEnv {
    root: TempDir,
    marker: TempDir,
    pub memory: Arc<Memory>,
    pub hub: FileHub,
}

impl TestEnv {
    pub(crate) fn new() -> TestEnv {
        TestEnv::with_options(FileHubOptions::default())
    }

    pub(crate) fn with_options(options: FileHubOptions) -> TestEnv {
        TestEnv::in_directory(&std::env::temp_dir(), options)
    }

    /// In memory where possible, for tests that make very many directories.
    pub(crate) fn in_memory(options: FileHubOptions) -> TestEnv {
        let shared_memory = Path::new("/dev/shm");
        match tempfile::tempdir_in(shared_memory) {
            Ok(_) => TestEnv::in_directory(shared_memory, options),
            Err(_) => TestEnv::with_options(options),
        }
    }

    fn in_directory(directory: &Path, options: FileHubOptions) -> TestEnv {
        let memory = Arc::new(Memory::default());
        let hub = FileHub::with_options(Arc::clone(&memory) as Arc<dyn Sink>, options).unwrap();
        let root = tempfile::tempdir_in(directory).unwrap();
        let marker = tempfile::tempdir_in(directory).unwrap();
        hub.subscribe(MARKER, &WatchPath::new(marker.path().join("marker"), false).unwrap());
        TestEnv { root, marker, memory, hub }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn marker_path(&self) -> PathBuf {
        self.marker.path().join("marker")
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    pub(crate) fn watch(&self, token: u64, below: &str) -> SubscriptionId {
        self.hub.subscribe(Token(token), &WatchPath::new(self.path(below), false).unwrap())
    }

    pub(crate) fn watch_tree(&self, token: u64, below: &str) -> SubscriptionId {
        self.hub.subscribe(Token(token), &WatchPath::new(self.path(below), true).unwrap())
    }

    pub(crate) fn mkdir(&self, below: &str) {
        std::fs::create_dir_all(self.path(below)).unwrap();
    }

    pub(crate) fn write(&self, below: &str, text: &str) {
        std::fs::write(self.path(below), text).unwrap();
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.path(from), self.path(to)).unwrap();
    }

    pub(crate) fn link(&self, target: &str, below: &str) {
        std::os::unix::fs::symlink(target, self.path(below)).unwrap();
    }

    /// Turns a link the way `ln -sfn` does.
    pub(crate) fn relink(&self, target: &str, below: &str) {
        self.link(target, "relink.tmp");
        self.rename("relink.tmp", below);
    }

    pub(crate) fn count(&self, token: u64) -> u64 {
        self.memory.heard.lock().unwrap().tokens.get(&Token(token)).copied().unwrap_or(0)
    }

    /// How often a token was told of a creation and of nothing else.
    pub(crate) fn created(&self, token: u64) -> u64 {
        self.memory.heard.lock().unwrap().created.get(&Token(token)).copied().unwrap_or(0)
    }

    pub(crate) fn notices(&self) -> Vec<Notice> {
        self.memory.heard.lock().unwrap().notices.clone()
    }

    pub(crate) fn await_notice(&self, wanted: impl Fn(&Notice) -> bool) {
        assert!(self.memory.wait(|heard| heard.notices.iter().any(&wanted)), "{:?}", self.notices());
    }

    /// Returns when everything that happened before has been reported.
    ///
    /// Two markers: reports of one batch come in any order, so only the second proves that the batch of the
    /// first is through.
    pub(crate) fn quiesce(&self) {
        for _ in 0..2 {
            let before = self.count(MARKER.0);
            std::fs::write(self.marker_path(), "m").unwrap();
            assert!(self.memory.wait(|heard| heard.tokens.get(&MARKER).is_some_and(|&now| now > before)));
        }
    }

    /// The action is reported to each of the tokens.
    #[track_caller]
    pub(crate) fn expect(&self, tokens: &[u64], what: &str, action: impl FnOnce(&TestEnv)) {
        self.quiesce();
        let before: Vec<u64> = tokens.iter().map(|&token| self.count(token)).collect();
        action(self);
        for (&token, before) in tokens.iter().zip(before) {
            let told =
                self.memory.wait(|heard| heard.tokens.get(&Token(token)).is_some_and(|&now| now > before));
            assert!(told, "{what}: {token} was not told");
        }
        self.quiesce();
        self.hub.check_invariants();
    }

    /// The action is reported to none of the tokens.
    #[track_caller]
    pub(crate) fn expect_silence(&self, tokens: &[u64], what: &str, action: impl FnOnce(&TestEnv)) {
        self.quiesce();
        let before: Vec<u64> = tokens.iter().map(|&token| self.count(token)).collect();
        action(self);
        self.quiesce();
        for (&token, before) in tokens.iter().zip(before) {
            assert_eq!(self.count(token), before, "{what}: {token} was told");
        }
        self.hub.check_invariants();
    }
}

const INSIDE: &str = "WATCH_TEST_INSIDE";

/// Whether this process was started by [`run_inside`]. The ignored tests do nothing otherwise: they would mount
/// and count on the machine itself.
pub(crate) fn inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs an ignored test of this very binary in a shell line where `$TEST` is the way to run it.
///
/// Gives its output if it passed; panics with it otherwise.
pub(crate) fn run_inside(shell_line: &str, test: &str) -> String {
    run_binary(&std::env::current_exe().unwrap(), shell_line, test)
}

/// The same with a copy of the binary that any user can reach, in a directory that any user can write to.
pub(crate) fn run_inside_as_anybody(shell_line: &str, test: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let binary = directory.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let line = format!("export TMPDIR='{}'; cd /; {shell_line}", directory.path().display());
    run_binary(&binary, &line, test)
}

fn run_binary(binary: &Path, shell_line: &str, test: &str) -> String {
    let test = mgmt_test_support::current_test::sibling(test);
    let run = format!("'{}' --exact '{test}' --ignored --nocapture --test-threads=1", binary.display());
    let output = std::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(shell_line.replace("$TEST", &run))
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{shell_line}: {text}");
    text
}
