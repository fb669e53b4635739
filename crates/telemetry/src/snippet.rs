//! The part of a text that people are shown.
//!
//! The renderer reads every text that it is given from its first line, so it is given no more than the lines around the
//! labels. What a diagnostic costs does then not depend on how long its file is.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Element, Level, Origin, Snippet};

use crate::diagnostic::{Label, Source, within};
use crate::escape;
use crate::escape::acts;
use crate::lines::Indexed;

/// Labels further apart than this, in lines or in bytes, are shown in pieces.
const GAP_LINES: usize = 50;
const GAP: usize = 8 << 10;
/// Of a place that is longer than this, in lines, only the first line is shown.
const TALL: usize = 50;
/// How much of a line is looked at before and behind a label.
const WIDE: usize = 4 << 10;

/// What to show of a file: pieces of its text, the one with the main place first.
pub(crate) fn elements<'a>(
    source: &Source<'a>,
    lines: &Indexed<'a>,
    labels: &[&'a Label<'_>],
) -> Vec<Element<'a>> {
    if labels.is_empty() {
        return vec![Origin::path(escape(source.name)).into()];
    }
    pieces(lines, labels).into_iter().flat_map(|piece| piece.elements(source, lines)).collect()
}

/// Labels that are near each other.
struct Piece<'a, 'l> {
    /// In bytes of the text.
    labels: Vec<(Range<usize>, &'a Label<'l>)>,
    /// From 0, both included.
    first_line: usize,
    last_line: usize,
    /// Where the last label ends.
    end: usize,
}

/// Puts labels together that are near each other.
fn pieces<'a, 'l>(lines: &Indexed<'_>, labels: &[&'a Label<'l>]) -> Vec<Piece<'a, 'l>> {
    let mut placed: Vec<_> = labels.iter().map(|label| (shortened(&label.span, lines), *label)).collect();
    // Stable, so that of two labels at one place the one that was given first is shown first.
    placed.sort_by_key(|(span, _)| span.start);
    let mut pieces: Vec<Piece<'a, 'l>> = Vec::new();
    for (span, label) in placed {
        let (first_line, last_line) = (first_line(&span, lines), lines.line(span.end));
        let end = span.end;
        match pieces.last_mut() {
            Some(piece) if first_line <= piece.last_line + GAP_LINES && span.start <= piece.end + GAP => {
                piece.labels.push((span, label));
                piece.last_line = piece.last_line.max(last_line);
                piece.end = piece.end.max(end);
            }
            _ => pieces.push(Piece { labels: vec![(span, label)], first_line, last_line, end }),
        }
    }
    pieces.sort_by_key(|piece| !piece.labels.iter().any(|(_, label)| label.primary));
    pieces
}

impl<'a> Piece<'a, '_> {
    fn elements(self, source: &Source<'a>, lines: &Indexed<'a>) -> Vec<Element<'a>> {
        let start = lines.start(self.first_line);
        if self.labels.iter().any(|(span, _)| span.start - lines.start(lines.line(span.start)) > WIDE) {
            return self.without_text(source, lines);
        }
        let end = lines.start(self.last_line + 1).min(floor_boundary(lines.text, self.end + WIDE));
        let annotations = self.labels.into_iter().map(|(span, label)| {
            let kind = if label.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            let annotation: Annotation<'a> = kind.span(span.start - start..span.end - start);
            if label.message.is_empty() { annotation } else { annotation.label(escape(&label.message)) }
        });
        let snippet = Snippet::source(tame(&lines.text[start..end]))
            .line_start(self.first_line + 1)
            .path(escape(source.name))
            .annotations(annotations);
        vec![snippet.into()]
    }

    /// For lines that are too long to be shown in a sensible way.
    fn without_text(self, source: &Source<'a>, lines: &Indexed<'a>) -> Vec<Element<'a>> {
        let mut elements: Vec<Element<'a>> = Vec::new();
        for (span, label) in self.labels {
            let (line, column) = lines.position(span.start);
            elements.push(Origin::path(escape(source.name)).line(line).char_column(column).into());
            if !label.message.is_empty() {
                elements.push(Level::NOTE.message(escape(&label.message)).into());
            }
        }
        elements.push(Level::NOTE.message("the line is too long to be shown").into());
        elements
    }
}

/// A place that can be shown: within the text, and no longer than a page.
fn shortened(span: &Range<usize>, lines: &Indexed<'_>) -> Range<usize> {
    let Range { start, end } = within(span, lines.text);
    let line = lines.line(start);
    let short = if lines.line(end) > line + TALL {
        // Up to the break, not with it: a place that ends there belongs to one line.
        end.min(lines.start(line + 1) - 1).max(start)
    } else {
        end
    };
    start..if short - start > GAP { floor_boundary(lines.text, start + GAP).max(start) } else { short }
}

/// The line at which to begin. The end of a text that ends with a break is shown behind its last line.
fn first_line(span: &Range<usize>, lines: &Indexed<'_>) -> usize {
    let line = lines.line(span.start);
    if lines.start(line) == lines.text.len() { line.saturating_sub(1) } else { line }
}

pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The text with dangerous characters replaced by harmless ones that take as many bytes, so that spans still fit.
/// The renderer shows the first 32 controls as pictures; those stay.
fn tame(text: &str) -> Cow<'_, str> {
    let dangerous = |character: char| character as u32 >= 0x7f && acts(character);
    if !text.chars().any(dangerous) {
        return Cow::Borrowed(text);
    }
    let tamed = text.chars().map(|character| match character.len_utf8() {
        _ if !dangerous(character) => character,
        1 => '?',
        2 => '\u{a4}',
        3 => char::REPLACEMENT_CHARACTER,
        _ => '\u{1fbc5}',
    });
    Cow::Owned(tamed.collect())
}
