//! Every example in the docs of every function holds.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::function_host::messages;
use mgmt_funcs::{Effect, Example, Function, Promise, library};

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
    let inside = mgmt_test_support::current_test::sibling("inside_an_environment_of_its_own");
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &inside, "--include-ignored", "--nocapture"])
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
