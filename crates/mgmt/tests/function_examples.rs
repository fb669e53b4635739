//! Every example in the docs of every function holds.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgmt_funcs::{Effect, Example, Export, Failure, FileKind, Function, Host, Promise, Response, library};
use mgmt_lang::module::{Disk, Entry};
use mgmt_lang::{Environment, Outcome, Running, WatchChange};
use mgmt_value::{Str, Type, Value};
use mgmt_world::Local;

/// A host that has something of everything. Its clock goes faster than any other.
struct Everything {
    local: Local,
    uptime: AtomicU64,
    asked: Mutex<Vec<&'static str>>,
    _directory: tempfile::TempDir,
}

impl Everything {
    fn new() -> Everything {
        let directory = tempfile::tempdir().unwrap();
        let local = Local::open(directory.path().join("state")).unwrap();
        let (uptime, asked) = (AtomicU64::default(), Mutex::default());
        Everything { local, uptime, asked, _directory: directory }
    }
}

impl Host for Everything {
    fn hostname(&self) -> Str {
        "host1".into()
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.uptime.fetch_add(10, Ordering::SeqCst))
    }

    fn deploy_read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(b"hello\n".to_vec())
    }

    fn deploy_kind(&self, path: &Path) -> io::Result<Option<FileKind>> {
        Ok(Some(if path.ends_with("files") { FileKind::Directory } else { FileKind::File }))
    }

    fn deploy_list(&self, _: &Path) -> io::Result<Vec<Str>> {
        Ok(vec!["motd".into()])
    }

    fn local(&self) -> Result<&Local, Failure> {
        Ok(&self.local)
    }

    fn command_line(&self, command: &Str) -> Result<Option<Str>, Failure> {
        Ok(Some(if *command == "echo hello" { "hello".into() } else { "0.5".into() }))
    }

    fn http_response(&self, _: &Str) -> Option<Response> {
        Some(Response { status: 200, body: None })
    }

    fn world_string(&self, _: &Str) -> Result<Option<Str>, Failure> {
        Ok(Some("hello".into()))
    }

    fn world_strings(&self, _: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
        Ok(BTreeMap::from([("host1".into(), "hello".into())]))
    }

    fn world_schedule(&self, _: &Str) -> Result<Vec<Str>, Failure> {
        Ok(vec!["host1".into(), "host2".into()])
    }

    fn world_exports(&self, _: &Str) -> Result<Vec<Export>, Failure> {
        let data = r#"{"format":1,"kind":"file","name":"/etc/motd","params":{},"meta":{}}"#;
        Ok(vec![Export { name: "/etc/motd".into(), host: "host1".into(), data: data.into() }])
    }

    fn provisioner_option(&self, name: &str) -> Option<Value> {
        let module = library().module("embedded/provisioner")?;
        let named = |function: &&&Function| {
            let plain = function.name.trim_start_matches("cli_").replace('_', "-");
            plain == name || (name == "dversion" && plain == "version")
        };
        let function = module.functions.iter().find(named)?;
        Some(match function.forms()[0].result {
            Type::Bool => Value::Bool(true),
            Type::Str => Value::str("text"),
            _ => Value::list(Type::Str, vec![Value::str("text")]),
        })
    }

    fn is_first(&self, name: &'static str) -> bool {
        let mut asked = self.asked.lock().unwrap();
        let is_first = !asked.contains(&name);
        asked.push(name);
        is_first
    }
}

/// The messages that a program declares, or what is wrong with it.
fn messages(program: &str) -> Result<Vec<String>, String> {
    let environment = Environment {
        kinds: &mgmt_resources::KINDS,
        library: library(),
        files: &Disk,
        module_path: None,
        lints: false,
    };
    let checked = mgmt_lang::check(&Entry::Code(program.to_owned()), &environment)
        .map_err(|error| error.to_string())?;
    if !checked.is_right() {
        let wrong: Vec<_> = checked.diagnostics.iter().map(|found| found.message.clone()).collect();
        return Err(format!("it is not right: {}", wrong.join("; ")));
    }
    let mut running = Running::new(Arc::new(checked), mgmt_resources::KINDS, Arc::new(Everything::new()));
    // What is not there at once comes with the first events.
    for _ in 0..3 {
        match running.settle() {
            Outcome::Graph(graph) => {
                let message = |spec: &mgmt_resource::Spec| match spec.resource.get("msg") {
                    Some(Value::Str(text)) => Some(text.display().to_string()),
                    _ => None,
                };
                return Ok(graph.nodes().filter_map(|(_, spec)| message(spec)).collect());
            }
            Outcome::Wrong(wrong) => {
                let wrong: Vec<_> = wrong.iter().map(|found| found.message.clone()).collect();
                return Err(wrong.join("; "));
            }
            _ => {}
        }
        for change in running.watch_changes() {
            if let WatchChange::Begin(watch) = change {
                running.happened(&watch);
            }
        }
    }
    Err("there is no value".to_owned())
}

const FORMAT: &str = "import \"fmt\"";

/// Finds out whether an example holds.
fn holds(example: &Example) -> Result<(), String> {
    if example.promise == Promise::Program {
        return messages(&example.text).map(drop);
    }
    let is_head = |line: &&str| line.starts_with("import ") || line.starts_with('$');
    let mut head: Vec<&str> = example.text.lines().filter(is_head).collect();
    if !head.contains(&FORMAT) {
        head.insert(0, FORMAT);
    }
    for expression in example.text.lines().filter(|line| !is_head(line)) {
        let program = format!(
            "{}\nprint \"value\" {{\n\tmsg => fmt.printf(\"%v\", {expression}),\n}}\n",
            head.join("\n")
        );
        let found = messages(&program);
        match (example.promise, &found) {
            (Promise::True, Ok(shown)) if *shown == ["true"] => {}
            (Promise::Value, Ok(shown)) if shown.len() == 1 => {}
            (Promise::Failure, Err(_)) => {}
            _ => return Err(format!("`{expression}` gives {found:?}")),
        }
    }
    Ok(())
}

fn functions() -> impl Iterator<Item = &'static Function> {
    library().modules().flat_map(|module| module.functions).copied()
}

#[test]
fn every_example_of_every_function_and_operator_holds() {
    // Some look at the environment, and one makes a directory.
    let temporary = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inside_an_environment_of_its_own", "--include-ignored", "--nocapture"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env(INSIDE, "1")
        .env("HOME", "/root")
        .env("TMPDIR", temporary.path())
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

const INSIDE: &str = "MGMT_TEST_FUNCTION_EXAMPLES";

#[test]
#[ignore = "started by every_example_of_every_function_and_operator_holds"]
fn inside_an_environment_of_its_own() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let mut wrong = Vec::new();
    for function in functions().chain(library().operators()) {
        let examples = function.examples();
        if examples.is_empty() {
            wrong.push(format!("{} has no example", function.full_name()));
        }
        for example in examples {
            if let Err(error) = holds(&example) {
                wrong.push(format!("{}: {error}", function.full_name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} examples do not hold:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_does_not_depend_on_the_host_says_what_comes_out() {
    for function in functions().filter(|function| function.effect == Effect::Pure) {
        let says = |example: &Example| {
            matches!(example.promise, Promise::True | Promise::Program | Promise::Failure)
        };
        assert!(function.examples().iter().all(says), "{}", function.full_name());
    }
    assert_eq!(functions().count(), 334);
}

#[test]
fn every_example_is_about_its_function() {
    for function in functions().filter(|function| !function.name.starts_with('_')) {
        let alias = function.module.rsplit('/').next().unwrap_or_default();
        let call = format!("{alias}.{}(", function.name);
        let call = call.strip_prefix('.').unwrap_or(&call);
        let in_template = function.template_name().unwrap_or_else(|| call.to_owned());
        for Example { text, .. } in function.examples() {
            assert!(text.contains(call) || text.contains(&in_template), "{}: {text}", function.full_name());
        }
    }
}

#[test]
fn an_example_that_does_not_hold_is_noticed() {
    let example = |promise, text: &str| Example { promise, text: text.to_owned() };
    for (promise, text) in [
        (Promise::True, "1 + 1 == 3"),
        (Promise::True, "1 + \"a\" == 3"),
        (Promise::True, "1 + 1"),
        (Promise::Value, "[1,][1]"),
        (Promise::Failure, "1 + 1"),
        (Promise::Program, "panic(true)"),
    ] {
        assert!(holds(&example(promise, text)).is_err(), "{text}");
    }
    assert_eq!(
        holds(&example(Promise::True, "import \"strings\"\n$x = \"A\"\nstrings.to_lower($x) == \"a\"")),
        Ok(())
    );
}
