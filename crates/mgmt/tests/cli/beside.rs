//! Commands beside a running agent: retry, apply, plan, check, `run --noop`, and the question of `deploy`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, holds, mgmt, mgmt_output};
use mgmt_test_support::terminal::TerminalSession;
use rustix::process::Signal;
use tempfile::TempDir;

/// A working directory, and files beside it.
struct TestEnv(TempDir);

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// An agent that has converged, or come to rest with failures.
    fn agent(&self, flags: &[&str], program: &str) -> RunningProgram {
        let prefix = self.at("prefix");
        let words = [&["run", "--prefix", &prefix, "--converger-timeout=0"][..], flags, &["lang", program]];
        let mut agent = RunningProgram::start(&words.concat());
        agent.wait_for(" for 0 s");
        agent
    }

    /// Waits until the agent has written down what it manages.
    fn has_list(&self) {
        eventually("the list of what is managed", || Path::new(&self.at("prefix/engine/managed")).exists());
    }

    fn said(&self, command: &[&str], more: &[&str]) -> CommandOutput {
        mgmt_output(&[command, &["--prefix", &self.at("prefix")][..], more].concat())
    }

    fn plan(&self, program: &str) -> CommandOutput {
        let out = self.at("plan.json");
        self.said(&["plan"], &["--out", &out, "lang", program])
    }

    fn apply(&self, more: &[&str]) -> CommandOutput {
        let out = self.at("plan.json");
        self.said(&["apply"], &[more, &[out.as_str()]].concat())
    }
}

fn file(path: &str, content: &str) -> String {
    format!("file \"{path}\" {{ state => \"exists\", content => \"{content}\", mode => \"0644\", }}\n")
}

#[test]
fn a_plan_that_is_replaced_before_it_is_done_is_not_said_to_be_applied() {
    let env = TestEnv::new();
    let prefix = env.at("prefix");
    let mut agent = RunningProgram::start(&["run", "--prefix", &prefix, "empty"]);
    agent.wait_for("graph empty");
    let program = format!(
        "exec \"slow\" {{ cmd => \"/bin/sleep 6\", }}\nfile \"{}\" {{ state => \"exists\", Depend => Exec[\"slow\"], }}\n",
        env.at("last")
    );
    let path = env.at("main.mcl");
    std::fs::write(&path, program).unwrap();
    let begin = || {
        assert_eq!(env.plan(&path).code, 0);
        let mut apply = RunningProgram::start(&["apply", "--prefix", &prefix, &env.at("plan.json")]);
        apply.wait_for("the running mgmt applies ");
        apply
    };
    let apply = begin();
    agent.signal(Signal::HUP);
    let (code, lines) = apply.end();
    assert!(code == Some(1) && lines.contains("the plan ended (SIGHUP) before it was done"), "{lines}");
    let apply = begin();
    let deployed = env.at("deployed.mcl");
    std::fs::write(&deployed, file(&env.at("deployed"), "d")).unwrap();
    assert_eq!(env.said(&["deploy"], &["--no-git", "lang", &deployed]).code, 0);
    let (code, lines) = apply.end();
    assert!(
        code == Some(1) && lines.contains("the plan was replaced by deploy 1 before it was done"),
        "{lines}"
    );
    assert!(!Path::new(&env.at("last")).exists());
    end(agent);
}

#[test]
fn a_plan_takes_the_name_of_the_running_agent_and_a_relative_prefix() {
    let env = TestEnv::new();
    let a = env.at("a");
    let agent = env.agent(&["--hostname", "other"], &file(&a, "a"));
    let planned = env.plan(&file(&env.at("b"), "b"));
    assert_eq!(planned.code, 0, "{planned:?}");
    let applied = env.apply(&[]);
    assert_eq!(applied.code, 0, "{applied:?}");
    // A resource that keeps something below the prefix.
    let program = "password \"x\" { length => 8, }\n";
    let relative = |words: &[&str]| -> CommandOutput {
        let mut command = mgmt(words);
        command.current_dir(env.0.path()).output().unwrap().into()
    };
    for words in [
        &["plan", "--prefix", "prefix", "lang", program][..],
        &[
            "run",
            "--noop",
            "--converger-timeout",
            "1",
            "--converged-exit",
            "--prefix",
            "prefix",
            "lang",
            program,
        ],
    ] {
        let said = relative(words);
        assert!(said.code == 0 && !said.stderr.contains("relative"), "{words:?}: {said:?}");
    }
    end(agent);
}

fn end(agent: RunningProgram) {
    agent.signal(Signal::INT);
    let (code, lines) = agent.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn a_failed_resource_is_attempted_when_somebody_asks() {
    let env = TestEnv::new();
    let (ok, done) = (env.at("ok"), env.at("done"));
    let nobody = env.said(&["retry"], &[]);
    assert_eq!(nobody.code, 3, "{nobody:?}");
    assert!(nobody.stderr.contains("mgmt is not running with the prefix"), "{nobody:?}");
    let program = format!(
        "exec \"x\" {{ cmd => \"test -e {ok} && touch {done}\", shell => \"/bin/sh\", Meta:retry => 0, }}\n\
         exec \"y\" {{ cmd => \"/bin/false\", Meta:retry => 0, }}\n\
         noop \"z\" {{}}\n"
    );
    let agent = env.agent(&[], &program);
    let other = env.said(&["retry"], &["exec[nosuch]"]);
    assert_eq!(other.code, 1, "{other:?}");
    assert!(other.stderr.contains("there is no resource exec[nosuch] in the running graph"), "{other:?}");
    let one = env.said(&["retry"], &["exec[x]"]);
    assert_eq!((one.code, &*one.stdout), (0, "attempting 1 resource\n"), "{one:?}");
    let noop = env.said(&["retry"], &["noop[z]"]);
    assert_eq!((noop.code, &*noop.stdout), (0, "noop[z] is not failing\n"), "{noop:?}");
    std::fs::write(&ok, "").unwrap();
    let both = env.said(&["--json", "retry"], &[]);
    let told: serde_json::Value = serde_json::from_str(&both.stdout).unwrap();
    assert_eq!((both.code, &told["count"]), (0, &serde_json::json!(2)), "{both:?}");
    eventually("the command has run", || Path::new(&done).exists());
    eventually("only the other is failing", || env.said(&["retry"], &[]).stdout == "attempting 1 resource\n");
    end(agent);
    assert_eq!(env.said(&["retry"], &[]).code, 3, "the socket of an agent that has ended");
}

#[test]
fn the_control_socket_is_for_its_owner_and_refuses_what_it_does_not_understand() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;
    let env = TestEnv::new();
    let agent = env.agent(&[], "noop \"x\" {}\n");
    let socket = env.at("prefix/control");
    assert_eq!(std::fs::symlink_metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    for (request, expected) in [
        ("{\"version\":99,\"request\":\"retry\"}\n", "restart the service after an upgrade"),
        ("{\"version\":1,\"request\":\"explode\"}\n", "the request cannot be read"),
        ("nonsense\n", "the request cannot be read"),
        ("{\"version\":1,\"request\":\"apply\",\"plan\":\"{}\"}\n", "is not a plan that can be applied"),
    ] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).unwrap();
        assert!(reply.contains("\"refused\"") && reply.contains(expected), "{request}: {reply}");
    }
    assert_eq!(env.said(&["retry"], &[]).stdout, "nothing is failing\n");
    end(agent);
}

#[test]
fn a_plan_is_applied_by_the_running_agent() {
    let env = TestEnv::new();
    let (a, b) = (env.at("a"), env.at("b"));
    let agent = env.agent(&[], &file(&a, "a"));
    env.has_list();
    let planned = env.plan(&file(&b, "b"));
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(
        planned.stdout.contains(&format!("no longer managed, left as they are:\n  file[{a}]\n")),
        "{planned:?}"
    );

    // The host changes: nothing is applied.
    std::fs::write(&b, "somebody else").unwrap();
    let refused = env.apply(&[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("the host has changed since the plan was made; nothing was applied"),
        "{refused:?}"
    );
    std::fs::remove_file(&b).unwrap();

    let applied = env.apply(&["--detailed-exitcode"]);
    assert_eq!(applied.code, 2, "{applied:?}");
    for part in [
        "the running mgmt applies ",
        &format!("file[{b}]: changed\n  create {b} file"),
        "applied: 1 changed, 0 failed\n",
    ] {
        assert!(applied.stdout.contains(part), "{part:?} is not in {applied:?}");
    }
    // From now on that is what the agent manages, and the other file it leaves alone.
    std::fs::write(&b, "drift").unwrap();
    holds(Path::new(&b), "b");
    std::fs::write(&a, "mine").unwrap();
    // What is applied again has nothing to do, and is said so at once.
    assert_eq!(env.plan(&file(&b, "b")).code, 0);
    let again = env.apply(&["--detailed-exitcode"]);
    assert_eq!((again.code, again.stdout.contains("applied: 0 changed, 0 failed\n")), (0, true), "{again:?}");
    assert_eq!(std::fs::read_to_string(&a).unwrap(), "mine");
    end(agent);
}

#[test]
fn an_applied_plan_that_fails_says_so_and_one_that_cannot_run_leaves_the_agent_as_it_is() {
    let env = TestEnv::new();
    let (a, b) = (env.at("a"), env.at("b"));
    let agent = env.agent(&[], &file(&a, "a"));
    let planned = env.plan(&format!("{}exec \"x\" {{ cmd => \"/bin/false\", }}\n", file(&b, "b")));
    assert_eq!(planned.code, 0, "{planned:?}");
    let failed = env.apply(&[]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(
        failed.stdout.contains("exec[x]: failed: ") && failed.stdout.contains("1 failed\n"),
        "{failed:?}"
    );
    holds(Path::new(&b), "b");
    end(agent);

    // A run that only looks applies nothing.
    std::fs::remove_file(&b).unwrap();
    let agent = env.agent(&["--noop"], &file(&a, "a"));
    assert_eq!(env.plan(&file(&b, "b")).code, 0);
    let refused = env.apply(&[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("only looks") && !Path::new(&b).exists(), "{refused:?}");
    end(agent);
}

/// Waits until `mgmt status` ends with this code and says this.
fn has_status(env: &TestEnv, code: i32, part: &str) {
    eventually(&format!("the status ends with {code} and says {part:?}"), || {
        let status = env.said(&["status"], &[]);
        status.code == code && status.stdout.contains(part)
    });
}

#[test]
fn a_host_that_runs_a_plan_or_its_own_program_instead_of_the_newest_deploy_is_stale() {
    let env = TestEnv::new();
    let (a, b, prefix) = (env.at("a"), env.at("b"), env.at("prefix"));
    let deploy = |program: &str| {
        let path = env.at("main.mcl");
        std::fs::write(&path, program).unwrap();
        let deployed = env.said(&["deploy"], &["--no-git", "lang", &path]);
        assert_eq!(deployed.code, 0, "{deployed:?}");
    };
    let mut agent = RunningProgram::start(&["run", "--prefix", &prefix, "empty"]);
    agent.wait_for("graph empty");
    assert_eq!(env.plan(&file(&b, "b")).code, 0);
    assert_eq!(env.apply(&[]).code, 0);
    has_status(&env, 0, "converged: 1 resource; plan ");
    deploy(&file(&a, "a"));
    has_status(&env, 0, "converged: 1 resource; deploy 1");
    std::fs::remove_file(&b).unwrap();
    assert_eq!(env.plan(&file(&b, "b")).code, 0);
    assert_eq!(env.apply(&[]).code, 0);
    has_status(&env, 1, "not on the newest deploy 1: runs a plan (");
    let status = env.said(&["--json", "status"], &[]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let host = status["hosts"].as_object().unwrap().values().next().unwrap();
    assert_eq!(
        (&host["state"], &host["report"]["deploy"]["instead"]["what"]),
        (&"stale".into(), &"plan".into())
    );
    deploy(&file(&a, "again"));
    has_status(&env, 0, "converged: 1 resource; deploy 2");
    end(agent);

    // A program that is given after a deploy is the newest, until there is a newer deploy.
    let agent = env.agent(&["--no-deploy-watch"], &file(&a, "given"));
    has_status(&env, 0, "converged: 1 resource; no deploy");
    deploy(&file(&a, "later"));
    has_status(&env, 1, "not on the newest deploy 3: runs the program given at the start");
    end(agent);
}

#[test]
fn a_deploy_that_is_tried_while_a_plan_is_applied_is_not_forgotten() {
    let env = TestEnv::new();
    let (a, b, c, prefix) = (env.at("a"), env.at("b"), env.at("c"), env.at("prefix"));
    let mut agent = RunningProgram::start(&["run", "--prefix", &prefix, "empty"]);
    agent.wait_for("graph empty");
    let deploy = |program: &str| {
        let path = env.at("main.mcl");
        std::fs::write(&path, program).unwrap();
        let deployed = env.said(&["deploy"], &["--no-git", "lang", &path]);
        assert_eq!(deployed.code, 0, "{deployed:?}");
    };
    deploy(&file(&a, "a"));
    has_status(&env, 0, "deploy 1");
    assert_eq!(env.plan(&file(&c, "c")).code, 0);
    deploy(&format!(
        "import \"os\"\nfile \"{b}\" {{ state => \"exists\", content => os.system(\"sleep 4; echo b\"), }}\n"
    ));
    agent.wait_for("taking deploy 2");
    let applied = env.apply(&[]);
    assert_eq!(applied.code, 0, "{applied:?}");
    holds(Path::new(&c), "c");
    holds(Path::new(&b), "b");
    has_status(&env, 1, "not on the newest deploy 2: runs a plan (");
    end(agent);
}

#[test]
fn plan_check_and_noop_work_beside_an_agent_and_touch_nothing_of_it() {
    let env = TestEnv::new();
    let (a, b) = (env.at("a"), env.at("b"));
    let kept = format!(
        "file \"{a}\" {{ state => \"exists\", content => \"old\\n\", mode => \"0644\", Meta:reverse => true, }}\n"
    );
    let agent = env.agent(&[], &kept);
    let state = || {
        let mut all = Vec::new();
        let mut open = vec![Path::new(&env.at("prefix/engine")).to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                match entry.metadata() {
                    Ok(found) if found.is_dir() => open.push(entry.path()),
                    Ok(found) => all.push((entry.path(), found.modified().unwrap())),
                    Err(_) => {}
                }
            }
        }
        all.sort();
        all
    };
    env.has_list();
    let before = state();
    let planned = env.said(&["plan"], &["lang", &file(&b, "new\\n")]);
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(planned.stdout.contains("no longer declared: reversed"), "{planned:?}");
    assert_eq!(mgmt_output(&["check", "lang", &kept]).code, 0);
    // The same differences as in the plan, and the reversal that another program would lead to.
    let quiet = ["--noop", "--converger-timeout=0", "--converged-exit", "--detailed-exitcode"];
    let looked = env.said(&["run"], &[&quiet[..], &["lang", &file(&b, "new\\n")]].concat());
    assert_eq!(looked.code, 2, "{looked:?}");
    assert!(looked.stderr.contains("running beside it"), "{looked:?}");
    for part in [
        format!("would create {b} file"),
        format!("+++ {b}"),
        "+new".to_owned(),
        format!("would remove {a} file"),
    ] {
        assert!(looked.stderr.contains(&part), "{part:?} is not in {}", looked.stderr);
    }
    assert!(!Path::new(&b).exists() && Path::new(&a).exists());
    assert_eq!(before, state(), "nothing of the agent has been written");
    // Two that change things are one too many.
    let second = env.said(&["run"], &["--converger-timeout=0", "--converged-exit", "lang", &kept]);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.stderr.contains("another mgmt"), "{second:?}");
    end(agent);
}

#[test]
fn a_look_beside_an_agent_that_stands_still_says_what_it_waits_for_and_can_be_ended() {
    let env = TestEnv::new();
    let agent = env.agent(&[], "noop \"x\" {}\n");
    agent.signal(Signal::STOP);
    for signal in [Signal::INT, Signal::TERM] {
        let prefix = env.at("prefix");
        let mut look =
            RunningProgram::start(&["run", "--noop", "--prefix", &prefix, "lang", "noop \"y\" {}\n"]);
        look.wait_for(&format!("waiting for the store of the run in {prefix} ("));
        look.signal(signal);
        let (code, lines) = look.end();
        assert_eq!(code, Some(0), "{lines}");
        assert!(lines.contains("ending, the store was not reached"), "{lines}");
    }
    agent.signal(Signal::CONT);
    end(agent);
}

#[test]
fn a_plan_sees_the_shared_values_of_the_agent() {
    let env = TestEnv::new();
    let kv = |value: &str| format!("kv \"colour\" {{ value => \"{value}\", }}\n");
    let agent = env.agent(&[], &kv("blue"));
    let plan = |value: &str| env.said(&["plan"], &["--detailed-exitcode", "lang", &kv(value)]);
    let same = plan("blue");
    assert_eq!(same.code, 0, "{same:?}");
    let other = plan("red");
    assert_eq!(other.code, 2, "{other:?}");
    assert_eq!(plan("blue").code, 0, "a plan writes to a copy");
    end(agent);
}

#[test]
fn a_plan_is_not_sure_of_an_address_that_is_in_use() {
    let env = TestEnv::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let program = format!("http:server \"{}\" {{}}\n", listener.local_addr().unwrap());
    let is_predicted = || {
        let planned = env.said(&["plan"], &["lang", &program]);
        assert!(
            planned.code == 0 && planned.stdout.contains("  predicted  change http:server["),
            "{planned:?}"
        );
    };
    // By another program, or by the agent itself.
    is_predicted();
    drop(listener);
    let planned = env.said(&["plan"], &["lang", &program]);
    assert!(planned.stdout.contains("  exact      change http:server["), "{planned:?}");
    let agent = env.agent(&[], &program);
    is_predicted();
    end(agent);
}

#[test]
fn a_deploy_on_a_terminal_sums_up_its_plan_and_asks() {
    let env = TestEnv::new();
    let (a, source, prefix) = (env.at("a"), env.at("main.mcl"), env.at("prefix"));
    std::fs::write(&source, file(&a, "a")).unwrap();
    let words = ["run", "--prefix", &prefix, "--hostname", "h7", "--converger-timeout=0", "empty"];
    let mut agent = RunningProgram::start(&words);
    agent.wait_for("converged for 0 s");
    let deploy = |more: &[&str]| {
        let words = [&["deploy", "--no-git", "--prefix", &prefix][..], more, &["lang", &source]];
        let mut command = mgmt(&words.concat());
        command.env("TERM", "xterm");
        command
    };
    let ask = |answer: &str| {
        let mut screen = TerminalSession::with_keyboard(deploy(&[]));
        eventually("the question", || screen.written().contains("deploy? [y/N] "));
        screen.types(answer);
        screen.end()
    };
    let (code, seen) = ask("n\n");
    assert_eq!(code, Some(1), "{seen}");
    assert!(seen.contains("on h7: 1 to create, ") && seen.contains("nothing was deployed"), "{seen}");
    assert!(!Path::new(&a).exists());
    let (code, seen) = ask("\n");
    assert_eq!(code, Some(1), "{seen}");
    let (code, seen) = ask("y\n");
    assert_eq!(code, Some(0), "{seen}");
    holds(Path::new(&a), "a");
    // With the flag, and where nobody could answer, there is no question.
    let (code, seen) = TerminalSession::with_keyboard(deploy(&["--yes"])).end();
    assert_eq!((code, seen.contains("deploy?")), (Some(0), false), "{seen}");
    assert!(seen.contains("nothing to change: 1 resource is as declared"), "{seen}");
    // Programs say that they are sure.
    let (code, seen) = TerminalSession::with_keyboard(deploy(&["--json"])).end();
    assert_eq!((code, seen.contains("add `--yes`")), (Some(2), true), "{seen}");
    let (code, seen) = TerminalSession::with_keyboard(deploy(&["--json", "--yes"])).end();
    assert_eq!(code, Some(0), "{seen}");
    let rollback = |answer: &str| {
        let mut screen =
            TerminalSession::with_keyboard(mgmt(&["deploy", "--prefix", &prefix, "rollback", "1"]));
        eventually("the question", || screen.written().contains("deploy? [y/N] "));
        screen.types(answer);
        screen.end()
    };
    let (code, seen) = rollback("n\n");
    assert!(code == Some(1) && seen.contains("to be deployed again, on all hosts:"), "{seen}");
    assert!(seen.contains("nothing was deployed"), "{seen}");
    let (code, seen) = rollback("y\n");
    assert!(code == Some(0) && seen.contains(", again number 1"), "{seen}");
    let plain: CommandOutput = deploy(&[]).output().unwrap().into();
    assert_eq!((plain.code, plain.stderr.contains("to change")), (0, false), "{plain:?}");
    agent.signal(Signal::INT);
    let (code, lines) = agent.end();
    assert_eq!(code, Some(0), "{lines}");
}
