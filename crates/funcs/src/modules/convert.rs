//! `convert`

use mgmt_funcs_derive::function;

use crate::declare::module;
use crate::{Failure, numbers};

module! {
    path: "convert",
    doc: "Between types: text, numbers and truth values.",
    functions: [format_bool, parse_bool, int_to_str, str_to_int, str_to_float, to_float, to_int],
}

fn unreadable(text: &[u8], what: &str, reason: &str) -> Failure {
    Failure::catchable(format!("can't read {:?} as {what}: {reason}", mgmt_value::Str::new(text)))
}

/// The text of a truth value: `true` or `false`.
///
/// ```mcl
/// convert.format_bool(true) == "true"
/// ```
#[function]
fn format_bool(a: bool) -> String {
    a.to_string()
}

/// Reads a truth value.
///
/// True is `1 t T TRUE true True`, false is `0 f F FALSE false False`. Any other text is a catchable error.
///
/// ```mcl
/// convert.parse_bool("t") == true
/// (convert.parse_bool("yes") <|> false) == false
/// ```
#[function]
fn parse_bool(a: &[u8]) -> Result<bool, Failure> {
    numbers::parse_bool(a).ok_or_else(|| unreadable(a, "a bool", "expected true or false"))
}

/// The decimal text of an int.
///
/// ```mcl
/// convert.int_to_str(-42) == "-42"
/// ```
#[function]
fn int_to_str(a: i64) -> String {
    a.to_string()
}

/// Reads a decimal int: digits with an optional sign.
///
/// Other text and numbers of more than 64 bits are catchable errors.
///
/// ```mcl
/// convert.str_to_int("42") == 42
/// (convert.str_to_int("4 2") <|> 13) == 13
/// ```
#[function]
fn str_to_int(a: &[u8]) -> Result<i64, Failure> {
    numbers::parse_int(a, 10, 64).map_err(|error| unreadable(a, "an int", error.reason()))
}

/// Reads a float: decimal such as `-1.5e3`, hexadecimal such as `0x1.8p3`, `inf` or `nan`.
///
/// `_` may separate digits. Other text and numbers that are too large are catchable errors; one that is too small is zero.
///
/// ```mcl
/// convert.str_to_float("1_000.5") == 1000.5
/// (convert.str_to_float("1e400") <|> 0.0) == 0.0
/// ```
#[function]
fn str_to_float(a: &[u8]) -> Result<f64, Failure> {
    numbers::parse_float(a, 64).map_err(|error| unreadable(a, "a float", error.reason()))
}

/// The float nearest to an int.
///
/// ```mcl
/// convert.to_float(42) == 42.0
/// ```
#[function]
fn to_float(a: i64) -> f64 {
    a as f64
}

/// The whole part of a float.
///
/// What is too large for an int, and NaN, become the smallest int on every machine.
///
/// ```mcl
/// convert.to_int(7.8) == 7
/// convert.to_int(-7.8) == -7
/// ```
#[function]
fn to_int(a: f64) -> i64 {
    // The upper bound is the first float that does not fit.
    let fits = a > -9_223_372_036_854_777_856.0 && a < 9_223_372_036_854_775_808.0;
    if fits { a as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::shown;
    use mgmt_value::Value;

    #[test]
    fn unreadable_text_can_be_caught() {
        for (name, text) in [
            ("convert.parse_bool", "yes"),
            ("convert.parse_bool", " true"),
            ("convert.str_to_int", "0x10"),
            ("convert.str_to_int", "1_0"),
            ("convert.str_to_int", "9223372036854775808"),
            ("convert.str_to_float", "1e400"),
            ("convert.str_to_float", ""),
        ] {
            assert!(shown(name, &[Value::str(text)]).starts_with("C: can't read"), "{name} {text}");
        }
        assert_eq!(shown("convert.str_to_int", &[Value::str("-7")]), "-7");
        assert_eq!(shown("convert.str_to_float", &[Value::str("1e-400")]), "0");
        assert_eq!(shown("convert.parse_bool", &[Value::str("F")]), "false");
    }

    #[test]
    fn floats_lose_their_fraction() {
        for (float, int) in [
            (2.09, 2),
            (-7.8, -7),
            (f64::NAN, i64::MIN),
            (1e19, i64::MIN),
            (-1e19, i64::MIN),
            (9.223_372_036_854_775e18, 9_223_372_036_854_774_784),
            (-9_223_372_036_854_775_808.0, i64::MIN),
        ] {
            assert_eq!(to_int(float), int, "{float}");
        }
    }
}
