//! What the attribute `#[function]` and the macro `module!` expand to.

pub(crate) use mgmt_value::Native;
use mgmt_value::{List, Map, Mismatch, Str, Struct, Type, Value};

use crate::{Failure, Form, Parameter};

/// The list of a module's functions and constants.
macro_rules! module {
    (
        path: $path:literal,
        doc: $doc:literal,
        functions: [$($function:ident),* $(,)?]
        $(, constants: [$($constant:literal = $value:expr, $constant_doc:literal;)*])?
        $(,)?
    ) => {
        const MODULE: &str = $path;

        pub(crate) static DECLARED: $crate::Module = $crate::Module {
            path: $path,
            doc: $doc,
            functions: &[$(&$function::FUNCTION),*],
            constants: &[$($($crate::Constant {
                name: $constant,
                doc: $constant_doc,
                value: || $crate::declare::Native::to_value(&$value),
            }),*)?],
        };
    };
}
pub(crate) use module;

/// An argument that is looked at and not taken.
pub(crate) trait Borrowed<'a>: Sized {
    /// The type in a derived signature. A reference to a container needs a written one.
    fn ty() -> Type;
    fn borrow(value: &'a Value) -> Result<Self, Mismatch>;
}

impl<'a> Borrowed<'a> for &'a Value {
    fn ty() -> Type {
        Type::Variant
    }
    fn borrow(value: &'a Value) -> Result<&'a Value, Mismatch> {
        Ok(value)
    }
}

impl<'a> Borrowed<'a> for &'a Str {
    fn ty() -> Type {
        Type::Str
    }
    fn borrow(value: &'a Value) -> Result<&'a Str, Mismatch> {
        match value {
            Value::Str(text) => Ok(text),
            other => Err(Mismatch::types(Type::Str, other)),
        }
    }
}

impl<'a> Borrowed<'a> for &'a [u8] {
    fn ty() -> Type {
        Type::Str
    }
    fn borrow(value: &'a Value) -> Result<&'a [u8], Mismatch> {
        <&Str>::borrow(value).map(Str::as_bytes)
    }
}

macro_rules! containers {
    ($($container:ident => $expected:literal),*) => {$(
        impl<'a> Borrowed<'a> for &'a $container {
            fn ty() -> Type {
                Type::Variant
            }
            fn borrow(value: &'a Value) -> Result<&'a $container, Mismatch> {
                match value {
                    Value::$container(container) => Ok(container),
                    other => Err(Mismatch::Text(format!("expected a {}, found {}", $expected, other.ty()))),
                }
            }
        }
    )*};
}
containers! { List => "list", Map => "map", Struct => "struct" }

/// A form without variables.
pub(crate) fn form<const N: usize>(parameters: [(&str, Type); N], result: Type) -> Form {
    let parameters = parameters.into_iter().map(|(name, ty)| Parameter { name: name.into(), ty }).collect();
    Form { parameters, result, limits: Vec::new(), variadic: false }
}

#[cold]
pub(crate) fn arity(expected: usize, found: usize) -> Failure {
    Failure::Fatal(format!("expected {expected} arguments, found {found}"))
}

/// Says which argument does not fit.
pub(crate) fn at(name: &'static str) -> impl Fn(Mismatch) -> Failure {
    move |mismatch| Failure::Fatal(format!("argument `{name}`: {mismatch}"))
}
