//! A program as a graph of values that is kept up to date.
//!
//! The reference for what a program means is `eval`; here the same is built as a [`mgmt_dataflow::Graph`], so that an
//! event costs what it changes. A bind is one node for all that read it. A branch, the body of a function value, a turn of
//! a loop and the right side of `<|>` are attached when they are needed and go when they are not.
//!
//! A [`Frame`] is one copy of what a scope defines, as in the reference, but it holds nodes and not values.

mod expr;
mod live;
mod stmt;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgmt_dataflow::{Graph, NodeId, ScopeId, State};
use mgmt_funcs::{Host, Watch};
use mgmt_resource::{Registry, ResourceGraph};
use mgmt_value::Value;
use rustc_hash::FxHashMap;

use crate::Checked;
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::output::{self, Declaration, DeclaredEdge};
use crate::source::Span;

pub use live::WatchChange;

/// What a node holds.
#[derive(Clone)]
pub(crate) enum Datum {
    Value(Value),
    /// What a statement declares.
    Declared(Arc<Declared>),
}

impl PartialEq for Datum {
    fn eq(&self, other: &Datum) -> bool {
        match (self, other) {
            (Datum::Value(a), Datum::Value(b)) => a == b,
            (Datum::Declared(a), Datum::Declared(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// What a statement declares.
#[derive(Default)]
pub(crate) struct Declared {
    pub(crate) resources: Vec<Declaration>,
    pub(crate) edges: Vec<DeclaredEdge>,
    /// What it says but cannot be.
    pub(crate) wrong: Vec<Diagnostic>,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) diagnostic: Arc<Diagnostic>,
    /// `<|>` may replace it.
    pub(crate) catchable: bool,
}

pub(crate) type Flow = Graph<Datum, Fault>;
pub(crate) type Settled = State<Datum, Fault>;

/// What everything that is built shares.
pub(crate) struct Program {
    pub(crate) checked: Arc<Checked>,
    pub(crate) kinds: Registry,
    pub(crate) host: Arc<dyn Host + Send + Sync>,
    pub(crate) watches: Mutex<live::Watches>,
}

/// One copy of what a scope defines.
pub(crate) struct Frame {
    scope: Place,
    parent: Option<Arc<Frame>>,
    /// Where its nodes live.
    home: ScopeId,
    nodes: Mutex<FxHashMap<VarId, NodeId>>,
    includes: Mutex<FxHashMap<StmtId, Arc<Frame>>>,
    made_by: Option<(Maker, Arc<Frame>)>,
}

/// What a frame is a copy of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Module(ModuleId),
    Class(ClassId),
    Loop(StmtId),
    Branch(BlockId),
    Func(FuncId),
}

/// What made a frame, for what is generic in it.
#[derive(Clone, Copy)]
pub(crate) enum Maker {
    Call(ExprId),
    Include(StmtId),
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Frame {
    fn new(
        scope: Place,
        parent: Option<Arc<Frame>>,
        home: ScopeId,
        made_by: Option<(Maker, Arc<Frame>)>,
    ) -> Arc<Frame> {
        Arc::new(Frame { scope, parent, home, nodes: Mutex::default(), includes: Mutex::default(), made_by })
    }

    /// The frame of a scope, among this one and those around it.
    fn of(self: &Arc<Frame>, scope: Place) -> Option<&Arc<Frame>> {
        let mut at = self;
        while at.scope != scope {
            at = at.parent.as_ref()?;
        }
        Some(at)
    }
}

/// A program that is being kept up to date.
pub struct Running {
    program: Arc<Program>,
    graph: Flow,
    outputs: FxHashMap<NodeId, Arc<Declared>>,
}

/// What came of a change.
#[derive(Debug)]
pub enum Outcome {
    /// The resources are the same as before.
    Unchanged,
    /// The resources are these now.
    Graph(ResourceGraph),
    /// Some value is not there yet.
    Waiting,
    /// There are no resources, for these reasons. Until they are gone, the last ones are the best that is known.
    Wrong(Vec<Diagnostic>),
}

impl Running {
    /// Starts a program that has been checked and is right.
    pub fn new(checked: Arc<Checked>, kinds: Registry, host: Arc<dyn Host + Send + Sync>) -> Running {
        let program = Arc::new(Program { checked, kinds, host, watches: Mutex::default() });
        let mut running = Running { program, graph: Flow::new(), outputs: FxHashMap::default() };
        running.deep(|running| {
            let frame = Frame::new(Place::Module(ModuleId(0)), None, Flow::ROOT, None);
            let mut builder = Builder { program: running.program.clone(), graph: &mut running.graph };
            builder.modules_are_ready(&frame);
            if let Some(main) = builder.program.clone().checked.hir.modules.first() {
                builder.block(&frame, main.block);
            }
        });
        running
    }

    /// Depth costs stack.
    fn deep<T: Send>(&mut self, work: impl FnOnce(&mut Running) -> T + Send) -> Option<T> {
        let depth = self.program.checked.depth;
        mgmt_syntax::with_deep_stack(depth, || work(self)).ok()
    }

    /// Something happened that a watch tells of.
    pub fn happened(&mut self, watch: &Watch) {
        let nodes = lock(&self.program.watches).of(watch);
        for node in nodes {
            self.graph.touch(node);
        }
    }

    /// What is to be watched from now on, and what no longer. Asked after each [`Running::settle`].
    pub fn watch_changes(&mut self) -> Vec<WatchChange> {
        lock(&self.program.watches).changes()
    }

    /// Brings everything up to date, and says what the resources are.
    pub fn settle(&mut self) -> Outcome {
        let delta = match self.deep(|running| running.graph.settle()) {
            Some(delta) => delta,
            None => return Outcome::Wrong(Vec::new()),
        };
        let mut changed = !delta.removed.is_empty();
        for id in &delta.removed {
            self.outputs.remove(id);
        }
        for &id in &delta.changed {
            changed = true;
            match self.graph.state(id) {
                State::Value(Datum::Declared(declared)) => {
                    self.outputs.insert(id, declared.clone());
                }
                _ => {
                    self.outputs.remove(&id);
                }
            }
        }
        if self.graph.failed_outputs() > 0 {
            return Outcome::Wrong(self.failures());
        }
        if self.graph.undefined_outputs() > 0 {
            return Outcome::Waiting;
        }
        if !changed {
            return Outcome::Unchanged;
        }
        self.assemble()
    }

    fn failures(&self) -> Vec<Diagnostic> {
        let mut wrong: Vec<Diagnostic> = Vec::new();
        for id in self.graph.outputs() {
            if let State::Failed(fault) = self.graph.state(id) {
                wrong.push((*fault.diagnostic).clone());
            }
        }
        wrong.sort_by(|a, b| (a.span(), &a.message).cmp(&(b.span(), &b.message)));
        wrong.dedup();
        wrong
    }

    fn assemble(&self) -> Outcome {
        let mut all: Vec<&Arc<Declared>> = self.outputs.values().collect();
        all.sort_by_key(|declared| declared.place());
        let wrong: Vec<Diagnostic> = all.iter().flat_map(|declared| declared.wrong.iter().cloned()).collect();
        if !wrong.is_empty() {
            return Outcome::Wrong(wrong);
        }
        let resources = all
            .iter()
            .flat_map(|declared| &declared.resources)
            .map(|found| Declaration { spec: found.spec.clone(), span: found.span })
            .collect();
        let edges: Vec<DeclaredEdge> =
            all.iter().flat_map(|declared| declared.edges.iter().cloned()).collect();
        match output::assemble(resources, &edges, &self.program.kinds) {
            Ok(graph) => Outcome::Graph(graph),
            Err(wrong) => Outcome::Wrong(wrong),
        }
    }
}

impl Declared {
    /// For a stable order: where it is, and what it is called.
    fn place(&self) -> (Option<Span>, Option<&mgmt_resource::Id>) {
        let resource = self.resources.first();
        let span = resource.map(|found| found.span).or(self.edges.first().map(|edge| edge.span));
        (span, resource.map(|found| &found.spec.id))
    }
}

/// Builds parts of the graph.
pub(crate) struct Builder<'g> {
    pub(crate) program: Arc<Program>,
    pub(crate) graph: &'g mut Flow,
}

impl Builder<'_> {
    fn modules_are_ready(&self, main: &Arc<Frame>) {
        lock(&self.program.watches).modules.insert(ModuleId(0), main.clone());
    }

    fn checked(&self) -> Arc<Checked> {
        self.program.checked.clone()
    }

    fn module(&self, module: ModuleId) -> Arc<Frame> {
        let mut watches = lock(&self.program.watches);
        let frame = watches.modules.entry(module);
        frame.or_insert_with(|| Frame::new(Place::Module(module), None, Flow::ROOT, None)).clone()
    }

    /// The scope whose copies hold what a block defines.
    fn place_of(&self, block: BlockId) -> Place {
        match self.program.checked.hir[block].parent {
            Parent::Module(module) => Place::Module(module),
            Parent::Class(class, _) => Place::Class(class),
            Parent::Loop(stmt, _) => Place::Loop(stmt),
            Parent::Block(_) => Place::Branch(block),
        }
    }
}
