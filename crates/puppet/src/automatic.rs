//! The order that types find by themselves: a file after its directory, a command after its user.

use std::collections::HashMap;

use crate::catalogue::{Catalogue, Declared, squeezed};
use crate::data::Data;

/// An edge that nobody has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Automatic {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) notify: bool,
}

/// What rules look up besides names.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Groups by their number.
    groups: HashMap<i64, usize>,
    /// Files with their paths.
    files: Vec<(usize, String)>,
}

impl Index {
    pub(crate) fn new(catalogue: &Catalogue) -> Index {
        let mut index = Index::default();
        let any_mount = catalogue.resources.iter().any(|declared| declared.kind == "Mount");
        for (at, declared) in catalogue.resources.iter().enumerate() {
            match declared.kind.as_str() {
                "Group" => {
                    if let Some(number) = declared.get("gid").and_then(Data::integer) {
                        index.groups.entry(number).or_insert(at);
                    }
                }
                "File" if any_mount => index.files.push((at, squeezed(&declared.subject()))),
                _ => {}
            }
        }
        index
    }
}

/// What a resource finds, in the order in which Puppet finds it.
pub(crate) fn relations(
    catalogue: &Catalogue,
    index: &Index,
    at: usize,
    declared: &Declared,
) -> Vec<Automatic> {
    let mut finding = Finding { catalogue, at, found: Vec::new() };
    match declared.kind.as_str() {
        "File" => file(&mut finding, declared),
        "Exec" => exec(&mut finding, declared),
        "User" => user(&mut finding, index, declared),
        "Package" => {
            for parameter in ["responsefile", "adminfile", "source"] {
                let path = declared.get(parameter).and_then(Data::text).filter(|path| path.starts_with('/'));
                path.iter().for_each(|path| finding.after("File", path));
            }
        }
        // Who runs Puppet has the table if nobody is named, but is no reason to wait where there is a `crontab`.
        "Cron" | "Ssh_authorized_key" => {
            let user = declared.get("user").and_then(Data::text);
            user.iter().for_each(|user| finding.after("User", user));
        }
        "Mount" => mount(&mut finding, index, declared),
        "File_line" | "Concat_file" => {
            let path = declared.get("path").and_then(Data::text);
            path.iter().for_each(|path| finding.after("File", path));
        }
        _ => {}
    }
    finding.found
}

struct Finding<'c> {
    catalogue: &'c Catalogue,
    at: usize,
    found: Vec<Automatic>,
}

impl Finding<'_> {
    fn after(&mut self, kind: &str, name: &str) {
        if let Some(from) = self.catalogue.named(kind, name) {
            self.found.push(Automatic { from, to: self.at, notify: false });
        }
    }

    fn before(&mut self, to: usize) {
        self.found.push(Automatic { from: self.at, to, notify: false });
    }
}

fn file(finding: &mut Finding<'_>, declared: &Declared) {
    let path = squeezed(&declared.subject());
    if let Some(parent) = parents(&path).find(|parent| finding.catalogue.named("File", parent).is_some()) {
        finding.after("File", parent);
    }
    if let Some(target) = link_target(declared) {
        finding.after("File", &target);
    }
    for (parameter, kind) in [("owner", "User"), ("group", "Group")] {
        let name = declared.get(parameter).and_then(Data::text).filter(|name| !is_number(name));
        name.iter().for_each(|name| finding.after(kind, name));
    }
}

/// What a link leads to: a word of `ensure` that is none of its own words is a target.
pub(crate) fn link_target(declared: &Declared) -> Option<String> {
    let target = declared.get("target").and_then(Data::text);
    target.or_else(|| {
        let ensure = declared.get("ensure")?.text()?;
        let is_word = matches!(
            ensure.as_str(),
            "present" | "absent" | "file" | "directory" | "link" | "true" | "false"
        );
        (!is_word).then_some(ensure)
    })
}

/// The directories that a path is in, nearest first.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(path), |path| parent(path))
}

fn parent(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 if path.len() > 1 => Some("/"),
        0 => None,
        at => Some(&path[..at]),
    }
}

fn exec(finding: &mut Finding<'_>, declared: &Declared) {
    if let Some(directory) = declared.get("cwd").and_then(Data::text) {
        finding.after("File", &directory);
    }
    let command = match declared.get("command") {
        Some(command) => first(command),
        None => Some(declared.title.clone()),
    };
    if let Some(command) = command {
        absolute_words(&command).for_each(|path| finding.after("File", path));
        quoted_words(&command).for_each(|path| finding.after("File", path));
    }
    for parameter in ["onlyif", "unless"] {
        let lines: Vec<String> = match declared.get(parameter).map(Data::revealed) {
            Some(Data::List(list)) => list.iter().filter_map(first).collect(),
            Some(other) => other.text().into_iter().collect(),
            None => Vec::new(),
        };
        for line in &lines {
            absolute_words(line).for_each(|path| finding.after("File", path));
        }
    }
    let user = declared.get("user").and_then(Data::text).filter(|name| !is_number(name));
    user.iter().for_each(|user| finding.after("User", user));
}

/// A command, or the program of a command that is given as words.
fn first(command: &Data) -> Option<String> {
    match command.revealed() {
        Data::List(words) => words.first().and_then(Data::text),
        other => other.text(),
    }
}

/// The first word of each line, where that is an absolute path.
fn absolute_words(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.split('\n').filter(|line| line.starts_with('/'));
    lines
        .filter_map(|line| line.split(|letter: char| letter.is_ascii_whitespace()).next())
        .filter(|word| word.len() > 1)
}

/// What is in double quotes at the beginning of a line.
fn quoted_words(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices('"').filter(|(at, _)| *at == 0 || text[..*at].ends_with('\n'));
    starts
        .filter_map(|(at, _)| text[at + 1..].split_once('"').map(|(word, _)| word))
        .filter(|word| !word.is_empty())
}

fn user(finding: &mut Finding<'_>, index: &Index, declared: &Declared) {
    if let Some(group) = declared.get("gid") {
        match group.integer() {
            Some(number) => {
                if let Some(&from) = index.groups.get(&number) {
                    finding.found.push(Automatic { from, to: finding.at, notify: false });
                }
            }
            None => group.text().iter().for_each(|name| finding.after("Group", name)),
        }
    }
    let groups = declared.get("groups").and_then(Data::texts).unwrap_or_default();
    for group in groups.iter().flat_map(|groups| groups.split(',')) {
        finding.after("Group", group);
    }
    let roles = declared.get("roles").and_then(Data::texts).unwrap_or_default();
    for role in roles.iter().flat_map(|roles| roles.split(',')) {
        finding.after("User", role);
    }
}

fn mount(finding: &mut Finding<'_>, index: &Index, declared: &Declared) {
    let point = squeezed(&declared.subject());
    let mut above: Vec<&str> = parents(&point).collect();
    above.reverse();
    above.into_iter().for_each(|parent| finding.after("Mount", parent));
    for (file, path) in &index.files {
        let below =
            path.strip_prefix(point.as_str()).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1);
        if below {
            finding.before(*file);
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_end_at_the_root() {
        assert_eq!(parents("/a/b/c").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(parents("/").count(), 0);
        assert_eq!(parents("relative").count(), 0);
    }

    #[test]
    fn paths_are_found_in_commands() {
        assert_eq!(absolute_words("/bin/a b\nc /d\n/e\t/f").collect::<Vec<_>>(), ["/bin/a", "/e"]);
        assert_eq!(quoted_words("\"/a b\" c\n\"/d\" \"/e\"\nx \"/f\"").collect::<Vec<_>>(), ["/a b", "/d"]);
    }
}
