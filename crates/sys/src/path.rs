//! Paths as bytes, validated once.
//!
//! A [`ManagedPath`] is the only form in which a path from a program, a file or a peer reaches the rest of this
//! crate. It is absolute, free of NUL, lexically clean and bounded in length and depth, so nothing behind it has to
//! ask again. Whether a path means a directory is written in the path itself, by a trailing slash.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use crate::error::Escaped;

/// The longest path the kernel takes in one call, with its terminating NUL.
pub const PATH_MAX: usize = 4096;
/// The longest name of one component.
pub const NAME_MAX: usize = 255;
/// The deepest path accepted. A parent that must be walked costs one descriptor per component, so this is far below
/// what [`PATH_MAX`] would permit and far above what anyone uses.
pub const MAX_COMPONENTS: usize = 256;

/// An absolute, clean, bounded path. Cheap to clone.
///
/// Invariants: starts with `/`; no component is empty, `.` or `..`; no NUL; ends with `/` exactly when it names a
/// directory; the root is `/` and is a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagedPath {
    bytes: Arc<[u8]>,
}

/// Why some bytes are not a [`ManagedPath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No bytes at all.
    #[error("the path is empty; give an absolute path such as /etc/motd")]
    Empty,
    /// Does not start with a slash.
    #[error("the path {} is not absolute; it must start with a slash", Escaped(.0))]
    NotAbsolute(Box<[u8]>),
    /// Holds a NUL byte, which no file name can.
    #[error("the path {} holds a NUL byte, which no file name can", Escaped(.0))]
    Nul(Box<[u8]>),
    /// Longer than the kernel accepts.
    #[error("the path is {0} bytes long; the longest the system takes is {max}", max = PATH_MAX - 1)]
    TooLong(usize),
    /// One component is longer than any file name can be.
    #[error("the component {} is {} bytes long; the longest file name is {NAME_MAX}", Escaped(.0), .0.len())]
    NameTooLong(Box<[u8]>),
    /// More components than we are willing to walk.
    #[error("the path has {0} components; at most {MAX_COMPONENTS} are supported")]
    TooDeep(usize),
    /// Not one single component.
    #[error("{} is not a file name; it must be one component, not empty, not . or .., without slash or NUL", Escaped(.0))]
    NotAName(Box<[u8]>),
}

impl ManagedPath {
    /// Validates and cleans `path`. A trailing slash (or a last component of `.` or `..`) makes it a directory.
    pub fn new(path: impl AsRef<[u8]>) -> Result<Self, PathError> {
        let path = path.as_ref();
        match path.first() {
            None => return Err(PathError::Empty),
            Some(b'/') => {}
            Some(_) => return Err(PathError::NotAbsolute(excerpt(path))),
        }
        if path.contains(&0) {
            return Err(PathError::Nul(excerpt(path)));
        }
        let bytes = if is_clean(path) { Arc::from(path) } else { Arc::from(cleaned_with_slash(path)) };
        check_bounds(&bytes)?;
        Ok(Self { bytes })
    }

    /// The cleaned bytes, with a trailing slash exactly when this is a directory.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same as an `OsStr`.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.bytes)
    }

    /// The bytes without a trailing slash, except for the root.
    pub fn without_slash(&self) -> &[u8] {
        if self.is_root() { &self.bytes } else { self.bytes.strip_suffix(b"/").unwrap_or(&self.bytes) }
    }

    /// Whether the path was spelled as a directory.
    pub fn is_directory(&self) -> bool {
        self.bytes.last() == Some(&b'/')
    }

    /// Whether this is `/`.
    pub fn is_root(&self) -> bool {
        self.bytes.len() == 1
    }

    /// The containing directory with its trailing slash, or nothing for the root.
    pub fn parent_bytes(&self) -> Option<&[u8]> {
        (!self.is_root()).then(|| &self.bytes[..self.name_start()])
    }

    /// The containing directory, or nothing for the root.
    pub fn parent(&self) -> Option<Self> {
        self.parent_bytes().map(|bytes| Self { bytes: Arc::from(bytes) })
    }

    /// The last component without slash, or nothing for the root.
    pub fn file_name(&self) -> Option<&[u8]> {
        (!self.is_root()).then(|| &self.without_slash()[self.name_start()..])
    }

    /// All components from the root down, without slashes.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.bytes.split(|&byte| byte == b'/').filter(|component| !component.is_empty())
    }

    /// Whether `other` lies strictly inside this path, component by component and whatever the trailing slashes.
    pub fn contains(&self, other: &Self) -> bool {
        let (outer, inner) = (self.without_slash(), other.without_slash());
        if self.is_root() {
            return !other.is_root();
        }
        inner.len() > outer.len() && inner.starts_with(outer) && inner[outer.len()] == b'/'
    }

    /// The entry `name` inside this directory. A trailing slash on `name` makes the result a directory.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        let plain = name.strip_suffix(b"/").unwrap_or(name);
        check_name(plain)?;
        let base = self.without_slash();
        let mut bytes = Vec::with_capacity(base.len() + 1 + name.len());
        bytes.extend_from_slice(base);
        if !self.is_root() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        check_bounds(&bytes)?;
        Ok(Self { bytes: Arc::from(bytes) })
    }

    /// The same path spelled as a directory.
    pub fn to_directory(&self) -> Self {
        if self.is_directory() {
            return self.clone();
        }
        let mut bytes = Vec::with_capacity(self.bytes.len() + 1);
        bytes.extend_from_slice(&self.bytes);
        bytes.push(b'/');
        Self { bytes: Arc::from(bytes) }
    }

    /// Shares the bytes, for handles that keep the path for their messages.
    pub(crate) fn shared(&self) -> Arc<[u8]> {
        Arc::clone(&self.bytes)
    }

    fn name_start(&self) -> usize {
        self.without_slash().iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1)
    }
}

impl fmt::Display for ManagedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.bytes).fmt(f)
    }
}

impl fmt::Debug for ManagedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManagedPath({self})")
    }
}

/// Cleans a path by its letters alone: doubled slashes, `.` and inner `..` go away, a `..` at the root is dropped, the
/// trailing slash is dropped, and nothing becomes `.`.
pub fn clean(path: &[u8]) -> Vec<u8> {
    let absolute = path.first() == Some(&b'/');
    let mut kept: Vec<&[u8]> = Vec::new();
    for component in path.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => match kept.last() {
                Some(&last) if last != b".." => {
                    kept.pop();
                }
                _ if absolute => {}
                _ => kept.push(component),
            },
            _ => kept.push(component),
        }
    }
    let mut out = Vec::with_capacity(path.len().max(1));
    if absolute {
        out.push(b'/');
    }
    for (index, component) in kept.iter().enumerate() {
        if index > 0 {
            out.push(b'/');
        }
        out.extend_from_slice(component);
    }
    if out.is_empty() {
        out.push(b'.');
    }
    out
}

/// The directory part of a path with its trailing slash: `/a/b/` for both `/a/b/c` and `/a/b/c/`; empty for `/`.
pub fn directory_part(path: &[u8]) -> Vec<u8> {
    let mut whole = clean(path);
    if whole == b"/" {
        return Vec::new();
    }
    match whole.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => whole.truncate(slash + 1),
        None => whole = b"./".to_vec(),
    }
    whole
}

/// The last component of a path, with a trailing slash when the path had one: `c/` for `/a/b/c/`; `/` for `/`.
pub fn base_part(path: &[u8]) -> Vec<u8> {
    let whole = clean(path);
    if whole == b"/" {
        return whole;
    }
    let start = whole.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let mut base = whole[start..].to_vec();
    if path.last() == Some(&b'/') {
        base.push(b'/');
    }
    base
}

/// Checks that `name` is one component: not empty, not `.` or `..`, without slash or NUL, not too long.
pub fn check_name(name: &[u8]) -> Result<(), PathError> {
    if name.is_empty() || name == b"." || name == b".." || name.iter().any(|&byte| byte == b'/' || byte == 0)
    {
        return Err(PathError::NotAName(excerpt(name)));
    }
    if name.len() > NAME_MAX {
        return Err(PathError::NameTooLong(excerpt(name)));
    }
    Ok(())
}

/// Whether an absolute path is clean already, so that it can be taken as it is.
fn is_clean(path: &[u8]) -> bool {
    let inner = path.strip_prefix(b"/").unwrap_or(path);
    let inner = inner.strip_suffix(b"/").unwrap_or(inner);
    path.len() == 1
        || inner.split(|&byte| byte == b'/').all(|component| !matches!(component, b"" | b"." | b".."))
}

fn cleaned_with_slash(path: &[u8]) -> Vec<u8> {
    let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut bytes = clean(path);
    if matches!(last, b"" | b"." | b"..") && bytes.len() > 1 {
        bytes.push(b'/');
    }
    bytes
}

fn check_bounds(path: &[u8]) -> Result<(), PathError> {
    if path.len() >= PATH_MAX {
        return Err(PathError::TooLong(path.len()));
    }
    let mut count = 0;
    for component in path.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
        if component.len() > NAME_MAX {
            return Err(PathError::NameTooLong(component.into()));
        }
        count += 1;
    }
    if count > MAX_COMPONENTS { Err(PathError::TooDeep(count)) } else { Ok(()) }
}

/// Keeps messages readable when someone hands us a megabyte as a path.
fn excerpt(bytes: &[u8]) -> Box<[u8]> {
    bytes[..bytes.len().min(PATH_MAX)].into()
}

/// Where a handle was opened, for messages: a prefix of shared bytes, so that remembering it costs no allocation.
#[derive(Clone)]
pub(crate) struct Location {
    bytes: Arc<[u8]>,
    length: usize,
}

impl Location {
    pub(crate) fn whole(path: &ManagedPath) -> Self {
        Self { bytes: path.shared(), length: path.as_bytes().len() }
    }

    pub(crate) fn parent_of(path: &ManagedPath) -> Option<Self> {
        path.parent_bytes().map(|parent| Self { bytes: path.shared(), length: parent.len() })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The entry `name` of this directory.
    pub(crate) fn entry(&self, name: &[u8]) -> Self {
        let (shown, rest) = self.bytes.split_at(self.length);
        if shown.last() == Some(&b'/') && rest.strip_suffix(b"/").unwrap_or(rest) == name {
            return Self { bytes: Arc::clone(&self.bytes), length: self.length + name.len() };
        }
        let mut bytes = Vec::with_capacity(shown.len() + 1 + name.len());
        bytes.extend_from_slice(shown);
        if bytes.last() != Some(&b'/') {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self { length: bytes.len(), bytes: Arc::from(bytes) }
    }
}

impl From<&Location> for Box<[u8]> {
    fn from(location: &Location) -> Self {
        location.bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(path: &str, cleaned: &str, parent: Option<&str>, name: Option<&str>) {
        let path = ManagedPath::new(path).unwrap();
        assert_eq!(path.to_string(), cleaned);
        assert_eq!(path.parent_bytes(), parent.map(str::as_bytes));
        assert_eq!(path.file_name(), name.map(str::as_bytes));
        assert_eq!(path.is_directory(), cleaned.ends_with('/'));
        assert_eq!(path.is_root(), cleaned == "/");
    }

    #[test]
    fn a_path_is_cleaned_and_taken_apart() {
        check("/etc/motd", "/etc/motd", Some("/etc/"), Some("motd"));
        check("/etc/", "/etc/", Some("/"), Some("etc"));
        check("/etc", "/etc", Some("/"), Some("etc"));
        check("/a/b/c/", "/a/b/c/", Some("/a/b/"), Some("c"));
        check("/", "/", None, None);
        check("//", "/", None, None);
        check("/..", "/", None, None);
        check("/a/../..", "/", None, None);
        check("//a///b//./c", "/a/b/c", Some("/a/b/"), Some("c"));
        check("/a/b/../c", "/a/c", Some("/a/"), Some("c"));
        check("/a/b/..", "/a/", Some("/"), Some("a"));
        check("/a/b/.", "/a/b/", Some("/a/"), Some("b"));
        check("/a/...", "/a/...", Some("/a/"), Some("..."));
    }

    #[test]
    fn what_is_wrong_with_a_path_is_said() {
        let message = |path: &[u8]| ManagedPath::new(path).unwrap_err().to_string();
        assert_eq!(message(b""), "the path is empty; give an absolute path such as /etc/motd");
        assert_eq!(message(b"etc/motd"), "the path etc/motd is not absolute; it must start with a slash");
        assert_eq!(message(b"/a\0b"), "the path /a\\x00b holds a NUL byte, which no file name can");
        let long = format!("/{}", "a/".repeat(2100));
        assert_eq!(
            message(long.as_bytes()),
            "the path is 4201 bytes long; the longest the system takes is 4095"
        );
        let name = "n".repeat(256);
        let expected = format!("the component {name} is 256 bytes long; the longest file name is 255");
        assert_eq!(message(format!("/{name}").as_bytes()), expected);
        let deep = "/a".repeat(257);
        assert_eq!(message(deep.as_bytes()), "the path has 257 components; at most 256 are supported");
        assert!(ManagedPath::new("/a".repeat(256)).is_ok());
        assert!(ManagedPath::new(format!("/{}", "n".repeat(255))).is_ok());
    }

    #[test]
    fn bytes_that_are_not_text_are_kept_and_shown_escaped() {
        let path = ManagedPath::new(b"/a\xff\n\x1b[31m\\\xe2\x80\xae/\xc3\xa9").unwrap();
        assert_eq!(path.as_bytes(), b"/a\xff\n\x1b[31m\\\xe2\x80\xae/\xc3\xa9");
        assert_eq!(path.to_string(), "/a\\xff\\n\\x1b[31m\\\\\\u{202e}/é");
    }

    #[test]
    fn cleaning_goes_by_the_letters_alone() {
        for (path, cleaned) in [
            ("", "."),
            (".", "."),
            ("..", ".."),
            ("../..", "../.."),
            ("a/..", "."),
            ("a/../..", ".."),
            ("a/b/../../..", ".."),
            ("a//b/", "a/b"),
            ("./a", "a"),
            ("/", "/"),
            ("/../a", "/a"),
            ("/a/../../b/", "/b"),
            ("../a/../b", "../b"),
            ("abc/./../def", "def"),
        ] {
            assert_eq!(String::from_utf8(clean(path.as_bytes())).unwrap(), cleaned, "for {path:?}");
        }
    }

    #[test]
    fn a_path_falls_into_directory_and_base() {
        for (path, directory, base) in [
            ("/a/b/c", "/a/b/", "c"),
            ("/a/b/c/", "/a/b/", "c/"),
            ("/a", "/", "a"),
            ("/", "", "/"),
            ("//a/./b/", "/a/", "b/"),
            ("a", "./", "a"),
        ] {
            assert_eq!(directory_part(path.as_bytes()), directory.as_bytes(), "for {path:?}");
            assert_eq!(base_part(path.as_bytes()), base.as_bytes(), "for {path:?}");
        }
    }

    #[test]
    fn containment_goes_by_components() {
        let path = |text: &str| ManagedPath::new(text).unwrap();
        assert!(path("/a/").contains(&path("/a/b")));
        assert!(path("/a").contains(&path("/a/b/c/")));
        assert!(path("/").contains(&path("/a")));
        assert!(!path("/a").contains(&path("/ab")));
        assert!(!path("/a").contains(&path("/a/")));
        assert!(!path("/").contains(&path("/")));
    }

    #[test]
    fn joining_takes_one_component() {
        let path = ManagedPath::new("/a/").unwrap();
        assert_eq!(path.join(b"b").unwrap().as_bytes(), b"/a/b");
        assert_eq!(path.join(b"b/").unwrap().as_bytes(), b"/a/b/");
        assert_eq!(ManagedPath::new("/").unwrap().join(b"b").unwrap().as_bytes(), b"/b");
        for name in [&b""[..], b"/", b".", b"..", b"../x", b"a/b", b"a\0b", b"b//"] {
            assert!(path.join(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_location_shares_the_bytes_it_can() {
        let path = ManagedPath::new("/a/b/").unwrap();
        let parent = Location::parent_of(&path).unwrap();
        let entry = parent.entry(b"b");
        assert_eq!(entry.bytes(), b"/a/b");
        assert!(Arc::ptr_eq(&entry.bytes, &path.bytes));
        assert_eq!(parent.entry(b"c").bytes(), b"/a/c");
        assert_eq!(Location::whole(&path).entry(b"c").bytes(), b"/a/b/c");
        assert_eq!(entry.entry(b"c").bytes(), b"/a/b/c");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_clean_path_or_an_error(bytes in proptest::collection::vec(path_byte(), 0..64)) {
            if let Ok(path) = ManagedPath::new(&bytes) {
                prop_assert!(path.as_bytes().starts_with(b"/"));
                prop_assert!(path.components().all(|name| check_name(name).is_ok()));
                prop_assert_eq!(path.is_directory(), path.as_bytes().ends_with(b"/"));
                let again = ManagedPath::new(path.as_bytes()).unwrap();
                prop_assert_eq!(&again, &path);
                let cleaned = clean(&bytes);
                prop_assert_eq!(path.without_slash(), cleaned.as_slice());
                if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
                    let joined = parent.join(name).unwrap();
                    prop_assert_eq!(joined.as_bytes(), path.without_slash());
                    prop_assert!(parent.contains(&path));
                }
            } else {
                prop_assert!(bytes.first() != Some(&b'/') || bytes.contains(&0));
            }
        }

        #[test]
        fn cleaning_twice_is_cleaning_once(bytes in proptest::collection::vec(path_byte(), 0..64)) {
            let once = clean(&bytes);
            prop_assert_eq!(clean(&once), once);
        }

        #[test]
        fn what_is_shown_has_no_control_characters(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(!Escaped(&bytes).to_string().chars().any(char::is_control));
        }
    }

    fn path_byte() -> impl Strategy<Value = u8> {
        prop_oneof![4 => Just(b'/'), 4 => Just(b'.'), 3 => Just(b'a'), 1 => any::<u8>()]
    }
}
