//! Failing, trying again, giving up.

use super::super::*;
use super::story::{Story, vertex};
use super::{replace, retrying};

#[test]
fn a_failed_vertex_holds_up_those_behind_it_and_nobody_else() {
    let mut story = Story::new("a>b b>c a>d");
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Right), "run b, run d");
    assert_eq!(story.finish('b', Outcome::Failed), "unwatch b, failed b");
    assert_eq!(story.settle(), "");
    assert_eq!(story.changed('c'), "");
    assert_eq!(story.changed('b'), "", "it is not watched any more");
    assert_eq!(story.changed('d'), "run d");
    assert!(story.core.has_failed(vertex('b')) && !story.core.has_failed(vertex('c')));
}

#[test]
fn a_failed_vertex_stays_so_until_it_is_replaced() {
    let mut story = Story::new("a>b");
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Failed);
    assert_eq!(
        story.apply(Delta { add: vec![(vertex('x'), Rules::default())], ..Delta::default() }),
        "watch x"
    );
    assert_eq!(story.settle(), "x");
    assert_eq!(story.apply(replace('a', Rules::default())), "reincarnate a, watch a");
    assert_eq!(story.settle(), "ab");
}

#[test]
fn one_that_had_succeeded_and_fails_later_holds_up_those_behind_it() {
    let mut story = Story::settled("a>b b>c");
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Failed), "unwatch a, failed a");
    assert_eq!(story.changed('b'), "");
    assert_eq!(story.changed('c'), "");
}

#[test]
fn a_vertex_fails_after_as_many_errors_as_it_is_allowed() {
    let mut story = Story::with("a", &[('a', Rules { delay: 7, ..retrying(2) })]);
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 7");
    assert_eq!(story.wait(6), "");
    assert_eq!(story.wait(1), "run a");
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 7");
    assert_eq!(story.wait(7), "run a");
    assert_eq!(story.finish('a', Outcome::Failed), "unwatch a, failed a");
}

#[test]
fn the_budget_for_errors_outlives_a_replacement() {
    let mut story = Story::with("a", &[('a', retrying(1))]);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Failed);
    story.finish('a', Outcome::Right);
    story.apply(replace('a', retrying(5)));
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Failed), "unwatch a, failed a");
}

#[test]
fn a_replacement_that_says_reset_begins_with_a_full_budget() {
    let mut story = Story::with("a", &[('a', retrying(1))]);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Failed);
    story.finish('a', Outcome::Right);
    story.apply(replace('a', Rules { reset: true, ..retrying(1) }));
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, run a");
}

#[test]
fn a_revived_vertex_begins_with_a_full_budget() {
    let mut story = Story::with("a", &[('a', retrying(1))]);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Failed);
    assert_eq!(story.finish('a', Outcome::Failed), "unwatch a, failed a");
    story.apply(replace('a', retrying(1)));
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, run a");
}

#[test]
fn retry_reset_refills_the_budget_with_each_success() {
    let mut story = Story::with("a", &[('a', Rules { retry_reset: true, ..retrying(1) })]);
    story.begin();
    story.watch_all();
    for _ in 0..3 {
        assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, run a");
        assert_eq!(story.finish('a', Outcome::Right), "");
        assert_eq!(story.changed('a'), "run a");
    }
}

#[test]
fn who_fails_for_ever_without_delay_is_slowed_down() {
    let mut story = Story::with("a", &[('a', Rules { retry: None, ..Rules::default() })]);
    story.begin();
    story.watch_all();
    for _ in 0..8 {
        assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, run a");
    }
    for milliseconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000] {
        let pause = milliseconds * 1_000_000;
        assert_eq!(story.finish('a', Outcome::Failed), format!("retry a after {pause}"));
        assert_eq!(story.wait(pause - 1), "");
        assert_eq!(story.wait(1), "run a");
    }
    assert_eq!(story.finish('a', Outcome::Right), "");
    assert_eq!(story.changed('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, run a");
}

#[test]
fn a_pause_lands_between_two_tries_without_delay() {
    let mut story = Story::with("a", &[('a', Rules { retry: None, ..Rules::default() })]);
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, run a");
    assert_eq!(story.pause(), "");
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, paused");
    assert_eq!(story.changed('a'), "");
    assert_eq!(story.resume(), "run a");
}
