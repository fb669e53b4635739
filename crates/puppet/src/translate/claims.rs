//! Which paths the resources of a catalogue make or edit, so that nobody purges them.
//!
//! Puppet's own types say so, whatever their parameters are called. Where they could not be asked, every absolute path counts that a
//! resource names.

use std::collections::BTreeMap;

use mgmt_puppet_process::Compiled;
use serde_json::Value;

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
    /// Resources that may make files of which nobody knows before.
    pub(super) unknown: Vec<usize>,
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
            match compiled.generated.get(&declared.to_string()) {
                Some(Some(generated)) => paths.extend(generated.iter().cloned()),
                Some(None) => claims.unknown.push(at),
                None => {}
            }
            let mut paths: Vec<String> = paths.iter().map(|path| squeezed(path)).collect();
            paths.retain(|path| path.len() > 1);
            paths.sort_unstable();
            paths.dedup();
            claims.paths.push(paths);
        }
        claims
    }

    /// The paths of one resource, sorted.
    pub(super) fn of(&self, at: usize) -> &[String] {
        self.paths.get(at).map(Vec::as_slice).unwrap_or_default()
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
