//! A thousand files to another host: as a deploy that the host runs, and copied by rsync through ssh.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::report::Report;
use mgmt_test_support::sshd::Hosts;

const FILES: usize = 1000;
const SIZE: usize = 4096;
const ROUNDS: usize = 5;

pub(crate) fn run(report: &mut Report, program: &Path) {
    report.section(
        "deploy of 1 000 files of 4 KiB, until the host runs it, beside rsync through ssh on this machine",
    );
    let directory = crate::world::disk();
    let at = |name: &str| directory.path().join(name);
    let _host = Host::start(program, &at("prefix"));
    let ssh = Hosts::start(&["peer"]);
    let (mut all, mut few) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Everything is new, and then one file is.
        for (pairs, changed) in [(&mut all, FILES), (&mut few, 1)] {
            let marker = at(&format!("out-{round}-{changed}"));
            write(&at("program"), &marker, &format!("{round} {changed}"), changed);
            let began = Instant::now();
            deploy(program, &at("prefix"), &at("program"));
            while !marker.exists() {
                assert!(began.elapsed() < Duration::from_secs(60), "the host does not run it");
                std::thread::sleep(Duration::from_micros(200));
            }
            let ours = began.elapsed();
            let began = Instant::now();
            rsync(&ssh, &at("program"), &at("copy"));
            pairs.push((ours, began.elapsed()));
        }
    }
    report.ratio_spread("a deploy in which every file is new", 1, &all, None);
    report.ratio_spread("a deploy in which one file is new", 1, &few, None);
}

/// A program of a thousand files, `changed` of them with new content.
fn write(program: &Path, marker: &Path, text: &str, changed: usize) {
    let files = program.join("files");
    std::fs::create_dir_all(&files).unwrap();
    for number in 0..changed {
        let mut content = format!("{text} {number} ").repeat(SIZE / 8).into_bytes();
        content.truncate(SIZE);
        std::fs::write(files.join(number.to_string()), content).unwrap();
    }
    let main = format!("file \"{}\" {{\n\tstate => \"exists\",\n}}\n", marker.display());
    std::fs::write(program.join("main.mcl"), main).unwrap();
    std::fs::write(program.join("metadata.yaml"), "main: \"main.mcl\"\n").unwrap();
}

fn deploy(mgmt: &Path, prefix: &Path, program: &Path) {
    let mut command = Command::new(mgmt);
    command.args(["deploy", "--no-git", "--prefix"]).arg(prefix).arg("lang").arg(program);
    let status = command.stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "mgmt deploy: {status}");
}

fn rsync(ssh: &Hosts, from: &Path, to: &Path) {
    let mut from: PathBuf = from.to_owned();
    // With a slash in the end, it is what is in the directory.
    from.push("");
    let shell = format!("ssh -F {} -o BatchMode=yes -l root", ssh.config().display());
    let mut command = Command::new("rsync");
    command.args(["--archive", "--rsh", &shell]).arg(from).arg(format!("peer:{}", to.display()));
    let status = command.status().expect("rsync is missing: run `cargo xtask setup`");
    assert!(status.success(), "rsync: {status}");
}

/// A run that waits for deploys, which ends with this.
struct Host(Child);

impl Host {
    fn start(program: &Path, prefix: &Path) -> Host {
        let mut command = Command::new(program);
        command.args(["run", "--prefix"]).arg(prefix).arg("empty");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while !prefix.join("world/socket").exists() {
            assert!(Instant::now() < until, "mgmt does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Host(child)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
