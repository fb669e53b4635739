//! Stores that are reached through ssh, with a real sshd.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;

use mgmt_test_support::etcd::EtcdCluster;
use mgmt_test_support::program::{CommandOutput, RunningProgram, holds, mgmt_output, one_file};
use mgmt_test_support::sshd::Hosts;
use rustix::process::Signal;
use tempfile::TempDir;

struct TestEnv {
    hosts: Hosts,
    directory: TempDir,
}

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv { hosts: Hosts::start(&["far"]), directory: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A graph of one file with this content.
    fn graph(&self, content: &str) -> String {
        let path = self.at(&format!("{content}.yaml"));
        std::fs::write(&path, one_file(&self.at("out"), content)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Deploys through the host.
    fn deploy(&self, content: &str, flags: &[&str]) -> CommandOutput {
        let (config, graph) = (self.hosts.config(), self.graph(content));
        let mut all =
            vec!["deploy", "--no-git", "--ssh-url", "far", "--ssh-config", config.to_str().unwrap()];
        all.extend(flags);
        all.extend(["yaml", &graph]);
        mgmt_output(&all)
    }
}

fn finish(run: RunningProgram) {
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn a_deploy_reaches_the_run_on_another_host_and_those_who_may_not_are_told_why() {
    let env = TestEnv::new();
    let prefix = env.at("prefix");
    let prefix = prefix.to_str().unwrap();
    let none = env.deploy("early", &["--prefix", prefix]);
    assert_eq!(none.code, 1, "{}", none.stderr);
    assert!(none.stderr.contains("no run with the prefix"), "{}", none.stderr);
    let mut run = RunningProgram::start(&["run", "--prefix", prefix, "empty"]);
    run.wait_for("graph empty");
    let done = env.deploy("first", &["--prefix", prefix]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    holds(&env.at("out"), "first");
    // A key that is given is enough, and nothing else is when one is given.
    let (host, config) = (env.hosts.host("far"), env.hosts.config());
    let identity = env.hosts.identity();
    env.hosts.forget_keys();
    let unknown = env.deploy("second", &["--prefix", prefix]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("its host key is not known"), "{}", unknown.stderr);
    let pinned = env.deploy("third", &["--prefix", prefix, "--ssh-hostkey", &host.key]);
    assert_eq!(pinned.code, 0, "{}", pinned.stderr);
    holds(&env.at("out"), "third");
    let other = std::fs::read_to_string(identity.with_extension("pub")).unwrap();
    let wrong = env.deploy("fourth", &["--prefix", prefix, "--ssh-hostkey", &other]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("host key"), "{}", wrong.stderr);
    // Without the right key of ours, nobody gets in; and nobody is asked.
    let stranger = env.at("stranger");
    std::fs::write(&stranger, "no key").unwrap();
    std::fs::write(config, "").unwrap();
    let url = format!("ssh://root@127.0.0.1:{}", host.port);
    let refused = mgmt_output(&[
        "status",
        "--prefix",
        prefix,
        "--ssh-url",
        &url,
        "--ssh-hostkey",
        &host.key,
        "--ssh-id",
        stranger.to_str().unwrap(),
    ]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("does not let us in"), "{}", refused.stderr);
    let status = mgmt_output(&[
        "status",
        "--prefix",
        prefix,
        "--ssh-url",
        &url,
        "--ssh-hostkey",
        &host.key,
        "--ssh-priv-id-rsa",
        identity.to_str().unwrap(),
    ]);
    assert!(status.stdout.contains("1 resource;"), "{} {}", status.stdout, status.stderr);
    finish(run);
}

#[test]
fn servers_that_only_another_host_can_reach_are_shared_and_found_again() {
    let mut env = TestEnv::new();
    let cluster = EtcdCluster::start(1);
    let (seeds, config) = (cluster.endpoints().join(","), env.hosts.config());
    let (prefix, config) = (env.at("prefix"), config.to_str().unwrap().to_owned());
    let mut run = RunningProgram::start(&[
        "run",
        "--prefix",
        prefix.to_str().unwrap(),
        "--seeds",
        &seeds,
        "--ssh-url",
        "far",
        "--ssh-config",
        &config,
        "empty",
    ]);
    run.wait_for("graph empty");
    let done = env.deploy("first", &["--seeds", &seeds]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    holds(&env.at("out"), "first");
    env.hosts.kill("far");
    run.wait_for("the connection to root@far is lost");
    env.hosts.restart("far");
    run.wait_for("the connection to root@far is back");
    let done = env.deploy("second", &["--seeds", &seeds]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    holds(&env.at("out"), "second");
    finish(run);
}

#[test]
fn a_host_that_is_not_there_or_cannot_be_one_is_an_error_soon() {
    let unreachable = mgmt_output(&["deploy", "--no-git", "--ssh-url", "ssh://127.0.0.1:1", "empty"]);
    assert_eq!(unreachable.code, 1);
    assert!(unreachable.stderr.contains("root@127.0.0.1:1 cannot be reached"), "{}", unreachable.stderr);
    for (url, part) in [
        ("-oProxyCommand=true", "is not the name of a host"),
        ("ftp://host", "is not a scheme"),
        ("root:secret@host", "can be seen"),
    ] {
        let refused = mgmt_output(&["status", &format!("--ssh-url={url}")]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(part) && !refused.stderr.contains("secret"), "{}", refused.stderr);
    }
}
