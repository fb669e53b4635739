//! What comes from a store that others can write to, or that cannot be reached.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::security::trust::runs;
use mgmt_test_support::etcd::EtcdCluster;
use mgmt_test_support::network::{Network, text};
use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, holds, mgmt, mgmt_output};

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

    fn text(&self, name: &str) -> String {
        text(&self.at(name))
    }

    fn write(&self, name: &str, content: &str) -> String {
        std::fs::write(self.at(name), content).unwrap();
        self.text(name)
    }

    /// Makes a pair of keys, and gives the paths of both.
    fn keys(&self, name: &str) -> (String, String) {
        let path = self.text(name);
        let mut keygen = Command::new("ssh-keygen");
        assert!(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &path]).status().unwrap().success());
        (path.clone(), format!("{path}.pub"))
    }

    fn deploy(&self, prefix: &str, arguments: &[&str]) -> CommandOutput {
        let all = [&["deploy", "--no-git"], arguments].concat();
        mgmt(&all).env("MGMT_PREFIX", prefix).output().unwrap().into()
    }
}

fn file(path: &Path, content: &str) -> String {
    format!("file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => {content:?},\n}}\n", path.display())
}

fn finish(run: RunningProgram) -> String {
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    lines
}

/// What `mgmt world export` has written, one entry after the other.
fn entries(exported: &str) -> Vec<Value> {
    exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_deploy(entry: &Value, number: u64) -> bool {
    entry["key"] == format!("/deploy/id/{number:020}")
}

/// The value of an entry, which is text.
fn content(entry: &mut Value) -> &mut String {
    match &mut entry["value"]["text"] {
        Value::String(text) => text,
        other => panic!("{other}"),
    }
}

/// One bit of a letter or a digit, somewhere in a text.
fn flip(text: &mut String, at: usize) {
    let mut bytes = std::mem::take(text).into_bytes();
    let at = (at..bytes.len()).find(|at| bytes[*at].is_ascii_alphanumeric()).unwrap();
    bytes[at] ^= 1;
    *text = String::from_utf8(bytes).unwrap();
}

#[test]
fn threat_15_malicious_or_truncated_deploy() {
    let env = TestEnv::new();
    let (key, public) = env.keys("key");
    let (origin, out) = (env.text("origin"), env.at("out"));
    drop(finish({
        let mut run = RunningProgram::start(&["run", "--prefix", &origin, "empty"]);
        run.wait_for("graph empty");
        run
    }));
    let mut stored = Vec::new();
    for version in ["first", "second"] {
        let program = env.write(&format!("{version}.mcl"), &file(&out, version));
        let done = env.deploy(&origin, &["--sign-key", &key, "lang", &program]);
        assert_eq!(done.code, 0, "{}", done.stderr);
        stored.push(mgmt_output(&["world", "export", "--prefix", &origin]).stdout);
    }
    let [first, both] = [&stored[0], &stored[1]].map(|stored| entries(stored));
    // A host with the key, and a store that somebody has filled.
    let host = |entries: &[Value], prefix: &str| {
        let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        let copy = env.write("copy", &lines);
        // Neither a store of its own nor a deploy that ran before; what it has accepted is remembered elsewhere.
        let _ = std::fs::remove_dir_all(env.at(prefix).join("world"));
        let _ = std::fs::remove_file(env.at(prefix).join("deploys/last.json"));
        let _ = std::fs::remove_file(&out);
        let prefix = env.text(prefix);
        let mut empty = RunningProgram::start(&["run", "--prefix", &prefix, "empty"]);
        empty.wait_for("graph empty");
        finish(empty);
        let filled = mgmt_output(&["world", "import", "--prefix", &prefix, "--force", &copy]);
        assert_eq!(filled.code, 0, "{}", filled.stderr);
        RunningProgram::start(&["run", "--prefix", &prefix, "--deploy-key", &public, "empty"])
    };
    let refused = |told: &str, entries: &[Value], prefix: &str| {
        let mut run = host(entries, prefix);
        let line = run.wait_for("deploy");
        assert!(line.contains("refused") || line.contains("cannot be"), "{told}: {line}");
        run.signal(Signal::INT);
        let (code, told_all) = run.end();
        assert_eq!(code, Some(0), "{told}: {told_all}");
        assert!(!told_all.contains("panicked"), "{told}: {told_all}");
        assert!(!out.exists(), "{told}: it was run: {told_all}");
    };
    // As it was stored, it is run; and then a host has seen the second.
    let run = host(&both, "host");
    holds(&out, "second");
    finish(run);
    // Replay: the whole store as it once was.
    refused("replay", &first, "host");
    // Reorder: the first under the number of the second, and each under that of the other.
    let mut reordered = both.clone();
    let of = |entries: &[Value], number| entries.iter().position(|entry| is_deploy(entry, number)).unwrap();
    let (one, two) = (of(&both, 1), of(&both, 2));
    reordered[two]["value"] = both[one]["value"].clone();
    refused("the first in place of the second", &reordered, "host");
    reordered[one]["value"] = both[two]["value"].clone();
    refused("each in place of the other", &reordered, "host");
    // What is said about one deploy beside another.
    let mut mixed = both.clone();
    let (mut old, mut new): (Value, Value) = (
        serde_json::from_str(content(&mut mixed[one])).unwrap(),
        serde_json::from_str(content(&mut mixed[two])).unwrap(),
    );
    let seal = new["seal"].take();
    assert!(seal.is_object(), "{new}");
    new["seal"] = old["seal"].take();
    *content(&mut mixed[two]) = new.to_string();
    refused("the seal of another deploy", &mixed, "host");
    new["seal"] = Value::Null;
    *content(&mut mixed[two]) = new.to_string();
    refused("no seal", &mixed, "host");
    // Bit flips and truncation, on a host that has not seen anything: nothing but the seal stands between.
    let length = content(&mut both.clone()[two]).len();
    let signed = seal["statement"].as_str().unwrap().len();
    for (number, at) in
        [length - signed, length - signed / 2, length - 20, length - 90].into_iter().enumerate()
    {
        let mut flipped = both.clone();
        flip(content(&mut flipped[two]), at);
        refused(&format!("a bit at {at} of {length}"), &flipped, &format!("flip{number}"));
    }
    for (number, end) in [length / 2, length - 1].into_iter().enumerate() {
        let mut cut = both.clone();
        content(&mut cut[two]).truncate(end);
        refused(&format!("{end} bytes of {length}"), &cut, &format!("cut{number}"));
    }
    // The deploy is the one that was signed, and its files are others: one has a bit that is not its own, and one is short.
    let chunk = |entries: &[Value]| {
        let is_program =
            |entry: &Value| entry["value"]["text"].as_str().is_some_and(|text| text.contains("second"));
        entries
            .iter()
            .position(|entry| entry["key"].as_str().unwrap().starts_with("/chunk/") && is_program(entry))
    };
    let at = chunk(&both).unwrap();
    let mut other = both.clone();
    *content(&mut other[at]) = content(&mut other[at]).replace("second", "secone");
    refused("another file", &other, "other");
    let mut short = both;
    content(&mut short[at]).pop();
    refused("a file that is cut off", &short, "short");
}

/// A store in the middle of a network.
struct Etcd(Child);

impl Etcd {
    const CLIENTS: &str = "http://10.77.0.1:2379";

    fn start(network: &Network, directory: &Path) -> Etcd {
        let mut command = network.in_the_middle("setpriv");
        command.args(["--pdeathsig", "KILL", "etcd", "--logger", "zap", "--log-level", "error"]);
        command.args(["--data-dir", &text(directory), "--listen-peer-urls", "http://127.0.0.1:2380"]);
        command.args(["--listen-client-urls", Etcd::CLIENTS, "--advertise-client-urls", Etcd::CLIENTS]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Etcd(command.spawn().unwrap())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn threat_17_split_brain_runs_a_singleton_twice() {
    let env = TestEnv::new();
    let network = Network::new(2);
    let _etcd = Etcd::start(&network, &env.at("etcd"));
    let here = env.home.path().display();
    let program = env.write(
        "main.mcl",
        &format!(
            "import \"fmt\"\nimport \"world\"\n$name = $hostname\nschedule \"job\" {{\n\tttl => 3,\n}}\n\
             file \"{here}/chosen-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.schedule(\"job\")),\n}}\n"
        ),
    );
    let names = ["a", "b"];
    let host = |at: usize| {
        let prefix = env.text(names[at]);
        let flags = ["run", "--hostname", names[at], "--prefix", &prefix, "--seeds", Etcd::CLIENTS];
        RunningProgram::start_command(network.mgmt(at, &[&flags[..], &["lang", &program]].concat()))
    };
    let hosts = [host(0), host(1)];
    let told =
        |at: usize| std::fs::read_to_string(env.at(&format!("chosen-{}", names[at]))).unwrap_or_default();
    let claims = |at: usize| told(at) == format!("[{:?}]", names[at]);
    let agree = || {
        eventually("all agree on one", || told(0) == told(1) && (claims(0) || claims(1)));
        if claims(0) { 0 } else { 1 }
    };
    // Cut off from the store, it cannot hear that another was chosen. It has to stop by itself, before that happens.
    let chosen = agree();
    let other = 1 - chosen;
    network.cut(chosen);
    eventually("another one is chosen", || claims(other));
    eventually("who is cut off does not take itself for chosen", || !claims(chosen));
    network.heal(chosen);
    assert_eq!(agree(), other, "whoever was chosen stays");
    // Asleep beyond its lease, it can neither hear nor stop. What it knew is worth nothing when it wakes up.
    hosts[other].signal(Signal::STOP);
    eventually("another one is chosen", || claims(chosen));
    hosts[other].signal(Signal::CONT);
    eventually("who slept does not take itself for chosen", || !claims(other));
    assert_eq!(agree(), chosen, "whoever was chosen stays");
    for host in hosts {
        let told = finish(host);
        assert!(!told.contains("panicked"), "{told}");
    }
}

#[test]
fn threat_17_commands_of_a_singleton_never_overlap() {
    let env = TestEnv::new();
    let network = Network::new(3);
    let _etcd = Etcd::start(&network, &env.at("etcd"));
    let here = env.home.path().display();
    // A command that says who else runs when it begins (one that has ended stays a zombie while its agent is stopped), and ends when it is asked to unless it is stubborn.
    let program = format!(
        r#"import "fmt"
import "world"
schedule "job" {{
	ttl => 2,
}}
if $hostname in world.schedule("job") {{
	exec "singleton" {{
		shell => "/bin/sh",
		env => {{"PATH" => "/usr/bin:/bin", "NAME" => $hostname,}},
		cmd => "cd {here}; for other in command-*; do grep -q '^State:.[^ZX]' /proc/$(cat $other)/status && echo $other >> overlaps-$NAME; done; trap '[ -e stubborn ] || exit 0' TERM; echo $$ > next-$NAME; mv next-$NAME command-$NAME; while :; do sleep 0.1; done",
	}}
}}
"#
    );
    let program = env.write("main.mcl", &program);
    env.write("stubborn", "");
    let names = ["a", "b", "c"];
    let host = |at: usize| {
        let prefix = env.text(&format!("prefix-{}", names[at]));
        let flags = ["run", "--hostname", names[at], "--prefix", &prefix, "--seeds", Etcd::CLIENTS];
        RunningProgram::start_command(network.mgmt(at, &[&flags[..], &["lang", &program]].concat()))
    };
    let command =
        |at: usize| std::fs::read_to_string(env.at(&format!("command-{}", names[at]))).unwrap_or_default();
    let is_running = |at: usize| !command(at).is_empty() && runs(&command(at));
    let overlaps =
        |at: usize| std::fs::read_to_string(env.at(&format!("overlaps-{}", names[at]))).unwrap_or_default();
    let another = |than: usize| (0..3).find(|at| *at != than && is_running(*at));
    let alone = |at: usize| is_running(at) && another(at).is_none();
    let mut hosts = [0, 1, 2].map(|at| Some(host(at)));
    eventually("one is chosen", || (0..3).any(is_running));
    let first = (0..3).find(|at| is_running(*at)).unwrap();

    // Cut off from the store: its command ends although it has to be killed, and only then begins another.
    network.cut(first);
    eventually("the command of another begins", || another(first).is_some());
    let second = another(first).unwrap();
    assert_eq!(overlaps(second), "", "{} began too early", names[second]);
    assert!(!is_running(first), "who is cut off goes on");
    network.heal(first);
    std::fs::remove_file(env.at("stubborn")).unwrap();

    // Stopped past its lease, it can end nothing; the watchdog does.
    hosts[second].as_ref().unwrap().signal(Signal::STOP);
    eventually("the command of another begins", || another(second).is_some());
    let third = another(second).unwrap();
    assert_eq!(overlaps(third), "", "{} began too early", names[third]);
    assert!(!is_running(second), "the command of a host that sleeps goes on");
    hosts[second].as_ref().unwrap().signal(Signal::CONT);
    eventually("who slept has ended its command", || alone(third));

    // Killed, it leaves its command to the watchdog, which ends it although it has to be killed.
    env.write("stubborn", "");
    let killed = hosts[third].take().unwrap();
    killed.signal(Signal::KILL);
    let (code, _) = killed.end_killed();
    assert_eq!(code, None);
    let left = command(third);
    eventually("the command of another begins", || another(third).is_some());
    let fourth = another(third).unwrap();
    assert_eq!(overlaps(fourth), "", "{} began too early", names[fourth]);
    assert!(!runs(&left), "what was left behind goes on");
    std::fs::remove_file(env.at("stubborn")).unwrap();
    hosts[third] = Some(host(third));
    eventually("one is left", || alone(fourth));

    // One that ends in order ends its command before it hands over.
    for (number, host) in hosts.into_iter().enumerate() {
        let mut host = host.unwrap();
        host.signal(Signal::INT);
        if is_running(number) {
            host.wait_for("what is running may finish");
            host.signal(Signal::INT);
        }
        let (_, lines) = host.end();
        assert!(!is_running(number) && !lines.contains("panicked"), "{lines}");
    }
}

#[test]
fn threat_17_a_singleton_ends_with_its_choice_although_its_program_is_stuck() {
    // Each keeps the agent from withdrawing the command by itself: a value that fails freezes what depends on it, and a graph that
    // is refused leaves the last one in place.
    let stuck = [
        r#"if $hostname in world.schedule("job") and os.readfile("{flag}") == "1" { {exec} }"#,
        r#"if os.readfile("{flag}") == "1" { if $hostname in world.schedule("job") { {exec} } }"#,
        r#"if $hostname in world.schedule("job") { {exec} } else {
            noop "a" {}
            noop "b" {}
            Noop["a"] -> Noop["b"]
            if os.file_exists("{flag}-bad") { Noop["b"] -> Noop["a"] }
        }"#,
    ];
    for (number, body) in stuck.iter().enumerate() {
        let env = TestEnv::new();
        let network = Network::new(2);
        let _etcd = Etcd::start(&network, &env.at("etcd"));
        let here = env.home.path().display().to_string();
        let exec = format!(
            r#"exec "singleton" {{
    shell => "/bin/sh",
    env => {{"PATH" => "/usr/bin:/bin", "NAME" => $hostname,}},
    cmd => "cd {here}; echo $$ > next-$NAME; mv next-$NAME command-$NAME; exec sleep 1000",
}}"#
        );
        let body = body.replace("{flag}", &format!("{here}/flag-${{hostname}}")).replace("{exec}", &exec);
        let import = if body.contains("os.") { "import \"os\"\n" } else { "" };
        let text = format!("import \"world\"\n{import}schedule \"job\" {{ ttl => 2, }}\n{body}\n");
        let program = env.write("main.mcl", &text);
        let names = ["a", "b"];
        let host = |at: usize| {
            let prefix = env.text(&format!("prefix-{}", names[at]));
            env.write(&format!("flag-{}", names[at]), "1");
            let flags = ["run", "--hostname", names[at], "--prefix", &prefix, "--seeds", Etcd::CLIENTS];
            RunningProgram::start_command(network.mgmt(at, &[&flags[..], &["lang", &program]].concat()))
        };
        let is_running = |at: usize| {
            std::fs::read_to_string(env.at(&format!("command-{}", names[at]))).is_ok_and(|id| runs(&id))
        };
        let first = host(0);
        eventually("the first is chosen", || is_running(0));
        let second = host(1);
        std::fs::remove_file(env.at("flag-a")).unwrap();
        env.write("flag-a-bad", "");
        network.cut(0);
        eventually("the command of the other begins", || is_running(1));
        assert!(!is_running(0), "variant {number}: both run");
        for host in [first, second] {
            host.signal(Signal::KILL);
            host.end_killed();
        }
        eventually("the watchdogs end the commands", || !is_running(0) && !is_running(1));
    }
}

#[test]
fn threat_16_peer_writes_another_hosts_keys() {
    let env = TestEnv::new();
    let cluster = EtcdCluster::start(1);
    let seeds = cluster.endpoints().join(",");
    let logins = ["operator", "a", "b"].map(|who| env.text(&format!("{who}.login")));
    let [operator, a, b] = &logins;
    let with = |arguments: &[&str], login: &str| {
        mgmt_output(&[arguments, &["--seeds", &seeds, "--seeds-login", login][..]].concat())
    };
    let closed = mgmt_output(&["admit", "--operator", "--login-file", operator, "--seeds", &seeds]);
    assert_eq!(closed.code, 0, "{}", closed.stderr);
    for (host, login) in [("a", a), ("b", b)] {
        let admitted = with(&["admit", host, "--login-file", login], operator);
        assert_eq!(admitted.code, 0, "{}", admitted.stderr);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(login).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "others can read the password");
    }
    // With its rights, a host can do all that it has to: run what is deployed, export, share, be chosen.
    let host = |name: &str, login: &str, prefix: &str| {
        let prefix = env.text(prefix);
        let flags = ["run", "--hostname", name, "--prefix", &prefix, "--seeds", &seeds];
        RunningProgram::start(&[&flags[..], &["--seeds-login", login, "empty"]].concat())
    };
    let hosts = [host("a", a, "at-a"), host("b", b, "at-b")];
    let here = env.home.path().display();
    let program = env.write(
        "main.mcl",
        &format!(
            "import \"fmt\"\nimport \"world\"\n$name = $hostname\nschedule \"job\" {{\n\tttl => 3,\n}}\n\
             noop \"offer-${{name}}\" {{\n\tMeta:export => [\"*\",],\n}}\nkv \"names\" {{\n\tmapped => true,\n\tvalue => $name,\n}}\n\
             file \"{here}/names-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.kvlookup(\"names\")),\n}}\n\
             file \"{here}/chosen-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.schedule(\"job\")),\n}}\n"
        ),
    );
    let deployed = with(&["deploy", "--no-git", "lang", &program], operator);
    assert_eq!(deployed.code, 0, "{}", deployed.stderr);
    for name in ["a", "b"] {
        holds(&env.at(&format!("names-{name}")), "{\"a\": \"a\", \"b\": \"b\"}");
        eventually("one is chosen", || {
            let chosen = std::fs::read_to_string(env.at(&format!("chosen-{name}"))).unwrap_or_default();
            ["[\"a\"]", "[\"b\"]"].contains(&chosen.as_str())
        });
    }
    // Somebody has taken over host a, and has all that it knows.
    let login = std::fs::read_to_string(a).unwrap();
    let hostile = |arguments: &[&str]| {
        let endpoints = ["--endpoints", &seeds, "--user", login.trim()];
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(endpoints).args(arguments).output().unwrap()
    };
    let own = hostile(&["put", "/mgmt/host/a/string/x", "{}"]);
    assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
    let operator_login = std::fs::read_to_string(operator).unwrap();
    let everything = || {
        cluster.etcdctl(&["--user", operator_login.trim(), "get", "--prefix", "/mgmt/host/b/", "--keys-only"])
    };
    let before = everything();
    assert!(before.contains("/mgmt/host/b/export/") && before.contains("/mgmt/host/b/status"), "{before}");
    let leases = cluster.etcdctl(&["--user", operator_login.trim(), "lease", "list"]);
    let of_b: Vec<&str> = leases
        .lines()
        .filter(|lease| !lease.is_empty() && lease.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .filter(|lease| {
            let keys =
                cluster.etcdctl(&["--user", operator_login.trim(), "lease", "timetolive", lease, "--keys"]);
            keys.contains("/mgmt/host/b/")
        })
        .collect();
    assert!(!of_b.is_empty(), "{leases}");
    let mut attempts: Vec<Vec<&str>> = [
        &["put", "/mgmt/host/b/export/*/file/x", "{}"][..],
        &["put", "/mgmt/host/b/status", "{}"],
        &["put", "/mgmt/host/b/volunteer/job", "{}"],
        &["put", "/mgmt/host/b", "x"],
        &["put", "/mgmt/host/aa/status", "x"],
        &["put", "/mgmt/host/a0", "x"],
        &["put", "/mgmt/deploy/newest", "9"],
        &["put", "/mgmt/deploy/id/00000000000000000009", "{}"],
        &["put", "/mgmt/chunk/x", "x"],
        &["put", "/elsewhere", "x"],
        &["get", "/elsewhere"],
        &["del", "--prefix", "/mgmt/host/b/"],
        &["del", "--prefix", "/mgmt/"],
        &["user", "add", "x:y"],
        &["user", "passwd", "mgmt-host-b", "--interactive=false"],
        &["role", "grant-permission", "mgmt-host-a", "--prefix=true", "readwrite", "/mgmt/host/b/"],
        &["user", "grant-role", "mgmt-host-a", "root"],
        &["auth", "disable"],
    ]
    .map(<[&str]>::to_vec)
    .to_vec();
    attempts.extend(of_b.iter().map(|lease| vec!["lease", "revoke", lease]));
    for attempt in attempts {
        let output = hostile(&attempt);
        assert!(!output.status.success(), "{attempt:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
    assert_eq!(everything(), before);
    // The same with our own program: it cannot pretend to be another host, nor deploy, nor let anybody in.
    let mut impostor = host("b", a, "impostor");
    impostor.wait_for("cannot be stored");
    finish(impostor);
    for arguments in
        [&["deploy", "--no-git", "lang", &program][..], &["admit", "c", "--login-file", &env.text("c")]]
    {
        let refused = with(arguments, a);
        assert_eq!(refused.code, 1, "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("may not do this"), "{arguments:?}: {}", refused.stderr);
    }
    assert!(!env.at("c").exists() && !env.at("c.new").exists());
    let stranger = mgmt_output(&["status", "--seeds", &seeds]);
    assert!(stranger.code == 1 && stranger.stderr.contains("asks for a user"), "{stranger:?}");
    assert_eq!(everything(), before);
    // One that was admitted again has another password, and the old one is worth nothing.
    let old = env.write("old.login", &login);
    assert_eq!(with(&["admit", "a", "--login-file", a], operator).code, 0);
    let late = with(&["status"], &old);
    assert!(late.code == 1 && late.stderr.contains("password is wrong"), "{}", late.stderr);
    // The new one lets it read, whatever the hosts say of themselves.
    let read = with(&["status"], a);
    assert!(read.stdout.contains("version") && read.stderr.is_empty(), "{read:?}");
    for host in hosts {
        host.signal(Signal::INT);
        let (_, told) = host.end();
        assert!(!told.contains("panicked"), "{told}");
    }
}
