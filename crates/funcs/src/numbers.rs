//! Numbers and their text.

/// Why text is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadNumber {
    Syntax,
    Range,
    Base,
    Size,
}

impl BadNumber {
    /// The reason, for a message.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            BadNumber::Syntax => "invalid syntax",
            BadNumber::Range => "value out of range",
            BadNumber::Base => "invalid base: expected 0 or 2 to 36",
            BadNumber::Size => "invalid bit size: expected 0 to 64",
        }
    }
}

/// Reads an int. Base 0 goes by a prefix and allows `_` between digits; a size of 0 is 64 bits.
pub(crate) fn parse_int(text: &[u8], base: i64, bits: i64) -> Result<i64, BadNumber> {
    let (negative, digits) = sign(text);
    if digits.is_empty() {
        return Err(BadNumber::Syntax);
    }
    let (radix, digits, underscores) = match base {
        2..=36 => (base as u32, digits.to_vec(), false),
        0 => {
            let (radix, rest) = prefix(digits);
            (radix, rest.iter().copied().filter(|byte| *byte != b'_').collect(), true)
        }
        _ => return Err(BadNumber::Base),
    };
    let bits = match bits {
        0 => 64,
        1..=64 => bits as u32,
        _ => return Err(BadNumber::Size),
    };
    if digits.is_empty() || underscores && !underscores_separate(text) {
        return Err(BadNumber::Syntax);
    }
    let mut number: i128 = 0;
    for digit in digits {
        let digit = char::from(digit).to_digit(radix).ok_or(BadNumber::Syntax)?;
        // Once it is too large it stays so; the rest is read for its syntax.
        number = number.saturating_mul(i128::from(radix)).saturating_add(i128::from(digit));
    }
    let number = if negative { -number } else { number };
    let limit = 1_i128 << (bits - 1);
    match (-limit..limit).contains(&number) {
        true => i64::try_from(number).map_err(|_| BadNumber::Range),
        false => Err(BadNumber::Range),
    }
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    }
}

fn prefix(digits: &[u8]) -> (u32, &[u8]) {
    match digits {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        [b'0', b'o' | b'O', rest @ ..] => (8, rest),
        [b'0', b'b' | b'B', rest @ ..] => (2, rest),
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest),
        _ => (10, digits),
    }
}

/// Whether each `_` stands between digits, where a prefix counts as one.
fn underscores_separate(text: &[u8]) -> bool {
    let (_, digits) = sign(text);
    let mut hex = false;
    let (mut last, rest) = match digits {
        [b'0', letter @ (b'x' | b'X' | b'o' | b'O' | b'b' | b'B'), rest @ ..] => {
            hex = letter.eq_ignore_ascii_case(&b'x');
            (b'0', rest)
        }
        digits => (b'^', digits),
    };
    for byte in rest {
        let digit = byte.is_ascii_digit() || hex && byte.is_ascii_hexdigit();
        match byte {
            _ if digit => last = b'0',
            b'_' if last != b'0' => return false,
            b'_' => last = b'_',
            _ if last == b'_' => return false,
            _ => last = b'!',
        }
    }
    last != b'_'
}

/// Reads a float: decimal or hexadecimal, with `_` between digits, or an infinity or NaN by name. With 32 bits it is the
/// nearest number of that width. A number that is too large is an error.
pub(crate) fn parse_float(text: &[u8], bits: i64) -> Result<f64, BadNumber> {
    let (negative, rest) = sign(text);
    let signed = |number: f64| if negative { -number } else { number };
    match rest.to_ascii_lowercase().as_slice() {
        b"inf" | b"infinity" => return Ok(signed(f64::INFINITY)),
        b"nan" if rest.len() == text.len() => return Ok(f64::NAN),
        _ => {}
    }
    if rest.contains(&b'_') && !underscores_separate(text) {
        return Err(BadNumber::Syntax);
    }
    let plain: Vec<u8> = rest.iter().copied().filter(|byte| *byte != b'_').collect();
    let number = match plain.as_slice() {
        [b'0', b'x' | b'X', hex @ ..] => hex_float(hex, bits == 32)?,
        decimal => decimal_float(decimal, bits == 32)?,
    };
    if number.is_infinite() { Err(BadNumber::Range) } else { Ok(signed(number)) }
}

fn decimal_float(text: &[u8], narrow: bool) -> Result<f64, BadNumber> {
    // What Rust reads is the same but for names and signs, which have been dealt with.
    let plain = text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let digit_or_dot = text.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.');
    let text = std::str::from_utf8(text).ok().filter(|_| plain && digit_or_dot).ok_or(BadNumber::Syntax)?;
    match narrow {
        true => text.parse::<f32>().map(f64::from).map_err(|_| BadNumber::Syntax),
        false => text.parse::<f64>().map_err(|_| BadNumber::Syntax),
    }
}

fn hex_float(text: &[u8], narrow: bool) -> Result<f64, BadNumber> {
    let power = text.iter().position(|byte| matches!(byte, b'p' | b'P')).ok_or(BadNumber::Syntax)?;
    let (mantissa, power) = (&text[..power], &text[power + 1..]);
    let mut parts = mantissa.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() {
        return Err(BadNumber::Syntax);
    }
    let (down, digits) = sign(power);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(BadNumber::Syntax);
    }
    // Far beyond the range of either sign, and far from overflow.
    let power = digits.iter().fold(0_i64, |power, digit| (power * 10 + i64::from(digit - b'0')).min(1 << 40));
    let mut exponent = if down { -power } else { power } - 4 * fraction.len() as i64;
    let mut bits: u64 = 0;
    for digit in whole.iter().chain(fraction) {
        let digit = char::from(*digit).to_digit(16).ok_or(BadNumber::Syntax)?;
        if bits >> 60 == 0 {
            bits = bits << 4 | u64::from(digit);
        } else {
            // What no longer fits can only break a tie: the lowest bit remembers that it was not nothing.
            bits |= u64::from(digit != 0);
            exponent += 4;
        }
    }
    let (precision, lowest, highest) = if narrow { (24, -126, 127) } else { (53, -1022, 1023) };
    Ok(compose(bits, exponent, precision, lowest, highest))
}

/// The nearest number to `bits × 2^exponent` that has this precision, ties to even.
fn compose(bits: u64, exponent: i64, precision: i64, lowest: i64, highest: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let shift = i64::from(bits.leading_zeros());
    let top = exponent + 63 - shift;
    // Below the lowest exponent there are fewer bits to keep.
    let kept = precision.min(precision + top - lowest);
    if kept < 0 {
        return 0.0;
    }
    let wide = u128::from(bits << shift);
    let dropped = (64 - kept) as u32;
    let half = 1_u128 << (dropped - 1);
    let remainder = wide & ((1 << dropped) - 1);
    let mut rounded = wide >> dropped;
    if remainder > half || remainder == half && rounded & 1 == 1 {
        rounded += 1;
    }
    let scale = top - 63 + i64::from(dropped);
    let overflows = top > highest || top == highest && rounded >> kept != 0;
    if overflows { f64::INFINITY } else { libm::scalbn(rounded as f64, scale as i32) }
}

/// Digits in a base from 2 to 36.
pub(crate) fn format_int(number: i64, base: i64) -> Option<String> {
    let radix = u32::try_from(base).ok().filter(|radix| (2..=36).contains(radix))?;
    let mut rest = number.unsigned_abs();
    let mut digits = Vec::new();
    loop {
        // A remainder is smaller than the base, so it has a digit.
        let digit = char::from_digit((rest % u64::from(radix)) as u32, radix)?;
        digits.push(digit);
        rest /= u64::from(radix);
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        digits.push('-');
    }
    Some(digits.iter().rev().collect())
}

/// Twelve words for two values.
pub(crate) fn parse_bool(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"t" | b"T" | b"TRUE" | b"true" | b"True" => Some(true),
        b"0" | b"f" | b"F" | b"FALSE" | b"false" | b"False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ints_have_bases_prefixes_and_sizes() {
        for (text, base, bits, expected) in [
            ("42", 10, 0, Ok(42)),
            ("+42", 10, 64, Ok(42)),
            ("-9223372036854775808", 10, 0, Ok(i64::MIN)),
            ("9223372036854775808", 10, 0, Err(BadNumber::Range)),
            ("99999999999999999999999999999999999999999999999999", 10, 0, Err(BadNumber::Range)),
            ("ff", 16, 0, Ok(255)),
            ("Zz", 36, 0, Ok(1295)),
            ("0x_Ff", 0, 0, Ok(255)),
            ("0b101", 0, 0, Ok(5)),
            ("0o17", 0, 0, Ok(15)),
            ("017", 0, 0, Ok(15)),
            ("0", 0, 0, Ok(0)),
            ("1_000", 0, 0, Ok(1000)),
            ("1__0", 0, 0, Err(BadNumber::Syntax)),
            ("_1", 0, 0, Err(BadNumber::Syntax)),
            ("1_", 0, 0, Err(BadNumber::Syntax)),
            ("1_0", 10, 0, Err(BadNumber::Syntax)),
            ("0x", 0, 0, Err(BadNumber::Syntax)),
            ("08", 0, 0, Err(BadNumber::Syntax)),
            ("", 10, 0, Err(BadNumber::Syntax)),
            ("-", 10, 0, Err(BadNumber::Syntax)),
            (" 1", 10, 0, Err(BadNumber::Syntax)),
            ("--1", 10, 0, Err(BadNumber::Syntax)),
            ("127", 10, 8, Ok(127)),
            ("-128", 10, 8, Ok(-128)),
            ("128", 10, 8, Err(BadNumber::Range)),
            ("1", 1, 0, Err(BadNumber::Base)),
            ("1", 37, 0, Err(BadNumber::Base)),
            ("1", 10, 65, Err(BadNumber::Size)),
            ("1", 10, -1, Err(BadNumber::Size)),
        ] {
            assert_eq!(parse_int(text.as_bytes(), base, bits), expected, "{text} {base} {bits}");
        }
    }

    #[test]
    fn floats_are_decimal_hexadecimal_or_named() {
        for (text, expected) in [
            ("1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("-1e3", -1000.0),
            ("+1E-2", 0.01),
            ("1_23.5", 123.5),
            ("0x1.8p3", 12.0),
            ("0X.8P0", 0.5),
            ("-0x1p-2", -0.25),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.8p-1075", 5e-324),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080000000001p0", 1.000_000_000_000_000_2),
            ("0x0p99999999999999999999", 0.0),
            ("Inf", f64::INFINITY),
            ("-iNFINITY", f64::NEG_INFINITY),
            ("1e-400", 0.0),
        ] {
            assert_eq!(parse_float(text.as_bytes(), 64), Ok(expected), "{text}");
        }
        assert!(parse_float(b"NaN", 64).is_ok_and(f64::is_nan));
        assert_eq!(parse_float(b"0.1", 32), Ok(f64::from(0.1_f32)));
        assert_eq!(parse_float(b"0x1.0000010p0", 32), Ok(1.0));
        for text in [
            "", ".", "e1", "1e", "0x1", "0x.p1", "+nan", "1__0", "_1", "1_", "1_.5", "infin", "1.5 ", "++1",
            "1+1",
        ] {
            assert_eq!(parse_float(text.as_bytes(), 64), Err(BadNumber::Syntax), "{text}");
        }
        for text in ["1e400", "-1e400", "0x1p1024", "0x1.fffffffffffff8p1023", "0x1p99999999999999999999"] {
            assert_eq!(parse_float(text.as_bytes(), 64), Err(BadNumber::Range), "{text}");
        }
        assert_eq!(parse_float(b"1e39", 32), Err(BadNumber::Range));
    }

    #[test]
    fn ints_print_in_any_base() {
        assert_eq!(format_int(-255, 16).as_deref(), Some("-ff"));
        assert_eq!(format_int(i64::MIN, 2).map(|text| text.len()), Some(65));
        assert_eq!(format_int(0, 36).as_deref(), Some("0"));
        assert_eq!((format_int(1, 1), format_int(1, 37)), (None, None));
    }
}
