//! Resources, and the edges between them.

use super::{Marker, Parser, list::Shape};
use crate::{
    error::{Code, SyntaxError},
    kind::SyntaxKind::{self, *},
};
use text_size::TextRange;

const BODY: Shape = Shape {
    closer: RightBrace,
    element: "an item of the resource",
    starts: |parser| parser.starts_item(),
    read: |parser| Some(parser.item()),
    always_comma: true,
};

impl Parser<'_> {
    /// `kind name { items }`
    pub(super) fn resource(&mut self) {
        let marker = self.open();
        let kind_position = self.position;
        self.colon_name("a resource kind");
        match self.current() {
            LeftBrace if self.nth(1) == Quoted && self.nth(2) == Colon => {
                self.puppet_resource(kind_position);
                self.close(marker, Resource);
                return;
            }
            LeftBrace if self.nameless() => self.report(|parser| {
                let kind = parser.lexed.text_of(parser.tokens[kind_position].raw);
                SyntaxError::new(Code::Unexpected, parser.here(), "a resource has a name before its `{`")
                    .expected("a name")
                    .hint(format!("write `{kind} \"name\" {{`"))
            }),
            found if self.starts_expression() && !(found == LeftParen && self.nth(1) == RightParen) => {
                self.expression();
            }
            found => {
                self.no_resource(kind_position, found);
                self.skip_statement();
                self.close(marker, Resource);
                return;
            }
        }
        if !matches!(self.current(), LeftBrace | Newline | EndOfFile) {
            self.no_body(kind_position);
            self.skip_to_brace();
        }
        if self.at_brace() {
            let body = self.open();
            self.bracketed(&BODY);
            self.close(body, ResourceBody);
        } else {
            self.no_body(kind_position);
        }
        self.close(marker, Resource);
    }

    /// The brace after the kind opens the body already: no map starts like this.
    fn nameless(&self) -> bool {
        matches!(self.nth(1), Identifier | Capitalized) && self.nth(2) == Rocket
    }

    fn no_resource(&mut self, kind_position: usize, found: SyntaxKind) {
        self.report(|parser| {
            let word = parser.lexed.text_of(parser.tokens[kind_position].raw);
            let error = parser.expected("the name of a resource");
            match found {
                Equals | EqualEqual => error.hint(format!("to bind a variable write `${word} = …`")),
                LeftParen => error.hint(a_call_alone(word)),
                Dot => error.hint("a call alone does nothing; bind its result: `$x = …`"),
                _ => error.hint(format!("a resource is written `{word} \"name\" {{ … }}`")),
            }
        });
    }

    fn no_body(&mut self, kind_position: usize) {
        let after_kind = self.tokens.get(kind_position + 1).map(|token| token.kind);
        self.report(|parser| {
            let error = parser.expected("{");
            let kind = parser.lexed.text_of(parser.tokens[kind_position].raw);
            match after_kind {
                Some(LeftParen) => error.hint(a_call_alone(kind)),
                Some(LeftBrace) => {
                    error.hint(format!("a resource has a name before its body: `{kind} \"name\" {{`"))
                }
                Some(LeftBracket) => error.hint(format!(
                    "a resource has a body, if only an empty one: `{{}}`; in an edge its kind is capitalised: `{}[…] -> …`",
                    capitalised(kind)
                )),
                _ => error.hint("a resource has a body, if only an empty one: `{}`"),
            }
        });
    }

    /// `file { "/tmp/x": … }`, as it is written in Puppet.
    fn puppet_resource(&mut self, kind_position: usize) {
        let kind = self.lexed.text_of(self.tokens[kind_position].raw);
        let name = self.text_of_nth(1).to_owned();
        let colon = self.range_of(self.position + 2);
        self.report(|_| {
            SyntaxError::new(
                Code::Unexpected,
                colon,
                "this looks like Puppet: the name stands inside the braces",
            )
            .hint(format!("in mcl it stands before them: `{kind} {name} {{`"))
        });
        self.skip_statement();
    }

    fn starts_item(&self) -> bool {
        match self.current() {
            Identifier | Capitalized => true,
            kind => kind.is_keyword() && self.nth(1) == Rocket,
        }
    }

    /// One line of a resource. Its comma is read by the caller and becomes part of it.
    fn item(&mut self) -> (Marker, SyntaxKind) {
        let marker = self.open();
        let kind = if self.at(Capitalized) {
            self.capitalized_item()
        } else {
            self.name("a field name");
            if !self.eat(Rocket) {
                self.report(|parser| {
                    let error = parser.expected("=>");
                    match parser.current() {
                        Equals | Colon => error.hint("a field is written `name => value,`"),
                        _ => error,
                    }
                });
                if matches!(self.current(), Equals | Colon) {
                    self.bump_error();
                }
            }
            self.value();
            ResourceField
        };
        (marker, kind)
    }

    /// `Meta…` or an edge.
    fn capitalized_item(&mut self) -> SyntaxKind {
        let word = self.range_of(self.position);
        let is_meta = self.text_of_nth(0) == "Meta";
        self.bump();
        if self.at(Colon) {
            self.bump();
            self.name("a meta parameter");
            if !is_meta {
                self.unknown_item(word);
            }
            self.expect(Rocket);
            self.value();
            return ResourceMeta;
        }
        self.expect(Rocket);
        let is_edge = matches!(&self.lexed.text[word], "Before" | "Depend" | "Notify" | "Listen");
        if is_edge && self.at_small_kind() {
            self.small_kind();
            self.edge_half();
            return ResourceEdge;
        }
        if self.value() {
            return ResourceEdge;
        }
        if !is_meta {
            self.unknown_item(word);
        }
        ResourceMeta
    }

    /// `file[` or `http:server[`: the only mistake is the small letter.
    fn at_small_kind(&self) -> bool {
        let mut next = 0;
        while self.nth(next) == Identifier && self.nth(next + 1) == Colon {
            next += 2;
        }
        self.at(Identifier)
            && matches!(self.nth(next), Identifier | Capitalized)
            && self.nth(next + 1) == LeftBracket
    }

    fn small_kind(&mut self) {
        let hint = format!("like `{}[\"name\"]`", capitalised(self.text_of_nth(0)));
        self.report(|parser| {
            let message = "the kind of a resource is capitalised here";
            SyntaxError::new(Code::Capitalization, parser.here(), message).hint(hint)
        });
    }

    fn unknown_item(&mut self, range: TextRange) {
        let word = &self.lexed.text[range];
        self.errors.add(|| {
            let error = SyntaxError::new(
                Code::UnknownResourceField,
                range,
                format!("`{word}` is no part of a resource"),
            );
            match word {
                "Before" | "Depend" | "Notify" | "Listen" => {
                    error.hint(format!("an edge names a resource: `{word} => Kind[\"name\"],`"))
                }
                _ => error.hint(format!("a field is lower case: `{}`", word.to_ascii_lowercase())),
            }
        });
    }

    /// `[condition ?:] value`. Returns whether the value is half an edge.
    fn value(&mut self) -> bool {
        if self.at(Capitalized) {
            self.edge_half();
            return true;
        }
        let expression = self.expression();
        if !self.at(Elvis) {
            return false;
        }
        match expression.map(|expression| self.open_before(expression)) {
            Some(marker) => {
                self.bump();
                self.close(marker, Condition);
            }
            None => self.bump_error(),
        }
        if self.at(Capitalized) {
            self.edge_half();
            return true;
        }
        self.expression();
        false
    }

    /// `A["x"] -> B["y"]`
    pub(super) fn edge(&mut self) {
        let marker = self.open();
        let first = self.position;
        let mut halves = 0_u32;
        let mut with_field = 0_u32;
        loop {
            halves += 1;
            with_field += u32::from(self.edge_half());
            if self.nth(0) != Arrow {
                break;
            }
            self.edge_arrow();
            if self.current() != Capitalized {
                self.report(|parser| parser.expected("a resource").hint("like `File[\"name\"]`"));
                break;
            }
        }
        if with_field > 0 && (with_field != 2 || halves != 2) && self.error_position != self.position {
            let range = self.range_of(first).cover(self.end_of_previous(self.position));
            self.errors.add(|| {
                SyntaxError::new(
                    Code::SendShape,
                    range,
                    "an edge that sends has two halves with a field each",
                )
                .hint("like `Exec[\"a\"].output -> File[\"b\"].content`")
            });
        }
        self.close(marker, Edge);
    }

    /// The arrow, with a newline before or after it.
    fn edge_arrow(&mut self) {
        use crate::leniency::LeniencyKind::NewlineAtOperator;
        if self.at(Newline) {
            self.lenient(NewlineAtOperator);
            self.pass_newline();
        }
        self.bump();
        if self.at(Newline) && self.nth(0) == Capitalized {
            self.lenient(NewlineAtOperator);
            self.pass_newline();
        }
    }

    /// `A:B["x"]` or `A:B["x"].field`. Returns whether there is a field.
    fn edge_half(&mut self) -> bool {
        let marker = self.open();
        self.kind_reference();
        if self.at(LeftBracket) {
            let opener = self.range_of(self.position);
            self.bump();
            self.inside_brackets(|parser| {
                parser.expression();
                parser.finish_group(RightBracket, opener);
            });
        } else {
            self.no_reference();
        }
        let field = self.eat(Dot);
        if field {
            self.name("a field name");
        }
        self.close(marker, EdgeHalf);
        field
    }

    fn no_reference(&mut self) {
        let word =
            self.position.checked_sub(1).map_or("", |previous| self.lexed.text_of(self.tokens[previous].raw));
        let lower = word.to_ascii_lowercase();
        self.report(|parser| {
            let error = parser.expected("[");
            match parser.current() {
                Quoted | Dollar | LeftBrace => error.hint(format!(
                    "a capitalised kind names a resource that exists, like `{word}[\"name\"]`; one is made with `{lower} \"name\" {{ … }}`"
                )),
                _ => error.hint(format!("a resource is named like `{word}[\"name\"]`")),
            }
        });
    }

    fn kind_reference(&mut self) {
        let marker = self.open();
        match self.at(Identifier) {
            true => self.bump_as(Capitalized),
            false => self.bump(),
        }
        while self.at(Colon) {
            self.bump();
            match self.current() {
                Capitalized => self.bump(),
                Identifier => {
                    self.report(|parser| {
                        SyntaxError::new(
                            Code::Capitalization,
                            parser.here(),
                            "each part of a kind is capitalised here",
                        )
                        .hint("like `Dhcp:Host[\"name\"]`")
                    });
                    self.bump_as(Capitalized);
                }
                _ => self.error_expected("a resource kind"),
            }
        }
        self.close(marker, KindReference);
    }

    /// `collect kind name { items }`
    pub(super) fn collect(&mut self) {
        let marker = self.open();
        self.bump();
        if self.at(Identifier) {
            self.resource();
        } else {
            self.error_expected("a resource kind");
        }
        self.close(marker, Collect);
    }
}

fn a_call_alone(name: &str) -> String {
    format!("a class is included: `include {name}(…)`; of a function the result is bound: `$x = {name}(…)`")
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}", first.to_ascii_uppercase())
}
