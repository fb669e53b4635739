//! `list`

use mgmt_funcs_derive::function;
use mgmt_value::{List, Value};

use crate::Failure;
use crate::declare::{arity, module};

module! {
    path: "list",
    doc: "Lists.",
    functions: [concat, lookup],
}

/// One list from the items of all lists, in order.
///
/// ```mcl
/// list.concat([1,], [2, 3,], [4,]) == [1, 2, 3, 4,]
/// ```
#[function(signature = "func(list []?1, more []?1...) []?1")]
fn concat(arguments: &[Value]) -> Result<Value, Failure> {
    let mut items = Vec::new();
    let mut element = None;
    for argument in arguments {
        let Value::List(list) = argument else {
            return Err(Failure::fatal(format!("expected a list, found {}", argument.ty())));
        };
        items.extend_from_slice(&list.items);
        element.get_or_insert_with(|| list.element.clone());
    }
    element.map(|element| Value::list(element, items)).ok_or_else(|| arity(1, 0))
}

/// The item at an index, counted from zero. An index outside of the list is a catchable error.
///
/// ```mcl
/// list.lookup(["a", "b",], 1) == "b"
/// (list.lookup(["a", "b",], 2) <|> "none") == "none"
/// ```
#[function(signature = "func(list []?1, index int) ?1")]
fn lookup(list: &List, index: i64) -> Result<Value, Failure> {
    item(list, index)
}

/// The item at an index.
pub(crate) fn item(list: &List, index: i64) -> Result<Value, Failure> {
    let Ok(position) = usize::try_from(index) else {
        return Err(Failure::catchable(format!("list index negative, got: {index}")));
    };
    list.items.get(position).cloned().ok_or_else(|| {
        let (length, list) = (list.items.len(), Value::list(list.element.clone(), list.items.clone()));
        Failure::catchable(format!("list index not present, got: {index}, len is: {length}, in: {list}"))
    })
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::shown;
    use mgmt_value::{Type, Value};

    fn letters(letters: &[&str]) -> Value {
        Value::list(Type::Str, letters.iter().map(Value::str).collect())
    }

    #[test]
    fn items_are_counted_from_zero() {
        for name in ["list.lookup", "list_lookup", "_lookup"] {
            let lookup = |index| shown(name, &[letters(&["a", "b"]), Value::Int(index)]);
            assert_eq!(lookup(0), r#""a""#);
            assert_eq!(lookup(1), r#""b""#);
            assert_eq!(lookup(2), r#"C: list index not present, got: 2, len is: 2, in: ["a", "b"]"#);
            assert_eq!(lookup(-1), "C: list index negative, got: -1");
        }
    }

    #[test]
    fn lists_are_joined_in_order() {
        assert_eq!(shown("list.concat", &[letters(&["a"]), letters(&[]), letters(&["b"])]), r#"["a", "b"]"#);
        assert_eq!(shown("list.concat", &[letters(&[])]), "[]");
        assert!(shown("list.concat", &[]).starts_with("F: "));
    }
}
