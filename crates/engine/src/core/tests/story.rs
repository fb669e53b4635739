//! A core, a clock, and the means to tell what happens in a line.

use std::collections::BTreeMap;

use super::super::*;

/// Vertices have letters. Every input returns the actions that follow, as words.
pub(super) struct Story {
    pub(super) core: Core,
    pub(super) now: u64,
    first: Delta,
    watches: BTreeMap<Vertex, u32>,
    running: Vec<Vertex>,
    closing: Vec<Vertex>,
}

impl Story {
    /// A graph such as `a>b b=>c d`: an order, an order with notification, and one alone.
    pub(super) fn new(graph: &str) -> Story {
        Story::with(graph, &[])
    }

    pub(super) fn with(graph: &str, rules: &[(char, Rules)]) -> Story {
        Story::build(graph, rules, Settings::default())
    }

    pub(super) fn converging(graph: &str, rules: &[(char, Rules)], after: u64) -> Story {
        Story::build(graph, rules, Settings { converge_after: Some(after), ..Settings::default() })
    }

    /// A graph in which everything has run once.
    pub(super) fn settled(graph: &str) -> Story {
        let mut story = Story::new(graph);
        story.begin();
        story.settle();
        story
    }

    fn build(graph: &str, rules: &[(char, Rules)], settings: Settings) -> Story {
        let mut names: Vec<char> = graph.chars().filter(char::is_ascii_lowercase).collect();
        names.sort_unstable();
        names.dedup();
        let rules_of =
            |name: char| rules.iter().find(|(other, _)| *other == name).map(|(_, rules)| rules.clone());
        let first = Delta {
            add: names.iter().map(|name| (vertex(*name), rules_of(*name).unwrap_or_default())).collect(),
            link: graph.split_whitespace().filter(|word| word.contains('>')).map(link).collect(),
            ..Delta::default()
        };
        Story {
            core: Core::new(settings, 0),
            now: 0,
            first,
            watches: BTreeMap::new(),
            running: Vec::new(),
            closing: Vec::new(),
        }
    }

    /// Declares the graph.
    pub(super) fn begin(&mut self) -> String {
        let first = std::mem::take(&mut self.first);
        self.apply(first)
    }

    pub(super) fn apply(&mut self, delta: Delta) -> String {
        self.core.apply(delta, self.now);
        self.told()
    }

    pub(super) fn watching(&mut self, name: char) -> String {
        let incarnation = self.watches.remove(&vertex(name)).expect("nobody asked for this watch");
        self.core.watching(vertex(name), incarnation, self.now);
        self.told()
    }

    /// All watches that were asked for begin.
    pub(super) fn watch_all(&mut self) -> String {
        for (vertex, incarnation) in std::mem::take(&mut self.watches) {
            self.core.watching(vertex, incarnation, self.now);
        }
        self.told()
    }

    pub(super) fn watch_failed(&mut self, name: char) -> String {
        self.watches.remove(&vertex(name));
        let incarnation = self.core.incarnation(vertex(name));
        self.core.watch_failed(vertex(name), incarnation, self.now);
        self.told()
    }

    pub(super) fn changed(&mut self, name: char) -> String {
        self.core.changed(vertex(name), self.now);
        self.told()
    }

    pub(super) fn finish(&mut self, name: char, outcome: Outcome) -> String {
        self.finish_and_dirty(name, outcome, "")
    }

    pub(super) fn finish_and_dirty(&mut self, name: char, outcome: Outcome, dirtied: &str) -> String {
        let position =
            self.running.iter().position(|running| *running == vertex(name)).expect("it does not run");
        self.running.remove(position);
        let dirtied: Vec<Vertex> = dirtied.chars().map(vertex).collect();
        self.core.finished(vertex(name), outcome, &dirtied, self.now);
        self.told()
    }

    pub(super) fn closed(&mut self, name: char) -> String {
        self.closing.retain(|closing| *closing != vertex(name));
        self.core.closed(vertex(name), self.now);
        self.told()
    }

    pub(super) fn wait(&mut self, time: u64) -> String {
        self.now += time;
        self.core.tick(self.now);
        self.told()
    }

    pub(super) fn retry(&mut self, name: Option<char>) -> (usize, String) {
        let count = self.core.retry(name.map(vertex), self.now);
        (count, self.told())
    }

    pub(super) fn pause(&mut self) -> String {
        self.core.pause(self.now);
        self.told()
    }

    pub(super) fn resume(&mut self) -> String {
        self.core.resume(self.now);
        self.told()
    }

    pub(super) fn stop(&mut self, level: Level) -> String {
        self.core.stop(level, self.now);
        self.told()
    }

    /// Everything that was asked for works out, until nothing is left. Returns who began to run, in order.
    pub(super) fn settle(&mut self) -> String {
        let mut runs = String::new();
        loop {
            let told = if !self.watches.is_empty() {
                self.watch_all()
            } else if let Some(running) = self.running.first() {
                self.finish(name(*running), Outcome::Right)
            } else if let Some(closing) = self.closing.first() {
                self.closed(name(*closing))
            } else {
                return runs;
            };
            let begun =
                told.split(", ").filter_map(|word| word.strip_prefix("run ").or(word.strip_prefix("look ")));
            runs.extend(begun.filter_map(|word| word.chars().next()));
        }
    }

    /// The actions since the last time, in words.
    pub(super) fn told(&mut self) -> String {
        self.core.check_invariants();
        let actions = self.core.take_actions();
        for action in &actions {
            match action {
                Action::Run(run) => self.running.push(run.vertex),
                Action::Watch(vertex, incarnation) => drop(self.watches.insert(*vertex, *incarnation)),
                Action::Unwatch(vertex) => drop(self.watches.remove(vertex)),
                Action::Close(vertex) => self.closing.push(*vertex),
                _ => {}
            }
        }
        // Notifications are told twice: as pending once, and as a reason every time.
        let actions = actions.iter().filter(|action| !matches!(action, Action::Notified(..)));
        let words: Vec<String> = actions.map(words).collect();
        words.join(", ")
    }
}

pub(super) fn vertex(name: char) -> Vertex {
    Vertex(u32::from(name) - u32::from('a'))
}

fn name(vertex: Vertex) -> char {
    char::from_u32(vertex.0 + u32::from('a')).expect("a letter")
}

/// An edge such as `a>b` or `a=>b`.
pub(super) fn link(edge: &str) -> Link {
    let (from, to) = edge.split_once('>').expect("an arrow");
    let letter = |text: &str| vertex(text.chars().next().expect("a letter"));
    Link { from: letter(from), to: letter(to), notify: from.ends_with('='), pending: false }
}

fn words(action: &Action) -> String {
    match action {
        Action::Watch(vertex, _) => format!("watch {}", name(*vertex)),
        Action::Unwatch(vertex) => format!("unwatch {}", name(*vertex)),
        Action::Run(run) => {
            let verb = if run.apply { "run" } else { "look" };
            format!("{verb} {}{}", name(run.vertex), if run.refresh { " to refresh" } else { "" })
        }
        Action::Cancel(vertex, Level::Interrupt) => format!("interrupt {}", name(*vertex)),
        Action::Cancel(vertex, _) => format!("cancel {}", name(*vertex)),
        Action::Reincarnate(vertex, _) => format!("reincarnate {}", name(*vertex)),
        Action::Close(vertex) => format!("close {}", name(*vertex)),
        Action::Freed(vertex) => format!("free {}", name(*vertex)),
        Action::Retry(vertex, delay, _) => format!("retry {} after {delay}", name(*vertex)),
        Action::Failed(vertex, _) => format!("failed {}", name(*vertex)),
        Action::Rescheduled(vertex, _) => format!("sooner {}", name(*vertex)),
        Action::Limited(vertex, wait) => format!("limit {} by {wait}", name(*vertex)),
        Action::Pending(from, to, true) => format!("pending {} {}", name(*from), name(*to)),
        Action::Pending(from, to, false) => format!("over {} {}", name(*from), name(*to)),
        Action::Notified(from, to) => format!("notified {} {}", name(*from), name(*to)),
        Action::Converged => "converged".into(),
        Action::Quiet { failing, unwell } => format!("quiet with {failing} of {unwell}"),
        Action::Diverged => "diverged".into(),
        Action::Paused => "paused".into(),
        Action::Stopped => "stopped".into(),
    }
}
