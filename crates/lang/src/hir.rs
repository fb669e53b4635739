//! The program as data: what is left of the text when layout and sugar are gone.
//!
//! Everything lives in a handful of flat lists, and refers to other things by number. So a program is cheap to
//! build, to keep and to drop however deep it is nested, and what later steps find out about an expression is a list
//! beside these, with the same numbers.

use mgmt_diagnostics::{FileId, Span};
use mgmt_syntax::ast::Operator;
use mgmt_value::{Str, Type};
use rustc_hash::FxHashMap;

/// Declares the numbers of a list.
macro_rules! ids {
    ($( $(#[$attribute:meta])* $name:ident, )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// Its place in its list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A name, once for all its uses.
    Name,
    /// An expression.
    ExprId,
    /// A statement.
    StmtId,
    /// A list of statements with a scope of its own.
    BlockId,
    /// A definition of a variable.
    VarId,
    /// A function with its parameters and body, named or not.
    FuncId,
    /// A class.
    ClassId,
    /// A file of the program.
    ModuleId,
}

/// A whole program.
#[derive(Clone, Debug, Default)]
pub struct Hir {
    /// The names.
    pub names: Names,
    /// The expressions.
    pub exprs: Vec<Expr>,
    /// The statements.
    pub stmts: Vec<Stmt>,
    /// The blocks.
    pub blocks: Vec<Block>,
    /// The variables.
    pub vars: Vec<Var>,
    /// The functions.
    pub funcs: Vec<Func>,
    /// The classes.
    pub classes: Vec<Class>,
    /// The files; the first is the one that the program starts with.
    pub modules: Vec<Module>,
}

/// A file of the program.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its text.
    pub file: FileId,
    /// What is in it.
    pub block: BlockId,
}

/// A list of statements with a scope of its own.
#[derive(Clone, Debug)]
pub struct Block {
    /// The statements in order.
    pub stmts: Vec<StmtId>,
    /// The scope around it.
    pub parent: Parent,
    /// It is, or is inside of, the body of a loop.
    pub iterated: bool,
}

/// What a block stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// A file.
    Module(ModuleId),
    /// A branch.
    Block(BlockId),
    /// The body of a class, which is defined in the block.
    Class(ClassId, BlockId),
    /// The body of a loop, in the block.
    Loop(StmtId, BlockId),
}

/// A definition of a variable.
#[derive(Clone, Debug)]
pub struct Var {
    /// Its name.
    pub name: Name,
    /// Where it is defined, with its dollar.
    pub span: Span,
    /// Its declared type.
    pub declared: Option<Declared>,
    /// What makes it.
    pub origin: VarOrigin,
}

/// A type that stands in the text.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The type.
    pub ty: Type,
    /// Where.
    pub span: Span,
}

/// What makes a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarOrigin {
    /// `$x = …`
    Bind(StmtId, ExprId),
    /// A parameter of a function.
    Param(FuncId),
    /// A parameter of a class.
    ClassParam(ClassId),
    /// The first variable of a loop: index or key.
    LoopKey(StmtId),
    /// The second variable of a loop.
    LoopValue(StmtId),
}

/// A function with its parameters and body, named or not.
#[derive(Clone, Debug)]
pub struct Func {
    /// The name and where it is, if it is a statement.
    pub name: Option<(Name, Span)>,
    /// The parameters.
    pub params: Vec<VarId>,
    /// The declared type of the result.
    pub result: Option<Declared>,
    /// The body.
    pub body: ExprId,
    /// Where it is.
    pub span: Span,
}

/// A class.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name: the last part, if it was written with colons.
    pub name: Name,
    /// Where its name is.
    pub name_span: Span,
    /// The parameters.
    pub params: Vec<VarId>,
    /// What is in it.
    pub body: BlockId,
    /// The statement.
    pub stmt: StmtId,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it is.
    pub span: Span,
}

/// What an expression is.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// The text has a mistake here.
    Missing,
    /// `true`
    Bool(bool),
    /// `42`
    Int(i64),
    /// `1.5`
    Float(f64),
    /// `"text"`
    Str(Str),
    /// `"text ${x}"`: parts that are put together; each is a string or a variable.
    Interpolation(Box<[ExprId]>),
    /// `[a, b]`
    List(Box<[ExprId]>),
    /// `{k => v}`
    Map(Box<[(ExprId, ExprId)]>),
    /// `struct{f => v}`
    Struct(Box<[(Name, Span, ExprId)]>),
    /// `$a.b`
    Variable(Name),
    /// `f(a)`
    Call {
        /// What is called.
        callee: Callee,
        /// With what.
        args: Box<[ExprId]>,
    },
    /// `func($x) { … }`
    Lambda(FuncId),
    /// `if c { a } else { b }`
    If {
        /// What decides.
        condition: ExprId,
        /// The value if it holds.
        then: ExprId,
        /// The value if not.
        otherwise: ExprId,
    },
    /// `a <|> b`
    Except(ExprId, ExprId),
    /// `a + b`; the place is the operator's.
    Operator(Operator, Span, ExprId, ExprId),
    /// `not a`
    Not(ExprId),
    /// `a[b]`
    Index(ExprId, ExprId),
    /// `a->f`
    Field(ExprId, Name, Span),
    /// `a->f <|> d`
    FieldOr(ExprId, Name, Span, ExprId),
}

/// What is called.
#[derive(Clone, Copy, Debug)]
pub enum Callee {
    /// `f` or `m.f`
    Function(Name, Span),
    /// `$f`; a [`ExprKind::Variable`].
    Variable(ExprId),
    /// A lambda on the spot.
    Lambda(ExprId),
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Where it is.
    pub span: Span,
    /// The block that it stands in.
    pub block: BlockId,
}

/// What a statement is.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `$x = e`
    Bind(VarId, ExprId),
    /// `kind name { … }`, `collect kind name { … }`
    Resource(Box<Resource>),
    /// `A["x"] -> B["y"]`
    Edge(Box<[EdgeHalf]>),
    /// `if c { … } else { … }`
    If {
        /// What decides.
        condition: ExprId,
        /// The statements if it holds.
        then: BlockId,
        /// The statements if not.
        otherwise: Option<BlockId>,
    },
    /// `for` and `forkv`
    Loop {
        /// It is `forkv`.
        over_map: bool,
        /// Index or key.
        key: VarId,
        /// Element or value.
        value: VarId,
        /// The list or the map.
        over: ExprId,
        /// What is done for each.
        body: BlockId,
    },
    /// `panic(…)`
    Panic(Box<[ExprId]>),
    /// `func f() { … }`
    Func(FuncId),
    /// `class c { … }`
    Class(ClassId),
    /// `include c(…) as a`
    Include {
        /// The class, dots included.
        class: Name,
        /// Where that is.
        class_span: Span,
        /// The arguments.
        args: Box<[ExprId]>,
        /// The name after `as`.
        alias: Option<(Name, Span)>,
    },
    /// `import "m" as a`
    Import {
        /// What stands between the quotes.
        path: Name,
        /// Where that is, quotes included.
        path_span: Span,
        /// What follows `as`.
        alias: Alias,
    },
}

/// What follows `as` in an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    /// Nothing does.
    Default,
    /// `as name`
    Name(Name, Span),
    /// `as *`
    Star,
}

/// A resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its kind.
    pub kind: Name,
    /// Where that is.
    pub kind_span: Span,
    /// Its name or names.
    pub name: ExprId,
    /// It takes in what others export.
    pub collect: bool,
    /// Its parameters.
    pub fields: Vec<Field>,
    /// Its edges.
    pub edges: Vec<ResourceEdge>,
    /// Its metaparameters.
    pub meta: Vec<Meta>,
}

/// `field => condition ?: value,`
#[derive(Clone, Debug)]
pub struct Field {
    /// The parameter.
    pub name: Name,
    /// Where that is.
    pub name_span: Span,
    /// It is set only while this holds.
    pub condition: Option<ExprId>,
    /// The value.
    pub value: ExprId,
}

/// `Before => condition ?: Kind["name"],`
#[derive(Clone, Debug)]
pub struct ResourceEdge {
    /// Which word it is.
    pub word: EdgeWord,
    /// It is there only while this holds.
    pub condition: Option<ExprId>,
    /// The other end.
    pub half: EdgeHalf,
}

/// What an edge in a resource means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeWord {
    /// This one first.
    Before,
    /// This one first, and its changes are told.
    Notify,
    /// The other one first.
    Depend,
    /// The other one first, and its changes are told.
    Listen,
}

/// `Meta:param => condition ?: value,`
#[derive(Clone, Debug)]
pub struct Meta {
    /// The metaparameter; none sets them all.
    pub param: Option<(Name, Span)>,
    /// It is set only while this holds.
    pub condition: Option<ExprId>,
    /// The value.
    pub value: ExprId,
    /// Where it is.
    pub span: Span,
}

/// `Kind["name"]` or `Kind["name"].field`
#[derive(Clone, Debug)]
pub struct EdgeHalf {
    /// The kind in lower case.
    pub kind: Name,
    /// Where that is.
    pub kind_span: Span,
    /// The name or names.
    pub name: ExprId,
    /// What is sent or received.
    pub field: Option<(Name, Span)>,
    /// Where it is.
    pub span: Span,
}

/// All names of a program, each once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<std::sync::Arc<str>>,
    numbers: FxHashMap<std::sync::Arc<str>, Name>,
}

impl Names {
    /// The number of a name, new or known.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(&name) = self.numbers.get(text) {
            return name;
        }
        let name = Name(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let text: std::sync::Arc<str> = text.into();
        self.texts.push(text.clone());
        self.numbers.insert(text, name);
        name
    }

    /// The number of a name that is known.
    pub fn find(&self, text: &str) -> Option<Name> {
        self.numbers.get(text).copied()
    }

    /// How a name is spelled.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.index()).map_or("", |text| text)
    }

    /// How a name is spelled, to keep.
    pub fn shared(&self, name: Name) -> std::sync::Arc<str> {
        self.texts.get(name.index()).cloned().unwrap_or_default()
    }
}

/// Declares how the lists are read and grown.
macro_rules! lists {
    ($( $id:ident, $item:ident, $field:ident, $push:ident; )*) => {
        $(
            impl std::ops::Index<$id> for Hir {
                type Output = $item;

                fn index(&self, id: $id) -> &$item {
                    &self.$field[id.index()]
                }
            }

            impl std::ops::IndexMut<$id> for Hir {
                fn index_mut(&mut self, id: $id) -> &mut $item {
                    &mut self.$field[id.index()]
                }
            }
        )*

        impl Hir {
            $(
                pub(crate) fn $push(&mut self, item: $item) -> $id {
                    // A text has fewer than 2³² bytes, and programs of thousands of millions of parts do not fit.
                    let id = $id(u32::try_from(self.$field.len()).unwrap_or(u32::MAX));
                    self.$field.push(item);
                    id
                }
            )*
        }
    };
}

lists! {
    ExprId, Expr, exprs, push_expr;
    StmtId, Stmt, stmts, push_stmt;
    BlockId, Block, blocks, push_block;
    VarId, Var, vars, push_var;
    FuncId, Func, funcs, push_func;
    ClassId, Class, classes, push_class;
    ModuleId, Module, modules, push_module;
}

impl Hir {
    /// How a name is spelled.
    pub fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// Where a field of a struct is set, if the expression is one that stands in the text.
    pub(crate) fn place_in_struct(&self, value: ExprId, field: &str) -> Option<Span> {
        let ExprKind::Struct(fields) = &self[value].kind else { return None };
        fields.iter().find(|(name, ..)| self.text(*name) == field).map(|(_, place, _)| *place)
    }
}
