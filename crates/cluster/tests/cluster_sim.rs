//! Clusters under simulated time: many short stories, each told by its seed.
//!
//! - `MGMT_SIM_SEEDS=100000` plays more stories than usual.
//! - `MGMT_SEED=123` plays one and prints what happens in it (with `-- --nocapture`).
#![allow(missing_docs, clippy::cast_possible_truncation, clippy::expect_used, clippy::print_stdout)]

mod cluster;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cluster::judge::Marks;
use cluster::story::play;

/// What has to happen in some story, as nothing is proved of what never does.
const EXPECTED: [&str; 18] = [
    "added",
    "blamed",
    "decider blinded",
    "dismissed",
    "ended",
    "intrigue",
    "left",
    "left in calm",
    "left with data",
    "misled",
    "place kept",
    "plan remove Gone",
    "plan remove Late",
    "plan remove Leaving",
    "plan remove Surplus",
    "power failed",
    "promoted",
    "settled",
];

#[test]
fn every_story_keeps_all_the_promises() {
    if let Some(seed) = number("MGMT_SEED") {
        let mut trace = String::new();
        let told = catch_unwind(AssertUnwindSafe(|| play(seed, true, &mut trace, &mut Marks::default())));
        print!("{trace}");
        assert!(told.is_ok(), "seed {seed} failed");
        return;
    }
    let seeds = number("MGMT_SIM_SEEDS").unwrap_or(2_000);
    let mut marks = Marks::default();
    let mut failed = Vec::new();
    for seed in number("MGMT_SIM_FIRST").unwrap_or(0)..seeds {
        if catch_unwind(AssertUnwindSafe(|| play(seed, false, &mut String::new(), &mut marks))).is_err() {
            eprintln!("seed {seed} failed");
            failed.push(seed);
            if failed.len() == number("MGMT_SIM_FAILURES").unwrap_or(5) as usize {
                break;
            }
        }
    }
    println!("{:#?}", marks.0);
    let Some(first) = failed.first() else {
        let missing: Vec<&&str> = EXPECTED.iter().filter(|mark| !marks.0.contains_key(**mark)).collect();
        assert!(seeds < 1_000 || missing.is_empty(), "{missing:?} never happened, so nothing is proved");
        return;
    };
    let mut trace = String::new();
    let _ = catch_unwind(AssertUnwindSafe(|| play(*first, true, &mut trace, &mut marks)));
    let end: Vec<&str> = trace.lines().rev().take(60).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    panic!(
        "seeds {failed:?} failed; the end of {first}:\n{}\nto see all of it:\n  \
         MGMT_SEED={first} cargo test -p mgmt-cluster --test cluster_sim -- --nocapture",
        end.join("\n")
    );
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable} must be a number: {error}")))
}
