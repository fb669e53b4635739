//! `golang/math/rand`

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::{Failure, random};

module! {
    path: "golang/math/rand",
    doc: "Chance. A call draws anew whenever it is evaluated, so it should not feed anything that ought to stay.",
    functions: [exp_float_64, float_64, int, int_63, int_63_n, intn, norm_float_64, read],
}

/// A number of 53 random bits, from 0 up to 1.
fn unit() -> Result<f64, Failure> {
    Ok((random::word()? >> 11) as f64 / (1_u64 << 53) as f64)
}

fn below(n: i64) -> Result<i64, Failure> {
    let count = u64::try_from(n).ok().filter(|count| *count > 0);
    let count =
        count.ok_or_else(|| Failure::fatal(format!("can't draw below {n}, expected a positive number")))?;
    // Words beyond the last multiple would make small numbers more likely.
    let limit = u64::MAX - u64::MAX % count;
    loop {
        let word = random::word()?;
        if word < limit {
            return Ok((word % count) as i64);
        }
    }
}

/// An exponentially distributed number with a mean of 1.
///
/// ```mcl
/// rand.exp_float_64() < 1000.0
/// ```
#[function(reads)]
fn exp_float_64() -> Result<f64, Failure> {
    Ok(-(1.0 - unit()?).ln())
}

/// A number from 0 up to, but not including, 1.
///
/// ```mcl
/// rand.float_64() < 1.0
/// ```
#[function(reads)]
fn float_64() -> Result<f64, Failure> {
    unit()
}

/// An int that is not negative. `int` is a keyword, so it can only be called from templates; use `int_63`.
///
/// ```mcl
/// import "golang"
/// golang.template("{{ ge golang_math_rand_int 0 }}") == "true"
/// ```
#[function(reads)]
fn int() -> Result<i64, Failure> {
    int_63()
}

/// An int that is not negative.
///
/// ```mcl
/// rand.int_63() >= 0
/// ```
#[function(reads)]
fn int_63() -> Result<i64, Failure> {
    Ok((random::word()? >> 1) as i64)
}

/// An int from 0 up to, but not including, a number. A number that is not positive is a fatal error.
///
/// ```mcl
/// rand.int_63_n(1) == 0
/// ```
#[function(reads)]
fn int_63_n(n: i64) -> Result<i64, Failure> {
    below(n)
}

/// An int from 0 up to, but not including, a number. A number that is not positive is a fatal error.
///
/// ```mcl
/// rand.intn(1) == 0
/// ```
#[function(reads)]
fn intn(n: i64) -> Result<i64, Failure> {
    below(n)
}

/// A normally distributed number with a mean of 0 and a deviation of 1.
///
/// ```mcl
/// rand.norm_float_64() < 100.0
/// ```
#[function(reads)]
fn norm_float_64() -> Result<f64, Failure> {
    let radius = (-2.0 * (1.0 - unit()?).ln()).sqrt();
    Ok(radius * (std::f64::consts::TAU * unit()?).cos())
}

/// The length of a text, as if as many random bytes had been drawn. The bytes themselves cannot be had.
///
/// ```mcl
/// rand.read("four") == 4
/// ```
#[function(reads)]
fn read(p: &Str) -> i64 {
    p.len() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_ranges() {
        let mut seen = [false; 5];
        for _ in 0..1000 {
            assert!((0.0..1.0).contains(&float_64().unwrap()));
            assert!(exp_float_64().unwrap() >= 0.0);
            assert!(norm_float_64().unwrap().abs() < 40.0);
            assert!(int_63().unwrap() >= 0 && int().unwrap() >= 0);
            seen[intn(5).unwrap() as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert!(int_63_n(i64::MAX).unwrap() >= 0);
        for n in [0, -1, i64::MIN] {
            assert!(matches!(intn(n), Err(Failure::Fatal(_))));
        }
    }
}
