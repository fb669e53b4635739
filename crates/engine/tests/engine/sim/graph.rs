//! What is declared: random rules, random graphs, random changes of them, never with a cycle.

use std::collections::BTreeMap;

use mgmt_engine::core::{Delta, Link, Poll, Pool, Retry, Rules, Semaphore, Vertex};

use mgmt_test_support::random::Random;

pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1000 * MILLISECOND;

/// Ids go up to this, so that a set of them is one number.
pub(crate) const MOST_VERTICES: usize = 40;

/// The graph that the program wants at present.
#[derive(Clone, Default)]
pub(crate) struct Declared {
    taste: Taste,
    pub(crate) rules: BTreeMap<u32, Rules>,
    /// Whether each edge notifies.
    pub(crate) edges: BTreeMap<(u32, u32), bool>,
}

impl Declared {
    /// A first graph of one of several shapes.
    pub(crate) fn random(taste: Taste, random: &mut Random) -> Declared {
        let count = if random.percent(5) { random.between(10, 24) } else { random.between(1, 9) } as u32;
        let mut graph = Declared { taste, ..Declared::default() };
        for id in 0..count {
            graph.rules.insert(id, taste.rules(random));
        }
        let shape = random.below(6);
        for to in 1..count {
            match shape {
                0 => {}
                1 => graph.link_random(to - 1, to, random),
                2 => graph.link_random(0, to, random),
                3 => graph.link_random(to - 1, count - 1, random),
                4 => {
                    // Diamonds: one, two beside each other, one, …
                    let layer = to - to % 3;
                    match to % 3 {
                        0 => (1..=2).for_each(|back| graph.link_random(to - back, to, random)),
                        _ => graph.link_random(layer, to, random),
                    }
                }
                _ => {
                    for from in 0..to {
                        if random.percent(35) {
                            graph.link_random(from, to, random);
                        }
                    }
                }
            }
        }
        graph
    }

    fn link_random(&mut self, from: u32, to: u32, random: &mut Random) {
        if from != to && !self.reaches(to, from) {
            self.edges.insert((from, to), random.percent(60));
        }
    }

    fn reaches(&self, from: u32, to: u32) -> bool {
        let mut seen = 0_u64;
        let mut stack = vec![from];
        while let Some(at) = stack.pop() {
            if at == to {
                return true;
            }
            if seen & (1 << at) == 0 {
                seen |= 1 << at;
                stack.extend(self.edges.keys().filter(|edge| edge.0 == at).map(|edge| edge.1));
            }
        }
        false
    }

    /// One small change. `leaving` are ids on their way out and `free` one that nobody has.
    pub(crate) fn mutate(&mut self, leaving: &[u32], free: u32, random: &mut Random) -> Vec<u32> {
        let ids: Vec<u32> = self.rules.keys().copied().collect();
        let mut replaced = Vec::new();
        match random.below(9) {
            0 | 1 => {
                let back = !leaving.is_empty() && random.percent(70);
                let id = if back { *random.pick(leaving) } else { free };
                if (id as usize) < MOST_VERTICES && !self.rules.contains_key(&id) && self.rules.len() < 26 {
                    self.rules.insert(id, self.taste.rules(random));
                    for other in ids {
                        match random.below(10) {
                            0 | 1 => self.link_random(other, id, random),
                            2 => self.link_random(id, other, random),
                            _ => {}
                        }
                    }
                }
            }
            2 | 3 if !ids.is_empty() => {
                let id = *random.pick(&ids);
                self.rules.remove(&id);
                self.edges.retain(|(from, to), _| *from != id && *to != id);
            }
            4 | 5 if !ids.is_empty() => {
                let id = *random.pick(&ids);
                let same = random.percent(30);
                let fresh = self.taste.rules(random);
                if let Some(rules) = self.rules.get_mut(&id) {
                    // A kind either reacts to notifications or does not, and a replacement is of the same kind.
                    let refreshable = rules.refreshable;
                    if !same {
                        *rules = Rules { refreshable, ..fresh };
                    }
                    replaced.push(id);
                }
            }
            6 if ids.len() > 1 => {
                let (from, to) = (*random.pick(&ids), *random.pick(&ids));
                self.link_random(from, to, random);
            }
            7 => {
                let edges: Vec<(u32, u32)> = self.edges.keys().copied().collect();
                if !edges.is_empty() {
                    let (from, to) = *random.pick(&edges);
                    self.edges.remove(&(from, to));
                    if random.percent(50) {
                        self.link_random(to, from, random);
                    }
                }
            }
            _ => {
                let edges: Vec<(u32, u32)> = self.edges.keys().copied().collect();
                if !edges.is_empty()
                    && let Some(notify) = self.edges.get_mut(random.pick(&edges))
                {
                    *notify = !*notify;
                }
            }
        }
        replaced
    }

    /// What leads from here to there. `replaced` are vertices that begin anew even if nothing about them differs.
    pub(crate) fn delta_to(&self, there: &Declared, replaced: &[u32], random: &mut Random) -> Delta {
        let mut delta = Delta::default();
        for (id, rules) in &self.rules {
            match there.rules.get(id) {
                None => delta.remove.push(Vertex(*id)),
                Some(new) if new != rules || replaced.contains(id) => {
                    // Out and in again in one go is another way to be replaced.
                    if random.percent(15) {
                        delta.remove.push(Vertex(*id));
                        delta.add.push((Vertex(*id), new.clone()));
                    } else {
                        delta.replace.push((Vertex(*id), new.clone()));
                    }
                }
                Some(_) => {}
            }
        }
        for (id, rules) in &there.rules {
            if !self.rules.contains_key(id) {
                delta.add.push((Vertex(*id), rules.clone()));
            }
        }
        let goes = |id: u32| delta.remove.contains(&Vertex(id));
        for edge in self.edges.keys() {
            if !goes(edge.0) && !goes(edge.1) && !there.edges.contains_key(edge) {
                delta.unlink.push((Vertex(edge.0), Vertex(edge.1)));
            }
        }
        for ((from, to), notify) in &there.edges {
            if goes(*from) || goes(*to) || self.edges.get(&(*from, *to)) != Some(notify) {
                let pending = random.percent(8);
                delta.link.push(Link { from: Vertex(*from), to: Vertex(*to), notify: *notify, pending });
            }
        }
        delta
    }
}

/// How often each sort of rule occurs in one story, of a hundred. A story in which everything occurs a little shows
/// less than one in which a few things occur a lot.
#[derive(Clone, Copy, Default)]
pub(crate) struct Taste {
    noop: u64,
    delay: u64,
    poll: u64,
    limit: u64,
    semaphores: u64,
    realize: u64,
    hidden: u64,
    refreshable: u64,
    one_pool: u64,
    patience: u64,
}

impl Taste {
    pub(crate) fn random(random: &mut Random) -> Taste {
        let mut often = |choices: &[u64]| *random.pick(choices);
        Taste {
            noop: often(&[0, 0, 10, 30]),
            delay: often(&[0, 30, 80]),
            poll: often(&[0, 0, 20, 70]),
            limit: often(&[0, 0, 20, 70]),
            semaphores: often(&[0, 0, 30, 90]),
            realize: often(&[0, 0, 30, 80]),
            hidden: often(&[0, 0, 10, 50]),
            refreshable: often(&[30, 60, 100]),
            one_pool: often(&[0, 50, 100]),
            patience: often(&[0, 30, 70]),
        }
    }

    /// Rules of every sort. The rate and the times are such that a minute is long.
    fn rules(self, random: &mut Random) -> Rules {
        let mut rules = Rules {
            noop: random.percent(self.noop),
            retry_reset: random.percent(30),
            reset: random.percent(30),
            realize: random.percent(self.realize),
            hidden: random.percent(self.hidden),
            export: random.percent(40),
            refreshable: random.percent(self.refreshable),
            pool: if random.percent(self.one_pool) { Pool::Waiting } else { Pool::Blocking },
            ..Rules::default()
        };
        rules.retry = match random.percent(self.patience) {
            true if random.percent(50) => Retry::Forever,
            true => Retry::Times(random.between(0, 4) as u32),
            false => Retry::Backoff,
        };
        if random.percent(self.delay) {
            rules.delay = random.between(1, 2000) * MILLISECOND;
        }
        if random.percent(self.poll) {
            let period = random.between(200, 5000) * MILLISECOND;
            rules.poll = if random.percent(30) { Poll::Once } else { Poll::Every(period) };
        }
        if random.percent(self.limit) {
            rules.limit = if random.percent(3) { 0.0 } else { random.between(1, 40) as f64 / 2.0 };
            rules.burst = random.between(1, 4) as f64;
        }
        if random.percent(self.semaphores) {
            for _ in 0..random.between(1, 3) {
                let id = random.pick(&["a", "b:2", "c:3", ":2", "a:1"]);
                rules.semaphores.push(Semaphore(id.as_bytes().into()));
            }
        }
        rules
    }
}
