//! What was changed, when and why, as people and programs ask for it.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use mgmt_test_support::program;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mgmt_test_support::program::{RunningProgram, eventually, holds, mgmt_output};
use serde_json::Value as Json;

/// Asks for JSON.
fn json(arguments: &[&str]) -> Json {
    let said = mgmt_output(arguments);
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn history(prefix: &Path, rest: &[&str]) -> Vec<Json> {
    let prefix = prefix.to_str().unwrap();
    let answer = json(&[&["history", "--prefix", prefix, "--format", "json"], rest].concat());
    assert_eq!(answer["format_version"], 1);
    answer["changes"].as_array().unwrap().clone()
}

#[test]
fn a_change_is_told_with_the_value_of_the_program_that_led_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (input, output, key, program, prefix) =
        (at("input"), at("output"), at("key"), at("main.mcl"), at("prefix"));
    std::fs::write(&input, "one").unwrap();
    let text = format!(
        r#"import "os"

$value = os.readfile("{input}")

file "{output}" {{
	state => "exists",
	content => $value,

	Notify => Exec["told"],
}}
file "{key}" {{
	state => "exists",
	content => "canary " + $value,
	mode => "0600",
}}
exec "told" {{
	cmd => "/bin/true",
	refreshonly => true,
}}
"#
    );
    std::fs::write(&program, text).unwrap();
    // As the service is: from the root directory, where a place has its leading slash, too.
    let mut command = program::mgmt(&["run", "--prefix", &prefix, "lang", &program]);
    command.current_dir("/");
    let running = RunningProgram::start_command(command);
    holds(Path::new(&output), "one");
    // At once: a file that is written in place is empty for a moment, and that is a value, too.
    std::fs::write(at("next"), "two").unwrap();
    std::fs::rename(at("next"), &input).unwrap();
    holds(Path::new(&output), "two");
    // Somebody else writes there.
    std::fs::write(&output, "three").unwrap();
    holds(Path::new(&output), "two");
    let of_output = || history(Path::new(&prefix), &[&output]);
    eventually("three changes are known", || of_output().len() == 3);
    let changes = of_output();

    let first = &changes[0];
    assert_eq!(first["causes"][0]["kind"], "declared", "{first}");
    assert_eq!(first["effects"][0]["action"], "create", "{first}");
    assert_eq!(first["origin"], format!("{program}:5:1"), "{first}");
    let second = &changes[1];
    let cause = &second["causes"][0];
    assert_eq!(cause["kind"], "redeclared", "{second}");
    let value = &cause["values"][0];
    assert_eq!(
        (&value["function"], &value["before"], &value["after"]),
        (&"os.readfile".into(), &"\"one\"".into(), &"\"two\"".into())
    );
    assert_eq!(value["at"], format!("{program}:3:10"), "{second}");
    assert_eq!(value["event"], input.as_str(), "{second}");
    assert_eq!(cause["fields"][0]["field"], "content", "{second}");
    assert_eq!(second["effects"][0]["before"], "3 bytes", "{second}");
    assert!(second["effects"][0]["diff"].as_str().unwrap().contains("-one\n"), "{second}");
    assert_eq!(changes[2]["causes"][0]["kind"], "event", "{}", changes[2]);

    // Nothing of a file that not everybody may read.
    let of_key = || history(Path::new(&prefix), &[&key]);
    eventually("both changes of the key are known", || of_key().len() >= 2);
    let private = of_key();
    let all = Json::Array(private).to_string();
    assert!(!all.contains("canary") && !all.contains("\\\"one\\\""), "{all}");

    // What was told follows from what changed.
    let why = || json(&["why", "exec[told]", "--prefix", &prefix, "--format", "json"]);
    eventually("the command has been told", || {
        let causes = why()["changes"][0]["causes"].as_array().cloned().unwrap_or_default();
        causes.iter().any(|cause| cause["kind"] == "notified")
    });
    let why = why();
    assert_eq!(why["changes"][0]["led_by"][0]["resource"], format!("file[{output}]"), "{why}");
    let told = mgmt_output(&["why", &output, "-n", "2", "--prefix", &prefix]);
    assert!(
        told.stdout.contains("os.readfile at ") && told.stdout.contains(":3:10 became \"two\", was \"one\""),
        "{told:?}"
    );
    assert!(told.stdout.contains("something happened"), "{told:?}");

    assert!(history(Path::new(&prefix), &["--since", "1h"]).len() >= 5);
    assert_eq!(history(Path::new(&prefix), &["--since", "2200-01-01T00:00:00Z"]).len(), 0);
    assert_eq!(history(Path::new(&prefix), &["-n", "1"]).len(), 1);
    assert!(mgmt_output(&["history", "--prefix", &prefix]).stdout.contains("changed in"));
    assert_eq!(mgmt_output(&["why", "/nowhere", "--prefix", &prefix]).code, 1);
    assert_eq!(mgmt_output(&["history", "--since", "soon", "--prefix", &prefix]).code, 2);
    running.signal(rustix::process::Signal::TERM);
    running.end();
}

#[test]
fn names_that_act_on_a_terminal_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (prefix, program) = (at("prefix"), at("main.mcl"));
    let path = at("evil\u{1b}[31m\nname");
    std::fs::write(
        &program,
        format!("file {path:?} {{\n\tstate => \"exists\",\n}}\n").replace("\\u{1b}", "\u{1b}"),
    )
    .unwrap();
    let said_run = mgmt_output(&["run", "--prefix", &prefix, "--converged-timeout", "0", "lang", &program]);
    assert_eq!(said_run.code, 0, "{said_run:?}");
    assert_eq!(history(Path::new(&prefix), &[&path]).len(), 1);
    // Whatever tells of it, for people and for programs: the name is there, and is one harmless word. Only the plain lines of `graph`
    // have names as they are, and not on a terminal.
    let other = "noop \"x\" {}";
    let ways: &[&[&str]] = &[
        &["run", "--tmp-prefix", "--log=debug", "--noop", "--converged-timeout", "0", "lang", &program],
        &[
            "--message-format=json",
            "run",
            "--tmp-prefix",
            "--noop",
            "--converged-timeout",
            "0",
            "lang",
            &program,
        ],
        &["plan", "lang", &program],
        &["--json", "plan", "lang", &program],
        &["why", &path, "--prefix", &prefix],
        &["--json", "why", &path, "--prefix", &prefix],
        &["history", "--prefix", &prefix],
        &["--json", "history", "--prefix", &prefix],
        &["diff", &program, &format!("lang:{other}")],
        &["--json", "diff", &program, &format!("lang:{other}")],
        &["graph", "--format", "dot", "lang", &program],
        &["graph", "--format", "mermaid", "lang", &program],
        &["graph", "--format", "svg", "lang", &program],
        &["--json", "graph", "lang", &program],
    ];
    std::fs::remove_file(&path).unwrap();
    for way in ways {
        let told = mgmt_output(way);
        let text = told.stdout + &told.stderr;
        assert!(text.contains("evil"), "{way:?}: {text}");
        assert!(!text.contains('\u{1b}'), "{way:?}: {text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("name")), "{way:?}: {text}");
    }
    // Somebody who fights with it makes the status tell of it.
    let _running = RunningProgram::start(&["run", "--prefix", &prefix, "lang", &program]);
    eventually("the status tells of it", || {
        // In a row: to ask for the status takes long enough, on a busy machine, to pass for peace.
        for _ in 0..20 {
            if Path::new(&path).exists() {
                std::fs::remove_file(&path).unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        mgmt_output(&["status", "--prefix", &prefix]).stdout.contains("flapping: reverted by")
    });
    for way in [&["status", "--prefix", &prefix][..], &["--json", "status", "--prefix", &prefix]] {
        let text = mgmt_output(way).stdout;
        assert!(text.contains("evil") && !text.contains('\u{1b}'), "{way:?}: {text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("name")), "{way:?}: {text}");
    }
}

/// The records that say that a resource is undone.
fn undone(prefix: &str) -> Vec<String> {
    let all = history(Path::new(prefix), &[]);
    let undone = all.iter().filter(|change| change["outcome"] == "undone");
    undone.map(|change| format!("{} {}", change["resource"], change["message"])).collect()
}

#[test]
fn resources_that_undo_each_other_are_named_and_slowed_down() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (prefix, file) = (at("prefix"), at("contested"));
    let program = format!(
        "file \"{file}\" {{ state => \"exists\", content => \"one\\n\", mode => \"0644\", }}\n\
         file \"other\" {{ path => \"{file}\", state => \"exists\", content => \"two\\n\", Meta:autoedge => false, }}\n"
    );
    let mut running = RunningProgram::start(&["run", "--prefix", &prefix, "lang", &program]);
    running.wait_for(" 12 times; backing off ");
    eventually("the adversary is named", || {
        undone(&prefix).iter().any(|told| {
            (told.contains("reverted by file[other]") && told.contains(&format!("file[{file}]")))
                || (told.contains(&format!("reverted by file[{file}]")) && told.contains("file[other]"))
        })
    });
    eventually("others are told", || {
        let status = mgmt_output(&["status", "--prefix", &prefix]);
        status.stdout.contains("flapping: reverted by")
    });
    // It is slowed down: each time that it is told of, it waits for longer.
    eventually("it waits longer and longer", || waits(&prefix).len() >= 3);
    let waits = waits(&prefix);
    assert!(waits.windows(2).all(|two| two[0] <= two[1]), "{waits:?}");
    assert!(waits.last() >= waits.first().map(|first| *first * 4).as_ref(), "{waits:?}");
}

/// How long was waited each time, as the history tells of the resource that was told of most.
fn waits(prefix: &str) -> Vec<Duration> {
    let all = history(Path::new(prefix), &[]);
    let mut waits: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for change in all.iter().filter(|change| change["outcome"] == "undone") {
        let message = change["message"].as_str().unwrap();
        let (_, wait) = message.split_once("; backing off ").unwrap_or_else(|| panic!("{message}"));
        let units = [("ns", 1), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
        let (number, unit) =
            units.iter().find_map(|(name, unit)| Some((wait.strip_suffix(name)?, unit))).unwrap();
        let nanoseconds = number.parse::<f64>().unwrap() * f64::from(*unit);
        let whose = change["resource"].to_string();
        waits.entry(whose).or_default().push(Duration::from_secs_f64(nanoseconds / 1e9));
    }
    waits.into_values().max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn a_program_outside_that_undoes_a_resource_is_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (prefix, file) = (at("prefix"), at("contested"));
    let program = format!("file \"{file}\" {{ state => \"exists\", content => \"ours\", }}\n");
    let _running = RunningProgram::start(&["run", "--prefix", &prefix, "lang", &program]);
    let mut times = 0;
    eventually("it is told of", || {
        if std::fs::read_to_string(&file).is_ok_and(|content| content == "ours") {
            std::fs::write(&file, "theirs").unwrap();
            times += 1;
        }
        // The history is asked only once it may have something to say.
        times >= 12 && undone(&prefix).iter().any(|told| told.contains("reverted by an external process"))
    });
}

#[test]
fn a_run_that_is_to_keep_no_history_keeps_none() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (output, program, prefix) = (at("output"), at("main.mcl"), at("prefix"));
    let run = |content: &str, more: &[&str]| {
        std::fs::write(
            &program,
            format!("file \"{output}\" {{ state => \"exists\", content => \"{content}\" }}"),
        )
        .unwrap();
        let run = ["run", "--prefix", &prefix, "--converger-timeout=0", "--converged-exit"];
        let said = mgmt_output(&[&run, more, &["lang", &program]].concat());
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(std::fs::read_to_string(&output).unwrap(), content);
    };
    run("one", &["--no-history"]);
    assert!(!Path::new(&prefix).join("history").exists());
    assert_eq!(history(Path::new(&prefix), &[]).len(), 0);
    run("two", &[]);
    assert_eq!(history(Path::new(&prefix), &[]).len(), 1);
    // What was kept before stays.
    run("three", &["--no-history"]);
    assert_eq!(history(Path::new(&prefix), &[]).len(), 1);
}
