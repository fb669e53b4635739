//! One value for one verb, by the rules of Go's `fmt`.

use super::data::Datum;
use super::format::{exponent, general};
use crate::quote::{self, Keep};

/// More digits behind the point than any float has.
const MAX_FLOAT_DIGITS: usize = 1100;

/// What stands between the percent sign and the verb.
#[derive(Clone, Default)]
pub(super) struct Flags {
    pub(super) plus: bool,
    pub(super) minus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    /// `%+v`
    pub(super) plus_v: bool,
    /// `%#v`
    pub(super) sharp_v: bool,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
}

pub(super) fn one(value: &Datum, verb: char, flags: &Flags) -> Vec<u8> {
    match (value, verb) {
        (Datum::Nil, 'v' | 'T') => pad(b"<nil>".to_vec(), flags),
        (_, 'T') => string(value.go_type().as_bytes(), 's', flags).unwrap_or_default(),
        (Datum::Nil, verb) => format!("%!{verb}(<nil>)").into_bytes(),
        (Datum::Bool(value), 't' | 'v') => pad(value.to_string().into_bytes(), flags),
        (Datum::Int(number, _), verb) => {
            int(*number, verb, flags).unwrap_or_else(|| wrong(value, verb, flags))
        }
        (Datum::Float(number), verb) => {
            float(*number, verb, flags).unwrap_or_else(|| wrong(value, verb, flags))
        }
        (Datum::Str(text), 'v') if flags.sharp_v => string(text, 'q', flags).unwrap_or_default(),
        (Datum::Str(text), verb) => string(text, verb, flags).unwrap_or_else(|| wrong(value, verb, flags)),
        (Datum::List(_) | Datum::Map(_) | Datum::Record(_), 'w') => wrong(value, verb, flags),
        (Datum::List(items), verb) => {
            let items = items.iter().map(|item| one(item, verb, flags)).collect();
            around(value, items, flags, [b"[", b"]"])
        }
        (Datum::Map(entries), verb) => {
            let entry = |(k, v): &(Datum, Datum)| [one(k, verb, flags), one(v, verb, flags)].join(&b':');
            around(value, entries.iter().map(entry).collect(), flags, [b"map[", b"]"])
        }
        (Datum::Record(fields), verb) => {
            let field = |(name, value): &(String, Datum)| match flags.plus_v || flags.sharp_v {
                true => [name.as_bytes(), b":", &one(value, verb, flags)].concat(),
                false => one(value, verb, flags),
            };
            around(value, fields.iter().map(field).collect(), flags, [b"{", b"}"])
        }
        (value, verb) => wrong(value, verb, flags),
    }
}

/// What is in a list, map or struct, with what stands around it.
fn around(value: &Datum, items: Vec<Vec<u8>>, flags: &Flags, [open, close]: [&[u8]; 2]) -> Vec<u8> {
    match flags.sharp_v {
        true => [value.go_type().as_bytes(), b"{", &items.join(&b", "[..]), b"}"].concat(),
        false => [open, &items.join(&b' '), close].concat(),
    }
}

fn wrong(value: &Datum, verb: char, flags: &Flags) -> Vec<u8> {
    [format!("%!{verb}({}=", value.go_type()).as_bytes(), &one(value, 'v', flags), b")"].concat()
}

fn padding(missing: usize, flags: &Flags) -> Vec<u8> {
    // Zeros stand on the left alone.
    vec![if flags.zero && !flags.minus { b'0' } else { b' ' }; missing]
}

fn pad(text: Vec<u8>, flags: &Flags) -> Vec<u8> {
    let missing = flags.width.unwrap_or(0).saturating_sub(crate::text::count(&text));
    match (missing, flags.minus) {
        (0, _) => text,
        (_, true) => [text, padding(missing, flags)].concat(),
        (_, false) => [padding(missing, flags), text].concat(),
    }
}

fn pad_blank(text: Vec<u8>, flags: &Flags) -> Vec<u8> {
    pad(text, &Flags { zero: false, ..flags.clone() })
}

fn int(number: i64, verb: char, flags: &Flags) -> Option<Vec<u8>> {
    let magnitude = number.unsigned_abs();
    let character = || u32::try_from(number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
    let digits = match verb {
        'd' | 'v' => magnitude.to_string(),
        'b' => format!("{magnitude:b}"),
        'o' | 'O' => format!("{magnitude:o}"),
        'x' => format!("{magnitude:x}"),
        'X' => format!("{magnitude:X}"),
        'c' => return Some(pad(character().to_string().into_bytes(), flags)),
        'q' => return Some(pad(quoted_rune(character(), flags).into_bytes(), flags)),
        // Go takes the bits as a number without a sign.
        'U' => return Some(unicode(number.cast_unsigned(), flags)),
        _ => return None,
    };
    let is_signed = number < 0 || flags.plus || flags.space;
    let width = match (flags.precision, flags.width) {
        (Some(0), width) if number == 0 => return Some(vec![b' '; width.unwrap_or(0)]),
        (Some(precision), _) => precision,
        (None, Some(width)) if flags.zero && !flags.minus => width.saturating_sub(usize::from(is_signed)),
        _ => 0,
    };
    let mut digits = [vec![b'0'; width.saturating_sub(digits.len())], digits.into_bytes()].concat();
    if flags.sharp {
        match verb {
            'b' => digits.splice(..0, *b"0b").for_each(drop),
            'o' if digits.first() != Some(&b'0') => digits.insert(0, b'0'),
            'O' if digits.first() != Some(&b'0') => digits.insert(0, b'0'),
            'x' => digits.splice(..0, *b"0x").for_each(drop),
            'X' => digits.splice(..0, *b"0X").for_each(drop),
            _ => {}
        }
    }
    if verb == 'O' {
        digits.splice(..0, *b"0o").for_each(drop);
    }
    match (number < 0, flags.plus, flags.space) {
        (true, ..) => digits.insert(0, b'-'),
        (_, true, _) => digits.insert(0, b'+'),
        (_, _, true) => digits.insert(0, b' '),
        _ => {}
    }
    Some(pad_blank(digits, flags))
}

/// A character between single quotes.
fn quoted_rune(character: char, flags: &Flags) -> String {
    let keep = if flags.plus { Keep::Ascii } else { Keep::Printable };
    match character {
        '\'' => "'\\''".to_owned(),
        '"' => "'\"'".to_owned(),
        _ => {
            let quoted = quote::quote(character.encode_utf8(&mut [0; 4]).as_bytes(), keep);
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

fn unicode(number: u64, flags: &Flags) -> Vec<u8> {
    let width = flags.precision.unwrap_or(0).max(4);
    let digits = format!("{number:X}");
    let mut text = format!("U+{}{digits}", "0".repeat(width.saturating_sub(digits.len())));
    let character = u32::try_from(number).ok().and_then(char::from_u32);
    if let Some(character) = character.filter(|character| flags.sharp && quote::prints(*character)) {
        text.push_str(&format!(" '{character}'"));
    }
    pad_blank(text.into_bytes(), flags)
}

/// So many digits behind the point, also if the formatting of Rust cannot make as many.
fn with_digits(text: impl Fn(usize) -> String, precision: usize, before: char) -> String {
    let made = text(precision.min(MAX_FLOAT_DIGITS));
    let more = "0".repeat(precision.saturating_sub(MAX_FLOAT_DIGITS));
    match made.find(before) {
        Some(at) => format!("{}{more}{}", &made[..at], &made[at..]),
        None => made + &more,
    }
}

fn float(number: f64, verb: char, flags: &Flags) -> Option<Vec<u8>> {
    let magnitude = number.abs();
    let precision = flags.precision;
    let fixed = |digits: usize| format!("{magnitude:.digits$}");
    let scientific = |digits: usize| format!("{magnitude:.digits$e}");
    let plain = match verb {
        'f' | 'F' | 'e' | 'E' | 'v' | 'g' | 'G' | 'b' | 'x' | 'X' if !number.is_finite() => {
            general(magnitude, None, b'e').trim_start_matches('+').to_owned()
        }
        'f' | 'F' => with_digits(fixed, precision.unwrap_or(6), '\0'),
        'e' => exponent(&with_digits(scientific, precision.unwrap_or(6), 'e'), 'e'),
        'E' => exponent(&with_digits(scientific, precision.unwrap_or(6), 'e'), 'E'),
        'v' | 'g' => general(magnitude, precision.map(|digits| digits.min(MAX_FLOAT_DIGITS)), b'e'),
        'G' => general(magnitude, precision.map(|digits| digits.min(MAX_FLOAT_DIGITS)), b'E'),
        'b' => binary(magnitude),
        'x' => hexadecimal(magnitude, precision),
        'X' => hexadecimal(magnitude, precision).to_uppercase(),
        _ => return None,
    };
    let is_negative = number.is_sign_negative() && !number.is_nan();
    let sign: &str = match (is_negative, flags.plus, flags.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, false, true) => " ",
        // Infinity always shows its sign.
        _ if number == f64::INFINITY => "+",
        _ => "",
    };
    if !number.is_finite() {
        return Some(pad_blank(format!("{sign}{plain}").into_bytes(), flags));
    }
    let plain = if flags.sharp && verb != 'b' { with_point(&plain, verb, precision) } else { plain };
    let length = sign.len() + plain.len();
    if !sign.is_empty() && flags.zero && !flags.minus && flags.width.is_some_and(|width| width > length) {
        let zeros = "0".repeat(flags.width.unwrap_or(0) - length);
        return Some(format!("{sign}{zeros}{plain}").into_bytes());
    }
    Some(pad(format!("{sign}{plain}").into_bytes(), flags))
}

/// `%#g`: always with a point, and zeros up to the precision.
fn with_point(number: &str, verb: char, precision: Option<usize>) -> String {
    let mut missing = match verb {
        'v' | 'g' | 'G' | 'x' => precision.map_or(6, |digits| digits as isize),
        _ => 0,
    };
    if matches!(verb, 'v' | 'g' | 'G' | 'x') && precision == Some(0) {
        missing = 0;
    }
    let letters: &[char] = if matches!(verb, 'x' | 'X') { &['p', 'P'] } else { &['e', 'E'] };
    let (digits, tail) = number.split_at(number.find(letters).unwrap_or(number.len()));
    let significant = digits.bytes().filter(|byte| *byte != b'.').skip_while(|byte| *byte == b'0').count();
    missing -= significant as isize;
    let mut out = digits.to_owned();
    if !digits.contains('.') {
        if digits == "0" {
            missing -= 1;
        }
        out.push('.');
    }
    out.extend(std::iter::repeat_n('0', usize::try_from(missing).unwrap_or(0)));
    out + tail
}

/// The mantissa and the binary exponent of a float.
fn parts(number: f64) -> (u64, i64) {
    let bits = number.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match (bits >> 52) & 0x7ff {
        0 => (fraction, -1074),
        power => (fraction | (1 << 52), power.cast_signed() - 1075),
    }
}

/// `%b`: a whole mantissa and a power of two.
fn binary(number: f64) -> String {
    let (mantissa, power) = parts(number);
    format!("{mantissa}p{power:+}")
}

/// `%x`: a mantissa in hexadecimal digits and a power of two.
fn hexadecimal(number: f64, precision: Option<usize>) -> String {
    let (mut mantissa, mut power) = parts(number);
    if mantissa == 0 {
        let zeros = "0".repeat(precision.unwrap_or(0));
        return format!("0x0{}{zeros}p+00", if zeros.is_empty() { "" } else { "." });
    }
    // One bit before the point, 60 behind it.
    let shift = mantissa.leading_zeros() - 3;
    mantissa <<= shift;
    power = power - i64::from(shift) + 60;
    if let Some(digits) = precision.filter(|digits| *digits < 15) {
        let shift = 60 - digits * 4;
        let (rest, half) = (mantissa & ((1 << shift) - 1), 1_u64 << (shift - 1));
        mantissa >>= shift;
        if rest > half || (rest == half && mantissa & 1 == 1) {
            mantissa += 1;
        }
        mantissa <<= shift;
        if mantissa & (1 << 61) != 0 {
            mantissa >>= 1;
            power += 1;
        }
    }
    let digits = format!("{:015x}", mantissa & ((1 << 60) - 1));
    let digits = match precision {
        None => digits.trim_end_matches('0').to_owned(),
        Some(count) if count <= 15 => digits[..count].to_owned(),
        Some(count) => digits + &"0".repeat(count - 15),
    };
    let point = if digits.is_empty() { "" } else { "." };
    let sign = if power < 0 { '-' } else { '+' };
    format!("0x1{point}{digits}p{sign}{:02}", power.abs())
}

fn string(text: &[u8], verb: char, flags: &Flags) -> Option<Vec<u8>> {
    let cut = match flags.precision {
        Some(most) => crate::text::runes(text).nth(most).map_or(text, |(end, ..)| &text[..end]),
        None => text,
    };
    let out = match verb {
        's' | 'v' => cut.to_vec(),
        'q' if flags.sharp && quote::can_backquote(cut) => [b"`", cut, b"`"].concat(),
        'q' => quote::quote(cut, if flags.plus { Keep::Ascii } else { Keep::Printable }).into_bytes(),
        'x' => hex(text, false, flags),
        'X' => hex(text, true, flags),
        _ => return None,
    };
    Some(pad(out, flags))
}

/// The bytes of a text; a precision counts bytes.
fn hex(text: &[u8], is_upper: bool, flags: &Flags) -> Vec<u8> {
    let text = &text[..flags.precision.map_or(text.len(), |most| most.min(text.len()))];
    if text.is_empty() {
        return Vec::new();
    }
    let prefix = match (flags.sharp, is_upper) {
        (false, _) => "",
        (true, false) => "0x",
        (true, true) => "0X",
    };
    let digits = |byte: &u8| if is_upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
    let digits: Vec<String> = text.iter().map(digits).collect();
    let between = if flags.space { format!(" {prefix}") } else { String::new() };
    format!("{prefix}{}", digits.join(&between)).into_bytes()
}
