//! Rates, semaphores, pools.

use super::super::*;
use super::story::Story;
use super::{holding, refreshable, remove, replace};

const SECOND: u64 = 1_000_000_000;

#[test]
fn events_beyond_the_burst_keep_the_rate() {
    let mut story = Story::with("a", &[('a', Rules { limit: 2.0, burst: 2.0, ..Rules::default() })]);
    story.begin();
    assert_eq!(story.watching('a'), "run a", "the first token");
    story.settle();
    assert_eq!(story.changed('a'), "run a", "the second");
    story.settle();
    assert_eq!(story.changed('a'), "limit a by 500000000");
    assert_eq!(story.changed('a'), "", "more events ride along");
    assert_eq!(story.wait(SECOND / 2 - 1), "");
    assert_eq!(story.wait(1), "run a");
    assert_eq!(story.settle(), "");
}

#[test]
fn a_notification_takes_no_token() {
    let rules = Rules { limit: 0.001, burst: 1.0, ..refreshable() };
    let mut story = Story::with("a=>b", &[('b', rules)]);
    story.begin();
    story.settle();
    for _ in 0..3 {
        story.changed('a');
        assert_eq!(story.finish('a', Outcome::Changed), "pending a b, run b to refresh");
        assert_eq!(story.finish('b', Outcome::Right), "over a b");
    }
}

#[test]
fn events_during_failing_runs_run_up_no_debt() {
    let rules = Rules { limit: 1.0, burst: 1.0, retry: Retry::Forever, ..Rules::default() };
    let mut story = Story::with("a", &[('a', rules)]);
    story.begin();
    story.watch_all();
    // As many as follow each other without a pause; they would owe eight seconds.
    for _ in 0..8 {
        assert_eq!(story.changed('a'), "limit a by 1000000000");
        assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, run a");
    }
    assert_eq!(story.finish('a', Outcome::Right), "");
    assert_eq!(story.changed('a'), "limit a by 1000000000");
}

#[test]
fn an_attempt_that_is_due_by_time_is_made_after_a_failed_watch_whatever_the_rate() {
    for limit in [0.0, 0.01] {
        let mut story = Story::with("a", &[('a', Rules { limit, burst: 1.0, ..Rules::default() })]);
        story.begin();
        story.watch_all();
        assert!(story.finish('a', Outcome::Failed).starts_with("retry a"));
        story.now = story.core.next_deadline().unwrap();
        assert_eq!(story.wait(0), "run a");
        assert!(story.changed('a').starts_with("limit a"));
        assert_eq!(story.watch_failed('a'), "retry a after 0");
        let told = story.finish('a', Outcome::Failed);
        assert!(told.starts_with("retry a after ") && told.ends_with(", watch a"), "limit {limit}: {told}");
        assert_eq!(story.watching('a'), "", "limit {limit}");
        let mut told = String::new();
        while told.is_empty() {
            story.now = story.core.next_deadline().unwrap();
            told = story.wait(0);
        }
        assert_eq!(told, "run a", "limit {limit}");
        assert_eq!(story.finish('a', Outcome::Right), "", "limit {limit}");
    }
}

#[test]
fn a_semaphore_lets_as_many_run_as_its_id_says() {
    let two = || holding(&["disk:2"]);
    let mut story =
        Story::with("a b c d", &[('a', two()), ('b', two()), ('c', two()), ('d', holding(&["disk"]))]);
    story.begin();
    assert_eq!(story.watch_all(), "run a, run b, run d", "another id is another semaphore");
    assert_eq!(story.finish('b', Outcome::Right), "run c");
    story.settle();
    assert!(story.core.semaphores.held().next().is_none(), "what nobody wants does not exist");
}

#[test]
fn the_same_semaphore_on_all_makes_them_run_one_by_one() {
    let one = || holding(&[":1", ":1"]);
    let mut story = Story::with("a b c", &[('a', one()), ('b', one()), ('c', one())]);
    story.begin();
    assert_eq!(story.watch_all(), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
    assert_eq!(story.finish('b', Outcome::Right), "run c");
}

#[test]
fn nobody_is_overtaken_for_ever_in_the_line_for_a_semaphore() {
    let mut story =
        Story::with("a b c", &[('a', holding(&["x"])), ('b', holding(&["x", "y"])), ('c', holding(&["y"]))]);
    story.begin();
    story.settle();
    assert_eq!(story.changed('a'), "run a");
    assert_eq!(story.changed('b'), "", "x is held");
    assert_eq!(story.changed('c'), "", "y is free, but b asked first");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
    assert_eq!(story.finish('b', Outcome::Right), "run c");
}

#[test]
fn who_leaves_the_line_for_a_semaphore_lets_the_next_one_go() {
    let mut story =
        Story::with("a b c", &[('a', holding(&["x"])), ('b', holding(&["x", "y"])), ('c', holding(&["y"]))]);
    story.begin();
    story.settle();
    story.changed('a');
    story.changed('b');
    story.changed('c');
    assert_eq!(story.apply(remove("b")), "unwatch b, close b, run c");
}

#[test]
fn a_pool_runs_no_more_than_it_has_room_for() {
    let mut story = Story::new("a b c");
    story.core.settings.capacity = [1, 1];
    story.begin();
    assert_eq!(story.watch_all(), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
    assert_eq!(
        story.apply(replace('c', Rules { pool: Pool::Blocking, ..Rules::default() })),
        "reincarnate c, watch c"
    );
    assert_eq!(story.watching('c'), "run c", "the other pool has room");
}
