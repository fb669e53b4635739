//! `golang/math`

use mgmt_funcs_derive::function;

use crate::Failure;
use crate::declare::module;
use special::{
    binary_exponent, float_exponent, inverse_erf, inverse_erfc, larger, next_after, order,
    positive_difference, power_of_ten,
};

mod gamma_function;
mod special;

module! {
    path: "golang/math",
    doc: "Mathematics with floats. Nothing here is an error: what has no result is NaN.",
    functions: [abs, acos, acosh, asin, asinh, atan, atan_2, atanh, cbrt, ceil, copysign, cos, cosh, dim, erf, erfc, erfcinv, erfinv, exp, exp_2, expm_1, fma, floor, gamma, hypot, ilogb, inf, is_inf, is_na_n, j_0, j_1, jn, ldexp, log, log_10, log_1_p, log_2, logb, max, min, r#mod, na_n, nextafter, pow, pow_10, remainder, round, round_to_even, signbit, sin, sinh, sqrt, tan, tanh, trunc, y_0, y_1, yn],
}

/// The absolute value.
///
/// ```mcl
/// math.abs(-1.5) == 1.5
/// ```
#[function]
fn abs(x: f64) -> f64 {
    x.abs()
}

/// The arc cosine; NaN outside of -1 to 1.
///
/// ```mcl
/// math.acos(1.0) == 0.0
/// ```
#[function]
fn acos(x: f64) -> f64 {
    x.acos()
}

/// The inverse hyperbolic cosine; NaN below 1.
///
/// ```mcl
/// math.acosh(1.0) == 0.0
/// ```
#[function]
fn acosh(x: f64) -> f64 {
    x.acosh()
}

/// The arc sine; NaN outside of -1 to 1.
///
/// ```mcl
/// math.asin(0.0) == 0.0
/// ```
#[function]
fn asin(x: f64) -> f64 {
    x.asin()
}

/// The inverse hyperbolic sine.
///
/// ```mcl
/// math.asinh(0.0) == 0.0
/// ```
#[function]
fn asinh(x: f64) -> f64 {
    x.asinh()
}

/// The arc tangent.
///
/// ```mcl
/// math.atan(0.0) == 0.0
/// ```
#[function]
fn atan(x: f64) -> f64 {
    x.atan()
}

/// The angle of the point (x, y), where y is given first.
///
/// ```mcl
/// math.atan_2(0.0, 1.0) == 0.0
/// ```
#[function]
fn atan_2(y: f64, x: f64) -> f64 {
    y.atan2(x)
}

/// The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.
///
/// ```mcl
/// math.atanh(0.0) == 0.0
/// ```
#[function]
fn atanh(x: f64) -> f64 {
    x.atanh()
}

/// The cube root, also of negative numbers.
///
/// ```mcl
/// math.cbrt(-27.0) == -3.0
/// ```
#[function]
fn cbrt(x: f64) -> f64 {
    x.cbrt()
}

/// The next whole number that is not smaller.
///
/// ```mcl
/// math.ceil(1.2) == 2.0
/// ```
#[function]
fn ceil(x: f64) -> f64 {
    x.ceil()
}

/// The first number with the sign of the second.
///
/// ```mcl
/// math.copysign(3.0, -1.0) == -3.0
/// ```
#[function]
fn copysign(f: f64, sign: f64) -> f64 {
    f.copysign(sign)
}

/// The cosine; NaN for infinities.
///
/// ```mcl
/// math.cos(0.0) == 1.0
/// ```
#[function]
fn cos(x: f64) -> f64 {
    x.cos()
}

/// The hyperbolic cosine.
///
/// ```mcl
/// math.cosh(0.0) == 1.0
/// ```
#[function]
fn cosh(x: f64) -> f64 {
    x.cosh()
}

/// The difference, or 0 where it is negative; NaN for the difference of equal infinities.
///
/// ```mcl
/// math.dim(4.0, 1.0) == 3.0
/// math.dim(1.0, 4.0) == 0.0
/// ```
#[function]
fn dim(x: f64, y: f64) -> f64 {
    positive_difference(x, y)
}

/// The error function.
///
/// ```mcl
/// math.erf(0.0) == 0.0
/// ```
#[function]
fn erf(x: f64) -> f64 {
    libm::erf(x)
}

/// The complement of the error function: 1 - erf(x).
///
/// ```mcl
/// math.erfc(0.0) == 1.0
/// ```
#[function]
fn erfc(x: f64) -> f64 {
    libm::erfc(x)
}

/// The inverse of erfc, between 0 and 2; NaN outside.
///
/// ```mcl
/// math.erfcinv(1.0) == 0.0
/// ```
#[function]
fn erfcinv(x: f64) -> f64 {
    inverse_erfc(x)
}

/// The inverse of erf, between -1 and 1; infinite there, NaN outside.
///
/// ```mcl
/// math.erfinv(0.0) == 0.0
/// ```
#[function]
fn erfinv(x: f64) -> f64 {
    inverse_erf(x)
}

/// e to the power of a number.
///
/// ```mcl
/// math.exp(0.0) == 1.0
/// ```
#[function]
fn exp(x: f64) -> f64 {
    x.exp()
}

/// 2 to the power of a number.
///
/// ```mcl
/// math.exp_2(10.0) == 1024.0
/// ```
#[function]
fn exp_2(x: f64) -> f64 {
    x.exp2()
}

/// e to the power of a number, minus 1; exact also for small numbers.
///
/// ```mcl
/// math.expm_1(0.0) == 0.0
/// ```
#[function]
fn expm_1(x: f64) -> f64 {
    x.exp_m1()
}

/// x * y + z, rounded once.
///
/// ```mcl
/// math.fma(2.0, 3.0, 4.0) == 10.0
/// ```
#[function]
fn fma(x: f64, y: f64, z: f64) -> f64 {
    x.mul_add(y, z)
}

/// The next whole number that is not larger.
///
/// ```mcl
/// math.floor(-1.2) == -2.0
/// ```
#[function]
fn floor(x: f64) -> f64 {
    x.floor()
}

/// The gamma function; NaN for negative whole numbers, infinite with the sign of the argument for 0.
///
/// ```mcl
/// math.gamma(5.0) == 24.0
/// ```
#[function]
fn gamma(x: f64) -> f64 {
    gamma_function::gamma(x)
}

/// The length of the hypotenuse; infinite when either side is, even with NaN.
///
/// ```mcl
/// math.hypot(3.0, 4.0) == 5.0
/// ```
#[function]
fn hypot(p: f64, q: f64) -> f64 {
    p.hypot(q)
}

/// The binary exponent. For 0 it is the smallest, for NaN and infinities the largest number of 32 bits.
///
/// ```mcl
/// math.ilogb(8.0) == 3
/// ```
#[function]
fn ilogb(x: f64) -> i64 {
    binary_exponent(x)
}

/// Infinity, negative if the argument is.
///
/// ```mcl
/// math.is_inf(math.inf(-1), -1) == true
/// ```
#[function]
fn inf(sign: i64) -> f64 {
    if sign >= 0 { f64::INFINITY } else { f64::NEG_INFINITY }
}

/// Whether a number is infinite: positive for a sign above 0, negative below, either for 0.
///
/// ```mcl
/// math.is_inf(1.0, 0) == false
/// ```
#[function]
fn is_inf(f: f64, sign: i64) -> bool {
    f.is_infinite() && (sign == 0 || (sign > 0) == (f > 0.0))
}

/// Whether it is no number.
///
/// ```mcl
/// math.is_na_n(math.na_n()) == true
/// ```
#[function]
fn is_na_n(f: f64) -> bool {
    f.is_nan()
}

/// The Bessel function of the first kind, of order 0.
///
/// ```mcl
/// math.j_0(0.0) == 1.0
/// ```
#[function]
fn j_0(x: f64) -> f64 {
    libm::j0(x)
}

/// The Bessel function of the first kind, of order 1.
///
/// ```mcl
/// math.j_1(0.0) == 0.0
/// ```
#[function]
fn j_1(x: f64) -> f64 {
    libm::j1(x)
}

/// The Bessel function of the first kind, of any order up to ten million.
///
/// ```mcl
/// math.jn(0, 0.0) == 1.0
/// ```
#[function]
fn jn(n: i64, x: f64) -> Result<f64, Failure> {
    Ok(libm::jn(order(n)?, x))
}

/// A number times a power of two.
///
/// ```mcl
/// math.ldexp(0.5, 3) == 4.0
/// ```
#[function]
fn ldexp(frac: f64, exp: i64) -> f64 {
    libm::ldexp(frac, exp.clamp(-5000, 5000) as i32)
}

/// The natural logarithm; minus infinity at 0, NaN below.
///
/// ```mcl
/// math.log(1.0) == 0.0
/// ```
#[function]
fn log(x: f64) -> f64 {
    x.ln()
}

/// The decimal logarithm.
///
/// ```mcl
/// math.log_10(100.0) == 2.0
/// ```
#[function]
fn log_10(x: f64) -> f64 {
    x.log10()
}

/// The natural logarithm of 1 plus a number; exact also for small numbers.
///
/// ```mcl
/// math.log_1_p(0.0) == 0.0
/// ```
#[function]
fn log_1_p(x: f64) -> f64 {
    x.ln_1p()
}

/// The binary logarithm.
///
/// ```mcl
/// math.log_2(8.0) == 3.0
/// ```
#[function]
fn log_2(x: f64) -> f64 {
    x.log2()
}

/// The binary exponent as a float.
///
/// ```mcl
/// math.logb(8.0) == 3.0
/// ```
#[function]
fn logb(x: f64) -> f64 {
    float_exponent(x)
}

/// The larger number. Positive infinity wins over NaN, which wins over all others.
///
/// ```mcl
/// math.max(1.0, 2.0) == 2.0
/// ```
#[function]
fn max(x: f64, y: f64) -> f64 {
    larger(x, y)
}

/// The smaller number. Negative infinity wins over NaN, which wins over all others.
///
/// ```mcl
/// math.min(1.0, 2.0) == 1.0
/// ```
#[function]
fn min(x: f64, y: f64) -> f64 {
    -larger(-x, -y)
}

/// The remainder, with the sign of the first number; NaN when the second is 0.
///
/// ```mcl
/// math.mod(7.5, 2.0) == 1.5
/// ```
#[function]
fn r#mod(x: f64, y: f64) -> f64 {
    x % y
}

/// NaN, which is no number and equals nothing.
///
/// ```mcl
/// math.is_na_n(math.na_n()) == true
/// ```
#[function]
fn na_n() -> f64 {
    f64::NAN
}

/// The next number from the first towards the second.
///
/// ```mcl
/// math.nextafter(1.0, 1.0) == 1.0
/// ```
#[function]
fn nextafter(x: f64, y: f64) -> f64 {
    next_after(x, y)
}

/// A number to the power of another. The result may be infinite or NaN; compare `math.pow`.
///
/// ```mcl
/// math.pow(2.0, 10.0) == 1024.0
/// ```
#[function]
fn pow(x: f64, y: f64) -> f64 {
    x.powf(y)
}

/// 10 to the power of an int; 0 below -323, infinite above 308.
///
/// ```mcl
/// math.pow_10(3) == 1000.0
/// ```
#[function]
fn pow_10(n: i64) -> f64 {
    power_of_ten(n)
}

/// The remainder to the nearest multiple, with ties to the even one.
///
/// ```mcl
/// math.remainder(5.0, 3.0) == -1.0
/// ```
#[function]
fn remainder(x: f64, y: f64) -> f64 {
    libm::remainder(x, y)
}

/// The nearest whole number; half is rounded away from zero.
///
/// ```mcl
/// math.round(2.5) == 3.0
/// ```
#[function]
fn round(x: f64) -> f64 {
    x.round()
}

/// The nearest whole number; half is rounded to the even one.
///
/// ```mcl
/// math.round_to_even(2.5) == 2.0
/// ```
#[function]
fn round_to_even(x: f64) -> f64 {
    x.round_ties_even()
}

/// Whether a number is negative, or negative zero.
///
/// ```mcl
/// math.signbit(-1.0) == true
/// ```
#[function]
fn signbit(x: f64) -> bool {
    x.is_sign_negative()
}

/// The sine; NaN for infinities.
///
/// ```mcl
/// math.sin(0.0) == 0.0
/// ```
#[function]
fn sin(x: f64) -> f64 {
    x.sin()
}

/// The hyperbolic sine.
///
/// ```mcl
/// math.sinh(0.0) == 0.0
/// ```
#[function]
fn sinh(x: f64) -> f64 {
    x.sinh()
}

/// The square root; NaN below 0. Compare `math.sqrt`.
///
/// ```mcl
/// math.sqrt(16.0) == 4.0
/// ```
#[function]
fn sqrt(x: f64) -> f64 {
    x.sqrt()
}

/// The tangent; NaN for infinities.
///
/// ```mcl
/// math.tan(0.0) == 0.0
/// ```
#[function]
fn tan(x: f64) -> f64 {
    x.tan()
}

/// The hyperbolic tangent.
///
/// ```mcl
/// math.tanh(0.0) == 0.0
/// ```
#[function]
fn tanh(x: f64) -> f64 {
    x.tanh()
}

/// The number without its fraction.
///
/// ```mcl
/// math.trunc(-1.7) == -1.0
/// ```
#[function]
fn trunc(x: f64) -> f64 {
    x.trunc()
}

/// The Bessel function of the second kind, of order 0; minus infinity at 0, NaN below.
///
/// ```mcl
/// math.is_inf(math.y_0(0.0), -1) == true
/// ```
#[function]
fn y_0(x: f64) -> f64 {
    libm::y0(x)
}

/// The Bessel function of the second kind, of order 1; minus infinity at 0, NaN below.
///
/// ```mcl
/// math.is_inf(math.y_1(0.0), -1) == true
/// ```
#[function]
fn y_1(x: f64) -> f64 {
    libm::y1(x)
}

/// The Bessel function of the second kind, of any order up to ten million.
///
/// ```mcl
/// math.is_inf(math.yn(0, 0.0), -1) == true
/// ```
#[function]
fn yn(n: i64, x: f64) -> Result<f64, Failure> {
    Ok(libm::yn(order(n)?, x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::{call, shown};
    use mgmt_value::Value;

    #[test]
    fn nothing_is_a_number_by_accident() {
        for (name, argument) in
            [("acos", 2.0), ("acosh", 0.5), ("log", -1.0), ("sqrt", -1.0), ("gamma", -1.0), ("y_0", -1.0)]
        {
            assert_eq!(shown(&format!("golang/math.{name}"), &[Value::Float(argument)]), "NaN", "{name}");
        }
        assert_eq!(shown("golang/math.mod", &[Value::Float(1.0), Value::Float(0.0)]), "NaN");
        assert_eq!(shown("golang/math.log", &[Value::Float(0.0)]), "-Inf");
        assert_eq!(shown("golang/math.atanh", &[Value::Float(1.0)]), "+Inf");
    }

    #[test]
    fn signs_of_infinity() {
        assert!(is_inf(inf(0), 1) && is_inf(inf(-1), -1) && is_inf(inf(1), 0));
        assert!(!is_inf(inf(1), -1) && !is_inf(inf(-1), 1) && !is_inf(f64::NAN, 0));
        assert!(signbit(-0.0) && !signbit(0.0));
    }

    #[test]
    fn rounding() {
        assert_eq!((round(-2.5), round_to_even(-2.5), trunc(-2.5)), (-3.0, -2.0, -2.0));
        assert_eq!((remainder(5.0, 3.0), remainder(-5.0, 3.0), r#mod(-5.0, 3.0)), (-1.0, 1.0, -2.0));
        assert_eq!(round(0.499_999_999_999_999_94), 0.0);
    }

    #[test]
    fn special_functions_agree_with_tables() {
        for (name, argument, expected) in [
            ("erf", 0.5, 0.520_499_877_813_046_5),
            ("gamma", 0.5, 1.772_453_850_905_516),
            ("j_0", 1.0, 0.765_197_686_557_966_6),
            ("j_1", 1.0, 0.440_050_585_744_933_5),
            ("y_0", 1.0, 0.088_256_964_215_676_96),
            ("y_1", 1.0, -0.781_212_821_300_288_7),
            ("erfinv", 0.520_499_877_813_046_5, 0.5),
        ] {
            let Ok(Value::Float(found)) = call(&format!("golang/math.{name}"), &[Value::Float(argument)])
            else {
                panic!("{name} gives no float");
            };
            assert!((found - expected).abs() < 1e-15, "{name}: {found}");
        }
        assert!((jn(2, 1.0).unwrap() - 0.114_903_484_931_900_5).abs() < 1e-15);
        assert!(jn(i64::MAX, 1.0).is_err() && yn(i64::MIN, 1.0).is_err());
    }

    #[test]
    fn powers_of_two_may_be_out_of_range() {
        assert_eq!(ldexp(1.0, i64::MAX), f64::INFINITY);
        assert_eq!(ldexp(1.0, i64::MIN), 0.0);
        assert_eq!(ldexp(1.0, -1074), 5e-324);
    }
}
