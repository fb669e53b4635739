//! Measures how fast a generated graph is read: `cargo run --release -p mgmt-yaml --example measure -- 10000`.

#![expect(clippy::print_stdout, reason = "the result is for whoever runs it")]

use std::fmt::Write;
use std::time::Instant;

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    for (what, source) in [
        ("resources", resources(count, "")),
        ("resources and edges", resources(count, "") + &edges(count)),
        ("the same, not ASCII", resources(count, "ü") + &edges(count)),
    ] {
        let megabytes = source.len() as f64 / 1e6;
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            let start = Instant::now();
            let parsed = mgmt_yaml::parse(source.as_bytes(), "measure.yaml", &mgmt_resources::KINDS);
            best = best.min(start.elapsed().as_secs_f64());
            assert_eq!(
                parsed.graph.map(|graph| graph.graph.node_count()),
                Some(count),
                "{:?}",
                parsed.diagnostics.first()
            );
        }
        println!("{what}: {count}, {megabytes:.2} MB, {:.1} ms, {:.1} MB/s", best * 1e3, megabytes / best);
    }
    if let Some(peak) = peak() {
        println!("peak memory: {peak}");
    }
}

fn resources(count: usize, extra: &str) -> String {
    let mut text = String::from("graph: measure\nresources:\n  file:\n");
    for i in 0..count {
        let _ = write!(
            text,
            "  - name: file{i}\n    path: \"/tmp/mgmt/f{i}\"\n    content: |\n      i am f{i} {extra}\n    state: exists\n    mode: 0644\n"
        );
    }
    text
}

fn edges(count: usize) -> String {
    let mut text = String::from("edges:\n");
    for i in 1..count {
        let from = i - 1;
        let _ = write!(
            text,
            "- name: e{i}\n  from:\n    kind: file\n    name: file{from}\n  to:\n    kind: file\n    name: file{i}\n"
        );
    }
    text
}

fn peak() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(status.lines().find(|line| line.starts_with("VmHWM"))?.split_once(':')?.1.trim().to_owned())
}
