//! Types.

use super::*;
use SyntaxKind::{BoolKw, FloatKw, Identifier, IntKw, StrKw, VariantKw};

nodes! {
    /// `bool`, `str`, `int`, `float`, `variant`
    BasicType,
    /// `[]T`
    ListType,
    /// `map{K: V}`
    MapType,
    /// `struct{a T; b U}`
    StructType,
    /// `a T` in a struct type.
    StructTypeField,
    /// `func(T, $b U) R`
    FunctionType,
    /// The arguments of a function type with their parentheses.
    FunctionTypeArgs,
    /// `$a T` or `T` in a function type.
    FunctionTypeArg,
}

choice! {
    /// A type.
    Type {
        /// `bool`, `str`, `int`, `float`, `variant`
        BasicType,
        /// `[]T`
        ListType,
        /// `map{K: V}`
        MapType,
        /// `struct{a T; b U}`
        StructType,
        /// `func(T, $b U) R`
        FunctionType,
    }
}

/// The types that are a single word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Basic {
    /// `bool`
    Bool,
    /// `str`
    Str,
    /// `int`
    Int,
    /// `float`
    Float,
    /// `variant`
    Variant,
}

impl BasicType {
    /// Which one.
    #[must_use]
    pub fn basic(&self) -> Option<Basic> {
        match self.0.first_token()?.kind() {
            BoolKw => Some(Basic::Bool),
            StrKw => Some(Basic::Str),
            IntKw => Some(Basic::Int),
            FloatKw => Some(Basic::Float),
            VariantKw => Some(Basic::Variant),
            _ => None,
        }
    }
}

impl ListType {
    /// What the list holds.
    #[must_use]
    pub fn element(&self) -> Option<Type> {
        child(&self.0)
    }
}

impl MapType {
    /// The type of the keys.
    #[must_use]
    pub fn key(&self) -> Option<Type> {
        nth(&self.0, 0)
    }

    /// The type of the values.
    #[must_use]
    pub fn value(&self) -> Option<Type> {
        nth(&self.0, 1)
    }
}

impl StructType {
    /// The fields, in order.
    pub fn fields(&self) -> AstChildren<StructTypeField> {
        children(&self.0)
    }
}

impl StructTypeField {
    /// The name as it stands in the text.
    #[must_use]
    pub fn name_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> Option<Name> {
        self.name_token().map(Name::of_token)
    }

    /// The type.
    #[must_use]
    pub fn type_(&self) -> Option<Type> {
        child(&self.0)
    }
}

impl FunctionType {
    /// The arguments, in order.
    pub fn args(&self) -> impl Iterator<Item = FunctionTypeArg> {
        let list: Option<FunctionTypeArgs> = child(&self.0);
        list.into_iter().flat_map(|list| children(list.syntax()))
    }

    /// What is returned.
    #[must_use]
    pub fn returned(&self) -> Option<Type> {
        child(&self.0)
    }
}

impl FunctionTypeArg {
    /// The name, if the type names it.
    #[must_use]
    pub fn variable(&self) -> Option<VariableName> {
        child(&self.0)
    }

    /// The type.
    #[must_use]
    pub fn type_(&self) -> Option<Type> {
        child(&self.0)
    }
}
