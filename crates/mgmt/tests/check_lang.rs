//! `mgmt check` on programs in mcl.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;

use common::{Said, mgmt, said, said_with_input};
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
    fn check(&self, arguments: &[&str]) -> Said {
        let said: Said = self.command(arguments).output().unwrap().into();
        assert_eq!(said.stdout, "", "{arguments:?}");
        assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
        said
    }
}

/// The lines of standard error as JSON: the diagnostics, and the summary.
#[track_caller]
fn objects(said: &Said) -> (Vec<Value>, Value) {
    let mut lines: Vec<Value> = said.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap();
    assert_eq!(summary["type"], "summary", "{}", said.stderr);
    (lines, summary)
}

#[track_caller]
fn silent(said: &Said) {
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
        silent(&said_with_input(arguments, GOOD));
    }
    silent(&said_with_input(&["check", "yaml", "-"], "graph: x\n"));
}

#[test]
fn all_independent_mistakes_are_shown_in_one_run() {
    let text = "$a = 1 +\n$b = $nothing\nflie \"/a\" {}\nprint \"x\" {\n\tmsg => 1,\n}\n";
    let said = Tree::new(&[("x.mcl", text)]).check(&["x.mcl"]);
    assert_eq!(said.code, 1);
    for part in ["x.mcl:1:", "x.mcl:2:6", "$nothing", "x.mcl:3:1", "did you mean `file`?", "x.mcl:5:9"] {
        assert!(said.stderr.contains(part), "{part}\n{}", said.stderr);
    }
    let last = said.stderr.lines().last().unwrap();
    assert!(last.starts_with("checked 1 program: ") && last.contains("errors"), "{last}");
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
    for part in ["--> lib/c.mcl:7:1", "::: main.mcl:1:1", "1 | import \"lib/c.mcl\" as c", "--> lib/c.mcl:3:"]
    {
        assert!(said.stderr.contains(part), "{part}\n{}", said.stderr);
    }
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
    let input = said_with_input(&["check", "-"], WRONG);
    assert_eq!(input.code, 1);
    assert!(input.stderr.contains("--> standard input:2:9"), "{}", input.stderr);
    let code = said(&["check", WRONG]);
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
    let variable: Said =
        tree.command(&["x.mcl"]).env("MGMT_MODULE_PATH", "elsewhere").output().unwrap().into();
    silent(&variable);
}

#[test]
fn colour_is_used_where_it_is_wanted() {
    let tree = Tree::new(&[("x.mcl", WRONG)]);
    let with = |arguments: &[&str], variables: &[(&str, &str)]| -> bool {
        let said: Said =
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
        let said = said_with_input(&["check", "-"], &text);
        assert!(
            said.code == 0 || said.code == 1,
            "{}: {}",
            said.code,
            &said.stderr[..said.stderr.len().min(500)]
        );
        assert!(said.stderr.len() < 100_000);
    }
    assert!(said_with_input(&["check", "-"], &deep(2_900)).stderr.contains("M05"), "an int is no str");
}

#[test]
fn a_thousand_mistakes_in_a_long_file_are_all_shown() {
    let text: String = (0..100_000)
        .map(
            |line| if line % 100 == 0 { format!("$v{line} = $no{line}\n") } else { "# nothing\n".to_owned() },
        )
        .collect();
    let said = said_with_input(&["check", "--no-lints", "-"], &text);
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
