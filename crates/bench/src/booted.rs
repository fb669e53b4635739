//! A host with systemd: a view of this machine on which every change is thrown away, booted with the machine's own
//! systemd and message bus, in which a part of the benchmarks runs as a service.

use std::process::Command;

/// Enters a control group of its own and cleans it up.
const GROUP: &str = r#"
set -e
groups=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET)
group=$groups/mgmt-bench-$$
mkdir "$group"
trap 'find "$group" -depth -type d -exec rmdir {} + 2>/dev/null' EXIT
sh -c 'echo $$ >"$0/cgroup.procs"; exec unshare --mount --propagation private --pid --fork --kill-child --uts --ipc \
    --cgroup --net -- sh -c "$@"' "$group" "$@" || true
"#;

/// Mounts an empty file system of memory, this machine's files below it, and boots it.
const BOOT: &str = r#"
set -e
place=$1 program=$2
shift 2
host=$place/host
mount -t tmpfs tmpfs "$host"
mkdir "$host/upper" "$host/work" "$host/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$host/upper,workdir=$host/work" "$host/root"
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
mkdir -p dev/pts dev/shm mgmt-bench-result old etc/systemd/system
mount --bind "$place/result" mgmt-bench-result
touch mgmt-bench-program
mount --bind "$program" mgmt-bench-program
cat >etc/systemd/system/mgmt-bench.target <<END
[Unit]
Requires=sysinit.target dbus.service mgmt-bench.service
After=sysinit.target dbus.service
END
cat >etc/systemd/system/mgmt-bench.service <<END
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
After=dbus.service
[Service]
Type=oneshot
Environment=TMPDIR=/tmp HOME=/root
ExecStart=/mgmt-bench-program --child $*
StandardOutput=file:/mgmt-bench-result/out
StandardError=file:/mgmt-bench-result/errors
TimeoutStartSec=600
END
pivot_root . old
umount --lazy old
exec env -i container=mgmt-bench PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=mgmt-bench.target \
    </dev/null >/mgmt-bench-result/boot 2>&1
"#;

/// Boots a host, runs a part of this program there, and gives what it prints. Why not, if that fails.
pub(crate) fn in_booted_host(arguments: &[&str]) -> Result<String, String> {
    let place = tempfile::tempdir().unwrap();
    for directory in ["host", "result"] {
        std::fs::create_dir(place.path().join(directory)).unwrap();
    }
    let output = Command::new("sh")
        .args(["-c", GROUP, "group", BOOT, "boot"])
        .arg(place.path())
        .arg(std::env::current_exe().unwrap())
        .args(arguments)
        .current_dir("/")
        .output()
        .unwrap();
    let told = |name: &str| {
        let bytes = std::fs::read(place.path().join("result").join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (out, errors) = (told("out"), told("errors"));
    if out.trim_end().ends_with("done") {
        return Ok(out);
    }
    Err(format!("{out}{errors}{}{}", told("boot"), String::from_utf8_lossy(&output.stderr)))
}
