//! Values.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{Str, Type};

/// A value of the language. Cloning is cheap: containers are shared.
#[derive(Clone)]
pub enum Value {
    /// A truth value
    Bool(bool),
    /// A byte string
    Str(Str),
    /// A number
    Int(i64),
    /// A floating point number
    Float(f64),
    /// `[]T`
    List(Arc<List>),
    /// `map{K: V}`
    Map(Arc<Map>),
    /// `struct{…}`
    Struct(Arc<Struct>),
    /// A function
    Func(Arc<dyn Function>),
    /// No value; an unset optional field
    Nil,
}

/// Items of one type.
#[derive(Clone, Debug)]
pub struct List {
    /// The type of every item.
    pub element: Type,
    /// The items.
    pub items: Vec<Value>,
}

/// Entries sorted by key; keys are unique, except that a NaN equals nothing, not even itself.
#[derive(Clone, Debug)]
pub struct Map {
    /// Key type and value type.
    pub types: (Type, Type),
    entries: Vec<(Value, Value)>,
}

/// Named values in a fixed order.
#[derive(Clone, Debug)]
pub struct Struct {
    /// The fields.
    pub fields: Vec<(Arc<str>, Value)>,
}

/// A function value. Equality of functions is identity.
pub trait Function: std::any::Any + Send + Sync {
    /// Its type.
    fn ty(&self) -> Type;
    /// Calls it.
    fn call(&self, args: &[Value]) -> Result<Value, String>;
}

impl Map {
    /// Makes a map. Where keys are equal, the last entry wins.
    pub fn new(key: Type, value: Type, entries: impl IntoIterator<Item = (Value, Value)>) -> Map {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by(|a, b| a.0.total_order(&b.0));
        // The sort is stable: among equal keys the last one declared stands last, and is the one to keep.
        let mut unique: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
        for entry in entries {
            match unique.last_mut() {
                Some(last) if last.0 == entry.0 => *last = entry,
                _ => unique.push(entry),
            }
        }
        Map { types: (key, value), entries: unique }
    }

    /// The entries in the order of their keys.
    pub fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    /// Looks a key up. A key that holds a NaN equals none and is never found.
    pub fn get(&self, key: &Value) -> Option<&Value> {
        let found = self.entries.binary_search_by(|(k, _)| k.total_order(key)).ok()?;
        self.entries.get(found).filter(|(found, _)| found == key).map(|(_, value)| value)
    }
}

impl Value {
    /// A list of `element`s.
    pub fn list(element: Type, items: Vec<Value>) -> Value {
        Value::List(Arc::new(List { element, items }))
    }

    /// A map; where keys are equal, the last entry wins.
    pub fn map(key: Type, value: Type, entries: impl IntoIterator<Item = (Value, Value)>) -> Value {
        Value::Map(Arc::new(Map::new(key, value, entries)))
    }

    /// A struct with these fields in this order.
    pub fn structure<N: Into<Arc<str>>>(fields: impl IntoIterator<Item = (N, Value)>) -> Value {
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Value::Struct(Arc::new(Struct { fields }))
    }

    /// A string.
    pub fn str(text: impl AsRef<[u8]>) -> Value {
        Value::Str(Str::new(text))
    }

    /// The value's type.
    pub fn ty(&self) -> Type {
        match self {
            Value::Bool(_) => Type::Bool,
            Value::Str(_) => Type::Str,
            Value::Int(_) => Type::Int,
            Value::Float(_) => Type::Float,
            Value::List(list) => Type::list(list.element.clone()),
            Value::Map(map) => Type::map(map.types.0.clone(), map.types.1.clone()),
            Value::Struct(value) => {
                Type::structure(value.fields.iter().map(|(name, value)| (name.clone(), value.ty())))
            }
            Value::Func(function) => function.ty(),
            Value::Nil => Type::Nil,
        }
    }

    /// The language's `Less`, used for sorting values of one type.
    ///
    /// Lists compare as upstream does: the first index (not the first difference) at which the left item is
    /// smaller decides, then the length.
    pub fn less(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::List(a), Value::List(b)) => {
                a.items.iter().zip(&b.items).any(|(x, y)| x.less(y)) || a.items.len() < b.items.len()
            }
            (Value::Map(_) | Value::Struct(_), _) => self.to_string() < other.to_string(),
            (Value::Float(a), Value::Float(b)) => a < b,
            _ => self.total_order(other) == Ordering::Less,
        }
    }

    /// A total order for sorted storage. It agrees with equality except that here a NaN has a place of its own.
    pub fn total_order(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Str(a), Value::Str(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => place(*a).total_cmp(&place(*b)),
            (Value::List(a), Value::List(b)) => {
                let items = a.items.iter().zip(&b.items).map(|(x, y)| x.total_order(y));
                first_difference(items)
                    .then(a.items.len().cmp(&b.items.len()))
                    .then_with(|| type_order(&a.element, &b.element))
            }
            (Value::Map(a), Value::Map(b)) => {
                let entries = a.entries.iter().zip(&b.entries);
                let entries = entries.map(|(x, y)| x.0.total_order(&y.0).then_with(|| x.1.total_order(&y.1)));
                first_difference(entries)
                    .then(a.entries.len().cmp(&b.entries.len()))
                    .then_with(|| type_order(&a.types.0, &b.types.0))
                    .then_with(|| type_order(&a.types.1, &b.types.1))
            }
            (Value::Struct(a), Value::Struct(b)) => {
                let fields = a.fields.iter().zip(&b.fields);
                let fields = fields.map(|(x, y)| x.0.cmp(&y.0).then_with(|| x.1.total_order(&y.1)));
                first_difference(fields).then(a.fields.len().cmp(&b.fields.len()))
            }
            (Value::Func(a), Value::Func(b)) => Arc::as_ptr(a).cast::<()>().cmp(&Arc::as_ptr(b).cast::<()>()),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Nil => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Float(_) => 3,
            Value::Str(_) => 4,
            Value::List(_) => 5,
            Value::Map(_) => 6,
            Value::Struct(_) => 7,
            Value::Func(_) => 8,
        }
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Zero has one place whatever its sign, because 0.0 == -0.0, and so has NaN whatever its bits.
fn place(number: f64) -> f64 {
    if number.is_nan() { f64::NAN } else { number + 0.0 }
}

fn type_order(a: &Type, b: &Type) -> Ordering {
    if a == b { Ordering::Equal } else { a.to_string().cmp(&b.to_string()) }
}

/// Equality of the language: same type, same content, IEEE comparison of floats, identity of functions.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                Arc::ptr_eq(a, b) && is_reflexive(&a.element) || a.element == b.element && a.items == b.items
            }
            (Value::Map(a), Value::Map(b)) => {
                Arc::ptr_eq(a, b) && is_reflexive(&a.types.0) && is_reflexive(&a.types.1)
                    || a.types == b.types && a.entries == b.entries
            }
            (Value::Struct(a), Value::Struct(b)) => a.fields == b.fields,
            (Value::Func(a), Value::Func(b)) => Arc::ptr_eq(a, b),
            (Value::Nil, Value::Nil) => true,
            _ => false,
        }
    }
}

/// Whether every value of the type equals itself, so that sharing proves equality. A NaN does not, and a function
/// hides nothing: it equals itself by identity.
fn is_reflexive(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Str | Type::Int | Type::Func(_) | Type::Nil => true,
        Type::Float | Type::Variant | Type::Var(_) => false,
        Type::List(element) => is_reflexive(element),
        Type::Map(pair) => is_reflexive(&pair.0) && is_reflexive(&pair.1),
        Type::Struct(fields) => fields.iter().all(|(_, ty)| is_reflexive(ty)),
    }
}

/// Equal values hash alike.
impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Value::Bool(value) => value.hash(state),
            Value::Str(value) => value.hash(state),
            Value::Int(value) => value.hash(state),
            Value::Float(value) => place(*value).to_bits().hash(state),
            Value::List(list) => list.items.hash(state),
            Value::Map(map) => map.entries.hash(state),
            Value::Struct(value) => value.fields.hash(state),
            Value::Func(function) => Arc::as_ptr(function).cast::<()>().hash(state),
            Value::Nil => {}
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(items: &[f64]) -> Value {
        Value::list(Type::Float, items.iter().map(|item| Value::Float(*item)).collect())
    }

    fn ints(items: &[i64]) -> Value {
        Value::list(Type::Int, items.iter().map(|item| Value::Int(*item)).collect())
    }

    fn hash(value: &Value) -> u64 {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
    }

    struct Constant;

    impl Function for Constant {
        fn ty(&self) -> Type {
            Type::func([("a", Type::Int)], Type::Str)
        }
        fn call(&self, _: &[Value]) -> Result<Value, String> {
            Ok(Value::str("constant"))
        }
    }

    #[test]
    fn a_nan_equals_nothing_wherever_it_stands() {
        let nan = Value::Float(f64::NAN);
        assert_ne!(nan, nan);
        let list = floats(&[1.0, f64::NAN]);
        assert_ne!(list, list.clone());
        let of_any = Value::list(Type::Variant, vec![nan.clone()]);
        assert_ne!(of_any, of_any.clone());
        let of_lists = Value::list(list.ty(), vec![list]);
        assert_ne!(of_lists, of_lists.clone());
        let map = Value::map(Type::Int, Type::Float, [(Value::Int(1), nan.clone())]);
        assert_ne!(map, map.clone());
        let structure = Value::structure([("a", nan)]);
        assert_ne!(structure, structure.clone());
    }

    #[test]
    fn a_shared_container_equals_itself_and_an_equal_copy() {
        let list = ints(&[1, 2]);
        assert_eq!(list, list.clone());
        assert_eq!(list, ints(&[1, 2]));
        assert_ne!(list, ints(&[1]));
        assert_eq!(floats(&[1.0]), floats(&[1.0]));
        let map = || Value::map(Type::Int, Type::Float, [(Value::Int(1), Value::Float(2.0))]);
        let shared = map();
        assert_eq!(shared, shared.clone());
        assert_eq!(map(), map());
    }

    #[test]
    fn the_sign_of_zero_does_not_matter() {
        let (plus, minus) = (Value::Float(0.0), Value::Float(-0.0));
        assert_eq!(plus, minus);
        assert_eq!(hash(&plus), hash(&minus));
        assert_eq!(plus.total_order(&minus), Ordering::Equal);
        assert_eq!(hash(&floats(&[0.0])), hash(&floats(&[-0.0])));
        let map = Map::new(Type::Float, Type::Int, [(plus, Value::Int(1)), (minus, Value::Int(2))]);
        assert_eq!(map.entries().len(), 1);
        assert_eq!(map.get(&Value::Float(0.0)), Some(&Value::Int(2)));
    }

    #[test]
    fn containers_of_different_types_differ_even_when_empty() {
        let (a, b) = (Value::list(Type::Int, vec![]), Value::list(Type::Str, vec![]));
        assert_ne!(a, b);
        assert_ne!(a.total_order(&b), Ordering::Equal);
        let (a, b) = (Value::map(Type::Int, Type::Int, []), Value::map(Type::Int, Type::Str, []));
        assert_ne!(a, b);
        assert_ne!(a.total_order(&b), Ordering::Equal);
    }

    #[test]
    fn structs_compare_names_order_and_content() {
        let make =
            |names: [&str; 2]| Value::structure([(names[0], Value::Int(1)), (names[1], Value::Int(1))]);
        assert_eq!(make(["a", "b"]), make(["a", "b"]));
        assert_ne!(make(["a", "b"]), make(["b", "a"]));
        assert_ne!(Value::structure([("a", Value::Int(1))]), Value::structure([("a", Value::Float(1.0))]));
        assert_eq!(make(["a", "b"]).ty().to_string(), "struct{a int; b int}");
    }

    #[test]
    fn functions_are_equal_by_identity() {
        let make = || Value::Func(Arc::new(Constant));
        let function = make();
        assert_eq!(function, function.clone());
        let list = Value::list(function.ty(), vec![function.clone()]);
        assert_eq!(list, list.clone());
        assert_eq!(function.to_string(), "func(func(a int) str)");
        let Value::Func(function) = function else { panic!() };
        assert_eq!(function.call(&[Value::Int(1)]), Ok(Value::str("constant")));
    }

    #[test]
    fn less_of_scalars_is_their_natural_order() {
        assert!(Value::Bool(false).less(&Value::Bool(true)));
        assert!(!Value::Bool(true).less(&Value::Bool(true)));
        assert!(Value::Int(-2).less(&Value::Int(1)));
        assert!(Value::Float(-0.5).less(&Value::Float(0.0)));
        assert!(!Value::Float(-0.0).less(&Value::Float(0.0)));
        assert!(!Value::Float(f64::NAN).less(&Value::Float(0.0)));
        assert!(!Value::Float(0.0).less(&Value::Float(f64::NAN)));
        assert!(Value::str("a").less(&Value::str("aa")));
        assert!(Value::str("Z").less(&Value::str(b"\xff")));
    }

    #[test]
    fn less_of_lists_does_not_stop_at_a_greater_item() {
        assert!(ints(&[1, 2]).less(&ints(&[1, 3])));
        assert!(ints(&[9, 2]).less(&ints(&[1, 3])), "a later item is smaller");
        assert!(ints(&[1, 3]).less(&ints(&[9, 2])), "and so is the first one, the other way round");
        assert!(ints(&[9]).less(&ints(&[1, 0])), "no item is smaller, so the length decides");
        assert!(!ints(&[9, 9]).less(&ints(&[1])));
        assert!(!ints(&[1]).less(&ints(&[1])));
    }

    #[test]
    fn less_of_maps_and_structs_is_the_order_of_their_text() {
        let structure = |number| Value::structure([("a", Value::Int(number))]);
        assert!(structure(10).less(&structure(9)));
        let map = |number| Value::map(Type::Int, Type::Int, [(Value::Int(1), Value::Int(number))]);
        assert!(map(10).less(&map(9)));
        assert!(!map(9).less(&map(9)));
    }

    #[test]
    fn of_equal_keys_the_last_entry_wins() {
        let entries = [("b", 1), ("a", 2), ("b", 3), ("b", 4)];
        let map = Map::new(Type::Str, Type::Int, entries.map(|(k, v)| (Value::str(k), Value::Int(v))));
        assert_eq!(map.entries(), [(Value::str("a"), Value::Int(2)), (Value::str("b"), Value::Int(4))]);
        assert_eq!(map.get(&Value::str("b")), Some(&Value::Int(4)));
        assert_eq!(map.get(&Value::str("c")), None);
        assert_eq!(map.get(&Value::Int(1)), None);
    }

    #[test]
    fn a_nan_key_is_kept_and_never_found() {
        let nan = || Value::Float(f64::NAN);
        let map = Map::new(Type::Float, Type::Int, [(nan(), Value::Int(1)), (nan(), Value::Int(2))]);
        assert_eq!(map.entries().len(), 2);
        assert_eq!(map.get(&nan()), None);
    }

    #[test]
    fn only_scalars_and_structs_of_them_can_be_keys() {
        for (text, hashable) in [
            ("bool", true),
            ("float", true),
            ("struct{}", true),
            ("struct{a int; b struct{c str}}", true),
            ("struct{a []int}", false),
            ("[]int", false),
            ("map{int: int}", false),
            ("func() int", false),
            ("nil", false),
            ("variant", false),
        ] {
            assert_eq!(Type::parse(text).map(|ty| ty.is_hashable()), Some(hashable), "{text}");
        }
    }
}
