//! Names of all shapes.

use super::*;

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

impl VariableName {
    /// The token after the dollar.
    #[must_use]
    pub fn name_token(&self) -> Option<SyntaxToken> {
        token(&self.0, SyntaxKind::Identifier)
    }

    /// The name without its dollar.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.name_token().map(|token| token.text().to_owned())
    }
}

impl DottedName {
    /// The parts between the dots.
    pub fn parts(&self) -> impl Iterator<Item = SyntaxToken> {
        tokens(&self.0, SyntaxKind::Identifier)
    }

    /// The parts joined by dots, without the spaces that may stand between them.
    #[must_use]
    pub fn name(&self) -> String {
        join(self.parts(), '.')
    }
}

impl ColonName {
    /// The parts between the colons.
    pub fn parts(&self) -> impl Iterator<Item = SyntaxToken> {
        tokens(&self.0, SyntaxKind::Identifier)
    }

    /// The parts joined by colons.
    #[must_use]
    pub fn name(&self) -> String {
        join(self.parts(), ':')
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
        join(self.parts(), ':').to_ascii_lowercase()
    }
}

pub(super) fn join(parts: impl Iterator<Item = SyntaxToken>, separator: char) -> String {
    let mut name = String::new();
    for part in parts {
        if !name.is_empty() {
            name.push(separator);
        }
        name.push_str(part.text());
    }
    name
}
