//! Every program in `examples/mcl` is in canonical form, checks, has a graph, and runs until it has converged.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::{Said, mgmt};

/// What is expected of an example.
#[derive(Clone, Copy)]
enum Expect {
    /// It runs, converges, and ends with 0; these lines are in its log, and these files, below the directory of the
    /// examples, hold this.
    Runs { logs: &'static [&'static str], files: &'static [(&'static str, &'static str)] },
    /// It changes something every second, so it cannot be waited for that long; this file is there in the end.
    Ticks(&'static str),
    /// It would change the machine beyond the directory of the examples, so it runs with `--noop`.
    OnlyLooks,
}

use Expect::{OnlyLooks, Runs, Ticks};

const fn logs(logs: &'static [&'static str]) -> Expect {
    Runs { logs, files: &[] }
}

const fn files(files: &'static [(&'static str, &'static str)]) -> Expect {
    Runs { logs: &[], files }
}

/// Each example, by its path.
const EXPECTED: &[(&str, Expect)] = &[
    (
        "classes.mcl",
        files(&[
            ("sites/one/index.html", "<title>The first</title>\n"),
            ("sites/two/index.html", "<title>The second</title>\n"),
        ]),
    ),
    ("clock.mcl", Ticks("clock")),
    ("closures.mcl", logs(&["hello, alice!", "good bye, bob! (nobody else)"])),
    ("colon-classes.mcl", logs(&["example without encryption", "example with encryption on 443"])),
    ("constants.mcl", logs(&["a relative of Debian"])),
    ("edges.mcl", logs(&["print[one]: one", "print[two]: two", "print[three]: three", "print[four]: four"])),
    ("elvis.mcl", files(&[("private", "a note\n"), ("public", "a note\n")])),
    ("except.mcl", logs(&["print[index]: 0", "print[division]: 0", "print[chain]: neither", "-1"])),
    ("exec.mcl", files(&[("exec/touched", ""), ("exec/who", "mgmt\n"), ("exec/a name with spaces", "")])),
    ("file-exists.mcl", files(&[("status", "all is well\n")])),
    ("files.mcl", files(&[("files/real", "I am real\n"), ("files/link", "I am real\n")])),
    (
        "for.mcl",
        files(&[("for/apple", "0: apple\n"), ("for/banana", "1: banana\n"), ("for/cherry", "2: cherry\n")]),
    ),
    ("forkv.mcl", logs(&["/bin/bash", "/bin/sh", "/usr/bin/fish"])),
    ("functions.mcl", logs(&["so so ", "alice has 8 apples", "5"])),
    ("generic.mcl", logs(&["[1, 2]", "[\"a\", \"b\"]", "[[true, false], [false, true]]"])),
    ("hello.mcl", Runs { logs: &["hello, world: look at"], files: &[("hello", "hello, world\n")] }),
    ("hidden.mcl", logs(&["I am here"])),
    ("hostname.mcl", logs(&["example-host: no role"])),
    ("http-flag.mcl", Runs { logs: &["listening on 127.0.0.1:28082"], files: &[("word", "")] }),
    ("http-server.mcl", Runs { logs: &["listening on 127.0.0.1:28081"], files: &[("http/one", "a file\n")] }),
    ("http-ui.mcl", Runs { logs: &["print[name]: nobody yet"], files: &[("volume", "3")] }),
    ("if-else.mcl", logs(&["the switch is off"])),
    (
        "include-as.mcl",
        logs(&["http://web.example.com:80/start http://wiki.example.com:8080/help", "wiki.example.com:8080"]),
    ),
    ("kv.mcl", logs(&["the color is green"])),
    ("lambdas.mcl", logs(&["<<lambda>>", "twice"])),
    ("limits.mcl", files(&[("limits", "calm\n")])),
    ("line.mcl", files(&[("hosts", "192.0.2.7 printer\n")])),
    ("map-filter-reduce.mcl", logs(&["[1, 4, 9, 16, 25, 36]", "[16, 25, 36]", "77"])),
    ("maps.mcl", logs(&["700000 people", "print[rome]: 0 people", "3 towns", "[\"bern\"]"])),
    ("meta.mcl", files(&[("attempts", "x\nx\nx\n")])),
    ("modules/main.mcl", logs(&["Ada Lovelace", "greetings to nobody in particular"])),
    ("nested-loops.mcl", logs(&["web listens on 443", "mail listens on 587"])),
    ("noop.mcl", logs(&["would change"])),
    ("notify.mcl", files(&[("notify.conf", "listen 80\n"), ("notify.log", "reloaded\n")])),
    ("order.mcl", logs(&["good morning, ORDER"])),
    ("panic.mcl", logs(&["the color is green"])),
    ("pkg.mcl", OnlyLooks),
    (
        "printf.mcl",
        logs(&[
            "text: plain and \"quoted\"",
            "numbers: 42 and 3.25",
            "truth: true",
            "and {\"a\": 1}",
            "100%",
        ]),
    ),
    ("readfile/main.mcl", files(&[("motd", "Welcome to example-host. This text is kept by mgmt.\n")])),
    ("reverse.mcl", files(&[])),
    ("sema.mcl", logs(&["exec[d]: changed"])),
    ("send-receive.mcl", files(&[("kernel", "Linux\n")])),
    ("shadowing.mcl", logs(&["inner", "outer"])),
    ("structs.mcl", logs(&["db1:5432", "fast", "nobody yet"])),
    ("system.mcl", files(&[("count", "3\n")])),
    ("template.mcl", files(&[("template", "# example\nlisten 80\nlisten 443\nlog errors\n")])),
    ("tree.mcl", files(&[("tree/one", "declared\n"), ("tree/two", "declared\n")])),
    ("types.mcl", logs(&["types [80, 443] {\"load\": 1.5} struct{x: 1; y: 2} [] 3"])),
    ("values.mcl", logs(&["stored: 42"])),
    ("weekday.mcl", logs(&["day"])),
];

/// Files that are part of a program in their directory, and no programs themselves.
const PARTS: &[&str] = &["modules/greeting/card.mcl", "modules/names.mcl"];

/// The examples that are about a warning.
const WARNED: &[(&str, &str)] = &[("shadowing.mcl", "M0806")];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mcl").canonicalize().unwrap()
}

/// All programs below a directory, by their path in it.
fn found(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "mcl") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, path);
            }
        }
    }
    found
}

fn said(arguments: &[&str]) -> Said {
    mgmt(arguments).output().unwrap().into()
}

#[test]
fn every_example_is_expected_and_every_expectation_has_its_example() {
    let found = found(&examples());
    let mut expected: Vec<_> = EXPECTED.iter().map(|(name, _)| *name).chain(PARTS.iter().copied()).collect();
    expected.sort_unstable();
    assert!(EXPECTED.len() >= 40, "only {} examples", EXPECTED.len());
    assert_eq!(found.keys().collect::<Vec<_>>(), expected, "the list in this file is not what is there");
}

#[test]
fn every_example_begins_with_what_to_see_and_how_to_run_it() {
    for (name, path) in found(&examples()) {
        let text = std::fs::read_to_string(path).unwrap();
        let first: Vec<_> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let comment = first.join("\n");
        assert!(comment.contains("\n# See: "), "{name} does not say what to see");
        let path = name.strip_suffix("main.mcl").or(name.strip_suffix("card.mcl")).unwrap_or(&name);
        assert!(comment.contains(&format!(" examples/mcl/{path}")), "{name} does not say how to run it");
    }
}

#[test]
fn every_example_is_in_canonical_form() {
    let said = said(&["fmt", "--check", examples().to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
}

#[test]
fn every_example_checks_without_a_warning() {
    let root = examples();
    for (name, _) in EXPECTED {
        let path = root.join(name);
        let said = said(&["check", "--deny-warnings", path.to_str().unwrap()]);
        match WARNED.iter().find(|(warned, _)| warned == name) {
            None => assert_eq!(said.code, 0, "{name}:\n{}", said.stderr),
            Some((_, code)) => {
                assert!(said.code == 1 && said.stderr.contains(code), "{name}:\n{}", said.stderr);
            }
        }
    }
}

#[test]
fn every_example_has_a_graph() {
    let root = examples();
    for (name, _) in EXPECTED {
        let path = root.join(name);
        let said = said(&["graph", "lang", path.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{name}:\n{}", said.stderr);
        assert!(said.stdout.contains('['), "{name}:\n{}", said.stdout);
    }
}

#[test]
fn every_example_runs_and_converges() {
    // They spend most of their time waiting, so several run at once.
    let open = Mutex::new(EXPECTED.iter());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let next = open.lock().unwrap().next();
                    let Some((name, expect)) = next else { break };
                    run(name, *expect);
                }
            });
        }
    });
}

/// Runs an example in a copy of its directory that works below a directory of its own.
fn run(name: &str, expect: Expect) {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("program");
    let place = home.path().join("example").to_str().unwrap().to_owned();
    match name.rsplit_once('/') {
        None => copy(&examples().join(name), &program.join(name), &place),
        Some((directory, _)) => copy(&examples().join(directory), &program.join(directory), &place),
    }
    let path = program.join(name);
    let mut arguments = vec!["run", "--tmp-prefix", "--hostname", "example-host", "--max-runtime=100"];
    let still = if matches!(expect, Ticks(_)) { "--converger-timeout=0" } else { "--converger-timeout=1" };
    arguments.extend([still, "--converged-exit"]);
    if matches!(expect, OnlyLooks) {
        arguments.push("--noop");
    }
    arguments.extend(["lang", path.to_str().unwrap()]);
    let said: Said = mgmt(&arguments).env("TMPDIR", home.path()).output().unwrap().into();
    assert_eq!(said.code, 0, "{name}:\n{}", said.stderr);
    let (logs, files) = match expect {
        Runs { logs, files } => (logs, files),
        Ticks(file) => return assert!(home.path().join("example").join(file).exists(), "{name}"),
        OnlyLooks => return,
    };
    for line in logs {
        assert!(said.stderr.contains(line), "{name}: no {line:?} in\n{}", said.stderr);
    }
    for (file, content) in files {
        let path = home.path().join("example").join(file);
        let found = std::fs::read_to_string(&path);
        assert_eq!(found.as_deref().ok(), Some(*content), "{name}: {file}\n{}", said.stderr);
    }
}

fn copy(from: &Path, to: &Path, place: &str) {
    if from.is_dir() {
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()), place);
        }
        return;
    }
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    let text = std::fs::read_to_string(from).unwrap();
    std::fs::write(to, text.replace("/tmp/mgmt-example", place)).unwrap();
}
