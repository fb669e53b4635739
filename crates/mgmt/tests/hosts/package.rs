//! The program as a service, on a booted host: set up by itself, and installed, upgraded and removed as a package.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::booted_host;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::packaging::{EPOCH, stripped, tree};
use flate2::Compression;
use mgmt_release::{Release, Tree, deb, elf, tarball};
use mgmt_test_support::booted_host::{run, unit_state};

const SERVICE: &str = "mgmt.service";
/// Where the files of the test are on the host.
const GIVEN: &str = "/mgmt-test-result";

#[test]
fn the_service_is_set_up_installed_upgraded_and_removed_without_a_trace() {
    let name = "the_service_is_set_up_installed_upgraded_and_removed_without_a_trace";
    if booted_host::is_booted() {
        return on_a_booted_host();
    }
    let place = tempfile::tempdir().unwrap();
    let binary = stripped(place.path());
    let needs = elf::needs(&std::fs::read(&binary).unwrap()).unwrap();
    let mut tree = tree(&binary, &Release::new("1.0.0", EPOCH));
    holds_everything(&tree);
    let mut packages = Vec::new();
    for version in ["1.0.0", "1.1.0"] {
        let release = Release::new(version, EPOCH);
        let package = deb::write(&tree, &release, &needs, Compression::fast()).unwrap();
        let path = place.path().join(deb::file_name(&release, &needs));
        std::fs::write(&path, package).unwrap();
        packages.push(path);
        tree.add("usr/share/doc/mgmt/second", "only in the second\n");
    }
    let archive = place.path().join("archive");
    let release = Release::new("1.1.0", EPOCH);
    let packed = tarball::write(&tree, &release, "mgmt-1.1.0-x86_64", Compression::fast()).unwrap();
    std::fs::write(&archive, packed).unwrap();
    booted_host::on_booted_host_with(
        name,
        &[
            ("mgmt", &binary),
            ("first.deb", &packages[0]),
            ("second.deb", &packages[1]),
            ("mgmt-1.1.0-x86_64.tar.gz", &archive),
            ("page.md", &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/run-as-a-service.md")),
        ],
    );
}

/// A systemd from 253 on has a way of its own to have a service read everything again: it sends a signal, and waits until the service
/// has said that it reads, and then that it is ready. A service that does not say so has failed to reload.
#[test]
fn a_newer_systemd_reloads_it_in_its_own_way() {
    if booted_host::is_booted() {
        return reloads();
    }
    let place = tempfile::tempdir().unwrap();
    let (binary, release) = (stripped(place.path()), Release::new("1.0.0", EPOCH));
    let needs = elf::needs(&std::fs::read(&binary).unwrap()).unwrap();
    let package = place.path().join("package");
    let content = deb::write(&tree(&binary, &release), &release, &needs, Compression::fast()).unwrap();
    std::fs::write(&package, content).unwrap();
    booted_host::on_clean_host_with(
        "a_newer_systemd_reloads_it_in_its_own_way",
        &[("mgmt", &binary), ("first.deb", &package)],
    );
}

fn reloads() {
    let version = shell("systemctl --version | sed -n 's/^systemd \\([0-9]*\\).*/\\1/p'");
    assert!(version.parse::<u32>().unwrap() >= 253, "{version}");
    // The unit of the package, which older ones understand, too; and the one that is written for this one.
    run("dpkg", &["--install", &format!("{GIVEN}/first.deb")]);
    assert!(property("ExecReload").contains("kill -HUP"), "{}", property("ExecReload"));
    is_reloaded("/usr/bin/mgmt");
    run("dpkg", &["--purge", "mgmt"]);
    shell("cp /mgmt-test-result/mgmt /usr/local/bin/mgmt-test");
    run("/usr/local/bin/mgmt-test", &["setup", "svc", "--install", "--start"]);
    assert_eq!(property("ExecReload"), "");
    is_reloaded("/usr/local/bin/mgmt-test");
}

/// The service runs a program that it reads again when it is told to, and at no other time.
fn is_reloaded(program: &str) {
    assert_eq!(property("Type"), "notify-reload");
    shell("mkdir -p /etc/mgmt /etc/systemd/system/mgmt.service.d");
    let own = format!("[Service]\nExecStart=\nExecStart={program} run --no-watch lang /etc/mgmt/main.mcl\n");
    std::fs::write("/etc/systemd/system/mgmt.service.d/own.conf", own).unwrap();
    let write = |content: &str| {
        let text =
            format!("file \"/tmp/kept\" {{\n\tstate => \"exists\",\n\tcontent => \"{content}\",\n}}\n");
        std::fs::write("/etc/mgmt/main.mcl", text).unwrap();
    };
    write("one");
    shell("systemctl daemon-reload; systemctl restart mgmt.service");
    comes("/tmp/kept", "one");
    let process = property("MainPID");
    let read_again = || {
        shell("journalctl --sync; journalctl --unit=mgmt.service --output=cat").matches(READ_AGAIN).count()
    };
    for (count, content) in ["two", "three"].into_iter().enumerate() {
        write(content);
        let before = read_again();
        // It comes back once the service is ready, and fails if it does not say so.
        shell(
            "systemctl reload mgmt.service || { journalctl --unit=mgmt.service --no-pager --lines=30; exit 1; }",
        );
        assert_eq!((property("ReloadResult"), property("ActiveState")), ("success".into(), "active".into()));
        comes("/tmp/kept", content);
        assert_eq!(
            read_again(),
            before + 1,
            "reload {count} has read everything more than once, or not at all"
        );
    }
    assert_eq!(property("MainPID"), process, "it was restarted");
    shell("rm -r /etc/systemd/system/mgmt.service.d /tmp/kept");
}

/// What the service says when it was told to read everything again.
const READ_AGAIN: &str = "reading the program again";

/// Every command has a page, every shell its completions, and so on.
fn holds_everything(tree: &Tree) {
    for path in [
        "etc/mgmt/mgmt.conf",
        "usr/bin/mgmt",
        "usr/lib/systemd/system/mgmt.service",
        "usr/lib/systemd/system/mgmt-firstboot.service",
        "usr/lib/systemd/catalog/mgmt.catalog",
        "usr/lib/sysusers.d/mgmt.conf",
        "usr/lib/tmpfiles.d/mgmt.conf",
        "usr/share/bash-completion/completions/mgmt",
        "usr/share/doc/mgmt/changelog.Debian.gz",
        "usr/share/doc/mgmt/changelog.gz",
        "usr/share/doc/mgmt/copyright",
        "usr/share/doc/mgmt/mgmt.cdx.json.gz",
        "usr/share/doc/mgmt/mgmt.spdx.json.gz",
        "usr/share/doc/mgmt/third-party-licenses.gz",
        "usr/share/fish/vendor_completions.d/mgmt.fish",
        "usr/share/man/man1/mgmt.1.gz",
        "usr/share/man/man1/mgmt-run.1.gz",
        "usr/share/man/man1/mgmt-setup-svc.1.gz",
        "usr/share/man/man1/mgmt-firstboot-start.1.gz",
        "usr/share/zsh/vendor-completions/_mgmt",
    ] {
        assert!(tree.get(path).is_some_and(|file| !file.content.is_empty()), "{path}");
    }
}

fn shell(text: &str) -> String {
    run("sh", &["-ec", text])
}

fn on_a_booted_host() {
    // What keeps services from starting on machines that build, what indexes manual pages for half a minute, and what others
    // have left.
    shell("rm -rf /usr/sbin/policy-rc.d /var/lib/man-db/auto-update /var/lib/mgmt");
    shell("cp /mgmt-test-result/mgmt /usr/local/bin/mgmt-test");
    set_up();
    first_boot();
    shell("rm -rf /usr/local/bin/mgmt-test /var/lib/mgmt");
    let before = traces();
    install();
    upgrade();
    remove();
    assert_eq!(traces(), before, "purging has left something");
    unpack();
    assert_eq!(traces(), before, "what came with the tarball is not gone");
}

/// Whatever has our name.
fn traces() -> String {
    shell("find /etc /usr /var -name '*mgmt*' | sort")
}

fn property(name: &str) -> String {
    run("systemctl", &["show", "--value", "--property", name, SERVICE])
}

fn says_how_it_is() {
    let end = Instant::now() + Duration::from_secs(120);
    while property("StatusText").is_empty() {
        assert!(Instant::now() < end, "the service says nothing about itself");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn set_up() {
    let setup = ["setup", "svc", "--install", "--enable", "--start"];
    run("/usr/local/bin/mgmt-test", &setup);
    let unit = Path::new("/etc/systemd/system/mgmt.service");
    assert_eq!(unit.metadata().unwrap().permissions().mode() & 0o7777, 0o644);
    assert_eq!(
        (unit_state("is-active", SERVICE), unit_state("is-enabled", SERVICE)),
        ("active".into(), "enabled".into())
    );
    let text = std::fs::read_to_string(unit).unwrap();
    assert!(text.contains("\nExecStart=/usr/local/bin/mgmt-test run empty $OPTS\n"), "{text}");
    // Whoever has systemd check units sees nothing to complain about.
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no", SERVICE]).output().unwrap();
    assert!(
        verify.status.success() && verify.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&verify.stderr)
    );
    // It is started once it has said that it is ready, and says how it is doing.
    assert!(property("Type").starts_with("notify"), "{}", property("Type"));
    says_how_it_is();
    let process = property("MainPID");
    run("/usr/local/bin/mgmt-test", &setup);
    assert_eq!(property("MainPID"), process, "it was restarted, although nothing has changed");
    run("systemctl", &["reload", SERVICE]);
    assert_eq!((property("MainPID"), unit_state("is-active", SERVICE)), (process, "active".into()));
    // Another store is another unit.
    run("/usr/local/bin/mgmt-test", &["setup", "svc", "--install", "--seeds", "http://127.0.0.1:1"]);
    let text = std::fs::read_to_string(unit).unwrap();
    assert!(text.contains("mgmt-test run --seeds http://127.0.0.1:1 empty $OPTS"), "{text}");
    run("systemctl", &["disable", "--quiet", "--now", SERVICE]);
    shell("rm /etc/systemd/system/mgmt.service; systemctl daemon-reload");
    // Who has masked it is asked first.
    run("systemctl", &["mask", "--quiet", SERVICE]);
    let masked = Command::new("/usr/local/bin/mgmt-test").args(setup).output().unwrap();
    assert_eq!(masked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&masked.stderr).contains("masked"));
    run("systemctl", &["unmask", "--quiet", SERVICE]);
}

fn first_boot() {
    let program = "/usr/local/bin/mgmt-test";
    run(
        program,
        &["setup", "firstboot", "--mkdir", "--install", "--enable", "--logging-dir", "/var/lib/mgmt/logs/"],
    );
    shell(
        "printf '#!/bin/sh\\necho was here; touch /var/lib/mgmt/first\\n' >/var/lib/mgmt/firstboot/10-touch",
    );
    shell("chmod 700 /var/lib/mgmt/firstboot/10-touch");
    run(program, &["setup", "firstboot", "--start"]);
    assert_eq!(unit_state("is-active", "mgmt-firstboot.service"), "active");
    shell("test -e /var/lib/mgmt/first; ! test -e /var/lib/mgmt/firstboot/10-touch");
    shell("grep -q 'was here' /var/lib/mgmt/logs/mgmt-firstboot-*.log");
    run("systemctl", &["disable", "--quiet", "--now", "mgmt-firstboot.service"]);
    shell("rm /etc/systemd/system/mgmt-firstboot.service; systemctl daemon-reload");
}

/// Waits for a file with this content.
fn comes(path: &str, content: &str) {
    let end = Instant::now() + Duration::from_secs(120);
    while std::fs::read_to_string(path).ok().as_deref() != Some(content) {
        assert!(
            Instant::now() < end,
            "{path} does not come: {}",
            shell("systemctl status mgmt.service || true")
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn install() {
    shell(&format!(
        "DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes -o APT::Sandbox::User=root {GIVEN}/first.deb"
    ));
    assert_eq!(
        (unit_state("is-active", SERVICE), unit_state("is-enabled", SERVICE)),
        ("active".into(), "enabled".into())
    );
    says_how_it_is();
    assert_eq!(shell("dpkg --verify mgmt"), "");
    // What needs no rights has an account of its own, as which nobody logs in.
    shell("getent passwd mgmt-helper | grep --quiet ':/usr/sbin/nologin$'");
    shell("test $(id --user mgmt-helper) -gt 0 && test $(id --user mgmt-helper) -lt 1000");
    assert_eq!(shell("id --name --groups mgmt-helper"), "mgmt-helper");
    // Whoever opens the directory for others finds it closed again.
    shell("chmod 755 /var/lib/mgmt; systemd-tmpfiles --create mgmt.conf");
    assert_eq!(shell("stat --format=%a /var/lib/mgmt"), "700");
    assert_eq!(shell("command -v mgmt"), "/usr/bin/mgmt");
    shell("bash -n /usr/share/bash-completion/completions/mgmt");
    // What is deployed to the service is done.
    shell(
        "mgmt deploy --no-git lang 'file \"/tmp/managed\" { content => \"by mgmt\", state => \"exists\", }'",
    );
    comes("/tmp/managed", "by mgmt");
    // The journal knows which deploy that was, and explains what it means.
    let explained = shell(
        "journalctl --no-pager --catalog --unit=mgmt.service 'MGMT_RESOURCE=file[/tmp/managed]' MGMT_DEPLOY=1",
    );
    assert!(explained.contains("Subject: file[/tmp/managed] was put right"), "{explained}");
    shell("echo 'OPTS=--converger-timeout=30 --sema 5' >>/etc/mgmt/mgmt.conf");
}

fn upgrade() {
    let process = property("MainPID");
    run("dpkg", &["--install", &format!("{GIVEN}/second.deb")]);
    assert_eq!(run("dpkg-query", &["--show", "--showformat=${Version}", "mgmt"]), "1.1.0-1");
    assert_eq!(
        (unit_state("is-active", SERVICE), unit_state("is-enabled", SERVICE)),
        ("active".into(), "enabled".into())
    );
    assert_ne!(property("MainPID"), process, "the old program goes on");
    // What the administrator has written stays, and counts.
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", property("MainPID"))).unwrap();
    let words: Vec<&str> = line.split_terminator('\0').collect();
    assert_eq!(words, ["/usr/bin/mgmt", "run", "empty", "--converger-timeout=30", "--sema", "5"]);
    shell("test -e /usr/share/doc/mgmt/second");
    // It goes on with what it was to do.
    std::fs::remove_file("/tmp/managed").unwrap();
    comes("/tmp/managed", "by mgmt");
    // Whoever has disabled it keeps it disabled.
    run("systemctl", &["disable", "--quiet", SERVICE]);
    run("dpkg", &["--install", &format!("{GIVEN}/second.deb")]);
    assert_eq!(unit_state("is-enabled", SERVICE), "disabled");
}

fn remove() {
    run("dpkg", &["--remove", "mgmt"]);
    assert_ne!(unit_state("is-active", SERVICE), "active");
    shell("! test -e /usr/bin/mgmt; test -e /etc/mgmt/mgmt.conf; test -d /var/lib/mgmt");
    run("dpkg", &["--purge", "mgmt"]);
    assert_eq!(unit_state("is-active", SERVICE), "inactive");
}

/// The tarball, with the words of the page about it.
fn unpack() {
    let page = std::fs::read_to_string(format!("{GIVEN}/page.md")).unwrap();
    let words: Vec<&str> =
        page.lines().find(|line| line.starts_with("The tarball has")).unwrap().split('`').collect();
    let [_, extract, _, enable, _, disable, _, delete, ..] = words[..] else {
        panic!("the page does not say how a tarball is installed and removed: {words:?}")
    };
    shell(&format!("cd {GIVEN}; {extract}"));
    assert_eq!(shell("stat --format='%a %U' / /usr /usr/bin /etc"), "755 root\n755 root\n755 root\n755 root");
    shell(enable);
    assert_eq!(
        (unit_state("is-active", SERVICE), unit_state("is-enabled", SERVICE)),
        ("active".into(), "enabled".into())
    );
    says_how_it_is();
    assert_eq!(shell("stat --format=%a /var/lib/mgmt"), "700");
    shell(
        "mgmt deploy --no-git lang 'file \"/tmp/unpacked\" { content => \"by mgmt\", state => \"exists\", }'",
    );
    comes("/tmp/unpacked", "by mgmt");
    std::fs::remove_file("/tmp/unpacked").unwrap();
    comes("/tmp/unpacked", "by mgmt");
    shell(disable);
    assert_eq!(unit_state("is-active", SERVICE), "inactive");
    shell(&format!("cd {GIVEN}; {delete}"));
    shell(
        "! command -v mgmt; rmdir /etc/mgmt /usr/share/doc/mgmt; rm -r /var/lib/mgmt; systemctl daemon-reload",
    );
}
