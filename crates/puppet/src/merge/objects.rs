//! What a resource is about, whatever it is called and whoever brings it about.

use mgmt_resource::{Resource, Spec};
use mgmt_value::Value;

use super::purging::{name, text};
use crate::catalogue::squeezed;

/// Puppet's types that are about the same objects as a kind of ours, and the providers of the types that are.
const KINDS: [(&str, &str, &[&str]); 6] = [
    ("group", "group", &["groupadd"]),
    ("host", "host", &["parsed"]),
    ("mount", "mount", &["parsed"]),
    ("package", "pkg", &["apt", "dnf", "yum", "zypper"]),
    ("service", "svc", &["systemd"]),
    ("user", "user", &["useradd"]),
];

/// An account, a package or another object that only one resource can manage: its kind, and its name in one spelling.
pub(super) fn object(spec: &Spec) -> Option<(&'static str, String)> {
    if spec.id.kind == "pippet" {
        let parameters: serde_json::Value = serde_json::from_str(&text(&*spec.resource, "params")?).ok()?;
        let parameter = |name: &str| parameters.get(name).and_then(|value| value.as_str());
        let kind = text(&*spec.resource, "type")?;
        let (_, kind, providers) = KINDS.into_iter().find(|(found, ..)| *found == kind)?;
        if parameter("provider").is_some_and(|provider| !providers.contains(&provider)) {
            return None;
        }
        let title = || text(&*spec.resource, "title");
        return Some((kind, spelt(kind, parameter("name").map(str::to_owned).or_else(title)?)));
    }
    let (_, kind, _) = KINDS.into_iter().find(|(_, kind, _)| *kind == spec.id.kind)?;
    let is_of_a_session = is_true(&*spec.resource, "session");
    (!is_of_a_session).then(|| (kind, spelt(kind, name(spec))))
}

/// One spelling of a name.
fn spelt(kind: &str, name: String) -> String {
    match kind {
        "mount" => squeezed(&name),
        "svc" => name.strip_suffix(".service").map(str::to_owned).unwrap_or(name),
        _ => name,
    }
}

fn is_true(resource: &dyn Resource, field: &str) -> bool {
    resource.get(field) == Some(Value::Bool(true))
}
