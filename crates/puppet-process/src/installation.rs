//! Which Ruby is Puppet's.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mgmt_sys::process::find_program;

/// Where Puppet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The command `puppet`.
    pub puppet: PathBuf,
    /// The Ruby that has Puppet's library.
    pub ruby: PathBuf,
}

/// There is no Puppet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Puppet is not installed: {why}")]
pub struct Missing {
    why: String,
}

impl Missing {
    /// What to do about it.
    pub const HINT: &'static str =
        "install Puppet 7 or later: the package `puppet-agent` on Debian and its kin, `puppet` elsewhere";
}

/// Where the packages of Puppet's makers put it, which is seldom in the `PATH` of a service.
const VENDOR: &str = "/opt/puppetlabs/bin/puppet";

impl Installation {
    /// Looks for it in this process's `PATH`, and where its makers put it.
    pub fn find() -> Result<Installation, Missing> {
        Installation::find_in(&std::env::var_os("PATH").unwrap_or_default())
    }

    /// Looks for it in these directories, and where its makers put it.
    pub fn find_in(path: &OsStr) -> Result<Installation, Missing> {
        let vendor = || Some(PathBuf::from(VENDOR)).filter(|puppet| puppet.is_file());
        let puppet = find_program(OsStr::new("puppet"), path)
            .or_else(vendor)
            .ok_or_else(|| Missing { why: "there is no command `puppet` in PATH".to_owned() })?;
        let ruby = ruby_of(&puppet, path).ok_or_else(|| Missing {
            why: format!("{} is there, but no Ruby to run it with", puppet.display()),
        })?;
        Ok(Installation { puppet, ruby })
    }
}

/// The interpreter that the command names; the Ruby beside it, or beside what a wrapper runs; or any.
fn ruby_of(puppet: &Path, path: &OsStr) -> Option<PathBuf> {
    if let Some(interpreter) = interpreter(puppet, path) {
        return Some(interpreter);
    }
    let real = puppet.canonicalize().unwrap_or_else(|_| puppet.to_owned());
    let beside = real.parent().map(|directory| directory.join("ruby"));
    // The wrapper in `bin/` runs the real program in `puppet/bin/`.
    let inner = real.parent().and_then(Path::parent).map(|root| root.join("puppet/bin/ruby"));
    [beside, inner]
        .into_iter()
        .flatten()
        .find(|ruby| ruby.is_file())
        .or_else(|| find_program(OsStr::new("ruby"), path))
}

/// The Ruby in the first line of a script.
fn interpreter(script: &Path, path: &OsStr) -> Option<PathBuf> {
    let mut head = Vec::new();
    std::fs::File::open(script).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let program = words.next()?;
    let name = |word: &[u8]| word.rsplit(|&byte| byte == b'/').next().map(<[u8]>::to_vec);
    if name(program)?.starts_with(b"ruby") {
        return Some(PathBuf::from(OsString::from(OsStr::from_bytes(program)))).filter(|ruby| ruby.is_file());
    }
    let named = words
        .next()
        .filter(|word| name(program).is_some_and(|name| name == b"env") && word.starts_with(b"ruby"))?;
    find_program(OsStr::from_bytes(named), path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn program(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_interpreter_of_the_command_wins() {
        let place = tempfile::tempdir().unwrap();
        let (puppet, ruby) = (place.path().join("bin/puppet"), place.path().join("other/ruby3.1"));
        program(&ruby, "");
        program(&puppet, &format!("#!{} -w\nputs 1\n", ruby.display()));
        program(&place.path().join("bin/ruby"), "");
        let found = Installation::find_in(place.path().join("bin").as_os_str()).unwrap();
        assert_eq!(found, Installation { puppet, ruby });
    }

    #[test]
    fn a_wrapper_leads_to_the_ruby_of_what_it_runs() {
        let place = tempfile::tempdir().unwrap();
        program(&place.path().join("bin/puppet"), "#!/bin/sh\nexec ../puppet/bin/puppet\n");
        program(&place.path().join("puppet/bin/ruby"), "");
        let found = Installation::find_in(place.path().join("bin").as_os_str()).unwrap();
        assert_eq!(found.ruby, place.path().canonicalize().unwrap().join("puppet/bin/ruby"));
    }

    #[test]
    fn env_is_asked_for_ruby() {
        let place = tempfile::tempdir().unwrap();
        program(&place.path().join("puppet"), "#!/usr/bin/env ruby\n");
        program(&place.path().join("ruby"), "");
        let found = Installation::find_in(place.path().as_os_str()).unwrap();
        assert_eq!(found.ruby, place.path().join("ruby"));
    }

    #[test]
    fn no_puppet_is_told() {
        if Path::new(VENDOR).exists() {
            return;
        }
        let error = Installation::find_in(OsStr::new("/nonexistent")).unwrap_err();
        assert!(error.to_string().contains("no command `puppet`"));
    }
}
