//! The resource graph: what a front-end produces and the engine runs.

use std::fmt;
use std::sync::Arc;

use mgmt_graph::Dag;
use mgmt_value::Str;

use crate::{Because, OnLeave, Resource, SharedMeta};

/// The name that a resource goes by: `kind[name]`. Unique among resources that are not hidden.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The kind.
    pub kind: &'static str,
    /// The name.
    pub name: Str,
}

impl Id {
    /// `kind[name]`
    pub fn new(kind: &'static str, name: impl Into<Str>) -> Id {
        Id { kind, name: name.into() }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.kind, self.name.display())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where something was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A parameter that takes its value from another resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// My parameter.
    pub field: &'static str,
    /// Who sends.
    pub from: Id,
    /// Which of the values it sends.
    pub key: &'static str,
}

/// At which level of the log it is told that a resource has changed something, or would.
///
/// Only a manifest of Puppet can say so, with `loglevel`; everything else is told at the usual level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loudness {
    /// For whoever looks for a fault.
    Debug,
    /// As usual.
    #[default]
    Info,
    /// Somebody should know.
    Warning,
    /// As if it were an error.
    Error,
}

/// One vertex: a declared resource with all that was said about it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name.
    pub id: Id,
    /// Its parameters.
    pub resource: Arc<dyn Resource>,
    /// Its metaparameters.
    pub meta: SharedMeta,
    /// The parameters that come from others.
    pub receives: Vec<Receive>,
    /// The resources that were grouped into this one; they are no vertices of their own.
    pub children: Vec<Spec>,
    /// It undoes a resource that has disappeared.
    pub is_reversal: bool,
    /// How loud it is told what it changes.
    pub loudness: Loudness,
    /// Where it was declared.
    pub origin: Option<Origin>,
    /// The values that made it what it is now, if it was another before.
    pub because: Option<Arc<Because>>,
    /// The schedules under which this host was chosen when it was declared, and without which it would be declared differently. It
    /// runs only as long as the host is chosen under all of them.
    pub choices: Arc<[Str]>,
}

impl Spec {
    /// A resource with default metaparameters.
    pub fn new(name: impl Into<Str>, resource: impl Resource) -> Spec {
        Spec::of(name, Arc::new(resource))
    }

    /// The same, for a resource whose kind is only known at run time.
    pub fn of(name: impl Into<Str>, resource: Arc<dyn Resource>) -> Spec {
        Spec {
            id: Id::new(resource.schema().kind, name),
            resource,
            meta: SharedMeta::default(),
            receives: Vec::new(),
            children: Vec::new(),
            is_reversal: false,
            loudness: Loudness::default(),
            origin: None,
            because: None,
            choices: Arc::default(),
        }
    }

    /// The rule for a run that is under way when the resource leaves the graph: the declared one, or else the kind's.
    pub fn on_leave(&self) -> OnLeave {
        self.meta.on_leave().unwrap_or_else(|| self.resource.on_leave())
    }

    /// Whether a vertex that runs `self` may go on untouched when the declaration is now `other`.
    ///
    /// Only what was declared is compared, never what has been received or discovered since.
    pub fn same_as(&self, other: &Spec) -> bool {
        self.id == other.id
            && self.is_reversal == other.is_reversal
            && self.loudness == other.loudness
            && (Arc::ptr_eq(&self.resource, &other.resource)
                || self.resource.same_as(&self.id.name, &*other.resource))
            && self.meta.same_as(&other.meta)
            && self.receives == other.receives
            && self.choices == other.choices
            && self.children.len() == other.children.len()
            && self.children.iter().zip(&other.children).all(|(a, b)| a.same_as(b))
    }

    /// What is to be kept of two declarations of one name: this one if they are the same, one that fulfils both if the
    /// kind can tell, and nothing if they contradict each other. All but the parameters has to be the same.
    pub fn merged(&self, other: &Spec) -> Option<Spec> {
        if self.same_as(other) {
            return Some(self.clone());
        }
        let merged = self.resource.merged(&self.id.name, &*other.resource)?;
        let merged = Spec { resource: Arc::from(merged), ..self.clone() };
        merged.same_as(&Spec { resource: Arc::clone(&merged.resource), ..other.clone() }).then_some(merged)
    }
}

/// An arrow: `from` happens before `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// A change of `from` is told to `to`.
    pub notify: bool,
}

impl Edge {
    /// Order only.
    pub const ORDER: Edge = Edge { notify: false };
    /// Order and notification.
    pub const NOTIFY: Edge = Edge { notify: true };

    /// Both edges in one.
    pub fn merge(&mut self, other: Edge) {
        self.notify |= other.notify;
    }
}

/// Resources and the order between them.
pub type ResourceGraph = Dag<Spec, Edge>;
