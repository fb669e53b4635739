//! One run for a long time, with everything in motion: another graph each second, and files that somebody breaks.
//!
//! What must not grow does not grow, every breakage is repaired, and nothing is said but what was brought about. Half a
//! minute here; `cargo xtask soak` takes an hour. `MGMT_SOAK_SECONDS` and `MGMT_SOAK_RESOURCES` say how long and how much,
//! `MGMT_SEED` what happens, `MGMT_SOAK_ROUND` how many milliseconds are between two graphs.
//!
//! Names of files are never used twice, so that whatever is kept of a name, a graph or an event adds up. An hour notices a
//! kilobyte for each graph; half a minute, what is some megabytes in all.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use mgmt_test_support::numbers::{Numbers, seed};
use mgmt_test_support::program::{EVENT_TIMEOUT, mgmt};

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// What is declared: a content for each number of a file.
struct Declared {
    home: PathBuf,
    files: BTreeMap<usize, u64>,
    /// The number that the next file gets.
    next: usize,
    version: u64,
    /// Files that nobody declares any more.
    gone: Vec<usize>,
}

impl Declared {
    fn path(&self, file: usize) -> PathBuf {
        self.home.join(format!("d{}/f{file:07}", file % 20))
    }

    /// Always as long, so that memory does not grow with numbers.
    fn content(file: usize, version: u64) -> String {
        format!("file {file:07} version {version:07}\n").repeat(5)
    }

    /// Some files go, as many come, some have another content.
    fn churn(&mut self, numbers: &mut Numbers, share: usize) {
        self.version += 1;
        let all: Vec<usize> = self.files.keys().copied().collect();
        for _ in 0..(all.len() / share).max(1) {
            let file = all[numbers.below(all.len())];
            // Who is gone does not come back: there are always as many.
            let Some(version) = self.files.get_mut(&file) else { continue };
            if numbers.below(2) == 0 {
                *version = self.version;
            } else {
                self.files.remove(&file);
                self.files.insert(self.next, self.version);
                self.next += 1;
                self.gone.push(file);
            }
        }
        assert_eq!(self.files.len(), all.len());
    }

    fn write(&self, graph: &Path) {
        let mut text = format!("graph: soak\nresources:\n  noop:\n  - name: v{}\n", self.version);
        // Others that come and go, and are in motion by themselves.
        let _ = writeln!(text, "  timer:\n  - name: t{}\n    interval: 1", self.version % 7);
        let _ = writeln!(text, "  print:\n  - name: p{0}\n    msg: version {0}", self.version);
        let made = self.home.join("made");
        let _ = writeln!(
            text,
            "  exec:\n  - name: e{0}\n    cmd: /bin/ln -sfn v{0} {1}\n    ifcmd: test \"$(readlink {1})\" != v{0}\n    ifshell: /bin/sh",
            self.version,
            made.display()
        );
        let _ = writeln!(
            text,
            "  line:\n  - name: l{0}\n    file: {1}\n    state: exists\n    content: version {0}",
            self.version % 50,
            self.home.join("lines").display()
        );
        text += "  file:\n";
        for (file, version) in &self.files {
            let _ = writeln!(
                text,
                "  - name: {}\n    state: exists\n    mode: \"0640\"\n    content: {:?}",
                self.path(*file).display(),
                Self::content(*file, *version)
            );
        }
        let next = graph.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, graph).unwrap();
    }

    fn is_right(&self, file: usize) -> bool {
        let Some(version) = self.files.get(&file) else { return true };
        let path = self.path(file);
        std::fs::read_to_string(&path).is_ok_and(|text| text == Self::content(file, *version))
            && path.metadata().is_ok_and(|found| found.permissions().mode() & 0o7777 == 0o640)
    }

    #[track_caller]
    fn becomes_right(&self, what: &str) {
        let until = Instant::now() + EVENT_TIMEOUT;
        let made = format!("v{}", self.version);
        let is_made =
            || std::fs::read_link(self.home.join("made")).is_ok_and(|found| found == Path::new(&made));
        while !is_made() {
            assert!(Instant::now() < until, "{what}: the command has not made {made}");
            std::thread::sleep(Duration::from_millis(20));
        }
        while let Some(wrong) = self.files.keys().find(|file| !self.is_right(**file)) {
            assert!(Instant::now() < until, "{what}: {} is not put right", self.path(*wrong).display());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A program that is over when the test is, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a process has: kilobytes in memory of its own, and open descriptors. What it shares with the file of the program
/// comes and goes as the kernel likes.
fn sample(id: u32) -> (f64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kilobytes = own.split_whitespace().next().unwrap().parse().unwrap();
    (kilobytes, std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count())
}

/// Kilobytes in huge pages that the program asked for. Where everybody is given them, it cannot help it.
fn huge_pages(id: u32) -> u64 {
    let rule = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let map = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
    let huge = map.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).unwrap_or_default();
    let huge = huge.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0);
    if rule.contains("[always]") { 0 } else { huge }
}

/// By how much memory rises from the first point to the last, and how much of that is no accident: what is at work needs
/// more for a moment, which is no growth. So the least of each of a dozen parts counts, and of all lines through two of those
/// the one in the middle.
fn rise(points: &[f64]) -> (f64, f64) {
    // Threads take up their stores of memory one after the other, which takes some hundreds of graphs.
    let at = |index: usize| f64::from(u32::try_from(index).unwrap());
    let allowed = if points.len() < 1_000 { 4_096.0 } else { 768.0 + at(points.len()) / 2.0 };
    let part = points.len().div_ceil(12);
    let least: Vec<f64> =
        points.chunks(part).map(|part| part.iter().copied().fold(f64::MAX, f64::min)).collect();
    let mut slopes: Vec<f64> = (0..least.len())
        .flat_map(|a| (a + 1..least.len()).map(move |b| (a, b)))
        .map(|(a, b)| (least[b] - least[a]) / (at(b) - at(a)))
        .collect();
    slopes.sort_by(f64::total_cmp);
    let slope = slopes.get(slopes.len() / 2).copied().unwrap_or(0.0);
    (slope * at(points.len()) / at(part), allowed)
}

#[test]
fn a_kilobyte_for_each_graph_is_noticed_within_an_hour_and_noise_is_not() {
    let mut numbers = Numbers::new(seed());
    let mut points = |leak: f64| -> Vec<f64> {
        // What is at work, half of the time, needs up to four megabytes more; and all of it wavers.
        let mut noise =
            || f64::from(u32::try_from(numbers.below(2) * numbers.below(4096) + numbers.below(256)).unwrap());
        (0..2_400).map(|graph| 20_000.0 + f64::from(graph) * leak + noise()).collect()
    };
    let grows = |points: &[f64]| {
        let (rise, allowed) = rise(points);
        rise > allowed
    };
    assert!(grows(&points(1.0)));
    assert!(!grows(&points(0.0)));
    assert!(!grows(&points(-1.0)));
}

#[test]
fn nothing_grows_and_everything_is_put_right() {
    let (seconds, resources) = (number("MGMT_SOAK_SECONDS", 30), number("MGMT_SOAK_RESOURCES", 500));
    let home = tempfile::tempdir().unwrap();
    for directory in 0..20 {
        std::fs::create_dir(home.path().join(format!("d{directory}"))).unwrap();
    }
    let resources = usize::try_from(resources).unwrap();
    let mut declared = Declared {
        home: home.path().to_owned(),
        files: (0..resources).map(|file| (file, 0)).collect(),
        next: resources,
        version: 0,
        gone: Vec::new(),
    };
    let (graph, log) = (home.path().join("graph.yaml"), home.path().join("log"));
    declared.write(&graph);
    let prefix = home.path().join("prefix");
    let output = std::fs::File::create(&log).unwrap();
    let child = mgmt(&["run", "--prefix", prefix.to_str().unwrap(), "yaml", graph.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .unwrap();
    let mut child = Ended(child);
    declared.becomes_right("at first");
    let mut numbers = Numbers::new(seed());
    let (began, mut samples, mut broken) = (Instant::now(), Vec::new(), 0);
    let time = Duration::from_secs(seconds);
    while began.elapsed() < time {
        let round = Instant::now();
        declared.churn(&mut numbers, 20);
        declared.write(&graph);
        let names: Vec<usize> = declared.files.keys().copied().collect();
        for _ in 0..(names.len() / 100).max(1) {
            let path = declared.path(names[numbers.below(names.len())]);
            // It may be gone, or be put right at the same time: that is the point.
            let _ = match numbers.below(4) {
                0 => std::fs::remove_file(&path),
                1 => std::fs::write(&path, "broken"),
                2 => std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)),
                _ => std::fs::rename(&path, home.path().join("moved")),
            };
            broken += 1;
        }
        declared.becomes_right(&format!("version {}", declared.version));
        for file in std::mem::take(&mut declared.gone) {
            let _ = std::fs::remove_file(declared.path(file));
        }
        samples.push(sample(child.0.id()));
        if samples.len().is_multiple_of(100) {
            let (memory, files) = samples[samples.len() - 1];
            println!("after {} graphs: {:.2} MB, {files} descriptors", samples.len(), memory / 1024.0);
        }
        std::thread::sleep(
            Duration::from_millis(number("MGMT_SOAK_ROUND", 1_000)).saturating_sub(round.elapsed()),
        );
    }
    assert!(child.0.try_wait().unwrap().is_none(), "the program has ended");
    assert_eq!(huge_pages(child.0.id()), 0, "kilobytes in huge pages, most of which nobody uses");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child.0), rustix::process::Signal::TERM)
        .unwrap();
    let status = child.0.wait().unwrap();
    let told = std::fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(0), "{}", told.lines().rev().take(20).collect::<Vec<_>>().join("\n"));
    let complaint = told.lines().find(|line| line.contains(" error ") || line.contains("panicked"));
    assert_eq!(complaint, None, "nothing was brought about that is an error");

    assert_eq!(leftovers(&declared), [""; 0], "files of nobody");

    // What is needed at all is there after a while.
    let settled = &samples[samples.len() / 3..];
    let memory: Vec<f64> = settled.iter().map(|(memory, _)| *memory).collect();
    let files: Vec<usize> = settled.iter().map(|(_, files)| *files).collect();
    let (rise, allowed) = rise(&memory);
    let last = memory[memory.len() - 1];
    let (least, most) = (files.iter().min().unwrap(), files.iter().max().unwrap());
    println!(
        "{} graphs, {broken} breakages, {:.2} MB in memory, which rose by {rise:.0} kB of {allowed:.0}, {least} to {most} descriptors",
        samples.len(),
        last / 1024.0
    );
    assert!(samples.len() < 8 || rise < allowed, "memory grows by {rise} kB: {memory:?}");
    // Whoever is at work has some more for a moment, so that the middle of many counts.
    let middle = |part: &[usize]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    let third = files.len().div_ceil(3);
    let (first, last) = (middle(&files[..third]), middle(&files[files.len() - third..]));
    assert!(last <= first + 8, "descriptors grow: {files:?}");
    assert!(*most < 256, "descriptors: {files:?}");
}

/// What is in the directories and was not declared: temporary files, above all.
fn leftovers(declared: &Declared) -> Vec<String> {
    let entries =
        (0..20).flat_map(|directory| std::fs::read_dir(declared.home.join(format!("d{directory}"))).unwrap());
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // Who was about to repair a file when it was taken out of the graph may have done so.
    names
        .filter(|name| name.strip_prefix('f').is_none_or(|number| number.parse::<usize>().is_err()))
        .collect()
}
