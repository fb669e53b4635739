//! What Puppet has to know of besides a resource that is left to it.
//!
//! Some types look at the rest of the catalogue: what is a schedule, which files are managed below a directory, which entries
//! are not to be purged. Such a resource is given to Puppet together with what it may look at. What only has to be known
//! is not applied: of a file, its path goes along, and anything else goes along whole, as a schedule or a fragment does.

use std::collections::{BTreeMap, HashSet};

use mgmt_puppet_process::TypeFacts;
use serde_json::{Map, Value, json};

use super::RELATIVE;
use super::file::purges;
use super::rule::Around;
use crate::catalogue::{Catalogue, Declared, capitalised, squeezed};
use crate::data::Data;

/// Names of files that this program writes before it renames them.
const OUR_TEMPORARIES: &str = ".mgmt-*.tmp";

/// Types without any state of their own.
pub(super) const PASSIVE: [&str; 4] = ["Concat_fragment", "Filebucket", "Schedule", "Anchor"];

/// Types whose resources are no object that something else could remove.
const WITHOUT_OBJECT: [&str; 4] = ["Exec", "Notify", "Resources", "Tidy"];

/// Parameters of a file that tell which one it is.
const NAMING: [&str; 2] = ["path", "provider"];

/// Parameters that are not for what is only known: what they name need not be known as well.
const UNKNOWN_THERE: [&str; 3] = ["schedule", "audit", "tag"];

/// Parameters that name another resource, and its type.
pub(super) const NAMED: [(&str, &str); 2] = [("schedule", "Schedule"), ("backup", "Filebucket")];

/// The type of which a resource removes whatever is not managed, if it does.
fn purged_type(declared: &Declared) -> Option<String> {
    match declared.kind.as_str() {
        "Resources" if asks(declared, "purge") => Some(declared.subject().to_lowercase()),
        "User" if asks(declared, "purge_ssh_keys") => Some("ssh_authorized_key".to_owned()),
        _ => None,
    }
}

/// Whether a parameter is given, and not to say no.
pub(super) fn asks(declared: &Declared, name: &str) -> bool {
    let is_no = |value: &Data| matches!(value.text().as_deref(), Some("false" | "no"));
    declared.get(name).is_some_and(|value| !is_no(value))
}

/// What a resource without a rule may look at.
pub(super) fn of_unknown(
    declared: &Declared,
    catalogue: &Catalogue,
    types: &BTreeMap<String, TypeFacts>,
) -> Vec<usize> {
    let others = catalogue.resources.iter().enumerate();
    if declared.kind == "Resources" {
        let purged = capitalised(&declared.subject());
        return others.filter(|(_, other)| other.kind == purged).map(|(at, _)| at).collect();
    }
    if !types.get(&declared.type_name()).is_some_and(|facts| facts.generates) {
        return Vec::new();
    }
    // It may remove whatever the catalogue does not have, of any type.
    others
        .filter(|(_, other)| !other.is_container && !WITHOUT_OBJECT.contains(&other.kind.as_str()))
        .map(|(at, _)| at)
        .collect()
}

fn is_passive(declared: &Declared, types: &BTreeMap<String, TypeFacts>) -> bool {
    PASSIVE.contains(&declared.kind.as_str())
        || types.get(&declared.type_name()).is_some_and(|facts| facts.passive)
}

/// The context in the form in which Puppet gets it. Empty, there is none.
pub(super) fn text(
    declared: &Declared,
    context: &[usize],
    spared: &[String],
    named: &[(&str, &str)],
    around: &Around<'_>,
    types: &BTreeMap<String, TypeFacts>,
) -> String {
    let catalogue = around.catalogue;
    let named = named.iter().filter_map(|(parameter, kind)| {
        catalogue.named(kind, &declared.get(parameter).and_then(Data::text)?)
    });
    let mut positions: Vec<usize> = context.iter().copied().chain(named).collect();
    positions.sort_unstable();
    positions.dedup();
    let others = positions.into_iter().map(|at| &catalogue.resources[at]);
    let others: Vec<&Declared> =
        others.filter(|other| !(other.kind == declared.kind && other.title == declared.title)).collect();
    let mut known: HashSet<String> =
        others.iter().filter(|other| other.kind == "File").map(|other| squeezed(&other.subject())).collect();
    let mut list: Vec<Value> = others.iter().map(|other| entry(other, is_passive(other, types))).collect();
    if let Some(purged) = purged_type(declared) {
        list.extend(around.claims.generated.iter().filter(|other| other["type"] == purged.as_str()).cloned());
    }
    list.extend(spared.iter().filter(|path| known.insert(path.to_string())).map(|path| spared_path(path)));
    if list.is_empty() { String::new() } else { Value::Array(list).to_string() }
}

fn entry(declared: &Declared, passive: bool) -> Value {
    let raw = declared.raw.as_object().into_iter().flatten();
    let kept = raw.filter(|(name, _)| match declared.kind.as_str() {
        // Whatever else it has may need a resource of its own.
        "File" => NAMING.contains(&name.as_str()),
        // Only its type knows which parameters tell it from others, and which ones it cannot be without.
        _ => !RELATIVE.contains(&name.as_str()) && (passive || !UNKNOWN_THERE.contains(&name.as_str())),
    });
    let parameters: Map<String, Value> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    // What a directory brings along from elsewhere is only known where it is.
    let tree =
        declared.kind == "File" && declared.get("recurse").is_some() && declared.get("source").is_some();
    let mut entry = json!({
        "type": declared.type_name(),
        "title": declared.title,
        "parameters": parameters,
        "sensitive": declared.sensitive,
        "passive": passive,
    });
    if tree {
        entry["tree"] = Value::Bool(true);
    }
    entry
}

/// A path that Puppet must not remove, nor anything below it.
pub(crate) fn spared_path(path: &str) -> Value {
    json!({ "type": "file", "title": path, "parameters": {}, "sensitive": [], "passive": false, "tree": true })
}

/// The files that are just being written by this program are none of the unmanaged ones; and where something may be made of which nobody
/// knows, nothing is purged.
pub(super) fn spare_unknown(declared: &Declared, around: &Around<'_>, parameters: &mut Map<String, Value>) {
    if !purges(declared) {
        return;
    }
    if around.unknown_below(&squeezed(&declared.subject())).is_some() {
        parameters.remove("purge");
        return;
    }
    let given = parameters.remove("ignore");
    let mut ignored = match given {
        Some(Value::Array(list)) => list,
        Some(Value::Null) | None => Vec::new(),
        Some(one) => vec![one],
    };
    ignored.push(Value::from(OUR_TEMPORARIES));
    parameters.insert("ignore".to_owned(), Value::Array(ignored));
}
