//! What happens to the model, one story each.

use std::sync::Arc;
use std::time::Duration;

use mgmt_watch::Change;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};

use super::sync::thread;
use super::{Message, Running};

/// Orders for each story, unless told otherwise.
const RUNS: usize = 400;
/// How many times the order is changed where it hurts, in half of them.
const DEPTH: usize = 3;

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Plays a story in many orders: half of them at random, and half with few changes of who goes first.
fn play(story: impl Fn() + Clone + Send + Sync + 'static) {
    if let Ok(schedule) = std::env::var("MGMT_MODEL_SCHEDULE") {
        return play_with(ReplayScheduler::new_from_encoded(&schedule), story);
    }
    let (runs, seed) = (number("MGMT_MODEL_RUNS").unwrap_or(RUNS), number("MGMT_SEED").unwrap_or(1));
    play_with(RandomScheduler::new_from_seed(seed, runs.div_ceil(2)), story.clone());
    play_with(PctScheduler::new_from_seed(seed, DEPTH, runs.div_ceil(2)), story);
}

fn play_with(scheduler: impl Scheduler + 'static, story: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = 256 << 10;
    config.silence_warnings = true;
    shuttle::Runner::new(scheduler, config).run(story);
}

#[test]
fn every_change_that_the_kernel_tells_of_is_seen() {
    play(|| {
        let running = Running::start(3, 1, false);
        for (vertex, change) in
            [(0, Change::Any), (1, Change::Created), (0, Change::Created), (2, Change::Any), (0, Change::Any)]
        {
            running.event(vertex, change);
        }
        running.world.until_all_is_seen();
        running.stop();
    });
}

#[test]
fn every_change_is_seen_whoever_tells_of_it_and_every_question_is_answered() {
    play(|| {
        let running = Arc::new(Running::start(2, 2, false));
        let others = [0, 1].map(|who| {
            let running = Arc::clone(&running);
            thread::spawn(move || match who {
                0 => {
                    running.signal(0);
                    running.signal(1);
                }
                _ => assert!(running.ask() && running.ask()),
            })
        });
        running.event(0, Change::Any);
        running.event(1, Change::Any);
        others.into_iter().for_each(|other| other.join().unwrap());
        running.world.until_all_is_seen();
        Arc::into_inner(running).unwrap().stop();
    });
}

#[test]
fn what_follows_along_a_chain_is_run_however_far() {
    play(|| {
        let running = Running::start(4, 1, true);
        running.event(0, Change::Any);
        running.world.until(|state| state.runs.iter().all(|runs| *runs >= 1));
        running.event(2, Change::Any);
        running.world.until(|state| state.runs[3] >= 2);
        running.stop();
    });
}

#[test]
fn many_runs_at_once_are_shared_out_and_each_is_done_once() {
    const MANY: usize = 20;
    play(|| {
        let running = Running::start(MANY, 2, false);
        for vertex in 0..MANY {
            running.world.change(vertex);
        }
        // All of them at once, and then one that comes in between.
        let all = (0..MANY).map(|vertex| (crate::core::Vertex(u32::try_from(vertex).unwrap()), Change::Any));
        running.inbox.put_changes(all);
        running.inbox.call();
        running.event(0, Change::Any);
        running.world.until_all_is_seen();
        running.stop();
    });
}

#[test]
fn what_is_due_is_run_when_its_time_has_come_though_nothing_else_happens() {
    play(|| {
        let running = Running::start(2, 1, false);
        running.inbox.send(Message::Alarm(0, Duration::from_secs(60)));
        // A sooner one, when it may sleep for the later one already.
        running.inbox.send(Message::Alarm(1, Duration::from_secs(1)));
        running.world.until(|state| state.runs == [1, 1]);
        running.stop();
    });
}

#[test]
fn an_end_at_any_moment_ends_everybody() {
    play(|| {
        let running = Arc::new(Running::start(3, 2, true));
        let other = Arc::clone(&running);
        let outside = thread::spawn(move || {
            for vertex in [0, 1, 2, 0] {
                other.event(vertex, Change::Any);
                other.signal(vertex);
            }
        });
        running.inbox.send(Message::Stop);
        outside.join().unwrap();
        Arc::into_inner(running).unwrap().stop();
    });
}

#[test]
fn whoever_waits_learns_it_when_the_engine_breaks_off() {
    play(|| {
        let running = Arc::new(Running::start(2, 1, false));
        let other = Arc::clone(&running);
        let asks = thread::spawn(move || {
            other.event(0, Change::Any);
            // There is an answer, or there is none; only waiting would be wrong.
            for _ in 0..3 {
                other.ask();
            }
        });
        running.event(1, Change::Any);
        running.helm.break_off();
        asks.join().unwrap();
        let Running { inbox, life, .. } = Arc::into_inner(running).unwrap();
        assert!(!life.join().unwrap());
        let (reply, answer) = shuttle::sync::mpsc::channel();
        inbox.send(Message::Ask(reply));
        assert!(answer.recv().is_err(), "somebody answers who is not there");
    });
}
