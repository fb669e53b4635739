//! Deploys that cannot run here and now, the last one that ran, and stores that are damaged, empty or silent.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use mgmt_test_support::program;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgmt_test_support::clock::Clock;
use mgmt_test_support::etcd::EtcdCluster;
use mgmt_test_support::numbers::{Numbers, seed};
use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, holds, mgmt, mgmt_output};
use rustix::process::Signal;
use tempfile::TempDir;

struct TestEnv(TempDir);

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A run that takes deploys.
    fn run(&self) -> RunningProgram {
        RunningProgram::start(&["run", "--prefix", &self.text("prefix"), "--hostname", "h1", "empty"])
    }

    fn command(&self, arguments: &[&str]) -> CommandOutput {
        mgmt(arguments).env("MGMT_PREFIX", self.at("prefix")).output().unwrap().into()
    }

    /// Deploys a program that writes a file, and gives the number.
    fn deploy(&self, content: &str) {
        let program = self.write("main.mcl", &file(&self.at("out"), content));
        self.deploy_file(&program);
    }

    fn deploy_file(&self, program: &str) {
        let said = self.command(&["deploy", "--no-git", "lang", program]);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }

    /// A program whose graph has a cycle as long as the file `input` names `a`.
    fn contradictory(&self, content: &str) -> String {
        let input = self.text("input");
        let text = format!(
            "import \"os\"\n$to = os.readfile({input:?})\nnoop \"a\" {{}}\nnoop \"b\" {{}}\nnoop \"c\" {{}}\n\
             Noop[\"a\"] -> Noop[\"b\"]\nNoop[\"b\"] -> Noop[$to]\n{}",
            file(&self.at("out"), content)
        );
        self.write("contradictory.mcl", &text)
    }

    /// Changes a key of the store directly, as somebody else could.
    fn store(&self, key: &str, value: &str) {
        let entry = serde_json::json!({ "key": key, "value": { "text": value }, "created": 1, "modified": 1, "lease": null });
        let import = self.write("import", &format!("{entry}\n"));
        let said = self.command(&["world", "import", "--force", &import]);
        assert_eq!(said.code, 0, "{}", said.stderr);
    }
}

fn file(path: &Path, content: &str) -> String {
    format!("file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => {content},\n}}\n", path.display())
}

fn finish(run: RunningProgram) -> String {
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    lines
}

#[test]
fn a_deploy_that_cannot_run_is_tried_again_when_what_it_reads_changes() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    env.write("input", "a");
    env.deploy_file(&env.contradictory("\"two\""));
    let line = run.wait_for("deploy 2 cannot be run; what ran before goes on");
    assert!(line.contains("retrying in "), "{line}");
    // The old one goes on, and the status says why.
    std::fs::write(env.at("out"), "broken").unwrap();
    holds(&env.at("out"), "one");
    eventually("the status has the reason", || {
        let status = env.command(&["status"]).stdout;
        status.contains("deploy 2 refused: ")
            && status.contains("next attempt")
            && status.contains("deploy 1;")
    });
    env.write("input", "c");
    holds(&env.at("out"), "two");
    eventually("the status has no reason any more", || {
        let status = env.command(&["status"]).stdout;
        status.contains("deploy 2;") && !status.contains("refused")
    });
    finish(run);
}

#[test]
fn a_deploy_with_a_failed_look_at_the_host_runs() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    let text = format!(
        "import \"os\"\n{}{}",
        file(&env.at("user"), "os.uid(\"mgmt-no-such-user\")"),
        file(&env.at("out"), "\"one\"")
    );
    env.deploy_file(&env.write("user.mcl", &text));
    holds(&env.at("out"), "one");
    eventually("the value is named, and nothing is refused", || {
        let status = env.command(&["status"]).stdout;
        status.contains("deploy 1") && status.contains("mgmt-no-such-user") && !status.contains("refused")
    });
    // A constant that fails has a deploy refused, and the one before goes on.
    env.deploy_file(&env.write("constant.mcl", &file(&env.at("out"), "[\"a\"][3]")));
    run.wait_for("deploy 2 cannot be run; what ran before goes on");
    std::fs::write(env.at("out"), "broken").unwrap();
    holds(&env.at("out"), "one");
    finish(run);
}

#[test]
fn after_a_restart_the_last_deploy_that_ran_runs_while_the_newest_is_tried() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    env.write("input", "a");
    env.deploy_file(&env.contradictory("\"two\""));
    run.wait_for("deploy 2 cannot be run");
    finish(run);
    for _ in 0..2 {
        std::fs::remove_file(env.at("out")).unwrap();
        let mut run = env.run();
        run.wait_for("deploy 2 cannot be run");
        holds(&env.at("out"), "one");
        eventually("the status has both", || {
            let status = env.command(&["--message-format", "json", "status"]).stdout;
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            let deploy = &status["hosts"]["h1"]["report"]["deploy"];
            deploy["running"] == 1 && deploy["refused"]["deploy"] == 2
        });
        finish(run);
    }
    let mut run = env.run();
    run.wait_for("deploy 2 cannot be run");
    env.write("input", "c");
    holds(&env.at("out"), "two");
    finish(run);
    // It has run, so it is what the next start begins with, whatever the store says.
    std::fs::remove_dir_all(env.at("prefix/world")).unwrap();
    std::fs::remove_file(env.at("out")).unwrap();
    let mut run = env.run();
    run.wait_for("the store has no deploy: running deploy 2, the last that ran here");
    holds(&env.at("out"), "two");
    env.deploy("\"three\"");
    holds(&env.at("out"), "three");
    finish(run);
}

#[test]
fn a_deploy_is_tried_again_on_sighup_and_with_time() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    let deploys = env.at("prefix/deploys");
    let blocked = |name: &str| {
        // Something is in the way of all directories that it could use.
        for number in std::iter::once(name.to_owned()).chain((1..10_000).map(|at| format!("{name}-{at}"))) {
            std::fs::write(deploys.join(number), "").unwrap();
        }
    };
    let freed = |name: &str| {
        for entry in std::fs::read_dir(&deploys).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && path.file_name().unwrap().to_str().unwrap().starts_with(name) {
                std::fs::remove_file(path).unwrap();
            }
        }
    };
    blocked("2");
    env.deploy("\"two\"");
    run.wait_for("deploy 2 cannot be run");
    run.wait_for("deploy 2 still cannot be run");
    freed("2");
    holds(&env.at("out"), "two");
    blocked("3");
    env.deploy("\"three\"");
    run.wait_for("deploy 3 cannot be run");
    for _ in 0..5 {
        run.wait_for("deploy 3 still cannot be run");
    }
    freed("3");
    run.signal(Signal::HUP);
    holds(&env.at("out"), "three");
    finish(run);
}

#[test]
fn the_last_deploy_that_ran_is_tried_again_while_it_cannot_run() {
    let env = TestEnv::new();
    env.write("input", "c");
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy_file(&env.contradictory("\"one\""));
    holds(&env.at("out"), "one");
    finish(run);
    // The store is lost with the deploy in it, and the last deploy does not run at the start.
    std::fs::remove_dir_all(env.at("prefix/world")).unwrap();
    std::fs::remove_file(env.at("out")).unwrap();
    env.write("input", "a");
    let mut run = env.run();
    let line = run.wait_for("deploy 1, the last that ran here, cannot be run");
    assert!(line.contains("retrying in "), "{line}");
    eventually("the host is stale", || {
        let status = env.command(&["status"]);
        status.code == 1 && status.stdout.contains("stale") && status.stdout.contains("deploy 1 refused: ")
    });
    env.write("input", "c");
    holds(&env.at("out"), "one");
    eventually("the host is well", || {
        let status = env.command(&["status"]);
        status.code == 0 && status.stdout.contains("deploy 1;") && !status.stdout.contains("refused")
    });
    finish(run);
}

#[test]
fn a_deploy_in_whose_attempts_mgmt_ended_is_backed_off_from() {
    let env = TestEnv::new();
    let trying = env.at("prefix/deploys/trying.json");
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    finish(run);
    assert!(!trying.exists());
    env.deploy("\"two\"");
    std::fs::remove_file(env.at("out")).unwrap();
    // As runs leave it that were killed in the second attempt, for example for lack of memory.
    std::fs::write(&trying, "{\"id\":2,\"attempts\":2}").unwrap();
    let mut run = env.run();
    let line = run.wait_for("deploy 2 is not run now: mgmt ended while it was tried (2 times in a row)");
    assert!(line.contains("retrying in "), "{line}");
    run.wait_for("deploy 2 refused");
    holds(&env.at("out"), "two");
    eventually("the attempt is over", || !trying.exists());
    let lines = finish(run);
    assert!(lines.contains("made ") && lines.contains("trying deploy 2 again"), "{lines}");
}

#[test]
fn a_deploy_that_cannot_be_kept_for_the_next_start_is_kept_later() {
    let env = TestEnv::new();
    std::fs::create_dir(env.at("prefix")).unwrap();
    let (one, two) = (
        env.write("one.mcl", &file(&env.at("out"), "\"one\"")),
        env.write("two.mcl", &file(&env.at("out"), "\"two\"")),
    );
    let script = format!(
        "set -e; cd {at}; mkdir prefix/deploys
        mount -t tmpfs -o size=1m,nr_inodes=6,mode=700 deploys prefix/deploys
        {mgmt} run --prefix prefix empty > log 2>&1 & pid=$!
        trap 'kill -9 $pid' EXIT
        said() {{ n=0; until grep -q \"$1\" log; do sleep 0.1; n=$((n+1)); [ $n -lt 1200 ] || {{ cat log; exit 7; }}; done; }}
        is() {{ n=0; until test \"$(cat out)\" = $1; do sleep 0.1; n=$((n+1)); [ $n -lt 1200 ] || {{ cat log; exit 8; }}; done; }}
        said 'graph empty'
        {mgmt} deploy --prefix prefix --no-git lang {one}; is one
        {mgmt} deploy --prefix prefix --no-git lang {two}; is two
        said 'deploy 2 is not kept for the next start yet'
        mount -o remount,nr_inodes=100 prefix/deploys
        said 'deploy 2 is kept for the next start now'
        grep -Eq '\"id\": ?2' prefix/deploys/last.json
        trap - EXIT; kill -INT $pid; wait $pid; echo ended well",
        at = env.0.path().display(),
        mgmt = env!("CARGO_BIN_EXE_mgmt"),
    );
    let said = with_mounts(&script);
    assert!(said.code == 0 && said.stdout.contains("ended well"), "{said:?}");
}

#[test]
fn what_runs_goes_on_while_a_deployed_manifest_is_compiled_and_the_status_has_its_error() {
    let env = TestEnv::new();
    env.write("input", "old");
    let at = env.0.path().display();
    let manifest = env.write(
        "site.pp",
        &format!(
            "$x = generate('/bin/sh', '-c', 'cat {at}/fail 2>/dev/null; if test -e {at}/slow; then echo > {at}/started; \
             exec sleep 60; fi')\nif $x =~ /first/ {{ fail('the first reason') }}\n\
             if $x =~ /other/ {{ fail('quite another reason') }}\nfile {{ '{at}/native': ensure => file, content => $x }}\n"
        ),
    );
    let mut run = env.run();
    run.wait_for("graph empty");
    let said = env.command(&["deploy", "--no-git", "puppet", &manifest]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    eventually("the manifest runs", || env.at("native").exists());
    let program = format!("import \"os\"\n{}", file(&env.at("out"), &format!("os.readfile(\"{at}/input\")")));
    env.deploy_file(&env.write("main.mcl", &program));
    holds(&env.at("out"), "old");
    env.write("fail", "first");
    assert_eq!(env.command(&["deploy", "rollback", "1"]).code, 0);
    eventually("the status has the reason", || {
        let status = env.command(&["status"]).stdout;
        status.contains("deploy 3 refused: ") && status.contains("the first reason")
    });
    // Another reason is said.
    env.write("fail", "other");
    run.wait_for("quite another reason");
    // A compilation that takes long holds up neither what runs nor the end.
    env.write("slow", "");
    eventually("a compilation is under way", || env.at("started").exists());
    let began = std::time::Instant::now();
    env.write("input", "new");
    holds(&env.at("out"), "new");
    finish(run);
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn attempts_of_a_refused_program_with_a_manifest_leave_what_runs_alone() {
    let env = TestEnv::new();
    let at = env.0.path().display();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.write("input", "c");
    let lang = env.contradictory("\"two\"");
    let manifest =
        env.write("site.pp", &format!("file {{ '{at}/native': ensure => file, content => 'x' }}\n"));
    let said = env.command(&["deploy", "--no-git", "langpuppet", "--lang", &lang, "--puppet", &manifest]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    holds(&env.at("out"), "two");
    let count = env.text("count");
    let command = format!("os.system(\"echo >> {count}; echo one\")");
    env.deploy_file(&env.write("main.mcl", &format!("import \"os\"\n{}", file(&env.at("out"), &command))));
    holds(&env.at("out"), "one");
    env.write("input", "a");
    assert_eq!(env.command(&["deploy", "rollback", "1"]).code, 0);
    run.wait_for("deploy 3 cannot be run; what");
    for _ in 0..3 {
        run.wait_for("trying deploy 3 again");
    }
    // Once at first, and once more after the first attempt.
    let times = std::fs::read_to_string(&count).unwrap().lines().count();
    assert!(times <= 2, "it was started {times} times");
    env.write("input", "c");
    holds(&env.at("out"), "two");
    finish(run);
}

#[test]
fn a_program_of_a_run_is_run_while_the_store_does_not_answer_and_given_to_hosts_later() {
    let env = TestEnv::new();
    let mut cluster = EtcdCluster::start(1);
    let seeds = cluster.endpoints().join(",");
    let prefix = env.text("prefix");
    cluster.kill(0);
    let program = env.write("main.mcl", &file(&env.at("out"), "\"one\""));
    let arguments = ["run", "--prefix", &prefix, "--hostname", "h1", "--seeds", &seeds];
    let mut run = RunningProgram::start(&[&arguments[..], &["lang", &program]].concat());
    holds(&env.at("out"), "one");
    cluster.restart_and_wait(0);
    run.wait_for("deployed as number 1");
    finish(run);
    // The time that a run may take is over without a store, too.
    cluster.kill(0);
    let limited = ["--max-runtime", "3", "--converger-timeout", "1", "--converged-exit", "lang", &program];
    let said = mgmt_output(&[&arguments[..], &limited].concat());
    assert!(said.code != 0 && said.stderr.contains("the maximum time to run is over"), "{said:?}");
}

/// Runs a script in a mount namespace of its own, as root there.
fn with_mounts(script: &str) -> CommandOutput {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    program::plain(&mut command);
    command.output().unwrap().into()
}

#[test]
fn the_errors_of_a_deploy_that_cannot_run_are_shown_once_however_often_it_is_tried() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    // Checked when it is evaluated, and not before.
    env.deploy_file(
        &env.write("bogus.mcl", "$state = \"bo\" + \"gus\"\nsvc \"a\" {\n\tstate => $state,\n}\n"),
    );
    run.wait_for("deploy 2 cannot be run; what ran before goes on");
    for _ in 0..3 {
        let line = run.wait_for("deploy 2 still cannot be run");
        assert!(line.contains("for the same reason; retrying in "), "{line}");
    }
    // Another error is another matter.
    env.deploy_file(&env.write("panics.mcl", "panic(\"never mind\")\n"));
    run.wait_for("the program panics: never mind");
    run.wait_for("deploy 3 cannot be run; what ran before goes on");
    let lines = finish(run);
    assert_eq!(lines.matches("error[M").count(), 2, "{lines}");
}

#[test]
fn a_deploy_that_found_the_disk_full_runs_when_there_is_room() {
    let env = TestEnv::new();
    let large = "x".repeat(600 << 10);
    std::fs::create_dir_all(env.at("site/files")).unwrap();
    std::fs::write(env.at("site/metadata.yaml"), "main: \"main.mcl\"\n").unwrap();
    std::fs::write(env.at("site/files/large"), &large).unwrap();
    std::fs::write(env.at("site/main.mcl"), file(&env.at("out"), "\"two\"")).unwrap();
    let small = env.write("small.mcl", &file(&env.at("out"), "\"one\""));
    std::fs::create_dir(env.at("prefix")).unwrap();
    // The files of deploys are on a disk of their own, so that the store has room.
    let script = format!(
        "set -e; cd {at}; mkdir prefix/deploys; mount -t tmpfs -o size=1m,mode=700 deploys prefix/deploys
        {mgmt} run --prefix prefix empty > log 2>&1 & pid=$!
        trap 'kill -9 $pid' EXIT
        said() {{ n=0; until grep -q \"$1\" log; do sleep 0.1; n=$((n+1)); [ $n -lt 1200 ] || {{ cat log; exit 7; }}; done; }}
        said 'graph empty'
        {mgmt} deploy --prefix prefix --no-git lang {small}; said 'graph .*main.mcl\\|graph .*small.mcl'
        head -c 700k /dev/zero > prefix/deploys/full
        {mgmt} deploy --prefix prefix --no-git lang site
        said 'deploy 2 cannot be run'; said 'No space left'
        test \"$(cat out)\" = one; echo broken > out
        n=0; until test \"$(cat out)\" = one; do sleep 0.1; n=$((n+1)); [ $n -lt 1200 ]; done
        rm prefix/deploys/full
        n=0; until test \"$(cat out)\" = two; do sleep 0.1; n=$((n+1)); [ $n -lt 1200 ] || {{ cat log; exit 8; }}; done
        trap - EXIT; kill -INT $pid; wait $pid; echo ended well",
        at = env.0.path().display(),
        mgmt = env!("CARGO_BIN_EXE_mgmt"),
    );
    let said = with_mounts(&script);
    assert!(said.code == 0 && said.stdout.contains("ended well"), "{said:?}");
}

#[test]
fn after_a_restart_on_a_full_disk_the_last_deploy_runs() {
    let env = TestEnv::new();
    let (one, two) = (
        env.write("one.mcl", &file(&env.at("out"), "\"one\"")),
        env.write("two.mcl", &file(&env.at("out"), "\"two\"")),
    );
    // There is neither room nor an inode left, and the word that names the directory was lost.
    let script = format!(
        "set -e; cd {at}; mkdir prefix; mount -t tmpfs -o size=4m,mode=700 prefix prefix
        start() {{ {mgmt} run --prefix prefix empty > log 2>&1 & pid=$!; trap 'kill -9 $pid' EXIT; }}
        said() {{ n=0; until grep -q \"$1\" log; do sleep 0.1; n=$((n+1)); [ $n -lt 1200 ] || {{ cat log; exit 7; }}; done; }}
        is() {{ n=0; until test \"$(cat out)\" = $1; do sleep 0.1; n=$((n+1)); [ $n -lt 1200 ] || {{ cat log; exit 8; }}; done; }}
        start; said 'graph empty'
        {mgmt} deploy --prefix prefix --no-git lang {one}; is one
        kill -INT $pid; wait $pid; rm out
        : > prefix/agent-id; head -c 8m /dev/zero > prefix/full || test -s prefix/full
        mount -o remount,nr_inodes=$(find prefix | wc -l) prefix
        start; is one; said 'journal: No space left'; said 'agent-id: No space left'
        rm prefix/full; mount -o remount,nr_inodes=1000 prefix
        {mgmt} deploy --prefix prefix --no-git lang {two}; is two
        trap - EXIT; kill -INT $pid; wait $pid; echo ended well",
        at = env.0.path().display(),
        mgmt = env!("CARGO_BIN_EXE_mgmt"),
    );
    let said = with_mounts(&script);
    assert!(said.code == 0 && said.stdout.contains("ended well"), "{said:?}");
}

#[test]
fn a_host_whose_store_is_down_begins_with_its_last_deploy_and_catches_up() {
    let env = TestEnv::new();
    let mut cluster = EtcdCluster::start(1);
    let seeds = cluster.endpoints().join(",");
    let prefix = env.text("prefix");
    let start = || {
        RunningProgram::start(&["run", "--prefix", &prefix, "--hostname", "h1", "--seeds", &seeds, "empty"])
    };
    let deploy = |content: &str| {
        let program = env.write("main.mcl", &file(&env.at("out"), content));
        let said = mgmt_output(&["deploy", "--no-git", "--seeds", &seeds, "lang", &program]);
        assert_eq!(said.code, 0, "{}", said.stderr);
    };
    let mut run = start();
    run.wait_for("graph empty");
    deploy("\"one\"");
    holds(&env.at("out"), "one");
    finish(run);
    cluster.kill(0);
    std::fs::remove_file(env.at("out")).unwrap();
    let mut run = start();
    run.wait_for("the store does not answer: running deploy 1, the last that ran here");
    holds(&env.at("out"), "one");
    // Commands do not wait for ever, and say what for.
    let said = mgmt_output(&["deploy", "list", "--timeout", "3s", "--seeds", &seeds]);
    assert_ne!(said.code, 0);
    assert!(said.stderr.contains(&format!("the store at {seeds}")), "{}", said.stderr);
    cluster.restart_and_wait(0);
    deploy("\"two\"");
    holds(&env.at("out"), "two");
    finish(run);
}

#[test]
fn a_value_of_the_store_is_not_taken_for_missing_before_the_store_has_answered() {
    let env = TestEnv::new();
    let mut cluster = EtcdCluster::start(1);
    let seeds = cluster.endpoints().join(",");
    let prefix = env.text("prefix");
    let start = || {
        RunningProgram::start(&["run", "--prefix", &prefix, "--hostname", "h1", "--seeds", &seeds, "empty"])
    };
    let value = "import \"world\"\n$value = world.getval(\"key\")\n$text = if $value->exists { \"known\" } else { \"missing\" }\n";
    let text = format!("{value}kv \"key\" {{\n\tvalue => \"x\",\n}}\n{}", file(&env.at("out"), "$text"));
    let program = env.write("main.mcl", &text);
    let mut run = start();
    run.wait_for("graph empty");
    assert_eq!(mgmt_output(&["deploy", "--no-git", "--seeds", &seeds, "lang", &program]).code, 0);
    holds(&env.at("out"), "known");
    finish(run);
    cluster.kill(0);
    std::fs::write(env.at("out"), "before").unwrap();
    let mut run = start();
    run.wait_for("the store has not answered since the start");
    assert_eq!(std::fs::read_to_string(env.at("out")).unwrap(), "before");
    cluster.restart_and_wait(0);
    holds(&env.at("out"), "known");
    finish(run);
}

#[test]
fn a_command_does_not_wait_for_ever_for_a_run_that_stands_still() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    run.signal(Signal::STOP);
    for command in [&["deploy", "list"][..], &["deploy", "--no-git", "empty"], &["world", "export"]] {
        let said = env.command(&[command, &["--timeout", "2s"]].concat());
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.stderr.contains("has not answered within 2s"), "{said:?}");
        assert!(said.stderr.contains("waiting for the store of the run in"), "{said:?}");
    }
    // A plan needs the store only for shared values.
    let program = env.write("main.mcl", "noop \"a\" {}\n");
    let planned = env.command(&["plan", "lang", &program]);
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(
        planned.stderr.contains("has not answered within 10s; planning without shared values"),
        "{planned:?}"
    );
    run.signal(Signal::CONT);
    assert_eq!(env.command(&["deploy", "list"]).code, 0);
    finish(run);
}

#[test]
fn records_that_cannot_be_read_stop_nobody() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    env.deploy("\"two\"");
    holds(&env.at("out"), "two");
    env.store("/deploy/id/00000000000000000001", "{\"format\":7}");
    let list = env.command(&["deploy", "list"]);
    assert_eq!((list.code, list.stdout.lines().count()), (0, 2), "{list:?}");
    assert!(list.stdout.contains("    1  cannot be read: it has format 7"), "{list:?}");
    // No host is affected, and it is named.
    eventually("the status names it", || {
        let status = env.command(&["status"]);
        status.code == 0
            && status.stdout.contains("warning: deploy 1 cannot be read, and cannot be rolled back to")
    });
    // The newest one is said to be one that is not there.
    env.store("/deploy/newest", "{\"format\":1,\"id\":40}");
    run.wait_for("deploy 40 cannot be read; what ran before goes on");
    assert!(env.command(&["deploy", "list"]).stdout.contains("   40  cannot be read"));
    std::fs::write(env.at("out"), "broken").unwrap();
    holds(&env.at("out"), "two");
    let program = env.write("main.mcl", &file(&env.at("out"), "\"three\""));
    let said = env.command(&["deploy", "--no-git", "lang", &program]);
    assert!(said.code == 0 && said.stdout.trim_start().starts_with("41 "), "{said:?}");
    assert!(said.stderr.contains("deploy 1 cannot be read"), "{said:?}");
    assert!(
        said.stderr.contains("the newest deploy cannot be read, and is replaced by deploy 41"),
        "{said:?}"
    );
    holds(&env.at("out"), "three");
    // A host that starts with a newest deploy that it cannot read goes on with its last one.
    env.store("/deploy/newest", "garbage");
    run.wait_for("cannot be read; what ran before goes on");
    finish(run);
    std::fs::remove_file(env.at("out")).unwrap();
    let mut run = env.run();
    run.wait_for("the newest deploy cannot be read: running deploy 41, the last that ran here");
    holds(&env.at("out"), "three");
    finish(run);
}

#[test]
fn a_record_of_the_newest_deploy_that_is_repaired_is_read_again() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    for content in ["\"one\"", "\"two\""] {
        env.deploy(content);
        holds(&env.at("out"), content.trim_matches('"'));
    }
    let pointer = |id: u64| env.store("/deploy/newest", &format!("{{\"format\":1,\"id\":{id}}}"));
    env.store("/deploy/newest", "garbage");
    run.wait_for("the newest deploy cannot be read; what ran before goes on");
    eventually("the status says so", || {
        let status = env.command(&["status"]);
        let said = "the newest deploy refused: its record cannot be read";
        status.code == 1 && status.stdout.contains(said) && status.stdout.contains("next attempt")
    });
    run.signal(Signal::HUP);
    pointer(2);
    run.wait_for("the newest deploy can be read again");
    eventually("nothing is wrong", || {
        let status = env.command(&["status"]);
        status.code == 0 && status.stdout.contains("deploy 2;")
    });
    // One that was refused before is tried again after that.
    env.write("input", "a");
    env.deploy_file(&env.contradictory("\"three\""));
    run.wait_for("deploy 3 cannot be run");
    env.store("/deploy/newest", "garbage");
    run.wait_for("the newest deploy cannot be read; what ran before goes on");
    pointer(3);
    run.wait_for("the newest deploy can be read again");
    eventually("the status has the reason", || {
        env.command(&["status"]).stdout.contains("deploy 3 refused: ")
    });
    env.write("input", "c");
    holds(&env.at("out"), "three");
    // A record that comes later than the pointer to it.
    let stored = env.command(&["world", "export"]).stdout;
    let record = stored.lines().find(|line| line.contains("/deploy/id/00000000000000000001")).unwrap();
    let record: serde_json::Value = serde_json::from_str(record).unwrap();
    let record = record["value"]["text"].as_str().unwrap().replacen("\"id\":1,", "\"id\":4,", 1);
    pointer(4);
    run.wait_for("deploy 4 cannot be read; what ran before goes on");
    env.store("/deploy/id/00000000000000000004", &record);
    holds(&env.at("out"), "one");
    eventually("nothing is wrong", || {
        let status = env.command(&["status"]);
        status.code == 0 && status.stdout.contains("deploy 4;")
    });
    finish(run);
}

#[test]
fn rollback_takes_the_last_deploy_before_one_that_cannot_be_read() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    for content in ["\"one\"", "\"two\"", "\"three\""] {
        env.deploy(content);
        holds(&env.at("out"), content.trim_matches('"'));
    }
    env.store("/deploy/id/00000000000000000003", "garbage");
    let rolled_back = env.command(&["deploy", "rollback"]);
    assert!(rolled_back.code == 0 && rolled_back.stdout.contains("again number 2"), "{rolled_back:?}");
    holds(&env.at("out"), "two");
    finish(run);
}

#[test]
fn attempts_of_a_refused_deploy_leave_what_runs_alone_and_are_not_reported_as_running() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    let count = env.text("count");
    let command = format!("os.system(\"echo >> {count}; echo one\")");
    env.deploy_file(&env.write("main.mcl", &format!("import \"os\"\n{}", file(&env.at("out"), &command))));
    holds(&env.at("out"), "one");
    eventually("the status has the deploy", || env.command(&["status"]).stdout.contains("deploy 1;"));
    env.write("input", "a");
    env.deploy_file(&env.contradictory("os.system(\"sleep 2; echo two\")"));
    let mut is_refused = false;
    while !is_refused {
        let status = env.command(&["--message-format", "json", "status"]).stdout;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let deploy = &status["hosts"]["h1"]["report"]["deploy"];
        assert_eq!(deploy["running"], 1, "{status}");
        is_refused = deploy["refused"]["deploy"] == 2;
    }
    for _ in 0..3 {
        run.wait_for("deploy 2 still cannot be run");
    }
    // Once at first, and once more after the first attempt.
    let times = std::fs::read_to_string(&count).unwrap().lines().count();
    assert!(times <= 2, "it was started {times} times");
    env.write("input", "c");
    holds(&env.at("out"), "two");
    finish(run);
}

#[test]
fn the_last_deploy_survives_a_run_with_another_store() {
    let env = TestEnv::new();
    let mut cluster = EtcdCluster::start(1);
    let seeds = cluster.endpoints().join(",");
    let prefix = env.text("prefix");
    let start = || {
        RunningProgram::start(&["run", "--prefix", &prefix, "--hostname", "h1", "--seeds", &seeds, "empty"])
    };
    let mut run = start();
    run.wait_for("graph empty");
    let program = env.write("main.mcl", &file(&env.at("out"), "\"one\""));
    assert_eq!(mgmt_output(&["deploy", "--no-git", "--seeds", &seeds, "lang", &program]).code, 0);
    holds(&env.at("out"), "one");
    finish(run);
    let once =
        ["run", "--prefix", &prefix, "--converger-timeout=0", "--converged-exit", "lang", "noop \"a\" {}"];
    let alone = mgmt_output(&once);
    assert_eq!(alone.code, 0, "{alone:?}");
    cluster.kill(0);
    std::fs::remove_file(env.at("out")).unwrap();
    let mut run = start();
    run.wait_for("the store does not answer: running deploy 1, the last that ran here");
    holds(&env.at("out"), "one");
    finish(run);
}

#[test]
fn a_signer_whose_clock_is_ahead_locks_nobody_out() {
    let env = TestEnv::new();
    let key = env.text("key");
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &key]).status().unwrap();
    assert!(made.success());
    let public = format!("{key}.pub");
    let prefix = env.text("prefix");
    let mut run = RunningProgram::start(&["run", "--prefix", &prefix, "--deploy-key", &public, "empty"]);
    run.wait_for("graph empty");
    let clock = Clock::new(env.0.path());
    let sign = |content: &str, step: &str, more: &[&str]| {
        let program = env.write("main.mcl", &file(&env.at("out"), &format!("{content:?}")));
        let mut arguments = vec!["deploy", "--prefix", &prefix, "--no-git", "--sign-key", &key];
        arguments.extend(more);
        arguments.extend(["lang", &program]);
        let mut command = mgmt(&arguments);
        clock.set(step);
        clock.given_to(&mut command);
        let said: CommandOutput = command.output().unwrap().into();
        assert_eq!(said.code, 0, "{}", said.stderr);
    };
    sign("ahead", "+5h", &[]);
    run.wait_for(
        "deploy 1 is refused: its series begins in the future, and at most 300 seconds are accepted",
    );
    sign("first", "+0", &[]);
    holds(&env.at("out"), "first");
    // Within a series, no clock counts: neither one that is ahead nor one that is behind.
    sign("second", "+5h", &[]);
    holds(&env.at("out"), "second");
    eventually("the host says what it runs", || env.command(&["status"]).stdout.contains("deploy 3;"));
    sign("third", "-5h", &[]);
    holds(&env.at("out"), "third");
    // A deploy that is not signed comes in between, and changes nothing about that.
    assert_eq!(env.command(&["deploy", "--no-git", "empty"]).code, 0);
    run.wait_for("deploy 5 is refused: nobody has signed it");
    let before = env.command(&["world", "export"]).stdout;
    sign("fourth", "+0", &[]);
    holds(&env.at("out"), "fourth");
    // The store is restored from a backup: its numbers are given again, and that has to be signed.
    finish(run);
    std::fs::remove_dir_all(env.at("prefix/world")).unwrap();
    finish_started(&["run", "--prefix", &prefix, "--wait", "empty"]);
    let backup = env.write("backup", &before);
    assert_eq!(env.command(&["world", "import", "--force", &backup]).code, 0);
    let mut run = RunningProgram::start(&["run", "--prefix", &prefix, "--deploy-key", &public, "empty"]);
    run.wait_for("deploy 5 is refused");
    sign("fifth", "+0", &[]);
    let line = run.wait_for("deploy 6 is refused: it is older than one that this host has accepted before");
    assert!(line.contains("number 6, accepted 6"), "{line}");
    run.wait_for("--new-series");
    sign("sixth", "+0", &["--new-series"]);
    holds(&env.at("out"), "sixth");
    sign("seventh", "+0", &[]);
    holds(&env.at("out"), "seventh");
    finish(run);
}

#[test]
fn a_host_whose_clock_is_ahead_locks_no_other_out() {
    let env = TestEnv::new();
    let cluster = EtcdCluster::start(1);
    let seeds = cluster.endpoints().join(",");
    let key = env.text("key");
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &key]).status().unwrap();
    assert!(made.success());
    let public = format!("{key}.pub");
    let clock = Clock::new(env.0.path());
    let program = env.write("main.mcl", "noop \"a\" {}\n");
    let command = |words: &[&str], hour: &str| {
        let mut command = mgmt(words);
        clock.set(hour);
        clock.given_to(&mut command);
        command
    };
    let host = |name: &str| {
        let prefix = env.text(name);
        let words = ["run", "--prefix", &prefix, "--hostname", name, "--seeds", &seeds];
        mgmt(&[&words[..], &["--deploy-key", &public, "empty"]].concat())
    };
    let mut ahead = host("ahead");
    clock.given_to(&mut ahead);
    clock.set("+5h");
    let (ahead, mut right) =
        (RunningProgram::start_command(ahead), RunningProgram::start_command(host("right")));
    let sign = |hour: &str, more: &[&str]| {
        let words = ["deploy", "--seeds", &seeds, "--no-git", "--sign-key", &key];
        let said: CommandOutput =
            command(&[&words[..], more, &["lang", &program]].concat(), hour).output().unwrap().into();
        assert_eq!(said.code, 0, "{}", said.stderr);
        clock.set("+5h");
        said.stderr
    };
    let runs = |host: &str, number: u64| {
        eventually(&format!("{host} runs deploy {number}"), || {
            let status = mgmt_output(&["status", "--seeds", &seeds]).stdout;
            let running = format!("deploy {number};");
            status.lines().any(|line| line.starts_with(&format!("{host}  ")) && line.contains(&running))
        });
    };
    right.wait_for("graph empty");
    sign("+5h", &[]);
    runs("ahead", 1);
    right.wait_for("deploy 1 is refused: its series begins in the future");
    let status = mgmt_output(&["status", "--seeds", &seeds]).stdout;
    assert!(!status.contains("refused: deploy 1 is refused"), "{status}");
    // A signer with the right clock is heard by both, whatever the clocks of the hosts say.
    let said = sign("+0", &[]);
    assert!(said.contains("this deploy replaces the series"), "{said}");
    runs("ahead", 2);
    runs("right", 2);
    sign("+0", &["--new-series"]);
    runs("ahead", 3);
    runs("right", 3);
    // The one whose clock is ahead goes on with that series, too.
    sign("+5h", &[]);
    runs("ahead", 4);
    runs("right", 4);
    finish(ahead);
    finish(right);
}

#[test]
fn a_run_with_a_program_of_its_own_runs_it_while_the_store_is_full() {
    let env = TestEnv::new();
    let cluster = EtcdCluster::start(1);
    let seeds = cluster.endpoints().join(",");
    let alarm = |action: &str| {
        let body = format!("{{\"action\":\"{action}\",\"memberID\":0,\"alarm\":\"NOSPACE\"}}");
        let url = format!("{}/v3/maintenance/alarm", cluster.endpoints()[0]);
        let done = Command::new("curl").args(["-sSf", "-d", &body, &url]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    alarm("ACTIVATE");
    let program = env.write("main.mcl", &file(&env.at("out"), "\"one\""));
    let prefix = env.text("prefix");
    let mut run = RunningProgram::start(&[
        "run",
        "--prefix",
        &prefix,
        "--hostname",
        "h1",
        "--seeds",
        &seeds,
        "lang",
        &program,
    ]);
    run.wait_for("cannot give the program of this run to other hosts");
    holds(&env.at("out"), "one");
    alarm("DEACTIVATE");
    run.wait_for("deployed as number 1");
    eventually("the host says what it runs", || {
        mgmt_output(&["status", "--seeds", &seeds]).stdout.contains("deploy 1;")
    });
    std::fs::write(env.at("out"), "broken").unwrap();
    holds(&env.at("out"), "one");
    finish(run);
}

fn finish_started(arguments: &[&str]) {
    let mut run = RunningProgram::start(arguments);
    run.wait_for("graph empty");
    finish(run);
}

/// All files that a run has left below its prefix, apart from its lock and its socket.
fn kept_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
        if kind.is_dir() {
            files.extend(kept_files(&path));
        } else if kind.is_file() && !path.ends_with("lock") && path.metadata().unwrap().len() > 0 {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// A program with everything that is kept: values, a pool, a password, a reversal, notifications, history.
fn keeps_everything(env: &TestEnv) -> String {
    format!(
        "import \"local\"\n$number = local.pool(\"ns\", \"a\")\nkv \"key\" {{\n\tvalue => \"x\",\n}}\n\
         value \"stored\" {{\n\tany => \"y\",\n}}\npassword \"secret\" {{\n\tlength => 12,\n\tcheck_recovery => true,\n}}\n\
         file \"{0}\" {{\n\tstate => \"exists\",\n\tcontent => \"reversible\",\n\tMeta:reverse => true,\n\tNotify => Exec[\"told\"],\n}}\n\
         exec \"told\" {{\n\tcmd => \"/bin/true\",\n\trefreshonly => true,\n}}\n{1}",
        env.text("reversible"),
        file(&env.at("out"), "\"managed\"")
    )
}

#[test]
fn whatever_is_damaged_below_the_prefix_the_host_starts_says_it_and_manages() {
    let env = TestEnv::new();
    let program = env.write("main.mcl", &keeps_everything(&env));
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy_file(&program);
    holds(&env.at("out"), "managed");
    eventually("the password is made", || {
        kept_files(&env.at("prefix")).iter().any(|path| path.ends_with("password"))
    });
    finish(run);
    let (prefix, whole) = (env.at("prefix"), env.at("whole"));
    let copy = |from: &Path, to: &Path| {
        let _ = std::fs::remove_dir_all(to);
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
    };
    copy(&prefix, &whole);
    let files = kept_files(&prefix);
    for part in ["world/store", "deploys/last.json", "local/value", "password", "reverse"] {
        assert!(files.iter().any(|path| path.to_str().unwrap().contains(part)), "{part}: {files:?}");
    }
    let mut numbers = Numbers::new(seed());
    for file in files {
        copy(&whole, &prefix);
        let mut bytes = std::fs::read(&file).unwrap();
        let length = bytes.len();
        let at = numbers.below(length);
        let damage = match numbers.below(4) {
            0 => {
                bytes.truncate(at);
                "truncated"
            }
            1 => {
                bytes = (0..length).map(|_| u8::try_from(numbers.below(256)).unwrap()).collect();
                "garbage"
            }
            _ => {
                bytes[at] ^= 1 << numbers.below(8);
                "a bit flipped"
            }
        };
        let what = format!("seed {}: {} {damage} at {at}", seed(), file.display());
        eprintln!("{what}");
        std::fs::write(&file, bytes).unwrap();
        std::fs::remove_file(env.at("out")).unwrap();
        let run = env.run();
        holds(&env.at("out"), "managed");
        run.signal(Signal::INT);
        let (code, lines) = run.end();
        assert_eq!(code, Some(0), "{what}: {lines}");
        assert!(!lines.contains("panicked"), "{what}: {lines}");
    }
}

#[test]
fn a_damaged_store_is_set_aside_and_what_is_lost_is_said() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    finish(run);
    let store = env.at("prefix/world/store");
    let garbage = "this is no store at all, and long enough to be one ".repeat(200);
    for number in 1..=2 {
        std::fs::write(&store, &garbage).unwrap();
        std::fs::remove_file(env.at("out")).unwrap();
        let mut run = env.run();
        let line = run.wait_for("is damaged");
        assert!(
            line.contains("lost: the deploys") && line.contains(&format!("store.damaged-{number}")),
            "{line}"
        );
        run.wait_for("hint: deploy again");
        holds(&env.at("out"), "one");
        finish(run);
        let aside = env.at(&format!("prefix/world/store.damaged-{number}"));
        assert_eq!(std::fs::read_to_string(aside).unwrap(), garbage);
    }
    let mut run = env.run();
    run.wait_for("running deploy 1, the last that ran here");
    env.deploy("\"two\"");
    holds(&env.at("out"), "two");
    finish(run);
}

#[test]
fn a_resource_that_lacks_a_value_in_a_newer_deploy_stays_as_the_older_one_declared_it() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    let read = format!("os.readfile({:?})", env.text("missing"));
    let text =
        format!("import \"os\"\n{}{}", file(&env.at("out"), &read), file(&env.at("other"), "\"other\""));
    env.deploy_file(&env.write("reads.mcl", &text));
    holds(&env.at("other"), "other");
    std::fs::write(env.at("out"), "broken").unwrap();
    holds(&env.at("out"), "one");
    eventually("the status has the error", || {
        let status = env.command(&["status"]);
        status.code == 1 && status.stdout.contains("deploy 2;") && status.stdout.contains("does not exist")
    });
    env.write("missing", "two");
    holds(&env.at("out"), "two");
    finish(run);
}

#[test]
fn after_a_restart_the_last_deploy_runs_while_values_of_the_newest_are_not_there_yet() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    finish(run);
    std::fs::remove_file(env.at("out")).unwrap();
    // The value comes when the file does.
    let command = format!("until test -e {:?}; do sleep 0.1; done; echo two", env.text("go"));
    let text = format!(
        "import \"os\"\n{}",
        file(&env.at("out"), &format!("os.system({:?})", command.replace('"', "'")))
    );
    env.deploy_file(&env.write("slow.mcl", &text));
    let mut run = env.run();
    run.wait_for("running deploy 1, the last that ran here, until deploy 2 runs");
    holds(&env.at("out"), "one");
    run.wait_for("has no value after ");
    std::fs::write(env.at("out"), "broken").unwrap();
    holds(&env.at("out"), "one");
    env.write("go", "");
    holds(&env.at("out"), "two");
    finish(run);
}

#[test]
fn every_command_gives_up_on_servers_that_never_answer() {
    let env = TestEnv::new();
    // The kernel takes connections, and nobody ever answers them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let (seeds, login) = (format!("http://{address}"), env.text("login"));
    let program = env.write("main.mcl", "noop \"a\" {}\n");
    let backup = env.write("backup", "");
    let commands: &[&[&str]] = &[
        &["deploy", "list"],
        &["deploy", "show", "1"],
        &["deploy", "rollback"],
        &["deploy", "--no-git", "lang", &program],
        &["status"],
        &["forget", "h"],
        &["log"],
        &["log", "debug"],
        &["members", "list"],
        &["members", "size", "3"],
        &["members", "add", "h"],
        &["members", "remove", "h"],
        &["admit", "--operator", "--login-file", &login],
        &["world", "export"],
        &["world", "import", &backup],
    ];
    for command in commands {
        let began = std::time::Instant::now();
        let said = mgmt_output(&[command, &["--seeds", &seeds, "--timeout", "1s"][..]].concat());
        assert_eq!(said.code, 1, "{command:?}: {said:?}");
        let told = format!("{}{}", said.stdout, said.stderr);
        assert!(told.contains(&format!("waiting for the store at {seeds}")), "{command:?}: {said:?}");
        assert!(told.contains(&format!("the store at {seeds} has not answered within 1s")), "{said:?}");
        assert!(began.elapsed().as_secs() < 20, "{command:?}");
    }
    let url = format!("ssh://root@{address}");
    for command in [&["deploy", "list"][..], &["status"], &["world", "export"]] {
        let said = mgmt_output(&[command, &["--ssh-url", &url, "--timeout", "1s"][..]].concat());
        assert_eq!(said.code, 1, "{command:?}: {said:?}");
        assert!(said.stderr.contains(&format!("root@{address} has not answered within 1s")), "{said:?}");
    }
}

#[test]
fn a_record_of_a_host_that_cannot_be_read_is_said_and_hides_no_other() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.store("/host/h2/status", "garbage");
    env.store("/host/h3/member", "{\"format\":9}");
    env.store("/host/h4/log", "{\"format\":9}");
    env.store("/host/h2/export/h1/noop/x", "garbage");
    eventually("the status says so", || {
        let status = env.command(&["status"]);
        let parts = [
            "h1  converged",
            "`/host/h2/status`",
            "`/host/h3/member`",
            "it has format 9",
            "`/host/h2/export/h1/noop/x`",
        ];
        status.code == 1 && parts.iter().all(|part| status.stdout.contains(part))
    });
    for host in ["h2", "h3"] {
        let forgotten = env.command(&["forget", host]);
        assert_eq!(forgotten.code, 0, "{forgotten:?}");
    }
    // Nobody keeps this claim, so it keeps nobody from its name.
    env.store("/host/h1/agent", "garbage");
    eventually("nothing else is wrong", || {
        let status = env.command(&["status"]).stdout;
        status.matches("cannot be understood").count() == 1 && status.contains("`/host/h4/log`")
    });
    assert_eq!(env.command(&["log", "debug", "--host", "h1"]).code, 0);
    let levels = env.command(&["log"]);
    assert!(levels.code == 0 && levels.stdout.contains("h1  debug"), "{levels:?}");
    assert!(levels.stderr.contains("/host/h4/log"), "{levels:?}");
    // The last number that there is leads nowhere, as every other.
    env.store("/deploy/newest", &format!("{{\"format\":1,\"id\":{}}}", u64::MAX));
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    env.deploy("\"two\"");
    holds(&env.at("out"), "two");
    finish(run);
}

#[test]
fn damaged_records_of_the_history_are_left_out_and_counted() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    for content in ["\"one\"", "\"two\"", "\"three\""] {
        env.deploy(content);
        holds(&env.at("out"), content.trim_matches('"'));
    }
    finish(run);
    let whole = env.command(&["history"]);
    assert!(whole.code == 0 && whole.stderr.is_empty(), "{whole:?}");
    let path = env.at("prefix/history/0000000001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    // It is as good JSON as before.
    let damaged = text.replacen("\"deploy\":2", "\"deploy\":6", 1);
    assert_ne!(damaged, text);
    std::fs::write(&path, &damaged).unwrap();
    let said = env.command(&["history"]);
    assert!(said.stderr.contains("history: 1 record is damaged and left out"), "{said:?}");
    assert!(said.stdout.contains("deploy 1") && said.stdout.contains("deploy 3"), "{said:?}");
    assert!(!said.stdout.contains("deploy 6"), "{said:?}");
    std::fs::write(&path, format!("{damaged}\0\0\0\n")).unwrap();
    let said = env.command(&["why", &env.text("out")]);
    assert!(said.code == 0 && said.stderr.contains("2 records are damaged and left out"), "{said:?}");
}

#[test]
fn a_store_of_a_later_version_is_set_aside() {
    let env = TestEnv::new();
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    finish(run);
    let store = env.at("prefix/world/store");
    {
        let database = redb::Database::open(&store).unwrap();
        let writing = database.begin_write().unwrap();
        let about = redb::TableDefinition::<&str, u64>::new("about");
        writing.open_table(about).unwrap().insert("format", 1000).unwrap();
        writing.commit().unwrap();
    }
    std::fs::remove_file(env.at("out")).unwrap();
    let mut run = env.run();
    let line = run.wait_for("it has format 1000");
    assert!(line.contains("store.damaged-1") && line.contains("lost: the deploys"), "{line}");
    run.wait_for("running deploy 1, the last that ran here");
    holds(&env.at("out"), "one");
    finish(run);
    assert!(env.at("prefix/world/store.damaged-1").exists());
}

#[test]
fn a_host_that_serves_the_store_is_managed_whatever_is_damaged_of_that() {
    let env = TestEnv::new();
    let [clients, servers] = [(); 2].map(|()| format!("http://{}", mgmt_test_support::address::reserved()));
    let prefix = env.text("prefix");
    let start = || {
        let words = ["run", "--prefix", &prefix, "--hostname", "h1", "--ideal-cluster-size", "1"];
        let urls = ["--client-urls", &clients, "--server-urls", &servers, "empty"];
        RunningProgram::start(&[&words[..], &urls].concat())
    };
    let mut run = start();
    run.wait_for("graph empty");
    env.deploy("\"one\"");
    holds(&env.at("out"), "one");
    finish(run);
    let damage = |name: &str| {
        let path = env.at("prefix/cluster").join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text.replacen("\"format\"", "\"farmat\"", 1)).unwrap();
    };
    // Each is found out again, or is there twice: it serves as before.
    damage("state.json");
    damage("connection.json");
    let mut run = start();
    run.wait_for("state.json is damaged (its checksum does not match): set aside as");
    run.wait_for("connection.json is damaged (its checksum does not match): set aside as");
    env.deploy("\"two\"");
    holds(&env.at("out"), "two");
    finish(run);
    // Nobody can tell whose member it is: it serves no longer, and runs the last deploy that ran.
    damage("state.json");
    damage("state-copy.json");
    std::fs::remove_file(env.at("out")).unwrap();
    let mut run = start();
    let line = run.wait_for("state.json: its checksum does not match");
    assert!(line.contains("it does not serve the store"), "{line}");
    run.wait_for("the store does not answer: running deploy 2, the last that ran here");
    holds(&env.at("out"), "two");
    finish(run);
    assert!(env.at("prefix/cluster/data").exists() && env.at("prefix/cluster/state.json").exists());
}

#[test]
fn a_damaged_password_or_reversal_is_not_used() {
    let env = TestEnv::new();
    let reversible = env.write("reversible", "before-text");
    let password = "password \"secret\" {\n\tlength => 12,\n}\n";
    let text = format!(
        "{password}file {reversible:?} {{\n\tstate => \"exists\",\n\tcontent => \"managed\",\n\tMeta:reverse => true,\n}}\n"
    );
    let mut run = env.run();
    run.wait_for("graph empty");
    env.deploy_file(&env.write("reverses.mcl", &text));
    holds(&env.at("reversible"), "managed");
    let kept =
        |name: &str| kept_files(&env.at("prefix/engine")).into_iter().find(|path| path.ends_with(name));
    eventually("the password is made", || kept("password").is_some());
    finish(run);
    // Both look right, and are not what was written.
    let reversal = kept("reverse").unwrap();
    let stored = std::fs::read_to_string(&reversal).unwrap();
    assert!(stored.contains("before-text"), "{stored}");
    std::fs::write(&reversal, stored.replace("before-text", "bafore-text")).unwrap();
    let secret = kept("password").unwrap();
    let mut bytes = std::fs::read(&secret).unwrap();
    bytes[0] = if bytes[0] == b'a' { b'b' } else { b'a' };
    std::fs::write(&secret, &bytes).unwrap();
    let mut run = env.run();
    eventually("the password has failed", || {
        let status = env.command(&["status"]);
        status.code == 1 && status.stdout.contains("password[secret]") && status.stdout.contains("damaged")
    });
    assert_eq!(std::fs::read(&secret).unwrap(), bytes, "it is not overwritten");
    env.deploy_file(&env.write("keeps.mcl", &file(&env.at("out"), "\"kept\"")));
    let line = run.wait_for("lost: how to undo a resource");
    assert!(line.contains("reverse.damaged-1"), "{line}");
    holds(&env.at("out"), "kept");
    assert_eq!(std::fs::read_to_string(&reversible).unwrap(), "managed");
    finish(run);
}

#[test]
fn a_host_that_was_stopped_past_its_lease_does_not_take_itself_for_chosen() {
    let env = TestEnv::new();
    let cluster = EtcdCluster::start(1);
    let seeds = cluster.endpoints().join(",");
    let directory = env.0.path().display().to_string();
    let text = format!(
        "import \"world\"\nimport \"fmt\"\n$name = $hostname\nschedule \"job\" {{\n\tttl => 3,\n}}\n\
         file \"{directory}/chosen-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.schedule(\"job\")),\n}}\n"
    );
    let program = env.write("main.mcl", &text);
    let host = |name: &str| {
        let prefix = env.text(&format!("prefix-{name}"));
        let flags = ["run", "--prefix", &prefix, "--hostname", name, "--seeds", &seeds, "--no-deploy-watch"];
        RunningProgram::start(&[&flags[..], &["lang", &program]].concat())
    };
    let chosen = |name: &str| env.at(&format!("chosen-{name}"));
    let a = host("a");
    holds(&chosen("a"), "[\"a\"]");
    let b = host("b");
    holds(&chosen("b"), "[\"a\"]");
    for _ in 0..3 {
        a.signal(Signal::STOP);
        holds(&chosen("b"), "[\"b\"]");
        a.signal(Signal::CONT);
        // It hears of the other, and never gets the choice back for an offer that has ended.
        holds(&chosen("a"), "[\"b\"]");
        b.signal(Signal::STOP);
        holds(&chosen("a"), "[\"a\"]");
        b.signal(Signal::CONT);
        holds(&chosen("b"), "[\"a\"]");
        assert_eq!(std::fs::read_to_string(chosen("a")).unwrap(), "[\"a\"]");
    }
    finish(a);
    finish(b);
}

#[test]
fn a_resource_that_reads_a_schedule_is_managed_on_when_another_host_is_chosen() {
    let env = TestEnv::new();
    let cluster = EtcdCluster::start(1);
    let seeds = cluster.endpoints().join(",");
    let at = env.0.path().display();
    let text = format!(
        "import \"world\"\nimport \"fmt\"\n$name = $hostname\n$hosts = world.schedule(\"job\")\n\
         schedule \"job\" {{\n\tstrategy => \"alpha\",\n\tttl => 3,\n}}\n\
         file \"{at}/hosts-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", $hosts),\n}}\n\
         file \"{at}/count-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%d\", len($hosts)),\n}}\n"
    );
    let program = env.write("main.mcl", &text);
    let host = |name: &str| {
        let prefix = env.text(&format!("prefix-{name}"));
        let flags = ["run", "--prefix", &prefix, "--hostname", name, "--seeds", &seeds, "--no-deploy-watch"];
        RunningProgram::start(&[&flags[..], &["lang", &program]].concat())
    };
    let b = host("b");
    holds(&env.at("hosts-b"), "[\"b\"]");
    holds(&env.at("count-b"), "1");
    let a = host("a");
    holds(&env.at("hosts-b"), "[\"a\"]");
    // The number of hosts is the same, so nothing about this one has changed.
    std::fs::write(env.at("count-b"), "broken").unwrap();
    holds(&env.at("count-b"), "1");
    finish(a);
    finish(b);
}
