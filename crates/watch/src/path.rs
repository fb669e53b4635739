//! The path a subscription names.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An absolute, clean path and whether everything below it counts.
///
/// Clean means: no empty component, no `.`, no `..`, no trailing slash. `..` is taken away together with the
/// component before it, by text alone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WatchPath {
    path: Box<[u8]>,
    recursive: bool,
}

impl WatchPath {
    /// Cleans a path. A relative one, or one with a NUL byte, is refused.
    pub fn new(path: impl AsRef<Path>, recursive: bool) -> Result<WatchPath, BadWatchPath> {
        WatchPath::from_bytes(path.as_ref().as_os_str().as_bytes(), recursive)
    }

    /// The same from bytes.
    pub fn from_bytes(path: &[u8], recursive: bool) -> Result<WatchPath, BadWatchPath> {
        if path.contains(&0) {
            return Err(BadWatchPath { path: path.into(), problem: "it contains a NUL byte" });
        }
        if path.first() != Some(&b'/') {
            return Err(BadWatchPath { path: path.into(), problem: "expected an absolute path" });
        }
        let mut clean: Vec<u8> = Vec::with_capacity(path.len());
        for component in path.split(|&byte| byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => clean.truncate(clean.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
                name => {
                    clean.push(b'/');
                    clean.extend_from_slice(name);
                }
            }
        }
        if clean.is_empty() {
            clean.push(b'/');
        }
        Ok(WatchPath { path: clean.into(), recursive })
    }

    /// The clean path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.path
    }

    /// The clean path.
    pub fn as_path(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(&self.path))
    }

    /// Whether everything below counts, at any depth.
    pub fn recursive(&self) -> bool {
        self.recursive
    }

    /// The directory and the name in it; the root has an empty name.
    pub(crate) fn split(&self) -> (&[u8], &[u8]) {
        let slash = self.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        (&self.path[..slash.max(1)], &self.path[slash + 1..])
    }
}

impl fmt::Debug for WatchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path.escape_ascii(), if self.recursive { "/**" } else { "" })
    }
}

/// A path that cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadWatchPath {
    path: Box<[u8]>,
    problem: &'static str,
}

impl std::error::Error for BadWatchPath {}

impl fmt::Display for BadWatchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot watch \"{}\": {}", self.path.escape_ascii(), self.problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_by_text() {
        for (given, clean, directory, name) in [
            ("/", "/", "/", ""),
            ("/..", "/", "/", ""),
            ("/a", "/a", "/", "a"),
            ("//a//b/", "/a/b", "/a", "b"),
            ("/a/./b/../c", "/a/c", "/a", "c"),
            ("/a/../../b", "/b", "/", "b"),
        ] {
            let path = WatchPath::new(given, false).unwrap();
            assert_eq!(path.as_bytes(), clean.as_bytes(), "{given}");
            assert_eq!(path.split(), (directory.as_bytes(), name.as_bytes()), "{given}");
        }
    }

    #[test]
    fn relative_paths_and_nul_bytes_are_refused() {
        assert!(WatchPath::new("a/b", false).unwrap_err().to_string().contains("absolute"));
        assert!(WatchPath::new("", false).is_err());
        assert!(WatchPath::from_bytes(b"/a\0b", true).unwrap_err().to_string().contains("NUL"));
    }
}
