//! `concat_file` becomes a `file` with all its fragments in it.

use mgmt_value::Str;
use serde_json::{Map, Value};

use super::file::attributes_of_file;
use super::rule::Rule;
use crate::catalogue::{Declared, squeezed};
use crate::data::Data;

pub(super) fn concat_file(rule: &mut Rule<'_>) -> &'static str {
    // Alone, Puppet would find no fragments, and empty the file.
    let file = rule.declared;
    rule.needs_to_know(|declared| declared.kind == "Concat_fragment" && belongs(declared, file));
    rule.accept(&["tag"]);
    if rule.text("ensure").as_deref() == Some("absent") {
        absent(rule);
        return "file";
    }
    let format = rule.text("format").unwrap_or_else(|| "plain".to_owned());
    let force = rule.declared.get("force").and_then(Data::truth) == Some(true);
    let ensure_newline = rule.truth("ensure_newline") == Some(true);
    let numeric = rule.text("order").is_none_or(|order| order == "numeric");
    let mut fragments = Vec::new();
    for fragment in
        rule.around.catalogue.resources.iter().filter(|declared| declared.kind == "Concat_fragment")
    {
        if !belongs(fragment, rule.declared) {
            continue;
        }
        let secret = fragment.sensitive.iter().any(|name| name == "content")
            || fragment.get("content").is_some_and(Data::is_secret);
        if secret {
            rule.set("showdiff", false);
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
    let contents = fragments.into_iter().map(|(_, mut content)| {
        if ensure_newline && !content.ends_with(b"\n") {
            content.push(b'\n');
        }
        content
    });
    let contents: Vec<Vec<u8>> = contents.collect();
    let is_made_empty = rule.truth("create_empty_file") != Some(false);
    match joined(&format, &contents, force) {
        Ok(whole) if whole.is_empty() && !is_made_empty => absent(rule),
        Ok(whole) => attributes_of_file(rule, whole),
        Err(why) => rule.cannot("format", why),
    }
    "file"
}

/// The file is not to be there, whatever else is said of it.
fn absent(rule: &mut Rule<'_>) {
    let file = rule.declared;
    let names: Vec<&str> = file.parameters.iter().map(|(name, _)| name.as_str()).collect();
    rule.accept(&names);
    rule.hide_all(&names);
    rule.set("path", Str::from(squeezed(&file.subject())));
    rule.set("state", Str::from("absent"));
}

/// All fragments as one text.
fn joined(format: &str, contents: &[Vec<u8>], force: bool) -> Result<Vec<u8>, String> {
    if format == "plain" {
        return Ok(contents.concat());
    }
    if !format.starts_with("json") {
        return Err(format!("`{format}` has no counterpart"));
    }
    let values: Result<Vec<Value>, String> = contents
        .iter()
        .map(|content| serde_json::from_slice(content).map_err(|error| format!("finds no JSON: {error}")))
        .collect();
    let values = values?;
    if values.iter().any(has_fractions) {
        // Every program has its own way to write them.
        return Err("finds numbers that are not whole".to_owned());
    }
    let whole = match format {
        "json" | "json-pretty" => {
            values.into_iter().try_fold(Value::Object(Map::new()), |one, other| merged(one, other, force))?
        }
        _ => Value::Array(values),
    };
    let written = match format.ends_with("-pretty") {
        true => serde_json::to_vec_pretty(&whole),
        false => serde_json::to_vec(&whole),
    };
    written.map_err(|error| error.to_string())
}

fn has_fractions(value: &Value) -> bool {
    match value {
        Value::Number(number) => !(number.is_i64() || number.is_u64()),
        Value::Array(list) => list.iter().any(has_fractions),
        Value::Object(map) => map.values().any(has_fractions),
        _ => false,
    }
}

/// Two values as one: lists are joined without what is there already, maps key by key. What comes first stays.
fn merged(one: Value, other: Value, force: bool) -> Result<Value, String> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if is_empty(&other) {
        return Ok(one);
    }
    if is_empty(&one) {
        return Ok(other);
    }
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            let mut list: Vec<Value> = Vec::new();
            for item in one.into_iter().chain(other) {
                if !list.contains(&item) {
                    list.push(item);
                }
            }
            Ok(Value::Array(list))
        }
        (Value::Object(mut one), Value::Object(other)) => {
            for (key, new) in other {
                // A key that is there keeps its place.
                let value = match one.get_mut(&key).map(Value::take) {
                    None => new,
                    Some(old) => match (&old, &new) {
                        (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_)) => {
                            merged(old, new, force)?
                        }
                        _ if old == new || force => old,
                        _ => return Err(format!("finds two values for the key {key:?}")),
                    },
                };
                one.insert(key, value);
            }
            Ok(Value::Object(one))
        }
        _ => Err("finds something else than lists and maps to merge".to_owned()),
    }
}

fn belongs(fragment: &Declared, file: &Declared) -> bool {
    let target = fragment.get("target").and_then(Data::text);
    // Since version 9 of the module, a file may have several tags, of which a fragment has one.
    let tags = |declared: &Declared| declared.get("tag").and_then(Data::texts).unwrap_or_default();
    let tag = fragment.get("tag").and_then(Data::text);
    target.is_some_and(|target| target == file.subject() || target == file.title)
        || tag.is_some_and(|tag| tags(file).contains(&tag))
}

fn content(rule: &Rule<'_>, fragment: &Declared) -> Option<Vec<u8>> {
    if let Some(content) = fragment.get("content") {
        return content.bytes();
    }
    let sources = fragment.get("source")?.texts()?;
    let mut paths = sources.iter().filter_map(|source| rule.local_source(source));
    let path = paths.find(|path| {
        rule.looks_for(path);
        path.is_file()
    })?;
    rule.read(&path)
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
