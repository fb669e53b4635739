//! One graph of two: a program's and a manifest's, joined where both say so.
//!
//! The program says `noop "puppet_NAME" {}`, and the manifest includes an empty class `mgmt_NAME`. The two ends of the class
//! and the `noop` become one vertex, called `noop[NAME]`; everything else is in the result as it is. So whatever has to come
//! before the class or before the `noop` comes before whatever has to come after either.
//!
//! Nothing is changed in place: the two graphs can be merged again with a newer version of the other.

mod objects;
mod purging;

use std::collections::{HashMap, HashSet};

use mgmt_diagnostics::Severity;
use mgmt_graph::NodeId;
use mgmt_resource::{Edge, Id, Origin, ResourceGraph, Spec, did_you_mean};
use mgmt_value::Str;

use crate::codes;
use crate::conflict::{Writers, derived_path, file_path, has_content};
use crate::diagnostic::Diagnostic;
use objects::object;
use purging::Beside;

/// What the name of a `noop` begins with that a class belongs to.
const OURS: &str = "puppet_";
/// What the name of a class begins with that a `noop` belongs to.
const THEIRS: &str = "mgmt_";
/// The beginning of everything in a manifest.
const START: &str = "admissible_Stage[main]";

/// One of the two graphs.
#[derive(Clone, Copy, Debug)]
pub struct Half<'a> {
    /// The graph.
    pub graph: &'a ResourceGraph,
    /// Its name.
    pub name: &'a str,
}

/// What came of two graphs.
#[derive(Debug)]
pub struct Merged {
    /// The graph, if nothing is wrong.
    pub graph: Option<ResourceGraph>,
    /// Its name.
    pub name: String,
    /// What there is to tell.
    pub diagnostics: Vec<Diagnostic>,
}

/// Joins the graph of a program and that of a manifest. With `allow_unmatched`, a `noop` without class or a class without `noop`
/// is only warned of, and stays as it is.
pub fn merge(program: Half<'_>, manifest: Half<'_>, allow_unmatched: bool) -> Merged {
    let mut merging = Merging {
        program: program.graph,
        manifest: manifest.graph,
        graph: ResourceGraph::new(),
        sides: HashMap::new(),
        diagnostics: Vec::new(),
    };
    merging.join(allow_unmatched);
    let Merging { graph, diagnostics, .. } = merging;
    let is_right = diagnostics.iter().all(|found| !found.is_error());
    Merged {
        graph: is_right.then_some(graph),
        name: format!("{}+{}", program.name, manifest.name),
        diagnostics,
    }
}

/// Where something in the result comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Program,
    Manifest,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Side::Program => "program",
            Side::Manifest => "manifest",
        }
    }
}

/// A class that may be joined.
struct Class {
    /// Its name, as a person writes it.
    name: String,
    begin: NodeId,
    end: Option<NodeId>,
    /// What it shares with its `noop`.
    rest: String,
}

struct Merging<'a> {
    program: &'a ResourceGraph,
    manifest: &'a ResourceGraph,
    graph: ResourceGraph,
    /// Who has asked for an edge.
    sides: HashMap<(NodeId, NodeId), Side>,
    diagnostics: Vec<Diagnostic>,
}

impl Merging<'_> {
    fn join(&mut self, allow_unmatched: bool) {
        let has_start = self.manifest.nodes().any(|(_, spec)| noop_name(spec).as_deref() == Some(START));
        if !has_start {
            let why = "the graph of the manifest has no stage `main`, so it is not one of Puppet";
            self.diagnostics.push(Diagnostic::error(why).with_code(codes::NOT_PUPPET));
            return;
        }
        let (noops, classes) = (self.noops(), self.classes());
        let pairs = self.pairs(&noops, &classes, allow_unmatched);
        self.refuse_members(&classes, &pairs);
        let mut places: HashMap<(Side, NodeId), NodeId> = HashMap::new();
        let mut names: HashMap<Id, Option<Origin>> = HashMap::new();
        let renamed: HashMap<NodeId, &str> =
            pairs.iter().map(|(noop, class)| (*noop, class.rest.as_str())).collect();
        for (node, spec) in self.program.nodes() {
            let mut spec = spec.clone();
            if let Some(rest) = renamed.get(&node) {
                spec.id = Id::new(spec.id.kind, Str::from(*rest));
            }
            if !spec.meta.hidden {
                if let Some(other) = names.get(&spec.id) {
                    self.taken(&spec, other.as_ref(), renamed.contains_key(&node));
                }
                names.insert(spec.id.clone(), spec.origin.clone());
            }
            if let Some((without, found)) = purging::without_purge(&spec, self.manifest) {
                self.diagnostics.push(found);
                spec = without;
            }
            places.insert((Side::Program, node), self.graph.add_node(spec));
        }
        for (noop, class) in &pairs {
            let Some(&joined) = places.get(&(Side::Program, *noop)) else { continue };
            for marker in std::iter::once(class.begin).chain(class.end) {
                places.insert((Side::Manifest, marker), joined);
            }
        }
        for (node, spec) in self.manifest.nodes() {
            if places.contains_key(&(Side::Manifest, node)) {
                continue;
            }
            if let Some(other) = names.get(&spec.id).filter(|_| !spec.meta.hidden) {
                self.on_both_sides(spec, other.as_ref());
            }
            let spec = match purging::beside(spec, self.program) {
                Beside::Same => spec.clone(),
                Beside::Knowing(spec) => spec,
                Beside::Removes(other) => {
                    self.removes(spec, &other);
                    spec.clone()
                }
            };
            places.insert((Side::Manifest, node), self.graph.add_node(spec));
        }
        for (side, from, to, edge) in self.all_edges() {
            let (Some(&from), Some(&to)) = (places.get(&(side, from)), places.get(&(side, to))) else {
                continue;
            };
            // What is inside of a pair is gone with it.
            if from != to {
                self.graph.merge_edge(from, to, edge, Edge::merge);
                self.sides.entry((from, to)).or_insert(side);
            }
        }
        self.refuse_shared_files();
        self.refuse_shared_objects();
        self.refuse_cycles();
    }

    /// One path is for one resource, whatever the two are called; and who has the whole content of a file does not leave room for edits.
    fn refuse_shared_files(&mut self) {
        let files = self.program.nodes().filter(|(_, spec)| !spec.meta.hidden);
        let files: HashMap<String, &Spec> =
            files.filter_map(|(_, spec)| Some((file_path(spec)?, spec))).collect();
        for (_, spec) in self.manifest.nodes() {
            let Some((path, other)) = file_path(spec).and_then(|path| files.get_key_value(&path)) else {
                continue;
            };
            if spec.id == other.id {
                continue;
            }
            self.diagnostics.push(both(other, spec, &format!("the same file: {path}")));
        }
        let derived = self.program.nodes().filter(|(_, spec)| !spec.meta.hidden);
        let derived: HashMap<String, &Spec> =
            derived.filter_map(|(_, spec)| Some((derived_path(spec)?, spec))).collect();
        for (_, spec) in self.manifest.nodes().filter(|(_, spec)| has_content(spec)) {
            if let Some((path, other)) = file_path(spec).and_then(|path| derived.get_key_value(&path)) {
                self.diagnostics.push(both(other, spec, &format!("the same file: {path}")));
            }
        }
        let (ours, theirs) = (Writers::of(self.program), Writers::of(self.manifest));
        let found = ours.against(&theirs).into_iter().chain(theirs.against(&ours));
        self.diagnostics.extend(found);
    }

    /// So is one account, one package or one service, left to Puppet or not.
    fn refuse_shared_objects(&mut self) {
        let ours = self.program.nodes().filter(|(_, spec)| !spec.meta.hidden);
        let ours: HashMap<_, &Spec> = ours.filter_map(|(_, spec)| Some((object(spec)?, spec))).collect();
        for (_, spec) in self.manifest.nodes() {
            let Some(((kind, name), other)) = object(spec).and_then(|found| ours.get_key_value(&found))
            else {
                continue;
            };
            if spec.id != other.id {
                self.diagnostics.push(both(other, spec, &format!("both {kind}[{name}]")));
            }
        }
    }

    fn all_edges(&self) -> Vec<(Side, NodeId, NodeId, Edge)> {
        let side = |side, graph: &ResourceGraph| -> Vec<_> {
            graph.edges().map(|(from, to, edge)| (side, from, to, edge.clone())).collect()
        };
        [side(Side::Program, self.program), side(Side::Manifest, self.manifest)].concat()
    }

    /// The `noop`s of the program that want a class, with the rest of their names.
    fn noops(&self) -> Vec<(NodeId, String)> {
        let wants = |spec: &Spec| noop_name(spec)?.strip_prefix(OURS).map(str::to_owned);
        let nodes = self.program.nodes().filter(|(_, spec)| !spec.meta.hidden);
        nodes.filter_map(|(node, spec)| Some((node, wants(spec)?))).collect()
    }

    /// The classes of the manifest that want a `noop`.
    fn classes(&self) -> Vec<Class> {
        let marker = |spec: &Spec, end: &str| {
            let name = noop_name(spec)?;
            Some(name.strip_prefix(end)?.strip_prefix("_Class[")?.strip_suffix(']')?.to_owned())
        };
        let ends: HashMap<String, NodeId> = self
            .manifest
            .nodes()
            .filter_map(|(node, spec)| Some((marker(spec, "completed")?, node)))
            .collect();
        let begins = self.manifest.nodes();
        let begins = begins.filter_map(|(node, spec)| Some((marker(spec, "admissible")?, node)));
        begins
            .filter_map(|(title, begin)| {
                // Puppet has no capitals in the names of classes; references have.
                let name = title.to_lowercase();
                let rest = name.strip_prefix(THEIRS)?.to_owned();
                Some(Class { end: ends.get(&title).copied(), name, begin, rest })
            })
            .collect()
    }

    /// What belongs together. What has no counterpart is told.
    fn pairs<'c>(
        &mut self,
        noops: &[(NodeId, String)],
        classes: &'c [Class],
        allow_unmatched: bool,
    ) -> Vec<(NodeId, &'c Class)> {
        let severity = if allow_unmatched { Severity::Warning } else { Severity::Error };
        let mut pairs: Vec<(NodeId, &Class)> = Vec::new();
        let mut without = Vec::new();
        for (noop, rest) in noops {
            // Some write the name as references do.
            let found = classes.iter().find(|class| {
                class.rest == *rest
                    || (class.rest == rest.to_lowercase() && capitals(&class.rest) == capitals(rest))
            });
            match found {
                Some(class) => pairs.push((*noop, class)),
                None => without.push((*noop, rest)),
            }
        }
        let taken: HashSet<NodeId> = pairs.iter().map(|(_, class)| class.begin).collect();
        let free: Vec<&Class> = classes.iter().filter(|class| !taken.contains(&class.begin)).collect();
        for (noop, rest) in &without {
            let Some(spec) = self.program.node(*noop) else { continue };
            let message = format!(
                "{} of the program{} belongs to no class: the manifest has no class `{THEIRS}{rest}`",
                spec.id,
                place(spec.origin.as_ref())
            );
            let near = did_you_mean(rest, free.iter().map(|class| class.rest.as_str()));
            let near = near.and_then(|near| free.iter().find(|class| class.rest == near));
            let hint = match near {
                Some(class) => format!(
                    "did you mean `{OURS}{}`? There is a class `{}`{}",
                    class.rest,
                    class.name,
                    place(self.origin(class.begin))
                ),
                None => format!(
                    "add `class {THEIRS}{rest} {{}}` to the manifest and include it, or rename the `noop`"
                ),
            };
            let found =
                Diagnostic::new(severity, message).with_code(codes::UNMATCHED).at(spec.origin.clone());
            self.diagnostics.push(found.hint(hint));
        }
        for class in &free {
            let message = format!(
                "class `{}` of the manifest{} belongs to no `noop`: the program has no `noop \"{OURS}{}\"`",
                class.name,
                place(self.origin(class.begin)),
                class.rest
            );
            let rests: Vec<&str> = without.iter().map(|(_, rest)| rest.as_str()).collect();
            let near = did_you_mean(&class.rest, rests.into_iter());
            let near = near.and_then(|near| without.iter().find(|(_, rest)| *rest == near));
            let hint = match near {
                Some((noop, rest)) => format!(
                    "did you mean `class {THEIRS}{rest}`? There is `noop[{OURS}{rest}]`{}",
                    place(self.program.node(*noop).and_then(|spec| spec.origin.as_ref()))
                ),
                None => {
                    format!("add `noop \"{OURS}{}\" {{}}` to the program, or rename the class", class.rest)
                }
            };
            let found = Diagnostic::new(severity, message).with_code(codes::UNMATCHED);
            let found = found.at(self.origin(class.begin).cloned());
            self.diagnostics.push(found.hint(hint));
        }
        pairs
    }

    /// What is in a class would have to run between its two ends, which become one.
    fn refuse_members(&mut self, classes: &[Class], pairs: &[(NodeId, &Class)]) {
        for class in classes {
            let noop = pairs.iter().find(|(_, other)| other.begin == class.begin);
            let Some((noop, _)) = noop else { continue };
            let members: Vec<NodeId> = self
                .manifest
                .successors(class.begin)
                .map(|(next, _)| next)
                .filter(|next| Some(*next) != class.end)
                .collect();
            let is_followed = class.end.is_some_and(|end| self.manifest.edge(class.begin, end).is_some());
            if members.is_empty() && is_followed {
                continue;
            }
            let place_of_noop = place(self.program.node(*noop).and_then(|spec| spec.origin.as_ref()));
            let what = match members.as_slice() {
                [] => "has no end".to_owned(),
                members => {
                    let named = members.iter().take(3).map(|member| self.named(*member));
                    let named: Vec<String> = named.collect();
                    let more = members.len().saturating_sub(named.len());
                    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                    format!("is not empty: {}{more} would be in it", named.join(", "))
                }
            };
            let message = format!(
                "class `{}` of the manifest{}, which belongs to `noop[{OURS}{}]` of the program{place_of_noop}, {what}",
                class.name,
                place(self.origin(class.begin)),
                class.rest,
            );
            let found = Diagnostic::error(message).with_code(codes::NOT_EMPTY);
            let found = found.at(self.origin(class.begin).cloned());
            self.diagnostics
                .push(found.hint("move what is in it to another class, and order the two with `->`"));
        }
    }

    /// A vertex of the manifest, for people.
    fn named(&self, node: NodeId) -> String {
        let Some(spec) = self.manifest.node(node) else { return String::new() };
        format!("{}{}", spec.id, place(spec.origin.as_ref()))
    }

    fn origin(&self, node: NodeId) -> Option<&Origin> {
        self.manifest.node(node)?.origin.as_ref()
    }

    /// Two `noop`s of the program have one name now.
    fn taken(&mut self, spec: &Spec, other: Option<&Origin>, is_joined: bool) {
        let Id { name, .. } = &spec.id;
        let (joined, plain) = match is_joined {
            true => (place(spec.origin.as_ref()), place(other)),
            false => (place(other), place(spec.origin.as_ref())),
        };
        let message = format!(
            "`noop \"{OURS}{}\"` of the program{joined} would become {}, which another of the program{plain} is already",
            name.display(),
            spec.id
        );
        let found = Diagnostic::error(message).with_code(codes::SAME).at(spec.origin.clone());
        self.diagnostics.push(found.hint("rename one of the two"));
    }

    fn on_both_sides(&mut self, spec: &Spec, other: Option<&Origin>) {
        let message = format!(
            "{} is in the program{} and in the manifest{}",
            spec.id,
            place(other),
            place(spec.origin.as_ref())
        );
        let found = Diagnostic::error(message).with_code(codes::SAME).at(spec.origin.clone());
        self.diagnostics.push(found.hint("take it out of one of them"));
    }

    /// Puppet cannot be told that it is not to remove something of the program.
    fn removes(&mut self, spec: &Spec, other: &Spec) {
        let message = format!(
            "{} of the manifest{} would remove {} of the program{}, which Puppet does not know by a name",
            spec.id.name.display(),
            place(spec.origin.as_ref()),
            other.id,
            place(other.origin.as_ref())
        );
        let found = Diagnostic::error(message).with_code(codes::REMOVES).at(spec.origin.clone());
        self.diagnostics
            .push(found.hint("purge in the program, or have what is managed in the manifest, too"));
    }

    fn refuse_cycles(&mut self) {
        let Err(cycle) = self.graph.check_acyclic() else { return };
        let mut text = String::new();
        for (position, &node) in cycle.nodes.iter().enumerate() {
            if let Some(before) = position.checked_sub(1).and_then(|before| cycle.nodes.get(before)) {
                let side = self.sides.get(&(*before, node)).copied().unwrap_or(Side::Program);
                text.push_str(&format!(" -[{}]-> ", side.word()));
            }
            if let Some(spec) = self.graph.node(node) {
                text.push_str(&format!("{}{}", spec.id, place(spec.origin.as_ref())));
            }
        }
        let origin = cycle.nodes.iter().find_map(|&node| self.graph.node(node)?.origin.clone());
        let message = format!("the program and the manifest wait for each other: {text}");
        let found = Diagnostic::error(message).with_code(codes::CYCLE).at(origin);
        self.diagnostics.push(found.hint("each arrow says who asks for it; take one of them away"));
    }
}

/// A resource of the program and one of the manifest that are the same.
fn both(ours: &Spec, theirs: &Spec, what: &str) -> Diagnostic {
    let message = format!(
        "{} of the program{} and {} of the manifest{} are {what}",
        ours.id,
        place(ours.origin.as_ref()),
        theirs.id,
        place(theirs.origin.as_ref())
    );
    let found = Diagnostic::error(message).with_code(codes::SAME).at(theirs.origin.clone());
    found.hint("take it out of one of them")
}

/// The name of a `noop`.
fn noop_name(spec: &Spec) -> Option<String> {
    (spec.id.kind == "noop").then(|| spec.id.name.to_text().into_owned())
}

/// The first letter of each part, but for the very first, in capitals: as in references to classes.
fn capitals(name: &str) -> String {
    let mut parts = name.split("::");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("::");
        let mut letters = part.chars();
        text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        text.push_str(letters.as_str());
    }
    text
}

/// Where something is, behind its name.
fn place(origin: Option<&Origin>) -> String {
    origin.map_or_else(String::new, |Origin { file, line, .. }| format!(" ({file}:{line})"))
}
