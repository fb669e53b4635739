//! A process that is killed while it writes leaves a store that the next one can use.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that panics is a test that fails")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use mgmt_state::LocalState;
use mgmt_value::{Str, Type, Value};

const ROOT: &str = "MGMT_TEST_LOCAL_ROOT";

/// Large enough that writing takes a moment.
fn value(round: i64) -> Value {
    Value::list(Type::Int, vec![Value::Int(round); 20_000])
}

/// Runs only as a child of the test below: changes one value and gives out numbers until it is killed.
#[test]
#[ignore = "started by another test"]
fn the_process_that_is_killed() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let local = LocalState::open(root.into()).unwrap();
    let start = match local.value_get(&Str::from("key")).unwrap() {
        Some(Value::List(list)) => match list.items[0] {
            Value::Int(round) => round,
            _ => 0,
        },
        _ => 0,
    };
    for round in start + 1.. {
        local.value_set(&Str::from("key"), Some(&value(round))).unwrap();
        let number = local.pool(&Str::from("ns"), &Str::from(round.to_string())).unwrap();
        println!("done {round} {number}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_killed_process_leaves_the_old_value_or_the_new_and_no_number_twice() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("local");
    let mut given_out = std::collections::HashMap::new();
    for life in 1..=8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_process_that_is_killed", "--ignored", "--nocapture"])
            .env(ROOT, &root)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = (0, 0);
        let mut seen = 0;
        let mut take = |line: String| {
            let words: Vec<&str> = line.split(' ').collect();
            // The test harness writes lines of its own, also in front of ours.
            if let [.., "done", round, number] = words[..] {
                last = (round.parse::<i64>().unwrap(), number.parse::<u64>().unwrap());
                given_out.insert(last.0, last.1);
                seen += 1;
            }
            seen >= life
        };
        while !take(lines.next().unwrap().unwrap()) {}
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok).filter(|line| line.ends_with(|c: char| c.is_ascii_digit())) {
            take(line);
        }

        let local = LocalState::open(root.clone()).unwrap();
        let found = local.value_get(&Str::from("key")).unwrap().unwrap();
        assert!(found == value(last.0) || found == value(last.0 + 1), "neither the old value nor the new");
        for (round, number) in &given_out {
            assert_eq!(local.pool(&Str::from("ns"), &Str::from(round.to_string())).unwrap(), *number);
        }
        let numbers: std::collections::HashSet<_> = given_out.values().collect();
        assert_eq!(numbers.len(), given_out.len());
    }
}
