//! Pages for which there has to be a service manager, on hosts that are booted for it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use flate2::Compression;
use mgmt_release::{Release, deb, elf};

use crate::packaging::{EPOCH, stripped, tree};
use crate::page_commands::test_env::lines;
use mgmt_test_support::booted_host;
use mgmt_test_support::pages::{blocks, root};
use mgmt_test_support::program::eventually;

/// As the page calls it.
const PACKAGE: &str = "mgmt_0.1.0-1_amd64.deb";

/// What somebody who has just logged in types.
fn sh(commands: &str) -> Output {
    shell(commands).output().unwrap()
}

fn shell(commands: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]).current_dir("/root").env_clear().env("HOME", "/root").stdin(Stdio::null());
    shell.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    shell
}

#[track_caller]
fn types(commands: &str) -> String {
    let output = sh(commands);
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{commands}\n{said}\n{}", journal());
    said
}

fn journal() -> String {
    String::from_utf8_lossy(&sh("journalctl -u mgmt -n 40 --no-pager || true").stdout).into_owned()
}

#[track_caller]
fn types_until(commands: &str, part: &str) -> String {
    let mut said = String::new();
    eventually(&format!("`{commands}` says `{part}`"), || {
        said = String::from_utf8_lossy(&sh(commands).stdout).into_owned();
        said.contains(part)
    });
    said
}

/// A page, which a booted host finds among the files that it was given.
fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new("/mgmt-test-result").join(name)).unwrap()
}

/// Boots a host with the program, its package, and some pages, and runs the test there.
fn boots(test: &str, pages: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let (binary, release) = (stripped(place.path()), Release::new(env!("CARGO_PKG_VERSION"), EPOCH));
    let needs = elf::needs(&std::fs::read(&binary).unwrap()).unwrap();
    assert_eq!(deb::file_name(&release, &needs), PACKAGE, "the page has another name for it");
    let package = place.path().join(PACKAGE);
    let content = deb::write(&tree(&binary, &release), &release, &needs, Compression::fast()).unwrap();
    std::fs::write(&package, content).unwrap();
    let pages: Vec<_> = pages.iter().map(|page| (*page, root().join("docs").join(page))).collect();
    let mut files = vec![("mgmt", binary.as_path()), (PACKAGE, package.as_path())];
    files.extend(pages.iter().map(|(page, path)| (page.rsplit('/').next().unwrap(), path.as_path())));
    booted_host::on_booted_host_with(test, &files);
}

/// Nothing of us is there, and nothing keeps services from starting.
fn fresh() {
    types(
        "rm -rf /usr/sbin/policy-rc.d /var/lib/man-db/auto-update /var/lib/mgmt /etc/mgmt; ! command -v mgmt",
    );
    types("ip link set lo up; for host in 1 2 3; do ip addr add 10.0.0.$host/24 dev lo; done");
}

/// The words with which the service was started.
fn words() -> String {
    types("tr '\\0' ' ' <\"/proc/$(systemctl show --value --property MainPID mgmt.service)/cmdline\"")
}

#[test]
fn the_service_is_installed_made_and_read() {
    if booted_host::is_booted() {
        return installed_made_and_read();
    }
    let pages = [
        "how-to/run-as-a-service.md",
        "how-to/read-the-log.md",
        "how-to/plan-before-you-run.md",
        "explanation/service.md",
    ];
    boots("the_service_is_installed_made_and_read", &pages);
}

fn installed_made_and_read() {
    fresh();
    let text = page("run-as-a-service.md");
    let [install, deploy, make, other, ask, packages, scripts, _chores] =
        <[String; 8]>::try_from(blocks(&text, "sh")).unwrap();
    types(&format!("cp /mgmt-test-result/{PACKAGE} ."));
    assert!(types(&install).contains("active (running)"));
    types(&deploy);
    types_until("cat /tmp/hello", "hello\n");
    reads_the_log();
    plans();
    // What a service can be asked for.
    types("mgmt deploy --no-git lang 'exec \"migrate\" { cmd => \"/bin/false\", Meta:retry => 0, }'");
    types_until("mgmt retry 'exec[migrate]'", "attempting 1 resource\n");
    types(
        "mgmt plan --out change.plan lang 'file \"/tmp/applied\" { content => \"applied\\n\", state => \"exists\", }'",
    );
    types(&ask);
    assert_eq!(types("cat /tmp/applied"), "applied\n");
    // The program alone makes a service, too.
    types("dpkg --purge mgmt; cp /mgmt-test-result/mgmt /usr/local/bin/mgmt");
    types(&make);
    assert_eq!(booted_host::unit_state("is-active", "mgmt.service"), "active");
    assert_eq!(booted_host::unit_state("is-enabled", "mgmt.service"), "enabled");
    let mut etcd = Background::start(
        "etcd --data-dir /root/etcd --log-level error --listen-client-urls http://10.0.0.1:2379 \
         --advertise-client-urls http://10.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380",
    );
    types("mkdir -p /opt/mgmt; cp /mgmt-test-result/mgmt /opt/mgmt/mgmt");
    types(&other);
    assert_eq!(words().trim(), "/opt/mgmt/mgmt run --seeds http://10.0.0.1:2379 empty");
    // Options: in a drop-in, and in a file that counts over it.
    types("mkdir -p /etc/systemd/system/mgmt.service.d /etc/mgmt");
    let drop_in = "/etc/systemd/system/mgmt.service.d/override.conf";
    std::fs::write(drop_in, &blocks(&text, "ini")[0]).unwrap();
    let restart = "systemctl restart mgmt.service";
    assert!(text.contains(&format!("`{restart}`")));
    types(&format!("systemctl daemon-reload; {restart}"));
    assert!(words().trim().ends_with("empty --prometheus --converger-timeout=30"), "{}", words());
    std::fs::write("/etc/mgmt/mgmt.conf", &blocks(&text, "conf")[0]).unwrap();
    types(restart);
    assert!(words().trim().ends_with("empty --prometheus"), "{}", words());
    types_until("curl --silent http://127.0.0.1:9233/metrics", "mgmt_build_info");
    // What a site may add, systemd has nothing to say against.
    let harder = blocks(&page("service.md"), "ini");
    std::fs::write("/etc/systemd/system/mgmt.service.d/harder.conf", &harder[0]).unwrap();
    types(&format!("systemctl daemon-reload; {restart}"));
    assert_eq!(types("systemd-analyze verify --man=no mgmt.service"), "");
    assert_eq!(
        booted_host::run("systemctl", &["show", "--value", "-p", "NoNewPrivileges", "mgmt.service"]),
        "yes"
    );
    types("systemctl stop mgmt.service");
    etcd.end();
    for (line, part) in lines(&packages).iter().zip(["etcd-server", "apt-get", "puppet-agent"]) {
        let said = types(line);
        assert!(said.contains(part), "{line}\n{said}");
    }
    types("mkdir /root/done; printf '#!/bin/sh\\necho joined the domain\\n' >join-domain");
    types(&scripts);
    std::fs::write("/var/lib/mgmt/firstboot/10-join-domain.yaml", &blocks(&text, "yaml")[0]).unwrap();
    types("systemctl start mgmt-firstboot.service");
    types("test -x /root/done/10-join-domain; ! test -e /var/lib/mgmt/firstboot/10-join-domain");
    types_until("journalctl -u mgmt-firstboot --no-pager", "joined the domain");
}

/// Asks the journal what the page asks it.
fn reads_the_log() {
    let text = page("read-the-log.md");
    let [_levels, journal] = <[String; 2]>::try_from(blocks(&text, "sh")).unwrap();
    types(
        "mgmt deploy --no-git lang 'file \"/etc/motd\" { content => \"hello\\n\", state => \"exists\", }\n\
         svc \"none-of-this-name\" { state => \"running\", }'",
    );
    for line in lines(&journal) {
        types_until(
            &line,
            if line.contains("MGMT_KIND=svc") { "none-of-this-name" } else { "file[/etc/motd]" },
        );
    }
}

/// Plans the program of the page, on a host where its service runs.
fn plans() {
    let text = page("plan-before-you-run.md");
    let unit = "[Service]\nExecStart=/bin/sleep infinity\nExecReload=/bin/true\n";
    std::fs::write("/etc/systemd/system/app.service", unit).unwrap();
    types("systemctl daemon-reload; systemctl start app; cp /bin/true /usr/bin/app");
    std::fs::write("/root/main.mcl", &blocks(&text, "mcl")[0]).unwrap();
    // What the service manages is another matter.
    assert_eq!(types("mgmt plan --prefix /root/none lang main.mcl"), blocks(&text, "text")[0]);
    types(
        "systemctl stop app; rm main.mcl /usr/bin/app /etc/systemd/system/app.service; systemctl daemon-reload",
    );
}

#[test]
fn a_cluster_is_recovered_and_the_agent_of_puppet_turned_off() {
    if booted_host::is_booted() {
        recovered();
        return turned_off();
    }
    boots(
        "a_cluster_is_recovered_and_the_agent_of_puppet_turned_off",
        &["how-to/run-a-cluster.md", "how-to/coming-from-puppet.md"],
    );
}

/// A command that goes on. It is killed in the end.
struct Background(Child);

impl Background {
    fn start(command: &str) -> Background {
        let mut shell = shell(&format!("exec {command}"));
        Background(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

fn recovered() {
    fresh();
    let text = page("run-a-cluster.md");
    let recover = &blocks(&text, "sh")[4];
    types("cp /mgmt-test-result/mgmt /usr/local/bin/mgmt; mkdir /etc/mgmt");
    // The first host is a service, the two others are not.
    let options = "OPTS=--ideal-cluster-size 3 --server-urls http://10.0.0.1:2380\nMGMT_CLUSTER_PACE=quick\n";
    std::fs::write("/etc/mgmt/mgmt.conf", options).unwrap();
    types("mgmt setup svc --install --start");
    types_until("mgmt members list", "1 serve, 3 shall");
    let mut others: Vec<Background> = ["2", "3"]
        .into_iter()
        .map(|host| {
            let named = format!(
                "hostname h{host} && exec mgmt run --prefix /root/h{host} --ideal-cluster-size 3 \
                                 --server-urls http://10.0.0.{host}:2380 --seeds http://10.0.0.1:2379 empty"
            );
            Background::start(&format!("env MGMT_CLUSTER_PACE=quick unshare --uts -- sh -ec '{named}'"))
        })
        .collect();
    types_until("mgmt members list", "3 serve, 3 shall");
    types("mgmt deploy --no-git lang 'file \"/root/told\" { content => \"kept\", state => \"exists\", }'");
    types_until("cat /root/told", "kept");
    // They are lost with their disks.
    others.iter_mut().for_each(Background::end);
    types("rm -r /root/h2 /root/h3");
    for line in lines(recover) {
        types(&line);
    }
    types_until("mgmt members list", "1 serve, 3 shall");
    assert!(types("mgmt deploy list").contains("    1  "));
    types("test -d /var/lib/mgmt/cluster/former-1; rm /root/told");
    types_until("cat /root/told", "kept");
    types("systemctl stop mgmt; rm -r /var/lib/mgmt");
}

fn turned_off() {
    let text = page("coming-from-puppet.md");
    let first_run = &lines(&blocks(&text, "sh")[1]);
    let [turn_off, look, run] = &first_run[..] else { panic!("{first_run:?}") };
    let manifests = blocks(&text, "puppet");
    std::fs::write("/root/site.pp", manifests.last().unwrap()).unwrap();
    types(turn_off);
    assert_eq!(booted_host::unit_state("is-enabled", "puppet.service"), "disabled");
    assert_ne!(booted_host::unit_state("is-active", "puppet.service"), "active");
    types(look);
    assert!(!Path::new("/etc/motd.d/hello").exists());
    let _run = Background::start(run);
    types_until("cat /etc/motd.d/hello", "hello\n");
    types_until("cat /etc/issue.local", "authorised use only\n");
}
