//! Programs that fail, for the comparison of plans with runs.

/// Programs that fail: what somebody did before, the program, and the resources that fail.
pub(crate) struct Failing {
    pub(crate) before: &'static str,
    pub(crate) program: &'static str,
    pub(crate) fail: &'static [&'static str],
    /// Plan and run are those of a user other than root.
    pub(crate) unprivileged: bool,
}

const fn failing(before: &'static str, program: &'static str, fail: &'static [&'static str]) -> Failing {
    Failing { before, program, fail, unprivileged: false }
}

const fn failing_unprivileged(
    before: &'static str,
    program: &'static str,
    fail: &'static [&'static str],
) -> Failing {
    Failing { before, program, fail, unprivileged: true }
}

/// What fails without a service manager.
pub(crate) const FAILING: &[Failing] = &[
    failing("", r#"file "/t/d/a" { state => "exists", content => "x", }"#, &["file[/t/d/a]"]),
    failing(
        "",
        r#"file "/t/d/a" { state => "exists", }
        exec "after" { cmd => "/bin/true", Depend => File["/t/d/a"], }
        file "/t/b" { state => "exists", }"#,
        &["file[/t/d/a]"],
    ),
    failing("", r#"file "/t/d/e/" { state => "exists", }"#, &["file[/t/d/e/]"]),
    failing("", r#"file "/t/d/l" { state => "exists", symlink => true, source => "x", }"#, &["file[/t/d/l]"]),
    failing(
        "",
        r#"file "/t/b" { state => "exists", }
        file "/t/d/a" { state => "exists", Depend => File["/t/b"], }"#,
        &["file[/t/d/a]"],
    ),
    failing("", r#"file "/t/a" { state => "exists", owner => "nosuch", }"#, &["file[/t/a]"]),
    failing(
        "",
        r#"group "planned" { state => "exists", }
        file "/t/a" { state => "exists", group => "nosuch", Depend => Group["planned"], }"#,
        &["file[/t/a]"],
    ),
    failing("", r#"file "/t/a" { state => "exists", source => "/t/s", }"#, &["file[/t/a]"]),
    failing(
        "mkdir /t/s; mkfifo /t/s/p",
        r#"file "/t/d/" { state => "exists", source => "/t/s/", recurse => true, }"#,
        &["file[/t/d/]"],
    ),
    failing("", r#"file "/proc/nosuch" { state => "exists", }"#, &["file[/proc/nosuch]"]),
    failing(
        "",
        r#"file "/t/d/" { state => "exists", source => "/t/nosuch/", recurse => true, }
        file "/t/e/f/" { state => "exists", source => "/t/nosuch/", recurse => true, }"#,
        &["file[/t/d/]", "file[/t/e/f/]"],
    ),
    failing(
        "ln -s /t/nosuch /t/d",
        r#"file "/t/d/e/" { state => "exists", recurse => true, }"#,
        &["file[/t/d/e/]"],
    ),
    failing(
        "mkdir /t/l /t/m; touch /t/l/x /t/m/x",
        r#"file "/t/l" { state => "exists", symlink => true, source => "/t", force => true, }
        file "/t/m" { state => "absent", symlink => true, force => true, }"#,
        &["file[/t/l]", "file[/t/m]"],
    ),
    failing(
        "",
        r#"file "/t/d/" { state => "exists", }
        file "/t/d/e/x" { state => "exists", }"#,
        &["file[/t/d/e/x]"],
    ),
    // A change before it brings nothing that is needed.
    failing(
        "mkdir /t/d /t/e; touch /t/d/x",
        r#"file "/t/a" { state => "exists", }
        file "/t/b" { state => "exists", source => "/t/nosuch", Depend => File["/t/a"], }
        file "/t/c" { state => "exists", fragments => ["/t/nosuch",], Depend => File["/t/a"], }
        file "/t/d/" { state => "absent", Depend => File["/t/a"], }
        file "/t/e" { state => "exists", content => "x", Depend => File["/t/a"], }
        file "/t/f" { content => "x", Depend => File["/t/a"], }"#,
        &["file[/t/b]", "file[/t/c]", "file[/t/d/]", "file[/t/e]", "file[/t/f]"],
    ),
    failing(
        "",
        r#"file "/t/d/x" { state => "exists", Meta:autoedge => false, }
        file "/t/d" { state => "exists", Depend => File["/t/d/x"], Meta:autoedge => false, }"#,
        &["file[/t/d/x]"],
    ),
    failing(
        "mkdir -p /t/m; mount -t tmpfs x /t/m; mkdir /t/m/d; touch /t/m/d/a; chattr +a /t/m/d",
        r#"file "/t/m/d/a" { state => "absent", }"#,
        &["file[/t/m/d/a]"],
    ),
    failing("", r#"exec "shell" { cmd => "/nosuch/program x", shell => "/bin/sh", }"#, &["exec[shell]"]),
    failing(
        "mkdir -p /t/m /t/s; head -c 2M /dev/urandom > /t/s/a; mount -t tmpfs -o size=1m x /t/m",
        r#"tar "/t/m/a.tar" { inputs => ["/t/s/",], }"#,
        &["tar[/t/m/a.tar]"],
    ),
    failing("mkdir /t/a", r#"file "/t/a" { state => "exists", content => "x", }"#, &["file[/t/a]"]),
    failing("mkdir /t/d; touch /t/d/x", r#"file "/t/d/" { state => "absent", }"#, &["file[/t/d/]"]),
    failing(
        "mkdir /t/m; mount -t tmpfs -o ro x /t/m",
        r#"file "/t/m/a" { state => "exists", }"#,
        &["file[/t/m/a]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs x /t/m; touch /t/m/a; mount -o remount,ro /t/m",
        r#"file "/t/m/a" { state => "absent", }"#,
        &["file[/t/m/a]"],
    ),
    failing("", r#"exec "x" { cmd => "/nosuch", }"#, &["exec[x]"]),
    failing("touch /t/p", r#"exec "x" { cmd => "/t/p", }"#, &["exec[x]"]),
    failing("", r#"exec "x" { cmd => "nosuch-program", }"#, &["exec[x]"]),
    failing("", r#"exec "x" { cmd => "true", shell => "/nosuch", }"#, &["exec[x]"]),
    failing("", r#"exec "x" { cmd => "/bin/true", ifcmd => "true", ifshell => "/nosuch", }"#, &["exec[x]"]),
    failing("", r#"exec "x" { cmd => "/bin/true", nifcmd => "/nosuch", }"#, &["exec[x]"]),
    failing("", r#"exec "x" { cmd => "/bin/true", watchcmd => "/nosuch", }"#, &["exec[x]"]),
    failing("", r#"exec "x" { cmd => "/bin/true", donecmd => "/nosuch", }"#, &["exec[x]"]),
    failing("", r#"exec "x" { cmd => "/bin/true", cwd => "/nosuch", }"#, &["exec[x]"]),
    failing("", r#"exec "x" { cmd => "/bin/true", user => "nosuch", }"#, &["exec[x]"]),
    failing("", r#"exec "x" { cmd => "/bin/true", group => "nosuch", }"#, &["exec[x]"]),
    failing(
        "",
        r#"file "/t/a" { state => "exists", Notify => Exec["x"], }
        exec "x" { cmd => "/nosuch", refreshonly => true, }"#,
        &["exec[x]"],
    ),
    failing("", r#"line "x" { file => "/t/d/a", state => "exists", content => "x", }"#, &["line[x]"]),
    failing(
        "",
        r#"ini "x" { file => "/t/d/a.ini", state => "exists", setting => "a", value => "1", }"#,
        &["ini[x]"],
    ),
    failing(
        "",
        r#"augeas "/t/d/sshd" { lens => "Sshd.lns", sets => [struct{ path => "Port", value => "23", },], }"#,
        &["augeas[/t/d/sshd]"],
    ),
    failing("", r#"json:edit "/t/a.json" { edits => [".a = 2",], }"#, &["json:edit[/t/a.json]"]),
    failing(
        "echo '{' >/t/a.json",
        r#"json:edit "/t/a.json" { edits => [".a = 2",], }"#,
        &["json:edit[/t/a.json]"],
    ),
    failing(
        "mkdir -p -m 1730 /var/spool/cron/crontabs",
        r#"crontab "x" { state => "exists", command => "/bin/true", user => "nosuch", }"#,
        &["crontab[x]"],
    ),
    failing(
        "",
        r#"ssh:authorized_key "x" { state => "exists", user => "nosuch", type => "ssh-ed25519", key => "AAAAC3NzaC1lZDI1NTE5AAAAIJ2LJ8kDdAbcVSLMnMq8QCuf2yoQ6cVf1Vj3uQvO2c1a", }"#,
        &["ssh:authorized_key[x]"],
    ),
    failing(
        "",
        r#"ssh:known_host "planned.test" { state => "exists", file => "/t/d/known", type => "ssh-ed25519", key => "AAAAC3NzaC1lZDI1NTE5AAAAIJ2LJ8kDdAbcVSLMnMq8QCuf2yoQ6cVf1Vj3uQvO2c1a", }"#,
        &["ssh:known_host[planned.test]"],
    ),
    failing(
        "mv /etc/hosts /t/hosts; mkdir /etc/hosts",
        r#"host "example.test" { state => "exists", ip => "192.0.2.7", }"#,
        &["host[example.test]"],
    ),
    failing("", r#"user "planned" { state => "exists", group => "nosuch", }"#, &["user[planned]"]),
    failing("", r#"user "planned" { state => "exists", uid => 0, }"#, &["user[planned]"]),
    failing("", r#"group "planned" { state => "exists", gid => 0, }"#, &["group[planned]"]),
    failing(
        "",
        r#"mount "/t/m" { state => "exists", device => "/dev/nosuch", type => "ext4", persist => "none", }"#,
        &["mount[/t/m]"],
    ),
    failing("", r#"net "nosuch0" { state => "up", addrs => ["192.0.2.1/24",], }"#, &["net[nosuch0]"]),
    failing(
        "",
        r#"sysctl "net.ipv4.nosuch" { value => "1", persist => false, }"#,
        &["sysctl[net.ipv4.nosuch]"],
    ),
    failing("", r#"tar "/t/a.tar" { inputs => ["/t/d",], }"#, &["tar[/t/a.tar]"]),
    failing("mkdir /t/e", r#"tar "/t/d/a.tar" { inputs => ["/t/e",], }"#, &["tar[/t/d/a.tar]"]),
    failing("", r#"gzip "/t/a.gz" { input => "/t/a", }"#, &["gzip[/t/a.gz]"]),
    failing("", r#"gzip "/t/d/a.gz" { content => "x", }"#, &["gzip[/t/d/a.gz]"]),
    failing(
        r#"mkdir -p /t/site; echo 'main: main.mcl' >/t/site/metadata.yaml
        echo 'deploy:tar "/t/d/program.tar" {}' >/t/site/main.mcl"#,
        "/t/site/",
        &["deploy:tar[/t/d/program.tar]"],
    ),
    failing("", r#"pkg "mgmt-no-such-package" { state => "installed", }"#, &["pkg[mgmt-no-such-package]"]),
    failing("", r#"svc "x" { state => "running", }"#, &["svc[x]"]),
    failing(
        "",
        r#"http:server "127.0.0.1:28099" { root => "/t/nosuch/", }"#,
        &["http:server[127.0.0.1:28099]"],
    ),
    failing(
        "",
        r#"pippet "x" { type => "file", title => "/t/a", params => "{\"mode\": \"999\"}", }"#,
        &["pippet[x]"],
    ),
    failing(
        "",
        r#"file "/t/d/a" { state => "exists", Meta:noop => true, }
        exec "x" { cmd => "/nosuch", Depend => File["/t/d/a"], }"#,
        &["exec[x]"],
    ),
    failing(
        "",
        r#"file "/t/a" { state => "exists", content => "x", validatecmd => "/nosuch %", }"#,
        &["file[/t/a]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs -o size=1m x /t/m; head -c 4000000 /dev/zero | tr '\\0' x >/t/s",
        r#"file "/t/m/a" { state => "exists", source => "/t/s", }"#,
        &["file[/t/m/a]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs -o size=64k x /t/m; dd if=/dev/zero of=/t/m/full bs=4k count=16 2>/dev/null",
        r#"file "/t/m/a" { state => "exists", content => "x", }"#,
        &["file[/t/m/a]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs -o nr_inodes=1 x /t/m",
        r#"file "/t/m/a" { state => "exists", content => "x", }
        file "/t/m/d/" { state => "exists", }
        line "x" { file => "/t/m/b", state => "exists", content => "x", }"#,
        &["file[/t/m/a]", "file[/t/m/d/]", "line[x]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs x /t/m; for f in a b c d; do echo old >/t/m/$f; chattr +i /t/m/$f; done",
        r#"file "/t/m/a" { state => "exists", content => "x", }
        file "/t/m/b" { mode => "0600", }
        file "/t/m/c" { state => "absent", }
        line "x" { file => "/t/m/d", state => "exists", content => "x", }"#,
        &["file[/t/m/a]", "file[/t/m/b]", "file[/t/m/c]", "line[x]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs x /t/m; echo x >/t/m/a; mount -o remount,ro /t/m",
        r#"file "/t/m/a" { mode => "0600", }"#,
        &["file[/t/m/a]"],
    ),
    failing(
        "mv /usr/bin/debconf-set-selections /usr/bin/debconf-set-aside",
        r#"debconf "mgmt-test/failing" { state => "exists", type => "string", value => "yes", }"#,
        &["debconf[mgmt-test/failing]"],
    ),
    failing("", r#"group "planned" { state => "exists", members => ["nosuch",], }"#, &["group[planned]"]),
    failing(
        "mkdir -p /t/m; mount -t tmpfs x /t/m; touch /t/m/a; chattr +i /t/m/a",
        r#"tidy "/t/m" { recurse => true, }"#,
        &["tidy[/t/m]"],
    ),
    failing(
        "mkdir -p /t/m; mount -t tmpfs x /t/m; touch /t/m/a; mount -o remount,ro /t/m",
        r#"tidy "/t/m" { recurse => true, }"#,
        &["tidy[/t/m]"],
    ),
    failing(
        "mkdir -p /t/m; mount -t tmpfs x /t/m; mkdir -p /t/m/p/d /t/m/r/d; touch /t/m/p/d/a /t/m/r/d/a; chattr +i /t/m/p/d/a /t/m/r/d/a",
        r#"file "/t/m/p/" { state => "exists", recurse => true, purge => true, }
        file "/t/m/r/" { state => "absent", recurse => true, }"#,
        &["file[/t/m/p/]", "file[/t/m/r/]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs x /t/m",
        r#"file "/t/m/" { state => "absent", recurse => true, }"#,
        &["file[/t/m/]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs x /t/m; echo x >/t/m/a; touch /t/m/b; mount --bind /t/m/a /t/m/b",
        r#"file "/t/m/b" { state => "absent", }"#,
        &["file[/t/m/b]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs x /t/m; echo x >/t/m/a; touch /t/m/b; mount --bind /t/m/a /t/m/b",
        r#"file "/t/m/b" { state => "exists", content => "y", }"#,
        &["file[/t/m/b]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs -o size=1m x /t/m; mkdir /t/s; for f in a b c; do head -c 500000 /dev/zero | tr '\\0' x >/t/s/$f; done",
        r#"file "/t/m/d/" { state => "exists", source => "/t/s/", recurse => true, }"#,
        &["file[/t/m/d/]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs -o size=1m x /t/m; for f in 1 2; do head -c 700000 /dev/zero | tr '\\0' x >/t/$f; done",
        r#"file "/t/m/a" { state => "exists", source => "/t/1", }
        file "/t/m/b" { state => "exists", source => "/t/2", }"#,
        &["file[/t/m/b]"],
    ),
    failing(
        "touch /t/f",
        r#"mount "/t/f" { state => "exists", device => "scratch", type => "tmpfs", persist => "none", }"#,
        &["mount[/t/f]"],
    ),
    failing(
        "groupadd planned; useradd -M -g planned member",
        r#"group "planned" { state => "absent", }"#,
        &["group[planned]"],
    ),
    failing_unprivileged(
        "touch /t/a; chown nobody /t/a",
        r#"file "/t/a" { owner => "daemon", }"#,
        &["file[/t/a]"],
    ),
    failing_unprivileged(
        "mkdir /t/d; chown nobody /t/d",
        r#"file "/t/d/a" { state => "exists", group => "daemon", }"#,
        &["file[/t/d/a]"],
    ),
    failing_unprivileged("", r#"user "planned" { state => "exists", }"#, &["user[planned]"]),
    failing_unprivileged("", r#"group "planned" { state => "exists", }"#, &["group[planned]"]),
    failing_unprivileged(
        "",
        r#"host "example.test" { state => "exists", ip => "192.0.2.7", }"#,
        &["host[example.test]"],
    ),
    failing_unprivileged(
        "echo 0 >/proc/sys/net/ipv4/ip_forward",
        r#"sysctl "net.ipv4.ip_forward" { value => "1", persist => false, }"#,
        &["sysctl[net.ipv4.ip_forward]"],
    ),
    failing_unprivileged(
        "mkdir /t/m; mount -t tmpfs x /t/m",
        r#"mount "/t/m" { state => "absent", device => "x", type => "tmpfs", persist => "none", }"#,
        &["mount[/t/m]"],
    ),
];

/// Kinds that nothing on a host can make fail, or whose failures need other hosts.
pub(crate) const INFALLIBLE: &[&str] = &[
    "exit",
    "http:server:file",
    "http:server:flag",
    "http:server:proxy",
    "http:server:ui",
    "http:server:ui:input",
    "kv",
    "msg",
    "noop",
    "print",
    "schedule",
    "test",
    "timer",
    "value",
    "remote",
    "password",
];

/// What only the run finds: the plan calls nothing of these resources exact.
pub(crate) const REFUSED: &[Failing] = &[
    failing(
        "touch /t/f",
        r#"mount "/t/m" { state => "exists", device => "/t/f", type => "ext4", persist => "none", }"#,
        &["mount[/t/m]"],
    ),
    failing(
        "",
        r#"mount "/t/m" { state => "exists", device => "x", type => "nosuch", persist => "none", }"#,
        &["mount[/t/m]"],
    ),
    failing(
        "",
        r#"mount "/t/m" { state => "exists", device => "x", type => "tmpfs", options => {"nosuch" => "1",}, persist => "none", }"#,
        &["mount[/t/m]"],
    ),
    failing(
        "mkdir /t/m; mount -t tmpfs x /t/m; sleep 60 </dev/null >/t/m/busy 2>&1 &",
        r#"mount "/t/m" { state => "absent", device => "x", type => "tmpfs", persist => "none", }"#,
        &["mount[/t/m]"],
    ),
    failing(
        "",
        r#"sysctl "net.ipv4.ip_forward" { value => "nonsense", persist => false, }"#,
        &["sysctl[net.ipv4.ip_forward]"],
    ),
    failing(
        "useradd -M planned; setpriv --reuid planned --regid planned --clear-groups sleep 60 </dev/null >/dev/null 2>&1 &",
        r#"user "planned" { state => "absent", }"#,
        &["user[planned]"],
    ),
    failing(
        "",
        r#"pippet "x" { type => "file", title => "/t/d/a", params => "{\"ensure\": \"file\", \"content\": \"x\"}", }"#,
        &["pippet[x]"],
    ),
    failing_unprivileged("", r#"hostname "planned-host" {}"#, &["hostname[planned-host]"]),
];

/// The same on a booted host.
pub(crate) const REFUSED_BOOTED: &[Failing] = &[failing(
    "printf '[Service]\\nType=oneshot\\nExecStart=/bin/false\\n' >/etc/systemd/system/brief.service; systemctl daemon-reload",
    r#"svc "brief" { state => "running", }"#,
    &["svc[brief]"],
)];

/// What fails on a booted host.
pub(crate) const FAILING_BOOTED: &[Failing] = &[
    failing("", r#"svc "nosuch" { state => "running", }"#, &["svc[nosuch]"]),
    failing(
        "",
        r#"file "/t/a" { state => "exists", }
        svc "nosuch" { state => "running", Depend => File["/t/a"], }"#,
        &["svc[nosuch]"],
    ),
    failing(
        "ln -sf /dev/null /etc/systemd/system/masked.service; systemctl daemon-reload",
        r#"svc "masked" { startup => "enabled", }"#,
        &["svc[masked]"],
    ),
    failing("", r#"nspawn "nosuch-1" { state => "running", }"#, &["nspawn[nosuch-1]"]),
    failing(
        "systemctl stop firewalld",
        r#"firewalld "x" { zone => "public", services => ["http",], }"#,
        &["firewalld[x]"],
    ),
    failing(
        "systemctl start firewalld",
        r#"firewalld "x" { zone => "nosuch", services => ["http",], }"#,
        &["firewalld[x]"],
    ),
    failing(
        "id joe >/dev/null 2>&1 || useradd --create-home joe",
        r#"gsettings "org.example.nosuch title" { value => "new", type => "str", user => "joe", }"#,
        &["gsettings[org.example.nosuch title]"],
    ),
    failing(
        "",
        r#"cron "planned" { state => "exists", trigger => "OnCalendar", time => "nonsense", unit => "planned.service", }"#,
        &["cron[planned]"],
    ),
    failing(
        "",
        r#"cron "other" { state => "exists", trigger => "OnCalendar", time => "daily", unit => "nosuch.service", }"#,
        &["cron[other]"],
    ),
];
