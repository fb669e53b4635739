//! One behaviour each, in small stories. What a seed can find is in `tests/sim_core.rs`.

mod cost;
mod errors;
mod notifications;
mod order;
mod rates;
mod rest;
mod story;
mod swaps;

use super::*;
use story::vertex;

fn refreshable() -> Rules {
    Rules { refreshable: true, ..Rules::default() }
}

fn retrying(retry: u32) -> Rules {
    Rules { retry: Retry::Times(retry), ..Rules::default() }
}

fn holding(semaphores: &[&str]) -> Rules {
    let semaphores = semaphores.iter().map(|id| Semaphore(id.as_bytes().into())).collect();
    Rules { semaphores, ..Rules::default() }
}

fn hidden(export: bool) -> Rules {
    Rules { hidden: true, export, ..Rules::default() }
}

fn replace(name: char, rules: Rules) -> Delta {
    Delta { replace: vec![(vertex(name), rules)], ..Delta::default() }
}

fn remove(names: &str) -> Delta {
    Delta { remove: names.chars().map(vertex).collect(), ..Delta::default() }
}
