//! Notifications and refreshes.

use super::super::*;
use super::story::{Story, link};
use super::{refreshable, replace};

#[test]
fn many_changes_lead_to_one_refresh() {
    let mut story = Story::with("a=>c b=>c", &[('c', refreshable())]);
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Changed), "pending a c");
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Changed), "");
    assert_eq!(story.finish('b', Outcome::Changed), "pending b c, run c to refresh");
    assert_eq!(story.finish('c', Outcome::Right), "over a c, over b c");
    assert_eq!(story.changed('c'), "run c");
}

#[test]
fn a_refresh_is_kept_over_runs_that_fail() {
    let mut story = Story::with("a=>b", &[('b', Rules { retry: Retry::Forever, ..refreshable() })]);
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Changed), "pending a b, run b to refresh");
    assert_eq!(story.finish('b', Outcome::Failed), "retry b after 0, run b to refresh");
    assert_eq!(story.finish('b', Outcome::Right), "over a b");
}

#[test]
fn a_notification_that_comes_during_the_refresh_leads_to_another() {
    let mut story = Story::with("a=>b", &[('b', refreshable())]);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Changed);
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Changed), "", "it is pending already, but anew");
    assert_eq!(story.finish('b', Outcome::Right), "run b to refresh");
    assert_eq!(story.finish('b', Outcome::Right), "over a b");
}

#[test]
fn who_only_looks_tells_nobody_and_keeps_what_it_was_told() {
    let noop = Rules { noop: true, ..refreshable() };
    let mut story = Story::with("a=>b b=>c", &[('b', noop), ('c', refreshable())]);
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Changed), "pending a b, look b to refresh");
    assert_eq!(story.finish('b', Outcome::Changed), "run c");
    story.settle();
    assert_eq!(story.apply(replace('b', refreshable())), "reincarnate b, watch b");
    assert_eq!(story.watching('b'), "run b to refresh");
}

#[test]
fn a_notification_is_not_passed_on_and_reaches_only_those_that_listen() {
    let mut story = Story::with("a=>b b=>c a>d", &[('c', refreshable()), ('d', refreshable())]);
    story.begin();
    story.settle();
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Changed), "", "b does not react, and the edge to d is silent");
}

#[test]
fn a_refresh_outlives_the_replacement_of_both_ends() {
    let mut story = Story::with("a=>b", &[('b', refreshable())]);
    story.begin();
    story.settle();
    story.pause();
    story.changed('a');
    story.resume();
    story.pause();
    assert_eq!(story.finish('a', Outcome::Changed), "pending a b, paused");
    story.apply(replace('a', Rules::default()));
    story.apply(replace('b', refreshable()));
    story.resume();
    assert_eq!(story.watching('b'), "", "a has to succeed again first");
    assert_eq!(story.watching('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run b to refresh");
    assert_eq!(story.finish('b', Outcome::Right), "over a b");
}

#[test]
fn a_refresh_pending_from_an_earlier_life_is_carried_out() {
    let mut story = Story::with("a b", &[('b', refreshable())]);
    story.begin();
    story.settle();
    let pending = Link { pending: true, ..link("a=>b") };
    assert_eq!(story.apply(Delta { link: vec![pending], ..Delta::default() }), "run b to refresh");
    assert_eq!(story.finish('b', Outcome::Right), "over a b");
    let silent = Link { pending: true, ..link("a>b") };
    assert_eq!(story.apply(Delta { link: vec![silent], ..Delta::default() }), "over a b", "nobody listens");
}
