//! From the start of the program until it says that it has converged, with one file to manage; and until it has ended.
//!
//! The two are judged apart: the kernel lets go of an inotify instance only after every processor has passed through a quiet
//! state (10 to 30 ms), which a program that ends has to sit out and a program that stays never sees.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::report::{Report, Spread, median};

pub(crate) fn run(report: &mut Report, program: &Path) {
    report.section("start to converged, one file, whole program");
    assert!(program.exists(), "{} is not built; `cargo xtask bench` builds it", program.display());
    let directory = crate::world::disk();
    let graph = directory.path().join("one.yaml");
    let file = directory.path().join("file");
    let text = format!(
        "graph: one\nresources:\n  file:\n  - name: one\n    path: {}\n    state: exists\n    content: \"hello\\n\"\n",
        file.display()
    );
    std::fs::write(&graph, text).unwrap();
    let ours = || {
        // A new file each time.
        let _ = std::fs::remove_file(&file);
        let times = converged_and_ended(
            Command::new(program)
                .args(["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", "yaml"])
                .arg(&graph),
        );
        assert_eq!(std::fs::read(&file).unwrap(), b"hello\n");
        times
    };
    let raw = || {
        let _ = std::fs::remove_file(&file);
        timed(
            Command::new("/bin/sh")
                .args(["-c", "printf 'hello\\n' > \"$1\".new && mv \"$1\".new \"$1\"", "sh"])
                .arg(&file),
        )
    };
    ours();
    let (converged, ended) = (0..31).map(|_| ours()).unzip();
    let (converged, raw) = (Spread::of(converged), median((0..31).map(|_| raw()).collect()));
    report.ratio("converged, against a shell that writes and moves the file", 1, converged.median, raw, None);
    report.time_spread("start to converged", converged, Some(Duration::from_millis(30)));
    report.time_spread("start to ended", Spread::of(ended), None);
}

fn converged_and_ended(command: &mut Command) -> (Duration, Duration) {
    let began = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut converged = None;
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        if line.unwrap().contains("converged for") {
            converged.get_or_insert_with(|| began.elapsed());
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{command:?} ended with {status}");
    (converged.expect("it says that it has converged"), began.elapsed())
}

fn timed(command: &mut Command) -> Duration {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?} ended with {status}");
    began.elapsed()
}
