//! Every row of the table of exit codes, against real runs.

use rustix::process::Signal;

use crate::health::{TestEnv, file};
use mgmt_test_support::program::{RunningProgram, eventually, mgmt, mgmt_output, mgmt_output_with_input};

/// Sentences of the table that these tests are about. Whoever changes one changes the tests.
const ROWS: &[&str] = &[
    "one ^C or SIGTERM that was obeyed gracefully (whatever the state of the resources: `--detailed-exitcode` tells them apart)",
    "the graph converged and `--converged-exit` was given (with `--noop` also if changes are pending)",
    "`--max-runtime` is over",
    "`--converged-exit` was given and the graph came to rest while a resource is failed, retrying, blocked, flapping or held back by a `limit` of 0, or while the program is stale, waiting or invalid",
    "or while the program is stale, waiting or invalid or the newest deploy is refused",
    "a host of `--remote` has failed or was lost",
    "another instance uses the same prefix",
    "the prefix cannot be used",
    "`status`: a host has not converged or is lost, or the store is degraded",
    "`check`: a program or a graph has errors, or has warnings with `--deny-warnings`",
    "`fmt`: a file has syntax errors or, with `--check` or `--diff`, would change",
    "`repl`: a line of standard input was wrong",
    "`graph`: a value of the program has failed or is not there in time",
    "`graph --settle`: a resource failed",
    "`diff`: there is a difference",
    "`plan`: a resource will fail",
    "`apply`: the host has changed since the plan was made",
    "`why`: nothing is known",
    "`check` and `fmt`: a file could not be read or written",
    "The command line is wrong, or the graph given to `run`, `graph` or `diff` has errors",
    "`plan --detailed-exitcode`: there is something to change",
    "`status`, `retry`: mgmt is not running",
    "An `exit` resource ended the program with that code",
    "Stopped by SIGINT (^C), and what was running had to be cancelled",
    "Stopped by SIGTERM, and what was running had to be cancelled",
    "Nothing was changed and nothing failed. What `print` writes is not a change",
    "Something was changed, or would have been with `--noop`",
    "At the end, the last attempt of a resource had failed, or the program or deploy was outdated",
    "or the run ended at rest, and a resource was blocked, flapping or held back by a `limit` of 0",
];

#[test]
fn the_table_says_what_these_tests_test() {
    let table = mgmt_output(&["help", "exit-codes"]).stdout;
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in ROWS {
        assert!(table.contains(row), "{row}\n{table}");
    }
}

/// Runs a program until it has come to rest.
fn once(env: &TestEnv, flags: &[&str], program: &str) -> i32 {
    let program = env.write("once.mcl", program);
    let mut all = vec!["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit"];
    all.extend(flags);
    all.extend(["lang", &program]);
    mgmt_output(&all).code
}

const FAILS: &str = "exec \"x\" {\n\tcmd => \"/bin/false\",\n}\n";

#[test]
fn a_run_that_converges() {
    let env = TestEnv::new();
    let change = file(&env.at("a"), "");
    assert_eq!(once(&env, &["--noop"], &change), 0, "changes are pending, and nothing failed");
    assert_eq!(once(&env, &["--noop", "--detailed-exitcode"], &change), 2);
    assert_eq!(once(&env, &["--detailed-exitcode"], &change), 2);
    assert_eq!(once(&env, &["--detailed-exitcode"], &change), 0, "it is there already");
    let print = "print \"x\" {\n\tmsg => \"hello\",\n}\n";
    assert_eq!(once(&env, &["--detailed-exitcode"], print), 0, "print is not a change");
    assert_eq!(once(&env, &[], print), 0);
}

#[test]
fn a_run_that_comes_to_rest_with_failures() {
    let env = TestEnv::new();
    assert_eq!(once(&env, &[], FAILS), 1, "it is retried for ever");
    let declared = "exec \"x\" {\n\tcmd => \"/bin/false\",\n\tMeta:retry => 0,\n}\n";
    assert_eq!(once(&env, &[], declared), 1, "it is not retried");
    assert_eq!(once(&env, &["--detailed-exitcode"], FAILS), 4);
    let both = format!("{FAILS}{}", file(&env.at("a"), ""));
    assert_eq!(once(&env, &["--detailed-exitcode"], &both), 6);
    // Held back by its rate after something else has changed it.
    let held = env.at("held");
    let writes = format!(
        "exec \"y\" {{\n\tcmd => \"echo wrong > {0}\",\n\tshell => \"/bin/sh\",\n\tDepend => File[\"{0}\"],\n}}\n",
        held.display()
    );
    let limited = format!("{}{writes}", file(&held, "\tMeta:limit => 0.0,\n\tMeta:burst => 1,"));
    for (flags, code) in [(&[][..], 1), (&["--detailed-exitcode"][..], 6)] {
        std::fs::write(&held, "x").unwrap();
        assert_eq!(once(&env, flags, &limited), code, "{flags:?}");
    }
    // The old flag for the same.
    let program = env.write("fails.mcl", FAILS);
    assert_eq!(mgmt_output(&["run", "--tmp-prefix", "--converged-timeout", "1", "lang", &program]).code, 1);
}

#[test]
fn a_run_with_a_stale_program_never_ends_well() {
    let env = TestEnv::new();
    let program = format!(
        "import \"os\"\nfile \"{}\" {{\n\tstate => \"exists\",\n\tcontent => os.readfile(\"{}\"),\n}}\nnoop \"a\" {{}}\n",
        env.at("out").display(),
        env.at("none").display()
    );
    assert_ne!(once(&env, &[], &program), 0);
    assert_eq!(once(&env, &["--detailed-exitcode"], &program) & 4, 4);
    // One that waits for a value ends, too, and no better.
    let waits = "import \"os\"\nprint \"x\" {\n\tmsg => os.system(\"sleep 600\"),\n}\n";
    assert_eq!(once(&env, &[], waits), 1);
}

#[test]
fn a_run_that_a_signal_ends_while_something_only_ever_failed() {
    let env = TestEnv::new();
    let program = env.write("fails.mcl", FAILS);
    for (signal, flags, code) in [
        (Signal::INT, &[][..], 0),
        (Signal::TERM, &[][..], 0),
        (Signal::TERM, &["--detailed-exitcode"][..], 4),
    ] {
        let prefix = env.text("prefix");
        let run =
            RunningProgram::start(&[&["run", "--prefix", &prefix][..], flags, &["lang", &program]].concat());
        eventually("it fails", || {
            mgmt_output(&["status", "--prefix", &prefix]).stdout.contains("exec[x]  retrying")
        });
        run.signal(signal);
        let (found, lines) = run.end();
        assert_eq!(found, Some(code), "{flags:?} {lines}");
    }
}

#[test]
fn a_run_that_had_to_be_cancelled() {
    let env = TestEnv::new();
    let mark = env.at("mark");
    let command = format!("touch {}; sleep 600", mark.display());
    let program = env.write(
        "busy.mcl",
        &format!("exec \"x\" {{\n\tcmd => \"{command}\",\n\tshell => \"/bin/sh\",\n\tenv => {{\"PATH\" => \"/usr/bin:/bin\",}},\n}}\n"),
    );
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let _ = std::fs::remove_file(&mark);
        let mut run = RunningProgram::start(&["run", "--tmp-prefix", "lang", &program]);
        eventually("the command has started", || mark.exists());
        run.signal(signal);
        run.wait_for("what is running may finish");
        run.signal(signal);
        let (found, lines) = run.end();
        assert_eq!(found, Some(code), "{lines}");
    }
}

#[test]
fn a_run_that_ends_for_another_reason() {
    let env = TestEnv::new();
    assert_eq!(mgmt_output(&["run", "--tmp-prefix", "--max-runtime", "1", "empty"]).code, 1);
    let program = env.write("exit.mcl", "exit \"x\" {\n\tcode => 42,\n}\n");
    assert_eq!(mgmt_output(&["run", "--tmp-prefix", "lang", &program]).code, 42);
    let prefix = env.text("prefix");
    let mut run = RunningProgram::start(&["run", "--prefix", &prefix, "empty"]);
    run.wait_for("graph empty");
    assert_eq!(
        mgmt_output(&["run", "--prefix", &prefix, "empty"]).code,
        1,
        "another instance uses the prefix"
    );
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
    assert_eq!(mgmt_output(&["run", "--nonsense"]).code, 2);
    let wrong = env.write("wrong.mcl", "noop \"a\" {\n");
    assert_eq!(mgmt_output(&["run", "--tmp-prefix", "lang", &wrong]).code, 2);
}

#[test]
fn a_run_whose_newest_deploy_is_refused() {
    let env = TestEnv::new();
    let prefix = env.text("prefix");
    let mut run = RunningProgram::start(&["run", "--prefix", &prefix, "--hostname", "h1", "empty"]);
    run.wait_for("graph empty");
    let deploy = |text: &str| {
        let program = env.write("deploy.mcl", text);
        let said = mgmt_output(&["deploy", "--prefix", &prefix, "--no-git", "lang", &program]);
        assert_eq!(said.code, 0, "{said:?}");
    };
    deploy("noop \"a\" {}\n");
    env.status_has(&["h1  converged: 1 resource; deploy 1"]);
    // It has a cycle on this host alone.
    deploy(
        "$name = if $hostname == \"\" { \"b\" } else { \"a\" }\nnoop \"a\" {}\nnoop \"b\" {}\nNoop[\"b\"] -> Noop[$name]\nNoop[$name] -> Noop[\"b\"]\n",
    );
    env.status_has(&["deploy 2 refused"]);
    crate::health::finish(run);
    for (flags, expected) in [(&[][..], 1), (&["--detailed-exitcode"][..], 4)] {
        let once =
            ["run", "--prefix", &prefix, "--hostname", "h1", "--converger-timeout", "1", "--converged-exit"];
        let said = mgmt_output(&[&once[..], flags, &["empty"]].concat());
        assert_eq!(said.code, expected, "{said:?}");
    }
}

#[test]
fn a_plan_that_no_longer_fits_and_a_prefix_that_cannot_be_used() {
    let env = TestEnv::new();
    let (plan, program) = (env.text("plan.json"), env.write("change.mcl", &file(&env.at("a"), "")));
    let said_plan = mgmt_output(&["plan", "--out", &plan, "lang", &program]);
    assert_eq!(said_plan.code, 0, "{said_plan:?}");
    std::fs::write(env.at("a"), "somebody else").unwrap();
    let applied = mgmt_output(&["apply", "--prefix", &env.text("prefix"), &plan]);
    assert_eq!(applied.code, 1, "{applied:?}");
    let fails = env.write("will-fail.mcl", &file(&env.at("missing/a"), ""));
    assert_eq!(mgmt_output(&["plan", "lang", &fails]).code, 1);
    let in_the_way = env.write("in-the-way", "");
    assert_eq!(mgmt_output(&["run", "--prefix", &in_the_way, "empty"]).code, 1);
    assert_eq!(mgmt_output(&["retry", "--prefix", &env.text("prefix")]).code, 3);
    // Nothing listens there.
    let once = ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit"];
    let remote =
        mgmt_output(&[&once[..], &["--remote", "ssh://nobody@127.0.0.1:1", "lang", &program]].concat());
    assert_eq!(remote.code, 1, "{remote:?}");
}

#[test]
fn commands_that_look() {
    let env = TestEnv::new();
    let (prefix, wrong) = (env.text("prefix"), env.write("wrong.mcl", "noop \"a\" {\n"));
    let one = env.write("one.mcl", "noop \"a\" {}\n");
    let change = env.write("change.mcl", &file(&env.at("a"), ""));
    let fails = env.write("fails.mcl", FAILS);
    let unformatted = env.write("unformatted.mcl", "noop   \"a\"  {}\n");
    let warns = env.write("warns.mcl", "$unused = 1\nnoop \"a\" {}\n");
    let stale =
        env.write("stale.mcl", "import \"os\"\nprint \"x\" {\n\tmsg => os.readfile(\"/nowhere\"),\n}\n");
    let waits =
        env.write("waits.mcl", "import \"os\"\nprint \"x\" {\n\tmsg => os.system(\"sleep 60\"),\n}\n");
    let cases: &[(&[&str], i32)] = &[
        (&["help", "exit-codes"], 0),
        (&["check", &one], 0),
        (&["check", &wrong], 1),
        (&["check", &warns], 0),
        (&["check", "--deny-warnings", &warns], 1),
        (&["check", "/nowhere.mcl"], 2),
        (&["fmt", "--check", &one], 0),
        (&["fmt", "--check", &unformatted], 1),
        (&["fmt", "--diff", &unformatted], 1),
        (&["fmt", &wrong], 1),
        (&["fmt", "/nowhere.mcl"], 2),
        (&["graph", "lang", &one], 0),
        (&["graph", "lang", &wrong], 2),
        (&["graph", "--settle", "lang", &one], 0),
        (&["graph", "--settle", "lang", &fails], 1),
        (&["graph", "--settle", "lang", &stale], 1),
        (&["graph", "--settle", "--wait", "1", "lang", &waits], 1),
        (&["diff", &one, &one], 0),
        (&["diff", &one, &change], 1),
        (&["diff", &one, &wrong], 2),
        (&["plan", "lang", &change], 0),
        (&["plan", "--detailed-exitcode", "lang", &change], 2),
        (&["plan", "--detailed-exitcode", "lang", &one], 0),
        (&["why", "/nothing/of/this", "--prefix", &prefix], 1),
        (&["status", "--prefix", &prefix], 3),
        (&["status", "--nonsense"], 2),
    ];
    for (arguments, code) in cases {
        let said = mgmt_output(arguments);
        assert_eq!(said.code, *code, "{arguments:?}: {said:?}");
    }
    assert_eq!(mgmt_output_with_input(&["repl"], "1 + 1\n").code, 0);
    assert_eq!(mgmt_output_with_input(&["repl"], "1 +\n").code, 1);
    assert_eq!(mgmt(&["--help"]).output().unwrap().status.code(), Some(0));
}
