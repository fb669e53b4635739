//! A program as a graph of values that is kept up to date.
//!
//! The reference for what a program means is `eval`; here the same is built as a [`mgmt_dataflow::Graph`], so that an
//! event costs what it changes. A bind is one node for all that read it. A branch, the body of a function value, a turn of
//! a loop and the right side of `<|>` are attached when they are needed and go when they are not.
//!
//! A [`Frame`] is one copy of what a scope defines, as in the reference, but it holds nodes and not values.

mod because;
mod constant;
mod declared;
mod expr;
mod frozen;
mod live;
mod reconcile;
mod resource;
mod stmt;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgmt_dataflow::{Graph, NodeId, ScopeId, State};
use mgmt_diagnostics::Diagnostic;
use mgmt_funcs::{Host, Watch};
use mgmt_resource::{Registry, ResourceGraph};
use mgmt_value::Value;
use rustc_hash::FxHashMap;

use crate::Checked;
use crate::hir::*;

pub use declared::Change;
use declared::Declarations;
pub(crate) use declared::Declared;
use frozen::{Frozen, Spot};
pub use frozen::{FrozenPart, Inheritance};
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

/// Why there is no value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) diagnostic: Arc<Diagnostic>,
    /// Further errors of the same statement.
    pub(crate) others: Arc<[Diagnostic]>,
    /// `<|>` may replace it.
    pub(crate) catchable: bool,
}

impl Fault {
    fn new(diagnostic: Diagnostic, catchable: bool) -> Fault {
        Fault { diagnostic: Arc::new(diagnostic), others: Arc::default(), catchable }
    }

    /// All errors, the first one first.
    fn all(&self) -> impl Iterator<Item = &Diagnostic> {
        std::iter::once(&*self.diagnostic).chain(self.others.iter())
    }
}

pub(crate) type Flow = Graph<Datum, Fault>;
pub(crate) type Settled = State<Datum, Fault>;

/// What everything that is built shares.
pub(crate) struct Program {
    pub(crate) checked: Arc<Checked>,
    pub(crate) kinds: Registry,
    pub(crate) host: Arc<dyn Host + Send + Sync>,
    pub(crate) watches: Mutex<live::Watches>,
    pub(crate) outputs: Mutex<frozen::Outputs>,
    /// What is known of expressions that may be constant.
    constants: Mutex<FxHashMap<ExprId, Option<Value>>>,
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
    /// Where its statements are.
    spot: Spot,
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
        spot: Spot,
    ) -> Arc<Frame> {
        let (nodes, includes) = (Mutex::default(), Mutex::default());
        Arc::new(Frame { scope, parent, home, nodes, includes, made_by, spot })
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
    declarations: Declarations,
    frozen: Frozen,
    /// What has happened since the last settling.
    woken: FxHashMap<NodeId, Watch>,
    /// Why the last settling changed what it changed.
    reasons: because::Reasons,
}

/// What came of a change.
#[derive(Debug)]
pub enum Outcome {
    /// The resources are the same as before.
    Unchanged,
    /// The resources are these now.
    Graph(ResourceGraph),
    /// The resources differ from those that were told before in this.
    Changed(Change),
    /// Some value is not there yet.
    Waiting,
    /// There are no resources, for these reasons. Until they are gone, the last ones are the best that is known.
    Wrong(Vec<Diagnostic>),
}

impl Running {
    /// Starts a program that has been checked and is right.
    pub fn new(checked: Arc<Checked>, kinds: Registry, host: Arc<dyn Host + Send + Sync>) -> Running {
        let program = Arc::new(Program {
            checked,
            kinds,
            host,
            watches: Mutex::default(),
            outputs: Mutex::default(),
            constants: Mutex::default(),
        });
        let mut running = Running {
            program,
            graph: Flow::new(),
            declarations: Declarations::default(),
            frozen: Frozen::default(),
            woken: FxHashMap::default(),
            reasons: because::Reasons::default(),
        };
        // Room that stays unused costs nothing.
        running.graph.reserve(running.program.checked.hir.stmts.len());
        running.deep(|running| {
            let frame = Frame::new(Place::Module(ModuleId(0)), None, Flow::ROOT, None, Spot::default());
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
        let watches = lock(&self.program.watches);
        for node in watches.of(watch) {
            if matches!(watch, Watch::Retry(_)) {
                watches.forget_answers(node);
            }
            self.graph.touch(node);
            self.woken.insert(node, watch.clone());
        }
    }

    /// The events of a watch do not come, for this reason, or come again. Until they do, the values that depend on them count as
    /// outdated, and [`Running::frozen_parts`] names them.
    pub fn set_source_error(&mut self, watch: &Watch, error: Option<&str>) {
        let mut watches = lock(&self.program.watches);
        let is_wanted = !watches.of(watch).is_empty();
        let before = match error.filter(|_| is_wanted) {
            Some(error) => watches.broken.insert(watch.clone(), error.into()),
            None => watches.broken.remove(watch),
        };
        self.frozen.changed |= before.as_deref() != error;
    }

    /// From now on, a failure of constants freezes what depends on them and nothing else, as any other failure does: the program has
    /// taken the place of one that runs, and the rest of it goes on.
    pub fn freeze_constants(&mut self) {
        self.frozen.freezes_constants = true;
    }

    /// What is to be watched from now on, and what no longer. Asked after each [`Running::settle`].
    pub fn watch_changes(&mut self) -> Vec<WatchChange> {
        lock(&self.program.watches).changes()
    }

    /// Brings everything up to date, and says what the resources are. A value that fails or is missing means that there are none.
    pub fn settle(&mut self) -> Outcome {
        if !self.update() {
            return Outcome::Wrong(Vec::new());
        }
        if self.graph.failed_outputs() > 0 {
            return Outcome::Wrong(self.frozen.failures(&self.graph));
        }
        if self.graph.undefined_outputs() > 0 {
            return Outcome::Waiting;
        }
        self.reasons.explain(self.declarations.tell(&self.program.kinds, false))
    }

    /// Brings everything up to date, and says what the resources are. What depends on a value that fails or is missing stays as it
    /// was last declared, and is not there if it never was; [`Running::frozen_parts`] names it. Only a panic, a failure of constants
    /// and a graph that cannot be are [`Outcome::Wrong`]. A failed look at the host is none of these: it is made again, as
    /// [`Watch::Retry`] says.
    pub fn stabilize(&mut self) -> Outcome {
        if !self.update() {
            return Outcome::Wrong(Vec::new());
        }
        let fatal = self.frozen.fatal(&self.graph);
        if !fatal.is_empty() {
            return Outcome::Wrong(fatal);
        }
        self.reasons.explain(self.declarations.tell(&self.program.kinds, self.frozen.is_any()))
    }

    /// The parts of the program that have no current value, if they are others than when this was last asked for.
    pub fn frozen_parts(&mut self) -> Option<Vec<FrozenPart>> {
        self.frozen.parts(&self.graph, &self.program, &self.declarations)
    }

    /// The conflicts between frozen and current parts. What they are about stays as it was in the last graph without conflicts.
    pub fn conflicts(&self) -> &[Diagnostic] {
        self.declarations.conflicts()
    }

    /// Takes over what an earlier version of the program declared, before the first stabilization: a resource that has no value yet
    /// in this version stays as it was declared in that one.
    pub fn inherit(&mut self, inheritance: Inheritance) {
        self.frozen.inheritance = inheritance;
    }

    /// Gives away what is declared, for the next version of the program. This one declares nothing any more.
    pub fn leave(&mut self) -> Inheritance {
        Inheritance::new(self.declarations.take())
    }

    /// Computes what has to be computed. False if there is no stack for it.
    fn update(&mut self) -> bool {
        let Some(delta) = self.deep(|running| running.graph.settle()) else { return false };
        let woken = std::mem::take(&mut self.woken);
        self.reasons = because::Reasons::find(&self.program, &self.graph, &woken);
        self.frozen.follow(&delta, &self.graph, &self.program, &mut self.declarations);
        true
    }

    /// What was told last was not taken: what is told next is the whole graph.
    pub fn was_refused(&mut self) {
        self.declarations.forget();
    }

    /// All resources as they are now, for whoever cannot do with what has changed.
    pub fn whole(&mut self) -> Outcome {
        self.reasons.explain(self.declarations.whole(&self.program.kinds, self.frozen.is_any()))
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
        let new = || Frame::new(Place::Module(module), None, Flow::ROOT, None, Spot::default());
        frame.or_insert_with(new).clone()
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
