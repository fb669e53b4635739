//! `eq`, `lt` and their relatives.

use std::cmp::Ordering;

use super::data::Datum;

type Result<T> = std::result::Result<T, String>;

/// Whether two values are the same. Only simple values can be compared, and only with their like.
pub(super) fn equal(a: &Datum, b: &Datum) -> Result<bool> {
    match (a, b) {
        (Datum::Nil, Datum::Nil) => Ok(true),
        (Datum::Nil, _) | (_, Datum::Nil) => Ok(false),
        (Datum::Float(a), Datum::Float(b)) => Ok(a == b),
        (Datum::List(_) | Datum::Map(_), _) => {
            Err(format!("uncomparable type {}: {}", a.kind(), super::format::text(a)))
        }
        (_, Datum::List(_) | Datum::Map(_)) => {
            Err(format!("uncomparable type {}: {}", b.kind(), super::format::text(b)))
        }
        (a, b) if a.is_like(b) => Ok(a.order(b).is_eq()),
        _ => Err("incompatible types for comparison".to_owned()),
    }
}

/// Whether the first value is smaller.
pub(super) fn less(a: &Datum, b: &Datum) -> Result<bool> {
    match (a, b) {
        (Datum::Int(a, _), Datum::Int(b, _)) => Ok(a < b),
        (Datum::Float(a), Datum::Float(b)) => Ok(a < b),
        (Datum::Str(a), Datum::Str(b)) => Ok(a.cmp(b) == Ordering::Less),
        (a, b) if !a.is_like(b) => Err("incompatible types for comparison".to_owned()),
        _ => Err("invalid type for comparison".to_owned()),
    }
}
