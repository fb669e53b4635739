//! When a resource may run: at which hours, on which days of the week, and how often.
//!
//! Pure: time comes in as an argument, and with it the zone in which hours and days are meant. A range of hours holds at both
//! of its ends. One that ends before it begins goes over midnight and belongs to the day on which it began.

use jiff::civil::{Date, Time, Weekday};
use jiff::{Timestamp, ToSpan as _, Unit, Zoned};
use mgmt_value::Str;

use crate::{Invalid, did_you_mean};

/// How many days ahead to look for the next opening. Every day of the week comes twice, should one be without the hour.
const DAYS_AHEAD: i32 = 14;

/// When something may run. What is not said is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    ranges: Vec<(Time, Time)>,
    /// Empty: every day.
    weekdays: Vec<Weekday>,
    period: Option<Period>,
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Never,
    /// So many seconds after the last time.
    Seconds(i64),
    /// In another hour, day, week or month than the last time. A week begins on Sunday.
    Calendar(Unit),
}

/// The periods: what each is called, how long it is in seconds, and what it is in a calendar.
const PERIODS: [(&str, i64, Unit); 4] = [
    ("hourly", 3600, Unit::Hour),
    ("daily", 86_400, Unit::Day),
    ("weekly", 604_800, Unit::Week),
    ("monthly", 2_592_000, Unit::Month),
];

/// The days, from Sunday.
const WEEKDAYS: [(&str, Weekday); 7] = [
    ("sunday", Weekday::Sunday),
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
];

impl Window {
    /// Reads the words of the metaparameter `window`. No words are no limit: nothing.
    ///
    /// # Errors
    ///
    /// Why one of them means nothing, and what would.
    pub fn parse(words: &[Str]) -> Result<Option<Window>, Invalid> {
        let wrong = |message: String| Invalid::field("window", message);
        let mut window = Window::default();
        let mut by_calendar = false;
        for word in words {
            let text = word.as_str().ok_or_else(|| wrong("a word is not UTF-8".to_owned()))?;
            if text == "calendar" {
                by_calendar = true;
            } else if let Some(weekday) = weekday(text) {
                window.weekdays.push(weekday);
            } else if text.contains('-') {
                window.ranges.push(range(text).ok_or_else(|| {
                    wrong(format!("`{text}` is no range of hours within a day"))
                        .with_hint("write it like 22:00-4:30, or 2-4")
                })?);
            } else {
                let period = period(text).ok_or_else(|| {
                    wrong(format!("`{text}` is neither hours, nor a day, nor how often"))
                        .with_hint(meant(text))
                })?;
                if window.period.replace(period).is_some() {
                    return Err(wrong(format!("`{text}` is a second word for how often")));
                }
            }
        }
        if by_calendar {
            let unit = |seconds| PERIODS.iter().find(|(_, length, _)| *length == seconds);
            let Some((_, _, unit)) = (match window.period {
                Some(Period::Seconds(seconds)) => unit(seconds),
                _ => None,
            }) else {
                let message =
                    "`calendar` goes with `hourly`, `daily`, `weekly` or `monthly`, without a number";
                return Err(wrong(message.to_owned()));
            };
            window.period = Some(Period::Calendar(*unit));
        }
        Ok((!words.is_empty()).then_some(window))
    }

    /// The first moment, from now on, at which something may run that ran last at a time in seconds; nothing if there is none
    /// that is near enough to be told.
    pub fn opens(&self, last: Option<i64>, now: &Zoned) -> Option<Timestamp> {
        let allowed = match (self.period, last) {
            (Some(Period::Never), _) => return None,
            (None, _) | (_, None) => now.timestamp(),
            (Some(period), Some(last)) => period.ends(last, now)?.max(now.timestamp()),
        };
        let from = allowed.to_zoned(now.time_zone().clone());
        if self.holds(&from) {
            return Some(allowed);
        }
        let starts: Vec<Time> = match self.ranges.as_slice() {
            [] => vec![Time::midnight()],
            ranges => ranges.iter().map(|(start, _)| *start).collect(),
        };
        (0..=DAYS_AHEAD).find_map(|days| {
            let date = from.date().checked_add(days.days()).ok()?;
            let openings = starts.iter().filter_map(|start| moment(&from, date, *start));
            openings.filter(|at| *at > allowed && self.holds(&at.to_zoned(from.time_zone().clone()))).min()
        })
    }

    /// Whether something may run now that ran last at a time in seconds.
    pub fn is_open(&self, last: Option<i64>, now: &Zoned) -> bool {
        self.opens(last, now).is_some_and(|opens| opens <= now.timestamp())
    }

    /// Whether it is one of the days and hours, however often.
    fn holds(&self, now: &Zoned) -> bool {
        let today = now.date();
        let allowed = |day: Date| self.weekdays.is_empty() || self.weekdays.contains(&day.weekday());
        if self.ranges.is_empty() {
            return allowed(today);
        }
        let (Ok(yesterday), Ok(tomorrow)) = (today.yesterday(), today.tomorrow()) else { return false };
        self.ranges.iter().any(|(start, end)| {
            let within = |first: Date, last: Date| {
                let (from, to) = (moment(now, first, *start), moment(now, last, *end));
                from.zip(to).is_some_and(|(from, to)| (from..=to).contains(&now.timestamp()))
            };
            if moment(now, today, *start) < moment(now, today, *end) {
                within(today, today) && allowed(today)
            } else if within(today, tomorrow) {
                allowed(today)
            } else {
                within(yesterday, today) && allowed(yesterday)
            }
        })
    }
}

impl Period {
    /// When the next one begins after something has run. A clock that was set back does not make anybody wait for longer than
    /// one period.
    fn ends(self, last: i64, now: &Zoned) -> Option<Timestamp> {
        let last = last.min(now.timestamp().as_second()).max(0);
        let unit = match self {
            Period::Never => return None,
            Period::Seconds(seconds) => return Timestamp::from_second(last.checked_add(seconds)?).ok(),
            Period::Calendar(unit) => unit,
        };
        let ran = Timestamp::from_second(last).ok()?.to_zoned(now.time_zone().clone());
        let (date, hour) = (ran.date(), ran.hour());
        match unit {
            Unit::Hour if hour < 23 => beginning(now, date, hour + 1),
            Unit::Week => {
                let days = 7 - date.weekday().to_sunday_zero_offset();
                beginning(now, date.checked_add(days.days()).ok()?, 0)
            }
            Unit::Month => beginning(now, date.first_of_month().checked_add(1.month()).ok()?, 0),
            _ => beginning(now, date.tomorrow().ok()?, 0),
        }
    }
}

/// A time of a day, in the zone of another. Of two on the night on which the clock goes back, the second, as with Puppet; one that the clock
/// leaves out is as much later.
fn moment(zone: &Zoned, date: Date, time: Time) -> Option<Timestamp> {
    let found = zone.time_zone().to_ambiguous_zoned(date.to_datetime(time)).later();
    found.ok().map(|zoned| zoned.timestamp())
}

/// The first moment of an hour of a day.
fn beginning(zone: &Zoned, date: Date, hour: i8) -> Option<Timestamp> {
    let time = Time::new(hour, 0, 0, 0).ok()?;
    let found = zone.time_zone().to_ambiguous_zoned(date.to_datetime(time)).compatible();
    found.ok().map(|zoned| zoned.timestamp())
}

fn weekday(word: &str) -> Option<Weekday> {
    let word = word.to_ascii_lowercase();
    let found = WEEKDAYS.iter().find(|(name, _)| *name == word || name[..3] == word);
    found.map(|(_, weekday)| *weekday)
}

fn range(word: &str) -> Option<(Time, Time)> {
    let (from, to) = word.split_once('-')?;
    Some((time(from.trim())?, time(to.trim())?))
}

/// `H`, `H:MM` or `H:MM:SS`.
fn time(text: &str) -> Option<Time> {
    let mut parts = [0_i8; 3];
    for (count, part) in text.split(':').enumerate() {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *parts.get_mut(count)? = part.parse().ok().filter(|_| is_number)?;
    }
    Time::new(parts[0], parts[1], parts[2], 0).ok()
}

fn period(word: &str) -> Option<Period> {
    if word == "never" {
        return Some(Period::Never);
    }
    let (name, times) = match word.split_once('/') {
        Some((name, times)) => (name, times.parse::<i64>().ok().filter(|times| *times > 0)?),
        None => (word, 1),
    };
    PERIODS.iter().find(|(found, ..)| *found == name).map(|(_, seconds, _)| Period::Seconds(seconds / times))
}

/// What somebody may have meant by a word that means nothing.
fn meant(text: &str) -> String {
    let periods = PERIODS.iter().map(|(word, ..)| *word);
    let words = WEEKDAYS.iter().map(|(word, _)| *word).chain(periods).chain(["never", "calendar"]);
    match did_you_mean(text, words) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "hours are written like 22:00-4:30, days like `sat`, and how often is `hourly`, `daily`, `weekly`, `monthly` or \
                 `never`; `hourly/2` is twice an hour"
            .to_owned(),
    }
}

/// In words, why something does not run: its window, and when that opens.
pub fn held(words: &[Str], opens: Option<Timestamp>, now: &Zoned) -> String {
    let words: Vec<String> = words.iter().map(|word| word.display().to_string()).collect();
    let words = words.join(" ");
    match opens.map(|opens| opens.to_zoned(now.time_zone().clone())) {
        Some(opens) => {
            format!("left alone until {}: its window is {words}", opens.strftime("%Y-%m-%d %H:%M:%S"))
        }
        None => format!("left alone: its window is {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(words: &[&str]) -> Window {
        let words: Vec<Str> = words.iter().map(|word| Str::from(*word)).collect();
        Window::parse(&words).unwrap().unwrap()
    }

    fn at(text: &str) -> Zoned {
        format!("{text}[Europe/Berlin]").parse().unwrap()
    }

    /// When it opens, seen from a time.
    fn opens(words: &[&str], last: Option<&str>, now: &str) -> String {
        let now = at(now);
        let last = last.map(|last| at(last).timestamp().as_second());
        match window(words).opens(last, &now) {
            Some(opens) if opens == now.timestamp() => "now".to_owned(),
            Some(opens) => opens.to_zoned(now.time_zone().clone()).strftime("%a %d %H:%M:%S").to_string(),
            None => "never".to_owned(),
        }
    }

    #[test]
    fn it_opens_at_the_first_moment_that_fulfils_everything() {
        // The 17th of November 2026 is a Tuesday.
        let cases: &[(&[&str], Option<&str>, &str, &str)] = &[
            (&["2-4"], None, "2026-11-17T03:00", "now"),
            (&["2-4"], None, "2026-11-17T04:00", "now"),
            (&["2-4"], None, "2026-11-17T04:00:01", "Wed 18 02:00:00"),
            (&["22:00-4:30"], None, "2026-11-17T12:00", "Tue 17 22:00:00"),
            (&["22-4", "sat"], None, "2026-11-17T23:00", "Sat 21 22:00:00"),
            (&["22-4", "sat"], None, "2026-11-22T02:00", "now"),
            (&["22-4", "sat"], None, "2026-11-21T02:00", "Sat 21 22:00:00"),
            (&["sun", "monday"], None, "2026-11-17T12:00", "Sun 22 00:00:00"),
            (&["hourly/2"], Some("2026-11-17T12:00"), "2026-11-17T12:10", "Tue 17 12:30:00"),
            (&["daily", "2-4"], Some("2026-11-17T02:00"), "2026-11-17T03:00", "Wed 18 02:00:00"),
            (&["daily", "2-4"], Some("2026-11-17T03:59"), "2026-11-18T02:00", "Wed 18 03:59:00"),
            (&["daily", "calendar"], Some("2026-11-17T12:00"), "2026-11-17T13:00", "Wed 18 00:00:00"),
            (&["hourly", "calendar"], Some("2026-11-17T23:30"), "2026-11-17T23:40", "Wed 18 00:00:00"),
            (&["weekly", "calendar"], Some("2026-11-17T12:00"), "2026-11-17T13:00", "Sun 22 00:00:00"),
            (&["monthly", "calendar"], Some("2026-11-17T12:00"), "2026-11-17T13:00", "Tue 01 00:00:00"),
            (&["daily"], None, "2026-11-17T13:00", "now"),
            (&["never"], None, "2026-11-17T13:00", "never"),
            // A last time that is still to come was a mistake of the clock.
            (&["daily"], Some("2027-11-17T12:00"), "2026-11-17T13:00", "Wed 18 13:00:00"),
        ];
        for (words, last, now, expected) in cases {
            assert_eq!(opens(words, *last, now), *expected, "{words:?} after {last:?} at {now}");
        }
    }

    #[test]
    fn a_last_time_that_cannot_be_keeps_nobody_waiting_for_ever() {
        let now = at("2026-11-17T13:00");
        for words in [&["daily"][..], &["monthly", "calendar"], &["hourly/3600"]] {
            assert!(window(words).is_open(Some(i64::MIN), &now), "{words:?}");
            let opens = window(words).opens(Some(i64::MAX), &now).unwrap();
            assert!(opens.as_second() - now.timestamp().as_second() <= 31 * 86_400, "{words:?}");
        }
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        let wrong: [&[&str]; 11] = [
            &["sometimes"],
            &["25-26"],
            &["2-"],
            &["2:60-3"],
            &["-1-3"],
            &["daily", "hourly"],
            &["calendar"],
            &["never", "calendar"],
            &["hourly/2", "calendar"],
            &["hourly/0"],
            &["sa"],
        ];
        for words in wrong {
            let words: Vec<Str> = words.iter().map(|word| Str::from(*word)).collect();
            let invalid = Window::parse(&words).unwrap_err();
            assert_eq!(invalid.field, Some("window"), "{words:?}");
            assert!(words.len() > 1 || *words[0] == *b"calendar" || invalid.hint.is_some(), "{words:?}");
        }
        assert_eq!(Window::parse(&[]), Ok(None));
    }

    #[test]
    fn why_it_waits_is_told_in_the_time_of_the_host() {
        let (words, now) = ([Str::from("2-4"), Str::from("daily")], at("2026-11-17T12:00"));
        let told = held(&words, window(&["2-4", "daily"]).opens(None, &now), &now);
        assert_eq!(told, "left alone until 2026-11-18 02:00:00: its window is 2-4 daily");
        assert_eq!(held(&words[1..], None, &now), "left alone: its window is daily");
    }
}
