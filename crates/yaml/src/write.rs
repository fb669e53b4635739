//! A graph as text that is read back as the same graph.

use std::fmt::Write as _;

use base64ct::{Base64, Encoding as _};
use mgmt_resource::{FieldSpec, Fields as _, Id, Meta, ResourceGraph, Spec};
use mgmt_value::{Str, Value};

use crate::events::SECRET_TAG;

/// How a graph is written.
pub struct WriteOptions<'a> {
    /// The name of the graph.
    pub name: &'a str,
    /// The comment.
    pub comment: &'a str,
    /// Whether the value of a field is nobody's business. It is left out, and the text cannot be run.
    pub is_secret: &'a dyn Fn(&Spec, &FieldSpec, &Value) -> bool,
}

/// Writes a graph down: kinds in the order of their first use, of each resource what is not as usual, and all edges.
///
/// Fails with the resources that cannot be written: a name that starts with `@@` would mean something else.
pub fn write(graph: &ResourceGraph, options: &WriteOptions<'_>) -> Result<String, Vec<Id>> {
    let wrong: Vec<Id> = graph
        .nodes()
        .map(|(_, spec)| &spec.id)
        .filter(|id| {
            id.name.as_bytes().starts_with(b"@@") || std::str::from_utf8(id.name.as_bytes()).is_err()
        })
        .cloned()
        .collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut text = String::from("---\n");
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "graph: {}", scalar(options.name));
    if !options.comment.is_empty() {
        let _ = writeln!(text, "comment: {}", scalar(options.comment));
    }
    let mut kinds: Vec<(&str, Vec<&Spec>)> = Vec::new();
    for (_, spec) in graph.nodes() {
        match kinds.iter_mut().find(|(kind, _)| *kind == spec.id.kind) {
            Some((_, specs)) => specs.push(spec),
            None => kinds.push((spec.id.kind, vec![spec])),
        }
    }
    text.push_str(if kinds.is_empty() { "resources: {}\n" } else { "resources:\n" });
    for (kind, specs) in kinds {
        let _ = writeln!(text, "  {}:", scalar(kind));
        for spec in specs {
            resource(&mut text, spec, options);
        }
    }
    if graph.edge_count() > 0 {
        text.push_str("edges:\n");
    }
    for (from, to, edge) in graph.edges() {
        let (Some(from), Some(to)) = (graph.node(from), graph.node(to)) else { continue };
        let _ = writeln!(text, "- name: {}", scalar(&format!("{} -> {}", from.id, to.id)));
        for (end, Id { kind, name }) in [("from", &from.id), ("to", &to.id)] {
            let _ = writeln!(text, "  {end}:\n    kind: {}\n    name: {}", scalar(kind), word(name));
        }
        if edge.notify {
            text.push_str("  notify: true\n");
        }
    }
    Ok(text)
}

fn resource(text: &mut String, spec: &Spec, options: &WriteOptions<'_>) {
    let _ = writeln!(text, "  - name: {}", word(&spec.id.name));
    let usual = (spec.resource.schema().make)();
    for field in spec.resource.schema().fields {
        let Some(value) = spec.resource.get(field.name) else { continue };
        // What is received is not written as if it were declared.
        if usual.get(field.name).as_ref() == Some(&value)
            || spec.receives.iter().any(|receive| receive.field == field.name)
        {
            continue;
        }
        let written = match (options.is_secret)(spec, field, &value) {
            true => format!("{SECRET_TAG} left out"),
            false => inline(&value),
        };
        let _ = writeln!(text, "    {}: {written}", scalar(field.name));
    }
    if !spec.receives.is_empty() {
        text.push_str("    recv:\n");
    }
    for receive in &spec.receives {
        let _ = writeln!(
            text,
            "      {}: {{kind: {}, name: {}, key: {}}}",
            scalar(receive.field),
            quoted(receive.from.kind),
            quoted(&receive.from.name.to_text()),
            quoted(receive.key)
        );
    }
    let usual = Meta::default();
    let mut meta: Vec<(&str, String)> = Meta::FIELDS
        .iter()
        .map(|field| (field.name, (field.get)(&*spec.meta), (field.get)(&usual)))
        .filter(|(_, value, usual)| value != usual)
        .map(|(name, value, _)| (name, inline(&value)))
        .collect();
    // Elsewhere a name may start so without being allowed to.
    if spec.id.name.as_bytes().starts_with(b"$") && !spec.meta.dollar {
        meta.push(("dollar", "true".to_owned()));
    }
    if !meta.is_empty() {
        text.push_str("    meta:\n");
    }
    for (name, value) in meta {
        let _ = writeln!(text, "      {name}: {value}");
    }
}

/// A value on one line.
fn inline(value: &Value) -> String {
    let all = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) if value.is_nan() => ".nan".to_owned(),
        Value::Float(value) if value.is_infinite() => if *value > 0.0 { ".inf" } else { "-.inf" }.to_owned(),
        Value::Float(value) => format!("{value:?}"),
        Value::Str(text) => word(text),
        Value::List(list) => format!("[{}]", all(list.items.iter().map(inside).collect())),
        Value::Map(map) => {
            let entries = map.entries().iter();
            format!(
                "{{{}}}",
                all(entries.map(|(key, value)| format!("{}: {}", inside(key), inside(value))).collect())
            )
        }
        Value::Struct(value) => {
            let fields = value.fields.iter();
            format!(
                "{{{}}}",
                all(fields.map(|(name, value)| format!("{}: {}", quoted(name), inside(value))).collect())
            )
        }
        Value::Func(_) | Value::Nil => "null".to_owned(),
    }
}

/// A value within brackets, where plain text could end too early.
fn inside(value: &Value) -> String {
    match value {
        Value::Str(text) => match std::str::from_utf8(text.as_bytes()) {
            Ok(text) => quoted(text),
            Err(_) => word(text),
        },
        other => inline(other),
    }
}

/// Text, or bytes that are none.
fn word(text: &Str) -> String {
    match std::str::from_utf8(text.as_bytes()) {
        Ok(text) => scalar(text),
        Err(_) => format!("!!binary \"{}\"", Base64::encode_string(text.as_bytes())),
    }
}

/// Text, in quotes if it could be taken for anything else.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_/.-".contains(letter))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// What some readers take for a truth or for nothing.
const WORDS: &[&str] = &["true", "false", "yes", "no", "on", "off", "y", "n", "null"];

fn quoted(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    for letter in text.chars() {
        match letter {
            '"' => written.push_str("\\\""),
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            '\t' => written.push_str("\\t"),
            '\r' => written.push_str("\\r"),
            ' '..='\u{7e}' => written.push(letter),
            // Line ends of other kinds, byte order marks and the like would not be read back.
            letter if letter.is_alphanumeric() => written.push(letter),
            letter if u32::from(letter) <= 0xff => {
                let _ = write!(written, "\\x{:02x}", u32::from(letter));
            }
            letter if u32::from(letter) <= 0xffff => {
                let _ = write!(written, "\\u{:04x}", u32::from(letter));
            }
            letter => {
                let _ = write!(written, "\\U{:08x}", u32::from(letter));
            }
        }
    }
    written.push('"');
    written
}
