//! Values that stand for "nothing yet".

use mgmt_value::{Type, Value};

/// `false`, `0`, the empty text, the empty list, and structs of those. A function, and a type that is not known, has none.
pub(crate) fn zero(ty: &Type) -> Option<Value> {
    Some(match ty {
        Type::Bool => Value::Bool(false),
        Type::Str => Value::str(""),
        Type::Int => Value::Int(0),
        Type::Float => Value::Float(0.0),
        Type::List(element) => Value::list((**element).clone(), Vec::new()),
        Type::Map(types) => Value::map(types.0.clone(), types.1.clone(), []),
        Type::Struct(fields) => {
            let field = |(name, ty): &(std::sync::Arc<str>, Type)| Some((name.clone(), zero(ty)?));
            Value::structure(fields.iter().map(field).collect::<Option<Vec<_>>>()?)
        }
        Type::Func(_) | Type::Variant | Type::Nil | Type::Var(_) => return None,
    })
}
