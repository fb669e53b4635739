//! Comma-separated elements in brackets: one driver for lists, maps, structs, arguments, parameters and resources.

use super::{Marker, Parser};
use crate::{
    error::{Code, SyntaxError},
    kind::SyntaxKind::{self, *},
    leniency::LeniencyKind,
};

/// What a bracketed list looks like.
pub(super) struct Shape {
    pub(super) closer: SyntaxKind,
    /// What an element is, for messages.
    pub(super) element: &'static str,
    /// The next tokens can start an element.
    pub(super) starts: fn(&Parser<'_>) -> bool,
    /// Reads an element. If it returns a node, the comma becomes the last part of that node.
    pub(super) read: fn(&mut Parser<'_>) -> Option<(Marker, SyntaxKind)>,
    /// The canonical form has a comma after every element, on one line as well.
    pub(super) always_comma: bool,
}

/// What is needed to tell whether a list is laid out canonically.
#[derive(Default)]
struct Layout {
    elements: usize,
    /// The first element, or the closer of an empty list, stands on a new line.
    several_lines: bool,
    /// Elements that do not stand where the layout of the first one puts them.
    misplaced: Option<usize>,
    last_comma: bool,
}

impl Parser<'_> {
    /// Reads from the opening bracket, which is the next token, through the closing one.
    pub(super) fn bracketed(&mut self, shape: &Shape) {
        let opener = self.range_of(self.position);
        self.bump();
        let outer = std::mem::replace(&mut self.newline_ends, false);
        let mut layout = Layout { several_lines: self.after_newline(), ..Layout::default() };
        while !self.list_ends(shape) {
            let before = self.position;
            self.pass_newline();
            if self.at(Comma) {
                self.extra_comma(shape);
            } else if (shape.starts)(self) {
                self.note_element(&mut layout);
                let node = (shape.read)(self);
                layout.last_comma = self.after_element(shape);
                if let Some((marker, kind)) = node {
                    self.close(marker, kind);
                }
            } else if self.current().is_closer() {
                self.stray_closer();
            } else {
                self.error_expected(shape.element);
                self.skip_element();
                self.eat(Comma);
            }
            // Whatever an element is, it must not stand still.
            if self.position == before {
                self.bump_error();
            }
        }
        self.note_layout(shape, &layout);
        self.pass_newline();
        self.expect_closer(shape.closer, opener);
        self.newline_ends = outer;
    }

    fn list_ends(&self, shape: &Shape) -> bool {
        let kind = self.current();
        kind == shape.closer
            || kind == EndOfFile
            || (kind.is_closer() && self.closes_something(kind))
            || (self.after_newline() && self.starts_statement())
    }

    fn extra_comma(&mut self, shape: &Shape) {
        self.report(|parser| {
            SyntaxError::new(
                Code::ExtraComma,
                parser.here(),
                format!("expected {}, found `,`", shape.element),
            )
            .expected(shape.element)
            .hint("remove the comma")
        });
        self.bump_error();
        self.error_position = self.position;
    }

    /// Reads the comma behind an element. Returns whether there was one.
    fn after_element(&mut self, shape: &Shape) -> bool {
        if self.at(Comma) {
            self.bump();
            return true;
        }
        if self.list_ends(shape) {
            return false;
        }
        if (shape.starts)(self) {
            // Two elements in a row: the comma is what is missing, and the next element is fine.
            let place = if self.after_newline() { self.end_of_previous(self.position) } else { self.here() };
            let message =
                format!("expected `,` between two {}, found {}", plural(shape.element), self.found());
            self.report(|_| {
                SyntaxError::new(Code::MissingComma, place, message).expected(",").hint("add a comma")
            });
            return false;
        }
        self.report(|parser| {
            let closer = shape.closer.spelling();
            let message = format!("expected `,` or `{closer}`, found {}", parser.found());
            SyntaxError::new(Code::Unexpected, parser.here(), message).expected(",")
        });
        self.skip_element();
        self.eat(Comma)
    }

    fn note_element(&mut self, layout: &mut Layout) {
        layout.elements += 1;
        if self.after_newline() != layout.several_lines {
            layout.misplaced.get_or_insert(self.position);
        }
    }

    /// Records the first way in which a list is not canonical.
    fn note_layout(&mut self, shape: &Shape, layout: &Layout) {
        let closer_on_new_line = self.after_newline();
        if self.current() != shape.closer || layout.elements == 0 {
            return;
        }
        if shape.always_comma {
            if !layout.last_comma {
                let place = self.end_of_previous(self.position);
                self.leniencies.add(place, LeniencyKind::MissingTrailingComma);
            }
        } else if let Some(position) = layout.misplaced {
            let place = match self.tokens[position].after_newline() {
                true => self.end_of_previous(position),
                false => self.range_of(position),
            };
            self.leniencies.add(place, LeniencyKind::ElementsPerLine);
        } else if layout.several_lines != closer_on_new_line {
            self.leniencies.add(self.end_of_previous(self.position), LeniencyKind::ElementsPerLine);
        } else if layout.several_lines && !layout.last_comma {
            self.leniencies.add(self.end_of_previous(self.position), LeniencyKind::MissingTrailingComma);
        } else if !layout.several_lines && layout.last_comma {
            self.lenient(LeniencyKind::TrailingComma);
        }
    }
}

fn plural(element: &str) -> &str {
    match element {
        "a value" => "values",
        "`key => value`" | "`name => value`" => "entries",
        "an item of the resource" => "items",
        "a parameter" => "parameters",
        "a type" => "types",
        other => other,
    }
}
