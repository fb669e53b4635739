//! Which paths the resources of a catalogue make or edit, so that nobody purges them.
//!
//! Puppet's own types say so, whatever their parameters are called. Where they could not be asked, every absolute path counts that a
//! resource names.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use mgmt_puppet_process::Compiled;
use serde_json::Value;

use super::has_rule;
use crate::automatic::link_target;
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

/// How many links a path may lead through, one after the other.
const MAX_LINKS: usize = 8;

/// What a path ends in that stands for all paths that begin like it.
const ANY_ENDING: char = '*';

/// The paths of a catalogue by position.
#[derive(Debug, Default)]
pub(super) struct Claims {
    paths: Vec<Vec<String>>,
    /// Resources that may make files anywhere of which nobody knows before.
    unknown: Vec<usize>,
    /// Resources of types of modules, whose paths may stand for more below them.
    composing: Vec<usize>,
    /// Resources that make others, of which nobody has asked: nothing in the catalogue purges, but a program beside it may.
    unasked: Vec<usize>,
    /// Symbolic links of the catalogue, and where they lead.
    links: BTreeMap<String, String>,
    /// Resources that others generate, in the form of a context.
    pub(super) generated: Vec<Value>,
}

impl Claims {
    pub(super) fn new(catalogue: &Catalogue, compiled: &Compiled) -> Claims {
        let mut claims = Claims::default();
        for (at, declared) in catalogue.resources.iter().enumerate() {
            let mut paths = match &compiled.paths {
                _ if declared.is_container => Vec::new(),
                Some(known) => known.get(&declared.to_string()).cloned().unwrap_or_else(|| named(declared)),
                None => named(declared),
            };
            let generated = compiled.generated.get(&declared.to_string());
            let facts = compiled.types.get(&declared.type_name());
            if generated.is_none() && !has_rule(declared) && facts.is_some_and(|facts| facts.generates) {
                claims.unasked.push(at);
            }
            if let Some(Some(generated)) = generated {
                paths.extend(generated.paths.iter().cloned());
                claims.generated.extend(generated.resources.iter().cloned());
            }
            let mut paths: Vec<String> = paths.iter().map(|path| squeezed(path)).collect();
            let cleaned: Vec<String> = paths.iter().filter_map(|path| without_dots(path)).collect();
            paths.extend(cleaned);
            paths.retain(|path| path.len() > 1);
            paths.sort_unstable();
            paths.dedup();
            let is_composing = facts.is_some_and(|facts| !facts.passive) && !has_rule(declared);
            // What names no path and has no Ruby that writes files makes none.
            let is_silent = facts.is_some_and(|facts| facts.silent) && paths.is_empty();
            if generated == Some(&None) || (is_composing && paths.is_empty() && !is_silent) {
                claims.unknown.push(at);
            } else if is_composing && !is_silent {
                claims.composing.push(at);
                // It may add an ending: of `x`, a pair of keys is `x.key` and `x.crt`.
                let beginnings: Vec<String> =
                    paths.iter().map(|path| format!("{path}{ANY_ENDING}")).collect();
                paths.extend(beginnings);
            }
            if declared.kind == "File"
                && let Some(target) = link_target(declared)
            {
                let link = squeezed(&declared.subject());
                let target = led_to(&link, &target);
                claims.links.insert(link, target);
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
        let reaches =
            |path: &String| !path.ends_with(ANY_ENDING) && (path == directory || is_below(directory, path));
        let mut composing = self.composing.iter().copied();
        let composing = composing.find(|at| self.of(*at).iter().any(reaches));
        self.unknown.first().copied().or(composing)
    }

    /// Whether a resource may make files of which nobody knows before.
    pub(super) fn composes(&self, at: usize) -> bool {
        self.is_unknown(at) || self.is_composing(at)
    }

    /// Whether it may make them anywhere.
    pub(super) fn is_unknown(&self, at: usize) -> bool {
        self.unknown.contains(&at) || self.unasked.contains(&at)
    }

    /// Whether it may make them below its paths.
    pub(super) fn is_composing(&self, at: usize) -> bool {
        self.composing.contains(&at)
    }

    /// Paths that are not written as if they lay below a directory, and may do so nevertheless: a symbolic link of this host or of the catalogue
    /// is on the way to them, or to the directory.
    pub(super) fn led_below(&self, directory: &str) -> Vec<&str> {
        let mut known = HashMap::new();
        let is_led = self.is_led(directory, &mut known) || self.is_link(directory);
        let all = self.paths.iter().flatten().map(String::as_str);
        let others = all.filter(|path| *path != directory && !is_below(path, directory));
        others.filter(|path| is_led || self.is_led(path, &mut known)).collect()
    }

    /// Whether a link is on the way to a path.
    fn is_led<'a>(&self, path: &'a str, known: &mut HashMap<&'a str, bool>) -> bool {
        let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) else {
            return false;
        };
        if let Some(&is_led) = known.get(parent) {
            return is_led;
        }
        let is_led = self.is_link(parent) || self.is_led(parent, known);
        known.insert(parent, is_led);
        is_led
    }

    fn is_link(&self, path: &str) -> bool {
        self.links.contains_key(path) || Path::new(path).is_symlink()
    }

    /// Where paths are below a directory once the links of the catalogue lead where they are declared to lead. On this host they may still
    /// lead elsewhere, or not be there.
    pub(super) fn linked_below(&self, directory: &str) -> Vec<String> {
        let through = |path: &str| {
            let links = self.links.iter().filter(|(link, _)| is_below(path, link));
            // The innermost link that is on the way.
            let (link, target) = links.max_by_key(|(link, _)| link.len())?;
            Some(squeezed(&format!("{target}/{}", &path[link.len()..])))
        };
        let mut found = Vec::new();
        for path in self.paths.iter().flatten() {
            let mut place = path.clone();
            for _ in 0..MAX_LINKS {
                let Some(next) = through(&place) else { break };
                place = next;
                found.extend(Some(&place).filter(|place| is_below(place, directory)).cloned());
            }
        }
        found
    }

    /// All paths below a directory with the resource that each belongs to.
    pub(super) fn below<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let all = self.paths.iter().enumerate();
        let all = all.flat_map(|(at, paths)| paths.iter().map(move |path| (at, path.as_str())));
        all.filter(move |(_, path)| is_below(path, directory))
    }
}

/// What a path with `.` or `..` in it is by its letters.
fn without_dots(path: &str) -> Option<String> {
    let has_dots = path.split('/').any(|part| matches!(part, "." | ".."));
    has_dots.then(|| cleaned(path))
}

fn cleaned(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Where a link leads, by the letters of its text.
fn led_to(link: &str, target: &str) -> String {
    match (target.starts_with('/'), link.rsplit_once('/')) {
        (false, Some((directory, _))) => cleaned(&format!("{directory}/{target}")),
        _ => cleaned(target),
    }
}

/// Whether a path lies below a directory.
pub(crate) fn is_below(file: &str, directory: &str) -> bool {
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
