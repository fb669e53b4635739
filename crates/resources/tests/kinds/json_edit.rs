//! `json:edit` on real files and in the real store, and `ini` on real files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::host_common;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::common::{Run, TestEnv};
use crate::host_common::{RunningEngine, edges, shell, snapshot, soon, text};
use mgmt_resource::{Checked, Spec};
use mgmt_resources::file::File;
use mgmt_resources::ini::Ini;
use mgmt_resources::json_edit::JsonEdit;
use mgmt_resources::kv::Kv;
use mgmt_value::Str;

fn json(edits: &[&str]) -> JsonEdit {
    JsonEdit { store: Str::EMPTY, edits: edits.iter().map(|edit| Str::from(*edit)).collect() }
}

#[tokio::test]
async fn values_are_set_and_deleted_and_all_else_stays() {
    let bench = TestEnv::new();
    let path = bench.path("settings.json");
    fs::write(&path, "{\n  \"log\": {\"level\":\"info\"},\n  \"old\": 1,\n  \"big\": 1.50\n}\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&path, Some(7), Some(8)).unwrap();
    let seen = || snapshot(&[path.parent().unwrap().to_str().unwrap()]);
    let edits = [".log.level = \"debug\"", ".log[\"to file\"] = true", "del(.old)", ".new.list = [1, 2]"];
    let mut vertex = bench.vertex(text(&path), json(&edits));
    let before = seen();
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    let wanted = "{\n  \"log\": {\"level\":\"debug\", \"to file\": true},\n  \"big\": 1.50,\n  \"new\": {\n    \"list\": [\n      1,\n      2\n    ]\n  }\n}\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted);
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o640, 7, 8));
    let before = seen();
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(vertex.look().await.checked(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
    let url = JsonEdit { store: format!("file://{}", path.display()).into(), ..json(&edits) };
    assert_eq!(bench.vertex("any name", url).apply().await.checked(), Checked::Right);
}

#[tokio::test]
async fn what_cannot_be_edited_is_told_and_left_alone() {
    let bench = TestEnv::new();
    let path = bench.path("a.json");
    let mut vertex = bench.vertex(text(&path), json(&[".a = 1", ".b.c = 2"]));
    assert_eq!(vertex.look().await.checked(), Checked::Changed, "somebody may be about to make it");
    let error = vertex.apply().await.result.unwrap_err();
    assert!(error.to_string().contains("there is no file"), "{error}");
    assert!(error.hint().unwrap().contains("declare a file"));
    for (content, why) in [
        ("", "not right"),
        ("[]", "a list, and not an object"),
        ("{\"b\": 7}", ".b is a number"),
        ("{\"a\": 1,}", "not right"),
        ("{\"a\": 1, \"a\": 1}", "twice"),
    ] {
        fs::write(&path, content).unwrap();
        for run in [Run::LOOK, Run::APPLY] {
            let error = vertex.run(run).await.error();
            assert!(error.contains(why) && error.contains("a.json"), "{content}: {error}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    // Neither links nor anything but files.
    let target = bench.path("target.json");
    fs::rename(&path, &target).unwrap();
    fs::write(&target, "{}").unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(vertex.apply().await.error().contains("a symbolic link"));
    assert_eq!(fs::read(&target).unwrap(), b"{}");
    fs::remove_file(&path).unwrap();
    host_common::run("mkfifo", &[path.to_str().unwrap()]);
    assert!(vertex.apply().await.error().contains("a FIFO"));
}

#[tokio::test]
async fn a_document_in_the_store_of_the_cluster_begins_empty() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("etcd:///config/web", json(&[".port = 80"]));
    let stored = || async { bench.host.strings().shared(&"config/web".into()).await.unwrap() };
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(stored().await, None);
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(stored().await, Some("{\n\t\"port\": 80\n}".into()));
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    bench.host.strings().set_shared(&"config/web".into(), Some(&"7".into())).await.unwrap();
    assert!(vertex.apply().await.error().contains("not an object"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_to_a_document_is_an_event_and_repaired() {
    let mut running = RunningEngine::start();
    let path = running.path("a.json");
    fs::write(&path, "{\"mine\": 1, \"yours\": 1}\n").unwrap();
    // Many at once, of one file and of one key.
    let mut specs: Vec<Spec> = (0..20)
        .map(|number| {
            let store = if number % 2 == 0 { text(&path) } else { "etcd:///shared".into() };
            let edits =
                [".mine = 2".to_owned(), format!(".all.n{number} = {number}"), "del(.yours)".to_owned()];
            let edits = edits.iter().map(|edit| Str::from(edit.as_str())).collect();
            Spec::new(format!("edit {number}"), JsonEdit { store, edits })
        })
        .collect();
    specs.push(Spec::new("copy", Kv { key: "unrelated".into(), value: Some("x".into()), ..Kv::default() }));
    running.swap(specs).await;
    let right = || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let Ok(found) = serde_json::from_str::<serde_json::Value>(&text) else { return false };
        let all = (0..20).step_by(2).all(|number| found["all"][format!("n{number}")] == number);
        found["mine"] == 2
            && found.get("yours").is_none()
            && all
            && found.get("kept").is_none_or(|kept| kept == "é")
    };
    assert!(right());
    for drift in [
        "sed -i 's/\"mine\": 2/\"mine\": 3/' a.json",
        "printf '{\"kept\": \"é\"}' >x; mv x a.json",
        "printf '{\"yours\": 9, \"mine\": {}}' >a.json",
        "rm a.json; printf '{}' >a.json",
    ] {
        shell(&format!("cd {}; {drift}", path.parent().unwrap().display()));
        soon(drift, right).await;
    }
    running.stop();
}

#[test]
fn an_edit_comes_after_the_file_it_edits() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let specs = vec![file("/a/"), file("/b/c.json"), Spec::new("/a/b/c.json", json(&[".a = 1"]))];
    assert_eq!(edges(specs), ["file[/a/] -> json:edit[/a/b/c.json]"]);
    let edit = JsonEdit { store: "file:///b/c.json".into(), ..json(&[".a = 1"]) };
    assert_eq!(edges(vec![file("/b/c.json"), Spec::new("x", edit)]), ["file[/b/c.json] -> json:edit[x]"]);
}

fn ini(file: Str, value: &str) -> Ini {
    Ini {
        file,
        state: "exists".into(),
        section: "PHP".into(),
        setting: "memory_limit".into(),
        value: Some(value.into()),
        ..Ini::default()
    }
}

#[tokio::test]
async fn a_setting_is_made_changed_and_removed_and_all_else_stays() {
    let bench = TestEnv::new();
    let path = bench.path("php.ini");
    let seen = || snapshot(&[path.parent().unwrap().to_str().unwrap()]);
    let mut vertex = bench.vertex("memory", ini(text(&path), "1M"));
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert!(!path.exists(), "looking has changed something");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(fs::read_to_string(&path).unwrap(), "[PHP]\nmemory_limit = 1M\n");
    let content = "; mine\n[PHP]\nmemory_limit=2M\nother = x\n\n[Date]\nmemory_limit = 3\n";
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(fs::read_to_string(&path).unwrap(), content.replace("2M", "1M"));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    let before = seen();
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(vertex.look().await.checked(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
    let absent = Ini { state: "absent".into(), ..ini(text(&path), "") };
    let mut vertex = bench.vertex("memory", absent);
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(fs::read_to_string(&path).unwrap(), content.replace("memory_limit=2M\n", ""));
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
}

#[tokio::test]
async fn a_setting_in_what_is_no_file_is_told_and_nothing_is_touched() {
    let bench = TestEnv::new();
    let (path, target) = (bench.path("a.ini"), bench.path("target"));
    fs::write(&target, "x\n").unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    let error = bench.vertex("a", ini(text(&path), "1")).apply().await.error();
    assert!(error.contains("symbolic link"), "{error}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_to_a_setting_is_an_event_and_repaired() {
    let mut running = RunningEngine::start();
    let path = running.path("a.ini");
    let specs = (0..10).map(|number| {
        let setting = Str::from(format!("s{number}"));
        Spec::new(format!("setting {number}"), Ini { setting, ..ini(text(&path), "1") })
    });
    running.swap(specs.collect()).await;
    let right = || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        (0..10).all(|number| text.lines().any(|line| line == format!("s{number} = 1")))
    };
    soon("all settings are there", right).await;
    for drift in ["sed -i 's/s3 = 1/s3 = 2/' a.ini", "printf '[PHP]\n;s1 = 1\n' >a.ini", "rm a.ini"] {
        shell(&format!("cd {}; {drift}", path.parent().unwrap().display()));
        soon(drift, right).await;
    }
    running.stop();
}

#[test]
fn a_setting_comes_after_its_file_and_the_directory_of_it() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let specs = vec![file("/a/"), file("/b/c.ini"), Spec::new("x", ini("/a/b.ini".into(), "1"))];
    assert_eq!(edges(specs), ["file[/a/] -> ini[x]"]);
    assert_eq!(
        edges(vec![file("/b/c.ini"), Spec::new("x", ini("/b/c.ini".into(), "1"))]),
        ["file[/b/c.ini] -> ini[x]"]
    );
}
