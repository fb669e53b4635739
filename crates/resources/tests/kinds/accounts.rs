//! `group` and `user` with the real tools, where they harm nobody.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::Path;

use crate::common::{Log, Run, TestEnv};
use crate::host_common::{RunningEngine, disturb, edges, on_own_host, output, run, shell, snapshot, soon};
use mgmt_resource::{Checked, Error, Kind, Spec};
use mgmt_resources::exec::Exec;
use mgmt_resources::file::File;
use mgmt_resources::group::Group;
use mgmt_resources::user::User;
use mgmt_value::Str;

fn group(state: &str, gid: Option<u32>) -> Group {
    Group { state: state.into(), gid, ..Group::default() }
}

fn user(state: &str) -> User {
    User { state: state.into(), ..User::default() }
}

fn list(names: &[&str]) -> Option<Vec<Str>> {
    Some(names.iter().map(|name| Str::from(*name)).collect())
}

#[track_caller]
fn outcome<K: Kind>(bench: &TestEnv, name: &str, resource: &K, run: Run<'_>) -> Result<Checked, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench.vertex(name, resource.clone()).run(run)).result
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles<K: Kind>(bench: &TestEnv, name: &str, resource: &K) {
    let seen = || snapshot(&["/etc", "/home", "/var/mail"]);
    let before = seen();
    assert_eq!(outcome(bench, name, resource, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(outcome(bench, name, resource, Run::APPLY).unwrap(), Checked::Changed);
    let before = seen();
    assert_eq!(outcome(bench, name, resource, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, name, resource, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

fn told(database: &str, name: &str) -> String {
    String::from_utf8(output("getent", &[database, name]).stdout).unwrap().trim_end().to_owned()
}

fn groups_of(name: &str) -> Vec<String> {
    let mut groups: Vec<String> = run("id", &["-nG", name]).split(' ').map(str::to_owned).collect();
    groups.sort();
    groups
}

#[test]
fn a_group_is_made_renumbered_and_removed() {
    if !on_own_host("a_group_is_made_renumbered_and_removed") {
        return;
    }
    let bench = TestEnv::new();
    settles(&bench, "demo", &group("exists", None));
    assert!(told("group", "demo").starts_with("demo:x:"), "{}", told("group", "demo"));
    settles(&bench, "demo", &group("exists", Some(4242)));
    assert_eq!(told("group", "demo"), "demo:x:4242:");
    settles(&bench, "other", &Group { system: true, ..group("exists", None) });
    let number: u32 = told("group", "other").split(':').nth(2).unwrap().parse().unwrap();
    assert!(number < 1000, "{number}");

    let taken = group("exists", Some(4242));
    for run in [Run::LOOK, Run::APPLY] {
        for name in ["third", "other"] {
            let error = outcome(&bench, name, &taken, run).unwrap_err();
            assert!(error.to_string().contains("4242 belongs to the group demo"), "{error}");
            assert!(error.hint().unwrap().contains("allowduplicategid"));
        }
    }
    settles(&bench, "third", &Group { allowduplicategid: true, ..taken });
    settles(&bench, "demo", &group("absent", None));
    settles(&bench, "third", &group("absent", Some(4242)));
    assert_eq!(told("group", "demo") + &told("group", "third"), "");
    assert_eq!(outcome(&bench, "demo", &group("absent", None), Run::APPLY).unwrap(), Checked::Right);

    // The primary group of somebody stays, and the tool says why.
    run("useradd", &["joe"]);
    let error = outcome(&bench, "joe", &group("absent", None), Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("groupdel has failed"), "{error}");
    assert!(error.hint().is_some(), "{error}");
}

#[test]
fn a_user_is_made_changed_and_removed() {
    if !on_own_host("a_user_is_made_changed_and_removed") {
        return;
    }
    let bench = TestEnv::new();
    run("groupadd", &["--gid", "4242", "crew"]);
    run("groupadd", &["deck"]);
    settles(&bench, "joe", &user("exists"));
    assert_eq!(run("id", &["-gn", "joe"]), "joe", "a group of its own");
    assert!(!Path::new("/home/joe").exists(), "whatever the host is used to");
    assert!(told("shadow", "joe").starts_with("joe:!:"), "{}", told("shadow", "joe"));
    settles(&bench, "joe", &user("absent"));
    assert_eq!(told("passwd", "joe"), "");

    let declared = User {
        uid: Some(4711),
        group: Some("crew".into()),
        groups: list(&["deck", "audio"]),
        homedir: Some("/home/sea/".into()),
        shell: Some("/bin/bash".into()),
        comment: Some("Joe, Able Seaman".into()),
        createhome: true,
        ..user("exists")
    };
    settles(&bench, "joe", &declared);
    assert_eq!(told("passwd", "joe"), "joe:x:4711:4242:Joe, Able Seaman:/home/sea:/bin/bash");
    assert_eq!(groups_of("joe"), ["audio", "crew", "deck"]);
    assert!(Path::new("/home/sea/.profile").exists());

    settles(&bench, "joe", &User { groups: list(&[]), ..declared });
    assert_eq!(groups_of("joe"), ["crew"]);
    settles(&bench, "joe", &User { gid: Some(0), group: None, ..user("exists") });
    settles(&bench, "joe", &User { uid: Some(4712), shell: Some("/bin/sh".into()), ..user("exists") });
    let moved = User { homedir: Some("/home/land/".into()), movehome: true, ..user("exists") };
    settles(&bench, "joe", &moved);
    assert!(Path::new("/home/land/.profile").exists() && !Path::new("/home/sea").exists());
    settles(&bench, "joe", &User { homedir: Some("/".into()), ..user("exists") });
    assert_eq!(told("passwd", "joe"), "joe:x:4712:0:Joe, Able Seaman:/:/bin/sh");
    run("usermod", &["--home", "/home/land", "joe"]);
    settles(&bench, "joe", &User { removehome: true, ..user("absent") });
    assert!(!Path::new("/home/land").exists());
    assert_eq!(outcome(&bench, "joe", &user("absent"), Run::APPLY).unwrap(), Checked::Right);
}

#[test]
fn a_home_that_is_a_link_stays_and_that_is_told() {
    if !on_own_host("a_home_that_is_a_link_stays_and_that_is_told") {
        return;
    }
    let bench = TestEnv::new();
    let removed = User { removehome: true, ..user("absent") };
    settles(&bench, "joe", &User { homedir: Some("/home/joe".into()), ..user("exists") });
    run("mkdir", &["/home/real"]);
    fs::write("/home/real/kept", "kept").unwrap();
    std::os::unix::fs::symlink("real", "/home/joe").unwrap();
    let log = Log::capture();
    settles(&bench, "joe", &removed);
    assert_eq!(told("passwd", "joe"), "");
    assert!(Path::new("/home/joe/kept").exists(), "the link and what is behind it stay");
    let said = log.take().join("\n");
    assert!(said.contains("/home/joe is a symbolic link, and stays"), "{said}");
    fs::remove_file("/home/joe").unwrap();
    // Somebody else's directory: the tool removes the account, and says by its status that it has left the directory.
    settles(&bench, "joe", &User { homedir: Some("/home/real".into()), ..user("exists") });
    settles(&bench, "joe", &removed);
    assert!(Path::new("/home/real/kept").exists());
    let said = log.take().join("\n");
    assert!(said.contains("the account is removed, but not its home directory"), "{said}");
}

#[test]
fn a_group_that_cannot_be_is_told_and_changes_nothing() {
    if !on_own_host("a_group_that_cannot_be_is_told_and_changes_nothing") {
        return;
    }
    let bench = TestEnv::new();
    for (name, wrong, why) in [
        ("two words", group("exists", None), "not the name of a group"),
        ("staff", group("present", None), "`state`"),
        ("staff", group("exists", Some(u32::MAX)), "`gid`"),
    ] {
        let told = bench.vertex(name, wrong).validate().unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
    }
    run("groupadd", &["--gid", "4712", "crew"]);
    let before = snapshot(&["/etc"]);
    for run in [Run::LOOK, Run::APPLY] {
        let error = outcome(&bench, "joes", &group("exists", Some(4712)), run).unwrap_err();
        assert!(error.to_string().contains("4712 belongs to the group crew"), "{error}");
        assert!(error.hint().unwrap().contains("allowduplicategid"), "{error}");
    }
    assert_eq!(snapshot(&["/etc"]), before);
    let shared = Group { allowduplicategid: true, ..group("exists", Some(4712)) };
    settles(&bench, "joes", &shared);
}

#[test]
fn what_cannot_be_is_told_and_changes_nothing() {
    if !on_own_host("what_cannot_be_is_told_and_changes_nothing") {
        return;
    }
    let bench = TestEnv::new();
    run("useradd", &["--uid", "4711", "ann"]);
    let before = snapshot(&["/etc"]);
    let refused = |user: &User, run| outcome(&bench, "joe", user, run).unwrap_err();
    for run in [Run::LOOK, Run::APPLY] {
        let error = refused(&User { uid: Some(4711), ..user("exists") }, run);
        assert!(error.to_string().contains("4711 belongs to the user ann"), "{error}");
    }
    let error = refused(&User { group: Some("nowhere".into()), ..user("exists") }, Run::APPLY);
    assert!(error.to_string().contains("useradd has failed: group 'nowhere' does not exist"), "{error}");
    assert!(error.hint().unwrap().contains("declare the group"), "{error}");
    let now = snapshot(&["/etc"]);
    let differs: Vec<_> =
        now.iter().filter(|(path, seen)| before.get(*path) != Some(seen)).map(|(path, _)| path).collect();
    // A lock file may have come and gone.
    assert!(
        differs.iter().all(|path| **path == Path::new("/etc") || path.ends_with(".pwd.lock")),
        "{differs:?}"
    );
    settles(&bench, "joe", &User { uid: Some(4711), allowduplicateuid: true, ..user("exists") });
    // A group that is left over is no obstacle.
    run("groupadd", &["bob"]);
    settles(&bench, "bob", &user("exists"));
    assert_eq!(run("id", &["-gn", "bob"]), "bob");
}

#[test]
fn the_members_of_a_group_are_set_and_others_left_if_they_may_be() {
    if !on_own_host("the_members_of_a_group_are_set_and_others_left_if_they_may_be") {
        return;
    }
    let bench = TestEnv::new();
    for name in ["ann", "ben", "cat"] {
        settles(&bench, name, &user("exists"));
    }
    let of =
        |names: &[&str], othermembers| Group { members: list(names), othermembers, ..group("exists", None) };
    let members = || told("group", "club").rsplit(':').next().unwrap().to_owned();
    settles(&bench, "club", &of(&["ben", "ann"], false));
    assert_eq!(members(), "ann,ben");
    settles(&bench, "club", &of(&["cat"], true));
    assert_eq!(members(), "ann,ben,cat");
    settles(&bench, "club", &of(&["cat"], false));
    assert_eq!(members(), "cat");
    settles(&bench, "club", &of(&[], false));
    assert_eq!(members(), "");
    // Without a word about them, they are left alone.
    run("gpasswd", &["-a", "ann", "club"]);
    assert_eq!(outcome(&bench, "club", &group("exists", None), Run::APPLY).unwrap(), Checked::Right);
    let error = outcome(&bench, "club", &of(&["nobody-there"], false), Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("nobody-there"), "{error}");
    // Users come before the group that they are members of.
    let graph = edges(vec![
        Spec::of("ann", std::sync::Arc::new(user("exists"))),
        Spec::of("club", std::sync::Arc::new(of(&["ann"], false))),
    ]);
    assert!(graph.contains(&"user[ann] -> group[club]".to_owned()), "{graph:?}");
}

#[test]
fn the_hash_of_a_password_is_stored_and_never_told() {
    if !on_own_host("the_hash_of_a_password_is_stored_and_never_told") {
        return;
    }
    let bench = TestEnv::new();
    let hash = |hash: &str| User { password: Some(hash.into()), ..user("exists") };
    let (one, two) = ("$6$canary$0123456789abcdef", "$y$j9T$canary$fedcba9876543210");
    let mode = || {
        fs::metadata("/etc/shadow")
            .map(|found| {
                (
                    std::os::unix::fs::PermissionsExt::mode(&found.permissions()),
                    std::os::unix::fs::MetadataExt::gid(&found),
                )
            })
            .unwrap()
    };
    let before = mode();
    let log = Log::capture();
    // On this thread alone, so that all that is logged is captured.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (wanted, stored) in [(one, one), (two, two), ("*", "*")] {
        let mut vertex = bench.vertex("joe", hash(wanted));
        assert_eq!(runtime.block_on(vertex.look()).checked(), Checked::Changed);
        assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Changed);
        assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Right);
        assert_eq!(told("shadow", "joe").split(':').nth(1), Some(stored));
    }
    assert_eq!(mode(), before);
    let today = shell("echo $(($(date +%s) / 86400))");
    assert_eq!(told("shadow", "joe").split(':').nth(2), Some(today.as_str()));
    assert_eq!(run("pwck", &["--read-only", "--quiet", "/etc/passwd", "/etc/shadow"]), "");
    let said = log.take().join("\n");
    assert!(said.contains("made") && said.contains("changed: password"), "{said}");
    assert!(!said.contains("canary"), "{said}");

    // Somebody else holds the lock: it is waited for.
    let mut other = std::process::Command::new("perl")
        .args(["-e", LOCKED])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(other.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "locked\n");
    assert_eq!(outcome(&bench, "joe", &hash(one), Run::APPLY).unwrap(), Checked::Changed);
    assert!(Path::new(HELD).exists(), "nobody has waited");
    other.wait().unwrap();
}

/// Is made by whoever holds the lock, right before it lets go.
const HELD: &str = "/run/held";
/// Holds the lock of the accounts for a second, as the C library takes it.
const LOCKED: &str = r#"
use Fcntl; $| = 1;
open(my $file, ">>", "/etc/.pwd.lock") or die;
my $lock = pack("s s l! l! i", F_WRLCK, 0, 0, 0, 0);
fcntl($file, F_SETLKW, $lock) or die;
print "locked\n"; sleep 1;
open(my $held, ">", "/run/held") or die;
"#;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_to_a_group_is_repaired() {
    if !on_own_host("whatever_somebody_does_to_a_group_is_repaired") {
        return;
    }
    let mut running = RunningEngine::start();
    let unwanted = Spec::new("unwanted", group("absent", None));
    running.swap(vec![Spec::new("demo", group("exists", Some(4242))), unwanted]).await;
    // Nothing cuts a file off to write it anew in place: a repair that comes in between would be made of the empty file.
    for drift in [
        "groupdel demo",
        "groupmod -g 4243 demo",
        "sed -i '/^demo:/d' /etc/group",
        "sed 's/:4242:/:4244:/' /etc/group >/etc/group.new; dd if=/etc/group.new of=/etc/group bs=1M conv=notrunc",
        "grep -v ^demo: /etc/group >/etc/group.new; mv /etc/group.new /etc/group",
        "EDITOR='sed -i /^demo:/d' vigr",
    ] {
        disturb(drift);
        soon(drift, || told("group", "demo") == "demo:x:4242:").await;
    }
    shell("groupadd unwanted");
    soon("somebody adds a group", || told("group", "unwanted").is_empty()).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_to_a_user_is_repaired() {
    if !on_own_host("whatever_somebody_does_to_a_user_is_repaired") {
        return;
    }
    let mut running = RunningEngine::start();
    let joe = User {
        uid: Some(4711),
        group: Some("crew".into()),
        groups: list(&["deck"]),
        homedir: Some("/home/joe/".into()),
        shell: Some("/bin/bash".into()),
        comment: Some("Joe".into()),
        password: Some("$6$salt$hash".into()),
        ..user("exists")
    };
    let specs = vec![
        Spec::new("joe", joe),
        Spec::new("crew", group("exists", Some(4242))),
        Spec::new("deck", group("exists", None)),
        Spec::new("unwanted", user("absent")),
    ];
    running.swap(specs).await;
    let right = || {
        told("passwd", "joe") == "joe:x:4711:4242:Joe:/home/joe:/bin/bash"
            && output("id", &["-nG", "joe"]).stdout == b"crew deck\n"
            && told("shadow", "joe").starts_with("joe:$6$salt$hash:")
    };
    assert!(right(), "{} {}", told("passwd", "joe"), told("shadow", "joe"));
    for drift in [
        "usermod -s /bin/sh joe",
        "chsh -s /bin/sh joe",
        "chfn -f Jim joe",
        "usermod -u 4712 joe",
        "usermod -g users joe",
        "usermod -d /srv joe",
        "usermod -a -G audio joe",
        "gpasswd -a joe audio",
        "gpasswd -d joe deck",
        "echo joe:secret | chpasswd",
        "printf 'new\\nnew\\n' | passwd joe",
        "usermod -L joe",
        "passwd -d joe",
        "userdel joe",
        "sed -i '/^joe:/d' /etc/passwd",
        "sed -i 's/^joe:[^:]*/joe:*/' /etc/shadow",
        "sed 's/4711/4712/' /etc/passwd >/etc/passwd.new; dd if=/etc/passwd.new of=/etc/passwd bs=1M conv=notrunc",
        "EDITOR='sed -i s/bash/zsh/' vipw",
        "groupdel deck",
    ] {
        disturb(drift);
        soon(drift, right).await;
    }
    shell("useradd unwanted");
    soon("somebody adds a user", || told("passwd", "unwanted").is_empty()).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn users_come_after_their_groups_and_before_what_uses_them() {
    if !on_own_host("users_come_after_their_groups_and_before_what_uses_them") {
        return;
    }
    let specs = |state: &str| {
        let joe = User { group: Some("crew".into()), groups: list(&["deck"]), ..user(state) };
        let mut specs = vec![
            Spec::new("joe", joe),
            Spec::new("ann", User { gid: Some(4242), ..user(state) }),
            Spec::new("crew", group(state, Some(4242))),
            Spec::new("deck", group(state, None)),
        ];
        if state == "exists" {
            let file =
                File { state: "exists".into(), owner: "joe".into(), group: "crew".into(), ..File::default() };
            let exec = Exec { cmd: "/bin/true".into(), user: "ann".into(), ..Exec::default() };
            specs.extend([Spec::new("/home/of-joe", file), Spec::new("run", exec)]);
        }
        specs
    };
    let expected = [
        "group[crew] -> file[/home/of-joe]",
        "group[crew] -> user[ann]",
        "group[crew] -> user[joe]",
        "group[deck] -> user[joe]",
        "user[ann] -> exec[run]",
        "user[joe] -> file[/home/of-joe]",
    ];
    assert_eq!(edges(specs("exists")), expected);
    let reversed = ["user[ann] -> group[crew]", "user[joe] -> group[crew]", "user[joe] -> group[deck]"];
    assert_eq!(edges(specs("absent")), reversed);
    // And all of it works on a clean host, and in the other direction.
    let mut running = RunningEngine::start();
    running.swap(specs("exists")).await;
    assert_eq!(run("stat", &["--format=%U:%G", "/home/of-joe"]), "joe:crew");
    running.swap(specs("absent")).await;
    assert_eq!(
        told("passwd", "joe") + &told("passwd", "ann") + &told("group", "crew") + &told("group", "deck"),
        ""
    );
    running.stop();
}
