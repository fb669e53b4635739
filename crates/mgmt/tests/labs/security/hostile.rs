//! What somebody has planted, or writes into a program: special files, mounts, names, arguments, secrets, too much of everything.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mgmt_test_support::program::{CommandOutput, RunningProgram, mgmt, mgmt_output};

struct TestEnv {
    home: tempfile::TempDir,
}

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv { home: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs these resources until all is done.
    fn graph(&self, resources: &str) -> CommandOutput {
        let graph = self.write("graph.yaml", &format!("graph: hostile\nresources:\n{resources}"));
        mgmt_output(&["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", "yaml", &graph])
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

#[test]
fn threat_07_lost_attributes_on_replace() {
    let env = TestEnv::new();
    let mut resources = String::from("  file:\n");
    let mut expected = Vec::new();
    for owner in [0, 7, 65534] {
        for bits in [0o600, 0o640, 0o755, 0o444] {
            for attribute in [None, Some("kept")] {
                let path = env.at(&format!("{owner}-{bits:o}-{}", attribute.is_some()));
                std::fs::write(&path, "old").unwrap();
                if let Some(value) = attribute {
                    let flags = rustix::fs::XattrFlags::empty();
                    rustix::fs::setxattr(&path, "user.mgmt.test", value.as_bytes(), flags).unwrap();
                }
                chown(&path, Some(owner), Some(owner)).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
                resources += &format!("  - name: {}\n    state: exists\n    content: new\n", path.display());
                expected.push((path, owner, bits, attribute));
            }
        }
    }
    let run = env.graph(&resources);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for (path, owner, bits, attribute) in expected {
        let found = path.metadata().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!((found.uid(), found.gid(), mode(&path)), (owner, owner, bits), "{}", path.display());
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&path, "user.mgmt.test", &mut value).unwrap_or(0);
        assert_eq!(&value[..length], attribute.unwrap_or_default().as_bytes(), "{}", path.display());
    }
}

#[test]
fn threat_08_setuid_bit() {
    let env = TestEnv::new();
    let given = env.at("given");
    std::fs::write(&given, "program").unwrap();
    std::fs::set_permissions(&given, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let run = env.graph(&format!("  file:\n  - name: {}\n    owner: \"7\"\n", given.display()));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!((given.metadata().unwrap().uid(), mode(&given)), (7, 0o755));
    let open = env.at("open");
    let run = env.graph(&format!(
        "  file:\n  - name: {}\n    state: exists\n    content: x\n    mode: \"4777\"\n",
        open.display()
    ));
    assert!(run.code != 0 && run.stderr.contains("4777"), "{run:?}");
    assert!(!open.exists());
}

#[test]
fn threat_09_device_fifo_or_socket_at_the_path() {
    let env = TestEnv::new();
    let (pipe, socket, plain) = (env.at("pipe"), env.at("socket"), env.at("plain"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let null = env.at("null");
    assert!(Command::new("mknod").arg(&null).args(["c", "1", "3"]).status().unwrap().success());
    let all: String = [&pipe, &socket, &null, &plain]
        .map(|path| format!("  - name: {}\n    state: exists\n    content: new\n", path.display()))
        .concat();
    let run = env.graph(&format!("  file:\n{all}"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert_eq!(
        std::fs::read_to_string(&plain).unwrap(),
        "new",
        "one that is right does not wait for the others"
    );
    for special in [&pipe, &socket, &null] {
        assert!(!std::fs::symlink_metadata(special).unwrap().is_file(), "{} is replaced", special.display());
        assert!(run.stderr.contains(special.to_str().unwrap()), "{}", run.stderr);
    }
}

#[test]
fn threat_10_recursive_delete_escaping_the_tree() {
    let env = TestEnv::new();
    let (tree, vault) = (env.at("tree"), env.at("vault"));
    std::fs::create_dir_all(tree.join("deep/mounted")).unwrap();
    std::fs::create_dir(&vault).unwrap();
    std::fs::write(vault.join("precious"), "precious").unwrap();
    std::os::unix::fs::symlink(&vault, tree.join("deep/link")).unwrap();
    let graph = env.write(
        "graph.yaml",
        &format!(
            "graph: x\nresources:\n  file:\n  - name: {}/\n    state: absent\n    recurse: true\n    force: true\n",
            tree.display()
        ),
    );
    // The mount ends with the shell.
    let script = format!(
        "mount --bind {vault} {tree}/deep/mounted && {program} run --tmp-prefix --converger-timeout=0 --converged-exit yaml {graph}",
        vault = vault.display(),
        tree = tree.display(),
        program = env!("CARGO_BIN_EXE_mgmt"),
    );
    let run = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{told}");
    assert!(told.contains("mount"), "{told}");
    assert_eq!(std::fs::read_to_string(vault.join("precious")).unwrap(), "precious");
    // Without the mount it goes, and what the link led to stays.
    let run =
        mgmt_output(&["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", "yaml", &graph]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!tree.exists() && vault.join("precious").exists());
}

#[test]
fn threat_11_path_from_data() {
    let env = TestEnv::new();
    for name in ["relative", "", "a\\0b", "/a\\0b", "/dev/shm/../../etc/passwd/..", "/", "//", "/.", "~/.x"] {
        let text = format!(
            "graph: x\nresources:\n  file:\n  - name: \"{name}\"\n    state: absent\n    content: x\n"
        );
        let graph = env.write("graph.yaml", &text);
        let check = mgmt_output(&["check", "yaml", &graph]);
        assert_eq!(check.code, 1, "{name}: {}", check.stderr);
        assert!(!check.stderr.contains("panicked"), "{}", check.stderr);
    }
    // A newline and bytes that a terminal obeys may be in a name, and change nothing but that file.
    let odd = env.at("odd\n\u{1b}[31m..name");
    let text = format!("file {:?} {{\n\tstate => \"exists\",\n}}\n", odd.to_str().unwrap())
        .replace("\\u{1b}", "\u{1b}");
    let program = env.write("main.mcl", &text);
    let run = mgmt_output(&["run", "--tmp-prefix", "--converged-timeout", "0", "lang", &program]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(odd.exists());
}

#[test]
fn threat_12_command_injection() {
    let env = TestEnv::new();
    let (output, planted) = (env.at("output"), env.at("planted"));
    let hostile = [
        format!("$(touch {})", planted.display()),
        format!("; touch {} #", planted.display()),
        format!("`touch {}`", planted.display()),
        "a b\tc".to_owned(),
        "-n".to_owned(),
        "*".to_owned(),
        "'\"\\".to_owned(),
        "line\nline".to_owned(),
        String::new(),
    ];
    // Both parts come from data: the arguments, and the value of a variable.
    let script = "printf '%s\\0' \"$@\" > \"$OUT\"; env -0 >> \"$OUT\"";
    let mut text = format!(
        "graph: x\nresources:\n  exec:\n  - name: x\n    cmd: /bin/sh\n    args: [\"-c\", {script:?}, \"sh\""
    );
    for word in &hostile {
        text += &format!(", {word:?}");
    }
    text += &format!("]\n    env: {{OUT: {:?}}}\n", output.to_str().unwrap());
    let graph = env.write("graph.yaml", &text);
    let mut command =
        mgmt(&["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", "yaml", &graph]);
    let run: CommandOutput = command.env("LD_CANARY", "inherited").output().unwrap().into();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let found = std::fs::read_to_string(&output).unwrap();
    let words: Vec<&str> = found.split('\0').collect();
    assert_eq!(words[..hostile.len()], hostile.iter().map(String::as_str).collect::<Vec<_>>()[..]);
    assert!(!found.contains("LD_CANARY"), "the environment is not exactly the declared one: {found:?}");
    assert!(!planted.exists());
}

#[test]
fn threat_13_secret_in_any_output() {
    const CANARY: &str = "canary5f1e";
    let env = TestEnv::new();
    let (secret, prefix) = (env.at("secret"), env.at("prefix"));
    let (prefix, secret) = (prefix.to_str().unwrap(), secret.to_str().unwrap());
    let graph = env.write(
        "graph.yaml",
        &format!(
            "graph: x\nresources:\n  file:\n  - name: {secret}\n    state: exists\n    mode: \"0600\"\n    content: {CANARY}\n  exec:\n  - name: with\n    cmd: \"/bin/true\"\n    env: {{TOKEN: {CANARY}}}\n"
        ),
    );
    std::fs::write(secret, format!("{CANARY} of before")).unwrap();
    std::fs::set_permissions(secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let channels: [&[&str]; 7] = [
        &["plan", "yaml", &graph],
        &["plan", "--format", "json", "yaml", &graph],
        &[
            "run",
            "--tmp-prefix",
            "--noop",
            "--converger-timeout=0",
            "--converged-exit",
            "--log",
            "trace",
            "yaml",
            &graph,
        ],
        &[
            "run",
            "--prefix",
            prefix,
            "--converger-timeout=0",
            "--converged-exit",
            "--log",
            "trace",
            "yaml",
            &graph,
        ],
        &[
            "run",
            "--tmp-prefix",
            "--converger-timeout=0",
            "--converged-exit",
            "--message-format",
            "json",
            "yaml",
            &graph,
        ],
        &["history", "--prefix", prefix],
        &["history", "--prefix", prefix, "--format", "json"],
    ];
    for arguments in channels {
        let told = mgmt_output(arguments);
        assert!(told.code == 0 || arguments[0] == "plan", "{arguments:?}: {}", told.stderr);
        let text = format!("{}{}", told.stdout, told.stderr);
        assert!(!text.contains(CANARY), "{arguments:?} shows the secret: {text}");
        assert!(text.len() > 20, "{arguments:?} says nothing");
    }
    let kept = Command::new("grep").args(["-r", "-l", CANARY, prefix]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "", "the state has the secret");
}

#[test]
fn threat_13_secret_in_a_core_dump() {
    // What the kernel tells of who must not be dumped belongs to root, whoever runs it.
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = place.path().join("mgmt");
    std::fs::copy(env!("CARGO_BIN_EXE_mgmt"), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&program);
    command.args(["run", "--prefix"]).arg(place.path().join("prefix")).arg("empty").env_clear();
    let running = RunningProgram::start_command({
        command.stdin(Stdio::null());
        command
    });
    let environment = PathBuf::from(format!("/proc/{}/environ", running.id()));
    mgmt_test_support::program::eventually("the program is at work", || place.path().join("prefix").exists());
    assert_eq!(environment.metadata().unwrap().uid(), 0, "a crash would write everything it knows to a file");
}

#[test]
fn threat_21_resource_exhaustion_by_program() {
    let env = TestEnv::new();
    let long = format!("$x = {}1\n", "1 + ".repeat(100_000));
    let deep = format!("$x = {}1{}\n", "(".repeat(50_000), ")".repeat(50_000));
    let programs = [
        "import \"iter\"\n$x = iter.range(0, 1000000000000, 1)\nprint \"x\" { msg => if len($x) > 3 { \"a\" } else { \"b\" }, }\n",
        "import \"golang/strings\" as texts\nprint \"x\" { msg => texts.repeat(\"x\", 1000000000000), }\n",
        "func f($x) { f($x) }\nprint \"x\" { msg => f(\"x\"), }\n",
        "class c { include c }\ninclude c\n",
        "$a = $b\n$b = $a\n",
        &long,
        &deep,
    ];
    for text in programs {
        let program = env.write("main.mcl", text);
        let start = &text[..text.len().min(60)];
        // Three gigabytes of addresses: whoever asks for more is ended by the system.
        let ended = Command::new("timeout")
            .args(["120", "prlimit", "--as=3000000000", env!("CARGO_BIN_EXE_mgmt"), "run", "--tmp-prefix"])
            .args(["--converged-timeout", "0", "lang", &program])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(matches!(ended.status.code(), Some(0..=2)), "{start}: {:?} {told}", ended.status);
    }
}

#[test]
fn threat_22_parser_attacks() {
    let env = TestEnv::new();
    let mut laughs = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for level in 1..30 {
        let before = format!("*a{}", level - 1);
        laughs += &format!("a{level}: &a{level} [{}]\n", [before.as_str(); 9].join(","));
    }
    let nested = "[".repeat(100_000);
    let token = format!("graph: {}\n", "x".repeat(10 << 20));
    for text in [laughs.as_str(), nested.as_str(), token.as_str()] {
        let graph = env.write("graph.yaml", text);
        let check = Command::new("timeout")
            .args(["120", "prlimit", "--as=3000000000", env!("CARGO_BIN_EXE_mgmt"), "check", "yaml", &graph])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&check.stderr);
        assert!(matches!(check.status.code(), Some(0 | 1)), "{:?} {told:.500}", check.status);
        assert!(told.len() < 100_000, "what is said is as long as the attack");
    }
}
