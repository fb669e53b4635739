//! `file` becomes `file`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mgmt_value::Str;

use super::claims::is_below;
use super::context::asks;
use super::rule::Rule;
use crate::automatic::link_target;
use crate::catalogue::{Declared, squeezed};
use crate::data::Data;

pub(super) fn file(rule: &mut Rule<'_>) -> &'static str {
    let path = squeezed(&rule.declared.subject());
    rule.accept(&["path", "target", "staging_location"]);
    rule.accept_if("provider", &["posix"]);
    most_files(rule);
    discretion(rule);
    rule.accept_if("links", &["manage"]);
    rule.accept_if("source_permissions", &["ignore"]);
    rule.accept_if("sourceselect", &["first"]);
    checksum(rule);
    defaults_of_labels(rule);
    let ensure = rule.text("ensure");
    let has_content = rule.declared.get("content").is_some() || rule.declared.get("source").is_some();
    match ensure.as_deref() {
        Some("absent" | "false") => absent(rule, path),
        Some("directory") => directory(rule, path),
        Some("file" | "present" | "true") => regular(rule, path, ensure.as_deref() != Some("file")),
        None if has_content => regular(rule, path, false),
        None => {
            rule.cannot("ensure", "is not given, and so it may be a file or a directory");
            // What either has says nothing about why.
            let given = rule.declared.parameters.iter().map(|(name, _)| name.as_str());
            rule.accept(&given.collect::<Vec<_>>());
        }
        Some(_) => link(rule, path),
    }
    "file"
}

/// A source that is at an address.
fn is_address(source: &str) -> bool {
    source.starts_with("http://") || source.starts_with("https://")
}

/// The first of several sources is at an address, once those before it are known not to be there. Whether a server has it shows when it is
/// asked, so only other addresses can follow.
fn fetched(rule: &mut Rule<'_>, addresses: &[String]) {
    if rule.around.proxied {
        return rule.cannot("source", "is fetched through a proxy");
    }
    if !addresses.iter().all(|source| is_address(source)) {
        return rule.cannot("source", "is at an address, and may also be elsewhere");
    }
    let mut addresses = addresses.iter().map(|address| Str::from(address.trim_end_matches('/')));
    rule.set("source", addresses.next().unwrap_or_default());
    rule.set("mirrors", addresses.collect::<Vec<_>>());
    let authorities = rule.around.authorities.iter().filter(|file| {
        rule.looks_for(file);
        file.is_file()
    });
    let authorities: Vec<Str> = authorities.map(|file| Str::from(file.display().to_string())).collect();
    rule.set("authorities", authorities);
    let interval = u32::try_from(rule.around.interval).unwrap_or(u32::MAX).max(1);
    rule.set("refetch", interval);
    let kind = rule.text("checksum");
    let Some(sum) = rule.text("checksum_value") else { return };
    // What is not said is SHA-256, unless a setting says otherwise.
    let length = match kind.as_deref() {
        Some("md5") => 32,
        Some("sha1") => 40,
        Some("sha224") => 56,
        None | Some("sha256") => 64,
        Some("sha384") => 96,
        Some("sha512") => 128,
        Some(_) => return rule.cannot("checksum_value", "is not of all of the content"),
    };
    match sum.len() == length {
        true => rule.set("checksum", Str::from(sum.to_ascii_lowercase())),
        false => rule.cannot("checksum_value", "is not as long as a sum of its kind"),
    }
}

/// By which sum contents are compared makes no difference, as long as all of them is in it. Ours are compared themselves.
fn checksum(rule: &mut Rule<'_>) {
    match rule.text("checksum").as_deref() {
        None | Some("md5" | "sha1" | "sha224" | "sha256" | "sha384" | "sha512") => {}
        Some("md5lite" | "sha1lite" | "sha256lite") => {
            rule.note("checksum", "is of the beginning alone, and here all of the content is compared");
        }
        Some(_) => rule.cannot("checksum", "is not of the content"),
    }
}

/// How many files are too many. Ours has a limit of its own.
pub(super) fn most_files(rule: &mut Rule<'_>) {
    if rule.text("max_files").is_some_and(|most| most != "0") {
        rule.note("max_files", "is not the number from which files are too many here");
    }
}

/// What is in a file is told with what changes in it, unless nobody is to know.
fn discretion(rule: &mut Rule<'_>) {
    let secret = rule.hide("content");
    if rule.truth("show_diff") == Some(false) || secret {
        rule.set("showdiff", false);
    }
}

/// Whatever depends on which other files are managed needs to know those below it.
fn with_files_below(rule: &mut Rule<'_>, path: &str) {
    let below =
        |declared: &Declared| declared.kind == "File" && is_below(&squeezed(&declared.subject()), path);
    rule.needs_to_know(below);
    let around = rule.around;
    // Of a file, that is the copy of what was there before.
    let others = around.claims.below(path).filter(|(at, path)| {
        let declared = &around.catalogue.resources[*at];
        declared.kind != "File" || squeezed(&declared.subject()) != *path
    });
    let led = around.claims.led_below(path);
    let linked = around.claims.linked_below(path);
    let others = others.map(|(_, path)| path.to_owned());
    rule.spares(others.chain(led.into_iter().map(str::to_owned)).chain(linked));
}

/// Paths below a directory that nobody in the graph need account for by itself: all but those of files, unless their tags leave them out, and
/// those that links lead to.
pub(super) fn kept_below(rule: &Rule<'_>, path: &str) -> BTreeSet<String> {
    let around = rule.around;
    let is_silent = |at: usize| {
        let declared = &around.catalogue.resources[at];
        declared.kind != "File" || around.left_out(declared).is_some()
    };
    let kept = around.claims.below(path).filter(|(at, _)| is_silent(*at)).map(|(_, path)| path.to_owned());
    kept.chain(around.claims.linked_below(path)).collect()
}

/// The files of the catalogue below a directory. Whatever goes through the directory leaves each to its resource, with all below it.
fn files_below(rule: &Rule<'_>, path: &str) -> BTreeSet<String> {
    let files = rule.around.catalogue.resources.iter().filter(|declared| declared.kind == "File");
    files.map(|declared| squeezed(&declared.subject())).filter(|file| is_below(file, path)).collect()
}

/// Whether a resource removes what is not managed below a directory.
pub(super) fn purges(declared: &Declared) -> bool {
    declared.kind == "File" && asks(declared, "purge") && asks(declared, "recurse")
}

/// A file with its content; or, if anything will do, whatever is there.
fn regular(rule: &mut Rule<'_>, path: String, anything: bool) {
    // A source says what it is, and that it is to be the same.
    match anything && rule.declared.get("source").is_none() {
        true => rule.set("anytype", true),
        // A link gives way to a file, and a file to a link, and both to a directory; only a directory has to be forced away.
        false => rule.set("instead", true),
    }
    rule.set("path", Str::from(path));
    rule.set("state", Str::from("exists"));
    content(rule);
    safeguards(rule);
    attributes(rule, false);
}

/// What is done about the content that is there.
fn safeguards(rule: &mut Rule<'_>) {
    if rule.truth("replace") == Some(false) {
        rule.set("createonly", true);
    }
    let placeholder = rule.text("validate_replacement").unwrap_or_else(|| "%".to_owned());
    if let Some(command) = rule.text("validate_cmd") {
        match placeholder.as_str() {
            "%" => rule.set("validatecmd", Str::from(command)),
            "" => rule.cannot("validate_replacement", "is empty"),
            _ if command.contains('%') => {
                rule.cannot("validate_replacement", "is not `%`, which is there as well");
            }
            other => rule.set("validatecmd", Str::from(command.replace(other, "%"))),
        }
    }
    backup(rule);
}

fn backup(rule: &mut Rule<'_>) {
    match rule.text("backup").as_deref() {
        None | Some("false") => {}
        Some("true") => rule.set("backup", Str::from(".puppet-bak")),
        Some(suffix) if suffix.starts_with('.') => rule.set("backup", Str::from(suffix)),
        Some(name) => bucket(rule, name),
    }
}

/// A bucket by its name: one of the catalogue, or the one that is always there.
fn bucket(rule: &mut Rule<'_>, name: &str) {
    let around = rule.around;
    let usual = || Str::from(around.bucket.display().to_string());
    let declared = around.catalogue.named("Filebucket", name).map(|at| &around.catalogue.resources[at]);
    let path = |declared: &Declared| declared.get("path").and_then(Data::text);
    match declared {
        None if name == "puppet" => rule.set("bucket", usual()),
        None => {
            rule.is_wrong(format!("`backup` names the filebucket `{name}`, which is not in the catalogue"));
        }
        Some(declared) => match path(declared).as_deref() {
            None if declared.get("server").is_none() => rule.set("bucket", usual()),
            Some(path) if path.starts_with('/') => rule.set("bucket", Str::from(path)),
            _ => rule.cannot("backup", "names a bucket that is on a server"),
        },
    }
}

fn absent(rule: &mut Rule<'_>, path: String) {
    // What a path has when it is there makes no difference when it is not.
    rule.accept(&["owner", "group", "mode", "content", "source", "purge", "recurse", "replace"]);
    rule.accept(&["validate_cmd", "validate_replacement"]);
    rule.accept(&["seluser", "selrole", "seltype", "selrange"]);
    rule.set("path", Str::from(path));
    rule.set("state", Str::from("absent"));
    if rule.truth("force") == Some(true) {
        rule.set("recurse", true);
        rule.set("force", true);
    }
    match rule.text("backup").as_deref() {
        None | Some("false") => {}
        Some(name) if name != "true" && !name.starts_with('.') => bucket(rule, name),
        Some(_) => rule.note("backup", "asks for a copy of what is removed, which is not kept here"),
    }
}

fn link(rule: &mut Rule<'_>, path: String) {
    rule.set("instead", true);
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
    if rule.truth("replace") == Some(false) {
        rule.set("createonly", true);
    }
    rule.accept_if("recurse", &["false", "no"]);
    backup(rule);
    // A link has no mode of its own.
    rule.accept(&["mode"]);
    ownership(rule);
}

/// How far a directory reaches.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    /// Only itself.
    Itself,
    /// Everything below.
    All,
    /// What its source has below.
    Source,
}

fn directory(rule: &mut Rule<'_>, path: String) {
    let reach = match rule.text("recurse").as_deref() {
        None | Some("false" | "no") => Reach::Itself,
        Some("true" | "yes" | "inf") => Reach::All,
        Some("remote") if rule.declared.get("source").is_some() => Reach::Source,
        Some("remote") => Reach::Itself,
        Some(other) => {
            rule.cannot("recurse", format!("`{other}` has no counterpart"));
            Reach::All
        }
    };
    rule.accept(&["validate_cmd", "validate_replacement"]);
    if reach != Reach::Itself {
        // Alone, Puppet would take what others manage below for its own.
        with_files_below(rule, &path);
    }
    let force = rule.truth("force") == Some(true);
    rule.set("path", Str::from(if path == "/" { path.clone() } else { format!("{path}/") }));
    rule.set("state", Str::from("exists"));
    rule.set("force", force);
    match rule.truth("replace") == Some(false) {
        true => rule.set("createonly", true),
        false => rule.set("instead", true),
    }
    let sources = rule.texts("source");
    let mut kept = BTreeSet::new();
    match (reach, sources) {
        (Reach::Itself, _) => rule.accept(&["purge", "backup"]),
        (_, None) => rule.accept(&["backup"]),
        (_, Some(sources)) => {
            if let Some(source) = first_source(rule, &sources) {
                match source.is_dir() {
                    true => rule.set("source", Str::from(format!("{}/", source.display()))),
                    false => rule.cannot("source", "is no directory"),
                }
            }
            rule.set("recurse", true);
            rule.set("sourcemode", false);
            backup(rule);
            kept.extend(files_below(rule, &path));
        }
    }
    if reach != Reach::Itself && rule.truth("purge") == Some(true) {
        rule.set("recurse", true);
        // What nobody can know of is not to be taken for unmanaged.
        let is_known = rule.around.unknown_below(&path).is_none();
        rule.set("purge", is_known);
        if is_known {
            kept.extend(kept_below(rule, &path));
        }
        // Without that, it leaves directories where they are.
        rule.set("keepdirectories", is_known && !force);
        if reach == Reach::Source {
            rule.cannot("purge", "removes nothing with `recurse => remote`");
        }
    }
    if !kept.is_empty() {
        rule.set("keep", kept.into_iter().map(Str::from).collect::<Vec<_>>());
    }
    let has_attributes = ["owner", "group", "mode"].iter().any(|name| rule.declared.get(name).is_some());
    match reach {
        Reach::All if has_attributes => spread(rule),
        Reach::Source if rule.declared.get("mode").is_some() => {
            rule.cannot("mode", "is for what is copied, and not for all below");
        }
        _ => attributes(rule, true),
    }
}

/// Everything below the directory gets its owner, group and mode.
fn spread(rule: &mut Rule<'_>) {
    rule.set("recurse", true);
    rule.set("spread", true);
    ownership(rule);
    if let Some(mode) = rule.text("mode") {
        // Our kind lets those who may read a directory search it.
        match numeric(&mode) {
            Some(number) => rule.set("mode", Str::from(format!("{number:04o}"))),
            None => rule.cannot("mode", "changes single permissions of all below"),
        }
    }
}

/// The source that Puppet would take: the first that exists; and if none does yet, the first.
fn first_source(rule: &mut Rule<'_>, sources: &[String]) -> Option<PathBuf> {
    let paths: Vec<_> = sources.iter().map(|source| rule.local_source(source)).collect();
    let exists = |path: &PathBuf| {
        rule.looks_for(path);
        path.exists()
    };
    let first = match paths.iter().position(|path| path.as_ref().is_some_and(exists)) {
        Some(at) if paths[..at].iter().all(Option::is_some) => at,
        _ if paths.iter().all(Option::is_some) => 0,
        _ => {
            rule.cannot("source", "is not on this host");
            return None;
        }
    };
    let found = paths.into_iter().nth(first).flatten();
    if found.is_none() {
        rule.cannot("source", "is empty");
    }
    found
}

fn content(rule: &mut Rule<'_>) {
    rule.accept_if("purge", &["false", "no"]);
    // A file has nothing below it.
    rule.accept(&["recurse"]);
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
    // Only what would be on this host can be known not to be there.
    let is_absent = |source: &String| {
        rule.local_source(source).is_some_and(|path| {
            rule.looks_for(&path);
            !path.exists()
        })
    };
    if let Some(at) = sources.iter().position(|source| is_address(source))
        && sources[..at].iter().all(is_absent)
    {
        return fetched(rule, &sources[at..]);
    }
    let Some(path) = first_source(rule, &sources) else { return };
    if path.is_dir() {
        return rule.cannot("source", "is a directory");
    }
    rule.set("source", Str::from(path.display().to_string()));
    // A new file has the mode of any new file.
    rule.set("sourcemode", false);
}

fn attributes(rule: &mut Rule<'_>, is_directory: bool) {
    ownership(rule);
    label(rule);
    let Some(mode) = rule.text("mode") else { return };
    match numeric(&mode) {
        Some(number) => rule.set("mode", Str::from(format!("{:04o}", effective(number, is_directory)))),
        // Whether it may be searched is a question only for what is no directory.
        None if is_directory => rule.set("modechange", Str::from(mode.replace('X', "x"))),
        None if mode.contains(['+', '-']) => rule.set("modechange", Str::from(mode)),
        None => rule.set("mode", Str::from(mode)),
    }
}

/// Whether labels make a difference on this host. Where SELinux is off, Puppet takes no notice of them.
fn has_labels(rule: &Rule<'_>) -> bool {
    let enforce = rule.around.selinux;
    rule.looks_for(enforce);
    enforce.exists()
}

/// A file gets no label unless one is declared, which is what this asks for.
fn defaults_of_labels(rule: &mut Rule<'_>) {
    match has_labels(rule) {
        true => rule.accept_if("selinux_ignore_defaults", &["false"]),
        false => rule.accept(&["selinux_ignore_defaults"]),
    }
}

/// The four parts of the SELinux context, if all are given.
fn label(rule: &mut Rule<'_>) {
    if !has_labels(rule) {
        return rule.accept(&["seluser", "selrole", "seltype", "selrange"]);
    }
    let parts: Vec<String> = ["seluser", "selrole", "seltype", "selrange"]
        .into_iter()
        .filter_map(|part| rule.text(part))
        .collect();
    match parts.len() {
        0 => {}
        4 => rule.set("selinux", Some(Str::from(parts.join(":")))),
        _ => rule.cannot("seltype", "is only a part of the context; the rest is as the host finds it"),
    }
}

fn ownership(rule: &mut Rule<'_>) {
    rule.carry("owner", "owner");
    rule.carry("group", "group");
}

/// A mode that is a number, in octal digits.
fn numeric(mode: &str) -> Option<u32> {
    let digits =
        !mode.is_empty() && mode.len() <= 5 && mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    digits.then(|| u32::from_str_radix(mode, 8).ok()).flatten()
}

/// Puppet lets whoever may read a directory also search it.
fn effective(mode: u32, is_directory: bool) -> u32 {
    if is_directory { mode | (mode & 0o444) >> 2 } else { mode }
}

/// The attributes of a file that is put together elsewhere.
pub(super) fn attributes_of_file(rule: &mut Rule<'_>, content: Vec<u8>) {
    let path = squeezed(&rule.declared.subject());
    rule.set("instead", true);
    rule.set("path", Str::from(path));
    rule.set("state", Str::from("exists"));
    rule.set("content", Str::from(content));
    rule.accept(&["path"]);
    defaults_of_labels(rule);
    discretion(rule);
    safeguards(rule);
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
        for (given, directory, file) in
            [("0644", 0o755, 0o644), ("640", 0o750, 0o640), ("0700", 0o700, 0o700), ("2440", 0o2550, 0o2440)]
        {
            let number = numeric(given).unwrap();
            assert_eq!((effective(number, true), effective(number, false)), (directory, file));
        }
    }

    #[test]
    fn only_octal_digits_are_a_number() {
        for wrong in ["", "u+x", "u=rw,go=r", "0849", "0x1", "777777"] {
            assert_eq!(numeric(wrong), None, "{wrong}");
        }
    }
}
