//! A host with systemd: a view of this machine, or of a clean Debian, on which every change is thrown away, booted with its own
//! systemd and message bus, in which one test runs as a service.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{current_test, program};

const MARK: &str = "MGMT_TEST_BOOTED";

/// The time after which a test on a booted host is ended.
const LIMIT: Duration = Duration::from_secs(300);

/// Enters a control group of its own, so that two hosts never share one, and cleans it up.
const GROUP: &str = r#"
set -e
groups=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET)
group=$groups/mgmt-test-$$
mkdir "$group"
trap 'find "$group" -depth -type d -exec rmdir {} + 2>/dev/null' EXIT
sh -c 'echo $$ >"$0/cgroup.procs"; exec unshare --mount --propagation private --pid --fork --kill-child --uts --ipc \
    --cgroup --net -- sh -c "$@"' "$group" "$@" || true
"#;

/// A Debian with systemd and a message bus and nothing else, newer than the machine's own, which `cargo xtask setup` makes.
pub const CLEAN: &str = "/var/cache/mgmt-tests/debian-13";

/// Mounts an empty file system of memory, the files of this machine or of another root below it, and boots it.
const BOOT: &str = r#"
set -e
place=$1 program=$2 name=$3 base=$4 limit=$5 mgmt=$6
host=$place/host
mount -t tmpfs tmpfs "$host"
mkdir "$host/upper" "$host/work" "$host/root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$host/upper,workdir=$host/work" "$host/root"
cd "$host/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
ln -s pts/ptmx dev/ptmx
mkdir -p dev/pts dev/shm mgmt-test-result old
mount --bind "$place/result" mgmt-test-result
touch mgmt-test-program
mount --bind "$program" mgmt-test-program
helper=$(dirname "$(dirname "$program")")/examples/resources_exec_as
if test -e "$helper"; then
    touch mgmt-test-helper
    mount --bind "$helper" mgmt-test-helper
fi
mkdir -p etc/systemd/system
cat >etc/systemd/system/mgmt-test.target <<END
[Unit]
Requires=sysinit.target dbus.service mgmt-test.service
After=sysinit.target dbus.service
END
cat >etc/systemd/system/mgmt-test.service <<END
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
After=dbus.service
[Service]
Type=oneshot
Environment=MGMT_TEST_BOOTED=1 TMPDIR=/tmp HOME=/root XDG_RUNTIME_DIR=/run/user/0 CARGO_BIN_EXE_mgmt=$mgmt
ExecStart=/mgmt-test-program --exact $name --nocapture
StandardOutput=file:/mgmt-test-result/out
StandardError=file:/mgmt-test-result/errors
TimeoutStartSec=$limit
END
pivot_root . old
umount --lazy old
exec env -i container=mgmt-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=mgmt-test.target \
    </dev/null >/mgmt-test-result/boot 2>&1
"#;

/// This is a booted host.
pub fn is_booted() -> bool {
    std::env::var_os(MARK).is_some()
}

/// True on a booted host. Elsewhere, boots one, runs the test `name` again there, and is false.
#[track_caller]
pub fn on_booted_host(name: &str) -> bool {
    on_booted_host_with(name, &[])
}

/// The same, with some files, which are in `/mgmt-test-result` there.
#[track_caller]
pub fn on_booted_host_with(name: &str, files: &[(&str, &Path)]) -> bool {
    if is_booted() {
        return true;
    }
    boot(name, "/", files, None, LIMIT);
    false
}

/// The same, for a test that takes longer.
#[track_caller]
pub fn on_booted_host_for(name: &str, files: &[(&str, &Path)], limit: Duration) {
    boot(name, "/", files, None, limit);
}

/// Boots a clean Debian with some files, which are in `/mgmt-test-result` there, and runs the test `name` again there.
#[track_caller]
pub fn on_clean_host_with(name: &str, files: &[(&str, &Path)]) {
    assert!(Path::new(CLEAN).is_dir(), "{CLEAN} is missing: run `cargo xtask setup`");
    boot(name, CLEAN, files, None, LIMIT);
}

/// Boots a host with some files for the test `name`, which leaves a text in a file of `/mgmt-test-result`, and gives that.
#[track_caller]
pub fn on_booted_host_with_result(name: &str, files: &[(&str, &Path)], told: &str) -> String {
    boot(name, "/", files, Some(told), LIMIT)
}

#[track_caller]
fn boot(name: &str, base: &str, files: &[(&str, &Path)], wanted: Option<&str>, limit: Duration) -> String {
    // One at a time: they gain nothing from each other.
    static ONE: Mutex<()> = Mutex::new(());
    let _one: MutexGuard<'_, ()> = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = tempfile::tempdir().unwrap();
    for directory in ["host", "result"] {
        std::fs::create_dir(place.path().join(directory)).unwrap();
    }
    for (own, other) in files {
        std::fs::copy(other, place.path().join("result").join(own)).unwrap();
    }
    let output = Command::new("sh")
        .args(["-c", GROUP, "group", BOOT, "boot"])
        .arg(place.path())
        .arg(std::env::current_exe().unwrap())
        .args([&current_test::sibling(name), base, &limit.as_secs().to_string()])
        .arg(program::binary())
        .current_dir("/")
        .output()
        .unwrap();
    let told = |name: &str| {
        let bytes = std::fs::read(place.path().join("result").join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    assert!(
        told("out").contains("1 passed"),
        "{}\n{}\n{}\nthis test needs root, systemd and dbus: {}",
        told("out"),
        told("errors"),
        told("boot"),
        String::from_utf8_lossy(&output.stderr)
    );
    wanted.map(told).unwrap_or_default()
}

/// Runs a program; its output.
#[track_caller]
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {out}{errors}");
    out.trim().to_owned()
}

/// Starts the service manager of root's own session, as a log-in does.
pub fn start_session() {
    // Such a host has nobody who could log in, so it is started without asking for that.
    let directory = "/etc/systemd/system/user@0.service.d";
    std::fs::create_dir_all(directory).unwrap();
    let runtime = "ExecStartPre=+/bin/mkdir -p -m 700 /run/user/0\nEnvironment=XDG_RUNTIME_DIR=/run/user/0\n";
    let unit = format!("[Unit]\nRequires=\nAfter=\n[Service]\nPAMName=\nDelegate=yes\n{runtime}");
    std::fs::write(format!("{directory}/plain.conf"), unit).unwrap();
    run(
        "sh",
        &["-ec", "mkdir -p -m 700 /run/user/0; systemctl daemon-reload; systemctl start user@0.service"],
    );
    run("sh", &["-ec", "systemctl --user start dbus.socket; test -S /run/user/0/bus"]);
}

/// What `systemctl` says about a unit, in one word.
pub fn unit_state(question: &str, unit: &str) -> String {
    let output = Command::new("systemctl").args([question, unit]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Waits on a thread of its own.
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: it does not come to that");
        std::thread::sleep(Duration::from_millis(10));
    }
}
