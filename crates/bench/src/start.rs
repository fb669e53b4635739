//! From the start of the program to its end, with one file to manage.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::report::{Report, median};

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
        let time = timed(
            Command::new(program)
                .args(["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", "yaml"])
                .arg(&graph),
        );
        assert_eq!(std::fs::read(&file).unwrap(), b"hello\n");
        time
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
    let (ours, raw) = (median((0..15).map(|_| ours()).collect()), median((0..15).map(|_| raw()).collect()));
    report.time("start, converge, end", ours, Some(Duration::from_millis(30)));
    report.ratio("against a shell that writes and moves the file", 1, ours, raw, None);
}

fn timed(command: &mut Command) -> Duration {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?} ended with {status}");
    began.elapsed()
}
