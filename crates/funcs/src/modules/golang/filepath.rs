//! `golang/path/filepath`

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::look::{Answer, Question, absolute, look_now};
use crate::{Failure, paths};

module! {
    path: "golang/path/filepath",
    doc: "Paths of this system.",
    functions: [abs, base, clean, dir, eval_symlinks, ext, from_slash, has_prefix, is_abs, is_local, join, localize, r#match, rel, to_slash, volume_name],
}

fn fits(pattern: &[u8], name: &[u8]) -> Result<bool, Failure> {
    paths::matches(pattern, name)
        .map_err(|_| Failure::fatal(format!("the pattern {:?} can't be read", Str::new(pattern))))
}

/// The path from the root on, cleaned. A relative path begins at the working directory.
///
/// ```mcl
/// filepath.abs("/a/../b") == "/b"
/// ```
#[function(reads)]
fn abs(path: &[u8]) -> Result<Str, Failure> {
    if paths::is_abs(path) {
        return Ok(Str::new(paths::clean(path)));
    }
    let directory = std::env::current_dir()
        .map_err(|error| Failure::fatal(format!("there is no working directory: {error}")))?;
    Ok(Str::new(paths::join(&[directory.as_os_str().as_encoded_bytes(), path])))
}

/// The last name of a path. The empty path gives `.`, a path of slashes gives `/`.
///
/// ```mcl
/// filepath.base("/a/b") == "b"
/// ```
#[function]
fn base(path: &[u8]) -> Str {
    Str::new(paths::base(path))
}

/// The shortest path that means the same, without looking at any file. The empty path gives `.`.
///
/// ```mcl
/// filepath.clean("a//b/../c") == "a/c"
/// ```
#[function]
fn clean(path: &[u8]) -> Str {
    Str::new(paths::clean(path))
}

/// All but the last name of a path, cleaned.
///
/// ```mcl
/// filepath.dir("/a/b") == "/a"
/// ```
#[function]
fn dir(path: &[u8]) -> Str {
    Str::new(paths::dir(path))
}

/// The path with all symbolic links resolved. It must exist; a missing path is a fatal error.
///
/// ```mcl
/// filepath.eval_symlinks("/") == "/"
/// ```
#[function(reads)]
fn eval_symlinks(path: &Str) -> Result<Str, Failure> {
    let resolved = |path: &Str| match look_now(Question::Resolved(absolute(path)?))? {
        Answer::Bytes(real) => Ok(real),
        Answer::Failed(message) => Err(Failure::fatal(message)),
        _ => Err(Failure::fatal(format!("can't resolve {path:?}: it does not exist"))),
    };
    let real = resolved(path)?;
    if paths::is_abs(path) {
        return Ok(real);
    }
    // A relative path stays one, as long as it leads below where it began.
    let here = resolved(&".".into())?;
    let relative = real.as_path().strip_prefix(here.as_path()).ok();
    let relative = relative.map(|inner| Str::new(paths::clean(inner.as_os_str().as_encoded_bytes())));
    Ok(relative.unwrap_or_else(|| real.clone()))
}

/// The last name from its last dot on, or nothing.
///
/// ```mcl
/// filepath.ext("/a/b.txt") == ".txt"
/// ```
#[function]
fn ext(path: &[u8]) -> Str {
    Str::new(paths::ext(path))
}

/// The same path: the separator is a slash.
///
/// ```mcl
/// filepath.from_slash("a/b") == "a/b"
/// ```
#[function]
fn from_slash(path: Str) -> Str {
    path
}

/// Whether a path begins with a text, which need not be a whole name.
///
/// ```mcl
/// filepath.has_prefix("/ab", "/a") == true
/// ```
#[function]
fn has_prefix(p: &[u8], prefix: &[u8]) -> bool {
    p.starts_with(prefix)
}

/// Whether a path begins with a slash.
///
/// ```mcl
/// filepath.is_abs("/a") == true
/// ```
#[function]
fn is_abs(path: &[u8]) -> bool {
    paths::is_abs(path)
}

/// Whether a path leads to somewhere below the directory in which it is used, as far as its text tells.
///
/// ```mcl
/// filepath.is_local("a/../b") == true
/// filepath.is_local("../b") == false
/// ```
#[function]
fn is_local(path: &[u8]) -> bool {
    paths::is_local(path)
}

/// Joins names to a path, leaving out empty ones, and cleans it.
///
/// ```mcl
/// filepath.join(["a", "", "../b",]) == "b"
/// ```
#[function]
fn join(elem: Vec<Str>) -> Str {
    Str::new(paths::join(&elem))
}

/// The same path, if it consists of plain names between single slashes; otherwise a fatal error.
///
/// ```mcl
/// filepath.localize("a/b") == "a/b"
/// ```
#[function]
fn localize(path: Str) -> Result<Str, Failure> {
    match paths::is_plain(&path) {
        true => Ok(path),
        false => Err(Failure::fatal(format!("{path:?} is not made of plain names between single slashes"))),
    }
}

/// Whether a name as a whole fits a shell pattern: `*` and `?` do not cross a slash, `[a-z]` and `[^a]` are sets, `\\` makes the next character plain.
///
/// A pattern that cannot be read is a fatal error.
///
/// ```mcl
/// filepath.match("*.txt", "a.txt") == true
/// ```
#[function]
fn r#match(pattern: &[u8], name: &[u8]) -> Result<bool, Failure> {
    fits(pattern, name)
}

/// The way from one path to another. Where it cannot be known it is a fatal error.
///
/// ```mcl
/// filepath.rel("/a", "/b/c") == "../b/c"
/// ```
#[function]
fn rel(basepath: &Str, targpath: &Str) -> Result<Str, Failure> {
    paths::rel(basepath, targpath)
        .map(Str::new)
        .ok_or_else(|| Failure::fatal(format!("can't make {targpath:?} relative to {basepath:?}")))
}

/// The same path: the separator is a slash.
///
/// ```mcl
/// filepath.to_slash("a/b") == "a/b"
/// ```
#[function]
fn to_slash(path: Str) -> Str {
    path
}

/// The empty text: there are no volumes.
///
/// ```mcl
/// filepath.volume_name("/a") == ""
/// ```
#[function]
fn volume_name(_path: &[u8]) -> Str {
    Str::EMPTY
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::shown;
    use mgmt_value::Value;

    #[test]
    fn bad_patterns_are_fatal() {
        let message = "F: the pattern \"[\" can't be read";
        assert_eq!(shown("golang/path/filepath.match", &[Value::str("["), Value::str("a")]), message);
        assert_eq!(shown("golang/path/filepath.match", &[Value::str("a?"), Value::str("ab")]), "true");
    }

    #[test]
    fn paths_that_exist_are_resolved() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        std::os::unix::fs::symlink("a", real.join("b")).unwrap();
        let path = |name: &str| Value::str(real.join(name).as_os_str().as_encoded_bytes());
        assert_eq!(shown("golang/path/filepath.eval_symlinks", &[path("b/../b")]), path("a").to_string());
        assert!(shown("golang/path/filepath.eval_symlinks", &[path("c")]).starts_with("F: can't resolve"));
        assert_eq!(shown("golang/path/filepath.eval_symlinks", &[Value::str(".")]), "\".\"");
        let here = std::env::current_dir().unwrap().join("x");
        let here = Value::str(here.as_os_str().as_encoded_bytes());
        assert_eq!(shown("golang/path/filepath.abs", &[Value::str("a/../x")]), here.to_string());
    }

    #[test]
    fn what_the_text_cannot_tell_is_fatal() {
        let rel =
            |from: &str, to: &str| shown("golang/path/filepath.rel", &[Value::str(from), Value::str(to)]);
        assert_eq!(rel("/a", "b"), r#"F: can't make "b" relative to "/a""#);
        assert_eq!(rel("a", "b"), r#""../b""#);
        assert!(shown("golang/path/filepath.localize", &[Value::str("/a")]).starts_with("F: "));
        assert_eq!(shown("golang/path/filepath.volume_name", &[Value::str("/a")]), "\"\"");
    }
}
