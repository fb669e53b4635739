//! Definitions that are looked at by themselves.
//!
//! A class can define more than it uses itself, for those who include it under an alias; an imported file defines
//! nothing else. Whoever reads one of these definitions needs it to have a type, and whoever does not read it does not
//! care: `$z = $x + 1` in a class that is included with a text is no mistake as long as nobody asks for that `$z`.
//!
//! So such a definition, its *root*, is a [`Context`] of its own. What it reads of its surroundings it sees through a
//! *view*: it has variables of its own in the place of theirs, and what it learns of them is not learned by others. Each
//! reader then [pulls](Checker::pull) it: for this one include or import, both sides of the view become one, and the
//! questions that are left are asked.
//!
//! What a class needs for its own statements is its core, and belongs to the context of the class.
//!
//! Invariant: the type of a root has no variables but its own, those of its view among them, and those of the program.

use mgmt_diagnostics::Span;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::goal::Owner;
use super::mismatch::Why;
use super::{Checker, Open};
use crate::hir::*;
use crate::order::Node;
use crate::types::{Context, Ty, Types};

/// All contexts.
#[derive(Debug)]
pub(super) struct Contexts {
    list: Vec<View>,
    of: FxHashMap<Node, Context>,
    /// What imports in a file bring belongs to none of its definitions.
    modules: FxHashMap<ModuleId, Context>,
    /// What classes need for their own statements.
    core: FxHashSet<Node>,
    /// Who has pulled what through which imports and includes.
    pulled: FxHashSet<(Context, Context, SmallVec<[StmtId; 1]>)>,
    /// Definitions that are looked at after the core of a class.
    waiting: FxHashMap<ClassId, Vec<Node>>,
    /// Classes whose core has been looked at.
    done: FxHashSet<ClassId>,
}

/// What a context sees of others.
#[derive(Debug, Default)]
struct View {
    root: Option<Node>,
    /// The classes around the root, and the root itself if it is one.
    classes: SmallVec<[ClassId; 2]>,
    /// Variables of deeper levels are seen through the view.
    base: u32,
    /// From variables of others to its own in their place.
    own: FxHashMap<Ty, Ty>,
}

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts {
            list: vec![View { base: 1, ..View::default() }],
            of: FxHashMap::default(),
            modules: FxHashMap::default(),
            core: FxHashSet::default(),
            pulled: FxHashSet::default(),
            waiting: FxHashMap::default(),
            done: FxHashSet::default(),
        }
    }
}

impl Contexts {
    fn add(&mut self, view: View) -> Context {
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(view);
        Context(number)
    }

    fn view(&self, context: Context) -> Option<&View> {
        self.list.get(context.0 as usize)
    }

    /// The root of the context lies in the class, or is it.
    pub(super) fn is_inside(&self, context: Context, class: ClassId) -> bool {
        self.view(context).is_some_and(|view| view.classes.contains(&class))
    }

    pub(super) fn base(&self, context: Context) -> u32 {
        self.view(context).map_or(0, |view| view.base)
    }
}

impl Checker<'_> {
    /// Finds what classes need for their own statements.
    pub(super) fn find_cores(&mut self) {
        let (hir, dependencies) = (self.hir, self.dependencies);
        for &class in dependencies.sorted() {
            let Node::Class(id) = class else { continue };
            let mut seen: FxHashSet<Node> = FxHashSet::default();
            let mut open = vec![class];
            while let Some(node) = open.pop() {
                for need in dependencies.needs(node) {
                    // Nothing leads out of a class and back into it, except in a circle.
                    let Some(mut around) = self.home(need).and_then(|block| self.class_around(block)) else {
                        continue;
                    };
                    if around == id {
                        self.contexts.core.insert(need);
                    }
                    while around != id {
                        match self.class_around(hir[hir[around].stmt].block) {
                            Some(outer) => around = outer,
                            None => break,
                        }
                    }
                    if around == id && seen.insert(need) {
                        open.push(need);
                    }
                }
            }
        }
    }

    /// The block that a definition stands in.
    fn home(&self, node: Node) -> Option<BlockId> {
        let hir = self.hir;
        match node {
            Node::Main | Node::Module(_) => None,
            Node::Var(var) => match hir[var].origin {
                VarOrigin::Bind(stmt, _) => Some(hir[stmt].block),
                _ => None,
            },
            Node::Func(func) => self.func_blocks.get(&func).copied(),
            Node::Class(class) => Some(hir[hir[class].stmt].block),
            Node::Include(stmt) | Node::Loop(stmt) => Some(hir[stmt].block),
        }
    }

    /// The context that a definition is looked at in.
    pub(super) fn context(&mut self, node: Node) -> Context {
        if let Some(&context) = self.contexts.of.get(&node) {
            return context;
        }
        let context = match self.home(node) {
            Some(block) => self.find_context(node, block),
            None => Context::PROGRAM,
        };
        self.contexts.of.insert(node, context);
        context
    }

    fn find_context(&mut self, node: Node, block: BlockId) -> Context {
        let class = self.class_around(block);
        let statement = matches!(node, Node::Include(_) | Node::Loop(_));
        if class.is_some_and(|class| self.is_core(node, class)) || (class.is_none() && statement) {
            return self.context_of_block(block);
        }
        let main = self.is_in_main(block);
        if class.is_none() && main {
            return Context::PROGRAM;
        }
        let mut classes: SmallVec<[ClassId; 2]> = SmallVec::new();
        if let Node::Class(class) = node {
            classes.push(class);
        }
        let mut around = class;
        while let Some(class) = around {
            classes.push(class);
            around = self.class_around(self.hir[self.hir[class].stmt].block);
        }
        let base = u32::from(main);
        self.contexts.add(View { root: Some(node), classes, base, own: FxHashMap::default() })
    }

    fn is_core(&self, node: Node, class: ClassId) -> bool {
        self.contexts.core.contains(&node) || self.dependencies.is_circular(Node::Class(class))
    }

    /// The context of the statements of a block.
    pub(super) fn context_of_block(&mut self, block: BlockId) -> Context {
        match self.class_around(block) {
            Some(class) => self.context(Node::Class(class)),
            None if self.is_in_main(block) => Context::PROGRAM,
            None => {
                let module = self.module_around(block);
                if let Some(&context) = self.contexts.modules.get(&module) {
                    return context;
                }
                let context = self.contexts.add(View { base: 1, ..View::default() });
                self.contexts.modules.insert(module, context);
                context
            }
        }
    }

    fn module_around(&self, mut block: BlockId) -> ModuleId {
        loop {
            match self.hir[block].parent {
                Parent::Module(module) => return module,
                Parent::Class(_, outer) | Parent::Block(outer) | Parent::Loop(_, outer) => block = outer,
            }
        }
    }

    fn is_in_main(&self, block: BlockId) -> bool {
        self.module_around(block).index() == 0
    }

    /// The definition is a root: nobody but its readers decides about it.
    pub(super) fn root(&mut self, node: Node) -> Option<Context> {
        let context = self.context(node);
        let view = self.contexts.view(context)?;
        (view.root == Some(node)).then_some(context)
    }

    /// Looks at a definition, and at those that wait for it; or lets it wait for the core of the class around its root.
    pub(super) fn reach(&mut self, node: Node) {
        let context = self.context(node);
        let root = self.contexts.view(context).and_then(|view| view.root);
        let class = root.and_then(|root| self.home(root)).and_then(|block| self.class_around(block));
        if let Some(class) = class.filter(|class| !self.contexts.done.contains(class)) {
            self.contexts.waiting.entry(class).or_default().push(node);
            return;
        }
        self.node(node);
        if let Node::Class(class) = node {
            self.contexts.done.insert(class);
            for waiting in self.contexts.waiting.remove(&class).unwrap_or_default() {
                self.reach(waiting);
            }
        }
    }

    /// Ends the look at a root: what it has not found out is left to its readers.
    pub(super) fn close(&mut self, context: Context) {
        let (own, base) = (Owner::Definition(context), self.contexts.base(context));
        self.goals.generalize(&mut self.types, own, Owner::Program, base);
        let Some(open) = self.open.remove(&own) else { return };
        let of_program =
            |types: &Types, open: &Open| types.unknowns(open.ty).iter().any(|var| types.level(*var) <= base);
        let (around, left): (Vec<Open>, Vec<Open>) =
            open.into_iter().partition(|open| of_program(&self.types, open));
        self.open.insert(own, left);
        if !around.is_empty() {
            self.open.entry(Owner::Program).or_default().extend(around);
        }
    }

    /// A type of another definition, through imports and includes, as it is here.
    pub(super) fn seen(&mut self, ty: Ty, via: &[StmtId]) -> Ty {
        let ty = self.through(ty, via);
        let here = self.types.context;
        if here == Context::PROGRAM || !self.types.is_open(ty) {
            return ty;
        }
        let Some(view) = self.contexts.list.get_mut(here.0 as usize) else { return ty };
        self.types.replace(ty, &mut |types, var| {
            let level = types.level(var);
            if types.context_of(var) == here || level <= view.base {
                return var;
            }
            *view.own.entry(var).or_insert_with(|| types.fresh_in(level, here))
        })
    }

    /// Reads a definition here, through imports and includes. Says whether it can be read.
    pub(super) fn pull(&mut self, node: Node, via: &[StmtId], span: Span) -> bool {
        let (here, there) = (self.types.context, self.context(node));
        if there == here || there == Context::PROGRAM {
            return true;
        }
        let Some(root) = self.contexts.view(there).and_then(|view| view.root) else { return true };
        if !self.contexts.pulled.insert((here, there, via.into())) {
            return true;
        }
        let own = self.contexts.view(there).map(|view| &view.own).into_iter().flatten();
        let mut both: Vec<(Ty, Ty)> = own.map(|(&other, &own)| (other, own)).collect();
        both.sort_unstable();
        let why = Why::Definition(self.place(root));
        let mut fits = true;
        for (other, own) in both {
            let (wanted, found) = (self.seen(own, via), self.seen(other, via));
            fits = fits && self.equate(wanted, found, span, why, None);
        }
        if !fits {
            return false;
        }
        let owner = Owner::Definition(there);
        for goal in self.goals.of(owner) {
            let goal = goal.copied(self, span, &mut |this, ty| this.seen(ty, via));
            self.pose(goal);
        }
        for open in self.open.get(&owner).cloned().unwrap_or_default() {
            let ty = self.seen(open.ty, via);
            if self.types.is_open(ty) {
                self.open.entry(self.owner).or_default().push(Open { ty, unused: self.unused, ..open });
            }
        }
        true
    }

    /// Where a definition has its name.
    fn place(&self, node: Node) -> Span {
        let hir = self.hir;
        match node {
            Node::Var(var) => hir[var].span,
            Node::Class(class) => hir[class].name_span,
            Node::Func(func) => hir[func].name.map_or(hir[func].span, |(_, span)| span),
            Node::Include(stmt) | Node::Loop(stmt) => hir[stmt].span,
            Node::Main | Node::Module(_) => Span { file: hir.modules[0].file, start: 0, end: 0 },
        }
    }
}
