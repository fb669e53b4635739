//! `mount` on a host of the test's own, with file systems that need no device.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;

use crate::common::{Run, TestEnv};
use crate::host_common::{RunningEngine, edges, on_own_host, output, run, shell, soon};
use mgmt_resource::{Checked, Error, Spec};
use mgmt_resources::file::File;
use mgmt_resources::mount::Mount;
use mgmt_test_support::booted_host::on_booted_host;
use mgmt_value::Str;

const POINT: &str = "/mnt/a place";
const FSTAB: &str = "/etc/fstab";
const OTHERS: &str =
    "# what others have written\nproc\t/proc   proc\n\n/dev/sr0 /media/cd iso9660 ro,noauto 0 0 # keep\n";

fn options(options: &[(&str, &str)]) -> std::collections::BTreeMap<Str, Str> {
    options.iter().map(|(key, value)| (Str::from(*key), Str::from(*value))).collect()
}

fn tmpfs(declared: &[(&str, &str)]) -> Mount {
    Mount {
        state: "exists".into(),
        device: "memory".into(),
        r#type: "tmpfs".into(),
        options: options(declared),
        ..Mount::default()
    }
}

fn absent() -> Mount {
    Mount { state: "absent".into(), ..Mount::default() }
}

fn outcome(bench: &TestEnv, mount: &Mount, run: Run<'_>) -> Result<Checked, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench.vertex(POINT, mount.clone()).run(run)).result
}

/// What is mounted, and the table.
fn seen() -> (String, String) {
    (fs::read_to_string("/proc/self/mountinfo").unwrap(), fs::read_to_string(FSTAB).unwrap())
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, mount: &Mount) {
    let before = seen();
    assert_eq!(outcome(bench, mount, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(outcome(bench, mount, Run::APPLY).unwrap(), Checked::Changed);
    let before = seen();
    assert_eq!(outcome(bench, mount, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, mount, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

/// One column of what is mounted there; empty if nothing is.
fn shown(column: &str) -> String {
    let found = output("findmnt", &["--noheadings", "--output", column, "--mountpoint", POINT]);
    let lines = String::from_utf8_lossy(&found.stdout).into_owned();
    let lines = lines.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

fn table() -> String {
    fs::read_to_string(FSTAB).unwrap()
}

#[test]
fn a_file_system_is_mounted_changed_and_unmounted() {
    if !on_own_host("a_file_system_is_mounted_changed_and_unmounted") {
        return;
    }
    fs::write(FSTAB, OTHERS).unwrap();
    let bench = TestEnv::new();
    settles(&bench, &tmpfs(&[("size", "10m"), ("mode", "0750"), ("nosuid", "")]));
    assert_eq!((shown("FSTYPE"), shown("SOURCE")), ("tmpfs".into(), "memory".into()));
    let line = "memory /mnt/a\\040place tmpfs mode=0750,nosuid,size=10m 0 0\n";
    assert_eq!(table(), format!("{OTHERS}{line}"));
    // What is stored is what the host mounts when it boots.
    run("umount", &[POINT]);
    run("mount", &[POINT]);
    assert_eq!(
        outcome(&bench, &tmpfs(&[("size", "10m"), ("mode", "0750"), ("nosuid", "")]), Run::APPLY).unwrap(),
        Checked::Right
    );

    // Other options are set without unmounting.
    fs::write(format!("{POINT}/kept"), "x").unwrap();
    settles(&bench, &tmpfs(&[("size", "20m"), ("noexec", ""), ("ro", "")]));
    assert!(
        shown("OPTIONS").contains("noexec") && shown("OPTIONS").contains("size=20480k"),
        "{}",
        shown("OPTIONS")
    );
    assert!(fs::exists(format!("{POINT}/kept")).unwrap());
    settles(&bench, &tmpfs(&[("rw", "")]));
    // Columns of the table alone.
    settles(&bench, &Mount { freq: 1, passno: 2, ..tmpfs(&[("rw", "")]) });
    assert!(table().ends_with("tmpfs rw 1 2\n"));
    // Another device takes its place.
    settles(&bench, &Mount { device: "other".into(), ..tmpfs(&[]) });
    assert!(!fs::exists(format!("{POINT}/kept")).unwrap());
    assert_eq!(shown("SOURCE"), "other");
    assert_eq!(table(), format!("{OTHERS}other /mnt/a\\040place tmpfs defaults 0 0\n"));

    // Whatever is there goes, and the declaration does not have to tell what.
    run("mount", &["-t", "tmpfs", "over", POINT]);
    settles(&bench, &absent());
    assert_eq!((shown("SOURCE"), table()), (String::new(), OTHERS.into()));

    let alone = Mount { persist: "none".into(), ..tmpfs(&[]) };
    settles(&bench, &alone);
    assert_eq!(table(), OTHERS);
    run("umount", &[POINT]);
    fs::remove_file(FSTAB).unwrap();
    outcome(&bench, &tmpfs(&[]), Run::APPLY).unwrap();
    assert_eq!(table(), "memory /mnt/a\\040place tmpfs defaults 0 0\n");
}

#[test]
fn a_file_system_can_be_in_the_table_without_being_mounted() {
    if !on_own_host("a_file_system_can_be_in_the_table_without_being_mounted") {
        return;
    }
    fs::write(FSTAB, OTHERS).unwrap();
    let bench = TestEnv::new();
    let wanted = |state: &str| Mount {
        state: state.into(),
        options: Mount::default().options,
        optionstext: "rw,noatime,size=1m".into(),
        ..tmpfs(&[])
    };
    let line = format!("{OTHERS}memory /mnt/a\\040place tmpfs rw,noatime,size=1m 0 0\n");
    settles(&bench, &wanted("defined"));
    assert_eq!((table(), shown("FSTYPE")), (line.clone(), String::new()));
    settles(&bench, &wanted("exists"));
    assert_eq!((table(), shown("FSTYPE")), (line.clone(), "tmpfs".into()));
    assert_eq!(outcome(&bench, &wanted("defined"), Run::APPLY).unwrap(), Checked::Right);
    // Whoever is notified is mounted anew, where it is, with what is declared.
    assert_eq!(outcome(&bench, &wanted("exists"), Run::REFRESH).unwrap(), Checked::Changed);
    settles(&bench, &wanted("unmounted"));
    assert_eq!((table(), shown("FSTYPE")), (line, String::new()));
    assert_eq!(outcome(&bench, &wanted("unmounted"), Run::REFRESH).unwrap(), Checked::Right);
    settles(&bench, &absent());
}

#[test]
fn a_directory_is_shown_in_another_place() {
    if !on_own_host("a_directory_is_shown_in_another_place") {
        return;
    }
    fs::write(FSTAB, OTHERS).unwrap();
    shell("mkdir -p /srv/shown /srv/other; echo hello >/srv/shown/file");
    let bench = TestEnv::new();
    let bind = |from: &str, more: &[(&str, &str)]| {
        let declared = [&[("bind", "")][..], more].concat();
        Mount { device: from.into(), r#type: "none".into(), ..tmpfs(&declared) }
    };
    settles(&bench, &bind("/srv/shown", &[]));
    assert_eq!(fs::read_to_string(format!("{POINT}/file")).unwrap(), "hello\n");
    settles(&bench, &bind("/srv/shown", &[("ro", "")]));
    assert!(fs::write(format!("{POINT}/file"), "x").is_err());
    fs::write("/srv/shown/file", "the source stays writable").unwrap();
    settles(&bench, &bind("/srv/other", &[]));
    assert!(!fs::exists(format!("{POINT}/file")).unwrap());
    settles(&bench, &absent());
    // A file shows as a file.
    fs::remove_dir(POINT).unwrap();
    fs::write(POINT, "").unwrap();
    settles(&bench, &bind("/srv/shown/file", &[]));
    assert_eq!(fs::read_to_string(POINT).unwrap(), "the source stays writable");
}

#[test]
fn what_cannot_be_mounted_is_told() {
    if !on_own_host("what_cannot_be_mounted_is_told") {
        return;
    }
    fs::write(FSTAB, OTHERS).unwrap();
    let bench = TestEnv::new();
    let told = |mount: &Mount| {
        outcome(&bench, &Mount { persist: "none".into(), ..mount.clone() }, Run::APPLY).unwrap_err()
    };
    let error = told(&Mount { r#type: "nosuchfs".into(), device: "/dev/null".into(), ..tmpfs(&[]) });
    assert!(error.to_string().contains("/dev/null is not a block device"), "{error}");
    let error = told(&tmpfs(&[("size", "green")]));
    assert!(error.to_string().contains("mount has failed"), "{error}");
    let error = told(&Mount { device: "/dev/no-such-device".into(), r#type: "ext4".into(), ..tmpfs(&[]) });
    assert!(error.to_string().contains("no-such-device"), "{error}");
    let error = told(&Mount { device: "--version".into(), r#type: "ext4".into(), ..tmpfs(&[]) });
    assert!(error.to_string().contains("mount has failed"), "{error}");
    assert_eq!(shown("SOURCE"), "");
    // In use.
    outcome(&bench, &tmpfs(&[]), Run::APPLY).unwrap();
    let used = fs::File::create(format!("{POINT}/used")).unwrap();
    let error = outcome(&bench, &absent(), Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("busy") && error.hint().unwrap().contains("fuser"), "{error}");
    drop(used);
    assert_eq!(outcome(&bench, &absent(), Run::APPLY).unwrap(), Checked::Changed);
    // A link that somebody planted is not followed.
    fs::remove_dir(POINT).unwrap();
    std::os::unix::fs::symlink("/srv", POINT).unwrap();
    let error = told(&tmpfs(&[]));
    assert!(error.to_string().contains("a symbolic link"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_to_a_mount_is_an_event_and_repaired() {
    if !on_own_host("whatever_somebody_does_to_a_mount_is_an_event_and_repaired") {
        return;
    }
    fs::write(FSTAB, OTHERS).unwrap();
    let mut running = RunningEngine::start();
    let mount = tmpfs(&[("rw", ""), ("size", "10m"), ("nodev", "")]);
    running.swap(vec![Spec::new(POINT, mount), Spec::new("/mnt/gone", absent())]).await;
    let line = "memory /mnt/a\\040place tmpfs nodev,rw,size=10m 0 0\n";
    let right = || {
        // What is on top is what everybody sees; two who mount at the same moment leave one below the other.
        let shown = shown("SOURCE,FSTYPE,OPTIONS").lines().last().unwrap_or_default().to_owned();
        shown.starts_with("memory tmpfs rw,")
            && ["nodev", "size=10240k"].iter().all(|option| shown.contains(option))
            && table().contains(line)
            && table().matches("place").count() == 1
            && table().contains("/media/cd iso9660 ro,noauto 0 0 # keep")
            && !fs::read_to_string("/proc/self/mountinfo").unwrap().contains("/mnt/gone")
            && !table().contains("/mnt/gone")
    };
    assert!(right());
    for drift in [
        "umount '/mnt/a place'",
        "umount --lazy '/mnt/a place'",
        "mount -o remount,ro '/mnt/a place'",
        "mount -o remount,bind,ro '/mnt/a place'",
        "mount -o remount,dev '/mnt/a place'",
        "mount -o remount,size=30m '/mnt/a place'",
        "mount -t tmpfs other '/mnt/a place'",
        "mount --bind /etc '/mnt/a place'",
        "umount '/mnt/a place'; mount -t ramfs memory '/mnt/a place'",
        "umount '/mnt/a place'; rmdir '/mnt/a place'",
        "sed -i /place/d /etc/fstab",
        "sed -i s/size=10m/size=11m/ /etc/fstab",
        "sed -i s/tmpfs/ext4/ /etc/fstab; umount '/mnt/a place'",
        "grep place /etc/fstab >>/etc/fstab",
        "mkdir -p /mnt/gone; mount -t tmpfs x /mnt/gone",
        "echo x /mnt/gone tmpfs >>/etc/fstab",
    ] {
        // We may be faster than the second half of it.
        shell(&format!("({drift}) 2>/dev/null || true"));
        soon(drift, right).await;
    }
    running.stop();
}

#[test]
fn the_service_manager_knows_the_new_table() {
    if !on_booted_host("the_service_manager_knows_the_new_table") {
        return;
    }
    let bench = TestEnv::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut vertex = bench.vertex("/mnt/x", tmpfs(&[]));
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Changed);
    let told = |property: &str| {
        run("systemctl", &["show", "mnt-x.mount", &format!("--property={property}"), "--value"])
    };
    assert_eq!((told("ActiveState"), told("NeedDaemonReload")), ("active".into(), "no".into()));
    assert!(told("SourcePath").contains("fstab"));
    let mut vertex = bench.vertex("/mnt/x", absent());
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Changed);
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Right);
    assert_ne!(told("ActiveState"), "active");
}

#[test]
fn what_is_below_a_mount_comes_after_it() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let bind = Mount { device: "/srv/shown".into(), r#type: "none".into(), ..tmpfs(&[("bind", "")]) };
    let specs = vec![
        Spec::new("/mnt", tmpfs(&[])),
        Spec::new("/mnt/deep", bind),
        file("/mnt/deep/file"),
        file("/srv/shown/"),
        file("/etc/fstab"),
    ];
    let edges = edges(specs);
    for expected in [
        "mount[/mnt] -> mount[/mnt/deep]",
        "mount[/mnt/deep] -> file[/mnt/deep/file]",
        "file[/srv/shown/] -> mount[/mnt/deep]",
        "file[/etc/fstab] -> mount[/mnt]",
    ] {
        assert!(edges.contains(&expected.to_owned()), "{expected}: {edges:?}");
    }
}
