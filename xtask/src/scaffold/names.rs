//! Names that can be used: in mcl, as a file, and in Rust.

use crate::step::Failed;

/// The longest name.
const MAX_NAME_LEN: usize = 40;

/// The reserved words of mcl.
const MCL_KEYWORDS: &[&str] = &[
    "if", "else", "for", "forkv", "true", "false", "bool", "str", "int", "float", "map", "struct", "variant",
    "func", "class", "include", "import", "as", "collect", "panic", "or", "and", "not", "in",
];

/// The keywords of Rust, those for later included.
const RUST_KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Modules that a module of a kind would hide, or that are there for something else.
const TAKEN_MODULES: &[&str] = &["alloc", "core", "kinds", "mgmt_resource", "std", "support"];

/// Types and traits that every Rust file can use.
const RUST_PRELUDE: &[&str] = &[
    "AsMut", "AsRef", "Box", "Clone", "Copy", "Default", "Drop", "Eq", "Err", "Extend", "Fn", "From",
    "Future", "Hash", "Into", "Iterator", "None", "Ok", "Option", "Ord", "Result", "Send", "Sized", "Some",
    "String", "Sync", "Unpin", "Vec",
];

/// The name of a kind, `docker:image` for example.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KindName(String);

impl KindName {
    /// Reads a name. The struct must not be called like a word of `uses`, which are Rust texts that will use it.
    pub(super) fn read(name: &str, uses: &[&str]) -> Result<KindName, Failed> {
        let wrong = |why: String| Failed::new(format!("the kind `{name}`: {why}"));
        if name.is_empty() || name.len() > MAX_NAME_LEN || !name.split(':').all(is_word) {
            let why = format!(
                "expected at most {MAX_NAME_LEN} lower-case letters, digits and underscores, beginning with a letter; \
                 colons are between words, as in `docker:image`"
            );
            return Err(wrong(why));
        }
        if let Some(word) = name.split(':').find(|word| MCL_KEYWORDS.contains(word)) {
            return Err(wrong(format!("`{word}` is a keyword of mcl; choose another name")));
        }
        let found = KindName(name.to_owned());
        let module = found.module();
        if RUST_KEYWORDS.contains(&&*module) {
            return Err(wrong(format!("`{module}` is a keyword of Rust; choose another name")));
        }
        if TAKEN_MODULES.contains(&&*module) {
            return Err(wrong(format!("the module `{module}` is something else; choose another name")));
        }
        let structure = found.structure();
        let is_used = uses.iter().any(|text| words(text).any(|word| word == structure));
        if is_used || RUST_PRELUDE.contains(&&*structure) {
            return Err(wrong(format!("the struct would hide another `{structure}`; choose another name")));
        }
        Ok(found)
    }

    /// As it is declared.
    pub(super) fn kind(&self) -> &str {
        &self.0
    }

    /// The name of its files and modules.
    pub(super) fn module(&self) -> String {
        self.0.replace(':', "_")
    }

    /// The name of its struct.
    pub(super) fn structure(&self) -> String {
        let capitalized = |word: &str| match word.split_at_checked(1) {
            Some((first, rest)) => first.to_uppercase() + rest,
            None => String::new(),
        };
        self.0.split([':', '_']).map(capitalized).collect()
    }

    /// What kinds are ordered by in all lists, whether they have the kind, the module or the struct.
    pub(super) fn order(name: &str) -> String {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    }
}

/// A lower-case name: of a function, of a module of functions, or between two colons of a kind.
pub(super) fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_')
        && !text.ends_with('_')
        && !text.contains("__")
}

/// A name of a function, and how it is written in Rust.
pub(super) fn function_name(name: &str) -> Result<String, Failed> {
    let wrong = |why: &str| Failed::new(format!("the function `{name}`: {why}"));
    if name.len() > MAX_NAME_LEN || !is_word(name) {
        return Err(wrong("expected lower-case letters, digits and underscores, beginning with a letter"));
    }
    if MCL_KEYWORDS.contains(&name) {
        return Err(wrong("is a keyword of mcl; choose another name"));
    }
    if ["crate", "self", "super"].contains(&name) {
        return Err(wrong("cannot be a name in Rust; choose another name"));
    }
    Ok(if RUST_KEYWORDS.contains(&name) { format!("r#{name}") } else { name.to_owned() })
}

/// The words of a Rust text.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|next: char| !next.is_ascii_alphanumeric() && next != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str) -> String {
        let Err(Failed(why)) = KindName::read(name, &["use x::{Watch, Str};"]) else { panic!("{name}") };
        assert!(why.starts_with(&format!("the kind `{name}`: ")), "{why}");
        why
    }

    #[test]
    fn a_kind_has_a_module_and_a_struct() {
        for (kind, module, structure) in [
            ("motd", "motd", "Motd"),
            ("docker:image", "docker_image", "DockerImage"),
            ("ssh:known_host", "ssh_known_host", "SshKnownHost"),
            ("http:server:ui2", "http_server_ui2", "HttpServerUi2"),
        ] {
            let name = KindName::read(kind, &[]).unwrap();
            assert_eq!((name.kind(), &*name.module(), &*name.structure()), (kind, module, structure));
            assert_eq!(KindName::order(kind), KindName::order(structure));
            assert_eq!(KindName::order(kind), KindName::order(module));
        }
    }

    #[test]
    fn names_that_cannot_be_are_refused_with_a_reason() {
        let too_long = "a".repeat(MAX_NAME_LEN + 1);
        for name in [
            "", "Docker", "2fa", "_hidden", "a b", "a-b", "a:", ":a", "a::b", "a__b", "a_", "ä", "../a",
            &too_long,
        ] {
            assert!(refused(name).contains("expected at most 40 lower-case letters"));
        }
        for (name, why) in [
            ("docker:class", "`class` is a keyword of mcl"),
            ("collect", "`collect` is a keyword of mcl"),
            ("match", "`match` is a keyword of Rust"),
            ("support", "the module `support` is something else"),
            ("watch", "would hide another `Watch`"),
            ("string", "would hide another `String`"),
        ] {
            assert!(refused(name).contains(why), "{}", refused(name));
        }
    }

    #[test]
    fn a_function_may_be_a_keyword_of_rust() {
        assert_eq!(function_name("shout").unwrap(), "shout");
        assert_eq!(function_name("match").unwrap(), "r#match");
        for name in ["", "_len", "Shout", "a-b", "class", "self", "not"] {
            assert!(function_name(name).is_err(), "{name}");
        }
    }
}
