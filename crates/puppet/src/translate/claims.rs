//! Which paths the resources of a catalogue make or edit, so that nobody purges them.
//!
//! Puppet's own types say so, whatever their parameters are called. Where they could not be asked, every absolute path counts that a
//! resource names.

use std::collections::BTreeMap;

use mgmt_puppet_process::Compiled;
use serde_json::Value;

use super::has_rule;
use crate::catalogue::{Catalogue, Declared, squeezed};

/// Parameters that name paths which are read or run.
const MENTIONED: [&str; 11] = [
    "source",
    "sources",
    "cwd",
    "command",
    "refresh",
    "onlyif",
    "unless",
    "content",
    "provider",
    "shell",
    "validate_cmd",
];

/// The paths of a catalogue by position.
#[derive(Debug, Default)]
pub(super) struct Claims {
    paths: Vec<Vec<String>>,
    /// Resources that may make files anywhere of which nobody knows before.
    unknown: Vec<usize>,
    /// Resources of types of modules, whose paths may stand for more below them.
    composing: Vec<usize>,
    /// Resources that others generate, in the form of a context.
    pub(super) generated: Vec<Value>,
}

impl Claims {
    pub(super) fn new(catalogue: &Catalogue, compiled: &Compiled) -> Claims {
        let mut claims = Claims::default();
        for (at, declared) in catalogue.resources.iter().enumerate() {
            let mut paths = match &compiled.paths {
                _ if declared.is_container => Vec::new(),
                Some(known) => known.get(&declared.to_string()).cloned().unwrap_or_default(),
                None => named(declared),
            };
            let generated = compiled.generated.get(&declared.to_string());
            if let Some(Some(generated)) = generated {
                paths.extend(generated.paths.iter().cloned());
                claims.generated.extend(generated.resources.iter().cloned());
            }
            let mut paths: Vec<String> = paths.iter().map(|path| squeezed(path)).collect();
            paths.retain(|path| path.len() > 1);
            paths.sort_unstable();
            paths.dedup();
            let facts = compiled.types.get(&declared.type_name());
            let is_composing = facts.is_some_and(|facts| !facts.passive) && !has_rule(declared);
            if generated == Some(&None) || (is_composing && paths.is_empty()) {
                claims.unknown.push(at);
            } else if is_composing {
                claims.composing.push(at);
            }
            claims.paths.push(paths);
        }
        claims
    }

    /// The paths of one resource, sorted.
    pub(super) fn of(&self, at: usize) -> &[String] {
        self.paths.get(at).map(Vec::as_slice).unwrap_or_default()
    }

    /// A resource that may make files below a directory of which nobody knows before: of one that names the directory, or one above it, only
    /// its Ruby knows what it composes of that and its other parameters.
    pub(super) fn unknown_below(&self, directory: &str) -> Option<usize> {
        let reaches = |path: &String| path == directory || is_below(directory, path);
        let mut composing = self.composing.iter().copied();
        let composing = composing.find(|at| self.of(*at).iter().any(reaches));
        self.unknown.first().copied().or(composing)
    }

    /// All paths below a directory with the resource that each belongs to.
    pub(super) fn below<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let all = self.paths.iter().enumerate();
        let all = all.flat_map(|(at, paths)| paths.iter().map(move |path| (at, path.as_str())));
        all.filter(move |(_, path)| is_below(path, directory))
    }
}

/// Whether a path lies below a directory.
pub(super) fn is_below(file: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    file.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
}

/// Every absolute path that a resource names and does not only read.
fn named(declared: &Declared) -> Vec<String> {
    let only: Option<&[&str]> = match declared.kind.as_str() {
        "File" | "Concat_file" => Some(&["path"]),
        "Exec" => Some(&["creates"]),
        "User" => Some(&["home"]),
        "Concat_fragment" | "Tidy" | "Package" | "Service" | "Group" | "Notify" | "Schedule"
        | "Resources" => Some(&[]),
        _ => None,
    };
    let mut paths = match declared.kind.as_str() {
        "Exec" | "Tidy" => Vec::new(),
        _ => vec![declared.subject()],
    };
    let raw: BTreeMap<&String, &Value> = declared.raw.as_object().into_iter().flatten().collect();
    for (name, value) in raw {
        let counts = only.map_or(!MENTIONED.contains(&name.as_str()), |only| only.contains(&name.as_str()));
        if counts {
            texts(value, &mut paths);
        }
    }
    if declared.kind == "User" && declared.get("home").is_none() {
        paths.push(format!("/home/{}", declared.subject()));
    }
    paths.retain(|path| path.starts_with('/') && !path.contains(['\n', '\0']));
    paths
}

fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| texts(value, into)),
        Value::Object(map) => map.values().for_each(|value| texts(value, into)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
