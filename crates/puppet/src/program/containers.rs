//! In which class or defined type each resource of a manifest was declared, and which variables its source names.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgmt_puppet_process::Compiled;
use mgmt_resource::{Origin, Spec};
use mgmt_value::{Native as _, Str, Value};

use crate::catalogue::{Catalogue, Declared};

/// The most lines of a manifest that one declaration is looked for in.
const LONGEST: usize = 200;

/// The classes and defined types of a catalogue, and what the sources of its resources say.
#[derive(Default)]
pub struct Containers {
    pub(super) list: Vec<Container>,
    /// Values that Puppet has looked up in its data, by their keys.
    pub(super) lookups: Vec<Variable>,
    members: HashMap<(Arc<str>, u32, String), usize>,
    modules: BTreeMap<String, PathBuf>,
    sources: RefCell<HashMap<Arc<str>, Arc<str>>>,
}

/// A class, or one use of a defined type.
pub(super) struct Container {
    /// As manifests write it: `apache::vhost`.
    pub(super) name: String,
    /// What this use of a defined type is called.
    pub(super) title: Option<String>,
    /// What a defined type was used in.
    pub(super) parent: Option<usize>,
    pub(super) origin: Option<Origin>,
    /// What it was given: texts and numbers, all of them as texts.
    pub(super) parameters: Vec<Variable>,
}

/// A name that stands for a value.
#[derive(Clone, PartialEq)]
pub(super) struct Variable {
    /// The name in a program.
    pub(super) name: String,
    /// The name in a manifest, or the key in its data.
    pub(super) key: String,
    pub(super) value: Value,
}

impl Containers {
    /// What is to be known of what was compiled. `inline` is what a text is called that is in no file.
    pub fn new(compiled: &Compiled, inline: &Arc<str>) -> Containers {
        // Without a catalogue there is nothing to write.
        let Ok(catalogue) = Catalogue::new(&compiled.catalogue, inline) else { return Containers::default() };
        let parents: HashMap<usize, usize> =
            catalogue.contains.iter().map(|&(container, member)| (member, container)).collect();
        let mut containers = Containers { modules: compiled.modules.clone(), ..Containers::default() };
        let mut positions: HashMap<usize, usize> = HashMap::new();
        let is_kept = |declared: &Declared| {
            let is_main = declared.kind == "Class" && matches!(declared.title.as_str(), "Main" | "Settings");
            declared.is_container && !is_main && !matches!(declared.kind.as_str(), "Stage" | "Node")
        };
        for (at, declared) in catalogue.resources.iter().enumerate().filter(|(_, it)| is_kept(it)) {
            positions.insert(at, containers.list.len());
            containers.list.push(Container::new(declared));
        }
        for (at, declared) in catalogue.resources.iter().enumerate() {
            let parent = parents.get(&at).and_then(|parent| positions.get(parent)).copied();
            match positions.get(&at) {
                // Classes are used, not held.
                Some(&position) if declared.kind != "Class" => containers.list[position].parent = parent,
                Some(_) => {}
                None => containers.add_member(declared, parent),
            }
        }
        containers.lookups = compiled.lookups.iter().flat_map(|(key, value)| lookup(key, value)).collect();
        for at in 0..containers.lookups.len() {
            let name = containers.lookups[at].name.clone();
            let is_taken = |variables: &[Variable]| variables.iter().any(|other| other.name == name);
            if containers.list.iter().any(|container| is_taken(&container.parameters))
                || is_taken(&containers.lookups[..at])
            {
                containers.lookups[at].name = format!("hiera_{name}");
            }
        }
        containers
    }

    fn add_member(&mut self, declared: &Declared, parent: Option<usize>) {
        let (Some(origin), Some(parent)) = (&declared.origin, parent) else { return };
        for name in [declared.to_string(), declared.subject(), declared.title.clone()] {
            self.members.insert((Arc::clone(&origin.file), origin.line, name), parent);
        }
    }

    /// What a resource was declared in.
    pub(super) fn of(&self, spec: &Spec) -> Option<usize> {
        let origin = spec.origin.as_ref()?;
        let name = spec.id.name.to_text().into_owned();
        self.members.get(&(Arc::clone(&origin.file), origin.line, name)).copied()
    }

    /// A container with all that it is in, from the outside.
    pub(super) fn chain(&self, container: usize) -> Vec<usize> {
        let mut chain = vec![container];
        while let Some(parent) = self.list[chain[chain.len() - 1]].parent.filter(|at| !chain.contains(at)) {
            chain.push(parent);
        }
        chain.reverse();
        chain
    }

    /// The variables that a declaration in a container names, and whether it takes its text from a template or a file.
    pub(super) fn named_by(&self, origin: Option<&Origin>, container: Option<usize>) -> Named<'_> {
        let Some(origin) = origin else { return Named::default() };
        let file = self.source(&origin.file);
        let mut text = declaration(&file, origin.line);
        text.push_str(&assignments(&file, &text));
        let (templates, takes_text) = self.templates(&text);
        let names = |variable: &str| mentions(&text, variable) || mentions(&templates, variable);
        let mut found = Vec::new();
        if let Some(container) = container {
            let parameters = &self.list[container].parameters;
            found.extend(parameters.iter().filter(|variable| names(&variable.key)));
        }
        let chain = container.map(|at| self.chain(at)).unwrap_or_default();
        for variable in &self.lookups {
            // Of a hash, each value is a variable.
            let (key, member) = match variable.key.split_once('.') {
                Some((key, member)) => (key, Some(member)),
                None => (variable.key.as_str(), None),
            };
            if member
                .is_some_and(|member| !is_member_named(&text, member) && !is_member_named(&templates, member))
            {
                continue;
            }
            let (scope, name) = key.rsplit_once("::").unwrap_or(("", key));
            let is_parameter = chain.iter().any(|at| self.list[*at].name == scope) && names(name);
            let is_assigned = assigned(&file, key).is_some_and(names);
            if is_parameter || is_assigned || names(key) || calls_lookup(&text, &variable.key) {
                found.push(variable);
            }
        }
        Named { variables: found, takes_text }
    }

    fn source(&self, file: &Arc<str>) -> Arc<str> {
        let mut sources = self.sources.borrow_mut();
        let read = || Arc::from(std::fs::read_to_string(&**file).unwrap_or_default());
        Arc::clone(sources.entry(Arc::clone(file)).or_insert_with(read))
    }

    /// The templates that a declaration names, and whether there are any, or other files.
    fn templates(&self, text: &str) -> (String, bool) {
        let mut found = String::new();
        let mut takes_text = text.contains("file(");
        for (at, _) in text.match_indices("template(").chain(text.match_indices("epp(")) {
            takes_text = true;
            let mut words = text[at..].splitn(3, ['\'', '"']);
            let Some((module, path)) = words.nth(1).and_then(|name| name.split_once('/')) else { continue };
            let Some(module) = self.modules.get(module) else { continue };
            let path: Arc<str> = Arc::from(module.join("templates").join(Path::new(path)).to_string_lossy());
            found.push_str(&self.source(&path).replace('@', "$"));
        }
        (found, takes_text)
    }
}

/// What a declaration names.
#[derive(Default)]
pub(super) struct Named<'a> {
    pub(super) variables: Vec<&'a Variable>,
    /// Its text is from a template or another file.
    pub(super) takes_text: bool,
}

impl Container {
    fn new(declared: &Declared) -> Container {
        let is_class = declared.kind == "Class";
        let name = if is_class { declared.title.to_lowercase() } else { declared.type_name() };
        let mut parameters = Vec::new();
        if !is_class {
            let title = Str::from(declared.title.as_str()).to_value();
            let variable = |key: &str| Variable { name: key.into(), key: key.into(), value: title.clone() };
            parameters.extend([variable("title"), variable("name")]);
            for (key, value) in &declared.parameters {
                let is_own = !["title", "name"].contains(&key.as_str()) && !value.is_secret();
                let text = value.text().filter(|_| is_own && !declared.sensitive.contains(key));
                parameters.extend(text.map(|text| Variable {
                    name: word(key),
                    key: key.clone(),
                    value: Str::from(text).to_value(),
                }));
            }
        }
        let title = (!is_class).then(|| declared.title.clone());
        Container { name, title, parent: None, origin: declared.origin.clone(), parameters }
    }
}

/// The variables for a value of Puppet's data: one, or one for each value of a hash.
fn lookup(key: &str, value: &serde_json::Value) -> Vec<Variable> {
    match value {
        serde_json::Value::Object(map) => {
            let members = map.iter().filter(|(_, value)| !value.is_object() && !value.is_array());
            members.filter_map(|(member, value)| variable(&format!("{key}.{member}"), value)).collect()
        }
        value => variable(key, value).into_iter().collect(),
    }
}

fn variable(key: &str, value: &serde_json::Value) -> Option<Variable> {
    let text = |value: &serde_json::Value| value.as_str().filter(|text| !text.is_empty()).map(Str::from);
    let value = match value {
        serde_json::Value::Array(list) if !list.is_empty() => {
            list.iter().map(text).collect::<Option<Vec<_>>>()?.to_value()
        }
        serde_json::Value::Number(number) => number.as_i64()?.to_value(),
        value => text(value)?.to_value(),
    };
    Some(Variable { name: word(&key.replace("::", "_").replace('.', "_")), key: key.to_owned(), value })
}

/// A name that mcl takes for one of a variable or a class.
pub(super) fn word(name: &str) -> String {
    let mut word = String::new();
    for letter in name.to_lowercase().chars() {
        let is_plain = letter.is_ascii_alphanumeric();
        if is_plain || !word.ends_with('_') {
            word.push(if is_plain { letter } else { '_' });
        }
    }
    let word = word.trim_matches('_');
    match word.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        true => word.to_owned(),
        false => format!("x{word}"),
    }
}

/// The lines of one declaration: until its braces are closed.
fn declaration(file: &str, line: u32) -> String {
    let (mut depth, mut text) = (0_i32, String::new());
    let skipped = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    for line in file.lines().skip(skipped).take(LONGEST) {
        text.push_str(line);
        text.push('\n');
        let mut is_closed = false;
        for letter in line.chars() {
            match letter {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    is_closed |= depth <= 0;
                }
                _ => {}
            }
        }
        if is_closed && depth <= 0 {
            break;
        }
    }
    text
}

/// Whether a text names a variable: `$x`, `${x}`, `$::x`.
fn mentions(text: &str, variable: &str) -> bool {
    text.match_indices('$').any(|(at, _)| {
        let rest = text[at + 1..].trim_start_matches('{').trim_start_matches("::");
        let Some(behind) = rest.strip_prefix(variable) else { return false };
        !behind.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
            && !(behind.starts_with("::"))
    })
}

/// Whether a text names a value of a hash: `$x['name']`.
fn is_member_named(text: &str, member: &str) -> bool {
    ['\'', '"'].iter().any(|quote| text.contains(&format!("[{quote}{member}{quote}]")))
}

/// What variables are made of that a declaration names and that are assigned in its file: a line, or the lines of a text.
fn assignments(file: &str, declaration: &str) -> String {
    let mut found = String::new();
    let mut lines = file.lines();
    while let Some(line) = lines.next() {
        let Some((name, value)) = line.trim_start().strip_prefix('$').and_then(|rest| rest.split_once('='))
        else {
            continue;
        };
        let is_name = name.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || value.starts_with(['=', '~', '>']) || !mentions(declaration, name.trim()) {
            continue;
        }
        found.push_str(value);
        found.push('\n');
        let Some(tag) = value.split_once("@(").and_then(|(_, rest)| rest.split_once(')')) else { continue };
        let tag = tag.0.split(['/', ':']).next().unwrap_or_default().trim().trim_matches('"');
        for line in lines.by_ref() {
            if line.trim().trim_start_matches(['|', '-', ' ']) == tag {
                break;
            }
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

/// Where a text looks a key up: behind the key, for each time.
fn looks_up<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = usize> + 'a {
    let quotes = ['\'', '"'].map(|quote| format!("{quote}{key}{quote}"));
    let found =
        quotes.into_iter().flat_map(|word| text.match_indices(&word).map(|(at, _)| at).collect::<Vec<_>>());
    found.filter(|at| {
        let before = text[..*at].trim_end_matches([' ', '(', '\n', '\t']);
        before.ends_with("lookup") || before.ends_with("hiera")
    })
}

fn calls_lookup(text: &str, key: &str) -> bool {
    looks_up(text, key).next().is_some()
}

/// The variable of a manifest that a key's value is assigned to: `$x = lookup('key')`.
fn assigned<'a>(file: &'a str, key: &str) -> Option<&'a str> {
    let at = looks_up(file, key).next()?;
    let line = file[..at].rsplit('\n').next()?;
    let (name, _) = line.trim_start().strip_prefix('$')?.split_once('=')?;
    Some(name.trim()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_declaration_names_is_found() {
        let file = "class a($x) {\n  file { '/a':\n    content => \"${x} $::b::y $zz\",\n  }\n  file { '/b': content => $q }\n}\n";
        let text = declaration(file, 2);
        assert!(text.ends_with("  }\n") && !text.contains("/b"), "{text}");
        for (name, is_named) in
            [("x", true), ("b::y", true), ("z", false), ("zz", true), ("b", false), ("q", false)]
        {
            assert_eq!(mentions(&text, name), is_named, "{name}");
        }
        let file = "$m = lookup('a::m')\n$n = hiera( \"n\" )\nfile { '/x': content => lookup('o') }\n";
        assert_eq!(assigned(file, "a::m"), Some("m"));
        assert_eq!(assigned(file, "n"), Some("n"));
        assert_eq!(assigned(file, "o"), None);
        assert!(calls_lookup(file, "o") && !calls_lookup(file, "m"));
        let file =
            "$text = @(\"E\"/L)\n  listen ${port}\n  | E\n$other = 'z'\nfile { '/x': content => $text }\n";
        let found = assignments(file, "file { '/x': content => $text }");
        assert!(found.contains("${port}") && !found.contains('z') && !found.contains("| E"), "{found}");
        assert!(is_member_named("\"${cfg['host']}\"", "host") && !is_member_named("$cfg['hosts']", "host"));
        assert_eq!(
            ["A::b_c", "50-x", "x__y_"].map(|name| word(&name.replace("::", "_"))),
            ["a_b_c", "x50_x", "x_y"]
        );
    }
}
