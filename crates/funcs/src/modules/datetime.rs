//! `datetime`

use std::time::{Duration, SystemTime};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::{Failure, Host, Watch, layout};

module! {
    path: "datetime",
    doc: "Times, in seconds since the beginning of 1970. Days and hours are those of the time zone of the process, in the examples UTC.",
    functions: [now, str_now, weekday_fast, weekday, hour, format, print],
}

const SECOND: Duration = Duration::from_secs(1);

fn seconds(host: &dyn Host) -> i64 {
    match host.now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_secs() as i64,
        Err(_) => 0,
    }
}

fn local(seconds: i64) -> Result<Zoned, Failure> {
    zoned(seconds, TimeZone::system())
}

fn zoned(seconds: i64, zone: TimeZone) -> Result<Zoned, Failure> {
    if seconds < 0 {
        return Err(Failure::fatal(format!("the time {seconds} is negative, expected one since 1970")));
    }
    let time = Timestamp::from_second(seconds);
    let time = time.map_err(|_| Failure::fatal(format!("the time {seconds} is beyond the year 9999")))?;
    Ok(time.to_zoned(zone))
}

/// The time now, once a second.
///
/// ```mcl
/// datetime.now() > 1700000000
/// ```
#[function(live = vec![Watch::Interval(SECOND)])]
fn now(host: &dyn Host) -> i64 {
    seconds(host)
}

/// The time now as text, once a second.
///
/// ```mcl,host
/// datetime.str_now() == "1700000000"
/// ```
#[function(live = vec![Watch::Interval(SECOND)])]
fn str_now(host: &dyn Host) -> String {
    seconds(host).to_string()
}

/// Today's day of the week in English and in lower case.
///
/// ```mcl,host
/// datetime.weekday_fast() == "sunday"
/// ```
#[function(live = vec![Watch::Midnight])]
fn weekday_fast(host: &dyn Host) -> Result<String, Failure> {
    weekday(seconds(host))
}

/// The day of the week of a time, in English and in lower case. A time before 1970 is a fatal error.
///
/// ```mcl
/// datetime.weekday(1443158163) == "friday"
/// ```
#[function]
fn weekday(a: i64) -> Result<String, Failure> {
    Ok(layout::weekday(&local(a)?).to_lowercase())
}

/// The hour of a time, from 0 to 23. A time before 1970 is a fatal error.
///
/// ```mcl
/// datetime.hour(1443158163) == 5
/// ```
#[function]
fn hour(a: i64) -> Result<i64, Failure> {
    Ok(i64::from(local(a)?.hour()))
}

/// A time as text. The layout shows how the second of January 2006, 15:04:05, would be written:
///
/// | part | layouts |
/// |---|---|
/// | year | `2006` `06` |
/// | month | `January` `Jan` `01` `1` |
/// | day | `02` `_2` `2`, of the year `002` `__2`, of the week `Monday` `Mon` |
/// | hour | `15`, or `03` `3` with `PM` or `pm` |
/// | minute, second | `04` `4`, `05` `5` |
/// | zone | `MST`, `-0700` `-07:00` `-07`, `Z0700` `Z07:00` `Z07` |
///
/// Everything else is copied. A time before 1970 is a fatal error.
///
/// ```mcl
/// datetime.format(1443158163, "2006") == "2015"
/// ```
#[function]
fn format(a: i64, b: &[u8]) -> Result<Str, Failure> {
    Ok(Str::new(layout::format(&local(a)?, b)))
}

/// A time as text, with its offset and the name of the zone. A time before 1970 is a fatal error.
///
/// ```mcl
/// datetime.print(1443158163) == "2015-09-25 05:16:03 +0000 UTC"
/// ```
#[function]
fn print(a: i64) -> Result<Str, Failure> {
    Ok(Str::new(layout::format(&local(a)?, b"2006-01-02 15:04:05 -0700 MST")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::{call_on, shown};
    use crate::{Body, Memory, library};
    use mgmt_value::Value;

    struct At(u64);

    impl Host for At {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + Duration::from_secs(self.0)
        }
    }

    #[test]
    fn times_have_parts() {
        let time = zoned(1_443_158_163, TimeZone::UTC).unwrap();
        assert_eq!(layout::weekday(&time), "Friday");
        assert_eq!(layout::format(&time, b"2006-01-02 15:04:05 -0700 MST"), b"2015-09-25 05:16:03 +0000 UTC");
        assert_eq!(time.hour(), 5);
        assert_eq!(
            weekday(1_443_158_163).unwrap(),
            layout::weekday(&local(1_443_158_163).unwrap()).to_lowercase()
        );
    }

    #[test]
    fn times_before_1970_and_after_9999_are_fatal() {
        for name in ["weekday", "hour", "print"] {
            for time in [-1, i64::MIN, i64::MAX] {
                let found = shown(&format!("datetime.{name}"), &[Value::Int(time)]);
                assert!(found.starts_with("F: the time"), "{name}: {found}");
            }
        }
        assert!(shown("datetime.format", &[Value::Int(-1), Value::str("06")]).starts_with("F: "));
    }

    #[test]
    fn now_is_what_the_host_says() {
        let at = |name: &str| call_on(&mut Memory::default(), &At(1_443_158_163), name, &[]).unwrap();
        assert_eq!(at("datetime.now"), Value::Int(1_443_158_163));
        assert_eq!(at("datetime.str_now"), Value::str("1443158163"));
        assert_eq!(at("datetime.weekday_fast"), Value::Str(weekday(1_443_158_163).unwrap().into()));
    }

    #[test]
    fn clocks_share_one_source() {
        let watches = |name| match library().function("datetime", name).unwrap().body {
            Body::Live { watches, .. } => watches(&[]).unwrap(),
            _ => panic!("{name} is not live"),
        };
        assert_eq!(watches("now"), watches("str_now"));
        assert_eq!(watches("now"), [Watch::Interval(SECOND)]);
        assert_eq!(watches("weekday_fast"), [Watch::Midnight]);
    }
}
