//! Types.

use super::{Parser, list::Shape};
use crate::{
    error::{Code, SyntaxError},
    kind::SyntaxKind::{self, *},
    leniency::LeniencyKind,
};

const ARGS: Shape = Shape {
    closer: RightParen,
    element: "a type",
    starts: |parser| parser.at(Dollar) || parser.starts_type(),
    read: |parser| {
        let marker = parser.open();
        if parser.at(Dollar) {
            parser.argument_names.push(parser.position + 1);
            parser.variable_name();
        }
        parser.type_();
        parser.close(marker, FunctionTypeArg);
        None
    },
    always_comma: false,
};

impl Parser<'_> {
    pub(super) fn starts_type(&self) -> bool {
        is_basic(self.current())
            || matches!(self.current(), LeftBracket | MapKw | StructKw | FuncKw | LeftBrace)
    }

    /// A type where a body may stand as well: a brace opens a map type only if a simple type and a colon follow.
    pub(super) fn starts_return_type(&self) -> bool {
        match self.current() {
            LeftBrace => is_basic(self.nth(1)) && self.nth(2) == Colon,
            _ => self.starts_type(),
        }
    }

    pub(super) fn type_(&mut self) {
        self.deeper(|parser| {
            let marker = parser.open();
            let kind = match parser.current() {
                kind if is_basic(kind) => {
                    parser.bump();
                    BasicType
                }
                LeftBracket => {
                    let opener = parser.range_of(parser.position);
                    parser.bump();
                    parser.inside_brackets(|parser| parser.expect_closer(RightBracket, opener));
                    parser.type_();
                    ListType
                }
                MapKw => {
                    parser.bump();
                    parser.map_type();
                    MapType
                }
                LeftBrace => {
                    parser.lenient(LeniencyKind::BareMapType);
                    parser.map_type();
                    MapType
                }
                StructKw => {
                    parser.struct_type();
                    StructType
                }
                FuncKw => {
                    parser.function_type();
                    FunctionType
                }
                Capitalized | Identifier => {
                    let hint = "types are bool, str, int, float, variant, []T, map{K: V}, struct{a T; b U}, func(T) T";
                    parser.report(|parser| parser.expected("a type").hint(hint));
                    parser.bump();
                    Error
                }
                _ => {
                    parser.error_expected("a type");
                    Error
                }
            };
            parser.close(marker, kind);
        });
    }

    /// `{K: V}`
    fn map_type(&mut self) {
        let opener = self.range_of(self.position);
        if !self.expect(LeftBrace) {
            return;
        }
        self.inside_brackets(|parser| {
            parser.type_();
            parser.expect(Colon);
            parser.type_();
            if !parser.at(RightBrace) {
                parser.report(|parser| parser.expected("}"));
                parser.skip_element();
            }
            parser.expect_closer(RightBrace, opener);
        });
    }

    /// `struct{a T; b U}`
    fn struct_type(&mut self) {
        self.bump();
        let opener = self.range_of(self.position);
        if !self.expect(LeftBrace) {
            return;
        }
        self.inside_brackets(|parser| {
            let mut names = Vec::new();
            while !matches!(parser.current(), RightBrace | EndOfFile) {
                let before = parser.position;
                let field = parser.open();
                names.push(parser.position);
                parser.name("a field name, like `a int`");
                parser.type_();
                parser.close(field, StructTypeField);
                if parser.at(Semicolon) {
                    parser.bump();
                    if parser.at(RightBrace) {
                        parser.lenient(LeniencyKind::TrailingComma);
                    }
                    continue;
                }
                if parser.at(RightBrace) {
                    break;
                }
                if parser.at(Comma) {
                    let hint = "the fields of a struct type are separated by `;`";
                    parser.report(|parser| parser.expected(";").hint(hint));
                    parser.bump_error();
                    continue;
                }
                parser.error_expected("`;` or `}`");
                if parser.after_newline() && parser.starts_statement() || parser.current().is_closer() {
                    break;
                }
                if parser.position == before {
                    parser.bump_error();
                }
            }
            parser.expect_closer(RightBrace, opener);
            parser.no_duplicates(&names, "field");
        });
    }

    /// `func(T, $b U) R`
    fn function_type(&mut self) {
        self.bump();
        if self.at(LeftParen) {
            let outer = std::mem::take(&mut self.argument_names);
            let marker = self.open();
            self.bracketed(&ARGS);
            self.close(marker, FunctionTypeArgs);
            let names = std::mem::replace(&mut self.argument_names, outer);
            self.no_duplicates(&names, "argument");
        } else {
            self.error_expected("(");
        }
        if self.starts_return_type() {
            self.type_();
        } else {
            self.report(|parser| {
                parser.expected("a type").hint("a function type names what it returns, like `func(int) str`")
            });
        }
    }

    /// Reports the first name that stands twice among the tokens at the given positions.
    fn no_duplicates(&mut self, positions: &[usize], what: &'static str) {
        if positions.len() < 2 {
            return;
        }
        let mut seen = std::collections::HashMap::with_capacity(positions.len());
        for &position in positions {
            if self.tokens[position].kind != Identifier {
                continue;
            }
            let text = self.lexed.text_of(self.tokens[position].raw);
            if let Some(first) = seen.insert(text, position) {
                let (first, second) = (self.range_of(first), self.range_of(position));
                self.errors.add(|| {
                    SyntaxError::new(
                        Code::DuplicateInType,
                        second,
                        format!("duplicate {what} `{text}` in a type"),
                    )
                    .label(first, "it is already here")
                });
                return;
            }
        }
    }
}

fn is_basic(kind: SyntaxKind) -> bool {
    matches!(kind, BoolKw | StrKw | IntKw | FloatKw | VariantKw)
}
