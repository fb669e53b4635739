//! Hosts that share a real etcd.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use mgmt_test_support::etcd::EtcdCluster;
use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, holds, mgmt_output};
use rustix::process::Signal;
use tempfile::TempDir;

struct TestEnv {
    directory: TempDir,
    cluster: EtcdCluster,
}

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv { directory: tempfile::tempdir().unwrap(), cluster: EtcdCluster::start(1) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn seeds(&self) -> String {
        self.cluster.endpoints().join(",")
    }

    fn host(&self, name: &str, flags: &[&str], front_end: &[&str]) -> RunningProgram {
        let (seeds, prefix) = (self.seeds(), self.at(name));
        let mut all =
            vec!["run", "--seeds", &seeds, "--hostname", name, "--prefix", prefix.to_str().unwrap()];
        all.extend(flags);
        all.extend(front_end);
        RunningProgram::start(&all)
    }

    fn said(&self, command: &[&str]) -> CommandOutput {
        let seeds = self.seeds();
        let mut all = command.to_vec();
        all.extend(["--seeds", &seeds]);
        mgmt_output(&all)
    }
}

fn finish(run: RunningProgram) {
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

/// Writes a file named after the host.
fn program(env: &TestEnv, content: &str) -> String {
    format!(
        "import \"fmt\"\n$name = $hostname\nfile \"{}/out-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => {content},\n}}\n",
        env.directory.path().display()
    )
}

#[test]
fn a_deploy_reaches_every_host_and_those_who_come_late() {
    let env = TestEnv::new();
    let (mut a, mut b) = (env.host("a", &[], &["empty"]), env.host("b", &[], &["empty"]));
    a.wait_for("graph empty");
    b.wait_for("graph empty");
    let first = env.write("first.mcl", &program(&env, "\"first\""));
    let done = env.said(&["deploy", "--no-git", "lang", &first]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let out = |host: &str| env.at(&format!("out-{host}"));
    holds(&out("a"), "first");
    holds(&out("b"), "first");
    let second = env.write("second.mcl", &program(&env, "\"second\""));
    assert_eq!(env.said(&["deploy", "--no-git", "lang", &second]).code, 0);
    holds(&out("a"), "second");
    holds(&out("b"), "second");
    let mut late = env.host("c", &[], &["empty"]);
    holds(&out("c"), "second");
    late.wait_for("graph");
    // A program that is run on one host is given to all.
    let third = env.write("third.mcl", &program(&env, "\"third\""));
    let d = env.host("d", &[], &["lang", &third]);
    for host in ["a", "b", "c", "d"] {
        holds(&out(host), "third");
    }
    eventually("all are seen", || {
        let status = env.said(&["status"]).stdout;
        ["a  converged", "b  converged", "c  converged", "d  converged"]
            .iter()
            .all(|part| status.contains(part))
    });
    for run in [a, b, late, d] {
        finish(run);
    }
    let status = env.said(&["status"]);
    assert!(status.code == 3 && status.stdout.contains("a  lost: stopped "), "{status:?}");
    assert!(status.stdout.ends_with("store  healthy: served by m0 (leads)\n"), "{status:?}");
}

#[test]
fn hosts_collect_what_others_export_and_one_of_them_is_chosen() {
    let env = TestEnv::new();
    let directory = env.directory.path().display().to_string();
    let text = format!(
        "import \"world\"\nimport \"fmt\"\n$name = $hostname\n\
         schedule \"job\" {{\n\tttl => 3,\n}}\n\
         file \"{directory}/from-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => \"by ${{name}}\",\n\tMeta:export => [\"*\",],\n\tMeta:hidden => true,\n}}\n\
         file \"{directory}/chosen-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.schedule(\"job\")),\n}}\n\
         kv \"names\" {{\n\tmapped => true,\n\tvalue => $name,\n}}\n\
         file \"{directory}/names-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.kvlookup(\"names\")),\n}}\n"
    );
    let shared = env.write("shared.mcl", &text);
    let a = env.host("a", &["--no-deploy-watch"], &["lang", &shared]);
    holds(&env.at("chosen-a"), "[\"a\"]");
    let b = env.host("b", &["--no-deploy-watch"], &["lang", &shared]);
    holds(&env.at("chosen-b"), "[\"a\"]");
    holds(&env.at("names-a"), "{\"a\": \"a\", \"b\": \"b\"}");
    holds(&env.at("names-b"), "{\"a\": \"a\", \"b\": \"b\"}");
    let collect = format!(
        "import \"world\"\ncollect file [\n\tstruct{{name => \"{directory}/from-a\", host => \"a\",}},\n\tstruct{{name => \"{directory}/from-b\", host => \"b\",}},\n] {{\n\tMeta:hidden => false,\n}}\n"
    );
    let collecting = env.write("collect.mcl", &collect);
    let c = env.host("c", &["--no-deploy-watch"], &["lang", &collecting]);
    holds(&env.at("from-a"), "by a");
    holds(&env.at("from-b"), "by b");
    // The one who is chosen is gone without a word.
    drop(a);
    holds(&env.at("chosen-b"), "[\"b\"]");
    finish(b);
    finish(c);
}

#[test]
fn a_program_of_a_thousand_files_and_large_ones_arrives_whole() {
    let env = TestEnv::new();
    let (files, out) = (env.at("site/files"), env.at("out"));
    std::fs::create_dir_all(&files).unwrap();
    let text = format!(
        "import \"deploy\"\nfile \"{}\" {{\n\tstate => \"exists\",\n\tcontent => deploy.readfile(\"/files/large\"),\n}}\n",
        out.display()
    );
    std::fs::write(env.at("site/main.mcl"), text).unwrap();
    std::fs::write(env.at("site/metadata.yaml"), "main: \"main.mcl\"\n").unwrap();
    for number in 0..1000 {
        std::fs::write(files.join(format!("{number}")), format!("file {number}")).unwrap();
    }
    // More than a value of etcd may have.
    let large: String = (0_u32..).map(|number| format!("line {number}\n")).take(300_000).collect();
    assert!(large.len() > 3 << 20);
    std::fs::write(files.join("large"), &large).unwrap();
    let mut a = env.host("a", &[], &["empty"]);
    a.wait_for("graph empty");
    let said = env.said(&["deploy", "--no-git", "lang", env.at("site").to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    eventually("it runs", || std::fs::read_to_string(&out).is_ok_and(|found| found == large));
    let arrived = env.at("a/deploys/1/files");
    for number in 0..1000 {
        let content = std::fs::read_to_string(arrived.join(number.to_string())).unwrap();
        assert_eq!(content, format!("file {number}"));
    }
    finish(a);
}

#[test]
fn what_a_host_exports_goes_with_it_if_that_is_wanted() {
    let env = TestEnv::new();
    let text = "noop \"offer\" {\n\tMeta:export => [\"*\",],\n}\n";
    let program = env.write("export.mcl", text);
    let flags = ["--no-deploy-watch", "--export-ttl", "2"];
    let stays = env.host("stays", &flags[..1], &["lang", &program]);
    let goes = env.host("goes", &flags, &["lang", &program]);
    let exports = || env.cluster.etcdctl(&["get", "--prefix", "--keys-only", "/mgmt/host/"]);
    let offers = |host: &str| exports().contains(&format!("/mgmt/host/{host}/export/"));
    eventually("both offer", || offers("stays") && offers("goes"));
    // Both are gone without a word.
    drop((stays, goes));
    eventually("only one is kept", || offers("stays") && !offers("goes"));
    let wrong = mgmt_output(&["run", "--export-ttl", "0", "empty"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("--export-ttl"), "{}", wrong.stderr);
}

#[test]
fn a_run_goes_on_while_the_store_is_away() {
    let mut env = TestEnv::new();
    let text = program(&env, "\"text\"");
    let first = env.write("first.mcl", &text);
    let mut a = env.host("a", &[], &["lang", &first]);
    let out = env.at("out-a");
    holds(&out, "text");
    env.cluster.kill(0);
    a.wait_for("etcd");
    std::fs::write(&out, "broken").unwrap();
    holds(&out, "text");
    env.cluster.restart_and_wait(0);
    let second = env.write("second.mcl", &program(&env, "\"after\""));
    let deployed = env.said(&["deploy", "--no-git", "lang", &second]);
    assert_eq!(deployed.code, 0, "{}", deployed.stderr);
    holds(&out, "after");
    finish(a);
}

#[test]
fn a_run_that_waits_for_its_store_can_be_ended() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().to_str().unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let mut run =
            RunningProgram::start(&["run", "--prefix", prefix, "--seeds", "http://127.0.0.1:1", "empty"]);
        run.wait_for("waiting for the store");
        run.signal(signal);
        let (code, lines) = run.end();
        assert_eq!(code, Some(0), "{lines}");
    }
}

#[test]
fn servers_that_are_not_there_are_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = mgmt_output(&["status", "--seeds", "http://127.0.0.1:1"]);
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.stdout.contains("store  unavailable: no server answers"), "{nowhere:?}");
    assert!(nowhere.stdout.contains("127.0.0.1:1"), "{nowhere:?}");
    let prefix = directory.path().to_str().unwrap();
    let wrong =
        mgmt_output(&["run", "--prefix", prefix, "--seeds", "http://user:secret@127.0.0.1:1", "empty"]);
    assert_eq!(wrong.code, 2);
    assert!(!wrong.stderr.contains("secret"), "{}", wrong.stderr);
    let file = Path::new(prefix).join("login");
    std::fs::write(&file, "no colon").unwrap();
    let wrong =
        mgmt_output(&["status", "--seeds", "http://127.0.0.1:1", "--seeds-login", file.to_str().unwrap()]);
    assert!(wrong.code == 2 && wrong.stderr.contains("USER:PASSWORD"), "{}", wrong.stderr);
}
