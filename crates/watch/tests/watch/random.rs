//! Random changes to a small tree: whoever's state changed must have been told.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use crate::test_env::TestEnv;
use mgmt_watch::{FileHub, SubscriptionId, Token, WatchPath};

/// A small generator, so that a failure names a seed that replays it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A path of one to four components from a very small alphabet, so that paths meet.
    fn path(&mut self) -> String {
        let depth = 1 + self.below(4);
        let names: Vec<&str> = (0..depth).map(|_| ["a", "b", "c"][self.below(3) as usize]).collect();
        names.join("/")
    }
}

type State = BTreeMap<PathBuf, Vec<u64>>;

struct Watched {
    id: SubscriptionId,
    path: WatchPath,
    seen: State,
}

/// What a subscriber can see of its target: the target, and its entries as deep as it asked for.
///
/// Of directories only identity and mode count: their size and times change with entries that are none of the
/// subscriber's business.
fn look(target: &WatchPath) -> State {
    let mut seen = BTreeMap::new();
    let mut pending = vec![(target.as_path().to_owned(), true)];
    while let Some((path, open)) = pending.pop() {
        let Ok(stat) = fs::symlink_metadata(&path) else { continue };
        let mut facts = vec![stat.dev(), stat.ino(), u64::from(stat.mode())];
        if !stat.is_dir() {
            facts.extend([stat.size(), stat.mtime() as u64, stat.mtime_nsec() as u64]);
        } else if open {
            for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
                pending.push((entry.path(), target.recursive()));
            }
        }
        seen.insert(path, facts);
    }
    seen
}

/// A path two levels down: a link that points two levels up still ends inside the directory to play in.
fn inside(env: &TestEnv, below: &str) -> PathBuf {
    env.path("deep/down").join(below)
}

fn change(env: &TestEnv, random: &mut Random) -> String {
    let (one, two) = (random.path(), random.path());
    let (first, second) = (inside(env, &one), inside(env, &two));
    // Most of these fail now and then: no parent, not empty, into itself. That is part of the game.
    match random.below(16) {
        0..=3 => {
            let _ = fs::create_dir_all(&first);
            format!("mkdir -p {one}")
        }
        4..=6 => {
            let _ = fs::write(&first, random.next().to_string());
            format!("write {one}")
        }
        7 => {
            let _ = fs::remove_file(&first);
            format!("rm {one}")
        }
        8 => {
            if !first.is_symlink() {
                let _ = fs::remove_dir_all(&first);
            }
            format!("rm -r {one}")
        }
        9..=12 => {
            let _ = fs::rename(&first, &second);
            format!("mv {one} {two}")
        }
        13 => {
            let _ = std::os::unix::fs::symlink(&second, &first);
            format!("ln -s /{two} {one}")
        }
        14 => {
            let up = "../".repeat(random.below(3) as usize);
            let _ = std::os::unix::fs::symlink(format!("{up}{two}"), &first);
            format!("ln -s {up}{two} {one}")
        }
        _ => {
            // Links are left alone: what is behind them is changed by its own name as well.
            if !first.is_symlink() {
                let mode = 0o700 | random.below(0o100) as u32;
                let _ = fs::set_permissions(&first, Permissions::from_mode(mode));
            }
            format!("chmod {one}")
        }
    }
}

fn run(seed: u64, rounds: usize) {
    let env = TestEnv::in_memory(mgmt_watch::FileHubOptions::default());
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..10 {
        change(&env, &mut random);
    }
    let choose =
        |random: &mut Random| WatchPath::new(inside(&env, &random.path()), random.below(3) == 0).unwrap();
    let mut watched: Vec<Watched> = (0..12)
        .map(|token| {
            let path = choose(&mut random);
            Watched { id: env.hub.subscribe(Token(token), &path), seen: look(&path), path }
        })
        .collect();
    let mut log = Vec::new();
    env.quiesce();
    for round in 0..rounds {
        if random.below(4) == 0 {
            let token = random.below(watched.len() as u64);
            let path = choose(&mut random);
            log.push(format!("watch {path:?}"));
            env.hub.unsubscribe(watched[token as usize].id);
            watched[token as usize] =
                Watched { id: env.hub.subscribe(Token(token), &path), seen: look(&path), path };
        }
        let told: Vec<u64> = (0..watched.len()).map(|token| env.count(token as u64)).collect();
        for _ in 0..=random.below(4) {
            log.push(change(&env, &mut random));
        }
        env.quiesce();
        env.hub.check_invariants();
        for (index, watched) in watched.iter_mut().enumerate() {
            let now = look(&watched.path);
            let silent = env.count(index as u64) == told[index];
            assert!(
                !silent || now == watched.seen,
                "seed {seed}, round {round}: {:?} changed from {:?} to {now:?} in silence; last changes: {:?}",
                watched.path,
                watched.seen,
                &log[log.len().saturating_sub(12)..]
            );
            watched.seen = now;
        }
    }
    // Nothing was left behind: a hub that never saw the past watches just as much.
    let fresh =
        FileHub::new(std::sync::Arc::clone(&env.memory) as std::sync::Arc<dyn mgmt_watch::Sink>).unwrap();
    for watched in &watched {
        fresh.subscribe(Token(1000), &watched.path);
    }
    let marker = WatchPath::new(env.marker_path(), false).unwrap();
    fresh.subscribe(Token(1000), &marker);
    assert_eq!(env.hub.stats().watches, fresh.stats().watches, "seed {seed}");
}

#[test]
fn whoever_sees_a_change_was_told_of_it() {
    if let Some(seed) = std::env::var("MGMT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return run(seed, 2000);
    }
    for seed in 1..=12 {
        run(seed, 300);
    }
}
