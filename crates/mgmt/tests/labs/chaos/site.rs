//! The managed site: about 200 resources of 16 kinds, and an oracle that looks at the host itself.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A small file system of its own, which can be filled and made read-only.
pub(crate) const VOLUME: &str = "/chaos";
/// The directories on the volume.
pub(crate) const DIRECTORIES: usize = 12;
/// The files in each directory.
pub(crate) const FILES: usize = 10;
/// The services.
pub(crate) const SERVICES: usize = 7;
/// The accounts and groups.
pub(crate) const ACCOUNTS: usize = 4;
/// The package that the site needs.
pub(crate) const PACKAGE: &str = "chaos-tool";
/// The name that the downloaded file comes from.
pub(crate) const SERVER_NAME: &str = "files.chaos.test";
/// The port of the web server.
const PORT: u16 = 8737;
/// The file that is downloaded.
pub(crate) const DOWNLOADED: &str = "/chaos-downloaded";
const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// One resource as the oracle sees it.
pub(crate) struct Expectation {
    /// The resource, as `kind[name]`.
    pub(crate) resource: String,
    holds: Box<dyn Fn() -> bool + Send>,
}

impl Expectation {
    /// Whether the host is as declared.
    pub(crate) fn holds(&self) -> bool {
        (self.holds)()
    }
}

/// The program and what the oracle expects of it.
#[derive(Default)]
pub(crate) struct Site {
    pub(crate) program: String,
    pub(crate) expectations: Vec<Expectation>,
}

impl Site {
    fn declare(&mut self, kind: &str, name: &str, body: &str, holds: impl Fn() -> bool + Send + 'static) {
        writeln!(self.program, "{kind} \"{name}\" {{ {body} }}").unwrap();
        let resource = format!("{kind}[{name}]");
        self.expectations.push(Expectation { resource, holds: Box::new(holds) });
    }

    pub(crate) fn new() -> Site {
        let mut site = Site::default();
        site.files();
        site.edits();
        site.commands();
        site.services();
        site.accounts();
        site.host();
        site.web();
        site
    }

    fn files(&mut self) {
        for directory in 0..DIRECTORIES {
            let path = directory_path(directory);
            let name = format!("{}/", path.display());
            self.declare("file", &name, "state => \"exists\",", move || path.is_dir());
            for file in 0..FILES {
                let path = file_path(directory, file);
                let content = content(directory, file);
                let body = format!("state => \"exists\", mode => \"0640\", content => \"{content}\",");
                self.declare("file", &path.display().to_string(), &body, {
                    let path = path.clone();
                    move || has(&path, &content) && mode(&path) == Some(0o640)
                });
            }
            let link = directory_path(directory).join("link");
            let body = "state => \"exists\", symlink => true, source => \"f0\",";
            self.declare("file", &link.display().to_string(), body, {
                let link = link.clone();
                move || fs::read_link(&link).is_ok_and(|target| target == Path::new("f0"))
            });
        }
    }

    fn edits(&mut self) {
        for line in 0..10 {
            let content = format!("chaos line {line}");
            let body = format!("file => \"{VOLUME}/lines\", state => \"exists\", content => \"{content}\",");
            self.declare("line", &format!("line {line}"), &body, move || {
                has_line(&format!("{VOLUME}/lines"), &content)
            });
        }
        for number in 0..4 {
            let name = format!("db{number}.chaos.test");
            let body = format!("state => \"exists\", ip => \"192.0.2.{number}\",");
            let expected = format!("192.0.2.{number}\t{name}");
            self.declare("host", &name, &body, move || {
                let lines = fs::read_to_string("/etc/hosts").unwrap_or_default();
                let wanted: Vec<&str> = expected.split_whitespace().collect();
                lines.lines().any(|line| line.split_whitespace().take(2).eq(wanted.iter().copied()))
            });
        }
        for number in 0..4 {
            let name = format!("git{number}.chaos.test");
            let body = format!("state => \"exists\", type => \"ssh-ed25519\", key => \"{KEY}\",");
            let expected = format!("{name} ssh-ed25519 {KEY}");
            self.declare("ssh:known_host", &name, &body, move || {
                has_line("/etc/ssh/ssh_known_hosts", &expected)
            });
        }
        let body = "edits => [\".log.level = \\\"info\\\"\",],";
        self.declare("json:edit", "/etc/chaos.json", body, || {
            fs::read_to_string("/etc/chaos.json").is_ok_and(|text| text.contains("\"info\""))
        });
    }

    fn commands(&mut self) {
        for number in 0..8 {
            let marker = PathBuf::from(format!("/chaos-markers/m{number}"));
            let body = format!(
                "cmd => \"/usr/bin/touch {0}\", creates => \"{0}\", watchfiles => [\"{0}\",],",
                marker.display()
            );
            self.declare("exec", &format!("mark {number}"), &body, move || marker.exists());
        }
        // The command comes with a package.
        let made = PathBuf::from("/chaos-made-by-tool");
        let body = format!(
            "cmd => \"/usr/bin/{PACKAGE} {0}\", creates => \"{0}\", watchfiles => [\"{0}\",], \
             Depend => Pkg[\"{PACKAGE}\"],",
            made.display()
        );
        self.declare("pkg", PACKAGE, "state => \"installed\", allowuntrusted => true,", || {
            Path::new("/usr/bin").join(PACKAGE).exists()
        });
        self.declare("exec", "use the tool", &body, move || made.exists());
    }

    fn services(&mut self) {
        for number in 0..SERVICES {
            let name = format!("chaos{number}");
            let body = "state => \"running\", startup => \"enabled\",";
            self.declare("svc", &name.clone(), body, move || {
                systemctl("is-active", &name) == "active" && systemctl("is-enabled", &name) == "enabled"
            });
        }
        for number in 0..2 {
            let name = format!("chaos-timer{number}");
            let body = "unit => \"chaos0.service\", trigger => \"OnCalendar\", time => \"03:00\",";
            let timer = format!("{name}.timer");
            self.declare("cron", &name, body, move || systemctl("is-active", &timer) == "active");
        }
    }

    fn accounts(&mut self) {
        for number in 0..ACCOUNTS {
            let (group, user) = (format!("chaosgroup{number}"), format!("chaosuser{number}"));
            self.declare("group", &group.clone(), "state => \"exists\",", {
                let group = group.clone();
                move || first_fields("/etc/group").any(|name| name == group)
            });
            let body =
                format!("state => \"exists\", groups => [\"{group}\",], homedir => \"/home/{user}/\",");
            self.declare("user", &user.clone(), &body, move || {
                first_fields("/etc/passwd").any(|name| name == user)
            });
            let file = format!("/home/chaosuser{number}.keys");
            let body = format!(
                "state => \"exists\", file => \"{file}\", type => \"ssh-ed25519\", key => \"{KEY}\","
            );
            self.declare("ssh:authorized_key", &format!("key {number}"), &body, move || {
                fs::read_to_string(&file).is_ok_and(|text| text.contains(KEY))
            });
        }
    }

    fn host(&mut self) {
        self.declare("hostname", "chaos-host", "", || {
            fs::read_to_string("/etc/hostname").is_ok_and(|name| name.trim() == "chaos-host")
        });
        let forward = "net.ipv4.ip_forward";
        self.declare("sysctl", forward, "value => \"1\",", || {
            fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|value| value.trim() == "1")
        });
        self.declare(
            "crontab",
            "chaos job",
            "state => \"exists\", command => \"/bin/true\", minute => \"7\",",
            || has_line("/var/spool/cron/crontabs/root", "7 * * * * /bin/true"),
        );
    }

    fn web(&mut self) {
        let address = format!("127.0.0.1:{PORT}");
        self.declare("http:server", &address, "", || get("/static").is_some());
        self.declare("http:server:file", "/static", "data => \"served\",", || {
            get("/static").is_some_and(|page| page.ends_with("served"))
        });
        // Downloaded from the site's own web server, by a name that may stop to resolve.
        let body = format!(
            "state => \"exists\", source => \"http://{SERVER_NAME}:{PORT}/static\", Depend => Http:Server[\"{address}\"],"
        );
        self.declare("file", DOWNLOADED, &body, || has(Path::new(DOWNLOADED), "served"));
    }
}

/// Makes everything that the site does not manage itself.
pub(crate) fn prepare() {
    fs::create_dir_all(VOLUME).unwrap();
    command("mount", &["-t", "tmpfs", "-o", "size=8m,nr_inodes=600", "tmpfs", VOLUME]);
    for directory in ["/chaos-markers", "/etc/ssh", "/var/spool/cron/crontabs", "/home"] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write("/etc/chaos.json", "{\"log\": {\"level\": \"debug\"}}\n").unwrap();
    add_server_name();
    for number in 0..SERVICES {
        let unit = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";
        fs::write(format!("/etc/systemd/system/chaos{number}.service"), unit).unwrap();
    }
    command("systemctl", &["daemon-reload"]);
}

/// Makes the download's server name resolvable.
pub(crate) fn add_server_name() {
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    if !hosts.contains(SERVER_NAME) {
        replace("/etc/hosts", &format!("{}\n127.0.0.1 {SERVER_NAME}\n", hosts.trim_end()));
    }
}

/// Makes it unresolvable.
pub(crate) fn remove_server_name() {
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let without: Vec<&str> = hosts.lines().filter(|line| !line.contains(SERVER_NAME)).collect();
    replace("/etc/hosts", &(without.join("\n") + "\n"));
}

fn replace(path: &str, text: &str) {
    let new = format!("{path}.chaos");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

pub(crate) fn directory_path(directory: usize) -> PathBuf {
    Path::new(VOLUME).join(format!("d{directory}"))
}

pub(crate) fn file_path(directory: usize, file: usize) -> PathBuf {
    directory_path(directory).join(format!("f{file}"))
}

fn content(directory: usize, file: usize) -> String {
    format!("directory {directory} file {file}")
}

fn has(path: &Path, content: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|found| found == content)
}

fn has_line(path: &str, line: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.lines().any(|found| found.trim_end() == line))
}

fn mode(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|found| found.permissions().mode() & 0o7777)
}

fn first_fields(path: &str) -> impl Iterator<Item = String> + use<> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let fields: Vec<String> =
        text.lines().filter_map(|line| line.split(':').next()).map(str::to_owned).collect();
    fields.into_iter()
}

fn systemctl(question: &str, unit: &str) -> String {
    let output = Command::new("systemctl").args([question, unit]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Runs a command that must succeed.
#[track_caller]
pub(crate) fn command(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
}

/// Runs a command that may fail, because mgmt repairs what it breaks at the same time.
pub(crate) fn attempt(program: &str, arguments: &[&str]) {
    succeeds(program, arguments);
}

/// Runs a command, and says whether it succeeded.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().unwrap().status.success()
}

/// Gets a page of the site's web server.
fn get(path: &str) -> Option<String> {
    fetch(PORT, path)
}

/// Gets a page of a web server on loopback.
pub(crate) fn fetch(port: u16, path: &str) -> Option<String> {
    let address = ([127, 0, 0, 1], port).into();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}
