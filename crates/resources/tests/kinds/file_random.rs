//! Random declarations on random hosts: the promises that hold for all of them.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::file_common::{NAME, TestEnv};
use mgmt_resource::{Checked, Kind};
use mgmt_resources::file::{File, Memory};

/// A small generator of numbers, so that a failure can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.roll(choices.len() as u64)).unwrap()]
    }
}

const TEXTS: [&str; 4] = ["", "one", "two", "longer text"];

/// Puts something at `name`.
fn place(world: &TestEnv, dice: &mut Dice, name: &str, depth: u64) {
    match dice.roll(12) {
        0..=2 => return,
        3..=5 => world.write(name, dice.pick(&TEXTS)),
        6..=8 => {
            std::fs::create_dir_all(world.at(name)).unwrap();
            if depth > 0 {
                for inner in ["a", "b", "c"] {
                    place(world, dice, &format!("{name}/{inner}"), depth - 1);
                }
            }
        }
        9 => world.link(name, dice.pick(&["nowhere", "a", "b"])),
        // Made by somebody who would like us to follow it.
        10 => {
            world.link(name, world.at(dice.pick(&["victim", "victim/f"])));
            world.set_owner(name, 3, 3);
            return;
        }
        _ => world.fifo(name),
    }
    if dice.one_in(3) {
        world.set_owner(name, u32::try_from(dice.roll(3)).unwrap(), 0);
    }
    if dice.one_in(3) && !world.at(name).is_symlink() {
        world.set_mode(name, [0o600, 0o4755, 0o1777, 0o644][usize::try_from(dice.roll(4)).unwrap()]);
    }
}

fn declare(world: &TestEnv, dice: &mut Dice) -> File {
    let mut file = world.file(dice.pick(&["t", "t", "t/", "t/a", "t/a/", "t/b/c/"]));
    file.state = dice.pick(&["exists", "exists", "absent", ""]).into();
    match dice.roll(6) {
        0 | 1 => file.content = Some(dice.pick(&TEXTS).into()),
        2 => file.source = world.path("s"),
        3 => file.source = world.path("s/"),
        4 => file.fragments = vec![world.path("s"), world.path("victim/")],
        _ => {}
    }
    if dice.one_in(5) {
        file.symlink = true;
        file.source = dice.pick(&["nowhere", "a", "b"]).into();
    }
    if dice.one_in(3) {
        file.mode = dice.pick(&["0600", "0755", "u=rwx", "g=rxs", "1777", "4711"]).into();
    }
    if dice.one_in(3) {
        file.owner = dice.pick(&["0", "1", "root"]).into();
    }
    if dice.one_in(4) {
        file.group = dice.pick(&["0", "1", "root"]).into();
    }
    file.recurse = dice.one_in(2);
    file.force = dice.one_in(2);
    file.purge = file.recurse && dice.one_in(3);
    file
}

/// What a person sees: everything but times and numbers of inodes.
fn state(world: &TestEnv) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    for (path, _) in world.snapshot() {
        let metadata = path.symlink_metadata().unwrap();
        let inside = if metadata.is_symlink() {
            format!("{:?}", std::fs::read_link(&path).unwrap())
        } else if metadata.is_file() {
            format!("{:?}", std::fs::read(&path).unwrap())
        } else {
            String::new()
        };
        seen.insert(path, format!("{:o} {} {} {inside}", metadata.mode(), metadata.uid(), metadata.gid()));
    }
    seen
}

/// What happened, to see that every kind of thing happens often.
#[derive(Debug, Default)]
struct Tally {
    refused: u64,
    failed: u64,
    right: u64,
    changed: u64,
    undone: u64,
}

fn play(seed: u64, tally: &mut Tally) {
    let dice = &mut Dice(seed);
    let world = TestEnv::in_memory();
    world.write("victim/f", "untouched");
    let victim =
        || (world.read("victim/f"), world.mode("victim/f"), world.owner("victim/f"), world.names("victim"));
    let safe = victim();
    place(&world, dice, "s", 2);
    place(&world, dice, "t", 2);
    if dice.one_in(3) {
        world.graph(&[("one", world.content("t/a", "")), ("two", world.content("t/b/c", ""))]);
    }
    let file = declare(&world, dice);
    if Kind::validate(&file, &NAME.into()).is_err() {
        tally.refused += 1;
        return;
    }

    let before = (world.snapshot(), state(&world));
    if std::env::var_os("MGMT_SEED").is_some() {
        println!("{file:?} on {:#?}", before.1);
    }
    let looked = world.look(&file);
    assert_eq!(world.snapshot(), before.0, "looking changed something");
    let undo = Kind::reversed(&file, &NAME.into());
    let mut memory = Memory::default();
    let applied = world.run(&file, &mut memory, true);
    assert_eq!(victim(), safe, "a victim was touched");
    let Ok(applied) = applied else {
        tally.failed += 1;
        return;
    };
    assert_eq!(looked.unwrap(), applied, "looking and applying disagree");
    if applied == Checked::Right {
        tally.right += 1;
        assert_eq!(world.snapshot(), before.0, "all was right and yet something changed");
    } else {
        tally.changed += 1;
        assert_ne!(state(&world), before.1, "a change that nobody can see");
    }
    world.is_right(&file);
    assert_eq!(world.run(&file, &mut memory, true).unwrap(), Checked::Right, "with memory");

    match undo {
        Err(_) => {}
        Ok(None) => assert_eq!(applied, Checked::Right, "a change that cannot be undone"),
        Ok(Some(undo)) => {
            world.apply(&undo).unwrap();
            let mut after = state(&world);
            // Parents that were made on the way stay.
            after.retain(|path, _| before.1.contains_key(path) || !path.starts_with(world.at("t/b")));
            let mut expected = before.1.clone();
            if !expected.contains_key(&world.at("t")) {
                after.remove(&world.at("t"));
                expected.remove(&world.at("t"));
            }
            assert_eq!(after, expected, "undone by {undo:?}");
            assert_eq!(world.apply(&undo).unwrap(), Checked::Right, "undone twice");
            tally.undone += 1;
        }
    }
    assert_eq!(victim(), safe, "a victim was touched");
}

#[test]
fn looking_is_honest_applying_converges_and_undoing_restores() {
    let mut tally = Tally::default();
    let number = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let seeds = match number("MGMT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MGMT_TEST_SEEDS").unwrap_or(2000),
    };
    for seed in seeds.clone() {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(seed, &mut tally)));
        assert!(result.is_ok(), "MGMT_SEED={seed} repeats this");
    }
    let all = [tally.refused, tally.failed, tally.right, tally.changed, tally.undone];
    assert!(seeds.end - seeds.start == 1 || all.iter().all(|count| *count > 50), "{tally:?}");
}
