//! Secrets that are written in a manifest: they are not shown when a diagnostic quotes the manifest.

use std::borrow::Cow;

/// Parameters and variables whose name has one of these in it have a secret for a value.
const SECRET_NAMES: [&str; 9] =
    ["password", "passwd", "passphrase", "secret", "token", "private_key", "api_key", "apikey", "credential"];

/// Shorter secrets are not looked for in messages: they would be found in every other word.
const MIN_SECRET_LEN: usize = 4;

/// The same text with as many stars in the place of secrets as they have bytes, and the secrets.
pub(super) fn mask(text: &str) -> (String, Vec<String>) {
    let (mut bytes, mut secrets) = (text.as_bytes().to_vec(), Vec::new());
    for (start, end) in literals(text) {
        let Some(secret) = text.get(start..end) else { continue };
        if secret.len() >= MIN_SECRET_LEN {
            secrets.push(secret.to_owned());
        }
        for byte in &mut bytes[start..end] {
            if *byte != b'\n' {
                *byte = b'*';
            }
        }
    }
    // Whole literals were replaced, so that it is text still.
    (String::from_utf8(bytes).unwrap_or_default(), secrets)
}

/// A message without these secrets.
pub(super) fn without<'a>(message: &'a str, secrets: &[String]) -> Cow<'a, str> {
    secrets.iter().fold(Cow::Borrowed(message), |message, secret| match message.contains(secret) {
        true => Cow::Owned(message.replace(secret, "[hidden]")),
        false => message,
    })
}

/// Where the insides of quoted texts are that are secrets: values of parameters, variables and keys with such a name, and of `Sensitive`.
fn literals(text: &str) -> Vec<(usize, usize)> {
    let (bytes, mut found, mut at, mut is_secret) = (text.as_bytes(), Vec::new(), 0, false);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"') => {
                let start = at + 1;
                let mut end = start;
                while end < bytes.len() && bytes[end] != quote {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                let end = end.min(bytes.len());
                if is_secret {
                    found.push((start, end));
                }
                // A key of a hash may be quoted.
                is_secret = is_secret_name(&text.get(start..end).unwrap_or_default().to_lowercase())
                    && is_assigned(&bytes[(end + 1).min(bytes.len())..]);
                at = end + 1;
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                let start = at;
                while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
                    at += 1;
                }
                let word = text.get(start..at).unwrap_or_default().to_lowercase();
                let is_called = word == "sensitive" || (is_secret && word == "new");
                is_secret = is_called || (is_secret_name(&word) && is_assigned(&bytes[at..]));
            }
            b'#' => {
                let line = bytes[at..].iter().position(|byte| *byte == b'\n');
                at = line.map_or(bytes.len(), |line| at + line);
            }
            b' ' | b'\t' | b'\n' | b'=' | b'>' | b'(' | b'.' | b'[' => at += 1,
            _ => {
                is_secret = false;
                at += 1;
            }
        }
    }
    found
}

fn is_secret_name(name: &str) -> bool {
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
        ] {
            assert_eq!(mask(text).0, masked, "{text}");
        }
        let (_, secrets) = mask("password => 'hunter2', token => 'x'");
        assert_eq!(secrets, ["hunter2"]);
        assert_eq!(without("Invalid value 'hunter2'", &secrets), "Invalid value '[hidden]'");
    }
}
