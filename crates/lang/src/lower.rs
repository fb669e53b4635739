//! From the tree of a text to the program as data, with the checks that need no name and no type.

use mgmt_diagnostics::{FileId, Span};
use mgmt_syntax::ast::{self, AstNode};
use mgmt_syntax::{StringPart, SyntaxToken, TextRange};
use mgmt_value::{Str, Type};
use rustc_hash::FxHashMap;

use crate::codes::Code;

use crate::diagnostic::Report;
use crate::hir::*;

/// Adds a file to the program.
pub(crate) fn lower(hir: &mut Hir, report: &mut Report, file: FileId, tree: &ast::SourceFile) -> ModuleId {
    let module = ModuleId(u32::try_from(hir.modules.len()).unwrap_or(u32::MAX));
    let block = hir.push_block(Block { stmts: Vec::new(), parent: Parent::Module(module), iterated: false });
    hir.push_module(Module { file, block });
    let mut lowering = Lowering { hir, report, file };
    lowering.statements(block, tree.statements());
    module
}

struct Lowering<'a> {
    hir: &'a mut Hir,
    report: &'a mut Report,
    file: FileId,
}

impl Lowering<'_> {
    fn span(&self, range: TextRange) -> Span {
        self.file.span(range)
    }

    fn name(&mut self, token: &SyntaxToken) -> (Name, Span) {
        (self.hir.names.intern(token.text()), self.span(token.text_range()))
    }

    /// A name of several parts.
    fn joined(&mut self, parts: impl Iterator<Item = SyntaxToken>, separator: char) -> Name {
        let mut parts = parts;
        let Some(first) = parts.next() else { return self.hir.names.intern("") };
        let Some(second) = parts.next() else { return self.hir.names.intern(first.text()) };
        let mut text = first.text().to_owned();
        for part in std::iter::once(second).chain(parts) {
            text.push(separator);
            text.push_str(part.text());
        }
        self.hir.names.intern(&text)
    }

    fn missing(&mut self, span: Span) -> ExprId {
        self.hir.push_expr(Expr { kind: ExprKind::Missing, span })
    }

    fn statements(&mut self, block: BlockId, statements: impl Iterator<Item = ast::Statement>) {
        let mut nested = Vec::new();
        for statement in statements {
            if let Some(id) = self.statement(block, &statement, &mut nested) {
                self.hir[block].stmts.push(id);
            }
        }
        self.nest_classes(block, nested);
    }

    fn push(&mut self, block: BlockId, span: Span, kind: StmtKind) -> StmtId {
        self.hir.push_stmt(Stmt { kind, span, block })
    }

    fn statement(
        &mut self,
        block: BlockId,
        statement: &ast::Statement,
        nested: &mut Vec<NestedClass>,
    ) -> Option<StmtId> {
        let span = self.span(statement.range());
        Some(match statement {
            ast::Statement::Bind(bind) => self.bind(block, span, bind)?,
            ast::Statement::Panic(panic) => {
                let args = self.args(panic.args());
                self.push(block, span, StmtKind::Panic(args))
            }
            ast::Statement::Collect(collect) => self.resource(block, &collect.resource()?, true)?,
            ast::Statement::Resource(resource) => self.resource(block, resource, false)?,
            ast::Statement::Edge(edge) => {
                let halves: Vec<_> = edge.halves().filter_map(|half| self.half(&half)).collect();
                if halves.is_empty() {
                    return None;
                }
                self.push(block, span, StmtKind::Edge(halves.into()))
            }
            ast::Statement::IfStatement(statement) => self.if_statement(block, statement),
            ast::Statement::For(statement) => self.repeat(
                block,
                span,
                false,
                (statement.index()?, statement.value()?),
                statement.list(),
                statement.block(),
            )?,
            ast::Statement::Forkv(statement) => self.repeat(
                block,
                span,
                true,
                (statement.key()?, statement.value()?),
                statement.map(),
                statement.block(),
            )?,
            ast::Statement::Function(function) => {
                let name = function.name_token().map(|token| self.name(&token))?;
                let func =
                    self.func(Some(name), span, function.params(), function.returned(), function.body());
                self.push(block, span, StmtKind::Func(func))
            }
            ast::Statement::Class(class) => return self.class(block, span, class, nested),
            ast::Statement::Include(include) => {
                let class = include.class()?;
                let class_span = self.span(class.range());
                let class = self.joined(class.parts(), '.');
                let args = self.args(include.args());
                let alias = include.alias_token().map(|token| self.name(&token));
                self.push(block, span, StmtKind::Include { class, class_span, args, alias })
            }
            ast::Statement::Import(import) => self.import(block, span, import)?,
        })
    }

    fn bind(&mut self, block: BlockId, span: Span, bind: &ast::Bind) -> Option<StmtId> {
        let variable = bind.variable()?;
        let declared = bind.type_().and_then(|ty| self.declared(&ty));
        let value = self.expression(bind.value(), span);
        if let Some(declared) = &declared {
            self.literal_of_type(declared, value);
        }
        let stmt = self.push(block, span, StmtKind::Bind(VarId(u32::MAX), value));
        let var = self.variable(&variable, declared, VarOrigin::Bind(stmt, value))?;
        self.hir[stmt].kind = StmtKind::Bind(var, value);
        Some(stmt)
    }

    fn variable(
        &mut self,
        variable: &ast::VariableName,
        declared: Option<Declared>,
        origin: VarOrigin,
    ) -> Option<VarId> {
        let (name, _) = self.name(&variable.name_token()?);
        let span = self.span(variable.range());
        Some(self.hir.push_var(Var { name, span, declared, origin }))
    }

    /// A literal can be compared with its declared type at once.
    fn literal_of_type(&mut self, declared: &Declared, value: ExprId) {
        let expr = &self.hir[value];
        let found = match &expr.kind {
            ExprKind::Bool(_) => Type::Bool,
            ExprKind::Int(_) => Type::Int,
            ExprKind::Float(_) => Type::Float,
            ExprKind::Str(_) | ExprKind::Interpolation(_) => Type::Str,
            ExprKind::Map(_) if !matches!(declared.ty, Type::Map(_)) => {
                let found =
                    Code::DeclaredLiteral.at(expr.span, format!("expected `{}`, found a map", declared.ty));
                self.report.add(
                    found
                        .here("this is a map")
                        .label(declared.span, format!("declared as `{}` here", declared.ty)),
                );
                return;
            }
            ExprKind::Map(_) => {
                let Type::Map(pair) = &declared.ty else { return };
                if !pair.0.is_hashable() && pair.0 != Type::Variant {
                    let message = format!("`{}` cannot be the key of a map", pair.0);
                    self.report.add(
                        Code::UnhashableKey
                            .at(declared.span, message)
                            .hint("a key is a bool, a str, an int, a float, or a struct of these"),
                    );
                }
                return;
            }
            _ => return,
        };
        if declared.ty == found || declared.ty == Type::Variant {
            return;
        }
        let hint = match (&declared.ty, &expr.kind) {
            (Type::Float, ExprKind::Int(number)) => Some(format!("write `{number}.0`")),
            (Type::Str, ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_)) => {
                Some("put it between quotes".to_owned())
            }
            (Type::Bool, ExprKind::Str(text)) if matches!(&text[..], b"true" | b"false") => {
                Some("without quotes it is a bool".to_owned())
            }
            (Type::Int, ExprKind::Str(text)) if !text.is_empty() && text.iter().all(u8::is_ascii_digit) => {
                Some("without quotes it is an int".to_owned())
            }
            _ => None,
        };
        let message = format!("expected `{}`, found `{found}`", declared.ty);
        self.report.add(
            Code::DeclaredLiteral
                .at(expr.span, message)
                .here(format!("this is `{found}`"))
                .label(declared.span, format!("declared as `{}` here", declared.ty))
                .maybe_hint(hint),
        );
    }

    fn if_statement(&mut self, block: BlockId, statement: &ast::IfStatement) -> StmtId {
        // `else if` is a branch with one statement. Ladders are long, so they are not climbed by recursion.
        let first = self.branch(block, statement);
        let (mut rung, mut at) = (statement.clone(), first);
        loop {
            match rung.else_branch() {
                None => return first,
                Some(ast::ElseStatement::Block(inner)) => {
                    let parent = self.hir[at].block;
                    let inner = self.block(parent, Some(inner));
                    self.set_otherwise(at, inner);
                    return first;
                }
                Some(ast::ElseStatement::If(next)) => {
                    let parent = self.hir[at].block;
                    let inner = self.new_block(Parent::Block(parent));
                    let stmt = self.branch(inner, &next);
                    self.hir[inner].stmts.push(stmt);
                    self.set_otherwise(at, inner);
                    (rung, at) = (next, stmt);
                }
            }
        }
    }

    fn branch(&mut self, block: BlockId, statement: &ast::IfStatement) -> StmtId {
        let span = self.span(statement.range());
        let condition = self.expression(statement.condition(), span);
        let then = self.block(block, statement.then_block());
        self.push(block, span, StmtKind::If { condition, then, otherwise: None })
    }

    fn set_otherwise(&mut self, stmt: StmtId, block: BlockId) {
        if let StmtKind::If { otherwise, .. } = &mut self.hir[stmt].kind {
            *otherwise = Some(block);
        }
    }

    fn new_block(&mut self, parent: Parent) -> BlockId {
        let iterated = match parent {
            Parent::Module(_) => false,
            Parent::Loop(..) => true,
            Parent::Block(outer) | Parent::Class(_, outer) => self.hir[outer].iterated,
        };
        self.hir.push_block(Block { stmts: Vec::new(), parent, iterated })
    }

    fn block(&mut self, parent: BlockId, block: Option<ast::Block>) -> BlockId {
        let id = self.new_block(Parent::Block(parent));
        if let Some(block) = block {
            self.statements(id, block.statements());
        }
        id
    }

    fn repeat(
        &mut self,
        block: BlockId,
        span: Span,
        over_map: bool,
        (key, value): (ast::VariableName, ast::VariableName),
        over: Option<ast::Expression>,
        body: Option<ast::Block>,
    ) -> Option<StmtId> {
        let over = self.expression(over, span);
        let stmt = self.push(block, span, StmtKind::Panic([].into()));
        let key = self.variable(&key, None, VarOrigin::LoopKey(stmt))?;
        let value = self.variable(&value, None, VarOrigin::LoopValue(stmt))?;
        let inner = self.new_block(Parent::Loop(stmt, block));
        if let Some(body) = body {
            for import in body.statements().filter_map(|statement| match statement {
                ast::Statement::Import(import) => Some(import),
                _ => None,
            }) {
                let word = if over_map { "forkv" } else { "for" };
                self.report.add(
                    Code::ImportInLoop
                        .at(
                            self.span(import.range()),
                            format!("an import cannot stand inside a `{word}` loop"),
                        )
                        .label(Span { end: span.start + word.len() as u32, ..span }, "this loop")
                        .hint("put the import in front of the loop"),
                );
            }
            self.statements(inner, body.statements());
        }
        self.hir[stmt].kind = StmtKind::Loop { over_map, key, value, over, body: inner };
        Some(stmt)
    }

    fn import(&mut self, block: BlockId, span: Span, import: &ast::Import) -> Option<StmtId> {
        let token = import.name_token()?;
        let text = token.text();
        let inside = text.get(1..text.len().checked_sub(1)?)?;
        let path = self.hir.names.intern(inside);
        let path_span = self.span(token.text_range());
        let alias = match import.alias() {
            None => Alias::Default,
            Some(ast::ImportAlias::Star) => Alias::Star,
            Some(ast::ImportAlias::Name(_)) => {
                let (name, span) = self.name(&import.alias_token()?);
                Alias::Name(name, span)
            }
        };
        Some(self.push(block, span, StmtKind::Import { path, path_span, alias }))
    }

    fn params(&mut self, params: Option<ast::ParamList>, origin: VarOrigin) -> Vec<VarId> {
        let mut vars: Vec<VarId> = Vec::new();
        for param in params.into_iter().flat_map(|params| params.params()) {
            let Some(variable) = param.variable() else { continue };
            let declared = param.type_().and_then(|ty| self.declared(&ty));
            let Some(var) = self.variable(&variable, declared, origin) else { continue };
            let name = self.hir[var].name;
            if let Some(&first) = vars.iter().find(|&&other| self.hir[other].name == name) {
                self.report.add(
                    Code::DuplicateParameter
                        .at(
                            self.hir[var].span,
                            format!("there are two parameters `${}`", self.hir.text(name)),
                        )
                        .label(self.hir[first].span, "the first one is here")
                        .hint("give one of them another name"),
                );
            }
            vars.push(var);
        }
        vars
    }

    fn func(
        &mut self,
        name: Option<(Name, Span)>,
        span: Span,
        params: Option<ast::ParamList>,
        result: Option<ast::Type>,
        body: Option<ast::Body>,
    ) -> FuncId {
        let body_span = body.as_ref().map_or(span, |body| self.span(body.range()));
        let result = result.and_then(|ty| self.declared(&ty));
        let placeholder = ExprId(u32::MAX);
        let id = self.hir.push_func(Func { name, params: Vec::new(), result, body: placeholder, span });
        let params = self.params(params, VarOrigin::Param(id));
        let body = self.expression(body.and_then(|body| body.value()), body_span);
        let func = &mut self.hir[id];
        (func.params, func.body) = (params, body);
        id
    }

    fn class(
        &mut self,
        block: BlockId,
        span: Span,
        class: &ast::Class,
        nested: &mut Vec<NestedClass>,
    ) -> Option<StmtId> {
        let name = class.name()?;
        let mut path: Vec<(Name, Span)> = Vec::new();
        for part in name.parts() {
            let part = self.name(&part);
            path.push(part);
        }
        let &(last, name_span) = path.last()?;
        let name_span = Span { start: self.span(name.range()).start, ..name_span };
        let stmt = self.push(block, span, StmtKind::Panic([].into()));
        let id = self.hir.push_class(Class {
            name: last,
            name_span,
            params: Vec::new(),
            body: BlockId(u32::MAX),
            stmt,
        });
        self.hir[id].params = self.params(class.params(), VarOrigin::ClassParam(id));
        let body = self.new_block(Parent::Class(id, block));
        self.hir[id].body = body;
        if let Some(inner) = class.block() {
            self.statements(body, inner.statements());
        }
        self.hir[stmt].kind = StmtKind::Class(id);
        if path.len() > 1 {
            path.pop();
            nested.push(NestedClass {
                stmt,
                class: id,
                path: path.into_iter().map(|(name, _)| name).collect(),
            });
            return None;
        }
        Some(stmt)
    }

    /// Moves `class a:b` into the class `a` of the same block.
    fn nest_classes(&mut self, block: BlockId, nested: Vec<NestedClass>) {
        if nested.is_empty() {
            return;
        }
        // By full name, so that the order in which they are written does not matter.
        let mut known: FxHashMap<Vec<Name>, ClassId> = FxHashMap::default();
        let top: Vec<ClassId> = self.classes_of(block).collect();
        for class in top {
            known.entry(vec![self.hir[class].name]).or_insert(class);
        }
        for class in &nested {
            let mut path = class.path.clone();
            path.push(self.hir[class.class].name);
            known.entry(path).or_insert(class.class);
        }
        for class in nested {
            match known.get(&class.path) {
                Some(&outer) => {
                    let body = self.hir[outer].body;
                    let inner = self.hir[class.class].body;
                    self.hir[class.stmt].block = body;
                    self.hir[inner].parent = Parent::Class(class.class, body);
                    self.hir[body].stmts.push(class.stmt);
                }
                None => {
                    // It stays where it is, under a name that nothing can include.
                    let mut text = String::new();
                    for &part in &class.path {
                        text.push_str(self.hir.text(part));
                        text.push(':');
                    }
                    text.push_str(self.hir.text(self.hir[class.class].name));
                    self.hir[class.class].name = self.hir.names.intern(&text);
                    self.hir[block].stmts.push(class.stmt);
                }
            }
        }
    }

    fn classes_of(&self, block: BlockId) -> impl Iterator<Item = ClassId> {
        self.hir[block].stmts.iter().filter_map(|&stmt| match self.hir[stmt].kind {
            StmtKind::Class(class) => Some(class),
            _ => None,
        })
    }

    fn resource(&mut self, block: BlockId, resource: &ast::Resource, collect: bool) -> Option<StmtId> {
        let span = self.span(resource.range());
        let kind = resource.kind()?;
        let kind_span = self.span(kind.range());
        let kind = self.joined(kind.parts(), ':');
        let name = self.expression(resource.name(), kind_span);
        let mut lowered = Resource {
            kind,
            kind_span,
            name,
            collect,
            fields: Vec::new(),
            edges: Vec::new(),
            meta: Vec::new(),
        };
        let mut seen = Firsts::default();
        for item in resource.items() {
            self.item(&mut lowered, &item, &mut seen);
        }
        Some(self.push(block, span, StmtKind::Resource(Box::new(lowered))))
    }

    fn item(&mut self, resource: &mut Resource, item: &ast::ResourceItem, seen: &mut Firsts) {
        let span = self.span(item.range());
        match item {
            ast::ResourceItem::ResourceField(field) => {
                let Some(token) = field.name_token() else { return };
                let (name, name_span) = self.name(&token);
                let condition = field.condition().map(|condition| self.expression(condition.value(), span));
                let value = self.expression(field.value(), span);
                if let Some(first) = seen.first(name, &resource.fields, |field| field.name) {
                    self.report.add(
                        Code::DuplicateField.at(name_span,
                            format!("the parameter `{}` is set twice", token.text()),
                        )
                        .label(first.name_span, "it is set here first")
                        .label(resource.kind_span, "in this resource")
                        .hint(
                            "keep one of them; a value can depend on a condition: `if $c { a } else { b }`",
                        ),
                    );
                }
                resource.fields.push(Field { name, name_span, condition, value });
            }
            ast::ResourceItem::ResourceEdge(edge) => {
                let Some(token) = edge.word_token() else { return };
                let condition = edge.condition().map(|condition| self.expression(condition.value(), span));
                let Some(half) = edge.half().and_then(|half| self.half(&half)) else { return };
                let word = match token.text().to_ascii_lowercase().as_str() {
                    "before" => EdgeWord::Before,
                    "notify" => EdgeWord::Notify,
                    "depend" => EdgeWord::Depend,
                    "listen" => EdgeWord::Listen,
                    _ => {
                        let near = mgmt_resource::did_you_mean(
                            token.text(),
                            ["Before", "Depend", "Notify", "Listen"].into_iter(),
                        );
                        let hint = match near {
                            Some(word) => format!("did you mean `{word}`?"),
                            None => "the words are `Before`, `Depend`, `Notify` and `Listen`".to_owned(),
                        };
                        self.report.add(
                            Code::UnknownEdgeWord
                                .at(self.span(token.text_range()), format!("`{}` is no edge", token.text()))
                                .hint(hint),
                        );
                        return;
                    }
                };
                resource.edges.push(ResourceEdge { word, condition, half });
            }
            ast::ResourceItem::ResourceMeta(meta) => {
                let param = meta.param_token().map(|token| self.name(&token));
                let condition = meta.condition().map(|condition| self.expression(condition.value(), span));
                let value = self.expression(meta.value(), span);
                if let Some((name, name_span)) = param {
                    let first = resource.meta.iter().find(|other| other.param.is_some_and(|p| p.0 == name));
                    if let Some(first) = first.and_then(|first| first.param) {
                        self.report.add(
                            Code::DuplicateMeta
                                .at(
                                    name_span,
                                    format!("the metaparameter `{}` is set twice", self.hir.text(name)),
                                )
                                .label(first.1, "it is set here first")
                                .label(resource.kind_span, "in this resource"),
                        );
                    }
                }
                resource.meta.push(Meta { param, condition, value, span });
            }
        }
    }

    fn half(&mut self, half: &ast::EdgeHalf) -> Option<EdgeHalf> {
        let span = self.span(half.range());
        let kind = half.kind()?;
        let kind_span = self.span(kind.range());
        let kind = self.hir.names.intern(&kind.kind());
        let name = self.expression(half.name(), span);
        let field = half.field_token().map(|token| self.name(&token));
        Some(EdgeHalf { kind, kind_span, name, field, span })
    }

    fn args(&mut self, args: Option<ast::ArgList>) -> Box<[ExprId]> {
        args.into_iter()
            .flat_map(|args| args.args())
            .map(|arg| self.expression(Some(arg), Span { file: self.file, start: 0, end: 0 }))
            .collect()
    }

    /// Lowers an expression; what is missing stands for an error at `around`, which has been reported.
    fn expression(&mut self, expression: Option<ast::Expression>, around: Span) -> ExprId {
        let Some(expression) = expression else { return self.missing(around) };
        let span = self.span(expression.range());
        let kind = match &expression {
            ast::Expression::Paren(paren) => return self.expression(paren.inner(), span),
            ast::Expression::Literal(literal) => return self.literal(literal, span),
            ast::Expression::List(list) => {
                ExprKind::List(list.elements().map(|element| self.expression(Some(element), span)).collect())
            }
            ast::Expression::Map(map) => {
                let entries: Box<[(ExprId, ExprId)]> = map
                    .entries()
                    .map(|entry| (self.expression(entry.key(), span), self.expression(entry.value(), span)))
                    .collect();
                self.map_keys(map, &entries);
                ExprKind::Map(entries)
            }
            ast::Expression::Struct(fields) => self.structure(fields, span),
            ast::Expression::Call(call) => self.call(call, span),
            ast::Expression::Variable(variable) => {
                let name = self.joined(variable.parts(), '.');
                self.readable(name, span);
                ExprKind::Variable(name)
            }
            ast::Expression::Lambda(lambda) => {
                ExprKind::Lambda(self.func(None, span, lambda.params(), lambda.returned(), lambda.body()))
            }
            ast::Expression::IfExpression(inner) => self.if_expression(inner, span),
            ast::Expression::Binary(binary) => {
                let left = self.expression(binary.left(), span);
                let right = self.expression(binary.right(), span);
                match (binary.operator(), binary.operator_token()) {
                    (Some(operator), Some(token)) => {
                        ExprKind::Operator(operator, self.span(token.text_range()), left, right)
                    }
                    _ => ExprKind::Missing,
                }
            }
            ast::Expression::Not(not) => ExprKind::Not(self.expression(not.inner(), span)),
            ast::Expression::Index(index) => {
                ExprKind::Index(self.expression(index.base(), span), self.expression(index.key(), span))
            }
            ast::Expression::FieldAccess(access) => {
                let base = self.expression(access.base(), span);
                match access.field_token().map(|token| self.name(&token)) {
                    Some((name, at)) => ExprKind::Field(base, name, at),
                    None => ExprKind::Missing,
                }
            }
            ast::Expression::FieldAccessOr(access) => {
                let base = self.expression(access.base(), span);
                let default = self.expression(access.default(), span);
                match access.field_token().map(|token| self.name(&token)) {
                    Some((name, at)) => ExprKind::FieldOr(base, name, at, default),
                    None => ExprKind::Missing,
                }
            }
            ast::Expression::OtherwiseExpression(otherwise) => ExprKind::Except(
                self.expression(otherwise.value(), span),
                self.expression(otherwise.default(), span),
            ),
        };
        self.hir.push_expr(Expr { kind, span })
    }

    fn if_expression(&mut self, inner: &ast::IfExpression, span: Span) -> ExprKind {
        let condition = self.expression(inner.condition(), span);
        let then = self.expression(inner.then_body().and_then(|body| body.value()), span);
        let otherwise = match inner.else_branch() {
            Some(ast::ElseExpression::Body(body)) => self.expression(body.value(), span),
            Some(ast::ElseExpression::If(next)) => {
                self.expression(Some(ast::Expression::IfExpression(next)), span)
            }
            None => self.missing(span),
        };
        ExprKind::If { condition, then, otherwise }
    }

    fn call(&mut self, call: &ast::Call, span: Span) -> ExprKind {
        let callee = match call.callee() {
            Some(ast::Callee::Function(name)) => {
                let at = self.span(name.range());
                Callee::Function(self.joined(name.parts(), '.'), at)
            }
            Some(ast::Callee::Variable(variable)) => {
                Callee::Variable(self.expression(Some(ast::Expression::Variable(variable)), span))
            }
            Some(ast::Callee::Lambda(lambda)) => {
                Callee::Lambda(self.expression(Some(ast::Expression::Lambda(lambda)), span))
            }
            None => return ExprKind::Missing,
        };
        ExprKind::Call { callee, args: self.args(call.args()) }
    }

    fn structure(&mut self, fields: &ast::Struct, span: Span) -> ExprKind {
        let mut lowered: Vec<(Name, Span, ExprId)> = Vec::new();
        let mut seen = Firsts::default();
        for entry in fields.entries() {
            let Some(token) = entry.name_token() else { continue };
            let (name, name_span) = self.name(&token);
            let value = self.expression(entry.value(), span);
            if let Some(first) = seen.first(name, &lowered, |field| field.0) {
                self.report.add(
                    Code::DuplicateStructField
                        .at(name_span, format!("the field `{}` stands twice in this struct", token.text()))
                        .label(first.1, "it is here first"),
                );
            }
            lowered.push((name, name_span, value));
        }
        ExprKind::Struct(lowered.into())
    }

    fn literal(&mut self, literal: &ast::Literal, span: Span) -> ExprId {
        let kind = match literal.value() {
            None => ExprKind::Missing,
            Some(ast::LiteralValue::Bool(value)) => ExprKind::Bool(value),
            Some(ast::LiteralValue::Int(value)) => ExprKind::Int(value),
            Some(ast::LiteralValue::Float(value)) => ExprKind::Float(value),
            Some(ast::LiteralValue::String(string)) => {
                let raw = string.raw();
                if raw.bytes().any(|byte| byte == b'\\' || byte == b'$') {
                    self.string(&string.parts(), span)
                } else {
                    ExprKind::Str(Str::new(raw))
                }
            }
        };
        self.hir.push_expr(Expr { kind, span })
    }

    /// Adjacent texts become one; a string of texts alone stays a string.
    fn string(&mut self, parts: &[StringPart<'_>], span: Span) -> ExprKind {
        let mut text = String::new();
        let mut lowered: Vec<ExprId> = Vec::new();
        for part in parts {
            match part {
                StringPart::Text { value, .. } => text.push_str(value),
                StringPart::Escape { value, .. } => text.push(*value),
                StringPart::Variable { name_range, name, .. } => {
                    if !text.is_empty() {
                        let kind = ExprKind::Str(Str::new(&text));
                        lowered.push(self.hir.push_expr(Expr { kind, span }));
                        text.clear();
                    }
                    let at = self.span(*name_range);
                    let name = self.hir.names.intern(name);
                    self.readable(name, at);
                    lowered.push(self.hir.push_expr(Expr { kind: ExprKind::Variable(name), span: at }));
                }
                // Reported with the text.
                StringPart::Invalid { .. } => return ExprKind::Missing,
            }
        }
        if lowered.is_empty() {
            return ExprKind::Str(Str::new(&text));
        }
        if !text.is_empty() {
            lowered.push(self.hir.push_expr(Expr { kind: ExprKind::Str(Str::new(&text)), span }));
        }
        ExprKind::Interpolation(lowered.into())
    }

    /// A name with two underscores in a row can be defined and not be read.
    fn readable(&mut self, name: Name, span: Span) {
        let text = self.hir.names.text(name);
        if text.contains("__") {
            let message = format!("the name `${text}` has two underscores in a row");
            self.report.add(
                Code::BadVariableName
                    .at(span, message)
                    .hint("such a variable can be defined, but not read; use one underscore"),
            );
        }
    }

    /// Literal keys are compared as they are written.
    fn map_keys(&mut self, map: &ast::Map, entries: &[(ExprId, ExprId)]) {
        let mut seen: FxHashMap<String, Span> = FxHashMap::default();
        let mut first: Option<(Type, Span)> = None;
        for (entry, &(key, _)) in map.entries().zip(entries) {
            let Some(ty) = self.literal_type(key) else { continue };
            let span = self.hir[key].span;
            if !ty.is_hashable() {
                self.report.add(
                    Code::UnhashableKey
                        .at(span, format!("`{ty}` cannot be the key of a map"))
                        .hint("a key is a bool, a str, an int, a float, or a struct of these"),
                );
                return;
            }
            match &first {
                None => first = Some((ty, span)),
                Some((other, at)) if *other != ty => {
                    self.report.add(
                        Code::MixedMapKeys
                            .at(span, format!("the keys of this map are `{other}` and `{ty}`"))
                            .here(format!("this is `{ty}`"))
                            .label(*at, format!("this is `{other}`"))
                            .hint("all keys of a map have one type"),
                    );
                    return;
                }
                Some(_) => {}
            }
            let Some(text) = self.literal_text(key, entry.key().as_ref()) else { continue };
            if let Some(&first) = seen.get(&text) {
                self.report.add(
                    Code::DuplicateMapKey
                        .at(span, format!("the key {text} stands twice in this map"))
                        .label(first, "it is here first")
                        .hint("keep one of them"),
                );
            }
            seen.entry(text).or_insert(span);
        }
    }

    /// The type of an expression made of literals alone.
    fn literal_type(&self, expr: ExprId) -> Option<Type> {
        Some(match &self.hir[expr].kind {
            ExprKind::Bool(_) => Type::Bool,
            ExprKind::Int(_) => Type::Int,
            ExprKind::Float(_) => Type::Float,
            ExprKind::Str(_) | ExprKind::Interpolation(_) => Type::Str,
            ExprKind::List(elements) => Type::list(self.literal_type(*elements.first()?)?),
            ExprKind::Map(entries) => {
                let (key, value) = entries.first()?;
                Type::map(self.literal_type(*key)?, self.literal_type(*value)?)
            }
            ExprKind::Struct(fields) => {
                let mut types = Vec::with_capacity(fields.len());
                for (name, _, value) in fields {
                    types.push((self.hir.names.shared(*name), self.literal_type(*value)?));
                }
                Type::structure(types)
            }
            _ => return None,
        })
    }

    /// A text that is equal for equal keys, if the key is known.
    fn literal_text(&self, expr: ExprId, written: Option<&ast::Expression>) -> Option<String> {
        Some(match &self.hir[expr].kind {
            ExprKind::Bool(value) => value.to_string(),
            ExprKind::Int(value) => value.to_string(),
            ExprKind::Float(value) => (value + 0.0).to_string(),
            ExprKind::Str(value) => mgmt_value::Value::Str(value.clone()).to_string(),
            // As it is written: the same variables give the same key.
            ExprKind::Interpolation(_) => written?.syntax().text().to_string(),
            ExprKind::Struct(fields) => {
                let mut text = String::from("struct{");
                for (name, _, value) in fields {
                    text.push_str(self.hir.text(*name));
                    text.push_str(": ");
                    text.push_str(&self.literal_text(*value, None)?);
                    text.push_str("; ");
                }
                text.push('}');
                text
            }
            _ => return None,
        })
    }

    fn declared(&mut self, ty: &ast::Type) -> Option<Declared> {
        let span = self.span(ty.range());
        Some(Declared { ty: self.ty(ty)?, span })
    }

    fn ty(&self, ty: &ast::Type) -> Option<Type> {
        Some(match ty {
            ast::Type::BasicType(basic) => match basic.basic()? {
                ast::Basic::Bool => Type::Bool,
                ast::Basic::Str => Type::Str,
                ast::Basic::Int => Type::Int,
                ast::Basic::Float => Type::Float,
                ast::Basic::Variant => Type::Variant,
            },
            ast::Type::ListType(list) => Type::list(self.ty(&list.element()?)?),
            ast::Type::MapType(map) => Type::map(self.ty(&map.key()?)?, self.ty(&map.value()?)?),
            ast::Type::StructType(structure) => {
                let mut fields = Vec::new();
                for field in structure.fields() {
                    fields.push((field.name_token()?.text().to_owned(), self.ty(&field.type_()?)?));
                }
                Type::structure(fields)
            }
            ast::Type::FunctionType(func) => {
                let mut args = Vec::new();
                for arg in func.args() {
                    let name = arg.variable().and_then(|variable| variable.name_token());
                    let name = name.map(|token| token.text().to_owned()).unwrap_or_default();
                    args.push((name, self.ty(&arg.type_()?)?));
                }
                Type::func(args, self.ty(&func.returned()?)?)
            }
        })
    }
}

/// Where names stand first in a list that grows. Short lists are simply looked through.
#[derive(Default)]
struct Firsts {
    known: FxHashMap<Name, usize>,
    /// How much of the list is known.
    upto: usize,
}

impl Firsts {
    const FEW: usize = 16;

    fn first<'l, T>(&mut self, name: Name, list: &'l [T], of: impl Fn(&T) -> Name) -> Option<&'l T> {
        if list.len() < Self::FEW {
            return list.iter().find(|item| of(item) == name);
        }
        for (index, item) in list.iter().enumerate().skip(self.upto) {
            self.known.entry(of(item)).or_insert(index);
        }
        self.upto = list.len();
        list.get(*self.known.get(&name)?)
    }
}

/// A class that is written with colons, before it has been moved to its place.
struct NestedClass {
    stmt: StmtId,
    class: ClassId,
    path: Vec<Name>,
}
