//! Types that need a few lines each.

use mgmt_value::Str;

use super::rule::Rule;
use crate::data::Data;

/// `notify` becomes `msg`. Puppet says it at every run, and we say it once.
pub(super) fn notify(rule: &mut Rule<'_>) -> &'static str {
    rule.accept(&["name", "withpath"]);
    let message = rule.text("message").unwrap_or_else(|| rule.declared.subject());
    rule.set("body", Str::from(message));
    let level = rule.declared.get("loglevel").and_then(Data::text).unwrap_or_else(|| "notice".to_owned());
    let priority = match level.as_str() {
        "debug" => "Debug",
        "info" | "verbose" => "Info",
        "warning" => "Warning",
        "err" => "Err",
        "alert" => "Alert",
        "emerg" => "Emerg",
        "crit" => "Crit",
        _ => "Notice",
    };
    rule.set("priority", Str::from(priority));
    "msg"
}

/// `host` becomes `host`.
pub(super) fn host(rule: &mut Rule<'_>) -> &'static str {
    rule.accept(&["name"]);
    rule.accept_if("provider", &["parsed"]);
    rule.set("hostname", Str::from(rule.declared.subject()));
    state(rule, "present");
    rule.carry("ip", "ip");
    if let Some(aliases) = rule.texts("host_aliases") {
        rule.set("aliases", aliases.into_iter().map(Str::from).collect::<Vec<_>>());
    }
    rule.carry("comment", "comment");
    rule.carry("target", "file");
    "host"
}

/// `exists` or `absent`. `usual` is what it is if nobody says so.
pub(super) fn state(rule: &mut Rule<'_>, usual: &str) {
    match rule.text("ensure").as_deref().unwrap_or(usual) {
        "present" => rule.set("state", Str::from("exists")),
        "absent" => rule.set("state", Str::from("absent")),
        other => {
            let why = format!("`{other}` has no counterpart");
            rule.cannot("ensure", why);
        }
    }
}

/// `mount` becomes `mount`.
pub(super) fn mount(rule: &mut Rule<'_>) -> &'static str {
    rule.name = rule.declared.subject().into();
    rule.accept(&["name"]);
    rule.accept_if("provider", &["parsed"]);
    rule.accept_if("target", &["/etc/fstab"]);
    rule.accept_if("remounts", &["true"]);
    match rule.text("ensure").as_deref() {
        Some("mounted") => rule.set("state", Str::from("exists")),
        Some("absent") => rule.set("state", Str::from("absent")),
        Some("unmounted") => rule.set("state", Str::from("unmounted")),
        Some("present" | "defined") => rule.set("state", Str::from("defined")),
        Some(other) => {
            let why = format!("`{other}` has no counterpart");
            rule.cannot("ensure", why);
        }
        None => rule.cannot("ensure", "is not given, and so it is changed only if it is there"),
    }
    rule.carry("device", "device");
    rule.carry("fstype", "type");
    // The text as it is: the order of options may matter, and so may whatever follows a second `=`.
    rule.carry("options", "optionstext");
    for (parameter, field) in [("dump", "freq"), ("pass", "passno")] {
        if let Some(number) = rule.integer(parameter) {
            rule.set(field, number);
        }
    }
    "mount"
}

/// `ssh_authorized_key` becomes `ssh:authorized_key`.
pub(super) fn ssh_authorized_key(rule: &mut Rule<'_>) -> &'static str {
    rule.accept(&["name"]);
    if rule.truth("drop_privileges") == Some(false) {
        rule.note(
            "drop_privileges",
            "makes no difference here: what lies on the way to the file is never followed blindly",
        );
    }
    rule.accept_if("provider", &["parsed"]);
    state(rule, "present");
    if let Some(kind) = rule.text("type") {
        rule.set("type", Str::from(key_type(&kind)));
    }
    rule.carry("key", "key");
    rule.carry("user", "user");
    rule.carry("target", "file");
    if let Some(options) = rule.texts("options") {
        rule.set(
            "options",
            options.into_iter().filter(|option| option != "absent").map(Str::from).collect::<Vec<_>>(),
        );
    }
    // Puppet knows the key by what stands behind it.
    rule.set("comment", Str::from(rule.declared.subject()));
    "ssh:authorized_key"
}

/// `sshkey` becomes `ssh:known_host`.
pub(super) fn sshkey(rule: &mut Rule<'_>) -> &'static str {
    rule.accept_if("provider", &["parsed"]);
    state(rule, "present");
    // The title may have the type behind the name.
    let title = rule.declared.title.clone();
    let (name, kind) = match title.split_once('@') {
        Some((name, kind)) => (name.to_owned(), Some(kind.to_owned())),
        None => (title, None),
    };
    let name = rule.text("name").unwrap_or(name);
    match rule.text("type").or(kind) {
        Some(kind) => rule.set("type", Str::from(key_type(&kind))),
        None => rule.cannot("type", "is not given"),
    }
    rule.set("hostname", Str::from(name));
    rule.carry("key", "key");
    rule.carry("target", "file");
    if let Some(aliases) = rule.texts("host_aliases") {
        rule.set("aliases", aliases.into_iter().map(Str::from).collect::<Vec<_>>());
    }
    "ssh:known_host"
}

/// Types of keys have short names, too.
fn key_type(kind: &str) -> &str {
    match kind {
        "rsa" => "ssh-rsa",
        "dsa" | "dss" => "ssh-dss",
        "ed25519" => "ssh-ed25519",
        "ecdsa-sk" => "sk-ecdsa-sha2-nistp256@openssh.com",
        "ed25519-sk" => "sk-ssh-ed25519@openssh.com",
        other => other,
    }
}

/// What is in the order of things and nothing else.
pub(super) fn passive(rule: &mut Rule<'_>) -> &'static str {
    let names: Vec<&str> = rule.declared.parameters.iter().map(|(name, _)| name.as_str()).collect();
    rule.accept(&names);
    // Nothing of it is in our resource.
    rule.hide_all(&names);
    // Of all of these, only an anchor takes notice of a notification, and hands it on.
    rule.set("forward", rule.declared.kind == "Anchor");
    rule.meta.autogroup = false;
    rule.name = Str::from(rule.declared.to_string());
    "noop"
}
