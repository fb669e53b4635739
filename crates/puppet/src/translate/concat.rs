//! `concat_file` becomes a `file` with all its fragments in it.

use super::file::attributes_of_file;
use super::rule::Rule;
use crate::catalogue::Declared;
use crate::data::Data;

pub(super) fn concat_file(rule: &mut Rule<'_>) -> &'static str {
    // Alone, Puppet would find no fragments, and empty the file.
    rule.needs_everything();
    rule.accept(&["tag"]);
    rule.accept_if("ensure", &["present"]);
    rule.accept_if("format", &["plain"]);
    let ensure_newline = rule.truth("ensure_newline") == Some(true);
    let numeric = rule.text("order").as_deref() == Some("numeric");
    let mut fragments = Vec::new();
    for fragment in
        rule.around.catalogue.resources.iter().filter(|declared| declared.kind == "Concat_fragment")
    {
        if !belongs(fragment, rule.declared) {
            continue;
        }
        match content(rule, fragment) {
            Some(content) => fragments.push((key(fragment, numeric), content)),
            None => {
                let why = format!("{fragment} has a source that is not on this host");
                rule.cannot("source", why);
            }
        }
    }
    fragments.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut whole = Vec::new();
    for (_, content) in &fragments {
        whole.extend_from_slice(content);
        if ensure_newline && !content.ends_with(b"\n") {
            whole.push(b'\n');
        }
    }
    attributes_of_file(rule, whole);
    "file"
}

fn belongs(fragment: &Declared, file: &Declared) -> bool {
    let target = fragment.get("target").and_then(Data::text);
    let tag = |declared: &Declared| declared.get("tag").and_then(Data::text);
    target.is_some_and(|target| target == file.subject() || target == file.title)
        || tag(fragment).is_some_and(|found| Some(found) == tag(file))
}

fn content(rule: &Rule<'_>, fragment: &Declared) -> Option<Vec<u8>> {
    if let Some(content) = fragment.get("content") {
        return content.bytes();
    }
    let sources = fragment.get("source")?.texts()?;
    let path = sources.iter().filter_map(|source| rule.local_source(source)).find(|path| path.is_file())?;
    std::fs::read(path).ok()
}

/// Fragments are in the order of their `order`, and then of their names. Numbers come before texts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Number(u64),
    Text(String),
}

fn key(fragment: &Declared, numeric: bool) -> (Word, Word) {
    let word = |text: String| match text.parse() {
        Ok(number) if numeric && text.bytes().all(|byte| byte.is_ascii_digit()) => Word::Number(number),
        _ => Word::Text(text),
    };
    let order = fragment.get("order").and_then(Data::text).unwrap_or_else(|| "10".to_owned());
    (word(order), word(fragment.subject()))
}
