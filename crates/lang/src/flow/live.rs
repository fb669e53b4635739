//! Functions that look at the outside world, and what wakes them.

use std::sync::Arc;

use mgmt_dataflow::{Compute, NodeId, State};
use mgmt_diagnostics::Span;
use mgmt_funcs::{Body, Failure, Function, Memory, Watch};
use mgmt_value::{Str, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::because::Noted;
use super::frozen::MAX_VISITED;
use super::{Datum, Fault, Flow, Frame, Program, Settled, lock};
use crate::codes::Code;
use crate::hir::ModuleId;
use crate::host::Based;

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
    /// The watches whose events do not come at present, and why.
    pub(super) broken: FxHashMap<Watch, Arc<str>>,
    /// Calls that gave another value than before, since this was last asked for.
    noted: Vec<Noted>,
    /// The frames of files, which are there once.
    pub(super) modules: FxHashMap<ModuleId, Arc<Frame>>,
}

/// A call of a function that looks at the outside world.
pub(super) struct Call {
    pub(super) span: Span,
    function: &'static Function,
    ticket: u64,
    /// What wakes it.
    watching: Vec<Watch>,
    /// It has looked at the host, and not only at its arguments.
    has_read: bool,
}

impl Call {
    /// Something wakes it.
    pub(super) fn is_live(&self) -> bool {
        !self.watching.is_empty()
    }

    /// It has looked at the host, which does not tell when that changes.
    fn has_read(&self) -> bool {
        self.has_read && matches!(self.function.body, Body::Host(_))
    }

    /// Another look at the host can give another value. The files of a deploy are read with the program, unless that fails.
    pub(super) fn is_read_anew(&self, has_failed: bool) -> bool {
        self.has_read() && (has_failed || self.function.module != "deploy")
    }

    /// Why nothing tells when its value changes, if that is so.
    pub(super) fn broken_source<'a>(&self, broken: &'a FxHashMap<Watch, Arc<str>>) -> Option<&'a Arc<str>> {
        self.watching.iter().find_map(|watch| broken.get(watch))
    }
}

/// The calls to make again because something fails. Found behind one of the nodes that fail first.
pub(super) fn to_retry(root: NodeId, graph: &Flow, watches: &Watches, tickets: &mut SmallVec<[u64; 1]>) {
    if let Some(call) = watches.calls.get(&root) {
        let is_final = match graph.state(root) {
            State::Failed(fault) => fault.catchable && call.is_live(),
            _ => false,
        };
        if is_final {
            // The next event is the next attempt.
            return;
        }
        if call.is_live() || call.is_read_anew(true) {
            tickets.push(call.ticket);
            return;
        }
    }
    graph.depends_on(root, MAX_VISITED, |node| {
        let call = watches.calls.get(&node).filter(|call| call.is_read_anew(false));
        tickets.extend(call.map(|call| call.ticket));
        false
    });
}

impl Watches {
    /// A number for a node that is about to be made.
    pub(super) fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn is(&mut self, ticket: u64, node: NodeId, span: Span, function: &'static Function) {
        self.nodes.insert(ticket, node);
        self.calls.insert(node, Call { span, function, ticket, watching: Vec::new(), has_read: false });
    }

    /// Whether the node of a call is still there.
    pub(super) fn has(&self, ticket: u64) -> bool {
        self.nodes.contains_key(&ticket)
    }

    /// Has a call that has failed made again, with growing pauses, from now on or no longer.
    pub(super) fn retry(&mut self, ticket: u64, is_failing: bool) {
        match is_failing {
            true => self.begin(&Watch::Retry(ticket), ticket),
            false => self.end(&Watch::Retry(ticket), ticket),
        }
    }

    /// Whatever a call reads is asked for anew: answers that were kept are not used again.
    pub(super) fn forget_answers(&self, node: NodeId) {
        let watching = self.calls.get(&node).into_iter().flat_map(|call| &call.watching);
        watching.for_each(mgmt_funcs::touch);
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
            self.broken.remove(watch);
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
    /// It has looked at the host.
    pub(super) has_read: bool,
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
        let read = read(&mut self.memory, &host, values);
        let has_read = self.memory.has_read_host();
        if self.has_read != has_read {
            self.has_read = has_read;
            self.with_call(|call| call.has_read = has_read);
        }
        read
    }

    fn with_call(&self, change: impl FnOnce(&mut Call)) {
        let mut watches = lock(&self.program.watches);
        if let Some(node) = watches.nodes.get(&self.ticket).copied()
            && let Some(call) = watches.calls.get_mut(&node)
        {
            change(call);
        }
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
        drop(watches);
        self.with_call(|call| call.watching.clone_from(&wanted));
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
        for watch in self.watching.iter().chain([&Watch::Retry(self.ticket)]) {
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
    let mut diagnostic = Code::Failed.at(span, failure.to_string());
    if catchable {
        diagnostic = diagnostic.hint("`<|>` gives another value for when this fails");
    }
    Fault::new(diagnostic, catchable)
}
