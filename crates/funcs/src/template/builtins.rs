//! Functions that every template has.

use super::data::{Datum, IntType};
use super::{compare, format};
use crate::modules::golang::html;

type Result<T> = std::result::Result<T, String>;

const NAMES: [&str; 19] = [
    "and", "or", "not", "len", "index", "slice", "print", "printf", "println", "html", "js", "urlquery",
    "call", "eq", "ne", "lt", "le", "gt", "ge",
];

pub(super) fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Calls a function. `and` and `or` are not here, because they do not look at all of their arguments.
pub(super) fn call(name: &str, arguments: &[Datum]) -> Result<Datum> {
    let wants = |least: usize| match arguments.len() >= least {
        true => Ok(()),
        false => {
            Err(format!("wrong number of args for {name}: want at least {least} got {}", arguments.len()))
        }
    };
    let exactly = |count: usize| match arguments.len() == count {
        true => Ok(()),
        false => Err(format!("wrong number of args for {name}: want {count} got {}", arguments.len())),
    };
    Ok(match name {
        "not" => {
            exactly(1)?;
            Datum::Bool(!arguments[0].is_true())
        }
        "len" => {
            exactly(1)?;
            Datum::int(length(&arguments[0])? as i64)
        }
        "index" => {
            wants(1)?;
            arguments[1..].iter().try_fold(arguments[0].clone(), |item, key| index(&item, key))?
        }
        "slice" => {
            wants(1)?;
            slice(&arguments[0], &arguments[1..])?
        }
        "print" => Datum::str(format::print(arguments)),
        "println" => Datum::str(format::println(arguments)),
        "printf" => match arguments {
            [Datum::Str(format), values @ ..] => Datum::str(format::printf(format, values)),
            [other, ..] => {
                return Err(format!("wrong type for value; expected string; got {}", other.kind()));
            }
            [] => return Err("wrong number of args for printf: want at least 1 got 0".to_owned()),
        },
        "html" => Datum::str(html::escape(&joined(arguments))),
        "js" => Datum::str(script(&joined(arguments))),
        "urlquery" => Datum::str(query(&joined(arguments))),
        "call" => return Err("there are no function values to call".to_owned()),
        "eq" => {
            wants(2)?;
            let same = arguments[1..].iter().map(|other| compare::equal(&arguments[0], other));
            Datum::Bool(same.collect::<Result<Vec<_>>>()?.contains(&true))
        }
        "ne" => {
            exactly(2)?;
            Datum::Bool(!compare::equal(&arguments[0], &arguments[1])?)
        }
        "lt" | "le" | "gt" | "ge" => {
            exactly(2)?;
            let (a, b) = (&arguments[0], &arguments[1]);
            let less = compare::less(a, b)?;
            Datum::Bool(match name {
                "lt" => less,
                "le" => less || compare::equal(a, b)?,
                "gt" => !less && !compare::equal(a, b)? && compare::less(b, a)?,
                _ => compare::less(b, a)? || compare::equal(a, b)?,
            })
        }
        _ => return Err(format!("function {name:?} not defined")),
    })
}

fn joined(arguments: &[Datum]) -> Vec<u8> {
    match arguments {
        [Datum::Str(text)] => text.to_vec(),
        arguments => format::print(arguments),
    }
}

fn length(datum: &Datum) -> Result<usize> {
    match datum {
        Datum::Str(text) => Ok(text.len()),
        Datum::List(items) => Ok(items.len()),
        Datum::Map(entries) => Ok(entries.len()),
        Datum::Nil => Err("len of nil pointer".to_owned()),
        other => Err(format!("len of type {}", other.kind())),
    }
}

fn index(item: &Datum, key: &Datum) -> Result<Datum> {
    let position = |length: usize| match key {
        Datum::Int(at, _) => match usize::try_from(*at) {
            Ok(position) if position < length => Ok(position),
            _ => Err(format!("error calling index: index out of range: {at}")),
        },
        other => Err(format!("error calling index: cannot index slice/array with type {}", other.kind())),
    };
    match item {
        Datum::List(items) => Ok(items[position(items.len())?].clone()),
        Datum::Str(text) => Ok(Datum::Int(i64::from(text[position(text.len())?]), IntType::Uint8)),
        Datum::Map(entries) => {
            if let Some((first, _)) = entries.first()
                && !first.is_like(key)
            {
                let (found, wanted) = (key.kind(), first.kind());
                return Err(format!("error calling index: value has type {found}; should be {wanted}"));
            }
            Ok(Datum::get(entries, key).cloned().unwrap_or(Datum::Nil))
        }
        Datum::Nil => Err("error calling index: index of untyped nil".to_owned()),
        other => Err(format!("error calling index: can't index item of type {}", other.kind())),
    }
}

fn slice(item: &Datum, bounds: &[Datum]) -> Result<Datum> {
    let length = match item {
        Datum::Str(text) => text.len(),
        Datum::List(items) => items.len(),
        other => return Err(format!("error calling slice: can't slice item of type {}", other.kind())),
    };
    if bounds.len() > 3 || bounds.len() == 3 && matches!(item, Datum::Str(_)) {
        return Err(format!("error calling slice: too many slice indexes: {}", bounds.len()));
    }
    let bound = |at: usize, default: usize| match bounds.get(at) {
        None => Ok(default),
        Some(Datum::Int(bound, _)) => usize::try_from(*bound)
            .ok()
            .filter(|bound| *bound <= length)
            .ok_or_else(|| format!("error calling slice: index out of range: {bound}")),
        Some(other) => {
            Err(format!("error calling slice: cannot index slice/array with type {}", other.kind()))
        }
    };
    let (low, high) = (bound(0, 0)?, bound(1, length)?);
    let most = bound(2, length)?;
    if low > high || high > most {
        return Err(format!("error calling slice: invalid slice index: {low} > {high}"));
    }
    Ok(match item {
        Datum::List(items) => Datum::List(std::rc::Rc::new(items[low..high].to_vec())),
        Datum::Str(text) => Datum::str(&text[low..high]),
        _ => Datum::Nil,
    })
}

/// Text within a script.
fn script(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.extend_from_slice(br"\\"),
                '\'' => out.extend_from_slice(br"\'"),
                '"' => out.extend_from_slice(br#"\""#),
                '<' | '>' | '&' | '=' | '\0'..='\u{1f}' => {
                    out.extend(format!("\\u{:04X}", character as u32).into_bytes());
                }
                character if crate::quote::prints(character) => {
                    out.extend(character.encode_utf8(&mut [0; 4]).bytes());
                }
                character => out.extend(format!("\\u{:04X}", character as u32).into_bytes()),
            }
        }
        out.extend(chunk.invalid().iter().flat_map(|_| br"\uFFFD".iter().copied()));
    }
    out
}

/// Text within the query of a URL.
fn query(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b' ' => out.push(b'+'),
            b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            byte if byte.is_ascii_alphanumeric() => out.push(*byte),
            byte => out.extend(format!("%{byte:02X}").into_bytes()),
        }
    }
    out
}
