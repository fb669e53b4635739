//! What a manifest removes because nobody manages it must not be what the program manages.
//!
//! A resource of a manifest that purges has been told, when it was translated, what the manifest has. Beside a program it is told
//! of the program's resources as well, if it can be; otherwise the two cannot be one graph.

use std::collections::BTreeSet;
use std::sync::Arc;

use mgmt_resource::{Id, Origin, Resource, ResourceGraph, Spec};
use mgmt_value::{Native as _, Str, Value};
use serde_json::json;

use crate::catalogue::squeezed;
use crate::codes;
use crate::diagnostic::Diagnostic;
use crate::translate::{is_below, spared_path};

/// Puppet's types that can be purged, the kinds of ours that make the same, and whether Puppet knows those by their names.
const PURGED: [(&str, &str, bool); 8] = [
    ("user", "user", true),
    ("group", "group", true),
    ("host", "host", true),
    ("mount", "mount", true),
    ("package", "pkg", true),
    ("cron", "crontab", false),
    ("ssh_authorized_key", "ssh:authorized_key", false),
    ("sshkey", "ssh:known_host", false),
];

/// The resource of a manifest, as it has to be beside this program. Nothing if it is right as it is.
pub(super) enum Beside {
    /// As it is.
    Same,
    /// Knowing of more.
    Knowing(Spec),
    /// It would remove this resource of the program.
    Removes(Spec),
}

pub(super) fn beside(spec: &Spec, program: &ResourceGraph) -> Beside {
    let Some(purged) = purged_type(spec) else { return Beside::Same };
    if purged == "file" {
        return knowing(spec, claimed_paths(program).iter().map(|path| spared_path(path)).collect());
    }
    let Some((purged, kind, by_name)) = PURGED.into_iter().find(|(found, ..)| *found == purged) else {
        return Beside::Same;
    };
    let managed: Vec<&Spec> =
        program.nodes().map(|(_, spec)| spec).filter(|spec| spec.id.kind == kind).collect();
    match managed.first() {
        Some(first) if !by_name => Beside::Removes((*first).clone()),
        _ => knowing(spec, managed.into_iter().map(|spec| known(purged, &name(spec))).collect()),
    }
}

/// The type of which a resource that is left to Puppet removes whatever is not managed.
fn purged_type(spec: &Spec) -> Option<String> {
    if spec.id.kind != "pippet" {
        return None;
    }
    let parameters: serde_json::Value = serde_json::from_str(&text(&*spec.resource, "params")?).ok()?;
    let asks = |name: &str| {
        let value = parameters.get(name);
        value.is_some_and(|value| !matches!(value.as_str(), Some("false" | "no")) && *value != json!(false))
    };
    match text(&*spec.resource, "type")?.as_str() {
        "resources" if asks("purge") => {
            let name = parameters.get("name").and_then(|name| name.as_str().map(str::to_owned));
            name.or_else(|| text(&*spec.resource, "title")).map(|name| name.to_lowercase())
        }
        "user" if asks("purge_ssh_keys") => Some("ssh_authorized_key".to_owned()),
        "file" if asks("purge") => Some("file".to_owned()),
        "tidy" => Some("file".to_owned()),
        _ => None,
    }
}

/// The same resource, which knows of these, too.
fn knowing(spec: &Spec, others: Vec<serde_json::Value>) -> Beside {
    if others.is_empty() {
        return Beside::Same;
    }
    let context = text(&*spec.resource, "context").filter(|context| !context.is_empty());
    let mut list: Vec<serde_json::Value> =
        context.and_then(|context| serde_json::from_str(&context).ok()).unwrap_or_default();
    list.extend(others);
    Beside::Knowing(with_field(
        spec,
        "context",
        Str::from(serde_json::Value::Array(list).to_string()).to_value(),
    ))
}

fn with_field(spec: &Spec, field: &str, value: Value) -> Spec {
    let mut resource = spec.resource.boxed_clone();
    // The kind has the field, of this type.
    let _ = resource.set(field, &value);
    let mut spec = spec.clone();
    spec.resource = Arc::from(resource);
    spec
}

/// A resource that Puppet has to know of and does not apply.
fn known(kind: &str, title: &str) -> serde_json::Value {
    json!({ "type": kind, "title": title, "parameters": {}, "sensitive": [], "passive": false })
}

/// A resource of the program that purges or tidies, as it has to be beside a manifest with a resource that may make files below it of which nobody
/// knows before. Nothing if it may stay as it is.
pub(super) fn without_purge(spec: &Spec, manifest: &ResourceGraph) -> Option<(Spec, Diagnostic)> {
    let is_tidy = spec.id.kind == "tidy";
    if !is_tidy && (spec.id.kind != "file" || spec.resource.get("purge") != Some(Value::Bool(true))) {
        return None;
    }
    let path = text(&*spec.resource, "path").filter(|path| !path.is_empty());
    let directory = squeezed(&path.unwrap_or_else(|| spec.id.name.to_text().into_owned()));
    let (_, maker) = manifest.nodes().find(|(_, maker)| composes_below(maker, &directory))?;
    let place = |origin: Option<&Origin>| {
        origin.map_or_else(String::new, |Origin { file, line, .. }| format!(" ({file}:{line})"))
    };
    let message = format!(
        "{} of the program{} is not {}: {} of the manifest{} may make files below it that are not known before it is applied",
        spec.id,
        place(spec.origin.as_ref()),
        if is_tidy { "tidied" } else { "purged" },
        maker.id.name.display(),
        place(maker.origin.as_ref())
    );
    let found = Diagnostic::warning(message).with_code(codes::NOT_PURGED).at(spec.origin.clone());
    let without = match is_tidy {
        true => {
            // Whatever comes before or after it still does.
            let (_, marker) = manifest.nodes().find(|(_, spec)| spec.id.kind == "noop")?;
            let mut without = spec.clone();
            without.id = Id::new("noop", Str::from(spec.id.to_string()));
            without.resource = Arc::clone(&marker.resource);
            without
        }
        false => with_field(spec, "purge", false.to_value()),
    };
    Some((without, found.hint("manage the directory without `purge`, or declare what is made there")))
}

/// Whether a resource that is left to Puppet may make files below a directory that it does not name.
fn composes_below(maker: &Spec, directory: &str) -> bool {
    if maker.id.kind != "pippet" || maker.resource.get("composes") != Some(Value::Bool(true)) {
        return false;
    }
    let paths = maker.resource.claimed_paths(&maker.id.name);
    let paths: Vec<String> = paths.iter().map(|path| path.to_text().into_owned()).collect();
    let reaches = |path: &String| path == directory || is_below(directory, path);
    paths.is_empty() || paths.iter().filter(|path| !path.ends_with('*')).any(reaches)
}

/// Every path that the program makes, edits or reads.
fn claimed_paths(program: &ResourceGraph) -> BTreeSet<String> {
    let paths = program.nodes().flat_map(|(_, spec)| spec.resource.claimed_paths(&spec.id.name));
    let paths = paths.map(|path| path.to_text().trim_end_matches('/').to_owned());
    paths.filter(|path| path.len() > 1 && path.starts_with('/')).collect()
}

/// What Puppet knows a resource of ours by.
pub(super) fn name(spec: &Spec) -> String {
    let hostname = text(&*spec.resource, "hostname").filter(|name| !name.is_empty());
    hostname.unwrap_or_else(|| spec.id.name.to_text().into_owned())
}

pub(super) fn text(resource: &dyn Resource, field: &str) -> Option<String> {
    match resource.get(field)? {
        Value::Str(text) => Some(text.to_text().into_owned()),
        _ => None,
    }
}
