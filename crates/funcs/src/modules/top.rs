//! The top level: what needs no import.

use std::collections::VecDeque;
use std::time::Duration;

use mgmt_funcs_derive::function;
use mgmt_value::{List, Map, Str, Struct, Value};

use crate::declare::{arity, module};
use crate::modules::world::collect;
use crate::modules::{list, map};
use crate::{Failure, Host, Memory, Watch, operators};

module! {
    path: "",
    doc: "Functions and constants that need no import.",
    functions: [
        concat, contains, history, len, list_lookup, map_lookup, panic, panic_debug, random1, _operator, _lookup,
        _struct_lookup, _struct_lookup_optional, _collect,
    ],
    constants: [
        "purpleidea" = Str::from("hello world!"), "A greeting.";
        "const.res.file.state.exists" = Str::from("exists"), "The path is there.";
        "const.res.file.state.absent" = Str::from("absent"), "The path is not there.";
        "const.res.file.state.undefined" = Str::EMPTY, "Follows from the other parameters.";
        "const.res.net.state.up" = Str::from("up"), "The interface is up.";
        "const.res.net.state.down" = Str::from("down"), "The interface is down.";
        "const.res.net.state.undefined" = Str::EMPTY, "The state is left alone.";
        "const.res.firewalld.state.exists" = Str::from("exists"), "The services and ports are let in.";
        "const.res.firewalld.state.absent" = Str::from("absent"), "The services and ports are kept out.";
        "const.res.firewalld.state.undefined" = Str::EMPTY, "The same as `exists`.";
        "const.res.tar.format.unknown" = 0_i64, "Whatever fits.";
        "const.res.tar.format.ustar" = 2_i64, "The format of 1988.";
        "const.res.tar.format.pax" = 4_i64, "The format of 2001.";
        "const.res.tar.format.gnu" = 8_i64, "The format of GNU tar.";
        "const.res.gzip.level.no_compression" = 0_i64, "Only wraps.";
        "const.res.gzip.level.best_speed" = 1_i64, "Fast.";
        "const.res.gzip.level.best_compression" = 9_i64, "Small.";
        "const.res.gzip.level.default_compression" = -1_i64, "A balance.";
        "const.res.gzip.level.huffman_only" = -2_i64, "Does not look for repetitions.";
    ],
}

/// Joins two texts. This is what text with `${…}` in it becomes.
///
/// ```mcl
/// concat("a", "b") == "ab"
/// ```
#[function]
fn concat(a: &[u8], b: &[u8]) -> Str {
    Str::new([a, b].concat())
}

/// Whether a value is in a list. This is what `in` becomes.
///
/// ```mcl
/// contains(2, [1, 2, 3,]) == true
/// contains("x", []) == false
/// ```
#[function(signature = "func(needle ?1, haystack []?1) bool")]
fn contains(needle: &Value, haystack: &List) -> bool {
    haystack.items.contains(needle)
}

/// The number of bytes in a text, of items in a list, or of entries in a map.
///
/// ```mcl
/// len("é") == 2
/// len([1, 2,]) == 2
/// len({"a" => 1,}) == 1
/// ```
#[function(signature = "func(?1) int where ?1 is str | list | map")]
fn len(value: &Value) -> Result<i64, Failure> {
    Ok(match value {
        Value::Str(text) => text.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.entries().len(),
        other => return Err(Failure::fatal(format!("expected str, list or map, found {}", other.ty()))),
    } as i64)
}

/// What one call site remembers: each value with the time at which it appeared.
#[derive(Default)]
struct Past {
    index: i64,
    samples: VecDeque<(Duration, Value)>,
}

fn sampling(index: i64) -> Result<Duration, Failure> {
    match u64::try_from(index) {
        Ok(0..10) => Ok(Duration::from_millis(100)),
        Ok(age) => Ok(Duration::from_millis(age / 10)),
        Err(_) => Err(Failure::fatal(format!("can't look {index} milliseconds back, expected at least 0"))),
    }
}

/// A value as it was so many milliseconds ago.
///
/// The past is looked at ten times within that time, so the result follows by itself, that much late. As long as nothing is
/// old enough, it is the oldest value that is known. What is remembered is lost when the program ends. A negative time is
/// a fatal error.
///
/// ```mcl,host
/// import "datetime"
/// history(datetime.now(), 3000) == datetime.now() - 3
/// ```
#[function(live = vec![Watch::Interval(sampling(index)?)], signature = "func(value ?1, index int) ?1")]
fn history(memory: &mut Memory, host: &dyn Host, value: &Value, index: i64) -> Result<Value, Failure> {
    sampling(index)?;
    let now = host.uptime();
    let age = Duration::from_millis(index.unsigned_abs());
    let past = memory.get::<Past>();
    if past.index != index {
        *past = Past { index, ..Past::default() };
    }
    if past.samples.back().is_none_or(|(_, last)| last != value) {
        past.samples.push_back((now, value.clone()));
    }
    // The newest that is old enough stays in front; what is older will not be asked for any more.
    while past.samples.get(1).is_some_and(|(then, _)| now.saturating_sub(*then) >= age) {
        past.samples.pop_front();
    }
    Ok(past.samples.front().map_or_else(|| value.clone(), |(_, sample)| sample.clone()))
}

/// The item of a list at an index, counted from zero. An index outside of the list is a catchable error.
///
/// ```mcl
/// list_lookup(["a", "b",], 0) == "a"
/// (list_lookup(["a", "b",], -1) <|> "none") == "none"
/// ```
#[function(signature = "func(list []?1, index int) ?1")]
fn list_lookup(list: &List, index: i64) -> Result<Value, Failure> {
    list::item(list, index)
}

/// The value of a key. A key that is not there is a catchable error.
///
/// ```mcl
/// map_lookup({"a" => 1,}, "a") == 1
/// (map_lookup({"a" => 1,}, "b") <|> 2) == 2
/// ```
#[function(signature = "func(map map{?1: ?2}, key ?1) ?2")]
fn map_lookup(map: &Map, key: &Value) -> Result<Value, Failure> {
    map::value(map, key)
}

/// Ends the program when its argument is true, or a text that is not empty. It is written as a statement.
///
/// ```mcl,program
/// $x = 42
/// panic($x != 42)
/// ```
#[function(reads, signature = "func(x ?1) bool where ?1 is bool | str")]
fn panic(x: &Value) -> Result<bool, Failure> {
    match x {
        Value::Bool(true) => Err(Failure::fatal("panic, as the program asked for")),
        Value::Str(text) if !text.is_empty() => Err(Failure::fatal(format!("panic: {}", text.display()))),
        Value::Bool(false) | Value::Str(_) => Ok(false),
        other => Err(Failure::fatal(format!("expected bool or str, found {}", other.ty()))),
    }
}

/// Ends the program with a message when its first argument is true.
///
/// ```mcl
/// panic_debug(false, "never shown") == false
/// ```
#[function(reads)]
fn panic_debug(x: bool, err: &Str) -> Result<bool, Failure> {
    match x {
        true => Err(Failure::fatal(format!("panic: {}", err.display()))),
        false => Ok(false),
    }
}

/// Random letters, `a` to `z` and `A` to `Z`, good enough for a password.
///
/// They stay the same as long as the length does, until the program ends. A length below 0 or above 65535 is a fatal error.
///
/// ```mcl
/// len(random1(16)) == 16
/// random1(0) == ""
/// ```
#[function(reads)]
fn random1(memory: &mut Memory, length: i64) -> Result<Str, Failure> {
    if !(0..=65535).contains(&length) {
        memory.clear();
        return Err(Failure::fatal(format!("can't draw {length} letters, expected 0 to 65535")));
    }
    let kept = memory.get::<Option<Str>>();
    if let Some(drawn) = kept.as_ref().filter(|drawn| drawn.len() as i64 == length) {
        return Ok(drawn.clone());
    }
    let drawn = Str::new(letters(length as usize)?);
    *kept = Some(drawn.clone());
    Ok(drawn)
}

fn letters(length: usize) -> Result<Vec<u8>, Failure> {
    const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut letters = Vec::with_capacity(length);
    while letters.len() < length {
        // Bytes from 208 on would make some letters more likely than others.
        let random = crate::random::bytes(64)?;
        let fair = random.into_iter().filter(|byte| *byte < 208);
        letters.extend(fair.map(|byte| LETTERS[usize::from(byte) % 52]).take(length - letters.len()));
    }
    Ok(letters)
}

/// Applies an operator: this is what `$a + $b` becomes.
///
/// ```mcl
/// 1 + 2 == 3
/// ```
#[function(signature = "func(op str, a ?1) ?2 | func(op str, a ?1, b ?1) ?2")]
fn _operator(arguments: &[Value]) -> Result<Value, Failure> {
    match arguments {
        [Value::Str(symbol), operands @ ..] => operators::apply(symbol, operands),
        arguments => Err(arity(2, arguments.len())),
    }
}

/// The item of a list at an index, or the value of a key in a map: this is what `$x[$y]` becomes.
///
/// ```mcl
/// ["a", "b",][1] == "b"
/// {"a" => 1,}["a"] == 1
/// (["a", "b",][2] <|> "none") == "none"
/// ```
#[function(signature = "func(list []?1, index int) ?1 | func(map map{?1: ?2}, key ?1) ?2")]
fn _lookup(container: &Value, key: &Value) -> Result<Value, Failure> {
    match (container, key) {
        (Value::List(list), Value::Int(index)) => list::item(list, *index),
        (Value::Map(map), key) => map::value(map, key),
        (other, _) => {
            let found = other.ty();
            Err(Failure::fatal(format!("we must lookup from either a list or a map, found {found}")))
        }
    }
}

/// A field of a struct: this is what `$x->field` becomes.
///
/// ```mcl
/// struct{a => 1, b => "x",}->b == "x"
/// ```
#[function(signature = "func(struct ?1, field str) ?2 where ?1 is struct")]
fn _struct_lookup(structure: &Struct, field: &Str) -> Result<Value, Failure> {
    find(structure, field)
        .ok_or_else(|| Failure::fatal(format!("field {} was not found in struct", field.display())))
}

/// A field of a struct, or a default where the type has no such field: this is what `$x->field <|> $default` becomes.
///
/// The type alone decides. An error in the struct is not caught; `($x->field) <|> $default` does that.
///
/// ```mcl
/// (struct{a => 1,}->a <|> 2) == 1
/// (struct{a => 1,}->b <|> 2) == 2
/// ```
#[function(signature = "func(struct ?1, field str, optional ?2) ?2 where ?1 is struct")]
fn _struct_lookup_optional(structure: &Struct, field: &Str, optional: &Value) -> Value {
    find(structure, field).unwrap_or_else(|| optional.clone())
}

/// Resources that other hosts export, by kind and by names, or by names and hosts: this is what `collect` becomes.
///
/// An empty name or host stands for any. They are ordered by name and host.
///
/// ```mcl,program
/// collect file ["/etc/motd",] {
/// 	state => "exists",
/// }
/// ```
#[function(
    live = vec![Watch::Exports(kind.clone())],
    signature = "func(kind str, names str) []struct{name str; host str; data str} | func(kind str, names []str) []struct{name str; host str; data str} | func(kind str, names []struct{name str; host str}) []struct{name str; host str; data str}"
)]
fn _collect(host: &dyn Host, kind: &Str, names: &Value) -> Result<Value, Failure> {
    collect::collect(host, kind, names)
}

fn find(structure: &Struct, field: &Str) -> Option<Value> {
    let found = structure.fields.iter().find(|(name, _)| name.as_bytes() == field.as_bytes());
    found.map(|(_, value)| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::{Nothing, call, call_on, shown};
    use mgmt_value::Type;

    #[test]
    fn lengths() {
        assert_eq!(shown("len", &[Value::str("é")]), "2");
        assert_eq!(shown("len", &[Value::list(Type::Int, vec![Value::Int(1)])]), "1");
        assert_eq!(shown("len", &[Value::map(Type::Int, Type::Int, [])]), "0");
        assert!(shown("len", &[Value::Int(1)]).starts_with("F: "));
    }

    #[test]
    fn membership_is_deep_equality() {
        let list = |item: i64| Value::list(Type::Int, vec![Value::Int(item)]);
        let lists = Value::list(Type::list(Type::Int), vec![list(1), list(2)]);
        assert_eq!(shown("contains", &[list(2), lists.clone()]), "true");
        assert_eq!(shown("contains", &[list(3), lists]), "false");
    }

    #[test]
    fn panics_end_the_program() {
        assert_eq!(shown("panic", &[Value::Bool(false)]), "false");
        assert_eq!(shown("panic", &[Value::str("")]), "false");
        assert!(shown("panic", &[Value::Bool(true)]).starts_with("F: panic"));
        assert_eq!(shown("panic", &[Value::str("oh\n")]), r"F: panic: oh\n");
        assert_eq!(shown("panic_debug", &[Value::Bool(true), Value::str("why")]), "F: panic: why");
        assert_eq!(shown("panic_debug", &[Value::Bool(false), Value::str("why")]), "false");
    }

    #[test]
    fn random_letters_stay_until_the_length_changes() {
        let mut memory = Memory::default();
        let mut draw = |length| call_on(&mut memory, &Nothing, "random1", &[Value::Int(length)]);
        let first = draw(32).unwrap();
        assert_eq!(draw(32), Ok(first.clone()));
        assert!(
            matches!(&first, Value::Str(text) if text.len() == 32 && text.iter().all(u8::is_ascii_alphabetic))
        );
        assert!(draw(33).is_ok());
        let second = draw(32).unwrap();
        assert_ne!(first, second);
        assert_eq!(draw(0), Ok(Value::str("")));
        assert!(matches!(draw(-1), Err(Failure::Fatal(_))));
        assert!(matches!(draw(65536), Err(Failure::Fatal(_))));
        assert!(draw(65535).is_ok());
        assert_ne!(call("random1", &[Value::Int(32)]).unwrap(), second);
    }

    struct Clock(u64);

    impl Host for Clock {
        fn uptime(&self) -> Duration {
            Duration::from_millis(self.0)
        }
    }

    #[test]
    fn the_past_follows_the_present() {
        let mut memory = Memory::default();
        let mut at = |time, value, index| {
            call_on(&mut memory, &Clock(time), "history", &[Value::Int(value), Value::Int(index)]).unwrap()
        };
        let found = [
            at(0, 1, 1000),
            at(100, 2, 1000),
            at(999, 2, 1000),
            at(1000, 3, 1000),
            at(1099, 3, 1000),
            at(1100, 3, 1000),
            at(90_000, 4, 1000),
            at(91_000, 5, 1000),
            at(91_001, 5, 0),
            at(91_002, 6, 0),
        ];
        assert_eq!(found, [1, 1, 1, 1, 1, 2, 3, 4, 5, 6].map(Value::Int));
        assert!(shown("history", &[Value::Int(1), Value::Int(-1)]).starts_with("F: can't look -1"));
        assert_eq!(sampling(5), Ok(Duration::from_millis(100)));
        assert_eq!(sampling(3000), Ok(Duration::from_millis(300)));
    }

    #[test]
    fn fields_are_found_by_name() {
        let value = Value::structure([("a", Value::Int(1))]);
        assert_eq!(shown("_struct_lookup", &[value.clone(), Value::str("a")]), "1");
        assert!(
            shown("_struct_lookup", &[value.clone(), Value::str("b")])
                .starts_with("F: field b was not found")
        );
        assert_eq!(shown("_struct_lookup_optional", &[value, Value::str("b"), Value::Int(2)]), "2");
        assert_eq!(shown("_operator", &[Value::str("+"), Value::Int(1), Value::Int(2)]), "3");
        assert_eq!(shown("concat", &[Value::str(b"\xff"), Value::str("a")]), r#""\xffa""#);
    }

    #[test]
    fn there_are_nineteen_constants() {
        let top = crate::library().module("").unwrap();
        assert_eq!(top.constants.len(), 19);
        let value = |name| (top.constant(name).unwrap().value)();
        assert_eq!(value("const.res.file.state.exists"), Value::str("exists"));
        assert_eq!(value("const.res.gzip.level.huffman_only"), Value::Int(-2));
    }
}
