//! `sys`

use std::collections::BTreeMap;
use std::time::Duration;

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::module;
use crate::look::{Answer, Question, look_now};
use crate::{Failure, Watch};

module! {
    path: "sys",
    doc: "The machine and the environment of the process.",
    functions: [cpu_count, env, getenv, hasenv, hostname, load, uptime],
}

/// The number of processors that are switched on.
///
/// ```mcl,host
/// sys.cpu_count() == 4
/// ```
#[function(live = vec![Watch::Kernel("cpu")])]
fn cpu_count() -> Result<i64, Failure> {
    const PATH: &str = "/sys/devices/system/cpu/online";
    let text = match look_now(Question::Content(PATH.into()))? {
        Answer::Bytes(text) => text.to_text().into_owned(),
        Answer::Failed(message) => return Err(Failure::fatal(message)),
        _ => return Err(Failure::fatal(format!("can't read {PATH}: it does not exist"))),
    };
    count(text.trim()).ok_or_else(|| Failure::fatal(format!("{PATH} is not a list of numbers: {text:?}")))
}

/// How many numbers a list such as `0,2-4` names.
fn count(text: &str) -> Option<i64> {
    let part = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (i64, i64) = (low.parse().ok()?, high.parse().ok()?);
        (0 <= low && low <= high).then_some(high - low + 1)
    };
    text.split(',').map(part).sum()
}

/// All variables of the environment.
///
/// ```mcl,host
/// sys.env()["HOME"] == "/root"
/// ```
#[function(reads)]
fn env() -> BTreeMap<Str, Str> {
    let text = |text: std::ffi::OsString| Str::new(text.as_encoded_bytes());
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

fn variable(name: &Str) -> Option<Str> {
    // No variable has such a name, and the system would not take the question.
    if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
        return None;
    }
    std::env::var_os(name.as_path().as_os_str()).map(|value| Str::new(value.as_encoded_bytes()))
}

/// A variable of the environment. One that is not set is a catchable error; one that is set may be empty.
///
/// ```mcl
/// (sys.getenv("NO_SUCH_VARIABLE") <|> "default") == "default"
/// ```
#[function(reads, signature = "func(str) str")]
fn getenv(name: &Str) -> Result<Str, Failure> {
    variable(name).ok_or_else(|| Failure::catchable(format!("the environment variable {name:?} is not set")))
}

/// Whether a variable of the environment is set, even if it is empty.
///
/// ```mcl
/// sys.hasenv("NO_SUCH_VARIABLE") == false
/// ```
#[function(reads, signature = "func(str) bool")]
fn hasenv(name: &Str) -> bool {
    variable(name).is_some()
}

/// The name that the kernel has for this host. It needs no other program to be asked, and follows every change.
///
/// ```mcl,host
/// sys.hostname() == "example.com"
/// ```
#[function(live = vec![Watch::Hostname])]
fn hostname() -> Str {
    Str::new(rustix::system::uname().nodename().to_bytes())
}

/// The average number of processes that wanted to run during the last 1, 5 and 15 minutes, every 5 seconds.
///
/// ```mcl
/// sys.load()->x1 >= 0.0
/// ```
#[function(
    live = vec![Watch::Interval(Duration::from_secs(5))],
    signature = "func() struct{x1 float; x5 float; x15 float}"
)]
fn load() -> Value {
    let [x1, x5, x15] = rustix::system::sysinfo().loads.map(|load| Value::Float(load as f64 / 65536.0));
    Value::structure([("x1", x1), ("x5", x5), ("x15", x15)])
}

/// The number of seconds since the machine was started, every second.
///
/// ```mcl
/// sys.uptime() > 0
/// ```
#[function(live = vec![Watch::Interval(Duration::from_secs(1))])]
fn uptime() -> i64 {
    rustix::system::sysinfo().uptime as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::{call, shown};

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(count("2,4-8,10-16"), Some(13));
        assert_eq!(count("0"), Some(1));
        for wrong in ["", "a", "3-1", "1,,2", "-1"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
        assert!(cpu_count().unwrap() >= 1);
    }

    #[test]
    fn variables_are_set_or_not() {
        let path = std::env::var_os("PATH").unwrap();
        assert_eq!(getenv(&"PATH".into()).unwrap(), Str::new(path.as_encoded_bytes()));
        assert!(hasenv(&"PATH".into()) && env().contains_key(&b"PATH"[..]));
        for name in ["", "a=b", "a\0b", "NO_SUCH_VARIABLE"] {
            assert!(!hasenv(&name.into()));
            assert!(
                shown("sys.getenv", &[Value::str(name)]).starts_with("C: the environment variable"),
                "{name}"
            );
        }
    }

    #[test]
    fn the_machine_runs() {
        assert!(uptime() > 0 && !hostname().is_empty());
        assert_eq!(call("sys.load", &[]).unwrap().ty().to_string(), "struct{x1 float; x5 float; x15 float}");
    }
}
