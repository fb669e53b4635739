//! What is told is kept, whatever happens to the disk or to us.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgmt_engine::{Cause, Ended, FieldChange, Health, MemberEffects, Ran, Undone, Witness};
use mgmt_history::{CauseRecord, Journal, Limits, Outcome, Record, Recorder, read};
use mgmt_resource::{Because, ChangedValue, Effect, Id, Spec};
use mgmt_resources::noop::Noop;

fn recorder(directory: &Path) -> Recorder {
    Recorder::start(Journal::open(directory.join("history"), Limits::default()).unwrap()).unwrap()
}

fn records(directory: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    read(&directory.join("history"), |record| records.push(record)).unwrap();
    records
}

/// A run of the resource `name` that changed something, because of `causes`.
fn changed(recorder: &Recorder, name: &str, causes: &[Cause], effects: Vec<Effect>) {
    let spec = Spec::new(name, Noop::default());
    let effects = Arc::new(vec![MemberEffects { id: spec.id.clone(), effects }]);
    recorder.ran(Ran {
        id: &spec.id,
        spec: &spec,
        apply: true,
        ended: Ended::Changed,
        error: None,
        took: Duration::from_micros(1500),
        since: Some(Duration::from_millis(2)),
        causes,
        effects: &effects,
    });
}

fn failed(recorder: &Recorder, name: &str, error: &str, causes: &[Cause]) {
    let spec = Spec::new(name, Noop::default());
    recorder.ran(Ran {
        id: &spec.id,
        spec: &spec,
        apply: true,
        ended: Ended::Failed,
        error: Some(error),
        took: Duration::ZERO,
        since: None,
        causes,
        effects: &Arc::default(),
    });
}

fn redeclared(before: &str, after: &str) -> Cause {
    let (before, after) = (Some(before.to_owned()), Some(after.to_owned()));
    Cause::Redeclared {
        fields: vec![FieldChange { field: "content", member: None, before, after }],
        because: None,
    }
}

#[test]
fn at_the_end_everything_is_written_whoever_still_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Arc::new(recorder(directory.path()));
    let elsewhere = Arc::clone(&recorder);
    for number in 0..100 {
        changed(&recorder, &number.to_string(), &[], Vec::new());
    }
    recorder.finish();
    assert_eq!(records(directory.path()).len(), 100);
    elsewhere.finish();
    drop((recorder, elsewhere));
    assert_eq!(records(directory.path()).len(), 100);
}

#[test]
fn a_change_is_kept_with_its_cause_and_its_effect_and_the_texts_difference() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = recorder(directory.path());
    recorder.deploy(7);
    let effect = Effect::change("/x").aspect("content").texts(Some(b"a\n"), Some(b"b\n"));
    changed(&recorder, "one", &[redeclared("\"a\"", "\"b\"")], vec![effect]);
    drop(recorder);
    let [record] = &records(directory.path())[..] else { panic!() };
    assert_eq!((&*record.resource, record.outcome, record.deploy), ("noop[one]", Outcome::Changed, Some(7)));
    assert_eq!((record.took, record.since), (1500, Some(2000)));
    let [CauseRecord::Redeclared { fields, .. }] = &record.causes[..] else { panic!() };
    assert_eq!(fields[0].before.as_deref(), Some("\"a\""));
    assert_eq!(record.effects[0].diff.as_deref(), Some("--- /x\n+++ /x\n@@ -1,1 +1,1 @@\n-a\n+b\n"));
    assert!(record.is_about("noop[one]") && record.is_about("one") && record.is_about("/x"));
    assert!(!record.is_about("/") && !record.is_about("on"));
}

#[test]
fn nothing_of_what_is_private_reaches_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = recorder(directory.path());
    let effect = Effect { private: true, ..Effect::change("/etc/key").aspect("content") };
    changed(&recorder, "one", &[redeclared("canary-1", "canary-2")], vec![effect]);
    drop(recorder);
    let text = std::fs::read_to_string(directory.path().join("history/0000000001.jsonl")).unwrap();
    assert!(text.contains("/etc/key") && !text.contains("canary"), "{text}");
}

#[test]
fn values_that_may_be_in_a_secret_parameter_do_not_either() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = recorder(directory.path());
    let values = |function: &str| {
        let value = ChangedValue {
            function: function.into(),
            origin: None,
            before: Some("canary-1".into()),
            after: Some("canary-2".into()),
            event: None,
        };
        Some(Arc::new(Because { values: vec![value] }))
    };
    let field = FieldChange { field: "env", member: None, before: None, after: None };
    let cause = Cause::Redeclared { fields: vec![field], because: values("os.readfile") };
    changed(&recorder, "one", &[cause], vec![Effect::run("/bin/true")]);
    // It has failed before it could say that it is private.
    let cause = redeclared("canary-3", "canary-4");
    failed(&recorder, "two", "no such directory", &[cause]);
    drop(recorder);
    let text = std::fs::read_to_string(directory.path().join("history/0000000001.jsonl")).unwrap();
    assert!(text.contains("os.readfile") && text.contains("no such directory"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn a_torn_record_is_passed_over_and_the_next_life_goes_on_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    changed(&recorder(directory.path()), "first", &[], vec![]);
    let path = directory.path().join("history/0000000001.jsonl");
    let whole = std::fs::read(&path).unwrap();
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    file.write_all(&whole[..whole.len() / 2]).unwrap();
    assert_eq!(records(directory.path()).len(), 1);
    changed(&recorder(directory.path()), "second", &[], vec![]);
    file.write_all(b"\xff\xfe not ours\n{\"v\":99}\n").unwrap();
    let names: Vec<_> = records(directory.path()).into_iter().map(|record| record.resource).collect();
    assert_eq!(names, ["noop[first]".into(), "noop[second]".into()]);
}

#[test]
fn the_oldest_go_and_the_newest_stay() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { file: 1000, files: 3, ..Limits::default() };
    for life in 0..50 {
        let journal = Journal::open(directory.path().join("history"), limits).unwrap();
        let recorder = Recorder::start(journal).unwrap();
        (0..4).for_each(|n| changed(&recorder, &format!("{life}-{n}"), &[], vec![]));
    }
    let kept = records(directory.path());
    assert!((8..60).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().map(|record| &*record.resource), Some("noop[49-3]"));
    assert!(std::fs::read_dir(directory.path().join("history")).unwrap().count() <= 3);
}

#[test]
fn a_full_disk_stops_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("history");
    std::fs::create_dir(&history).unwrap();
    std::os::unix::fs::symlink("/dev/full", history.join("0000000001.jsonl")).unwrap();
    let mut journal = Journal::open(history.clone(), Limits::default()).unwrap();
    assert!(journal.append(b"{}\n").is_err());
    let recorder = Recorder::start(journal).unwrap();
    changed(&recorder, "lost", &[], vec![]);
    drop(recorder);
    // There is room again.
    std::fs::remove_file(history.join("0000000001.jsonl")).unwrap();
    changed(&self::recorder(directory.path()), "kept", &[], vec![]);
    assert_eq!(records(directory.path()).len(), 1);
}

#[test]
fn a_failure_is_told_once_until_it_is_another_or_was_over() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = recorder(directory.path());
    ["a", "a", "b"].into_iter().for_each(|error| failed(&recorder, "x", error, &[]));
    recorder.health(&Id::new("noop", "x"), Health::Ok);
    failed(&recorder, "x", "b", &[]);
    let (id, by) = (Id::new("noop", "x"), Id::new("noop", "y"));
    let undone = Undone { id: &id, by: Some(&by), times: 12, wait: Duration::from_secs(1) };
    recorder.health(&id, Health::Flapping(undone));
    drop(recorder);
    let told: Vec<_> =
        records(directory.path()).into_iter().map(|r| (r.outcome, r.message.unwrap_or_default())).collect();
    assert_eq!(told.len(), 5);
    assert_eq!((told[2].0, told[4].0), (Outcome::Recovered, Outcome::Undone));
    assert!(told[4].1.contains("reverted by noop[y] 12 times"), "{told:?}");
}
