//! `package` becomes `pkg`.

use mgmt_value::Str;

use super::rule::Rule;

/// The package managers that our own kind speaks to.
const PROVIDERS: [&str; 4] = ["apt", "dnf", "yum", "zypper"];

pub(super) fn package(rule: &mut Rule<'_>) -> &'static str {
    rule.name = rule.declared.subject().into();
    rule.accept(&["name"]);
    if rule.truth("allow_virtual") == Some(false) {
        rule.note(
            "allow_virtual",
            "does not keep a package that only provides the name from being installed here",
        );
    }
    rule.accept_if("provider", &PROVIDERS);
    rule.accept_if("configfiles", &["keep"]);
    rule.accept_if("reinstall_on_refresh", &["false"]);
    match rule.text("mark").as_deref() {
        None => {}
        Some("hold") => rule.set("hold", Some(true)),
        Some("none") => rule.set("hold", Some(false)),
        Some(_) => rule.cannot("mark", "is neither `hold` nor `none`"),
    }
    let ensure = rule.text("ensure").unwrap_or_else(|| "present".to_owned());
    let state = match ensure.as_str() {
        "present" | "installed" => "installed",
        "latest" => "newest",
        "absent" => "uninstalled",
        "purged" => "purged",
        "held" => {
            rule.set("hold", Some(true));
            "installed"
        }
        "disabled" => {
            rule.cannot("ensure", "`disabled` has no counterpart");
            "installed"
        }
        version if version.contains(['*', '<', '>', '=', ' ']) => {
            rule.cannot("ensure", "is a range of versions");
            "installed"
        }
        version => {
            rule.set("allowdowngrade", true);
            version
        }
    };
    rule.set("state", Str::from(state));
    "pkg"
}
