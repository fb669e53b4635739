//! Functions that look at the outside world, and what wakes them.

use std::sync::Arc;

use mgmt_dataflow::{Compute, NodeId, State};
use mgmt_funcs::{Body, Failure, Function, Memory, Watch};
use mgmt_value::{Str, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::because::Noted;
use super::{Datum, Fault, Frame, Program, Settled, lock};
use crate::codes::Code;
use crate::diagnostic::Diagnostic;
use crate::hir::ModuleId;
use crate::host::Based;
use crate::source::Span;

/// Something is to be watched from now on, or no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchChange {
    /// Somebody wants to know.
    Begin(Watch),
    /// Nobody wants to know any more.
    End(Watch),
}

/// Who waits for what.
#[derive(Default)]
pub(crate) struct Watches {
    watchers: FxHashMap<Watch, FxHashSet<u64>>,
    nodes: FxHashMap<u64, NodeId>,
    /// The calls by their nodes.
    pub(super) calls: FxHashMap<NodeId, Call>,
    next: u64,
    changes: Vec<WatchChange>,
    /// Calls that gave another value than before, since this was last asked for.
    noted: Vec<Noted>,
    /// The frames of files, which are there once.
    pub(super) modules: FxHashMap<ModuleId, Arc<Frame>>,
}

/// A call of a function that looks at the outside world.
pub(super) struct Call {
    pub(super) span: Span,
    /// Something can wake it.
    pub(super) is_watching: bool,
}

impl Watches {
    /// A number for a node that is about to be made.
    pub(super) fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn is(&mut self, ticket: u64, node: NodeId, span: Span) {
        self.nodes.insert(ticket, node);
        self.calls.insert(node, Call { span, is_watching: false });
    }

    /// The nodes that wait for something.
    pub(super) fn of(&self, watch: &Watch) -> Vec<NodeId> {
        let waiting = self.watchers.get(watch).into_iter().flatten();
        waiting.filter_map(|ticket| self.nodes.get(ticket).copied()).collect()
    }

    /// The schedules that somebody waits for, and the nodes that do.
    pub(super) fn schedules(&self) -> Vec<(Str, FxHashSet<NodeId>)> {
        let found = self.watchers.keys().filter_map(|watch| match watch {
            Watch::Schedule(name) => Some((name.clone(), self.of(watch).into_iter().collect())),
            _ => None,
        });
        found.collect()
    }

    pub(super) fn changes(&mut self) -> Vec<WatchChange> {
        std::mem::take(&mut self.changes)
    }

    /// The calls that gave another value, and their nodes.
    pub(super) fn take_noted(&mut self) -> (Vec<Noted>, Vec<Option<NodeId>>) {
        let noted = std::mem::take(&mut self.noted);
        let nodes = noted.iter().map(|noted| self.nodes.get(&noted.ticket).copied()).collect();
        (noted, nodes)
    }

    fn begin(&mut self, watch: &Watch, ticket: u64) {
        let waiting = self.watchers.entry(watch.clone()).or_default();
        if waiting.is_empty() {
            self.changes.push(WatchChange::Begin(watch.clone()));
        }
        waiting.insert(ticket);
    }

    fn end(&mut self, watch: &Watch, ticket: u64) {
        let Some(waiting) = self.watchers.get_mut(watch) else { return };
        waiting.remove(&ticket);
        if waiting.is_empty() {
            self.watchers.remove(watch);
            self.changes.push(WatchChange::End(watch.clone()));
        }
    }
}

/// One call of a function that looks at the outside world.
pub(super) struct LiveCall {
    pub(super) program: Arc<Program>,
    pub(super) function: &'static Function,
    pub(super) span: Span,
    pub(super) memory: Memory,
    pub(super) ticket: u64,
    pub(super) watching: Vec<Watch>,
    /// What it gave last.
    pub(super) last: Option<Value>,
}

impl LiveCall {
    fn call(&mut self, values: &[Value]) -> Result<Value, Failure> {
        let read = match self.function.body {
            Body::Live { watches, read } => {
                self.watch(watches(values)?);
                read
            }
            Body::Host(read) => read,
            _ => return Err(Failure::fatal("this function does not look at the outside world")),
        };
        let base = self.program.checked.base(self.span.file);
        let host = Based { host: &*self.program.host, base };
        read(&mut self.memory, &host, values)
    }

    fn watch(&mut self, wanted: Vec<Watch>) {
        if wanted == self.watching {
            return;
        }
        let mut watches = lock(&self.program.watches);
        for watch in &wanted {
            watches.begin(watch, self.ticket);
        }
        for watch in self.watching.iter().filter(|watch| !wanted.contains(watch)) {
            watches.end(watch, self.ticket);
        }
        if let Some(node) = watches.nodes.get(&self.ticket).copied()
            && let Some(call) = watches.calls.get_mut(&node)
        {
            call.is_watching = !wanted.is_empty();
        }
        drop(watches);
        self.watching = wanted;
    }
}

impl LiveCall {
    /// Notes that the value is another than before. The first one is no change.
    fn note(&mut self, value: Option<&Value>) {
        if self.last.as_ref() == value {
            return;
        }
        let before = std::mem::replace(&mut self.last, value.cloned());
        if before.is_none() {
            return;
        }
        let noted = Noted {
            ticket: self.ticket,
            function: self.function,
            span: self.span,
            before,
            after: value.cloned(),
        };
        lock(&self.program.watches).noted.push(noted);
    }
}

impl Compute<Datum, Fault> for LiveCall {
    fn compute(&mut self, inputs: &[&Datum]) -> Settled {
        let values = values(inputs);
        let called = self.call(&values);
        self.note(called.as_ref().ok().filter(|value| **value != Value::Nil));
        match called {
            Ok(Value::Nil) => State::Undefined,
            Ok(value) => State::Value(Datum::Value(value)),
            Err(failure) => State::Failed(failed(self.span, failure)),
        }
    }
}

impl Drop for LiveCall {
    fn drop(&mut self) {
        let mut watches = lock(&self.program.watches);
        for watch in &self.watching {
            watches.end(watch, self.ticket);
        }
        if let Some(node) = watches.nodes.remove(&self.ticket) {
            watches.calls.remove(&node);
        }
    }
}

/// The values among what nodes hold.
pub(super) fn values(inputs: &[&Datum]) -> Vec<Value> {
    inputs
        .iter()
        .map(|input| match input {
            Datum::Value(value) => value.clone(),
            Datum::Declared(_) => Value::Nil,
        })
        .collect()
}

pub(super) fn failed(span: Span, failure: Failure) -> Fault {
    let catchable = matches!(failure, Failure::Catchable(_));
    let mut diagnostic = Diagnostic::new(Code::Failed, span, failure.to_string());
    if catchable {
        diagnostic = diagnostic.hint("`<|>` gives another value for when this fails");
    }
    Fault::new(diagnostic, catchable)
}
