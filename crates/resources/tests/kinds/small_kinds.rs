//! The kinds that change nothing but what the program itself remembers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Log, Run, TestEnv, refused};
use mgmt_resource::{Checked, Id, Kind, Resource, Stage, Watch, schema_of};
use mgmt_resources::exit::Exit;
use mgmt_resources::noop::Noop;
use mgmt_resources::panic::Panic;
use mgmt_resources::print::Print;
use mgmt_resources::timer::Timer;
use mgmt_resources::value::Value as Keep;
use mgmt_value::{Function, Str, Type, Value};

fn groups(parent: &dyn Resource, child: &dyn Resource) -> bool {
    parent.groups_with(child)
}

fn print(msg: &str) -> Print {
    Print { msg: Str::from(msg), refresh_only: false }
}

#[tokio::test]
async fn noop_is_always_right() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", Noop { comment: "remark".into(), forward: false, ..Noop::default() });
    for run in [Run::APPLY, Run::LOOK, Run::REFRESH] {
        assert_eq!(vertex.run(run).await.checked(), Checked::Right);
    }
    let log = Log::capture();
    vertex.apply().await.checked();
    assert!(log.take().is_empty());
    vertex.run(Run::REFRESH).await.checked();
    assert_eq!(log.take(), ["notified"]);
    assert!(groups(&Noop::default(), &Noop { comment: "other".into(), forward: false, ..Noop::default() }));
    assert!(!groups(&Noop::default(), &Panic));
    assert!(vertex.validate().is_ok());
}

#[tokio::test]
async fn a_noop_that_forwards_tells_a_notification_on_and_is_never_grouped() {
    let bench = TestEnv::new();
    let forwards = Noop { forward: true, ..Noop::default() };
    let mut vertex = bench.vertex("a", forwards.clone());
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(vertex.run(Run::REFRESH).await.checked(), Checked::Forwarded);
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    let look = Run { apply: false, ..Run::REFRESH };
    assert_eq!(vertex.run(look).await.checked(), Checked::Right);
    assert!(!groups(&forwards, &forwards) && !groups(&Noop::default(), &forwards));
}

#[tokio::test]
async fn panic_is_always_right() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("_panic", Panic);
    for run in [Run::APPLY, Run::LOOK, Run::REFRESH] {
        assert_eq!(vertex.run(run).await.checked(), Checked::Right);
    }
    assert!(vertex.validate().is_ok());
    assert_eq!(schema_of::<Panic>().kind, "_panic");
    assert!(schema_of::<Panic>().fields.is_empty());
}

#[tokio::test]
async fn print_writes_a_message_once_and_again_when_it_changes() {
    let bench = TestEnv::new();
    let log = Log::capture();
    let mut vertex = bench.vertex("a", print("hello\nworld"));
    assert_eq!(vertex.apply().await.checked(), Checked::Forwarded);
    assert_eq!(log.take(), [r"hello\nworld"]);
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(vertex.look().await.checked(), Checked::Right);
    assert!(log.take().is_empty());

    vertex.resource.msg = "other".into();
    let received = Run { received: &[("msg", true)], ..Run::APPLY };
    assert_eq!(vertex.run(received).await.checked(), Checked::Forwarded);
    assert_eq!(log.take(), ["received a new message", "other"]);
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    vertex.resource.msg = Str::EMPTY;
    assert_eq!(vertex.apply().await.checked(), Checked::Forwarded);
    assert_eq!(log.take(), ["(empty)"]);
}

#[tokio::test]
async fn print_writes_nothing_when_only_looking() {
    let bench = TestEnv::new();
    let log = Log::capture();
    let mut vertex = bench.vertex("a", print("hello"));
    assert_eq!(vertex.look().await.checked(), Checked::Forwarded);
    assert_eq!(vertex.look().await.checked(), Checked::Forwarded);
    assert!(log.take().is_empty());
    assert_eq!(vertex.apply().await.checked(), Checked::Forwarded);
    assert_eq!(log.take(), ["hello"]);
}

#[tokio::test]
async fn print_with_refresh_only_waits_for_a_notification() {
    let bench = TestEnv::new();
    let log = Log::capture();
    let mut vertex = bench.vertex("a", Print { refresh_only: true, ..print("hello") });
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert!(log.take().is_empty());
    assert_eq!(vertex.run(Run { refresh: true, ..Run::LOOK }).await.checked(), Checked::Forwarded);
    assert_eq!(log.take(), ["notified"]);
    for _ in 0..2 {
        assert_eq!(vertex.run(Run::REFRESH).await.checked(), Checked::Forwarded);
        assert_eq!(log.take(), ["notified", "hello"]);
    }
    vertex.resource.msg = "other".into();
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert!(log.take().is_empty());
}

#[tokio::test]
async fn a_notification_alone_does_not_make_print_repeat_itself() {
    let bench = TestEnv::new();
    let log = Log::capture();
    let mut vertex = bench.vertex("a", print("hello"));
    vertex.apply().await.checked();
    assert_eq!(vertex.run(Run::REFRESH).await.checked(), Checked::Right);
    assert_eq!(log.take(), ["hello", "notified"]);
}

#[tokio::test]
async fn a_group_of_prints_is_shown_as_a_whole_when_one_has_changed() {
    let bench = TestEnv::new();
    let log = Log::capture();
    let mut vertex = bench.vertex("a", print("one"));
    let (two, three) = (print("two"), print(""));
    let children: [(Id, &dyn Resource); 2] = [(Id::new("print", "c"), &two), (Id::new("print", "b"), &three)];
    let run = Run { children: &children, ..Run::APPLY };
    assert_eq!(vertex.run(Run { apply: false, ..run }).await.checked(), Checked::Forwarded);
    assert!(log.take().is_empty());
    assert_eq!(vertex.run(run).await.checked(), Checked::Forwarded);
    assert_eq!(log.take(), ["one", "print[b]: (empty)", "print[c]: two"]);
    assert_eq!(vertex.run(run).await.checked(), Checked::Right);
    assert!(log.take().is_empty());

    let changed = print("TWO");
    let children: [(Id, &dyn Resource); 2] =
        [(Id::new("print", "c"), &changed), (Id::new("print", "b"), &three)];
    assert_eq!(vertex.run(Run { children: &children, ..Run::APPLY }).await.checked(), Checked::Forwarded);
    assert_eq!(log.take(), ["one", "print[b]: (empty)", "print[c]: TWO"]);
    assert_eq!(vertex.apply().await.checked(), Checked::Right, "a member that has left is no news");
}

#[test]
fn prints_that_wait_for_a_notification_are_not_grouped() {
    let waiting = Print { refresh_only: true, ..print("") };
    assert!(groups(&print("a"), &print("b")));
    assert!(!groups(&print("a"), &waiting));
    assert!(!groups(&waiting, &print("a")));
    assert!(!groups(&print("a"), &Noop::default()));
    assert!(schema_of::<Print>().traits.batch);
}

#[tokio::test]
async fn timer_ticks_when_an_interval_is_over_and_the_first_run_only_begins() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", Timer { interval: 1 });
    let first = vertex.apply().await;
    assert!(first.rearm, "the watch begins with us");
    assert_eq!(first.checked(), Checked::Right);
    let second = vertex.apply().await;
    assert!(!second.rearm);
    assert_eq!(second.checked(), Checked::Right, "woken by somebody else");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let tick = vertex.apply().await;
    assert!(!tick.rearm, "a tick does not move the next one");
    assert_eq!(tick.checked(), Checked::Forwarded);
}

#[tokio::test]
async fn a_notification_starts_the_interval_of_a_timer_anew_and_is_passed_on() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", Timer { interval: 3600 });
    vertex.apply().await.checked();
    let looked = vertex.run(Run { refresh: true, ..Run::LOOK }).await;
    assert!(!looked.rearm);
    assert_eq!(looked.checked(), Checked::Forwarded);
    for _ in 0..2 {
        let refreshed = vertex.run(Run::REFRESH).await;
        assert!(refreshed.rearm);
        assert_eq!(refreshed.checked(), Checked::Forwarded);
    }
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
}

#[test]
fn a_timer_watches_its_interval_and_refuses_none() {
    assert_eq!(refused(&Timer { interval: 0 }), "`interval`: expected a number of seconds from 1, found 0");
    assert_eq!(refused(&Timer::default()), refused(&Timer { interval: 0 }));
    let timer = Timer { interval: 7 };
    assert!(Kind::validate(&timer, &Str::EMPTY).is_ok());
    assert_eq!(Kind::watches(&timer, &Str::EMPTY), [Watch::Interval(Duration::from_secs(7))]);
}

#[tokio::test]
async fn exit_asks_for_the_end_with_the_first_status() {
    let bench = TestEnv::new();
    assert_eq!(bench.vertex("a", Exit { code: 3 }).look().await.checked(), Checked::Changed);
    assert_eq!(*bench.host.exit.borrow(), None);
    assert_eq!(bench.vertex("a", Exit { code: 3 }).apply().await.checked(), Checked::Changed);
    assert_eq!(*bench.host.exit.borrow(), Some(3));
    assert_eq!(bench.vertex("b", Exit { code: 4 }).apply().await.checked(), Checked::Changed);
    assert_eq!(*bench.host.exit.borrow(), Some(3));
}

#[test]
fn exit_refuses_a_status_that_shells_use() {
    for code in [0, 1, 125] {
        assert!(Kind::validate(&Exit { code }, &Str::EMPTY).is_ok());
    }
    for code in [126, 255] {
        assert_eq!(refused(&Exit { code }), format!("`code`: expected a status from 0 to 125, found {code}"));
    }
}

fn keep(value: Value) -> Keep {
    Keep { any: Some(value) }
}

#[tokio::test]
async fn value_stores_sends_and_survives_a_restart() {
    let mut bench = TestEnv::new();
    let value =
        Value::map(Type::Str, Type::list(Type::Int), [(Value::str("a"), Value::list(Type::Int, vec![]))]);
    {
        let mut vertex = bench.vertex("some/name", keep(value.clone()));
        let looked = vertex.look().await;
        assert_eq!(looked.sent("any"), value, "also when only looking");
        assert_eq!(looked.checked(), Checked::Changed);
        assert_eq!(bench.host.local.value_get(&"some/name".into()).unwrap(), None);

        let applied = vertex.apply().await;
        assert_eq!(applied.sent("any"), value);
        assert_eq!(applied.checked(), Checked::Changed);
        assert_eq!(bench.host.local.value_get(&"some/name".into()).unwrap(), Some(value.clone()));
        for run in [Run::APPLY, Run::LOOK, Run::REFRESH] {
            let right = vertex.run(run).await;
            assert_eq!(right.sent("any"), value);
            assert_eq!(right.checked(), Checked::Right);
        }
    }
    bench.restart();
    assert_eq!(bench.host.local.value_get(&"some/name".into()).unwrap(), Some(value.clone()));
    assert_eq!(bench.vertex("some/name", keep(value)).apply().await.checked(), Checked::Right);
}

#[tokio::test]
async fn a_received_value_is_stored_and_is_news() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", keep(Value::str("declared")));
    vertex.apply().await.checked();
    vertex.resource.any = Some(Value::Int(1));
    let received = Run { received: &[("any", true)], ..Run::APPLY };
    let outcome = vertex.run(received).await;
    assert_eq!(outcome.sent("any"), Value::Int(1));
    assert_eq!(outcome.checked(), Checked::Changed);
    assert_eq!(bench.host.local.value_get(&"a".into()).unwrap(), Some(Value::Int(1)));
    assert_eq!(vertex.run(received).await.checked(), Checked::Changed);
    let old = Run { received: &[("any", false)], ..Run::APPLY };
    assert_eq!(vertex.run(old).await.checked(), Checked::Right);
}

#[tokio::test]
async fn an_unset_value_is_removed() {
    let bench = TestEnv::new();
    bench.vertex("a", keep(Value::Int(1))).apply().await.checked();
    let mut vertex = bench.vertex("a", Keep::default());
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(bench.host.local.value_get(&"a".into()).unwrap(), Some(Value::Int(1)));
    let outcome = vertex.apply().await;
    assert_eq!(outcome.sent("any"), Value::Nil);
    assert_eq!(outcome.checked(), Checked::Changed);
    assert_eq!(bench.host.local.value_get(&"a".into()).unwrap(), None);
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
}

struct Constant;

impl Function for Constant {
    fn ty(&self) -> Type {
        Type::func([("n", Type::Int)], Type::Str)
    }
    fn call(&self, _: &[Value]) -> Result<Value, String> {
        Ok(Value::Nil)
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_stored_is_an_error_and_not_sent() {
    let bench = TestEnv::new();
    let outcome = bench.vertex("a", keep(Value::Func(Arc::new(Constant)))).apply().await;
    assert!(outcome.sent.is_none());
    assert!(
        outcome.error().starts_with("cannot keep the value: cannot store a value of type func(n int) str")
    );
}

#[tokio::test]
async fn a_cancelled_run_is_told_apart_from_a_failed_one() {
    let bench = TestEnv::new();
    let test = mgmt_resources::test::Test { waitforerror: 3_600_000, ..Default::default() };
    let mut vertex = bench.vertex("a", test);
    vertex.cancel.raise(Stage::Cancel);
    assert!(vertex.apply().await.result.unwrap_err().is_cancelled());
}
