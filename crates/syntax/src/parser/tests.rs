//! The grammar, in small snippets.

mod errors;
mod expressions;
mod newlines;
mod statements;

use crate::tests::{dump, errors, leniencies};

/// The text has no errors and no leniencies, and this tree.
#[track_caller]
fn check(text: &str, tree: &str) {
    assert_eq!(errors(text), "", "errors in {text:?}");
    assert_eq!(leniencies(text), "", "leniencies in {text:?}");
    assert_eq!(dump(text), tree, "{text:?}");
}

/// The expression has no errors and this tree.
#[track_caller]
fn check_expression(text: &str, tree: &str) {
    check(&format!("$x = {text}\n"), &format!("(bind $x {tree})"));
}

/// The text has no errors and this tree, but is not canonical.
#[track_caller]
fn check_lenient(text: &str, tree: &str, expected: &str) {
    assert_eq!(errors(text), "", "errors in {text:?}");
    assert_eq!(leniencies(text), expected, "leniencies in {text:?}");
    assert_eq!(dump(text), tree, "{text:?}");
}

/// The text has these errors, and the tree is still whole.
#[track_caller]
fn check_errors(text: &str, expected: &str) {
    assert_eq!(errors(text), expected, "errors in {text:?}");
    assert_eq!(crate::parse(text).syntax().to_string(), text);
}
