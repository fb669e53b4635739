//! `debconf` with a database of the test's own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;

use crate::common::{TestEnv, refused};
use crate::host_common::{RunningEngine, edges, on_own_host, shell, soon};
use mgmt_resource::{Checked, Spec};
use mgmt_resources::debconf::Debconf;
use mgmt_resources::file::File;
use mgmt_value::Secret;

fn answer(kind: &str, value: &str) -> Debconf {
    Debconf {
        state: "exists".into(),
        r#type: kind.into(),
        value: Some(value.into()),
        package: "mgmt-test".into(),
        ..Debconf::default()
    }
}

fn absent() -> Debconf {
    Debconf { state: "absent".into(), package: "mgmt-test".into(), ..Debconf::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// What debconf itself says about a question.
fn ask(question: &str) -> String {
    shell(&format!(
        "printf 'GET {question}\\nFGET {question} seen\\n' | debconf-communicate mgmt-test || true"
    ))
}

fn stored() -> String {
    ["config.dat", "passwords.dat"]
        .map(|file| fs::read_to_string(format!("/var/cache/debconf/{file}")).unwrap_or_default())
        .concat()
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, debconf: &Debconf) {
    let mut vertex = bench.vertex("mgmt-test/question", debconf.clone());
    let before = stored();
    assert_eq!(runtime().block_on(vertex.look()).checked(), Checked::Changed);
    assert_eq!(stored(), before, "looking has changed something");
    assert_eq!(runtime().block_on(vertex.apply()).checked(), Checked::Changed);
    let after = stored();
    assert_eq!(runtime().block_on(vertex.apply()).checked(), Checked::Right);
    assert_eq!(runtime().block_on(vertex.look()).checked(), Checked::Right);
    assert_eq!(stored(), after, "something was touched although all was right");
}

#[test]
fn an_answer_is_set_changed_and_removed() {
    if !on_own_host("an_answer_is_set_changed_and_removed") {
        return;
    }
    let bench = TestEnv::new();
    settles(&bench, &answer("string", "one two"));
    assert_eq!(ask("mgmt-test/question"), "0 one two\n0 true");
    settles(&bench, &Debconf { seen: Some(false), ..answer("string", "one two") });
    assert_eq!(ask("mgmt-test/question"), "0 one two\n0 false");
    settles(&bench, &answer("string", "back\\slash, \"quoted\" $HOME"));
    assert!(ask("mgmt-test/question").starts_with("0 back\\slash, \"quoted\" $HOME\n"));
    settles(&bench, &absent());
    assert!(ask("mgmt-test/question").starts_with("10 "), "{}", ask("mgmt-test/question"));
    // A password is in a file that only root reads, and in nothing that is said.
    let secret =
        Debconf { value: None, password: Some(Secret::new("canary".into())), ..answer("password", "") };
    settles(&bench, &secret);
    assert!(ask("mgmt-test/question").starts_with("0 canary\n"));
    assert!(!fs::read_to_string("/var/cache/debconf/config.dat").unwrap().contains("canary"));
    assert!(!format!("{secret:?}").contains("canary"));
    settles(&bench, &absent());
}

#[test]
fn what_cannot_be_an_answer_is_told() {
    assert!(refused(&answer("boolean", "yes")).contains("`true` or `false`"));
    if !on_own_host("what_cannot_be_an_answer_is_told") {
        return;
    }
    // Somebody else is configuring a package.
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("mgmt-test/question", answer("string", "x"));
    let mut other = std::process::Command::new("debconf-communicate")
        .arg("mgmt-test")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(other.stdin.as_mut().unwrap(), b"VERSION 2.0\n").unwrap();
    let mut line = [0_u8; 2];
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut line).unwrap();
    let error = runtime().block_on(vertex.apply()).result.unwrap_err();
    assert!(error.to_string().contains("locked"), "{error}");
    assert!(error.hint().unwrap().contains("tried again"));
    drop(other.stdin.take());
    other.wait().unwrap();
    assert_eq!(runtime().block_on(vertex.apply()).checked(), Checked::Changed);
}

#[test]
fn whatever_somebody_does_to_answers_is_an_event_and_repaired() {
    if !on_own_host("whatever_somebody_does_to_answers_is_an_event_and_repaired") {
        return;
    }
    runtime().block_on(async {
        let mut running = RunningEngine::start();
        // Many at once, of one database.
        let specs = (0..5).map(|number| Spec::new(format!("mgmt-test/q{number}"), answer("string", "right")));
        running.swap(specs.collect()).await;
        let right = || (0..5).all(|number| ask(&format!("mgmt-test/q{number}")).starts_with("0 right\n"));
        soon("all are set", right).await;
        shell("echo mgmt-test mgmt-test/q1 string wrong | debconf-set-selections");
        soon("the answer is back", right).await;
        shell("echo UNREGISTER mgmt-test/q2 | debconf-communicate mgmt-test");
        soon("the question is back", right).await;
        running.stop();
    });
}

#[test]
fn an_answer_comes_after_the_program_that_sets_it() {
    let program = File { state: "exists".into(), ..File::default() };
    let found = edges(vec![
        Spec::new("mgmt-test/question", answer("string", "x")),
        Spec::new("/usr/bin/debconf-set-selections", program),
    ]);
    assert_eq!(found, ["file[/usr/bin/debconf-set-selections] -> debconf[mgmt-test/question]"]);
}
