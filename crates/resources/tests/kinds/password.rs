//! `password`: what is kept, what is sent, and that nobody else gets to see it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::common::{Log, Run, TestEnv};
use crate::host_common::{RunningEngine, on_own_host, output, run, shell, snapshot, soon};
use mgmt_resource::{Checked, Id, Receive, Spec, state_name};
use mgmt_resources::file::File;
use mgmt_resources::password::Password;
use mgmt_resources::user::User;
use mgmt_value::Value;

fn password(saved: bool) -> Password {
    Password { saved, ..Password::default() }
}

fn kept(bench: &TestEnv) -> PathBuf {
    bench.host.state.join(state_name(&Id::new("password", "demo")))
}

/// A value that was sent, as text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Nil => None,
        Value::Str(text) => Some(text.to_text().into_owned()),
        other => panic!("{other:?}"),
    }
}

/// Whether the C library takes the password for the hash.
fn fits(password: &str, hash: &str) -> bool {
    run("perl", &["-e", "print crypt($ARGV[0], $ARGV[1])", password, hash]) == hash
}

#[tokio::test]
async fn a_saved_password_is_made_once_and_sent_for_ever() {
    let mut bench = TestEnv::new();
    let mut vertex = bench.vertex("demo", password(true));
    let looked = vertex.look().await;
    assert_eq!((text(&looked.sent("password")), text(&looked.sent("hash"))), (None, None));
    assert_eq!(looked.checked(), Checked::Changed);
    assert!(!kept(&bench).exists(), "looking has made something");

    let made = bench.vertex("demo", password(true)).apply().await;
    let (secret, hash) = (text(&made.sent("password")).unwrap(), text(&made.sent("hash")).unwrap());
    assert_eq!(made.checked(), Checked::Changed);
    assert_eq!(secret.len(), 64);
    assert!(secret.bytes().all(|byte| byte.is_ascii_alphabetic()));
    assert!(fits(&secret, &hash) && !fits("other", &hash), "{hash}");
    assert_eq!(fs::read_to_string(kept(&bench).join("password")).unwrap(), format!("{secret}\n"));
    for name in ["password", "hash"] {
        assert_eq!(fs::metadata(kept(&bench).join(name)).unwrap().permissions().mode() & 0o7777, 0o600);
    }
    assert_eq!(fs::metadata(kept(&bench)).unwrap().permissions().mode() & 0o7777, 0o700);

    bench.restart();
    let before = snapshot(&[kept(&bench).to_str().unwrap()]);
    for run in [Run::APPLY, Run::LOOK] {
        let again = bench.vertex("demo", password(true)).run(run).await;
        assert_eq!(
            (text(&again.sent("password")), text(&again.sent("hash"))),
            (Some(secret.clone()), Some(hash.clone()))
        );
        assert_eq!(again.checked(), Checked::Right);
    }
    assert_eq!(snapshot(&[kept(&bench).to_str().unwrap()]), before);

    // A lost hash is made again of the same password.
    fs::remove_file(kept(&bench).join("hash")).unwrap();
    let hashed = bench.vertex("demo", password(true)).apply().await;
    assert_eq!(text(&hashed.sent("password")), Some(secret.clone()));
    assert!(fits(&secret, &text(&hashed.sent("hash")).unwrap()));
    assert_eq!(hashed.checked(), Checked::Changed);

    let rotated = bench.vertex("demo", password(true)).run(Run::REFRESH).await;
    assert_ne!(text(&rotated.sent("password")), Some(secret), "a notification makes another");
}

#[tokio::test]
async fn what_is_damaged_is_not_sent() {
    let bench = TestEnv::new();
    let made = bench.vertex("demo", password(true)).apply().await;
    let (secret, hash) = (text(&made.sent("password")).unwrap(), text(&made.sent("hash")).unwrap());
    let flip = |name: &str| {
        let path = kept(&bench).join(name);
        let mut bytes = fs::read(&path).unwrap();
        // Another letter, so that it looks right.
        let at = bytes.len() - 3;
        bytes[at] = if bytes[at] == b'a' { b'b' } else { b'a' };
        fs::write(&path, bytes).unwrap();
    };
    // A hash is made again of the same password.
    flip("hash");
    let again = bench.vertex("demo", password(true)).apply().await;
    let rehashed = text(&again.sent("hash")).unwrap();
    assert_eq!(text(&again.sent("password")), Some(secret.clone()));
    assert!(rehashed != hash && fits(&secret, &rehashed));
    // A password cannot be, and nothing is sent instead of it.
    flip("password");
    let failed = bench.vertex("demo", password(true)).apply().await.error();
    assert!(failed.contains("damaged"), "{failed}");
    let recovering = Password { check_recovery: true, ..password(true) };
    let another = bench.vertex("demo", recovering).apply().await;
    let fresh = text(&another.sent("password")).unwrap();
    assert!(fresh != secret && fits(&fresh, &text(&another.sent("hash")).unwrap()));
    assert!(kept(&bench).join("password.damaged-1").exists());
}

#[tokio::test]
async fn a_password_that_is_not_saved_is_sent_once_and_its_hash_for_ever() {
    let bench = TestEnv::new();
    let made = bench.vertex("demo", Password { length: 7, ..password(false) }).apply().await;
    let (secret, hash) = (text(&made.sent("password")).unwrap(), text(&made.sent("hash")).unwrap());
    assert_eq!(secret.len(), 7);
    let all = run("grep", &["-r", "", kept(&bench).to_str().unwrap()]);
    assert!(!all.contains(&secret) && all.contains(&hash));
    let again = bench.vertex("demo", Password { length: 7, ..password(false) }).apply().await;
    assert_eq!((text(&again.sent("password")), text(&again.sent("hash"))), (None, Some(hash)));
    assert_eq!(again.checked(), Checked::Right);
}

#[tokio::test]
async fn what_is_not_right_is_an_error_unless_it_may_be_made_again_and_never_shown() {
    let bench = TestEnv::new();
    let log = Log::capture();
    assert_eq!(bench.vertex("demo", password(true)).apply().await.checked(), Checked::Changed);
    let secret = fs::read_to_string(kept(&bench).join("password")).unwrap();
    let hash = fs::read_to_string(kept(&bench).join("hash")).unwrap();
    for (wrong, declared) in [
        ("canary", password(true)),
        ("CANARY1CANARY1CANARY1CANARY1CANARY1CANARY1CANARY1CANARY1CANARY12", password(true)),
        ("canary", password(false)),
    ] {
        fs::write(kept(&bench).join("password"), wrong).unwrap();
        for run in [Run::LOOK, Run::APPLY] {
            let error = bench.vertex("demo", declared.clone()).run(run).await;
            let error = format!("{:?}", error.result.unwrap_err());
            assert!(error.contains("check_recovery"), "{error}");
            assert!(!error.to_lowercase().contains("canary"), "{error}");
        }
        let recovering = Password { check_recovery: true, ..declared };
        assert_eq!(bench.vertex("demo", recovering).apply().await.checked(), Checked::Changed);
    }
    let said = log.take().join("\n");
    assert!(said.contains("made a password"), "{said}");
    assert!(!said.contains(secret.trim()) && !said.contains(hash.trim()), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_gets_the_hash_and_a_file_the_password_and_both_get_the_next_one() {
    if !on_own_host("a_user_gets_the_hash_and_a_file_the_password_and_both_get_the_next_one") {
        return;
    }
    let mut running = RunningEngine::start();
    let id = Id::new("password", "demo");
    let receive = |field, key| vec![Receive { field, from: id.clone(), key }];
    let mut joe = Spec::new("joe", User { state: "exists".into(), ..User::default() });
    joe.receives = receive("password", "hash");
    let mut file =
        Spec::new("/root/secret", File { state: "exists".into(), mode: "0600".into(), ..File::default() });
    file.receives = receive("content", "password");
    running.swap(vec![Spec::new("demo", password(true)), joe, file]).await;
    let secret = || fs::read_to_string("/root/secret").unwrap_or_default();
    let hash = || {
        let shadow = String::from_utf8(output("getent", &["shadow", "joe"]).stdout).unwrap();
        shadow.split(':').nth(1).unwrap_or_default().to_owned()
    };
    let first = secret();
    assert_eq!(first.len(), 64);
    assert!(fits(&first, &hash()), "{}", hash());

    // Drift of the receiver, and then of what is kept.
    shell("echo joe:guessed | chpasswd");
    soon("another password", || fits(&first, &hash())).await;
    let directory = running.state().join(state_name(&id));
    fs::remove_file(directory.join("password")).unwrap();
    soon("rotated", || secret() != first && secret().len() == 64 && fits(&secret(), &hash())).await;
    let second = secret();
    fs::remove_dir_all(&directory).unwrap();
    soon("rotated again", || secret() != second && secret().len() == 64 && fits(&secret(), &hash())).await;
    running.stop();
}
