//! `service` becomes `svc`.

use mgmt_value::Str;

use super::rule::Rule;

pub(super) fn service(rule: &mut Rule<'_>) -> &'static str {
    rule.name = rule.declared.subject().into();
    rule.accept(&["name", "hasrestart", "pattern"]);
    rule.accept_if("provider", &["systemd"]);
    // Otherwise it is looked for in the list of all processes.
    rule.accept_if("hasstatus", &["true"]);
    match rule.text("ensure").as_deref() {
        None => {}
        Some("running" | "true") => rule.set("state", Str::from("running")),
        Some("stopped" | "false") => rule.set("state", Str::from("stopped")),
        Some(other) => {
            let why = format!("`{other}` has no counterpart");
            rule.cannot("ensure", why);
        }
    }
    match rule.text("enable").as_deref() {
        None => {}
        Some("true") => rule.set("startup", Str::from("enabled")),
        Some("false") => rule.set("startup", Str::from("disabled")),
        Some("mask") => rule.set("startup", Str::from("masked")),
        Some(other) => {
            let why = format!("`{other}` has no counterpart");
            rule.cannot("enable", why);
        }
    }
    // Who is notified by Puppet is restarted, even if it could be reloaded.
    rule.set("restart", true);
    // It also unmasks what it is to start or enable.
    rule.set("unmask", true);
    "svc"
}
