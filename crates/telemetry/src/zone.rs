//! The local time zone, read once at the start: log lines show the time that a clock on the wall shows.
//!
//! Reads what the C library reads (`TZ`, else `/etc/localtime`; RFC 9636 and the POSIX rules in it). Whatever cannot
//! be understood is UTC: a wrong hour in a log line is no reason to fail.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::clock::{civil_date, days_from_civil};

/// How far clocks are from UTC, at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    /// Seconds east of UTC before the first change.
    first: i32,
    /// When the clocks changed, and to what.
    changes: Vec<(i64, i32)>,
    /// What holds after the last change.
    rule: Option<Rule>,
}

/// A rule for all years.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    standard: i32,
    summer: Option<Summer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Summer {
    offset: i32,
    begin: Change,
    end: Change,
}

/// When clocks are changed in a year, in the time that holds until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    day: Day,
    seconds: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    /// Day of the year from 1, leap days not counted.
    WithoutLeap(i64),
    /// Day of the year from 0.
    WithLeap(i64),
    /// Month, week (5 is the last) and day of the week from Sunday.
    Week { month: i64, week: i64, day: i64 },
}

/// No zone file is larger.
const LARGEST: u64 = 1 << 20;
const DIRECTORY: &str = "/usr/share/zoneinfo";

impl Zone {
    pub(crate) const UTC: Zone = Zone { first: 0, changes: Vec::new(), rule: None };

    #[cfg(test)]
    pub(crate) fn fixed(offset: i32) -> Zone {
        Zone { first: offset, ..Zone::UTC }
    }

    /// The zone of this process.
    pub(crate) fn local() -> Zone {
        let zone = match std::env::var("TZ") {
            Ok(text) if text.is_empty() => return Zone::UTC,
            Ok(text) => Zone::named(text.strip_prefix(':').unwrap_or(&text)),
            Err(_) => Zone::from_file(Path::new("/etc/localtime")),
        };
        zone.unwrap_or(Zone::UTC)
    }

    fn named(text: &str) -> Option<Zone> {
        let path = if text.starts_with('/') { PathBuf::from(text) } else { Path::new(DIRECTORY).join(text) };
        Zone::from_file(&path).or_else(|| {
            let rule = Rule::parse(text)?;
            Some(Zone { first: rule.standard, changes: Vec::new(), rule: Some(rule) })
        })
    }

    fn from_file(path: &Path) -> Option<Zone> {
        let mut bytes = Vec::new();
        let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?;
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        Zone::parse(&bytes)
    }

    /// Reads a compiled zone.
    fn parse(bytes: &[u8]) -> Option<Zone> {
        let mut reader = Reader(bytes);
        let first = Header::read(&mut reader)?;
        if first.version == 0 {
            return Zone::block(&mut reader, &first, 4);
        }
        reader.take(first.block_length(4)?)?;
        let second = Header::read(&mut reader)?;
        let mut zone = Zone::block(&mut reader, &second, 8)?;
        let footer = std::str::from_utf8(reader.0).ok()?.strip_prefix('\n')?;
        zone.rule = footer.split('\n').next().and_then(Rule::parse);
        Some(zone)
    }

    fn block(reader: &mut Reader<'_>, header: &Header, width: usize) -> Option<Zone> {
        let mut block = Reader(reader.take(header.block_length(width)?)?);
        let mut times = Reader(block.take(header.times.checked_mul(width)?)?);
        let kinds = block.take(header.times)?;
        let mut types = Reader(block.take(header.types.checked_mul(6)?)?);
        let mut offsets = Vec::with_capacity(header.types);
        for _ in 0..header.types {
            offsets.push(i32::from_be_bytes(types.take(6)?.get(..4)?.try_into().ok()?));
        }
        let mut changes = Vec::with_capacity(header.times);
        for kind in kinds {
            let time = times.take(width)?;
            let time = match width {
                4 => i64::from(i32::from_be_bytes(time.try_into().ok()?)),
                _ => i64::from_be_bytes(time.try_into().ok()?),
            };
            changes.push((time, *offsets.get(usize::from(*kind))?));
        }
        Some(Zone { first: *offsets.first()?, changes, rule: None })
    }

    /// Seconds east of UTC at a moment.
    pub(crate) fn offset_at(&self, moment: i64) -> i32 {
        let passed = self.changes.partition_point(|(time, _)| *time <= moment);
        match (&self.rule, passed) {
            (Some(rule), passed) if passed == self.changes.len() => rule.offset_at(moment),
            (_, 0) => self.first,
            (_, passed) => self.changes[passed - 1].1,
        }
    }
}

struct Header {
    version: u8,
    utc_marks: usize,
    standard_marks: usize,
    leaps: usize,
    times: usize,
    types: usize,
    characters: usize,
}

impl Header {
    fn read(reader: &mut Reader<'_>) -> Option<Header> {
        let bytes = reader.take(44)?;
        if !bytes.starts_with(b"TZif") {
            return None;
        }
        let count = |at: usize| -> Option<usize> {
            let at = 20 + 4 * at;
            usize::try_from(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?)).ok()
        };
        Some(Header {
            version: bytes[4],
            utc_marks: count(0)?,
            standard_marks: count(1)?,
            leaps: count(2)?,
            times: count(3)?,
            types: count(4)?,
            characters: count(5)?,
        })
    }

    /// The length of the data after the header, when a time takes so many bytes.
    fn block_length(&self, width: usize) -> Option<usize> {
        let counts = [
            (self.times, width + 1),
            (self.types, 6),
            (self.characters, 1),
            (self.leaps, width + 4),
            (self.standard_marks, 1),
            (self.utc_marks, 1),
        ];
        counts.iter().try_fold(0_usize, |sum, (count, each)| sum.checked_add(count.checked_mul(*each)?))
    }
}

impl Rule {
    /// Reads a POSIX rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
    fn parse(text: &str) -> Option<Rule> {
        let mut reader = Reader(text.as_bytes());
        reader.name()?;
        let standard = -reader.time()?;
        if reader.0.is_empty() {
            return Some(Rule { standard, summer: None });
        }
        reader.name()?;
        let offset = match reader.0.first() {
            None | Some(b',') => standard + 3600,
            Some(_) => -reader.time()?,
        };
        reader.expect(b',')?;
        let begin = reader.change()?;
        reader.expect(b',')?;
        let end = reader.change()?;
        reader.0.is_empty().then_some(Rule { standard, summer: Some(Summer { offset, begin, end }) })
    }

    fn offset_at(&self, moment: i64) -> i32 {
        let Some(summer) = &self.summer else { return self.standard };
        let local = moment.saturating_add(i64::from(self.standard));
        let (year, _, _) = civil_date(local.div_euclid(86_400));
        let begin = summer.begin.in_year(year) - i64::from(self.standard);
        let end = summer.end.in_year(year) - i64::from(summer.offset);
        // On the southern half the summer spans the new year.
        let is_summer =
            if begin < end { (begin..end).contains(&moment) } else { !(end..begin).contains(&moment) };
        if is_summer { summer.offset } else { self.standard }
    }
}

impl Change {
    /// Seconds since 1970 in local time.
    fn in_year(self, year: i64) -> i64 {
        let new_year = days_from_civil(year, 1, 1);
        let is_leap = days_from_civil(year, 3, 1) - days_from_civil(year, 2, 28) == 2;
        let day = match self.day {
            Day::WithLeap(day) => new_year + day,
            Day::WithoutLeap(day) => new_year + day - 1 + i64::from(is_leap && day >= 60),
            Day::Week { month, week, day } => {
                let first = days_from_civil(year, month, 1);
                let next_month = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
                let length = days_from_civil(next_month.0, next_month.1, 1) - first;
                // 1970-01-01 was a Thursday.
                let to_first_match = (day - (first + 4)).rem_euclid(7);
                let mut in_month = to_first_match + 7 * (week - 1);
                if in_month >= length {
                    in_month -= 7;
                }
                first + in_month
            }
        };
        day * 86_400 + i64::from(self.seconds)
    }
}

/// Takes bytes from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// The abbreviation of a zone: three letters or more, or anything in angle brackets.
    fn name(&mut self) -> Option<()> {
        if self.expect(b'<').is_some() {
            let end = self.0.iter().position(|byte| *byte == b'>')?;
            self.take(end + 1)?;
            return Some(());
        }
        let length = self.0.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        (length >= 3).then(|| self.take(length))?.map(|_| ())
    }

    fn number(&mut self, largest: i32) -> Option<i32> {
        let length = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = std::str::from_utf8(self.take(length)?).ok()?;
        digits.parse().ok().filter(|number| *number <= largest)
    }

    /// `[+-]hh[:mm[:ss]]` in seconds.
    fn time(&mut self) -> Option<i32> {
        let negative = self.expect(b'-').is_some();
        if !negative {
            self.expect(b'+');
        }
        let mut seconds = self.number(167)? * 3600;
        for unit in [60, 1] {
            if self.expect(b':').is_none() {
                break;
            }
            seconds += self.number(59)? * unit;
        }
        Some(if negative { -seconds } else { seconds })
    }

    fn change(&mut self) -> Option<Change> {
        let day = if self.expect(b'M').is_some() {
            let month = i64::from(self.number(12)?);
            self.expect(b'.')?;
            let week = i64::from(self.number(5)?);
            self.expect(b'.')?;
            let day = i64::from(self.number(6)?);
            (month >= 1 && week >= 1).then_some(Day::Week { month, week, day })?
        } else if self.expect(b'J').is_some() {
            Day::WithoutLeap(i64::from(self.number(365)?))
        } else {
            Day::WithLeap(i64::from(self.number(365)?))
        };
        let seconds = if self.expect(b'/').is_some() { self.time()? } else { 7200 };
        Some(Change { day, seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(rule: &str, moment: i64) -> i32 {
        Zone::named(rule).unwrap().offset_at(moment) / 3600
    }

    #[test]
    fn a_northern_rule_has_summer_in_the_middle_of_the_year() {
        let rule = "CET-1CEST,M3.5.0,M10.5.0/3";
        // 2024: from 31 March 01:00 UTC to 27 October 01:00 UTC.
        assert_eq!(hours(rule, 1_711_846_799), 1);
        assert_eq!(hours(rule, 1_711_846_800), 2);
        assert_eq!(hours(rule, 1_729_990_799), 2);
        assert_eq!(hours(rule, 1_729_990_800), 1);
    }

    #[test]
    fn a_southern_rule_has_summer_over_the_new_year() {
        let rule = "AEST-10AEDT,M10.1.0,M4.1.0/3";
        assert_eq!(hours(rule, 1_704_067_200), 11); // 1 January 2024
        assert_eq!(hours(rule, 1_719_792_000), 10); // 1 July 2024
    }

    #[test]
    fn a_rule_may_have_no_summer_and_a_name_in_brackets() {
        assert_eq!(hours("<+03>-3", 0), 3);
        assert_eq!(hours("EST5", 0), -5);
        assert_eq!(Zone::named("<-00>0:30").unwrap().offset_at(0), -1800);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "C", "CET", "CET-1CEST", "CET-999", "CET-1CEST,M13.1.1,M1.1.1", "<CET-1", "../../etc/passwd"]
        {
            assert_eq!(Rule::parse(text), None, "{text}");
        }
        assert_eq!(Zone::parse(b"TZif2"), None);
        assert_eq!(Zone::parse(&[b"TZif2".as_slice(), &[0xff; 200]].concat()), None);
    }

    #[test]
    fn a_compiled_zone_is_read_with_its_history_and_its_rule() {
        let header = |version: u8, times: u32, types: u32, characters: u32| {
            let mut bytes = b"TZif".to_vec();
            bytes.push(version);
            bytes.extend([0; 15]);
            for count in [0, 0, 0, times, types, characters] {
                bytes.extend(count.to_be_bytes());
            }
            bytes
        };
        let mut bytes = header(b'2', 0, 0, 0);
        bytes.extend(header(b'2', 2, 2, 8));
        bytes.extend(100_i64.to_be_bytes());
        bytes.extend(200_i64.to_be_bytes());
        bytes.extend([1, 0]);
        bytes.extend(1800_i32.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(5400_i32.to_be_bytes());
        bytes.extend([1, 4]);
        bytes.extend(b"AAA\0BBB\0");
        bytes.extend(b"\nCCC-2\n");
        let zone = Zone::parse(&bytes).unwrap();
        assert_eq!([99, 100, 199, 200].map(|moment| zone.offset_at(moment)), [1800, 5400, 5400, 7200]);
        for length in 0..bytes.len() {
            let _ = Zone::parse(&bytes[..length]);
        }
    }
}
