//! A second opinion on precedence: splits at the loosest operator instead of climbing from the tightest.

use crate::{Code, parse, tests::dump};
use proptest::prelude::*;

/// A value with what directly clings to it.
#[derive(Clone, Debug)]
struct Operand {
    nots: usize,
    text: String,
    /// Each is written behind it: an index or a field.
    postfixes: Vec<&'static str>,
}

impl Operand {
    fn flat(&self) -> String {
        format!("{}{}{}", "not ".repeat(self.nots), self.text, self.postfixes.concat())
    }

    /// With all parentheses.
    fn grouped(&self) -> String {
        let mut text = self.text.clone();
        for postfix in &self.postfixes {
            text = format!("({text}{postfix})");
        }
        (0..self.nots).fold(text, |text, _| format!("(not {text})"))
    }

    fn ends_with_field(&self) -> bool {
        self.postfixes.last().is_some_and(|postfix| postfix.starts_with("->"))
    }
}

const LEVELS: [&[&str]; 6] =
    [&["<|>"], &["or"], &["and"], &["<", ">", "<=", ">=", "==", "!=", "in"], &["+", "-"], &["*", "/"]];
const COMPARISONS: usize = 3;

/// Groups operands and the operators between them. None if comparisons chain.
fn group(mut operands: Vec<Operand>, mut operators: Vec<&'static str>) -> Option<String> {
    // A field followed by `<|>` takes all up to the next `<|>` as its default, and is one operand from then on. The
    // last such field comes first, because the default of one before it may contain it.
    while let Some(at) =
        (0..operators.len()).rev().find(|&at| operators[at] == "<|>" && operands[at].ends_with_field())
    {
        let end = (at + 1..operators.len()).find(|&end| operators[end] == "<|>").unwrap_or(operators.len());
        let default = group(operands[at + 1..=end].to_vec(), operators[at + 1..end].to_vec())?;
        let mut holder = Operand { nots: 0, ..operands[at].clone() };
        let field = holder.postfixes.pop()?;
        let text = format!("({}{field} <|> {default})", holder.grouped());
        operands[at] = Operand { nots: operands[at].nots, text, postfixes: vec![] };
        operands.drain(at + 1..=end);
        operators.drain(at..end);
    }
    split(&operands, &operators)
}

fn split(operands: &[Operand], operators: &[&str]) -> Option<String> {
    if operators.is_empty() {
        return Some(operands[0].grouped());
    }
    for (level, symbols) in LEVELS.iter().enumerate() {
        let mut here = (0..operators.len()).filter(|&at| symbols.contains(&operators[at]));
        let Some(last) = here.next_back() else { continue };
        if level == COMPARISONS && here.next().is_some() {
            return None;
        }
        let left = split(&operands[..=last], &operators[..last])?;
        let right = split(&operands[last + 1..], &operators[last + 1..])?;
        return Some(format!("({left} {} {right})", operators[last]));
    }
    None
}

fn operand() -> impl Strategy<Value = Operand> {
    let text = prop_oneof![
        Just("$a"),
        Just("1"),
        Just("-2"),
        Just("f()"),
        Just("[3]"),
        Just("if $c { 1 } else { 2 }")
    ];
    let postfix = prop_oneof![Just("->f"), Just("[0]")];
    (0..3_usize, text, prop::collection::vec(postfix, 0..3)).prop_map(|(nots, text, postfixes)| Operand {
        nots: nots.saturating_sub(1),
        text: text.to_owned(),
        postfixes,
    })
}

/// The tree without its parentheses.
fn without_parentheses(text: &str) -> String {
    let mut tree = dump(&format!("$x = {text}\n"));
    while let Some(start) = tree.find("(paren ") {
        let mut depth = 0_usize;
        let inner = &tree[start..];
        let end = inner
            .char_indices()
            .find(|(_, character)| {
                match character {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => {}
                }
                depth == 0
            })
            .map(|(end, _)| start + end)
            .unwrap();
        tree = format!("{}{}{}", &tree[..start], &tree[start + "(paren ".len()..end], &tree[end + 1..]);
    }
    tree
}

proptest! {
    #[test]
    fn operators_group_as_if_parentheses_were_written(
        operands in prop::collection::vec(operand(), 8),
        operators in prop::collection::vec(prop::sample::select(LEVELS.concat()), 0..7),
    ) {
        let operands = &operands[..=operators.len()];
        let mut flat = operands[0].flat();
        for (operator, operand) in operators.iter().zip(&operands[1..]) {
            flat.push_str(&format!(" {operator} {}", operand.flat()));
        }
        let parsed = parse(&format!("$x = {flat}\n"));
        match group(operands.to_vec(), operators) {
            Some(grouped) => {
                prop_assert_eq!(parsed.errors(), &[], "{}", flat);
                prop_assert_eq!(without_parentheses(&flat), without_parentheses(&grouped), "{} / {}", flat, grouped);
            }
            None => {
                prop_assert!(!parsed.errors().is_empty(), "{}", flat);
                prop_assert!(parsed.errors().iter().all(|error| error.code == Code::ChainedComparison), "{}", flat);
            }
        }
    }
}
