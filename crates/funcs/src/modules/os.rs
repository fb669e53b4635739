//! `os`

use std::path::{Path, PathBuf};

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::module;
use crate::look::{Answer, Question, look, look_now};
use crate::{Failure, Host, Watch};

mod accounts;
mod identity;

pub(crate) use accounts::{account_named, own_account};

module! {
    path: "os",
    doc: "The operating system: its files, accounts and commands.",
    functions: [
        args, expand_home, family, is_family_redhat, is_family_debian, is_family_archlinux, file_exists, home, is_virtual,
        modinfo_loaded, parse_distro_uid, readfile, release, system, uid, user_exists,
    ],
    constants: [
        "family_redhat" = Str::from("redhat"), "The family of Red Hat, Fedora and CentOS.";
        "family_debian" = Str::from("debian"), "The family of Debian and Ubuntu.";
        "family_archlinux" = Str::from("archlinux"), "The family of Arch Linux.";
    ],
}

/// The arguments of the program, its own name first.
///
/// ```mcl,host
/// os.args() == ["mgmt", "run", "lang", "main.mcl",]
/// ```
#[function(reads)]
fn args() -> Vec<Str> {
    std::env::args_os().map(|argument| Str::new(argument.as_encoded_bytes())).collect()
}

/// Puts the home directory of the user in the place of `~/` at the beginning of a path, or that of another user in the
/// place of `~name/`.
///
/// The result is cleaned and keeps a slash at its end. Other text stays as it is. A user that does not exist is a fatal
/// error.
///
/// ```mcl
/// os.expand_home("/a/~/b") == "/a/~/b"
/// ```
#[function(reads, signature = "func(str) str")]
fn expand_home(path: &Str) -> Result<Str, Failure> {
    accounts::expand_home(path)
}

fn marker(path: &str) -> Result<bool, Failure> {
    match look_now(Question::Exists(path.into()))? {
        Answer::Truth(exists) => Ok(exists),
        Answer::Failed(message) => Err(Failure::fatal(message)),
        _ => Ok(false),
    }
}

/// The family of the distribution: `redhat`, `debian`, `archlinux`, or the empty text.
///
/// ```mcl
/// os.family() == os.family()
/// ```
#[function(reads)]
fn family() -> Result<String, Failure> {
    for (is_family, name) in [
        (is_family_redhat()?, "redhat"),
        (is_family_debian()?, "debian"),
        (is_family_archlinux()?, "archlinux"),
    ] {
        if is_family {
            return Ok(name.to_owned());
        }
    }
    Ok(String::new())
}

/// Whether this is Red Hat, Fedora, CentOS or a relative: `/etc/redhat-release` exists.
///
/// ```mcl
/// os.is_family_redhat() == os.is_family_redhat()
/// ```
#[function(reads)]
fn is_family_redhat() -> Result<bool, Failure> {
    marker("/etc/redhat-release")
}

/// Whether this is Debian, Ubuntu or a relative: `/etc/debian_version` exists.
///
/// ```mcl
/// os.is_family_debian() == os.is_family_debian()
/// ```
#[function(reads)]
fn is_family_debian() -> Result<bool, Failure> {
    marker("/etc/debian_version")
}

/// Whether this is Arch Linux or a relative: `/etc/arch-release` exists.
///
/// ```mcl
/// os.is_family_archlinux() == os.is_family_archlinux()
/// ```
#[function(reads)]
fn is_family_archlinux() -> Result<bool, Failure> {
    marker("/etc/arch-release")
}

fn path_watch(path: &Str) -> Result<Vec<Watch>, Failure> {
    // An empty or a relative path has no place to wait at.
    match path.starts_with(b"/") && !path.contains(&0) {
        true => Ok(vec![Watch::Path(path.as_path().to_owned())]),
        false => Err(Failure::fatal(format!("the path {path:?} must begin with a slash"))),
    }
}

/// Whether a path exists. It is watched.
///
/// Symbolic links are followed, except for those that another user may have put there: these are a fatal error, as is a path
/// that cannot be looked at.
///
/// ```mcl
/// os.file_exists("/") == true
/// os.file_exists("/no/such/file") == false
/// ```
#[function(live = path_watch(filename)?, signature = "func(filename str) bool")]
fn file_exists(filename: &Str) -> Result<Value, Failure> {
    path_watch(filename)?;
    match look(&Watch::Path(filename.as_path().to_owned()), Question::Exists(filename.clone()))? {
        Some(Answer::Truth(exists)) => Ok(Value::Bool(exists)),
        Some(Answer::Failed(message)) => Err(Failure::fatal(message)),
        Some(_) => Ok(Value::Bool(false)),
        None => Ok(Value::Nil),
    }
}

/// The home directory of a user, with a slash at its end. A user that does not exist is a fatal error.
///
/// ```mcl
/// os.home("root") == "/root/"
/// ```
#[function(reads, signature = "func(str) str")]
fn home(user: &Str) -> Result<Str, Failure> {
    accounts::home(user)
}

/// Whether this is a virtual machine, as far as its processor and firmware tell.
///
/// ```mcl
/// os.is_virtual() == os.is_virtual()
/// ```
#[function(reads)]
fn is_virtual() -> Result<bool, Failure> {
    identity::is_virtual(Path::new("/"))
}

/// Whether a module of the kernel is loaded. The kernel tells when that changes.
///
/// ```mcl
/// os.modinfo_loaded("no_such_module") == false
/// ```
#[function(live = vec![Watch::Kernel("module")])]
fn modinfo_loaded(module: &Str) -> Result<bool, Failure> {
    let modules = match look_now(Question::Content("/proc/modules".into()))? {
        Answer::Bytes(modules) => modules,
        Answer::Failed(message) => return Err(Failure::fatal(message)),
        // A kernel that can't load modules has none.
        _ => Str::EMPTY,
    };
    Ok(is_loaded(&modules, module))
}

/// Whether a module is among those of `/proc/modules`. One that comes or goes is not loaded: the kernel tells when it has
/// come, and begins to tell that it goes while it is still listed.
fn is_loaded(modules: &[u8], module: &[u8]) -> bool {
    const STATE: usize = 4;
    let mut lines = modules.split(|byte| *byte == b'\n');
    lines.any(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        fields.next() == Some(module) && !module.is_empty() && fields.nth(STATE - 1) == Some(b"Live")
    })
}

/// The parts of a name such as `fedora39-x86_64`. All are empty when one is missing.
///
/// ```mcl
/// os.parse_distro_uid("fedora39-x86_64") == struct{distro => "fedora", version => "39", arch => "x86_64",}
/// os.parse_distro_uid("fedora") == struct{distro => "", version => "", arch => "",}
/// ```
#[function(signature = "func(str) struct{distro str; version str; arch str}")]
fn parse_distro_uid(uid: &[u8]) -> Value {
    let (distro, version, arch) = identity::distro_uid(uid).unwrap_or_default();
    Value::structure([
        ("distro", Value::str(distro)),
        ("version", Value::str(version)),
        ("arch", Value::str(arch)),
    ])
}

/// The content of a file, which may be any bytes. It is watched, also while it does not exist.
///
/// A file that does not exist is a catchable error; any other failure is fatal: something else than a regular file (use
/// `os.system` to read from a FIFO or a device), a file of more than 16 MiB (`MGMT_READ_LIMIT` sets another limit), a symbolic
/// link that another user may have put there. Reading never holds up the program: there is no value before the file is read,
/// and after 5 s without an answer from its file system, the value has failed until there is one.
///
/// ```mcl
/// (os.readfile("/no/such/file") <|> "none") == "none"
/// ```
#[function(live = path_watch(filename)?, signature = "func(filename str) str")]
fn readfile(filename: &Str) -> Result<Value, Failure> {
    path_watch(filename)?;
    match look(&Watch::Path(filename.as_path().to_owned()), Question::Content(filename.clone()))? {
        Some(Answer::Bytes(content)) => Ok(Value::Str(content)),
        Some(Answer::Failed(message)) => Err(Failure::fatal(message)),
        Some(_) => Err(Failure::catchable(format!("the file {filename:?} does not exist"))),
        None => Ok(Value::Nil),
    }
}

/// What `/etc/os-release` says, or `/usr/lib/os-release`. Quotes and escapes are removed.
///
/// ```mcl
/// os.release() == os.release()
/// ```
#[function(reads, signature = "func() struct{id str; variant_id str; version_id str}")]
fn release() -> Result<Value, Failure> {
    let files = ["/etc/os-release", "/usr/lib/os-release"];
    let mut content = None;
    for path in files {
        if let Answer::Bytes(found) = look_now(Question::Content(path.into()))?
            && !found.is_empty()
        {
            content = Some(found);
            break;
        }
    }
    let content = content
        .ok_or_else(|| Failure::fatal("neither /etc/os-release nor /usr/lib/os-release can be read"))?;
    let field = |name: &str| Value::str(identity::field(&content, name).unwrap_or_default());
    Ok(Value::structure([
        ("id", field("ID")),
        ("variant_id", field("VARIANT_ID")),
        ("version_id", field("VERSION_ID")),
    ]))
}

/// The last line that a shell command has printed. Each line is a new value.
///
/// There is no value, and nobody waits for one, before the first line. A command that exits after a line is not started again,
/// whatever its exit code; its last line stays. One that cannot be run, exits without a line, or is killed is started again, after 1 s
/// and then with growing pauses up to 5 minutes. A changed command takes the place of the old one.
///
/// ```mcl,host
/// os.system("echo hello") == "hello"
/// ```
#[function(live = vec![Watch::Command(cmd.clone())], signature = "func(cmd str) str")]
fn system(host: &dyn Host, cmd: &Str) -> Result<Value, Failure> {
    Ok(host.command_line(cmd)?.map_or(Value::Nil, Value::Str))
}

/// The number of a user, as text. A user that does not exist is a fatal error.
///
/// ```mcl
/// os.uid("root") == "0"
/// ```
#[function(reads, signature = "func(str) str")]
fn uid(user: &Str) -> Result<String, Failure> {
    accounts::uid(user)
}

/// Whether a user exists. `/etc/passwd` is watched; the user may also come from elsewhere.
///
/// ```mcl
/// os.user_exists("root") == true
/// os.user_exists("") == false
/// ```
#[function(live = vec![Watch::Path(PathBuf::from("/etc/passwd"))], signature = "func(user str) bool")]
fn user_exists(user: &Str) -> Result<Value, Failure> {
    match look(&Watch::Path(PathBuf::from("/etc/passwd")), Question::Account(user.clone()))? {
        Some(Answer::Account(account)) => Ok(Value::Bool(account.is_some())),
        Some(Answer::Failed(message)) => Err(Failure::fatal(message)),
        Some(_) => Ok(Value::Bool(false)),
        None => Ok(Value::Nil),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_count_while_they_are_there_for_good() {
        let modules = b"loop 40960 2 - Live 0x0000\nnew 4096 1 - Loading 0x0000\nold 4096 0 a,b, Unloading 0x0000 (O)\n";
        for (module, loaded) in [("loop", true), ("new", false), ("old", false), ("lo", false), ("", false)] {
            assert_eq!(is_loaded(modules, module.as_bytes()), loaded, "{module}");
        }
    }

    use crate::modules::tests::{call_on, shown};
    use crate::{Body, Memory, library};

    struct Printed(Option<&'static str>);

    impl Host for Printed {
        fn command_line(&self, _: &Str) -> Result<Option<Str>, Failure> {
            Ok(self.0.map(Str::from))
        }
    }

    #[test]
    fn files_are_there_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| Value::str(directory.path().join(name).as_os_str().as_encoded_bytes());
        std::fs::write(directory.path().join("a"), b"\xff\n").unwrap();
        std::os::unix::fs::symlink("gone", directory.path().join("dangling")).unwrap();
        for (name, exists, content) in [
            ("a", "true", r#""\xff\n""#),
            ("b", "false", "C: the file"),
            ("dangling", "false", "C: the file"),
            ("a/b", "false", "C: the file"),
            ("", "true", "F: cannot open"),
        ] {
            assert_eq!(shown("os.file_exists", &[path(name)]), exists, "{name}");
            assert!(shown("os.readfile", &[path(name)]).starts_with(content), "{name}");
        }
        for relative in ["", "a", "/a\0"] {
            assert!(shown("os.readfile", &[Value::str(relative)]).starts_with("F: the path"));
            assert!(shown("os.file_exists", &[Value::str(relative)]).starts_with("F: the path"));
        }
    }

    #[test]
    fn what_is_read_is_watched() {
        let watches = |name, argument: &str| match library().function("os", name).unwrap().body {
            Body::Live { watches, .. } => watches(&[Value::str(argument)]),
            _ => panic!("{name} is not live"),
        };
        assert_eq!(watches("readfile", "/a/b"), Ok(vec![Watch::Path("/a/b".into())]));
        assert_eq!(watches("readfile", "/a/b"), watches("file_exists", "/a/b"));
        assert!(watches("readfile", "a").is_err());
        assert_eq!(watches("user_exists", "x"), Ok(vec![Watch::Path("/etc/passwd".into())]));
        assert_eq!(watches("system", "ls"), Ok(vec![Watch::Command("ls".into())]));
    }

    #[test]
    fn a_command_has_no_value_before_its_first_line() {
        let line = |line| call_on(&mut Memory::default(), &Printed(line), "os.system", &[Value::str("x")]);
        assert_eq!(line(None), Ok(Value::Nil));
        assert_eq!(line(Some("a")), Ok(Value::str("a")));
    }

    #[test]
    fn the_system_is_known() {
        assert!(!args().is_empty());
        assert!(["redhat", "debian", "archlinux", ""].contains(&family().unwrap().as_str()));
        assert!(shown("os.release", &[]).starts_with("struct{id: "));
        assert_eq!(shown("os.modinfo_loaded", &[Value::str("")]), "false");
        let os = library().module("os").unwrap();
        assert_eq!((os.constant("family_debian").unwrap().value)(), Value::str("debian"));
        assert_eq!(os.constants.len(), 3);
    }
}
