//! Resources that would undo each other: one has the whole content of a file, another one edits a part of it.

use std::collections::{HashMap, HashSet};

use mgmt_resource::{Origin, Resource, ResourceGraph, Spec};
use mgmt_value::{Native as _, Str, Value};

use crate::catalogue::squeezed;
use crate::codes;
use crate::diagnostic::Diagnostic;

/// The most conflicts that are told of one graph.
const MAX_TOLD: usize = 20;

/// Kinds that edit a part of a file.
const EDITORS: [&str; 9] = [
    "augeas",
    "crontab",
    "host",
    "ini",
    "json:edit",
    "line",
    "mount",
    "ssh:authorized_key",
    "ssh:known_host",
];

/// Types of Puppet that do.
const EDITING_TYPES: [&str; 8] =
    ["augeas", "host", "mailalias", "mount", "shellvar", "ssh_authorized_key", "sshkey", "yaml_setting"];

/// Types of Puppet whose paths are files of their own, or none that they write to.
const OTHER_TYPES: [&str; 9] =
    ["concat_file", "exec", "file", "filebucket", "resources", "schedule", "service", "tidy", "user"];

/// What the resources of a graph do with files.
#[derive(Default)]
pub(crate) struct Writers<'a> {
    whole: HashMap<String, &'a Spec>,
    parts: Vec<(String, &'a Spec)>,
}

impl<'a> Writers<'a> {
    pub(crate) fn of(graph: &'a ResourceGraph) -> Writers<'a> {
        let mut writers = Writers::default();
        for (_, spec) in graph.nodes().filter(|(_, spec)| !spec.meta.hidden) {
            if let Some(path) = file_path(spec).filter(|_| has_content(spec)) {
                writers.whole.insert(path, spec);
            } else if may_edit(spec) {
                let paths = spec.resource.claimed_paths(&spec.id.name);
                let paths =
                    paths.iter().map(|path| squeezed(&path.to_text())).filter(|path| !path.ends_with('*'));
                writers.parts.extend(paths.map(|path| (path, spec)));
            }
        }
        writers
    }

    /// Where these edit what others have the whole content of.
    pub(crate) fn against(&self, others: &Writers<'_>) -> Vec<Diagnostic> {
        // What lies below a file, in a tree of Augeas for example, is a part of the file.
        let whole = |path: &str| {
            let mut place = path;
            loop {
                if let Some((path, whole)) = others.whole.get_key_value(place) {
                    return Some((path.clone(), *whole));
                }
                place = place.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.is_empty())?;
            }
        };
        let pairs = self.parts.iter().filter_map(|(path, part)| {
            let (path, whole) = whole(path)?;
            (part.id != whole.id).then_some((path, *part, whole))
        });
        let mut told = HashSet::new();
        let pairs = pairs.filter(|(path, part, _)| told.insert((path.clone(), part.id.clone())));
        pairs.take(MAX_TOLD).map(|(path, part, whole)| conflict(&path, part, whole)).collect()
    }
}

fn conflict(path: &str, part: &Spec, whole: &Spec) -> Diagnostic {
    let place = |origin: Option<&Origin>| {
        origin.map_or_else(String::new, |Origin { file, line, .. }| format!(" ({file}:{line})"))
    };
    let (does, so) = match is_editor(part) {
        true => ("edits", "each undoes what the other one does"),
        false => ("may write", "then each undoes what the other one does"),
    };
    let message = format!(
        "{}{} {does} {path}, and {}{} has its whole content: {so}",
        part.id,
        place(part.origin.as_ref()),
        whole.id,
        place(whole.origin.as_ref())
    );
    Diagnostic::warning(message)
        .with_code(codes::CONFLICT)
        .at(part.origin.clone())
        .hint("put the edit into the content, or declare the file without `content` and `source`")
}

/// The path of a file, if that is what a resource is.
pub(crate) fn file_path(spec: &Spec) -> Option<String> {
    let is_file = match spec.id.kind {
        "file" => true,
        "pippet" => matches!(text(&*spec.resource, "type")?.as_str(), "file" | "concat_file"),
        _ => false,
    };
    let path = spec.resource.claimed_paths(&spec.id.name).into_iter().next().filter(|_| is_file)?;
    Some(squeezed(&path.to_text())).filter(|path| path.len() > 1)
}

/// The path of a file that a kind of ours makes of others.
pub(crate) fn derived_path(spec: &Spec) -> Option<String> {
    let is_derived = matches!(spec.id.kind, "gzip" | "tar" | "deploy:tar");
    let path = text(&*spec.resource, "path").filter(|path| !path.is_empty());
    let path = path.unwrap_or_else(|| spec.id.name.to_text().into_owned());
    is_derived.then(|| squeezed(&path))
}

/// Whether a file has content of its own, at all times.
pub(crate) fn has_content(spec: &Spec) -> bool {
    let resource = &*spec.resource;
    if spec.id.kind == "file" {
        let is = |field: &str| resource.get(field) == Some(Value::Bool(true));
        let has_source =
            text(resource, "source").is_some_and(|source| !source.is_empty() && !source.ends_with('/'));
        let fragments = resource.get("fragments").and_then(|list| Vec::<Str>::from_value(&list).ok());
        let has_fragments = fragments.is_some_and(|list| !list.is_empty());
        let has_content = text(resource, "content").is_some();
        return !is("symlink") && !is("createonly") && (has_content || has_source || has_fragments);
    }
    let parameters = text(resource, "params").and_then(|text| serde_json::from_str(&text).ok());
    let parameters: serde_json::Value = parameters.unwrap_or_default();
    let word = |name: &str| match &parameters[name] {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    };
    let is_regular = matches!(word("ensure").as_str(), "" | "file" | "present" | "true");
    let is_whole = text(resource, "type").as_deref() == Some("concat_file")
        || !word("content").is_empty()
        || (!word("source").is_empty() && word("recurse").is_empty());
    is_regular && is_whole && word("replace") != "false"
}

/// Whether a resource writes to the paths that it claims. Of a type of a module, that is not known.
fn may_edit(spec: &Spec) -> bool {
    let kind = text(&*spec.resource, "type").unwrap_or_default();
    is_editor(spec) || (spec.id.kind == "pippet" && !OTHER_TYPES.contains(&kind.as_str()))
}

fn is_editor(spec: &Spec) -> bool {
    if spec.id.kind != "pippet" {
        return EDITORS.contains(&spec.id.kind);
    }
    let kind = text(&*spec.resource, "type").unwrap_or_default();
    EDITING_TYPES.contains(&kind.as_str())
        || ["_line", "_setting", "_subsetting"].iter().any(|end| kind.ends_with(end))
}

fn text(resource: &dyn Resource, field: &str) -> Option<String> {
    match resource.get(field)? {
        Value::Str(text) => Some(text.to_text().into_owned()),
        _ => None,
    }
}
