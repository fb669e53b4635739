//! What a resource is about, whatever it is called and whoever brings it about.

use mgmt_resource::{Resource, Spec};
use mgmt_value::Value;

use super::purging::{name, text};
use crate::catalogue::squeezed;

/// Our kind for the keys that let somebody in.
const SSH_KEY: &str = "ssh:authorized_key";

/// Puppet's types that are about the same objects as a kind of ours, and the providers of the types that are.
const KINDS: [(&str, &str, &[&str]); 7] = [
    ("group", "group", &["groupadd"]),
    ("host", "host", &["parsed"]),
    ("mount", "mount", &["parsed"]),
    ("package", "pkg", &["apt", "dnf", "yum", "zypper"]),
    ("service", "svc", &["systemd"]),
    ("ssh_authorized_key", SSH_KEY, &["parsed"]),
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
        let name = spelt(kind, parameter("name").map(str::to_owned).or_else(title)?);
        return Some((kind, of_user(kind, name, parameter("user").map(str::to_owned))));
    }
    let (_, kind, _) = KINDS.into_iter().find(|(_, kind, _)| *kind == spec.id.kind)?;
    let is_of_a_session = is_true(&*spec.resource, "session");
    let comment = text(&*spec.resource, "comment").filter(|text| kind == SSH_KEY && !text.is_empty());
    let name = spelt(kind, comment.unwrap_or_else(|| name(spec)));
    (!is_of_a_session).then(|| (kind, of_user(kind, name, text(&*spec.resource, "user"))))
}

/// The name of what each user has by itself.
fn of_user(kind: &str, name: String, user: Option<String>) -> String {
    match user.filter(|user| kind == SSH_KEY && !user.is_empty()) {
        Some(user) => format!("{name} of {user}"),
        None => name,
    }
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
