//! Manifests, beside `puppet apply` on the same ones in the same run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::report::{Report, median};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn run(report: &mut Report, program: &Path) {
    report.section("manifests of Puppet, whole programs");
    assert!(program.exists(), "{} is not built; `cargo xtask bench` builds it", program.display());
    for (count, most) in [(10, 1.0 / 20.0), (100, 1.0 / 5.0), (1000, 1.0 / 5.0)] {
        edit(report, program, count, most);
    }
    converge(report, program, 1000);
    fallback(report, program, 1000);
    packages(report, program, 100);
}

/// A manifest in which half of the resources are files, one of which says which version it is.
fn manifest(place: &Path, count: usize, version: usize) -> String {
    let mut text = String::new();
    for number in 0..count.saturating_sub(1) {
        // Writing to a string cannot fail.
        let _ = match number % 2 {
            0 => writeln!(text, "file {{ '{}/{number}': content => 'file {number}' }}", place.display()),
            _ => writeln!(text, "notify {{ 'message {number}': }}"),
        };
    }
    let _ = writeln!(text, "file {{ '{}/version': content => '{version}' }}", place.display());
    text
}

/// From an edit until the new graph has done its work, against `puppet apply --noop`, which only looks.
fn edit(report: &mut Report, program: &Path, count: usize, most: f64) {
    let place = crate::world::disk();
    let files = place.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let (site, version) = (place.path().join("site.pp"), files.join("version"));
    std::fs::write(&site, manifest(&files, count, 0)).unwrap();
    let running = Running::start(Command::new(program).args(["run", "--tmp-prefix", "puppet"]).arg(&site));
    wait_for(&version, "0");
    // The first compile after the start is for what happened in between.
    std::thread::sleep(Duration::from_secs(2));
    let mut times = Vec::new();
    for number in 1..=7 {
        let began = Instant::now();
        std::fs::write(&site, manifest(&files, count, number)).unwrap();
        wait_for(&version, &number.to_string());
        times.push(began.elapsed());
        std::thread::sleep(Duration::from_millis(500));
    }
    drop(running);
    let ours = median(times);
    let theirs = median((0..3).map(|_| apply(&["--noop"], &site)).collect());
    report.ratio(
        &format!("edit to new graph, {count} resources, against `puppet apply --noop`"),
        1,
        ours,
        theirs,
        Some(most),
    );
}

/// From nothing to files, with everything that has to be started first.
fn converge(report: &mut Report, program: &Path, count: usize) {
    let place = crate::world::disk();
    let files = |name: &str| {
        let files = place.path().join(name);
        let site = place.path().join(format!("{name}.pp"));
        let mut text = String::new();
        for number in 0..count {
            let _ = writeln!(text, "file {{ '{}/{number}': content => 'file {number}' }}", files.display());
        }
        std::fs::write(&site, text).unwrap();
        (files, site)
    };
    let fresh = |files: &PathBuf| {
        let _ = std::fs::remove_dir_all(files);
        std::fs::create_dir(files).unwrap();
    };
    let is_done = |files: &PathBuf| assert_eq!(std::fs::read_dir(files).unwrap().count(), count);
    let (mine, my_site) = files("ours");
    let ours = || {
        fresh(&mine);
        let time = once(program, "puppet", &my_site);
        is_done(&mine);
        time
    };
    let (theirs, their_site) = files("theirs");
    let puppet = || {
        fresh(&theirs);
        let time = apply(&[], &their_site);
        is_done(&theirs);
        time
    };
    let (ours, puppet) =
        (median((0..3).map(|_| ours()).collect()), median((0..3).map(|_| puppet()).collect()));
    report.ratio(
        &format!("first converge of {count} files, against `puppet apply`"),
        1,
        ours,
        puppet,
        Some(1.0 / 3.0),
    );
}

/// How long Puppet looks at resources for us when all are as they should be: what more of them cost, once it is warm.
fn fallback(report: &mut Report, program: &Path, count: usize) {
    let place = crate::world::disk();
    let hosts = place.path().join("hosts");
    for kind in ["notify", "host"] {
        let params = match kind {
            "notify" => "{}".to_owned(),
            _ => format!("{{\"ip\": \"192.0.2.1\", \"target\": \"{}\"}}", hosts.display()),
        };
        let timed = |count: usize| {
            let titles: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
            let lines: String = titles.iter().map(|title| format!("192.0.2.1\t{title}\n")).collect();
            std::fs::write(&hosts, lines).unwrap();
            let file = graph(place.path(), kind, &titles, &params);
            median((0..3).map(|_| once(program, "yaml", &file)).collect())
        };
        let (few, many) = (timed(10), timed(10 + count));
        let more = many.saturating_sub(few);
        report.time(
            &format!("{count} in-sync `{kind}` resources through Puppet, warm"),
            more,
            Some(Duration::from_secs(3)),
        );
        let rate = count as f64 / more.as_secs_f64().max(0.001);
        report.figure(
            &format!("in-sync `{kind}` resources through Puppet"),
            &format!("{rate:.0} per second"),
            Some((rate >= 500.0, "at least 500 per second".to_owned())),
        );
    }
}

/// Packages that are installed already, without the start of Puppet; nothing is changed.
fn packages(report: &mut Report, program: &Path, count: usize) {
    let place = crate::world::disk();
    let told = Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status} ${Package}\n"]).output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    let installed = told.lines().filter_map(|line| line.strip_prefix("installed ").map(str::to_owned));
    // A package of two architectures has two lines.
    let names: std::collections::BTreeSet<String> = installed.collect();
    let titles: Vec<String> = names.into_iter().take(count).collect();
    assert_eq!(titles.len(), count, "there are not enough packages on this machine");
    let timed = |kind: &str, titles: &[String], params: &str| {
        let file = graph(place.path(), kind, titles, params);
        median((0..3).map(|_| once(program, "yaml", &file)).collect())
    };
    let start = timed("notify", &["start".to_owned()], "{}");
    let all = timed("package", &titles, "{\"ensure\": \"installed\"}");
    report.time(
        &format!("{count} in-sync packages through Puppet, warm"),
        all.saturating_sub(start),
        Some(Duration::from_secs(5)),
    );
}

/// A graph of resources that are left to Puppet.
fn graph(place: &Path, kind: &str, titles: &[String], params: &str) -> PathBuf {
    let mut text = String::from("graph: fallback\nresources:\n  pippet:\n");
    for title in titles {
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "  - name: {title}\n    type: {kind}\n    title: {title}\n    params: '{params}'");
    }
    let file = place.join(format!("{kind}-{}.yaml", titles.len()));
    std::fs::write(&file, text).unwrap();
    file
}

/// One run to the end.
fn once(program: &Path, front_end: &str, file: &Path) -> Duration {
    let mut command = Command::new(program);
    command.args(["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", front_end]).arg(file);
    timed(&mut command)
}

fn apply(more: &[&str], site: &Path) -> Duration {
    timed(Command::new("puppet").args(["apply", "--color=false"]).args(more).arg(site))
}

fn timed(command: &mut Command) -> Duration {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?} ended with {status}");
    began.elapsed()
}

fn wait_for(file: &Path, content: &str) {
    let until = Instant::now() + PATIENCE;
    while std::fs::read(file).ok().as_deref() != Some(content.as_bytes()) {
        assert!(Instant::now() < until, "{} does not become {content}", file.display());
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A program that ends with this.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
        let _ = self.0.wait();
    }
}
