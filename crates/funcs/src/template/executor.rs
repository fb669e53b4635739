//! Running a template.

use std::cell::Cell;

use mgmt_value::Type;

use super::data::Datum;
use super::parser::{Command, Kind, MAIN, Node, Operand, Pipeline, Templates};
use super::{builtins, format};
use crate::{Body, Failure, Function, Host, Memory, library};

/// The number of templates that may be called within each other, as in Go.
const MAX_TEMPLATE_DEPTH: usize = 100_000;
/// How many nodes a template may run.
const STEPS: usize = 4_000_000;
/// How long the result may become.
const LONGEST: usize = 1 << 28;

pub(super) fn execute(
    host: &dyn Host,
    has_read: &Cell<bool>,
    source: &[u8],
    templates: &Templates,
    dot: Datum,
) -> Result<Vec<u8>, Failure> {
    let mut executor = Executor {
        host,
        has_read,
        source,
        templates,
        variables: vec![("$".to_owned(), dot.clone())],
        out: Vec::new(),
        name: MAIN.to_owned(),
        depth: 0,
        steps: 0,
    };
    if let Some(nodes) = templates.get(MAIN) {
        executor.run(nodes, dot)?;
    }
    Ok(executor.out)
}

struct Executor<'a> {
    host: &'a dyn Host,
    /// A function that looks at the host was called.
    has_read: &'a Cell<bool>,
    source: &'a [u8],
    templates: &'a Templates,
    variables: Vec<(String, Datum)>,
    out: Vec<u8>,
    name: String,
    depth: usize,
    steps: usize,
}

/// A construct that is being executed. They are kept in a list and not on the stack of the thread, so that a template may
/// call itself as often as in Go.
enum Frame<'a> {
    /// The nodes of a block that are still to come. At its end, the variables that were declared since `scope` are gone.
    Block { nodes: std::slice::Iter<'a, Node>, dot: Datum, scope: usize },
    /// A loop: the number of the next item, and the variables that there were before it.
    Range { over: &'a Pipeline, items: Datum, next: usize, body: &'a [Node], scope: usize },
    /// A template that was called: the name and the variables of its caller.
    Template { name: String, variables: Vec<(String, Datum)> },
}

impl<'a> Executor<'a> {
    fn run(&mut self, nodes: &'a [Node], dot: Datum) -> Result<(), Failure> {
        let mut frames = vec![Frame::Block { nodes: nodes.iter(), dot, scope: self.variables.len() }];
        while let Some(frame) = frames.last_mut() {
            match frame {
                Frame::Block { nodes, dot, scope } => match nodes.next() {
                    Some(node) => {
                        let dot = dot.clone();
                        self.node(node, &dot, &mut frames)?;
                    }
                    None => {
                        self.variables.truncate(*scope);
                        frames.pop();
                    }
                },
                Frame::Range { over, items, next, body, scope } => {
                    self.variables.truncate(*scope);
                    match item(items, *next) {
                        Some((key, value)) => {
                            *next += 1;
                            let (over, nodes, scope) = (*over, body.iter(), *scope);
                            let is_int = matches!(items, Datum::Int(..));
                            self.step()?;
                            self.bind_item(over, key, &value, is_int);
                            frames.push(Frame::Block { nodes, dot: value, scope });
                        }
                        None => {
                            frames.pop();
                        }
                    }
                }
                Frame::Template { name, variables } => {
                    self.depth -= 1;
                    self.name = std::mem::take(name);
                    self.variables = std::mem::take(variables);
                    frames.pop();
                }
            }
        }
        Ok(())
    }

    fn node(&mut self, node: &'a Node, dot: &Datum, frames: &mut Vec<Frame<'a>>) -> Result<(), Failure> {
        self.step()?;
        let scope = self.variables.len();
        let block = |nodes: &'a [Node], dot: Datum| Frame::Block { nodes: nodes.iter(), dot, scope };
        match node {
            Node::Text(text) => self.out.extend_from_slice(text),
            // What an action declares lives on after it.
            Node::Action(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.names.is_empty() {
                    self.print(&value);
                }
            }
            Node::If { condition, then, otherwise } => {
                let value = self.pipeline(condition, dot)?;
                frames.push(block(if value.is_true() { then } else { otherwise }, dot.clone()));
            }
            Node::With { value, then, otherwise } => {
                let value = self.pipeline(value, dot)?;
                frames.push(match value.is_true() {
                    true => block(then, value),
                    false => block(otherwise, dot.clone()),
                });
            }
            Node::Range { over, body, otherwise } => {
                let items = self.range(over, dot)?;
                frames.push(match item(&items, 0) {
                    Some(_) => Frame::Range { over, items, next: 0, body, scope },
                    None => block(otherwise, dot.clone()),
                });
            }
            Node::Template { name, dot: value, at } => {
                self.template(name, value.as_ref(), *at, dot, frames)?;
            }
            Node::Break => {
                leave_body(frames);
                if let Some(Frame::Range { scope, .. }) = frames.pop() {
                    self.variables.truncate(scope);
                }
            }
            Node::Continue => leave_body(frames),
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Failure> {
        self.steps += 1;
        if self.steps > STEPS || self.out.len() > LONGEST {
            return Err(Failure::fatal("the template runs for too long, or its result is too large"));
        }
        Ok(())
    }

    fn print(&mut self, value: &Datum) {
        match value {
            Datum::Nil => self.out.extend_from_slice(b"<no value>"),
            value => self.out.extend(format::bytes(value)),
        }
    }

    /// The value that a loop goes over.
    fn range(&mut self, over: &Pipeline, dot: &Datum) -> Result<Datum, Failure> {
        let value = self.value(over, dot)?;
        match value {
            Datum::List(_) | Datum::Map(_) | Datum::Int(..) | Datum::Nil => Ok(value),
            other => {
                let message = format!("range can't iterate over {}", format::text(&other));
                Err(self.failed(over.at, over.end, &message))
            }
        }
    }

    fn bind_item(&mut self, over: &Pipeline, key: Datum, value: &Datum, is_int: bool) {
        match over.names.as_slice() {
            [] => {}
            [name] => self.bind(over.declares, name, if is_int { key } else { value.clone() }),
            [first, second, ..] => {
                self.bind(over.declares, first, key);
                self.bind(over.declares, second, value.clone());
            }
        }
    }

    fn bind(&mut self, declares: bool, name: &str, value: Datum) {
        match self.variables.iter_mut().rev().find(|(found, _)| found == name).filter(|_| !declares) {
            Some((_, place)) => *place = value,
            None => self.variables.push((name.to_owned(), value)),
        }
    }

    fn template(
        &mut self,
        name: &str,
        given: Option<&Pipeline>,
        at: usize,
        dot: &Datum,
        frames: &mut Vec<Frame<'a>>,
    ) -> Result<(), Failure> {
        let value = given.map(|value| self.pipeline(value, dot)).transpose()?.unwrap_or(Datum::Nil);
        let templates = self.templates;
        let Some(nodes) = templates.get(name) else {
            let message = format!("template {name:?} not defined");
            return Err(self.failed_call(name, given, at, &message));
        };
        if self.depth == MAX_TEMPLATE_DEPTH {
            let message = format!("exceeded maximum template depth ({MAX_TEMPLATE_DEPTH})");
            return Err(self.failed_call(name, given, at, &message));
        }
        let variables = std::mem::replace(&mut self.variables, vec![("$".to_owned(), value.clone())]);
        let outer = std::mem::replace(&mut self.name, name.to_owned());
        self.depth += 1;
        frames.push(Frame::Template { name: outer, variables });
        frames.push(Frame::Block { nodes: nodes.iter(), dot: value, scope: 1 });
        Ok(())
    }

    /// The value of a pipeline, which its variables get too.
    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Datum) -> Result<Datum, Failure> {
        let value = self.value(pipeline, dot)?;
        for name in &pipeline.names {
            self.bind(pipeline.declares, name, value.clone());
        }
        Ok(value)
    }

    fn value(&mut self, pipeline: &Pipeline, dot: &Datum) -> Result<Datum, Failure> {
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(command, dot, value)?);
        }
        Ok(value.unwrap_or(Datum::Nil))
    }

    fn command(&mut self, command: &Command, dot: &Datum, piped: Option<Datum>) -> Result<Datum, Failure> {
        self.step()?;
        let Some((first, arguments)) = command.words.split_first() else { return Ok(Datum::Nil) };
        if let Kind::Function(name) = &first.kind {
            return self.call(name, first, arguments, dot, piped);
        }
        if !arguments.is_empty() || piped.is_some() {
            let text = self.snippet(first.at, first.end);
            let message = match &first.kind {
                Kind::Field(fields) | Kind::Variable(_, fields) | Kind::Chain(_, fields)
                    if !fields.is_empty() =>
                {
                    format!("{} is not a method but has arguments", fields[fields.len() - 1])
                }
                _ => format!("can't give argument to non-function {text}"),
            };
            return Err(self.failed(first.at, first.end, &message));
        }
        if matches!(first.kind, Kind::Nil) {
            return Err(self.failed(first.at, first.end, "nil is not a command"));
        }
        self.operand(first, dot)
    }

    fn operand(&mut self, operand: &Operand, dot: &Datum) -> Result<Datum, Failure> {
        match &operand.kind {
            Kind::Dot => Ok(dot.clone()),
            Kind::Nil => Ok(Datum::Nil),
            Kind::Bool(value) => Ok(Datum::Bool(*value)),
            Kind::Int(number) => Ok(Datum::int(*number)),
            Kind::Float(number) => Ok(Datum::Float(*number)),
            Kind::Str(text) => Ok(Datum::str(text)),
            Kind::Function(name) => self.call(name, operand, &[], dot, None),
            Kind::Field(fields) => self.fields(dot.clone(), fields, operand),
            Kind::Variable(name, fields) => {
                let found = self.variables.iter().rev().find(|(found, _)| found == name);
                let value = found.map_or(Datum::Nil, |(_, value)| value.clone());
                self.fields(value, fields, operand)
            }
            Kind::Pipeline(pipeline) => self.value(pipeline, dot),
            Kind::Chain(inner, fields) => {
                let value = self.operand(inner, dot)?;
                self.fields(value, fields, operand)
            }
        }
    }

    fn fields(&self, start: Datum, fields: &[String], operand: &Operand) -> Result<Datum, Failure> {
        let mut value = start;
        for field in fields {
            let next = match &value {
                Datum::Map(entries) => match Datum::get(entries, &Datum::str(field)) {
                    Some(value) => Ok(value.clone()),
                    None if entries.first().is_none_or(|(key, _)| matches!(key, Datum::Str(_))) => {
                        Err(format!("map has no entry for key {field:?}"))
                    }
                    None => Err(format!("can't evaluate field {field} in type {}", value.kind())),
                },
                Datum::Record(found) => found
                    .iter()
                    .find(|(name, _)| name == field)
                    .map(|(_, value)| value.clone())
                    .ok_or_else(|| format!("can't evaluate field {field} in type {}", value.kind())),
                Datum::Nil => Err(format!("nil data; no entry for key {field:?}")),
                other => Err(format!("can't evaluate field {field} in type {}", other.kind())),
            };
            value = next.map_err(|message| self.failed(operand.at, operand.end, &message))?;
        }
        Ok(value)
    }

    fn call(
        &mut self,
        name: &str,
        at: &Operand,
        arguments: &[Operand],
        dot: &Datum,
        piped: Option<Datum>,
    ) -> Result<Datum, Failure> {
        if let "and" | "or" = name {
            return self.short_circuit(name == "or", at, arguments, dot, piped);
        }
        if !builtins::exists(name)
            && let Some(function) = library().template_function(name)
        {
            return self.library(function, name, at, arguments, dot, piped);
        }
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments {
            values.push(self.operand(argument, dot)?);
        }
        values.extend(piped);
        builtins::call(name, &values).map_err(|message| self.failed(at.at, at.end, &message))
    }

    /// The first value that decides, or the last one. What follows it is not looked at.
    fn short_circuit(
        &mut self,
        decides: bool,
        at: &Operand,
        arguments: &[Operand],
        dot: &Datum,
        piped: Option<Datum>,
    ) -> Result<Datum, Failure> {
        let mut last = None;
        for argument in arguments {
            let value = self.operand(argument, dot)?;
            if value.is_true() == decides {
                return Ok(value);
            }
            last = Some(value);
        }
        let name = if decides { "or" } else { "and" };
        let message = format!("wrong number of args for {name}: want at least 1 got 0");
        piped.or(last).ok_or_else(|| self.failed(at.at, at.end, &message))
    }

    fn library(
        &mut self,
        function: &Function,
        name: &str,
        at: &Operand,
        arguments: &[Operand],
        dot: &Datum,
        piped: Option<Datum>,
    ) -> Result<Datum, Failure> {
        let Some(form) = function.forms().first() else { return Ok(Datum::Nil) };
        let count = arguments.len() + usize::from(piped.is_some());
        if count != form.parameters.len() {
            let message =
                format!("wrong number of args for {name}: want {} got {count}", form.parameters.len());
            return Err(self.failed(at.at, at.end, &message));
        }
        let mut values = Vec::with_capacity(count);
        for (argument, parameter) in arguments.iter().zip(&form.parameters) {
            // A number that is written down is of the kind that is wanted.
            let datum = match (&argument.kind, &parameter.ty) {
                (Kind::Int(number), Type::Float) => Datum::Float(*number as f64),
                (Kind::Float(number), Type::Int) if number.fract() == 0.0 && number.abs() < 9e15 => {
                    Datum::int64(*number as i64)
                }
                _ => self.operand(argument, dot)?,
            };
            let value = datum.to_value(&parameter.ty).ok_or_else(|| {
                let message =
                    format!("wrong type for value; expected {}; got {}", parameter.ty, datum.kind());
                self.failed(argument.at, argument.end, &message)
            })?;
            values.push(value);
        }
        if let (Some(datum), Some(parameter)) = (piped, form.parameters.last()) {
            let value = datum.to_value(&parameter.ty).ok_or_else(|| {
                let message =
                    format!("wrong type for value; expected {}; got {}", parameter.ty, datum.kind());
                self.failed(at.at, at.end, &message)
            })?;
            values.push(value);
        }
        let result = match function.body {
            Body::Pure(body) => body(&values),
            Body::Host(read) => {
                self.has_read.set(true);
                read(&mut Memory::new(form.result.clone()), self.host, &values)
            }
            Body::Typed(_) | Body::Live { .. } | Body::Graph(_) => {
                Err(Failure::fatal("it can't be called here"))
            }
        };
        let result = result.and_then(|value| Datum::from_value(&value));
        result
            .map_err(|failure| failure.within(self.context(at.at, at.end, &format!("error calling {name}"))))
    }

    fn failed(&self, at: usize, end: usize, message: &str) -> Failure {
        Failure::fatal(self.context(at, end, message))
    }

    /// A failure of the call of a template, which Go shows as a whole.
    fn failed_call(&self, name: &str, given: Option<&Pipeline>, at: usize, message: &str) -> Failure {
        let source =
            |given: &Pipeline| self.source.get(given.at..given.end.max(given.at)).unwrap_or_default();
        let given = given.map(|given| format!(" {}", String::from_utf8_lossy(source(given))));
        let call = shortened(&format!("{{{{template {name:?}{}}}}}", given.unwrap_or_default()));
        Failure::fatal(self.context_of(at, &call, message))
    }

    fn context(&self, at: usize, end: usize, message: &str) -> String {
        self.context_of(at, &self.snippet(at, end), message)
    }

    fn context_of(&self, at: usize, text: &str, message: &str) -> String {
        let line = super::line(self.source, at);
        let start = memchr::memrchr(b'\n', &self.source[..at]).map_or(0, |newline| newline + 1);
        let name = &self.name;
        format!("template: template:{line}:{}: executing {name:?} at <{text}>: {message}", at - start)
    }

    /// The beginning of a piece of the source.
    fn snippet(&self, at: usize, end: usize) -> String {
        shortened(&String::from_utf8_lossy(self.source.get(at..end.max(at)).unwrap_or_default()))
    }
}

/// The key and the value of an item of what a loop goes over.
fn item(items: &Datum, number: usize) -> Option<(Datum, Datum)> {
    let key = || i64::try_from(number).ok().map(Datum::int);
    match items {
        Datum::List(items) => Some((key()?, items.get(number)?.clone())),
        Datum::Map(entries) => entries.get(number).cloned(),
        Datum::Int(count, of) if i64::try_from(number).is_ok_and(|number| number < *count) => {
            let item = Datum::Int(i64::try_from(number).ok()?, *of);
            Some((item.clone(), item))
        }
        _ => None,
    }
}

/// Gives up the rest of the body of the innermost loop.
fn leave_body(frames: &mut Vec<Frame<'_>>) {
    while !matches!(frames.last(), Some(Frame::Range { .. }) | None) {
        frames.pop();
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(20) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
