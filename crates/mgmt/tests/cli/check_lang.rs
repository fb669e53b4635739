//! `mgmt check` on programs in mcl.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::ffi::OsStrExt;

use expect_test::expect;
use mgmt_test_support::program::{CommandOutput, mgmt, mgmt_output, mgmt_output_with_input};
use serde_json::{Value, json};

const GOOD: &str = "$text = \"hello\"\n\nprint \"greeting\" {\n\tmsg => $text,\n}\n";
const UNUSED: &str = "$unused = 1\nnoop \"x\" {}\n";
const WRONG: &str = "print \"a\" {\n\tmsg => 42,\n}\n";

/// A directory that goes away with the test.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        for (name, content) in files {
            let path = tree.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        tree
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = mgmt(&["check"]);
        command.args(arguments).current_dir(self.0.path());
        command
    }

    /// Runs `mgmt check` in the directory.
    #[track_caller]
    fn check(&self, arguments: &[&str]) -> CommandOutput {
        let said: CommandOutput = self.command(arguments).output().unwrap().into();
        assert_eq!(said.stdout, "", "{arguments:?}");
        assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
        said
    }
}

/// The lines of standard error as JSON: the diagnostics, and the summary.
#[track_caller]
fn objects(said: &CommandOutput) -> (Vec<Value>, Value) {
    let mut lines: Vec<Value> = said.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap();
    assert_eq!(summary["type"], "summary", "{}", said.stderr);
    (lines, summary)
}

#[track_caller]
fn silent(said: &CommandOutput) {
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (0, "", ""));
}

#[test]
fn a_right_program_gives_silence_however_it_is_named() {
    let tree = Tree::new(&[
        ("x.mcl", GOOD),
        ("plain", GOOD),
        ("dir/main.mcl", GOOD),
        ("mod/metadata.yaml", "main: start.mcl\n"),
        ("mod/start.mcl", GOOD),
        ("x.yaml", "graph: x\n"),
        ("x.yml", "graph: x\n"),
        ("lang", GOOD),
    ]);
    for arguments in [
        &["x.mcl"][..],
        &["lang", "x.mcl"],
        &["plain"],
        &["dir"],
        &["dir/"],
        &["lang", "dir/"],
        &["mod/"],
        &["mod/metadata.yaml"],
        &["lang", "mod/metadata.yaml"],
        &["x.yaml"],
        &["x.yml"],
        &["yaml", "x.yaml"],
        &["./lang"],
        &["lang", "lang"],
        &["x.mcl", "x.yaml", "mod/"],
        &[GOOD],
        &["lang", GOOD],
        &["empty"],
    ] {
        silent(&tree.check(arguments));
    }
    for arguments in [&["check", "-"][..], &["check", "lang", "-"], &["check", "-", "-"]] {
        silent(&mgmt_output_with_input(arguments, GOOD));
    }
    silent(&mgmt_output_with_input(&["check", "yaml", "-"], "graph: x\n"));
}

#[test]
fn all_independent_mistakes_are_shown_in_one_run() {
    let text = "$a = 1 +\n$b = $nothing\nflie \"/a\" {}\nprint \"x\" {\n\tmsg => 1,\n}\n";
    let said = Tree::new(&[("x.mcl", text)]).check(&["x.mcl"]);
    assert_eq!(said.code, 1);
    expect![[r#"
        error[M0010]: expected a value, found the end of the line
         --> x.mcl:1:9
          |
        1 | $a = 1 +
          |         ^ expected a value

        error[M0301]: there is no variable `$nothing` here
         --> x.mcl:2:6
          |
        2 | $b = $nothing
          |      ^^^^^^^^ not found in this scope

        error[M0601]: there is no kind of resource `flie`
         --> x.mcl:3:1
          |
        3 | flie "/a" {}
          | ^^^^

        hint: did you mean `file`?

        error[M0603]: the parameter `msg` takes `str`, not `int`
         --> x.mcl:5:9
          |
        5 |     msg => 1,
          |            ^ this is `int`

        hint: `msg` of `print`: The text to write.
        hint: put it between quotes

        checked 1 program: 4 errors
    "#]]
    .assert_eq(&said.stderr);
}

#[test]
fn a_mistake_in_an_imported_file_is_underlined_there() {
    let tree = Tree::new(&[
        ("main.mcl", "import \"lib/c.mcl\" as c\n\ninclude c.greet(\"x\")\n"),
        (
            "lib/c.mcl",
            "class greet($who) {\n\tprint \"a\" {\n\t\tmsg => $who + 1,\n\t}\n}\n\nprint \"top\" {}\n",
        ),
    ]);
    let said = tree.check(&["main.mcl"]);
    assert_eq!(said.code, 1);
    expect![[r#"
        error[M0501]: expected `int`, found `str`
         --> main.mcl:3:17
          |
        3 | include c.greet("x")
          |                 ^^^ this is `str`
          |
         ::: lib/c.mcl:1:13
          |
        1 | class greet($who) {
          |             ---- the parameter `$who`
        2 |     print "a" {
        3 |         msg => $who + 1,
          |                       - this made it `int`

        error[M0603]: the parameter `msg` takes `str`, not `int`
         --> lib/c.mcl:3:10
          |
        3 |         msg => $who + 1,
          |                ^^^^^^^^ this is `int`

        hint: `msg` of `print`: The text to write.
        hint: `fmt.printf("%v", ...)` makes text of other values

        error[M0406]: a resource stands at the top of an imported file
         --> lib/c.mcl:7:1
          |
        7 | print "top" {}
          | ^^^^^^^^^^^^^^
          |
         ::: main.mcl:1:1
          |
        1 | import "lib/c.mcl" as c
          | ----------------------- imported here

        hint: an imported file defines variables, functions and classes; put this into a class

        checked 1 program: 3 errors
    "#]]
    .assert_eq(&said.stderr);
    let (diagnostics, _) = objects(&tree.check(&["--message-format=json", "main.mcl"]));
    let two_files = diagnostics.iter().find(|found| found["spans"].as_array().unwrap().len() == 2).unwrap();
    let [here, there] = two_files["spans"].as_array().unwrap().as_slice() else { panic!("{two_files}") };
    assert_eq!(
        (&here["file"], &here["line_start"], &here["primary"]),
        (&json!("lib/c.mcl"), &json!(7), &json!(true))
    );
    assert_eq!(
        (&there["file"], &there["line_start"], &there["primary"]),
        (&json!("main.mcl"), &json!(1), &json!(false))
    );
    assert_eq!(two_files["file"], "lib/c.mcl");
}

#[test]
fn the_mistakes_of_a_file_that_several_programs_import_are_shown_once() {
    let tree = Tree::new(&[
        ("a.mcl", "import \"lib.mcl\"\n\ninclude lib.c\n"),
        ("b.mcl", "import \"lib.mcl\"\n\ninclude lib.c\n"),
        ("lib.mcl", "class c {\n\tprint \"a\" {\n\t\tmsg => 1,\n\t}\n}\n"),
    ]);
    let said = tree.check(&["a.mcl", "b.mcl"]);
    assert_eq!(said.stderr.matches("--> lib.mcl:3:").count(), 1, "{}", said.stderr);
    assert!(said.stderr.ends_with("checked 2 programs: 1 error\n"), "{}", said.stderr);
    assert_eq!(tree.check(&["b.mcl"]).code, 1);
}

#[test]
fn programs_get_one_object_per_line() {
    let tree = Tree::new(&[("x.mcl", WRONG), ("good.mcl", GOOD)]);
    let said = tree.check(&["--message-format", "json", "x.mcl"]);
    assert_eq!(said.code, 1);
    let (diagnostics, summary) = objects(&said);
    let [found] = diagnostics.as_slice() else { panic!("{}", said.stderr) };
    assert_eq!((&found["type"], &found["level"]), (&json!("diagnostic"), &json!("error")));
    assert!(
        found["code"].as_str().unwrap().starts_with('M') && !found["message"].as_str().unwrap().is_empty()
    );
    assert!(found["hints"].is_array());
    let span = found["spans"].as_array().unwrap().iter().find(|span| span["primary"] == true).unwrap();
    for (key, value) in [
        ("file", json!("x.mcl")),
        ("line_start", json!(2)),
        ("column_start", json!(9)),
        ("line_end", json!(2)),
        ("column_end", json!(11)),
    ] {
        assert_eq!(span[key], value, "{key} in {span}");
    }
    assert!(span["label"].is_string());
    let counts = |programs, errors, warnings, unreadable| {
        json!({
            "type": "summary", "format_version": 1, "programs": programs, "errors": errors, "warnings": warnings,
            "unreadable": unreadable,
        })
    };
    assert_eq!(summary, counts(1, 1, 0, 0));
    let (diagnostics, summary) = objects(&tree.check(&["--message-format=json", "good.mcl", "missing.mcl"]));
    assert_eq!((diagnostics.len(), summary), (1, counts(1, 0, 0, 1)));
    let (diagnostics, summary) = objects(&tree.check(&["--message-format=json", "good.mcl"]));
    assert_eq!((diagnostics.len(), summary), (0, counts(1, 0, 0, 0)));
}

#[test]
fn the_exit_code_tells_right_wrong_and_unreadable_apart() {
    let tree = Tree::new(&[
        ("good.mcl", GOOD),
        ("warn.mcl", UNUSED),
        ("wrong.mcl", WRONG),
        ("wrong.yaml", "graph: x\nresources:\n  flie:\n  - name: /a\n"),
        ("empty/readme", ""),
        ("nomain/metadata.yaml", "main: start.mcl\n"),
        ("badmeta/metadata.yaml", "main: [\n"),
        ("badmeta/main.mcl", GOOD),
        ("badlock/mgmt.lock", "nonsense\n"),
        ("badlock/main.mcl", GOOD),
    ]);
    for (arguments, code, part) in [
        (&["good.mcl", "warn.mcl"][..], 0, "checked 2 programs: 1 warning\n"),
        (&["good.mcl", "wrong.mcl"], 1, "checked 2 programs: 1 error\n"),
        (&["wrong.mcl", "wrong.yaml", "warn.mcl"], 1, "checked 3 programs: 2 errors, 1 warning\n"),
        (&["badmeta/"], 1, "badmeta/metadata.yaml:"),
        (&["badlock/"], 1, "badlock/mgmt.lock"),
        (&["missing.mcl"], 2, "there is no file `missing.mcl`"),
        (&["wrong.mcl", "missing.mcl"], 2, "checked 1 program: 1 error, 1 not read\n"),
        (&["missing.yaml"], 2, "missing.yaml"),
        (&["missing"], 2, "no file or directory `missing`"),
        (&["empty/"], 2, "no module in `empty"),
        (&["nomain/"], 2, "start.mcl"),
        (&["yaml", "good.mcl"], 1, "good.mcl:"),
        (&["lang"], 2, "nothing to check"),
        (&[], 2, "nothing to check"),
        (&[""], 2, "empty"),
        (&["puppet", "x.pp"], 2, "there is no file or directory `x.pp`"),
        (&["langpuppet", "x.pp"], 2, "takes a program and a manifest"),
        (&["empty", "good.mcl"], 2, "takes no file"),
        (&["--no-such-flag", "good.mcl"], 2, "--no-such-flag"),
    ] {
        let said = tree.check(arguments);
        assert_eq!(said.code, code, "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains(part), "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn warnings_can_be_denied_and_lints_left_out() {
    let tree =
        Tree::new(&[("warn.mcl", UNUSED), ("good.mcl", GOOD), ("warn.yaml", "graph: x\nwhatever: 1\n")]);
    let said = tree.check(&["warn.mcl"]);
    assert_eq!(said.code, 0);
    assert!(said.stderr.contains("warning[M08") && said.stderr.contains("warn.mcl:1:1"), "{}", said.stderr);
    let denied = tree.check(&["--deny-warnings", "warn.mcl"]);
    assert_eq!(denied.code, 1);
    assert!(denied.stderr.ends_with("checked 1 program: 1 warning (denied)\n"), "{}", denied.stderr);
    assert_eq!(tree.check(&["--deny-warnings", "warn.yaml"]).code, 1);
    silent(&tree.check(&["--deny-warnings", "good.mcl"]));
    silent(&tree.check(&["--deny-warnings", "--no-lints", "warn.mcl"]));
}

#[test]
fn what_comes_from_standard_input_and_the_command_line_has_a_name() {
    let input = mgmt_output_with_input(&["check", "-"], WRONG);
    assert_eq!(input.code, 1);
    assert!(input.stderr.contains("--> standard input:2:9"), "{}", input.stderr);
    let code = mgmt_output(&["check", WRONG]);
    assert_eq!(code.code, 1);
    assert!(code.stderr.contains("--> command line:2:9"), "{}", code.stderr);
}

#[test]
fn a_directory_is_a_module_with_its_own_files() {
    let tree = Tree::new(&[
        ("mod/metadata.yaml", "main: \"start.mcl\"\npath: \"vendor/\"\n"),
        ("mod/start.mcl", "import \"part/\"\n\ninclude part.c\n"),
        ("mod/part/main.mcl", "class c {\n\tprint \"a\" {\n\t\tmsg => 1,\n\t}\n}\n"),
    ]);
    let said = tree.check(&["mod/"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("--> mod/part/main.mcl:3:"), "{}", said.stderr);
}

#[test]
fn modules_are_looked_for_where_the_flag_or_the_variable_says() {
    let tree = Tree::new(&[
        ("x.mcl", "import \"git://example.com/purple/mod\"\n\ninclude mod.c\n"),
        ("elsewhere/example.com/purple/mod/metadata.yaml", ""),
        ("elsewhere/example.com/purple/mod/main.mcl", "class c {}\n"),
    ]);
    let missing = tree.check(&["x.mcl"]);
    assert_eq!(missing.code, 1);
    assert!(
        missing.stderr.contains("has not been downloaded") && missing.stderr.contains("mgmt get"),
        "{}",
        missing.stderr
    );
    silent(&tree.check(&["--module-path", "elsewhere", "x.mcl"]));
    let variable: CommandOutput =
        tree.command(&["x.mcl"]).env("MGMT_MODULE_PATH", "elsewhere").output().unwrap().into();
    silent(&variable);
}

#[test]
fn colour_is_used_where_it_is_wanted() {
    let tree = Tree::new(&[("x.mcl", WRONG)]);
    let with = |arguments: &[&str], variables: &[(&str, &str)]| -> bool {
        let said: CommandOutput =
            tree.command(arguments).arg("x.mcl").envs(variables.iter().copied()).output().unwrap().into();
        said.stderr.contains('\u{1b}')
    };
    assert!(!with(&[], &[]));
    assert!(with(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!with(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(with(&["--color=always"], &[("NO_COLOR", "1")]));
    assert!(!with(&["--message-format=json", "--color=always"], &[]));
}

#[test]
fn bytes_that_are_no_text_are_a_mistake_with_a_place() {
    let tree = Tree::new(&[]);
    fs::write(tree.0.path().join("x.mcl"), b"$a = 1\n$b = \"\xff\"\n").unwrap();
    let said = tree.check(&["x.mcl"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("M0001") && said.stderr.contains("x.mcl:2:7"), "{}", said.stderr);
}

#[test]
fn a_path_need_not_be_text() {
    let tree = Tree::new(&[]);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.mcl");
    if fs::write(tree.0.path().join(name), GOOD).is_err() {
        return; // This file system has names of its own kind.
    }
    silent(&tree.command(&[]).arg(name).output().unwrap().into());
    silent(&tree.command(&[]).arg(tree.0.path().join(name)).output().unwrap().into());
}

#[test]
fn depth_is_no_danger() {
    let deep = |depth: usize| {
        format!(
            "$x = {}1{}\nprint \"a\" {{\n\tmsg => \"${{x}}\",\n}}\n",
            "(".repeat(depth),
            ")".repeat(depth)
        )
    };
    let lists = |depth: usize| format!("$x = {}1{}\n$y = $x\n", "[".repeat(depth), "]".repeat(depth));
    for text in [deep(3_000), lists(3_000), deep(200_000), format!("$x = {}1\n", "not ".repeat(100_000))] {
        let said = mgmt_output_with_input(&["check", "-"], &text);
        assert!(
            said.code == 0 || said.code == 1,
            "{}: {}",
            said.code,
            &said.stderr[..said.stderr.len().min(500)]
        );
        assert!(said.stderr.len() < 100_000);
    }
    assert!(mgmt_output_with_input(&["check", "-"], &deep(2_900)).stderr.contains("M05"), "an int is no str");
}

#[test]
fn a_thousand_mistakes_in_a_long_file_are_all_shown() {
    let text: String = (0..100_000)
        .map(
            |line| if line % 100 == 0 { format!("$v{line} = $no{line}\n") } else { "# nothing\n".to_owned() },
        )
        .collect();
    let said = mgmt_output_with_input(&["check", "--no-lints", "-"], &text);
    assert_eq!(said.code, 1);
    assert_eq!(said.stderr.matches("error[").count(), 1_000);
    assert!(said.stderr.contains("standard input:99901:11"), "the last one");
}

#[test]
fn nothing_is_written() {
    let tree = Tree::new(&[("x.mcl", GOOD), ("y.mcl", WRONG)]);
    tree.check(&["x.mcl", "y.mcl"]);
    assert_eq!(fs::read_dir(tree.0.path()).unwrap().count(), 2);
    assert_eq!(fs::read_to_string(tree.0.path().join("x.mcl")).unwrap(), GOOD);
}

/// The diagnostics that `graph` has about a program, as objects.
#[track_caller]
fn graph_objects(program: &str) -> Vec<Value> {
    let said = mgmt_output_with_input(&["--message-format=json", "graph", "lang", "-"], program);
    assert_ne!(said.code, 0, "{}", said.stderr);
    said.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The text that a span of a program covers.
fn underlined<'p>(program: &'p str, span: &Value) -> &'p str {
    let at = |key: &str| usize::try_from(span[key].as_u64().unwrap()).unwrap();
    &program[at("byte_start")..at("byte_end")]
}

#[test]
fn an_invalid_resource_names_its_parameter_and_underlines_it() {
    for (program, parameter, message) in [
        (
            "file \"/tmp/x\" {\n\tstate => \"exists\",\n\tmode => \"99999\",\n}\n",
            "mode",
            "`mode` of file[/tmp/x]: ",
        ),
        ("svc \"x\" {\n\tstate => \"bogus\",\n}\n", "state", "`state` of svc[x]: "),
        (
            "$day = \"someday\"\nnoop \"x\" {\n\tMeta:window => [$day,],\n}\n",
            "window",
            "`window` of noop[x]: ",
        ),
        ("file \"/tmp/x\" {\n\tcontent => \"a\",\n\tsource => \"/tmp/y\",\n}\n", "content", "`source`"),
        (
            "$day = \"someday\"\nnoop \"x\" {\n\tMeta => struct{window => [$day,],},\n}\n",
            "window",
            "`window` of noop[x]: ",
        ),
        ("noop \"x\" {\n\tMeta => struct{retry => 0-7,},\n}\n", "retry", "`retry` of noop[x]: "),
        ("svc \"a b\" {\n\tstate => \"running\",\n}\n", "\"a b\"", "svc[a b]: "),
        ("pkg \"a b\" {\n\tstate => \"installed\",\n}\n", "\"a b\"", "pkg[a b]: "),
        (
            "file \"/etc/\" {\n\tstate => \"exists\",\n\tpurge => true,\n\trecurse => true,\n}\n",
            "purge",
            "`purge` of file[/etc/]: ",
        ),
        ("file \"/\" {\n\tstate => \"absent\",\n}\n", "state", "`state` of file[/]: "),
        ("tidy \"/etc\" {\n\trecurse => true,\n}\n", "recurse", "`recurse` of tidy[/etc]: "),
        (
            "hostname \"x\" {\n\tpretty_hostname => \"\",\n\tstatic_hostname => \"\",\n\ttransient_hostname => \"\",\n}\n",
            "pretty_hostname",
            "nothing to do",
        ),
    ] {
        let found = graph_objects(program);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["code"], "M0614", "{found:?}");
        assert!(found[0]["message"].as_str().unwrap().contains(message), "{found:?}");
        let span = &found[0]["spans"][0];
        assert_eq!((&span["primary"], underlined(program, span)), (&json!(true), parameter), "{found:?}");
    }
    let said = mgmt_output_with_input(&["graph", "lang", "-"], "svc \"x\" {\n\tstate => \"bogus\",\n}\n");
    assert!(said.stderr.contains("2 |     state => \"bogus\",\n  |     ^^^^^\n"), "{}", said.stderr);
}

#[test]
fn types_of_sent_values_are_checked_with_a_code_and_a_place() {
    let tree = Tree::new(&[]);
    for (edge, code, underline) in [
        ("Exec[\"a\"].output -> Test[\"t\"].int64", "M0609", "output"),
        ("Exec[\"a\"].output -> Test[\"t\"].int64ptr", "M0609", "output"),
        ("Exec[\"a\"].nothing -> Test[\"t\"].anotherstr", "M0608", "nothing"),
        ("Exec[\"a\"].output -> Test[\"t\"].nothing", "M0602", "nothing"),
    ] {
        let program = format!("exec \"a\" {{\n\tcmd => \"echo\",\n}}\ntest \"t\" {{}}\n{edge}\n");
        let (found, _) = objects(&tree.check(&["--message-format=json", &program]));
        assert_eq!(found.len(), 1, "{edge}: {found:?}");
        assert_eq!(found[0]["code"], code, "{edge}: {found:?}");
        assert_eq!(underlined(&program, &found[0]["spans"][0]), underline, "{edge}: {found:?}");
    }
}

#[test]
fn what_a_declared_value_sends_has_the_type_of_the_value() {
    let tree = Tree::new(&[]);
    let edge = "Value[\"v\"].any -> Test[\"t\"].anotherstr\n";
    for (senders, is_right) in [
        ("value \"v\" {\n\tany => 5,\n}\n", false),
        ("value [\"u\", \"v\",] {\n\tany => 5,\n}\n", false),
        ("$x = 5\nvalue \"v\" {\n\tany => true ?: $x,\n}\n", false),
        ("value \"v\" {\n\tany => \"a\",\n}\n", true),
        // Nothing is sent.
        ("value \"v\" {}\n", true),
        // One of two branches.
        (
            "if $hostname == \"x\" {\n\tvalue \"v\" {\n\t\tany => 5,\n\t}\n} else {\n\tvalue \"v\" {\n\t\tany => \"a\",\n\t}\n}\n",
            true,
        ),
        // What is received lies over what is declared.
        ("value \"u\" {}\nvalue \"v\" {\n\tany => 5,\n}\nValue[\"u\"].any -> Value[\"v\"].any\n", true),
        // A class that does not know its type has the types of its includes.
        ("class c($p) {\n\tvalue \"v\" {\n\t\tany => $p,\n\t}\n}\ninclude c(\"a\")\n", true),
        ("class c($p) {\n\tvalue \"v\" {\n\t\tany => $p,\n\t}\n}\ninclude c(5)\n", false),
        (
            "class c($p) {\n\tvalue \"v\" {\n\t\tany => $p,\n\t}\n}\n\
             class d($q) {\n\tif $hostname != \"\" {\n\t\tinclude c($q)\n\t}\n}\ninclude d(5)\n",
            false,
        ),
        (
            "class c($n, $p) {\n\tvalue \"v\" {\n\t\tany => $p,\n\t}\n\tnoop $n {}\n}\n\
             if $hostname == \"x\" {\n\tinclude c(\"a\", 5)\n} else {\n\tinclude c(\"b\", \"a\")\n}\n",
            true,
        ),
    ] {
        let program = format!("{senders}test \"t\" {{}}\n{edge}");
        let (found, _) = objects(&tree.check(&["--message-format=json", &program]));
        if is_right {
            assert_eq!(found.len(), 0, "{program}{found:?}");
            continue;
        }
        assert_eq!(found.len(), 1, "{program}{found:?}");
        assert_eq!(found[0]["code"], "M0609", "{program}{found:?}");
        assert_eq!(
            found[0]["message"], "`value` sends `any` as `int`, and `anotherstr` of `test` is `str`",
            "{program}"
        );
        assert_eq!(underlined(&program, &found[0]["spans"][0]), "any", "{program}{found:?}");
    }
}

#[test]
fn a_mistake_is_one_error_with_one_hint_that_helps() {
    let tree = Tree::new(&[]);
    let class = "class web($port) {\n\ttest \"b\" {\n\t\tint64 => $port,\n\t}\n}\n";
    let with_class = |rest: &str| format!("{class}{rest}\n");
    for (program, hint) in [
        (
            "$cfg = struct{name => \"x\"}\nprint \"a\" {\n\tmsg => $cfg.name,\n}\n".to_owned(),
            "a field of a struct is read as `$cfg->name`",
        ),
        ("noop \"a\" {}\nnoop \"b\" {\n\tDepend => noop[\"a\"],\n}\n".to_owned(), "like `Noop[\"name\"]`"),
        ("noop \"a\" {}\nnoop \"b\" {}\nnoop[\"a\"] -> noop[\"b\"]\n".to_owned(), "like `Noop[\"name\"]`"),
        (
            "func f($x) {\n\treturn $x\n}\ntest \"a\" {\n\tint64 => f(3),\n}\n".to_owned(),
            "there is no `return`",
        ),
        (
            "func f($x) {\n\treturn($x)\n}\ntest \"a\" {\n\tint64 => f(3),\n}\n".to_owned(),
            "there is no `return`",
        ),
        (with_class("web(80)"), "a class is included: `include web(…)`"),
        (with_class("web()"), "a class is included: `include web(…)`"),
        (with_class("include web(1)\ntest \"a\" {\n\tint64 => web(80),\n}"), "`include web(...)`"),
        (
            "func f() {\n\treturn [1, 2]\n}\n$x = f()\ntest \"a\" {\n\tint64 => $x[0],\n}\n".to_owned(),
            "there is no `return`",
        ),
        ("class c {\n\treturn 5\n}\ninclude c\n".to_owned(), "there is no `return`"),
        ("return 5\n".to_owned(), "there is no `return`"),
        (
            "http:server \"a\" {}\nnoop \"b\" {\n\tDepend => http:server[\"a\"],\n}\n".to_owned(),
            "like `Http:Server[\"name\"]`",
        ),
        ("noop \"b\" {}\nhttp:server[\"a\"] -> Noop[\"b\"]\n".to_owned(), "like `Http:Server[\"name\"]`"),
        (
            "$c = true\nnoop \"a\" {}\nnoop \"b\" {\n\tDepend => $c ?: noop[\"a\"],\n}\n".to_owned(),
            "like `Noop[\"name\"]`",
        ),
        (
            "$cfg = {\"name\" => \"x\",}\nprint \"a\" {\n\tmsg => $cfg.name,\n}\n".to_owned(),
            "a value of a map is read as `$cfg[\"name\"]`",
        ),
        (
            "$cfg = struct{a => struct{name => \"x\",},}\nprint \"a\" {\n\tmsg => $cfg->a.name,\n}\n"
                .to_owned(),
            "a field of a struct is read as `->name`",
        ),
        ("print \"a\" {\n\tMSG => \"x\",\n}\n".to_owned(), "`msg`"),
        ("l.web(80)\n".to_owned(), "`include l.web(…)`"),
        ("web:sub(80)\n".to_owned(), "`include a.sub(…)`"),
        (with_class("web \"x\" {\n\tp => 80,\n}"), "`include web(...)`"),
        (with_class("$x = 80\nweb($x) {}"), "`include web(...)`"),
        ("if \"10\" > 5 {\n\tnoop \"a\" {}\n}\n".to_owned(), "`convert.str_to_int`"),
        ("dhcp:server \"x\" {}\n".to_owned(), "`mgmt kinds` lists all kinds"),
        ("http:serevr \"x\" {}\n".to_owned(), "did you mean `http:server`?"),
        // What a kind that does not exist would have said of types is not known.
        (
            "import \"fmt\"\n$y = []\nnothing \"x\" {\n\ta => $y,\n\tb => fmt.printf(\"%d\", 3),\n}\n\
             nothing \"z\" {\n\tDepend => Nothing[\"x\"],\n}\n"
                .to_owned(),
            "`mgmt kinds` lists all kinds",
        ),
        // The same holds for functions and classes.
        (
            "import \"fmt\"\nprint \"a\" {\n\tmsg => fmt.prntf([]),\n}\n".to_owned(),
            "did you mean `fmt.printf`?",
        ),
        (with_class("include wep([])\ninclude web(80)"), "did you mean `web`?"),
    ] {
        let CommandOutput { code, stderr, .. } = tree.check(&[&program]);
        assert_eq!(code, 1, "{program}{stderr}");
        assert_eq!(stderr.matches("error[M").count(), 1, "{program}{stderr}");
        assert_eq!(stderr.matches("hint: ").count(), 1, "{program}{stderr}");
        assert!(stderr.contains(hint), "{program}{stderr}");
        assert!(!stderr.contains("warning"), "{program}{stderr}");
    }
}

#[test]
fn definitions_of_modules_may_be_unused() {
    let unused = "$x = \"a\"\nfunc f() { $x }\nclass c {\n\tnoop \"a\" {}\n}\n";
    let tree = Tree::new(&[
        ("library.mcl", unused),
        (
            "guarded.mcl",
            "import \"sub.mcl\"\n$x = 1\nif $x > 2 {\n\tpanic(\"x\")\n}\nclass c {\n\tnoop \"a\" {}\n}\n",
        ),
        ("sub.mcl", unused),
        ("exported/metadata.yaml", "main: main.mcl\n"),
        (
            "exported/main.mcl",
            "import \"sub.mcl\"\nclass c {\n\tnoop \"a\" {}\n}\nclass d {\n\tnoop \"b\" {}\n}\ninclude d\n$x = 1\n",
        ),
        ("exported/sub.mcl", unused),
        ("site/main.mcl", "import \"util/\"\nprint \"a\" {\n\tmsg => $util.x,\n}\n"),
        ("site/util/main.mcl", unused),
        ("others/metadata.yaml", "path: modules/\n"),
        ("others/main.mcl", "import \"git://h/a\"\ninclude a.c(\"x\")\n"),
        ("others/modules/h/a/metadata.yaml", "main: main.mcl\nbogus: 1\n"),
        (
            "others/modules/h/a/main.mcl",
            "import \"fmt\"\nclass c($unused) {\n\t$inner = \"a\"\n\tnoop \"a\" {}\n}\n",
        ),
    ]);
    for program in ["library.mcl", "site/", "others/", "guarded.mcl", "exported/"] {
        silent(&tree.check(&["--deny-warnings", program]));
    }
    let unused_import = tree.check(&["--deny-warnings", "import \"fmt\"\nclass c {\n\tnoop \"a\" {}\n}\n"]);
    assert!(unused_import.stderr.contains("M0801"), "{}", unused_import.stderr);
    let ours = tree.check(&["--deny-warnings", "$x = 1\nnoop \"a\" {}\n"]);
    assert_eq!(ours.code, 1);
    assert!(ours.stderr.contains("M0802"), "{}", ours.stderr);
}
