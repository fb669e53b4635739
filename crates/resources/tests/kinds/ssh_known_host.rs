//! `ssh:known_host` with a file of the test's own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::Path;

use crate::common::{TestEnv, refused};
use crate::host_common::{RunningEngine, edges, soon};
use mgmt_resource::{Checked, Spec};
use mgmt_resources::file::File;
use mgmt_resources::ssh_known_host::SshKnownHost;

const LINE: &str = "printer,192.0.2.7 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5\n";

fn known(file: &Path) -> SshKnownHost {
    SshKnownHost {
        state: "exists".into(),
        aliases: Some(vec!["192.0.2.7".into()]),
        r#type: "ssh-ed25519".into(),
        key: "AAAAC3NzaC1lZDI1NTE5".into(),
        file: file.to_str().unwrap().into(),
        ..SshKnownHost::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_put_changed_and_removed() {
    let (bench, place) = (TestEnv::new(), tempfile::tempdir().unwrap());
    let file = place.path().join("known");
    fs::write(&file, "# mine\n").unwrap();
    let mut vertex = bench.vertex("printer", known(&file));
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\n");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("# mine\n{LINE}"));
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    let mut gone = bench.vertex("printer", SshKnownHost { state: "absent".into(), ..known(&file) });
    assert_eq!(gone.apply().await.checked(), Checked::Changed);
    assert_eq!(gone.apply().await.checked(), Checked::Right);
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_to_the_file_is_repaired() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("known");
    let mut running = RunningEngine::start();
    running.swap(vec![Spec::new("printer", known(&file))]).await;
    let right = || fs::read_to_string(&file).is_ok_and(|text| text == LINE);
    soon("the key is there", right).await;
    fs::write(&file, "printer ssh-ed25519 OTHER\n").unwrap();
    soon("the key is as it was", right).await;
    fs::remove_file(&file).unwrap();
    soon("the file is there again", right).await;
    running.stop();
}

#[test]
fn what_cannot_be_is_told() {
    let file = Path::new("/tmp/known");
    assert!(refused(&SshKnownHost { key: "a b".into(), ..known(file) }).contains("`key`"));
    assert!(refused(&SshKnownHost { state: "present".into(), ..known(file) }).contains("`state`"));
}

#[test]
fn a_key_comes_after_the_file_that_it_is_in() {
    let table = File { state: "exists".into(), path: "/tmp/known".into(), ..File::default() };
    let found = edges(vec![Spec::new("printer", known(Path::new("/tmp/known"))), Spec::new("table", table)]);
    assert_eq!(found, ["file[table] -> ssh:known_host[printer]"]);
}
