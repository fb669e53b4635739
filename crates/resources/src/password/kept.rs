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

/// Longer files were never written.
const LONGEST: u64 = 1 << 17;

/// What the files hold, without white space around it. Nothing for a file that is not there.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) password: Option<Secret<Str>>,
    pub(super) hash: Option<Secret<Str>>,
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
        let hash = read(HASH)?.filter(|hash| hash.reveal().starts_with(b"$"));
        Ok(Kept { password: read(PASSWORD)?, hash })
    }

    pub(super) fn store(
        secrets: &Secrets,
        saved: bool,
        directory: &Path,
        durability: Durability,
    ) -> Result<()> {
        let parent = make(directory)?;
        let password = secrets.password.as_ref().filter(|_| saved);
        for (name, content) in [(HASH, secrets.hash.as_ref()), (PASSWORD, password)] {
            let content = content.map(|secret| secret.reveal().as_bytes()).unwrap_or_default();
            let write = || {
                let mut new = Replacement::begin(&parent, name, InPlace::Refuse)?;
                new.write_all(content)?;
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
