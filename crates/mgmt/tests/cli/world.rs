//! What hosts share: programs that talk to each other through the store of one of them.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

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
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A run that waits for deploys.
    fn empty(&self) -> RunningProgram {
        let mut running = RunningProgram::start(&["run", "--prefix", &self.text("prefix"), "empty"]);
        running.wait_for("graph empty");
        running
    }

    fn deploy(&self, arguments: &[&str]) -> CommandOutput {
        let all: Vec<&str> = ["deploy"].into_iter().chain(arguments.iter().copied()).collect();
        mgmt(&all).env("MGMT_PREFIX", self.at("prefix")).output().unwrap().into()
    }

    fn git(&self, directory: &Path, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.arg("-C").arg(directory).args(["-c", "user.name=a", "-c", "user.email=a@example.com"]);
        let done = git.args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
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
fn a_deploy_runs_at_once_and_the_next_one_replaces_it() {
    let env = TestEnv::new();
    let mut run = env.empty();
    let out = env.at("out");
    let program = env.write(
        "program/main.mcl",
        &format!("import \"deploy\"\n{}", file(&out, "deploy.readfile(\"/files/text\")")),
    );
    env.write("program/files/text", "first");
    let CommandOutput { code, stdout, stderr } = env.deploy(&["--no-git", "lang", &program]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("lang main.mcl"), "{stdout}");
    run.wait_for("taking deploy 1");
    holds(&out, "first");
    // What ran before is replaced, and what it watched is not watched any more.
    let graph = env.write("graph.yaml", &format!(
        "graph: g\nresources:\n  file:\n  - name: {0}\n    path: {0}\n    state: exists\n    content: second\n", out.display()));
    assert_eq!(env.deploy(&["--no-git", "yaml", &graph]).code, 0);
    run.wait_for("taking deploy 2");
    holds(&out, "second");
    std::fs::write(&out, "broken").unwrap();
    holds(&out, "second");
    // One that is wrong is refused before it is stored.
    let wrong = env.write("wrong.mcl", "file \"/x\" {\n");
    assert_eq!(env.deploy(&["--no-git", "lang", &wrong]).code, 2);
    // Back to the first.
    assert_eq!(env.deploy(&["rollback"]).code, 0);
    run.wait_for("taking deploy 3");
    holds(&out, "first");
    let list = env.deploy(&["list"]).stdout;
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.lines().last().unwrap().contains("again number 1"), "{list}");
    let shown = env.deploy(&["show", "1"]).stdout;
    assert!(shown.contains("files/text") && shown.contains("main.mcl"), "{shown}");
    assert_eq!(env.deploy(&["empty", "--no-git"]).code, 0);
    run.wait_for("taking deploy 4");
    finish(run);
}

#[test]
fn a_deploy_waits_for_those_who_start_later() {
    let env = TestEnv::new();
    let out = env.at("out");
    finish(env.empty());
    // Nobody runs: the store of this host is used as it was left.
    let program = env.write("main.mcl", &file(&out, "\"text\""));
    let said = env.deploy(&["--no-git", "--noop", "lang", &program]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let mut run = RunningProgram::start(&["run", "--prefix", &env.text("prefix"), "empty"]);
    run.wait_for("would");
    assert!(!out.exists(), "it only looks");
    finish(run);
    assert_eq!(env.deploy(&["--no-git", "lang", &program]).code, 0);
    let mut run = RunningProgram::start(&["run", "--prefix", &env.text("prefix"), "--wait", "empty"]);
    run.wait_for("graph empty");
    assert!(!out.exists(), "what is deployed already is not wanted");
    finish(run);
    let run = RunningProgram::start(&["run", "--prefix", &env.text("prefix"), "empty"]);
    holds(&out, "text");
    finish(run);
}

#[test]
fn a_deploy_that_cannot_run_leaves_what_ran_before_alive() {
    let env = TestEnv::new();
    let mut run = env.empty();
    let (out, input) = (env.at("out"), env.write("input", "one"));
    let good =
        env.write("good.mcl", &format!("import \"os\"\n{}", file(&out, &format!("os.readfile({input:?})"))));
    assert_eq!(env.deploy(&["--no-git", "lang", &good]).code, 0);
    holds(&out, "one");
    // It is right as far as can be told without running it, and contradicts itself on this host.
    let text = "$name = if $hostname == \"\" { \"b\" } else { \"a\" }\nnoop \"a\" {}\nnoop \"b\" {}\nNoop[\"b\"] -> Noop[$name]\nNoop[$name] -> Noop[\"b\"]\n";
    let wrong = env.write("wrong.mcl", text);
    let said = env.deploy(&["--no-git", "--noop", "lang", &wrong]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    run.wait_for("deploy 2 cannot be run");
    std::fs::write(&input, "two").unwrap();
    holds(&out, "two");
    finish(run);
}

#[test]
fn a_run_that_keeps_its_first_deploy_takes_one() {
    let env = TestEnv::new();
    let mut run =
        RunningProgram::start(&["run", "--prefix", &env.text("prefix"), "--no-deploy-watch", "empty"]);
    run.wait_for("graph empty");
    let (one, two) = (env.at("one"), env.at("two"));
    let program = |out: &Path| env.write("main.mcl", &file(out, "\"text\""));
    assert_eq!(env.deploy(&["--no-git", "lang", &program(&one)]).code, 0);
    holds(&one, "text");
    assert_eq!(env.deploy(&["--no-git", "lang", &program(&two)]).code, 0);
    std::fs::remove_file(&one).unwrap();
    holds(&one, "text");
    let lines = finish(run);
    assert!(!two.exists() && !lines.contains("taking deploy 2"), "{lines}");
}

#[test]
fn commits_are_deployed_in_their_order() {
    let env = TestEnv::new();
    let run = env.empty();
    let program = env.write("repository/main.mcl", "noop \"a\" {}\n");
    let directory = env.at("repository");
    let refused = env.deploy(&["lang", &program]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--no-git"), "{}", refused.stderr);
    env.git(&directory, &["init", "-q"]);
    let commit = |text: &str| {
        std::fs::write(&program, text).unwrap();
        env.git(&directory, &["add", "."]);
        env.git(&directory, &["commit", "-q", "-m", "x"]);
    };
    commit("noop \"b\" {}\n");
    assert_eq!(env.deploy(&["lang", &program]).code, 0);
    std::fs::write(&program, "noop \"c\" {}\n").unwrap();
    let dirty = env.deploy(&["lang", &program]);
    assert!(dirty.code == 2 && dirty.stderr.contains("not committed"), "{}", dirty.stderr);
    commit("noop \"d\" {}\n");
    assert_eq!(env.deploy(&["lang", &program]).code, 0);
    let same = env.deploy(&["lang", &program]);
    assert!(same.code == 1 && same.stderr.contains("already"), "{}", same.stderr);
    let forced = env.deploy(&["--force", "lang", &program]);
    assert!(
        forced.code == 0 && forced.stderr.contains("is deployed already, as number 2"),
        "{}",
        forced.stderr
    );
    // Several commits at once follow the deployed one, as long as that is an ancestor.
    env.git(&directory, &["branch", "aside"]);
    commit("noop \"e\" {}\n");
    commit("noop \"f\" {}\n");
    let said = env.deploy(&["lang", &program]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    // What was deployed from another branch would be undone.
    env.git(&directory, &["checkout", "-q", "aside"]);
    commit("noop \"g\" {}\n");
    let refused = env.deploy(&["lang", &program]);
    assert!(refused.code == 1 && refused.stderr.contains("is not an ancestor of"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("(deploy 4)") && refused.stderr.contains("--force"),
        "{}",
        refused.stderr
    );
    let forced = env.deploy(&["--force", "lang", &program]);
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    assert!(forced.stderr.contains("because of `--force`: commit "), "{}", forced.stderr);
    // Another repository does not know it.
    let other = env.write("other/main.mcl", "noop \"a\" {}\n");
    env.git(&env.at("other"), &["init", "-q"]);
    env.git(&env.at("other"), &["add", "."]);
    env.git(&env.at("other"), &["commit", "-q", "-m", "x"]);
    let unknown = env.deploy(&["lang", &other]);
    assert!(unknown.code == 1 && unknown.stderr.contains("cannot tell whether commit"), "{}", unknown.stderr);
    assert_eq!(env.deploy(&["list"]).stdout.lines().count(), 5);
    finish(run);
}

#[test]
fn values_exports_and_schedules_outlive_a_run() {
    let env = TestEnv::new();
    let (out, prefix) = (env.at("out"), env.text("prefix"));
    let first = "kv \"key\" {\n\tvalue => \"kept\",\n}\nnoop \"offered\" {\n\tMeta:export => [\"*\",],\n\tMeta:hidden => true,\n}\n";
    let flags = [
        "run",
        "--prefix",
        &prefix,
        "--hostname",
        "h1",
        "--converger-timeout",
        "1",
        "--converged-exit",
        "lang",
    ];
    let run = |program: &str| mgmt_output(&flags.iter().copied().chain([program]).collect::<Vec<_>>());
    let done = run(&env.write("first.mcl", first));
    assert_eq!(done.code, 0, "{}", done.stderr);
    let second = format!(
        "import \"world\"\nimport \"fmt\"\nschedule \"job\" {{}}\n$chosen = world.schedule(\"job\")\nfile \"{}\" {{\n\tstate => \"exists\",\n\t\
         content => fmt.printf(\"%s %v\", world.getval(\"key\")->value, $chosen),\n}}\n",
        out.display()
    );
    let done = run(&env.write("second.mcl", &second));
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "kept [\"h1\"]");
    // The second program exports nothing, so nothing is left of what the first has.
    let all = mgmt_output(&["world", "export", "--prefix", &prefix]).stdout;
    assert!(all.contains("/string/key") && all.contains("kept"), "{all}");
    assert!(!all.contains("/export/"), "{all}");
}

#[test]
fn the_status_of_a_run_is_seen_from_outside_and_the_store_can_be_moved() {
    let env = TestEnv::new();
    let (prefix, elsewhere) = (env.text("prefix"), env.text("elsewhere"));
    let status = |format: &str| mgmt_output(&["--message-format", format, "status", "--prefix", &prefix]);
    let nobody = status("human");
    assert!(nobody.code == 3 && nobody.stderr.contains("mgmt run"), "{}", nobody.stderr);
    let program = env.write("main.mcl", "kv \"a\" {\n\tvalue => \"b\",\n}\n");
    let run = RunningProgram::start(&["run", "--prefix", &prefix, "--hostname", "h1", "lang", &program]);
    eventually("it has converged", || status("human").stdout.contains("h1  converged: 1 resource;"));
    let shown: serde_json::Value = serde_json::from_str(&status("json").stdout).unwrap();
    assert_eq!(shown["hosts"]["h1"]["resources"], 1);
    let moved = env.text("moved");
    assert_eq!(mgmt_output(&["world", "export", "--prefix", &prefix, &moved]).code, 0);
    finish(run);
    let gone = status("human");
    assert!(gone.code == 3 && gone.stderr.contains("mgmt is not running"), "{gone:?}");
    finish(
        RunningProgram::start(&["run", "--prefix", &elsewhere, "--hostname", "h2", "empty"]).into_started(),
    );
    let stored = mgmt_output(&["world", "import", "--prefix", &elsewhere, &moved]);
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    let again = mgmt_output(&["world", "import", "--prefix", &elsewhere, &moved]);
    assert!(again.code == 1 && again.stderr.contains("--force"), "{}", again.stderr);
    let all = mgmt_output(&["world", "export", "--prefix", &elsewhere]).stdout;
    assert!(all.contains("/string/a"), "{all}");
    assert!(!all.contains("/status"), "what only lasts as long as a host runs is left out: {all}");
}

/// Makes a pair of keys with the tool that people have, and gives the paths of both.
fn keys(env: &TestEnv, name: &str) -> (String, String) {
    let path = env.text(name);
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path]).status().unwrap();
    assert!(made.success());
    (path.clone(), format!("{path}.pub"))
}

#[test]
fn a_host_with_a_key_runs_nothing_else() {
    let env = TestEnv::new();
    let (prefix, out) = (env.text("prefix"), env.at("out"));
    let (key, public) = keys(&env, "key");
    let (stranger, _) = keys(&env, "stranger");
    let trusting = ["run", "--prefix", &prefix, "--deploy-key", &public, "empty"];
    let program = |text: &str| env.write(&format!("{text}.mcl"), &file(&out, &format!("{text:?}")));
    let mut run = RunningProgram::start(&trusting).into_started();
    assert_eq!(env.deploy(&["--no-git", "lang", &program("unsigned")]).code, 0);
    run.wait_for("deploy 1 is refused: nobody has signed it");
    assert_eq!(env.deploy(&["--no-git", "--sign-key", &stranger, "lang", &program("foreign")]).code, 0);
    run.wait_for("deploy 2 is refused: it is signed with a key that this host was not given: ssh-ed25519 ");
    let signed = |text: &str| {
        let said = env.deploy(&["--no-git", "--sign-key", &key, "--valid-for", "1h", "lang", &program(text)]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(said.stdout.contains(", signed …"), "{}", said.stdout);
    };
    signed("first");
    holds(&out, "first");
    let old = mgmt_output(&["world", "export", "--prefix", &prefix]).stdout;
    signed("second");
    holds(&out, "second");
    // What is not signed is not signed again unseen, either.
    let unseen = env.deploy(&["rollback", "2", "--sign-key", &key]);
    assert!(unseen.code == 1 && unseen.stderr.contains("not signed with this key"), "{}", unseen.stderr);
    assert_eq!(env.deploy(&["rollback", "3", "--sign-key", &key]).code, 0);
    holds(&out, "first");
    // One that nobody has begun with in time.
    finish(run);
    let late = env.deploy(&["--no-git", "--sign-key", &key, "--valid-for", "1s", "lang", &program("late")]);
    assert_eq!(late.code, 0, "{}", late.stderr);
    let begin = std::time::SystemTime::now();
    eventually("its time is over", || begin.elapsed().unwrap().as_secs() > 2);
    let mut run = RunningProgram::start(&trusting);
    let line = run.wait_for("deploy 6 is refused: it was to be begun with until ");
    assert!(line.contains(" UTC"), "{line}");
    // Somebody fills the store with what was once right.
    finish(run);
    let copy = env.write("old", &old);
    std::fs::remove_dir_all(env.at("prefix/world")).unwrap();
    finish(RunningProgram::start(&["run", "--prefix", &prefix, "--wait", "empty"]).into_started());
    let restored = mgmt_output(&["world", "import", "--prefix", &prefix, "--force", &copy]);
    assert_eq!(restored.code, 0, "{}", restored.stderr);
    let mut run = RunningProgram::start(&trusting);
    run.wait_for("deploy 3 is refused: it is older than one that this host has accepted before");
    finish(run);
}

#[test]
fn keys_that_would_not_do_are_told_apart() {
    let env = TestEnv::new();
    let (key, public) = keys(&env, "key");
    let run = mgmt_output(&["run", "--deploy-key", &key, "empty"]);
    assert!(run.code == 2 && run.stderr.contains("this is a private key"), "{}", run.stderr);
    let missing = mgmt_output(&["run", "--deploy-key", "/nowhere", "empty"]);
    assert!(missing.code == 2 && missing.stderr.contains("cannot read /nowhere"), "{}", missing.stderr);
    let deploy = env.deploy(&["empty", "--no-git", "--sign-key", &public]);
    assert!(deploy.code == 2 && deploy.stderr.contains("others may read"), "{}", deploy.stderr);
    let mut mode = std::fs::metadata(&key).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o640);
    std::fs::set_permissions(&key, mode).unwrap();
    let deploy = env.deploy(&["empty", "--no-git", "--sign-key", &key]);
    assert!(deploy.code == 2 && deploy.stderr.contains("chmod 600"), "{}", deploy.stderr);
}

trait Started {
    fn into_started(self) -> Self;
}

impl Started for RunningProgram {
    fn into_started(mut self) -> RunningProgram {
        self.wait_for("graph empty");
        self
    }
}
