//! What outlives a run: a file with the password, or with an empty line if it is not to be saved, and one with its hash.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mgmt_resource::{Error, Result, ResultExt};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
use mgmt_value::{Secret, Str};

use super::Secrets;

/// The files. The first is written last, as it is what keeps another password from being made.
pub(super) const FILES: [&str; 2] = ["password", "hash"];
const PASSWORD: &[u8] = b"password";
const HASH: &[u8] = b"hash";
/// The checksums of both, a line each, and those of the files before them: a killed process leaves files of either.
/// Earlier versions have written none.
const CHECKSUM: &[u8] = b"checksum";

/// Longer files were never written.
const LONGEST: u64 = 1 << 17;

/// What the files hold, without white space around it. Nothing for a file that is not there.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) password: Option<Secret<Str>>,
    pub(super) hash: Option<Secret<Str>>,
    /// The files are not as they were written.
    pub(super) is_damaged: bool,
}

impl Kept {
    pub(super) fn load(directory: &Path) -> Result<Kept> {
        let parent = match Parent::open_itself(&managed(directory)?) {
            Ok(parent) => parent,
            Err(error) if error.is_not_found() => return Ok(Kept::default()),
            Err(error) => return Err(Error::new(error)),
        };
        let read = |name: &[u8]| match parent.open_regular(name) {
            Ok(file) => {
                let content = Str::new(file.read(LONGEST).map_err(Error::new)?.trim_ascii());
                Ok(Some(Secret::new(content)))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(Error::new(error)),
        };
        // An empty file is as good as none.
        let (password, hash) = (read(PASSWORD)?, read(HASH)?);
        let sums = read(CHECKSUM)?.map(|sums| sums.reveal().to_text().into_owned());
        let sums: Vec<&str> = sums.as_deref().unwrap_or_default().lines().collect();
        let password_sum = password.as_ref().map(|password| checksum(password.reveal()));
        let hash_sum = hash.as_ref().map(|hash| checksum(hash.reveal()));
        // A file that is not there, or that nobody has a checksum of, cannot be told to be damaged.
        let matches = |sum: &Option<String>, expected: &str| sum.as_deref().is_none_or(|sum| sum == expected);
        let is_first = |pair: &&[&str]| pair.first().is_none_or(|expected| matches(&password_sum, expected));
        let is_second = |pair: &&[&str]| pair.get(1).is_none_or(|expected| matches(&hash_sum, expected));
        let password_intact = sums.is_empty() || sums.chunks(2).any(|pair| is_first(&pair));
        // The hash of another password is as good as none.
        let hash_intact = sums.is_empty() || sums.chunks(2).filter(is_first).any(|pair| is_second(&pair));
        let has_password = password.as_ref().is_some_and(|password| !password.reveal().is_empty());
        // A hash can be made again of a password that is intact.
        let is_damaged = !password_intact || !hash_intact && !has_password;
        let hash = hash.filter(|hash| hash_intact && hash.reveal().starts_with(b"$"));
        Ok(Kept { password, hash, is_damaged })
    }

    /// Sets damaged files aside.
    pub(super) fn set_aside(directory: &Path) {
        for name in FILES {
            let path = directory.join(name);
            if path.exists() {
                let said = mgmt_sys::aside::set_aside_and_describe(&path, "its checksum does not match");
                tracing::error!("{said}; lost: a password that was made here");
            }
        }
    }

    pub(super) fn store(
        secrets: &Secrets,
        saved: bool,
        directory: &Path,
        durability: Durability,
    ) -> Result<()> {
        let parent = make(directory)?;
        let password = secrets.password.as_ref().filter(|_| saved);
        let bytes =
            |secret: Option<&Secret<Str>>| secret.map(|secret| secret.reveal().clone()).unwrap_or_default();
        let (password, hash) = (bytes(password), bytes(secrets.hash.as_ref()));
        let mut sums = sums_of(&password, &hash);
        // Until the last of the files is replaced, the ones before it are as good.
        if let Some(before) = Kept::load(directory)?.intact() {
            sums = format!("{sums}\n{before}");
        }
        let sums = Str::from(sums);
        for (name, content) in [(CHECKSUM, &sums), (HASH, &hash), (PASSWORD, &password)] {
            let write = || {
                let mut new = Replacement::begin(&parent, name, InPlace::Refuse)?;
                new.write_all(content.as_bytes())?;
                new.write_all(b"\n")?;
                let attributes = Attributes { mode: Some(0o600), ..Attributes::default() };
                new.commit(&attributes, Expect::Anything, durability)
            };
            write().map_err(Error::new)?;
        }
        Ok(())
    }

    /// The checksums of files that are there and not damaged.
    fn intact(&self) -> Option<String> {
        let password = self.password.as_ref().filter(|_| !self.is_damaged)?;
        let hash = self.hash.as_ref().map(|hash| hash.reveal().clone()).unwrap_or_default();
        Some(sums_of(password.reveal(), &hash))
    }

    /// What is to be sent of it.
    pub(super) fn secrets(&self) -> Secrets {
        Secrets {
            password: self.password.clone().filter(|password| !password.reveal().is_empty()),
            hash: self.hash.clone(),
        }
    }
}

fn sums_of(password: &Str, hash: &Str) -> String {
    format!("{}\n{}", checksum(password), checksum(hash))
}

fn checksum(content: &Str) -> String {
    format!("{:016x}", mgmt_sys::aside::checksum(content.as_bytes()))
}

fn managed(directory: &Path) -> Result<ManagedPath> {
    ManagedPath::new(directory.as_os_str().as_bytes()).context("the state directory")
}

/// Opens the state directory of the resource, and makes it if need be.
fn make(directory: &Path) -> Result<Parent> {
    let path = managed(directory)?;
    let name = path.file_name().ok_or_else(|| Error::new("the state directory cannot be the root"))?;
    let above = Parent::open_or_create(&path).map_err(Error::new)?;
    let attributes = Attributes { mode: Some(0o700), ..Attributes::default() };
    match above.make_directory(name, &attributes) {
        Ok(made) => Ok(made),
        Err(error) if error.is_exists() => above.open_dir(name).map_err(Error::new),
        Err(error) => Err(Error::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(password: &str, hash: &str) -> Secrets {
        Secrets { password: Some(Secret::from(password)), hash: Some(Secret::from(hash)) }
    }

    fn store(directory: &Path, secrets: &Secrets) {
        Kept::store(secrets, true, directory, Durability::None).unwrap();
    }

    /// Whether it is damaged, with the password and the hash.
    fn load(directory: &Path) -> (bool, Option<String>, Option<String>) {
        let kept = Kept::load(directory).unwrap();
        let text = |secret: &Option<Secret<Str>>| {
            secret.as_ref().map(|secret| secret.reveal().to_text().into_owned())
        };
        (kept.is_damaged, text(&kept.password), text(&kept.hash))
    }

    #[test]
    fn a_kill_between_the_files_damages_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let some = |text: &str| Some(text.to_owned());
        store(&state, &secrets("old", "$old"));
        let before = FILES.map(|name| (state.join(name), std::fs::read(state.join(name)).unwrap()));
        store(&state, &secrets("new", "$new"));
        assert_eq!(load(&state), (false, some("new"), some("$new")));
        let [password, hash] = &before;
        std::fs::write(&password.0, &password.1).unwrap();
        assert_eq!(load(&state), (false, some("old"), None), "the hash is that of another password");
        std::fs::write(&hash.0, &hash.1).unwrap();
        assert_eq!(load(&state), (false, some("old"), some("$old")));
        std::fs::write(&password.0, "other\n").unwrap();
        assert!(load(&state).0);
    }
}
