//! Writes the flat tree line by line.

use super::view::{Node, Part};
use crate::{
    Source,
    kind::SyntaxKind::{self, *},
    lexer::Lexed,
};

/// Writes a text without errors in its canonical form.
pub(super) fn write(source: &Source<'_>) -> String {
    let mut printer = Printer::new(source);
    if let Some(root) = Node::root(&source.tree) {
        printer.statements(root);
    }
    printer.comments_before(u32::MAX);
    printer.out
}

struct PlacedComment {
    row: u32,
    /// Its place among all tokens.
    raw: u32,
    /// The number of the significant token that follows it.
    before: u32,
}

struct Printer<'s> {
    lexed: &'s Lexed<'s>,
    /// The row on which each significant token starts in the source.
    rows: Vec<u32>,
    comments: Vec<PlacedComment>,
    /// The first comment that has not been written yet.
    next_comment: usize,
    /// The token that it stands before; none comes after it if there is no such comment.
    comment_before: u32,
    out: String,
    indent: usize,
    /// The row in the source of what was written last; none before anything was.
    last_row: Option<u32>,
}

impl<'s> Printer<'s> {
    fn new(source: &'s Source<'_>) -> Self {
        let lexed = &source.lexed;
        let mut rows = Vec::with_capacity(lexed.significant.len());
        let mut comments = Vec::new();
        let mut row = 0;
        for raw in 0..lexed.len() {
            match lexed.kind(raw) {
                Whitespace => {}
                Newline => row += 1,
                Comment => comments.push(PlacedComment { row, raw, before: rows.len() as u32 }),
                kind => {
                    rows.push(row);
                    if kind == Quoted {
                        row += newlines(lexed.text_of(raw));
                    }
                }
            }
        }
        Printer {
            lexed,
            rows,
            comment_before: comments.first().map_or(u32::MAX, |comment| comment.before),
            comments,
            next_comment: 0,
            out: String::with_capacity(lexed.text.len() + lexed.text.len() / 8),
            indent: 0,
            last_row: None,
        }
    }

    // Lines.

    /// Starts the line of a token: the comments before it, a blank line if there was one, the indent.
    fn start_line(&mut self, token: u32) {
        self.comments_before(token);
        self.blank_line_before(self.row(token));
        self.write_indent();
    }

    /// Ends the line whose last token this is: the comment behind it, and the newline. If there are comments on both
    /// sides of a comma, the second one gets a line of its own.
    fn end_line(&mut self, token: u32) {
        let row = self.end_row(token);
        let belongs = |comment: &&PlacedComment| comment.before <= token + 1 && comment.row <= row;
        let mut first = true;
        while let Some(comment) = self.comments.get(self.next_comment).filter(belongs) {
            let raw = comment.raw;
            if first {
                self.out.push(' ');
            } else {
                self.write_indent();
            }
            self.out.push_str(self.lexed.text_of(raw));
            self.out.push('\n');
            self.pass_comment();
            first = false;
        }
        if first {
            self.out.push('\n');
        }
        self.last_row = Some(row);
    }

    /// Writes the comments before a token on lines of their own.
    fn comments_before(&mut self, token: u32) {
        while let Some(comment) =
            self.comments.get(self.next_comment).filter(|comment| comment.before <= token)
        {
            let (row, raw) = (comment.row, comment.raw);
            self.blank_line_before(row);
            self.write_indent();
            self.out.push_str(self.lexed.text_of(raw));
            self.out.push('\n');
            self.pass_comment();
            self.last_row = Some(row);
        }
    }

    fn pass_comment(&mut self) {
        self.next_comment += 1;
        self.comment_before = self.comments.get(self.next_comment).map_or(u32::MAX, |comment| comment.before);
    }

    /// A comment stands between two tokens.
    fn has_comment(&self, open: u32, close: u32) -> bool {
        if self.comment_before > close {
            return false;
        }
        let mut waiting =
            self.comments[self.next_comment..].iter().skip_while(|comment| comment.before <= open);
        waiting.next().is_some_and(|comment| comment.before <= close)
    }

    fn blank_line_before(&mut self, row: u32) {
        if self.last_row.is_some_and(|last| row > last + 1) {
            self.out.push('\n');
        }
    }

    fn write_indent(&mut self) {
        const TABS: &str = "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t";
        let mut left = self.indent;
        while left > TABS.len() {
            self.out.push_str(TABS);
            left -= TABS.len();
        }
        self.out.push_str(&TABS[..left]);
    }

    fn row(&self, token: u32) -> u32 {
        self.rows[token as usize]
    }

    /// The row on which a token ends: a string may go over several.
    fn end_row(&self, token: u32) -> u32 {
        let significant = self.lexed.significant[token as usize];
        let inner =
            if significant.kind == Quoted { newlines(self.lexed.text_of(significant.raw)) } else { 0 };
        self.row(token) + inner
    }

    /// The author broke the line before a token.
    fn broken_before(&self, token: u32) -> bool {
        self.lexed.significant[token as usize].after_newline()
    }

    /// A comment in the middle of what is one line otherwise: it ends the line, and the rest stands further in.
    #[inline]
    fn interrupt_line(&mut self, token: u32) {
        if self.comment_before <= token {
            self.write_comments_in_line(token);
        }
    }

    #[cold]
    fn write_comments_in_line(&mut self, token: u32) {
        let mut interrupted = false;
        while let Some(comment) =
            self.comments.get(self.next_comment).filter(|comment| comment.before <= token)
        {
            let raw = comment.raw;
            if interrupted {
                self.write_indent();
                self.out.push('\t');
            } else {
                self.out.truncate(self.out.trim_end_matches(' ').len());
                self.out.push(' ');
            }
            self.out.push_str(self.lexed.text_of(raw));
            self.out.push('\n');
            self.pass_comment();
            interrupted = true;
        }
        if interrupted {
            self.write_indent();
            self.out.push('\t');
        }
    }

    fn write_token(&mut self, token: u32) {
        self.interrupt_line(token);
        self.out.push_str(self.lexed.text_of(self.lexed.significant[token as usize].raw));
    }

    // Statements.

    fn statements(&mut self, node: Node<'_>) {
        for statement in node.nodes() {
            self.start_line(statement.first());
            self.node(statement);
            self.end_line(statement.last());
        }
    }

    /// `{ statements }`
    fn block(&mut self, node: Node<'_>) {
        let (open, close) = (node.first(), node.last());
        self.interrupt_line(open);
        if node.nodes().next().is_none() && !self.has_comment(open, close) {
            self.out.push_str("{}");
            return;
        }
        self.out.push('{');
        self.open(open);
        self.statements(node);
        self.close(close);
    }

    /// Ends the line of an opening bracket; what follows is indented.
    fn open(&mut self, open: u32) {
        self.indent += 1;
        self.end_line(open);
    }

    /// Ends what was indented: the comments before the closing bracket, then the bracket on a line of its own.
    fn close(&mut self, close: u32) {
        self.comments_before(close);
        self.indent -= 1;
        self.start_line(close);
        self.write_token(close);
    }

    fn resource_body(&mut self, node: Node<'_>) {
        let (open, close) = (node.first(), node.last());
        self.interrupt_line(open);
        if node.nodes().next().is_none() && !self.has_comment(open, close) {
            self.out.push_str("{}");
            return;
        }
        self.out.push('{');
        self.open(open);
        for item in node.nodes() {
            self.start_line(item.first());
            self.inline(item);
            if item.token(Comma).is_none() {
                self.out.push(',');
            }
            self.end_line(item.last());
        }
        self.close(close);
    }

    // What stands in a line.

    fn node(&mut self, node: Node<'_>) {
        match node.kind {
            Block => self.block(node),
            ResourceBody => self.resource_body(node),
            List | Map | Struct | ArgList | ParamList => self.bracketed(node),
            Body => {
                let broken = self.body_is_broken(node);
                self.body(node, broken);
            }
            IfExpression => {
                let broken = self.has_comment_in_bodies(node) || self.is_broken_if(node);
                self.if_expression(node, broken);
            }
            Paren | Index | EdgeHalf => self.enclosing(node),
            Literal => self.literal(node),
            MapType => self.map_type(node),
            StructType | FunctionTypeArgs => self.separated(node),
            _ => self.inline(node),
        }
    }

    fn part(&mut self, part: Part<'_>) {
        match part {
            Part::Node(node) => self.node(node),
            Part::Token(token) => self.write_token(token.index),
        }
    }

    /// Parts with spaces between them where they belong, broken where the author broke at an operator.
    fn inline(&mut self, node: Node<'_>) {
        let indent = self.indent;
        let mut previous: Option<Part<'_>> = None;
        for part in node.parts() {
            if let Some(previous) = previous {
                if may_break(node.kind, previous.kind(), part.kind()) && self.broken_before(part.first()) {
                    self.indent = indent + 1;
                    self.end_line(previous.last());
                    self.continue_line(part.first());
                } else if has_space(node.kind, previous.kind(), part.kind()) {
                    self.out.push(' ');
                }
            }
            self.part(part);
            previous = Some(part);
        }
        self.indent = indent;
    }

    /// Starts a line inside of an expression: like any, but without blank lines.
    fn continue_line(&mut self, token: u32) {
        self.last_row = None;
        self.comments_before(token);
        self.write_indent();
    }

    /// Elements between brackets, on one line or one per line.
    fn bracketed(&mut self, node: Node<'_>) {
        let close = node.last();
        let mut parts = node.parts();
        let mut open = node.first();
        for part in parts.by_ref() {
            self.part(part);
            open = part.last();
            if part.kind().is_opener() {
                break;
            }
        }
        let empty = parts.clone().all(|part| part.kind().is_closer());
        let comment = self.has_comment(open, close) && (empty || node.kind != ArgList);
        if !comment && (empty || !self.is_broken_list(parts)) {
            self.one_line(parts);
            return;
        }
        self.open(open);
        let mut parts = parts.filter(|part| !part.kind().is_closer()).peekable();
        while let Some(element) = parts.next() {
            if element.kind() == Comma {
                continue;
            }
            self.start_line(element.first());
            self.part(element);
            self.out.push(',');
            let comma = parts.peek().filter(|next| next.kind() == Comma).map(|comma| comma.last());
            self.end_line(comma.unwrap_or(element.last()));
        }
        self.close(close);
    }

    /// The author broke the line between an element and its neighbours.
    fn is_broken_list<'t>(&self, mut parts: impl Iterator<Item = Part<'t>>) -> bool {
        parts.any(|part| self.broken_before(part.first()))
    }

    fn one_line<'t>(&mut self, parts: impl Iterator<Item = Part<'t>>) {
        let mut first = true;
        for part in parts {
            if matches!(part.kind(), Comma | Semicolon) {
                continue;
            }
            if !first && !part.kind().is_closer() {
                self.out.push_str(", ");
            }
            self.part(part);
            first = false;
        }
    }

    /// The value starts on another line than the brace, or a comment is inside.
    fn body_is_broken(&self, node: Node<'_>) -> bool {
        self.has_comment(node.first(), node.last()) || self.starts_on_new_line(node)
    }

    fn starts_on_new_line(&self, body: Node<'_>) -> bool {
        body.nodes().next().is_some_and(|value| self.broken_before(value.first()))
    }

    /// `{ expression }`
    fn body(&mut self, node: Node<'_>, broken: bool) {
        let Some(value) = node.nodes().next() else { return };
        self.interrupt_line(node.first());
        if !broken {
            self.out.push_str("{ ");
            self.node(value);
            self.out.push_str(" }");
            return;
        }
        self.out.push('{');
        self.open(node.first());
        self.start_line(value.first());
        self.node(value);
        self.end_line(value.last());
        self.close(node.last());
    }

    /// A comment is inside one of the bodies of a chain of branches. Those of the condition do not count.
    fn has_comment_in_bodies(&self, node: Node<'_>) -> bool {
        let body = node.nodes().find(|part| part.kind == Body);
        body.is_some_and(|body| self.has_comment(body.first(), node.last()))
    }

    fn is_broken_if(&self, node: Node<'_>) -> bool {
        let mut parts = node.nodes().filter(|part| matches!(part.kind, Body | IfExpression));
        let then = parts.find(|part| part.kind == Body).is_some_and(|body| self.starts_on_new_line(body));
        then || parts.any(|part| part.kind == IfExpression && self.is_broken_if(part))
    }

    /// `if c { a } else { b }`. All branches of a chain are laid out alike.
    fn if_expression(&mut self, node: Node<'_>, broken: bool) {
        let mut first = true;
        let mut after_else = false;
        for part in node.parts() {
            if !std::mem::take(&mut first) {
                self.out.push(' ');
            }
            match part {
                Part::Node(body) if body.kind == Body => self.body(body, broken),
                Part::Node(inner) if inner.kind == IfExpression && after_else => {
                    self.if_expression(inner, broken);
                }
                _ => self.part(part),
            }
            after_else |= part.kind() == ElseKw;
        }
    }

    /// A single expression in brackets, with something before or after them.
    fn enclosing(&mut self, node: Node<'_>) {
        let mut parts = node.parts().peekable();
        while let Some(part) = parts.next() {
            self.part(part);
            if !part.kind().is_opener() {
                continue;
            }
            let Some(value) = parts.next() else { return };
            let Some(close) = parts.next() else { return };
            if !self.broken_before(value.first()) && !self.broken_before(close.first()) {
                self.part(value);
                self.part(close);
                continue;
            }
            self.open(part.last());
            self.start_line(value.first());
            self.part(value);
            self.end_line(value.last());
            self.close(close.last());
        }
    }

    fn literal(&mut self, node: Node<'_>) {
        self.interrupt_line(node.first());
        let raw = self.lexed.significant[node.last() as usize].raw;
        let text = self.lexed.text_of(raw);
        let negative = node.first() != node.last();
        match self.lexed.kind(raw) {
            Integer => {
                let digits = text.trim_start_matches('0');
                if digits.is_empty() {
                    self.out.push('0');
                } else {
                    self.out.push_str(if negative { "-" } else { "" });
                    self.out.push_str(digits);
                }
            }
            Float => {
                self.out.push_str(if negative { "-" } else { "" });
                self.out.push_str(&canonical_float(text));
            }
            _ => self.write_token(node.last()),
        }
    }

    fn map_type(&mut self, node: Node<'_>) {
        self.interrupt_line(node.first());
        if node.token(MapKw).is_none() {
            self.out.push_str("map");
        }
        self.inline(node);
    }

    /// The parts of a type, separated on one line whatever the source looks like.
    fn separated(&mut self, node: Node<'_>) {
        let separator = if node.kind == StructType { "; " } else { ", " };
        let mut first = true;
        for part in node.parts() {
            match part {
                Part::Node(inner) => {
                    if !std::mem::take(&mut first) {
                        self.out.push_str(separator);
                    }
                    self.node(inner);
                }
                Part::Token(token) if matches!(token.kind, Comma | Semicolon) => {}
                Part::Token(token) => self.write_token(token.index),
            }
        }
    }
}

/// Two neighbours inside a node have a space between them.
fn has_space(parent: SyntaxKind, left: SyntaxKind, right: SyntaxKind) -> bool {
    match parent {
        VariableName | Variable | DottedName | ColonName | KindReference | ListType | Call | FieldAccess
        | Panic => false,
        FieldAccessOr => left == Otherwise || right == Otherwise,
        Function | Lambda | Class | Include | FunctionType => {
            !matches!(right, ParamList | ArgList | FunctionTypeArgs)
        }
        MapType => left == Colon,
        ResourceMeta => left != Colon && !matches!(right, Colon | Comma),
        _ => right != Comma,
    }
}

/// A line may be broken between two neighbours inside a node.
fn may_break(parent: SyntaxKind, left: SyntaxKind, right: SyntaxKind) -> bool {
    match parent {
        Binary | OtherwiseExpression | Edge => true,
        FieldAccess => right == Arrow,
        FieldAccessOr => right == Arrow || left == Otherwise || right == Otherwise,
        _ => false,
    }
}

/// The shortest spelling of the same number that has a dot and no exponent.
fn canonical_float(text: &str) -> std::borrow::Cow<'_, str> {
    let short =
        text.len() <= 15 && !text.ends_with('0') && (!text.starts_with('0') || text.starts_with("0."));
    match text.parse::<f64>() {
        // Up to fifteen digits nothing can be shorter than what the author wrote without superfluous zeros.
        _ if short => text.into(),
        Ok(value) => {
            let mut spelled = value.to_string();
            if !spelled.contains('.') {
                spelled.push_str(".0");
            }
            spelled.into()
        }
        Err(_) => text.into(),
    }
}

fn newlines(text: &str) -> u32 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u32
}
