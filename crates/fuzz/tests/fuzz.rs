//! Every target, for a moment, and what becomes of an input that ends the process.
//!
//! `FUZZ_SECONDS` says how long for each, `FUZZ_TARGET` which one, `MGMT_SEED` where to begin. `cargo xtask fuzz` sets them.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mgmt_fuzz::{Settings, TARGETS, Target, run};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

#[test]
fn nothing_that_is_read_makes_anything_panic() {
    match run(TARGETS, &Settings::from_environment(corpus())) {
        Ok(lines) => println!("{}", lines.join("\n")),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn every_target_reads_something_and_every_corpus_has_a_target() {
    // Those of the program itself are in its own tests.
    let elsewhere = ["command-lines", "plans", "world-imports"];
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).chain(elsewhere).collect();
    names.sort_unstable();
    let entries = std::fs::read_dir(corpus()).unwrap();
    let mut found: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, names);
}

#[test]
fn a_target_that_there_is_none_of_is_a_mistake() {
    let settings = Settings { target: Some("nonsense".to_owned()), ..Settings::from_environment(corpus()) };
    assert!(run(TARGETS, &settings).is_err_and(|why| why.contains("nonsense")));
}

/// What a child of the next test does.
const ENDING: &str = "MGMT_FUZZ_ENDING";

#[expect(unconditional_recursion, reason = "that is the point")]
fn deeper(depth: u64) -> u64 {
    std::hint::black_box(deeper(std::hint::black_box(depth + 1))) + 1
}

fn ends(input: &[u8]) {
    match std::env::var(ENDING).as_deref() {
        Ok("overflow") if input == b"bad" => {
            deeper(0);
        }
        Ok("hang") if input == b"bad" => std::thread::sleep(Duration::from_secs(600)),
        _ => {}
    }
}

#[test]
fn an_input_that_ends_the_process_is_kept() {
    const TARGET: Target = Target { name: "ends", run: ends };
    const PLACE: &str = "MGMT_FUZZ_PLACE";
    let settings = |place: &Path| Settings {
        time: Duration::ZERO,
        seed: 1,
        target: None,
        patience: Duration::from_millis(if std::env::var_os(ENDING).is_some() { 500 } else { 60_000 }),
        corpus: place.join("corpus"),
        trying: place.join("trying"),
    };
    if let Some(place) = std::env::var_os(PLACE) {
        run(&[TARGET], &settings(place.as_ref())).unwrap();
        return;
    }
    for how in ["overflow", "hang"] {
        let place = tempfile::tempdir().unwrap();
        let corpus = place.path().join("corpus/ends");
        std::fs::create_dir_all(&corpus).unwrap();
        std::fs::write(corpus.join("0"), "good").unwrap();
        std::fs::write(corpus.join("1"), "bad").unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "an_input_that_ends_the_process_is_kept"])
            .env(PLACE, place.path())
            .env(ENDING, how)
            .output()
            .unwrap();
        assert!(child.status.code().is_none(), "{how}: it is ended by a signal: {child:?}");
        std::fs::remove_file(corpus.join("1")).unwrap();
        // The next run has it in its corpus.
        run(&[TARGET], &settings(place.path())).unwrap();
        let names = std::fs::read_dir(&corpus).unwrap().map(|entry| entry.unwrap().path());
        let kept: Vec<PathBuf> = names.filter(|path| !path.ends_with("0")).collect();
        assert_eq!(kept.len(), 1, "{how}: {kept:?}");
        assert_eq!(std::fs::read(&kept[0]).unwrap(), b"bad", "{how}");
        assert_eq!(std::fs::read_dir(place.path().join("trying")).unwrap().count(), 0, "{how}");
    }
}
