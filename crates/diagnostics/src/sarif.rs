//! The renderer for SARIF 2.1.0, which forges and editors read.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::diagnostic::{Diagnostic, Label};
use crate::json::json_line;
use crate::render::{Renderer, clamp};
use crate::source::{Source, SourceMap};

/// A document under construction.
#[derive(Clone, Debug, Default)]
pub struct Sarif {
    results: Vec<Value>,
    codes: BTreeSet<&'static str>,
}

impl Sarif {
    /// Adds a diagnostic as a result.
    pub fn add(&mut self, diagnostic: &Diagnostic, sources: &SourceMap) {
        let mut text = diagnostic.message.clone();
        for hint in &diagnostic.hints {
            text += &format!("\nhint: {hint}");
        }
        let mut result = json!({ "level": diagnostic.severity.as_str(), "message": { "text": text } });
        if let Some(code) = diagnostic.code {
            self.codes.insert(code);
            result["ruleId"] = json!(code);
        }
        let primary = diagnostic.primary_label();
        let renderer = Renderer::new(sources);
        if let Some((label, source)) = primary.and_then(|label| renderer.located(label)) {
            result["locations"] = json!([location(source, label)]);
            let others = diagnostic
                .labels
                .iter()
                .filter(|label| !primary.is_some_and(|main| std::ptr::eq(main, *label)));
            let related: Vec<Value> = others
                .filter_map(|label| renderer.located(label))
                .map(|(label, source)| location(source, label))
                .collect();
            if !related.is_empty() {
                result["relatedLocations"] = related.into();
            }
        }
        self.results.push(result);
    }

    /// All of them as one document, which this version of this program has written.
    pub fn document(&self, program: &str, version: &str) -> String {
        let rules: Vec<Value> = self.codes.iter().map(|code| json!({ "id": code })).collect();
        json_line(&json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": { "name": program, "version": version, "rules": rules } },
                // Columns are counted in characters.
                "columnKind": "unicodeCodePoints",
                "results": self.results,
            }],
        }))
    }
}

fn location(source: &Source, label: &Label) -> Value {
    let mut location = json!({ "physicalLocation": { "artifactLocation": { "uri": uri(&source.name) } } });
    if !label.span.is_whole() {
        let span = clamp(label.span.range(), source);
        let (first, last) = (source.position(span.start), source.position(span.end));
        location["physicalLocation"]["region"] = json!({
            "startLine": first.0, "startColumn": first.1, "endLine": last.0, "endColumn": last.1,
        });
        if !label.message.is_empty() {
            location["message"] = json!({ "text": label.message });
        }
    }
    location
}

/// A path as the reference that the format asks for: what has a meaning there is written as a number.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::source::FileId;

    #[test]
    fn a_document_has_results_with_places_and_the_codes_that_they_are_of() {
        let mut sources = SourceMap::of("a b.mcl", "$x = 1\nä $y\n");
        let library = sources.add("lib.mcl", "$z");
        let diagnostic = Diagnostic::warning("not used")
            .with_code("M0001")
            .with_label(Label::secondary(FileId::FIRST.span(0..2), "defined"))
            .with_label(Label { span: FileId::FIRST.span(10..12), message: "here".into(), primary: true })
            .with_label(Label::secondary(library.span(0..2), ""))
            .hint("remove it");
        let mut sarif = Sarif::default();
        sarif.add(&diagnostic, &sources);
        sarif.add(&diagnostic, &sources);
        sarif.add(&Diagnostic::error("plain"), &sources);
        let document: Value = serde_json::from_str(&sarif.document("mgmt", "1.0")).unwrap();
        let run = &document["runs"][0];
        assert_eq!(
            run["tool"]["driver"],
            json!({ "name": "mgmt", "version": "1.0", "rules": [{ "id": "M0001" }] })
        );
        assert_eq!(run["results"].as_array().unwrap().len(), 3);
        let result = &run["results"][0];
        assert_eq!((&result["level"], &result["ruleId"]), (&json!("warning"), &json!("M0001")));
        assert_eq!(result["message"]["text"], "not used\nhint: remove it");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b.mcl");
        assert_eq!(
            place["region"],
            json!({ "startLine": 2, "startColumn": 3, "endLine": 2, "endColumn": 5 })
        );
        let related = result["relatedLocations"].as_array().unwrap();
        assert_eq!(related.len(), 2, "{related:?}");
        assert_eq!(related[0]["message"]["text"], "defined");
        assert_eq!(run["results"][2], json!({ "level": "error", "message": { "text": "plain" } }));
    }
}
