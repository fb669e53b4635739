//! Between values and Rust types.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Str, Type, Value};

/// A Rust type that a value of the language can be stored in.
pub trait Native: Sized {
    /// Unset differs from every value, and the field may be left out.
    const OPTIONAL: bool = false;
    /// Nobody may see it: it is a [`Secret`](crate::Secret).
    const SECRET: bool = false;
    /// The type of the language that stands for it.
    fn ty() -> Type;
    /// Takes a value in.
    fn from_value(value: &Value) -> Result<Self, Mismatch>;
    /// Gives it back.
    fn to_value(&self) -> Value;
}

/// Gives a native value back as a value of the language.
pub fn value_of<T: Native>(native: &T) -> Value {
    native.to_value()
}

/// Why a value could not be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It has another type.
    Type {
        /// What the field holds.
        expected: Type,
        /// What came.
        found: Type,
    },
    /// A number that does not fit the width of the field.
    Range {
        /// The number.
        number: i64,
        /// The width, `uint8` for example.
        width: &'static str,
    },
    /// The field cannot be set from a program at all.
    Opaque {
        /// What the field is.
        what: &'static str,
    },
    /// Inside a container.
    Inside {
        /// Where: an index, a key or a field name.
        at: String,
        /// What is wrong there.
        inner: Box<Mismatch>,
    },
    /// Text that is not one of the words that the field takes.
    Text(String),
}

impl Mismatch {
    fn inside(self, at: impl fmt::Display) -> Mismatch {
        Mismatch::Inside { at: at.to_string(), inner: Box::new(self) }
    }

    /// A mismatch of types.
    pub fn types(expected: Type, found: &Value) -> Mismatch {
        Mismatch::Type { expected, found: found.ty() }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Type { expected, found } => write!(f, "expected {expected}, found {found}"),
            Mismatch::Range { number, width } if *number < 0 && width.starts_with('u') => {
                write!(f, "can't store negative int `{number}` into unsigned `{width}` field")
            }
            Mismatch::Range { number, width } => {
                write!(f, "int `{number}` does not fit a `{width}` field: it will overflow it")
            }
            Mismatch::Opaque { what } => write!(f, "{what} has no type in the language and can't be set"),
            Mismatch::Inside { at, inner } => write!(f, "at {at}: {inner}"),
            Mismatch::Text(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Mismatch {}

impl Native for bool {
    fn ty() -> Type {
        Type::Bool
    }
    fn from_value(value: &Value) -> Result<bool, Mismatch> {
        match value {
            Value::Bool(value) => Ok(*value),
            other => Err(Mismatch::types(Type::Bool, other)),
        }
    }
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Native for Str {
    fn ty() -> Type {
        Type::Str
    }
    fn from_value(value: &Value) -> Result<Str, Mismatch> {
        match value {
            Value::Str(value) => Ok(value.clone()),
            other => Err(Mismatch::types(Type::Str, other)),
        }
    }
    fn to_value(&self) -> Value {
        Value::Str(self.clone())
    }
}

impl Native for String {
    fn ty() -> Type {
        Type::Str
    }
    fn from_value(value: &Value) -> Result<String, Mismatch> {
        let bytes = Str::from_value(value)?;
        match bytes.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(Mismatch::Text(format!("expected UTF-8 text, found {bytes:?}"))),
        }
    }
    fn to_value(&self) -> Value {
        Value::str(self)
    }
}

macro_rules! integers {
    ($($rust:ty => $width:literal),* $(,)?) => {$(
        impl Native for $rust {
            fn ty() -> Type {
                Type::Int
            }
            fn from_value(value: &Value) -> Result<$rust, Mismatch> {
                match value {
                    Value::Int(number) => <$rust>::try_from(*number)
                        .map_err(|_| Mismatch::Range { number: *number, width: $width }),
                    other => Err(Mismatch::types(Type::Int, other)),
                }
            }
            fn to_value(&self) -> Value {
                // Only a u64 can be larger than the language's int, and it never came from there.
                Value::Int(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }
    )*};
}

integers! {
    i8 => "int8", i16 => "int16", i32 => "int32", i64 => "int64",
    u8 => "uint8", u16 => "uint16", u32 => "uint32", u64 => "uint64",
}

impl Native for f64 {
    fn ty() -> Type {
        Type::Float
    }
    fn from_value(value: &Value) -> Result<f64, Mismatch> {
        match value {
            Value::Float(number) => Ok(*number),
            other => Err(Mismatch::types(Type::Float, other)),
        }
    }
    fn to_value(&self) -> Value {
        Value::Float(*self)
    }
}

impl Native for f32 {
    fn ty() -> Type {
        Type::Float
    }
    fn from_value(value: &Value) -> Result<f32, Mismatch> {
        let number = f64::from_value(value)?;
        // The nearest 32-bit number; one that is too large becomes an infinity that nobody wrote.
        let nearest = number as f32;
        if nearest.is_infinite() && number.is_finite() {
            let text = format!("float `{number:e}` does not fit a `float32` field: it will overflow it");
            return Err(Mismatch::Text(text));
        }
        Ok(nearest)
    }
    fn to_value(&self) -> Value {
        Value::Float(f64::from(*self))
    }
}

impl<T: Native> Native for Vec<T> {
    fn ty() -> Type {
        Type::list(T::ty())
    }
    fn from_value(value: &Value) -> Result<Vec<T>, Mismatch> {
        let Value::List(list) = value else { return Err(Mismatch::types(Self::ty(), value)) };
        let items = list.items.iter().enumerate();
        items.map(|(i, item)| T::from_value(item).map_err(|e| e.inside(format!("index {i}")))).collect()
    }
    fn to_value(&self) -> Value {
        Value::list(T::ty(), self.iter().map(T::to_value).collect())
    }
}

impl<K: Native + Ord, V: Native> Native for BTreeMap<K, V> {
    fn ty() -> Type {
        Type::map(K::ty(), V::ty())
    }
    fn from_value(value: &Value) -> Result<BTreeMap<K, V>, Mismatch> {
        let Value::Map(map) = value else { return Err(Mismatch::types(Self::ty(), value)) };
        let entry = |(k, v): &(Value, Value)| {
            let key = K::from_value(k).map_err(|e| e.inside(format!("key {k}")))?;
            Ok((key, V::from_value(v).map_err(|e| e.inside(format!("key {k}")))?))
        };
        map.entries().iter().map(entry).collect()
    }
    fn to_value(&self) -> Value {
        Value::map(K::ty(), V::ty(), self.iter().map(|(k, v)| (k.to_value(), v.to_value())))
    }
}

/// Optional types are transparent: a value sets them, `nil` unsets them.
impl<T: Native> Native for Option<T> {
    const OPTIONAL: bool = true;
    const SECRET: bool = T::SECRET;
    fn ty() -> Type {
        T::ty()
    }
    fn from_value(value: &Value) -> Result<Option<T>, Mismatch> {
        match value {
            Value::Nil => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Nil, T::to_value)
    }
}

/// A field of any type.
impl Native for Value {
    fn ty() -> Type {
        Type::Variant
    }
    fn from_value(value: &Value) -> Result<Value, Mismatch> {
        Ok(value.clone())
    }
    fn to_value(&self) -> Value {
        self.clone()
    }
}

/// A complex number. The language has no such type, so it keeps its default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// Real part
    pub re: f64,
    /// Imaginary part
    pub im: f64,
}

impl Native for Complex {
    fn ty() -> Type {
        Type::Nil
    }
    fn from_value(_: &Value) -> Result<Complex, Mismatch> {
        Err(Mismatch::Opaque { what: "a complex number" })
    }
    fn to_value(&self) -> Value {
        Value::Nil
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: Native + fmt::Debug>(value: &Value) -> String {
        T::from_value(value).unwrap_err().to_string()
    }

    fn round_trip<T: Native + PartialEq + fmt::Debug>(native: &T) {
        assert_eq!(T::from_value(&native.to_value()).as_ref(), Ok(native));
        assert_eq!(value_of(native), native.to_value());
    }

    #[test]
    fn every_native_type_comes_back_as_it_went() {
        round_trip(&true);
        round_trip(&Str::new(b"\xff"));
        round_trip(&String::from("é"));
        round_trip(&i8::MIN);
        round_trip(&i16::MIN);
        round_trip(&i32::MAX);
        round_trip(&i64::MIN);
        round_trip(&u8::MAX);
        round_trip(&u16::MAX);
        round_trip(&u32::MAX);
        round_trip(&0_u64);
        round_trip(&f64::MIN_POSITIVE);
        round_trip(&f32::MAX);
        round_trip(&f32::INFINITY);
        round_trip(&vec![vec![1_i64], vec![]]);
        round_trip(&BTreeMap::from([(1_u8, "a".to_owned()), (2, "b".to_owned())]));
        round_trip(&Some(Some(Some(3_i8))));
        round_trip(&None::<Option<Option<i8>>>);
        round_trip(&Value::Nil);
        round_trip(&Value::Int(3));
    }

    #[test]
    fn types_are_those_of_the_language_and_optional_is_transparent() {
        assert_eq!(<Vec<BTreeMap<Str, Option<u16>>>>::ty().to_string(), "[]map{str: int}");
        assert_eq!(<Option<Vec<String>>>::ty().to_string(), "[]str");
        assert_eq!(<Value as Native>::ty(), Type::Variant);
        const { assert!(<Option<bool>>::OPTIONAL && !<bool>::OPTIONAL) };
    }

    #[test]
    fn empty_containers_keep_their_type() {
        assert_eq!(Vec::<bool>::new().to_value().ty().to_string(), "[]bool");
        assert_eq!(BTreeMap::<Str, f64>::new().to_value().ty().to_string(), "map{str: float}");
    }

    #[test]
    fn a_negative_number_for_an_unsigned_field_is_named_with_its_width() {
        for (found, width) in [
            (message::<u8>(&Value::Int(-1)), "uint8"),
            (message::<u16>(&Value::Int(-1)), "uint16"),
            (message::<u32>(&Value::Int(-1)), "uint32"),
            (message::<u64>(&Value::Int(-1)), "uint64"),
        ] {
            assert_eq!(found, format!("can't store negative int `-1` into unsigned `{width}` field"));
        }
        assert_eq!(
            message::<u64>(&Value::Int(i64::MIN)),
            "can't store negative int `-9223372036854775808` into unsigned `uint64` field"
        );
    }

    #[test]
    fn a_number_that_is_too_wide_will_overflow_the_field() {
        for (found, number, width) in [
            (message::<i8>(&Value::Int(128)), "128", "int8"),
            (message::<i8>(&Value::Int(-129)), "-129", "int8"),
            (message::<i16>(&Value::Int(32768)), "32768", "int16"),
            (message::<i32>(&Value::Int(-2_147_483_649)), "-2147483649", "int32"),
            (message::<u8>(&Value::Int(256)), "256", "uint8"),
            (message::<u16>(&Value::Int(65536)), "65536", "uint16"),
            (message::<u32>(&Value::Int(4_294_967_296)), "4294967296", "uint32"),
        ] {
            assert_eq!(found, format!("int `{number}` does not fit a `{width}` field: it will overflow it"));
        }
        assert!(message::<f32>(&Value::Float(1e300)).ends_with("will overflow it"));
        assert_eq!(f32::from_value(&Value::Float(f64::INFINITY)), Ok(f32::INFINITY));
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_both_types() {
        assert_eq!(message::<bool>(&Value::Int(1)), "expected bool, found int");
        assert_eq!(message::<f64>(&Value::Int(1)), "expected float, found int");
        assert_eq!(message::<i64>(&Value::Float(1.0)), "expected int, found float");
        assert_eq!(message::<Vec<Str>>(&Value::str("a")), "expected []str, found str");
        assert_eq!(message::<BTreeMap<Str, bool>>(&Value::Nil), "expected map{str: bool}, found nil");
        assert_eq!(message::<Option<bool>>(&Value::str("")), "expected bool, found str");
        assert_eq!(message::<String>(&Value::str(b"\xff")), r#"expected UTF-8 text, found "\xff""#);
        assert_eq!(
            message::<Complex>(&Value::Float(1.0)),
            "a complex number has no type in the language and can't be set"
        );
    }

    #[test]
    fn a_mismatch_inside_a_container_says_where() {
        let list = Value::list(Type::Int, vec![Value::Int(1), Value::Int(300)]);
        assert_eq!(
            message::<Vec<u8>>(&list),
            "at index 1: int `300` does not fit a `uint8` field: it will overflow it"
        );
        let map = Value::map(Type::Str, list.ty(), [(Value::str("k"), list)]);
        assert_eq!(
            message::<BTreeMap<Str, Vec<u8>>>(&map),
            "at key \"k\": at index 1: int `300` does not fit a `uint8` field: it will overflow it"
        );
    }
}
