//! What runs before what, watches, and hidden vertices.

use super::super::*;
use super::story::{Story, vertex};
use super::{hidden, replace, retrying};

#[test]
fn nothing_runs_before_its_watch_has_begun_even_if_what_comes_first_is_done() {
    let mut story = Story::new("a>b");
    assert_eq!(story.begin(), "watch a, watch b");
    assert_eq!(story.watching('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Changed), "");
    assert_eq!(story.changed('b'), "", "an event before the watch has begun is none");
    assert_eq!(story.watching('b'), "run b");
}

#[test]
fn a_watched_vertex_waits_for_what_comes_first() {
    let mut story = Story::new("a>b");
    story.begin();
    assert_eq!(story.watching('b'), "");
    assert_eq!(story.watching('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
}

#[test]
fn the_sink_of_a_diamond_runs_once_after_both_sides() {
    let mut story = Story::new("a>b a>c b>d c>d");
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Right), "run b, run c");
    assert_eq!(story.finish('c', Outcome::Right), "");
    assert_eq!(story.finish('b', Outcome::Right), "run d");
    assert_eq!(story.finish('d', Outcome::Right), "");
    assert_eq!(story.settle(), "");
}

#[test]
fn an_event_on_a_vertex_runs_none_before_it_and_none_after_it() {
    let mut story = Story::settled("a>b a>c b>d c>d d>e");
    assert_eq!(story.changed('d'), "run d");
    assert_eq!(story.settle(), "", "a check that finds all right concerns nobody else");
    assert_eq!(story.changed('e'), "run e");
    assert_eq!(story.settle(), "");
}

#[test]
fn a_vertex_with_an_event_waits_for_any_ancestor_that_has_one_too() {
    let mut story = Story::settled("a>b b>c x");
    assert_eq!(story.changed('a'), "run a");
    assert_eq!(story.changed('c'), "");
    assert_eq!(story.changed('x'), "run x", "whoever has nothing to do with it goes on");
    assert_eq!(story.finish('a', Outcome::Right), "run c", "and b is clean, so it is not asked");
}

#[test]
fn an_event_during_a_run_leads_to_another_run() {
    let mut story = Story::settled("a");
    assert_eq!(story.changed('a'), "run a");
    assert_eq!(story.changed('a'), "");
    assert_eq!(story.changed('a'), "");
    assert_eq!(story.finish('a', Outcome::Right), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "");
}

#[test]
fn a_received_value_runs_the_receiver_again() {
    let mut story = Story::settled("a>b");
    story.changed('a');
    assert_eq!(story.finish_and_dirty('a', Outcome::Right, "b"), "run b");
}

#[test]
fn a_failed_watch_begins_again_when_the_run_has_ended() {
    let mut story = Story::with("a", &[('a', retrying(1))]);
    story.begin();
    assert_eq!(story.watching('a'), "run a");
    assert_eq!(story.watch_failed('a'), "retry a after 0");
    assert_eq!(story.wait(1), "", "it still runs");
    assert_eq!(story.finish('a', Outcome::Right), "watch a");
    assert_eq!(story.changed('a'), "", "no run before the new watch has begun");
    assert_eq!(story.watching('a'), "run a");
    let told = story.watch_failed('a');
    assert!(told.starts_with("retry a after 7"), "the budget of the watch is used up: {told}");
    assert_eq!(story.finish('a', Outcome::Right), "");
    assert_eq!(story.wait(1_000_000_000), "watch a", "it backs off");
}

#[test]
fn a_watch_is_tried_again_after_the_delay() {
    let mut story = Story::with("a", &[('a', Rules { delay: 5, ..retrying(1) })]);
    story.begin();
    assert_eq!(story.watch_failed('a'), "retry a after 5");
    assert_eq!(story.wait(4), "");
    assert_eq!(story.wait(1), "watch a");
}

#[test]
fn a_late_answer_of_an_earlier_incarnation_is_not_heard() {
    let mut story = Story::new("a");
    story.begin();
    assert_eq!(story.apply(replace('a', Rules::default())), "reincarnate a, watch a");
    let now = story.now;
    story.core.watching(vertex('a'), 0, now);
    story.core.watch_failed(vertex('a'), 0, now);
    assert_eq!(story.told(), "");
    assert_eq!(story.watching('a'), "run a");
}

#[test]
fn polls_come_at_their_time_and_once_means_once() {
    let every = Rules { poll: Poll::Every(10), ..Rules::default() };
    let once = Rules { poll: Poll::Once, ..Rules::default() };
    let mut story = Story::with("a b", &[('a', every), ('b', once)]);
    assert_eq!(story.begin(), "run a, run b", "neither is watched");
    story.settle();
    assert_eq!(story.wait(9), "");
    assert_eq!(story.wait(1), "run a");
    story.settle();
    assert_eq!(story.wait(1000), "run a", "a long sleep is made up for by one check, not by many");
    story.settle();
    assert_eq!(story.wait(9), "");
    assert_eq!(story.wait(1), "run a");
}

#[test]
fn a_hidden_vertex_neither_watches_nor_runs_but_keeps_its_place_in_the_order() {
    let mut story = Story::with("a>h h>b", &[('h', hidden(false))]);
    assert_eq!(story.begin(), "watch a, watch b");
    assert_eq!(story.watching('b'), "");
    assert_eq!(story.watching('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
    assert!(story.core.has_succeeded(vertex('h')));
}

#[test]
fn a_hidden_vertex_that_is_exported_runs_and_tries_again_after_the_delay() {
    let exported = Rules { delay: 5, ..hidden(true) };
    let mut story = Story::with("a>h", &[('h', Rules { retry: Retry::Times(1), ..exported })]);
    assert_eq!(story.begin(), "watch a");
    assert_eq!(story.watching('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run h");
    assert_eq!(story.finish('h', Outcome::Failed), "retry h after 5");
    assert_eq!(story.wait(5), "run h");
    assert_eq!(story.finish('h', Outcome::Right), "");
    story.changed('a');
    assert_eq!(story.finish_and_dirty('a', Outcome::Right, "h"), "run h", "what it exports has changed");
}
