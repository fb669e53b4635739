//! The kind `remote`, with real hosts.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use crate::agreement;
use mgmt_test_support::sshd;

use std::path::PathBuf;

use mgmt_test_support::etcd::EtcdCluster;
use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, holds, mgmt_output, one_file};
use mgmt_test_support::sshd::Hosts;
use rustix::process::Signal;
use tempfile::TempDir;

struct TestEnv {
    hosts: Hosts,
    directory: TempDir,
}

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv { hosts: Hosts::start(&["one"]), directory: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn prefix(&self) -> String {
        self.at("prefix").to_str().unwrap().to_owned()
    }

    /// The parameters that lead to the host, in YAML or mcl.
    fn login(&self, between: &str, end: &str) -> String {
        let (host, identity) = (self.hosts.host("one"), self.hosts.identity());
        [
            ("remote", format!("ssh://127.0.0.1:{}", host.port)),
            ("hostkey", host.key.clone()),
            ("ssh_id", identity.to_str().unwrap().to_owned()),
            ("hostname", "one".to_owned()),
        ]
        .map(|(name, value)| format!("    {name}{between}\"{value}\"{end}\n"))
        .concat()
    }

    /// A graph with the host in it.
    fn graph(&self, more: &str) -> String {
        let text =
            format!("graph: boss\nresources:\n  remote:\n  - name: far\n{}{more}", self.login(": ", ""));
        self.write("boss.yaml", &text)
    }

    fn run(&self, more: &[&str]) -> CommandOutput {
        let prefix = self.prefix();
        let mut all = vec!["run", "--prefix", &prefix, "--converger-timeout", "1", "--converged-exit"];
        all.extend(more);
        mgmt_output(&all)
    }

    fn deploy(&self, text: &str) {
        let (prefix, graph) = (self.prefix(), self.write("deployed.yaml", text));
        let done = mgmt_output(&["deploy", "--no-git", "--prefix", &prefix, "yaml", &graph]);
        assert_eq!(done.code, 0, "{}", done.stderr);
    }

    fn no_residue(&self) {
        eventually("nothing is left", || self.hosts.residue("one").is_empty());
    }
}

#[test]
fn a_program_runs_there_with_our_store_until_it_has_converged() {
    let env = TestEnv::new();
    assert_eq!(env.run(&["empty"]).code, 0);
    env.deploy(&one_file(&env.at("out"), "deployed"));
    let graph = env.graph("    converger_timeout: 1\n");
    let looked = env.run(&["--noop", "--detailed-exitcode", "yaml", &graph]);
    assert_eq!(looked.code, 2, "{}", looked.stderr);
    assert!(!env.at("out").exists());
    assert!(!env.hosts.host("one").cache().exists(), "looking makes nothing there");
    let done = env.run(&["yaml", &graph]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    holds(&env.at("out"), "deployed");
    assert!(done.stderr.contains("has converged, and ended"), "{}", done.stderr);
    what_is_planned_is_what_is_done(&env, &graph);
    env.no_residue();
    // Without a time of its own, it has ours; and it leaves nothing if it is not to.
    let graph = env.graph("    caching: false\n");
    std::fs::remove_dir_all(env.hosts.host("one").cache()).unwrap();
    std::fs::remove_file(env.at("out")).unwrap();
    let done = env.run(&["yaml", &graph]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    holds(&env.at("out"), "deployed");
    env.no_residue();
    assert!(!env.hosts.host("one").cache().exists());
    // What fails there fails here, with its last words.
    env.deploy("graph: bad\nresources:\n  exec:\n  - name: bad\n    cmd: /bin/false\n");
    let failed = env.run(&["yaml", &graph]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    assert!(failed.stderr.contains("with code 1"), "{}", failed.stderr);
    // It ends with us.
    let graph = env.graph("");
    env.deploy(&one_file(&env.at("out"), "again"));
    let prefix = env.prefix();
    let mut run = RunningProgram::start(&["run", "--prefix", &prefix, "yaml", &graph]);
    holds(&env.at("out"), "again");
    // It would go on for ever, so it has to be cancelled.
    run.signal(Signal::INT);
    run.wait_for("what is running may finish");
    run.signal(Signal::INT);
    let (_, lines) = run.end();
    assert!(lines.contains("started on"), "{lines}");
    env.no_residue();
}

/// With a working directory of its own, so that its history has this run alone.
fn what_is_planned_is_what_is_done(env: &TestEnv, graph: &str) {
    let prefix = env.at("compared").to_str().unwrap().to_owned();
    let compared = agreement::agrees(env!("CARGO_BIN_EXE_mgmt"), "yaml", graph, &prefix);
    assert_eq!(compared, Ok(1));
    env.no_residue();
}

#[test]
fn a_program_that_goes_on_is_kept_taken_over_and_stopped() {
    let env = TestEnv::new();
    let cluster = EtcdCluster::start(1);
    let (seeds, out) = (cluster.endpoints().join(","), env.directory.path().display().to_string());
    let program = |state: &str| {
        let text = format!(
            "if $hostname == \"boss\" {{\n  remote \"far\" {{\n{}    state => \"{state}\",\n    transient => false,\n    tunnelled => false,\n  }}\n}} else {{\n  file \"{out}/out\" {{\n    state => \"exists\",\n    content => $hostname,\n  }}\n}}\n",
            env.login(" => ", ",")
        );
        env.write("boss.mcl", &text)
    };
    let boss = |flags: &[&str], state: &str| {
        let (prefix, path) = (env.prefix(), program(state));
        let mut all = vec!["run", "--prefix", &prefix, "--hostname", "boss", "--seeds", &seeds];
        all.extend(flags);
        all.extend(["lang", &path]);
        RunningProgram::start(&all)
    };
    let ending = ["--converger-timeout", "1", "--converged-exit", "--detailed-exitcode"];
    let process = || {
        let found = env.hosts.said("one", "cat /var/lib/mgmt/remote/*/pid 2>/dev/null; true");
        found.trim().to_owned()
    };
    // Looking makes nothing there.
    let (code, lines) = boss(&[&ending[..], &["--noop"]].concat(), "running").end();
    assert_eq!(code, Some(2), "{lines}");
    assert!(!env.hosts.host("one").cache().exists());
    let mut run = boss(&[], "running");
    run.wait_for("started");
    holds(&env.at("out"), "one");
    let first = process();
    // Somebody kills it.
    env.hosts.run("one", &format!("kill -9 {first}"));
    eventually("it is started again", || {
        let now = process();
        !now.is_empty() && now != first
    });
    // The same while it is being watched, which the kernel tells.
    let is_watched = || env.hosts.residue("one").contains("__await-exit");
    eventually("it is watched", is_watched);
    let second = process();
    env.hosts.run("one", &format!("kill -9 {second}"));
    eventually("it is started once more", || {
        let now = process();
        !now.is_empty() && now != second
    });
    // We are gone, and it stays.
    run.signal(Signal::KILL);
    drop(run);
    std::fs::remove_file(env.at("out")).unwrap();
    holds(&env.at("out"), "one");
    // We are back, and it is as it should be.
    let before = process();
    let (code, lines) = boss(&ending, "running").end();
    assert_eq!(code, Some(0), "{lines}");
    assert_eq!(process(), before);
    let (code, lines) = boss(&ending, "stopped").end();
    assert_eq!(code, Some(2), "{lines}");
    assert_eq!(process(), "");
    let (code, lines) = boss(&ending, "stopped").end();
    assert_eq!(code, Some(0), "{lines}");
    // A directory that somebody has planted is not used.
    let cache = env.hosts.host("one").cache();
    let work = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_dir_all(&work).unwrap();
    std::os::unix::fs::symlink("/tmp", &work).unwrap();
    let (code, lines) = boss(&ending, "running").end();
    assert_eq!(code, Some(4), "{lines}");
    assert!(lines.contains("it is a link, or others may write to it"), "{lines}");
}

#[test]
fn a_host_that_cannot_be_used_is_told_with_the_reason() {
    let env = TestEnv::new();
    let (host, identity) = (env.hosts.host("one"), env.hosts.identity());
    let other = std::fs::read_to_string(identity.with_extension("pub")).unwrap();
    let url = format!("ssh://127.0.0.1:{}", host.port);
    for (parameters, part) in [
        (format!("    remote: {url}\n    hostkey: {}\n", other.trim()), "host key"),
        (format!("    remote: {url}\n    hostkey: {}\n    ssh_id: ''\n", host.key), "does not let us in"),
        ("    remote: ssh://127.0.0.1:1\n".to_owned(), "cannot be reached"),
        (
            format!(
                "    remote: ssh://root:wrong@127.0.0.1:{}\n    hostkey: {}\n    ssh_id: ''\n    \
                 allow_cleartext_password: true\n",
                host.port, host.key
            ),
            "does not let us in",
        ),
    ] {
        let text = format!("graph: x\nresources:\n  remote:\n  - name: far\n{parameters}");
        let graph = env.write("x.yaml", &text);
        let refused = env.run(&["yaml", &graph]);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    // The right password is as good as a key, and is never shown.
    assert_eq!(env.run(&["empty"]).code, 0);
    let text = format!(
        "graph: x\nresources:\n  remote:\n  - name: far\n    remote: ssh://root:{}@127.0.0.1:{}\n    hostkey: {}\n    \
         ssh_id: ''\n    allow_cleartext_password: true\n",
        sshd::PASSWORD.replace(' ', "%20"),
        host.port,
        host.key
    );
    let graph = env.write("x.yaml", &text);
    let done = env.run(&["--log", "debug", "yaml", &graph]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stderr.contains("has converged, and ended"), "{}", done.stderr);
    assert!(!done.stderr.contains("sesame"), "{}", done.stderr);
}
