//! A host to install packages on: a view of this machine on which every change is thrown away, with a package source of
//! the test's own and no other.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::sandbox::{self, Sandbox};
use sha2::{Digest, Sha256};

/// Hosts that were booted for a test are thrown away, too.
const BOOTED: &str = "MGMT_TEST_BOOTED";

/// True in a sandbox. Outside, runs the test `name` again inside one and is false.
#[track_caller]
pub fn in_sandbox(name: &str) -> bool {
    let sources = "etc/apt/sources.list etc/apt/sources.list.d etc/apt/preferences.d/* var/lib/apt/lists/*";
    Sandbox { prepare: &format!("rm -rf {sources}"), ..Sandbox::default() }.is_around(name)
}

/// A package source in a directory.
pub struct PackageSource {
    directory: PathBuf,
    index: String,
    /// Whether it says that it can be trusted; it is signed by nobody.
    trusted: bool,
}

/// A package that is to be published. It has a program of its own name.
#[derive(Clone, Default)]
pub struct Package<'a> {
    /// The package name.
    pub name: &'a str,
    /// The version, with epoch and revision if it has them.
    pub version: &'a str,
    /// More lines of its control file.
    pub control: &'a str,
    /// Files beyond the program, with their content.
    pub files: &'a [(&'a str, &'a str)],
    /// Which of them are configuration files, a line each.
    pub conffiles: &'a str,
    /// A script that runs at the end of the installation.
    pub postinst: &'a str,
    /// The part of the distribution that it says to belong to.
    pub section: &'a str,
}

impl<'a> Package<'a> {
    /// A package with nothing but its program.
    pub fn new(name: &'a str, version: &'a str) -> Package<'a> {
        Package { name, version, section: "misc", ..Package::default() }
    }
}

impl PackageSource {
    /// The only package source of the sandbox. Its lists have not been fetched.
    #[allow(clippy::new_without_default, reason = "it makes a directory, and only one can be there")]
    pub fn new() -> PackageSource {
        let is_thrown_away = sandbox::is_inside() || std::env::var_os(BOOTED).is_some();
        assert!(is_thrown_away, "packages are only installed in a sandbox");
        let directory = PathBuf::from("/mgmt-test-source");
        fs::create_dir(&directory).unwrap();
        let source = PackageSource { directory, index: String::new(), trusted: true };
        source.declare();
        source
    }

    /// Declares the source trusted, or not.
    pub fn trusted(&mut self, trusted: bool) {
        self.trusted = trusted;
        self.declare();
    }

    fn declare(&self) {
        let options = if self.trusted { "[trusted=yes] " } else { "" };
        let line = format!("deb {options}file:{} ./\n", self.directory.display());
        fs::write("/etc/apt/sources.list", line).unwrap();
    }

    /// Adds a package to the source; what was published before stays.
    pub fn publish(&mut self, package: &Package<'_>) {
        let Package { name, version, .. } = package;
        let tree = tempfile::tempdir().unwrap();
        fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let put = |path: &str, content: &str, mode: u32| {
            let path = tree.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Tests <tests@example.com>\n\
             Section: {}\nPriority: optional\n{}Description: made for tests\n",
            package.section, package.control
        );
        put("DEBIAN/control", &control, 0o644);
        if !package.conffiles.is_empty() {
            put("DEBIAN/conffiles", package.conffiles, 0o644);
        }
        if !package.postinst.is_empty() {
            put("DEBIAN/postinst", &format!("#!/bin/sh\nset -e\n{}\n", package.postinst), 0o755);
        }
        put(&format!("usr/bin/{name}"), &format!("#!/bin/sh\necho {name} {version}\n"), 0o755);
        for (path, content) in package.files {
            put(path, content, 0o644);
        }
        let file = format!("{name}_{}.deb", version.replace(':', "%3a"));
        let archive = self.directory.join(&file);
        run("dpkg-deb", &["--root-owner-group", "-Znone", "--build", text(tree.path()), text(&archive)]);
        let bytes = fs::read(&archive).unwrap();
        let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let size = bytes.len();
        writeln!(self.index, "{control}Filename: ./{file}\nSize: {size}\nSHA256: {digest}\n").unwrap();
        fs::write(self.directory.join("Packages"), &self.index).unwrap();
    }
}

/// Runs a program that must succeed, and gives what it says.
#[track_caller]
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program to its end; it may fail.
pub fn output(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).env("DEBIAN_FRONTEND", "noninteractive").output();
    output.unwrap_or_else(|error| panic!("this test needs {program}: {error}"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What `dpkg` itself says of a package: how far it is, and in which version.
pub fn package_state(name: &str) -> String {
    let output = output("dpkg-query", &["--show", "--showformat=${db:Status-Status} ${Version}", name]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// How many times `apt` has changed packages.
pub fn transactions() -> usize {
    let log = fs::read_to_string("/var/log/apt/history.log").unwrap_or_default();
    log.lines().filter(|line| line.starts_with("Start-Date:")).count()
}

/// Everything that package tools could have changed, with size and time of the last change. Inode numbers do not count: on an overlay file
/// system a file or directory has another one once the kernel has forgotten it.
pub fn snapshot() -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut seen = BTreeMap::new();
    let mut pending: Vec<PathBuf> =
        ["/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/log/apt", "/etc/apt", "/usr/bin"]
            .map(PathBuf::from)
            .into();
    while let Some(path) = pending.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen.insert(path, (found.size(), found.ctime(), found.ctime_nsec()));
    }
    seen
}

/// The package tools that run.
pub fn tools() -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let tools = processes.filter_map(|process| {
        let comm = fs::read_to_string(process.path().join("comm")).ok()?;
        let state = fs::read_to_string(process.path().join("stat")).ok()?;
        // A zombie is gone, and only waits to be buried.
        let gone = state.rsplit(')').next()?.trim_start().starts_with('Z');
        let tool = ["apt", "dpkg", "postinst", "sleep"].iter().any(|tool| comm.contains(tool));
        (tool && !gone).then(|| comm.trim().to_owned())
    });
    tools.collect()
}
