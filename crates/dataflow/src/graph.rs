//! The graph.

use std::fmt;

use smallvec::SmallVec;

use crate::queue::Queue;

/// A node. The number of a node that is gone may be given to another; the generation tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    slot: u32,
    generation: u32,
}

/// A part of the graph that comes and goes as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeId {
    slot: u32,
    generation: u32,
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.slot, self.generation)
    }
}

impl fmt::Debug for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}.{}", self.slot, self.generation)
    }
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq)]
pub enum State<V, E> {
    /// Nothing yet.
    Undefined,
    /// A value.
    Value(V),
    /// The reason why there is none.
    Failed(E),
}

impl<V, E> State<V, E> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&V> {
        match self {
            State::Value(value) => Some(value),
            _ => None,
        }
    }
}

/// How a node gets its value from those of others.
pub trait Compute<V, E>: Send {
    /// Computes it. Called when an input changed, and when the node was [touched](Graph::touch).
    fn compute(&mut self, inputs: &[&V]) -> State<V, E>;
}

impl<V, E, F: FnMut(&[&V]) -> State<V, E> + Send> Compute<V, E> for F {
    fn compute(&mut self, inputs: &[&V]) -> State<V, E> {
        self(inputs)
    }
}

/// What a switch attaches.
pub trait Attach<V, E>: Send {
    /// Whether what is attached for one value serves for another.
    fn same(&self, old: &V, new: &V) -> bool;

    /// Builds the part for a value, in a scope of its own, and returns the node that gives the switch its value. Without
    /// one the switch is there for its outputs alone, and has no value.
    fn attach(&mut self, graph: &mut Graph<V, E>, scope: ScopeId, value: &V) -> Option<NodeId>;
}

/// What a guard attaches while what it guards fails.
pub trait Catch<V, E>: Send {
    /// Whether it can replace a value that fails in this way.
    fn catches(&self, failure: &E) -> bool;

    /// Builds the replacement.
    fn attach(&mut self, graph: &mut Graph<V, E>, scope: ScopeId) -> NodeId;
}

enum Kind<V, E> {
    /// A constant or a source.
    Given,
    Compute(Box<dyn Compute<V, E>>),
    /// Watches a value and attaches things.
    Switch {
        attach: Option<Box<dyn Attach<V, E>>>,
        built_for: Option<V>,
        scope: Option<ScopeId>,
        join: NodeId,
    },
    /// Watches whether a value fails.
    Guard {
        catch: Option<Box<dyn Catch<V, E>>>,
        scope: Option<ScopeId>,
        join: NodeId,
    },
    /// The value of what a switch or a guard has attached: its last input.
    Join,
}

struct Node<V, E> {
    kind: Kind<V, E>,
    inputs: SmallVec<[NodeId; 3]>,
    /// Who reads it. May hold ids of nodes that are gone: `stale` of them at least.
    readers: SmallVec<[NodeId; 2]>,
    stale: usize,
    state: State<V, E>,
    height: u32,
    queued: bool,
    is_output: bool,
    changed_at: u64,
}

struct Slot<V, E> {
    generation: u32,
    node: Option<Node<V, E>>,
}

struct Scope {
    generation: u32,
    alive: bool,
    nodes: Vec<NodeId>,
    /// Everything in it is higher.
    height: u32,
}

/// What settling did to the outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Outputs that are new, or whose state is another one now.
    pub changed: Vec<NodeId>,
    /// Outputs that are gone.
    pub removed: Vec<NodeId>,
    /// How many nodes were computed.
    pub computed: usize,
}

/// Values that follow from other values.
pub struct Graph<V, E> {
    slots: Vec<Slot<V, E>>,
    free: Vec<u32>,
    scopes: Vec<Scope>,
    free_scopes: Vec<u32>,
    queue: Queue,
    revision: u64,
    delta: Delta,
    undefined_outputs: usize,
    failed_outputs: usize,
    alive: usize,
}

impl<V: Clone + PartialEq, E: Clone + PartialEq> Default for Graph<V, E> {
    fn default() -> Graph<V, E> {
        Graph::new()
    }
}

impl<V: Clone + PartialEq, E: Clone + PartialEq> Graph<V, E> {
    /// The scope of what is always there.
    pub const ROOT: ScopeId = ScopeId { slot: 0, generation: 0 };

    /// An empty graph.
    pub fn new() -> Graph<V, E> {
        let root = Scope { generation: 0, alive: true, nodes: Vec::new(), height: 0 };
        Graph {
            slots: Vec::new(),
            free: Vec::new(),
            scopes: vec![root],
            free_scopes: Vec::new(),
            queue: Queue::default(),
            revision: 0,
            delta: Delta::default(),
            undefined_outputs: 0,
            failed_outputs: 0,
            alive: 0,
        }
    }

    /// Makes room for so many more nodes at once: a graph that grows by and by is copied again and again.
    pub fn reserve(&mut self, nodes: usize) {
        self.slots.reserve(nodes);
        if let Some(root) = self.scopes.first_mut() {
            root.nodes.reserve(nodes);
        }
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.alive
    }

    /// The outputs. Costs as much as the graph is large.
    pub fn outputs(&self) -> impl Iterator<Item = NodeId> {
        self.slots.iter().enumerate().filter_map(|(slot, place)| {
            let node = place.node.as_ref()?;
            node.is_output.then_some(NodeId { slot: slot as u32, generation: place.generation })
        })
    }

    /// Whether there are outputs without a value yet.
    pub fn undefined_outputs(&self) -> usize {
        self.undefined_outputs
    }

    /// How many outputs fail.
    pub fn failed_outputs(&self) -> usize {
        self.failed_outputs
    }

    fn node(&self, id: NodeId) -> Option<&Node<V, E>> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation == id.generation { slot.node.as_ref() } else { None }
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node<V, E>> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation { slot.node.as_mut() } else { None }
    }

    /// Whether a node is there.
    pub fn contains(&self, id: NodeId) -> bool {
        self.node(id).is_some()
    }

    /// What a node holds. One that is gone holds nothing.
    pub fn state(&self, id: NodeId) -> &State<V, E> {
        self.node(id).map_or(&State::Undefined, |node| &node.state)
    }

    /// The settling in which a node last changed.
    pub fn changed_at(&self, id: NodeId) -> u64 {
        self.node(id).map_or(0, |node| node.changed_at)
    }

    /// The outputs that a change of a node has reached in the last settling, through values or through what was attached
    /// because of it. At most so many nodes are looked at.
    pub fn reached(&self, from: NodeId, most: usize) -> Vec<NodeId> {
        self.outputs_behind(from, most, |node| node.changed_at == self.revision)
    }

    /// The outputs whose state can come from a node, directly or through others, or through what was attached because of it. At
    /// most so many nodes are looked at.
    pub fn dependents(&self, from: NodeId, most: usize) -> Vec<NodeId> {
        self.outputs_behind(from, most, |_| true)
    }

    fn outputs_behind(
        &self,
        from: NodeId,
        most: usize,
        accepts: impl Fn(&Node<V, E>) -> bool,
    ) -> Vec<NodeId> {
        let mut outputs = Vec::new();
        let mut seen = std::collections::HashSet::from([from]);
        let mut to_do = vec![from];
        while let Some(id) = to_do.pop() {
            let Some(node) = self.node(id) else { continue };
            if node.is_output && accepts(node) {
                outputs.push(id);
            }
            let mut next: SmallVec<[NodeId; 4]> = node.readers.iter().copied().collect();
            if let Kind::Switch { scope, join, .. } | Kind::Guard { scope, join, .. } = &node.kind {
                next.push(*join);
                next.extend(
                    scope.and_then(|scope| self.scope(scope)).into_iter().flat_map(|s| &s.nodes).copied(),
                );
            }
            for id in next {
                // What attaches things has no value that could change.
                let passes = self.node(id).is_some_and(|node| {
                    accepts(node) || matches!(node.kind, Kind::Switch { .. } | Kind::Guard { .. })
                });
                if passes && seen.len() < most && seen.insert(id) {
                    to_do.push(id);
                }
            }
        }
        outputs
    }

    /// Whether the state of a node can come from another node that a test accepts, directly or through others. At most so many
    /// nodes are looked at; beyond that the answer is yes.
    pub fn depends_on(&self, id: NodeId, most: usize, mut test: impl FnMut(NodeId) -> bool) -> bool {
        let mut seen = std::collections::HashSet::from([id]);
        let mut to_do = vec![id];
        while let Some(id) = to_do.pop() {
            if test(id) || seen.len() > most {
                return true;
            }
            let inputs = self.node(id).into_iter().flat_map(|node| &node.inputs);
            to_do.extend(inputs.copied().filter(|input| seen.insert(*input)));
        }
        false
    }

    /// The nodes that keep a node undefined: undefined themselves, and not because of what they read. At most so many nodes are
    /// looked at.
    pub fn undefined_roots(&self, id: NodeId, most: usize) -> Vec<NodeId> {
        self.roots(id, most, |state| matches!(state, State::Undefined))
    }

    /// The nodes because of which a node fails: failed themselves, and not because of what they read. At most so many nodes are
    /// looked at.
    pub fn failed_roots(&self, id: NodeId, most: usize) -> Vec<NodeId> {
        self.roots(id, most, |state| matches!(state, State::Failed(_)))
    }

    fn roots(&self, id: NodeId, most: usize, is_open: impl Fn(&State<V, E>) -> bool) -> Vec<NodeId> {
        let mut roots = Vec::new();
        let mut seen = std::collections::HashSet::from([id]);
        let mut to_do = vec![id];
        while let Some(id) = to_do.pop() {
            let Some(node) = self.node(id) else { continue };
            let mut below =
                node.inputs.iter().copied().filter(|input| is_open(self.state(*input))).peekable();
            if below.peek().is_none() {
                roots.push(id);
                continue;
            }
            for input in below {
                if seen.len() < most && seen.insert(input) {
                    to_do.push(input);
                }
            }
        }
        roots
    }

    fn insert(&mut self, scope: ScopeId, kind: Kind<V, E>, inputs: &[NodeId], state: State<V, E>) -> NodeId {
        let base = self.scope(scope).map_or(0, |scope| scope.height);
        let below = inputs.iter().filter_map(|&input| self.node(input)).map(|node| node.height + 1).max();
        let height = below.unwrap_or(0).max(base);
        let node = Node {
            kind,
            inputs: inputs.into(),
            readers: SmallVec::new(),
            stale: 0,
            state,
            height,
            queued: false,
            is_output: false,
            changed_at: self.revision,
        };
        let id = match self.free.pop() {
            Some(slot) => {
                let place = &mut self.slots[slot as usize];
                place.node = Some(node);
                NodeId { slot, generation: place.generation }
            }
            None => {
                let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
                self.slots.push(Slot { generation: 0, node: Some(node) });
                NodeId { slot, generation: 0 }
            }
        };
        self.alive += 1;
        for &input in inputs {
            self.add_reader(input, id);
        }
        if let Some(scope) = self.scope_mut(scope) {
            scope.nodes.push(id);
        }
        id
    }

    fn add_reader(&mut self, input: NodeId, reader: NodeId) {
        if let Some(node) = self.node_mut(input)
            && node.readers.last() != Some(&reader)
        {
            node.readers.push(reader);
        }
    }

    fn scope(&self, id: ScopeId) -> Option<&Scope> {
        self.scopes.get(id.slot as usize).filter(|scope| scope.generation == id.generation && scope.alive)
    }

    fn scope_mut(&mut self, id: ScopeId) -> Option<&mut Scope> {
        self.scopes.get_mut(id.slot as usize).filter(|scope| scope.generation == id.generation && scope.alive)
    }

    /// A value that never changes.
    pub fn constant(&mut self, scope: ScopeId, value: V) -> NodeId {
        self.insert(scope, Kind::Given, &[], State::Value(value))
    }

    /// A value that somebody [sets](Graph::set). Undefined until then.
    pub fn source(&mut self, scope: ScopeId) -> NodeId {
        self.insert(scope, Kind::Given, &[], State::Undefined)
    }

    /// A value that is computed from others.
    pub fn compute(
        &mut self,
        scope: ScopeId,
        inputs: &[NodeId],
        compute: impl Compute<V, E> + 'static,
    ) -> NodeId {
        let id = self.insert(scope, Kind::Compute(Box::new(compute)), inputs, State::Undefined);
        self.enqueue(id);
        id
    }

    /// A value that comes from what is attached for the value of another node.
    pub fn switch(&mut self, scope: ScopeId, control: NodeId, attach: impl Attach<V, E> + 'static) -> NodeId {
        let nobody = NodeId { slot: u32::MAX, generation: u32::MAX };
        let attach: Option<Box<dyn Attach<V, E>>> = Some(Box::new(attach));
        let kind = Kind::Switch { attach, built_for: None, scope: None, join: nobody };
        let switch = self.insert(scope, kind, &[control], State::Undefined);
        let join = self.insert(scope, Kind::Join, &[switch], State::Undefined);
        if let Some(Node { kind: Kind::Switch { join: slot, .. }, .. }) = self.node_mut(switch) {
            *slot = join;
        }
        self.enqueue(switch);
        join
    }

    /// The value of a node, or of what is attached while that node fails.
    pub fn guard(&mut self, scope: ScopeId, guarded: NodeId, catch: impl Catch<V, E> + 'static) -> NodeId {
        let nobody = NodeId { slot: u32::MAX, generation: u32::MAX };
        let catch: Option<Box<dyn Catch<V, E>>> = Some(Box::new(catch));
        let kind = Kind::Guard { catch, scope: None, join: nobody };
        let guard = self.insert(scope, kind, &[guarded], State::Undefined);
        let join = self.insert(scope, Kind::Join, &[guard], State::Undefined);
        if let Some(Node { kind: Kind::Guard { join: slot, .. }, .. }) = self.node_mut(guard) {
            *slot = join;
        }
        self.enqueue(guard);
        join
    }

    /// The outside wants to know about this node.
    pub fn mark_output(&mut self, id: NodeId) {
        let Some(node) = self.node_mut(id) else { return };
        if std::mem::replace(&mut node.is_output, true) {
            return;
        }
        let undefined = matches!(node.state, State::Undefined);
        let failed = matches!(node.state, State::Failed(_));
        self.undefined_outputs += usize::from(undefined);
        self.failed_outputs += usize::from(failed);
        self.delta.changed.push(id);
    }

    /// Gives a source another value. Nothing follows before [`Graph::settle`].
    pub fn set(&mut self, id: NodeId, state: State<V, E>) {
        if self.node(id).is_some_and(|node| matches!(node.kind, Kind::Given)) {
            self.change(id, state);
        }
    }

    /// Computes a node again although no input changed: something outside did.
    pub fn touch(&mut self, id: NodeId) {
        if self.node(id).is_some_and(|node| matches!(node.kind, Kind::Compute(_))) {
            self.enqueue(id);
        }
    }

    fn enqueue(&mut self, id: NodeId) {
        let Some(node) = self.node_mut(id) else { return };
        if !std::mem::replace(&mut node.queued, true) {
            let height = node.height;
            self.queue.push(id, height);
        }
    }

    /// Whether something waits to be computed.
    pub fn is_settled(&self) -> bool {
        self.queue.is_empty()
    }

    /// Brings everything up to date.
    pub fn settle(&mut self) -> Delta {
        self.revision += 1;
        while let Some((id, height)) = self.queue.pop() {
            let Some(node) = self.node_mut(id) else { continue };
            if node.height > height {
                // It was lifted while it waited.
                let height = node.height;
                self.queue.push(id, height);
                continue;
            }
            node.queued = false;
            self.delta.computed += 1;
            self.recompute(id);
        }
        let mut delta = std::mem::take(&mut self.delta);
        delta.changed.retain(|&id| self.contains(id));
        delta.changed.sort_unstable();
        delta.changed.dedup();
        delta
    }

    /// The failure or the gap among the inputs of a node.
    fn blocked(&self, inputs: &[NodeId]) -> Option<State<V, E>> {
        let mut undefined = false;
        for &input in inputs {
            match self.state(input) {
                State::Failed(failure) => return Some(State::Failed(failure.clone())),
                State::Undefined => undefined = true,
                State::Value(_) => {}
            }
        }
        undefined.then_some(State::Undefined)
    }

    fn recompute(&mut self, id: NodeId) {
        let Some(node) = self.node_mut(id) else { return };
        let inputs = node.inputs.clone();
        match &mut node.kind {
            Kind::Given => {}
            Kind::Compute(_) => {
                if let Some(state) = self.blocked(&inputs) {
                    self.change(id, state);
                    return;
                }
                // The computation is taken out for the call, so that it cannot see the graph half changed.
                let Some(node) = self.node_mut(id) else { return };
                let Kind::Compute(mut compute) = std::mem::replace(&mut node.kind, Kind::Given) else {
                    return;
                };
                let state = {
                    let values: SmallVec<[&V; 3]> =
                        inputs.iter().filter_map(|&input| self.state(input).value()).collect();
                    compute.compute(&values)
                };
                if let Some(node) = self.node_mut(id) {
                    node.kind = Kind::Compute(compute);
                }
                self.change(id, state);
            }
            Kind::Switch { .. } => self.reattach(id, inputs[0]),
            Kind::Guard { .. } => self.reguard(id, inputs[0]),
            Kind::Join => {
                let state = match inputs.last() {
                    Some(&last) => self.state(last).clone(),
                    None => State::Undefined,
                };
                self.change(id, state);
            }
        }
    }

    fn change(&mut self, id: NodeId, state: State<V, E>) {
        let revision = self.revision;
        let Some(node) = self.node_mut(id) else { return };
        if node.state == state {
            return;
        }
        let old = std::mem::replace(&mut node.state, state);
        node.changed_at = revision;
        if node.is_output {
            let undefined = matches!(node.state, State::Undefined);
            let failed = matches!(node.state, State::Failed(_));
            self.undefined_outputs += usize::from(undefined);
            self.failed_outputs += usize::from(failed);
            self.forget_output_state(&old);
            self.delta.changed.push(id);
        }
        // Readers that are gone are dropped from the list while it is walked.
        let Some(node) = self.node_mut(id) else { return };
        let readers = std::mem::take(&mut node.readers);
        let mut kept: SmallVec<[NodeId; 2]> = SmallVec::with_capacity(readers.len());
        for reader in readers {
            if self.contains(reader) {
                self.enqueue(reader);
                kept.push(reader);
            }
        }
        if let Some(node) = self.node_mut(id) {
            (node.readers, node.stale) = (kept, 0);
        }
    }

    fn forget_output_state(&mut self, state: &State<V, E>) {
        match state {
            State::Undefined => self.undefined_outputs -= 1,
            State::Failed(_) => self.failed_outputs -= 1,
            State::Value(_) => {}
        }
    }

    /// Attaches what belongs to the value of the control.
    fn reattach(&mut self, id: NodeId, control: NodeId) {
        let state = self.state(control).clone();
        let Some(node) = self.node_mut(id) else { return };
        let Kind::Switch { attach, built_for, scope, join } = &mut node.kind else { return };
        let join = *join;
        if let (State::Value(new), Some(old), Some(attach)) = (&state, &*built_for, &*attach)
            && attach.same(old, new)
        {
            return;
        }
        let old_scope = scope.take();
        *built_for = None;
        let height = node.height;
        let State::Value(value) = state else {
            if let Some(scope) = old_scope {
                self.drop_scope(scope);
            }
            // The join reads the control itself, and so has its failure or its lack of a value.
            self.connect(join, &[id, control]);
            return;
        };
        let Kind::Switch { attach, built_for, .. } = &mut node.kind else { return };
        *built_for = Some(value.clone());
        let Some(mut builder) = attach.take() else { return };
        if let Some(scope) = old_scope {
            self.drop_scope(scope);
        }
        let inner = self.new_scope(height + 1);
        let result = builder.attach(self, inner, &value);
        if let Some(Node { kind: Kind::Switch { attach, scope, .. }, .. }) = self.node_mut(id) {
            (*attach, *scope) = (Some(builder), Some(inner));
        }
        match result {
            Some(result) => self.connect(join, &[id, result]),
            None => self.connect(join, &[id]),
        }
    }

    /// Attaches a replacement while the guarded node fails.
    fn reguard(&mut self, id: NodeId, guarded: NodeId) {
        let state = self.state(guarded).clone();
        let Some(node) = self.node_mut(id) else { return };
        let height = node.height;
        let Kind::Guard { catch, scope, join } = &mut node.kind else { return };
        let join = *join;
        let caught = match (&state, &*catch) {
            (State::Failed(failure), Some(catch)) => catch.catches(failure),
            _ => false,
        };
        match (caught, scope.is_some()) {
            (true, true) => {}
            (true, false) => {
                let Some(mut builder) = catch.take() else { return };
                let inner = self.new_scope(height + 1);
                let result = builder.attach(self, inner);
                if let Some(Node { kind: Kind::Guard { catch, scope, .. }, .. }) = self.node_mut(id) {
                    (*catch, *scope) = (Some(builder), Some(inner));
                }
                self.connect(join, &[id, result]);
            }
            (false, _) => {
                if let Some(scope) = scope.take() {
                    self.drop_scope(scope);
                }
                self.connect(join, &[id, guarded]);
            }
        }
    }

    /// Lets a join read other nodes.
    fn connect(&mut self, join: NodeId, inputs: &[NodeId]) {
        let Some(node) = self.node_mut(join) else { return };
        if node.inputs.as_slice() != inputs {
            let old = std::mem::replace(&mut node.inputs, inputs.into());
            for input in old.into_iter().filter(|input| !inputs.contains(input)) {
                if let Some(node) = self.node_mut(input) {
                    node.readers.retain(|reader| *reader != join);
                }
            }
            for &input in inputs {
                if self.node(input).is_some_and(|node| !node.readers.contains(&join)) {
                    self.add_reader(input, join);
                }
            }
            self.lift(join);
        }
        self.enqueue(join);
    }

    /// Puts a node, and everything that reads it, above what it reads.
    fn lift(&mut self, id: NodeId) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let Some(node) = self.node(id) else { continue };
            let below =
                node.inputs.iter().filter_map(|&input| self.node(input)).map(|node| node.height + 1).max();
            let wanted = below.unwrap_or(0).max(node.height);
            if wanted == node.height {
                continue;
            }
            // What a switch has attached is above the switch.
            let attached = match &node.kind {
                Kind::Switch { scope, .. } | Kind::Guard { scope, .. } => *scope,
                _ => None,
            };
            open.extend(node.readers.iter().copied());
            if let Some(node) = self.node_mut(id) {
                node.height = wanted;
            }
            if let Some(scope) = attached {
                self.lift_scope(scope, wanted + 1, &mut open);
            }
        }
    }

    fn lift_scope(&mut self, scope: ScopeId, height: u32, open: &mut Vec<NodeId>) {
        let Some(inside) = self.scope_mut(scope) else { return };
        if inside.height >= height {
            return;
        }
        inside.height = height;
        let nodes = inside.nodes.clone();
        for id in nodes {
            if let Some(node) = self.node_mut(id)
                && node.height < height
            {
                node.height = height;
                open.extend(node.readers.iter().copied());
                if let Kind::Switch { scope: Some(inner), .. } | Kind::Guard { scope: Some(inner), .. } =
                    node.kind
                {
                    self.lift_scope(inner, height + 1, open);
                }
            }
        }
    }

    fn new_scope(&mut self, height: u32) -> ScopeId {
        match self.free_scopes.pop() {
            Some(slot) => {
                let scope = &mut self.scopes[slot as usize];
                (scope.alive, scope.height) = (true, height);
                ScopeId { slot, generation: scope.generation }
            }
            None => {
                let slot = u32::try_from(self.scopes.len()).unwrap_or(u32::MAX);
                self.scopes.push(Scope { generation: 0, alive: true, nodes: Vec::new(), height });
                ScopeId { slot, generation: 0 }
            }
        }
    }

    /// Removes a scope and everything in it, and in what its switches have attached.
    fn drop_scope(&mut self, id: ScopeId) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let Some(scope) = self.scope_mut(id) else { continue };
            let nodes = std::mem::take(&mut scope.nodes);
            scope.alive = false;
            scope.generation = scope.generation.wrapping_add(1);
            self.free_scopes.push(id.slot);
            for id in nodes {
                let Some(node) = self.remove(id) else { continue };
                if let Kind::Switch { scope: Some(inner), .. } | Kind::Guard { scope: Some(inner), .. } =
                    node.kind
                {
                    open.push(inner);
                }
            }
        }
    }

    /// Takes a node that is gone off the list of readers. Long lists are cleaned when half of them are gone, so that it
    /// costs the same however long they are.
    fn drop_reader(&mut self, input: NodeId, gone: NodeId) {
        const SHORT: usize = 8;
        let Some(node) = self.node_mut(input) else { return };
        if node.readers.len() <= SHORT {
            node.readers.retain(|reader| *reader != gone);
            return;
        }
        node.stale += 1;
        if node.stale * 2 > node.readers.len() {
            node.stale = 0;
            let mut readers = std::mem::take(&mut node.readers);
            readers.retain(|reader| self.contains(*reader));
            if let Some(node) = self.node_mut(input) {
                node.readers = readers;
            }
        }
    }

    fn remove(&mut self, id: NodeId) -> Option<Node<V, E>> {
        let slot = self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)?;
        let node = slot.node.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        self.alive -= 1;
        if node.is_output {
            self.forget_output_state(&node.state);
            self.delta.removed.push(id);
        }
        for &input in &node.inputs {
            self.drop_reader(input, id);
        }
        Some(node)
    }
}

impl<V: Clone + PartialEq, E: Clone + PartialEq> Graph<V, E> {
    /// Panics if something that must hold does not. For tests; costs as much as the graph is large.
    pub fn check_invariants(&self) {
        let (mut alive, mut undefined, mut failed) = (0, 0, 0);
        for (slot, place) in self.slots.iter().enumerate() {
            let Some(node) = &place.node else { continue };
            let id = NodeId { slot: slot as u32, generation: place.generation };
            alive += 1;
            assert!(!node.queued || !self.queue.is_empty(), "{id:?} waits in an empty queue");
            for &input in &node.inputs {
                let Some(below) = self.node(input) else { continue };
                assert!(below.height < node.height, "{id:?} is not above {input:?}");
                assert!(below.readers.contains(&id), "{input:?} does not know {id:?}");
            }
            if node.is_output {
                undefined += usize::from(matches!(node.state, State::Undefined));
                failed += usize::from(matches!(node.state, State::Failed(_)));
            }
            if let Kind::Switch { scope: Some(scope), .. } | Kind::Guard { scope: Some(scope), .. } =
                node.kind
            {
                let inside = self.scope(scope).map_or(&[][..], |scope| &scope.nodes);
                for &inner in inside {
                    let above = self.node(inner).is_none_or(|inner| inner.height > node.height);
                    assert!(above, "{inner:?} is not above {id:?}, which attached it");
                }
            }
        }
        assert_eq!(alive, self.alive);
        assert_eq!((undefined, failed), (self.undefined_outputs, self.failed_outputs));
        let listed: usize =
            self.scopes.iter().filter(|scope| scope.alive).map(|scope| scope.nodes.len()).sum();
        assert_eq!(listed, alive, "every node is in one scope");
    }
}
