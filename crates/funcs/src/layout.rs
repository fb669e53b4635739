//! Times by example: a layout shows how the second of January 2006, 15:04:05 in a zone seven hours west, is to be written.

use jiff::Zoned;
use jiff::civil::Weekday;

/// Writes a time the way the layout shows. What is no part of a time is copied.
pub(crate) fn format(time: &Zoned, layout: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(layout.len() + 16);
    let mut rest = layout;
    while !rest.is_empty() {
        let (element, length) = element(rest).unwrap_or((Element::Text(rest[0]), 1));
        out.extend(element.write(time).bytes_or_text());
        rest = &rest[length..];
    }
    out
}

#[derive(Clone, Copy)]
enum Element {
    Text(u8),
    Month(Style),
    Weekday(Style),
    Day(Style),
    DayOfYear(Style),
    Year(Style),
    Hour24,
    Hour12(Style),
    Minute(Style),
    Second(Style),
    Noon {
        upper: bool,
    },
    Zone,
    Offset {
        z: bool,
        colons: bool,
        parts: u8,
    },
    /// Fractions of a second, which the language does not have.
    Fraction {
        mark: u8,
        digits: usize,
    },
    Nothing,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Long,
    Short,
    Plain,
    Zero,
    Blank,
}

/// The part of a time at the beginning of a layout, and its length there.
fn element(layout: &[u8]) -> Option<(Element, usize)> {
    let words: &[(&[u8], Element)] = match layout[0] {
        b'J' => &[(b"January", Element::Month(Style::Long)), (b"Jan", Element::Month(Style::Short))],
        b'M' => &[
            (b"Monday", Element::Weekday(Style::Long)),
            (b"Mon", Element::Weekday(Style::Short)),
            (b"MST", Element::Zone),
        ],
        b'0' => &[
            (b"002", Element::DayOfYear(Style::Zero)),
            (b"01", Element::Month(Style::Zero)),
            (b"02", Element::Day(Style::Zero)),
            (b"03", Element::Hour12(Style::Zero)),
            (b"04", Element::Minute(Style::Zero)),
            (b"05", Element::Second(Style::Zero)),
            (b"06", Element::Year(Style::Short)),
        ],
        b'1' => &[(b"15", Element::Hour24), (b"1", Element::Month(Style::Plain))],
        b'2' => &[(b"2006", Element::Year(Style::Long)), (b"2", Element::Day(Style::Plain))],
        b'_' => &[
            // A blank before the year is no padding.
            (b"_2006", Element::Text(b'_')),
            (b"__2", Element::DayOfYear(Style::Blank)),
            (b"_2", Element::Day(Style::Blank)),
        ],
        b'3' => &[(b"3", Element::Hour12(Style::Plain))],
        b'4' => &[(b"4", Element::Minute(Style::Plain))],
        b'5' => &[(b"5", Element::Second(Style::Plain))],
        b'P' => &[(b"PM", Element::Noon { upper: true })],
        b'p' => &[(b"pm", Element::Noon { upper: false })],
        b'-' => &[
            (b"-070000", Element::Offset { z: false, colons: false, parts: 3 }),
            (b"-07:00:00", Element::Offset { z: false, colons: true, parts: 3 }),
            (b"-0700", Element::Offset { z: false, colons: false, parts: 2 }),
            (b"-07:00", Element::Offset { z: false, colons: true, parts: 2 }),
            (b"-07", Element::Offset { z: false, colons: false, parts: 1 }),
        ],
        b'Z' => &[
            (b"Z070000", Element::Offset { z: true, colons: false, parts: 3 }),
            (b"Z07:00:00", Element::Offset { z: true, colons: true, parts: 3 }),
            (b"Z0700", Element::Offset { z: true, colons: false, parts: 2 }),
            (b"Z07:00", Element::Offset { z: true, colons: true, parts: 2 }),
            (b"Z07", Element::Offset { z: true, colons: false, parts: 1 }),
        ],
        b'.' | b',' => return fraction(layout),
        _ => return None,
    };
    let (word, element) = words.iter().find(|(word, _)| layout.starts_with(word))?;
    // "Janet" and "Month" are names and words of their own.
    let in_a_word = matches!(*word, b"Jan" | b"Mon") && layout.get(3).is_some_and(u8::is_ascii_lowercase);
    if in_a_word {
        return None;
    }
    let length = if matches!(element, Element::Text(_)) { 1 } else { word.len() };
    Some((*element, length))
}

fn fraction(layout: &[u8]) -> Option<(Element, usize)> {
    let digit = *layout.get(1).filter(|digit| matches!(digit, b'0' | b'9'))?;
    let digits = layout[1..].iter().take_while(|byte| **byte == digit).count();
    if layout.get(digits + 1).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    // Nines leave trailing zeros out, and there is nothing else.
    let element =
        if digit == b'0' { Element::Fraction { mark: layout[0], digits } } else { Element::Nothing };
    Some((element, digits + 1))
}

enum Written {
    Byte(u8),
    Text(String),
}

impl Written {
    fn bytes_or_text(self) -> Vec<u8> {
        match self {
            Written::Byte(byte) => vec![byte],
            Written::Text(text) => text.into_bytes(),
        }
    }
}

impl Element {
    fn write(self, time: &Zoned) -> Written {
        let hour12 = (time.hour() + 11) % 12 + 1;
        Written::Text(match self {
            Element::Text(byte) => return Written::Byte(byte),
            Element::Nothing => String::new(),
            Element::Month(Style::Long) => month(time).to_owned(),
            Element::Month(Style::Short) => month(time)[..3].to_owned(),
            Element::Month(style) => number(time.month(), style, 2),
            Element::Weekday(Style::Short) => weekday(time)[..3].to_owned(),
            Element::Weekday(_) => weekday(time).to_owned(),
            Element::Day(style) => number(time.day(), style, 2),
            Element::DayOfYear(style) => number(time.day_of_year(), style, 3),
            Element::Year(Style::Short) => format!("{:02}", time.year().rem_euclid(100)),
            Element::Year(_) => format!("{:04}", time.year()),
            Element::Hour24 => format!("{:02}", time.hour()),
            Element::Hour12(style) => number(hour12, style, 2),
            Element::Minute(style) => number(time.minute(), style, 2),
            Element::Second(style) => number(time.second(), style, 2),
            Element::Noon { upper } => match (time.hour() < 12, upper) {
                (true, true) => "AM",
                (true, false) => "am",
                (false, true) => "PM",
                (false, false) => "pm",
            }
            .to_owned(),
            Element::Zone => zone(time),
            Element::Offset { z: true, .. } if time.offset().seconds() == 0 => "Z".to_owned(),
            Element::Offset { colons, parts, .. } => offset(time, colons, parts),
            Element::Fraction { mark, digits } => format!("{}{}", char::from(mark), "0".repeat(digits)),
        })
    }
}

fn number(number: impl Into<i64>, style: Style, width: usize) -> String {
    let number: i64 = number.into();
    match style {
        Style::Zero => format!("{number:0width$}"),
        Style::Blank => format!("{number:width$}"),
        Style::Long | Style::Short | Style::Plain => number.to_string(),
    }
}

fn offset(time: &Zoned, colons: bool, parts: u8) -> String {
    let seconds = time.offset().seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.unsigned_abs();
    let numbers = [seconds / 3600, seconds / 60 % 60, seconds % 60];
    let texts: Vec<_> =
        numbers.iter().take(usize::from(parts)).map(|number| format!("{number:02}")).collect();
    format!("{sign}{}", texts.join(if colons { ":" } else { "" }))
}

/// The short name of the zone, or its offset when it has none.
fn zone(time: &Zoned) -> String {
    let info = time.time_zone().to_offset_info(time.timestamp());
    let name = info.abbreviation();
    if name.is_empty() { offset(time, false, 2) } else { name.to_owned() }
}

pub(crate) fn month(time: &Zoned) -> &'static str {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    usize::try_from(time.month() - 1).ok().and_then(|month| MONTHS.get(month)).copied().unwrap_or("January")
}

pub(crate) fn weekday(time: &Zoned) -> &'static str {
    match time.weekday() {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use jiff::tz::{Offset, TimeZone};

    fn check(layout: &str, expected: &str) {
        // Wednesday, 4 February 2009, 21:00:57 in Los Angeles.
        let time = Timestamp::from_second(1_233_810_057).unwrap();
        let time = time.to_zoned(TimeZone::posix("PST8PDT,M3.2.0,M11.1.0").unwrap());
        assert_eq!(String::from_utf8(format(&time, layout.as_bytes())).unwrap(), expected, "{layout}");
    }

    #[test]
    fn layouts_show_what_is_wanted() {
        for (layout, expected) in [
            ("Mon Jan _2 15:04:05 2006", "Wed Feb  4 21:00:57 2009"),
            ("Mon Jan _2 15:04:05 MST 2006", "Wed Feb  4 21:00:57 PST 2009"),
            ("Mon Jan 02 15:04:05 -0700 2006", "Wed Feb 04 21:00:57 -0800 2009"),
            ("02 Jan 06 15:04 MST", "04 Feb 09 21:00 PST"),
            ("Monday, 02-Jan-06 15:04:05 MST", "Wednesday, 04-Feb-09 21:00:57 PST"),
            ("2006-01-02T15:04:05Z07:00", "2009-02-04T21:00:57-08:00"),
            ("2006-01-02T15:04:05.000Z0700", "2009-02-04T21:00:57.000-0800"),
            ("3:04PM 3:04pm 03", "9:00PM 9:00pm 09"),
            ("am or pm: 1 2 3 4 5 6", "am or pm: 2 4 9 0 57 6"),
            ("Jan _2 15:04:05.999", "Feb  4 21:00:57"),
            ("002 __2 _2006", "035  35 _2009"),
            ("January Janet Month Mon", "February Janet Month Wed"),
            ("-07 -070000 -07:00:00 Z07", "-08 -080000 -08:00:00 -08"),
            ("15:04:05,00 .0001", "21:00:57,00 .0002"),
            ("é\u{1f600}", "é\u{1f600}"),
            ("", ""),
        ] {
            check(layout, expected);
        }
    }

    #[test]
    fn no_offset_is_the_letter_z() {
        let time = Timestamp::from_second(0).unwrap().to_zoned(TimeZone::fixed(Offset::UTC));
        let text = |layout: &[u8]| String::from_utf8(format(&time, layout)).unwrap();
        assert_eq!(text(b"Z07:00 Z0700 -0700 03PM"), "Z Z +0000 12AM");
    }
}
