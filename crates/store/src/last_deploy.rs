//! The last deploy that ran on this host: kept on its disk for the next start, when the newest deploy may not run or the store may
//! not answer.
//!
//! The record names a directory with the files of the deploy, and the digest of each of them. Nothing is used of it unless the
//! record's checksum and all digests match.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mgmt_sys::dir::Parent;
use mgmt_sys::replace::Durability;
use mgmt_sys::{ManagedPath, aside};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::deploy::Deploy;
use crate::tree::Tree;
use mgmt_state::Result;
use mgmt_state::StateDirectory;
use mgmt_state::StateError;
use mgmt_state::record::{self, FORMAT, Record};

/// The name of the record.
const NAME: &str = "last.json";

/// The last deploy that ran on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastDeploy {
    /// Its record, as it was in the store.
    pub deploy: Deploy,
    /// The directory with its files.
    pub directory: PathBuf,
    /// The store that it is of.
    pub store: String,
}

/// The files of a deploy in a directory of this host, by their digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledFiles(BTreeMap<String, InstalledFile>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InstalledFile {
    size: u64,
    sha256: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    executable: bool,
}

impl InstalledFiles {
    /// The digests of all files.
    pub fn of(files: &Tree) -> InstalledFiles {
        let digest = |file: &crate::File| InstalledFile {
            size: file.content.len() as u64,
            sha256: record::sha256(&file.content),
            executable: file.executable,
        };
        InstalledFiles(files.iter().map(|(path, file)| (path.to_owned(), digest(file))).collect())
    }

    /// Why the files in a directory are not these, if they are not.
    pub fn difference(&self, directory: &Path) -> Option<String> {
        self.0.iter().find_map(|(path, expected)| {
            let problem = |reason: String| Some(format!("{}: {reason}", directory.join(path).display()));
            match content(directory, path, expected.size) {
                Ok(found) if record::sha256(&found) == expected.sha256 => None,
                Ok(_) => problem("it has other content than was deployed".to_owned()),
                Err(reason) => problem(reason),
            }
        })
    }
}

/// What a file holds, if it is a regular one of this size.
fn content(directory: &Path, path: &str, size: u64) -> std::result::Result<Vec<u8>, String> {
    let path = ManagedPath::new(directory.join(path).as_os_str().as_encoded_bytes());
    let path = path.map_err(|error| error.to_string())?;
    let parent = Parent::open(&path).map_err(|error| error.to_string())?;
    let file =
        parent.open_regular(path.file_name().unwrap_or_default()).map_err(|error| error.to_string())?;
    file.read(size).map_err(|error| error.to_string())
}

impl LastDeploy {
    /// Whether anything was kept in a directory, be it damaged.
    pub fn is_kept(place: &Path) -> bool {
        place.join(NAME).symlink_metadata().is_ok()
    }

    /// Reads what was kept in a directory, and verifies it, whichever store it is of. What is damaged is set aside, and said.
    pub fn read(place: &Path) -> Result<Option<LastDeploy>> {
        let records = StateDirectory::new(place.to_owned(), Durability::Full)?;
        let lost = "the last deploy that ran; the newest one in the store is used";
        LastDeploy::verified(&records, place).or_else(|error| record::set_aside(error, lost, None))
    }

    fn verified(records: &StateDirectory, place: &Path) -> Result<Option<LastDeploy>> {
        let Some(record) = Record::read(&records.open::<&str>(&[])?, NAME)? else { return Ok(None) };
        let record = record.verified()?;
        let store = record.string("store")?.as_str().unwrap_or_default().to_owned();
        let corrupt = |error: serde_json::Error| record.corrupt(error.to_string());
        let deploy: Deploy = serde_json::from_value(record.get("deploy")?.clone()).map_err(corrupt)?;
        let files = serde_json::from_value(record.get("files")?.clone()).map_err(corrupt)?;
        let name = record.string("directory")?;
        let name =
            name.as_str().filter(|name| !name.is_empty() && !name.starts_with('.') && !name.contains('/'));
        let directory = place.join(name.ok_or_else(|| record.corrupt("`directory` is not a name"))?);
        match InstalledFiles(files).difference(&directory) {
            None => Ok(Some(LastDeploy { deploy, directory, store })),
            Some(problem) => {
                // The files are as little use as the record then.
                let said = aside::set_aside_and_describe(&directory, &problem);
                tracing::error!("{said}");
                Err(record.corrupt(format!("its files are damaged: {problem}")))
            }
        }
    }

    /// Keeps a deploy as the last one that ran. Its files are in the directory of this name below `place`, and are on the disk
    /// before the record is.
    pub fn write(
        place: &Path,
        store: &str,
        deploy: &Deploy,
        directory: &str,
        files: &InstalledFiles,
        durability: Durability,
    ) -> Result<()> {
        let records = StateDirectory::new(place.to_owned(), durability)?;
        if durability != Durability::None {
            let opened = std::fs::File::open(place.join(directory));
            let synced = opened.and_then(|opened| rustix::fs::syncfs(opened).map_err(Into::into));
            synced.map_err(|error| StateError::Corrupt {
                path: place.join(directory).display().to_string(),
                reason: format!("it cannot be written to the disk: {error}"),
            })?;
        }
        let text = record::text(&json!({
            "format": FORMAT,
            "store": store,
            "directory": directory,
            "deploy": deploy,
            "files": files.0,
        }));
        record::write(&records.open::<&str>(&[])?, NAME, &text, durability)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use super::*;
    use crate::deploy::Program;
    use crate::tree::{Blob, File};

    fn kept(place: &Path) -> Deploy {
        let deploy = Deploy {
            id: 3,
            program: Program {
                frontend: "lang".into(),
                entry: "main.mcl".into(),
                noop: false,
                sema: -1,
                no_autoedges: false,
                no_autogroup: false,
            },
            hash: Some("abc".into()),
            chain: None,
            repeats: None,
            by: "h".into(),
            at: 7,
            files: Blob { size: 1, chunks: vec!["x".into()] },
            signature: None,
        };
        let mut files = Tree::default();
        files.insert("main.mcl", File { executable: false, content: b"noop \"a\" {}\n".to_vec() }).unwrap();
        files.insert("files/text", File { executable: true, content: b"text".to_vec() }).unwrap();
        std::fs::create_dir_all(place.join("3/files")).unwrap();
        for (path, file) in files.iter() {
            std::fs::write(place.join("3").join(path), &file.content).unwrap();
        }
        LastDeploy::write(place, "host", &deploy, "3", &InstalledFiles::of(&files), Durability::None)
            .unwrap();
        deploy
    }

    #[test]
    fn what_was_kept_is_found_again_with_the_store_that_it_is_of() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(LastDeploy::read(place.path()).unwrap(), None);
        let deploy = kept(place.path());
        let found = LastDeploy::read(place.path()).unwrap().unwrap();
        let directory = place.path().join("3");
        assert_eq!(found, LastDeploy { deploy, directory, store: "host".to_owned() });
    }

    #[test]
    fn whatever_is_damaged_is_not_used_and_not_lost() {
        for file in ["last.json", "3/main.mcl", "3/files/text"] {
            let place = tempfile::tempdir().unwrap();
            kept(place.path());
            let whole = std::fs::read(place.path().join(file)).unwrap();
            for at in (0..whole.len()).step_by(5) {
                for damage in [1, 64] {
                    let place = tempfile::tempdir().unwrap();
                    kept(place.path());
                    let mut bytes = whole.clone();
                    bytes[at] ^= damage;
                    std::fs::write(place.path().join(file), bytes).unwrap();
                    assert_eq!(LastDeploy::read(place.path()).unwrap(), None, "{file} at {at}");
                    assert!(place.path().join("last.json.damaged-1").exists());
                    assert_eq!(LastDeploy::read(place.path()).unwrap(), None);
                }
                let place = tempfile::tempdir().unwrap();
                kept(place.path());
                std::fs::write(place.path().join(file), &whole[..at]).unwrap();
                assert_eq!(LastDeploy::read(place.path()).unwrap(), None, "{file} cut at {at}");
            }
        }
    }
}
