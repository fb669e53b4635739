//! The tree as typed nodes.
//!
//! Each type is a view of a [`SyntaxNode`]: it costs nothing to make, and an accessor looks for the part it names among
//! the children. Because the parser never fails, any part may be missing, so most accessors return an `Option`; in a
//! tree without errors the parts that the grammar requires are there.
//!
//! # Where nodes start
//!
//! A node starts at its first token, and that is where other implementations of the language place an error about
//! the node, with these exceptions: a `collect` statement is placed at its resource
//! ([`Collect::resource`]), a loop variable at its own `$name` ([`VariableName`]), and a node that comes out of the inside
//! of a string at the whole string. Ends are exact here, while others may end at the first token of the last part.

mod expression;
mod name;
mod statement;
#[cfg(test)]
mod tests;
mod types;

pub use expression::*;
pub use name::*;
pub use statement::*;
pub use types::*;

use crate::{
    Parse,
    kind::SyntaxKind,
    node::{Children, SyntaxNode, SyntaxToken},
};
use std::marker::PhantomData;
use text_size::{TextRange, TextSize};

/// A view of nodes of one kind, or of several that mean the like.
pub trait AstNode: Sized {
    /// Whether a node of this kind can be seen so.
    fn can_cast(kind: SyntaxKind) -> bool;

    /// The node, seen so if it can be.
    fn cast(node: SyntaxNode) -> Option<Self>;

    /// The node itself.
    fn syntax(&self) -> &SyntaxNode;
}

/// The parts of a node that can be seen in one way, in order.
#[derive(Clone)]
pub struct AstChildren<N> {
    children: Children,
    seen_as: PhantomData<fn() -> N>,
}

impl<N: AstNode> Iterator for AstChildren<N> {
    type Item = N;

    fn next(&mut self) -> Option<N> {
        N::cast(self.children.next_that(N::can_cast)?)
    }
}

/// Declares typed nodes: name, kind.
macro_rules! nodes {
    ($( $(#[$attribute:meta])* $name:ident, )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct $name(SyntaxNode);

        impl AstNode for $name {
            fn can_cast(kind: SyntaxKind) -> bool {
                kind == SyntaxKind::$name
            }

            fn cast(node: SyntaxNode) -> Option<Self> {
                Self::can_cast(node.kind()).then_some(Self(node))
            }

            fn syntax(&self) -> &SyntaxNode {
                &self.0
            }
        }

        impl $name {
            /// Where it is.
            #[must_use]
            pub fn range(&self) -> TextRange {
                self.0.text_range()
            }
        }
    )*};
}

/// Declares an enum over typed nodes.
macro_rules! choice {
    ($(#[$attribute:meta])* $name:ident { $( $(#[$inner:meta])* $variant:ident, )* }) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $( $(#[$inner])* $variant($variant), )*
        }

        impl AstNode for $name {
            fn can_cast(kind: SyntaxKind) -> bool {
                matches!(kind, $( SyntaxKind::$variant )|*)
            }

            fn cast(node: SyntaxNode) -> Option<Self> {
                match node.kind() {
                    $( SyntaxKind::$variant => $variant::cast(node).map($name::$variant), )*
                    _ => None,
                }
            }

            fn syntax(&self) -> &SyntaxNode {
                match self {
                    $( $name::$variant(node) => node.syntax(), )*
                }
            }
        }

        impl $name {
            /// Where it is.
            #[must_use]
            pub fn range(&self) -> TextRange {
                self.syntax().text_range()
            }
        }
    };
}

pub(crate) use {choice, nodes};

nodes! {
    /// A whole file.
    SourceFile,
}

impl SourceFile {
    pub(crate) fn of(parse: &Parse) -> Self {
        SourceFile(parse.syntax())
    }

    /// The statements of the file, in order.
    pub fn statements(&self) -> AstChildren<Statement> {
        children(&self.0)
    }
}

/// The tokens of this very node, without those of its children.
fn tokens(node: &SyntaxNode, kind: SyntaxKind) -> impl Iterator<Item = SyntaxToken> + use<> {
    node.elements().filter_map(|element| element.into_token()).filter(move |token| token.kind() == kind)
}

fn token(node: &SyntaxNode, kind: SyntaxKind) -> Option<SyntaxToken> {
    node.token(kind)
}

fn children<N: AstNode>(node: &SyntaxNode) -> AstChildren<N> {
    AstChildren { children: node.children(), seen_as: PhantomData }
}

#[inline]
fn child<N: AstNode>(node: &SyntaxNode) -> Option<N> {
    N::cast(node.child_that(N::can_cast)?)
}

fn nth<N: AstNode>(node: &SyntaxNode, n: usize) -> Option<N> {
    children(node).nth(n)
}
