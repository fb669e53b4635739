//! Signatures.
//!
//! ```text
//!   signature = form { "|" form }
//!   form      = "func(" [ parameter { "," parameter } [ "..." ] ] ")" type [ "where" limit { "," limit } ]
//!   parameter = [ name ] type
//!   limit     = variable "is" shape { "|" shape }
//!   type      = as printed, with variables: "?1"
//! ```

use std::fmt;
use std::sync::Arc;

use mgmt_value::Type;

/// One way to call a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The arguments.
    pub parameters: Vec<Parameter>,
    /// The result.
    pub result: Type,
    /// What variables may stand for. One that is not named here may be any type.
    pub limits: Vec<Limit>,
    /// The last parameter may be given any number of times, or not at all.
    pub variadic: bool,
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, for messages and docs; empty when it has none.
    pub name: Arc<str>,
    /// Its type. Variables are `Type::Var`.
    pub ty: Type,
}

/// What a variable may stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The number of the variable.
    pub variable: u32,
    /// It has one of these shapes.
    pub shapes: Vec<Shape>,
}

/// The outermost part of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// `bool`
    Bool,
    /// `str`
    Str,
    /// `int`
    Int,
    /// `float`
    Float,
    /// `[]T`
    List,
    /// `map{K: V}`
    Map,
    /// `struct{…}`
    Struct,
    /// `func(…) T`
    Func,
}

/// A signature that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at `{rest}`")]
pub struct BadSignature {
    expected: &'static str,
    rest: String,
}

impl Form {
    /// Reads all forms of a signature.
    pub fn parse_all(text: &str) -> Result<Vec<Form>, BadSignature> {
        let mut parser = Parser { rest: text };
        let mut forms = vec![parser.form()?];
        while parser.eat("|") {
            forms.push(parser.form()?);
        }
        match parser.rest.trim() {
            "" => Ok(forms),
            _ => Err(parser.expected("the end, `|` or `where`")),
        }
    }

    /// The type that a function value with this form has.
    pub fn ty(&self) -> Type {
        Type::func(
            self.parameters.iter().map(|parameter| (parameter.name.clone(), parameter.ty.clone())),
            self.result.clone(),
        )
    }

    /// Whether it says everything: no variable is left to be found.
    pub fn is_closed(&self) -> bool {
        !self.parameters.iter().any(|parameter| has_variable(&parameter.ty)) && !has_variable(&self.result)
    }
}

impl Shape {
    const ALL: [Shape; 8] = [
        Shape::Bool,
        Shape::Str,
        Shape::Int,
        Shape::Float,
        Shape::List,
        Shape::Map,
        Shape::Struct,
        Shape::Func,
    ];

    /// Its word in signatures and messages.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Bool => "bool",
            Shape::Str => "str",
            Shape::Int => "int",
            Shape::Float => "float",
            Shape::List => "list",
            Shape::Map => "map",
            Shape::Struct => "struct",
            Shape::Func => "func",
        }
    }

    /// The shape of a type; none when it is a variable, `variant` or `nil`.
    pub fn of(ty: &Type) -> Option<Shape> {
        Shape::ALL.into_iter().find(|shape| shape.name() == ty.kind())
    }
}

fn has_variable(ty: &Type) -> bool {
    match ty {
        Type::Var(_) | Type::Variant => true,
        Type::List(element) => has_variable(element),
        Type::Map(pair) => has_variable(&pair.0) || has_variable(&pair.1),
        Type::Struct(fields) => fields.iter().any(|(_, ty)| has_variable(ty)),
        Type::Func(func) => func.args.iter().any(|(_, ty)| has_variable(ty)) || has_variable(&func.result),
        Type::Bool | Type::Str | Type::Int | Type::Float | Type::Nil => false,
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("func(")?;
        for (i, parameter) in self.parameters.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            match &*parameter.name {
                "" => write!(f, "{}", parameter.ty)?,
                name => write!(f, "{name} {}", parameter.ty)?,
            }
        }
        write!(f, "{}) {}", if self.variadic { "..." } else { "" }, self.result)?;
        for (i, limit) in self.limits.iter().enumerate() {
            let shapes: Vec<_> = limit.shapes.iter().map(|shape| shape.name()).collect();
            let word = if i == 0 { " where" } else { "," };
            write!(f, "{word} ?{} is {}", limit.variable, shapes.join(" | "))?;
        }
        Ok(())
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn form(&mut self) -> Result<Form, BadSignature> {
        self.expect("func(")?;
        let mut parameters = Vec::new();
        let mut variadic = false;
        if !self.eat(")") {
            loop {
                parameters.push(self.parameter()?);
                variadic = self.eat("...");
                if variadic || !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        let result = self.ty()?;
        let mut limits = Vec::new();
        if self.eat("where ") {
            limits.push(self.limit()?);
            while self.eat(",") {
                limits.push(self.limit()?);
            }
        }
        Ok(Form { parameters, result, limits, variadic })
    }

    /// `name type` or only `type`: a name is followed by a blank and then a type, a type by neither.
    fn parameter(&mut self) -> Result<Parameter, BadSignature> {
        let start = self.rest.trim_start();
        let name = self.word();
        if !name.is_empty() && self.rest.starts_with(' ') {
            return Ok(Parameter { name: name.into(), ty: self.ty()? });
        }
        self.rest = start;
        Ok(Parameter { name: "".into(), ty: self.ty()? })
    }

    fn limit(&mut self) -> Result<Limit, BadSignature> {
        let variable = self.variable()?;
        self.expect("is ")?;
        let mut shapes = vec![self.shape()?];
        loop {
            // What follows the bar may also be the next form.
            let before = self.rest;
            if !self.eat("|") || self.rest.trim_start().starts_with("func(") {
                self.rest = before;
                return Ok(Limit { variable, shapes });
            }
            shapes.push(self.shape()?);
        }
    }

    fn shape(&mut self) -> Result<Shape, BadSignature> {
        let before = self.rest;
        let word = self.word();
        let shape = Shape::ALL.into_iter().find(|shape| shape.name() == word);
        shape.ok_or_else(|| Parser { rest: before }.expected("a shape"))
    }

    fn ty(&mut self) -> Result<Type, BadSignature> {
        if self.eat("[]") {
            return Ok(Type::list(self.ty()?));
        }
        if self.eat("map{") {
            let key = self.ty()?;
            self.expect(":")?;
            let value = self.ty()?;
            self.expect("}")?;
            return Ok(Type::map(key, value));
        }
        if self.eat("struct{") {
            return self.structure();
        }
        if self.rest.trim_start().starts_with("func(") {
            return Ok(self.form()?.ty());
        }
        if self.rest.trim_start().starts_with('?') {
            return Ok(Type::Var(self.variable()?));
        }
        let before = self.rest;
        Type::parse(self.word()).ok_or_else(|| Parser { rest: before }.expected("a type"))
    }

    fn structure(&mut self) -> Result<Type, BadSignature> {
        let mut fields: Vec<(Arc<str>, Type)> = Vec::new();
        while !self.eat("}") {
            let name = self.word();
            if name.is_empty() {
                return Err(self.expected("a field"));
            }
            fields.push((name.into(), self.ty()?));
            if !self.eat(";") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Type::structure(fields))
    }

    fn variable(&mut self) -> Result<u32, BadSignature> {
        self.expect("?")?;
        let before = self.rest;
        self.word().parse().map_err(|_| Parser { rest: before }.expected("the number of a variable"))
    }

    fn word(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &'static str) -> Result<(), BadSignature> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(token)) }
    }

    fn expected(&self, expected: &'static str) -> BadSignature {
        BadSignature { expected, rest: self.rest.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_prints_as_it_is_written() {
        for text in [
            "func() int",
            "func(a str, b str) str",
            "func(?1) int where ?1 is str | list | map",
            "func(int) []int | func(int, int) []int",
            "func(needle ?1, haystack []?1) bool",
            "func(map map{?1: ?2}, key ?1) ?2",
            "func(inputs []?1, function func(0 ?1) ?2) []?2",
            "func(format str, values ?1...) str",
            "func(x ?1) bool where ?1 is bool | str | func(x ?1) int where ?1 is int",
            "func(a ?1, b ?2) bool where ?1 is int, ?2 is func | struct",
            "func(str) struct{host str; port []map{str: ?1}}",
            "func(str) struct{}",
        ] {
            let forms = Form::parse_all(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(forms.iter().map(Form::to_string).collect::<Vec<_>>().join(" | "), text);
        }
    }

    #[test]
    fn a_bad_signature_says_where() {
        for (text, message) in [
            ("", "expected func( at ``"),
            ("func(a) int", "expected a type at `a) int`"),
            ("func(int) nothing", "expected a type at ` nothing`"),
            ("func() int where ?1 is thing", "expected a shape at `thing`"),
            ("func() int where ?x is int", "expected the number of a variable at `x is int`"),
            ("func() int int", "expected the end, `|` or `where` at ` int`"),
            ("func(map{str}) int", "expected : at `}) int`"),
            ("func(struct{;}) int", "expected a field at `;}) int`"),
        ] {
            assert_eq!(Form::parse_all(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn parts_are_what_they_say() {
        let forms = Form::parse_all("func(a []?1, ?2...) ?2 where ?1 is int | str, ?2 is list").unwrap();
        let [form] = forms.as_slice() else { panic!("expected one form") };
        assert!(form.variadic && !form.is_closed());
        assert_eq!(form.parameters[0], Parameter { name: "a".into(), ty: Type::list(Type::Var(1)) });
        assert_eq!(&*form.parameters[1].name, "");
        assert_eq!(form.limits[0], Limit { variable: 1, shapes: vec![Shape::Int, Shape::Str] });
        assert_eq!(form.ty().to_string(), "func(a []?1, 1 ?2) ?2");
        assert_eq!(Shape::of(&Type::list(Type::Int)), Some(Shape::List));
        assert_eq!(Shape::of(&Type::Var(1)), None);
    }
}
