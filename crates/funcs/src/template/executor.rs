//! Running a template.

use mgmt_value::Type;

use super::data::Datum;
use super::parser::{Command, Kind, MAIN, Node, Operand, Pipeline, Templates};
use super::{builtins, format};
use crate::{Body, Failure, Function, Host, Memory, library};

/// How often a template may call others within each other.
const DEPTH: usize = 200;
/// How many nodes a template may run.
const STEPS: usize = 4_000_000;
/// How long the result may become.
const LONGEST: usize = 1 << 28;

pub(super) fn execute(
    host: &dyn Host,
    source: &[u8],
    templates: &Templates,
    dot: Datum,
) -> Result<Vec<u8>, Failure> {
    let mut executor = Executor {
        host,
        source,
        templates,
        variables: vec![("$".to_owned(), dot.clone())],
        out: Vec::new(),
        name: MAIN.to_owned(),
        depth: 0,
        steps: 0,
    };
    if let Some(nodes) = templates.get(MAIN) {
        executor.list(nodes, &dot)?;
    }
    Ok(executor.out)
}

struct Executor<'a> {
    host: &'a dyn Host,
    source: &'a [u8],
    templates: &'a Templates,
    variables: Vec<(String, Datum)>,
    out: Vec<u8>,
    name: String,
    depth: usize,
    steps: usize,
}

#[derive(PartialEq)]
enum Flow {
    On,
    Break,
    Continue,
}

impl Executor<'_> {
    fn list(&mut self, nodes: &[Node], dot: &Datum) -> Result<Flow, Failure> {
        for node in nodes {
            match self.node(node, dot)? {
                Flow::On => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, node: &Node, dot: &Datum) -> Result<Flow, Failure> {
        self.step()?;
        let scope = self.variables.len();
        let flow = match node {
            Node::Text(text) => {
                self.out.extend_from_slice(text);
                Flow::On
            }
            Node::Action(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.names.is_empty() {
                    self.print(&value);
                }
                // What an action declares lives on after it.
                return Ok(Flow::On);
            }
            Node::If { condition, then, otherwise } => {
                let value = self.pipeline(condition, dot)?;
                self.list(if value.is_true() { then } else { otherwise }, dot)?
            }
            Node::With { value, then, otherwise } => {
                let value = self.pipeline(value, dot)?;
                if value.is_true() { self.list(then, &value)? } else { self.list(otherwise, dot)? }
            }
            Node::Range { over, body, otherwise } => self.range(over, body, otherwise, dot)?,
            Node::Template { name, dot: value, at } => {
                self.template(name, value.as_ref(), *at, dot)?;
                Flow::On
            }
            Node::Break => Flow::Break,
            Node::Continue => Flow::Continue,
        };
        self.variables.truncate(scope);
        Ok(flow)
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

    fn range(
        &mut self,
        over: &Pipeline,
        body: &[Node],
        otherwise: &[Node],
        dot: &Datum,
    ) -> Result<Flow, Failure> {
        let value = self.value(over, dot)?;
        let items: Box<dyn Iterator<Item = (Datum, Datum)>> = match &value {
            Datum::List(items) => {
                Box::new(items.iter().cloned().enumerate().map(|(i, item)| (Datum::Int(i as i64), item)))
            }
            Datum::Map(entries) => Box::new(entries.iter().cloned()),
            Datum::Int(count) => Box::new((0..*count).map(|i| (Datum::Int(i), Datum::Int(i)))),
            Datum::Nil => Box::new(std::iter::empty()),
            other => {
                let message = format!("range can't iterate over {}", format::text(other));
                return Err(self.failed(over.at, over.end, &message));
            }
        };
        let is_int = matches!(value, Datum::Int(_));
        let mut any = false;
        for (key, item) in items {
            self.step()?;
            any = true;
            let scope = self.variables.len();
            match over.names.as_slice() {
                [] => {}
                [name] => self.bind(over.declares, name, if is_int { key } else { item.clone() }),
                [first, second, ..] => {
                    self.bind(over.declares, first, key);
                    self.bind(over.declares, second, item.clone());
                }
            }
            let flow = self.list(body, &item)?;
            self.variables.truncate(scope);
            if flow == Flow::Break {
                break;
            }
        }
        if any { Ok(Flow::On) } else { self.list(otherwise, dot) }
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
        value: Option<&Pipeline>,
        at: usize,
        dot: &Datum,
    ) -> Result<(), Failure> {
        let value = value.map(|value| self.pipeline(value, dot)).transpose()?.unwrap_or(Datum::Nil);
        let templates = self.templates;
        let Some(nodes) = templates.get(name) else {
            return Err(self.failed(at, at, &format!("template {name:?} not defined")));
        };
        if self.depth >= DEPTH {
            return Err(self.failed(at, at, &format!("exceeded maximum template depth ({DEPTH})")));
        }
        let variables = std::mem::replace(&mut self.variables, vec![("$".to_owned(), value.clone())]);
        let outer = std::mem::replace(&mut self.name, name.to_owned());
        self.depth += 1;
        self.list(nodes, &value)?;
        self.depth -= 1;
        self.name = outer;
        self.variables = variables;
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
            Kind::Int(number) => Ok(Datum::Int(*number)),
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
                    Datum::Int(*number as i64)
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
            Body::Host(read) => read(&mut Memory::new(form.result.clone()), self.host, &values),
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

    fn context(&self, at: usize, end: usize, message: &str) -> String {
        let line = super::line(self.source, at);
        let start = memchr::memrchr(b'\n', &self.source[..at]).map_or(0, |newline| newline + 1);
        let (name, text) = (&self.name, self.snippet(at, end));
        format!("template: template:{line}:{}: executing {name:?} at <{text}>: {message}", at - start)
    }

    /// The beginning of a piece of the source.
    fn snippet(&self, at: usize, end: usize) -> String {
        let text = String::from_utf8_lossy(self.source.get(at..end.max(at)).unwrap_or_default());
        match text.char_indices().nth(20) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text.into_owned(),
        }
    }
}
