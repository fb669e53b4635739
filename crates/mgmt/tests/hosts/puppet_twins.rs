//! One site, two hosts that were booted for it: one is brought about by Puppet, the other by the real program. They end up
//! the same, byte for byte, and a second run finds nothing to do on either.
//!
//! There are two sites: one of which nearly all is native, and one of which all is left to Puppet, with something of every type that
//! comes with it.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::booted_host;
use mgmt_test_support::package_source;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use mgmt_test_support::package_source::{Package, PackageSource};

/// Where a booted host finds what it is given, and leaves what it has to tell.
const PLACE: &str = "/mgmt-test-result";
const SITE: &str = "/mgmt-test-site";

/// What resources of the site are about.
const MANAGED: [&str; 5] = ["/etc", "/home", "/srv", "/var/lib", "/var/spool/cron"];
/// What changes there for other reasons: caches, backups of the tools for accounts, and what belongs to the tools themselves.
const OTHERS: [&str; 22] = [
    "/etc/.pwd.lock",
    "/etc/apt/sources.list.d/example.list.save",
    "/etc/group-",
    "/etc/gshadow-",
    "/etc/ld.so.cache",
    "/etc/machine-id",
    "/etc/mtab",
    "/etc/passwd-",
    "/etc/puppet",
    "/etc/resolv.conf",
    "/etc/shadow-",
    "/etc/subgid-",
    "/etc/subuid-",
    "/var/lib/apt",
    "/var/lib/dbus",
    "/var/lib/dpkg",
    "/var/lib/PackageKit",
    "/var/lib/private",
    "/var/lib/puppet",
    "/var/lib/systemd",
    "/var/lib/mgmt",
    "/var/lib/NetworkManager",
];
/// Lists of entries, in which the order is that of their making, and above which Puppet says when it has written them.
const LISTS: [&str; 13] = [
    "/etc/passwd",
    "/etc/shadow",
    "/etc/group",
    "/etc/gshadow",
    "/etc/subuid",
    "/etc/subgid",
    "/etc/hosts",
    "/etc/fstab",
    "/etc/ssh/ssh_known_hosts",
    "/home/deploy/.ssh/authorized_keys",
    "/home/ada/.ssh/authorized_keys",
    "/var/spool/cron/crontabs/ada",
    "/var/spool/cron/crontabs/root",
];

#[test]
fn a_site_ends_up_the_same_with_puppet_and_without() {
    end_up_the_same(
        "a_site_ends_up_the_same_with_puppet_and_without",
        "puppet_site",
        &Way { flags: &[], prepare: || {}, looks_right: enough_is_native },
    );
}

#[test]
fn what_is_left_to_puppet_ends_up_as_with_puppet_alone() {
    let name = "what_is_left_to_puppet_ends_up_as_with_puppet_alone";
    let way = Way { flags: &["--puppet-only"], prepare: prepare_what_is_left, looks_right: all_is_left };
    end_up_the_same(name, "puppet_left", &way);
}

/// What is peculiar to a site.
struct Way {
    /// For the program, whenever it is about the site.
    flags: &'static [&'static str],
    /// What has to be there before, besides what all sites have.
    prepare: fn(),
    /// What the program makes of the site, by its statistics.
    looks_right: fn(&str),
}

/// Boots two hosts for a test and a directory with a site.
#[track_caller]
fn end_up_the_same(name: &str, directory: &str, way: &Way) {
    if booted_host::is_booted() {
        return on_a_twin(way);
    }
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site.tar");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(directory);
    said(Command::new("tar").arg("-C").arg(&source).arg("-cf").arg(&site).arg("."));
    let mut twins = Vec::new();
    for who in ["puppet", "mgmt"] {
        let file = place.path().join("who");
        fs::write(&file, who).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_mgmt"));
        let files = [("mgmt", program), ("site.tar", &site), ("who", &file)];
        let told = booted_host::on_booted_host_with_result(name, &files, "told");
        twins.push(told);
    }
    let [theirs, ours] = twins.try_into().unwrap();
    let differences = differences(&theirs, &ours);
    assert!(differences.is_empty(), "{differences}");
}

/// The lines that only one of them has.
fn differences(theirs: &str, ours: &str) -> String {
    let mut text = String::new();
    for (who, some, others) in [("Puppet", theirs, ours), ("mgmt", ours, theirs)] {
        let others: std::collections::HashSet<&str> = others.lines().collect();
        for line in some.lines().filter(|line| !others.contains(line)) {
            writeln!(text, "only with {who}: {line}").unwrap();
        }
    }
    text
}

fn on_a_twin(way: &Way) {
    let who = fs::read_to_string(format!("{PLACE}/who")).unwrap();
    fs::create_dir(SITE).unwrap();
    said(Command::new("tar").args(["-C", SITE, "-xf", &format!("{PLACE}/site.tar")]));
    prepare();
    (way.prepare)();
    for turn in ["first", "second"] {
        let output = if who == "puppet" { puppet() } else { mgmt(way.flags) };
        let expected = if turn == "first" { 2 } else { 0 };
        assert_eq!(output.status.code(), Some(expected), "the {turn} time with {who}: {}", shown(&output));
    }
    if who == "mgmt" {
        let mut command = Command::new(format!("{PLACE}/mgmt"));
        let output = command.args(["puppet", "stats", SITE]).args(way.flags).output().unwrap();
        (way.looks_right)(&String::from_utf8_lossy(&output.stdout));
    }
    fs::write(format!("{PLACE}/told"), told()).unwrap();
}

/// What is on the host before: packages to be had, some of them installed, and files in the way.
fn prepare() {
    let mut source = PackageSource::new();
    let unit = |what: &str| {
        format!("[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n# {what}\n")
    };
    let (time, fallback, web) = (unit("time"), unit("fallback"), unit("web"));
    let reload = "systemctl daemon-reload";
    for version in ["1.0", "2.0", "3.0"] {
        let files = [
            ("/lib/systemd/system/example-time.service", time.as_str()),
            ("/lib/systemd/system/example-fallback.service", fallback.as_str()),
            ("/etc/example-time.conf", "server none\n"),
        ];
        source.publish(&Package {
            files: &files,
            conffiles: "/etc/example-time.conf\n",
            postinst: reload,
            ..Package::new("example-time", version)
        });
    }
    for version in ["1.0", "1.1"] {
        let files = [("/lib/systemd/system/example-web.service", web.as_str())];
        source.publish(&Package { files: &files, postinst: reload, ..Package::new("example-web", version) });
    }
    source.publish(&Package {
        files: &[("/etc/example-old.conf", "old\n")],
        conffiles: "/etc/example-old.conf\n",
        ..Package::new("example-oldtime", "1.0")
    });
    package_source::run("apt-get", &["--quiet", "update"]);
    package_source::run("apt-get", &["--quiet", "--yes", "install", "example-oldtime", "example-web=1.0"]);
    package_source::run("apt-get", &["--quiet", "--yes", "remove", "example-oldtime"]);
    for (path, text) in [
        ("/etc/example-web/conf.d/stray.conf", "stray\n"),
        ("/etc/example-sudoers.d/stray/deep", "stray\n"),
        ("/etc/apt/sources.list.d/stray.list", "# stray\n"),
        ("/etc/default/example-time", "OPTIONS=-6\n"),
        ("/etc/motd.tail", "tail\n"),
        ("/etc/update-motd.d/10-stray", "stray\n"),
        ("/srv/www/index.html", "hello\n"),
        ("/srv/www/deep/er.html", "hello\n"),
        ("/etc/issue", "a file where a link is to be\n"),
    ] {
        let path = Path::new(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    said(Command::new("chmod").args(["-R", "u=rwX,go=", "/srv/www"]));
}

/// Besides, for the site of which all is left to Puppet: accounts, mounts and tables that are to change.
fn prepare_what_is_left() {
    // The machine has no `crontab`.
    let crontab = Path::new("/var/cache/mgmt-tests/cron/usr/bin/crontab");
    assert!(crontab.exists(), "`cargo xtask setup` brings {}", crontab.display());
    fs::copy(crontab, "/usr/bin/crontab").unwrap();
    for command in [
        "mkdir -p -m 1730 /var/spool/cron/crontabs",
        "groupadd --gid 4701 gone",
        "groupadd --gid 4702 crew",
        "useradd --uid 4701 --gid gone --create-home gone",
        "useradd --uid 4703 --groups audio,video --shell /bin/false busy",
        "mkdir -p /srv/mounted /srv/away /srv/table /srv/gone /srv/tidy",
        "mount -t tmpfs -o size=1m away /srv/away",
        "mount -t tmpfs -o size=1m gone /srv/gone",
        "printf 'away /srv/away tmpfs size=1m 0 0\\ngone /srv/gone tmpfs size=1m 0 0\\n' >>/etc/fstab",
        "printf '# Puppet Name: gone\\n1 2 3 4 5 /bin/gone\\n6 * * * * /bin/stranger\\n' | crontab -u root -",
        "printf '192.0.2.7 gone.example.com\\n' >>/etc/hosts",
        "touch -d '3 weeks ago' /srv/tidy/old.tmp /srv/tidy/old.txt; touch /srv/tidy/new.tmp",
        "systemctl mask example-fallback.service",
    ] {
        package_source::run("sh", &["-ec", command]);
    }
}

fn puppet() -> Output {
    let mut command = Command::new("puppet");
    command.args(["apply", "--color=false", "--detailed-exitcodes", "--modulepath"]);
    command.arg(format!("{SITE}/modules:/usr/share/puppet/modules"));
    command.args(["--hiera_config", &format!("{SITE}/hiera.yaml"), &format!("{SITE}/manifests/site.pp")]);
    command.output().unwrap()
}

fn mgmt(flags: &[&str]) -> Output {
    let mut command = Command::new(format!("{PLACE}/mgmt"));
    command.args(["run", "--prefix", "/mgmt-test-prefix", "--converger-timeout=3", "--converged-exit"]);
    command.args(["--max-runtime=240", "--detailed-exitcode", "puppet", SITE]).args(flags).output().unwrap()
}

/// At least nine of ten.
fn enough_is_native(stats: &str) {
    let [native, lossy, left, refused] = counts(stats);
    let native = native + lossy;
    assert!(refused == 0 && native >= 9 * left && native >= 50, "{stats}");
}

fn all_is_left(stats: &str) {
    let [native, lossy, left, refused] = counts(stats);
    assert!(native + lossy + refused == 0 && left >= 40, "{stats}");
}

/// What does nothing by itself comes last, and counts for neither.
fn counts(stats: &str) -> [u32; 4] {
    let mut counts = stats.lines().map(|line| line.split_whitespace().next().unwrap().parse::<u32>());
    [(); 4].map(|()| counts.next().unwrap().unwrap())
}

/// Everything there is to tell about the host, a line for each thing.
fn told() -> String {
    let mut text = String::new();
    for (path, what) in MANAGED.iter().flat_map(|root| tree(Path::new(root))) {
        writeln!(text, "{} {what}", path.display()).unwrap();
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    for mount in mounts.lines().filter(|line| line.split(' ').nth(1).is_some_and(|at| at.starts_with("/srv")))
    {
        writeln!(text, "mounted: {mount}").unwrap();
    }
    for package in ["example-time", "example-web", "example-oldtime"] {
        writeln!(text, "{package} is {}", package_source::package_state(package)).unwrap();
    }
    for service in ["example-time", "example-fallback", "example-web"] {
        let (active, enabled) =
            (booted_host::unit_state("is-active", service), booted_host::unit_state("is-enabled", service));
        writeln!(text, "{service} is {active} and {enabled}").unwrap();
    }
    text
}

fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        if OTHERS.iter().any(|other| path == Path::new(other)) {
            continue;
        }
        let Ok(stat) = path.symlink_metadata() else { continue };
        let inside = match stat.file_type() {
            kind if kind.is_dir() => {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                String::new()
            }
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().display().to_string(),
            kind if kind.is_file() => content(&path),
            _ => String::new(),
        };
        found.insert(path, format!("{:o} {} {} {inside:?}", stat.mode(), stat.uid(), stat.gid()));
    }
    found
}

fn content(path: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    if !LISTS.iter().any(|list| path == Path::new(list)) {
        return text;
    }
    // The tools of tables say when they have written one.
    let lines = text.lines().filter(|line| !["# HEADER", "# ("].iter().any(|word| line.starts_with(word)));
    let mut lines: Vec<String> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    if path == Path::new("/etc/shadow") {
        let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / (24 * 3600);
        lines = lines.iter().map(|line| without_recent_day(line, today)).collect();
    }
    lines.sort();
    lines.join("\n")
}

/// An entry of the shadow table without the day of the last change, if that is one on which the test may have run: midnight may come
/// between one twin and the other.
fn without_recent_day(entry: &str, today: u64) -> String {
    let mut fields: Vec<&str> = entry.split(':').collect();
    let is_recent = |day: &u64| (today - 1..=today).contains(day);
    if let Some(day) = fields.get_mut(2)
        && day.parse().is_ok_and(|day| is_recent(&day))
    {
        *day = "today";
    }
    fields.join(":")
}

#[test]
fn only_a_recent_day_is_left_out_of_an_entry() {
    assert_eq!(without_recent_day("a:!:19:0:99:7:::", 20), "a:!:today:0:99:7:::");
    assert_eq!(without_recent_day("a:!:20:0:99:7:::", 20), "a:!:today:0:99:7:::");
    assert_eq!(without_recent_day("a:!:18:0:99:7:::", 20), "a:!:18:0:99:7:::");
    assert_eq!(without_recent_day("a:!::::::", 20), "a:!::::::");
}

#[track_caller]
fn said(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", shown(&output));
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
