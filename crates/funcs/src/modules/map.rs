//! `map`

use mgmt_funcs_derive::function;
use mgmt_value::{Map, Value};

use crate::Failure;
use crate::declare::module;

module! {
    path: "map",
    doc: "Maps.",
    functions: [lookup, keys, values],
}

/// The value of a key. A key that is not there is a catchable error.
///
/// ```mcl
/// map.lookup({"a" => 1,}, "a") == 1
/// (map.lookup({"a" => 1,}, "b") <|> 2) == 2
/// ```
#[function(signature = "func(map map{?1: ?2}, key ?1) ?2")]
fn lookup(map: &Map, key: &Value) -> Result<Value, Failure> {
    value(map, key)
}

/// The value of a key.
pub(crate) fn value(map: &Map, key: &Value) -> Result<Value, Failure> {
    map.get(key).cloned().ok_or_else(|| {
        let map = Value::Map(std::sync::Arc::new(map.clone()));
        Failure::catchable(format!("map key not present, want: {key} in {map}"))
    })
}

/// The keys, in ascending order.
///
/// ```mcl
/// map.keys({"b" => 2, "a" => 1,}) == ["a", "b",]
/// ```
#[function(signature = "func(x map{?1: ?2}) []?1")]
fn keys(x: &Map) -> Value {
    Value::list(x.types.0.clone(), x.entries().iter().map(|(key, _)| key.clone()).collect())
}

/// The values, in the order of their keys: each stands where its key stands in [map.keys](#mapkeys).
///
/// ```mcl
/// map.values({"b" => 2, "a" => 1,}) == [1, 2,]
/// ```
#[function(signature = "func(x map{?1: ?2}) []?2")]
fn values(x: &Map) -> Value {
    Value::list(x.types.1.clone(), x.entries().iter().map(|(_, value)| value.clone()).collect())
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::{call, shown};
    use mgmt_value::{Type, Value};

    fn numbers() -> Value {
        Value::map(Type::Str, Type::Int, [("b", 1), ("a", 2)].map(|(k, v)| (Value::str(k), Value::Int(v))))
    }

    #[test]
    fn values_are_found_by_key() {
        for name in ["map.lookup", "map_lookup", "_lookup"] {
            assert_eq!(shown(name, &[numbers(), Value::str("a")]), "2");
            let missing = r#"C: map key not present, want: "c" in {"a": 2, "b": 1}"#;
            assert_eq!(shown(name, &[numbers(), Value::str("c")]), missing);
        }
    }

    #[test]
    fn keys_and_values_are_in_one_order_and_keep_their_type() {
        assert_eq!(shown("map.keys", &[numbers()]), r#"["a", "b"]"#);
        assert_eq!(shown("map.values", &[numbers()]), "[2, 1]");
        let empty = Value::map(Type::Int, Type::Bool, []);
        assert_eq!(call("map.keys", std::slice::from_ref(&empty)).unwrap().ty().to_string(), "[]int");
        assert_eq!(call("map.values", &[empty]).unwrap().ty().to_string(), "[]bool");
    }
}
