//! `service` becomes `svc`.

use mgmt_value::Str;

use super::rule::Rule;

pub(super) fn service(rule: &mut Rule<'_>) -> &'static str {
    rule.name = rule.declared.subject().into();
    // systemd always knows whether a service runs.
    rule.accept(&["name", "hasrestart", "hasstatus", "pattern"]);
    rule.accept_if("provider", &["systemd"]);
    match rule.text("ensure").as_deref() {
        None => {}
        Some("running" | "true") => {
            rule.set("state", Str::from("running"));
            // To Puppet, a start that has succeeded is enough until the next run.
            if let Ok(interval @ 1..) = u32::try_from(rule.around.interval) {
                rule.set("restart_interval", interval);
            }
        }
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
