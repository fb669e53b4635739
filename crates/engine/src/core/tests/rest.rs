//! Convergence and stopping.

use super::super::*;
use super::story::Story;

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_graph_converges_when_it_has_been_quiet_for_long_enough_and_diverges_with_a_change() {
    let mut story = Story::converging("a", &[], 10);
    story.begin();
    story.settle();
    assert_eq!(story.wait(9), "");
    assert_eq!(story.wait(1), "converged");
    assert_eq!(story.changed('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "", "a look that finds all right is nothing");
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Forwarded), "", "nor is a tick");
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Changed), "diverged");
    assert_eq!(story.wait(9), "");
    assert_eq!(story.wait(1), "converged");
    assert_eq!(story.core.next_deadline(), None, "a quiet graph has no timer");
}

#[test]
fn an_empty_graph_converges_after_the_time_and_not_before() {
    let mut story = Story::converging("", &[], 10);
    story.begin();
    assert_eq!(story.wait(9), "");
    assert_eq!(story.wait(1), "converged");
}

#[test]
fn nothing_converges_while_something_is_on_its_way() {
    let delayed = Rules { retry: Retry::Times(1), delay: 100, ..Rules::default() };
    let mut story = Story::converging("a b", &[('a', delayed)], 10);
    story.begin();
    assert_eq!(story.wait(50), "", "the watches have not begun");
    story.watch_all();
    assert_eq!(story.wait(50), "", "both run");
    story.finish('b', Outcome::Right);
    story.finish('a', Outcome::Failed);
    assert_eq!(story.wait(50), "", "it will be tried again");
    assert_eq!(story.wait(50), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "", "it has just recovered");
    assert_eq!(story.wait(10), "converged");
}

#[test]
fn a_graph_that_is_quiet_apart_from_retries_without_an_end_has_not_converged() {
    for rules in [Rules::default(), Rules { retry: Retry::Forever, delay: 100, ..Rules::default() }] {
        let mut story = Story::converging("a>b", &[('a', rules)], 10);
        story.begin();
        story.watch_all();
        story.finish('a', Outcome::Failed);
        assert_eq!(story.wait(9), "");
        assert_eq!(story.wait(1), "quiet with 1 of 2");
        assert!(!story.core.is_converged());
        story.now = story.core.next_deadline().unwrap();
        assert_eq!(story.wait(0), "run a", "a retry is no news");
        assert!(story.finish('a', Outcome::Failed).starts_with("retry a"));
        story.now = story.core.next_deadline().unwrap();
        assert_eq!(story.wait(0), "run a");
        assert_eq!(story.finish('a', Outcome::Right), "run b, diverged", "a recovery is");
        assert_eq!(story.finish('b', Outcome::Right), "");
        assert_eq!(story.wait(10), "converged");
    }
}

#[test]
fn a_graph_is_quiet_when_declared_attempts_are_used_up() {
    let mut story = Story::converging("a", &[('a', Rules { delay: 100, ..super::retrying(1) })], 10);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Failed);
    assert_eq!(story.wait(99), "");
    assert_eq!(story.wait(1), "run a");
    assert_eq!(story.finish('a', Outcome::Failed), "failed a, quiet with 1 of 1");
}

#[test]
fn a_run_that_lasts_ends_the_rest_and_one_that_does_not_is_no_news() {
    let mut story = Story::converging("a>b c", &[], 10);
    story.begin();
    story.settle();
    assert_eq!(story.wait(10), "converged");
    for _ in 0..3 {
        assert_eq!(story.changed('a'), "run a");
        assert_eq!(story.wait(SECOND - 1), "");
        assert_eq!(story.finish('a', Outcome::Right), "");
    }
    assert_eq!(story.core.next_deadline(), None);
    story.changed('a');
    assert_eq!(story.changed('b'), "", "it waits for a");
    assert_eq!(story.core.next_deadline(), Some(story.now + SECOND));
    assert_eq!(story.wait(SECOND), "diverged");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
    assert_eq!(story.finish('b', Outcome::Right), "converged", "nothing was changed");
    assert_eq!(story.changed('c'), "run c");
    assert_eq!(story.wait(SECOND), "diverged");
    assert!(story.finish('c', Outcome::Failed).starts_with("retry c"));
    assert_eq!(story.wait(10), "quiet with 1 of 1");
}

#[test]
fn a_graph_with_a_vertex_that_its_rate_holds_back_for_ever_has_not_converged() {
    let once = Rules { limit: 0.0, burst: 1.0, ..Rules::default() };
    let mut story = Story::converging("a b", &[('a', once)], 10);
    story.begin();
    story.settle();
    assert_eq!(story.wait(10), "converged");
    assert_eq!(story.changed('a'), format!("limit a by {}, quiet with 0 of 1", u64::MAX));
    assert!(!story.core.is_converged());
}

#[test]
fn a_failing_vertex_that_may_not_run_stays_failing_until_it_succeeds() {
    let mut story = Story::converging("a>b", &[], 10);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Failed);
    assert_eq!(story.wait(10), "quiet with 1 of 2");
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Held), "");
    assert_eq!(story.wait(1000 * SECOND), "", "no time leads to an attempt");
    assert_eq!(story.apply(super::replace('a', Rules::default())), "reincarnate a, watch a, diverged");
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Held), "", "another declaration alone repairs nothing");
    assert!(story.core.has_failed(super::story::vertex('a')));
    assert_eq!(story.wait(10), "quiet with 1 of 2");
    assert_eq!(story.changed('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run b, diverged");
    story.finish('b', Outcome::Right);
    assert_eq!(story.wait(10), "converged");
}

#[test]
fn who_only_looks_and_who_is_behind_a_failure_do_not_keep_a_graph_from_coming_to_rest() {
    let noop = Rules { noop: true, ..Rules::default() };
    let mut story = Story::converging("a>b c", &[('c', noop)], 10);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Failed);
    story.finish('c', Outcome::Changed);
    assert_eq!(story.changed('b'), "");
    assert_eq!(story.wait(10), "quiet with 1 of 2");
    assert_eq!(story.changed('c'), "look c");
    assert_eq!(story.finish('c', Outcome::Changed), "");
}

#[test]
fn polls_do_not_keep_a_graph_from_converging_even_if_there_is_always_one() {
    let poll = |period| Rules { poll: Poll::Every(period), ..Rules::default() };
    let mut story = Story::converging("a b", &[('a', poll(4)), ('b', poll(4))], 10);
    story.begin();
    story.settle();
    story.wait(2);
    assert_eq!(story.wait(2), "run a, run b");
    story.finish('a', Outcome::Right);
    assert_eq!(story.wait(4), "run a");
    story.finish('b', Outcome::Right);
    assert_eq!(story.wait(2), "converged", "while both are being looked at");
}

#[test]
fn a_vertex_that_waits_for_a_poll_does_keep_a_graph_from_converging() {
    let poll = Rules { poll: Poll::Every(8), ..Rules::default() };
    let mut story = Story::converging("a>b", &[('a', poll)], 10);
    story.begin();
    story.settle();
    assert_eq!(story.wait(8), "run a");
    assert_eq!(story.changed('b'), "");
    assert_eq!(story.wait(7), "", "b has something to do");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
    assert_eq!(story.finish('b', Outcome::Right), "converged");
}

#[test]
fn a_pause_neither_counts_as_quiet_nor_as_a_change() {
    let mut story = Story::converging("a", &[], 10);
    story.begin();
    story.settle();
    story.pause();
    assert_eq!(story.core.next_deadline(), None);
    assert_eq!(story.wait(100), "");
    assert_eq!(story.resume(), "");
    assert_eq!(story.wait(9), "");
    assert_eq!(story.wait(1), "converged");
    assert_eq!(story.pause(), "paused");
    assert_eq!(story.resume(), "");
    assert_eq!(story.wait(100), "");
    assert!(story.core.is_converged());
}

#[test]
fn a_graceful_stop_lets_what_runs_finish_and_starts_nothing() {
    let mut story = Story::new("a>b");
    story.begin();
    story.watch_all();
    assert_eq!(story.stop(Level::Graceful), "");
    assert_eq!(story.core.next_deadline(), None);
    assert_eq!(story.finish('a', Outcome::Changed), "stopped");
    assert_eq!(story.changed('a'), "");
    assert_eq!(story.stop(Level::Graceful), "", "it is said once");
}

#[test]
fn each_harder_stop_asks_what_runs_once_more() {
    let mut story = Story::new("a b");
    story.begin();
    story.watch_all();
    assert_eq!(story.stop(Level::Graceful), "");
    assert_eq!(story.stop(Level::Cancel), "cancel a, cancel b");
    assert_eq!(story.stop(Level::Cancel), "");
    assert_eq!(story.finish('a', Outcome::Cancelled), "");
    assert_eq!(story.stop(Level::Interrupt), "interrupt b");
    assert_eq!(story.stop(Level::Graceful), "", "it gets no softer");
    assert_eq!(story.finish('b', Outcome::Failed), "stopped", "an error after a cancel does not count");
}
