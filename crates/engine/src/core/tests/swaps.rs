//! Changing the graph while it runs, and the promise to succeed once.

use super::super::*;
use super::story::{Story, link, vertex};
use super::{refreshable, remove, replace};

#[test]
fn a_swap_leaves_alone_what_it_does_not_name() {
    let mut story = Story::settled("a>b");
    let delta =
        Delta { add: vec![(vertex('c'), Rules::default())], link: vec![link("b>c")], ..Delta::default() };
    assert_eq!(story.apply(delta), "watch c");
    assert_eq!(story.settle(), "c");
}

#[test]
fn what_is_removed_goes_before_what_is_added_comes() {
    let mut story = Story::settled("a b");
    let delta = Delta {
        remove: vec![vertex('a')],
        replace: vec![(vertex('b'), Rules::default())],
        add: vec![(vertex('c'), Rules::default())],
        ..Delta::default()
    };
    assert_eq!(story.apply(delta), "unwatch a, close a, reincarnate b, watch b, watch c");
    assert_eq!(story.closed('a'), "free a");
}

#[test]
fn a_vertex_that_needs_no_watch_any_more_loses_it() {
    let mut story = Story::settled("a");
    let polled = Rules { poll: Poll::Once, ..Rules::default() };
    assert_eq!(story.apply(replace('a', polled)), "reincarnate a, unwatch a, run a");
}

#[test]
fn a_swap_does_not_wait_for_a_slow_run() {
    let mut story = Story::settled("a>b c");
    story.changed('a');
    let mut delta = remove("a");
    delta.add = vec![(vertex('d'), Rules::default())];
    delta.link = vec![link("d>b")];
    assert_eq!(story.apply(delta), "unwatch a, watch d");
    story.changed('b');
    assert_eq!(story.watching('d'), "run d");
    assert_eq!(story.finish('d', Outcome::Right), "run b", "a still runs, and is none of its business");
    assert_eq!(story.finish('a', Outcome::Right), "close a");
}

#[test]
fn a_vertex_replaced_during_its_run_becomes_the_other_when_that_has_ended() {
    let mut story = Story::settled("a>b");
    story.changed('a');
    assert_eq!(story.apply(replace('a', Rules { noop: true, ..Rules::default() })), "");
    story.changed('b');
    assert_eq!(story.finish('a', Outcome::Right), "reincarnate a, watch a", "and b waits for the new one");
    assert_eq!(story.watching('a'), "look a");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
}

#[test]
fn a_vertex_declared_again_on_its_way_out_comes_back() {
    let mut story = Story::settled("a>b");
    story.changed('a');
    assert_eq!(story.apply(remove("a")), "unwatch a");
    let back =
        Delta { add: vec![(vertex('a'), Rules::default())], link: vec![link("a>b")], ..Delta::default() };
    assert_eq!(story.apply(back), "");
    assert_eq!(story.changed('b'), "", "it has something to wait for again");
    assert_eq!(story.finish('a', Outcome::Right), "close a");
    assert_eq!(story.closed('a'), "reincarnate a, watch a");
    assert_eq!(story.settle(), "ab");
}

#[test]
fn a_notification_reaches_a_vertex_that_is_coming_back() {
    let mut story = Story::with("a=>b", &[('b', refreshable())]);
    story.begin();
    story.settle();
    story.apply(remove("b"));
    let back =
        Delta { add: vec![(vertex('b'), refreshable())], link: vec![link("a=>b")], ..Delta::default() };
    story.apply(back);
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Changed), "pending a b");
    story.closed('b');
    assert_eq!(story.watching('b'), "run b to refresh");
}

#[test]
fn an_edge_can_be_turned_around() {
    let mut story = Story::settled("a>b");
    let turned =
        Delta { unlink: vec![(vertex('a'), vertex('b'))], link: vec![link("b>a")], ..Delta::default() };
    story.apply(turned);
    assert_eq!(story.changed('b'), "run b");
    assert_eq!(story.changed('a'), "");
    assert_eq!(story.settle(), "a");
}

fn realize() -> Rules {
    Rules { realize: true, ..Rules::default() }
}

#[test]
fn a_vertex_that_is_to_be_realized_succeeds_once_before_it_goes() {
    let mut story = Story::with("a>b b>c", &[('b', realize())]);
    story.begin();
    story.watch_all();
    assert_eq!(story.apply(remove("abc")), "unwatch c, close c", "what b needs stays too");
    assert_eq!(story.finish('a', Outcome::Right), "unwatch a, close a, run b");
    assert_eq!(story.finish('b', Outcome::Changed), "unwatch b, close b");
}

#[test]
fn a_vertex_that_is_to_be_realized_succeeds_once_before_it_is_replaced() {
    let mut story = Story::with("a", &[('a', realize())]);
    story.begin();
    assert_eq!(story.apply(replace('a', Rules::default())), "");
    assert_eq!(story.watching('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "reincarnate a, watch a");
}

#[test]
fn what_a_lingering_vertex_needs_stays_over_later_swaps_too() {
    let mut story = Story::with("a>b", &[('b', realize())]);
    story.begin();
    story.watch_all();
    assert_eq!(story.apply(remove("b")), "");
    assert_eq!(story.apply(remove("a")), "");
    assert_eq!(story.finish('a', Outcome::Right), "unwatch a, close a, run b");
    assert_eq!(story.finish('b', Outcome::Right), "unwatch b, close b");
}

#[test]
fn a_promise_to_succeed_first_ends_with_a_failure_before_it() {
    let mut story = Story::with("a>b b>c", &[('b', realize()), ('c', realize())]);
    story.begin();
    story.watch_all();
    assert_eq!(story.apply(remove("bc")), "");
    let told = story.finish('a', Outcome::Failed);
    assert!(told.ends_with(", unwatch b, close b, unwatch c, close c"), "{told}");
}

#[test]
fn a_promise_to_succeed_first_ends_with_a_stop() {
    let mut story = Story::with("a", &[('a', realize())]);
    story.begin();
    assert_eq!(story.apply(remove("a")), "");
    assert_eq!(story.stop(Level::Graceful), "unwatch a, close a, stopped");
}
