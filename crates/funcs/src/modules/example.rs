//! `example` and `example/nested`

use std::time::Duration;

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::module;
use crate::{Failure, Host, Memory, Watch, numbers};

pub(crate) mod nested;

module! {
    path: "example",
    doc: "Functions to learn from.",
    functions: [answer, errorbool, flipflop, int2str, plus, str2int, vumeter],
}

/// The answer to everything.
///
/// ```mcl
/// example.answer() == 42
/// ```
#[function]
fn answer() -> i64 {
    42
}

/// A fatal error when the argument is true, and a hint when it is not.
///
/// ```mcl
/// len(example.errorbool(false)) == 44
/// ```
#[function(reads)]
fn errorbool(a: bool) -> Result<String, Failure> {
    match a {
        true => Err(Failure::fatal("we errored on request")),
        false => Ok("set input to true to generate an error value".to_owned()),
    }
}

/// How long a flipflop stays as it is.
const PERIOD: Duration = Duration::from_secs(5);

/// False and true in turn, every five seconds.
///
/// ```mcl,host
/// example.flipflop() == true
/// ```
#[function(live = vec![Watch::Interval(PERIOD)])]
fn flipflop(memory: &mut Memory, host: &dyn Host) -> bool {
    let now = host.uptime();
    let start = *memory.get::<Option<Duration>>().get_or_insert(now);
    // Half a period more, because the clock of the events need not have started with ours.
    let periods = (now.saturating_sub(start) + PERIOD / 2).as_secs() / PERIOD.as_secs();
    periods % 2 == 1
}

/// The decimal text of an int.
///
/// ```mcl
/// example.int2str(42) == "42"
/// ```
#[function]
fn int2str(a: i64) -> String {
    a.to_string()
}

/// Joins two texts.
///
/// ```mcl
/// example.plus("a", "b") == "ab"
/// ```
#[function]
fn plus(y: &[u8], z: &[u8]) -> Str {
    Str::new([y, z].concat())
}

/// Reads a decimal int. Other text gives 0.
///
/// ```mcl
/// example.str2int("42") == 42
/// example.str2int("hello") == 0
/// ```
#[function]
fn str2int(a: &[u8]) -> i64 {
    numbers::parse_int(a, 10, 64).unwrap_or(0)
}

/// Prints the loudest amplitude of each second, from 0 to 1, as long as there is a microphone and `rec` and `sox`.
const LISTEN: &str = "while level=$(rec -q -t wav - trim 0 1 2>/dev/null | sox -t wav - -n stat 2>&1 | \
    sed -n 's/^Maximum amplitude: *//p') && [ -n \"$level\" ]; do echo \"$level\"; done";

/// The longest bar.
const LONGEST: f64 = 10_000.0;

/// How loud it is, as a bar of symbols, every second. It needs the programs `rec` and `sox` and a microphone.
///
/// The bar is as long as the amplitude, from 0 to 1, times the multiplier; a peak is announced. There is no value before the
/// first second is over.
///
/// ```mcl,host
/// example.vumeter("*", 80, 0.9)
/// ```
#[function(
    live = vec![Watch::Command(Str::from(LISTEN))],
    signature = "func(symbol str, multiplier int, peak float) str"
)]
fn vumeter(host: &dyn Host, symbol: &[u8], multiplier: i64, peak: f64) -> Result<Value, Failure> {
    let unheard = |failure: Failure| {
        Failure::catchable(format!("no amplitude was measured with `rec` and `sox`: {failure}"))
    };
    let Some(line) = host.command_line(&Str::from(LISTEN)).map_err(unheard)? else { return Ok(Value::Nil) };
    let level = numbers::parse_float(line.trim_ascii(), 64).ok().filter(|level| (0.0..=1.0).contains(level));
    let level =
        level.ok_or_else(|| Failure::fatal(format!("expected an amplitude from 0 to 1, found {line:?}")))?;
    Ok(Value::str(meter(symbol, multiplier, peak, level)))
}

fn meter(symbol: &[u8], multiplier: i64, peak: f64, level: f64) -> Vec<u8> {
    let count = (level * multiplier as f64).round().clamp(1.0, LONGEST) as usize;
    let mut bar = symbol.repeat(count);
    if level > peak {
        bar.extend_from_slice(b" PEAK!!!");
    }
    [format!("({level:.6}):").into_bytes(), bar.clone(), bar].join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::shown;

    struct Clock(Duration);

    impl Host for Clock {
        fn uptime(&self) -> Duration {
            self.0
        }
    }

    #[test]
    fn a_flipflop_changes_with_time_and_not_with_calls() {
        let mut memory = Memory::default();
        let mut at = |milliseconds| flipflop(&mut memory, &Clock(Duration::from_millis(milliseconds)));
        assert_eq!(
            [at(1000), at(1001), at(5999), at(6001), at(10_999), at(11_001)],
            [false, false, true, true, false, false]
        );
    }

    #[test]
    fn simple_examples() {
        assert_eq!(shown("example.str2int", &[Value::str("x")]), "0");
        assert_eq!(shown("example.str2int", &[Value::str("-3")]), "-3");
        assert!(shown("example.errorbool", &[Value::Bool(true)]).starts_with("F: "));
        assert_eq!(shown("example/nested.hello", &[]), "\"Hello!\"");
    }

    #[test]
    fn a_meter_has_two_bars() {
        assert_eq!(meter(b"*", 10, 0.9, 0.25), b"(0.250000):\n***\n***");
        assert_eq!(meter(b"*", 2, 0.9, 1.0), b"(1.000000):\n** PEAK!!!\n** PEAK!!!");
        assert_eq!(meter(b"*", -5, 0.9, 0.5), b"(0.500000):\n*\n*");
    }
}
