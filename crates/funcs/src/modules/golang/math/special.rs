//! What neither the standard library nor `libm` has, or has with other rules.

use crate::Failure;

/// The order of a Bessel function. The work grows with it.
pub(super) fn order(n: i64) -> Result<i32, Failure> {
    match n {
        -10_000_000..=10_000_000 => Ok(n as i32),
        _ => Err(Failure::fatal(format!("the order {n} is too large, expected at most ten million"))),
    }
}

pub(super) fn positive_difference(x: f64, y: f64) -> f64 {
    let difference = x - y;
    // A NaN is not below zero and stays.
    if difference <= 0.0 { 0.0 } else { difference }
}

/// The larger number, where NaN loses to positive infinity only.
pub(super) fn larger(x: f64, y: f64) -> f64 {
    if x == f64::INFINITY || y == f64::INFINITY {
        f64::INFINITY
    } else if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x == 0.0 && y == 0.0 {
        if x.is_sign_negative() { y } else { x }
    } else {
        x.max(y)
    }
}

pub(super) fn binary_exponent(x: f64) -> i64 {
    if x == 0.0 {
        i64::from(i32::MIN)
    } else if x.is_finite() {
        i64::from(libm::ilogb(x))
    } else {
        i64::from(i32::MAX)
    }
}

pub(super) fn float_exponent(x: f64) -> f64 {
    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x.is_finite() {
        f64::from(libm::ilogb(x))
    } else {
        x * x
    }
}

pub(super) fn next_after(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x == y {
        x
    } else if x < y {
        x.next_up()
    } else {
        x.next_down()
    }
}

pub(super) fn power_of_ten(n: i64) -> f64 {
    match n {
        // Reading text rounds correctly.
        -323..=308 => format!("1e{n}").parse().unwrap_or(f64::NAN),
        ..-323 => 0.0,
        309.. => f64::INFINITY,
    }
}

/// The slope of erf at y.
fn slope(y: f64) -> f64 {
    std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp()
}

/// A first guess with three good digits, from the product (1 - x)(1 + x).
fn guess(product: f64) -> f64 {
    const A: f64 = 0.147;
    let log = product.ln();
    let half = 2.0 / (std::f64::consts::PI * A) + log / 2.0;
    ((half * half - log / A).sqrt() - half).sqrt()
}

pub(super) fn inverse_erf(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 1.0 {
        return f64::NAN;
    }
    if x.abs() == 1.0 {
        return x * f64::INFINITY;
    }
    if x.abs() > 0.5 {
        return inverse_erfc(1.0 - x.abs()).copysign(x);
    }
    if x == 0.0 {
        return x;
    }
    // Each step triples the number of good digits.
    let mut y = guess((1.0 - x) * (1.0 + x)).copysign(x);
    for _ in 0..3 {
        let error = libm::erf(y) - x;
        y -= error / (slope(y) + y * error);
    }
    y
}

pub(super) fn inverse_erfc(x: f64) -> f64 {
    if x.is_nan() || !(0.0..=2.0).contains(&x) {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::INFINITY;
    }
    if x > 1.0 {
        return -inverse_erfc(2.0 - x);
    }
    if x >= 0.5 {
        return inverse_erf(1.0 - x);
    }
    let mut y = guess(x * (2.0 - x));
    for _ in 0..3 {
        let error = libm::erfc(y) - x;
        y += error / (slope(y) - y * error);
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverses_undo() {
        for y in [1e-300, 1e-10, 0.1, 0.4, 0.5, 1.0, 2.0, 3.0, 5.0] {
            for y in [y, -y] {
                let back = inverse_erf(libm::erf(y));
                // Near one the function itself has lost digits.
                if y.abs() < 2.0 {
                    assert!((back - y).abs() <= 1e-13 * y.abs(), "{y} {back}");
                }
                if y > 0.0 {
                    let back = inverse_erfc(libm::erfc(y));
                    assert!((back - y).abs() <= 1e-14 * y.max(1.0), "{y} {back}");
                }
            }
        }
        assert!((inverse_erfc(libm::erfc(25.0)) - 25.0).abs() < 1e-12);
        assert_eq!(inverse_erf(1.0), f64::INFINITY);
        assert_eq!(inverse_erf(-1.0), f64::NEG_INFINITY);
        assert_eq!(inverse_erfc(0.0), f64::INFINITY);
        assert_eq!(inverse_erfc(2.0), f64::NEG_INFINITY);
        assert!(inverse_erf(1.1).is_nan() && inverse_erfc(-0.1).is_nan() && inverse_erfc(2.1).is_nan());
    }

    #[test]
    fn nan_wins_except_against_infinity() {
        assert!(larger(f64::NAN, 1.0).is_nan() && larger(1.0, f64::NAN).is_nan());
        assert_eq!(larger(f64::NAN, f64::INFINITY), f64::INFINITY);
        assert!(larger(0.0, -0.0).is_sign_positive() && larger(-0.0, 0.0).is_sign_positive());
        assert!((-larger(-0.0, 0.0)).is_sign_negative());
        assert_eq!(positive_difference(1.0, 2.0), 0.0);
        assert!(positive_difference(f64::INFINITY, f64::INFINITY).is_nan());
    }

    #[test]
    fn exponents() {
        assert_eq!((binary_exponent(0.0), binary_exponent(f64::NAN)), (-2_147_483_648, 2_147_483_647));
        assert_eq!((binary_exponent(8.5), binary_exponent(5e-324)), (3, -1074));
        assert_eq!(
            (float_exponent(0.0), float_exponent(f64::NEG_INFINITY)),
            (f64::NEG_INFINITY, f64::INFINITY)
        );
        assert!(float_exponent(f64::NAN).is_nan());
        assert_eq!((power_of_ten(-324), power_of_ten(309), power_of_ten(22)), (0.0, f64::INFINITY, 1e22));
        assert_eq!(power_of_ten(-323), 1e-323);
        assert_eq!((next_after(0.0, 1.0), next_after(1.0, 0.0)), (5e-324, 1.0_f64.next_down()));
    }
}
