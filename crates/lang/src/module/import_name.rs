//! What stands between the quotes of an import.

use std::fmt;
use std::path::PathBuf;

/// The name of something to import, understood.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImportName {
    /// What kind of thing it names.
    pub class: ImportClass,
    /// The name without query and fragment. Of an address it is the path alone, with a slash at both ends.
    pub path: String,
    /// The alias of an import that gives none.
    pub alias: String,
}

/// What kinds of things can be imported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ImportClass {
    /// A module that comes with the program, such as `fmt` or `golang/strings`.
    System,
    /// A file, relative to the directory of the file that imports it.
    File,
    /// A directory with a module, relative in the same way.
    Directory,
    /// A module from elsewhere.
    Remote {
        /// Its directory below a directory of modules.
        key: PathBuf,
        /// Where it comes from.
        url: String,
    },
}

/// Why something cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadImport {
    /// What is wrong, in one sentence without a final stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for BadImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BadImport {}

/// No name of an import needs to be longer, and every system refuses paths beyond this.
const MAX_LENGTH: usize = 4096;

impl ImportName {
    /// Understands a name.
    ///
    /// # Errors
    ///
    /// The name is neither a name, nor a relative path in its shortest form, nor an address.
    pub fn parse(text: &str) -> Result<ImportName, BadImport> {
        if text.is_empty() {
            return Err(bad(
                "the name of the import is empty",
                Some("write the name of a module, such as \"fmt\""),
            ));
        }
        if text.len() > MAX_LENGTH {
            return Err(bad(format!("the name of the import is longer than {MAX_LENGTH} bytes"), None));
        }
        if text.starts_with('/') {
            return Err(bad(
                format!("`{text}` is an absolute path, and those cannot be imported"),
                Some("write the path relative to the directory of this file"),
            ));
        }
        if let Some(character) = text.chars().find(|character| character.is_control()) {
            return Err(bad(
                format!(
                    "the name of the import has a control character ({}) in it",
                    character.escape_default()
                ),
                None,
            ));
        }
        let address = text.find(['?', '#']).map_or(text, |end| &text[..end]);
        match split_scheme(address)? {
            Some((scheme, rest)) => ImportName::remote(text, address, scheme, rest),
            None => ImportName::local(text, address),
        }
    }

    fn local(text: &str, address: &str) -> Result<ImportName, BadImport> {
        let path = decode(text, address)?;
        check_clean(text, &path)?;
        check_parts(text, path.split('/').filter(|part| *part != "." && *part != ".."))?;
        let (class, suffix) = match () {
            () if path.ends_with(".mcl") => (ImportClass::File, ".mcl"),
            () if path.ends_with('/') => (ImportClass::Directory, ""),
            () => (ImportClass::System, ""),
        };
        Ok(ImportName { class, alias: default_alias(text, &path, suffix)?, path })
    }

    fn remote(text: &str, url: &str, scheme: &str, rest: &str) -> Result<ImportName, BadImport> {
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(bad(
                format!("`{text}` has no path behind `{scheme}:`"),
                Some("an address looks like `https://example.com/team/mgmt-name/`"),
            ));
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = host(text, authority)?;
        let path = decode(text, path)?;
        if path.trim_matches('/').is_empty() {
            return Err(bad(
                format!("`{text}` names a host and nothing on it: the path is empty"),
                Some("an address looks like `https://example.com/team/mgmt-name/`"),
            ));
        }
        check_clean(text, &path)?;
        let path = format!("{}/", path.trim_end_matches('/'));
        // What is made from the address is only ever looked for below a directory of modules.
        let parts = path.split('/').filter(|part| !part.is_empty());
        check_parts(text, parts.clone())?;
        let key = std::iter::once(host.as_str()).filter(|host| !host.is_empty()).chain(parts).collect();
        let alias = default_alias(text, &path, "")?;
        Ok(ImportName { class: ImportClass::Remote { key, url: url.to_owned() }, path, alias })
    }

    /// Whether the alias can be written in a program. If not, the import is of no use without `as`.
    #[must_use]
    pub fn alias_is_usable(&self) -> bool {
        let mut characters = self.alias.chars();
        characters.next().is_some_and(|first| first.is_ascii_lowercase())
            && characters.all(|other| other.is_ascii_lowercase() || other.is_ascii_digit() || other == '_')
    }
}

fn bad(message: impl Into<String>, hint: Option<&str>) -> BadImport {
    BadImport { message: message.into(), hint: hint.map(str::to_owned) }
}

/// The scheme and what is behind its colon, if there is one.
fn split_scheme(address: &str) -> Result<Option<(&str, &str)>, BadImport> {
    let Some((before, rest)) = address.split_once(':') else { return Ok(None) };
    if before.contains('/') {
        return Ok(None);
    }
    let mut characters = before.chars();
    let is_scheme = characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.all(|other| other.is_ascii_alphanumeric() || matches!(other, '+' | '-' | '.'));
    if is_scheme {
        return Ok(Some((before, rest)));
    }
    let hint = match before.split_once('@') {
        Some((user, host)) if !user.is_empty() && !host.is_empty() => {
            Some(format!("write it as `ssh://{before}/{}`", rest.trim_start_matches('/')))
        }
        _ => None,
    };
    Err(BadImport {
        message: format!("`{address}` is not an address: `{before}` cannot stand before a colon"),
        hint,
    })
}

/// The host of an address without user and port.
fn host(text: &str, authority: &str) -> Result<String, BadImport> {
    let (user, rest) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (host, port) = if let Some(inside) = rest.strip_prefix('[') {
        let Some((host, behind)) = inside.split_once(']') else {
            return Err(bad(format!("`{text}` has an opening bracket in its host and no closing one"), None));
        };
        (host, behind.strip_prefix(':').or(behind.is_empty().then_some("")))
    } else {
        match rest.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(bad(
                    format!("`{text}` has too many colons in its host"),
                    Some("put an IPv6 address in brackets"),
                ));
            }
            Some((host, port)) => (host, Some(port)),
            None => (rest, Some("")),
        }
    };
    if !port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(bad(format!("`{text}` has a port that is not a number"), None));
    }
    let is_part = |character: char| {
        character.is_alphanumeric() || matches!(character, '.' | '-' | '_' | '~' | ':' | '%')
    };
    // A host or a user that looks like an option would become one for the program that connects.
    if host.starts_with(['-', '.']) || host.contains("..") || !host.chars().all(is_part) {
        return Err(bad(format!("`{text}` has a host that cannot be: `{host}`"), None));
    }
    if user.starts_with('-') || user.contains(|character: char| character.is_whitespace() || character == '/')
    {
        return Err(bad(format!("`{text}` has a user that cannot be"), None));
    }
    Ok(host.to_owned())
}

/// Replaces what is written as a percent sign and two digits.
fn decode(text: &str, written: &str) -> Result<String, BadImport> {
    if !written.contains('%') {
        return Ok(written.to_owned());
    }
    let mut decoded = Vec::with_capacity(written.len());
    let mut bytes = written.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(bad(
                format!("`{text}` has a `%` without two hexadecimal digits behind it"),
                Some("a percent sign itself is written `%25`"),
            ));
        };
        // Two digits of 16 are less than 256.
        decoded.push((high * 16 + low) as u8);
    }
    match String::from_utf8(decoded) {
        Ok(decoded) if !decoded.chars().any(char::is_control) => Ok(decoded),
        _ => Err(bad(
            format!("`{text}` stands for a path with control characters or bytes that are no text"),
            None,
        )),
    }
}

/// There is one way to write a path, so that one module is not imported under two names.
fn check_clean(text: &str, path: &str) -> Result<(), BadImport> {
    let clean = clean(path);
    if path == clean || path.strip_suffix('/') == Some(clean.as_str()) {
        return Ok(());
    }
    Err(BadImport {
        message: format!("the path in `{text}` is not in its shortest form"),
        hint: Some(format!("write it as `{clean}{}`", if path.ends_with('/') { "/" } else { "" })),
    })
}

/// What git keeps for itself is not part of a module, and no content hash covers it.
fn check_parts<'a>(text: &str, mut parts: impl Iterator<Item = &'a str>) -> Result<(), BadImport> {
    match parts.find(|part| matches!(*part, "." | ".." | ".git")) {
        Some(part) => Err(bad(format!("the path in `{text}` cannot have the part `{part}`"), None)),
        None => Ok(()),
    }
}

/// The shortest form of a path, by its text alone.
fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

fn default_alias(text: &str, path: &str, suffix: &str) -> Result<String, BadImport> {
    let path = path.trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or(path);
    let last = last.strip_prefix("mgmt-").filter(|rest| !rest.is_empty()).unwrap_or(last);
    let alias = last.replace('-', "_");
    if alias.starts_with('_') || alias.ends_with('_') {
        return Err(bad(
            format!("`{text}` has a name that begins or ends with a dash or an underscore"),
            Some("rename the module: its name is the alias under which it is imported"),
        ));
    }
    let alias = alias.to_lowercase();
    Ok(alias.strip_suffix(suffix).map_or_else(|| alias.clone(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ImportName {
        ImportName::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn message(text: &str) -> String {
        let error = ImportName::parse(text).expect_err(text);
        match error.hint {
            Some(hint) => format!("{} | {hint}", error.message),
            None => error.message,
        }
    }

    #[test]
    fn the_form_of_a_name_says_what_it_names() {
        for (text, class, alias) in [
            ("fmt", ImportClass::System, "fmt"),
            ("golang/strings", ImportClass::System, "strings"),
            ("embedded/provisioner", ImportClass::System, "provisioner"),
            ("lib/foo.mcl", ImportClass::File, "foo"),
            ("../dir/server.mcl", ImportClass::File, "server"),
            ("mod1/", ImportClass::Directory, "mod1"),
            ("../mod1/", ImportClass::Directory, "mod1"),
            ("mgmt-foo", ImportClass::System, "foo"),
            ("mgmt-", ImportClass::System, ""),
            ("foo-BAR-baz/", ImportClass::Directory, "foo_bar_baz"),
            ("dir/Server.mcl?x=1#y", ImportClass::File, "server"),
            ("a%20b/", ImportClass::Directory, "a b"),
            ("foo/bar:baz", ImportClass::System, "bar:baz"),
        ] {
            if text == "mgmt-" {
                assert!(message(text).contains("begins or ends with a dash"));
                continue;
            }
            let name = parse(text);
            assert_eq!((name.class, name.alias.as_str()), (class, alias), "{text}");
        }
        assert_eq!(parse("dir/Server.mcl?x=1#y").path, "dir/Server.mcl");
        assert_eq!(parse("a%20b/").path, "a b/");
    }

    #[test]
    fn an_address_gives_a_directory_and_a_url() {
        for (text, key, url, alias) in [
            (
                "git://example.com/team/mgmt-foo/",
                "example.com/team/mgmt-foo",
                "git://example.com/team/mgmt-foo/",
                "foo",
            ),
            ("git://h:99/a/b", "h/a/b", "git://h:99/a/b", "b"),
            ("https://H/a/b?x=y#z", "H/a/b", "https://H/a/b", "b"),
            ("file:///srv/git/thing", "srv/git/thing", "file:///srv/git/thing", "thing"),
            ("ssh://git@h:22/a/mgmt-b-c", "h/a/mgmt-b-c", "ssh://git@h:22/a/mgmt-b-c", "b_c"),
            ("git://[::1]:99/a", "::1/a", "git://[::1]:99/a", "a"),
            ("https://h/a%20b/", "h/a b", "https://h/a%20b/", "a b"),
        ] {
            let name = parse(text);
            let class = ImportClass::Remote { key: key.into(), url: url.into() };
            assert_eq!((name.class, name.alias.as_str()), (class, alias), "{text}");
        }
    }

    #[test]
    fn every_mistake_has_its_own_message() {
        let shortest = "is not in its shortest form | write it as";
        for (text, part) in [
            ("", "the name of the import is empty"),
            ("/etc/foo.mcl", "is an absolute path"),
            ("a\nb", "control character (\\n)"),
            ("./foo.mcl", &format!("{shortest} `foo.mcl`")),
            ("foo//bar/", &format!("{shortest} `foo/bar/`")),
            ("a/../b", &format!("{shortest} `b`")),
            ("git:////home/foo/", &format!("{shortest} `/home/foo/`")),
            ("git://h/a/../b", &format!("{shortest} `/b`")),
            ("git://h/a/%2e%2e/b", &format!("{shortest} `/b`")),
            ("_foo", "begins or ends with a dash or an underscore"),
            ("foo-/", "begins or ends with a dash or an underscore"),
            ("mgmt--foo", "begins or ends with a dash or an underscore"),
            ("git://h", "the path is empty"),
            ("git://h/", "the path is empty"),
            ("git:h/a", "has no path behind `git:`"),
            ("ext::sh -c x", "has no path behind `ext:`"),
            ("git@h:a/b", "cannot stand before a colon | write it as `ssh://git@h/a/b`"),
            ("1x:y", "cannot stand before a colon"),
            ("git://a:b:c/x", "too many colons"),
            ("git://h:x/y", "port that is not a number"),
            ("git://[::1/y", "no closing one"),
            ("git://[::1]x/y", "port that is not a number"),
            ("git://-oProxyCommand=x/y", "host that cannot be"),
            ("git://../y", "host that cannot be"),
            ("git://.hidden/y", "host that cannot be"),
            ("git://a b/y", "host that cannot be"),
            ("ssh://-oProxyCommand=x@h/y", "user that cannot be"),
            (".git/x.mcl", "cannot have the part `.git`"),
            ("git://h/a/.git/", "cannot have the part `.git`"),
            ("a%zz", "two hexadecimal digits"),
            ("a%0", "two hexadecimal digits"),
            ("a%00/", "control characters"),
            ("a%ff/", "no text"),
        ] {
            assert!(message(text).contains(part), "{text}: {}", message(text));
        }
        assert!(message(&"x".repeat(5000)).contains("longer than"));
    }

    #[test]
    fn an_alias_that_cannot_be_written_is_told_from_others() {
        assert!(parse("golang/strings").alias_is_usable());
        assert!(parse("git://h/a9_b").alias_is_usable());
        for text in ["https://h/foo.git", "../", "9lives", ".mcl", "a%20b/"] {
            assert!(!parse(text).alias_is_usable(), "{text}");
        }
    }

    #[test]
    fn whatever_is_written_no_directory_of_a_remote_module_leads_out_of_its_place() {
        let words = [
            "git", "file", "://", ":", "/", "//", "..", ".", "-", "_", "%2e", "%2F", "%", "@", "[", "]", "?",
            "#", "h", "mgmt-", ".mcl", "~", "ä", " ", "9",
        ];
        let mut state = 1_u64;
        let mut remote = 0;
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..8 {
                // Knuth's constants; the high bits are the good ones.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(words[(state >> 33) as usize % words.len()]);
            }
            if state >> 63 == 1 {
                text.insert_str(0, "git://");
            }
            let Ok(ImportName { class: ImportClass::Remote { key, url }, .. }) = ImportName::parse(&text)
            else {
                continue;
            };
            remote += 1;
            let mut parts = key.components();
            assert!(parts.all(|part| matches!(part, std::path::Component::Normal(_))), "{text}: {key:?}");
            assert!(key.components().count() > 0 && !url.contains(['?', '#']), "{text}: {url}");
        }
        assert!(remote > 1000, "{remote}");
    }
}
