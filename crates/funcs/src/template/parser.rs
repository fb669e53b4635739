//! From words to a tree.

use std::collections::HashMap;

use super::lexer::{Bad, Token, Word, bad, lex};
use crate::{library, numbers};

/// How deep blocks and parentheses may nest.
const DEPTH: usize = 200;

/// All templates of a source, by name. The source itself is called `template`.
pub(super) type Templates = HashMap<String, Vec<Node>>;

pub(super) const MAIN: &str = "template";

#[derive(Debug)]
pub(super) enum Node {
    Text(Vec<u8>),
    Action(Pipeline),
    If { condition: Pipeline, then: Vec<Node>, otherwise: Vec<Node> },
    With { value: Pipeline, then: Vec<Node>, otherwise: Vec<Node> },
    Range { over: Pipeline, body: Vec<Node>, otherwise: Vec<Node> },
    Template { name: String, dot: Option<Pipeline>, at: usize },
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct Pipeline {
    /// Variables that are declared, or assigned to.
    pub(super) names: Vec<String>,
    pub(super) declares: bool,
    pub(super) commands: Vec<Command>,
    pub(super) at: usize,
    pub(super) end: usize,
}

#[derive(Debug)]
pub(super) struct Command {
    pub(super) words: Vec<Operand>,
}

#[derive(Debug)]
pub(super) struct Operand {
    pub(super) kind: Kind,
    pub(super) at: usize,
    pub(super) end: usize,
}

#[derive(Debug)]
pub(super) enum Kind {
    Dot,
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Vec<u8>),
    Function(String),
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Pipeline(Box<Pipeline>),
    Chain(Box<Operand>, Vec<String>),
}

pub(super) fn parse(source: &[u8]) -> Result<Templates, Bad> {
    let tokens = lex(source)?;
    let mut parser = Parser {
        tokens,
        at: 0,
        end: source.len(),
        templates: Templates::new(),
        variables: vec!["$".to_owned()],
        depth: 0,
        loops: 0,
    };
    let (nodes, end) = parser.list()?;
    match end {
        End::Source => {}
        End::Closed => return bad(parser.position(), "unexpected {{end}}"),
        End::Else => return bad(parser.position(), "unexpected {{else}}"),
    }
    parser.templates.insert(MAIN.to_owned(), nodes);
    Ok(parser.templates)
}

/// What ends a list of nodes. The word itself has been read, the rest of its action has not.
#[derive(PartialEq)]
enum End {
    Source,
    Closed,
    Else,
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    end: usize,
    templates: Templates,
    variables: Vec<String>,
    depth: usize,
    loops: usize,
}

impl Parser {
    fn list(&mut self) -> Result<(Vec<Node>, End), Bad> {
        let mut nodes = Vec::new();
        while let Some(token) = self.next() {
            match token.word {
                Word::Text(text) => nodes.push(Node::Text(text)),
                Word::Open => {
                    self.blanks();
                    let word = match self.peek() {
                        Some(Word::Identifier(word)) => word.clone(),
                        _ => String::new(),
                    };
                    match word.as_str() {
                        "end" => {
                            self.next();
                            self.close("end")?;
                            return Ok((nodes, End::Closed));
                        }
                        "else" => {
                            self.next();
                            return Ok((nodes, End::Else));
                        }
                        word => nodes.extend(self.action(word)?),
                    }
                }
                _ => return bad(token.at, "unexpected input"),
            }
        }
        Ok((nodes, End::Source))
    }

    fn action(&mut self, word: &str) -> Result<Option<Node>, Bad> {
        let keyword_at = self.position();
        if matches!(word, "if" | "with" | "range" | "define" | "block" | "template" | "break" | "continue") {
            self.next();
        }
        Ok(Some(match word {
            "if" => {
                let (condition, then, otherwise) = self.control("if", false)?;
                Node::If { condition, then, otherwise }
            }
            "with" => {
                let (value, then, otherwise) = self.control("with", false)?;
                Node::With { value, then, otherwise }
            }
            "range" => {
                let (over, body, otherwise) = self.control("range", true)?;
                Node::Range { over, body, otherwise }
            }
            "define" => {
                let name = self.quoted_name("define")?;
                self.close("define")?;
                let nodes = self.own_scope(&name)?;
                self.templates.insert(name, nodes);
                return Ok(None);
            }
            "block" => {
                self.blanks();
                let at = self.position();
                let name = self.quoted_name("block")?;
                let dot = self.pipeline("block")?;
                let nodes = self.own_scope(&name)?;
                self.templates.insert(name.clone(), nodes);
                Node::Template { name, dot: Some(dot), at }
            }
            "template" => {
                self.blanks();
                let at = self.position();
                let name = self.quoted_name("template")?;
                self.blanks();
                let dot = match self.peek() {
                    Some(Word::Close) => {
                        self.next();
                        None
                    }
                    _ => Some(self.pipeline("template")?),
                };
                Node::Template { name, dot, at }
            }
            "break" | "continue" => {
                self.close(word)?;
                if self.loops == 0 {
                    return bad(keyword_at, format!("{{{{{word}}}}} outside {{{{range}}}}"));
                }
                if word == "break" { Node::Break } else { Node::Continue }
            }
            _ => Node::Action(self.pipeline("command")?),
        }))
    }

    /// The body of a template of its own: nothing outside can be seen.
    fn own_scope(&mut self, name: &str) -> Result<Vec<Node>, Bad> {
        let variables = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let loops = std::mem::take(&mut self.loops);
        self.deeper()?;
        let (nodes, end) = self.list()?;
        self.depth -= 1;
        self.variables = variables;
        self.loops = loops;
        match end {
            End::Closed => Ok(nodes),
            End::Source => bad(self.end, "unexpected EOF"),
            End::Else => {
                bad(self.position(), format!("unexpected {{{{else}}}} in define clause of {name:?}"))
            }
        }
    }

    fn control(&mut self, word: &str, is_loop: bool) -> Result<(Pipeline, Vec<Node>, Vec<Node>), Bad> {
        self.deeper()?;
        let scope = self.variables.len();
        let pipeline = self.pipeline(word)?;
        self.loops += usize::from(is_loop);
        let (nodes, end) = self.list()?;
        self.loops -= usize::from(is_loop);
        let otherwise = match end {
            End::Source => return bad(self.end, "unexpected EOF"),
            End::Closed => Vec::new(),
            End::Else => self.otherwise(word)?,
        };
        self.variables.truncate(scope);
        self.depth -= 1;
        Ok((pipeline, nodes, otherwise))
    }

    /// What follows `else`: another condition, or a list.
    fn otherwise(&mut self, word: &str) -> Result<Vec<Node>, Bad> {
        self.blanks();
        let again = matches!(self.peek(), Some(Word::Identifier(next)) if next == word && word != "range");
        if again {
            // It has no `end` of its own: the one of the whole ends both.
            return Ok(self.action(word)?.into_iter().collect());
        }
        self.close("else")?;
        let (nodes, end) = self.list()?;
        match end {
            End::Closed => Ok(nodes),
            End::Source => bad(self.end, "unexpected EOF"),
            End::Else => bad(self.position(), "expected end; found {{else}}"),
        }
    }

    fn quoted_name(&mut self, context: &str) -> Result<String, Bad> {
        self.blanks();
        let at = self.position();
        match self.next().map(|token| token.word) {
            Some(Word::Str(name)) => Ok(String::from_utf8_lossy(&name).into_owned()),
            _ => bad(at, format!("unexpected token in {context} clause, expected a quoted name")),
        }
    }

    /// A pipeline up to the end of its action.
    fn pipeline(&mut self, context: &str) -> Result<Pipeline, Bad> {
        let pipeline = self.commands(context)?;
        self.close(context)?;
        Ok(pipeline)
    }

    fn commands(&mut self, context: &str) -> Result<Pipeline, Bad> {
        self.blanks();
        let at = self.position();
        let (names, declares) = self.declaration(context)?;
        let mut commands = vec![self.command(context)?];
        while self.eat("|") {
            commands.push(self.command(context)?);
        }
        for command in &commands[1..] {
            if let Some(Operand {
                kind: Kind::Bool(_) | Kind::Dot | Kind::Nil | Kind::Int(_) | Kind::Float(_) | Kind::Str(_),
                at,
                ..
            }) = command.words.first()
            {
                return bad(*at, format!("non executable command in pipeline stage {}", commands.len()));
            }
        }
        if declares {
            self.variables.extend(names.iter().cloned());
        }
        let end = self.tokens.get(self.at.saturating_sub(1)).map_or(at, |token| token.end);
        Ok(Pipeline { names, declares, commands, at, end })
    }

    /// `$x :=`, `$x =` or, in a range, `$i, $x :=`.
    fn declaration(&mut self, context: &str) -> Result<(Vec<String>, bool), Bad> {
        let start = self.at;
        let mut names = Vec::new();
        loop {
            self.blanks();
            let Some(Word::Variable(name)) = self.peek().cloned() else { break };
            self.next();
            names.push(name);
            self.blanks();
            match self.peek() {
                Some(Word::Sign(sign @ (":=" | "="))) => {
                    let declares = *sign == ":=";
                    let at = self.position();
                    self.next();
                    let unknown = names.iter().find(|name| !declares && !self.variables.contains(name));
                    return match unknown {
                        Some(name) => bad(at, format!("undefined variable {name:?}")),
                        None => Ok((names, declares)),
                    };
                }
                Some(Word::Sign(",")) if context == "range" && names.len() == 1 => drop(self.next()),
                Some(Word::Sign(",")) => {
                    return bad(self.position(), format!("too many declarations in {context}"));
                }
                _ => break,
            }
        }
        self.at = start;
        Ok((Vec::new(), false))
    }

    fn command(&mut self, context: &str) -> Result<Command, Bad> {
        let mut words = Vec::new();
        loop {
            self.blanks();
            let Some(operand) = self.operand()? else { break };
            words.push(operand);
            match self.peek() {
                Some(Word::Space) => {}
                Some(Word::Close | Word::Sign("|" | ")")) | None => break,
                Some(_) => return bad(self.position(), "unexpected input after operand"),
            }
        }
        match words.is_empty() {
            true => bad(self.position(), format!("missing value for {context}")),
            false => Ok(Command { words }),
        }
    }

    fn operand(&mut self) -> Result<Option<Operand>, Bad> {
        let at = self.position();
        let kind = match self.peek().cloned() {
            Some(Word::Sign("(")) => {
                self.next();
                self.deeper()?;
                let inner = self.commands("parenthesized pipeline")?;
                self.depth -= 1;
                if !self.eat(")") {
                    return bad(at, "unclosed left paren");
                }
                Kind::Pipeline(Box::new(inner))
            }
            Some(Word::Close | Word::Sign(_)) | None => return Ok(None),
            Some(word) => {
                self.next();
                self.term(word, at)?
            }
        };
        let mut fields = Vec::new();
        while let Some(Word::Field(name)) = self.peek().cloned() {
            self.next();
            fields.push(name);
        }
        let end = self.tokens[self.at - 1].end;
        let kind = match kind {
            kind if fields.is_empty() => kind,
            Kind::Field(first) => Kind::Field(first.into_iter().chain(fields).collect()),
            Kind::Variable(name, _) => Kind::Variable(name, fields),
            kind @ (Kind::Pipeline(_) | Kind::Function(_)) => {
                Kind::Chain(Box::new(Operand { kind, at, end }), fields)
            }
            _ => return bad(at, format!("unexpected . after term {:?}", fields[0])),
        };
        Ok(Some(Operand { kind, at, end }))
    }

    fn term(&self, word: Word, at: usize) -> Result<Kind, Bad> {
        Ok(match word {
            Word::Identifier(name) => match name.as_str() {
                "true" => Kind::Bool(true),
                "false" => Kind::Bool(false),
                "nil" => Kind::Nil,
                "if" | "else" | "end" | "range" | "with" | "define" | "block" | "template" | "break"
                | "continue" => {
                    return bad(at, format!("unexpected <{name}> in operand"));
                }
                _ if super::builtins::exists(&name) || library().template_function(&name).is_some() => {
                    Kind::Function(name)
                }
                _ => return bad(at, format!("function {name:?} not defined")),
            },
            Word::Field(name) => Kind::Field(vec![name]),
            Word::Variable(name) if self.variables.contains(&name) => Kind::Variable(name, Vec::new()),
            Word::Variable(name) => return bad(at, format!("undefined variable {name:?}")),
            Word::Dot => Kind::Dot,
            Word::Str(text) => Kind::Str(text),
            Word::Character(character) => Kind::Int(i64::from(character as u32)),
            Word::Number(text) => number(&text, at)?,
            Word::Text(_) | Word::Open | Word::Close | Word::Space | Word::Sign(_) => {
                return bad(at, "unexpected input in operand");
            }
        })
    }

    fn deeper(&mut self) -> Result<(), Bad> {
        self.depth += 1;
        if self.depth > DEPTH { bad(self.position(), "it nests too deep") } else { Ok(()) }
    }

    fn close(&mut self, context: &str) -> Result<(), Bad> {
        self.blanks();
        match self.peek() {
            Some(Word::Close) => {
                self.next();
                Ok(())
            }
            Some(Word::Sign(")")) => bad(self.position(), "unexpected right paren"),
            _ => bad(self.position(), format!("unexpected input in {context}")),
        }
    }

    fn eat(&mut self, sign: &str) -> bool {
        self.blanks();
        let found = matches!(self.peek(), Some(Word::Sign(found)) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn blanks(&mut self) {
        while self.peek() == Some(&Word::Space) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<&Word> {
        self.tokens.get(self.at).map(|token| &token.word)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    fn position(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |token| token.at)
    }
}

fn number(text: &str, at: usize) -> Result<Kind, Bad> {
    if let Ok(int) = numbers::parse_int(text.as_bytes(), 0, 64) {
        return Ok(Kind::Int(int));
    }
    let decimal = text.contains(['.', 'e', 'E', 'p', 'P']) && !text.to_ascii_lowercase().contains(['i', 'n']);
    match numbers::parse_float(text.as_bytes(), 64) {
        Ok(float) if decimal => Ok(Kind::Float(float)),
        _ => bad(at, format!("bad number syntax: {text:?}")),
    }
}
