//! The environment of a command.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mgmt_value::{Mismatch, Native, Str, Type, Value, Wipe};

/// Variables of a command, which are kept as a [`Secret`](mgmt_value::Secret).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<Str, Str>);

/// Variables whose values everybody knows. To hide them would make the output of commands hard to read, and nothing safer.
const PLAIN: &[&[u8]] = &[
    b"DEBIAN_FRONTEND",
    b"HOME",
    b"LANG",
    b"LANGUAGE",
    b"LOGNAME",
    b"PATH",
    b"PWD",
    b"SHELL",
    b"TERM",
    b"TMPDIR",
    b"TZ",
    b"USER",
];

/// What is shorter is in many words, and guessed in no time.
const SHORTEST: usize = 4;

impl Environment {
    /// A line that a command has written, without the values of its variables.
    pub(super) fn hidden<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        let is_plain = |name: &[u8]| PLAIN.contains(&name) || name.starts_with(b"LC_");
        let values = self.0.iter().filter(|(name, _)| !is_plain(name)).map(|(_, value)| value);
        // A line has at most a line of a value.
        let mut pieces: Vec<&[u8]> = values.flat_map(|value| value.split(|byte| *byte == b'\n')).collect();
        pieces.retain(|piece| piece.len() >= SHORTEST);
        // Of two of which one is a part of the other, the longer one first, or its rest would be left.
        pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
        let starts = |at: usize| pieces.iter().find(|piece| line[at..].starts_with(piece));
        let Some(first) = (0..line.len()).find(|at| starts(*at).is_some()) else {
            return Cow::Borrowed(line);
        };
        let mut shown = line[..first].to_vec();
        let mut at = first;
        // What has been written is not looked at again, whatever the values are.
        while let Some(byte) = line.get(at) {
            match starts(at) {
                Some(piece) => {
                    shown.extend_from_slice(b"(secret)");
                    at += piece.len();
                }
                None => {
                    shown.push(*byte);
                    at += 1;
                }
            }
        }
        Cow::Owned(shown)
    }
}

impl Wipe for Environment {
    fn wipe(&mut self) {
        self.0.wipe();
    }
}

impl<K: Into<Str>, V: Into<Str>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Environment {
        Environment(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Native for Environment {
    fn ty() -> Type {
        BTreeMap::<Str, Str>::ty()
    }

    fn from_value(value: &Value) -> Result<Environment, Mismatch> {
        Native::from_value(value).map(Environment)
    }

    fn to_value(&self) -> Value {
        self.0.to_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_out_of_what_a_command_writes() {
        let environment: Environment = [
            ("TOKEN", "hunter2"),
            ("LONGER", "hunter2hunter3"),
            ("KEY", "-----BEGIN-----\nabcdef\n"),
            ("SHORT", "abc"),
            ("PATH", "/usr/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("ODD", "secret"),
        ]
        .into_iter()
        .collect();
        for (line, expected) in [
            ("nothing of it", "nothing of it"),
            ("a hunter2 and hunter2.", "a (secret) and (secret)."),
            ("hunter2hunter3", "(secret)"),
            ("abcdef", "(secret)"),
            ("abc /usr/bin C.UTF-8", "abc /usr/bin C.UTF-8"),
            ("the secret, a secret", "the (secret), a (secret)"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8_lossy(&environment.hidden(line.as_bytes())), expected, "{line}");
        }
    }
}
