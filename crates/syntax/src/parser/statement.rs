//! Statements and blocks.

use super::{Parser, list::Shape};
use crate::{
    error::{Code, SyntaxError},
    kind::SyntaxKind::{self, *},
    leniency::LeniencyKind,
};

const PARAMETERS: Shape = Shape {
    closer: RightParen,
    element: "a parameter",
    starts: |parser| matches!(parser.current(), Dollar | Identifier),
    read: |parser| {
        let marker = parser.open();
        if parser.at(Dollar) {
            parser.variable_name();
        } else {
            parser.missing_dollar("a parameter");
        }
        if parser.starts_type() {
            parser.type_();
        }
        parser.close(marker, Param);
        None
    },
    always_comma: false,
};

impl Parser<'_> {
    pub(super) fn source_file(&mut self) {
        let marker = self.open();
        self.statements(false);
        if self.position > 0 && !self.after_newline() {
            let place = self.end_of_previous(self.position);
            self.leniencies.add(place, LeniencyKind::MissingFinalNewline);
        }
        self.close(marker, SourceFile);
    }

    /// Statements up to the end of the file, or up to the brace that closes the block around them.
    fn statements(&mut self, in_block: bool) {
        loop {
            self.pass_newline();
            match self.current() {
                EndOfFile => return,
                RightBrace if in_block => return,
                kind if kind.is_closer() => {
                    self.stray_closer();
                    self.skip_statement();
                    continue;
                }
                _ => self.statement(),
            }
            match self.current() {
                Newline | EndOfFile => {}
                RightBrace if in_block => self.lenient(LeniencyKind::OneLineBlock),
                _ => {
                    self.after_statement();
                    self.skip_statement();
                }
            }
        }
    }

    /// Reports what stands where a statement should have ended.
    fn after_statement(&mut self) {
        let kind = self.current();
        self.report(|parser| {
            let found = parser.found();
            let error = |code, message: std::string::String| SyntaxError::new(code, parser.here(), message);
            match kind {
                Semicolon => error(Code::Unexpected, "statements do not end with `;`".into())
                    .hint("put each statement on its own line"),
                _ if kind.is_closer() => error(Code::StrayBracket, format!("{found} closes nothing")),
                _ => error(Code::MissingNewline, format!("expected the end of the line, found {found}"))
                    .expected("the end of the line")
                    .hint("each statement stands on its own line"),
            }
        });
    }

    fn statement(&mut self) {
        let before = self.position;
        match self.current() {
            Dollar => self.bind(),
            IfKw => self.if_statement(),
            ForKw => self.loop_(For),
            ForkvKw => self.loop_(Forkv),
            FuncKw => self.function(),
            ClassKw => self.class(),
            IncludeKw => self.include(),
            ImportKw => self.import(),
            PanicKw => self.panic(),
            CollectKw => self.collect(),
            Identifier if self.text_of_nth(0) == "return" => {
                self.no_return("a statement");
                self.skip_statement();
            }
            Identifier if self.at_small_edge() => self.edge(),
            Identifier => self.resource(),
            Capitalized => self.edge(),
            _ => self.no_statement(),
        }
        if self.position == before {
            self.skip_statement();
        }
    }

    fn no_statement(&mut self) {
        let kind = self.current();
        self.report(|parser| {
            let error = parser.expected("a statement");
            match kind {
                ElseKw => error.hint("`else` follows the `}` of its `if` on the same line"),
                kind if kind.is_keyword() => error,
                Quoted | Integer | Float | LeftBracket | LeftBrace | LeftParen | Minus => {
                    error.hint("a value alone does nothing; bind it: `$x = …`")
                }
                _ => error,
            }
        });
    }

    /// `$x T = e`
    fn bind(&mut self) {
        let marker = self.open();
        self.variable_name();
        if self.starts_type() {
            self.type_();
        }
        match self.current() {
            Equals => self.bump(),
            EqualEqual => {
                self.report(|parser| {
                    SyntaxError::new(Code::BindEquals, parser.here(), "`==` compares; a bind has one `=`")
                        .hint("write `=`")
                });
                self.bump_error();
                self.error_position = self.position;
            }
            kind => {
                self.report(|parser| {
                    let error = parser.expected("=");
                    match kind {
                        LeftParen => error.hint("a call alone does nothing; bind its result: `$x = $f(…)`"),
                        Dot | Arrow => error.hint("only a plain name can be bound"),
                        Colon => error.hint("write `=`"),
                        _ => error,
                    }
                });
                self.skip_statement();
                self.close(marker, Bind);
                return;
            }
        }
        self.expression();
        self.close(marker, Bind);
    }

    fn panic(&mut self) {
        let marker = self.open();
        self.bump();
        self.arguments_or_error();
        self.close(marker, Panic);
    }

    fn arguments_or_error(&mut self) {
        if self.at(LeftParen) {
            self.arguments();
        } else {
            self.error_expected("(");
        }
    }

    fn if_statement(&mut self) {
        let marker = self.open();
        self.bump();
        self.condition();
        self.block();
        if self.else_follows() {
            self.bump();
            if self.at(IfKw) {
                self.lenient(LeniencyKind::ElseIf);
                self.deeper(Self::if_statement);
            } else {
                self.block();
            }
        } else if matches!(self.text_of_nth(0), "elif" | "elsif" | "elseif") && self.at(Identifier) {
            self.report(|parser| parser.expected("else").hint("write `else if`"));
            self.bump_as(ElseKw);
            self.deeper(|parser| {
                let marker = parser.open();
                parser.condition();
                parser.block();
                parser.close(marker, IfStatement);
            });
        }
        self.close(marker, IfStatement);
    }

    /// What an `if` asks. Puts right a single `=`.
    pub(super) fn condition(&mut self) {
        self.expression();
        if self.at(Equals) {
            self.report(|parser| {
                SyntaxError::new(Code::Unexpected, parser.here(), "`=` binds; a comparison is written `==`")
                    .hint("write `==`")
            });
            self.bump_error();
            self.expression();
        }
    }

    /// An `else` follows; one on the next line is reported and accepted.
    pub(super) fn else_follows(&mut self) -> bool {
        if self.at(Newline) && self.nth(0) == ElseKw {
            self.pass_newline();
            self.report(|parser| {
                SyntaxError::new(
                    Code::ElsePlacement,
                    parser.here(),
                    "`else` stands on the line of the `}` before it",
                )
                .hint("write `} else {`")
            });
        }
        self.at(ElseKw)
    }

    fn loop_(&mut self, kind: SyntaxKind) {
        let marker = self.open();
        let hint = match kind {
            Forkv => "a loop over a map names the key and the value: `forkv $key, $value in $map {`",
            _ => "a loop names the index and the value: `for $index, $value in $list {`",
        };
        self.bump();
        self.loop_variable(hint);
        if self.at(Comma) {
            self.bump();
            self.loop_variable(hint);
        } else {
            self.report(|parser| parser.expected(",").hint(hint));
        }
        if self.at(InKw) {
            self.bump();
            self.expression();
        } else {
            self.report(|parser| parser.expected("in").hint(hint));
        }
        self.block();
        self.close(marker, kind);
    }

    fn loop_variable(&mut self, hint: &'static str) {
        if self.at(Dollar) {
            self.variable_name();
        } else {
            self.report(|parser| parser.expected("a variable").hint(hint));
            if self.at(Identifier) {
                self.bump_error();
            }
        }
    }

    fn function(&mut self) {
        let marker = self.open();
        self.bump();
        if self.at(LeftParen) {
            self.report(|parser| {
                parser
                    .expected("a function name")
                    .hint("a function without a name is a value; bind it: `$f = func(…) {…}`")
            });
        } else {
            self.name("a function name");
        }
        self.signature_and_body();
        self.close(marker, Function);
    }

    /// `(params) T { expression }`
    pub(super) fn signature_and_body(&mut self) {
        if self.at(LeftParen) {
            self.parameters();
        } else {
            self.error_expected("(");
            self.skip_to_brace();
        }
        if self.starts_return_type() {
            self.type_();
        } else if self.at(Arrow) || self.at(Colon) {
            self.report(|parser| {
                parser.expected("a type or `{`").hint("the type that is returned follows the `)` directly")
            });
            self.bump_error();
            self.type_();
        }
        self.body();
    }

    fn parameters(&mut self) {
        let marker = self.open();
        self.bracketed(&PARAMETERS);
        self.close(marker, ParamList);
    }

    fn class(&mut self) {
        let marker = self.open();
        self.bump();
        self.colon_name("a class name");
        if self.at(LeftParen) {
            self.parameters();
        }
        self.block();
        self.close(marker, Class);
    }

    fn include(&mut self) {
        let marker = self.open();
        self.bump();
        if matches!(self.current(), Identifier | MapKw | CollectKw | Capitalized) {
            self.dotted_name();
        } else {
            self.report(|parser| {
                let error = parser.expected("a class name");
                if parser.at(Quoted) {
                    error.hint("a file or module is brought in with `import`")
                } else {
                    error
                }
            });
            self.skip_statement();
            self.close(marker, Include);
            return;
        }
        if self.at(LeftParen) {
            self.arguments();
        }
        if self.eat(AsKw) {
            if self.at(Star) {
                self.error(Code::Unexpected, "only an `import` can be `as *`");
                self.bump_error();
            } else {
                self.name("a name");
            }
        }
        self.close(marker, Include);
    }

    fn import(&mut self) {
        let marker = self.open();
        self.bump();
        if matches!(self.current(), Quoted | UnterminatedString) {
            self.bump();
        } else {
            self.report(|parser| {
                let error = parser.expected("a string");
                match parser.current() {
                    Identifier => error.hint(format!("write `import \"{}\"`", parser.text_of_nth(0))),
                    _ => error.hint("write `import \"name\"`"),
                }
            });
            self.skip_statement();
            self.close(marker, Import);
            return;
        }
        if self.eat(AsKw) && !self.eat(Star) {
            self.name("a name or `*`");
        }
        self.close(marker, Import);
    }

    /// `{ statements }`
    fn block(&mut self) {
        self.skip_broken_header();
        let marker = self.open();
        if !self.at_brace() {
            self.error_expected("{");
            self.forgive(RightBrace);
            self.close(marker, Block);
            return;
        }
        let opener = self.range_of(self.position);
        self.deeper(|parser| {
            parser.bump();
            let outer = std::mem::replace(&mut parser.newline_ends, true);
            parser.statements(true);
            parser.newline_ends = outer;
            parser.expect_closer(RightBrace, opener);
        });
        self.close(marker, Block);
    }

    /// After an error in a header, goes on with the block if there is one on the line.
    fn skip_broken_header(&mut self) {
        if !matches!(self.current(), LeftBrace | Newline | EndOfFile) {
            self.error_expected("{");
            self.skip_to_brace();
        }
    }

    /// An opening brace follows; one on the next line is reported and accepted.
    pub(super) fn at_brace(&mut self) -> bool {
        if self.at(Newline) && self.nth(0) == LeftBrace {
            self.pass_newline();
            self.report(|parser| {
                SyntaxError::new(
                    Code::BracePlacement,
                    parser.here(),
                    "`{` stands on the line of what it belongs to",
                )
                .hint("move it to the end of the line before")
            });
        }
        self.at(LeftBrace)
    }

    // Names.

    /// `$x` where a variable is defined.
    pub(super) fn variable_name(&mut self) {
        let marker = self.open();
        self.bump();
        self.variable_component();
        if self.at(Dot) {
            self.error(Code::Unexpected, "a name that is defined here has no dots");
            while self.at(Dot) {
                self.bump_error();
                self.error_position = self.position;
                self.variable_component();
            }
        }
        self.close(marker, VariableName);
    }

    /// One part of the name of a variable, with the reserved words that may serve.
    pub(super) fn variable_component(&mut self) {
        match self.current() {
            MapKw | CollectKw => self.bump_as(Identifier),
            InKw => {
                self.lenient(LeniencyKind::InAsName);
                self.bump_as(Identifier);
            }
            _ => self.name("a name"),
        }
    }

    /// `a.b`
    pub(super) fn dotted_name(&mut self) {
        let marker = self.open();
        loop {
            match self.current() {
                MapKw | CollectKw => self.bump_as(Identifier),
                _ => self.name("a name"),
            }
            if !self.eat(Dot) {
                break;
            }
        }
        self.close(marker, DottedName);
    }

    /// `a:b`
    pub(super) fn colon_name(&mut self, what: &'static str) {
        let marker = self.open();
        self.name(what);
        while self.at(Colon) {
            self.bump();
            self.name(what);
        }
        self.close(marker, ColonName);
    }

    /// A plain name. A reserved or capitalised word is reported and taken for one.
    pub(super) fn name(&mut self, what: &'static str) {
        let kind = self.current();
        match kind {
            Identifier => self.bump(),
            Capitalized => {
                let lower = self.text_of_nth(0).to_ascii_lowercase();
                let message = format!("expected {what}, found the capitalised `{}`", self.text_of_nth(0));
                self.report(|parser| {
                    SyntaxError::new(Code::Capitalization, parser.here(), message)
                        .expected(what)
                        .hint(format!("names are lower case: `{lower}`"))
                });
                self.bump_as(Identifier);
            }
            kind if kind.is_keyword() => {
                let word = self.text_of_nth(0).to_owned();
                self.report(|parser| {
                    SyntaxError::new(
                        Code::ReservedWord,
                        parser.here(),
                        format!("expected {what}, found the reserved word `{word}`"),
                    )
                    .expected(what)
                    .hint(format!("choose another name, such as `my_{word}`"))
                });
                // A word that starts something else is left alone: the name is what is missing.
                if !matches!(kind, AsKw | ElseKw | InKw) || self.nth_glued(0) || self.nth(1) == Rocket {
                    self.bump_as(Identifier);
                }
            }
            _ => self.error_expected(what),
        }
    }

    /// A name without its `$`.
    fn missing_dollar(&mut self, what: &'static str) {
        let hint = format!("write `${}`", self.text_of_nth(0));
        self.report(|parser| parser.expected(what).hint(hint));
        self.bump_error();
    }
}
