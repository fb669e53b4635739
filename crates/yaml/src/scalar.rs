//! What a scalar without quotes means, by the rules of YAML 1.1 as the Go library reads them.
//!
//! The type of a scalar is decided by who asks: `0644` is text for a `str`, 420 for an `int` and 420.0 for a
//! `float`. Only a parameter of any type takes the natural one.

/// What plain text stands for when nobody says what type is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Natural {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text,
}

/// Why text is not an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotInt {
    /// It is no number at all.
    NotANumber,
    /// It starts with a zero and has a digit that octal numbers do not have.
    BadOctal,
    /// It is a number with a fraction.
    Fraction,
    /// It needs more than 64 bits.
    TooLarge,
}

pub(crate) fn natural(text: &str) -> Natural {
    if is_null(text) {
        return Natural::Null;
    }
    if let Some(value) = boolean(text) {
        return Natural::Bool(value);
    }
    if let Ok(number) = digits(text) {
        return Natural::Int(number);
    }
    match float(text) {
        Some(number) => Natural::Float(number),
        None => Natural::Text,
    }
}

pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// An integer; a float without a fraction is one too.
pub(crate) fn integer(text: &str) -> Result<i64, NotInt> {
    let error = match digits(text) {
        Ok(number) => return Ok(number),
        Err(error) => error,
    };
    if error != NotInt::NotANumber {
        return Err(error);
    }
    match float(text) {
        None => Err(NotInt::NotANumber),
        Some(number) if number.is_nan() || number.fract() != 0.0 => Err(NotInt::Fraction),
        // Both bounds are exact as floats: -2⁶³ fits, 2⁶³ does not.
        Some(number) if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "the range has just been checked")]
            Ok(number as i64)
        }
        Some(_) => Err(NotInt::TooLarge),
    }
}

/// A float; an integer in any notation is one too.
pub(crate) fn float(text: &str) -> Option<f64> {
    match text.strip_prefix(['+', '-']).unwrap_or(text) {
        ".inf" | ".Inf" | ".INF" => {
            return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        _ => {}
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(f64::NAN);
    }
    if let Ok(number) = digits(text) {
        #[expect(clippy::cast_precision_loss, reason = "a float holds the nearest number")]
        return Some(number as f64);
    }
    let plain = without_separators(text)?;
    looks_like_a_float(&plain).then(|| plain.parse().ok())?
}

/// Bytes in base64, with white space anywhere. By hand: base64ct refuses white space inside of a group and unused bits that are set,
/// which other readers of `!!binary` ignore.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padding) = (0_u32, 0_u32, 0_u32);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = bits << 6 | u32::from(value);
        count += 1;
        if count % 4 == 0 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
            bits = 0;
        }
    }
    match (count % 4, padding) {
        (0, 0) => {}
        (2, 2) => bytes.push(u8::try_from(bits >> 4 & 0xff).ok()?),
        (3, 1) => bytes.extend_from_slice(&u16::try_from(bits >> 2 & 0xffff).ok()?.to_be_bytes()),
        _ => return None,
    }
    Some(bytes)
}

/// An integer in decimal, `0x`, `0o`, `0b` or octal with a leading zero; `_` separates digits.
fn digits(text: &str) -> Result<i64, NotInt> {
    let plain = without_separators(text).ok_or(NotInt::NotANumber)?;
    let (negative, unsigned) = match plain.strip_prefix(['+', '-']) {
        Some(rest) => (plain.starts_with('-'), rest),
        None => (false, &*plain),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (radix, number) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &*lower),
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(NotInt::NotANumber);
    }
    if !number.chars().all(|digit| digit.is_digit(radix)) {
        let decimal = number.bytes().all(|byte| byte.is_ascii_digit());
        return Err(if radix == 8 && decimal { NotInt::BadOctal } else { NotInt::NotANumber });
    }
    let magnitude = i128::from_str_radix(number, radix).map_err(|_| NotInt::TooLarge)?;
    i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| NotInt::TooLarge)
}

/// The text of a number without `_`. Nothing if it cannot be a number.
fn without_separators(text: &str) -> Option<std::borrow::Cow<'_, str>> {
    let number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    // No number that anybody means is longer.
    if !number || text.len() > 128 {
        return None;
    }
    Some(if text.contains('_') { text.replace('_', "").into() } else { text.into() })
}

fn looks_like_a_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !digits.is_empty() && all_digits(digits)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_every_notation() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("-0", Ok(0)),
            ("42", Ok(42)),
            ("+42", Ok(42)),
            ("-42", Ok(-42)),
            ("1_000", Ok(1000)),
            ("0644", Ok(420)),
            ("-0644", Ok(-420)),
            ("0o644", Ok(420)),
            ("0x1f", Ok(31)),
            ("0X1F", Ok(31)),
            ("0b101", Ok(5)),
            ("300.0", Ok(300)),
            ("1e3", Ok(1000)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("-9223372036854775808", Ok(i64::MIN)),
            ("9223372036854775808", Err(NotInt::TooLarge)),
            ("1e30", Err(NotInt::TooLarge)),
            (".inf", Err(NotInt::Fraction)),
            ("1.5", Err(NotInt::Fraction)),
            ("089", Err(NotInt::BadOctal)),
            ("1:30", Err(NotInt::NotANumber)),
            ("0x", Err(NotInt::NotANumber)),
            ("-", Err(NotInt::NotANumber)),
            ("_1", Err(NotInt::NotANumber)),
            ("", Err(NotInt::NotANumber)),
            ("ten", Err(NotInt::NotANumber)),
            ("+-1", Err(NotInt::NotANumber)),
        ] {
            assert_eq!(integer(text), expected, "{text}");
        }
    }

    #[test]
    fn floats_are_read_in_every_notation() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-1.5e-3", Some(-0.0015)),
            ("1E3", Some(1000.0)),
            ("0.2", Some(0.2)),
            ("3", Some(3.0)),
            ("0x10", Some(16.0)),
            ("1_0.5", Some(10.5)),
            (".inf", Some(f64::INFINITY)),
            ("+.INF", Some(f64::INFINITY)),
            ("-.Inf", Some(f64::NEG_INFINITY)),
            ("inf", None),
            ("nan", None),
            ("infinity", None),
            (".", None),
            ("1e", None),
            ("1.2.3", None),
        ] {
            assert_eq!(float(text), expected, "{text}");
        }
        assert!(float(".nan").is_some_and(f64::is_nan));
    }

    #[test]
    fn plain_text_has_a_natural_type() {
        for (text, expected) in [
            ("", Natural::Null),
            ("~", Natural::Null),
            ("null", Natural::Null),
            ("yes", Natural::Bool(true)),
            ("Off", Natural::Bool(false)),
            ("0644", Natural::Int(420)),
            ("1.10", Natural::Float(1.1)),
            ("1e3", Natural::Float(1000.0)),
            ("1.2.3", Natural::Text),
            ("hello", Natural::Text),
            ("yEs", Natural::Text),
        ] {
            assert_eq!(natural(text), expected, "{text}");
        }
    }

    #[test]
    fn base64_is_decoded_or_refused() {
        assert_eq!(base64(""), Some(vec![]));
        assert_eq!(base64("AA=="), Some(vec![0]));
        assert_eq!(base64("aGk="), Some(b"hi".to_vec()));
        assert_eq!(base64("aGVs\n bG8="), Some(b"hello".to_vec()));
        assert_eq!(base64("////"), Some(vec![0xff; 3]));
        for bad in ["a", "aG", "aGk", "aG=k", "a===", "aGk$", "===="] {
            assert_eq!(base64(bad), None, "{bad}");
        }
    }
}
