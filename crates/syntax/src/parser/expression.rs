//! Expressions, by operator precedence.

use super::{Completed, Parser, list::Shape};
use crate::{
    NO_RETURN,
    error::{Code, SyntaxError},
    kind::SyntaxKind::{self, *},
    leniency::LeniencyKind,
    string,
};

/// Binding power of the operand of `not`: only postfix operators bind tighter.
const NOT: u8 = 13;
const OTHERWISE: u8 = 1;
const COMPARISON: u8 = 7;

const LIST: Shape = Shape {
    closer: RightBracket,
    element: "a value",
    starts: |parser| parser.starts_expression(),
    read: |parser| {
        parser.expression();
        None
    },
    always_comma: false,
};

pub(super) const ARGUMENTS: Shape = Shape { closer: RightParen, ..LIST };

const MAP: Shape = Shape {
    closer: RightBrace,
    element: "`key => value`",
    starts: |parser| parser.starts_expression(),
    read: |parser| {
        let marker = parser.open();
        parser.expression();
        if !parser.eat(Rocket) {
            let colon = matches!(parser.current(), Colon | Equals);
            parser.report(|parser| {
                let error = parser.expected("=>");
                if colon { error.hint("an entry of a map is written `key => value`") } else { error }
            });
            if colon {
                parser.bump_error();
            }
        }
        parser.expression();
        parser.close(marker, MapEntry);
        None
    },
    always_comma: false,
};

const STRUCT: Shape = Shape {
    closer: RightBrace,
    element: "`name => value`",
    starts: |parser| parser.starts_entry(),
    read: |parser| {
        let marker = parser.open();
        parser.name("a field name");
        parser.expect(Rocket);
        parser.expression();
        parser.close(marker, StructEntry);
        None
    },
    always_comma: false,
};

impl Parser<'_> {
    /// Reads an expression, or says that one is missing.
    pub(super) fn expression(&mut self) -> Option<Completed> {
        self.deeper(|parser| {
            let outer = std::mem::replace(&mut parser.deepest, parser.depth);
            let expression = parser.operators(0);
            if expression.is_none() {
                parser.error_expected("a value");
            }
            parser.deepest = parser.deepest.max(outer);
            expression
        })?
    }

    pub(super) fn starts_expression(&self) -> bool {
        Self::begins_expression(self.current())
    }

    fn begins_expression(kind: SyntaxKind) -> bool {
        matches!(
            kind,
            TrueKw
                | FalseKw
                | Quoted
                | UnterminatedString
                | SingleQuoted
                | Integer
                | Float
                | Minus
                | LeftBracket
                | LeftBrace
                | LeftParen
                | StructKw
                | Dollar
                | FuncKw
                | IfKw
                | NotKw
                | Bang
                | Identifier
                | MapKw
                | CollectKw
        )
    }

    /// A name or a reserved word, and `=>`: the start of a struct entry, right or wrong.
    fn starts_entry(&self) -> bool {
        matches!(self.current(), Identifier | Capitalized)
            || (self.nth(1) == Rocket && self.current().is_keyword())
    }

    /// Reads operands and the operators between them that bind at least as tightly as asked.
    fn operators(&mut self, minimum: u8) -> Option<Completed> {
        let mut left = self.operand()?;
        let mut compared = false;
        loop {
            left = self.postfix(left);
            let Some((operator, power)) = self.binary_operator() else { break };
            if power < minimum {
                break;
            }
            if power == COMPARISON && std::mem::replace(&mut compared, power == COMPARISON) {
                self.chained_comparison();
            }
            if !self.wrapping_fits() {
                break;
            }
            let marker = self.open_before(left);
            self.bump_operator(operator);
            self.right_operand(power + 1);
            left = self.close(marker, if power == OTHERWISE { OtherwiseExpression } else { Binary });
        }
        Some(left)
    }

    /// The operand after an operator, which may stand on the next line.
    fn right_operand(&mut self, minimum: u8) {
        if self.after_newline() && self.passed_newline != self.position {
            let before = std::mem::replace(&mut self.passed_newline, self.position);
            if !self.starts_expression() || self.starts_statement() {
                self.passed_newline = before;
                self.error_expected("a value");
                return;
            }
            let place = self.end_of_previous(self.position);
            self.leniencies.add(place, LeniencyKind::NewlineAtOperator);
        }
        if !self.recursion_fits() {
            return;
        }
        self.depth += 1;
        let outer = std::mem::replace(&mut self.deepest, self.depth);
        if self.operators(minimum).is_none() {
            self.error_expected("a value");
        }
        self.deepest = self.deepest.max(outer);
        self.depth -= 1;
    }

    /// Putting what was read into one more node keeps the tree within its depth.
    fn wrapping_fits(&mut self) -> bool {
        if self.deepest >= self.limits.tree {
            self.too_deep();
            return false;
        }
        self.deepest += 1;
        true
    }

    /// The binary operator that comes next and how tightly it binds, also when it starts a new line.
    fn binary_operator(&self) -> Option<(SyntaxKind, u8)> {
        let kind = self.nth(0);
        let power = match kind {
            Otherwise => OTHERWISE,
            OrKw | PipePipe => 3,
            AndKw | AmpersandAmpersand => 5,
            Less | Greater | LessEqual | GreaterEqual | EqualEqual | NotEqual | InKw => COMPARISON,
            Plus => 9,
            Minus => {
                // `-1` at the start of a line is no operator; see the module's page.
                let number = matches!(self.nth(1), Integer | Float) && self.nth_glued(1);
                if self.after_newline() && number {
                    return None;
                }
                9
            }
            Star | Slash => 11,
            _ => return None,
        };
        Some((kind, power))
    }

    fn bump_operator(&mut self, operator: SyntaxKind) {
        if self.after_newline() {
            let place = self.end_of_previous(self.position);
            self.leniencies.add(place, LeniencyKind::NewlineAtOperator);
            self.pass_newline();
        }
        match operator {
            AmpersandAmpersand | PipePipe => {
                let word = if operator == PipePipe { "or" } else { "and" };
                self.report(|parser| {
                    SyntaxError::new(Code::ForeignOperator, parser.here(), format!("write `{word}`"))
                });
                self.bump_as(if operator == PipePipe { OrKw } else { AndKw });
            }
            Minus => {
                if matches!(self.nth(1), Integer | Float) && self.nth_glued(1) {
                    self.lenient(LeniencyKind::GluedMinus);
                }
                self.bump();
            }
            _ => self.bump(),
        }
    }

    fn chained_comparison(&mut self) {
        self.report(|parser| {
            SyntaxError::new(Code::ChainedComparison, parser.here(), "comparisons do not chain")
                .hint("compare two values at a time and join them with `and`, or use parentheses")
        });
    }

    fn operand(&mut self) -> Option<Completed> {
        while self.at_return() {
            self.no_return("a value");
        }
        let completed = match self.current() {
            TrueKw | FalseKw | Integer | Float | Quoted | UnterminatedString | SingleQuoted => self.literal(),
            Minus => return self.minus(),
            LeftBracket => self.list_like(&LIST, List),
            LeftBrace => self.list_like(&MAP, Map),
            StructKw => self.struct_literal(),
            LeftParen => self.paren(),
            Dollar => {
                let variable = self.variable();
                self.called(variable)
            }
            FuncKw => {
                let lambda = self.lambda();
                self.called(lambda)
            }
            IfKw => self.if_expression(),
            NotKw | Bang => self.not(),
            Identifier | MapKw | CollectKw => self.function_call(),
            _ => return None,
        };
        Some(completed)
    }

    /// `return` and a value, as other languages have it.
    fn at_return(&self) -> bool {
        self.at(Identifier)
            && self.text_of_nth(0) == "return"
            && self.nth(1) != LeftParen
            && Self::begins_expression(self.nth(1))
    }

    /// Takes a `return` for nothing: what follows it is the value.
    pub(super) fn no_return(&mut self, what: &'static str) {
        self.report(|parser| parser.expected(what).hint(NO_RETURN));
        self.bump_error();
    }

    fn literal(&mut self) -> Completed {
        let marker = self.open();
        let range = self.range_of(self.position);
        let text = self.lexed.text_of(self.tokens[self.position].raw);
        match self.current() {
            Integer => self.check_integer(range, text),
            Float => self.check_float(range, text),
            Quoted => string::check(text, range.start(), self.errors),
            SingleQuoted => self.report(|parser| {
                SyntaxError::new(Code::Unexpected, parser.here(), "strings are written in double quotes")
                    .hint("replace each `'` by `\"`")
            }),
            _ => {}
        }
        self.bump();
        self.close(marker, Literal)
    }

    fn check_integer(&mut self, range: text_size::TextRange, text: &str) {
        if text.len() > 18 && text.parse::<i64>().is_err() {
            self.errors.add(|| {
                SyntaxError::new(Code::IntegerOverflow, range, "this integer does not fit in 64 bits")
                    .hint("integers go from -9223372036854775808 to 9223372036854775807")
            });
        }
    }

    fn check_float(&mut self, range: text_size::TextRange, text: &str) {
        if text.len() > 300 && !text.parse::<f64>().is_ok_and(f64::is_finite) {
            self.errors.add(|| SyntaxError::new(Code::FloatOverflow, range, "this float is too large"));
        }
    }

    /// `-1`, or the unary minus that does not exist.
    fn minus(&mut self) -> Option<Completed> {
        let marker = self.open();
        if matches!(self.nth(1), Integer | Float) && self.nth_glued(1) {
            let range = self.range_of(self.position).cover(self.range_of(self.position + 1));
            let text = &self.lexed.text[range];
            match self.nth(1) {
                Integer => self.check_integer(range, text),
                _ => self.check_float(range, text),
            }
            self.bump();
            self.bump();
            return Some(self.close(marker, Literal));
        }
        let number = matches!(self.nth(1), Integer | Float);
        self.report(|parser| {
            let error = SyntaxError::new(Code::UnaryMinus, parser.here(), "there is no unary minus");
            error.hint(if number {
                "a negative number has its minus directly before it"
            } else {
                "write `0 - …`"
            })
        });
        while self.at(Minus) {
            self.bump();
        }
        self.right_operand(NOT);
        Some(self.close(marker, Error))
    }

    fn list_like(&mut self, shape: &Shape, kind: SyntaxKind) -> Completed {
        let marker = self.open();
        self.bracketed(shape);
        self.close(marker, kind)
    }

    fn struct_literal(&mut self) -> Completed {
        let marker = self.open();
        self.bump();
        if self.at(LeftBrace) {
            self.bracketed(&STRUCT);
        } else {
            self.error_expected("{");
        }
        self.close(marker, Struct)
    }

    fn paren(&mut self) -> Completed {
        let marker = self.open();
        let opener = self.range_of(self.position);
        self.bump();
        self.inside_brackets(|parser| {
            parser.expression();
            parser.finish_group(RightParen, opener);
        });
        self.close(marker, Paren)
    }

    /// Skips what is left before the closing bracket of a group that holds one expression.
    pub(super) fn finish_group(&mut self, closer: SyntaxKind, opener: text_size::TextRange) {
        let ends = self.current().is_closer() || (self.after_newline() && self.starts_statement());
        if !ends {
            self.report(|parser| {
                let found = parser.expected(closer.spelling());
                match parser.current() {
                    EndOfFile => SyntaxError { code: Code::UnclosedBracket, ..found }
                        .label(opener, "this bracket is not closed"),
                    _ => found.label(opener, "to close this one"),
                }
            });
            while !matches!(self.current(), EndOfFile | Newline) && !self.current().is_closer() {
                self.skip_element();
                if self.at(Comma) {
                    self.bump_error();
                    self.error_position = self.position;
                } else {
                    break;
                }
            }
        }
        self.expect_closer(closer, opener);
    }

    /// `$a.b`
    fn variable(&mut self) -> Completed {
        let marker = self.open();
        self.bump();
        self.variable_component();
        while self.at(Dot) {
            self.bump();
            self.variable_component();
        }
        self.close(marker, Variable)
    }

    /// What was read is called if an opening parenthesis follows on the same line.
    fn called(&mut self, callee: Completed) -> Completed {
        if !self.at(LeftParen) || self.after_newline() {
            return callee;
        }
        let marker = self.open_before(callee);
        self.arguments();
        self.close(marker, Call)
    }

    pub(super) fn arguments(&mut self) {
        let marker = self.open();
        self.bracketed(&ARGUMENTS);
        self.close(marker, ArgList);
    }

    fn function_call(&mut self) -> Completed {
        let marker = self.open();
        let start = self.position;
        self.dotted_name();
        if self.at(LeftParen) && !self.after_newline() {
            self.arguments();
            return self.close(marker, Call);
        }
        let text = self.lexed.text_of(self.tokens[start].raw);
        let range = self.range_of(start).cover(self.end_of_previous(self.position));
        let found = self.found();
        self.report(|_| {
            SyntaxError::new(
                Code::Unexpected,
                range,
                format!("expected `(` after the function name, found {found}"),
            )
            .expected("(")
            .hint(match text {
                "return" => NO_RETURN.to_owned(),
                _ => format!("a variable is written `${text}`, a string `\"{text}\"`"),
            })
        });
        self.close(marker, Call)
    }

    fn not(&mut self) -> Completed {
        let marker = self.open();
        if self.at(Bang) {
            self.error(Code::ForeignOperator, "write `not`");
        }
        self.bump_as(NotKw);
        self.right_operand(NOT);
        self.close(marker, Not)
    }

    pub(super) fn lambda(&mut self) -> Completed {
        let marker = self.open();
        self.bump();
        if self.at(Identifier) && self.nth(1) == LeftParen {
            self.error(Code::Unexpected, "a function inside an expression has no name");
            self.bump_error();
        }
        self.signature_and_body();
        self.close(marker, Lambda)
    }

    fn if_expression(&mut self) -> Completed {
        let marker = self.open();
        self.bump();
        self.condition();
        self.body();
        if self.else_follows() {
            self.bump();
            if self.at(IfKw) {
                self.lenient(LeniencyKind::ElseIf);
                self.deeper(|parser| {
                    parser.if_expression();
                });
            } else {
                self.body();
            }
        } else {
            self.report(|parser| {
                parser.expected("else").hint("an `if` that gives a value needs an `else` for the other case")
            });
        }
        self.close(marker, IfExpression)
    }

    /// `{ expression }`
    pub(super) fn body(&mut self) {
        let marker = self.open();
        if !self.at_brace() {
            self.error_expected("{");
            self.close(marker, Body);
            return;
        }
        let opener = self.range_of(self.position);
        self.bump();
        self.inside_brackets(|parser| {
            parser.pass_newline();
            parser.expression();
            if parser.at(Equals) {
                parser.report(|parser| {
                    SyntaxError::new(
                        Code::Unexpected,
                        parser.here(),
                        "this body holds one value, and no statements",
                    )
                    .hint("bind outside of it")
                });
            }
            parser.pass_newline();
            parser.finish_body(opener);
        });
        self.close(marker, Body);
    }

    fn finish_body(&mut self, opener: text_size::TextRange) {
        if !self.at(RightBrace) && !self.current().is_closer() && self.current() != EndOfFile {
            self.error_expected("}");
            let marker = self.open();
            let mut depth = 0_u32;
            loop {
                match self.current() {
                    EndOfFile => break,
                    kind if kind.is_closer() && depth == 0 => break,
                    kind if kind.is_closer() => depth -= 1,
                    kind if kind.is_opener() => depth += 1,
                    _ => {}
                }
                self.bump();
            }
            self.close(marker, Error);
            self.error_position = self.position;
        }
        self.expect_closer(RightBrace, opener);
    }

    /// Reads `[b]` and `->f` for as long as they follow, and complains about calls of results.
    fn postfix(&mut self, mut left: Completed) -> Completed {
        loop {
            let kind = self.nth(0);
            if kind == Arrow {
                if !self.wrapping_fits() {
                    return left;
                }
                left = self.field_access(left);
            } else if self.after_newline() {
                return left;
            } else if kind == LeftBracket {
                if !self.wrapping_fits() {
                    return left;
                }
                left = self.index(left);
            } else if kind == LeftParen {
                left = self.call_of_result(left);
            } else if kind == Dot && self.nth(1) == Identifier {
                if !self.wrapping_fits() {
                    return left;
                }
                left = self.dotted_field(left);
            } else {
                return left;
            }
        }
    }

    fn index(&mut self, left: Completed) -> Completed {
        let marker = self.open_before(left);
        let opener = self.range_of(self.position);
        self.bump();
        self.inside_brackets(|parser| {
            parser.expression();
            parser.finish_group(RightBracket, opener);
        });
        self.close(marker, Index)
    }

    /// `a->f`, and `a->f <|> d`, which is one tight form although `<|>` alone is the loosest operator.
    fn field_access(&mut self, left: Completed) -> Completed {
        let marker = self.open_before(left);
        self.bump_operator(Arrow);
        self.name("a field name");
        if self.nth(0) != Otherwise {
            return self.close(marker, FieldAccess);
        }
        self.bump_operator(Otherwise);
        self.right_operand(OTHERWISE + 1);
        self.close(marker, FieldAccessOr)
    }

    /// `a->f.g`: the only mistake is the dot.
    fn dotted_field(&mut self, left: Completed) -> Completed {
        let name = self.text_of_nth(1).to_owned();
        self.report(|parser| {
            SyntaxError::new(Code::Unexpected, parser.here(), "a field of a value is not read with a dot")
                .hint(format!("a field of a struct is read as `->{name}`"))
        });
        let marker = self.open_before(left);
        self.bump_as(Arrow);
        self.name("a field name");
        self.close(marker, FieldAccess)
    }

    fn call_of_result(&mut self, left: Completed) -> Completed {
        self.report(|parser| {
            let message = match left.kind {
                Call => "the result of a call cannot be called directly",
                _ => "this cannot be called",
            };
            SyntaxError::new(Code::CallOfResult, parser.here(), message)
                .hint("bind it to a variable first, then call that: `$f = …` and `$f()`")
        });
        if !self.wrapping_fits() {
            return left;
        }
        let marker = self.open_before(left);
        self.arguments();
        self.close(marker, Error)
    }
}
