//! From one graph to the next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use mgmt_graph::{Dag, DotEdge, DotStyle, NodeId, diff};
use mgmt_resource::{Edge, GraphView, Id, OnLeave, Resource, Spec, Stage};

use super::node::{Node, specs};
use super::{Alarm, Driver, SwapReport};
use crate::core::{Delta, Link, Poll, Pool, Retry, Rules, Semaphore, Vertex};
use crate::prepare::Prepared;
use crate::reversal;

/// So many resources at first take more memory than the kernel hands out unnoticed: about this much each.
const MANY: usize = 2_000;
const BYTES_OF_EACH: usize = 1_400;

impl Driver {
    /// Lets the prepared graph run. Whatever is the same in both goes on untouched.
    pub(super) fn swap(&mut self, prepared: Prepared) -> SwapReport {
        let Prepared { graph: new, automatic_edges, grouped, incomplete, warnings, .. } = prepared;
        let shared = Arc::clone(&self.graph);
        let old = shared.read().unwrap_or_else(PoisonError::into_inner);
        if self.nodes.is_empty() && new.id_bound() >= MANY {
            mgmt_sys::memory::ahead(new.id_bound() * BYTES_OF_EACH);
        }
        let found = diff(
            &old,
            &new,
            |spec| (&spec.id, spec.meta.hidden),
            |spec| (&spec.id, spec.meta.hidden),
            |old, new| old.same_as(new),
            |old, new| old == new,
        );
        // A failing resource that says `rewatch` starts from the beginning although it is the same.
        let (revived, kept): (Vec<_>, Vec<_>) = found.kept.iter().copied().partition(|(node, _)| {
            let failed = self.vertex(*node).is_some_and(|vertex| self.core.has_failed(vertex));
            failed && old.node(*node).is_some_and(|spec| spec.meta.rewatch)
        });
        let changed: Vec<_> = found.changed.iter().copied().chain(revived).collect();

        let mut vertex_of: Vec<Option<Vertex>> = vec![None; new.id_bound()];
        for (before, after) in kept.iter().chain(&changed) {
            vertex_of[after.index()] = self.vertex(*before);
        }
        // Kept declarations stay the objects they are, so that nothing is held twice.
        let mut kept_specs: Vec<Option<Arc<Spec>>> = vec![None; new.id_bound()];
        for (before, after) in &kept {
            kept_specs[after.index()] = old.node(*before).cloned();
        }
        let graph: Dag<Arc<Spec>, Edge> = new.into_map(
            |node, spec| kept_specs[node.index()].take().unwrap_or_else(|| Arc::new(spec)),
            |_, _, edge| edge,
        );

        let mut delta = Delta::default();
        for node in &found.removed {
            if let (Some(vertex), Some(spec)) = (self.vertex(*node), old.node(*node)) {
                self.unindex(vertex, spec);
                // Hidden ones may share a name, so they do not come back as the same vertex.
                if !spec.meta.hidden {
                    self.leaving.insert(spec.id.clone(), vertex);
                }
                if specs(spec).any(|spec| spec.on_leave() == OnLeave::Cancel) {
                    self.cancel_run(vertex);
                }
                delta.remove.push(vertex);
            }
        }
        for (before, after) in &changed {
            let (Some(vertex), Some(spec)) = (self.vertex(*before), graph.node(*after)) else { continue };
            if let Some(spec) = old.node(*before) {
                self.unindex(vertex, spec);
            }
            self.index(vertex, spec);
            delta.replace.push((vertex, rules(spec)));
            if let Some(node) = self.node(vertex) {
                node.next = Some(Arc::clone(spec));
            }
        }
        for node in &found.added {
            let Some(spec) = graph.node(*node) else { continue };
            let vertex = self.allocate(spec);
            self.index(vertex, spec);
            vertex_of[node.index()] = Some(vertex);
            delta.add.push((vertex, rules(spec)));
        }
        let removed: rustc_hash::FxHashSet<NodeId> = found.removed.iter().copied().collect();
        for (from, to) in &found.edges_removed {
            if removed.contains(from) || removed.contains(to) {
                continue;
            }
            if let (Some(from), Some(to)) = (self.vertex(*from), self.vertex(*to)) {
                delta.unlink.push((from, to));
            }
        }
        let links = found.edges_added.iter().chain(found.edges_changed.iter().map(|(_, new)| new));
        for (from, to) in links {
            if let Some(link) = self.link(&graph, &vertex_of, *from, *to) {
                delta.link.push(link);
            }
        }

        let report = SwapReport {
            vertices: graph.node_count(),
            edges: graph.edge_count(),
            added: found.added.len(),
            changed: changed.len(),
            removed: found.removed.len(),
            automatic_edges,
            grouped,
            warnings,
            took: std::time::Duration::ZERO,
            dot: if self.want_dot { dot(&graph) } else { String::new() },
        };
        drop(old);
        if !self.reported.is_empty() {
            let declared: rustc_hash::FxHashSet<&Id> =
                graph.nodes().flat_map(|(_, spec)| specs(spec)).map(|spec| &spec.id).collect();
            self.reported.retain(|id, _| declared.contains(id));
        }
        {
            let mut running = shared.write().unwrap_or_else(PoisonError::into_inner);
            *running = graph;
            self.is_complete.store(!incomplete, Ordering::Release);
            self.graph_version.fetch_add(1, Ordering::AcqRel);
        }
        self.vertex_of = vertex_of;
        self.names = None;
        let (is_complete, version) = (Arc::clone(&self.is_complete), Arc::clone(&self.graph_version));
        let view: Arc<dyn GraphView> = Arc::new(View { graph: Arc::clone(&shared), is_complete, version });
        *self.host.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view);
        self.dismiss_workers();
        self.failures.values_mut().for_each(|failure| failure.is_announced = false);
        self.core.apply(delta, self.now());
        self.tell_rest_first();
        let graph = shared.read().unwrap_or_else(PoisonError::into_inner);
        self.witnessed(|witness| {
            witness.graph(&mut graph.nodes().flat_map(|(_, spec)| specs(spec)).map(|spec| &spec.id));
        });
        report
    }

    /// Asks the run of a vertex to stop, if there is one.
    fn cancel_run(&mut self, vertex: Vertex) {
        let Some(node) = self.node(vertex) else { return };
        if let Some(cancel) = &node.cancel {
            tracing::info!(target: "mgmt::engine", resource = %node.spec.id, "left the graph while it ran: cancelling");
            cancel.raise(Stage::Cancel);
        }
    }

    /// The program is to end: asks the runs to stop that lose nothing by it. The others may finish.
    pub(super) fn cancel_what_need_not_end(&mut self) {
        for node in self.nodes.iter().flatten() {
            if let Some(cancel) = &node.cancel
                && specs(&node.spec).all(|spec| spec.resource.on_stop() == OnLeave::Cancel)
            {
                cancel.raise(Stage::Cancel);
            }
        }
    }

    fn vertex(&self, node: NodeId) -> Option<Vertex> {
        self.vertex_of.get(node.index()).copied().flatten()
    }

    fn link(
        &self,
        graph: &Dag<Arc<Spec>, Edge>,
        vertex_of: &[Option<Vertex>],
        from: NodeId,
        to: NodeId,
    ) -> Option<Link> {
        let notify = graph.edge(from, to)?.notify;
        let pending = notify
            && self.journal.as_ref().is_some_and(|journal| {
                let ids = graph.node(from).zip(graph.node(to));
                ids.is_some_and(|(from, to)| journal.was_pending(&from.id, &to.id))
            });
        Some(Link { from: vertex_of[from.index()]?, to: vertex_of[to.index()]?, notify, pending })
    }

    /// A vertex for a new declaration: that of the same name if it has not quite gone, else a free or a new one.
    fn allocate(&mut self, spec: &Arc<Spec>) -> Vertex {
        let returning = if spec.meta.hidden { None } else { self.leaving.remove(&spec.id) };
        if let Some(vertex) = returning
            && let Some(node) = self.node(vertex)
        {
            node.next = Some(Arc::clone(spec));
            return vertex;
        }
        let vertex = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            #[expect(
                clippy::cast_possible_truncation,
                reason = "four thousand million vertices do not fit memory"
            )]
            Vertex(self.nodes.len() as u32 - 1)
        });
        self.nodes[vertex.index()] = Some(Box::new(Node::new(Arc::clone(spec))));
        vertex
    }

    pub(super) fn reincarnate(&mut self, vertex: Vertex) {
        self.forget_reversal(vertex);
        // A failure stays reported until a run succeeds; another declaration alone repairs nothing.
        if let Some(failure) = self.failures.get_mut(&vertex) {
            failure.is_announced = false;
        }
        let Some(node) = self.node(vertex) else { return };
        if let Some(next) = node.next.take() {
            let was = std::mem::replace(&mut node.spec, next);
            // One that has not run yet still differs from the one before it.
            node.note().was.get_or_insert(was);
        }
        node.applied = false;
        node.reset();
        self.openings.forget(vertex);
    }

    pub(super) fn freed(&mut self, vertex: Vertex) {
        self.failures.remove(&vertex);
        self.report_gone(vertex);
        self.alarms.cancel(Alarm::Calm(vertex));
        self.strife.forget(vertex);
        self.openings.forget(vertex);
        if let Some(node) = self.nodes.get_mut(vertex.index()).and_then(Option::take)
            && self.leaving.get(&node.spec.id) == Some(&vertex)
        {
            self.leaving.remove(&node.spec.id);
        }
        self.free.push(vertex);
    }

    pub(super) fn index(&mut self, vertex: Vertex, spec: &Spec) {
        self.engage(spec);
        for spec in specs(spec) {
            if !spec.meta.hidden && !spec.resource.schema().sends.is_empty() {
                self.senders.insert(spec.id.clone(), vertex);
            }
            for receive in &spec.receives {
                self.receivers.entry(receive.from.clone()).or_default().push(vertex);
            }
        }
    }

    pub(super) fn unindex(&mut self, vertex: Vertex, spec: &Spec) {
        self.disengage(spec);
        for spec in specs(spec) {
            if self.senders.get(&spec.id) == Some(&vertex) {
                self.senders.remove(&spec.id);
            }
            for receive in &spec.receives {
                if let Some(receivers) = self.receivers.get_mut(&receive.from) {
                    receivers.retain(|receiver| *receiver != vertex);
                    if receivers.is_empty() {
                        self.receivers.remove(&receive.from);
                    }
                }
            }
        }
    }

    /// Forgets a reversal once it has been carried out and its vertex ends.
    pub(super) fn forget_reversal(&mut self, vertex: Vertex) {
        let Some(node) = self.nodes.get(vertex.index()).and_then(Option::as_ref) else { return };
        if node.spec.is_reversal {
            match node.applied {
                true => reversal::forget(&self.host.state, &node.spec.id),
                false => tracing::warn!(
                    target: "mgmt::engine", resource = %node.spec.id,
                    "has not been reversed yet; it will be tried again when it next disappears"
                ),
            }
        }
    }

    pub(super) fn forget_used_reversals(&self) {
        for node in self.nodes.iter().flatten().filter(|node| node.spec.is_reversal && node.applied) {
            reversal::forget(&self.host.state, &node.spec.id);
        }
    }
}

/// What the core needs to know of a declaration.
pub(super) fn rules(spec: &Spec) -> Rules {
    let meta = &spec.meta;
    let traits = spec.resource.schema().traits;
    let nanoseconds = |milliseconds: u64| milliseconds.saturating_mul(1_000_000);
    #[expect(clippy::cast_precision_loss, reason = "a burst beyond 2^53 is no limit")]
    let burst = meta.burst as f64;
    Rules {
        noop: meta.noop,
        retry: match meta.retry {
            None => Retry::Backoff,
            Some(times) => u32::try_from(times).map_or(Retry::Forever, Retry::Times),
        },
        retry_reset: meta.retryreset,
        delay: nanoseconds(meta.delay),
        poll: match meta.poll {
            0 => Poll::Watch,
            seconds if seconds > 0 => Poll::Every(u64::from(seconds.unsigned_abs()) * 1_000_000_000),
            _ => Poll::Once,
        },
        limit: meta.limit,
        burst,
        reset: meta.reset,
        semaphores: semaphores(spec),
        realize: meta.realize,
        hidden: meta.hidden,
        export: specs(spec).any(|spec| !spec.meta.export.is_empty()),
        refreshable: specs(spec).any(|spec| spec.resource.schema().traits.refresh),
        pool: if traits.blocking && specs(spec).all(|spec| spec.resource.blocks()) {
            Pool::Blocking
        } else {
            Pool::Waiting
        },
    }
}

fn semaphores(spec: &Spec) -> Vec<Semaphore> {
    let mut ids: Vec<_> = spec.meta.sema.iter().map(|id| Semaphore(id.as_bytes().into())).collect();
    ids.sort_by(|a, b| a.0.cmp(&b.0));
    ids.dedup();
    ids
}

/// The running graph as resources see it.
pub(super) struct View {
    pub(super) graph: Arc<RwLock<Dag<Arc<Spec>, Edge>>>,
    /// Written only while the graph is locked.
    pub(super) is_complete: Arc<AtomicBool>,
    /// Written only while the graph is locked.
    pub(super) version: Arc<AtomicU64>,
}

impl GraphView for View {
    fn each(&self, show: &mut dyn FnMut(&Id, &dyn Resource)) -> bool {
        let graph = self.graph.read().unwrap_or_else(PoisonError::into_inner);
        for (_, spec) in graph.nodes() {
            specs(spec).filter(|spec| !spec.meta.hidden).for_each(|spec| show(&spec.id, &*spec.resource));
        }
        self.is_complete.load(Ordering::Acquire)
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

fn dot(graph: &Dag<Arc<Spec>, Edge>) -> String {
    graph.dot(
        "mgmt",
        |_, spec| specs(spec).map(|spec| spec.id.to_string()).collect::<Vec<_>>().join("\n"),
        |_, _, edge| DotEdge {
            label: if edge.notify { "notify".into() } else { String::new() },
            style: DotStyle::default(),
        },
    )
}
