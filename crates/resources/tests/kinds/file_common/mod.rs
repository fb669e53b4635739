//! A world for `file` resources: a scratch directory, a host, and checks of the promises that hold for every run.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::{Arc, RwLock};
use std::task::{Poll, Waker};

use mgmt_resource::{Cancel, Checked, Context, Error, GraphView, Host, Id, Kind, Meta, Received, Resource};
use mgmt_resources::file::{File, Memory};
use mgmt_state::LocalState;
use mgmt_sys::process::Helper;
use mgmt_sys::replace::{Durability, is_temporary};
use mgmt_value::Str;

/// The name of the resource under test.
pub(crate) const NAME: &str = "/name/is/not/the/path";

pub(crate) struct TestEnv {
    directory: tempfile::TempDir,
    pub(crate) host: Host,
}

impl TestEnv {
    pub(crate) fn new() -> TestEnv {
        TestEnv::within(tempfile::tempdir().unwrap())
    }

    /// In memory if there is a place for it, where a race has many more rounds than on a disk.
    pub(crate) fn in_memory() -> TestEnv {
        TestEnv::within(tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap()))
    }

    fn within(directory: tempfile::TempDir) -> TestEnv {
        std::fs::create_dir(directory.path().join("scratch")).unwrap();
        let local = LocalState::open_with(directory.path().join("local"), Durability::None).unwrap();
        let host = Host {
            hostname: "host.example.com".to_owned(),
            program: "mgmt".to_owned(),
            version: "0".to_owned(),
            state: directory.path().join("state"),
            local: Arc::new(local),
            shared: Arc::new(mgmt_store::SharedState::in_memory("host.example.com").unwrap()),
            helper: Helper::this_program(),
            durability: Durability::None,
            view: RwLock::default(),
            exit: tokio::sync::watch::Sender::new(None),
            program_files: tokio::sync::watch::Sender::new(None),
            ends_after: None,
            incomplete: Default::default(),
        };
        TestEnv { directory, host }
    }

    /// Lets other users into the scratch directory.
    pub(crate) fn open_to_all(&self) {
        for path in [self.directory.path().to_owned(), self.at("")] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    pub(crate) fn at(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.directory.path().join("scratch").join(Path::new(name.as_ref()))
    }

    /// The absolute path of a name, which keeps its trailing slash.
    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> Str {
        self.at(name).as_os_str().as_bytes().into()
    }

    /// A resource for this path that does nothing yet.
    pub(crate) fn file(&self, name: impl AsRef<OsStr>) -> File {
        File { path: self.path(name), ..File::default() }
    }

    pub(crate) fn exists(&self, name: impl AsRef<OsStr>) -> File {
        File { state: "exists".into(), ..self.file(name) }
    }

    pub(crate) fn absent(&self, name: impl AsRef<OsStr>) -> File {
        File { state: "absent".into(), ..self.file(name) }
    }

    pub(crate) fn content(&self, name: impl AsRef<OsStr>, content: impl AsRef<[u8]>) -> File {
        File { content: Some(Str::new(content)), ..self.exists(name) }
    }

    pub(crate) fn write(&self, name: impl AsRef<OsStr>, content: impl AsRef<[u8]>) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: impl AsRef<OsStr>) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap()
    }

    pub(crate) fn link(&self, name: impl AsRef<OsStr>, text: impl AsRef<OsStr>) {
        std::os::unix::fs::symlink(Path::new(text.as_ref()), self.at(name)).unwrap();
    }

    pub(crate) fn mode(&self, name: impl AsRef<OsStr>) -> u32 {
        self.at(name).symlink_metadata().unwrap().mode() & 0o7777
    }

    pub(crate) fn owner(&self, name: impl AsRef<OsStr>) -> (u32, u32) {
        let metadata = self.at(name).symlink_metadata().unwrap();
        (metadata.uid(), metadata.gid())
    }

    pub(crate) fn set_mode(&self, name: impl AsRef<OsStr>, mode: u32) {
        std::fs::set_permissions(self.at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn set_owner(&self, name: impl AsRef<OsStr>, uid: u32, gid: u32) {
        std::os::unix::fs::lchown(self.at(name), Some(uid), Some(gid)).unwrap();
    }

    pub(crate) fn is_there(&self, name: impl AsRef<OsStr>) -> bool {
        self.at(name).symlink_metadata().is_ok()
    }

    pub(crate) fn fifo(&self, name: impl AsRef<OsStr>) {
        run("mkfifo", &[self.at(name).as_os_str()]);
    }

    /// Names of a directory, sorted.
    pub(crate) fn names(&self, name: impl AsRef<OsStr>) -> Vec<String> {
        let entries = std::fs::read_dir(self.at(name)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Puts resources into the running graph, for those that ask about others.
    pub(crate) fn graph(&self, resources: &[(&str, File)]) {
        let file = |(name, file): &(&str, File)| {
            (Id::new("file", *name), Box::new(file.clone()) as Box<dyn Resource>)
        };
        self.graph_of(resources.iter().map(file).collect());
    }

    /// The same with resources of any kind.
    pub(crate) fn graph_of(&self, resources: Vec<(Id, Box<dyn Resource>)>) {
        struct View(Vec<(Id, Box<dyn Resource>)>);
        impl GraphView for View {
            fn each(&self, show: &mut dyn FnMut(&Id, &dyn Resource)) -> bool {
                self.0.iter().for_each(|(id, resource)| show(id, &**resource));
                true
            }
        }
        *self.host.view.write().unwrap() = Some(Arc::new(View(resources)));
    }

    pub(crate) fn run(&self, file: &File, memory: &mut Memory, apply: bool) -> Result<Checked, Error> {
        self.run_receiving(file, memory, apply, &[])
    }

    pub(crate) fn run_receiving(
        &self,
        file: &File,
        memory: &mut Memory,
        apply: bool,
        received: &[Received],
    ) -> Result<Checked, Error> {
        Kind::validate(file, &NAME.into())
            .map_err(|invalid| Error::new(format_args!("invalid: {invalid}")))?;
        let id = Id::new("file", NAME);
        let (meta, cancel) = (Meta::default(), Cancel::default());
        let mut cx = Context {
            id: &id,
            meta: &meta,
            apply,
            refresh: false,
            received,
            cancel: &cancel,
            host: &self.host,
            children: &[],
            sent: None,
            rearm: false,
            effects: Default::default(),
            foreseen: None,
        };
        // Such a kind may block, but must never wait: the first poll is the last.
        let future = pin!(Kind::check_apply(file, memory, &mut cx));
        match future.poll(&mut std::task::Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("a blocking kind must not await"),
        }
    }

    /// A first run that may change things.
    pub(crate) fn apply(&self, file: &File) -> Result<Checked, Error> {
        self.run(file, &mut Memory::default(), true)
    }

    /// A first run that may only look.
    pub(crate) fn look(&self, file: &File) -> Result<Checked, Error> {
        self.run(file, &mut Memory::default(), false)
    }

    /// The state is wrong: looking says so and changes nothing, applying makes it right, and then it stays right.
    #[track_caller]
    pub(crate) fn converges(&self, file: &File) {
        let before = self.snapshot();
        assert_eq!(self.look(file).unwrap(), Checked::Changed, "only looking");
        assert_eq!(self.snapshot(), before, "only looking changed something");
        let mut memory = Memory::default();
        assert_eq!(self.run(file, &mut memory, true).unwrap(), Checked::Changed, "applying");
        self.is_right_with(file, &mut memory);
    }

    /// The state is right, whoever looks, and nothing is touched by looking or applying.
    #[track_caller]
    pub(crate) fn is_right(&self, file: &File) {
        self.is_right_with(file, &mut Memory::default());
    }

    #[track_caller]
    fn is_right_with(&self, file: &File, memory: &mut Memory) {
        let before = self.snapshot();
        assert!(!before.keys().any(|name| is_temporary(base(name))), "a temporary is left");
        assert_eq!(self.look(file).unwrap(), Checked::Right, "looking again");
        assert_eq!(self.apply(file).unwrap(), Checked::Right, "applying again");
        for apply in [false, true, true] {
            assert_eq!(self.run(file, memory, apply).unwrap(), Checked::Right, "running again, {apply}");
        }
        assert_eq!(self.snapshot(), before, "something was touched although all was right");
    }

    /// It cannot be made right, looking and applying say why, and nothing changes.
    #[track_caller]
    pub(crate) fn refuses(&self, file: &File, message: &str, hint: &str) {
        for apply in [false, true] {
            self.refuses_when(file, apply, message, hint);
        }
    }

    #[track_caller]
    pub(crate) fn refuses_when(&self, file: &File, apply: bool, message: &str, hint: &str) {
        let before = self.snapshot();
        let error = self.run(file, &mut Memory::default(), apply).unwrap_err();
        assert!(error.to_string().contains(message), "apply {apply}: {error}");
        assert!(error.hint().unwrap_or_default().contains(hint), "apply {apply}: {:?}", error.hint());
        assert_eq!(self.snapshot(), before, "a refused run changed something");
    }

    /// Everything there is to see of the scratch directory.
    pub(crate) fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        let mut pending = vec![self.at("")];
        while let Some(path) = pending.pop() {
            let metadata = path.symlink_metadata().unwrap();
            let inside = if metadata.is_dir() {
                pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                String::new()
            } else if metadata.is_symlink() {
                format!("{:?}", std::fs::read_link(&path).unwrap())
            } else if metadata.is_file() && metadata.len() < 1 << 20 {
                format!("{:?}", Str::from(std::fs::read(&path).unwrap()))
            } else {
                String::new()
            };
            let facts = (
                metadata.mode(),
                metadata.uid(),
                metadata.gid(),
                metadata.ino(),
                metadata.nlink(),
                metadata.len(),
                (metadata.mtime(), metadata.mtime_nsec()),
                (metadata.ctime(), metadata.ctime_nsec()),
            );
            seen.insert(path, format!("{facts:?} {inside}"));
        }
        seen
    }
}

fn base(path: &Path) -> &[u8] {
    path.file_name().unwrap_or_default().as_bytes()
}

/// Runs a command that must succeed.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&OsStr]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} failed: {errors}");
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
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // A copy, because the other user may not be able to reach the build directory; made by another process, because a
    // program that we hold open for writing, if only in a child about to start, cannot be run.
    let copy = place.path().join("test");
    run("cp", &[std::env::current_exe().unwrap().as_os_str(), copy.as_os_str()]);
    let output = Command::new(program)
        .args(arguments)
        .arg(&copy)
        .args(["--exact", &mgmt_test_support::current_test::sibling(name), "--nocapture"])
        .env(mark, "1")
        .env("TMPDIR", "/tmp")
        .output()
        .unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{errors}");
    false
}
