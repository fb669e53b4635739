//! One run for a long time, with everything in motion: another graph each second, and files that somebody breaks.
//!
//! What must not grow does not grow, every breakage is repaired, and nothing is said but what was brought about. Half a
//! minute here; `cargo xtask soak` takes an hour. `MGMT_SOAK_SECONDS` and `MGMT_SOAK_RESOURCES` say how long and how much,
//! `MGMT_SEED` what happens, `MGMT_SOAK_ROUND` how many milliseconds are between two graphs.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{PATIENCE, mgmt};

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// What is declared: a content for each number of a file.
struct Declared {
    home: PathBuf,
    files: BTreeMap<usize, u64>,
    /// The number that the next file gets.
    next: usize,
    version: u64,
}

impl Declared {
    fn path(&self, file: usize) -> PathBuf {
        self.home.join(format!("d{}/f{file}", file % 20))
    }

    fn content(file: usize, version: u64) -> String {
        format!("file {file} version {version}\n").repeat(5)
    }

    /// Some files go, as many come, some have another content.
    fn churn(&mut self, numbers: &mut Numbers, share: usize) {
        self.version += 1;
        let all: Vec<usize> = self.files.keys().copied().collect();
        for _ in 0..(all.len() / share).max(1) {
            let file = all[numbers.below(all.len())];
            if numbers.below(2) == 0 {
                self.files.insert(file, self.version);
            } else if self.files.remove(&file).is_some() {
                self.files.insert(self.next, self.version);
                self.next += 1;
            }
        }
    }

    fn write(&self, graph: &Path) {
        let mut text = format!("graph: soak\nresources:\n  noop:\n  - name: v{}\n  file:\n", self.version);
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
        let until = Instant::now() + PATIENCE;
        while let Some(wrong) = self.files.keys().find(|file| !self.is_right(**file)) {
            assert!(Instant::now() < until, "{what}: {} is not put right", self.path(*wrong).display());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What a process has: bytes in memory and open descriptors.
fn sample(id: u32) -> (f64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: f64 = resident.split_whitespace().next().unwrap().parse().unwrap();
    (kilobytes / 1024.0, std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count())
}

/// By how much a straight line through the points rises from the first to the last.
fn rise(points: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "there are few points")]
    let (count, at) = (points.len() as f64, |index: usize| index as f64);
    let (mean_x, mean_y) = ((count - 1.0) / 2.0, points.iter().sum::<f64>() / count);
    let pairs = points.iter().enumerate();
    let (above, below) = pairs.fold((0.0, 0.0), |(above, below), (index, y)| {
        let x = at(index) - mean_x;
        (above + x * (y - mean_y), below + x * x)
    });
    above / below * (count - 1.0)
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
    };
    let (graph, log) = (home.path().join("graph.yaml"), home.path().join("log"));
    declared.write(&graph);
    let prefix = home.path().join("prefix");
    let output = std::fs::File::create(&log).unwrap();
    let mut child = mgmt(&["run", "--prefix", prefix.to_str().unwrap(), "yaml", graph.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .unwrap();
    declared.becomes_right("at first");
    let mut numbers = Numbers(number("MGMT_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
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
        samples.push(sample(child.id()));
        if samples.len().is_multiple_of(100) {
            println!("after {} graphs: {:.1} MB", samples.len(), samples[samples.len() - 1].0);
        }
        std::thread::sleep(
            Duration::from_millis(number("MGMT_SOAK_ROUND", 1_000)).saturating_sub(round.elapsed()),
        );
    }
    assert!(child.try_wait().unwrap().is_none(), "the program has ended");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    let status = child.wait().unwrap();
    let told = std::fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(0), "{}", told.lines().rev().take(20).collect::<Vec<_>>().join("\n"));
    let complaint = told.lines().find(|line| line.contains(" error ") || line.contains("panicked"));
    assert_eq!(complaint, None, "nothing was brought about that is an error");

    // What is needed at all is there after a while.
    let settled = &samples[samples.len() / 3..];
    let memory: Vec<f64> = settled.iter().map(|(memory, _)| *memory).collect();
    let files: Vec<usize> = settled.iter().map(|(_, files)| *files).collect();
    let (rise, mean) =
        (rise(&memory), memory.iter().sum::<f64>() / f64::from(u32::try_from(memory.len()).unwrap()));
    let (least, most) = (files.iter().min().unwrap(), files.iter().max().unwrap());
    println!(
        "{} graphs, {broken} breakages, {mean:.1} MB in memory, which rise by {rise:.2} MB, {least} to {most} descriptors",
        samples.len()
    );
    assert!(samples.len() < 8 || rise < mean * 0.1 + 4.0, "memory grows: {memory:?}");
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
