//! Which system calls the program makes when nothing fails, so that a fault is put where it is felt.

use std::collections::BTreeMap;

use crate::fault_lab::{TestEnv, behind, in_order};
use mgmt_test_support::numbers::Numbers;

/// How often each thread made each call, in one run. A count of `strace` is one for each thread, too.
pub(crate) struct Habits {
    calls: BTreeMap<String, BTreeMap<u32, usize>>,
    /// How often the loader made each, before the program began: nothing can be told then.
    loader: BTreeMap<String, usize>,
}

impl Habits {
    /// Watches a run that has work, and goes on to the next version.
    pub(crate) fn of(lab: &mut TestEnv) -> Habits {
        lab.next_version();
        let trace = lab.home.path().join("trace");
        let before = ["strace", "-f", "-qqq", "-o", trace.to_str().unwrap()];
        let run = in_order("nothing fails", behind(&before, lab).output().unwrap());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let habits = Habits::read(&std::fs::read_to_string(trace).unwrap());
        assert!(habits.calls.len() > 20, "{:?}", habits.calls.keys());
        habits
    }

    fn read(trace: &str) -> Habits {
        let mut habits = Habits { calls: BTreeMap::new(), loader: BTreeMap::new() };
        let (mut first, mut is_loading) = (None, true);
        for line in trace.lines() {
            // What is resumed was counted when it began.
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let (Ok(thread), Some((call, _))) = (thread.parse(), rest.trim_start().split_once('(')) else {
                continue;
            };
            if !call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                continue;
            }
            // The first thing that a Rust program does is to look at its standard streams.
            is_loading &= !(*first.get_or_insert(thread) == thread && call == "poll");
            *habits.calls.entry(call.to_owned()).or_default().entry(thread).or_default() += 1;
            if is_loading {
                *habits.loader.entry(call.to_owned()).or_default() += 1;
            }
        }
        habits
    }

    pub(crate) fn makes(&self, call: &str) -> bool {
        self.threads(call).next().is_some()
    }

    /// Threads that make a call more often than the loader, and how often.
    fn threads(&self, call: &str) -> impl Iterator<Item = usize> {
        let loader = self.loader(call);
        self.calls
            .get(call)
            .into_iter()
            .flat_map(|threads| threads.values().copied())
            .filter(move |n| *n > loader)
    }

    fn loader(&self, call: &str) -> usize {
        self.loader.get(call).copied().unwrap_or(0)
    }

    /// One of the times that a call is made. How work is shared among threads differs, so that early ones are likelier.
    pub(crate) fn when(&self, call: &str, numbers: &mut Numbers) -> usize {
        let loader = self.loader(call);
        let threads: Vec<usize> = self.threads(call).collect();
        let most = threads[numbers.below(threads.len())] - loader;
        loader + 1 + numbers.below(most)
    }
}

#[test]
fn calls_are_counted_for_each_thread_and_those_of_the_loader_are_left_out() {
    let trace = "1 openat(AT_FDCWD) = 3\n1  read(3) = 0\n1 poll([]) = 0\n1 openat(x) = 3\n2 openat(y <unfinished ...>\n\
                 2 <... openat resumed>) = 3\n2 openat(z) = 4\n2 --- SIGCHLD {} ---\n2 +++ exited +++\n";
    let habits = Habits::read(trace);
    assert_eq!(habits.threads("openat").collect::<Vec<_>>(), [2, 2]);
    assert!(habits.makes("openat") && !habits.makes("read") && !habits.makes("SIGCHLD"));
    let mut numbers = Numbers::new(1);
    assert!((0..50).all(|_| habits.when("openat", &mut numbers) == 2));
}
