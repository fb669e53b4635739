//! Release packaging: a Debian package, a tarball with the same files, and a software bill of materials.
//!
//! The central type is [`Tree`]: the files as they are installed, sorted by path. [`product`] fills one from a binary and the
//! repository; [`deb`] and [`tarball`] write it. [`sbom`] is the inventory of crates and their licences, and [`elf`] says on which
//! systems a binary runs.
//!
//! Invariants:
//!
//! - The same binary and sources give the same bytes, whenever and wherever: every time is that of [`Release::epoch`], every owner
//!   is root, every order is that of paths.
//! - Nothing of the machine that builds gets in: no path, no name, no time zone.
//! - No program is needed to write a package. Whatever is generated (manual pages, completions) comes from the binary itself.
//! - The package depends on what the binary asks for, which is read from the binary, and not on what somebody believes.
//!
//! Deliberately absent: formats of other distributions; signatures, which belong to whoever publishes; building the binary, which
//! is cargo's work.

pub mod deb;
pub mod elf;
mod licenses;
mod metadata;
pub mod product;
pub mod sbom;
pub mod tarball;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;

use flate2::{Compression, GzBuilder};

pub use metadata::Inventory;

/// What is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version of the program, such as `1.2.3`.
    pub version: String,
    /// The time of everything in it, in seconds since 1970.
    pub epoch: u64,
    /// Who answers for the package, as `NAME <ADDRESS>`.
    pub maintainer: String,
}

impl Release {
    /// A release by the project.
    pub fn new(version: impl Into<String>, epoch: u64) -> Release {
        Release {
            version: version.into(),
            epoch,
            maintainer: "The mgmt developers <mgmt@mgmt.invalid>".into(),
        }
    }
}

/// Files by the path at which they are installed, without a slash in front. Directories follow from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    files: BTreeMap<String, File>,
}

/// A file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its content.
    pub content: Vec<u8>,
    /// Whether it is a program.
    pub executable: bool,
    /// Whether it belongs to the administrator once it is installed.
    pub configuration: bool,
}

impl Tree {
    /// Adds a file.
    pub fn add(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) -> &mut File {
        let file = File { content: content.into(), executable: false, configuration: false };
        self.files.entry(path.into()).insert_entry(file).into_mut()
    }

    /// The file at a path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// The files, in the order of their paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// The directories above all files, each before what is in it.
    pub fn directories(&self) -> Vec<String> {
        let mut found = std::collections::BTreeSet::new();
        for path in self.files.keys() {
            let ends = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
            found.extend(ends);
        }
        found.into_iter().collect()
    }
}

/// Why something cannot be shipped.
#[derive(Debug)]
pub struct ReleaseError(String);

impl ReleaseError {
    pub(crate) fn new(why: impl fmt::Display) -> ReleaseError {
        ReleaseError(why.to_string())
    }
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ReleaseError {}

/// What the functions of this crate give back.
pub type Result<T, E = ReleaseError> = std::result::Result<T, E>;

/// Compresses, without a name or a time in it.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(ReleaseError::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_before_what_is_in_them() {
        let mut tree = Tree::default();
        tree.add("usr/share/doc/mgmt/copyright", "x");
        tree.add("usr/bin/mgmt", "x").executable = true;
        let expected = ["usr", "usr/bin", "usr/share", "usr/share/doc", "usr/share/doc/mgmt"];
        assert_eq!(tree.directories(), expected);
    }
}
