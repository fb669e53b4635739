//! `golang/path`

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::{Failure, paths};

module! {
    path: "golang/path",
    doc: "Paths as text, with slashes.",
    functions: [base, clean, dir, ext, is_abs, join, r#match],
}

fn fits(pattern: &[u8], name: &[u8]) -> Result<bool, Failure> {
    paths::matches(pattern, name)
        .map_err(|_| Failure::fatal(format!("the pattern {:?} can't be read", Str::new(pattern))))
}

/// The last name of a path. The empty path gives `.`, a path of slashes gives `/`.
///
/// ```mcl
/// path.base("/a/b") == "b"
/// ```
#[function]
fn base(path: &[u8]) -> Str {
    Str::new(paths::base(path))
}

/// The shortest path that means the same, without looking at any file. The empty path gives `.`.
///
/// ```mcl
/// path.clean("a//b/../c") == "a/c"
/// ```
#[function]
fn clean(path: &[u8]) -> Str {
    Str::new(paths::clean(path))
}

/// All but the last name of a path, cleaned.
///
/// ```mcl
/// path.dir("/a/b") == "/a"
/// ```
#[function]
fn dir(path: &[u8]) -> Str {
    Str::new(paths::dir(path))
}

/// The last name from its last dot on, or nothing.
///
/// ```mcl
/// path.ext("/a/b.txt") == ".txt"
/// ```
#[function]
fn ext(path: &[u8]) -> Str {
    Str::new(paths::ext(path))
}

/// Whether a path begins with a slash.
///
/// ```mcl
/// path.is_abs("/a") == true
/// ```
#[function]
fn is_abs(path: &[u8]) -> bool {
    paths::is_abs(path)
}

/// Joins names to a path, leaving out empty ones, and cleans it.
///
/// ```mcl
/// path.join(["a", "", "../b",]) == "b"
/// ```
#[function]
fn join(elem: Vec<Str>) -> Str {
    Str::new(paths::join(&elem))
}

/// Whether a name as a whole fits a shell pattern: `*` and `?` do not cross a slash, `[a-z]` and `[^a]` are sets, `\\` makes the next character plain.
///
/// A pattern that cannot be read is a fatal error.
///
/// ```mcl
/// path.match("*.txt", "a.txt") == true
/// ```
#[function]
fn r#match(pattern: &[u8], name: &[u8]) -> Result<bool, Failure> {
    fits(pattern, name)
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::shown;
    use mgmt_value::Value;

    #[test]
    fn bad_patterns_are_fatal() {
        let message = "F: the pattern \"[\" can't be read";
        assert_eq!(shown("golang/path.match", &[Value::str("["), Value::str("a")]), message);
        assert_eq!(shown("golang/path.match", &[Value::str("a?"), Value::str("ab")]), "true");
    }
}
