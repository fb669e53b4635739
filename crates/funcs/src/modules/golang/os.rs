//! `golang/os`

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::look::{Answer, Question, absolute, look_now};
use crate::{Failure, Memory, random};

module! {
    path: "golang/os",
    doc: "The process and its files. Nothing here is watched: see `os` and `sys` for functions that notice changes.",
    functions: [
        executable, expand_env, getegid, getenv, geteuid, getgid, getpagesize, getpid, getppid, getuid, getwd, hostname,
        mkdir_temp, read_file, readlink, temp_dir, user_cache_dir, user_config_dir, user_home_dir,
    ],
}

fn path_text(path: &Path) -> Str {
    Str::new(path.as_os_str().as_encoded_bytes())
}

fn variable(name: &[u8]) -> Option<OsString> {
    // No variable has such a name, and the system would not take the question.
    if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
        return None;
    }
    std::env::var_os(Str::new(name).as_path().as_os_str())
}

/// A variable that is set and not empty.
fn filled(name: &str) -> Option<OsString> {
    variable(name.as_bytes()).filter(|value| !value.is_empty())
}

/// The path of the running program, as it was started.
///
/// ```mcl,host
/// os.executable() == "/usr/bin/mgmt"
/// ```
#[function(reads)]
fn executable() -> Result<Str, Failure> {
    let path = std::env::current_exe();
    path.map(|path| path_text(&path))
        .map_err(|error| Failure::fatal(format!("can't find the program: {error}")))
}

/// Puts variables of the environment in the places of `$name` and `${name}`. Those that are not set are empty.
///
/// ```mcl
/// os.expand_env("no variable") == "no variable"
/// ```
#[function(reads)]
fn expand_env(s: &[u8]) -> Str {
    Str::new(expand(s, |name| variable(name).map(OsString::into_encoded_bytes).unwrap_or_default()))
}

fn expand(text: &[u8], value: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = memchr::memchr(b'$', rest).filter(|dollar| dollar + 1 < rest.len()) {
        out.extend_from_slice(&rest[..dollar]);
        let (name, length) = shell_name(&rest[dollar + 1..]);
        match name {
            b"" if length == 0 => out.push(b'$'),
            // What begins like a variable and is none vanishes.
            b"" => {}
            name => out.extend(value(name)),
        }
        rest = &rest[dollar + 1 + length..];
    }
    out.extend_from_slice(rest);
    out
}

/// The name at the beginning of a text, and how much of the text it takes.
fn shell_name(text: &[u8]) -> (&[u8], usize) {
    match text {
        [b'{', special, b'}', ..] if is_special(*special) => (&text[1..2], 3),
        [b'{', inner @ ..] => match memchr::memchr(b'}', inner) {
            Some(end) => (&inner[..end], end + 2),
            None => (b"", 1),
        },
        [special, ..] if is_special(*special) => (&text[..1], 1),
        text => {
            let word = |byte: &u8| *byte == b'_' || byte.is_ascii_alphanumeric();
            let length = text.iter().take_while(|byte| word(byte)).count();
            (&text[..length], length)
        }
    }
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'#' | b'$' | b'@' | b'!' | b'?' | b'-' | b'0'..=b'9')
}

/// The group that decides what the program may do.
///
/// ```mcl
/// os.getegid() == os.getegid()
/// ```
#[function(reads)]
fn getegid() -> i64 {
    i64::from(rustix::process::getegid().as_raw())
}

/// A variable of the environment, empty when it is not set. Compare `sys.getenv`.
///
/// ```mcl
/// os.getenv("NO_SUCH_VARIABLE") == ""
/// ```
#[function(reads)]
fn getenv(key: &[u8]) -> Str {
    variable(key).map(|value| Str::new(value.as_encoded_bytes())).unwrap_or_default()
}

/// The user that decides what the program may do.
///
/// ```mcl
/// os.geteuid() == os.geteuid()
/// ```
#[function(reads)]
fn geteuid() -> i64 {
    i64::from(rustix::process::geteuid().as_raw())
}

/// The group of the program.
///
/// ```mcl
/// os.getgid() == os.getgid()
/// ```
#[function(reads)]
fn getgid() -> i64 {
    i64::from(rustix::process::getgid().as_raw())
}

/// The size of a page of memory.
///
/// ```mcl
/// os.getpagesize() == os.getpagesize()
/// ```
#[function(reads)]
fn getpagesize() -> i64 {
    rustix::param::page_size() as i64
}

/// The number of the process.
///
/// ```mcl
/// os.getpid() == os.getpid()
/// ```
#[function(reads)]
fn getpid() -> i64 {
    i64::from(std::process::id())
}

/// The number of the process that started this one.
///
/// ```mcl
/// os.getppid() == os.getppid()
/// ```
#[function(reads)]
fn getppid() -> i64 {
    i64::from(std::os::unix::process::parent_id())
}

/// The user of the program.
///
/// ```mcl
/// os.getuid() == os.getuid()
/// ```
#[function(reads)]
fn getuid() -> i64 {
    i64::from(rustix::process::getuid().as_raw())
}

/// The working directory: `$PWD` if it names it, otherwise its real path. When it is gone it is a fatal error.
///
/// ```mcl
/// os.getwd() == os.getwd()
/// ```
#[function(reads)]
fn getwd() -> Result<Str, Failure> {
    let resolved = |path: &Path| match look_now(Question::Resolved(path_text(path))) {
        Ok(Answer::Bytes(real)) => Some(real),
        _ => None,
    };
    let here = std::env::current_dir().ok();
    let same = |path: &Path| Some(resolved(path)? == resolved(here.as_deref()?)?);
    if let Some(named) = filled("PWD").map(PathBuf::from).filter(|path| path.is_absolute())
        && same(&named) == Some(true)
    {
        return Ok(path_text(&named));
    }
    let path = std::env::current_dir();
    path.map(|path| path_text(&path))
        .map_err(|error| Failure::fatal(format!("there is no working directory: {error}")))
}

/// The name that the kernel has for this host.
///
/// ```mcl
/// os.hostname() == os.hostname()
/// ```
#[function(reads)]
fn hostname() -> Str {
    Str::new(rustix::system::uname().nodename().to_bytes())
}

/// Makes a new directory and returns its path.
///
/// The directory is made below the first argument, or below `temp_dir()` when that is empty. The last `*` in the pattern,
/// or its end, is replaced by a random number. Each place in a program makes one directory and keeps it as long as the
/// arguments stay the same. A pattern with a slash, and any failure, is a fatal error.
///
/// ```mcl,host
/// os.mkdir_temp("", "build-*")
/// ```
#[function(reads)]
fn mkdir_temp(memory: &mut Memory, dir: &Str, pattern: &Str) -> Result<Str, Failure> {
    let kept = memory.get::<Option<(Str, Str, Str)>>();
    if let Some((_, _, made)) = kept.as_ref().filter(|kept| (&kept.0, &kept.1) == (dir, pattern)) {
        return Ok(made.clone());
    }
    if pattern.contains(&b'/') {
        return Err(Failure::fatal(format!("the pattern {pattern:?} contains a slash")));
    }
    let parent = if dir.is_empty() { temp_dir() } else { dir.clone() };
    let star = pattern.iter().rposition(|byte| *byte == b'*');
    let (before, after) = match star {
        Some(star) => (&pattern[..star], &pattern[star + 1..]),
        None => (pattern.as_bytes(), &[][..]),
    };
    for _ in 0..1000 {
        let number = (random::word()? >> 32).to_string();
        let path = parent.as_path().join(Str::new([before, number.as_bytes(), after].concat()).as_path());
        let made = path_text(&path);
        match look_now(Question::NewDirectory(absolute(&made)?))? {
            Answer::Truth(true) => {
                *kept = Some((dir.clone(), pattern.clone(), made.clone()));
                return Ok(made);
            }
            Answer::Failed(message) => return Err(Failure::fatal(message)),
            _ => {}
        }
    }
    Err(Failure::fatal(format!("can't find a free name for {pattern:?} in {parent:?}")))
}

/// The content of a file. It is not watched, and any failure is fatal. What `os.readfile` refuses is refused here, too, except
/// for `/dev/null`, which is an empty file.
///
/// ```mcl
/// os.read_file("/dev/null") == ""
/// ```
#[function(reads)]
fn read_file(name: &Str) -> Result<Str, Failure> {
    match look_now(Question::Content(absolute(name)?))? {
        Answer::Bytes(content) => Ok(content),
        Answer::Failed(message) => Err(Failure::fatal(message)),
        _ => Err(Failure::fatal(format!("can't read {name:?}: it does not exist"))),
    }
}

/// What a symbolic link points to. A path that is none is a fatal error.
///
/// ```mcl
/// os.readlink("/proc/self/exe") == os.executable()
/// ```
#[function(reads)]
fn readlink(name: &Str) -> Result<Str, Failure> {
    match look_now(Question::Link(absolute(name)?))? {
        Answer::Bytes(target) => Ok(target),
        Answer::Failed(message) => Err(Failure::fatal(message)),
        _ => Err(Failure::fatal(format!("can't read the link {name:?}: it does not exist"))),
    }
}

/// The directory for temporary files: `$TMPDIR`, or `/tmp`.
///
/// ```mcl
/// os.temp_dir() == os.temp_dir()
/// ```
#[function(reads)]
fn temp_dir() -> Str {
    filled("TMPDIR").map_or_else(|| Str::from("/tmp"), |path| Str::new(path.as_encoded_bytes()))
}

/// The directory for caches of the user: `$XDG_CACHE_HOME`, or `.cache` in `$HOME`.
///
/// ```mcl,host
/// os.user_cache_dir() == "/root/.cache"
/// ```
#[function(reads)]
fn user_cache_dir() -> Result<Str, Failure> {
    user_dir("XDG_CACHE_HOME", filled("XDG_CACHE_HOME"), filled("HOME"), ".cache")
}

/// The directory for settings of the user: `$XDG_CONFIG_HOME`, or `.config` in `$HOME`.
///
/// ```mcl,host
/// os.user_config_dir() == "/root/.config"
/// ```
#[function(reads)]
fn user_config_dir() -> Result<Str, Failure> {
    user_dir("XDG_CONFIG_HOME", filled("XDG_CONFIG_HOME"), filled("HOME"), ".config")
}

fn user_dir(
    name: &str,
    named: Option<OsString>,
    home: Option<OsString>,
    below: &str,
) -> Result<Str, Failure> {
    match (named.map(PathBuf::from), home) {
        (Some(path), _) if path.is_absolute() => Ok(path_text(&path)),
        (Some(path), _) => Err(Failure::fatal(format!("${name} is relative: {}", path.display()))),
        (None, Some(home)) => Ok(path_text(&Path::new(&home).join(below))),
        (None, None) => Err(Failure::fatal(format!("neither ${name} nor $HOME is set"))),
    }
}

/// The home directory of the user: `$HOME`. When it is not set it is a fatal error.
///
/// ```mcl,host
/// os.user_home_dir() == "/root"
/// ```
#[function(reads)]
fn user_home_dir() -> Result<Str, Failure> {
    let home = filled("HOME").ok_or_else(|| Failure::fatal("$HOME is not set"))?;
    Ok(Str::new(home.as_encoded_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::{Nothing, call_on, shown};
    use mgmt_value::Value;

    #[test]
    fn variables_are_replaced_by_the_rules_of_shells() {
        let expand = |text: &str| {
            let out = expand(text.as_bytes(), |name| [b"<", name, b">"].concat());
            String::from_utf8(out).unwrap()
        };
        for (text, expected) in [
            ("a $b c", "a <b> c"),
            ("${b}c", "<b>c"),
            ("$b_1-", "<b_1>-"),
            ("$1x $$ ${*}", "<1>x <$> <*>"),
            ("$", "$"),
            ("a$", "a$"),
            ("$ a", "$ a"),
            ("${}x", "x"),
            ("${abc", "abc"),
            ("${a b}", "<a b>"),
            ("$é", "$é"),
        ] {
            assert_eq!(expand(text), expected, "{text}");
        }
        assert_eq!(shown("golang/os.getenv", &[Value::str("a=b")]), r#""""#);
        assert_eq!(shown("golang/os.expand_env", &[Value::str("${a=b}${a\0}.")]), r#"".""#);
        let path = std::env::var_os("PATH").unwrap();
        assert_eq!(getenv(b"PATH"), Str::new(path.as_encoded_bytes()));
    }

    #[test]
    fn temporary_directories_are_made_once_per_place() {
        let directory = tempfile::tempdir().unwrap();
        let root = Value::str(directory.path().as_os_str().as_encoded_bytes());
        let mut memory = Memory::default();
        let mut make = |pattern: &str| {
            call_on(&mut memory, &Nothing, "golang/os.mkdir_temp", &[root.clone(), Value::str(pattern)])
        };
        let first = make("a*b").unwrap();
        assert_eq!(make("a*b"), Ok(first.clone()));
        let Value::Str(path) = &first else { panic!("expected a path") };
        let name = path.as_path().file_name().unwrap().to_str().unwrap();
        assert!(path.as_path().is_dir() && name.starts_with('a') && name.ends_with('b') && name.len() > 2);
        assert_ne!(make("c").unwrap(), first);
        assert!(make("a/b").unwrap_err().to_string().contains("slash"));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn files_and_links_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| Value::str(directory.path().join(name).as_os_str().as_encoded_bytes());
        std::fs::write(directory.path().join("a"), b"\xff").unwrap();
        std::os::unix::fs::symlink("a", directory.path().join("b")).unwrap();
        assert_eq!(shown("golang/os.read_file", &[path("b")]), r#""\xff""#);
        assert!(shown("golang/os.read_file", &[path("c")]).starts_with("F: can't read"));
        assert_eq!(shown("golang/os.readlink", &[path("b")]), r#""a""#);
        assert!(shown("golang/os.readlink", &[path("a")]).starts_with("F: "));
    }

    #[test]
    fn directories_of_users_follow_variables() {
        let os = |text: &str| Some(OsString::from(text));
        assert_eq!(user_dir("X", os("/x"), os("/h"), ".c").unwrap(), "/x");
        assert_eq!(user_dir("X", None, os("/h"), ".c").unwrap(), "/h/.c");
        assert!(user_dir("X", os("x"), os("/h"), ".c").is_err() && user_dir("X", None, None, ".c").is_err());
    }

    #[test]
    fn the_process_knows_itself() {
        assert_eq!(getpid(), i64::from(std::process::id()));
        assert!(getpagesize() >= 4096 && getppid() > 0);
        assert!(!hostname().is_empty() && !executable().unwrap().is_empty() && !getwd().unwrap().is_empty());
        assert_eq!((getuid(), getgid()), (geteuid(), getegid()));
    }
}
