//! What functions reach on the host, and what they make of whatever somebody put there.
//!
//! Every function that is not pure is in [`ACCESS`], so a new one cannot be forgotten; those that take a path are asked about
//! everything that could hang, fill the memory, or lead them to somebody else's secret.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use mgmt_funcs::{Body, Effect, Failure, Host, Memory, library};
use mgmt_value::{Type, Value};

/// What a function reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Nothing outside of the process, or a call of the kernel that cannot wait: the clock, its name, interfaces.
    Process,
    /// The content of the path in its argument.
    Content,
    /// Whether there is something at the path in its argument.
    Presence,
    /// The symbolic link at the path in its argument.
    Link,
    /// Where the path in its argument leads to.
    Resolution,
    /// A command by the path in its argument.
    Executable,
    /// Makes a directory in the one in its argument.
    NewDirectory,
    /// A path that the function knows: below `/proc`, `/sys` or `/etc`.
    KnownPath,
    /// Accounts, wherever the system keeps them.
    Accounts,
    /// The files of the program.
    Deploy,
    /// The state directory, and what is kept there.
    State,
    /// A process of its own, which tells the program.
    Command,
    /// The message bus, or the store that hosts share, which tell the program.
    Told,
}

use Access::{
    Accounts, Command, Content, Deploy, Executable, KnownPath, Link, NewDirectory, Presence, Process,
    Resolution, State, Told,
};

const ACCESS: &[(&str, Access)] = &[
    ("history", Process),
    ("panic", Process),
    ("panic_debug", Process),
    ("random1", Process),
    ("_collect", Told),
    ("datetime.now", Process),
    ("datetime.str_now", Process),
    ("datetime.weekday_fast", Process),
    ("deploy.abspath", Deploy),
    ("deploy.readfile", Deploy),
    ("deploy.readfileabs", Deploy),
    ("deploy.file_exists", Deploy),
    ("deploy.directory", Deploy),
    ("deploy.binary_path", Process),
    ("embedded/provisioner.cli_interface", Process),
    ("embedded/provisioner.cli_network", Process),
    ("embedded/provisioner.cli_router", Process),
    ("embedded/provisioner.cli_dns", Process),
    ("embedded/provisioner.cli_prefix", Process),
    ("embedded/provisioner.cli_firewalld", Process),
    ("embedded/provisioner.cli_distro", Process),
    ("embedded/provisioner.cli_version", Process),
    ("embedded/provisioner.cli_arch", Process),
    ("embedded/provisioner.cli_flavour", Process),
    ("embedded/provisioner.cli_mirror", Process),
    ("embedded/provisioner.cli_rsync", Process),
    ("embedded/provisioner.cli_mac", Process),
    ("embedded/provisioner.cli_ip", Process),
    ("embedded/provisioner.cli_bios", Process),
    ("embedded/provisioner.cli_part", Process),
    ("embedded/provisioner.cli_luks", Process),
    ("embedded/provisioner.cli_packages", Process),
    ("embedded/provisioner.cli_handoff_exec", Process),
    ("embedded/provisioner.cli_handoff_code", Process),
    ("embedded/provisioner.cli_handoff_module_path", Process),
    ("embedded/provisioner.cli_handoff_hostname", Process),
    ("embedded/provisioner.cli_bmc_uri", Process),
    ("embedded/provisioner.check", Process),
    ("embedded/provisioner.cli_password", Process),
    ("example.errorbool", Process),
    ("example.flipflop", Process),
    ("example.vumeter", Command),
    ("golang.template", Process),
    ("golang/math/rand.exp_float_64", Process),
    ("golang/math/rand.float_64", Process),
    ("golang/math/rand.int", Process),
    ("golang/math/rand.int_63", Process),
    ("golang/math/rand.int_63_n", Process),
    ("golang/math/rand.intn", Process),
    ("golang/math/rand.norm_float_64", Process),
    ("golang/math/rand.read", Process),
    ("golang/os.executable", Process),
    ("golang/os.expand_env", Process),
    ("golang/os.getegid", Process),
    ("golang/os.getenv", Process),
    ("golang/os.geteuid", Process),
    ("golang/os.getgid", Process),
    ("golang/os.getpagesize", Process),
    ("golang/os.getpid", Process),
    ("golang/os.getppid", Process),
    ("golang/os.getuid", Process),
    ("golang/os.getwd", Process),
    ("golang/os.hostname", Process),
    ("golang/os.mkdir_temp", NewDirectory),
    ("golang/os.read_file", Content),
    ("golang/os.readlink", Link),
    ("golang/os.temp_dir", Process),
    ("golang/os.user_cache_dir", Process),
    ("golang/os.user_config_dir", Process),
    ("golang/os.user_home_dir", Process),
    ("golang/os/exec.look_path", Executable),
    ("golang/path/filepath.abs", Process),
    ("golang/path/filepath.eval_symlinks", Resolution),
    ("golang/runtime.cpu_profile", Process),
    ("golang/runtime.gomaxprocs", Process),
    ("golang/runtime.goroot", Process),
    ("golang/runtime.num_cpu", Process),
    ("golang/runtime.num_cgo_call", Process),
    ("golang/runtime.num_goroutine", Process),
    ("golang/runtime.read_trace", Process),
    ("golang/runtime.set_mutex_profile_fraction", Process),
    ("golang/runtime.stack", Process),
    ("golang/runtime.version", Process),
    ("local.vardir", State),
    ("local.pool", State),
    ("net.macs", Process),
    ("net.interface_cidr", Process),
    ("net.wired_interface", Process),
    ("net/http.response", State),
    ("os.args", Process),
    ("os.expand_home", Accounts),
    ("os.family", KnownPath),
    ("os.is_family_redhat", KnownPath),
    ("os.is_family_debian", KnownPath),
    ("os.is_family_archlinux", KnownPath),
    ("os.file_exists", Presence),
    ("os.home", Accounts),
    ("os.is_virtual", KnownPath),
    ("os.modinfo_loaded", KnownPath),
    ("os.readfile", Content),
    ("os.release", KnownPath),
    ("os.system", Command),
    ("os.uid", Accounts),
    ("os.user_exists", Accounts),
    ("sys.cpu_count", KnownPath),
    ("sys.env", Process),
    ("sys.getenv", Process),
    ("sys.hasenv", Process),
    ("sys.hostname", Process),
    ("sys.load", Process),
    ("sys.uptime", Process),
    ("sys/fwupd.reboot_needed", Told),
    ("test.fastcount", Process),
    ("test.forloop", Process),
    ("test.forkvloop", Process),
    ("test.one_instance_a", Process),
    ("test.one_instance_b", Process),
    ("test.one_instance_c", Process),
    ("test.one_instance_d", Process),
    ("test.one_instance_e", Process),
    ("test.one_instance_f", Process),
    ("test.one_instance_g", Process),
    ("test.one_instance_h", Process),
    ("test.one_stream", Process),
    ("test.slow_string", Process),
    ("util.hostname_mapper", Process),
    ("value.get", State),
    ("value.get_bool", State),
    ("value.get_str", State),
    ("value.get_int", State),
    ("value.get_float", State),
    ("world.getval", Told),
    ("world.kvlookup", Told),
    ("world.schedule", Told),
    ("world/collect.res", Told),
];

#[test]
fn every_function_that_is_not_pure_says_what_it_reaches() {
    let functions = library().modules().flat_map(|module| module.functions.iter());
    let reaching: Vec<String> = functions
        .filter(|function| function.effect != Effect::Pure)
        .map(|function| function.full_name())
        .collect();
    let listed: BTreeMap<&str, Access> = ACCESS.iter().copied().collect();
    let missing: Vec<_> = reaching.iter().filter(|name| !listed.contains_key(name.as_str())).collect();
    assert!(missing.is_empty(), "not in the table: {missing:#?}");
    let gone: Vec<_> = listed.keys().filter(|name| !reaching.iter().any(|known| known == *name)).collect();
    assert!(gone.is_empty(), "in the table, and no functions: {gone:#?}");
    assert_eq!(listed.len(), ACCESS.len(), "one is there twice");
}

/// Nothing of the source reads a path in another way.
#[test]
fn nothing_is_opened_but_through_the_one_way() {
    let mut files = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut wrong = Vec::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        // The state directory is the program's own, and the program itself has no other path.
        if ["deploy.rs", "tests.rs"].iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            let opens =
                ["fs::read", "fs::metadata(path", "File::open", "canonicalize", "read_dir(", "User::from"];
            let is_accounts = path.ends_with("os/accounts.rs") && line.contains("User::from");
            if opens.iter().any(|call| line.contains(call)) && !is_accounts {
                wrong.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

struct Nothing;
impl Host for Nothing {}

/// Calls a function, which has to come back.
fn call(name: &str, arguments: Vec<Value>) -> Result<Value, Failure> {
    let (module, function) = name.rsplit_once('.').unwrap();
    let body = &library().function(module, function).unwrap().body;
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let called = match body {
            Body::Live { read, .. } | Body::Host(read) => {
                read(&mut Memory::new(Type::Str), &Nothing, &arguments)
            }
            _ => panic!("it does not look at the outside"),
        };
        let _ = sender.send(called);
    });
    answer.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{name} did not come back"))
}

/// A directory with everything that can be in the way.
fn hostile() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    std::fs::write(at("secret"), "secret").unwrap();
    std::fs::set_permissions(at("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), 0o644.into()).unwrap();
    std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::fs::File::create(at("huge")).unwrap().set_len(1 << 40).unwrap();
    symlink("secret", at("planted")).unwrap();
    lchown(at("planted"), Some(12345), Some(12345)).unwrap();
    std::fs::create_dir(at("open")).unwrap();
    symlink("../secret", at("open/planted")).unwrap();
    std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
    symlink(scratch.path(), at("way")).unwrap();
    lchown(at("way"), Some(12345), Some(12345)).unwrap();
    symlink("secret", at("ours")).unwrap();
    symlink("loop", at("loop")).unwrap();
    symlink("/dev/zero", at("endless")).unwrap();
    scratch
}

/// What is in the way, and a word of the error; nothing if it is no error.
const CONTENT: &[(&str, Option<&str>)] = &[
    ("secret", None),
    ("ours", None),
    ("/proc/self/status", None),
    ("/sys/kernel/mm/transparent_hugepage/enabled", None),
    ("fifo", Some("a FIFO, not a regular file")),
    ("socket", Some("a socket, not a regular file")),
    ("/dev/zero", Some("a character device, not a regular file")),
    ("endless", Some("a character device, not a regular file")),
    ("huge", Some("larger than 16777216 bytes, the limit set for it; MGMT_READ_LIMIT")),
    (".", Some("a directory, not a regular file")),
    ("planted", Some("belongs to user 12345")),
    ("open/planted", Some("in a directory that others can write")),
    ("way/secret", Some("belongs to user 12345")),
    ("loop", Some("too many symbolic links")),
    ("gone", Some("does not exist")),
];

const PLACES: &[(&str, Option<&str>)] = &[
    ("secret", None),
    ("ours", None),
    ("fifo", None),
    ("socket", None),
    ("huge", None),
    ("/dev/zero", None),
    ("planted", Some("belongs to user 12345")),
    ("open/planted", Some("in a directory that others can write")),
    ("way/secret", Some("belongs to user 12345")),
    ("loop", Some("too many symbolic links")),
];

#[test]
fn whatever_is_at_a_path_a_function_comes_back_and_is_not_misled() {
    mgmt_test_support::require_root!();
    let scratch = hostile();
    let at = |name: &str| Value::str(scratch.path().join(name).as_os_str().as_encoded_bytes());
    for (function, access) in ACCESS {
        let cases = match access {
            Content => CONTENT,
            Presence | Resolution => PLACES,
            _ => continue,
        };
        for (path, error) in cases {
            match (call(function, vec![at(path)]), error) {
                (Ok(value), None) => assert_ne!(value, Value::Nil, "{function}({path})"),
                (Err(failure), Some(error)) => {
                    assert!(failure.to_string().contains(error), "{function}({path}): {failure}");
                }
                (found, _) => panic!("{function}({path}): {found:?}, expected {error:?}"),
            }
        }
    }
    for (function, access) in ACCESS {
        match access {
            Link => {
                assert_eq!(call(function, vec![at("ours")]), Ok(Value::str("secret")));
                // The link itself is not followed, so whoever owns it may say what they want.
                assert_eq!(call(function, vec![at("planted")]), Ok(Value::str("secret")));
                let failure = call(function, vec![at("way/ours")]).unwrap_err().to_string();
                assert!(failure.contains("belongs to user 12345"), "{failure}");
                let failure = call(function, vec![at("fifo")]).unwrap_err().to_string();
                assert!(failure.contains("a FIFO, not a symbolic link"), "{failure}");
            }
            Executable => {
                let command = scratch.path().join("command");
                std::fs::write(&command, "").unwrap();
                std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755)).unwrap();
                assert!(call(function, vec![at("command")]).is_ok());
                for other in ["fifo", "secret", "way/command", "endless", "gone"] {
                    assert!(call(function, vec![at(other)]).is_err(), "{other}");
                }
            }
            NewDirectory => {
                let made = call(function, vec![at("."), Value::str("new-*")]).unwrap();
                assert!(matches!(made, Value::Str(made) if made.as_path().is_dir()));
                for other in ["way", "fifo", "gone"] {
                    assert!(call(function, vec![at(other), Value::str("new-*")]).is_err(), "{other}");
                }
            }
            _ => {}
        }
    }
}
