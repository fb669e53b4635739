//! `gsettings` with real schemas, a real dconf and real sessions, on a host that was booted for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Run, TestEnv};
use crate::host_common::{RunningEngine, edges, shell, soon};
use mgmt_resource::{Checked, Error, Spec};
use mgmt_resources::file::File;
use mgmt_resources::group::Group;
use mgmt_resources::gsettings::Gsettings;
use mgmt_resources::user::User;
use mgmt_sys::process::Helper;
use mgmt_test_support::booted_host::on_booted_host;
use mgmt_value::{List, Str, Type, Value};

const SCHEMA: &str = r#"<schemalist>
  <enum id="org.example.colour"><value nick="red" value="0"/><value nick="blue" value="1"/></enum>
  <schema id="org.example.demo" path="/org/example/demo/">
    <key name="on" type="b"><default>false</default></key>
    <key name="size" type="u"><range min="0" max="100"/><default>1</default></key>
    <key name="far" type="d"><default>0.5</default></key>
    <key name="title" type="s"><default>'none'</default></key>
    <key name="colour" enum="org.example.colour"><default>'red'</default></key>
    <key name="names" type="as"><default>[]</default></key>
    <key name="more" type="a{sv}"><default>{}</default></key>
    <key name="other" type="i"><default>0</default></key>
  </schema>
  <schema id="org.example.profile"><key name="title" type="s"><default>''</default></key></schema>
</schemalist>
"#;

fn text(text: &str) -> Value {
    Value::Str(text.into())
}

fn of(r#type: &str, value: Value) -> Gsettings {
    Gsettings { r#type: r#type.into(), value: Some(value), user: "joe".into(), ..Gsettings::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

fn bench() -> TestEnv {
    let mut bench = TestEnv::new();
    bench.host.helper = Helper::program("/mgmt-test-helper");
    bench
}

fn install_schema() {
    fs::write("/usr/share/glib-2.0/schemas/org.example.demo.gschema.xml", SCHEMA).unwrap();
    shell("glib-compile-schemas /usr/share/glib-2.0/schemas");
}

fn prepare() {
    assert!(
        Path::new("/mgmt-test-helper").exists(),
        "build the helper: cargo build -p mgmt-resources --examples"
    );
    shell("useradd --create-home --uid 4242 joe");
    install_schema();
}

/// Starts the session of the user, as a log-in does.
fn start_session() {
    // Such a host has nobody who could log in, so it is started without asking for that.
    let directory = "/etc/systemd/system/user@4242.service.d";
    fs::create_dir_all(directory).unwrap();
    let unit = "[Unit]\nRequires=\nAfter=\n[Service]\nPAMName=\nDelegate=yes\nEnvironment=XDG_RUNTIME_DIR=/run/user/4242\n";
    fs::write(format!("{directory}/plain.conf"), unit).unwrap();
    shell("mkdir -p /run/user/4242; chmod 700 /run/user/4242; chown joe: /run/user/4242");
    shell("systemctl daemon-reload; systemctl start user@4242.service");
    as_joe("systemctl --user start dbus.socket; test -S /run/user/4242/bus");
}

/// Runs a text in a shell, as the user in its session.
#[track_caller]
fn as_joe(command: &str) -> String {
    let bus = "export XDG_RUNTIME_DIR=/run/user/4242 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/4242/bus";
    shell(&format!(
        "setpriv --reuid=joe --regid=joe --clear-groups env -i HOME=/home/joe USER=joe PATH=$PATH sh -ec '{bus}; {command}'"
    ))
}

/// What the user's programs see.
fn got(key: &str) -> String {
    shell(&format!(
        "setpriv --reuid=joe --regid=joe --clear-groups env -i HOME=/home/joe PATH=$PATH LC_ALL=C.UTF-8 gsettings get org.example.demo {key}"
    ))
}

#[track_caller]
fn outcome(bench: &TestEnv, name: &str, gsettings: &Gsettings, run: Run<'_>) -> Result<Checked, Error> {
    runtime().block_on(bench.vertex(name, gsettings.clone()).run(run)).result
}

fn stored() -> Option<Vec<u8>> {
    fs::read("/home/joe/.config/dconf/user").ok()
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, key: &str, gsettings: &Gsettings, shown: &str) {
    let name = format!("org.example.demo {key}");
    let before = stored();
    assert_eq!(outcome(bench, &name, gsettings, Run::LOOK).unwrap(), Checked::Changed, "{key}");
    assert_eq!(stored(), before, "looking has changed something");
    assert_eq!(outcome(bench, &name, gsettings, Run::APPLY).unwrap(), Checked::Changed, "{key}");
    assert_eq!(got(key), shown);
    let before = stored();
    assert_eq!(outcome(bench, &name, gsettings, Run::APPLY).unwrap(), Checked::Right, "{key}");
    assert_eq!(outcome(bench, &name, gsettings, Run::LOOK).unwrap(), Checked::Right, "{key}");
    assert_eq!(stored(), before, "something was touched although all was right");
}

fn settings_of_all_types(bench: &TestEnv) {
    settles(bench, "on", &of("bool", Value::Bool(true)), "true");
    settles(bench, "size", &of("int", Value::Int(5)), "uint32 5");
    settles(bench, "far", &of("int", Value::Int(2)), "2.0");
    settles(bench, "far", &of("", Value::Float(0.25)), "0.25");
    settles(bench, "title", &of("str", text("it's $HOME, é")), "\"it's $HOME, é\"");
    settles(bench, "title", &of("str", text("")), "''");
    settles(bench, "title", &of("custom", text("\"plain\"")), "'plain'");
    settles(bench, "title", &of("custom", text("two words")), "'two words'");
    settles(bench, "title", &of("custom", text("5")), "'5'");
    settles(bench, "colour", &of("str", text("blue")), "'blue'");
    settles(bench, "names", &of("custom", text("[\"a\" ,'b']")), "['a', 'b']");
    let list = List { element: Type::Str, items: vec![text("c"), text("--help")] };
    settles(bench, "names", &of("", Value::List(Arc::new(list))), "['c', '--help']");
    settles(bench, "names", &of("custom", text("[]")), "@as []");
    settles(
        bench,
        "more",
        &of("custom", text("{'b': <uint32 0x5>, 'a': <'x'>}")),
        "{'b': <uint32 5>, 'a': <'x'>}",
    );
    settles(bench, "other", &of("int", Value::Int(-7)), "-7");
}

#[test]
fn settings_of_all_types_are_made_without_a_session() {
    if !on_booted_host("settings_of_all_types_are_made_without_a_session") {
        return;
    }
    prepare();
    let bench = bench();
    settings_of_all_types(&bench);
    assert_eq!(shell("stat -c %U /home/joe/.config/dconf/user"), "joe");
    // Another place of a schema that may be in several.
    let one = Gsettings {
        schema: "org.example.profile:/org/example/one/".into(),
        key: "title".into(),
        ..of("str", text("1"))
    };
    assert_eq!(outcome(&bench, "first", &one, Run::APPLY).unwrap(), Checked::Changed);
    assert_eq!(outcome(&bench, "first", &one, Run::LOOK).unwrap(), Checked::Right);
    let other = Gsettings { schema: "org.example.profile:/org/example/two/".into(), ..one };
    assert_eq!(outcome(&bench, "second", &other, Run::LOOK).unwrap(), Checked::Changed);
    // Our own.
    let own = Gsettings { user: Str::EMPTY, ..of("int", Value::Int(9)) };
    assert_eq!(outcome(&bench, "org.example.demo other", &own, Run::APPLY).unwrap(), Checked::Changed);
    assert_eq!(outcome(&bench, "org.example.demo other", &own, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(shell("gsettings get org.example.demo other"), "9");
    assert_eq!(got("other"), "-7", "those of the other user are others");
}

#[test]
fn settings_of_all_types_are_made_in_a_session() {
    if !on_booted_host("settings_of_all_types_are_made_in_a_session") {
        return;
    }
    prepare();
    start_session();
    let bench = bench();
    settings_of_all_types(&bench);
    // Programs of the session hear of it.
    shell(
        "(setpriv --reuid=joe --regid=joe --clear-groups env -i HOME=/home/joe PATH=$PATH DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/4242/bus gsettings monitor org.example.demo size >/run/heard 2>&1 </dev/null &)",
    );
    runtime().block_on(async {
        let mut size = 10;
        // It may not listen yet.
        for _ in 0..100 {
            size += 1;
            let wanted = of("int", Value::Int(i64::from(size % 100)));
            assert!(bench.vertex("org.example.demo size", wanted).apply().await.result.is_ok());
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            if fs::read_to_string("/run/heard").unwrap_or_default().contains("size: uint32") {
                return;
            }
        }
        panic!("nothing was heard: {:?}", fs::read_to_string("/run/heard"));
    });
}

#[test]
fn what_cannot_be_is_told() {
    if !on_booted_host("what_cannot_be_is_told") {
        return;
    }
    let bench = bench();
    let failed = |name: &str, gsettings: &Gsettings| {
        let error = outcome(&bench, name, gsettings, Run::APPLY).unwrap_err();
        format!("{error}; {}", error.hint().unwrap_or_default())
    };
    let size = of("int", Value::Int(5));
    // Whatever is missing may be about to come, but a run that changes things needs it.
    let missing = |name: &str, gsettings: &Gsettings, expected: &str| {
        assert_eq!(outcome(&bench, name, gsettings, Run::LOOK).unwrap(), Checked::Changed);
        let told = failed(name, gsettings);
        assert!(told.contains(expected), "{told}");
    };
    missing("org.example.demo size", &size, "there is no user \"joe\"");
    shell("useradd --create-home --uid 4242 joe");
    missing("org.example.demo size", &size, "No such schema");
    install_schema();
    missing("org.example.demo weight", &size, "gsettings list-keys org.example.demo");
    let told = failed("org.example.demo size", &of("int", Value::Int(500)));
    assert!(told.contains("gsettings range org.example.demo size"), "{told}");
    let told = failed("org.example.demo size", &of("str", text("five")));
    assert!(told.contains("gsettings range"), "{told}");
    assert_eq!(stored(), None);
    shell(
        "mkdir -p /etc/dconf/db/local.d/locks /etc/dconf/profile; printf 'user-db:user\nsystem-db:local\n' >/etc/dconf/profile/user",
    );
    shell("echo /org/example/demo/size >/etc/dconf/db/local.d/locks/size; dconf update");
    let told = failed("org.example.demo size", &size);
    assert!(told.contains("locked"), "{told}");
    shell("rm -r /etc/dconf/db; mv /usr/bin/dbus-run-session /usr/bin/gone");
    let told = failed("org.example.demo size", &size);
    assert!(told.contains("dbus-run-session is not installed"), "{told}");
    shell("mv /usr/bin/gsettings /usr/bin/gone");
    missing("org.example.demo size", &size, "the program gsettings is not installed");
}

#[test]
fn whatever_somebody_does_to_a_setting_is_an_event_and_repaired() {
    if !on_booted_host("whatever_somebody_does_to_a_setting_is_an_event_and_repaired") {
        return;
    }
    prepare();
    runtime().block_on(async {
        let mut running = RunningEngine::start();
        let specs = vec![
            Spec::new("org.example.demo size", of("int", Value::Int(5))),
            Spec::new("org.example.demo title", of("str", text("mine"))),
            Spec::new("org.example.demo on", of("bool", Value::Bool(true))),
        ];
        running.swap(specs).await;
        let right = || got("size") == "uint32 5" && got("title") == "'mine'" && got("on") == "true";
        assert!(right());
        let without = |command: &str| {
            shell(&format!("setpriv --reuid=joe --regid=joe --clear-groups env -i HOME=/home/joe PATH=$PATH dbus-run-session -- {command}"));
        };
        for drift in ["gsettings set org.example.demo size 6", "dconf reset -f /org/example/"] {
            without(drift);
            soon(drift, right).await;
        }
        // The session begins.
        start_session();
        for drift in [
            "gsettings set org.example.demo size 6",
            "gsettings reset org.example.demo title",
            "gsettings reset-recursively org.example.demo",
            "dconf write /org/example/demo/on false",
            "dconf reset -f /org/example/",
            "printf \"[demo]\\nsize=uint32 8\\n\" | dconf load /org/example/",
            "busctl --user call ca.desrt.dconf /ca/desrt/dconf/Writer/user ca.desrt.dconf.Writer Change ay 0 || true; dconf write /org/example/demo/size \"uint32 9\"",
            "rm .config/dconf/user",
        ] {
            as_joe(&format!("cd; {}", drift.replace('\'', "'\\''")));
            soon(drift, right).await;
        }
        running.stop();
    });
}

#[test]
fn a_user_and_a_schema_that_come_later_are_waited_for() {
    if !on_booted_host("a_user_and_a_schema_that_come_later_are_waited_for") {
        return;
    }
    let bench = bench();
    let wanted = of("int", Value::Int(5));
    runtime().block_on(async {
        let mut events = {
            let watches = mgmt_resource::Resource::watches(&wanted, &"org.example.demo size".into());
            let mgmt_resource::Watch::Stream { start, .. } = &watches[0] else { panic!("{watches:?}") };
            start(&bench.host).unwrap()
        };
        let cancel = mgmt_resource::Cancel::default();
        for step in [
            "useradd --create-home --uid 4242 joe",
            "mkdir -p -m 700 /home/joe/.config/dconf; touch /home/joe/.config/dconf/user",
            "usermod --home /home/moved --move-home joe",
            "touch /home/moved/.config/dconf/user",
        ] {
            shell(step);
            let event = tokio::time::timeout(std::time::Duration::from_secs(30), events.next(&cancel)).await;
            event.unwrap_or_else(|_| panic!("no event: {step}")).unwrap();
        }
        install_schema();
        let event = tokio::time::timeout(std::time::Duration::from_secs(30), events.next(&cancel)).await;
        event.expect("no event for a schema").unwrap();
    });
}

#[test]
fn a_setting_comes_after_its_user_and_its_schema() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let exists = || "exists".into();
    let specs = vec![
        Spec::new("org.example.demo size", Gsettings { group: "staff".into(), ..of("int", Value::Int(5)) }),
        Spec::new("joe", User { state: exists(), ..User::default() }),
        Spec::new("staff", Group { state: exists(), ..Group::default() }),
        file("/usr/share/glib-2.0/schemas/org.example.demo.gschema.xml"),
        file("/etc/dconf/profile/user"),
        file("/etc/motd"),
    ];
    let edges = edges(specs);
    for expected in [
        "user[joe] -> gsettings[org.example.demo size]",
        "group[staff] -> gsettings[org.example.demo size]",
        "file[/usr/share/glib-2.0/schemas/org.example.demo.gschema.xml] -> gsettings[org.example.demo size]",
        "file[/etc/dconf/profile/user] -> gsettings[org.example.demo size]",
    ] {
        assert!(edges.contains(&expected.to_owned()), "{expected}: {edges:?}");
    }
    assert!(!edges.iter().any(|edge| edge.contains("motd -> gsettings")), "{edges:?}");
}
