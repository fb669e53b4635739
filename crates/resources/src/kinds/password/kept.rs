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
pub(super) const FILES: &[&str] = &["password", "hash"];
const PASSWORD: &[u8] = b"password";
const HASH: &[u8] = b"hash";
/// A checksum of both. Earlier versions have written none.
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
        let mut sums = sums.as_deref().unwrap_or_default().lines();
        // A file that is not there, or that nobody has a checksum of, cannot be told to be damaged.
        let mut is_intact = |content: &Option<Secret<Str>>| match (content, sums.next()) {
            (Some(content), Some(sum)) => sum == checksum(content.reveal()),
            _ => true,
        };
        let (password_intact, hash_intact) = (is_intact(&password), is_intact(&hash));
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
        let sums = Str::from(format!("{}\n{}", checksum(&password), checksum(&hash)));
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

    /// What is to be sent of it.
    pub(super) fn secrets(&self) -> Secrets {
        Secrets {
            password: self.password.clone().filter(|password| !password.reveal().is_empty()),
            hash: self.hash.clone(),
        }
    }
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
