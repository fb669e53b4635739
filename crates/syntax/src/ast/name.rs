//! Names of all shapes.

use super::*;
use std::{borrow::Borrow, fmt, hash, ops::Deref};

nodes! {
    /// `$x` where it is defined: by a bind, a loop or a parameter.
    VariableName,
    /// `a.b.c`, the name of a function or a class.
    DottedName,
    /// `a:b:c`, a resource kind or the name of a class that is being defined.
    ColonName,
    /// `A:B`, a resource kind where a resource is referred to.
    KindReference,
}

/// A name, to be read as a `str`. Two are equal if they are spelled alike, wherever they stand.
///
/// It borrows from the tree, so that a name of one part, as nearly all are, costs no copy of its text.
#[derive(Clone)]
pub struct Name {
    spelling: Spelling,
    range: TextRange,
}

#[derive(Clone)]
enum Spelling {
    Token(SyntaxToken),
    /// What stands between the quotes of the token.
    Quoted(SyntaxToken),
    Joined(Box<str>),
}

impl Name {
    /// Where it is.
    #[must_use]
    pub fn range(&self) -> TextRange {
        self.range
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.spelling {
            Spelling::Token(token) => token.text(),
            Spelling::Quoted(token) => {
                let text = token.text();
                text.get(1..text.len().saturating_sub(1)).unwrap_or_default()
            }
            Spelling::Joined(text) => text,
        }
    }

    pub(super) fn of_token(token: SyntaxToken) -> Self {
        Name { range: token.text_range(), spelling: Spelling::Token(token) }
    }

    /// A string token that ends with its quote.
    pub(super) fn in_quotes(token: SyntaxToken) -> Self {
        let whole = token.text_range();
        let one = TextSize::new(1);
        let range = match whole.len() > one {
            true => TextRange::new(whole.start() + one, whole.end() - one),
            false => whole,
        };
        Name { range, spelling: Spelling::Quoted(token) }
    }

    /// The parts of a node with a separator between them, without the spaces that may stand there.
    pub(super) fn of_parts(
        node: &SyntaxNode,
        mut parts: impl Iterator<Item = SyntaxToken>,
        separator: char,
    ) -> Self {
        let (first, second) = (parts.next(), parts.next());
        let joined = match (first, second) {
            (Some(only), None) => return Name::of_token(only),
            (None, _) => String::new(),
            (Some(first), Some(second)) => {
                let mut joined = first.text().to_owned();
                for part in std::iter::once(second).chain(parts) {
                    joined.push(separator);
                    joined.push_str(part.text());
                }
                joined
            }
        };
        Name { range: node.text_range(), spelling: Spelling::Joined(joined.into()) }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        **self == **other
    }
}

impl Eq for Name {}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl hash::Hash for Name {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.as_str().to_owned()
    }
}

impl VariableName {
    /// The token after the dollar.
    #[must_use]
    pub fn name_token(&self) -> Option<SyntaxToken> {
        token(&self.0, SyntaxKind::Identifier)
    }

    /// The name without its dollar.
    #[must_use]
    pub fn name(&self) -> Option<Name> {
        self.name_token().map(Name::of_token)
    }
}

impl DottedName {
    /// The parts between the dots.
    pub fn parts(&self) -> impl Iterator<Item = SyntaxToken> {
        tokens(&self.0, SyntaxKind::Identifier)
    }

    /// The parts joined by dots.
    #[must_use]
    pub fn name(&self) -> Name {
        Name::of_parts(&self.0, self.parts(), '.')
    }
}

impl ColonName {
    /// The parts between the colons.
    pub fn parts(&self) -> impl Iterator<Item = SyntaxToken> {
        tokens(&self.0, SyntaxKind::Identifier)
    }

    /// The parts joined by colons.
    #[must_use]
    pub fn name(&self) -> Name {
        Name::of_parts(&self.0, self.parts(), ':')
    }
}

impl KindReference {
    /// The parts between the colons.
    pub fn parts(&self) -> impl Iterator<Item = SyntaxToken> {
        tokens(&self.0, SyntaxKind::Capitalized)
    }

    /// The kind that is meant: the parts in lower case, joined by colons.
    #[must_use]
    pub fn kind(&self) -> String {
        Name::of_parts(&self.0, self.parts(), ':').to_ascii_lowercase()
    }
}
