//! Every kind has an example in its docs, which the reference shows, and every example does what it says.
//!
//! Each is in canonical form, checks without a warning, and has a graph with the kind in it. Then it runs: on a view of this machine
//! on which every change is thrown away, or on a host that was booted for it. [`EXAMPLES`] says how, and what is to be seen then;
//! a kind that is not in it makes the tests fail.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::booted_host;
use mgmt_test_support::program;
use mgmt_test_support::sandbox;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mgmt_resource::Schema;
use mgmt_resources::KINDS;
use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, plain};
use mgmt_test_support::sandbox::Sandbox;

/// What is seen of an example. Commands are for a shell.
#[derive(Clone, Copy)]
enum See {
    /// It converges, this command succeeds then, and nothing is changed by a second run.
    Settles(&'static str),
    /// It converges, and this command succeeds then. Whenever it begins, it says or does something, so it is never without a change.
    Runs(&'static str),
    /// It ends by itself, and this command succeeds then.
    Ends(&'static str),
    /// While it runs, this command succeeds sooner or later.
    Lives(&'static str),
    /// It says what it would change, and changes nothing. It cannot do it, for this reason.
    Looks(&'static str),
    /// It is not run, for this reason.
    Nothing(&'static str),
}

use See::{Ends, Lives, Looks, Nothing, Runs, Settles};

/// Where an example runs.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// On a view of this machine, with a name and a network of its own.
    View,
    /// On a host that was booted with systemd.
    Booted,
}

use Place::{Booted, View};

/// By kind: where its example runs, what has to be there, as commands for a shell, and what is seen.
const EXAMPLES: &[Case] = &[
    (
        "augeas",
        View,
        "mkdir -p /etc/ssh; printf 'Port 22\\nPermitRootLogin yes\\n' >/etc/ssh/sshd_config",
        Settles("printf 'Port 22\\nPermitRootLogin no\\n' | cmp - /etc/ssh/sshd_config"),
    ),
    (
        "cron",
        Booted,
        "printf '[Service]\\nExecStart=/bin/true\\n' >/etc/systemd/system/backup.service; systemctl daemon-reload",
        Settles("systemctl is-active backup.timer"),
    ),
    (
        "crontab",
        View,
        "mkdir -p /var/spool/cron/crontabs",
        Settles("grep '^30 4 .*report --mail' /var/spool/cron/crontabs/www-data"),
    ),
    (
        "debconf",
        View,
        "",
        Settles("echo GET postfix/main_mailer_type | debconf-communicate postfix | grep 'Local only'"),
    ),
    ("deploy:tar", View, "", Settles("tar -tf /var/backups/program.tar | grep main.mcl")),
    (
        "exec",
        View,
        "printf '#!/bin/sh\\nmkdir /var/lib/app && touch /var/lib/app/data\\n' >/usr/bin/app; chmod +x /usr/bin/app",
        Settles("test -e /var/lib/app/data"),
    ),
    ("exit", View, "", Ends("grep 'this host is ready' /etc/motd")),
    ("file", View, "", Settles("test \"$(cat /etc/motd)\" = welcome")),
    (
        "firewalld",
        Booted,
        "systemctl start firewalld",
        Settles(
            "firewall-cmd --zone=public --query-port=8080/tcp; firewall-cmd --zone=public --query-service=https; \
             firewall-cmd --permanent --zone=public --query-service=http",
        ),
    ),
    ("group", View, "", Settles("getent group developers | grep :2000:")),
    (
        "gsettings",
        View,
        "useradd --create-home ada; cd /usr/share/glib-2.0/schemas; rm -f *; printf '%s' '<schemalist><schema \
         id=\"org.gnome.desktop.interface\" path=\"/org/gnome/desktop/interface/\"><key name=\"clock-show-date\" \
         type=\"b\"><default>false</default></key></schema></schemalist>' >clock.gschema.xml; glib-compile-schemas .",
        Settles(
            "runuser -u ada -- env -i HOME=/home/ada PATH=/usr/bin:/bin dbus-run-session -- \
             gsettings get org.gnome.desktop.interface clock-show-date | grep true",
        ),
    ),
    (
        "gzip",
        View,
        "mkdir -p /srv/www; echo '[1, 2]' >/srv/www/catalogue.json",
        Settles("zcat /srv/www/catalogue.json.gz | cmp - /srv/www/catalogue.json"),
    ),
    ("host", View, "", Settles("grep '192.0.2.7.*db1.example.com.*db1' /etc/hosts")),
    ("hostname", View, "", Settles("test \"$(hostname)\" = web1.example.com; grep cellar /etc/machine-info")),
    ("http:server", View, "", Lives("curl -sf http://127.0.0.1:8080/hello | grep hello")),
    (
        "http:server:file",
        View,
        "mkdir /srv/releases; echo first >/srv/releases/1",
        Lives("curl -sf http://127.0.0.1:8080/releases/1 | grep first"),
    ),
    (
        "http:server:flag",
        View,
        "",
        Lives("curl -sf -d version=7 http://127.0.0.1:8080/release && sleep 0.2 && grep 7 /srv/version"),
    ),
    (
        "http:server:proxy",
        View,
        "mkdir -p /var/cache/mirror; echo kept >/var/cache/mirror/Release",
        Lives("curl -sf http://127.0.0.1:8080/debian/Release | grep kept"),
    ),
    (
        "http:server:ui",
        View,
        "",
        Lives(
            "curl -sfL http://127.0.0.1:8080/settings/ | grep 'Settings of the shop' && \
             curl -sf http://127.0.0.1:8080/settings/list/greeting | grep hello",
        ),
    ),
    (
        "http:server:ui:input",
        View,
        "",
        Lives(
            "curl -sf -d id=volume -d value=7 http://127.0.0.1:8080/settings/save/ && \
             curl -sf http://127.0.0.1:8080/settings/list/volume | grep 7",
        ),
    ),
    ("ini", View, "", Settles("printf '[PHP]\\nmemory_limit = 512M\\n' | cmp - /etc/php.ini")),
    (
        "json:edit",
        View,
        "mkdir /etc/shop; echo '{\"log\": {\"level\": \"debug\"}, \"beta\": true}' >/etc/shop/settings.json",
        Settles("grep '\"level\": \"info\"' /etc/shop/settings.json && ! grep beta /etc/shop/settings.json"),
    ),
    ("kv", View, "", Settles("true")),
    ("line", View, "", Settles("grep '^192.0.2.7 printer$' /etc/hosts")),
    (
        "mount",
        View,
        "",
        Nothing("it is about a disk that only its owner has; `mount.rs` of the resources has disks"),
    ),
    (
        "msg",
        Booted,
        "",
        Runs("journalctl --sync; journalctl ROLE=web --output=cat | grep 'this host is ready'"),
    ),
    (
        "net",
        View,
        "ip link add eth1 type veth peer name eth2; ip link set eth2 up; mkdir -p /etc/systemd/network",
        Settles("ip addr show dev eth1 | grep 192.0.2.10/24; ip route show default | grep 192.0.2.1"),
    ),
    ("noop", View, "", Settles("test -e /etc/shop.rules && test -e /run/shop-has-started")),
    (
        "nspawn",
        Booted,
        "mkdir -p /etc/systemd/nspawn /var/lib/machines/build; cd /var/lib/machines/build; mkdir etc usr var; \
         for link in bin sbin lib lib64; do ln -s usr/$link $link; done; echo ID=build >etc/os-release; \
         printf '[Exec]\\nBoot=no\\nProcessTwo=yes\\nParameters=/usr/bin/sleep infinity\\nPrivateUsers=no\\n[Network]\\nPrivate=yes\\n\
         VirtualEthernet=no\\n[Files]\\nBindReadOnly=/usr\\n' >/etc/systemd/nspawn/build.nspawn",
        Settles("machinectl show build -p State --value | grep running"),
    ),
    (
        "password",
        View,
        "",
        Settles(
            "test \"$(wc -c </etc/shop-database-password)\" = 32 && stat -c %a /etc/shop-database-password | grep 600",
        ),
    ),
    ("pippet", View, "", Runs("gem list rake | grep rake")),
    (
        "pkg",
        View,
        "",
        Looks("there is no network to fetch packages from; `plan_packages.rs` has some to install"),
    ),
    ("print", View, "", Runs("grep \"this is $(hostname)\" /said")),
    ("remote", View, "", Nothing("there is no such host; `remote_kind.rs` has some")),
    (
        "schedule",
        Booted,
        "printf '[Service]\\nExecStart=/bin/sleep infinity\\n' >/etc/systemd/system/postgresql.service; systemctl daemon-reload",
        Lives("systemctl is-active postgresql"),
    ),
    (
        "ssh:authorized_key",
        View,
        "useradd --create-home ada",
        Settles("grep 'no-agent-forwarding ssh-ed25519 .* ada@work' /home/ada/.ssh/authorized_keys"),
    ),
    ("ssh:known_host", View, "", Settles("ssh-keygen -F git.example.com -f /etc/ssh/ssh_known_hosts")),
    (
        "svc",
        Booted,
        "printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' \
         >/etc/systemd/system/nginx.service; systemctl daemon-reload",
        Settles("systemctl is-active nginx && systemctl is-enabled nginx"),
    ),
    (
        "sysctl",
        View,
        "echo 0 >/proc/sys/net/ipv4/ip_forward",
        Settles(
            "grep 1 /proc/sys/net/ipv4/ip_forward && grep 'net.ipv4.ip_forward *= *1' /etc/sysctl.d/99-*ip_forward.conf",
        ),
    ),
    (
        "tar",
        View,
        "mkdir -p /etc/shop /srv/shop/texts; touch /etc/shop/conf /srv/shop/texts/one",
        Settles(
            "tar -tf /var/backups/shop.tar | grep '^shop/conf$'; tar -tf /var/backups/shop.tar | grep '^texts/one$'",
        ),
    ),
    ("test", View, "", Runs("grep forty-two /said")),
    (
        "tidy",
        View,
        "cd /var/tmp; mkdir below; touch -d '8 days ago' below/old.log other; touch new.log",
        Settles("cd /var/tmp; ! test -e below/old.log && test -e other && test -e new.log"),
    ),
    ("timer", View, "", Runs("grep 'exec.look.: changed' /said")),
    ("user", View, "", Settles("id -nG ada | grep -w sudo")),
    ("value", View, "", Runs("true")),
];

/// Kinds that people can declare, with their examples as they would write them: comments of Rust have no tabs.
fn kinds() -> impl Iterator<Item = (&'static Schema, Vec<String>)> {
    let public = KINDS.schemas().filter(|schema| !schema.kind.starts_with('_'));
    public.map(|schema| {
        let texts = blocks(schema.doc, "mcl").map(|text| text.replace("    ", "\t"));
        (schema, texts.collect())
    })
}

fn blocks<'a>(doc: &'a str, language: &'a str) -> impl Iterator<Item = &'a str> {
    let rests = doc.split("```").skip(1).step_by(2);
    rests.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
}

fn example(kind: &str) -> String {
    let (_, examples) = kinds().find(|(schema, _)| schema.kind == kind).unwrap();
    examples.into_iter().next().unwrap_or_else(|| panic!("{kind} has no example"))
}

#[test]
fn every_kind_has_an_example_and_a_way_to_see_what_it_does() {
    let known: Vec<&str> = kinds().map(|(schema, _)| schema.kind).collect();
    let listed: Vec<&str> = EXAMPLES.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(known, listed, "the list in this file is not what is there");
    let without: Vec<&str> =
        kinds().filter(|(_, examples)| examples.is_empty()).map(|(schema, _)| schema.kind).collect();
    assert!(without.is_empty(), "no example in mcl in the docs of {without:?}");
    let mut seen = 0;
    for (kind, .., see) in EXAMPLES {
        match see {
            Nothing(reason) | Looks(reason) => assert!(reason.len() > 10, "why is {kind} not run?"),
            Settles(_) | Runs(_) | Ends(_) | Lives(_) => seen += 1,
        }
    }
    assert!(seen >= 39, "only {seen} examples are run");
}

#[test]
fn every_example_is_canonical_and_right_and_has_its_kind_in_its_graph() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("main.mcl");
    let path = file.to_str().unwrap();
    for (schema, examples) in kinds() {
        let kind = schema.kind;
        for example in examples {
            std::fs::write(&file, &example).unwrap();
            for words in [&["fmt", "--check", path][..], &["check", "--deny-warnings", "lang", path]] {
                let said = program::mgmt_output(words);
                assert_eq!(said.code, 0, "{kind}: {words:?}\n{example}\n{}{}", said.stdout, said.stderr);
            }
            let said = program::mgmt_output(&["graph", "lang", path]);
            assert_eq!(said.code, 0, "{kind}:\n{}", said.stderr);
            assert!(said.stdout.contains(&format!("{kind}[")), "{kind}:\n{}", said.stdout);
        }
    }
}

/// Some show the form that graphs of YAML have, too.
#[test]
fn every_example_in_yaml_is_right() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("graph.yaml");
    let path = file.to_str().unwrap();
    let mut found = 0;
    for schema in KINDS.schemas() {
        for example in blocks(schema.doc, "yaml") {
            std::fs::write(&file, format!("graph: x\n{example}")).unwrap();
            for words in [&["check", "--deny-warnings", "yaml", path][..], &["graph", "yaml", path]] {
                let said = program::mgmt_output(words);
                assert_eq!(said.code, 0, "{}: {words:?}\n{}", schema.kind, said.stderr);
            }
            found += 1;
        }
    }
    assert!(found >= 1);
}

/// Names the kind inside.
const KIND: &str = "MGMT_TEST_KIND";
/// Where the program is on a view of this machine.
const PROGRAM: &str = "/mgmt-test-mgmt";

#[test]
fn every_example_does_what_it_says() {
    if sandbox::is_inside() {
        let kind = std::env::var(KIND).unwrap();
        return see(PROGRAM, EXAMPLES.iter().find(|(known, ..)| *known == kind).unwrap());
    }
    each(View, |(kind, ..)| {
        Sandbox {
            apart: true,
            prepare: "hostname example-host; ip link set lo up; mkdir -p var/tmp var/backups",
            also: Some((PROGRAM, Path::new(env!("CARGO_BIN_EXE_mgmt")))),
            environment: &[(KIND, kind.as_ref())],
        }
        .run("every_example_does_what_it_says");
    });
}

type Case = (&'static str, Place, &'static str, See);

/// Does something with each example of a place that is run, and tells of all that fail.
fn each(place: Place, run: impl Fn(&Case)) {
    let cases = EXAMPLES.iter().filter(|(_, of, _, see)| *of == place && !matches!(see, Nothing(_)));
    let fails = |case: &&Case| {
        let run = std::panic::AssertUnwindSafe(|| run(case));
        std::panic::catch_unwind(run).is_err()
    };
    let failed: Vec<&str> = cases.filter(fails).map(|(kind, ..)| *kind).collect();
    assert!(failed.is_empty(), "see above: {failed:?}");
}

#[test]
fn every_example_for_systemd_does_what_it_says() {
    if booted_host::is_booted() {
        let program = "/mgmt-test-result/mgmt";
        return each(Booted, |case| see(program, case));
    }
    let program = Path::new(env!("CARGO_BIN_EXE_mgmt"));
    booted_host::on_booted_host_with("every_example_for_systemd_does_what_it_says", &[("mgmt", program)]);
}

fn sh(commands: &str) -> Output {
    Command::new("sh").args(["-ec", commands]).current_dir("/").output().unwrap()
}

/// A program in a directory of its own.
struct Run<'a> {
    program: &'a str,
    directory: PathBuf,
}

impl Run<'_> {
    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        plain(&mut command);
        command
            .arg("run")
            .arg("--prefix")
            .arg(self.directory.join("prefix"))
            .arg("--max-runtime=100")
            .args(flags);
        command.arg("lang").arg(self.directory.join("main.mcl"));
        command
    }

    /// To its end, which is a good one. What it says is also in a file.
    #[track_caller]
    fn ends(&self, flags: &[&str]) -> String {
        let said = CommandOutput::from(self.command(flags).output().unwrap());
        assert_eq!(said.code, 0, "{}", said.stderr);
        std::fs::write("/said", &said.stderr).unwrap();
        said.stderr
    }
}

/// Runs the example of a kind, and looks.
fn see(program: &str, (kind, _, before, see): &Case) {
    let prepared = sh(before);
    assert!(prepared.status.success(), "{kind}: {prepared:?}");
    let run = Run { program, directory: PathBuf::from(format!("/mgmt-test-{}", kind.replace(':', "-"))) };
    std::fs::create_dir(&run.directory).unwrap();
    std::fs::write(run.directory.join("main.mcl"), example(kind)).unwrap();
    let converges = ["--converger-timeout=0", "--converged-exit"];
    let is_seen = |command: &str, said: &str| {
        let looked = sh(command);
        assert!(looked.status.success(), "{kind}: {command}\n{looked:?}\n{said}");
    };
    match see {
        Settles(command) => {
            let said = run.ends(&converges);
            assert!(!said.contains(" 0 changed, 0 failed"), "{kind} was right before:\n{said}");
            is_seen(command, &said);
            let again = run.ends(&converges);
            assert!(again.contains(" 0 changed, 0 failed"), "{kind} is changed again:\n{again}");
            is_seen(command, &again);
        }
        Runs(command) => is_seen(command, &run.ends(&converges)),
        Ends(command) => is_seen(command, &run.ends(&[])),
        Lives(command) => {
            let _running = RunningProgram::start_command(run.command(&[]));
            eventually(&format!("{kind}: {command}"), || sh(command).status.success());
        }
        Looks(_) => {
            let said = run.ends(&[&converges[..], &["--noop"]].concat());
            assert!(said.contains(&format!("{kind}[")) && said.contains("would change"), "{kind}:\n{said}");
        }
        Nothing(_) => {}
    }
}
