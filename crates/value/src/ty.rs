//! Types and their text.

use std::fmt;
use std::sync::Arc;

/// A type of the language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `bool`
    Bool,
    /// `str`, a byte string
    Str,
    /// `int`, 64 bits, signed
    Int,
    /// `float`, 64 bits
    Float,
    /// `[]T`
    List(Arc<Type>),
    /// `map{K: V}`
    Map(Arc<(Type, Type)>),
    /// `struct{a T; b U}`
    Struct(Arc<[(Arc<str>, Type)]>),
    /// `func(a T) R`
    Func(Arc<FuncType>),
    /// `variant`: a value of any type
    Variant,
    /// `nil`: no value
    Nil,
    /// A type not known yet, printed as `?1`
    Var(u32),
}

/// The type of a function: named arguments and a result.
#[derive(Clone, Debug)]
pub struct FuncType {
    /// Argument names and types; a name does not take part in comparison.
    pub args: Vec<(Arc<str>, Type)>,
    /// The result.
    pub result: Type,
}

impl PartialEq for FuncType {
    fn eq(&self, other: &FuncType) -> bool {
        self.result == other.result
            && self.args.len() == other.args.len()
            && self.args.iter().zip(&other.args).all(|(a, b)| a.1 == b.1)
    }
}

impl Eq for FuncType {}

impl std::hash::Hash for FuncType {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.result.hash(state);
        self.args.len().hash(state);
        for (_, ty) in &self.args {
            ty.hash(state);
        }
    }
}

impl Type {
    /// `[]element`
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// `map{key: value}`
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// `struct{…}` with these fields in this order
    pub fn structure<N: Into<Arc<str>>>(fields: impl IntoIterator<Item = (N, Type)>) -> Type {
        Type::Struct(fields.into_iter().map(|(name, ty)| (name.into(), ty)).collect())
    }

    /// `func(…) result` with these arguments
    pub fn func<N: Into<Arc<str>>>(args: impl IntoIterator<Item = (N, Type)>, result: Type) -> Type {
        let args = args.into_iter().map(|(name, ty)| (name.into(), ty)).collect();
        Type::Func(Arc::new(FuncType { args, result }))
    }

    /// Whether a value of this type may be a map key.
    pub fn is_hashable(&self) -> bool {
        match self {
            Type::Bool | Type::Str | Type::Int | Type::Float => true,
            Type::Struct(fields) => fields.iter().all(|(_, ty)| ty.is_hashable()),
            _ => false,
        }
    }

    /// The kind's name in messages: `list` for `[]int`.
    pub fn kind(&self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::Str => "str",
            Type::Int => "int",
            Type::Float => "float",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Struct(_) => "struct",
            Type::Func(_) => "func",
            Type::Variant => "variant",
            Type::Nil => "nil",
            Type::Var(_) => "unification",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::List(element) => write!(f, "[]{element}"),
            Type::Map(pair) => write!(f, "map{{{}: {}}}", pair.0, pair.1),
            Type::Struct(fields) => {
                f.write_str("struct{")?;
                for (i, (name, ty)) in fields.iter().enumerate() {
                    write!(f, "{}{name} {ty}", if i == 0 { "" } else { "; " })?;
                }
                f.write_str("}")
            }
            Type::Func(func) => {
                f.write_str("func(")?;
                for (i, (name, ty)) in func.args.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    match name.is_empty() {
                        true => write!(f, "{i} {ty}")?,
                        false => write!(f, "{name} {ty}")?,
                    }
                }
                write!(f, ") {}", func.result)
            }
            Type::Var(number) => write!(f, "?{number}"),
            simple => f.write_str(simple.kind()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn argument_names_are_printed_and_not_compared() {
        let named = Type::func([("a", Type::Str), ("b", Type::Int)], Type::Float);
        let other = Type::func([("x", Type::Str), ("", Type::Int)], Type::Float);
        let unnamed = Type::func([("", Type::Str), ("", Type::Int)], Type::Float);
        assert_eq!(named.to_string(), "func(a str, b int) float");
        assert_eq!(unnamed.to_string(), "func(0 str, 1 int) float");
        assert_eq!(named, other);
        assert_eq!(HashSet::from([named.clone(), other, unnamed]).len(), 1);
        assert_ne!(named, Type::func([("a", Type::Str)], Type::Float));
        assert_ne!(named, Type::func([("a", Type::Str), ("b", Type::Int)], Type::Int));
    }

    #[test]
    fn fields_of_structs_are_compared_in_order_with_their_names() {
        let make = |names: [&str; 2]| Type::structure(names.map(|name| (name, Type::Int)));
        assert_eq!(make(["a", "b"]), make(["a", "b"]));
        assert_ne!(make(["a", "b"]), make(["b", "a"]));
        assert_ne!(make(["a", "b"]), Type::structure([("a", Type::Int)]));
        assert_eq!(Type::structure::<&str>([]).to_string(), "struct{}");
    }

    #[test]
    fn kinds_have_the_names_that_messages_use() {
        for (ty, kind, text) in [
            (Type::list(Type::Bool), "list", "[]bool"),
            (Type::map(Type::Str, Type::Variant), "map", "map{str: variant}"),
            (Type::structure([("a", Type::Nil)]), "struct", "struct{a nil}"),
            (Type::func::<&str>([], Type::Int), "func", "func() int"),
            (Type::Var(1), "unification", "?1"),
        ] {
            assert_eq!((ty.kind(), ty.to_string().as_str()), (kind, text));
        }
    }
}
