//! One host: every state of its resources, its program and its deploys.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::health::{TestEnv, content, file, finish};
use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, holds, mgmt, mgmt_output};

#[test]
fn a_host_where_nothing_runs_has_a_code_of_its_own() {
    let env = TestEnv::new();
    for format in ["human", "json"] {
        let said = mgmt_output(&["--message-format", format, "status", "--prefix", &env.text("prefix")]);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.stderr.contains("mgmt is not running on this host"), "{said:?}");
        assert!(said.stderr.contains("mgmt run"), "with a hint: {said:?}");
    }
    // A store that an ended run has left does not change that.
    finish(env.run(&[], "noop \"a\" {}\n").started());
    let said = env.status();
    assert!(said.code == 3 && said.stderr.contains("not running"), "{said:?}");
}

trait Started {
    fn started(self) -> Self;
}

impl Started for RunningProgram {
    fn started(mut self) -> RunningProgram {
        self.wait_for("graph ");
        self
    }
}

#[test]
fn retrying_and_blocked_resources_are_named_until_they_recover() {
    let env = TestEnv::new();
    let parent = env.at("missing");
    let (first, second) = (parent.join("a"), env.at("b"));
    let depends = format!("\tDepend => File[\"{}\"],", first.display());
    let run = env.run(&[], &format!("{}{}", file(&first, ""), file(&second, &depends)));
    let name = format!("file[{}]", first.display());
    let blocked = format!("file[{}]  blocked by {name}", second.display());
    let said = env.status_has(&[&format!("{name}  retrying after "), &blocked, ", next attempt 20"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.starts_with("h1  degraded: 1 of 2 resources retrying, 1 blocked"), "{said:?}");
    assert!(said.stdout.contains(" UTC ("), "times are absolute with a zone, and relative: {said:?}");
    assert!(said.stdout.contains("missing"), "the error names the directory: {said:?}");
    let json = env.json();
    let host = &json["hosts"]["h1"];
    assert_eq!((host["state"].as_str(), host["converged"].as_bool()), (Some("degraded"), Some(false)));
    assert_eq!(
        (&host["report"]["counts"]["retrying"], &host["report"]["counts"]["blocked"]),
        (&1.into(), &1.into())
    );
    let retrying = &host["report"]["unhealthy"][0];
    assert_eq!(
        (retrying["resource"].as_str(), retrying["state"].as_str()),
        (Some(name.as_str()), Some("retrying"))
    );
    assert!(retrying["next"].as_u64().unwrap() >= retrying["since"].as_u64().unwrap(), "{json}");
    assert!(!retrying["error"].as_str().unwrap().is_empty());
    std::fs::create_dir(&parent).unwrap();
    let said = env.status_has(&["h1  converged: 2 resources"]);
    assert_eq!(said.code, 0, "{said:?}");
    let lines = finish(run);
    assert!(lines.contains("host is degraded: 1 of 2 resources retrying"), "{lines}");
    assert!(lines.contains("host is converged: 2 resources"), "{lines}");
}

#[test]
fn what_has_not_been_checked_yet_is_pending_and_what_was_restored_is_changed() {
    let env = TestEnv::new();
    let (path, gate) = (env.at("a"), env.at("gate"));
    let program = format!(
        "exec \"gate\" {{\n\tcmd => \"while ! test -e {}; do sleep 0.05; done\",\n\tshell => \"/bin/sh\",\n\tenv => {{\"PATH\" => \"/usr/bin:/bin\",}},\n}}\n{}noop [\"x\", \"y\"] {{\n\tDepend => Exec[\"gate\"],\n}}\n",
        gate.display(),
        file(&path, "\tDepend => Exec[\"gate\"],")
    );
    let run = env.run(&[], &program);
    let said = env.status_has(&["h1  working: 4 resources, 4 pending"]);
    assert_eq!(said.code, 1, "{said:?}");
    let counts = || env.json()["hosts"]["h1"]["report"]["counts"].clone();
    assert_eq!((&counts()["pending"], &counts()["total"]), (&4.into(), &4.into()));
    std::fs::write(&gate, "").unwrap();
    env.status_has(&["h1  converged: 4 resources"]);
    assert_eq!((&counts()["pending"], &counts()["changed"]), (&0.into(), &2.into()), "{}", counts());
    // The next check of the file finds nothing to do.
    std::fs::write(&path, "x").unwrap();
    eventually("only the command has changed something", || counts()["changed"] == 1);
    finish(run);
}

#[test]
fn a_repair_that_takes_a_while_is_work_and_a_short_check_is_none() {
    let env = TestEnv::new();
    let (guarded, gate, behind) = (env.at("guarded"), env.at("gate"), env.at("behind"));
    std::fs::write(&guarded, "").unwrap();
    std::fs::write(&gate, "").unwrap();
    let program = format!(
        "exec \"x\" {{\n\tcmd => \"while ! test -e {gate}; do sleep 0.05; done; touch {guarded}\",\n\tshell => \"/bin/sh\",\n\tifcmd => \"test ! -e {guarded}\",\n\tifshell => \"/bin/sh\",\n\twatchfiles => [\"{guarded}\",],\n\tenv => {{\"PATH\" => \"/usr/bin:/bin\",}},\n}}\n{}",
        file(&behind, "\tDepend => Exec[\"x\"],"),
        gate = gate.display(),
        guarded = guarded.display(),
    );
    let said_file = env.text("converged");
    let flags = ["--converger-timeout=0", "--converger-status-file", &said_file];
    let run = env.run(&flags, &program);
    assert_eq!(env.status_has(&["h1  converged: 2 resources"]).code, 0);
    // It has a line for each change.
    let converged = || {
        let lines = std::fs::read_to_string(&said_file).unwrap_or_default();
        lines.lines().last().unwrap_or_default().to_owned()
    };
    eventually("the status file", || converged() == "true");
    std::fs::remove_file(&gate).unwrap();
    std::fs::remove_file(&guarded).unwrap();
    std::fs::remove_file(&behind).unwrap();
    let said = env.status_has(&["h1  working: 2 resources, 2 pending"]);
    assert_eq!(said.code, 1, "{said:?}");
    eventually("the status file", || converged() == "false");
    std::fs::write(&gate, "").unwrap();
    assert_eq!(env.status_has(&["h1  converged: 2 resources"]).code, 0);
    eventually("the status file", || converged() == "true");
    assert!(behind.exists());
    finish(run);
}

#[test]
fn a_resource_that_its_rate_holds_back_for_ever_is_pending_and_degrades_the_host() {
    let env = TestEnv::new();
    let path = env.at("a");
    // Nothing is written at the start, so the check there is the only one that the burst allows.
    std::fs::write(&path, "x").unwrap();
    let run = env.run(&["--converger-timeout=0"], &file(&path, "\tMeta:limit => 0.0,\n\tMeta:burst => 1,"));
    env.status_has(&["h1  converged: 1 resource"]);
    std::fs::write(&path, "wrong").unwrap();
    let said = env.status_has(&["h1  degraded: 1 resource, 1 pending"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "wrong");
    let lines = finish(run);
    assert!(lines.contains("rate limited for ever"), "{lines}");
}

#[test]
fn a_failure_is_reported_while_the_window_of_its_resource_is_closed() {
    let env = TestEnv::new();
    let exec = |more: &str| format!("exec \"x\" {{\n\tcmd => \"/bin/false\",\n{more}}}\n");
    let run = env.run(&[], &exec(""));
    env.status_has(&["exec[x]  retrying after "]);
    env.write("main.mcl", &exec("\tMeta:window => [\"never\",],\n"));
    let said = env.status_has(&["h1  degraded: 1 of 1 resource failed", "left alone: its window is never"]);
    assert_eq!(said.code, 1, "{said:?}");
    let retried = mgmt_test_support::program::mgmt_output(&["retry", "--prefix", &env.text("prefix")]);
    assert!(retried.code == 0 && !retried.stdout.contains("nothing"), "{retried:?}");
    env.write("main.mcl", "exec \"x\" {\n\tcmd => \"/bin/true\",\n}\n");
    assert_eq!(env.status_has(&["h1  converged: 1 resource"]).code, 0);
    finish(run);
}

#[test]
fn what_else_is_watched_is_heard_when_a_command_that_watches_ends() {
    let env = TestEnv::new();
    let (ran, other) = (env.at("ran"), env.at("other"));
    let program = format!(
        "exec \"x\" {{\n\tcmd => \"echo ran >> {}\",\n\tshell => \"/bin/sh\",\n\twatchcmd => \"exit 1\",\n\twatchshell => \"/bin/sh\",\n\twatchfiles => [\"{}\",],\n\tMeta:retry => 1,\n}}\n",
        ran.display(),
        other.display(),
    );
    let run = env.run(&[], &program);
    env.status_has(&["exec[x]  retrying after ", "cannot watch", ", next attempt 20"]);
    let runs = || std::fs::read_to_string(&ran).unwrap_or_default().lines().count();
    eventually("a run", || runs() > 0);
    for number in 0..3 {
        let before = runs();
        std::fs::write(&other, number.to_string()).unwrap();
        eventually("a run for an event", || runs() > before);
    }
    finish(run);
}

#[test]
fn every_resource_of_a_failing_group_is_named_until_it_recovers_in_whatever_group() {
    let env = TestEnv::new();
    let package = |state: &str, names: &str| format!("pkg [{names}] {{\n\tstate => \"{state}\",\n}}\n");
    let program = env.write("main.mcl", &package("installed", "\"none-a\", \"none-b\", \"none-c\""));
    // Without a network and without package lists there is nothing to install.
    let script =
        "mount -t tmpfs tmpfs /var/lib/apt/lists && mount -t tmpfs tmpfs /var/cache/apt && exec \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_mgmt"), "run"]);
    command.args(["--prefix", &env.text("prefix"), "--hostname", "h1", "lang", &program]);
    let run = RunningProgram::start_command(command);
    let [a, b, c] = ["a", "b", "c"].map(|name| format!("pkg[none-{name}]  retrying after "));
    env.status_has(&["h1  degraded: 3 of 3 resources retrying", &a, &b, &c]);
    // Another graph takes the group apart. What is not there is right for one of them.
    for (others, absent) in [(["a", "b"], "c"), (["b", "c"], "a")] {
        let names = others.map(|name| format!("\"none-{name}\"")).join(", ");
        let absent = format!("none-{absent}");
        let packages =
            [package("installed", &names), package("uninstalled", &format!("\"{absent}\""))].concat();
        env.write("main.mcl", &packages);
        let [first, second] = others.map(|name| format!("pkg[none-{name}]  retrying after "));
        let said = env.status_has(&["h1  degraded: 2 of 3 resources retrying", &first, &second]);
        assert!(!said.stdout.contains(&format!("pkg[{absent}]  ")), "{absent}: {said:?}");
    }
    env.write("main.mcl", &package("uninstalled", "\"none-a\", \"none-b\", \"none-c\""));
    assert_eq!(env.status_has(&["h1  converged: 3 resources"]).code, 0);
    finish(run);
}

#[test]
fn a_resource_whose_declared_attempts_are_used_up_has_failed() {
    let env = TestEnv::new();
    let run = env.run(&[], "exec \"x\" {\n\tcmd => \"/bin/false\",\n\tMeta:retry => 0,\n}\n");
    let said = env.status_has(&["h1  degraded: 1 of 1 resource failed", "exec[x]  failed after 1 attempt: "]);
    assert!(said.code == 1 && said.stdout.contains("`mgmt retry`"), "{said:?}");
    assert_eq!(env.json()["hosts"]["h1"]["report"]["unhealthy"][0]["state"], "failed");
    finish(run);
}

#[test]
fn changes_that_noop_holds_back_are_counted() {
    let env = TestEnv::new();
    let run = env.run(&["--noop"], &format!("{}{}", file(&env.at("a"), ""), file(&env.at("b"), "")));
    let said = env.status_has(&["h1  degraded: 2 resources; noop, 2 changes pending"]);
    assert_eq!(said.code, 1, "{said:?}");
    let host = env.json()["hosts"]["h1"].clone();
    assert_eq!(
        (&host["report"]["noop"], &host["report"]["counts"]["would_change"]),
        (&true.into(), &2.into())
    );
    // Whoever does it by hand is done.
    for name in ["a", "b"] {
        std::fs::write(env.at(name), "x").unwrap();
    }
    assert_eq!(env.status_has(&["h1  converged: 2 resources; noop, 0 changes pending"]).code, 0);
    finish(run);
}

#[test]
fn a_flapping_resource_is_named() {
    let env = TestEnv::new();
    let path = env.at("a");
    let run = env.run(&[], &file(&path, ""));
    env.status_has(&["h1  converged"]);
    let name = format!("file[{}]  flapping: reverted by an external process ", path.display());
    eventually("it is said to flap", || {
        for _ in 0..20 {
            std::fs::write(&path, "y").unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
        env.status().stdout.contains(&name)
    });
    let said = env.status();
    assert!(said.code == 1 && said.stdout.contains("backing off"), "{said:?}");
    assert_eq!(env.json()["hosts"]["h1"]["report"]["counts"]["flapping"], 1);
    finish(run);
}

#[test]
fn a_failed_value_makes_the_program_stale_and_names_what_is_frozen() {
    let env = TestEnv::new();
    let input = env.write("input", "one");
    let (frozen, free) = (env.at("frozen"), env.at("free"));
    let program = format!(
        "import \"os\"\nfile \"{}\" {{\n\tstate => \"exists\",\n\tcontent => os.readfile(\"{input}\"),\n}}\n{}",
        frozen.display(),
        file(&free, "")
    );
    let run = env.run(&[], &program);
    env.status_has(&["h1  converged"]);
    std::fs::remove_file(&input).unwrap();
    let named = format!("file[{}]  stale: ", frozen.display());
    let said =
        env.status_has(&["h1  stale: 1 of 2 resources stale; program stale", "  program stale: ", &named]);
    assert!(said.code == 1 && said.stdout.contains("main.mcl:4:"), "{said:?}");
    let json = env.json();
    assert_eq!(json["hosts"]["h1"]["report"]["program"]["state"], "stale", "{json}");
    let resource = &json["hosts"]["h1"]["report"]["unhealthy"][0];
    let error = resource["error"].as_str().unwrap();
    assert!(resource["state"] == "stale" && error.contains("main.mcl:4:"), "{json}");
    // The rest of the program goes on, and what is frozen is kept as it was last declared.
    for (path, content) in [(&free, "x"), (&frozen, "one")] {
        std::fs::write(path, "drift").unwrap();
        mgmt_test_support::program::holds(path, content);
    }
    std::fs::write(&input, "two").unwrap();
    assert_eq!(env.status_has(&["h1  converged"]).code, 0);
    finish(run);
}

#[test]
fn a_failed_look_at_the_host_keeps_nothing_else_from_running_and_is_made_again() {
    let env = TestEnv::new();
    let (input, live) = (env.at("input"), env.write("live", "1"));
    let (user, read, free) = (env.at("user"), env.at("read"), env.at("free"));
    let program = [
        "import \"os\"\nimport \"golang/os\" as gos\n".to_owned(),
        content(&user, "os.uid(\"mgmt-no-such-user\")"),
        content(&read, &format!("gos.read_file(\"{}\")", input.display())),
        content(&free, &format!("os.readfile(\"{live}\")")),
    ];
    let run = env.run(&[], &program.concat());
    let named = env.status_has(&["h1  stale: ", "program stale", "mgmt-no-such-user", "gos.read_file("]);
    assert_eq!(named.code, 1, "{named:?}");
    holds(&free, "1");
    std::fs::write(&live, "2").unwrap();
    holds(&free, "2");
    // No event tells of the file.
    std::fs::write(&input, "there").unwrap();
    holds(&read, "there");
    eventually("the file has been read", || {
        let status = env.status().stdout;
        status.contains("mgmt-no-such-user") && !status.contains("gos.read_file(")
    });
    let retry = mgmt_output(&["retry", "--prefix", &env.text("prefix")]);
    assert_eq!((retry.code, retry.stdout.as_str()), (0, "evaluating 1 failed value again\n"), "{retry:?}");
    // Edited away, it is gone.
    env.write("main.mcl", &program[..1].concat());
    assert_eq!(env.status_has(&["h1  converged"]).code, 0);
    // In a program that runs, too, and what is frozen is named.
    env.write("main.mcl", &[&program[0], &program[1], &program[3]].map(String::as_str).concat());
    env.status_has(&["program stale", "mgmt-no-such-user"]);
    std::fs::write(&live, "3").unwrap();
    holds(&free, "3");
    finish(run);
}

#[test]
fn a_retry_evaluates_failed_values_at_once() {
    let env = TestEnv::new();
    let (input, out) = (env.at("input"), env.at("out"));
    let run = env.run(
        &[],
        &format!("import \"os\"\n{}", content(&out, &format!("os.system(\"cat {}\")", input.display()))),
    );
    env.status_has(&["program stale", "the command ended without printing a line"]);
    // After some attempts the next one is so far away that time alone cannot be what heals it.
    std::thread::sleep(Duration::from_secs(16));
    std::fs::write(&input, "there\n").unwrap();
    let asked = std::time::Instant::now();
    let retry = mgmt_output(&["retry", "--prefix", &env.text("prefix")]);
    assert_eq!(retry.stdout, "evaluating 1 failed value again\n", "{retry:?}");
    holds(&out, "there");
    assert!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
    assert_eq!(env.status_has(&["h1  converged"]).code, 0);
    finish(run);
}

#[test]
fn a_program_that_panics_leaves_no_resource_unnamed() {
    let env = TestEnv::new();
    let input = env.write("input", "well");
    let program = format!(
        "import \"os\"\npanic(os.readfile(\"{input}\") == \"ill\", \"it is ill\")\n{}{}",
        file(&env.at("one"), ""),
        file(&env.at("two"), "")
    );
    let run = env.run(&[], &program);
    env.status_has(&["h1  converged"]);
    env.write("input", "ill");
    let named = |name: &str| format!("file[{}]  stale: ", env.at(name).display());
    env.status_has(&["h1  stale: 2 of 2 resources stale", "it is ill", &named("one"), &named("two")]);
    env.write("input", "well");
    assert_eq!(env.status_has(&["h1  converged"]).code, 0);
    finish(run);
}

#[test]
fn a_value_that_is_waited_for_too_long_makes_the_program_waiting_and_is_named() {
    let env = TestEnv::new();
    let go = env.at("go");
    let call = format!("os.system(\"while ! test -e {0}; do sleep 0.1; done; echo there\")", go.display());
    let text = format!(
        "import \"os\"\nfile \"{}\" {{\n\tstate => \"exists\",\n\tcontent => {call},\n}}\n{}",
        env.at("out").display(),
        file(&env.at("free"), "")
    );
    let run = env.run(&[], &text);
    let missing = format!("not there yet: file[{}]", env.at("out").display());
    let said = env.status_has(&[
        "h1  stale: 1 resource; program waiting",
        "  program waiting for 1 value",
        "main.mcl:4:13: os.system(",
        ": no value yet",
        &missing,
    ]);
    assert_eq!(said.code, 1, "{said:?}");
    let json = env.json();
    let program = &json["hosts"]["h1"]["report"]["program"];
    assert!(program["state"] == "waiting" && program["since"].as_u64().unwrap() > 0, "{json}");
    let value = &json["hosts"]["h1"]["report"]["values"]["pending"][0];
    assert_eq!(value["missing"][0], format!("file[{}]", env.at("out").display()), "{json}");
    assert!(value["position"].as_str().unwrap().ends_with("main.mcl:4:13"), "{json}");
    std::fs::write(&go, "").unwrap();
    assert_eq!(env.status_has(&["h1  converged"]).code, 0);
    finish(run);
}

#[test]
fn a_program_with_errors_is_invalid_until_it_has_none() {
    let env = TestEnv::new();
    let run = env.run(&[], "noop \"a\" {}\n");
    env.status_has(&["h1  converged"]);
    env.write("main.mcl", "noop \"a\" {\n");
    let said = env.status_has(&["h1  stale: 1 resource; program invalid", "  program invalid: "]);
    assert_eq!(said.code, 1, "{said:?}");
    env.write("main.mcl", "noop \"b\" {}\n");
    assert_eq!(env.status_has(&["h1  converged"]).code, 0);
    finish(run);
    // The same for a graph.
    let graph = env.write("graph.yaml", "graph: g\nresources:\n  noop:\n  - name: a\n");
    let prefix = env.text("prefix");
    let run = RunningProgram::start(&["run", "--prefix", &prefix, "--hostname", "h1", "yaml", &graph]);
    env.status_has(&["h1  converged"]);
    env.write("graph.yaml", "graph: g\nresources:\n  nonsense:\n  - name: a\n");
    assert_eq!(env.status_has(&["h1  stale: 1 resource; program invalid"]).code, 1);
    env.write("graph.yaml", "graph: g\nresources:\n  noop:\n  - name: a\n");
    assert_eq!(env.status_has(&["h1  converged"]).code, 0);
    finish(run);
}

#[test]
fn the_reason_why_a_host_is_not_on_the_newest_deploy_is_shown() {
    let env = TestEnv::new();
    let prefix = env.text("prefix");
    let run = RunningProgram::start(&["run", "--prefix", &prefix, "--hostname", "h1", "empty"]).started();
    let deploy = |text: &str| {
        let program = env.write("deploy.mcl", text);
        let said = mgmt_output(&["deploy", "--prefix", &prefix, "--no-git", "lang", &program]);
        assert_eq!(said.code, 0, "{said:?}");
    };
    deploy("noop \"a\" {}\n");
    assert_eq!(env.status_has(&["h1  converged: 1 resource; deploy 1"]).code, 0);
    // It is right as far as can be told without running it, and contradicts itself on this host.
    deploy(
        "$name = if $hostname == \"\" { \"b\" } else { \"a\" }\nnoop \"a\" {}\nnoop \"b\" {}\nNoop[\"b\"] -> Noop[$name]\nNoop[$name] -> Noop[\"b\"]\n",
    );
    let said = env.status_has(&["h1  stale: ", "  deploy 2 refused: "]);
    assert!(said.code == 1 && said.stdout.contains("; deploy 1; deploy 2 refused"), "{said:?}");
    let json = env.json();
    assert_eq!((&json["newest_deploy"], &json["hosts"]["h1"]["deploy"]), (&2.into(), &1.into()));
    assert!(!json["hosts"]["h1"]["not_newest_because"].as_str().unwrap().is_empty(), "{json}");
    deploy("noop \"c\" {}\n");
    assert_eq!(env.status_has(&["h1  converged: 1 resource; deploy 3"]).code, 0);
    finish(run);
}

#[test]
fn the_service_manager_hears_the_same_words() {
    let env = TestEnv::new();
    let socket = UnixDatagram::bind(env.at("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let parent = env.at("missing");
    let program = env.write("main.mcl", &file(&parent.join("a"), ""));
    let mut command = mgmt(&["run", "--prefix", &env.text("prefix"), "lang", &program]);
    command.env("NOTIFY_SOCKET", env.at("notify"));
    let run = RunningProgram::start_command(command);
    let hears = |line: &str| {
        let mut buffer = [0; 4096];
        eventually(line, || {
            let heard = socket.recv(&mut buffer).ok();
            heard.is_some_and(|length| {
                String::from_utf8_lossy(&buffer[..length]).lines().any(|heard| heard == line)
            })
        });
    };
    hears("STATUS=degraded: 1 of 1 resource retrying");
    std::fs::create_dir(&parent).unwrap();
    hears("STATUS=converged: 1 resource");
    finish(run);
}

/// A program with a value that fails from the start, one that fails later, and one that is waited for.
fn open_values(env: &TestEnv) -> String {
    let part = |name: &str, content: &str| {
        let path = env.at(name);
        format!("file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => {content},\n}}\n", path.display())
    };
    let (input, none) = (env.text("input"), env.text("none"));
    let waits = format!("os.system(\"while ! test -e {0}; do sleep 0.1; done; echo there\")", env.text("go"));
    [
        "import \"os\"\n".to_owned(),
        part("frozen", &format!("os.readfile(\"{input}\")")),
        part("missing", &format!("os.readfile(\"{none}\")")),
        part("waits", &waits),
    ]
    .concat()
}

#[test]
fn failed_and_pending_values_are_all_named_each_with_its_time_and_also_while_the_text_is_invalid() {
    let env = TestEnv::new();
    env.write("input", "one");
    let program = open_values(&env);
    let run = env.run(&[], &program);
    let missing = |name: &str| format!("not there yet: file[{}]", env.at(name).display());
    // What has never had a value is named, whether that failed or is waited for.
    env.status_has(&[
        "program stale: ",
        &missing("missing"),
        "program waiting for 1 value",
        &missing("waits"),
    ]);
    let json = env.json();
    let first = json["hosts"]["h1"]["report"]["values"]["failed"][0]["since"].as_u64().unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    std::fs::remove_file(env.at("input")).unwrap();
    let frozen = format!("file[{}]", env.at("frozen").display());
    let stale = format!("{frozen}  stale: ");
    env.status_has(&["h1  stale: 1 of 1 resource stale; program stale", &stale]);
    let report = &env.json()["hosts"]["h1"]["report"];
    assert!(report["unhealthy"][0]["since"].as_u64().unwrap() > first, "a time of its own: {report}");
    // An edit with a mistake hides none of it, and is no older than it is.
    std::thread::sleep(Duration::from_millis(1100));
    env.write("main.mcl", &format!("{program}noop \"a\" {{\n"));
    env.status_has(&[
        "h1  stale: 1 of 1 resource stale; program invalid",
        "  program invalid: ",
        "  2 values have failed",
        &stale,
        &missing("missing"),
        &missing("waits"),
    ]);
    let report = &env.json()["hosts"]["h1"]["report"];
    assert!(report["program"]["since"].as_u64().unwrap() > first + 1, "{report}");
    env.write("main.mcl", &program);
    env.write("none", "there");
    env.write("input", "two");
    env.write("go", "");
    assert_eq!(env.status_has(&["h1  converged: 3 resources"]).code, 0);
    finish(run);
}

#[test]
fn every_resource_has_one_state_and_all_of_them_are_counted_and_named_on_the_own_host() {
    let env = TestEnv::new();
    let input = env.write("input", "one");
    let directory = env.at("d");
    std::fs::create_dir(&directory).unwrap();
    let program = format!(
        "import \"os\"\nimport \"fmt\"\nimport \"iter\"\n\
         $content = os.readfile(\"{input}\")\n\
         file \"{0}/parent/first\" {{\n\tstate => \"exists\",\n\tcontent => $content,\n}}\n\
         for $i, $n in iter.range(150) {{\n\tfile fmt.printf(\"{0}/%d\", $n) {{\n\t\tstate => \"exists\",\n\t\tcontent => $content,\n\t\tDepend => File[\"{0}/parent/first\"],\n\t}}\n}}\n\
         noop \"free\" {{}}\n",
        directory.display()
    );
    let run = env.run(&[], &program);
    let said = env.status_has(&["h1  degraded: 1 of 152 resources retrying, 150 blocked", "and 51 more"]);
    assert!(said.stdout.contains("`mgmt status --all`"), "{said:?}");
    let one_state = |stale: u64, blocked: u64| {
        let report = &env.json()["hosts"]["h1"]["report"];
        let counts = report["counts"].as_object().unwrap();
        let others = counts.iter().filter(|(state, _)| *state != "total");
        let sum: u64 = others.map(|(_, count)| count.as_u64().unwrap()).sum();
        assert!(sum <= 152 && counts["total"] == 152, "{report}");
        assert_eq!((&counts["stale"], &counts["blocked"]), (&stale.into(), &blocked.into()), "{report}");
        assert_eq!((report["unhealthy"].as_array().unwrap().len(), &report["truncated"]), (100, &51.into()));
    };
    one_state(0, 150);
    // All of them are stale then, and blocked no more: the one that is retried stays that.
    std::fs::remove_file(&input).unwrap();
    env.status_has(&["h1  degraded: 1 of 152 resources retrying, 150 stale"]);
    one_state(150, 0);
    let all = said_of(&env, &["--all"]);
    assert_eq!(all.stdout.matches("  stale: ").count(), 150, "{all:?}");
    assert!(!all.stdout.contains(" more"), "{all:?}");
    let json: serde_json::Value =
        serde_json::from_str(&said_of(&env, &["--all", "--format=json"]).stdout).unwrap();
    let report = &json["hosts"]["h1"]["report"];
    assert_eq!(report["unhealthy"].as_array().unwrap().len(), 151, "{report}");
    assert!(report.get("truncated").is_none(), "{report}");
    finish(run);
}

fn said_of(env: &TestEnv, flags: &[&str]) -> CommandOutput {
    mgmt_output(&[&["status", "--prefix", &env.text("prefix")][..], flags].concat())
}

#[test]
fn a_program_that_takes_no_deploys_is_stale_everywhere_as_soon_as_there_is_one() {
    let env = TestEnv::new();
    let run = env.run(&["--no-deploy-watch"], "noop \"a\" {}\n");
    env.status_has(&["h1  converged: 1 resource"]);
    let program = env.write("deploy.mcl", "noop \"b\" {}\n");
    let deployed = mgmt_output(&["deploy", "--prefix", &env.text("prefix"), "--no-git", "lang", &program]);
    assert_eq!(deployed.code, 0, "{deployed:?}");
    let said = env.status_has(&["h1  stale: 1 resource; newest deploy "]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains("runs the program given at the start"), "{said:?}");
    let host = &env.json()["hosts"]["h1"];
    assert_eq!((&host["state"], &host["converged"]), (&"stale".into(), &false.into()), "{host}");
    assert!(host["summary"].as_str().unwrap().starts_with("stale: "), "{host}");
    finish(run);
}

#[test]
fn an_agent_that_is_stopped_is_said_not_to_answer() {
    let env = TestEnv::new();
    let run = env.run(&[], "noop \"a\" {}\n").started();
    run.signal(rustix::process::Signal::STOP);
    let said = env.status();
    run.signal(rustix::process::Signal::CONT);
    assert_eq!(said.code, 1, "{said:?}");
    // Whether it is the run or its store that is asked last depends on how far the command came.
    let parts = ["does not answer", "has not answered within "];
    assert!(parts.iter().any(|part| said.stderr.contains(part)), "{said:?}");
    finish(run);
}

#[test]
fn the_history_has_failures_of_watches_recoveries_and_the_states_of_the_host() {
    let env = TestEnv::new();
    let go = env.at("go");
    let program = format!(
        "exec \"x\" {{\n\tcmd => \"/bin/true\",\n\tifcmd => \"/bin/false\",\n\twatchcmd => \"test -e {0} && exec sleep 600\",\n\twatchshell => \"/bin/sh\",\n}}\n",
        go.display()
    );
    let run = env.run(&[], &program);
    env.status_has(&["exec[x]  retrying after ", "cannot watch"]);
    let history = || mgmt_output(&["history", "--prefix", &env.text("prefix")]).stdout;
    eventually("the failure is recorded", || {
        let text = history();
        text.contains("exec[x] failed: cannot watch")
            && text.contains("host[h1] is in another state: degraded: ")
    });
    std::fs::write(&go, "").unwrap();
    env.status_has(&["h1  converged"]);
    eventually("the recovery is recorded", || {
        let text = history();
        text.contains("exec[x] recovered") && text.contains("host[h1] is in another state: converged: ")
    });
    finish(run);
}
