//! The forms in which programs read what this one says: JSON with one flag, one line for editors, SARIF for forges.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::program::{CommandOutput, mgmt_output};
use serde_json::Value as Json;

/// A program with two mistakes and a warning, and its path.
fn wrong(directory: &tempfile::TempDir) -> String {
    let path = directory.path().join("wrong.mcl");
    std::fs::write(
        &path,
        "$unused = 1\nfile \"/x\" {\n\tstaet => \"exists\",\n}\nprint \"x\" { msg => 7, }\n",
    )
    .unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn editors_get_each_mistake_on_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = wrong(&directory);
    let CommandOutput { code, stderr, stdout } = mgmt_output(&["check", "--message-format", "short", &path]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    let lines: Vec<&str> = stderr.lines().filter(|line| line.starts_with(&path)).collect();
    assert!(lines.len() >= 2, "{stderr}");
    let first = lines.iter().find(|line| line.contains("staet")).unwrap_or_else(|| panic!("{stderr}"));
    assert!(first.starts_with(&format!("{path}:3:2: error[M")), "{first}");
    assert!(stderr.lines().all(|line| line.starts_with(&path) || line.starts_with("checked ")), "{stderr}");
    // Whatever else is wrong has no place, and is one line, too.
    let failed = mgmt_output(&["--message-format=short", "check", "/no/such/program.mcl"]);
    assert_eq!(failed.code, 2, "{failed:?}");
    assert!(failed.stderr.starts_with("error: "), "{failed:?}");
}

#[test]
fn forges_get_all_mistakes_as_one_document() {
    let directory = tempfile::tempdir().unwrap();
    let path = wrong(&directory);
    let sarif = |input: &str| {
        let told = mgmt_output(&["check", "--message-format", "sarif", input]);
        let document: Json =
            serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told:?}"));
        assert_eq!(document["version"], "2.1.0");
        assert_eq!(document["runs"][0]["tool"]["driver"]["name"], "mgmt");
        (told.code, document["runs"][0]["results"].as_array().unwrap().clone())
    };
    let (code, results) = sarif(&path);
    assert_eq!(code, 1);
    let place = |result: &Json| result["locations"][0]["physicalLocation"].clone();
    let found =
        results.iter().find(|result| result["message"]["text"].as_str().unwrap().contains("staet")).unwrap();
    assert!(place(found)["artifactLocation"]["uri"].as_str().unwrap().ends_with("/wrong.mcl"), "{found}");
    assert_eq!(
        (&place(found)["region"]["startLine"], &place(found)["region"]["startColumn"]),
        (&3.into(), &2.into())
    );
    assert!(found["ruleId"].as_str().unwrap().starts_with('M') && found["level"] == "error", "{found}");
    assert!(results.iter().any(|result| result["level"] == "warning"), "{results:?}");
    assert_eq!(sarif("noop \"x\" {}"), (0, Vec::new()));
    // What cannot be read is a result as well.
    let (code, results) = sarif("/no/such/program.mcl");
    assert_eq!((code, results.len()), (2, 1), "{results:?}");
    let other = mgmt_output(&["--message-format=sarif", "kinds"]);
    assert!(other.code == 2 && other.stderr.contains("only `mgmt check` writes SARIF"), "{other:?}");
}

#[test]
fn one_flag_gives_json_wherever_there_is_a_form_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (prefix, file) = (at("prefix"), at("file"));
    let program = format!("file \"{file}\" {{ state => \"exists\", }}");
    let ran = mgmt_output(&["run", "--prefix", &prefix, "--converged-timeout", "0", "lang", &program]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ways: &[&[&str]] = &[
        &["plan", "lang", &program],
        &["history", "--prefix", &prefix],
        &["why", &file, "--prefix", &prefix],
        &["graph", "lang", &program],
        &["diff", &format!("lang:{program}"), "lang:noop \"x\" {}"],
        &["kinds"],
        &["kinds", "file"],
        &["functions", "strings"],
        &["docs", "reference"],
    ];
    for way in ways {
        for line in [[&["--json"], *way].concat(), [*way, &["--json"]].concat()] {
            let told = mgmt_output(&line);
            let parsed = serde_json::from_str::<Json>(&told.stdout);
            assert!(parsed.is_ok_and(|parsed| parsed.is_object() || parsed.is_array()), "{line:?}: {told:?}");
        }
        let plain = mgmt_output(way).stdout;
        assert!(serde_json::from_str::<Json>(&plain).is_err(), "{way:?}: {plain}");
    }
    // What a command was told by itself counts.
    assert!(
        mgmt_output(&["--json", "graph", "--format", "dot", "lang", &program]).stdout.starts_with("digraph")
    );
    // Lines of the log and mistakes are JSON, too.
    let failed = mgmt_output(&["--json", "check", "x {"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.lines().all(|line| serde_json::from_str::<Json>(line).is_ok()), "{failed:?}");
    assert_eq!(mgmt_output(&["--json", "--message-format", "human", "kinds"]).code, 2);
}
