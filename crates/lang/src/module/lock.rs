//! The lock file: which modules a program was tried with.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Map, Value, json};

/// The name of the lock file. It is beside the metadata or the file that a program starts with.
pub const LOCK_FILE: &str = "mgmt.lock";

/// The modules of a program, by their directory below the directory of modules, with a slash at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The modules.
    pub modules: BTreeMap<String, LockedModule>,
}

/// A module as it was when it was locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedModule {
    /// Where it came from.
    pub url: String,
    /// The commit. Not known of a module that was put in place by other means.
    pub commit: Option<String>,
    /// The hash of its content.
    pub hash: String,
}

/// What is wrong with a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLock(pub String);

impl fmt::Display for BadLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadLock {}

const VERSION: u64 = 1;

impl Lock {
    /// Reads the content of a lock file.
    ///
    /// # Errors
    ///
    /// It was not written by this program or a newer one, or somebody has changed it.
    pub fn parse(content: &[u8]) -> Result<Lock, BadLock> {
        let value: Value =
            serde_json::from_slice(content).map_err(|error| BadLock(format!("this is not JSON: {error}")))?;
        match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) => {
                let message = format!("it has version {version}, and this program knows version {VERSION}");
                return Err(BadLock(message));
            }
            None => return Err(BadLock("it has no `version`".into())),
        }
        let Some(modules) = value.get("modules").and_then(Value::as_object) else {
            return Err(BadLock("it has no `modules`".into()));
        };
        let modules =
            modules.iter().map(|(key, module)| Ok((key.clone(), LockedModule::parse(key, module)?)));
        Ok(Lock { modules: modules.collect::<Result<_, BadLock>>()? })
    }

    /// The content of the lock file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let modules: Map<String, Value> = self
            .modules
            .iter()
            .map(|(key, module)| {
                let LockedModule { url, commit, hash } = module;
                (key.clone(), json!({ "url": url, "commit": commit, "hash": hash }))
            })
            .collect();
        format!("{:#}\n", json!({ "version": VERSION, "modules": modules }))
    }

    /// What is locked for a module.
    #[must_use]
    pub fn get(&self, key: &Path) -> Option<&LockedModule> {
        self.modules.get(&lock_key(key))
    }
}

impl LockedModule {
    fn parse(key: &str, module: &Value) -> Result<LockedModule, BadLock> {
        let text = |name: &str| match module.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(BadLock(format!("`{name}` of `{key}` is not a text"))),
        };
        let missing = |name: &str| BadLock(format!("`{key}` has no `{name}`"));
        let commit = text("commit")?;
        // It goes into the arguments of a program.
        if commit.as_deref().is_some_and(|commit| !matches!(commit.len(), 40 | 64) || !is_hexadecimal(commit))
        {
            return Err(BadLock(format!("the commit of `{key}` is not one")));
        }
        let hash = text("hash")?.ok_or_else(|| missing("hash"))?;
        match hash.strip_prefix("sha256:") {
            Some(digits) if digits.len() == 64 && is_hexadecimal(digits) => {}
            _ => {
                return Err(BadLock(format!(
                    "the hash of `{key}` is not `sha256:` and 64 hexadecimal digits"
                )));
            }
        }
        Ok(LockedModule { url: text("url")?.ok_or_else(|| missing("url"))?, commit, hash })
    }
}

/// How a module is called in a lock file.
pub fn lock_key(key: &Path) -> String {
    format!("{}/", key.display())
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> Lock {
        let module = |url: &str, commit: Option<&str>| LockedModule {
            url: url.into(),
            commit: commit.map(str::to_owned),
            hash: format!("sha256:{}", "0".repeat(64)),
        };
        let modules = [
            ("h/z/".to_owned(), module("git://h/z", Some(&"a".repeat(40)))),
            ("h/a/".to_owned(), module("https://h/a/", None)),
        ];
        Lock { modules: modules.into() }
    }

    #[test]
    fn what_is_written_is_read_and_its_order_is_that_of_the_names() {
        let text = lock().to_text();
        assert_eq!(Lock::parse(text.as_bytes()).unwrap(), lock());
        assert!(text.find("h/a/").unwrap() < text.find("h/z/").unwrap());
        assert!(
            text.starts_with("{\n  \"version\": 1,\n  \"modules\": {\n    \"h/a/\": {\n      \"url\""),
            "{text}"
        );
        assert!(text.ends_with("}\n"));
        assert_eq!(lock().get(Path::new("h/z")).unwrap().url, "git://h/z");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let hash = format!("\"hash\": \"sha256:{}\"", "0".repeat(64));
        let module = |inside: &str| format!("{{\"version\": 1, \"modules\": {{\"k/\": {{{inside}}}}}}}");
        for (text, part) in [
            ("".to_owned(), "not JSON"),
            ("[]".into(), "no `version`"),
            ("{\"version\": 2}".into(), "it has version 2"),
            ("{\"version\": 1}".into(), "no `modules`"),
            (module(""), "`k/` has no `hash`"),
            (module(&hash), "`k/` has no `url`"),
            (module("\"hash\": \"x\""), "the hash of `k/`"),
            (module(&format!("{hash}, \"url\": 1")), "`url` of `k/` is not a text"),
            (module(&format!("{hash}, \"url\": \"u\", \"commit\": \"--upload-pack=x\"")), "commit of `k/`"),
            ("[".repeat(100_000), "not JSON"),
        ] {
            assert!(Lock::parse(text.as_bytes()).unwrap_err().0.contains(part), "{text}");
        }
    }
}
