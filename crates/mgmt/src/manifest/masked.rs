//! Secrets that are written in a manifest: they are not shown when a diagnostic quotes the manifest. One that says what becomes of a resource
//! quotes no text at all, as anything may be a secret in a command or a content.

use std::borrow::Cow;

/// Parameters and variables whose name has one of these in it have a secret for a value.
const SECRET_NAMES: [&str; 9] =
    ["password", "passwd", "passphrase", "secret", "token", "private_key", "api_key", "apikey", "credential"];

/// Words that have one of these in them by chance.
const OTHER_WORDS: [&str; 2] = ["secretar", "tokeniz"];

/// Values that say nothing that anybody would hide.
const ORDINARY_WORDS: [&str; 16] = [
    "absent",
    "default",
    "directory",
    "false",
    "file",
    "installed",
    "latest",
    "link",
    "mounted",
    "present",
    "purged",
    "running",
    "stopped",
    "true",
    "undef",
    "unmounted",
];

/// Shorter secrets are not looked for in messages: they would be found in every other word.
const MIN_SECRET_LEN: usize = 4;

/// The same text with as many stars in the place of secrets as they have bytes, and the secrets.
pub(super) fn mask(text: &str) -> (String, Vec<String>) {
    let secrets = || literals(text).into_iter().filter(|literal| literal.is_secret);
    let words = secrets().filter_map(|Literal { start, end, .. }| text.get(start..end));
    // A text of several lines is told with other blanks.
    let words = words.flat_map(|secret| {
        std::iter::once(secret).chain(secret.lines().map(str::trim).filter(move |line| *line != secret))
    });
    let words = words.filter(|secret| secret.len() >= MIN_SECRET_LEN).map(str::to_owned).collect();
    (with_stars(text, secrets()), words)
}

/// The same text with stars in the place of every text and of every value of a parameter that is a word or a number.
pub(super) fn mask_all(text: &str) -> String {
    with_stars(text, literals(text).into_iter())
}

fn with_stars(text: &str, literals: impl Iterator<Item = Literal>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for Literal { start, end, .. } in literals {
        for byte in bytes.get_mut(start..end).unwrap_or_default() {
            if *byte != b'\n' {
                *byte = b'*';
            }
        }
    }
    // Whole literals were replaced, so that it is text still.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Where the inside of a quoted text is.
struct Literal {
    start: usize,
    end: usize,
    /// It is the value of a parameter, a variable or a key with such a name, or of `Sensitive`.
    is_secret: bool,
}

/// A message without these secrets.
pub(super) fn without<'a>(message: &'a str, secrets: &[String]) -> Cow<'a, str> {
    secrets.iter().fold(Cow::Borrowed(message), |message, secret| match message.contains(secret) {
        true => Cow::Owned(message.replace(secret, "[hidden]")),
        false => message,
    })
}

/// All texts, quoted or not, and numbers that are values.
fn literals(text: &str) -> Vec<Literal> {
    let (bytes, mut found, mut at, mut is_secret) = (text.as_bytes(), Vec::new(), 0, false);
    // Whether what comes next is the value of a parameter or a variable.
    let mut is_value = false;
    // Texts that begin on the next line: what ends each of them, and whether it is a secret.
    let mut below: Vec<(&str, bool)> = Vec::new();
    while at < bytes.len() {
        if bytes[at] == b'\n' && !below.is_empty() {
            at += 1;
            for (tag, is_secret) in std::mem::take(&mut below) {
                let start = at;
                let rest = text.get(start..).unwrap_or_default();
                let mut end = start;
                for line in rest.split_inclusive('\n') {
                    at += line.len();
                    if line.trim().trim_start_matches(['|', '-', ' ']) == tag {
                        break;
                    }
                    end = at;
                }
                found.push(Literal { start, end, is_secret });
            }
            (is_secret, is_value) = (false, false);
            continue;
        }
        match bytes[at] {
            b'@' if bytes.get(at + 1) == Some(&b'(') => {
                let (tag, length) = heredoc(text.get(at..).unwrap_or_default());
                below.extend(tag.map(|tag| (tag, is_secret)));
                at += length;
            }
            b'=' if bytes.get(at + 1) == Some(&b'>') => {
                is_value = true;
                at += 2;
            }
            b'+' if bytes.get(at + 1) == Some(&b'>') => {
                is_value = true;
                at += 2;
            }
            b'=' if matches!(bytes.get(at + 1), Some(b'=' | b'~')) => at += 2,
            b'=' => {
                is_value = true;
                at += 1;
            }
            quote @ (b'\'' | b'"') => {
                let start = at + 1;
                let mut end = start;
                while end < bytes.len() && bytes[end] != quote {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                let end = end.min(bytes.len());
                found.push(Literal { start, end, is_secret });
                is_value = false;
                // A key of a hash may be quoted.
                is_secret = is_secret_name(&text.get(start..end).unwrap_or_default().to_lowercase())
                    && is_assigned(&bytes[(end + 1).min(bytes.len())..]);
                at = end + 1;
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                let start = at;
                let is_number = bytes[at].is_ascii_digit();
                let is_part =
                    |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || (is_number && byte == b'.');
                while at < bytes.len() && is_part(bytes[at]) {
                    at += 1;
                }
                // What is called, looked into or qualified is no value by itself.
                if std::mem::take(&mut is_value) && !matches!(bytes.get(at), Some(b'(' | b'[' | b'.' | b':'))
                {
                    let word = text.get(start..at).unwrap_or_default();
                    if !ORDINARY_WORDS.contains(&word) {
                        found.push(Literal { start, end: at, is_secret });
                    }
                }
                let word = text.get(start..at).unwrap_or_default().to_lowercase();
                let is_called = word == "sensitive" || (is_secret && word == "new");
                is_secret = is_called || (is_secret_name(&word) && is_assigned(&bytes[at..]));
            }
            b'#' => {
                let line = bytes[at..].iter().position(|byte| *byte == b'\n');
                at = line.map_or(bytes.len(), |line| at + line);
            }
            b' ' | b'\t' | b'\n' => at += 1,
            b'>' | b'(' | b'.' | b'[' => {
                is_value = false;
                at += 1;
            }
            _ => {
                (is_secret, is_value) = (false, false);
                at += 1;
            }
        }
    }
    found
}

/// What ends a text that begins with `@(`, and the length of this beginning.
fn heredoc(text: &str) -> (Option<&str>, usize) {
    let Some((inside, _)) = text.split_once(')').filter(|(inside, _)| !inside.contains('\n')) else {
        return (None, 2);
    };
    let tag = inside.trim_start_matches("@(").split(['/', ':']).next().unwrap_or_default();
    (Some(tag.trim().trim_matches('"')).filter(|tag| !tag.is_empty()), inside.len() + 1)
}

fn is_secret_name(name: &str) -> bool {
    let name = OTHER_WORDS.iter().fold(name.to_owned(), |name, word| name.replace(word, ""));
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// Whether what follows a name gives it a value.
fn is_assigned(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii_start();
    rest.starts_with(b"=>") || rest.starts_with(b"+>") || (rest.starts_with(b"=") && !rest.starts_with(b"=="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_in_every_form_and_nothing_else_is() {
        for (text, masked) in [
            (
                "user { 'x': password => 'hunter2', shell => '/bin/sh' }",
                "user { 'x': password => '*******', shell => '/bin/sh' }",
            ),
            ("$db_password = \"a\\\"b\"", "$db_password = \"****\""),
            ("content => Sensitive('hush')", "content => Sensitive('****')"),
            ("x => Sensitive.new('hush'), y => 'z'", "x => Sensitive.new('****'), y => 'z'"),
            ("{ 'api_token' => 'abcd', 'n' => 'v' }", "{ 'api_token' => '****', 'n' => 'v' }"),
            (
                "if $password == 'x' { notify { 'password': } }",
                "if $password == 'x' { notify { 'password': } }",
            ),
            (
                "password => $x, title => 'y' # password => 'z'",
                "password => $x, title => 'y' # password => 'z'",
            ),
            ("password => 'é", "password => '**"),
            ("secretary => 'me', secretary_token => 'it'", "secretary => 'me', secretary_token => '**'"),
        ] {
            assert_eq!(mask(text).0, masked, "{text}");
        }
        assert_eq!(
            mask_all("exec { 'a': command => \"b 'c'\" } # 'd'"),
            "exec { '*': command => \"*****\" } # 'd'"
        );
        for (text, masked) in [
            ("password => hunter2, uid => 30", "password => *******, uid => 30"),
            ("password => lookup('x')", "password => lookup('x')"),
            ("password => $x, ensure => present }", "password => $x, ensure => present }"),
            (
                "password => @(E/L)\n  hush\n  |- E\n, a => 'b'",
                "password => @(E/L)\n******\n  |- E\n, a => 'b'",
            ),
        ] {
            assert_eq!(mask(text).0, masked, "{text}");
        }
        assert_eq!(mask("password => @(E)\n  hush hush\n  | E\n").1, ["  hush hush\n", "hush hush"]);
        assert_eq!(
            mask_all("x { 'a': ensure => present, uid => 30, b => word, c => @(\"E\")\n d\n | E\n }"),
            "x { '*': ensure => present, uid => **, b => ****, c => @(\"E\")\n**\n | E\n }"
        );
        let (_, secrets) = mask("password => 'hunter2', token => 'x'");
        assert_eq!(secrets, ["hunter2"]);
        assert_eq!(without("Invalid value 'hunter2'", &secrets), "Invalid value '[hidden]'");
    }
}
