//! A translated manifest as a program in mcl.
//!
//! What is native is a resource; what is not is a comment that says why. Classes stay classes, and so do defined types: all uses of one that differ only
//! in what they were given are one class with parameters. Values that Puppet has looked up in its data are variables where the manifest names them.
//! `containers` knows where resources were declared, `text` writes values.
//!
//! The points at which a class begins and ends, and whatever else only stands in the order of things, is taken out where that makes the program no
//! longer: then those before it stand directly before those behind it.
//!
//! Invariant: the program has the order and the notifications of the graph, on whatever way, and every value is the one that was compiled.

mod containers;
mod text;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use mgmt_graph::NodeId;
use mgmt_resource::{FieldSpec, Fields as _, Meta, Origin, ResourceGraph, Spec};
use mgmt_value::{Native as _, Str, Value};

use crate::translate::{Decision, Outcome, is_below};
pub use containers::Containers;
use containers::{Variable, word};
use text::{FORMAT, Writer, quoted};

/// A text with more lines than this goes into a file of its own, if there may be any.
const LONG: usize = 25;

/// Words that no class can be called.
const KEYWORDS: [&str; 14] = [
    "as", "bool", "class", "collect", "else", "false", "float", "for", "forkv", "func", "if", "import",
    "include", "true",
];

/// How to write a program.
pub struct ProgramOptions<'a> {
    /// Whether the value of a field is nobody's business.
    pub is_secret: &'a dyn Fn(&Spec, &FieldSpec, &Value) -> bool,
    /// Contents from templates, and long ones, go into files beside the program.
    pub with_files: bool,
}

/// A program.
#[derive(Debug, Default)]
pub struct Program {
    /// What it says. It is not in its canonical form yet.
    pub text: String,
    /// The files that it reads, by their paths beside it.
    pub files: BTreeMap<String, Str>,
}

/// Writes a program that has the same graph, as far as it is native.
pub fn program(
    graph: &ResourceGraph,
    decisions: &[Decision],
    containers: &Containers,
    options: &ProgramOptions<'_>,
) -> Program {
    let order = Order::of(graph);
    let mut writing = Writing {
        graph,
        decisions,
        containers,
        options,
        order,
        items: HashMap::new(),
        uses: HashMap::new(),
        names: KEYWORDS.iter().map(|name| (*name).to_owned()).collect(),
        classes: Vec::new(),
        edges: String::new(),
        used: BTreeSet::new(),
        files: BTreeMap::new(),
    };
    writing.arrange();
    let mut outside = writing.body(None, true);
    let body = std::mem::take(&mut outside.text);
    writing.take(outside);
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let imports = [("deploy", !writing.files.is_empty()), ("fmt", writing.used.contains(FORMAT))];
    for (module, _) in imports.iter().filter(|(_, is_used)| *is_used) {
        let _ = writeln!(text, "import \"{module}\"");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    for variable in containers.lookups.iter().filter(|variable| writing.used.contains(&variable.name)) {
        comment(&mut text, &format!("{} in Hiera", variable.key));
        let value = Writer::new(Vec::new()).value(&variable.value);
        let _ = writeln!(text, "${} = {value}\n", variable.name);
    }
    for class in &writing.classes {
        text.push_str(class);
        text.push('\n');
    }
    text.push_str(&body);
    text.push_str(&writing.edges);
    Program { text, files: writing.files }
}

/// Something that stands in a class, or outside of all.
#[derive(Clone, Copy, PartialEq)]
enum Item {
    Vertex(NodeId),
    Container(usize),
}

/// What was written of a class.
#[derive(Clone, Default, PartialEq)]
struct Body {
    text: String,
    /// Edges to what is outside of a use of a defined type, which cannot be in what all uses share.
    edges: String,
    used: BTreeSet<String>,
    files: BTreeMap<String, Str>,
}

struct Writing<'a> {
    graph: &'a ResourceGraph,
    decisions: &'a [Decision],
    containers: &'a Containers,
    options: &'a ProgramOptions<'a>,
    order: Order,
    /// What is directly in each container, in the order of the manifest.
    items: HashMap<Option<usize>, Vec<Item>>,
    /// The class that each use of a defined type has become, and its parameters.
    uses: HashMap<usize, (String, Vec<String>)>,
    /// Names of classes that are taken.
    names: BTreeSet<String>,
    classes: Vec<String>,
    edges: String,
    used: BTreeSet<String>,
    files: BTreeMap<String, Str>,
}

impl Writing<'_> {
    fn part(&self, node: NodeId, spec: &Spec) -> Part {
        let name = spec.id.name.as_str();
        let fate = self.decisions.iter().find(|decision| Some(decision.reference.as_str()) == name);
        Part::of(spec, fate, self.order.is_kept(node))
    }

    fn arrange(&mut self) {
        for (node, spec) in self.graph.nodes() {
            if matches!(self.part(node, spec), Part::Nothing) {
                continue;
            }
            let mut outer = None;
            for at in self.containers.of(spec).map(|at| self.containers.chain(at)).unwrap_or_default() {
                let items = self.items.entry(outer).or_default();
                if !items.contains(&Item::Container(at)) {
                    items.push(Item::Container(at));
                }
                outer = Some(at);
            }
            self.items.entry(outer).or_default().push(Item::Vertex(node));
        }
        let filled = |at: &usize| self.items.contains_key(&Some(*at));
        let mut all: Vec<usize> = (0..self.containers.list.len()).filter(filled).collect();
        match self.groups(&all) {
            Some(groups) => groups.iter().for_each(|uses| self.define(uses)),
            // Defined types that use each other: what is inside comes first.
            None => {
                all.sort_by_key(|at| std::cmp::Reverse(self.containers.chain(*at).len()));
                all.iter().for_each(|at| self.define(&[*at]));
            }
        }
    }

    /// All uses of each class and defined type, those first that are used in others. Nothing if there is no such order.
    fn groups(&self, all: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut uses: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut inside: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let name = |at: usize| self.containers.list[at].name.as_str();
        for &at in all {
            uses.entry(name(at)).or_default().push(at);
            inside.entry(name(at)).or_default();
            if let Some(parent) = self.containers.list[at].parent {
                inside.entry(name(parent)).or_default().insert(name(at));
            }
        }
        let mut groups = Vec::new();
        while !inside.is_empty() {
            let ready = inside.iter().filter(|(_, others)| others.is_empty()).map(|(name, _)| *name);
            let first = |name: &&str| uses.get(name).map(|uses| uses[0]);
            let ready = ready.min_by_key(first)?;
            inside.remove(ready);
            inside.values_mut().for_each(|others| {
                others.remove(ready);
            });
            groups.extend(uses.remove(ready));
        }
        Some(groups)
    }

    /// Makes one class of those uses of a defined type that are the same but for what they were given, and one of each other use.
    fn define(&mut self, uses: &[usize]) {
        let name = self.containers.list[uses[0]].name.clone();
        let mut alike: Vec<Vec<(usize, Body)>> = Vec::new();
        for &at in uses {
            let body = self.body(Some(at), true);
            let same = |(_, other): &(usize, Body)| other.text == body.text && other.used == body.used;
            match alike.iter_mut().find(|group| same(&group[0])) {
                Some(group) => group.push((at, body)),
                None => alike.push(vec![(at, body)]),
            }
        }
        let is_one = alike.len() == 1;
        for group in alike {
            let first = group[0].0;
            if group.len() == 1 && !is_one {
                let body = self.body(Some(first), false);
                let title = self.containers.list[first].title.clone().unwrap_or_default();
                let class = self.free_name(&format!("{name}_{title}"));
                self.write_class(&class, &[], first, &body.text);
                self.take(body);
                self.uses.insert(first, (class, Vec::new()));
                continue;
            }
            let class = self.free_name(&name);
            let parameters = self.parameters(first, &group[0].1.used);
            self.write_class(&class, &parameters, first, &group[0].1.text);
            for (at, body) in group {
                self.take(body);
                self.uses.insert(at, (class.clone(), parameters.clone()));
            }
        }
    }

    fn take(&mut self, body: Body) {
        self.edges.push_str(&body.edges);
        self.used.extend(body.used);
        self.files.extend(body.files);
    }

    fn free_name(&mut self, name: &str) -> String {
        let name = word(&name.replace("::", "_"));
        let others = (2..).map(|number| format!("{name}{number}"));
        let found = std::iter::once(name.clone()).chain(others).find(|name| !self.names.contains(name));
        let found = found.unwrap_or_default();
        self.names.insert(found.clone());
        found
    }

    fn parameters(&self, at: usize, used: &BTreeSet<String>) -> Vec<String> {
        let parameters = self.containers.list[at].parameters.iter();
        parameters.map(|variable| variable.name.clone()).filter(|name| used.contains(name)).collect()
    }

    fn write_class(&mut self, class: &str, parameters: &[String], at: usize, body: &str) {
        let mut text = String::new();
        if let Some(origin) = self.containers.list[at].origin.as_ref().filter(|_| parameters.is_empty()) {
            comment(&mut text, &format!("{}:{}", origin.file, origin.line));
        }
        let parameters: Vec<String> = parameters.iter().map(|name| format!("${name}")).collect();
        let list = if parameters.is_empty() { String::new() } else { format!("({})", parameters.join(", ")) };
        let _ = write!(text, "class {class}{list} {{\n{}\n}}\n", body.trim_end_matches('\n'));
        self.classes.push(text);
    }

    /// What is in a container. `shared`: its parameters have names.
    fn body(&self, container: Option<usize>, shared: bool) -> Body {
        let mut body = Body::default();
        for item in self.items.get(&container).into_iter().flatten() {
            match *item {
                Item::Vertex(node) => self.vertex(node, container, shared, &mut body),
                Item::Container(at) => self.include(at, container, shared, &mut body),
            }
            body.text.push('\n');
        }
        body
    }

    /// The variables that a declaration in a container names.
    fn writer(&self, origin: Option<&Origin>, container: Option<usize>, shared: bool) -> (Writer<'_>, bool) {
        let named = self.containers.named_by(origin, container);
        let own = container.map(|at| self.containers.list[at].parameters.as_slice()).unwrap_or_default();
        let is_own = |variable: &Variable| own.iter().any(|other| other == variable);
        let variables = named.variables.into_iter().filter(|variable| shared || !is_own(variable));
        (Writer::new(variables.collect()), named.takes_text)
    }

    fn include(&self, at: usize, container: Option<usize>, shared: bool, body: &mut Body) {
        let Some((class, parameters)) = self.uses.get(&at) else { return };
        let used = &self.containers.list[at];
        let (mut writer, _) = self.writer(used.origin.as_ref(), container, shared);
        let given = parameters.iter().filter_map(|name| used.parameters.iter().find(|it| it.name == *name));
        let given: Vec<String> = given.map(|variable| writer.value(&variable.value)).collect();
        if let Some(origin) = used.origin.as_ref().filter(|_| used.title.is_some()) {
            comment(&mut body.text, &format!("{}:{}", origin.file, origin.line));
        }
        let list = if given.is_empty() { String::new() } else { format!("({})", given.join(", ")) };
        let _ = writeln!(body.text, "include {class}{list}");
        body.used.extend(writer.used);
    }

    fn vertex(&self, node: NodeId, container: Option<usize>, shared: bool, body: &mut Body) {
        let Some(spec) = self.graph.node(node) else { return };
        match self.part(node, spec) {
            Part::Nothing => {}
            Part::Comment(why) => {
                let is_use = container.is_some_and(|at| self.containers.list[at].title.is_some());
                let reference = spec.id.name.to_text();
                let why = match reference.split_once('[').filter(|_| shared && is_use) {
                    // All uses of a defined type have the same comment.
                    Some((kind, _)) => why.replacen(&*reference, &format!("each {kind} here"), 1),
                    None => why,
                };
                comment(&mut body.text, &format!("{}{why}", place(spec.origin.as_ref())));
                if self.order.is_kept(node) {
                    self.resource(node, spec, "noop", container, shared, body);
                }
            }
            Part::Resource => {
                if let Some(origin) = &spec.origin {
                    comment(&mut body.text, &format!("{}:{}", origin.file, origin.line));
                }
                self.resource(node, spec, spec.id.kind, container, shared, body);
            }
        }
    }

    fn resource(
        &self,
        node: NodeId,
        spec: &Spec,
        kind: &str,
        container: Option<usize>,
        shared: bool,
        body: &mut Body,
    ) {
        let (mut writer, takes_text) = self.writer(spec.origin.as_ref(), container, shared);
        let name = writer.name(&spec.id.name);
        let _ = writeln!(body.text, "{kind} {name} {{");
        if kind == spec.id.kind {
            self.fields(spec, takes_text, &mut writer, body);
        }
        let is_use = container.is_some_and(|at| self.containers.list[at].title.is_some());
        for (from, notify) in self.order.before(self.graph, node) {
            let from_kind = capitalised(if is_point(from) { "noop" } else { from.id.kind });
            let is_outside = self.containers.of(from) != container || from.id.kind == "noop";
            if is_use && is_outside && !notify {
                let (from, to) = (quoted(&from.id.name), quoted(&spec.id.name));
                let _ = writeln!(body.edges, "{from_kind}[{from}] -> {}[{to}]", capitalised(kind));
                continue;
            }
            let other = match is_outside {
                true => quoted(&from.id.name),
                false => {
                    let (mut writer, _) = self.writer(from.origin.as_ref(), container, shared);
                    let name = writer.name(&from.id.name);
                    body.used.extend(writer.used);
                    name
                }
            };
            let _ =
                writeln!(body.text, "{} => {from_kind}[{other}],", if notify { "Listen" } else { "Depend" });
        }
        body.text.push_str("}\n");
        body.used.extend(writer.used);
    }

    /// What is not as usual.
    fn fields(&self, spec: &Spec, takes_text: bool, writer: &mut Writer<'_>, body: &mut Body) {
        let usual = (spec.resource.schema().make)();
        for field in spec.resource.schema().fields {
            let Some(value) = spec.resource.get(field.name) else { continue };
            let value = if field.name == "keep" { self.kept(spec, value) } else { value };
            // A file is at its name, unless something else is said.
            let is_name = (spec.id.kind, field.name) == ("file", "path")
                && matches!(&value, Value::Str(path) if *path == spec.id.name);
            if is_name || usual.get(field.name).as_ref() == Some(&value) {
                continue;
            }
            if (self.options.is_secret)(spec, field, &value) {
                comment(&mut body.text, &format!("{} is a secret, and is left out", field.name));
                continue;
            }
            let known = writer.used.clone();
            let mut written = writer.value(&value);
            if let Some(file) = self.file_for(spec, field, &value, takes_text) {
                // What has variables in it stays where they are.
                if writer.used == known {
                    let path = Str::from(format!("/{file}"));
                    written = format!("deploy.readfile({})", writer.name(&path));
                    body.files.extend(match value {
                        Value::Str(text) => Some((file, text)),
                        _ => None,
                    });
                }
            }
            let _ = writeln!(body.text, "{} => {written},", field.name);
        }
        let usual = Meta::default();
        for field in Meta::FIELDS {
            let value = (field.get)(&*spec.meta);
            if value != (field.get)(&usual) {
                let _ = writeln!(body.text, "Meta:{} => {},", field.name, writer.value(&value));
            }
        }
    }

    /// The paths that a purge leaves alone, with those of resources that are not in the program: whoever manages them now, they are not to go.
    fn kept(&self, spec: &Spec, kept: Value) -> Value {
        let is_purge = spec.id.kind == "tidy" || spec.resource.get("purge") == Some(Value::Bool(true));
        if !is_purge {
            return kept;
        }
        let directory = match spec.resource.get("path") {
            Some(Value::Str(path)) if !path.is_empty() => path.to_text().into_owned(),
            _ => spec.id.name.to_text().into_owned(),
        };
        let mut paths = Vec::<Str>::from_value(&kept).unwrap_or_default();
        let others = self.graph.nodes().filter(|(node, other)| {
            other.id != spec.id && matches!(self.part(*node, other), Part::Comment(_))
        });
        for path in others.flat_map(|(_, other)| other.resource.claimed_paths(&other.id.name)) {
            if is_below(&path.to_text(), &directory) && !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths.to_value()
    }

    /// The file beside the program that a content goes into.
    fn file_for(&self, spec: &Spec, field: &FieldSpec, value: &Value, takes_text: bool) -> Option<String> {
        let Value::Str(text) = value else { return None };
        let lines = text.to_text().lines().count();
        let is_wanted = self.options.with_files && spec.id.kind == "file" && field.name == "content";
        if !is_wanted || !(lines > LONG || (takes_text && lines > 1)) {
            return None;
        }
        let path = match spec.resource.get("path") {
            Some(Value::Str(path)) if !path.is_empty() => path.to_text().into_owned(),
            _ => spec.id.name.to_text().into_owned(),
        };
        let is_plain = path.starts_with('/') && !path.contains("..") && !path.contains(char::is_control);
        is_plain.then(|| format!("files{path}"))
    }
}

/// What becomes of a vertex.
enum Part {
    Nothing,
    Comment(String),
    Resource,
}

impl Part {
    fn of(spec: &Spec, fate: Option<&Decision>, is_kept: bool) -> Part {
        let because = |reasons: &[crate::Reason]| {
            reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let fate = fate.map(|decision| (&decision.reference, &decision.outcome));
        match (spec.id.kind, fate) {
            ("pippet", Some((reference, Outcome::Puppet(reasons)))) => {
                Part::Comment(format!("{reference} is left to Puppet: {}", because(reasons)))
            }
            ("noop", Some((reference, Outcome::LeftOut(reasons)))) => {
                Part::Comment(format!("{reference} is left out: {}", because(reasons)))
            }
            ("pippet", _) => Part::Comment(format!("{} is left to Puppet", spec.id.name.display())),
            _ if unwritable(spec) => {
                Part::Comment(format!("{} has bytes that are no text, which mcl cannot say", spec.id))
            }
            ("noop", _) if !is_kept => Part::Nothing,
            _ => Part::Resource,
        }
    }
}

/// Whether something of it cannot be said in mcl, whose texts are UTF-8.
fn unwritable(spec: &Spec) -> bool {
    let values = spec.resource.schema().fields.iter().filter_map(|field| spec.resource.get(field.name));
    spec.id.name.as_str().is_none() || values.into_iter().any(|value| has_bytes(&value))
}

fn has_bytes(value: &Value) -> bool {
    match value {
        Value::Str(text) => text.as_str().is_none_or(|text| text.contains('\0')),
        Value::List(list) => list.items.iter().any(has_bytes),
        Value::Map(map) => map.entries().iter().any(|(key, value)| has_bytes(key) || has_bytes(value)),
        Value::Struct(value) => value.fields.iter().any(|(_, value)| has_bytes(value)),
        _ => false,
    }
}

/// Who stands before whom, without the points that need not be there.
struct Order {
    /// For each vertex, those directly before it, and whether it is told of their changes.
    before: HashMap<NodeId, BTreeMap<NodeId, bool>>,
    /// Points that are left.
    kept: Vec<NodeId>,
}

impl Order {
    fn of(graph: &ResourceGraph) -> Order {
        let mut before: HashMap<NodeId, BTreeMap<NodeId, bool>> = HashMap::new();
        let mut after: HashMap<NodeId, BTreeMap<NodeId, bool>> = HashMap::new();
        for (from, to, edge) in graph.edges() {
            before.entry(to).or_default().insert(from, edge.notify);
            after.entry(from).or_default().insert(to, edge.notify);
        }
        let mut kept = Vec::new();
        for (node, spec) in graph.nodes().filter(|(_, spec)| is_point(spec)) {
            let (into, out) =
                (before.remove(&node).unwrap_or_default(), after.remove(&node).unwrap_or_default());
            if into.len() * out.len() > into.len() + out.len() {
                kept.push(node);
                before.insert(node, into);
                after.insert(node, out);
                continue;
            }
            let forwards = spec.resource.get("forward") == Some(Value::Bool(true));
            for &to in out.keys() {
                before.entry(to).or_default().remove(&node);
            }
            for (&from, &told) in &into {
                after.entry(from).or_default().remove(&node);
                for (&to, &tells) in &out {
                    let notify = told && tells && forwards;
                    *before.entry(to).or_default().entry(from).or_default() |= notify;
                    *after.entry(from).or_default().entry(to).or_default() |= notify;
                }
            }
        }
        Order { before, kept }
    }

    fn is_kept(&self, node: NodeId) -> bool {
        self.kept.contains(&node)
    }

    /// Those directly before a vertex, in the order of the graph.
    fn before<'g>(&self, graph: &'g ResourceGraph, node: NodeId) -> Vec<(&'g Spec, bool)> {
        let before = self.before.get(&node).into_iter().flatten();
        before.filter_map(|(&from, &notify)| Some((graph.node(from)?, notify))).collect()
    }
}

/// Something that only stands in the order of things, in a program.
fn is_point(spec: &Spec) -> bool {
    spec.id.kind == "noop" || spec.id.kind == "pippet" || unwritable(spec)
}

/// A kind as edges name it: `ssh:authorized_key` is `Ssh:Authorized_key`.
fn capitalised(kind: &str) -> String {
    let parts = kind.split(':').map(|part| {
        let mut letters = part.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    });
    parts.collect::<Vec<_>>().join(":")
}

fn place(origin: Option<&Origin>) -> String {
    origin.map_or_else(String::new, |origin| format!("{}:{}: ", origin.file, origin.line))
}

/// A comment, of which no line is anything else.
fn comment(text: &mut String, what: &str) {
    for line in what.split(['\n', '\r']) {
        let _ = writeln!(text, "# {line}");
    }
}
