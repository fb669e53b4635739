//! `test`

use std::collections::BTreeMap;
use std::time::Duration;

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::module;
use crate::{Failure, Host, Memory, Watch};

module! {
    path: "test",
    doc: "Functions that tests of the language use to see how often they are called.",
    functions: [
        fastcount, forloop, forkvloop, one_instance_a, one_instance_b, one_instance_c, one_instance_d, one_instance_e,
        one_instance_f, one_instance_g, one_instance_h, one_stream, slow_string,
    ],
}

const PERIOD: Duration = Duration::from_secs(5);

/// How long the slow text takes.
const SLOW: Duration = Duration::from_secs(5);

/// The longest text that `one_stream` makes.
const LONGEST: i64 = 1 << 20;

fn once(host: &dyn Host, name: &'static str) -> Result<String, Failure> {
    match host.is_first(name) {
        true => Ok("hello".to_owned()),
        false => Err(Failure::fatal(format!("test.{name} was called a second time"))),
    }
}

/// Counts its own calls, as fast as they are made.
///
/// ```mcl
/// test.fastcount() >= 0
/// ```
#[function(live = vec![Watch::Endless])]
fn fastcount(memory: &mut Memory) -> i64 {
    let count = memory.get::<i64>();
    let now = *count;
    *count = count.wrapping_add(1);
    now
}

/// A list that differs between the first call and all others.
///
/// ```mcl
/// test.forloop() == ["foo",]
/// ```
#[function(live = vec![Watch::Interval(PERIOD)])]
fn forloop(memory: &mut Memory) -> Vec<String> {
    let called = std::mem::replace(memory.get::<bool>(), true);
    vec![if called { "bar" } else { "foo" }.to_owned()]
}

/// A map that stays the same.
///
/// ```mcl
/// test.forkvloop() == {"foo" => "bar",}
/// ```
#[function(live = vec![Watch::Interval(PERIOD)])]
fn forkvloop() -> BTreeMap<String, String> {
    BTreeMap::from([("foo".to_owned(), "bar".to_owned())])
}

/// A greeting.
///
/// ```mcl
/// test.one_instance_a() == "hello"
/// ```
#[function(reads)]
fn one_instance_a() -> String {
    "hello".to_owned()
}

/// A greeting that may be asked for once in a program; a second call is a fatal error.
///
/// ```mcl
/// test.one_instance_b() == "hello"
/// ```
#[function(reads)]
fn one_instance_b(host: &dyn Host) -> Result<String, Failure> {
    once(host, "one_instance_b")
}

/// A greeting.
///
/// ```mcl
/// test.one_instance_c() == "hello"
/// ```
#[function(reads)]
fn one_instance_c() -> String {
    "hello".to_owned()
}

/// A greeting that may be asked for once in a program; a second call is a fatal error.
///
/// ```mcl
/// test.one_instance_d() == "hello"
/// ```
#[function(reads)]
fn one_instance_d(host: &dyn Host) -> Result<String, Failure> {
    once(host, "one_instance_d")
}

/// A greeting.
///
/// ```mcl
/// test.one_instance_e() == "hello"
/// ```
#[function(reads)]
fn one_instance_e() -> String {
    "hello".to_owned()
}

/// A greeting that may be asked for once in a program; a second call is a fatal error.
///
/// ```mcl
/// test.one_instance_f() == "hello"
/// ```
#[function(reads)]
fn one_instance_f(host: &dyn Host) -> Result<String, Failure> {
    once(host, "one_instance_f")
}

/// A greeting.
///
/// ```mcl
/// test.one_instance_g() == "hello"
/// ```
#[function(reads)]
fn one_instance_g() -> String {
    "hello".to_owned()
}

/// A greeting that may be asked for once in a program; a second call is a fatal error.
///
/// ```mcl
/// test.one_instance_h() == "hello"
/// ```
#[function(reads)]
fn one_instance_h(host: &dyn Host) -> Result<String, Failure> {
    once(host, "one_instance_h")
}

/// Some letters `x`. There is never an event, and a second call is a fatal error.
///
/// ```mcl
/// test.one_stream(3) == "xxx"
/// ```
#[function(live = vec![])]
fn one_stream(host: &dyn Host, count: i64) -> Result<Str, Failure> {
    if !(0..=LONGEST).contains(&count) {
        return Err(Failure::fatal(format!("can't make {count} letters, expected 0 to {LONGEST}")));
    }
    once(host, "one_stream")?;
    Ok(Str::new("x".repeat(count as usize)))
}

/// A text that takes five seconds to come. Nobody waits for it meanwhile.
///
/// ```mcl
/// test.slow_string() == "slow!"
/// ```
#[function(live = vec![Watch::Interval(SLOW)], signature = "func() str")]
fn slow_string(memory: &mut Memory, host: &dyn Host) -> Value {
    let now = host.uptime();
    let start = *memory.get::<Option<Duration>>().get_or_insert(now);
    // A little less, because the clock of the events need not have started with ours.
    match now.saturating_sub(start) >= SLOW - SLOW / 10 {
        true => Value::str("slow!"),
        false => Value::Nil,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashSet;

    #[derive(Default)]
    struct Program(RefCell<HashSet<&'static str>>, Duration);

    impl Host for Program {
        fn is_first(&self, name: &'static str) -> bool {
            self.0.borrow_mut().insert(name)
        }
        fn uptime(&self) -> Duration {
            self.1
        }
    }

    #[test]
    fn what_happens_once_happens_once_per_program() {
        let program = Program::default();
        assert!(one_instance_b(&program).is_ok() && one_instance_d(&program).is_ok());
        assert!(one_instance_f(&program).is_ok() && one_instance_h(&program).is_ok());
        assert!(matches!(one_instance_b(&program), Err(Failure::Fatal(_))));
        assert!(one_instance_b(&Program::default()).is_ok());
        assert!(one_stream(&program, -1).is_err() && one_stream(&program, i64::MAX).is_err());
        assert_eq!(one_stream(&program, 3).unwrap(), "xxx");
        assert!(one_stream(&program, 3).is_err());
    }

    #[test]
    fn calls_are_counted() {
        let mut memory = Memory::default();
        assert_eq!([fastcount(&mut memory), fastcount(&mut memory)], [0, 1]);
        let mut memory = Memory::default();
        assert_eq!(
            [forloop(&mut memory), forloop(&mut memory), forloop(&mut memory)],
            [["foo"], ["bar"], ["bar"]]
        );
    }

    #[test]
    fn slow_text_comes_in_time() {
        let mut memory = Memory::default();
        let mut at =
            |seconds| slow_string(&mut memory, &Program(RefCell::default(), Duration::from_secs(seconds)));
        assert_eq!(
            [at(10), at(12), at(15), at(16)],
            [Value::Nil, Value::Nil, Value::str("slow!"), Value::str("slow!")]
        );
    }
}
