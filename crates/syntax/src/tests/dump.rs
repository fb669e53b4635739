//! The typed tree as a compact s-expression. Uses every accessor, so it tests those as well.

use crate::{
    ast::{
        self, AstNode, Callee, ElseExpression, ElseStatement, Expression, ImportAlias, LiteralValue,
        ResourceItem, Statement, Type,
    },
    parse,
};

/// All statements of a text. What is missing shows as `?`.
pub(crate) fn dump(text: &str) -> String {
    let lines: Vec<String> = parse(text).tree().statements().map(statement).collect();
    lines.join("\n")
}

fn or_missing(text: Option<impl Into<String>>) -> String {
    text.map_or_else(|| "?".to_owned(), Into::into)
}

fn list(head: &str, parts: impl IntoIterator<Item = String>) -> String {
    let mut text = format!("({head}");
    for part in parts {
        text.push(' ');
        text.push_str(&part);
    }
    text.push(')');
    text
}

fn block(block: Option<ast::Block>) -> String {
    match block {
        Some(block) => list("do", block.statements().map(statement)),
        None => "?".to_owned(),
    }
}

fn variable(variable: Option<ast::VariableName>) -> String {
    or_missing(variable.and_then(|variable| variable.name()).map(|name| format!("${name}")))
}

fn args(args: Option<ast::ArgList>) -> Vec<String> {
    args.map(|args| args.args().map(expression).collect()).unwrap_or_default()
}

fn params(params: Option<ast::ParamList>) -> String {
    match params {
        Some(params) => list(
            "params",
            params.params().map(|param| match param.type_() {
                Some(declared) => format!("{}:{}", variable(param.variable()), type_(declared)),
                None => variable(param.variable()),
            }),
        ),
        None => "-".to_owned(),
    }
}

fn statement(statement: Statement) -> String {
    match statement {
        Statement::Bind(bind) => {
            let name = match bind.type_() {
                Some(declared) => format!("{}:{}", variable(bind.variable()), type_(declared)),
                None => variable(bind.variable()),
            };
            list("bind", [name, value(bind.value())])
        }
        Statement::Panic(panic) => list("panic", args(panic.args())),
        Statement::Collect(collect) => list("collect", [or_missing(collect.resource().map(resource))]),
        Statement::Resource(inner) => resource(inner),
        Statement::Edge(edge) => list("edge", edge.halves().map(half)),
        Statement::IfStatement(inner) => if_statement(&inner),
        Statement::For(inner) => list(
            "for",
            [variable(inner.index()), variable(inner.value()), value(inner.list()), block(inner.block())],
        ),
        Statement::Forkv(inner) => list(
            "forkv",
            [variable(inner.key()), variable(inner.value()), value(inner.map()), block(inner.block())],
        ),
        Statement::Function(function) => {
            let head = format!("func {}", or_missing(function.name()));
            list(&head, signature(function.params(), function.returned(), function.body()))
        }
        Statement::Class(class) => {
            let name = or_missing(class.name().map(|name| name.name()));
            list("class", [name, params(class.params()), block(class.block())])
        }
        Statement::Include(include) => {
            let mut parts = vec![or_missing(include.class().map(|class| class.name()))];
            if let Some(list) = include.args() {
                parts.push(format!("({})", args(Some(list)).join(" ")));
            }
            parts.extend(include.alias().map(|alias| format!("as {alias}")));
            list("include", parts)
        }
        Statement::Import(import) => {
            let alias = import.alias().map(|alias| match alias {
                ImportAlias::Name(name) => format!("as {name}"),
                ImportAlias::Star => "as *".to_owned(),
            });
            list("import", std::iter::once(format!("{:?}", or_missing(import.name()))).chain(alias))
        }
    }
}

fn if_statement(inner: &ast::IfStatement) -> String {
    let other = inner.else_branch().map(|branch| match branch {
        ElseStatement::Block(inner) => block(Some(inner)),
        ElseStatement::If(inner) => if_statement(&inner),
    });
    list("if", [value(inner.condition()), block(inner.then_block())].into_iter().chain(other))
}

fn resource(resource: ast::Resource) -> String {
    let head = [or_missing(resource.kind().map(|kind| kind.name())), value(resource.name())];
    list("res", head.into_iter().chain(resource.items().map(item)))
}

fn item(item: ResourceItem) -> String {
    let condition = item.condition().map(|condition| format!("{} ?:", expression(condition)));
    let (name, value) = match &item {
        ResourceItem::ResourceField(field) => (or_missing(field.name()), value(field.value())),
        ResourceItem::ResourceEdge(edge) => (or_missing(edge.word()), or_missing(edge.half().map(half))),
        ResourceItem::ResourceMeta(meta) => {
            let name = meta.param().map_or("meta".to_owned(), |param| format!("meta:{param}"));
            (name, value(meta.value()))
        }
    };
    list(&name, condition.into_iter().chain([value]))
}

fn half(half: ast::EdgeHalf) -> String {
    let kind = or_missing(half.kind().map(|kind| kind.kind()));
    let field = half.field().map(|field| format!(".{field}")).unwrap_or_default();
    format!("{kind}[{}]{field}", value(half.name()))
}

fn signature(list: Option<ast::ParamList>, returned: Option<Type>, body: Option<ast::Body>) -> Vec<String> {
    let mut parts = vec![params(list)];
    parts.extend(returned.map(type_));
    parts.push(value(body.and_then(|body| body.value())));
    parts
}

fn value(inner: Option<Expression>) -> String {
    or_missing(inner.map(expression))
}

fn expression(expression: Expression) -> String {
    match expression {
        Expression::Literal(literal) => match literal.value() {
            Some(LiteralValue::Bool(value)) => value.to_string(),
            Some(LiteralValue::Int(value)) => value.to_string(),
            Some(LiteralValue::Float(value)) => format!("{value:?}"),
            Some(LiteralValue::String(string)) => format!("\"{}\"", string.raw()),
            None => "?".to_owned(),
        },
        Expression::List(inner) => list("list", inner.elements().map(self::expression)),
        Expression::Map(map) => list(
            "map",
            map.entries().map(|entry| format!("{}=>{}", value(entry.key()), value(entry.value()))),
        ),
        Expression::Struct(inner) => list(
            "struct",
            inner.entries().map(|entry| format!("{}=>{}", or_missing(entry.name()), value(entry.value()))),
        ),
        Expression::Call(call) => {
            let callee = call.callee().map(|callee| match callee {
                Callee::Function(name) => name.name().into(),
                Callee::Variable(variable) => format!("${}", variable.name()),
                Callee::Lambda(lambda) => self::expression(Expression::Lambda(lambda)),
            });
            list("call", std::iter::once(or_missing(callee)).chain(args(call.args())))
        }
        Expression::Variable(variable) => format!("${}", variable.name()),
        Expression::Lambda(lambda) => {
            list("func", signature(lambda.params(), lambda.returned(), lambda.body()))
        }
        Expression::IfExpression(inner) => if_expression(&inner),
        Expression::Paren(paren) => list("paren", [value(paren.inner())]),
        Expression::Binary(binary) => {
            let operator = binary.operator().map_or("?", |operator| operator.text());
            list(operator, [value(binary.left()), value(binary.right())])
        }
        Expression::Not(not) => list("not", [value(not.inner())]),
        Expression::Index(index) => list("index", [value(index.base()), value(index.key())]),
        Expression::FieldAccess(access) => list("->", [value(access.base()), or_missing(access.field())]),
        Expression::FieldAccessOr(access) => {
            list("->or", [value(access.base()), or_missing(access.field()), value(access.default())])
        }
        Expression::OtherwiseExpression(inner) => list("<|>", [value(inner.value()), value(inner.default())]),
    }
}

fn if_expression(inner: &ast::IfExpression) -> String {
    let body = |body: Option<ast::Body>| value(body.and_then(|body| body.value()));
    let other = inner.else_branch().map(|branch| match branch {
        ElseExpression::Body(inner) => body(Some(inner)),
        ElseExpression::If(inner) => if_expression(&inner),
    });
    list("if", [value(inner.condition()), body(inner.then_body()), or_missing(other)])
}

fn type_(declared: Type) -> String {
    let inner = |inner: Option<Type>| or_missing(inner.map(type_));
    match declared {
        Type::BasicType(basic) => {
            format!("{:?}", basic.basic()).replace("Some(", "").replace(')', "").to_lowercase()
        }
        Type::ListType(list) => format!("[]{}", inner(list.element())),
        Type::MapType(map) => format!("map{{{}:{}}}", inner(map.key()), inner(map.value())),
        Type::StructType(fields) => {
            let fields: Vec<String> = fields
                .fields()
                .map(|field| format!("{} {}", or_missing(field.name()), inner(field.type_())))
                .collect();
            format!("struct{{{}}}", fields.join(";"))
        }
        Type::FunctionType(function) => {
            let args: Vec<String> = function
                .args()
                .map(|arg| match arg.variable() {
                    Some(name) => format!("{} {}", variable(Some(name)), inner(arg.type_())),
                    None => inner(arg.type_()),
                })
                .collect();
            format!("func({}){}", args.join(","), inner(function.returned()))
        }
    }
}

#[test]
fn every_node_can_be_found_by_its_kind() {
    let parse = parse("$x = 1\n");
    let bind = ast::Bind::cast(parse.syntax().children().next().unwrap()).unwrap();
    assert_eq!(bind.range(), bind.syntax().text_range());
    assert!(ast::Bind::cast(parse.syntax()).is_none());
}
