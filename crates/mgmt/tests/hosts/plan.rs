//! What a plan says and what a run then does are the same, line by line; a plan is applied only while it holds.
//!
//! Each program is planned, run and asked for its history, on a view of this machine on which every change is thrown away, or on
//! a host that was booted for it. What the plan calls exact has to be in the history, word for word, and what it calls
//! predicted, too; only of what is unknown nothing more is asked than that it was said.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::booted_host;
use mgmt_test_support::sandbox;

use std::path::Path;
use std::process::Command;

use crate::agreement::{Failure, agrees, exact_holds, fails_as_planned};
use crate::plan_failing::{FAILING, FAILING_BOOTED, Failing, INFALLIBLE, REFUSED, REFUSED_BOOTED};
use mgmt_test_support::program::{CommandOutput, mgmt_output};
use mgmt_test_support::sandbox::Sandbox;

/// Where the program is on a host of its own.
const PROGRAM: &str = "/mgmt-test-mgmt";

/// A program, and what somebody did before.
struct Case {
    name: &'static str,
    before: &'static str,
    program: &'static str,
}

const fn case(name: &'static str, before: &'static str, program: &'static str) -> Case {
    Case { name, before, program }
}

/// What needs nothing but files, accounts, mounts and a network. `/t` is a directory of the test's own.
const CASES: &[Case] = &[
    case("a file", "", r#"file "/t/a" { state => "exists", content => "hello\n", }"#),
    case("an empty file", "", r#"file "/t/a" { state => "exists", }"#),
    case("another content", "echo old >/t/a", r#"file "/t/a" { state => "exists", content => "new\n", }"#),
    case("what is right", "echo same >/t/a", r#"file "/t/a" { state => "exists", content => "same\n", }"#),
    case("a mode", "echo x >/t/a; chmod 644 /t/a", r#"file "/t/a" { mode => "0600", }"#),
    case("a secret", "", r#"file "/t/a" { state => "exists", content => "canary", mode => "0400", }"#),
    case("an owner", "echo x >/t/a", r#"file "/t/a" { owner => "daemon", group => "daemon", }"#),
    case(
        "a new file with everything",
        "",
        r#"file "/t/a" { state => "exists", content => "x", owner => "daemon", group => "daemon", mode => "0640", }"#,
    ),
    case(
        "content and mode",
        "echo x >/t/a",
        r#"file "/t/a" { state => "exists", content => "y\n", mode => "u=rw,go=r", }"#,
    ),
    case(
        "what is old",
        "mkdir -p /t/d/e; touch -d '2 days ago' /t/d/old /t/d/e/old; touch /t/d/new",
        r#"tidy "/t/d" { recurse => true, age => 3600, by => "mtime", }"#,
    ),
    case("no file", "echo x >/t/a", r#"file "/t/a" { state => "absent", }"#),
    case("a directory", "", r#"file "/t/d/" { state => "exists", mode => "0750", }"#),
    case("directories above", "", r#"file "/t/d/e/f/" { state => "exists", recurse => true, }"#),
    case(
        "no directory",
        "mkdir -p /t/d/e; touch /t/d/e/f",
        r#"file "/t/d/" { state => "absent", recurse => true, }"#,
    ),
    case(
        "a file where a directory was",
        "mkdir /t/d",
        r#"file "/t/d" { state => "exists", content => "x", force => true, }"#,
    ),
    case(
        "a directory where a file was",
        "touch /t/d",
        r#"file "/t/d/" { state => "exists", force => true, }"#,
    ),
    case("a link", "", r#"file "/t/l" { state => "exists", symlink => true, source => "/etc/passwd", }"#),
    case(
        "another link",
        "ln -s /etc/group /t/l",
        r#"file "/t/l" { state => "exists", symlink => true, source => "/etc/passwd", }"#,
    ),
    case(
        "a value in a file",
        "printf 'Port 22\\n' >/t/sshd",
        r#"augeas "/t/sshd" { lens => "Sshd.lns", sets => [struct{ path => "Port", value => "23", },], }"#,
    ),
    case(
        "a value in a file that is about to be made",
        "",
        r#"file "/t/d/" { state => "exists", }
        file "/t/d/sshd" { state => "exists", content => "Port 22\n", createonly => true, }
        augeas "/t/d/sshd" { lens => "Sshd.lns", sets => [struct{ path => "Port", value => "23", },], }"#,
    ),
    case("no link", "ln -s /etc/group /t/l", r#"file "/t/l" { state => "absent", symlink => true, }"#),
    case("a copy", "echo x >/t/s", r#"file "/t/a" { state => "exists", source => "/t/s", }"#),
    case(
        "fragments",
        "mkdir /t/d; echo 1 >/t/d/1; echo 2 >/t/d/2",
        r#"file "/t/a" { state => "exists", fragments => ["/t/d/",], }"#,
    ),
    case(
        "a tree",
        "mkdir -p /t/s/b/c; echo 1 >/t/s/a; echo 2 >/t/s/b/c/d; ln -s a /t/s/l",
        r#"file "/t/d/" { state => "exists", source => "/t/s/", recurse => true, }"#,
    ),
    case(
        "a tree that is there in part",
        "mkdir -p /t/s/b /t/d/b; echo 1 >/t/s/a; echo 2 >/t/s/b/c; echo 3 >/t/d/b/c; echo 4 >/t/d/more",
        r#"file "/t/d/" { state => "exists", source => "/t/s/", recurse => true, purge => true, }"#,
    ),
    case(
        "purging",
        "mkdir -p /t/d/e; touch /t/d/a /t/d/e/b",
        r#"file "/t/d/" { state => "exists", recurse => true, purge => true, }
        file "/t/d/a" { state => "exists", }"#,
    ),
    case(
        "a file in a new directory",
        "",
        r#"file "/t/d/" { state => "exists", }
        file "/t/d/a" { state => "exists", content => "x\n", mode => "0644", }"#,
    ),
    case(
        "a link in a new directory",
        "",
        r#"file "/t/d/" { state => "exists", }
        file "/t/d/l" { state => "exists", symlink => true, source => "x", }"#,
    ),
    case(
        "a copy of a new file",
        "",
        r#"file "/t/a" { state => "exists", content => "x\n", }
        file "/t/b" { state => "exists", source => "/t/a", Depend => File["/t/a"], }"#,
    ),
    case("a line", "echo one >/t/a", r#"line "x" { file => "/t/a", state => "exists", content => "two", }"#),
    case(
        "a line in a new file",
        "",
        r#"file "/t/a" { state => "exists", mode => "0644", }
        line "x" { file => "/t/a", state => "exists", content => "two", }"#,
    ),
    case(
        "no line",
        "printf 'one\\ntwo\\n' >/t/a",
        r#"line "x" { file => "/t/a", state => "absent", content => "two", }"#,
    ),
    case(
        "what a new file in a new directory has already",
        "",
        r#"file "/t/d/" { state => "exists", }
        file "/t/d/a" { state => "exists", content => "[s]\na = 1\n", mode => "0644", }
        ini "x" { file => "/t/d/a", state => "exists", section => "s", setting => "a", value => "1", }
        line "x" { file => "/t/d/a", state => "exists", content => "a = 1", }"#,
    ),
    case("a command", "", r#"exec "x" { cmd => "/bin/true", }"#),
    case(
        "a command with a condition",
        "",
        r#"exec "x" { cmd => "/usr/bin/touch /t/made", creates => "/t/made", }"#,
    ),
    case("a command that is not needed", "", r#"exec "x" { cmd => "/bin/true", ifcmd => "/bin/false", }"#),
    case(
        "a command that is told",
        "",
        r#"file "/t/a" { state => "exists", Notify => Exec["x"], }
        exec "x" { cmd => "/bin/true", refreshonly => true, }"#,
    ),
    case("a host", "", r#"host "example.test" { state => "exists", ip => "192.0.2.7", }"#),
    case("the name of the host", "", r#"hostname "planned-host" { transient_hostname => "planned-host", }"#),
    case("a user", "", r#"user "planned" { state => "exists", uid => 7701, shell => "/bin/sh", }"#),
    case(
        "a user that is changed",
        "useradd -M planned",
        r#"user "planned" { state => "exists", shell => "/bin/true", comment => "Planned", }"#,
    ),
    case(
        "no user, whose home is a link",
        "mkdir /t/real; touch /t/real/kept; ln -s real /t/home; useradd -M -d /t/home planned",
        r#"user "planned" { state => "absent", removehome => true, }"#,
    ),
    case("no user", "useradd -M planned", r#"user "planned" { state => "absent", }"#),
    case("a group", "", r#"group "planned" { state => "exists", gid => 7702, }"#),
    case("no group", "groupadd planned", r#"group "planned" { state => "absent", }"#),
    case(
        "a user with a group and a file",
        "",
        r#"group "planned" { state => "exists", gid => 7702, }
        user "planned" { state => "exists", gid => 7702, }
        file "/t/a" { state => "exists", owner => "planned", group => "planned", }"#,
    ),
    case("a password", "", r#"password "x" { length => 12, saved => true, }"#),
    case(
        "a mount",
        "",
        r#"mount "/t/m" { state => "exists", device => "scratch", type => "tmpfs", options => {"size" => "1m",}, persist => "none", }"#,
    ),
    case(
        "no mount",
        "mkdir /t/m; mount -t tmpfs x /t/m",
        r#"mount "/t/m" { state => "absent", device => "x", type => "tmpfs", persist => "none", }"#,
    ),
    case(
        "an interface",
        "ip link add planned0 type veth peer name planned1; mkdir -p /etc/systemd/network",
        r#"net "planned0" { state => "up", addrs => ["192.0.2.1/24",], }"#,
    ),
    case(
        "a parameter of the kernel",
        "echo 0 >/proc/sys/net/ipv4/ip_forward",
        r#"sysctl "net.ipv4.ip_forward" { value => "1", persist => false, }"#,
    ),
    case("an archive", "mkdir /t/d; echo x >/t/d/a", r#"tar "/t/a.tar" { inputs => ["/t/d",], }"#),
    case("a compressed file", "", r#"gzip "/t/a.gz" { content => "x", }"#),
    case("a shared value", "", r#"kv "planned" { value => "x", }"#),
    case("a kept value", "", r#"value "planned" { any => "x", }"#),
    case(
        "a setting",
        "printf '[s]\\na = 1\\n' >/t/a.ini; chmod 644 /t/a.ini",
        r#"ini "a" { file => "/t/a.ini", state => "exists", section => "s", setting => "a", value => "2", }"#,
    ),
    case(
        "a line in the place of another",
        "printf 'a=1\\n' >/t/a.conf; chmod 644 /t/a.conf",
        r#"line "a" { file => "/t/a.conf", state => "exists", content => "a=2", match => "^a=", }"#,
    ),
    case(
        "a JSON document",
        "echo '{\"a\": 1}' >/t/a.json; chmod 644 /t/a.json",
        r#"json:edit "/t/a.json" { edits => [".a = 2",], }"#,
    ),
    case(
        "a key",
        "mkdir -p /root/.ssh; chmod 700 /root/.ssh; rm -f /root/.ssh/authorized_keys",
        r#"ssh:authorized_key "x" { state => "exists", user => "root", type => "ssh-ed25519", key => "AAAAC3NzaC1lZDI1NTE5AAAAIJ2LJ8kDdAbcVSLMnMq8QCuf2yoQ6cVf1Vj3uQvO2c1a", }"#,
    ),
    case(
        "a job",
        "mkdir -p -m 1730 /var/spool/cron/crontabs; rm -f /var/spool/cron/crontabs/root",
        r#"crontab "planned" { state => "exists", command => "/bin/true", minute => "5", }"#,
    ),
    case(
        "a known host",
        "rm -f /etc/ssh/ssh_known_hosts",
        r#"ssh:known_host "planned.test" { state => "exists", type => "ssh-ed25519", key => "AAAAC3NzaC1lZDI1NTE5AAAAIJ2LJ8kDdAbcVSLMnMq8QCuf2yoQ6cVf1Vj3uQvO2c1a", }"#,
    ),
    case(
        "an archive of the program",
        r#"mkdir -p /t/site/files; echo x >/t/site/files/x; echo 'main: main.mcl' >/t/site/metadata.yaml
        echo 'deploy:tar "/t/program.tar" {}' >/t/site/main.mcl"#,
        "/t/site/",
    ),
    case("an offer", "", r#"schedule "planned" { max => 1, }"#),
    case(
        "a web server",
        "ip link set lo up; mkdir /t/files; echo x >/t/files/x",
        r#"http:server "127.0.0.1:28081" { timeout => 60, }
        http:server:file "/hello" { data => "hello\n", }
        http:server:file "/files/" { path => "/t/files/", }
        http:server:flag "/word" { key => "word", }
        http:server:proxy "/mirror/" { sub => "/mirror/", cache => "/t/mirror/", }"#,
    ),
    case(
        "a page",
        "ip link set lo up",
        r#"http:server "127.0.0.1:28083" {}
        http:server:ui "/ui/" { data => struct{title => "A page", head => "",}, }
        http:server:ui:input "volume" { type => "range://?min=0&max=11&step=1", value => "3", }
        file "/t/volume" { state => "exists", content => "", }
        Http:Server:Ui:Input["volume"].value -> File["/t/volume"].content"#,
    ),
    case(
        "what is left to Puppet",
        "",
        r#"pippet "x" { type => "file", title => "/t/a", params => "{\"content\": \"x\"}", }"#,
    ),
    case("a point of the order", "", r#"noop "x" {}"#),
    case("a tick", "", r#"timer "x" { interval => 3600, }"#),
    case("a test", "", r#"test "x" { boolptr => true, }"#),
    case("a note", "", r#"msg "x" { body => "hello", priority => "Info", }"#),
    case("an end", "", r#"exit "x" {}"#),
    case("no package", "", r#"pkg "graphviz" { state => "uninstalled", }"#),
    case(
        "an answer of a package",
        "",
        r#"debconf "mgmt-test/planned" { state => "exists", type => "string", value => "yes", }"#,
    ),
    case("a message", "", r#"print "x" { msg => "hello", }"#),
    case(
        "a file that a command finds right",
        "",
        r#"file "/t/a" { state => "exists", content => "x\n", validatecmd => "/bin/grep -q x %", }"#,
    ),
    case(
        "a group with a member",
        "groupdel planned 2>/dev/null || true",
        r#"user "planned" { state => "exists", uid => 7701, gid => 0, }
        group "planned" { state => "exists", gid => 7702, members => ["planned",], }"#,
    ),
];

/// What could be done in either order, with what is as planned whichever comes first.
const UNORDERED: &[Case] = &[
    case(
        "lines of one file",
        "echo one >/t/a; echo x >/t/b",
        r#"line "x" { file => "/t/a", state => "exists", content => "two", }
        line "y" { file => "/t/a", state => "exists", content => "three", }
        line "z" { file => "/t/a", state => "absent", content => "one", }
        file "/t/b" { state => "exists", content => "y\n", }"#,
    ),
    case(
        "a copy of a file that changes",
        "echo one >/t/a; echo x >/t/c",
        r#"file "/t/b" { state => "exists", source => "/t/a", Meta:autoedge => false, }
        file "/t/a" { state => "exists", content => "two\n", Meta:autoedge => false, }
        file "/t/c" { state => "exists", content => "y\n", }"#,
    ),
];

/// Manifests: what becomes a resource of our own, what is left to Puppet, and what hangs together.
const MANIFESTS: &[(&str, &str)] = &[
    ("", "file { '/t/a': ensure => file, content => \"x\\n\", mode => '0644' }"),
    ("echo old >/t/a", "file { '/t/a': ensure => absent }"),
    ("", "file { '/t/d': ensure => directory } -> file { '/t/d/a': content => 'x' }"),
    ("", "group { 'planned': gid => 7702 } -> user { 'planned': uid => 7701, gid => 7702 }"),
    ("", "host { 'planned.test': ip => '192.0.2.9' }"),
    ("", "exec { '/usr/bin/touch /t/made': creates => '/t/made' }"),
    ("", "file { '/t/l': ensure => link, target => '/etc/passwd' }"),
    (
        "",
        "class one { file { '/t/a': content => 'x' } }\nclass two { exec { '/usr/bin/touch /t/b': refreshonly => true } }\n\
         include one, two\nClass['one'] ~> Class['two']",
    ),
];

/// What needs a service manager and its bus.
const BOOTED: &[Case] = &[
    case("a service", "", r#"svc "planned" { state => "running", startup => "enabled", }"#),
    case(
        "no service",
        "systemctl enable --now planned.service",
        r#"svc "planned" { state => "stopped", startup => "disabled", }"#,
    ),
    case(
        "a service that is told",
        "systemctl start planned.service; rm -f /t/a",
        r#"file "/t/a" { state => "exists", Notify => Svc["planned"], }
        svc "planned" { state => "running", }"#,
    ),
    case(
        "a timer",
        "",
        r#"cron "planned" { state => "exists", trigger => "OnCalendar", time => "daily", unit => "planned.service", }"#,
    ),
    case(
        "a service whose unit file is written before",
        "systemctl disable --now fresh.service 2>/dev/null || true; rm -f /etc/systemd/system/fresh.service; systemctl daemon-reload",
        r#"file "/etc/systemd/system/fresh.service" {
            state => "exists",
            mode => "0644",
            content => "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
        }
        svc "fresh" { state => "running", startup => "enabled", }"#,
    ),
    case(
        "a service without an [Install] section",
        "systemctl disable --now fresh.service 2>/dev/null || true; rm -f /etc/systemd/system/fresh.service; systemctl daemon-reload",
        r#"file "/etc/systemd/system/fresh.service" {
            state => "exists",
            mode => "0644",
            content => "[Service]\nExecStart=/bin/sleep infinity\n",
        }
        svc "fresh" { state => "running", startup => "enabled", }"#,
    ),
    case("the names of the host", "", r#"hostname "planned-host" {}"#),
    case(
        "a firewall",
        "systemctl start firewalld",
        r#"firewalld "x" { zone => "public", services => ["http",], ports => ["8080/tcp", "6000-6010/udp",], }"#,
    ),
    case(
        "a firewall that lets less in",
        "systemctl start firewalld",
        r#"firewalld "x" { zone => "public", state => "absent", ports => ["6003/udp",], }"#,
    ),
    case(
        "a setting of a desktop",
        "id joe >/dev/null 2>&1 || useradd --create-home joe",
        r#"gsettings "org.example.planned title" { value => "new", type => "str", user => "joe", }"#,
    ),
    case("a machine", "", r#"nspawn "planned-1" { state => "running", }"#),
    case("no machine", "", r#"nspawn "planned-1" { state => "stopped", }"#),
];

/// What is compared where there are hosts for it.
const ELSEWHERE: &[(&str, &str)] = &[("remote", "tests/hosts/remote_kind.rs")];

/// Where a test has put what some kinds are about.
const PREPARED: &str = r#"
mkdir -p /t
printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/planned.service
systemctl daemon-reload
printf '<schemalist><schema id="org.example.planned" path="/org/example/planned/"><key name="title" type="s"><default>"old"</default></key></schema></schemalist>' \
    >/usr/share/glib-2.0/schemas/org.example.planned.gschema.xml
glib-compile-schemas /usr/share/glib-2.0/schemas
root=/var/lib/machines/planned-1
mkdir -p $root/etc/systemd/system $root/usr $root/var $root/root $root/tmp $root/proc $root/sys $root/dev $root/run
for link in bin sbin lib lib64; do ln -s usr/$link $root/$link; done
echo ID=demo >$root/etc/os-release; echo uninitialized >$root/etc/machine-id
ln -s /dev/null $root/etc/systemd/system/systemd-udevd.service
printf '[Unit]\nDefaultDependencies=no\n' >$root/etc/systemd/system/default.target
mkdir -p /etc/systemd/nspawn
printf '[Exec]\nBoot=yes\nPrivateUsers=no\nLinkJournal=no\n[Network]\nPrivate=yes\nVirtualEthernet=no\n[Files]\nBindReadOnly=/usr\n' \
    >/etc/systemd/nspawn/planned-1.nspawn
"#;

/// As it is before each program.
const CLEAN: &str = "umount /t/m/b 2>/dev/null || true; umount -l /t/m 2>/dev/null || true; rm -rf /t; mkdir /t; userdel -f member 2>/dev/null || true; userdel -f planned 2>/dev/null || true; groupdel planned 2>/dev/null || true";

fn sh(text: &str) {
    let output = Command::new("sh").args(["-ec", text]).output().unwrap();
    assert!(output.status.success(), "{text}: {output:?}");
}

/// The examples that come with the program, which somebody has put into `/graphs`.
fn examples_agree(program: &str, directory: &str, which: &[&str]) {
    let mut wrong = Vec::new();
    for name in which {
        sh("rm -rf /tmp/mgmt");
        let file = format!("/graphs/{directory}{name}.yaml");
        if let Err(why) = agrees(program, "yaml", &file, &format!("/mgmt-test-prefix-{name}")) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn all_agree(program: &str, cases: &[Case]) {
    let (mut lines, mut wrong) = (0, Vec::new());
    for (number, case) in cases.iter().enumerate() {
        sh(CLEAN);
        sh(case.before);
        match agrees(program, "lang", case.program, &format!("/mgmt-test-prefix-{number}")) {
            Ok(count) => lines += count,
            Err(why) => wrong.push(format!("{}: {why}", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
    assert!(lines >= cases.len() * 3 / 4, "only {lines} lines");
}

fn all_fail(program: &str, foreseen: &[Failing], refused: &[Failing]) {
    let mut wrong = Vec::new();
    let cases = foreseen.iter().map(|case| (case, true)).chain(refused.iter().map(|case| (case, false)));
    for (number, (case, is_foreseen)) in cases.enumerate() {
        sh(CLEAN);
        sh(case.before);
        let prefix = format!("/mgmt-test-failing-{number}");
        let Failing { fail: resources, unprivileged, .. } = *case;
        let failure = Failure { resources, is_foreseen, unprivileged };
        if let Err(why) = fails_as_planned(program, "lang", case.program, &prefix, &failure) {
            wrong.push(format!("{}: {why}", case.program));
        }
        sh("[ ! -d /etc/hosts ] || { rmdir /etc/hosts; mv /t/hosts /etc/hosts; }");
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn what_is_said_to_fail_fails_and_nothing_else() {
    let name = "what_is_said_to_fail_fails_and_nothing_else";
    if sandbox::is_inside() {
        return all_fail(PROGRAM, FAILING, REFUSED);
    }
    Sandbox {
        apart: true,
        prepare: "hostname test-host; mkdir t",
        also: Some((PROGRAM, Path::new(env!("CARGO_BIN_EXE_mgmt")))),
        environment: &[],
    }
    .run(name);
}

#[test]
fn what_is_said_to_fail_fails_on_a_booted_host() {
    if booted_host::is_booted() {
        sh(PREPARED);
        return all_fail("/mgmt-test-result/mgmt", FAILING_BOOTED, REFUSED_BOOTED);
    }
    let name = "what_is_said_to_fail_fails_on_a_booted_host";
    booted_host::on_booted_host_with(name, &[("mgmt", Path::new(env!("CARGO_BIN_EXE_mgmt")))]);
}

#[test]
fn of_every_kind_that_can_fail_a_failure_is_planned() {
    let kinds = mgmt_output(&["kinds"]).stdout;
    let kinds = kinds.lines().filter_map(|line| line.split_whitespace().next());
    let fails = |kind: &str| {
        let start = format!("{kind}[");
        let cases = [FAILING, FAILING_BOOTED, REFUSED, REFUSED_BOOTED].into_iter().flatten();
        cases.flat_map(|case| case.fail).any(|resource| resource.starts_with(&start))
    };
    let missing: Vec<_> = kinds.filter(|kind| !fails(kind) && !INFALLIBLE.contains(kind)).collect();
    assert!(missing.is_empty(), "no failure is planned of {missing:?}");
    let wrong: Vec<_> = INFALLIBLE.iter().filter(|kind| fails(kind)).collect();
    assert!(wrong.is_empty(), "they do fail: {wrong:?}");
}

#[test]
fn what_is_exact_is_done_whatever_comes_first() {
    if sandbox::is_inside() {
        let several = CASES.iter().filter(|case| case.program.contains('\n'));
        for (number, case) in UNORDERED.iter().chain(several).enumerate() {
            sh("umount /t/m 2>/dev/null || true; rm -rf /t; mkdir /t");
            sh(case.before);
            let held = exact_holds(PROGRAM, "lang", case.program, &format!("/mgmt-test-prefix-{number}"));
            match held {
                Ok(exact) => {
                    assert!(exact > 0 || number >= UNORDERED.len(), "{}: nothing is exact", case.name);
                }
                Err(why) => panic!("{}: {why}", case.name),
            }
        }
        return;
    }
    Sandbox {
        apart: true,
        prepare: "hostname test-host; mkdir t",
        also: Some((PROGRAM, Path::new(env!("CARGO_BIN_EXE_mgmt")))),
        environment: &[],
    }
    .run("what_is_exact_is_done_whatever_comes_first");
}

/// How certain the lines of each resource are, by name.
fn certainties(program: &str) -> Vec<(String, Vec<String>)> {
    certainties_by(env!("CARGO_BIN_EXE_mgmt"), program)
}

/// The same, planned by this program.
fn certainties_by(mgmt: &str, program: &str) -> Vec<(String, Vec<String>)> {
    let prefix = tempfile::tempdir().unwrap();
    let prefix = prefix.path().to_str().unwrap();
    let mut plan = Command::new(mgmt);
    let plan = plan.args(["plan", "--prefix", prefix, "--format", "json", "lang", program]).output().unwrap();
    let plan = CommandOutput::from(plan);
    assert_eq!(plan.code, 0, "{plan:?}");
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    let words = |step: &serde_json::Value| {
        let lines = step["lines"].as_array().unwrap().iter();
        lines.map(|line| line["certainty"].as_str().unwrap().to_owned()).collect()
    };
    let name = |step: &serde_json::Value| step["resource"].as_str().unwrap().to_owned();
    plan["steps"].as_array().unwrap().iter().map(|step| (name(step), words(step))).collect()
}

/// All lines of a resource are so certain, and there is one at least.
#[track_caller]
fn is_called(steps: &[(String, Vec<String>)], resource: &str, certainty: &str) {
    let (_, words) = steps.iter().find(|(name, _)| name == resource).unwrap_or_else(|| panic!("{steps:?}"));
    assert!(!words.is_empty() && words.iter().all(|word| word == certainty), "{resource}: {steps:?}");
}

#[test]
fn what_could_go_in_another_order_is_not_called_exact() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (a, b, d) = (at("a"), at("b"), at("d/"));
    std::fs::write(&a, "one\n").unwrap();
    std::fs::create_dir(&d).unwrap();
    std::fs::write(at("d/old"), "").unwrap();
    let line = |name: &str, more: &str| {
        format!("line \"{name}\" {{ file => \"{a}\", state => \"exists\", content => \"{name}\",{more} }}\n")
    };

    // The first of two becomes less certain because of the second.
    let aside = format!("file \"{b}\" {{ state => \"exists\", content => \"b\", }}\n");
    let steps = certainties(&[line("x", ""), line("y", ""), aside].concat());
    is_called(&steps, "line[x]", "predicted");
    is_called(&steps, "line[y]", "predicted");
    is_called(&steps, &format!("file[{b}]"), "exact");
    let steps = certainties(&[line("x", ""), line("y", " Depend => Line[\"x\"],")].concat());
    is_called(&steps, "line[x]", "exact");
    is_called(&steps, "line[y]", "predicted");

    // A file, and a resource that empties its directory and spares what others declare.
    let old = at("d/old");
    let file =
        format!("file \"{old}\" {{ state => \"exists\", content => \"x\", Meta:autoedge => false, }}\n");
    let tidy = |more: &str| format!("tidy \"{d}\" {{ recurse => true,{more} Meta:autoedge => false, }}\n");
    let steps = certainties(&[file, tidy("")].concat());
    is_called(&steps, &format!("file[{old}]"), "exact");

    // Who copies what somebody else changes; that one does as it says in either order.
    let copy =
        format!("file \"{b}\" {{ state => \"exists\", source => \"{a}\", Meta:autoedge => false, }}\n");
    let steps = certainties(&[copy, line("x", " Meta:autoedge => false,")].concat());
    is_called(&steps, &format!("file[{b}]"), "predicted");
    is_called(&steps, "line[x]", "exact");
}

#[test]
fn what_is_planned_is_what_is_done() {
    if sandbox::is_inside() {
        all_agree(PROGRAM, CASES);
        for (number, (before, manifest)) in MANIFESTS.iter().enumerate() {
            sh(CLEAN);
            sh(before);
            let lines = agrees(PROGRAM, "puppet", manifest, &format!("/mgmt-test-puppet-{number}"));
            assert!(*lines.as_ref().unwrap_or_else(|why| panic!("{manifest}: {why}")) > 0, "{manifest}");
        }
        examples_agree(
            PROGRAM,
            "",
            &[
                "archive",
                "exec-guards",
                "json-edit",
                "kv",
                "line",
                "notify",
                "password",
                "tree-purge",
                "values",
            ],
        );
        return examples_agree(PROGRAM, "host/", &["accounts", "hosts", "mount", "net", "ssh", "sysctl"]);
    }
    let graphs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/yaml");
    Sandbox {
        apart: true,
        prepare: &format!("hostname test-host; mkdir t; cp -r '{}' graphs", graphs.display()),
        also: Some((PROGRAM, Path::new(env!("CARGO_BIN_EXE_mgmt")))),
        environment: &[],
    }
    .run("what_is_planned_is_what_is_done");
}

#[test]
fn every_kind_is_compared_and_there_are_at_least_fifty_programs() {
    let cases: Vec<&Case> = CASES.iter().chain(BOOTED).collect();
    assert!(cases.len() >= 50, "only {}", cases.len());
    let kinds = mgmt_output(&["kinds"]).stdout;
    let kinds: Vec<&str> = kinds.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(kinds.contains(&"file"), "{kinds:?}");
    let is_compared = |kind: &str| {
        let start = format!("{kind} \"");
        let begins = |line: &str| line.trim_start().trim_start_matches("echo '").starts_with(&start);
        cases.iter().any(|case| case.program.lines().chain(case.before.lines()).any(begins))
            || ELSEWHERE.iter().any(|(other, path)| {
                let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
                *other == kind && text.contains("what_is_planned_is_what_is_done")
            })
    };
    let missing: Vec<_> = kinds.into_iter().filter(|kind| !is_compared(kind)).collect();
    assert!(missing.is_empty(), "nobody compares {missing:?}");
}

#[test]
fn what_is_planned_is_what_is_done_on_a_booted_host() {
    if booted_host::is_booted() {
        sh(PREPARED);
        // It would agree if nothing was known of the service.
        let fresh =
            BOOTED.iter().find(|case| case.name == "a service whose unit file is written before").unwrap();
        sh(fresh.before);
        is_called(&certainties_by("/mgmt-test-result/mgmt", fresh.program), "svc[fresh]", "predicted");
        return all_agree("/mgmt-test-result/mgmt", BOOTED);
    }
    let name = "what_is_planned_is_what_is_done_on_a_booted_host";
    booted_host::on_booted_host_with(name, &[("mgmt", Path::new(env!("CARGO_BIN_EXE_mgmt")))]);
}

#[test]
fn a_plan_is_applied_while_it_holds_and_refused_when_the_host_has_moved() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (plan, prefix, a, b) = (at("plan.json"), at("prefix"), at("a"), at("b"));
    let program = format!(
        "file \"{a}\" {{ state => \"exists\", content => \"canary\\n\", Notify => Exec[\"b\"], }}\n\
         exec \"b\" {{ cmd => \"/usr/bin/touch {b}\", refreshonly => true, }}\n"
    );
    let make = || {
        mgmt_output(&["plan", "--detailed-exitcode", "--prefix", &prefix, "--out", &plan, "lang", &program])
    };
    let made = make();
    assert_eq!(made.code, 2, "{made:?}");
    assert!(made.stdout.contains("exact      create") && made.stdout.contains("+canary"), "{made:?}");
    assert!(made.stdout.contains("unknown    run /usr/bin/touch"), "{made:?}");
    assert!(!Path::new(&a).exists(), "a plan changes nothing");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&plan).unwrap().permissions().mode() & 0o777, 0o600);

    std::fs::write(&a, "somebody else\n").unwrap();
    let refused = mgmt_output(&["apply", "--prefix", &prefix, &plan]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("the host has changed since the plan was made")
            && refused.stderr.contains(&a),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_to_string(&a).unwrap(), "somebody else\n");

    std::fs::remove_file(&a).unwrap();
    let applied = mgmt_output(&["apply", "--detailed-exitcode", "--prefix", &prefix, &plan]);
    assert_eq!(applied.code, 2, "{applied:?}");
    assert_eq!(std::fs::read_to_string(&a).unwrap(), "canary\n");
    assert!(Path::new(&b).exists());
    let why = mgmt_output(&["why", &a, "--prefix", &prefix]);
    assert!(why.stdout.contains("create"), "{why:?}");

    let again = make();
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stdout.contains("nothing to change"), "{again:?}");
    for wrong in [&a, "/nowhere"] {
        assert_eq!(mgmt_output(&["apply", "--prefix", &prefix, wrong]).code, 2);
    }
}

#[test]
fn what_the_last_run_managed_and_is_no_longer_declared_is_listed_or_reversed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (prefix, a, b, c) = (at("prefix"), at("a"), at("b"), at("c"));
    let file = |path: &str, more: &str| {
        format!("file \"{path}\" {{ state => \"exists\", content => \"x\",{more} }}\n")
    };
    let all = [file(&a, ""), file(&b, " Meta:reverse => true,"), file(&c, "")].concat();
    let run =
        mgmt_output(&["run", "--prefix", &prefix, "--converger-timeout=0", "--converged-exit", "lang", &all]);
    assert_eq!(run.code, 0, "{run:?}");
    let plan = |program: &str| mgmt_output(&["plan", "--prefix", &prefix, "lang", program]);
    let same = plan(&all);
    assert_eq!(same.stdout, "nothing to change: 3 resources are as declared\n", "{same:?}");
    let less = plan(&file(&c, ""));
    assert_eq!(less.code, 0, "{less:?}");
    for part in [
        format!("file[{b}]  no longer declared: reversed\n  exact      remove {b} file\n"),
        format!("no longer managed, left as they are:\n  file[{a}]\n"),
        "0 to create, 0 to change, 1 to remove, 0 to run; 1 resource is as declared; 1 resource is no longer managed\n".to_owned(),
    ] {
        assert!(less.stdout.contains(&part), "{part:?} is not in {}", less.stdout);
    }
    let told = mgmt_output(&["--json", "plan", "--prefix", &prefix, "lang", &file(&c, "")]).stdout;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["no_longer_managed"], serde_json::json!([format!("file[{a}]")]));
    assert_eq!(told["steps"].as_array().unwrap().iter().filter(|step| step["reversal"] == true).count(), 1);
    // A plan has read that and changed nothing.
    assert!([&a, &b, &c].iter().all(|path| Path::new(path).exists()));
}

#[test]
fn a_plan_of_another_host_or_one_that_others_may_write_to_is_not_applied() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (plan, prefix, file) = (at("plan.json"), at("prefix"), at("file"));
    let program = format!("file \"{file}\" {{ state => \"exists\", content => \"x\", }}");
    let made =
        mgmt_output(&["plan", "--hostname", "web1", "--prefix", &prefix, "--out", &plan, "lang", &program]);
    assert_eq!(made.code, 0, "{made:?}");
    let apply = |hostname: &str| mgmt_output(&["apply", "--hostname", hostname, "--prefix", &prefix, &plan]);
    let refused = apply("web2");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("the plan is for the host web1, and this is web2"), "{refused:?}");
    for (mode, who) in [(0o620, "its group"), (0o606, "everybody"), (0o666, "everybody")] {
        std::fs::set_permissions(&plan, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = apply("web1");
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(&format!("is not trusted: {who} may write to it")), "{refused:?}");
    }
    assert!(!Path::new(&file).exists(), "nothing was done");
    std::fs::set_permissions(&plan, std::fs::Permissions::from_mode(0o640)).unwrap();
    let applied = apply("web1");
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
}

#[test]
fn a_plan_is_in_order_with_differences_and_totals_and_an_error_makes_it_fail() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (prefix, d, a, b) = (at("prefix"), at("d/"), at("d/a"), at("b"));
    std::fs::write(&b, "one\ntwo\nthree\n").unwrap();
    let program = format!(
        "file \"{a}\" {{ state => \"exists\", content => \"new\\n\", }}\n\
         exec \"last\" {{ cmd => \"/bin/true\", Depend => File[\"{a}\"], }}\n\
         file \"{b}\" {{ state => \"exists\", content => \"one\\n2\\nthree\\n\", }}\n\
         file \"{d}\" {{ state => \"exists\", }}\n\
         noop \"right\" {{}}\n"
    );
    let made = mgmt_output(&["plan", "--prefix", &prefix, "lang", &program]);
    assert_eq!(made.code, 0, "{made:?}");
    let place = |part: &str| made.stdout.find(part).unwrap_or_else(|| panic!("{part}: {made:?}"));
    let order = [format!("file[{d}]"), format!("file[{a}]"), "exec[last]".to_owned()];
    assert!(order.windows(2).all(|two| place(&two[0]) < place(&two[1])), "{made:?}");
    for part in [
        " one\n             -two\n             +2\n              three\n",
        "+new\n",
        &format!("exact      create {d}"),
        &format!("predicted  create {a}"),
        "unknown    run /bin/true",
        "2 to create, 1 to change, 0 to remove, 1 to run; 1 resource is as declared\n",
    ] {
        assert!(made.stdout.contains(part), "{part:?} is not in {}", made.stdout);
    }
    let told = mgmt_output(&["--json", "plan", "--prefix", &prefix, "lang", &program]).stdout;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let totals = serde_json::json!({
        "create": 2, "change": 1, "remove": 0, "run": 1, "right": 1, "errors": 0, "blocked": 0, "open": 0, "held": 0,
        "noop": 0, "no_longer_managed": 0,
    });
    assert_eq!(told["totals"], totals);
    // What cannot be looked at is told, and the rest is planned all the same.
    let c = at("c");
    std::fs::write(&c, "").unwrap();
    let program = format!(
        "file \"{c}/below\" {{ state => \"exists\", }}\nfile \"{a}x\" {{ state => \"exists\", }}\n\
         file \"{b}\" {{ mode => \"0600\", }}\n"
    );
    for flags in [&["plan"][..], &["plan", "--detailed-exitcode"]] {
        let failed = mgmt_output(&[flags, &["--prefix", &prefix, "lang", &program]].concat());
        assert_eq!(failed.code, 1, "{failed:?}");
        assert!(
            failed.stdout.contains("\n  will fail  ") && failed.stdout.contains("; 2 resources will fail\n"),
            "{failed:?}"
        );
        assert!(failed.stdout.contains(" mode"), "{failed:?}");
    }
}
