//! The gamma function with the accuracy and the special cases of Go's `math.Gamma`.
//!
//! Both use the method of the Cephes library: a rational approximation between 2 and 3 that is reached by recurrence, Stirling's
//! formula above 33, and the reflection formula below -33.

use std::f64::consts::PI;

/// The numerator between 2 and 3, highest power first.
const NUMERATOR: [f64; 7] = [
    1.601_195_224_767_518_5e-4,
    1.191_351_470_065_863_8e-3,
    1.042_137_975_617_615_7e-2,
    4.763_678_004_571_372e-2,
    2.074_482_276_484_359_8e-1,
    4.942_148_268_014_971e-1,
    1.0,
];

/// The denominator between 2 and 3.
const DENOMINATOR: [f64; 8] = [
    -2.315_818_733_241_201_4e-5,
    5.396_055_804_933_034e-4,
    -4.456_419_138_517_973e-3,
    1.181_397_852_220_604_3e-2,
    3.582_363_986_054_986_5e-2,
    -2.345_917_957_182_433_5e-1,
    7.143_049_170_302_73e-2,
    1.0,
];

/// The series behind Stirling's formula, in powers of the reciprocal.
const STIRLING: [f64; 5] = [
    7.873_113_957_930_937e-4,
    -2.295_499_616_133_781_3e-4,
    -2.681_326_178_057_812_4e-3,
    3.472_222_216_054_586_6e-3,
    8.333_333_333_334_822e-2,
];

const EULER: f64 = 0.577_215_664_901_532_9;
const SQRT_TWO_PI: f64 = 2.506_628_274_631_000_7;
/// From here on `x.powf(x)` would overflow.
const MAX_DIRECT_POWER: f64 = 143.01608;
/// Below this distance from 0 the series has one term.
const TINY: f64 = 1e-9;

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

pub(super) fn gamma(x: f64) -> f64 {
    if x.is_nan() || x == f64::NEG_INFINITY || (x < 0.0 && x.fract() == 0.0) {
        return f64::NAN;
    }
    if x == f64::INFINITY {
        return x;
    }
    if x == 0.0 {
        return f64::INFINITY.copysign(x);
    }
    match x {
        _ if x > 33.0 => {
            let (large, small) = stirling(x);
            large * small
        }
        _ if x < -33.0 => reflected(-x),
        _ => near(x),
    }
}

/// Between -33 and 33: the argument is moved to between 2 and 3.
fn near(mut x: f64) -> f64 {
    let mut factor = 1.0;
    while x >= 3.0 {
        x -= 1.0;
        factor *= x;
    }
    while x <= -TINY {
        factor /= x;
        x += 1.0;
    }
    if x < TINY {
        return if x == 0.0 { f64::INFINITY } else { factor / ((1.0 + EULER * x) * x) };
    }
    while x < 2.0 {
        factor /= x;
        x += 1.0;
    }
    if x == 2.0 {
        return factor;
    }
    x -= 2.0;
    factor * polynomial(&NUMERATOR, x) / polynomial(&DENOMINATOR, x)
}

/// Below -33, by the value at the other side of 0.
fn reflected(x: f64) -> f64 {
    let floor = x.floor();
    let sign = if floor % 2.0 == 0.0 { -1.0 } else { 1.0 };
    let mut distance = x - floor;
    if distance > 0.5 {
        distance = x - (floor + 1.0);
    }
    let height = (x * (PI * distance).sin()).abs();
    if height == 0.0 {
        return sign * f64::INFINITY;
    }
    let (large, small) = stirling(x);
    let product = height * large * small;
    // Where the product overflows, the quotient is not zero yet.
    sign * if product.is_infinite() { PI / height / large / small } else { PI / product }
}

/// Two factors of the value, each of which fits where the value may not.
fn stirling(x: f64) -> (f64, f64) {
    if x > 200.0 {
        return (f64::INFINITY, 1.0);
    }
    let reciprocal = 1.0 / x;
    let series = 1.0 + reciprocal * polynomial(&STIRLING, reciprocal);
    let exponential = x.exp();
    if x > MAX_DIRECT_POWER {
        let root = x.powf(0.5 * x - 0.25);
        return (root, SQRT_TWO_PI * series * (root / exponential));
    }
    (x.powf(x - 0.5) / exponential, SQRT_TWO_PI * series)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    /// Arguments and what Go 1.26 computes, as bits.
    const GO: &str = include_str!("gamma.txt");

    #[test]
    fn values_are_those_of_go() {
        let float = |text: &str| f64::from_bits(u64::from_str_radix(text, 16).unwrap());
        for line in GO.lines() {
            let (x, expected) = line.split_once(' ').unwrap();
            let (x, expected) = (float(x), float(expected));
            let found = super::gamma(x);
            if expected.is_nan() || expected.is_infinite() || expected == 0.0 {
                assert!(
                    found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                    "{x:?}: expected {expected:?}, found {found:?}"
                );
                continue;
            }
            // Up to 33 it is a quotient of polynomials, the same to the last bit. Beyond that, Go's own power function is some
            // units in the last place off: 166! by 27 of them.
            let tolerance = if x.abs() <= 33.0 { 0 } else { 64 };
            let distance = found.to_bits().abs_diff(expected.to_bits());
            assert!(distance <= tolerance, "{x:?}: expected {expected:?}, found {found:?}, {distance} apart");
        }
    }
}
