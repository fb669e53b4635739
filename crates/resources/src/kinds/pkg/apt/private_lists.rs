//! Package lists in a directory of their own, for a plan: those of the host stay as they are.

use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use mgmt_resource::{Error, Result};

/// What `apt` is told besides where the lists are. The hooks of the host are for its own lists.
const CONFIGURATION: &str = "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
                             #clear APT::Update::Post-Invoke-Success;\n#clear APT::Update::Post-Invoke-Stats;\n";

/// A directory for package lists, which is removed when this is dropped.
pub(super) struct PrivateLists(PathBuf);

impl PrivateLists {
    /// An empty one. `apt` downloads as a user of its own, who has to find the way there.
    pub(super) fn new() -> Result<PrivateLists> {
        let parent = std::env::temp_dir();
        let failed = |error: std::io::Error| {
            Error::new(format_args!("cannot make a directory in {}: {error}", parent.display()))
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o711);
        for attempt in 0_u32..100 {
            let path = parent.join(format!("mgmt-lists-{:016x}", RandomState::new().hash_one(attempt)));
            match builder.create(&path) {
                Ok(()) => {
                    let lists = PrivateLists(path);
                    builder
                        .mode(0o755)
                        .recursive(true)
                        .create(lists.0.join("lists/partial"))
                        .map_err(failed)?;
                    std::fs::write(lists.0.join("apt.conf"), CONFIGURATION).map_err(failed)?;
                    return Ok(lists);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(ErrorKind::AlreadyExists.into()))
    }

    /// The options that make a tool use it, and keep nothing of what it computes.
    pub(super) fn options(&self) -> Vec<OsString> {
        let mut lists = OsString::from("Dir::State::lists=");
        lists.push(self.0.join("lists/"));
        let mut configuration = OsString::from("--config-file=");
        configuration.push(self.0.join("apt.conf"));
        let caches = ["Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache="].map(OsString::from);
        let mut options = vec![configuration];
        options.extend([lists].into_iter().chain(caches).flat_map(|option| [OsString::from("-o"), option]));
        options
    }
}

impl Drop for PrivateLists {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(target: "mgmt::resource", "cannot remove {}: {error}", self.0.display());
        }
    }
}
