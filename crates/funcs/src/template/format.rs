//! Text from data, by the rules of Go's `fmt`.

use super::data::Datum;
use super::verb::{Flags, one};

/// The default text: `%v`.
pub(super) fn text(datum: &Datum) -> String {
    String::from_utf8_lossy(&bytes(datum)).into_owned()
}

/// The default text as bytes.
pub(super) fn bytes(datum: &Datum) -> Vec<u8> {
    match datum {
        Datum::Nil => b"<nil>".to_vec(),
        Datum::Bool(value) => value.to_string().into_bytes(),
        Datum::Int(number, _) => number.to_string().into_bytes(),
        Datum::Float(number) => general(*number, None, b'e').into_bytes(),
        Datum::Str(text) => text.to_vec(),
        Datum::List(items) => {
            let items: Vec<_> = items.iter().map(bytes).collect();
            [b"[", items.join(&b' ').as_slice(), b"]"].concat()
        }
        Datum::Map(entries) => {
            let entries: Vec<_> = entries.iter().map(|(k, v)| [bytes(k), bytes(v)].join(&b':')).collect();
            [b"map[", entries.join(&b' ').as_slice(), b"]"].concat()
        }
        Datum::Record(fields) => {
            let fields: Vec<_> = fields.iter().map(|(_, value)| bytes(value)).collect();
            [b"{", fields.join(&b' ').as_slice(), b"}"].concat()
        }
    }
}

/// All values, with a blank between two that are no texts.
pub(super) fn print(values: &[Datum]) -> Vec<u8> {
    let mut out = Vec::new();
    let is_text = |datum: &Datum| matches!(datum, Datum::Str(_));
    for (i, value) in values.iter().enumerate() {
        if i > 0 && !is_text(value) && !is_text(&values[i - 1]) {
            out.push(b' ');
        }
        out.extend(bytes(value));
    }
    out
}

/// All values with blanks between them, and the end of a line.
pub(super) fn println(values: &[Datum]) -> Vec<u8> {
    let mut out = values.iter().map(bytes).collect::<Vec<_>>().join(&b' ');
    out.push(b'\n');
    out
}

/// The largest width or precision that Go accepts from a value, and before the last digit of one in the format.
const MAX_COUNT: usize = 1_000_000;

/// A format while it is read.
struct Format<'a> {
    format: &'a [u8],
    at: usize,
    values: &'a [Datum],
    next_value: usize,
    /// An index such as `[2]` has changed the order of the values.
    is_reordered: bool,
    /// All indexes of the present verb are right.
    is_index_good: bool,
}

/// `printf` by the rules of Go's `fmt`.
pub(super) fn printf(format: &[u8], values: &[Datum]) -> Vec<u8> {
    let mut state = Format { format, at: 0, values, next_value: 0, is_reordered: false, is_index_good: true };
    let mut out = Vec::with_capacity(format.len());
    while let Some(percent) = memchr::memchr(b'%', &format[state.at..]) {
        out.extend_from_slice(&format[state.at..state.at + percent]);
        state.at += percent + 1;
        if !state.verb(&mut out) {
            break;
        }
    }
    out.extend_from_slice(format.get(state.at..).unwrap_or_default());
    if !state.is_reordered && state.next_value < values.len() {
        let extra = |value: &Datum| match value {
            Datum::Nil => b"<nil>".to_vec(),
            value => [value.go_type().as_bytes(), b"=", &bytes(value)].concat(),
        };
        let extra: Vec<_> = values[state.next_value..].iter().map(extra).collect();
        out.extend([b"%!(EXTRA ", extra.join(&b", "[..]).as_slice(), b")"].concat());
    }
    out
}

impl Format<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// One verb with its flags. False at the end of the format.
    fn verb(&mut self, out: &mut Vec<u8>) -> bool {
        let mut flags = Flags::default();
        self.is_index_good = true;
        while let Some(flag) = self.peek().filter(|flag| b"+-# 0".contains(flag)) {
            match flag {
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b'#' => flags.sharp = true,
                b' ' => flags.space = true,
                _ => flags.zero = true,
            }
            self.at += 1;
        }
        let mut after_index = self.index();
        after_index = self.width(&mut flags, after_index, out);
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.is_index_good &= !after_index;
            after_index = self.precision(&mut flags, out);
        }
        if !after_index {
            self.index();
        }
        let rest = self.format.get(self.at..).unwrap_or_default();
        let Some((_, verb, width)) = crate::text::runes(&rest[..rest.len().min(4)]).next() else {
            out.extend_from_slice(b"%!(NOVERB)");
            return false;
        };
        self.at += width;
        match self.values.get(self.next_value) {
            _ if verb == '%' => out.push(b'%'),
            _ if !self.is_index_good => out.extend(format!("%!{verb}(BADINDEX)").into_bytes()),
            None => out.extend(format!("%!{verb}(MISSING)").into_bytes()),
            Some(value) => {
                self.next_value += 1;
                // `%w` is for errors, of which there are none, and is read as `%v` nevertheless.
                if matches!(verb, 'v' | 'w') {
                    flags.sharp_v = std::mem::take(&mut flags.sharp);
                    flags.plus_v = std::mem::take(&mut flags.plus);
                }
                out.extend(one(value, verb, &flags));
            }
        }
        true
    }

    /// `[2]`: the value that comes next. Says whether there was one.
    fn index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.is_reordered = true;
        let rest = &self.format[self.at..];
        let Some(close) = memchr::memchr(b']', rest).filter(|close| rest.len() >= 3 && *close > 0) else {
            self.at += 1;
            self.is_index_good = false;
            return false;
        };
        self.at += close + 1;
        let index =
            std::str::from_utf8(&rest[1..close]).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let index = index.and_then(|text| text.parse::<usize>().ok()).filter(|index| *index <= MAX_COUNT);
        let found = index.and_then(|index| index.checked_sub(1)).filter(|index| *index < self.values.len());
        match found {
            Some(found) => self.next_value = found,
            None => self.is_index_good = false,
        }
        index.is_some()
    }

    fn width(&mut self, flags: &mut Flags, after_index: bool, out: &mut Vec<u8>) -> bool {
        if self.peek() == Some(b'*') {
            self.at += 1;
            match self.count_value() {
                None => out.extend_from_slice(b"%!(BADWIDTH)"),
                Some(width) => {
                    flags.minus |= width < 0;
                    flags.width = Some(width.unsigned_abs() as usize);
                }
            }
            return false;
        }
        flags.width = self.count();
        self.is_index_good &= !(after_index && flags.width.is_some());
        after_index
    }

    fn precision(&mut self, flags: &mut Flags, out: &mut Vec<u8>) -> bool {
        let after_index = self.index();
        if self.peek() == Some(b'*') {
            self.at += 1;
            match self.count_value() {
                Some(precision) if precision >= 0 => {
                    flags.precision = Some(precision.unsigned_abs() as usize);
                }
                // A negative one counts as none, and is said to be wrong, as in Go.
                _ => out.extend_from_slice(b"%!(BADPREC)"),
            }
            return false;
        }
        flags.precision = Some(self.count().unwrap_or(0));
        after_index
    }

    /// The next value as a width or precision.
    fn count_value(&mut self) -> Option<i64> {
        let value = self.values.get(self.next_value)?;
        self.next_value += 1;
        match value {
            Datum::Int(number, _) if number.unsigned_abs() <= MAX_COUNT as u64 => Some(*number),
            _ => None,
        }
    }

    /// Digits. A number that is too large ends the format.
    fn count(&mut self) -> Option<usize> {
        let rest = &self.format[self.at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        self.at += digits;
        let number = std::str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse::<usize>().ok());
        let number = number.filter(|number| *number / 10 <= MAX_COUNT);
        if number.is_none() {
            self.at = self.format.len();
        }
        number
    }
}

/// The shorter of plain and exponent notation, with the shortest digits that are exact or with so many digits.
pub(super) fn general(number: f64, precision: Option<usize>, letter: u8) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = match precision {
        Some(digits) => format!("{number:.*e}", digits.max(1) - 1),
        None => format!("{number:e}"),
    };
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let limit = match precision {
        // Digits that are there stay out of the exponent as long as they can.
        Some(digits) => digits.max(1) as i32,
        None => 6,
    };
    if power < -4 || power >= limit {
        return exponent(&format!("{}e{power}", trim(mantissa)), char::from(letter));
    }
    match precision {
        Some(digits) => trim(&format!("{number:.*}", (digits.max(1) as i32 - 1 - power).max(0) as usize)),
        None => number.to_string(),
    }
}

/// At least two digits and always a sign.
pub(super) fn exponent(text: &str, letter: char) -> String {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = match power.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', power),
    };
    format!("{mantissa}{letter}{sign}{digits:0>2}")
}
