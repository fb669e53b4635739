//! How the oracle sees a change of the graph.

use mgmt_engine::core::{Action, Delta, Link};

use super::oracle::{Edge, Node, Oracle, Place, Watch, vertex};

impl Oracle {
    pub(crate) fn apply(&mut self, delta: &Delta) {
        if delta.is_empty() {
            self.prompt_failing();
            return self.settle();
        }
        self.last_activity = self.now;
        let removed: Vec<usize> = delta.remove.iter().map(|removed| removed.0 as usize).collect();
        let kept = self.to_linger(&removed);
        for id in &removed {
            match kept.contains(id) {
                true => self.linger(*id),
                false => self.leave(*id),
            }
        }
        for id in &kept {
            self.cut(|edge, oracle| edge.from == *id && !oracle.lingers(edge.to));
        }
        for (from, to) in &delta.unlink {
            self.cut(|edge, _| vertex(edge.from) == *from && vertex(edge.to) == *to);
        }
        let mut fresh = Vec::new();
        for (added, rules) in &delta.add {
            let id = added.0 as usize;
            if self.nodes.len() <= id {
                self.nodes.resize_with(id + 1, || None);
            }
            match &mut self.nodes[id] {
                None => {
                    self.nodes[id] = Some(Node::new(rules.clone()));
                    fresh.push(id);
                }
                Some(node) => {
                    node.next = Some(rules.clone());
                    if node.place == Place::Lingering {
                        node.place = Place::Declared;
                        self.cut(|edge, _| edge.from == id || edge.to == id);
                    }
                }
            }
        }
        for link in &delta.link {
            self.link(*link);
        }
        for (replaced, rules) in &delta.replace {
            if let Some(node) = &mut self.nodes[replaced.0 as usize] {
                node.next = Some(rules.clone());
            }
        }
        self.find_ancestors();
        // What becomes something else at once is not failing any more.
        self.settle();
        for id in fresh {
            self.start(id);
        }
        self.prompt_failing();
        self.settle();
    }

    fn link(&mut self, link: Link) {
        let (from, to) = (link.from.0 as usize, link.to.0 as usize);
        let position = self.edges.iter().position(|edge| (edge.from, edge.to) == (from, to));
        let position = position.unwrap_or_else(|| {
            self.edges.push(Edge { from, to, notify: false, pending: false, seen: false, news: false });
            self.edges.len() - 1
        });
        let edge = &mut self.edges[position];
        edge.notify = link.notify;
        if link.pending {
            edge.pending = true;
            edge.seen = false;
            edge.news = edge.notify;
        }
        if !edge.notify && std::mem::take(&mut edge.pending) {
            edge.news = false;
            self.expected.push(Action::Pending(link.from, link.to, false));
        } else if link.pending
            && let Some(node) = &mut self.nodes[to]
        {
            self.expected.push(Action::Notified(link.from, link.to));
            node.make_dirty();
            self.prompt(to);
        }
    }

    /// Which of the removed must stay until they have succeeded once: those that promised to, and what those (and
    /// any that stay already) need and has not succeeded yet.
    fn to_linger(&self, removed: &[usize]) -> Vec<usize> {
        let mut kept: Vec<usize> = removed.iter().copied().filter(|id| self.owes(*id)).collect();
        let mut reached: Vec<usize> = kept.clone();
        reached.extend(self.ids().filter(|id| self.lingers(*id)));
        while let Some(id) = reached.pop() {
            for edge in self.edges.iter().filter(|edge| edge.to == id) {
                let node = self.nodes[edge.from].as_ref();
                let needed = node.is_some_and(|node| node.is_open() && !node.succeeded);
                if needed && removed.contains(&edge.from) && !kept.contains(&edge.from) {
                    kept.push(edge.from);
                    reached.push(edge.from);
                }
            }
        }
        kept
    }

    fn linger(&mut self, id: usize) {
        if let Some(node) = &mut self.nodes[id] {
            node.place = Place::Lingering;
            node.next = None;
        }
    }

    pub(crate) fn lingers(&self, id: usize) -> bool {
        self.nodes[id].as_ref().is_some_and(|node| node.place == Place::Lingering)
    }

    pub(crate) fn leave(&mut self, id: usize) {
        self.cut(|edge, _| edge.from == id || edge.to == id);
        let Some(node) = &mut self.nodes[id] else { return };
        node.next = None;
        if !node.is_open() {
            return;
        }
        node.place = Place::Leaving;
        node.watch = Watch::Off;
        node.poll_at = None;
        node.succeeded = false;
        // It is not declared, so nothing is reported of it.
        node.owes_success = false;
        let idle = node.running.is_none();
        self.expected.push(Action::Unwatch(vertex(id)));
        if idle {
            self.close(id);
        }
    }

    pub(crate) fn close(&mut self, id: usize) {
        if let Some(node) = &mut self.nodes[id] {
            node.place = Place::Closing;
            self.expected.push(Action::Close(vertex(id)));
        }
    }

    /// Takes edges out. A notification that waits on one is dropped with it.
    pub(crate) fn cut(&mut self, goes: impl Fn(&Edge, &Oracle) -> bool) {
        let (cut, stay): (Vec<Edge>, Vec<Edge>) =
            std::mem::take(&mut self.edges).into_iter().partition(|edge| goes(edge, self));
        self.edges = stay;
        for edge in cut.iter().filter(|edge| edge.pending) {
            self.expected.push(Action::Pending(vertex(edge.from), vertex(edge.to), false));
        }
        if !cut.is_empty() {
            self.find_ancestors();
        }
    }

    pub(crate) fn find_ancestors(&mut self) {
        self.ancestors.fill(0);
        let mut grows = true;
        while grows {
            grows = false;
            for edge in &self.edges {
                let all = self.ancestors[edge.to] | self.ancestors[edge.from] | (1 << edge.from);
                grows |= std::mem::replace(&mut self.ancestors[edge.to], all) != all;
            }
        }
        for id in self.ids() {
            assert!(self.ancestors[id] & (1 << id) == 0, "the simulator made a cycle");
        }
    }
}
