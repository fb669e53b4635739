//! Diagnostics as SARIF 2.1.0, which forges and editors read.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Value, json};

use crate::diagnostic::within;
use crate::{Diagnostic, Label, Lines, Source, json_line};

/// A document under way.
#[derive(Clone, Debug, Default)]
pub struct Sarif {
    results: Vec<Value>,
    codes: BTreeSet<String>,
}

impl Sarif {
    /// One more result.
    pub fn add<'a>(&mut self, diagnostic: &Diagnostic<'a>, lines: &mut Lines<'a>) {
        let mut text = diagnostic.message.clone().into_owned();
        for hint in &diagnostic.hints {
            text += &format!("\nhint: {hint}");
        }
        let mut result = json!({ "level": diagnostic.severity.word(), "message": { "text": text } });
        if let Some(code) = &diagnostic.code {
            self.codes.insert(code.to_string());
            result["ruleId"] = json!(code);
        }
        if let Some(source) = &diagnostic.source {
            let main = diagnostic.main_label();
            result["locations"] = json!([location(source, main, lines)]);
            let rest =
                diagnostic.labels.iter().filter(|label| !main.is_some_and(|main| std::ptr::eq(main, *label)));
            let rest = rest.map(|label| (source, label));
            let elsewhere = diagnostic.elsewhere.iter().map(|(source, label)| (source, label));
            let related: Vec<Value> =
                rest.chain(elsewhere).map(|(source, label)| location(source, Some(label), lines)).collect();
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

fn location<'a>(source: &Source<'a>, label: Option<&Label<'_>>, lines: &mut Lines<'a>) -> Value {
    let mut location = json!({ "physicalLocation": { "artifactLocation": { "uri": uri(source.name) } } });
    if let Some(label) = label {
        let Range { start, end } = within(&label.span, source.text);
        let indexed = lines.of(source);
        let (first, last) = (indexed.position(start), indexed.position(end));
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
    use crate::Severity;

    #[test]
    fn a_document_has_results_with_places_and_the_codes_that_they_are_of() {
        let source = Source { name: "a b.mcl", text: "$x = 1\nä $y\n" };
        let label = |span, message: &'static str, primary| Label { span, message: message.into(), primary };
        let diagnostic = Diagnostic {
            severity: Severity::Warning,
            code: Some("M0001".into()),
            message: "not used".into(),
            source: Some(source),
            labels: vec![label(0..2, "defined", false), label(10..12, "here", true)],
            elsewhere: vec![(Source { name: "lib.mcl", text: "$z" }, label(0..2, "", false))],
            hints: vec!["remove it".into()],
        };
        let mut sarif = Sarif::default();
        sarif.add(&diagnostic, &mut Lines::default());
        sarif.add(&diagnostic, &mut Lines::default());
        sarif.add(&Diagnostic { message: "plain".into(), ..Diagnostic::default() }, &mut Lines::default());
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
