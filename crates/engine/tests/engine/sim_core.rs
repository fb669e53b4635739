//! The scheduler core under simulated time: many short stories, each told by its seed.
//!
//! - `MGMT_SIM_SEEDS=100000` plays more stories than usual, `MGMT_SIM_STEPS=1000` longer ones.
//! - `MGMT_SEED=123` plays one, and `MGMT_SIM_TRACE=1` prints what happens in it (with `-- --nocapture`).
#![allow(missing_docs, clippy::cast_possible_truncation)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sim::world::play;

#[test]
fn every_story_keeps_all_the_promises() {
    let steps = number("MGMT_SIM_STEPS").unwrap_or(250) as usize;
    if let Some(seed) = number("MGMT_SEED") {
        let mut trace = None;
        let traced = number("MGMT_SIM_TRACE").is_some();
        let told = catch_unwind(AssertUnwindSafe(|| play(seed, steps, traced, &mut trace)));
        print!("{}", trace.unwrap_or_default());
        assert!(told.is_ok(), "seed {seed} failed");
        return;
    }
    let seeds = number("MGMT_SIM_SEEDS").unwrap_or(2000);
    let mut failed = Vec::new();
    for seed in 0..seeds {
        let mut trace = None;
        if catch_unwind(AssertUnwindSafe(|| play(seed, steps, false, &mut trace))).is_err() {
            eprintln!("seed {seed} failed");
            failed.push(seed);
            if failed.len() == 5 {
                break;
            }
        }
    }
    assert!(
        failed.is_empty(),
        "seeds {failed:?} failed; to see one:\n  \
         MGMT_SEED={} MGMT_SIM_TRACE=1 cargo test -p mgmt-engine --test engine sim_core:: -- --nocapture",
        failed[0]
    );
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable} must be a number: {error}")))
}
