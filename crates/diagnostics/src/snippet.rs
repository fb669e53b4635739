//! Excerpts: the lines of a text around the labels.
//!
//! `annotate-snippets` reads every text that it is given from its first line, so it is given no more than the lines around the
//! labels. The cost of a diagnostic then does not depend on the length of its file.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Element, Level, Origin, Snippet};

use crate::diagnostic::Label;
use crate::escape::{acts, escape};
use crate::render::clamp;
use crate::source::Source;

/// Labels further apart than this, in lines or in bytes, are shown in excerpts of their own.
const MAX_GAP_LINES: usize = 50;
const MAX_GAP_BYTES: usize = 8 << 10;
/// Of a span over more lines than this, only the first line is shown.
const MAX_SPAN_LINES: usize = 50;
/// The length of a line, in bytes, that is shown before and behind a label.
const MAX_LINE_CONTEXT: usize = 4 << 10;

/// The excerpts of a text, the one with the primary span first.
pub(crate) fn elements<'a>(source: &'a Source, labels: &[&'a Label]) -> Vec<Element<'a>> {
    let labels: Vec<&Label> = labels.iter().copied().filter(|label| !label.span.is_whole()).collect();
    if labels.is_empty() {
        return vec![Origin::path(escape(&source.name)).into()];
    }
    excerpts(source, &labels).into_iter().flat_map(|excerpt| excerpt.elements(source)).collect()
}

/// Labels that are near each other, and the lines around them.
struct Excerpt<'a> {
    /// With their ranges in the text.
    labels: Vec<(Range<usize>, &'a Label)>,
    /// From 0, both included.
    first_line: usize,
    last_line: usize,
    /// Where the last label ends.
    end: usize,
}

/// Groups labels that are near each other.
fn excerpts<'a>(source: &Source, labels: &[&'a Label]) -> Vec<Excerpt<'a>> {
    let mut placed: Vec<_> =
        labels.iter().map(|label| (shortened(label.span.range(), source), *label)).collect();
    // Stable, so that of two labels at one place the one that was given first is shown first.
    placed.sort_by_key(|(span, _)| span.start);
    let mut excerpts: Vec<Excerpt<'a>> = Vec::new();
    for (span, label) in placed {
        let (first_line, last_line) = (first_line(&span, source), source.line(span.end));
        let end = span.end;
        match excerpts.last_mut() {
            Some(excerpt)
                if first_line <= excerpt.last_line + MAX_GAP_LINES
                    && span.start <= excerpt.end + MAX_GAP_BYTES =>
            {
                excerpt.labels.push((span, label));
                excerpt.last_line = excerpt.last_line.max(last_line);
                excerpt.end = excerpt.end.max(end);
            }
            _ => excerpts.push(Excerpt { labels: vec![(span, label)], first_line, last_line, end }),
        }
    }
    excerpts.sort_by_key(|excerpt| !excerpt.labels.iter().any(|(_, label)| label.primary));
    excerpts
}

impl<'a> Excerpt<'a> {
    fn elements(self, source: &'a Source) -> Vec<Element<'a>> {
        let start = source.line_start(self.first_line);
        let column = |at| at - source.line_start(source.line(at));
        if self.labels.iter().any(|(span, _)| column(span.start) > MAX_LINE_CONTEXT) {
            return self.without_text(source);
        }
        let end = source
            .line_start(self.last_line + 1)
            .min(source.text.floor_char_boundary(self.end + MAX_LINE_CONTEXT));
        let annotations = self.labels.into_iter().map(|(span, label)| {
            let kind = if label.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            let annotation: Annotation<'a> = kind.span(span.start - start..span.end - start);
            if label.message.is_empty() { annotation } else { annotation.label(escape(&label.message)) }
        });
        let snippet = Snippet::source(tame(&source.text[start..end]))
            .line_start(self.first_line + 1)
            .path(escape(&source.name))
            .annotations(annotations);
        vec![snippet.into()]
    }

    /// For lines that are too long to be shown in a sensible way.
    fn without_text(self, source: &'a Source) -> Vec<Element<'a>> {
        let mut elements: Vec<Element<'a>> = Vec::new();
        for (span, label) in self.labels {
            let (line, column) = source.position(span.start);
            elements.push(Origin::path(escape(&source.name)).line(line).char_column(column).into());
            if !label.message.is_empty() {
                elements.push(Level::NOTE.message(escape(&label.message)).into());
            }
        }
        elements.push(Level::NOTE.message("the line is too long to be shown").into());
        elements
    }
}

/// A span that can be shown: within the text, and no longer than a page.
fn shortened(span: Range<usize>, source: &Source) -> Range<usize> {
    let Range { start, end } = clamp(span, source);
    let line = source.line(start);
    let short = if source.line(end) > line + MAX_SPAN_LINES {
        // Up to the break, not with it: a span that ends there belongs to one line.
        end.min(source.line_start(line + 1) - 1).max(start)
    } else {
        end
    };
    let is_long = short - start > MAX_GAP_BYTES;
    start..if is_long { source.text.floor_char_boundary(start + MAX_GAP_BYTES).max(start) } else { short }
}

/// The first line to show. The end of a text that ends with a break is shown behind its last line.
fn first_line(span: &Range<usize>, source: &Source) -> usize {
    let line = source.line(span.start);
    if source.line_start(line) == source.text.len() { line.saturating_sub(1) } else { line }
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
