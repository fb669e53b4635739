//! What the declaration of `exec` is to others: its schema, its edges, its equality, its log.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::sync::{Arc, Mutex};

use crate::exec_common::{APPLY, TestEnv, sh};
use mgmt_resource::{Identity, Order, Resource, Want, schema_of};
use mgmt_resources::exec::Exec;
use mgmt_value::Str;
use tracing::field::{Field, Visit};

#[test]
fn all_fields_are_there_in_their_spelling() {
    let names: Vec<_> = schema_of::<Exec>().fields.iter().map(|field| field.name).collect();
    let expected = "cmd args cwd shell env sig watchcmd watchcwd watchshell watchfiles interval ifcmd ifcwd ifshell ifequals \
                    ifequals_stdout nifcmd nifcwd nifshell creates mtimes donecmd donecwd doneshell user group \
                    send_output send_stdout send_stderr refreshonly refreshcmd refreshcwd \
                    refreshshell returns paths";
    assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    let sends: Vec<_> = schema_of::<Exec>().sends.iter().map(|field| field.name).collect();
    assert_eq!(sends, ["output", "stdout", "stderr"]);
    assert!(mgmt_resources::KINDS.get("exec").is_some());
}

#[test]
fn traits_are_what_the_engine_needs() {
    let traits = schema_of::<Exec>().traits;
    assert!(traits.edges && traits.send && traits.refresh && !traits.receive);
    assert!(!traits.group && !traits.blocking && !traits.reverse);
}

#[test]
fn programs_and_accounts_come_first() {
    let exec = Exec {
        cmd: "/bin//one a b".into(),
        watchcmd: "text".into(),
        watchshell: "/bin/two".into(),
        ifcmd: "three".into(),
        nifcmd: "/bin/four".into(),
        donecmd: "/bin/five x".into(),
        user: "joe".into(),
        group: "100".into(),
        ..Exec::default()
    };
    let mut expected = Vec::new();
    for path in ["/bin/one", "/bin/two", "/bin/four", "/bin/five"] {
        expected.push(Identity::PackageFile(path.into()));
        expected.push(Identity::Path(path.into()));
    }
    expected.extend([Identity::User("joe".into()), Identity::GroupNumber(100)]);
    assert_eq!(Resource::wants(&exec, &"name".into()), [Want::Each(Order::Before, expected)]);
    assert_eq!(Resource::provides(&exec, &"name".into()), []);
    let by_name = Resource::wants(&Exec::default(), &"/bin/named x".into());
    let path = Str::from("/bin/named");
    let expected = vec![Identity::PackageFile(path.clone()), Identity::Path(path)];
    assert_eq!(by_name, [Want::Each(Order::Before, expected)]);
}

#[test]
fn an_unset_command_equals_the_same_text_as_the_name() {
    let (unset, set) = (Exec::default(), Exec { cmd: "/bin/true".into(), ..Exec::default() });
    assert!(unset.same_as(&"/bin/true".into(), &set) && set.same_as(&"/bin/true".into(), &unset));
    assert!(!unset.same_as(&"/bin/false".into(), &set));
    let other = Exec { refreshonly: true, ..set.clone() };
    assert!(!set.same_as(&"/bin/true".into(), &other));
    let env = |value: &str| Exec { env: [("A", value)].into_iter().collect(), ..Exec::default() };
    assert!(!env("1").same_as(&"x".into(), &env("2")));
}

/// Everything that is logged on this thread, `LEVEL fields`.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn output_is_logged_line_by_line_and_the_environment_never() {
    let mut world = TestEnv::new();
    let log = Log::default();
    let guard = tracing::subscriber::set_default(log.clone());
    let text = "echo good; echo 'two\nlines'; echo bad >&2; test -n \"$TOKEN\" || echo no token";
    let env = [("TOKEN", "canary"), ("PATH", "/canary")];
    let exec = Exec { env: env.into_iter().collect(), ..sh(text) };
    world.run(&exec, APPLY).await.unwrap();
    let failing = Exec { cmd: format!("{text}; no-such-program").into(), ..exec.clone() };
    let error = world.run(&failing, APPLY).await.unwrap_err();
    drop(guard);

    let log = log.0.lock().unwrap();
    let has = |level: &str, text: &str| log.iter().any(|line| line.starts_with(level) && line.contains(text));
    for line in ["cmd stdout: good", "cmd stdout: two", "cmd stdout: lines", "cmd stderr: bad"] {
        assert!(has("DEBUG", line), "{line}: {log:#?}");
        assert!(has("INFO", line), "{line}: {log:#?}");
    }
    assert!(!has("", "no token"), "the variable was set");
    assert!(!has("", "canary"), "{log:#?}");
    assert!(!format!("{error:?} {exec:?}").contains("canary"));
}
