//! The order of a catalogue, as Puppet itself finds it.
//!
//! From containment, the four relationship parameters and the automatic rules of types comes one graph, in four steps:
//! manual edges; automatic ones, where no edge leads either way already; containers are replaced by their beginning and
//! their end; edges between the same two become one. Tests hold the result against Puppet's own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use mgmt_puppet_process::Relation;

use crate::automatic::{self, Automatic};
use crate::catalogue::{Catalogue, Declared};
use crate::data::Data;

/// Vertices and the order between them.
#[derive(Debug, Default)]
pub struct Relations {
    /// Resources, and the two ends of each container.
    pub vertices: Vec<Vertex>,
    /// From, to, and whether a change is told. No two have both ends in common.
    pub edges: Vec<Related>,
    /// References that lead nowhere.
    pub broken: Vec<Broken>,
}

/// A vertex, by the position of what it stands for in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Vertex {
    /// A resource.
    Resource(usize),
    /// What a container has to wait for is before this.
    Begin(usize),
    /// Everything in a container is before this.
    End(usize),
}

impl Vertex {
    /// What Puppet calls it.
    pub fn name(self, catalogue: &Catalogue) -> String {
        match self {
            Vertex::Resource(at) => catalogue.resources[at].to_string(),
            Vertex::Begin(at) => format!("admissible_{}", catalogue.resources[at]),
            Vertex::End(at) => format!("completed_{}", catalogue.resources[at]),
        }
    }

    /// The position of what it stands for.
    pub fn position(self) -> usize {
        match self {
            Vertex::Resource(at) | Vertex::Begin(at) | Vertex::End(at) => at,
        }
    }
}

/// One edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Related {
    /// What comes first.
    pub from: Vertex,
    /// What comes later.
    pub to: Vertex,
    /// A change of the first is told to the second.
    pub notify: bool,
}

/// A reference that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Whose it is, by position.
    pub at: usize,
    /// The parameter.
    pub parameter: &'static str,
    /// The reference.
    pub reference: String,
}

/// Finds the order. `custom` are the automatic relations that only Puppet knows.
pub fn relate(catalogue: &Catalogue, custom: &[Relation]) -> Relations {
    let mut edges = Edges::default();
    let mut broken = Vec::new();
    for (at, declared) in catalogue.resources.iter().enumerate() {
        manual(catalogue, at, declared, &mut edges, &mut broken);
    }
    let mut by_resource: HashMap<usize, Vec<Automatic>> = HashMap::new();
    for relation in custom {
        if let (Some(from), Some(to)) = (catalogue.find(&relation.from), catalogue.find(&relation.to)) {
            // Whichever end it is told for, it is looked at with the other rules of that end.
            let automatic = Automatic { from, to, notify: relation.notify };
            by_resource.entry(to).or_default().push(automatic);
        }
    }
    let index = automatic::Index::new(catalogue);
    for (at, declared) in catalogue.resources.iter().enumerate() {
        let known = automatic::relations(catalogue, &index, at, declared);
        for Automatic { from, to, notify } in
            known.into_iter().chain(by_resource.remove(&at).unwrap_or_default())
        {
            // What a person says wins, and so does the first of two rules.
            if from != to && !edges.connects(from, to) && !edges.connects(to, from) {
                edges.add(from, to, notify);
            }
        }
    }
    let (vertices, edges) = without_containers(catalogue, &edges);
    Relations { vertices, edges, broken }
}

/// The relationship parameters: whether the edge leads here, and whether it notifies.
const PARAMETERS: [(&str, bool, bool); 4] =
    [("require", true, false), ("subscribe", true, true), ("before", false, false), ("notify", false, true)];

fn manual(
    catalogue: &Catalogue,
    at: usize,
    declared: &Declared,
    edges: &mut Edges,
    broken: &mut Vec<Broken>,
) {
    for (parameter, leads_here, notify) in PARAMETERS {
        let Some(references) = declared.get(parameter).and_then(Data::texts) else { continue };
        for reference in references {
            match catalogue.find(&reference) {
                Some(other) if leads_here => edges.add(other, at, notify),
                Some(other) => edges.add(at, other, notify),
                None => broken.push(Broken { at, parameter, reference }),
            }
        }
    }
}

/// Edges between positions.
#[derive(Debug, Default)]
struct Edges {
    known: HashMap<(usize, usize), usize>,
    list: Vec<(usize, usize, bool)>,
}

impl Edges {
    fn add(&mut self, from: usize, to: usize, notify: bool) {
        match self.known.entry((from, to)) {
            Entry::Occupied(known) => self.list[*known.get()].2 |= notify,
            Entry::Vacant(new) => {
                new.insert(self.list.len());
                self.list.push((from, to, notify));
            }
        }
    }

    fn connects(&self, from: usize, to: usize) -> bool {
        self.known.contains_key(&(from, to))
    }
}

/// Replaces each container by its beginning and its end.
fn without_containers(catalogue: &Catalogue, edges: &Edges) -> (Vec<Vertex>, Vec<Related>) {
    let is_container = |at: usize| catalogue.resources[at].is_container;
    let begin = |at: usize| if is_container(at) { Vertex::Begin(at) } else { Vertex::Resource(at) };
    let end = |at: usize| if is_container(at) { Vertex::End(at) } else { Vertex::Resource(at) };
    let all = 0..catalogue.resources.len();
    let mut vertices: Vec<Vertex> =
        all.clone().filter(|&at| !is_container(at)).map(Vertex::Resource).collect();
    let containers: Vec<usize> = all.filter(|&at| is_container(at)).collect();
    vertices.extend(containers.iter().flat_map(|&at| [Vertex::Begin(at), Vertex::End(at)]));

    let mut found = Found::default();
    for &(from, to, notify) in &edges.list {
        found.add(end(from), begin(to), notify);
    }
    let mut holds_something = vec![false; catalogue.resources.len()];
    for &(container, member) in &catalogue.contains {
        holds_something[container] = true;
        found.add(Vertex::Begin(container), begin(member), true);
        found.add(end(member), Vertex::End(container), true);
    }
    // A change is not told through a container that is empty.
    for at in containers.into_iter().filter(|&at| !holds_something[at]) {
        found.add(Vertex::Begin(at), Vertex::End(at), false);
    }
    (vertices, found.list)
}

#[derive(Default)]
struct Found {
    known: HashMap<(Vertex, Vertex), usize>,
    list: Vec<Related>,
}

impl Found {
    fn add(&mut self, from: Vertex, to: Vertex, notify: bool) {
        match self.known.entry((from, to)) {
            Entry::Occupied(known) => self.list[*known.get()].notify |= notify,
            Entry::Vacant(new) => {
                new.insert(self.list.len());
                self.list.push(Related { from, to, notify });
            }
        }
    }
}
