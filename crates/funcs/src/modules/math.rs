//! `math`

use mgmt_funcs_derive::function;
use mgmt_value::{Type, Value};

use crate::Failure;
use crate::declare::module;

module! {
    path: "math",
    doc: "Numbers. Results that are no numbers are errors here; see `golang/math` for functions that return them.",
    functions: [fortytwo, minus1, r#mod, pow, sqrt],
}

/// The number 42, as an int or a float, whichever is needed.
///
/// ```mcl
/// math.fortytwo() == 42
/// math.fortytwo() == 42.0
/// ```
#[function(signature = "func() ?1 where ?1 is int | float")]
fn fortytwo(ty: &Type, arguments: &[Value]) -> Result<Value, Failure> {
    match (ty, arguments) {
        (Type::Int, []) => Ok(Value::Int(42)),
        (Type::Float, []) => Ok(Value::Float(42.0)),
        (ty, []) => Err(Failure::fatal(format!("expected int or float as the result, found {ty}"))),
        (_, arguments) => Err(crate::declare::arity(0, arguments.len())),
    }
}

/// One less. The smallest int wraps around to the largest.
///
/// ```mcl
/// math.minus1(42) == 41
/// ```
#[function]
fn minus1(x: i64) -> i64 {
    x.wrapping_sub(1)
}

/// The remainder of a division, with the sign of the first number. It is exact for all ints.
///
/// Dividing by zero, or a result that is no number, is a catchable error.
///
/// ```mcl
/// math.mod(7, 3) == 1
/// math.mod(-7, 3) == -1
/// math.mod(7.5, 2.0) == 1.5
/// (math.mod(1, 0) <|> 0) == 0
/// ```
#[function(signature = "func(?1, ?1) ?1 where ?1 is int | float")]
fn r#mod(x: &Value, y: &Value) -> Result<Value, Failure> {
    match (x, y) {
        (Value::Int(_), Value::Int(0)) => Err(Failure::catchable("can't divide by zero")),
        (Value::Int(x), Value::Int(y)) => Ok(Value::Int(x.wrapping_rem(*y))),
        (Value::Float(_), Value::Float(0.0)) => Err(Failure::catchable("can't divide by zero")),
        (Value::Float(x), Value::Float(y)) => finite(x % y, "mod").map(Value::Float),
        _ => Err(Failure::fatal(format!("expected two ints or two floats, found {} and {}", x.ty(), y.ty()))),
    }
}

/// A number to the power of another. A result that is infinite or no number is a catchable error.
///
/// ```mcl
/// math.pow(4.0, 0.5) == 2.0
/// (math.pow(0.0, -1.0) <|> 0.0) == 0.0
/// ```
#[function]
fn pow(x: f64, y: f64) -> Result<f64, Failure> {
    finite(x.powf(y), "pow")
}

/// The square root. A result that is infinite or no number is a catchable error.
///
/// ```mcl
/// math.sqrt(16.0) == 4.0
/// (math.sqrt(-1.0) <|> 0.0) == 0.0
/// ```
#[function]
fn sqrt(x: f64) -> Result<f64, Failure> {
    finite(x.sqrt(), "sqrt")
}

fn finite(number: f64, name: &str) -> Result<f64, Failure> {
    match number.is_finite() {
        true => Ok(number),
        false => Err(Failure::catchable(format!(
            "the result of {name} is no finite number: {}",
            Value::Float(number)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::Memory;
    use crate::modules::tests::{Nothing, call_on, shown};
    use mgmt_value::{Type, Value};

    #[test]
    fn the_answer_has_the_type_that_is_wanted() {
        let answer = |ty| call_on(&mut Memory::new(ty), &Nothing, "math.fortytwo", &[]);
        assert_eq!(answer(Type::Int), Ok(Value::Int(42)));
        assert_eq!(answer(Type::Float), Ok(Value::Float(42.0)));
        assert!(answer(Type::Str).is_err());
    }

    #[test]
    fn remainders_have_the_sign_of_the_first() {
        let ints = |x, y| shown("math.mod", &[Value::Int(x), Value::Int(y)]);
        assert_eq!((ints(-7, 3).as_str(), ints(7, -3).as_str()), ("-1", "1"));
        assert_eq!(ints((1 << 60) + 1, 2), "1");
        assert_eq!(ints(i64::MIN, -1), "0");
        assert_eq!(ints(1, 0), "C: can't divide by zero");
        let floats = |x, y| shown("math.mod", &[Value::Float(x), Value::Float(y)]);
        assert_eq!(floats(-7.5, 2.0), "-1.5");
        assert_eq!(floats(1.0, -0.0), "C: can't divide by zero");
        assert!(floats(f64::INFINITY, 1.0).starts_with("C: "));
    }

    #[test]
    fn what_is_no_number_can_be_caught() {
        assert_eq!(shown("math.pow", &[Value::Float(2.0), Value::Float(10.0)]), "1024");
        assert!(shown("math.pow", &[Value::Float(-1.0), Value::Float(0.5)]).starts_with("C: "));
        assert!(shown("math.pow", &[Value::Float(10.0), Value::Float(999.0)]).ends_with("+Inf"));
        for number in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(shown("math.sqrt", &[Value::Float(number)]).starts_with("C: "));
        }
        assert_eq!(shown("math.minus1", &[Value::Int(i64::MIN)]), i64::MAX.to_string());
    }
}
