//! Text from data, by the rules of Go's `fmt`.

use super::data::Datum;
use crate::quote::{self, Keep};

/// The default text: `%v`.
pub(super) fn text(datum: &Datum) -> String {
    String::from_utf8_lossy(&bytes(datum)).into_owned()
}

/// The default text as bytes.
pub(super) fn bytes(datum: &Datum) -> Vec<u8> {
    match datum {
        Datum::Nil => b"<nil>".to_vec(),
        Datum::Bool(value) => value.to_string().into_bytes(),
        Datum::Int(number) => number.to_string().into_bytes(),
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

/// The longest padding or precision. Rust's own formatting panics above 16 bits, and adds a few digits of its own before.
const WIDEST: usize = 60_000;

#[derive(Default)]
struct Flags {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

pub(super) fn printf(format: &[u8], values: &[Datum]) -> Vec<u8> {
    let mut out = Vec::with_capacity(format.len());
    let mut rest = format;
    let mut used = 0;
    while let Some(percent) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..percent]);
        rest = &rest[percent + 1..];
        let mut flags = Flags::default();
        while let Some((flag, after)) = rest.split_first().filter(|(flag, _)| b"+-# 0".contains(flag)) {
            match flag {
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b'#' => flags.sharp = true,
                b' ' => flags.space = true,
                _ => flags.zero = true,
            }
            rest = after;
        }
        flags.width = count(&mut rest, values, &mut used, &mut flags.minus);
        if let Some(after) = rest.strip_prefix(b".") {
            rest = after;
            let mut negative = false;
            flags.precision = Some(count(&mut rest, values, &mut used, &mut negative).unwrap_or(0));
        }
        let Some((_, verb, width)) = crate::text::runes(&rest[..rest.len().min(4)]).next() else {
            out.extend_from_slice(b"%!(NOVERB)");
            break;
        };
        rest = &rest[width..];
        match values.get(used) {
            _ if verb == '%' => out.push(b'%'),
            Some(value) => {
                used += 1;
                out.extend(one(value, verb, &flags));
            }
            None => out.extend(format!("%!{verb}(MISSING)").into_bytes()),
        }
    }
    out.extend_from_slice(rest.get(..).filter(|rest| !rest.contains(&b'%')).unwrap_or_default());
    if used < values.len() {
        let extra = |value: &Datum| [value.kind().as_bytes(), b"=", &bytes(value)].concat();
        let extra: Vec<_> = values[used..].iter().map(extra).collect();
        out.extend([b"%!(EXTRA ", extra.join(&b", "[..]).as_slice(), b")"].concat());
    }
    out
}

/// A width or precision: digits, or `*` for the next value.
fn count(rest: &mut &[u8], values: &[Datum], used: &mut usize, negative: &mut bool) -> Option<usize> {
    if let Some(after) = rest.strip_prefix(b"*") {
        *rest = after;
        let value = values.get(*used);
        *used += usize::from(value.is_some());
        return match value {
            Some(Datum::Int(number)) => {
                *negative |= *number < 0;
                Some((number.unsigned_abs() as usize).min(WIDEST))
            }
            _ => None,
        };
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = std::str::from_utf8(&rest[..digits]).ok()?;
    *rest = &rest[digits..];
    text.parse::<usize>().ok().map(|count| count.min(WIDEST))
}

fn one(value: &Datum, verb: char, flags: &Flags) -> Vec<u8> {
    let inner = |items: Vec<Vec<u8>>, open: &[u8], close: &[u8]| [open, &items.join(&b' '), close].concat();
    match (value, verb) {
        (_, 'T') => pad(value.kind().as_bytes().to_vec(), flags, false),
        (_, 'v') if flags.sharp => pad(source(value), flags, false),
        (Datum::Nil, 'v') => pad(b"<nil>".to_vec(), flags, false),
        (Datum::Nil, verb) => format!("%!{verb}(<nil>)").into_bytes(),
        (Datum::Bool(value), 't' | 'v') => pad(value.to_string().into_bytes(), flags, false),
        (Datum::Int(number), verb) => int(*number, verb, flags).unwrap_or_else(|| wrong(value, verb)),
        (Datum::Float(number), verb) => float(*number, verb, flags).unwrap_or_else(|| wrong(value, verb)),
        (Datum::Str(text), verb) => string(text, verb, flags).unwrap_or_else(|| wrong(value, verb)),
        (Datum::List(items), verb) => {
            inner(items.iter().map(|item| one(item, verb, flags)).collect(), b"[", b"]")
        }
        (Datum::Map(entries), verb) => {
            let entry = |(k, v): &(Datum, Datum)| [one(k, verb, flags), one(v, verb, flags)].join(&b':');
            inner(entries.iter().map(entry).collect(), b"map[", b"]")
        }
        (Datum::Record(fields), verb) => {
            let field = |(name, value): &(String, Datum)| match flags.plus {
                true => [name.as_bytes(), b":", &one(value, verb, flags)].concat(),
                false => one(value, verb, flags),
            };
            inner(fields.iter().map(field).collect(), b"{", b"}")
        }
        (value, verb) => wrong(value, verb),
    }
}

fn wrong(value: &Datum, verb: char) -> Vec<u8> {
    [format!("%!{verb}({}=", value.kind()).as_bytes(), &bytes(value), b")"].concat()
}

/// `%#v`: as a program would write it.
fn source(value: &Datum) -> Vec<u8> {
    match value {
        Datum::Str(text) => quote::quote(text, Keep::Printable).into_bytes(),
        value => bytes(value),
    }
}

fn pad(text: Vec<u8>, flags: &Flags, numeric: bool) -> Vec<u8> {
    let missing = flags.width.unwrap_or(0).saturating_sub(crate::text::count(&text));
    if missing == 0 {
        return text;
    }
    if flags.minus {
        return [text, vec![b' '; missing]].concat();
    }
    if flags.zero && numeric {
        let sign = usize::from(text.first().is_some_and(|byte| b"+- ".contains(byte)));
        return [&text[..sign], &vec![b'0'; missing], &text[sign..]].concat();
    }
    [vec![if flags.zero { b'0' } else { b' ' }; missing], text].concat()
}

fn signed(negative: bool, digits: &str, flags: &Flags) -> String {
    let sign = match (negative, flags.plus, flags.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    format!("{sign}{digits}")
}

fn int(number: i64, verb: char, flags: &Flags) -> Option<Vec<u8>> {
    let magnitude = number.unsigned_abs();
    let character = || u32::try_from(number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
    let (digits, prefix) = match verb {
        'd' | 'v' => (magnitude.to_string(), ""),
        'b' => (format!("{magnitude:b}"), "0b"),
        'o' => (format!("{magnitude:o}"), "0"),
        'O' => (format!("0o{magnitude:o}"), ""),
        'x' => (format!("{magnitude:x}"), "0x"),
        'X' => (format!("{magnitude:X}"), "0X"),
        'c' => return Some(pad(character().to_string().into_bytes(), flags, false)),
        'q' => {
            let quoted = quote::quote(character().encode_utf8(&mut [0; 4]).as_bytes(), Keep::Printable);
            let inner = quoted.trim_matches('"').replace("\\\"", "\"").replace('\'', "\\'");
            let inner = if inner.is_empty() { "\"".to_owned() } else { inner };
            return Some(pad(format!("'{inner}'").into_bytes(), flags, false));
        }
        'U' => return Some(pad(format!("U+{magnitude:04X}").into_bytes(), flags, false)),
        _ => return None,
    };
    let width = flags.precision.unwrap_or(0);
    let digits = format!("{}{digits:0>width$}", if flags.sharp { prefix } else { "" });
    // A precision makes zeros of its own.
    let flags = &Flags { zero: flags.zero && flags.precision.is_none(), ..copy(flags) };
    Some(pad(signed(number < 0, &digits, flags).into_bytes(), flags, true))
}

fn copy(flags: &Flags) -> Flags {
    Flags { ..*flags }
}

fn float(number: f64, verb: char, flags: &Flags) -> Option<Vec<u8>> {
    let magnitude = number.abs();
    let digits = match verb {
        _ if !number.is_finite() => general(magnitude, None, b'e'),
        'f' | 'F' => format!("{magnitude:.*}", flags.precision.unwrap_or(6)),
        'e' => exponent(&format!("{magnitude:.*e}", flags.precision.unwrap_or(6)), 'e'),
        'E' => exponent(&format!("{magnitude:.*e}", flags.precision.unwrap_or(6)), 'E'),
        'v' | 'g' => general(magnitude, flags.precision, b'e'),
        'G' => general(magnitude, flags.precision, b'E'),
        _ => return None,
    };
    let digits = digits.trim_start_matches('+');
    let negative = number.is_sign_negative() && !number.is_nan();
    let flags = &Flags {
        zero: flags.zero && number.is_finite(),
        plus: flags.plus || number == f64::INFINITY,
        ..copy(flags)
    };
    Some(pad(signed(negative, digits, flags).into_bytes(), flags, true))
}

/// The shorter of plain and exponent notation, with the shortest digits that are exact or with so many digits.
fn general(number: f64, precision: Option<usize>, letter: u8) -> String {
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
fn exponent(text: &str, letter: char) -> String {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = match power.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', power),
    };
    format!("{mantissa}{letter}{sign}{digits:0>2}")
}

fn string(text: &[u8], verb: char, flags: &Flags) -> Option<Vec<u8>> {
    let cut = match flags.precision {
        Some(most) => crate::text::runes(text).nth(most).map_or(text, |(end, ..)| &text[..end]),
        None => text,
    };
    let hex = |upper: bool| {
        let digit = |byte: &u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        text.iter().map(digit).collect::<Vec<_>>().join(if flags.space { " " } else { "" }).into_bytes()
    };
    let out = match verb {
        's' | 'v' => cut.to_vec(),
        'q' if flags.sharp && quote::can_backquote(cut) => [b"`", cut, b"`"].concat(),
        'q' => quote::quote(cut, if flags.plus { Keep::Ascii } else { Keep::Printable }).into_bytes(),
        'x' => hex(false),
        'X' => hex(true),
        _ => return None,
    };
    Some(pad(out, flags, false))
}
