//! Makes sure that formatting changed nothing that matters.

use crate::{
    Source,
    kind::SyntaxKind::{self, *},
    tree::Item,
};

/// The formatted text parses to the same tree with the same comments.
pub(super) fn same_meaning(before: &Source<'_>, formatted: &str) -> bool {
    if *before.lexed.text == *formatted {
        return true;
    }
    let after = Source::new(formatted);
    super::is_well_formed(&after)
        && comments(before).eq(comments(&after))
        && Walk { before, after: &after }.is_same()
}

fn comments<'s>(source: &'s Source<'_>) -> impl Iterator<Item = &'s str> {
    let lexed = &source.lexed;
    (0..lexed.len()).filter(|raw| lexed.kind(*raw) == Comment).map(|raw| lexed.text_of(raw))
}

/// Walks two trees in step, without what may differ: separators, the spelling of numbers, the `map` of a map type.
struct Walk<'s> {
    before: &'s Source<'s>,
    after: &'s Source<'s>,
}

impl Walk<'_> {
    fn is_same(&self) -> bool {
        let (left, right) = (&self.before.tree.items, &self.after.tree.items);
        let (mut at, mut other) = (0, 0);
        // Where the nodes that are open end, on both sides.
        let mut ends: Vec<(u32, u32)> = Vec::new();
        loop {
            at = skip(left, at);
            other = skip(right, other);
            while let Some(&(end, other_end)) = ends.last() {
                let ended = at >= end as usize;
                if ended != (other >= other_end as usize) {
                    return false;
                }
                if !ended {
                    break;
                }
                ends.pop();
            }
            match (left.get(at), right.get(other)) {
                (None, None) => return true,
                (Some(&Item::Node { kind, end }), Some(&Item::Node { kind: other_kind, end: other_end }))
                    if kind == other_kind =>
                {
                    if kind == Literal
                        && let Some(value) = number(self.before, at, end)
                    {
                        if number(self.after, other, other_end) != Some(value) {
                            return false;
                        }
                        (at, other) = (end as usize, other_end as usize);
                        continue;
                    }
                    ends.push((end, other_end));
                }
                (
                    Some(&Item::Token { kind, index }),
                    Some(&Item::Token { kind: other_kind, index: other_index }),
                ) if kind == other_kind => {
                    if has_spellings(kind) && text(self.before, index) != text(self.after, other_index) {
                        return false;
                    }
                }
                _ => return false,
            }
            at += 1;
            other += 1;
        }
    }
}

/// The next item that matters.
fn skip(items: &[Item], mut at: usize) -> usize {
    while let Some(Item::Token { kind: Comma | Semicolon | MapKw, .. }) = items.get(at) {
        at += 1;
    }
    at
}

/// Texts of this kind differ. All other kinds have one spelling in a text without errors.
fn has_spellings(kind: SyntaxKind) -> bool {
    !(LeftBrace..=Slash).contains(&kind) && !kind.is_keyword()
}

fn text<'s>(source: &'s Source<'_>, index: u32) -> &'s str {
    source.lexed.text_of(source.lexed.significant[index as usize].raw)
}

#[derive(PartialEq)]
enum Number {
    Integer(i64),
    Float(f64),
}

/// The value of a literal that is a number. One without a value is compared by its text.
fn number(source: &Source<'_>, at: usize, end: u32) -> Option<Number> {
    let tokens = source.tree.items.get(at + 1..end as usize)?;
    let (Item::Token { index: first, .. }, Item::Token { index: last, kind }) =
        (tokens.first()?, tokens.last()?)
    else {
        return None;
    };
    let negative = first != last;
    let digits = text(source, *last);
    match kind {
        // Parsed with the sign, since the least integer has no positive counterpart.
        Integer if negative => format!("-{digits}").parse().ok().map(Number::Integer),
        Integer => digits.parse().ok().map(Number::Integer),
        Float => {
            let value: f64 = digits.parse().ok()?;
            Some(Number::Float(if negative { -value } else { value }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::same_meaning;
    use crate::Source;

    #[track_caller]
    fn check(before: &str, after: &str, same: bool) {
        assert_eq!(same_meaning(&Source::new(before), after), same, "{before:?} {after:?}");
    }

    #[test]
    fn layout_separators_and_spellings_of_numbers_do_not_matter() {
        check("$x=[1,2,]", "$x = [\n\t1,\n\t2,\n]\n", true);
        check("test \"a\" {a=>1}", "test \"a\" {\n\ta => 1,\n}\n", true);
        check("$x {str: int} = {}\n", "$x map{str: int} = {}\n", true);
        check("$x = 007\n$y = -1.50\n", "$x = 7\n$y = -1.5\n", true);
        check("$x = 1 # a\n", "# a\n$x = 1\n", true);
    }

    #[test]
    fn everything_else_does() {
        for (before, after) in [
            ("$x = 1\n", "$x = 2\n"),
            ("$x = 1\n", "$x = -1\n"),
            ("$x = 1\n", "$x = 1.0\n"),
            ("$x = 1.5\n", "$x = -1.5\n"),
            ("$x = 1\n", "$y = 1\n"),
            ("$x = 1\n", "$x = 1\n$y = 1\n"),
            ("$x = 1\n$y = 1\n", "$x = 1\n"),
            ("$x = \"a\"\n", "$x = \"a \"\n"),
            ("$x = 1 + 2 * 3\n", "$x = (1 + 2) * 3\n"),
            ("$x = [[1], 2]\n", "$x = [[1, 2]]\n"),
            ("$x = [[1, 2]]\n", "$x = [[1], 2]\n"),
            ("$x = [[], 1]\n", "$x = [[1]]\n"),
            ("$x = $a and $b\n", "$x = $a or $b\n"),
            ("$x = f(1)\n", "$x = g(1)\n"),
            ("$x = 1 # a\n", "$x = 1\n"),
            ("$x = 1 # a\n", "$x = 1 # b\n"),
            ("$x = 1\n", "$x = (\n"),
            ("$x = 1 - 2\n", "$x = 1\n-2\n"),
            ("if $a {\n\t$b = 1\n}\n$c = 1\n", "if $a {\n\t$b = 1\n\t$c = 1\n}\n"),
        ] {
            check(before, after, false);
        }
    }
}
