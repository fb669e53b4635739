//! `value`

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Type, Value};

use crate::declare::module;
use crate::zero::zero;
use crate::{Failure, Host, Memory, Watch};

module! {
    path: "value",
    doc: "What `value` resources hold, on this host and across runs. The key may change while the program runs.",
    functions: [get, get_bool, get_str, get_int, get_float],
}

fn stored(host: &dyn Host, key: &Str, ty: &Type) -> Result<Value, Failure> {
    if key.is_empty() {
        return Err(Failure::fatal("the key of a value must not be empty"));
    }
    let found = host.local()?.value_get(key);
    let found = found.map_err(|error| Failure::fatal(format!("can't read the value {key:?}: {error}")))?;
    let ready = found.is_some();
    let value = match found {
        Some(value) if value.ty() == *ty => value,
        Some(value) => {
            return Err(Failure::fatal(format!("the value {key:?} is {}, expected {ty}", value.ty())));
        }
        None => {
            zero(ty).ok_or_else(|| Failure::fatal(format!("{ty} has no value that stands for nothing")))?
        }
    };
    Ok(Value::structure([("value", value), ("ready", Value::Bool(ready))]))
}

/// The value of any type under a key: the type is the one that is needed. `ready` is false, and the value is a zero, while
/// there is none.
///
/// A value of another type, and an empty key, is a fatal error.
///
/// ```mcl,host
/// value.get("key")->value == [1, 2,]
/// ```
#[function(live = vec![Watch::Value(key.clone())], signature = "func(key str) struct{value ?1; ready bool}")]
fn get(memory: &mut Memory, host: &dyn Host, key: &Str) -> Result<Value, Failure> {
    match memory.result() {
        Type::Struct(fields) if fields.len() == 2 => stored(host, key, &fields[0].1),
        ty => Err(Failure::fatal(format!("expected a struct with a value as the result, found {ty}"))),
    }
}

/// The bool under a key. `ready` is false, and the value too, while there is none.
///
/// ```mcl,host
/// value.get_bool("key")->value == true
/// ```
#[function(live = vec![Watch::Value(key.clone())], signature = "func(key str) struct{value bool; ready bool}")]
fn get_bool(host: &dyn Host, key: &Str) -> Result<Value, Failure> {
    stored(host, key, &Type::Bool)
}

/// The text under a key. `ready` is false, and the text empty, while there is none.
///
/// ```mcl,host
/// value.get_str("key")->value == "hello"
/// ```
#[function(live = vec![Watch::Value(key.clone())], signature = "func(key str) struct{value str; ready bool}")]
fn get_str(host: &dyn Host, key: &Str) -> Result<Value, Failure> {
    stored(host, key, &Type::Str)
}

/// The int under a key. `ready` is false, and the int 0, while there is none.
///
/// ```mcl,host
/// value.get_int("key")->value == 42
/// ```
#[function(live = vec![Watch::Value(key.clone())], signature = "func(key str) struct{value int; ready bool}")]
fn get_int(host: &dyn Host, key: &Str) -> Result<Value, Failure> {
    stored(host, key, &Type::Int)
}

/// The float under a key. `ready` is false, and the float 0, while there is none.
///
/// ```mcl,host
/// value.get_float("key")->value == 4.2
/// ```
#[function(live = vec![Watch::Value(key.clone())], signature = "func(key str) struct{value float; ready bool}")]
fn get_float(host: &dyn Host, key: &Str) -> Result<Value, Failure> {
    stored(host, key, &Type::Float)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::{Stored, call_on};

    #[test]
    fn values_are_ready_once_they_are_stored() {
        let host = Stored::new();
        let get = |name: &str, key: &str| {
            call_on(&mut Memory::default(), &host, &format!("value.{name}"), &[Value::str(key)])
                .map(|value| value.to_string())
                .map_err(|failure| matches!(failure, Failure::Fatal(_)))
        };
        assert_eq!(get("get_int", "k").as_deref(), Ok("struct{value: 0; ready: false}"));
        assert_eq!(get("get_str", "k").as_deref(), Ok(r#"struct{value: ""; ready: false}"#));
        assert_eq!(get("get_bool", "k").as_deref(), Ok("struct{value: false; ready: false}"));
        assert_eq!(get("get_float", "k").as_deref(), Ok("struct{value: 0; ready: false}"));
        host.local.value_set(&"k".into(), Some(&Value::Int(7))).unwrap();
        for _ in 0..2 {
            assert_eq!(get("get_int", "k").as_deref(), Ok("struct{value: 7; ready: true}"));
        }
        assert_eq!(get("get_str", "k"), Err(true));
        assert_eq!(get("get_int", ""), Err(true));
    }

    #[test]
    fn the_general_form_goes_by_the_type_that_is_needed() {
        let host = Stored::new();
        let ty = Type::parse("struct{value []str; ready bool}").unwrap();
        let get = |ty| call_on(&mut Memory::new(ty), &host, "value.get", &[Value::str("k")]);
        assert_eq!(get(ty).unwrap().to_string(), "struct{value: []; ready: false}");
        assert!(get(Type::Nil).is_err());
    }
}
