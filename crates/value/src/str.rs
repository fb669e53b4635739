//! The byte string.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// An immutable byte string that is cheap to clone. The empty string owns nothing.
#[derive(Clone, Default, Eq, PartialOrd, Ord)]
pub struct Str(Option<Arc<[u8]>>);

impl Str {
    /// The empty string.
    pub const EMPTY: Str = Str(None);

    /// Makes a string from bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Str {
        let bytes = bytes.as_ref();
        // `None` is the only spelling of the empty string, so equality and derived order are those of the bytes.
        Str((!bytes.is_empty()).then(|| Arc::from(bytes)))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// The text, with bytes that are not UTF-8 replaced.
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }

    /// A form for people: printable text as it is, control characters and stray bytes escaped.
    pub fn display(&self) -> impl fmt::Display + '_ {
        crate::text::Escaped(self.as_bytes())
    }

    /// The bytes, if nobody else has them.
    pub(crate) fn own_bytes(&mut self) -> Option<&mut [u8]> {
        Arc::get_mut(self.0.as_mut()?)
    }

    /// The path that these bytes spell.
    pub fn as_path(&self) -> &std::path::Path {
        use std::os::unix::ffi::OsStrExt;
        std::path::Path::new(std::ffi::OsStr::from_bytes(self.as_bytes()))
    }
}

impl Deref for Str {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// The same bytes. Those of one allocation are not compared.
impl PartialEq for Str {
    fn eq(&self, other: &Str) -> bool {
        match (&self.0, &other.0) {
            (Some(left), Some(right)) => Arc::ptr_eq(left, right) || left == right,
            (left, right) => left.is_none() && right.is_none(),
        }
    }
}

/// The hash of the bytes, as [`Borrow`] demands: a map of strings can be asked for a slice.
impl Hash for Str {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl AsRef<[u8]> for Str {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Borrow<[u8]> for Str {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Str {
        Str::new(text)
    }
}

impl From<String> for Str {
    fn from(text: String) -> Str {
        Str::new(text)
    }
}

impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Str {
        Str::new(bytes)
    }
}

impl From<Vec<u8>> for Str {
    fn from(bytes: Vec<u8>) -> Str {
        Str::new(bytes)
    }
}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::text::quoted(self.as_bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_empty_string_has_one_spelling() {
        for empty in
            [Str::EMPTY, Str::default(), Str::new(""), Str::from(Vec::new()), Str::from(String::new())]
        {
            assert_eq!(empty, Str::EMPTY);
            assert_eq!(empty.as_bytes(), b"");
            assert_eq!(empty.cmp(&Str::from("\0")), std::cmp::Ordering::Less);
        }
    }

    #[test]
    fn a_map_of_strings_can_be_asked_for_a_slice() {
        let map: HashMap<Str, u8> = [(Str::from("a"), 1), (Str::EMPTY, 2), (Str::new(b"\xff"), 3)].into();
        assert_eq!(map.get(b"a".as_slice()), Some(&1));
        assert_eq!(map.get(b"".as_slice()), Some(&2));
        assert_eq!(map.get(b"\xff".as_slice()), Some(&3));
    }

    #[test]
    fn bytes_that_are_not_text_are_kept_and_shown_escaped() {
        let bytes = Str::new(b"a\xffb\n");
        assert_eq!(bytes.as_str(), None);
        assert_eq!(bytes.to_text(), "a\u{fffd}b\n");
        assert_eq!(bytes.display().to_string(), r"a\xffb\n");
        assert_eq!(format!("{bytes:?}"), r#""a\xffb\n""#);
        assert_eq!(bytes.as_path().as_os_str().len(), 4);
    }
}
