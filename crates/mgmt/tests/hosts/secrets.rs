//! Secrets do not get out: a program full of them runs on a booted host, as people and as a service would run it, and whatever
//! comes out of it is searched. The journal is the real one, so its fields are looked at here, too. A panic is a way out as well,
//! which no program of this kind takes; `src/panics.rs` takes it with secrets in its message.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::booted_host;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use mgmt_test_support::booted_host::run;
use mgmt_test_support::program::eventually;
use serde_json::Value as Json;

const MGMT: &str = "/mgmt-test-result/mgmt";

/// In every secret, and nowhere else.
const CANARY: &str = "c4n4ry";

/// Secrets as parameters, as contents that not everybody may read, as values of functions, sent and received; of resources that are
/// put right, that fail, that only look, and that are undone.
const PROGRAM: &str = r#"import "os"

$secret = os.readfile("/t/secret")
$hash = "$" + "6$" + "c4n4ry$0123456789"

user "planned" { state => "exists", password => $hash, }
file "/t/key" { state => "exists", content => $secret, mode => "0600", Meta:reverse => true, }
file "/t/looked-at" { state => "exists", content => $secret, mode => "0400", Meta:noop => true, }
file "/t/no/such/place" { state => "exists", content => $secret, mode => "0600", }
file "/t/received" { state => "exists", content => "", mode => "0600", }
password "p" { length => 12, saved => true, }
Password["p"].password -> File["/t/received"].content
exec "works" { cmd => "/bin/true", env => {"TOKEN" => $secret, "HASH" => $hash,}, }
exec "fails" { cmd => "/bin/false", env => {"TOKEN" => $secret,}, Meta:retry => 1, Meta:delay => 10, }
exec "prints" { cmd => "echo $TOKEN; echo $TOKEN >&2; exit 3", shell => "/bin/sh", env => {"TOKEN" => $secret,}, }
exec "slow" { cmd => "/bin/sleep 2", env => {"TOKEN" => $secret,}, }
exec "cannot" { cmd => "/no/such/program", env => {"TOKEN" => $secret,}, }
pippet "left" { type => "file", title => "/t/puppet", params => "{\"content\": \"c4n4ry\", \"mode\": \"0600\"}", sensitive => ["content",], }
"#;

/// What was said, by whom.
#[derive(Default)]
struct Channels(Vec<(String, String)>);

impl Channels {
    /// Asks the program for something, and keeps all of the answer.
    fn ask(&mut self, arguments: &[&str]) -> String {
        let output = Command::new(MGMT).args(arguments).current_dir("/").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, errors) = (text(&output.stdout), text(&output.stderr));
        self.keep(&arguments.join(" "), format!("{out}\n{errors}"));
        out
    }

    fn keep(&mut self, what: &str, text: String) {
        let may_be_silent = what.starts_with("check") || what.starts_with("deploy");
        assert!(may_be_silent || !text.trim().is_empty(), "`{what}` has said nothing");
        self.0.push((what.to_owned(), text));
    }

    fn have_no(&self, secrets: &[String]) {
        let mut leaks = Vec::new();
        for (what, text) in &self.0 {
            for line in text.lines().filter(|line| secrets.iter().any(|secret| line.contains(secret))) {
                leaks.push(format!("`{what}` tells: {line}"));
            }
        }
        assert!(leaks.is_empty(), "{}", leaks.join("\n"));
    }
}

fn sh(text: &str) -> String {
    run("sh", &["-ec", text])
}

#[test]
fn no_secret_comes_out_and_the_journal_has_fields() {
    if booted_host::is_booted() {
        return on_a_booted_host();
    }
    let name = "no_secret_comes_out_and_the_journal_has_fields";
    booted_host::on_booted_host_with(name, &[("mgmt", Path::new(env!("CARGO_BIN_EXE_mgmt")))]);
}

fn on_a_booted_host() {
    sh("mkdir -m 711 /t; ip link set lo up");
    std::fs::write("/t/secret", format!("{CANARY} one\n")).unwrap();
    std::fs::write("/t/key", format!("{CANARY} zero\n")).unwrap();
    sh("chmod 600 /t/secret /t/key");
    std::fs::write("/t/main.mcl", PROGRAM).unwrap();
    let mut channels = Channels::default();
    before_it_runs(&mut channels);
    while_it_runs(&mut channels);
    let answer = channels.ask(&["history", "--prefix", "/t/prefix", "--format", "json"]);
    for resource in ["/t/key", "/t/no/such/place", "exec[works]", "exec[cannot]", "user[planned]"] {
        channels.ask(&["why", resource, "--prefix", "/t/prefix"]);
        channels.ask(&["why", resource, "--prefix", "/t/prefix", "--format", "json"]);
        assert!(answer.contains(resource), "{resource} is not in {answer}");
    }
    channels.ask(&["history", "--prefix", "/t/prefix"]);
    channels.keep("the history itself", sh("cat /t/prefix/history/*"));
    let generated = std::fs::read_to_string("/t/received").unwrap();
    assert!(generated.len() >= 12, "{generated}");
    channels.have_no(&[CANARY.to_owned(), generated.trim().to_owned()]);
    what_is_kept_is_private(&mut channels);
}

/// Plans, drawings, and what only looks.
fn before_it_runs(channels: &mut Channels) {
    let program = "/t/main.mcl";
    channels.ask(&["check", "lang", program]);
    channels.ask(&["--message-format=json", "check", "lang", program]);
    for format in ["text", "dot", "mermaid", "svg", "json"] {
        channels.ask(&["graph", "--format", format, "lang", program]);
    }
    channels.ask(&["plan", "lang", program]);
    channels.ask(&["plan", "--format", "json", "lang", program]);
    channels.ask(&["diff", program, "lang:print \"x\" {}"]);
    channels.ask(&["--message-format=json", "diff", program, "lang:print \"x\" {}"]);
    channels.keep(
        "repl",
        sh(&format!("printf ':load {program}\\n:graph\\n:vars\\n:type $secret\\n' | {MGMT} repl 2>&1")),
    );
    let once = ["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", "--max-runtime=120"];
    channels.ask(&[&["--log=trace"], &once[..], &["--noop", "lang", program]].concat());
    // A plan for later has all parameters, and is nobody else's.
    channels.ask(&["plan", "--out", "/t/plan", "lang", program]);
    assert!(std::fs::read_to_string("/t/plan").unwrap().contains(CANARY));
    assert_eq!(Path::new("/t/plan").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    channels.ask(&["--log=trace", "apply", "/t/plan", "--prefix", "/t/applied"]);
    channels.ask(&["history", "--prefix", "/t/applied", "--format", "json"]);
    sh("rm -rf /t/received; userdel planned");
    std::fs::write("/t/key", format!("{CANARY} zero\n")).unwrap();
    // On a terminal, where it shows how far it is.
    let line = format!("{MGMT} {} lang {program}", once.join(" "));
    let shown = sh(&format!("TERM=xterm script --quiet --command '{line}' /dev/null </dev/null || true"));
    assert!(shown.contains("exec[slow]") && shown.contains(" running"), "{shown}");
    channels.keep("a terminal", shown);
    sh("rm -rf /t/received /t/puppet; userdel planned");
    std::fs::write("/t/key", format!("{CANARY} zero\n")).unwrap();
    // As somebody does who reads lines by program.
    channels.ask(&[&["--log=trace", "--message-format=json"], &once[..], &["lang", program]].concat());
    sh("rm -rf /t/received /t/puppet; userdel planned");
    std::fs::write("/t/key", format!("{CANARY} zero\n")).unwrap();
}

/// As a service, whose lines are in the journal.
fn while_it_runs(channels: &mut Channels) {
    let flags = "--log=trace run --prefix /t/prefix --graphviz /t/graph --prometheus --prometheus-listen 127.0.0.1:9233";
    sh(&format!("systemd-run --quiet --unit=canary --property=Type=notify {MGMT} {flags} lang /t/main.mcl"));
    let key = |text: &str| std::fs::read_to_string("/t/key").is_ok_and(|found| found == text);
    eventually("the key is there", || key("c4n4ry one\n"));
    eventually("the failure is there", || {
        journal().iter().any(|entry| {
            entry["MESSAGE"]
                .as_str()
                .is_some_and(|text| text.starts_with("exec[fails]: failed, not retrying: "))
        })
    });
    eventually("Puppet has done its part", || Path::new("/t/puppet").exists());
    std::fs::write("/t/secret", "c4n4ry two\n").unwrap();
    eventually("another key is there", || key("c4n4ry two\n"));
    // Somebody else puts another secret there.
    std::fs::write("/t/key", "c4n4ry three\n").unwrap();
    eventually("the key is back", || key("c4n4ry two\n"));
    eventually("that is told", || journal().iter().filter(|entry| is_change(entry)).count() >= 3);
    channels.keep("metrics", sh("curl --silent --show-error http://127.0.0.1:9233/metrics"));
    channels.ask(&["status", "--prefix", "/t/prefix"]);
    channels.ask(&["status", "--prefix", "/t/prefix", "--format", "json"]);
    channels.ask(&["log", "--prefix", "/t/prefix", "trace"]);
    channels.ask(&["log", "--prefix", "/t/prefix"]);
    channels
        .keep("the service manager", sh("systemctl status --no-pager --full --lines=1000 canary.service"));
    channels.keep("the drawing", sh("cat /t/graph@*"));
    channels.keep("arguments of processes", sh("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'"));
    sh("systemctl stop canary.service");
    // It has said so itself, in the end.
    eventually("the last words", || {
        journal()
            .iter()
            .any(|entry| entry["MESSAGE"].as_str().is_some_and(|text| text.starts_with("ended: ")))
    });
    channels.keep("the journal", sh("journalctl --no-pager --output=json --all"));
    fields(&journal());
}

/// The entries of the service.
fn journal() -> Vec<Json> {
    let text = sh("journalctl --no-pager --output=json --all --unit=canary.service");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_change(entry: &Json) -> bool {
    entry["MGMT_RESOURCE"] == "file[/t/key]"
        && entry["MESSAGE"].as_str().is_some_and(|text| text.contains(": changed in "))
}

/// The journal knows who speaks, of what kind that is, and how much it matters.
fn fields(entries: &[Json]) {
    let ours: Vec<&Json> = entries.iter().filter(|entry| entry["SYSLOG_IDENTIFIER"] == "mgmt").collect();
    let change = ours.iter().find(|entry| is_change(entry)).unwrap();
    for (field, expected) in [
        ("PRIORITY", "6"),
        ("MGMT_KIND", "file"),
        ("MGMT_PART", "engine"),
        ("MESSAGE_ID", "273d662a212c5f301338f38a57b8c344"),
        ("MGMT_CAUSE", "declared"),
        ("_TRANSPORT", "journal"),
        ("_SYSTEMD_UNIT", "canary.service"),
    ] {
        assert_eq!(change[field], expected, "{field}: {change}");
    }
    let says = |entry: &Json, words: &str| entry["MESSAGE"].as_str().is_some_and(|text| text.contains(words));
    let failed = ours.iter().find(|entry| says(entry, "exec[fails]: failed, not retrying: ")).unwrap();
    assert_eq!((&failed["PRIORITY"], &failed["MGMT_KIND"]), (&"3".into(), &"exec".into()), "{failed}");
    let retried = ours.iter().find(|entry| says(entry, "(attempt 1)"));
    assert_eq!(retried.unwrap()["PRIORITY"], "3");
    let hinted = ours.iter().find(|entry| entry["MGMT_HINT"].is_string()).unwrap();
    assert!(hinted["MESSAGE"].as_str().unwrap().contains(hinted["MGMT_HINT"].as_str().unwrap()), "{hinted}");
    // Nothing of the log is a line of standard error; that it is mgmt is said on standard output.
    let plain: Vec<_> = ours.iter().filter(|entry| entry["_TRANSPORT"] != "journal").collect();
    assert!(plain.iter().all(|entry| entry["MESSAGE"].as_str().unwrap().starts_with("mgmt ")), "{plain:#?}");
    // Who looks for a resource finds it.
    let found = sh("journalctl --no-pager --output=cat 'MGMT_RESOURCE=exec[fails]' PRIORITY=3");
    assert!(found.contains("failed, not retrying"), "{found}");
}

/// What the program keeps for itself, and what somebody has it write out, nobody else can read.
fn what_is_kept_is_private(channels: &mut Channels) {
    let deployed = ["deploy", "--prefix", "/t/prefix", "--no-git", "lang", "/t/main.mcl"];
    sh(&format!(
        "systemd-run --quiet --unit=canary-store --property=Type=notify {MGMT} run --prefix /t/prefix --noop empty"
    ));
    channels.ask(&deployed);
    let mut told = Channels::default();
    for words in [&["list"][..], &["show", "1"]] {
        told.ask(&[&["deploy", "--prefix", "/t/prefix"], words].concat());
        told.ask(&[&["--json", "deploy", "--prefix", "/t/prefix"], words].concat());
    }
    told.have_no(&[CANARY.to_owned()]);
    run(MGMT, &["world", "export", "/t/dump", "--prefix", "/t/prefix"]);
    assert_eq!(Path::new("/t/dump").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    sh("systemctl stop canary-store.service");
    sh("chmod 755 /t");
    assert!(!sh(&format!("grep -rl {CANARY} /t/prefix /t/dump || true")).is_empty());
    let seen = sh(&format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups grep -rls {CANARY} /t/ /run/systemd || true"
    ));
    let allowed = ["/t/main.mcl"];
    let leaks: Vec<&str> = seen.lines().filter(|path| !allowed.contains(path)).collect();
    assert!(leaks.is_empty(), "everybody can read {leaks:?}");
}
