//! `file` becomes `file`.

use std::os::unix::fs::PermissionsExt as _;

use mgmt_value::Str;

use super::rule::Rule;
use crate::automatic::link_target;
use crate::catalogue::squeezed;
use crate::data::Data;

/// Files up to this size are read once and for all if they cannot be copied as they are.
const LARGEST: u64 = 1 << 20;

/// The mode of files that Puppet makes and nobody gives a mode.
const USUAL: u32 = 0o644;

pub(super) fn file(rule: &mut Rule<'_>) -> &'static str {
    let path = squeezed(&rule.declared.subject());
    rule.accept(&[
        "path",
        "target",
        "provider",
        "show_diff",
        "validate_replacement",
        "staging_location",
        "max_files",
    ]);
    rule.accept_if("links", &["manage"]);
    rule.accept_if("source_permissions", &["ignore"]);
    rule.accept_if("sourceselect", &["first"]);
    rule.accept_if(
        "checksum",
        &["md5", "md5lite", "sha1", "sha1lite", "sha224", "sha256", "sha256lite", "sha384", "sha512"],
    );
    rule.accept_if("replace", &["true", "yes"]);
    rule.accept_if("backup", &["false"]);
    rule.accept_if("selinux_ignore_defaults", &["false"]);
    let ensure = rule.text("ensure");
    let has_content = rule.declared.get("content").is_some() || rule.declared.get("source").is_some();
    match ensure.as_deref() {
        Some("absent") => absent(rule, path),
        Some("directory") => directory(rule, path),
        Some("file" | "present") => {
            rule.set("path", Str::from(path));
            rule.set("state", Str::from("exists"));
            content(rule);
            attributes(rule, false);
        }
        None if has_content => {
            rule.set("path", Str::from(path));
            rule.set("state", Str::from("exists"));
            content(rule);
            attributes(rule, false);
        }
        None => rule.cannot("ensure", "is not given, and so it may be a file or a directory"),
        Some(_) => link(rule, path),
    }
    "file"
}

fn absent(rule: &mut Rule<'_>, path: String) {
    // What a path has when it is there makes no difference when it is not.
    rule.accept(&["owner", "group", "mode", "content", "source", "purge", "recurse"]);
    rule.accept_if("force", &["false", "no"]);
    rule.set("path", Str::from(path));
    rule.set("state", Str::from("absent"));
}

fn link(rule: &mut Rule<'_>, path: String) {
    rule.set("path", Str::from(path));
    rule.set("state", Str::from("exists"));
    rule.set("symlink", true);
    match link_target(rule.declared) {
        Some(target) => rule.set("source", Str::from(target)),
        None => rule.cannot("target", "is not given"),
    }
    if rule.truth("force") == Some(true) {
        rule.set("force", true);
    }
    // A link has no mode of its own.
    rule.accept(&["mode"]);
    ownership(rule);
}

fn directory(rule: &mut Rule<'_>, path: String) {
    let recurse = match rule.text("recurse").as_deref() {
        None | Some("false" | "no") => false,
        Some("true" | "yes" | "inf") => true,
        // Files below the path are made from those of the source, and others are left alone.
        Some("remote") if rule.declared.get("source").is_some() => true,
        Some(other) => {
            rule.cannot("recurse", format!("`{other}` has no counterpart"));
            false
        }
    };
    let purge = rule.truth("purge") == Some(true);
    let force = rule.truth("force") == Some(true);
    let has_source = rule.declared.get("source").is_some();
    let has_attributes = ["owner", "group", "mode"].iter().any(|name| rule.declared.get(name).is_some());
    if recurse && purge {
        // Alone, Puppet would know of nothing that is managed, and remove it all.
        rule.needs_everything();
        if !force {
            let why = "would remove directories here, which it does in Puppet only with `force => true`";
            rule.cannot("purge", why);
        }
    } else if recurse && manages_below(rule, &path) {
        // Alone, Puppet would take what others manage below for its own.
        rule.needs_everything();
    }
    if recurse && has_source {
        rule.accept(&["source"]);
        rule.cannot("source", "gives copies the usual mode, and not that of what they are copied from");
    } else if recurse && has_attributes && !purge {
        rule.cannot("recurse", "gives everything below the owner, group and mode of the directory");
    } else if has_source {
        rule.accept(&["source"]);
    }
    if recurse && purge {
        rule.set("recurse", true);
        rule.set("purge", purge);
    }
    if force {
        rule.set("force", true);
    }
    rule.set("path", Str::from(if path == "/" { path } else { format!("{path}/") }));
    rule.set("state", Str::from("exists"));
    attributes(rule, true);
}

/// Whether another file of the catalogue is below a directory.
fn manages_below(rule: &Rule<'_>, path: &str) -> bool {
    let files = rule.around.catalogue.resources.iter().filter(|declared| declared.kind == "File");
    files
        .map(|declared| squeezed(&declared.subject()))
        .any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1))
}

fn content(rule: &mut Rule<'_>) {
    rule.accept_if("purge", &["false", "no"]);
    rule.accept_if("recurse", &["false", "no"]);
    if rule.truth("force") == Some(true) {
        rule.set("force", true);
    }
    if let Some(content) = rule.take("content") {
        match content.bytes() {
            Some(bytes) => rule.set("content", Str::from(bytes)),
            None => rule.cannot("content", "is not a text"),
        }
        return;
    }
    let Some(sources) = rule.texts("source") else { return };
    let paths: Vec<_> = sources.iter().map(|source| rule.local_source(source)).collect();
    // The first that exists; and if none does yet, the first.
    let first = match paths.iter().position(|path| path.as_ref().is_some_and(|path| path.exists())) {
        Some(at) if paths[..at].iter().all(Option::is_some) => at,
        _ if paths.iter().all(Option::is_some) => 0,
        _ => return rule.cannot("source", "is not on this host"),
    };
    let Some(Some(path)) = paths.get(first) else { return rule.cannot("source", "is empty") };
    let Ok(found) = path.metadata() else {
        return rule.set("source", Str::from(path.display().to_string()));
    };
    if found.is_dir() {
        return rule.cannot("source", "is a directory");
    }
    let given = rule.declared.get("mode").is_some();
    if given || found.permissions().mode() & 0o777 == USUAL {
        return rule.set("source", Str::from(path.display().to_string()));
    }
    // A copy would have the mode of its source, and Puppet gives it the usual one.
    match std::fs::read(path) {
        Ok(bytes) if found.len() <= LARGEST => rule.set("content", Str::from(bytes)),
        _ => rule.cannot("source", "has another mode than the usual one, and is large"),
    }
}

fn attributes(rule: &mut Rule<'_>, is_directory: bool) {
    ownership(rule);
    let Some(mode) = rule.text("mode") else { return };
    match effective_mode(&mode, is_directory) {
        Some(mode) => rule.set("mode", Str::from(mode)),
        None => rule.cannot("mode", "changes single permissions, which has no counterpart"),
    }
}

fn ownership(rule: &mut Rule<'_>) {
    rule.carry("owner", "owner");
    rule.carry("group", "group");
}

/// Puppet lets whoever may read a directory also search it.
fn effective_mode(mode: &str, is_directory: bool) -> Option<String> {
    if !mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) || mode.is_empty() || mode.len() > 5 {
        let assigns = !mode.contains(['+', '-']) && !is_directory;
        return assigns.then(|| mode.to_owned());
    }
    let number = u32::from_str_radix(mode, 8).ok()?;
    let search = if is_directory { (number & 0o444) >> 2 } else { 0 };
    Some(format!("{:04o}", number | search))
}

/// The attributes of a file that is put together elsewhere.
pub(super) fn attributes_of_file(rule: &mut Rule<'_>, content: Vec<u8>) {
    rule.set("path", Str::from(squeezed(&rule.declared.subject())));
    rule.set("state", Str::from("exists"));
    rule.set("content", Str::from(content));
    rule.accept_if("backup", &["false", "puppet"]);
    rule.accept_if("replace", &["true", "yes"]);
    rule.accept(&["path", "show_diff", "selinux_ignore_defaults"]);
    attributes(rule, false);
    if rule.take("force").and_then(Data::truth) == Some(true) {
        rule.set("force", true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defect_26_whoever_may_read_a_directory_may_search_it() {
        for (given, directory, file) in [
            ("0644", "0755", "0644"),
            ("640", "0750", "0640"),
            ("0700", "0700", "0700"),
            ("2440", "2550", "2440"),
        ] {
            assert_eq!(effective_mode(given, true).as_deref(), Some(directory));
            assert_eq!(effective_mode(given, false).as_deref(), Some(file));
        }
    }

    #[test]
    fn defect_27_a_mode_that_changes_single_permissions_is_not_carried_over() {
        assert_eq!(effective_mode("u+x", false), None);
        assert_eq!(effective_mode("u=rw,go=r", false).as_deref(), Some("u=rw,go=r"));
        assert_eq!(effective_mode("u=rw,go=r", true), None);
    }
}
