//! Manifests of Puppet with schedules, with the real Puppet.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use jiff::{ToSpan as _, Zoned};
use mgmt_test_support::program::{RunningProgram, holds, mgmt_output};
use rustix::process::Signal;

const ONCE: [&str; 3] = ["--converger-timeout", "1", "--converged-exit"];

/// A range of hours that begins so many hours from now and lasts for two.
fn range(hours: i64) -> String {
    let begin = Zoned::now().checked_add(hours.hours()).unwrap();
    let end = begin.checked_add(2.hours()).unwrap();
    format!("{} - {}", begin.strftime("%H:%M"), end.strftime("%H:%M"))
}

fn site(root: &Path) -> String {
    SITE.replace("ROOT", root.to_str().unwrap()).replace("OPEN", &range(-1)).replace("CLOSED", &range(3))
}

const SITE: &str = "
schedule { 'open': range => 'OPEN', period => daily }
schedule { 'closed': range => 'CLOSED' }
File { content => 'x' }
file { 'ROOT/open': schedule => 'open' }
file { 'ROOT/closed': schedule => 'closed' }
-> file { 'ROOT/after': }
file { 'ROOT/never': schedule => 'never' }
file { 'ROOT/usual': schedule => 'puppet' }
exec { 'daily': command => '/bin/echo ran >> ROOT/daily', provider => shell, schedule => 'daily' }
exec { 'restart': command => '/bin/touch ROOT/restarted', refreshonly => true, schedule => 'never', subscribe => File['ROOT/after'] }
file_line { 'odd': path => 'ROOT/lines', line => 'x', multiple => true, match => 'y', schedule => 'never' }
";

/// The names of what is in a directory.
fn names(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_has_a_schedule_ends_up_as_with_puppet_and_a_kill_forgets_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (theirs, ours, prefix) =
        (place.path().join("theirs"), place.path().join("ours"), place.path().join("prefix"));
    for root in [&theirs, &ours] {
        std::fs::create_dir(root).unwrap();
        std::fs::write(root.join("lines"), "y\n").unwrap();
        std::fs::write(root.with_extension("pp"), site(root)).unwrap();
    }
    let state = place.path().join("state");
    let apply = || {
        let mut puppet = Command::new("puppet");
        puppet.args(["apply", "--color=false", "--statefile"]).arg(&state).arg(theirs.with_extension("pp"));
        assert!(puppet.status().unwrap().success());
    };
    apply();
    apply();
    let expected = ["after", "daily", "lines", "open", "usual"];
    assert_eq!(names(&theirs), expected);
    assert_eq!(std::fs::read_to_string(theirs.join("daily")).unwrap(), "ran\n");

    let manifest = ours.with_extension("pp");
    let (manifest, prefix) = (manifest.to_str().unwrap(), prefix.to_str().unwrap());
    let mut run = RunningProgram::start(&["run", "--prefix", prefix, "puppet", manifest]);
    holds(&ours.join("daily"), "ran\n");
    for name in ["open", "usual", "after"] {
        holds(&ours.join(name), "x");
    }
    run.wait_for("left alone until");
    run.signal(Signal::KILL);
    run.end();
    // It is known that both have run, so nothing is done again.
    std::fs::remove_file(ours.join("open")).unwrap();
    let words = [&["run", "--prefix", prefix][..], &ONCE, &["puppet", manifest]].concat();
    let again = mgmt_output(&words);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(names(&ours), ["after", "daily", "lines", "usual"]);
    assert_eq!(std::fs::read_to_string(ours.join("daily")).unwrap(), "ran\n");
    assert_eq!(std::fs::read_to_string(ours.join("lines")).unwrap(), "y\n");
    // A plan of that run knows, too; one of another does not.
    let plan = mgmt_output(&["plan", "--prefix", prefix, "puppet", manifest]);
    let held = |stdout: &str, name: &str| {
        let after = stdout.split_once(&format!("{name}]")).map_or("", |(_, after)| after);
        after.lines().nth(1).is_some_and(|line| line.trim_start().starts_with("held "))
    };
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    for name in ["ours/open", "ours/closed", "ours/never", "daily", "restart", "odd"] {
        assert!(held(&plan.stdout, name), "{name}: {}", plan.stdout);
    }
    assert!(
        plan.stdout.contains("nothing to change") && plan.stdout.contains("left alone until later"),
        "{}",
        plan.stdout
    );
    let other = place.path().join("other");
    let plan = mgmt_output(&[
        "plan",
        "--prefix",
        other.to_str().unwrap(),
        "--detailed-exitcode",
        "puppet",
        manifest,
    ]);
    assert_eq!(plan.code, 2, "{}", plan.stderr);
    assert!(!held(&plan.stdout, "ours/open") && held(&plan.stdout, "ours/closed"), "{}", plan.stdout);
}

#[test]
fn a_schedule_is_seen_where_manifests_are_looked_at_and_puppet_can_ignore_it() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let code = |schedule: &str| format!("file {{ '{}': content => 'x'{schedule} }}", out.display());
    let (with, without) = (code(", schedule => 'never'"), code(""));
    let stats = mgmt_output(&["puppet", "stats", &with]);
    assert!(stats.code == 0 && stats.stdout.contains("1 native\n"), "{}{}", stats.stdout, stats.stderr);
    let print = mgmt_output(&["puppet", "print", "--format", "yaml", &with]);
    assert!(print.code == 0 && print.stdout.contains("never"), "{}{}", print.stdout, print.stderr);
    // What was printed is read back with it.
    let file = place.path().join("graph.yaml");
    std::fs::write(&file, &print.stdout).unwrap();
    let file = file.to_str().unwrap();
    let same = mgmt_output(&["diff", "--no-order", file, &format!("puppet:{with}")]);
    assert_eq!(same.code, 0, "{}{}", same.stdout, same.stderr);
    let diff = mgmt_output(&["diff", "--no-order", file, &format!("puppet:{without}")]);
    assert!(diff.code != 0 && diff.stdout.contains("meta window"), "{}{}", diff.stdout, diff.stderr);
    let conf = place.path().join("puppet.conf");
    std::fs::write(&conf, "[agent]\nignoreschedules = true\n").unwrap();
    let words =
        [&["run", "--tmp-prefix"], &ONCE[..], &["--puppet-conf", conf.to_str().unwrap(), "puppet", &with]];
    let run = mgmt_output(&words.concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "x");
}
