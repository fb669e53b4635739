//! `user` and `group`.

use mgmt_value::Str;

use super::rule::Rule;

pub(super) fn user(rule: &mut Rule<'_>) -> &'static str {
    rule.name = rule.declared.subject().into();
    rule.accept(&["name"]);
    rule.accept_if("provider", &["useradd"]);
    for membership in
        ["role_membership", "auth_membership", "profile_membership", "key_membership", "attribute_membership"]
    {
        rule.accept_if(membership, &["minimum"]);
    }
    if rule.declared.get("purge_ssh_keys").is_some() {
        // Puppet, which purges them, has to know which ones others manage.
        rule.needs_to_know(|declared| declared.kind == "Ssh_authorized_key");
    }
    rule.accept_if("purge_ssh_keys", &["false"]);
    rule.hide("password");
    rule.accept_if("forcelocal", &["false"]);
    let managehome = rule.truth("managehome") == Some(true);
    match rule.text("ensure").as_deref() {
        Some("present") => rule.set("state", Str::from("exists")),
        Some("absent") => {
            rule.set("state", Str::from("absent"));
            rule.set("removehome", managehome);
            // What it has when it is there makes no difference when it is not.
            rule.accept(&[
                "uid",
                "gid",
                "groups",
                "home",
                "shell",
                "comment",
                "password",
                "system",
                "allowdupe",
            ]);
            rule.accept(&["membership"]);
            return "user";
        }
        Some(other) => {
            let why = format!("`{other}` has no counterpart");
            rule.cannot("ensure", why);
        }
        None => rule.cannot("ensure", "is not given, and so it is changed only if it is there"),
    }
    rule.set("createhome", managehome);
    rule.set("movehome", managehome);
    if let Some(uid) = rule.integer("uid") {
        rule.set("uid", uid);
    }
    if let Some(gid) = rule.text("gid") {
        match gid.parse::<i64>() {
            Ok(number) => rule.set("gid", number),
            Err(_) => rule.set("group", Str::from(gid)),
        }
    }
    let inclusive = rule.text("membership").as_deref() == Some("inclusive");
    if let Some(groups) = rule.texts("groups") {
        let groups: Vec<Str> = groups.iter().flat_map(|groups| groups.split(',')).map(Str::from).collect();
        rule.set("groups", groups);
        rule.set("othergroups", !inclusive);
    }
    if let Some(home) = rule.text("home") {
        rule.set("homedir", Str::from(format!("{}/", home.trim_end_matches('/'))));
    }
    rule.carry("shell", "shell");
    rule.carry("comment", "comment");
    rule.carry("password", "password");
    if let Some(system) = rule.truth("system") {
        rule.set("system", system);
    }
    if let Some(allow) = rule.truth("allowdupe") {
        rule.set("allowduplicateuid", allow);
    }
    "user"
}

pub(super) fn group(rule: &mut Rule<'_>) -> &'static str {
    rule.name = rule.declared.subject().into();
    rule.accept(&["name"]);
    rule.accept_if("provider", &["groupadd"]);
    rule.accept_if("attribute_membership", &["minimum"]);
    rule.accept_if("forcelocal", &["false"]);
    match rule.text("ensure").as_deref() {
        Some("present") => rule.set("state", Str::from("exists")),
        Some("absent") => {
            rule.set("state", Str::from("absent"));
            rule.accept(&["gid", "system", "allowdupe", "members", "auth_membership"]);
            return "group";
        }
        Some(other) => {
            let why = format!("`{other}` has no counterpart");
            rule.cannot("ensure", why);
        }
        None => rule.cannot("ensure", "is not given, and so it is changed only if it is there"),
    }
    if let Some(gid) = rule.integer("gid") {
        rule.set("gid", gid);
    }
    if let Some(system) = rule.truth("system") {
        rule.set("system", system);
    }
    if let Some(allow) = rule.truth("allowdupe") {
        rule.set("allowduplicategid", allow);
    }
    let is_all = rule.truth("auth_membership") == Some(true);
    if let Some(members) = rule.texts("members") {
        let members = members.iter().flat_map(|members| members.split(',')).map(Str::from);
        rule.set("members", Some(members.collect::<Vec<_>>()));
        rule.set("othermembers", !is_all);
    }
    "group"
}
