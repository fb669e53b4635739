//! Programs that really run.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::program;
use std::path::{Path, PathBuf};

use mgmt_test_support::program::{
    CommandOutput, RunningProgram, eventually, holds, mgmt, mgmt_output_with_input,
};
use rustix::process::Signal;
use tempfile::TempDir;

/// A directory with a program in it.
struct TestEnv(TempDir);

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Declares a file with a content, which is an expression.
fn file(path: &Path, content: &str) -> String {
    format!("file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => {content},\n}}\n", path.display())
}

/// Runs until converged.
fn once(flags: &[&str], program: &str, input: &str) -> CommandOutput {
    let all: Vec<&str> = ["run", "--tmp-prefix", "--converger-timeout", "0", "--converged-exit"]
        .into_iter()
        .chain(flags.iter().copied())
        .chain(["lang", program])
        .collect();
    mgmt_output_with_input(&all, input)
}

fn started(program: &str) -> RunningProgram {
    RunningProgram::start(&["run", "--tmp-prefix", "lang", program])
}

/// Ends a program that has run well.
fn finish(run: RunningProgram) -> String {
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    lines
}

#[test]
fn a_program_runs_and_ends_when_it_has_converged() {
    let env = TestEnv::new();
    let text = format!("$who = \"world\"\n{}", file(&env.at("file"), "\"hello, ${who}\\n\""));
    let program = env.write("main.mcl", &text);
    let CommandOutput { code, stdout, stderr } = once(&[], &program, "");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stdout, concat!("mgmt ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(std::fs::read_to_string(env.at("file")).unwrap(), "hello, world\n");
    assert!(stderr.contains("ended: 1 resources, 1 changed, 0 failed"), "{stderr}");
    let again = once(&[], &program, "");
    assert!(again.stderr.contains("ended: 1 resources, 0 changed, 0 failed"), "{}", again.stderr);
}

#[test]
fn a_program_comes_from_a_directory_standard_input_or_the_command_line() {
    let env = TestEnv::new();
    let path = env.at("file");
    for (program, input, content) in [("-", true, "1"), ("", false, "2"), ("directory", false, "3")] {
        let text = file(&path, &format!("{content:?}"));
        let directory = format!("{}/", env.0.path().display());
        let program = match program {
            "" => &text,
            "directory" => {
                env.write("main.mcl", &text);
                &directory
            }
            other => other,
        };
        let CommandOutput { code, stderr, .. } = once(&[], program, if input { &text } else { "" });
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn with_noop_nothing_is_changed() {
    let env = TestEnv::new();
    let CommandOutput { code, stderr, .. } = once(&["--noop"], "-", &file(&env.at("file"), "\"x\""));
    assert_eq!(code, 0, "{stderr}");
    assert!(!env.at("file").exists());
    assert!(stderr.contains("1 would be changed"), "{stderr}");
}

#[test]
fn a_file_that_appears_changes_one_that_is_managed() {
    let env = TestEnv::new();
    let (switch, out) = (env.at("switch"), env.at("out"));
    let content = format!("if os.file_exists(\"{}\") {{ \"on\" }} else {{ \"off\" }}", switch.display());
    let program = env.write("main.mcl", &format!("import \"os\"\n{}", file(&out, &content)));
    let run = started(&program);
    holds(&out, "off");
    for _ in 0..3 {
        std::fs::write(&switch, "").unwrap();
        holds(&out, "on");
        std::fs::remove_file(&switch).unwrap();
        holds(&out, "off");
    }
    finish(run);
}

#[test]
fn a_condition_that_changes_brings_resources_and_takes_them_away() {
    let env = TestEnv::new();
    let (switch, one, two) = (env.at("switch"), env.at("one"), env.at("two"));
    let text = format!(
        "import \"os\"\nif os.file_exists(\"{}\") {{\n{}}} else {{\n{}}}\n",
        switch.display(),
        file(&one, "\"1\""),
        file(&two, "\"2\""),
    );
    let run = started(&env.write("main.mcl", &text));
    holds(&two, "2");
    assert!(!one.exists());
    std::fs::write(&switch, "").unwrap();
    holds(&one, "1");
    // What is no longer declared is nobody's business; what is declared is kept.
    std::fs::remove_file(&two).unwrap();
    std::fs::remove_file(&one).unwrap();
    holds(&one, "1");
    assert!(!two.exists());
    finish(run);
}

#[test]
fn an_edit_is_followed_and_a_broken_one_keeps_the_running_program() {
    let env = TestEnv::new();
    let (one, two, input) = (env.at("one"), env.at("two"), env.at("input"));
    std::fs::write(&input, "a").unwrap();
    let read = format!("os.readfile(\"{}\")", input.display());
    let program = env.write("main.mcl", &format!("import \"os\"\n{}", file(&one, &read)));
    let mut run = started(&program);
    holds(&one, "a");

    env.write("main.mcl", "print \"x\" {\n\tmsg => $missing,\n}\n");
    run.wait_for("$missing");
    run.wait_for("program has errors; still running the previous version");
    // It is not only kept but alive.
    std::fs::write(&input, "b").unwrap();
    holds(&one, "b");

    // An editor that writes a new file and renames it.
    let new = env.write("new", &format!("{}{}", file(&two, "\"2\""), file(&one, "\"c\"")));
    std::fs::rename(new, &program).unwrap();
    holds(&two, "2");
    holds(&one, "c");

    std::fs::remove_file(&program).unwrap();
    run.wait_for("program has errors; still running the previous version");
    std::fs::write(&two, "damage").unwrap();
    holds(&two, "2");
    env.write("main.mcl", &file(&two, "\"3\""));
    holds(&two, "3");
    finish(run);
}

#[test]
fn an_edit_touches_only_what_differs() {
    let env = TestEnv::new();
    let text = |content: &str| {
        format!("print \"same\" {{\n\tmsg => \"unmoved\",\n}}\n{}", file(&env.at("one"), content))
    };
    env.write("main.mcl", &text("\"1\""));
    let run = started(env.at("main.mcl").to_str().unwrap());
    holds(&env.at("one"), "1");
    env.write("main.mcl", &text("\"2\""));
    holds(&env.at("one"), "2");
    let lines = finish(run);
    assert_eq!(lines.matches("unmoved").count(), 1, "{lines}");
}

#[test]
fn without_watching_only_a_signal_reads_the_program_again() {
    let env = TestEnv::new();
    let one = env.at("one");
    let program = env.write("main.mcl", &file(&one, "\"1\""));
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "--no-watch", "lang", &program]);
    holds(&one, "1");
    run.wait_for("graph ");
    env.write("main.mcl", &file(&one, "\"2\""));
    run.signal(Signal::HUP);
    holds(&one, "2");
    let lines = finish(run);
    assert_eq!(lines.matches("reading the program again").count(), 1, "{lines}");
}

#[test]
fn the_files_of_a_program_are_followed_and_read_again_on_a_signal() {
    let env = TestEnv::new();
    let out = env.at("out");
    env.write("metadata.yaml", "files: files/\n");
    std::fs::create_dir(env.at("files")).unwrap();
    env.write("files/text", "old");
    env.write("main.mcl", &format!("import \"deploy\"\n{}", file(&out, "deploy.readfile(\"/files/text\")")));
    let mut run = started(&format!("{}/", env.0.path().display()));
    holds(&out, "old");
    env.write("files/text", "new");
    holds(&out, "new");
    std::fs::remove_file(env.at("files/text")).unwrap();
    run.wait_for(&format!("frozen until it has a value again: file[{}]", out.display()));
    env.write("files/text", "back");
    holds(&out, "back");
    finish(run);

    std::fs::remove_file(&out).unwrap();
    let directory = format!("{}/", env.0.path().display());
    let run = RunningProgram::start(&["run", "--tmp-prefix", "--no-watch", "lang", &directory]);
    holds(&out, "back");
    env.write("files/text", "again");
    run.signal(Signal::HUP);
    holds(&out, "again");
    finish(run);
}

#[test]
fn an_edit_of_an_imported_file_or_module_is_followed() {
    let env = TestEnv::new();
    let (one, two) = (env.at("one"), env.at("two"));
    std::fs::create_dir(env.at("module")).unwrap();
    env.write("module/main.mcl", "$text = \"m1\"\n");
    env.write("library.mcl", "$text = \"l1\"\n");
    let text = format!(
        "import \"library.mcl\"\nimport \"module/\"\n{}{}",
        file(&one, "$library.text"),
        file(&two, "$module.text")
    );
    let mut run = started(&env.write("main.mcl", &text));
    holds(&one, "l1");
    holds(&two, "m1");
    env.write("library.mcl", "$text = \"l2\"\n");
    holds(&one, "l2");
    env.write("module/main.mcl", "$text = 5\n");
    run.wait_for("program has errors; still running the previous version");
    env.write("module/main.mcl", "$text = \"m2\"\n");
    holds(&two, "m2");
    finish(run);
}

#[test]
fn a_failure_at_the_start_is_shown_where_it_is_and_ends_with_one() {
    let env = TestEnv::new();
    let text =
        format!("$list = [1, 2]\n{}", file(&env.at("out"), "if $list[5] == 1 { \"a\" } else { \"b\" }"));
    let CommandOutput { code, stderr, .. } = once(&[], &env.write("main.mcl", &text), "");
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("error[M0") && stderr.contains("main.mcl:4:"), "{stderr}");
    assert!(!stderr.contains("until it has a value"), "it never will: {stderr}");
    let invalid = once(&[], "-", "svc \"x\" {\n\tstate => \"bogus\",\n}\n");
    assert_eq!(invalid.code, 1, "{}", invalid.stderr);
    assert!(invalid.stderr.contains("M0614"), "{}", invalid.stderr);
    assert!(!invalid.stderr.contains("until it has a value"), "{}", invalid.stderr);
    assert!(!env.at("out").exists());
    let wrong = once(&[], "-", "print \"x\" {\n\tmsg => 5,\n}\n");
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    let panicked = once(&[], "-", "panic(\"never mind\")\n");
    assert_eq!(panicked.code, 1, "{}", panicked.stderr);
    assert!(panicked.stderr.contains("never mind"), "{}", panicked.stderr);
}

#[test]
fn a_failure_at_run_time_freezes_the_resource_and_recovers() {
    let env = TestEnv::new();
    let (input, out) = (env.at("input"), env.at("out"));
    std::fs::write(&input, "1").unwrap();
    let text = format!(
        "import \"convert\"\nimport \"fmt\"\nimport \"os\"\n$number = convert.str_to_int(os.readfile(\"{}\"))\n{}",
        input.display(),
        file(&out, "fmt.printf(\"%d\", $number + 1)")
    );
    let mut run = started(&env.write("main.mcl", &text));
    holds(&out, "2");
    std::fs::write(&input, "many").unwrap();
    run.wait_for("main.mcl:4:");
    run.wait_for(&format!("frozen until it has a value again: file[{}]", out.display()));
    std::fs::write(&out, "damage").unwrap();
    holds(&out, "2");
    std::fs::write(&input, "41").unwrap();
    holds(&out, "42");
    finish(run);
}

/// Two files, each with the content of another one.
fn two_copies(env: &TestEnv) -> String {
    let copy = |number: u32| {
        let read = format!("os.readfile(\"{}\")", env.at(&format!("input{number}")).display());
        file(&env.at(&format!("out{number}")), &read)
    };
    format!("import \"os\"\n{}{}", copy(1), copy(2))
}

#[test]
fn a_failed_value_freezes_only_what_depends_on_it() {
    let env = TestEnv::new();
    let (one, two) = (env.at("out1"), env.at("out2"));
    env.write("input1", "a");
    env.write("input2", "b");
    let mut run = started(&env.write("main.mcl", &two_copies(&env)));
    holds(&one, "a");
    holds(&two, "b");
    std::fs::remove_file(env.at("input1")).unwrap();
    run.wait_for(&format!("frozen until it has a value again: file[{}]", one.display()));
    // The other one lives, and the frozen one is kept as it was.
    for content in ["c", "d", "e"] {
        env.write("input2", content);
        holds(&two, content);
    }
    std::fs::write(&one, "damage").unwrap();
    holds(&one, "a");
    // Another version of the program has never had the value, and yet goes on with the resource.
    let other = env.at("other");
    env.write("main.mcl", &format!("{}{}", two_copies(&env), file(&other, "\"new\"")));
    holds(&other, "new");
    std::fs::write(&one, "more damage").unwrap();
    holds(&one, "a");
    env.write("input1", "f");
    holds(&one, "f");
    run.wait_for("` has a value again");
    let lines = finish(run);
    // Once for each version of the program.
    assert_eq!(lines.matches("error[M").count(), 2, "{lines}");
    assert_eq!(lines.matches("` has a value again").count(), 1, "{lines}");
}

#[test]
fn nothing_is_purged_while_a_part_of_the_program_has_no_value() {
    let env = TestEnv::new();
    let (input, kept, stray) = (env.at("input"), env.at("tree/kept"), env.at("tree/stray"));
    std::fs::create_dir(env.at("tree")).unwrap();
    std::fs::write(&kept, "from an earlier run").unwrap();
    std::fs::write(&stray, "undeclared").unwrap();
    let text = format!(
        "import \"os\"\nfile \"{}/\" {{ state => \"exists\", recurse => true, purge => true, }}\n{}",
        env.at("tree").display(),
        file(&kept, &format!("os.readfile(\"{}\")", input.display()))
    );
    let mut run = started(&env.write("main.mcl", &text));
    run.wait_for("part of the program has no value yet");
    assert!(kept.exists() && stray.exists());
    env.write("input", "a");
    holds(&kept, "a");
    program::eventually("the rest is purged", || !stray.exists());
    finish(run);
    assert!(kept.exists());
}

/// Statements that declare a resource if an input says `on`, each with what the log calls it.
fn conditional(input: &str, resource: &str) -> Vec<(String, &'static str)> {
    let lines = format!("strings.split(os.readfile(\"{input}\"), \",\")");
    vec![
        (format!("if os.readfile(\"{input}\") == \"on\" {{\n{resource}}}\n"), "if at "),
        (format!("for $i, $line in {lines} {{\nif $line == \"on\" {{\n{resource}}}\n}}\n"), "for at "),
        (
            format!(
                "forkv $key, $value in {{\"k\" => os.readfile(\"{input}\"),}} {{\nif $value == \"on\" {{\n{resource}}}\n}}\n"
            ),
            "forkv at ",
        ),
        (
            format!(
                "class c($is) {{\nif $is == \"on\" {{\n{resource}}}\n}}\ninclude c(os.readfile(\"{input}\"))\n"
            ),
            "if at ",
        ),
    ]
}

#[test]
fn nothing_is_purged_while_a_condition_or_loop_has_no_value() {
    let env = TestEnv::new();
    let (input, tree) = (env.at("input").display().to_string(), env.at("tree"));
    let (kept, stray) = (tree.join("kept"), tree.join("stray"));
    let purging = format!(
        "import \"os\"\nimport \"strings\"\nfile \"{}/\" {{ state => \"exists\", recurse => true, purge => true, }}\n",
        tree.display()
    );
    let begin = |statement: &str| {
        let _ = std::fs::remove_file(&input);
        let _ = std::fs::create_dir(&tree);
        std::fs::write(&kept, "from an earlier run").unwrap();
        std::fs::write(&stray, "undeclared").unwrap();
        started(&env.write("main.mcl", &format!("{purging}{statement}")))
    };
    for (statement, name) in conditional(&input, &file(&kept, "\"a\"")) {
        let mut run = begin(&statement);
        run.wait_for(&format!("not there until it has a value: {name}"));
        run.wait_for("part of the program has no value yet, and may declare it");
        assert!(kept.exists() && stray.exists(), "{statement}");
        env.write("input", "on");
        holds(&kept, "a");
        eventually("the rest is purged", || !stray.exists());
        // It goes on with the last value that there was.
        std::fs::remove_file(&input).unwrap();
        run.wait_for("frozen until it has a value again: file[");
        std::fs::write(&stray, "undeclared").unwrap();
        eventually("the rest is purged", || !stray.exists());
        holds(&kept, "a");
        finish(run);
    }
    // A value that is only waited for, and a program that is edited so that it needs none.
    let waits = format!("if os.system(\"sleep 600\") == \"on\" {{\n{}}}\n", file(&kept, "\"a\""));
    let mut run = begin(&waits);
    run.wait_for("part of the program has no value yet, and may declare it");
    assert!(kept.exists() && stray.exists());
    env.write("main.mcl", &format!("{purging}{}", file(&kept, "\"b\"")));
    eventually("the rest is purged", || !stray.exists());
    holds(&kept, "b");
    finish(run);
}

#[test]
fn nothing_is_tidied_while_a_condition_has_no_value() {
    let env = TestEnv::new();
    let (kept, stray) = (env.at("tree/kept"), env.at("tree/stray"));
    std::fs::create_dir(env.at("tree")).unwrap();
    std::fs::write(&kept, "from an earlier run").unwrap();
    std::fs::write(&stray, "undeclared").unwrap();
    let text = format!(
        "import \"os\"\ntidy \"{}\" {{ recurse => true, matches => [\"*\",], }}\nif os.readfile(\"{}\") == \"on\" {{\n{}}}\n",
        env.at("tree").display(),
        env.at("input").display(),
        file(&kept, "\"a\"")
    );
    let mut run = started(&env.write("main.mcl", &text));
    let line = run.wait_for("part of the program has no value yet, and may declare it");
    assert!(line.contains("not removing ") && kept.exists() && stray.exists(), "{line}");
    env.write("input", "on");
    holds(&kept, "a");
    eventually("the rest is removed", || !stray.exists());
    finish(run);
    assert!(kept.exists());
}

#[test]
fn nothing_is_reversed_while_a_condition_or_loop_has_no_value() {
    let env = TestEnv::new();
    let (input, out, other) = (env.at("input").display().to_string(), env.at("out"), env.at("other"));
    let prefix = env.at("prefix").display().to_string();
    let reversible = format!(
        "file \"{}\" {{\nstate => \"exists\",\ncontent => \"a\",\nMeta:reverse => true,\n}}\n",
        out.display()
    );
    for (statement, name) in conditional(&input, &reversible) {
        let start = |content: &str| {
            let imports = "import \"os\"\nimport \"strings\"\n";
            let text = format!("{imports}{statement}{}", file(&other, content));
            RunningProgram::start(&["run", "--prefix", &prefix, "lang", &env.write("main.mcl", &text)])
        };
        env.write("input", "on");
        let run = start("\"one\"");
        holds(&out, "a");
        holds(&other, "one");
        finish(run);
        std::fs::remove_file(&input).unwrap();
        let mut run = start("\"two\"");
        run.wait_for(&format!("not there until it has a value: {name}"));
        holds(&other, "two");
        assert!(out.exists(), "{statement}");
        // Now it is known not to be declared.
        env.write("input", "off");
        eventually("it is reversed", || !out.exists());
        finish(run);
    }
}

#[test]
fn a_value_that_has_failed_at_the_start_keeps_only_its_resource_out() {
    let env = TestEnv::new();
    env.write("input2", "b");
    let mut run =
        RunningProgram::start(&["run", "--tmp-prefix", "lang", &env.write("main.mcl", &two_copies(&env))]);
    run.wait_for(&format!("not there until it has a value: file[{}]", env.at("out1").display()));
    holds(&env.at("out2"), "b");
    assert!(!env.at("out1").exists());
    env.write("input1", "a");
    holds(&env.at("out1"), "a");
    finish(run);
}

/// The seconds after which the log says that a value is not there.
fn waited_for(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("` has no value after ")?;
    rest.split_once('s')?.0.parse().ok()
}

#[test]
fn a_value_that_is_waited_for_is_named_and_one_that_never_comes_is_an_error() {
    let env = TestEnv::new();
    let go = env.at("go").display().to_string();
    let waits = format!("os.system(\"while ! test -e {go}; do sleep 0.1; done; cat {go}\")");
    let slow = env.write("slow.mcl", &format!("import \"os\"\n{}", file(&env.at("out"), &waits)));
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "lang", &slow]);
    run.wait_for("has no value after");
    run.wait_for(&format!("not there yet: file[{}]", env.at("out").display()));
    env.write("next", "there\n");
    std::fs::rename(env.at("next"), env.at("go")).unwrap();
    holds(&env.at("out"), "there");
    let lines = finish(run);
    assert!(lines.contains("slow.mcl:"), "{lines}");
    assert!(lines.matches("has no value after").count() <= 3, "{lines}");

    // Each value is named by its own time, and once in the first ten seconds.
    let (one, two) = (env.at("one"), env.at("two"));
    env.write("command", "echo there");
    let text = format!(
        "import \"os\"\n{}{}",
        file(&one, "os.system(\"sleep 600\")"),
        file(&two, &format!("os.system(os.readfile(\"{}\"))", env.at("command").display()))
    );
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "lang", &env.write("two.mcl", &text)]);
    run.wait_for("`os.system(\"sleep 600\")` has no value after ");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let changed = std::time::Instant::now();
    env.write("command", "sleep 601");
    let line = run.wait_for("`os.system(os.readfile(");
    let waited = waited_for(&line).unwrap();
    assert!(waited <= changed.elapsed().as_secs(), "{line}");
    let lines = finish(run);
    let first = lines.lines().filter(|line| line.contains("`os.system(\"sleep 600\")`"));
    assert!(first.filter_map(waited_for).filter(|seconds| *seconds < 10).count() <= 1, "{lines}");

    for call in ["os.system(\"echo mistaken >&2; exit 3\")", "example.vumeter(\"*\", 10, 0.9)"] {
        let text = format!("import \"os\"\nimport \"example\"\n{}", file(&env.at("never"), call));
        let mut run = RunningProgram::start(&["run", "--tmp-prefix", "lang", &env.write("never.mcl", &text)]);
        run.wait_for("the command ended without printing a line");
        run.wait_for("not there until it has a value: file[");
        run.signal(Signal::INT);
        run.end();
    }
}

#[test]
fn a_proxy_says_which_file_with_authorities_it_cannot_use() {
    let env = TestEnv::new();
    let missing = env.at("ca.pem").display().to_string();
    let program = format!(
        "http:server:proxy \"/m/\" {{\n\thead => \"https://127.0.0.1:1/\",\n\tauthorities => [\"{missing}\",],\n}}\n"
    );
    let said = once(&[], "-", &program);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let warning = "http:server:proxy[/m/]: cannot use a file in `authorities`: ";
    assert_eq!(said.stderr.matches(warning).count(), 1, "{}", said.stderr);
    assert!(said.stderr.contains("ca.pem"), "{}", said.stderr);
}

#[test]
fn an_error_is_reported_once_and_a_program_without_a_graph_is_not_kept() {
    let env = TestEnv::new();
    let missing = env.write(
        "missing.mcl",
        &format!("import \"os\"\n{}", file(&env.at("out"), "os.readfile(\"/nonexistent/input\")")),
    );
    let CommandOutput { code, stderr, .. } = once(&[], &missing, "");
    assert_eq!(code, 1, "{stderr}");
    assert_eq!(stderr.matches("error[M").count(), 1, "{stderr}");
    assert!(!stderr.contains("keeping the last good graph"), "{stderr}");
    let panicked = once(&[], "-", "panic(\"never mind\")\n");
    assert_eq!(panicked.stderr.matches("never mind").count(), 2, "{}", panicked.stderr);
    assert!(!panicked.stderr.contains("keeping the last good graph"), "{}", panicked.stderr);

    let waits = file(&env.at("out"), "os.system(\"sleep 600\")");
    let program = env.write("main.mcl", &format!("import \"os\"\n{waits}"));
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "lang", &program]);
    run.wait_for("has no value after");
    env.write("main.mcl", "print \"x\" {\n\tmsg => $missing,\n}\n");
    run.wait_for("program has errors; nothing runs yet");
    // So is one whose values are wrong.
    env.write("main.mcl", "panic(\"never mind\")\n");
    run.wait_for("the program panics: never mind");
    env.write("main.mcl", &file(&env.at("out"), "\"there\""));
    holds(&env.at("out"), "there");
    let lines = finish(run);
    assert!(!lines.contains("still running"), "{lines}");
}

#[test]
fn a_hint_of_a_resource_that_fails_is_printed_once() {
    let env = TestEnv::new();
    let program = file(&env.at("missing/x"), "\"x\"");
    let hint = format!("declare file[{}/]", env.at("missing").display());
    for (flags, shown) in [(&[][..], "(hint: "), (&["--message-format=json"], "\"hint\":\"")] {
        let said = once(flags, "-", &program);
        assert_eq!(said.code, 1, "{}", said.stderr);
        let failure = said.stderr.lines().find(|line| line.contains("retrying in ")).unwrap();
        assert!(failure.contains(&format!("{shown}{hint}")), "{failure}");
        assert_eq!(failure.matches(&hint).count(), 1, "{failure}");
    }
}

#[test]
fn an_edit_with_a_constant_that_fails_freezes_only_what_depends_on_it() {
    let env = TestEnv::new();
    let (input, constant, free) = (env.write("input", "1"), env.at("constant"), env.at("free"));
    let text = |content: &str| {
        let free = file(&free, &format!("os.readfile(\"{input}\")"));
        format!("import \"os\"\n{}{free}", file(&constant, content))
    };
    let mut run = started(&env.write("main.mcl", &text("\"one\"")));
    holds(&constant, "one");
    env.write("main.mcl", &text("[\"a\"][3]"));
    run.wait_for(&format!("kept as last declared until the program is edited: file[{}]", constant.display()));
    env.write("input", "2");
    holds(&free, "2");
    std::fs::write(&constant, "drift").unwrap();
    holds(&constant, "one");
    env.write("main.mcl", &text("\"two\""));
    holds(&constant, "two");
    finish(run);
}

#[test]
fn a_command_that_fails_is_run_again_and_one_that_has_printed_a_line_is_not() {
    let env = TestEnv::new();
    let (input, out, ran) = (env.at("input"), env.at("out"), env.at("ran"));
    let done = env.at("done");
    let text = format!(
        "import \"os\"\n{}{}",
        file(&out, &format!("os.system(\"cat {}\")", input.display())),
        file(&done, &format!("os.system(\"echo x >> {}; echo 0; exit 1\")", ran.display()))
    );
    let mut run = started(&env.write("main.mcl", &text));
    run.wait_for("the command ended without printing a line");
    holds(&done, "0");
    env.write("next", "there\n");
    std::fs::rename(env.at("next"), &input).unwrap();
    holds(&out, "there");
    assert_eq!(std::fs::read_to_string(&ran).unwrap(), "x\n");
    let lines = finish(run);
    assert_eq!(lines.matches("error[M").count(), 1, "{lines}");

    // One that is killed is run again, and its last line stays meanwhile.
    let id = env.at("id");
    let command = format!("echo $$ > {0}.new; mv {0}.new {0}; echo up; exec sleep 1000", id.display());
    let mut run =
        started(&env.write(
            "killed.mcl",
            &format!("import \"os\"\n{}", file(&out, &format!("os.system({command:?})"))),
        ));
    holds(&out, "up");
    let first = std::fs::read_to_string(&id).unwrap();
    let kill = std::process::Command::new("kill").args(["-KILL", first.trim()]).status().unwrap();
    assert!(kill.success());
    run.wait_for("the command ended (killed by");
    run.wait_for("` is watched again");
    assert_ne!(std::fs::read_to_string(&id).unwrap(), first);
    finish(run);
}

#[test]
fn what_is_caught_is_no_failure() {
    let env = TestEnv::new();
    let (input, out) = (env.at("input"), env.at("out"));
    let content = format!("os.readfile(\"{}\") <|> \"nothing\"", input.display());
    let run = started(&env.write("main.mcl", &format!("import \"os\"\n{}", file(&out, &content))));
    holds(&out, "nothing");
    std::fs::write(&input, "something").unwrap();
    holds(&out, "something");
    std::fs::remove_file(&input).unwrap();
    holds(&out, "nothing");
    finish(run);
}

#[test]
fn the_lines_of_a_command_arrive_and_it_ends_with_the_program() {
    let env = TestEnv::new();
    let (fifo, out, id) = (env.at("fifo"), env.at("out"), env.at("id"));
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let command = format!("echo first; sleep 1000 & echo $! > {}; cat {}", id.display(), fifo.display());
    let text = format!("import \"os\"\n{}", file(&out, &format!("os.system({command:?})")));
    let run = started(&env.write("main.mcl", &text));
    holds(&out, "first");
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    for line in ["second", "third", "fourth"] {
        use std::io::Write as _;
        writeln!(pipe, "{line}").unwrap();
        holds(&out, line);
    }
    let child = std::fs::read_to_string(&id).unwrap();
    let process = PathBuf::from(format!("/proc/{}/stat", child.trim()));
    let is_alive = || {
        // An orphan that nobody has waited for yet is dead all the same.
        std::fs::read_to_string(&process).is_ok_and(|text| !text.contains(") Z "))
    };
    assert!(is_alive());
    finish(run);
    eventually("what the command has started has ended", || !is_alive());
}

#[test]
fn a_stored_value_reaches_the_functions_that_read_it() {
    let env = TestEnv::new();
    let out = env.at("out");
    let text = format!(
        "import \"world\"\nkv \"key\" {{\n\tvalue => \"stored\",\n}}\n{}",
        file(&out, "world.getval(\"key\")->value")
    );
    let run = started(&env.write("main.mcl", &text));
    holds(&out, "stored");
    finish(run);
}

#[test]
fn every_line_for_programs_is_an_object() {
    let env = TestEnv::new();
    let text = file(&env.at("file"), "\"x\"");
    let CommandOutput { code, stdout, stderr } = once(&["--message-format=json"], "-", &text);
    assert_eq!(code, 0, "{stderr}");
    let parse = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    };
    let data = parse(&stdout);
    assert_eq!((&data[0]["type"], &data[1]["type"]), (&"hello".into(), &"summary".into()));
    assert_eq!((&data[1]["changed"], &data[1]["exit_code"]), (&1.into(), &0.into()));
    let id = format!("file[{}]", env.at("file").display());
    assert!(parse(&stderr).iter().any(|line| line["resource"] == id.as_str()), "{stderr}");

    let wrong = once(&["--message-format=json"], "-", "print \"x\" {\n\tmsg => 5,\n}\n");
    let all = parse(&wrong.stderr);
    let found =
        all.iter().find(|line| line["code"].is_string()).unwrap_or_else(|| panic!("{}", wrong.stderr));
    assert_eq!((&found["level"], &found["spans"][0]["line_start"]), (&"error".into(), &2.into()));
}

#[test]
fn the_name_of_the_host_is_what_the_command_line_says() {
    let said: CommandOutput = mgmt(&["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit"])
        .args(["--hostname", "web7", "lang", "print \"who\" {\n\tmsg => \"I am ${hostname}\",\n}\n"])
        .output()
        .unwrap()
        .into();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("I am web7"), "{}", said.stderr);
}

#[test]
fn every_command_that_waits_for_a_value_in_vain_names_it_with_its_place() {
    let env = TestEnv::new();
    let text = format!("import \"os\"\n{}", file(&env.at("out"), "os.system(\"sleep 100\")"));
    let program = env.write("main.mcl", &text);
    let manifest = env.write("main.pp", "");
    let named = format!(
        "s: {program}:4:13: `os.system(\"sleep 100\")` (not there yet: file[{}])",
        env.at("out").display()
    );
    let in_line = "no value after 1s: <input 2>:1:7: `os.system(\"sleep 100\")`";
    for (arguments, input, expected) in [
        (vec!["graph", "--wait", "1", "lang", &program], "", &*named),
        (vec!["plan", "--wait", "1", "lang", &program], "", &*named),
        (vec!["diff", "--wait", "1", &program, &program], "", &*named),
        (vec!["check", "langpuppet", "--lang", &program, "--puppet", &manifest], "", &*named),
        (vec!["repl", "--wait", "1"], "import \"os\"\n\"a\" + os.system(\"sleep 100\")\n", in_line),
    ] {
        let said = mgmt_output_with_input(&arguments, input);
        assert!(said.code != 0 && said.stderr.contains(expected), "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains("--wait SECONDS") || arguments[0] == "check", "{}", said.stderr);
    }
}
