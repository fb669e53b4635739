//! What can be wrong with a text, said so that its author can mend it.

use std::{borrow::Cow, fmt};
use text_size::TextRange;

/// One mistake in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    /// Where. Empty when something is missing: then it is the place where it belongs.
    pub range: TextRange,
    /// What is wrong, in one sentence without a final stop.
    pub message: Cow<'static, str>,
    /// What would have been right here, if that can be said in a word.
    pub expected: Option<&'static str>,
    /// What to do about it.
    pub hint: Option<Cow<'static, str>>,
    /// Another place that explains this one, such as the bracket that is not closed.
    pub label: Option<Label>,
    /// Which rule was broken.
    pub code: Code,
}

/// A second place that belongs to an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Where.
    pub range: TextRange,
    /// What is there.
    pub message: Cow<'static, str>,
}

impl SyntaxError {
    pub(crate) fn new(code: Code, range: TextRange, message: impl Into<Cow<'static, str>>) -> Self {
        SyntaxError { range, message: message.into(), expected: None, hint: None, label: None, code }
    }

    pub(crate) fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn expected(mut self, expected: &'static str) -> Self {
        self.expected = Some(expected);
        self
    }

    pub(crate) fn label(mut self, range: TextRange, message: impl Into<Cow<'static, str>>) -> Self {
        self.label = Some(Label { range, message: message.into() });
        self
    }

    /// The error for a text that is not UTF-8.
    pub(crate) fn not_utf8(error: std::str::Utf8Error, bytes: &[u8]) -> Self {
        let at = error.valid_up_to();
        let byte = bytes.get(at).copied().unwrap_or_default();
        // A text beyond 4 GiB has no exact place in our terms; the last one we can name is near enough.
        let start = u32::try_from(at).unwrap_or(u32::MAX - 1);
        let message = format!("the text is not UTF-8: byte 0x{byte:02x} at offset {at}");
        SyntaxError::new(Code::NotUtf8, TextRange::at(start.into(), 1.into()), message)
            .hint("save the file as UTF-8")
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(formatter, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SyntaxError {}

/// Declares the rules: variant, code, name.
macro_rules! codes {
    ($( #[doc = $doc:literal] $variant:ident $id:literal $name:literal, )*) => {
        /// The rule that was broken. Stable, so that tools can tell mistakes apart.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Code {
            $( #[doc = $doc] $variant, )*
        }

        impl Code {
            /// Every code, in the order of [`Code::id`].
            pub const ALL: &[Code] = &[$( Code::$variant, )*];

            /// The short name under which [`crate::CODES`] explains it.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self {
                    $( Code::$variant => $id, )*
                }
            }

            /// The name in words.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $( Code::$variant => $name, )*
                }
            }
        }
    };
}

codes! {
    /// The bytes are not UTF-8.
    NotUtf8 "M0001" "not-utf8",
    /// The text is too long to be addressed.
    TooLarge "M0002" "too-large",
    /// A character that starts no token.
    UnknownCharacter "M0003" "unknown-character",
    /// A carriage return that ends no line.
    CarriageReturn "M0004" "carriage-return",
    /// A word that is not spelled like a name.
    BadName "M0005" "bad-name",
    /// An integer that does not fit in 64 bits.
    IntegerOverflow "M0006" "integer-overflow",
    /// A float that is not finite in 64 bits.
    FloatOverflow "M0007" "float-overflow",
    /// Something else than what the grammar wants.
    Unexpected "M0010" "unexpected",
    /// No comma between two elements.
    MissingComma "M0011" "missing-comma",
    /// A comma without an element before it.
    ExtraComma "M0012" "extra-comma",
    /// A bracket that is never closed.
    UnclosedBracket "M0013" "unclosed-bracket",
    /// A closing bracket that closes nothing.
    StrayBracket "M0014" "stray-bracket",
    /// Two statements without a newline between them.
    MissingNewline "M0015" "missing-newline",
    /// `$x == 1` for `$x = 1`.
    BindEquals "M0016" "bind-equals",
    /// A reserved word where a name is wanted.
    ReservedWord "M0017" "reserved-word",
    /// A capital letter where there must be none, or none where there must be one.
    Capitalization "M0018" "capitalization",
    /// `$a < $b < $c`
    ChainedComparison "M0019" "chained-comparison",
    /// `f()()`
    CallOfResult "M0020" "call-of-result",
    /// `-$x`
    UnaryMinus "M0021" "unary-minus",
    /// `else` that does not follow its `}` on the same line.
    ElsePlacement "M0022" "else-placement",
    /// `{` that does not stand on the line of what it belongs to.
    BracePlacement "M0023" "brace-placement",
    /// An operator of another language.
    ForeignOperator "M0024" "foreign-operator",
    /// Too many constructs inside each other.
    TooDeep "M0025" "too-deep",
    /// A struct type with the same field twice, or a function type with the same argument twice.
    DuplicateInType "M0026" "duplicate-in-type",
    /// A capitalised word in a resource that is neither `Meta` nor an edge.
    UnknownResourceField "M0027" "unknown-resource-field",
    /// An edge that sends a value has exactly two halves with a field each.
    SendShape "M0028" "send-shape",
    /// The formatter would have changed the meaning. Always our mistake.
    FormatterBug "M0099" "formatter-bug",
    /// A string without its closing quote.
    UnterminatedString "M0100" "unterminated-string",
    /// Something directly behind a string of several lines: the string probably lacks its closing quote.
    RunawayString "M0101" "runaway-string",
    /// A backslash followed by something that is no escape.
    BadEscape "M0102" "bad-escape",
    /// `${` that is not followed by a name and `}`.
    BadInterpolation "M0103" "bad-interpolation",
}

impl Code {
    /// The mistake is inside a string. The tree is whole, and the formatter does not mind.
    #[must_use]
    pub fn is_in_string(self) -> bool {
        matches!(self, Code::BadEscape | Code::BadInterpolation)
    }
}

/// Collects errors, at most [`Diagnostics::LIMIT`] of them: nobody reads more, and a large file of garbage must not
/// cost a multiple of its size.
#[derive(Default)]
pub(crate) struct Diagnostics {
    pub(crate) list: Vec<SyntaxError>,
}

impl Diagnostics {
    pub(crate) const LIMIT: usize = 500;

    pub(crate) fn add(&mut self, error: impl FnOnce() -> SyntaxError) {
        if self.list.len() < Self::LIMIT {
            self.list.push(error());
        }
    }
}
