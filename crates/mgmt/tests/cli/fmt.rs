//! `mgmt fmt` on real files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use mgmt_test_support::program::{CommandOutput, mgmt, mgmt_output, mgmt_output_with_input};

const UGLY: &str =
    "$name=\"motd\"\n\n\nfile \"/etc/${name}\" {\n  content=>\"hello\\n\",\n  state => \"exists\"\n}";
const CANONICAL: &str =
    "$name = \"motd\"\n\nfile \"/etc/${name}\" {\n\tcontent => \"hello\\n\",\n\tstate => \"exists\",\n}\n";
const BROKEN: &str = "$ok=1\n$x = [1, 2\n";

/// A directory that goes away with the test.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        for (name, content) in files {
            let path = tree.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        tree
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// Runs `mgmt fmt` in the directory.
    fn fmt(&self, arguments: &[&str]) -> CommandOutput {
        mgmt(&["fmt"]).args(arguments).current_dir(self.0.path()).output().unwrap().into()
    }
}

#[track_caller]
fn check(said: &CommandOutput, code: i32, stdout: &str, stderr: &str) {
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (code, stdout, stderr));
}

#[test]
fn a_file_is_formatted_in_place_and_then_left_alone() {
    let tree = Tree::new(&[("a.mcl", UGLY)]);
    check(&tree.fmt(&["a.mcl"]), 0, "", "1 file: 1 formatted\n");
    assert_eq!(tree.read("a.mcl"), CANONICAL);
    let before = fs::metadata(tree.at("a.mcl")).unwrap();
    check(&tree.fmt(&["a.mcl"]), 0, "", "1 file: 1 unchanged\n");
    let after = fs::metadata(tree.at("a.mcl")).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(fs::read_dir(tree.0.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn the_mode_stays() {
    for mode in [0o600, 0o755, 0o444] {
        let tree = Tree::new(&[("a.mcl", UGLY)]);
        fs::set_permissions(tree.at("a.mcl"), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(tree.fmt(&[]).code, 0);
        assert_eq!(tree.read("a.mcl"), CANONICAL);
        assert_eq!(fs::metadata(tree.at("a.mcl")).unwrap().mode() & 0o7777, mode);
    }
}

#[test]
fn check_names_what_would_change_and_changes_nothing() {
    let tree = Tree::new(&[("bad.mcl", UGLY), ("good.mcl", CANONICAL)]);
    let summary = "2 files: 1 would be formatted, 1 unchanged\n";
    for flag in ["--check", "--test", "-t"] {
        check(&tree.fmt(&[flag]), 1, "bad.mcl\n", summary);
        check(&tree.fmt(&[flag, "good.mcl"]), 0, "", "1 file: 1 unchanged\n");
    }
    assert_eq!(tree.read("bad.mcl"), UGLY);
    check(
        &tree.fmt(&["-t", "-v"]),
        1,
        "bad.mcl\n",
        &format!("bad.mcl: would be formatted\ngood.mcl: unchanged\n{summary}"),
    );
}

#[test]
fn diff_shows_what_would_change_and_changes_nothing() {
    let text = "# one\n# two\n# three\n# four\n$x=[1,2,]\n$y = 2\n";
    let tree = Tree::new(&[("a.mcl", text), ("b.mcl", CANONICAL)]);
    let expected = "--- a.mcl\n+++ a.mcl\n@@ -2,5 +2,5 @@\n # two\n # three\n # four\n-$x=[1,2,]\n+$x = [1, 2]\n $y = 2\n";
    check(&tree.fmt(&["--diff"]), 1, expected, "2 files: 1 would be formatted, 1 unchanged\n");
    assert_eq!(tree.fmt(&["--check", "--diff"]).stdout, expected);
    assert_eq!(tree.read("a.mcl"), text);
    check(&tree.fmt(&["--diff", "b.mcl"]), 0, "", "1 file: 1 unchanged\n");
}

#[test]
fn a_file_with_syntax_errors_is_shown_and_left_alone() {
    let tree = Tree::new(&[("bad.mcl", BROKEN), ("c.mcl", UGLY)]);
    let CommandOutput { code, stdout, stderr } = tree.fmt(&[]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("expected `]`") && stderr.contains("bad.mcl:"), "{stderr}");
    assert!(stderr.ends_with("2 files: 1 formatted, 1 with syntax errors\n"), "{stderr}");
    assert_eq!(tree.read("bad.mcl"), BROKEN);
    assert_eq!(tree.read("c.mcl"), CANONICAL, "the others are formatted");
    assert_eq!(tree.fmt(&["--check", "bad.mcl"]).code, 1);
}

#[test]
fn for_programs_every_line_is_an_object() {
    let tree = Tree::new(&[("bad.mcl", BROKEN), ("c.mcl", UGLY)]);
    let CommandOutput { code, stderr, .. } = tree.fmt(&["--message-format=json", "--verbose"]);
    assert_eq!(code, 1);
    let lines: Vec<serde_json::Value> =
        stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["level"], "error", "{stderr}");
    assert_eq!(lines[0]["code"], "M0013");
    assert_eq!((&lines[0]["file"], &lines[0]["spans"][0]["primary"]), (&"bad.mcl".into(), &true.into()));
    let formatted = serde_json::json!({ "type": "file", "file": "c.mcl", "outcome": "formatted" });
    assert!(lines.contains(&formatted), "{stderr}");
    let summary = lines.last().unwrap();
    assert_eq!((&summary["type"], &summary["format_version"]), (&"summary".into(), &1.into()));
    assert_eq!((&summary["changed"], &summary["syntax_errors"]), (&1.into(), &1.into()));
}

#[test]
fn a_file_that_is_not_utf_8_is_shown_and_left_alone() {
    let tree = Tree::new(&[]);
    fs::write(tree.at("a.mcl"), b"$x=\"\xff\"\n").unwrap();
    let CommandOutput { code, stderr, .. } = tree.fmt(&[]);
    assert_eq!(code, 1);
    assert!(stderr.contains("byte 0xff at offset 4") && stderr.contains("a.mcl:1:5"), "{stderr}");
    assert_eq!(fs::read(tree.at("a.mcl")).unwrap(), b"$x=\"\xff\"\n");
}

#[test]
fn a_tree_is_formatted_in_order_but_for_links_and_hidden_directories() {
    let files = ["b/deep/er/x.mcl", "a.mcl", "b/y.mcl", ".git/z.mcl", "b/note.txt", "elsewhere/target"];
    let tree = Tree::new(&files.map(|name| (name, UGLY)));
    symlink("elsewhere/target", tree.at("link.mcl")).unwrap();
    fs::create_dir(tree.at("b/folder.mcl")).unwrap();
    let outside = Tree::new(&[("o.mcl", UGLY)]);
    symlink(outside.0.path(), tree.at("b/outside")).unwrap();
    check(
        &tree.fmt(&["--verbose"]),
        0,
        "",
        "a.mcl: formatted\nb/deep/er/x.mcl: formatted\nb/y.mcl: formatted\n3 files: 3 formatted\n",
    );
    for untouched in [".git/z.mcl", "b/note.txt", "elsewhere/target"] {
        assert_eq!(tree.read(untouched), UGLY, "{untouched}");
    }
    assert_eq!(outside.read("o.mcl"), UGLY);
    assert!(fs::symlink_metadata(tree.at("link.mcl")).unwrap().is_symlink());
}

#[test]
fn paths_may_be_given_in_any_way_and_more_than_once() {
    let tree = Tree::new(&[("a/x.mcl", UGLY), ("b/no-suffix", UGLY), ("c/z.mcl", UGLY)]);
    let absolute = tree.at("b/no-suffix");
    let CommandOutput { code, stderr, .. } =
        tree.fmt(&["a/", "a", "a/x.mcl", "a/../a/x.mcl", "c/..", absolute.to_str().unwrap()]);
    assert_eq!((code, stderr.as_str()), (0, "3 files: 3 formatted\n"));
    for name in ["a/x.mcl", "b/no-suffix", "c/z.mcl"] {
        assert_eq!(tree.read(name), CANONICAL);
    }
    let many: Vec<String> = (0..200).map(|number| format!("{number:03}.mcl")).collect();
    let tree = Tree::new(&many.iter().map(|name| (name.as_str(), UGLY)).collect::<Vec<_>>());
    let CommandOutput { code, stdout, .. } = tree.fmt(&["--check"]);
    assert_eq!((code, stdout.lines().collect::<Vec<_>>()), (1, many.iter().map(String::as_str).collect()));
}

#[test]
fn what_cannot_be_read_gives_two_and_the_rest_is_formatted() {
    let tree = Tree::new(&[("a.mcl", UGLY), ("bad.mcl", BROKEN)]);
    symlink("a.mcl", tree.at("link.mcl")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.at("pipe.mcl"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for (name, why) in [
        ("missing.mcl", "missing.mcl"),
        ("missing/x.mcl", "missing does not exist"),
        ("link.mcl", "symbolic link"),
        ("pipe.mcl", "FIFO"),
        ("a.mcl/", "not a directory"),
    ] {
        let CommandOutput { code, stderr, .. } = tree.fmt(&[name, "bad.mcl"]);
        assert_eq!(code, 2, "{name}: {stderr}");
        assert!(stderr.contains(why) && stderr.contains("1 not read or written"), "{name}: {stderr}");
        assert_eq!(tree.read("a.mcl"), UGLY);
    }
    assert_eq!(tree.fmt(&["missing.mcl", "a.mcl"]).code, 2);
    assert_eq!(tree.read("a.mcl"), CANONICAL);
}

#[test]
fn standard_input_is_formatted_to_standard_output() {
    check(&mgmt_output_with_input(&["fmt", "-"], UGLY), 0, CANONICAL, "");
    check(&mgmt_output_with_input(&["fmt", "-"], CANONICAL), 0, CANONICAL, "");
    check(&mgmt_output_with_input(&["fmt", "-"], ""), 0, "", "");
    check(&mgmt_output_with_input(&["fmt", "--check", "-"], UGLY), 1, "standard input\n", "");
    let difference = "--- standard input\n+++ standard input\n@@ -1,1 +1,1 @@\n-$x=1\n+$x = 1\n";
    check(&mgmt_output_with_input(&["fmt", "--diff", "-"], "$x=1\n"), 1, difference, "");
    let CommandOutput { code, stdout, stderr } = mgmt_output_with_input(&["fmt", "-"], BROKEN);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("standard input:"), "{stderr}");
}

#[test]
fn nothing_to_format_is_said() {
    check(&Tree::new(&[("a.txt", UGLY)]).fmt(&[]), 0, "", "no mcl files found\n");
}

#[test]
fn the_help_says_what_is_skipped() {
    let by_flag = mgmt_output(&["fmt", "--help"]);
    assert_eq!(by_flag.stdout, mgmt_output(&["help", "fmt"]).stdout);
    let text = by_flag.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["Usage: mgmt fmt", "hidden directories", "never followed", "--test", "Exit code 0"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
