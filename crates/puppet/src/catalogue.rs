//! A compiled catalogue.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use mgmt_resource::Origin;
use serde_json::Value;

use crate::data::Data;

/// What Puppet made of a manifest: resources, and which of them are in which container.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// The name of the host that it is for.
    pub name: String,
    /// The environment that it was compiled in.
    pub environment: String,
    /// The resources in their order.
    pub resources: Vec<Declared>,
    /// Containers and what is in them, by position.
    pub contains: Vec<(usize, usize)>,
    names: HashMap<(String, String), usize>,
}

/// One resource, class or container of a catalogue.
#[derive(Clone)]
pub struct Declared {
    /// The type, as it is written in references: `File`, `Apt::Setting`, `Class`.
    pub kind: String,
    /// The title. That of a class as it is written in references.
    pub title: String,
    /// The parameters by name. Values that are not to be shown are wrapped.
    pub parameters: Vec<(String, Data)>,
    /// The parameters as they were compiled, for Puppet itself. Secrets are in clear in it.
    pub raw: Value,
    /// The names of parameters that must not be shown.
    pub sensitive: Vec<String>,
    /// The tags, in no order.
    pub tags: Vec<String>,
    /// Where it was declared.
    pub origin: Option<Origin>,
    /// It holds others and is nothing by itself.
    pub is_container: bool,
}

/// Secrets are not shown, and `raw` has them in clear.
impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {:?}", self.parameters)
    }
}

/// The reference.
impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.kind, self.title)
    }
}

impl Declared {
    /// A parameter, if it is given and managed.
    pub fn get(&self, name: &str) -> Option<&Data> {
        let (_, value) = self.parameters.iter().find(|(found, _)| found == name)?;
        Some(value).filter(|value| **value != Data::Undef)
    }

    /// What it is about: the parameter that names it, or else the title.
    pub fn subject(&self) -> String {
        self.get(name_parameter(&self.kind)).and_then(Data::text).unwrap_or_else(|| self.title.clone())
    }

    /// The lower-case name of its type.
    pub fn type_name(&self) -> String {
        self.kind.to_lowercase()
    }
}

/// Which parameter names a resource of a type.
fn name_parameter(kind: &str) -> &'static str {
    match kind {
        "File" | "Tidy" | "Concat_file" => "path",
        "Exec" => "command",
        _ => "name",
    }
}

impl Catalogue {
    /// Reads the JSON form. `inline` is what to call a text that is in no file.
    pub fn new(json: &Value, inline: &Arc<str>) -> Result<Catalogue, String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut catalogue = Catalogue {
            name: text(&json["name"]).unwrap_or_default(),
            environment: text(&json["environment"]).unwrap_or_default(),
            ..Catalogue::default()
        };
        let resources = json["resources"].as_array().ok_or("the catalogue has no resources")?;
        let edges = json["edges"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut files = Files { known: HashMap::new(), inline: Arc::clone(inline) };
        for json in resources {
            let declared = declared(json, &mut files).ok_or("a resource has no type or no title")?;
            catalogue.add(declared);
        }
        for edge in edges {
            let find = |end: &str| {
                let reference = edge[end].as_str().ok_or("an edge has no end")?;
                catalogue
                    .find(reference)
                    .ok_or_else(|| format!("{reference} holds or is held and is not there"))
            };
            let (container, member) = (find("source")?, find("target")?);
            catalogue.contains.push((container, member));
        }
        // Older servers do not say which types are native; whatever holds something is a container.
        for &(container, _) in &catalogue.contains {
            catalogue.resources[container].is_container = true;
        }
        Ok(catalogue)
    }

    fn add(&mut self, declared: Declared) {
        let at = self.resources.len();
        let mut names = vec![declared.title.clone()];
        names.extend(declared.get("alias").and_then(Data::texts).unwrap_or_default());
        // Several may run the same command; and a package is more than its name.
        if !declared.is_container && !matches!(declared.kind.as_str(), "Exec" | "Tidy" | "Package") {
            names.push(declared.subject());
        }
        if is_path(&declared.kind) {
            let squeezed: Vec<String> = names.iter().map(|name| squeezed(name)).collect();
            names.extend(squeezed);
        }
        for name in names {
            self.names.entry((declared.kind.clone(), name)).or_insert(at);
        }
        self.resources.push(declared);
    }

    /// Looks a reference up: `Type[title]`.
    pub fn find(&self, reference: &str) -> Option<usize> {
        let (kind, title) = reference.split_once('[')?;
        self.named(kind, title.strip_suffix(']')?)
    }

    /// Looks a resource up by its type and any of its names.
    pub fn named(&self, kind: &str, name: &str) -> Option<usize> {
        let kind = capitalised(kind);
        let found = |name: String| self.names.get(&(kind.clone(), name)).copied();
        match kind.as_str() {
            "Class" => found(capitalised(name)),
            kind if is_path(kind) => found(name.to_owned()).or_else(|| found(squeezed(name))),
            _ => found(name.to_owned()),
        }
    }
}

fn is_path(kind: &str) -> bool {
    kind == "File"
}

/// Names of files are shared by all that is declared in them.
struct Files {
    known: HashMap<String, Arc<str>>,
    inline: Arc<str>,
}

fn declared(json: &Value, files: &mut Files) -> Option<Declared> {
    let kind = capitalised(json["type"].as_str()?);
    let title = json["title"].as_str()?;
    let title = if kind == "Class" { capitalised(title) } else { title.to_owned() };
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let sensitive = texts(&json["sensitive_parameters"]);
    let raw = json["parameters"].clone();
    let parameters = raw.as_object().into_iter().flatten().map(|(name, value)| {
        let value = Data::new(value);
        let value = if sensitive.contains(name) { Data::Secret(Box::new(value)) } else { value };
        (name.clone(), value)
    });
    let parameters = parameters.collect();
    let origin = json["line"].as_u64().map(|line| {
        let file = match json["file"].as_str().unwrap_or_default() {
            "" => Arc::clone(&files.inline),
            name => Arc::clone(files.known.entry(name.to_owned()).or_insert_with(|| Arc::from(name))),
        };
        Origin { file, line: u32::try_from(line).unwrap_or(u32::MAX), column: 1 }
    });
    let is_container = matches!(kind.as_str(), "Class" | "Stage" | "Node") || json["kind"] == "defined_type";
    Some(Declared {
        kind,
        title,
        parameters,
        raw,
        sensitive,
        tags: texts(&json["tags"]),
        origin,
        is_container,
    })
}

/// Every segment of a name with its first letter in upper case, as in references.
pub(crate) fn capitalised(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (at, segment) in name.split("::").enumerate() {
        if at > 0 {
            text.push_str("::");
        }
        let mut letters = segment.chars();
        text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        text.push_str(letters.as_str());
    }
    text
}

/// A path without repeated and trailing slashes.
pub(crate) fn squeezed(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter != '/' || !text.ends_with('/') {
            text.push(letter);
        }
    }
    if text.len() > 1 && text.ends_with('/') {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_find_resources_by_all_their_names() {
        let json = json!({
            "name": "host", "environment": "production",
            "resources": [
                { "type": "Class", "title": "apt::update" },
                { "type": "File", "title": "conf", "parameters": { "path": "/etc//x/", "alias": ["a", "b"] } },
                { "type": "Exec", "title": "run", "parameters": { "command": "/bin/true" } },
                { "type": "Apt::Setting", "title": "x[1]", "kind": "defined_type" },
            ],
            "edges": [{ "source": "Class[apt::update]", "target": "File[conf]" }],
        });
        let catalogue = Catalogue::new(&json, &Arc::from("code")).unwrap();
        for (reference, at) in [
            ("Class[Apt::Update]", Some(0)),
            ("Class[apt::update]", Some(0)),
            ("File[conf]", Some(1)),
            ("File[/etc/x]", Some(1)),
            ("File[/etc//x/]", Some(1)),
            ("File[b]", Some(1)),
            ("Exec[run]", Some(2)),
            ("Exec[/bin/true]", None),
            ("Apt::Setting[x[1]]", Some(3)),
            ("Nothing[x]", None),
            ("nonsense", None),
        ] {
            assert_eq!(catalogue.find(reference), at, "{reference}");
        }
        assert_eq!(catalogue.contains, [(0, 1)]);
        assert!(catalogue.resources[3].is_container && !catalogue.resources[1].is_container);
    }

    #[test]
    fn what_is_no_catalogue_is_told() {
        for wrong in [json!(null), json!({ "resources": [{}] }), json!({ "resources": [], "edges": [{}] })] {
            assert!(Catalogue::new(&wrong, &Arc::from("code")).is_err(), "{wrong}");
        }
    }
}
