//! Which definition needs which: circles, order, and what is used.

use mgmt_diagnostics::Span;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::Code;

use crate::diagnostic::Report;
use crate::hir::*;

/// Something that is looked at as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Node {
    /// What the program does.
    Main,
    /// A file that is imported.
    Module(ModuleId),
    /// The value of a bind.
    Var(VarId),
    /// A function.
    Func(FuncId),
    /// What a class does.
    Class(ClassId),
    /// An include with an alias.
    Include(StmtId),
    /// What a loop goes over.
    Loop(StmtId),
}

/// The graph of definitions.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    nodes: Vec<Node>,
    numbers: FxHashMap<Node, u32>,
    needs: Vec<Vec<(u32, Span)>>,
    contains: Vec<Vec<u32>>,
    /// Dependencies first.
    order: Vec<Node>,
    used: Vec<bool>,
    circular: FxHashSet<Node>,
}

impl Dependencies {
    fn number(&mut self, node: Node) -> u32 {
        if let Some(&number) = self.numbers.get(&node) {
            return number;
        }
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.push(node);
        self.needs.push(Vec::new());
        self.contains.push(Vec::new());
        self.numbers.insert(node, number);
        number
    }

    /// One needs the other, at a place.
    pub(crate) fn need(&mut self, from: Node, to: Node, span: Span) {
        let (from, to) = (self.number(from), self.number(to));
        self.needs[from as usize].push((to, span));
    }

    /// One is defined inside of the other.
    pub(crate) fn contain(&mut self, outer: Node, inner: Node) {
        let (outer, inner) = (self.number(outer), self.number(inner));
        self.contains[outer as usize].push(inner);
    }

    /// What a definition needs.
    pub(crate) fn needs(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        let number = self.numbers.get(&node).map(|&number| number as usize);
        let needs = number.and_then(|number| self.needs.get(number)).map_or(&[][..], Vec::as_slice);
        needs.iter().filter_map(|&(to, _)| self.nodes.get(to as usize).copied())
    }

    /// All nodes, dependencies first.
    pub(crate) fn sorted(&self) -> &[Node] {
        &self.order
    }

    /// The length of the longest chain of definitions that need each other.
    pub(crate) fn longest_chain(&self) -> u32 {
        let mut longest: Vec<u32> = vec![0; self.nodes.len()];
        let mut most = 0;
        for node in &self.order {
            let Some(&number) = self.numbers.get(node) else { continue };
            let needs = self.needs[number as usize].iter().map(|(to, _)| longest[*to as usize]);
            longest[number as usize] = needs.max().unwrap_or(0).saturating_add(1);
            most = most.max(longest[number as usize]);
        }
        most
    }

    /// The program itself reaches it.
    pub(crate) fn is_used(&self, node: Node) -> bool {
        self.numbers
            .get(&node)
            .is_some_and(|&number| self.used.get(number as usize).copied().unwrap_or(false))
    }

    /// It is part of a circle, so nothing can be said about it.
    pub(crate) fn is_circular(&self, node: Node) -> bool {
        self.circular.contains(&node)
    }

    /// Finds order, circles, and what is used.
    ///
    /// `hidden` says where the variables are that others hide.
    pub(crate) fn order(&mut self, hir: &Hir, hidden: &FxHashMap<VarId, Span>, report: &mut Report) {
        self.number(Node::Main);
        for circle in self.components() {
            self.circle(hir, hidden, report, &circle);
        }
        self.used = vec![false; self.nodes.len()];
        let mut queue = vec![self.number(Node::Main)];
        while let Some(number) = queue.pop() {
            if !std::mem::replace(&mut self.used[number as usize], true) {
                queue.extend(self.needs[number as usize].iter().map(|(to, _)| *to));
            }
        }
    }

    /// Tarjan's algorithm with a stack of its own. Fills the order, and returns the components that are circles.
    fn components(&mut self) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = u32::MAX;
        let count = self.nodes.len();
        let (mut index, mut low, mut on_stack) = (vec![UNSEEN; count], vec![0u32; count], vec![false; count]);
        let (mut stack, mut next, mut circles) = (Vec::new(), 0u32, Vec::new());
        let mut work: Vec<(u32, usize)> = Vec::new();
        for root in 0..count as u32 {
            if index[root as usize] != UNSEEN {
                continue;
            }
            work.push((root, 0));
            while let Some(&mut (node, ref mut edge)) = work.last_mut() {
                let at = node as usize;
                if *edge == 0 {
                    (index[at], low[at], on_stack[at]) = (next, next, true);
                    next += 1;
                    stack.push(node);
                }
                let (needs, contains) = (&self.needs[at], &self.contains[at]);
                let to = needs.get(*edge).map(|(to, _)| *to);
                let to = to.or_else(|| contains.get(edge.checked_sub(needs.len())?).copied());
                *edge += 1;
                match to {
                    Some(to) if index[to as usize] == UNSEEN => work.push((to, 0)),
                    Some(to) => {
                        if on_stack[to as usize] {
                            low[at] = low[at].min(index[to as usize]);
                        }
                    }
                    None => {
                        work.pop();
                        if let Some((parent, _)) = work.last() {
                            low[*parent as usize] = low[*parent as usize].min(low[at]);
                        }
                        if low[at] == index[at] {
                            let mut component = Vec::new();
                            while let Some(member) = stack.pop() {
                                on_stack[member as usize] = false;
                                component.push(member);
                                if member == node {
                                    break;
                                }
                            }
                            let to_itself = self.needs[at].iter().any(|(to, _)| *to == node);
                            self.order.extend(component.iter().map(|&member| self.nodes[member as usize]));
                            if component.len() > 1 || to_itself {
                                circles.push(component);
                            }
                        }
                    }
                }
            }
        }
        circles
    }

    /// Reports one way around a circle.
    fn circle(&mut self, hir: &Hir, hidden: &FxHashMap<VarId, Span>, report: &mut Report, members: &[u32]) {
        let inside: FxHashSet<u32> = members.iter().copied().collect();
        self.circular.extend(members.iter().map(|&member| self.nodes[member as usize]));
        let Some(&start) = members.iter().min_by_key(|&&member| self.nodes[member as usize]) else { return };
        // The shortest way back to the start.
        let mut came: FxHashMap<u32, (u32, Option<Span>)> = FxHashMap::default();
        let mut queue = std::collections::VecDeque::from([start]);
        'search: while let Some(node) = queue.pop_front() {
            let needs = self.needs[node as usize].iter().map(|&(to, span)| (to, Some(span)));
            let contains = self.contains[node as usize].iter().map(|&to| (to, None));
            for (to, span) in needs.chain(contains) {
                if inside.contains(&to) && !came.contains_key(&to) {
                    came.insert(to, (node, span));
                    if to == start {
                        break 'search;
                    }
                    queue.push_back(to);
                }
            }
        }
        let mut steps = Vec::new();
        let mut at = start;
        while let Some(&(from, span)) = came.get(&at) {
            steps.push((from, at, span));
            at = from;
            if at == start || steps.len() > members.len() {
                break;
            }
        }
        steps.reverse();
        let mut places: Vec<(Span, String)> = Vec::new();
        for &(from, to, span) in &steps {
            let Some(span) = span else { continue };
            let (from, to) = (self.nodes[from as usize], self.nodes[to as usize]);
            let text = match from == to {
                true => match from {
                    Node::Var(_) => format!("this means {} itself", describe(hir, from)),
                    Node::Func(_) => "it is called here".to_owned(),
                    Node::Class(_) => "it is included here".to_owned(),
                    _ => format!("{} needs itself", describe(hir, from)),
                },
                false => format!("{} needs {}", describe(hir, from), describe(hir, to)),
            };
            if places.iter().all(|(place, _)| *place != span) {
                places.push((span, text));
            }
        }
        places.sort_by_key(|(span, _)| *span);
        let Some((span, text)) = places.first().cloned() else { return };
        let name = describe(hir, self.nodes[start as usize]);
        let itself = members.len() == 1 || places.len() == 1;
        let message =
            if itself { format!("{name} needs itself") } else { format!("{name} needs itself, in a circle") };
        let mut diagnostic = Code::Recursion.at(span, message).here(text);
        for (span, text) in places.into_iter().skip(1).take(20) {
            diagnostic = diagnostic.label(span, text);
        }
        let hint = match self.nodes[start as usize] {
            Node::Var(var) => match hidden.get(&var) {
                Some(&outer) => {
                    let name = hir.text(hir[var].name);
                    diagnostic = diagnostic.label(outer, format!("this `${name}` cannot be seen there"));
                    "a name that a block defines never means the one outside: give one of them another name"
                }
                None if itself => {
                    "a variable has one value, which cannot be made of itself: give one of them another name"
                }
                None => "no variable can be made of itself; break the circle",
            },
            _ => "there is no recursion in this language; break the circle",
        };
        report.add(diagnostic.hint(hint));
    }
}

/// What to call a definition.
fn describe(hir: &Hir, node: Node) -> String {
    match node {
        Node::Main => "the program".to_owned(),
        Node::Module(_) => "the module".to_owned(),
        Node::Var(var) => format!("`${}`", hir.text(hir[var].name)),
        Node::Func(func) => match hir[func].name {
            Some((name, _)) => format!("the function `{}`", hir.text(name)),
            None => "a function".to_owned(),
        },
        Node::Class(class) => format!("the class `{}`", hir.text(hir[class].name)),
        Node::Include(stmt) => match &hir[stmt].kind {
            StmtKind::Include { class, alias: Some((alias, _)), .. } => {
                format!("`include {} as {}`", hir.text(*class), hir.text(*alias))
            }
            _ => "an include".to_owned(),
        },
        Node::Loop(_) => "a loop".to_owned(),
    }
}
