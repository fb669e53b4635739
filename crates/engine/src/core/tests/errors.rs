//! Failing, trying again, giving up.

use super::super::*;
use super::story::{Story, vertex};
use super::{replace, retrying};

#[test]
fn a_failing_vertex_holds_up_those_behind_it_and_nobody_else() {
    let mut story = Story::new("a>b b>c a>d");
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Right), "run b, run d");
    assert!(story.finish('b', Outcome::Failed).starts_with("retry b after "));
    assert_eq!(story.settle(), "");
    assert_eq!(story.changed('c'), "");
    assert_eq!(story.changed('d'), "run d");
    assert!(story.core.has_failed(vertex('b')) && !story.core.has_failed(vertex('c')));
    let standing = story.core.standing();
    assert_eq!(standing.failing, [vertex('b')]);
    assert_eq!(standing.blocked, [(vertex('c'), vertex('b'))]);
    assert_eq!(standing.pending, [vertex('d')]);
}

#[test]
fn an_undeclared_retry_backs_off_from_one_second_to_five_minutes_for_ever() {
    let mut story = Story::new("a");
    story.begin();
    story.watch_all();
    for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300] {
        let told = story.finish('a', Outcome::Failed);
        let pause: u64 = told.strip_prefix("retry a after ").unwrap().parse().unwrap();
        let longest = seconds * 1_000_000_000;
        assert!(pause <= longest && pause > longest * 3 / 4, "{pause} for {seconds} s");
        assert_eq!(story.wait(pause - 1), "");
        assert_eq!(story.wait(1), "run a");
    }
    assert_eq!(story.finish('a', Outcome::Right), "");
    assert_eq!(story.changed('a'), "run a");
    let told = story.finish('a', Outcome::Failed);
    let pause: u64 = told.strip_prefix("retry a after ").unwrap().parse().unwrap();
    assert!(pause <= 1_000_000_000, "a success forgets all failures");
}

#[test]
fn a_change_prompts_what_fails_however_far_behind_it() {
    let once = Rules { retry: Retry::Times(0), ..Rules::default() };
    let mut story = Story::with("a>b b>c d>e", &[('c', once.clone()), ('e', once)]);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Right);
    story.finish('b', Outcome::Right);
    assert_eq!(story.finish('c', Outcome::Failed), "failed c");
    story.finish('d', Outcome::Right);
    assert_eq!(story.finish('e', Outcome::Failed), "failed e");
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Right), "", "nothing has changed");
    story.changed('a');
    assert_eq!(
        story.finish('a', Outcome::Changed),
        "run c",
        "not b, which is right, nor e, which is elsewhere"
    );
    assert_eq!(story.finish('c', Outcome::Failed), "failed c");
    // Another edge makes it another ancestor.
    let link = Link { from: vertex('d'), to: vertex('b'), notify: false, pending: false };
    story.apply(Delta { link: vec![link], ..Delta::default() });
    story.settle();
    for name in ['c', 'e'] {
        story.changed(name);
        story.finish(name, Outcome::Failed);
    }
    story.changed('d');
    assert_eq!(story.finish('d', Outcome::Changed), "run c, run e");
}

#[test]
fn an_event_a_notification_and_a_predecessor_that_changed_prompt_an_attempt_at_once() {
    let mut story = Story::with("a=>b c>b", &[('b', super::refreshable())]);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Right);
    assert_eq!(story.finish('c', Outcome::Right), "run b");
    assert!(story.finish('b', Outcome::Failed).starts_with("retry b"));
    assert_eq!(story.changed('b'), "run b");
    assert!(story.finish('b', Outcome::Failed).starts_with("retry b"));
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Changed), "pending a b, run b to refresh");
    assert!(story.finish('b', Outcome::Failed).starts_with("retry b"));
    story.changed('c');
    assert_eq!(story.finish('c', Outcome::Right), "", "nothing has changed");
    story.changed('c');
    assert_eq!(story.finish('c', Outcome::Changed), "run b to refresh");
    assert_eq!(story.finish('b', Outcome::Right), "over a b");
}

#[test]
fn an_event_during_a_failing_run_prompts_the_next_one() {
    let mut story = Story::settled("a");
    story.changed('a');
    story.changed('a');
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, run a");
}

#[test]
fn prompted_attempts_do_not_lengthen_the_backoff_and_use_up_no_declared_attempt() {
    let mut story = Story::with("a b", &[('b', Rules { delay: 7, ..retrying(1) })]);
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Failed);
    story.finish('b', Outcome::Failed);
    for _ in 0..5 {
        story.changed('a');
        let told = story.finish('a', Outcome::Failed);
        let pause: u64 = told.strip_prefix("retry a after ").unwrap().parse().unwrap();
        assert!(pause <= 1_000_000_000, "{pause}");
        story.changed('b');
        assert_eq!(story.finish('b', Outcome::Failed), "retry b after 7");
    }
    assert_eq!(story.wait(7), "run b");
    assert_eq!(story.finish('b', Outcome::Failed), "failed b");
    assert_eq!(story.wait(100), "");
    assert_eq!(story.changed('b'), "run b", "an event still leads to one attempt");
    assert_eq!(story.finish('b', Outcome::Failed), "failed b");
}

#[test]
fn a_flood_of_events_does_not_make_a_failing_vertex_a_busy_loop() {
    let mut story = Story::settled("a");
    story.changed('a');
    let mut attempts = 0;
    while story.now < 60_000_000_000 {
        attempts += 1;
        story.changed('a');
        if !story.finish('a', Outcome::Failed).contains("run a") {
            story.now = story.core.next_deadline().unwrap();
            assert_eq!(story.wait(0), "run a");
        }
    }
    assert!((20..60).contains(&attempts), "{attempts} attempts in a minute");
}

#[test]
fn a_failing_vertex_is_attempted_with_every_graph_and_on_request() {
    let mut story = Story::with("a>b", &[('a', retrying(0))]);
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Failed), "failed a");
    let other = Delta { add: vec![(vertex('x'), Rules::default())], ..Delta::default() };
    assert_eq!(story.apply(other), "watch x, run a");
    assert_eq!(story.finish('a', Outcome::Failed), "failed a");
    assert_eq!(story.settle(), "x");
    assert_eq!(story.apply(Delta::default()), "run a", "an equal one counts as well");
    assert_eq!(story.finish('a', Outcome::Failed), "failed a");
    assert_eq!(story.retry(Some('b')), (0, String::new()));
    assert_eq!(story.retry(Some('a')), (1, "run a".into()));
    assert_eq!(story.finish('a', Outcome::Failed), "failed a");
    assert_eq!(story.retry(None), (1, "run a".into()));
    assert_eq!(story.finish('a', Outcome::Right), "run b");
    assert_eq!(story.retry(None), (0, String::new()));
}

#[test]
fn a_failing_vertex_that_is_declared_differently_begins_again() {
    let mut story = Story::new("a>b");
    story.begin();
    story.watch_all();
    story.finish('a', Outcome::Failed);
    assert_eq!(story.apply(replace('a', Rules::default())), "reincarnate a, watch a");
    assert_eq!(story.settle(), "ab");
}

#[test]
fn one_that_had_succeeded_and_fails_later_holds_up_those_behind_it() {
    let mut story = Story::settled("a>b b>c");
    story.changed('a');
    assert!(story.finish('a', Outcome::Failed).starts_with("retry a"));
    assert_eq!(story.changed('b'), "");
    assert_eq!(story.changed('c'), "");
    assert_eq!(story.changed('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
}

#[test]
fn a_vertex_has_as_many_attempts_by_time_as_are_declared() {
    let mut story = Story::with("a", &[('a', Rules { delay: 7, ..retrying(2) })]);
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 7");
    assert_eq!(story.wait(6), "");
    assert_eq!(story.wait(1), "run a");
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 7");
    assert_eq!(story.wait(7), "run a");
    assert_eq!(story.finish('a', Outcome::Failed), "failed a");
    assert_eq!(story.core.next_deadline(), None);
}

#[test]
fn a_watch_that_fails_is_set_up_again_with_a_backoff_of_its_own() {
    let mut story = Story::settled("a>b");
    let told = story.watch_failed('a');
    let pause: u64 = told.strip_prefix("retry a after ").unwrap().parse().unwrap();
    assert!(pause <= 1_000_000_000);
    assert!(story.core.has_failed(vertex('a')));
    assert_eq!(story.changed('b'), "", "nothing runs behind a vertex that is not watched");
    assert_eq!(story.wait(pause), "watch a");
    assert!(story.watch_failed('a').starts_with("retry a after 1"), "twice as long");
    assert_eq!(story.retry(None), (1, "watch a".into()));
    assert_eq!(story.watching('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run b");
    story.wait(61_000_000_000);
    let told = story.watch_failed('a');
    let pause: u64 = told.strip_prefix("retry a after ").unwrap().parse().unwrap();
    assert!(pause <= 1_000_000_000, "it had been steady");
}

#[test]
fn a_watch_whose_declared_attempts_are_used_up_backs_off_and_hears_of_events() {
    let mut story = Story::with("a", &[('a', Rules { delay: 7, ..retrying(2) })]);
    story.begin();
    story.settle();
    assert_eq!(story.watch_failed('a'), "retry a after 7");
    assert_eq!(story.wait(7), "watch a");
    assert_eq!(story.watch_failed('a'), "retry a after 7");
    assert_eq!(story.wait(7), "watch a");
    for seconds in [1, 2, 4] {
        let told = story.watch_failed('a');
        let pause: u64 = told.strip_prefix("retry a after ").unwrap().parse().unwrap();
        let longest = seconds * 1_000_000_000;
        assert!(pause <= longest && pause > longest * 3 / 4, "{pause} for {seconds} s");
        assert_eq!(story.wait(pause - 1), "");
        assert_eq!(story.wait(1), "watch a");
    }
    story.watch_failed('a');
    assert_eq!(story.changed('a'), "watch a", "what is left of the watch is heard");
    assert_eq!(story.watching('a'), "run a");
    story.finish('a', Outcome::Right);
    assert!(!story.core.has_failed(vertex('a')));
}

#[test]
fn a_run_goes_on_when_its_watch_fails_and_its_result_counts() {
    let mut story = Story::with("a=>b", &[('b', super::refreshable())]);
    story.begin();
    story.settle();
    story.changed('a');
    assert!(story.watch_failed('a').starts_with("retry a after "), "it is not stopped");
    assert_eq!(story.finish('a', Outcome::Changed), "pending a b");
    assert_eq!(story.retry(Some('a')), (1, "watch a".into()));
    assert_eq!(story.watching('a'), "run a");
    assert_eq!(story.finish('a', Outcome::Right), "run b to refresh", "what was changed is told");
}

#[test]
fn an_event_that_no_run_has_begun_for_sets_a_watch_up_again_at_once() {
    // During a run, and while the watch begins.
    let mut story = Story::settled("a");
    story.changed('a');
    story.changed('a');
    assert!(story.watch_failed('a').starts_with("retry a after 0"));
    assert_eq!(story.finish('a', Outcome::Right), "watch a");
    assert_eq!(story.changed('a'), "");
    assert_eq!(story.watch_failed('a'), "retry a after 0");
    assert_eq!(story.wait(0), "watch a");
    // There was no other, so the next attempt follows by time.
    let told = story.watch_failed('a');
    let pause: u64 = told.strip_prefix("retry a after ").unwrap().parse().unwrap();
    assert!(pause > 700_000_000, "{pause}");
    assert_eq!(story.wait(pause), "watch a");
    assert_eq!(story.watching('a'), "run a");
}

#[test]
fn a_vertex_that_recovers_brings_the_attempts_of_others_forward() {
    let mut story = Story::new("a b c");
    story.begin();
    story.watch_all();
    story.finish('c', Outcome::Right);
    let mut running = vec!['a', 'b'];
    for _ in 0..14 {
        running.iter().for_each(|name| drop(story.finish(*name, Outcome::Failed)));
        story.now = story.core.next_deadline().unwrap();
        let told = story.wait(0);
        running = ['a', 'b'].into_iter().filter(|name| told.contains(&format!("run {name}"))).collect();
    }
    running.iter().for_each(|name| drop(story.finish(*name, Outcome::Failed)));
    assert_eq!(story.wait(20_000_000_000), "", "both wait for a minute or more");
    story.changed('c');
    story.finish('c', Outcome::Failed);
    story.changed('c');
    assert_eq!(story.finish('c', Outcome::Right), "sooner a, sooner b");
    let soon = story.core.next_deadline().unwrap();
    assert!(soon <= story.now + 500_000_000);
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
    assert_eq!(story.finish('a', Outcome::Failed), "failed a");
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
    assert_eq!(story.finish('a', Outcome::Failed), "failed a");
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
    let mut story = Story::with("a", &[('a', Rules { retry: Retry::Forever, ..Rules::default() })]);
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
    let mut story = Story::with("a", &[('a', Rules { retry: Retry::Forever, ..Rules::default() })]);
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, run a");
    assert_eq!(story.pause(), "");
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 0, paused");
    assert_eq!(story.changed('a'), "");
    assert_eq!(story.resume(), "run a");
}
