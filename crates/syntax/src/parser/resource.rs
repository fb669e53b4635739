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
                let kind = parser.kind_at(kind_position);
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
            let word = &parser.kind_at(kind_position);
            let error = parser.expected("the name of a resource");
            match found {
                Equals | EqualEqual => error.hint(format!("to bind a variable write `${word} = …`")),
                LeftParen => error.hint(a_call_alone(word)),
                Dot => error.hint(a_call_alone(&parser.dotted_at(kind_position))),
                _ => error.hint(format!("a resource is written `{word} \"name\" {{ … }}`")),
            }
        });
    }

    fn no_body(&mut self, kind_position: usize) {
        self.report(|parser| {
            let error = parser.expected("{");
            let kind = &parser.kind_at(kind_position);
            let behind = kind_position + 1 + 2 * kind.matches(':').count();
            match parser.tokens.get(behind).map(|token| token.kind) {
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

    /// The kind whose first word stands at a position: `http` or `http:server`.
    fn kind_at(&self, position: usize) -> String {
        self.joined_at(position, Colon, ':')
    }

    /// The name with dots whose first word stands at a position.
    fn dotted_at(&self, position: usize) -> String {
        self.joined_at(position, Dot, '.')
    }

    fn joined_at(&self, mut position: usize, separator: SyntaxKind, text: char) -> String {
        let word = |position: usize| {
            let token = self.tokens.get(position)?;
            matches!(token.kind, Identifier | Capitalized).then(|| self.lexed.text_of(token.raw))
        };
        let mut name = word(position).unwrap_or_default().to_owned();
        while self.tokens.get(position + 1).is_some_and(|token| token.kind == separator)
            && let Some(next) = word(position + 2)
        {
            name.push(text);
            name.push_str(next);
            position += 2;
        }
        name
    }

    /// `file { "/tmp/x": … }`, as it is written in Puppet.
    fn puppet_resource(&mut self, kind_position: usize) {
        let kind = self.kind_at(kind_position);
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
            self.value(false);
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
            self.value(false);
            return ResourceMeta;
        }
        self.expect(Rocket);
        let is_edge = matches!(&self.lexed.text[word], "Before" | "Depend" | "Notify" | "Listen");
        if self.value(is_edge) {
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

    /// `file["x"] ->`: an edge whose only mistake is the small letter.
    pub(super) fn at_small_edge(&self) -> bool {
        /// Names are short; what is longer is not looked through.
        const MAX_TOKENS: usize = 64;
        if !self.at_small_kind() {
            return false;
        }
        let mut depth = 0_u32;
        for at in 0..MAX_TOKENS {
            match self.nth(at) {
                LeftBracket => depth += 1,
                RightBracket if depth <= 1 => return matches!(self.nth(at + 1), Arrow | Dot),
                RightBracket => depth -= 1,
                EndOfFile => return false,
                _ => {}
            }
        }
        false
    }

    fn small_kind(&mut self) {
        let hint = like(&self.kind_at(self.position));
        self.report(|parser| {
            let message = "the kind of a resource is capitalised here";
            SyntaxError::new(Code::Capitalization, parser.here(), message).hint(hint)
        });
    }

    fn unknown_item(&mut self, range: TextRange) {
        let word = &self.lexed.text[range];
        // Capitals all over were taken for a kind that is misspelt, and reported as that.
        self.errors.list.retain(|error| error.range != range);
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
    fn value(&mut self, is_edge: bool) -> bool {
        if self.half_of_edge(is_edge) {
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
        if self.half_of_edge(is_edge) {
            return true;
        }
        self.expression();
        false
    }

    /// Reads half an edge if there is one; one that is not capitalised only where nothing else can be.
    fn half_of_edge(&mut self, is_edge: bool) -> bool {
        if is_edge && self.at_small_kind() {
            self.small_kind();
        } else if !self.at(Capitalized) {
            return false;
        }
        self.edge_half();
        true
    }

    /// `A["x"] -> B["y"]`
    pub(super) fn edge(&mut self) {
        let marker = self.open();
        let first = self.position;
        let mut halves = 0_u32;
        let mut with_field = 0_u32;
        let mut is_reported = false;
        loop {
            if self.at(Identifier) && !std::mem::replace(&mut is_reported, true) {
                self.small_kind();
            }
            halves += 1;
            with_field += u32::from(self.edge_half());
            if self.nth(0) != Arrow {
                break;
            }
            self.edge_arrow();
            if self.current() != Capitalized && !self.at_small_kind() {
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
        let start = self.position;
        // A first part that is not capitalised has been reported.
        let mut is_reported = self.at(Identifier);
        match is_reported {
            true => self.bump_as(Capitalized),
            false => self.bump(),
        }
        while self.at(Colon) {
            self.bump();
            match self.current() {
                Capitalized => self.bump(),
                Identifier => {
                    if !std::mem::replace(&mut is_reported, true) {
                        self.report(|parser| {
                            let message = "each part of a kind is capitalised here";
                            SyntaxError::new(Code::Capitalization, parser.here(), message)
                                .hint(like(&parser.kind_at(start)))
                        });
                    }
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
    match name.rsplit_once(':') {
        Some((outer, inner)) => format!(
            "a class inside of another one is included through an alias: `include {outer} as a`, then `include a.{inner}(…)`"
        ),
        None => format!(
            "a class is included: `include {name}(…)`; of a function the result is bound: `$x = {name}(…)`"
        ),
    }
}

fn like(kind: &str) -> String {
    format!("like `{}[\"name\"]`", capitalised(kind))
}

/// A kind with each of its parts capitalised.
fn capitalised(kind: &str) -> String {
    let part = |word: &str| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}", first.to_ascii_uppercase())
    };
    kind.split(':').map(part).collect::<Vec<_>>().join(":")
}
