//! `ssh:authorized_key` with real keys, real accounts and a real `sshd`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Run, TestEnv, refused};
use crate::host_common::{RunningEngine, edges, on_own_host, output, run, shell, snapshot, soon, text};
use mgmt_resource::{Checked, Error, Spec};
use mgmt_resources::file::File;
use mgmt_resources::ssh_authorized_key::SshAuthorizedKey;
use mgmt_resources::user::User;

fn key(state: &str) -> SshAuthorizedKey {
    SshAuthorizedKey { state: state.into(), ..SshAuthorizedKey::default() }
}

#[track_caller]
fn outcome(bench: &TestEnv, key: &SshAuthorizedKey, run: Run<'_>) -> Result<Checked, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench.vertex("name", key.clone()).run(run)).result
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, key: &SshAuthorizedKey, below: &Path) {
    let seen = || snapshot(&[below.to_str().unwrap()]);
    let before = seen();
    assert_eq!(outcome(bench, key, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(outcome(bench, key, Run::APPLY).unwrap(), Checked::Changed);
    let before = seen();
    assert_eq!(outcome(bench, key, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, key, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

/// Makes a key; its public half, as a line.
fn generate(directory: &Path, kind: &str, comment: &str) -> String {
    let file = directory.join(kind);
    let file = file.to_str().unwrap();
    run("ssh-keygen", &["-q", "-t", kind, "-N", "", "-C", comment, "-f", file]);
    fs::read_to_string(format!("{file}.pub")).unwrap().trim_end().to_owned()
}

#[test]
fn keys_of_all_types_are_put_in_changed_and_removed_and_all_else_stays() {
    let bench = TestEnv::new();
    let place = bench.path("keys");
    fs::create_dir(&place).unwrap();
    let file = place.join("authorized_keys");
    let lines = ["ed25519", "rsa", "ecdsa"].map(|kind| generate(&place, kind, "joe@example.com"));
    let whole =
        |line: &str, state: &str| SshAuthorizedKey { content: line.into(), file: text(&file), ..key(state) };
    fs::write(&file, "# mine\n").unwrap();
    for line in &lines {
        settles(&bench, &whole(line, "exists"), &place);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("# mine\n{}\n", lines.join("\n")));
    let listed = run("ssh-keygen", &["-l", "-f", file.to_str().unwrap()]);
    assert_eq!(listed.lines().count(), 3, "{listed}");

    let mut words = lines[0].split(' ');
    let parts = SshAuthorizedKey {
        r#type: words.next().unwrap().into(),
        key: words.next().unwrap().into(),
        options: vec!["no-pty".into(), "from=\"192.0.2.0/24,::1\"".into()],
        file: text(&file),
        ..key("exists")
    };
    settles(&bench, &parts, &place);
    let first = format!("no-pty,from=\"192.0.2.0/24,::1\" {}", lines[0]);
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("# mine\n{first}\n{}\n", lines[1..].join("\n")));
    assert_eq!(run("ssh-keygen", &["-l", "-f", file.to_str().unwrap()]).lines().count(), 3);

    settles(&bench, &whole(&lines[0], "absent"), &place);
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("# mine\n{}\n", lines[1..].join("\n")));
    let nowhere = SshAuthorizedKey { file: text(&place.join("none/keys")), ..whole(&lines[0], "absent") };
    assert_eq!(outcome(&bench, &nowhere, Run::APPLY).unwrap(), Checked::Right);
    let error =
        outcome(&bench, &SshAuthorizedKey { state: "exists".into(), ..nowhere }, Run::APPLY).unwrap_err();
    assert!(error.hint().unwrap().contains("declare file["), "{error}");
}

#[test]
fn a_user_gets_a_directory_and_a_file_that_nobody_else_can_read_or_redirect() {
    if !on_own_host("a_user_gets_a_directory_and_a_file_that_nobody_else_can_read_or_redirect") {
        return;
    }
    let bench = TestEnv::new();
    let line = generate(&bench.path(""), "ed25519", "joe");
    let joe = SshAuthorizedKey { content: line.as_str().into(), user: "joe".into(), ..key("exists") };
    // The account may be made by another resource.
    assert_eq!(outcome(&bench, &joe, Run::LOOK).unwrap(), Checked::Changed);
    let error = outcome(&bench, &joe, Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("there is no user \"joe\""), "{error}");
    let absent = SshAuthorizedKey { state: "absent".into(), ..joe.clone() };
    assert_eq!(outcome(&bench, &absent, Run::APPLY).unwrap(), Checked::Right);

    run("useradd", &["-m", "joe"]);
    settles(&bench, &joe, Path::new("/home/joe"));
    let found = |path: &str| {
        let found = fs::metadata(path).unwrap();
        (found.uid(), found.gid(), found.permissions().mode() & 0o7777)
    };
    let (uid, gid) = (run("id", &["-u", "joe"]).parse().unwrap(), run("id", &["-g", "joe"]).parse().unwrap());
    assert_eq!(found("/home/joe/.ssh"), (uid, gid, 0o700));
    assert_eq!(found("/home/joe/.ssh/authorized_keys"), (uid, gid, 0o600));

    fs::remove_dir_all("/home/joe/.ssh").unwrap();
    let without = SshAuthorizedKey { mkdir: false, ..joe.clone() };
    assert!(outcome(&bench, &without, Run::APPLY).unwrap_err().to_string().contains("/home/joe/.ssh"));
    // Whatever joe puts there, nothing outside is written.
    fs::create_dir("/srv/target").unwrap();
    fs::write("/srv/target/authorized_keys", "untouched\n").unwrap();
    symlink("/srv/target", "/home/joe/.ssh").unwrap();
    run("chown", &["-h", "joe", "/home/joe/.ssh"]);
    assert!(outcome(&bench, &joe, Run::APPLY).is_err());
    fs::remove_file("/home/joe/.ssh").unwrap();
    fs::create_dir("/home/joe/.ssh").unwrap();
    symlink("/srv/target/authorized_keys", "/home/joe/.ssh/authorized_keys").unwrap();
    assert!(outcome(&bench, &joe, Run::APPLY).is_err());
    assert_eq!(fs::read_to_string("/srv/target/authorized_keys").unwrap(), "untouched\n");
    fs::remove_file("/home/joe/.ssh/authorized_keys").unwrap();
    run("mkfifo", &["/home/joe/.ssh/authorized_keys"]);
    assert!(outcome(&bench, &joe, Run::APPLY).is_err(), "and nothing waits for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_lets_its_user_in_and_whatever_somebody_does_to_it_is_repaired() {
    if !on_own_host("a_key_lets_its_user_in_and_whatever_somebody_does_to_it_is_repaired") {
        return;
    }
    let mut running = RunningEngine::start();
    let place = running.path("key");
    fs::create_dir_all(&place).unwrap();
    let line = generate(&place, "ed25519", "joe");
    let stranger = generate(&place, "ecdsa", "stranger");
    let mut server = sshd();
    let enters = |kind: &str| {
        let identity = place.join(kind);
        let options = [
            "-p",
            "2222",
            "-o",
            "BatchMode=yes",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "LogLevel=ERROR",
            "-i",
            identity.to_str().unwrap(),
            "joe@127.0.0.1",
            "id",
            "-un",
        ];
        output("ssh", &options).stdout == b"joe\n"
    };

    // All from nothing, and in this order by itself.
    let joe = User {
        state: "exists".into(),
        homedir: Some("/home/joe/".into()),
        createhome: true,
        shell: Some("/bin/sh".into()),
        password: Some("*".into()),
        ..User::default()
    };
    let wanted = SshAuthorizedKey { content: line.as_str().into(), user: "joe".into(), ..key("exists") };
    let unwanted = SshAuthorizedKey { content: stranger.as_str().into(), ..wanted.clone() };
    let unwanted = SshAuthorizedKey { state: "absent".into(), ..unwanted };
    let specs = |joe: User| {
        vec![Spec::new("key", wanted.clone()), Spec::new("other", unwanted.clone()), Spec::new("joe", joe)]
    };
    assert_eq!(
        edges(specs(joe.clone())),
        ["user[joe] -> ssh:authorized_key[key]", "user[joe] -> ssh:authorized_key[other]"]
    );
    running.swap(specs(joe.clone())).await;
    assert!(enters("ed25519") && !enters("ecdsa"));

    let file = "/home/joe/.ssh/authorized_keys";
    let right = |file: &str| fs::read_to_string(file).is_ok_and(|text| text.trim_end() == line);
    for drift in [
        "rm FILE",
        ": >FILE",
        // It may come back while it is being removed.
        "rm -r /home/joe/.ssh || true",
        "mv /home/joe/.ssh /home/joe/.ssh-old",
        "sed -i 's/ joe$/ jim/' FILE",
        "sed -i 's/^/no-pty /' FILE",
        "sed -i 's/^/#/' FILE; sed -i 1d FILE",
        &format!("echo '{stranger}' >>FILE"),
        &format!("echo '{line}' >>FILE"),
        "cp -p FILE FILE.new; : >FILE.new; mv FILE.new FILE",
    ] {
        shell(&drift.replace("FILE", file));
        soon(drift, || right(file)).await;
    }
    assert!(enters("ed25519") && !enters("ecdsa"));
    // When the user moves, the key follows.
    let moved = User { homedir: Some("/home/moved/".into()), ..joe };
    shell("cp -a /home/joe /home/moved; rm -r /home/moved/.ssh");
    running.swap(specs(moved)).await;
    soon("moved", || right("/home/moved/.ssh/authorized_keys")).await;
    shell("rm /home/moved/.ssh/authorized_keys");
    soon("removed at the new place", || right("/home/moved/.ssh/authorized_keys")).await;
    running.stop();
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_key_in_a_declared_directory_comes_after_it() {
    let line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    let wanted = SshAuthorizedKey { content: line.into(), file: "/srv/keys/joe".into(), ..key("exists") };
    let directory = File { state: "exists".into(), ..File::default() };
    let specs = vec![Spec::new("key", wanted), Spec::new("/srv/keys/", directory)];
    assert_eq!(edges(specs), ["file[/srv/keys/] -> ssh:authorized_key[key]"]);
}

/// A server on a port of its own, which ends with the host.
fn sshd() -> std::process::Child {
    shell("ip link set lo up; mkdir -p /run/sshd; ssh-keygen -q -t ed25519 -N '' -f /run/host-key");
    let child = Command::new("/usr/sbin/sshd")
        .args([
            "-D",
            "-e",
            "-p",
            "2222",
            "-h",
            "/run/host-key",
            "-o",
            "UsePAM=no",
            "-o",
            "PasswordAuthentication=no",
        ])
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("this test needs sshd: {error}"));
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while std::net::TcpStream::connect("127.0.0.1:2222").is_err() {
        assert!(std::time::Instant::now() < end, "sshd does not listen");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child
}

#[test]
fn what_cannot_be_a_key_is_refused() {
    let cut = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhsc";
    let whole = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    let content = |content: &str| SshAuthorizedKey { content: content.into(), ..key("exists") };
    for (wrong, told) in [
        (SshAuthorizedKey { state: "".into(), ..content(whole) }, "`state`: is missing"),
        (key("exists"), "the name is no entry"),
        (content(cut), "a character may be missing"),
        (content(&whole.replace("ssh-ed25519", "ssh-rsa")), "expected options"),
        (content(&format!("{whole}\n{whole}")), "more than one line"),
        (SshAuthorizedKey { comment: "joe".into(), ..content(whole) }, "`comment` is set, too"),
        (SshAuthorizedKey { user: "joe doe".into(), ..content(whole) }, "`user`"),
        (SshAuthorizedKey { file: "keys".into(), ..content(whole) }, "`file`"),
    ] {
        let refused = refused(&wrong);
        assert!(refused.contains(told), "{refused}");
    }
}
