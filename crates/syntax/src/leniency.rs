//! Forms that are accepted although the canonical language does not have them.

use text_size::TextRange;

/// Something that was accepted although it is not canonical.
///
/// The range is where a strict reader would stop, so a strict check can report it as an error as it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Leniency {
    /// The offending token, or an empty range where something is missing.
    pub range: TextRange,
    /// Which form.
    pub kind: LeniencyKind,
}

/// The forms that are accepted but not canonical.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LeniencyKind {
    /// A comma before the closing bracket of a list written on one line.
    TrailingComma,
    /// No comma after the last element of a list written over several lines, or after the last item of a resource.
    MissingTrailingComma,
    /// A list over several lines that does not have one element per line.
    ElementsPerLine,
    /// A newline inside brackets at a place where the canonical form has none.
    NewlineInBrackets,
    /// A newline before or after an operator.
    NewlineAtOperator,
    /// A block with statements on one line.
    OneLineBlock,
    /// The last line of the file has no newline.
    MissingFinalNewline,
    /// `else if`
    ElseIf,
    /// `in` as the name of a variable.
    InAsName,
    /// `{str: int}` for `map{str: int}`.
    BareMapType,
    /// `$a -1` or `$a-1` for `$a - 1`.
    GluedMinus,
    /// A line that ends with a carriage return and a line feed. Recorded once per file.
    CarriageReturn,
    /// A byte order mark at the start of the file.
    ByteOrderMark,
}

impl LeniencyKind {
    /// What to tell the user who wants the canonical form.
    #[must_use]
    pub fn message(self) -> &'static str {
        use LeniencyKind::*;
        match self {
            TrailingComma => "a list on one line has no comma after its last element",
            MissingTrailingComma => "a list over several lines has a comma after its last element",
            ElementsPerLine => "a list over several lines has one element per line",
            NewlineInBrackets => "the canonical form has no newline here",
            NewlineAtOperator => "an operator and its operands stand on one line",
            OneLineBlock => "a block with statements has one statement per line",
            MissingFinalNewline => "the last line has no newline",
            ElseIf => "`else if` is short for an `if` inside the `else` block",
            InAsName => "`in` is a reserved word",
            BareMapType => "a map type is written `map{key: value}`",
            GluedMinus => "a subtraction has spaces around its minus",
            CarriageReturn => "lines end with a line feed alone",
            ByteOrderMark => "the file starts with a byte order mark",
        }
    }
}

/// Collects leniencies, at most [`Leniencies::LIMIT`] of them.
#[derive(Default)]
pub(crate) struct Leniencies {
    pub(crate) list: Vec<Leniency>,
}

impl Leniencies {
    const LIMIT: usize = 1000;

    pub(crate) fn add(&mut self, range: TextRange, kind: LeniencyKind) {
        if self.list.len() < Self::LIMIT {
            self.list.push(Leniency { range, kind });
        }
    }
}
