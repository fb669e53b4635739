//! Expressions.

use super::*;
use crate::{
    error::SyntaxError,
    string::{self, StringPart, StringPiece},
};
use SyntaxKind::{
    AndKw, ElseKw, EqualEqual, FalseKw, Float, Greater, GreaterEqual, Identifier, InKw, Integer, Less,
    LessEqual, Minus, NotEqual, OrKw, Plus, Quoted, Slash, Star, TrueKw, UnterminatedString,
};
use std::borrow::Cow;

nodes! {
    /// `true`, `"text"`, `-1`, `1.5`
    Literal,
    /// `[a, b]`
    List,
    /// `{k => v}`
    Map,
    /// `key => value`
    MapEntry,
    /// `struct{f => v}`
    Struct,
    /// `name => value` in a struct.
    StructEntry,
    /// A call of a function, of a variable, or of a lambda on the spot.
    Call,
    /// `$a.b`
    Variable,
    /// `func(params) T { e }`
    Lambda,
    /// `if c { a } else { b }` as a value.
    IfExpression,
    /// `(a)`
    Paren,
    /// `a op b`
    Binary,
    /// `not a`
    Not,
    /// `a[b]`
    Index,
    /// `a->f`
    FieldAccess,
    /// `a->f <|> d`
    FieldAccessOr,
    /// `a <|> d`
    OtherwiseExpression,
    /// Arguments with their parentheses.
    ArgList,
    /// `{ e }` of a function, a lambda, or a branch.
    Body,
}

choice! {
    /// An expression.
    Expression {
        /// `true`, `"text"`, `-1`, `1.5`
        Literal,
        /// `[a, b]`
        List,
        /// `{k => v}`
        Map,
        /// `struct{f => v}`
        Struct,
        /// `f(a)`, `$f(a)`, `func($x) { $x }(a)`
        Call,
        /// `$a.b`
        Variable,
        /// `func(params) T { e }`
        Lambda,
        /// `if c { a } else { b }`
        IfExpression,
        /// `(a)`
        Paren,
        /// `a op b`
        Binary,
        /// `not a`
        Not,
        /// `a[b]`
        Index,
        /// `a->f`
        FieldAccess,
        /// `a->f <|> d`
        FieldAccessOr,
        /// `a <|> d`
        OtherwiseExpression,
    }
}

/// The value of a literal.
#[derive(Clone, PartialEq, Debug)]
pub enum LiteralValue {
    /// `true` or `false`
    Bool(bool),
    /// An integer. One that overflows has no value, and there is an error about it.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string, by its parts.
    String(StringLiteral),
}

/// A string literal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StringLiteral(SyntaxToken);

impl Literal {
    /// The value, if it has one.
    #[must_use]
    pub fn value(&self) -> Option<LiteralValue> {
        let last = self.0.last_token()?;
        match last.kind() {
            TrueKw => Some(LiteralValue::Bool(true)),
            FalseKw => Some(LiteralValue::Bool(false)),
            Integer => self.number(&last).map(LiteralValue::Int),
            Float => self.number(&last).filter(|value: &f64| value.is_finite()).map(LiteralValue::Float),
            Quoted | UnterminatedString => Some(LiteralValue::String(StringLiteral(last))),
            _ => None,
        }
    }

    fn number<T: std::str::FromStr>(&self, digits: &SyntaxToken) -> Option<T> {
        if self.0.text_range() == digits.text_range() {
            return digits.text().parse().ok();
        }
        // The minus is a token of its own, but never apart from the digits.
        self.0.text().parse().ok()
    }
}

impl StringLiteral {
    /// Where it is, quotes included.
    #[must_use]
    pub fn range(&self) -> TextRange {
        self.0.text_range()
    }

    /// What stands between the quotes, to the letter.
    #[must_use]
    pub fn raw(&self) -> &str {
        let text = self.0.text();
        let end = if self.0.kind() == Quoted { text.len().saturating_sub(1) } else { text.len() };
        text.get(1..end).unwrap_or_default()
    }

    /// The text, with escapes decoded; borrowed if there are none. None if a variable is in it, or a mistake.
    #[must_use]
    pub fn plain(&self) -> Option<Cow<'_, str>> {
        string::plain(self.raw())
    }

    /// What it is made of: runs of text with their escapes decoded, and variables. Mistakes are left out; they are
    /// among the errors. The ranges are places in the file.
    #[must_use]
    pub fn pieces(&self) -> Vec<StringPiece<'_>> {
        string::pieces(self.raw(), self.start())
    }

    /// The parts as they are written, each escape on its own. Their ranges are places in the file and lie end to end.
    #[must_use]
    pub fn parts(&self) -> Vec<StringPart<'_>> {
        string::parts(self.raw(), self.start()).0
    }

    /// What is wrong inside it. The same errors are in [`crate::Parse::errors`].
    #[must_use]
    pub fn errors(&self) -> Vec<SyntaxError> {
        string::parts(self.raw(), self.start()).1
    }

    /// Where the inside begins.
    fn start(&self) -> TextSize {
        self.range().start() + TextSize::new(1)
    }
}

impl List {
    /// The elements, in order.
    pub fn elements(&self) -> AstChildren<Expression> {
        children(&self.0)
    }
}

impl Map {
    /// The entries, in order.
    pub fn entries(&self) -> AstChildren<MapEntry> {
        children(&self.0)
    }
}

impl MapEntry {
    /// The key.
    #[must_use]
    pub fn key(&self) -> Option<Expression> {
        nth(&self.0, 0)
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> Option<Expression> {
        nth(&self.0, 1)
    }
}

impl Struct {
    /// The entries, in order.
    pub fn entries(&self) -> AstChildren<StructEntry> {
        children(&self.0)
    }
}

impl StructEntry {
    /// The name as it stands in the text.
    #[must_use]
    pub fn name_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// The name of the field.
    #[must_use]
    pub fn name(&self) -> Option<Name> {
        self.name_token().map(Name::of_token)
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> Option<Expression> {
        child(&self.0)
    }
}

/// What is called.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Callee {
    /// `f` or `m.f`
    Function(DottedName),
    /// `$f` or `$m.f`
    Variable(Variable),
    /// A lambda on the spot.
    Lambda(Lambda),
}

impl Call {
    /// What is called.
    #[must_use]
    pub fn callee(&self) -> Option<Callee> {
        let first = self.0.children().next()?;
        match first.kind() {
            SyntaxKind::DottedName => DottedName::cast(first).map(Callee::Function),
            SyntaxKind::Variable => Variable::cast(first).map(Callee::Variable),
            SyntaxKind::Lambda => Lambda::cast(first).map(Callee::Lambda),
            _ => None,
        }
    }

    /// The arguments.
    #[must_use]
    pub fn args(&self) -> Option<ArgList> {
        child(&self.0)
    }
}

impl ArgList {
    /// The arguments, in order.
    pub fn args(&self) -> AstChildren<Expression> {
        children(&self.0)
    }
}

impl Variable {
    /// The parts between the dots.
    pub fn parts(&self) -> impl Iterator<Item = SyntaxToken> {
        tokens(&self.0, Identifier)
    }

    /// The name without its dollar, dots included.
    #[must_use]
    pub fn name(&self) -> Name {
        Name::of_parts(&self.0, self.parts(), '.')
    }
}

impl Lambda {
    /// The parameters.
    #[must_use]
    pub fn params(&self) -> Option<ParamList> {
        child(&self.0)
    }

    /// The declared type of the result.
    #[must_use]
    pub fn returned(&self) -> Option<Type> {
        child(&self.0)
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Option<Body> {
        child(&self.0)
    }
}

impl Body {
    /// The expression between the braces.
    #[must_use]
    pub fn value(&self) -> Option<Expression> {
        child(&self.0)
    }
}

/// What follows `else` in an expression.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ElseExpression {
    /// `else { e }`
    Body(Body),
    /// `else if …`
    If(IfExpression),
}

impl IfExpression {
    /// What decides.
    #[must_use]
    pub fn condition(&self) -> Option<Expression> {
        child(&self.0)
    }

    /// The value if it holds.
    #[must_use]
    pub fn then_body(&self) -> Option<Body> {
        child(&self.0)
    }

    /// The value if it does not.
    #[must_use]
    pub fn else_branch(&self) -> Option<ElseExpression> {
        let mut after = self.0.elements().skip_while(|element| element.kind() != ElseKw);
        let node = after.find_map(|element| element.into_node())?;
        match node.kind() {
            SyntaxKind::IfExpression => IfExpression::cast(node).map(ElseExpression::If),
            _ => Body::cast(node).map(ElseExpression::Body),
        }
    }
}

impl Paren {
    /// What stands in the parentheses.
    #[must_use]
    pub fn inner(&self) -> Option<Expression> {
        child(&self.0)
    }
}

/// An operator between two values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `<=`
    LessEqual,
    /// `>=`
    GreaterEqual,
    /// `and`
    And,
    /// `or`
    Or,
    /// `in`
    In,
}

impl Operator {
    /// How it is spelled.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::Greater => ">",
            Operator::LessEqual => "<=",
            Operator::GreaterEqual => ">=",
            Operator::And => "and",
            Operator::Or => "or",
            Operator::In => "in",
        }
    }

    fn from_kind(kind: SyntaxKind) -> Option<Operator> {
        Some(match kind {
            Plus => Operator::Add,
            Minus => Operator::Subtract,
            Star => Operator::Multiply,
            Slash => Operator::Divide,
            EqualEqual => Operator::Equal,
            NotEqual => Operator::NotEqual,
            Less => Operator::Less,
            Greater => Operator::Greater,
            LessEqual => Operator::LessEqual,
            GreaterEqual => Operator::GreaterEqual,
            AndKw => Operator::And,
            OrKw => Operator::Or,
            InKw => Operator::In,
            _ => return None,
        })
    }
}

impl Binary {
    /// The value on the left.
    #[must_use]
    pub fn left(&self) -> Option<Expression> {
        nth(&self.0, 0)
    }

    /// The value on the right.
    #[must_use]
    pub fn right(&self) -> Option<Expression> {
        nth(&self.0, 1)
    }

    /// The operator as it stands in the text.
    #[must_use]
    pub fn operator_token(&self) -> Option<SyntaxToken> {
        let mut own = self.0.elements().filter_map(|element| element.into_token());
        own.find(|token| Operator::from_kind(token.kind()).is_some())
    }

    /// The operator.
    #[must_use]
    pub fn operator(&self) -> Option<Operator> {
        Operator::from_kind(self.operator_token()?.kind())
    }
}

impl Not {
    /// What is negated.
    #[must_use]
    pub fn inner(&self) -> Option<Expression> {
        child(&self.0)
    }
}

impl Index {
    /// What is looked into.
    #[must_use]
    pub fn base(&self) -> Option<Expression> {
        nth(&self.0, 0)
    }

    /// What stands in the brackets.
    #[must_use]
    pub fn key(&self) -> Option<Expression> {
        nth(&self.0, 1)
    }
}

impl FieldAccess {
    /// What is looked into.
    #[must_use]
    pub fn base(&self) -> Option<Expression> {
        nth(&self.0, 0)
    }

    /// The field as it stands in the text.
    #[must_use]
    pub fn field_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// The name of the field.
    #[must_use]
    pub fn field(&self) -> Option<Name> {
        self.field_token().map(Name::of_token)
    }
}

impl FieldAccessOr {
    /// What is looked into.
    #[must_use]
    pub fn base(&self) -> Option<Expression> {
        nth(&self.0, 0)
    }

    /// The field as it stands in the text.
    #[must_use]
    pub fn field_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// The name of the field.
    #[must_use]
    pub fn field(&self) -> Option<Name> {
        self.field_token().map(Name::of_token)
    }

    /// The value if the struct has no such field.
    #[must_use]
    pub fn default(&self) -> Option<Expression> {
        nth(&self.0, 1)
    }
}

impl OtherwiseExpression {
    /// The value that may fail.
    #[must_use]
    pub fn value(&self) -> Option<Expression> {
        nth(&self.0, 0)
    }

    /// The value if it does.
    #[must_use]
    pub fn default(&self) -> Option<Expression> {
        nth(&self.0, 1)
    }
}
