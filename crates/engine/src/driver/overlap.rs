//! Which steps of a plan meet at the same thing without an order between them.
//!
//! A run may do such steps in either order, so what a plan says of them holds for one order only: of two that change one
//! file the second finds it changed, and who reads what another one writes may find it written or not.

use std::cmp::Ordering;

use mgmt_graph::{Dag, NodeId};
use mgmt_resource::{Action, Resource, Watch};
use mgmt_value::Str;
use rustc_hash::FxHashSet;

use super::witness::MemberEffects;

/// What a step has to do with: paths, and names of other things.
#[derive(Default)]
pub(super) struct Reach {
    writes: Vec<Box<str>>,
    reads: Vec<Box<str>>,
}

impl Reach {
    /// What a kind watches is what its state depends on.
    pub(super) fn reads(&mut self, name: &Str, resource: &dyn Resource) {
        let paths = resource.watches(name).into_iter().filter_map(|watch| match watch {
            Watch::Path { path, .. } => Some(plain(&path.to_text())),
            Watch::Interval(_) | Watch::Stream { .. } => None,
        });
        self.reads.extend(paths);
    }

    /// What it would change. What a command does, only that knows.
    pub(super) fn writes(&mut self, effects: &[MemberEffects]) {
        for effect in effects.iter().flat_map(|member| &member.effects) {
            match effect.action {
                Action::Run => {}
                // They are somewhere in what it looks after.
                Action::More => self.writes.extend(self.reads.iter().cloned()),
                Action::Create | Action::Change | Action::Remove => self.writes.push(plain(&effect.what)),
            }
        }
    }
}

fn plain(path: &str) -> Box<str> {
    path.trim_end_matches('/').into()
}

/// What a step has to do with, in the order of a walk through the tree of files: what is inside comes right after it.
struct Entry<'a> {
    path: &'a str,
    step: usize,
    writes: bool,
}

/// For each step whether it would go differently if another one, which is neither before nor after it, went first.
pub(super) fn depends_on_luck<V, E>(graph: &Dag<V, E>, steps: &[(NodeId, Reach)]) -> Vec<bool> {
    let mut entries = Vec::new();
    for (step, (_, reach)) in steps.iter().enumerate() {
        entries.extend(reach.writes.iter().map(|path| Entry { path, step, writes: true }));
        entries.extend(reach.reads.iter().map(|path| Entry { path, step, writes: false }));
    }
    entries.sort_by(|a, b| walk(a.path, b.path).then((a.step, a.writes).cmp(&(b.step, b.writes))));
    let mut lucky = vec![false; steps.len()];
    for (step, (node, reach)) in steps.iter().enumerate() {
        // Computed when somebody is met, which is seldom.
        let mut ordered: Option<FxHashSet<NodeId>> = None;
        let own = reach.writes.iter().map(|path| (path, true)).chain(reach.reads.iter().map(|p| (p, false)));
        for (path, writes) in own {
            let first = entries.partition_point(|entry| walk(entry.path, path) == Ordering::Less);
            for entry in entries.iter().skip(first).take_while(|entry| is_inside(path, entry.path)) {
                // Who writes is a matter of luck for the other; who only reads harms nobody.
                let (ours, theirs) = (entry.writes && !lucky[step], writes && !lucky[entry.step]);
                if entry.step == step || !(ours || theirs) {
                    continue;
                }
                let other = steps[entry.step].0;
                if !ordered.get_or_insert_with(|| before_and_after(graph, *node)).contains(&other) {
                    lucky[step] |= entry.writes;
                    lucky[entry.step] |= writes;
                }
            }
        }
    }
    lucky
}

/// A path before what is in it, and that before whatever else comes.
fn walk(a: &str, b: &str) -> Ordering {
    a.split('/').cmp(b.split('/'))
}

fn is_inside(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// All that comes before a node, and all that comes after it.
fn before_and_after<V, E>(graph: &Dag<V, E>, node: NodeId) -> FxHashSet<NodeId> {
    let mut before = FxHashSet::default();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        open.extend(graph.predecessors(node).map(|(from, _)| from).filter(|from| before.insert(*from)));
    }
    let mut after = FxHashSet::default();
    open.push(node);
    while let Some(node) = open.pop() {
        open.extend(graph.successors(node).map(|(to, _)| to).filter(|to| after.insert(*to)));
    }
    before.extend(after);
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps as `node: +written -read`, edges as pairs of their numbers.
    fn check(steps: &[&str], edges: &[(usize, usize)], lucky: &[bool]) {
        let mut graph = Dag::new();
        let nodes: Vec<NodeId> = steps.iter().map(|_| graph.add_node(())).collect();
        for (from, to) in edges {
            graph.set_edge(nodes[*from], nodes[*to], ());
        }
        let reach = |text: &&str| {
            let these = |sign: char| -> Vec<Box<str>> {
                text.split(' ').filter_map(|word| word.strip_prefix(sign)).map(plain).collect()
            };
            Reach { writes: these('+'), reads: these('-') }
        };
        let steps: Vec<(NodeId, Reach)> = nodes.into_iter().zip(steps.iter().map(reach)).collect();
        assert_eq!(depends_on_luck(&graph, &steps), lucky);
    }

    #[test]
    fn two_that_write_the_same_depend_on_luck_unless_one_comes_before_the_other() {
        check(&["+/a", "+/a", "+/b"], &[], &[true, true, false]);
        check(&["+/a", "+/a"], &[(0, 1)], &[false, false]);
        check(&["+/a", "+/b", "+/a"], &[(0, 1), (1, 2)], &[false, false, false]);
        check(&["+/a", "+/a", "+/a"], &[(0, 1)], &[true, true, true]);
    }

    #[test]
    fn what_is_inside_counts_and_what_only_begins_alike_does_not() {
        check(&["+/d/", "+/d/e/f"], &[], &[true, true]);
        check(&["+/d/e/f", "+/d/"], &[], &[true, true]);
        check(&["+/d", "+/dx", "+/d-/y", "+/d.x"], &[], &[false; 4]);
        check(&["+/d", "+/d-/y", "+/d.x", "+/d/y"], &[], &[true, false, false, true]);
        check(&["+/", "+/x"], &[], &[true, true]);
    }

    #[test]
    fn who_reads_what_another_writes_depends_on_luck_and_the_other_does_not() {
        check(&["+/b -/a", "+/a"], &[], &[true, false]);
        check(&["+/a", "+/b -/a"], &[], &[false, true]);
        check(&["+/a", "+/b -/a"], &[(0, 1)], &[false, false]);
        check(&["+/x -/a", "+/y -/a"], &[], &[false, false]);
        check(&["+/x -/d", "+/d/y -/d/y"], &[], &[true, false]);
    }
}
