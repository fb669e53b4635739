//! `mgmt graph --settle`: the graph is run, and shown as it is then.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Output};

fn settle(program: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgmt"));
    command.args(["graph", "--settle"]).args(more).args(["lang", program]);
    command.output().unwrap()
}

#[test]
fn what_was_received_is_shown_and_what_nobody_set_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file").display().to_string();
    let program = format!(
        r#"
        exec "say" {{
            cmd => "echo hello",
            shell => "/bin/sh",
        }}
        file "{path}" {{ state => "exists", }}
        print ["a", "b"] {{ msg => "text", }}
        Exec["say"].stdout -> File["{path}"].content
        "#
    );
    let output = settle(&program, &[]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    let mut expected = vec![
        "Vertex: exec[say]".to_owned(),
        format!("Vertex: file[{path}]"),
        "Vertex: print[b]".to_owned(),
        "Group: print[b]: Vertex: print[a]".to_owned(),
        "Group: print[b]: Field: print[a].msg = \"text\"".to_owned(),
        "Field: print[b].msg = \"text\"".to_owned(),
        "Field: exec[say].cmd = \"echo hello\"".to_owned(),
        "Field: exec[say].shell = \"/bin/sh\"".to_owned(),
        format!("Field: file[{path}].content = \"hello\\n\""),
        format!("Field: file[{path}].state = \"exists\""),
        format!("Edge: exec[say] -> file[{path}]"),
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "hello\n");
}

#[test]
fn the_document_has_the_parameters_too() {
    let output = settle("value \"v\" { any => 42, }", &["--format", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["vertices"][0]["fields"]["value[v]"]["any"], "42");
}

#[test]
fn a_failure_does_not_keep_it_from_being_shown() {
    let output = settle("exec \"no\" { cmd => \"/bin/false\", }", &[]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("Vertex: exec[no]"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_never_comes_to_rest_is_given_up() {
    let output = settle("exec \"long\" { cmd => \"/bin/sleep 3600\", }", &["--wait", "1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the graph has not converged after 2 s") && said.contains("--wait"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
