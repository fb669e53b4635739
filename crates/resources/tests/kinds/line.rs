//! `line` on a real file system.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use crate::common::TestEnv;
use mgmt_resource::{Checked, Kind, Watch};
use mgmt_resources::line::Line;
use mgmt_value::Str;

fn line(file: &Path, state: &str, content: &str) -> Line {
    let file = Str::new(file.as_os_str().as_encoded_bytes());
    Line { file, state: state.into(), content: content.into(), ..Line::default() }
}

/// Looking changes nothing and says what applying does; applying twice is the same as once.
#[track_caller]
fn settles(bench: &TestEnv, line: &Line, file: &Path, expected: &str) {
    let run = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut vertex = bench.vertex("a", line.clone());
    let before = fs::read(file).ok();
    assert_eq!(run.block_on(vertex.look()).checked(), Checked::Changed);
    assert_eq!(fs::read(file).ok(), before, "looking has changed something");
    assert_eq!(run.block_on(vertex.apply()).checked(), Checked::Changed);
    assert_eq!(fs::read_to_string(file).unwrap(), expected);
    let stat = fs::metadata(file).unwrap();
    assert_eq!(run.block_on(vertex.apply()).checked(), Checked::Right);
    assert_eq!(run.block_on(vertex.look()).checked(), Checked::Right);
    let again = fs::metadata(file).unwrap();
    assert_eq!((stat.ino(), stat.ctime_nsec()), (again.ino(), again.ctime_nsec()), "touched although right");
    let left = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "something is left beside the file");
}

#[test]
fn a_line_is_added_to_a_file_with_or_without_a_newline_at_its_end() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    for (before, after) in [("a\n", "a\nb\n"), ("a", "a\nb\n"), ("", "b\n"), ("a\r\n", "a\r\nb\r\n")] {
        fs::write(&file, before).unwrap();
        settles(&bench, &line(&file, "exists", "b"), &file, after);
    }
}

#[test]
fn a_missing_file_is_made_for_its_owner_alone() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    settles(&bench, &line(&file, "exists", "b\nc"), &file, "b\nc\n");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn lines_are_removed_wherever_they_are() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    for (before, after) in [("b\na\nb\nc", "a\nc"), ("a\nb", "a\n"), ("b", ""), ("x\r\nb\r\n", "x\r\n")] {
        fs::write(&file, before).unwrap();
        settles(&bench, &line(&file, "absent", "b"), &file, after);
    }
    fs::write(&file, "a\na\nb\nb\n").unwrap();
    settles(&bench, &line(&file, "absent", "a\nb"), &file, "");
}

#[tokio::test]
async fn a_line_that_is_absent_needs_no_file_and_no_directory() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    for missing in [file.clone(), bench.path("no/such/directory/f")] {
        let mut vertex = bench.vertex("a", line(&missing, "absent", "b"));
        assert_eq!(vertex.apply().await.checked(), Checked::Right);
    }
    assert!(!file.exists());
}

#[tokio::test]
async fn without_content_nothing_happens() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    let nothing = Line { trim: true, ..line(&file, "exists", " \n ") };
    assert_eq!(bench.vertex("a", nothing).apply().await.checked(), Checked::Right);
    assert_eq!(bench.vertex("a", line(&file, "exists", "")).apply().await.checked(), Checked::Right);
    assert!(!file.exists());
}

#[test]
fn content_is_trimmed_only_when_asked() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    settles(&bench, &line(&file, "exists", "  b "), &file, "  b \n");
    settles(&bench, &Line { trim: true, ..line(&file, "exists", "  b \n") }, &file, "  b \nb\n");
}

#[test]
fn owner_mode_and_attributes_stay_as_they_are() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    fs::write(&file, "a\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&file, Some(1234), Some(4321)).unwrap();
    settles(&bench, &line(&file, "exists", "b"), &file, "a\nb\n");
    let stat = fs::metadata(&file).unwrap();
    assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o7777), (1234, 4321, 0o640));
}

#[tokio::test]
async fn bytes_that_are_no_text_and_long_lines_are_lines_too() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    fs::write(&file, b"\xff\xfe\n\0\n").unwrap();
    let long = Str::from(vec![b'x'; 1 << 20]);
    let wish = Line { content: long.clone(), ..line(&file, "exists", "") };
    assert_eq!(bench.vertex("a", wish.clone()).apply().await.checked(), Checked::Changed);
    assert_eq!(bench.vertex("a", wish).apply().await.checked(), Checked::Right);
    let binary = Line { content: Str::new(b"\xff\xfe\n\0"), ..line(&file, "absent", "") };
    assert_eq!(bench.vertex("a", binary).apply().await.checked(), Checked::Changed);
    assert_eq!(fs::read(&file).unwrap(), [&long[..], b"\n"].concat());
}

#[tokio::test]
async fn a_link_is_not_followed_and_nothing_planted_makes_it_hang() {
    let bench = TestEnv::new();
    let (file, target) = (bench.path("f"), bench.path("target"));
    fs::write(&target, "a\n").unwrap();
    symlink(&target, &file).unwrap();
    let outcome = bench.vertex("a", line(&file, "exists", "b")).apply().await;
    let error = outcome.result.unwrap_err();
    assert!(error.hint().unwrap().contains("the link points to"), "{error}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "a\n");

    fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    for state in ["exists", "absent"] {
        let error = bench.vertex("a", line(&file, state, "b")).apply().await.result.unwrap_err();
        assert!(error.hint().unwrap().contains("regular files"), "{error}");
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(bench.vertex("a", line(&file, "exists", "b")).apply().await.result.is_err());
}

#[tokio::test]
async fn another_name_of_the_file_keeps_the_old_content() {
    let bench = TestEnv::new();
    let (file, other) = (bench.path("f"), bench.path("other"));
    fs::write(&other, "a\n").unwrap();
    fs::hard_link(&other, &file).unwrap();
    bench.vertex("a", line(&file, "exists", "b")).apply().await.checked();
    assert_eq!(fs::read_to_string(&other).unwrap(), "a\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "a\nb\n");
}

#[tokio::test]
async fn a_missing_directory_is_an_error_with_a_hint_and_a_change_when_only_looking() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", line(&bench.path("no/f"), "exists", "b"));
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    let error = vertex.apply().await.result.unwrap_err();
    assert!(error.hint().unwrap().contains("declare file["), "{error}");
    let unknown = Line { file: "~no-such-user/f".into(), ..line(Path::new("/"), "exists", "b") };
    let error = bench.vertex("a", unknown).apply().await.result.unwrap_err();
    assert!(error.hint().unwrap().contains("declare the user"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn many_resources_that_edit_one_file_lose_nothing() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    std::thread::scope(|scope| {
        for number in 0..40 {
            let (bench, file) = (&bench, &file);
            scope.spawn(move || {
                let run = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let mut vertex = bench.vertex("a", line(file, "exists", &format!("line {number}")));
                assert_eq!(run.block_on(vertex.apply()).checked(), Checked::Changed);
            });
        }
    });
    let text = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((lines.len(), text.lines().count()), (40, 40));
}

#[test]
fn while_another_program_replaces_the_file_it_is_whole_at_every_moment() {
    let bench = TestEnv::new();
    let (file, other) = (bench.path("f"), bench.path("other"));
    fs::write(&file, "theirs\n").unwrap();
    let done = AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                fs::write(&other, "theirs\n").unwrap();
                fs::rename(&other, &file).unwrap();
            }
        });
        let run = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let failed = (0..3).find_map(|_| {
            // It may give up, but what is there is always the whole of one or the other.
            let outcome = run.block_on(bench.vertex("a", line(&file, "exists", "ours")).apply()).result;
            let text = fs::read_to_string(&file);
            let whole =
                text.as_ref().is_ok_and(|text| ["theirs\n", "theirs\nours\n"].contains(&text.as_str()));
            let unexpected =
                matches!(&outcome, Err(error) if !error.hint().unwrap_or_default().contains("at odds"));
            (!whole || unexpected).then(|| format!("{outcome:?} {text:?}"))
        });
        done.store(true, Relaxed);
        failed
    });
    assert_eq!(failed, None);
    let _ = fs::remove_file(&other);
    fs::write(&file, "theirs\n").unwrap();
    settles(&bench, &line(&file, "exists", "ours"), &file, "theirs\nours\n");
}

#[test]
fn whoever_is_about_to_write_the_file_is_given_time_to_finish() {
    use std::io::Write;
    let bench = TestEnv::new();
    let file = bench.path("f");
    let mut theirs = fs::File::create(&file).unwrap();
    // As if it had been written this very moment, for as long as it takes to get to the end of this test.
    theirs.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
    std::thread::scope(|scope| {
        let (bench, file) = (&bench, &file);
        let ours = scope.spawn(move || {
            let run = tokio::runtime::Builder::new_current_thread().build().unwrap();
            run.block_on(bench.vertex("a", line(file, "exists", "ours")).apply()).checked()
        });
        std::thread::sleep(Duration::from_millis(200));
        theirs.write_all(b"theirs\n").unwrap();
        drop(theirs);
        assert_eq!(ours.join().unwrap(), Checked::Changed);
    });
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs\nours\n");
}

#[tokio::test]
async fn a_new_file_in_the_home_of_a_user_belongs_to_that_user() {
    let bench = TestEnv::new();
    let file = bench.path("f");
    // The home of root is the one that every host has; a file of its own is made there and removed again.
    let name = format!(".mgmt-test-line-{}", std::process::id());
    let wish = Line { file: Str::from(format!("~root/{name}")), ..line(&file, "exists", "b") };
    let made = Path::new("/root").join(&name);
    let outcome = bench.vertex("a", wish.clone()).apply().await;
    let found = fs::read_to_string(&made);
    let _ = fs::remove_file(&made);
    assert_eq!(outcome.checked(), Checked::Changed);
    assert_eq!(found.unwrap(), "b\n");
    let watched = wish.watches(&"a".into());
    assert_eq!(watched, [Watch::Path { path: made.to_str().unwrap().into(), recursive: false }]);
}

#[test]
fn a_home_that_is_not_there_is_an_error_of_the_watch() {
    let bench = TestEnv::new();
    let wish = Line { file: "~no-such-user/f".into(), ..line(Path::new("/"), "exists", "b") };
    let [Watch::Stream { start, .. }] = &wish.watches(&"a".into())[..] else { panic!("expected a stream") };
    let error = start(&bench.host).err().expect("there is nothing to watch");
    assert!(error.to_string().contains("there is no user"), "{error}");
}

#[test]
fn a_line_takes_the_place_of_one_that_matches() {
    let bench = TestEnv::new();
    let path = bench.path("sshd_config");
    fs::write(&path, "Port 22\n#PermitRootLogin yes\nUsePAM yes\n").unwrap();
    let wanted =
        Line { r#match: "^#?PermitRootLogin ".into(), ..line(&path, "exists", "PermitRootLogin no") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut vertex = bench.vertex("root", wanted);
    assert_eq!(runtime.block_on(vertex.look()).checked(), Checked::Changed);
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Changed);
    assert_eq!(fs::read_to_string(&path).unwrap(), "Port 22\nPermitRootLogin no\nUsePAM yes\n");
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Right);
    fs::write(&path, "PermitRootLogin yes\nPermitRootLogin maybe\n").unwrap();
    let error = runtime.block_on(vertex.apply()).error();
    assert!(error.contains("2 lines") && error.contains("`match`"), "{error}");
}
