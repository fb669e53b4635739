//! Operators.
//!
//! Each is a function whose name is its symbol. The limits of a signature refuse, while compiling, what could only fail
//! when it runs: `true + true`, `"a" < "b"`.

use mgmt_funcs_derive::function;
use mgmt_value::Value;

use crate::{Failure, Function};

/// Operators belong to no module that can be imported.
const MODULE: &str = "_operator";

pub(crate) static ALL: &[&Function] = &[
    &add::FUNCTION,
    &subtract::FUNCTION,
    &multiply::FUNCTION,
    &divide::FUNCTION,
    &equal::FUNCTION,
    &unequal::FUNCTION,
    &less::FUNCTION,
    &greater::FUNCTION,
    &at_most::FUNCTION,
    &at_least::FUNCTION,
    &and::FUNCTION,
    &or::FUNCTION,
    &not::FUNCTION,
];

/// Applies an operator to its operands.
pub(crate) fn apply(symbol: &[u8], operands: &[Value]) -> Result<Value, Failure> {
    let found = ALL.iter().find(|function| function.name.as_bytes() == symbol);
    match found.map(|function| &function.body) {
        Some(crate::Body::Pure(body)) => body(operands),
        _ => Err(Failure::fatal(format!("there is no operator {:?}", mgmt_value::Str::new(symbol)))),
    }
}

fn unsupported(symbol: &str, left: &Value) -> Failure {
    Failure::fatal(format!("unsupported kind: `{symbol}` can't be applied to {}", left.ty()))
}

/// Joins two texts, or adds two numbers of one kind. A sum of ints that is too large wraps around.
///
/// ```mcl
/// "a" + "b" == "ab"
/// 1 + 2 == 3
/// 1.5 + 2.5 == 4.0
/// ```
#[function(name = "+", signature = "func(a ?1, b ?1) ?1 where ?1 is str | int | float")]
fn add(a: &Value, b: &Value) -> Result<Value, Failure> {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => Ok(Value::str([a.as_bytes(), b].concat())),
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(a.wrapping_add(*b))),
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(a + b)),
        _ => Err(unsupported("+", a)),
    }
}

/// Subtracts numbers of one kind. A difference of ints that is too large wraps around.
///
/// ```mcl
/// 5 - 3 == 2
/// ```
#[function(name = "-", signature = "func(a ?1, b ?1) ?1 where ?1 is int | float")]
fn subtract(a: &Value, b: &Value) -> Result<Value, Failure> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(a.wrapping_sub(*b))),
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(a - b)),
        _ => Err(unsupported("-", a)),
    }
}

/// Multiplies numbers of one kind. A product of ints that is too large wraps around.
///
/// ```mcl
/// 6 * 7 == 42
/// ```
#[function(name = "*", signature = "func(a ?1, b ?1) ?1 where ?1 is int | float")]
fn multiply(a: &Value, b: &Value) -> Result<Value, Failure> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(a.wrapping_mul(*b))),
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(a * b)),
        _ => Err(unsupported("*", a)),
    }
}

/// Divides numbers of one kind. The result is always a float, exact for ints below 2^53. Dividing by zero is a catchable
/// error.
///
/// ```mcl
/// 7 / 2 == 3.5
/// (1 / 0 <|> 0.0) == 0.0
/// ```
#[function(name = "/", signature = "func(a ?1, b ?1) float where ?1 is int | float")]
fn divide(a: &Value, b: &Value) -> Result<f64, Failure> {
    let (dividend, divisor) = match (a, b) {
        (Value::Int(a), Value::Int(b)) => (*a as f64, *b as f64),
        (Value::Float(a), Value::Float(b)) => (*a, *b),
        _ => return Err(unsupported("/", a)),
    };
    if divisor == 0.0 {
        return Err(Failure::catchable("can't divide by zero"));
    }
    Ok(dividend / divisor)
}

/// Whether two values are the same, all the way down. A NaN equals nothing.
///
/// ```mcl
/// [1, 2] == [1, 2]
/// {"a" => 1} == {"a" => 1}
/// ```
#[function(
    name = "==",
    signature = "func(a ?1, b ?1) bool where ?1 is bool | str | int | float | list | map | struct"
)]
fn equal(a: &Value, b: &Value) -> Result<bool, Failure> {
    if let (Value::Func(_), _) | (_, Value::Func(_)) = (a, b) {
        return Err(unsupported("==", a));
    }
    Ok(a == b)
}

/// Whether two values differ.
///
/// ```mcl
/// "a" != "b"
/// ```
#[function(
    name = "!=",
    signature = "func(a ?1, b ?1) bool where ?1 is bool | str | int | float | list | map | struct"
)]
fn unequal(a: &Value, b: &Value) -> Result<bool, Failure> {
    if let (Value::Func(_), _) | (_, Value::Func(_)) = (a, b) {
        return Err(unsupported("!=", a));
    }
    Ok(a != b)
}

fn compare(
    symbol: &str,
    (a, b): (&Value, &Value),
    ints: fn(&i64, &i64) -> bool,
    floats: fn(&f64, &f64) -> bool,
) -> Result<bool, Failure> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(ints(a, b)),
        (Value::Float(a), Value::Float(b)) => Ok(floats(a, b)),
        _ => Err(unsupported(symbol, a)),
    }
}

/// Whether a number is smaller than another.
///
/// ```mcl
/// 1 < 2
/// ```
#[function(name = "<", signature = "func(a ?1, b ?1) bool where ?1 is int | float")]
fn less(a: &Value, b: &Value) -> Result<bool, Failure> {
    compare("<", (a, b), i64::lt, f64::lt)
}

/// Whether a number is larger than another.
///
/// ```mcl
/// 2.5 > 2.0
/// ```
#[function(name = ">", signature = "func(a ?1, b ?1) bool where ?1 is int | float")]
fn greater(a: &Value, b: &Value) -> Result<bool, Failure> {
    compare(">", (a, b), i64::gt, f64::gt)
}

/// Whether a number is not larger than another.
///
/// ```mcl
/// 2 <= 2
/// ```
#[function(name = "<=", signature = "func(a ?1, b ?1) bool where ?1 is int | float")]
fn at_most(a: &Value, b: &Value) -> Result<bool, Failure> {
    compare("<=", (a, b), i64::le, f64::le)
}

/// Whether a number is not smaller than another.
///
/// ```mcl
/// 2 >= 2
/// ```
#[function(name = ">=", signature = "func(a ?1, b ?1) bool where ?1 is int | float")]
fn at_least(a: &Value, b: &Value) -> Result<bool, Failure> {
    compare(">=", (a, b), i64::ge, f64::ge)
}

/// Whether both are true. Both are always looked at: an error in either is the result.
///
/// ```mcl
/// true and true
/// ```
#[function(name = "and")]
fn and(a: bool, b: bool) -> bool {
    a && b
}

/// Whether at least one is true. Both are always looked at: an error in either is the result.
///
/// ```mcl
/// false or true
/// ```
#[function(name = "or")]
fn or(a: bool, b: bool) -> bool {
    a || b
}

/// The opposite.
///
/// ```mcl
/// not false
/// ```
#[function(name = "not")]
fn not(a: bool) -> bool {
    !a
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgmt_value::Type;

    fn check(symbol: &str, a: Value, b: Value, expected: Value) {
        assert_eq!(apply(symbol.as_bytes(), &[a, b]).as_ref(), Ok(&expected), "{symbol}");
    }

    #[test]
    fn arithmetic_wraps_and_division_gives_floats() {
        check("+", Value::str(b"\xff"), Value::str("b"), Value::str(b"\xffb"));
        check("+", Value::Int(i64::MAX), Value::Int(1), Value::Int(i64::MIN));
        check("-", Value::Int(i64::MIN), Value::Int(1), Value::Int(i64::MAX));
        check("*", Value::Int(i64::MAX), Value::Int(2), Value::Int(-2));
        check("*", Value::Float(1.5), Value::Float(2.0), Value::Float(3.0));
        check("/", Value::Int(7), Value::Int(2), Value::Float(3.5));
        for zero in [0.0, -0.0] {
            let found = apply(b"/", &[Value::Float(1.0), Value::Float(zero)]);
            assert_eq!(found, Err(Failure::catchable("can't divide by zero")));
        }
        assert!(matches!(apply(b"/", &[Value::Int(1), Value::Int(0)]), Err(Failure::Catchable(_))));
    }

    #[test]
    fn comparisons_follow_ieee_and_refuse_text() {
        check("==", Value::Float(0.0), Value::Float(-0.0), Value::Bool(true));
        check("==", Value::Float(f64::NAN), Value::Float(f64::NAN), Value::Bool(false));
        check("!=", Value::list(Type::Int, vec![]), Value::list(Type::Str, vec![]), Value::Bool(true));
        for symbol in ["<", ">", "<=", ">="] {
            check(symbol, Value::Float(f64::NAN), Value::Float(1.0), Value::Bool(false));
            let text = apply(symbol.as_bytes(), &[Value::str("a"), Value::str("b")]);
            assert!(matches!(text, Err(Failure::Fatal(_))));
        }
        check("<", Value::Int(1), Value::Int(2), Value::Bool(true));
        check(">=", Value::Int(2), Value::Int(2), Value::Bool(true));
        check("<=", Value::Int(3), Value::Int(2), Value::Bool(false));
        check(">", Value::Int(3), Value::Int(2), Value::Bool(true));
    }

    #[test]
    fn logic() {
        check("and", Value::Bool(true), Value::Bool(false), Value::Bool(false));
        check("or", Value::Bool(true), Value::Bool(false), Value::Bool(true));
        assert_eq!(apply(b"not", &[Value::Bool(false)]), Ok(Value::Bool(true)));
    }

    #[test]
    fn wrong_use_is_an_error_and_never_a_panic() {
        for operands in
            [vec![], vec![Value::Nil], vec![Value::Nil; 3], vec![Value::Bool(true), Value::Int(1)]]
        {
            for function in ALL.iter().filter(|function| !function.name.contains('=')) {
                assert!(apply(function.name.as_bytes(), &operands).is_err());
            }
        }
        assert!(apply("π".as_bytes(), &[]).is_err());
    }
}
