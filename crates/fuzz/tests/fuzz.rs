//! Every target, for a moment: its corpus, and as many inputs made from it as there is time for.
//!
//! `FUZZ_SECONDS` says how long for each, `FUZZ_TARGET` which one, `MGMT_SEED` where to begin. `cargo xtask fuzz` sets them.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mgmt_fuzz::{Fuzzer, TARGETS, Target};

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let entries =
        std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn nothing_that_is_read_makes_anything_panic() {
    let (seconds, seed) = (number("FUZZ_SECONDS", 1), number("MGMT_SEED", 1));
    let chosen = std::env::var("FUZZ_TARGET").ok().filter(|name| !name.is_empty());
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|target| chosen.as_ref().is_none_or(|name| target.name == name)).collect();
    assert!(
        !targets.is_empty(),
        "no target {chosen:?}; there are {:?}",
        TARGETS.iter().map(|t| t.name).collect::<Vec<_>>()
    );
    for target in targets {
        let corpus = corpus(target);
        assert!(!corpus.is_empty(), "{}: nothing in its corpus", target.name);
        for (path, input) in &corpus {
            let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
            assert!(ended.is_ok(), "{} makes {} panic", path.display(), target.name);
        }
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut slowest = Duration::ZERO;
        let mut count = 0_u64;
        for input in Fuzzer::new(corpus.into_iter().map(|(_, input)| input).collect(), seed) {
            let began = Instant::now();
            if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
                let path = path.join(format!("found-{seed}-{count}"));
                std::fs::write(&path, &input).unwrap();
                panic!(
                    "{}: input {count} of seed {seed} makes it panic; it is kept as {}",
                    target.name,
                    path.display()
                );
            }
            let took = began.elapsed();
            slowest = slowest.max(took);
            assert!(
                took < Duration::from_secs(20),
                "{}: input {count} of seed {seed} takes {took:?}",
                target.name
            );
            count += 1;
            if Instant::now() >= until {
                break;
            }
        }
        println!("{:<12} {count:>9} inputs, the slowest took {slowest:?}", target.name);
    }
}
