//! `mgmt repl`: the language, line by line.
//!
//! What is typed becomes a [`Session`]; what it means is found out by the crate `lang`, as for any program. Resources are
//! computed and shown, and never reach an engine that would run them.

mod complete;
mod editor;
mod history;
mod lines;
mod live;
mod meta;
mod signals;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use mgmt_diagnostics::Diagnostic;
use mgmt_lang::module::{Disk, Entry, ResolveError};
use mgmt_lang::{Environment, Input, NameKind, Named, Session, View, input_of};
use mgmt_resource::ResourceGraph;

use crate::commands::graph::{self, Declared, Drawing};
use crate::commands::{exit_codes, functions};
use crate::environment;
use crate::failure::{Exit, Failure};
use crate::program;
use crate::reference;
use crate::terminal::Terminal;
use complete::Knowledge;
use editor::{Answer, Editor};
use history::History;
use lines::Lines;
use live::{End, Until, Workshop};
use meta::Command;

const PROMPT: &str = "mgmt> ";

/// Try the language: expressions, definitions and resources, line by line
///
/// An expression prints its value; definitions are kept for later lines; resources are shown as the graph that they
/// would give, and never run. Functions look at this host, and commands that they need do run. `:help` lists what else
/// there is. If standard input is no terminal, its lines are read as if they were typed, and the exit code tells whether all
/// of them were right.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A program to start from: a file, or a directory with a module
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    program: Option<OsString>,

    /// How many seconds a value may take to be there
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    wait: u64,

    /// The name that functions take this host to have; unset, its own
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,

    /// Where downloaded modules are [env: MGMT_MODULE_PATH]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    module_path: Option<PathBuf>,

    /// Neither read nor write the file with what was typed before
    #[arg(long)]
    no_history: bool,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hostname = arguments.hostname.clone().unwrap_or_else(own);
    let (workshop, signals) = Workshop::new(hostname)?;
    let mut repl = Repl {
        session: Session::default(),
        names: Vec::new(),
        shown: HashSet::new(),
        workshop,
        terminal,
        module_path: program::module_path(arguments.module_path.as_deref()),
        wait: Duration::from_secs(arguments.wait),
        has_failed: false,
    };
    if let Some(path) = &arguments.program {
        repl.load(path)?;
        if repl.has_failed {
            return Err(Failure::shown(exit_codes::USAGE));
        }
    }
    let is_dumb = environment::TERM.get().is_some_and(|name| name == "dumb");
    match std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !is_dumb {
        true => {
            let file = if arguments.no_history { None } else { history::place() };
            repl.converse(History::open(file), signals.pipe)
        }
        false => repl.listen(signals.pipe),
    }
}

/// One conversation.
struct Repl<'t> {
    session: Session,
    /// What can be used, for completion.
    names: Vec<Named>,
    /// The lines about the graph that have been shown.
    shown: HashSet<String>,
    workshop: Workshop,
    terminal: &'t Terminal,
    module_path: Option<PathBuf>,
    wait: Duration,
    /// Something was wrong with something.
    has_failed: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Go,
    Quit,
}

/// How an expression is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Once,
    Live,
    Type,
}

impl Repl<'_> {
    /// With somebody at a terminal.
    fn converse(&mut self, history: History, signals: OwnedFd) -> Result<Exit, Failure> {
        let failed =
            |error: std::io::Error| Failure::failed(format!("cannot read from the terminal: {error}"));
        let mut editor = Editor::new(history, self.terminal.output().clone(), signals);
        self.terminal.data("The mgmt language, line by line. `:help` helps, `:quit` ends.\n");
        loop {
            let text = match editor.read(PROMPT, &Knowledge { names: &self.names }).map_err(failed)? {
                Answer::Text(text) => text,
                Answer::Interrupted => continue,
                Answer::End => return Ok(Exit::OK),
            };
            editor.history.add(&text);
            if self.enter(&text, &mut || false)? == Next::Quit {
                return Ok(Exit::OK);
            }
        }
    }

    /// With a file or another program.
    fn listen(&mut self, signals: OwnedFd) -> Result<Exit, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("cannot read standard input: {error}"));
        let mut lines = Lines::new(signals);
        let mut text = String::new();
        loop {
            match lines.next().map_err(failed)? {
                lines::Next::Line(line) => text.push_str(line.strip_suffix('\r').unwrap_or(&line)),
                lines::Next::Interrupted => return Ok(Exit(exit_codes::INTERRUPTED)),
                lines::Next::End => {
                    // What is still open is not going to be closed.
                    self.enter(&text, &mut || true)?;
                    break;
                }
            }
            if !meta::is_command(&text) && input_of(&text) == Input::Unfinished {
                text.push('\n');
                continue;
            }
            if self.enter(&std::mem::take(&mut text), &mut || lines.is_ready())? == Next::Quit {
                break;
            }
        }
        Ok(if self.has_failed { Exit(exit_codes::FAILED) } else { Exit::OK })
    }

    /// Takes a text. `is_ready` tells whether there is another one already.
    fn enter(&mut self, text: &str, is_ready: &mut dyn FnMut() -> bool) -> Result<Next, Failure> {
        if meta::is_command(text) {
            return self.command(meta::word(text).unwrap_or_else(|| text.trim()), is_ready);
        }
        // As a call, unless there is a function of this name.
        if let Some(word) = text.trim().strip_suffix("()")
            && let Some(command) = meta::word(word).filter(|_| self.function(word).is_none())
        {
            return self.command(command, is_ready);
        }
        match input_of(text) {
            Input::Nothing => {}
            Input::Expression => self.ask(text, Look::Once, is_ready)?,
            Input::Statements | Input::Unfinished => self.define(text)?,
        }
        Ok(Next::Go)
    }

    fn command(&mut self, text: &str, is_ready: &mut dyn FnMut() -> bool) -> Result<Next, Failure> {
        let (word, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = argument.trim();
        let Some(command) = meta::find(word) else {
            let failure = Failure::failed(format!("there is no command `{word}`"));
            self.fail(&match mgmt_resource::did_you_mean(word, meta::names()) {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure.hint("`:help` lists all of them"),
            });
            return Ok(Next::Go);
        };
        let (name, wanted) = meta::argument(command);
        if wanted.is_empty() != argument.is_empty() {
            let form = format!("{name} {wanted}");
            self.fail(&match wanted.is_empty() {
                true => Failure::failed(format!("`{name}` stands alone")),
                false => Failure::failed(format!("write `{form}`")),
            });
            return Ok(Next::Go);
        }
        match command {
            Command::Type => match self.function(argument) {
                Some(form) => self.terminal.data(&format!("{form}\n")),
                None if meta::is_name(argument) => self.fail(&functions::missing(argument)),
                None => self.ask(argument, Look::Type, is_ready)?,
            },
            Command::Watch => self.ask(argument, Look::Live, is_ready)?,
            Command::Graph => self.graph()?,
            Command::Vars => self.vars(),
            Command::Doc => self.doc(argument),
            Command::Load => self.load(&OsString::from(argument))?,
            Command::Reset => self.start_from(Session::default(), Vec::new()),
            Command::Help => self.terminal.data(&meta::help()),
            Command::Quit => return Ok(Next::Quit),
        }
        Ok(Next::Go)
    }

    /// How a function is declared that is given by its name: one that is defined or imported, or one of the library.
    fn function(&self, name: &str) -> Option<String> {
        let known =
            self.names.iter().rev().find(|known| known.text == name && known.what == NameKind::Function);
        let of_library = || match crate::reference::functions::find(name) {
            Some(crate::reference::functions::Found::Function(function)) => Some(function.signature()),
            _ => None,
        };
        known.map(|known| known.about.clone()).or_else(of_library)
    }

    /// Says what is wrong, and goes on.
    fn fail(&mut self, failure: &Failure) {
        self.terminal.failure(failure);
        self.has_failed = true;
    }

    fn missing(&mut self, error: &ResolveError) {
        program::show_missing(error, self.terminal);
        self.has_failed = true;
    }

    fn environment(&self) -> Environment<'static> {
        Environment {
            kinds: &mgmt_resources::KINDS,
            library: mgmt_funcs::library(),
            files: &Disk,
            module_path: self.module_path.clone(),
            lints: false,
        }
    }

    /// Shows what is to be told about a text, and whether it is right.
    fn judge(&mut self, view: &View) -> bool {
        let (told, is_right) = view.verdict();
        self.terminal.diagnostics(&told, &view.sources);
        self.has_failed |= !is_right;
        is_right
    }

    fn wrong(&mut self, wrong: &[Diagnostic], view: &View) {
        let located: Vec<Diagnostic> = wrong.iter().map(|diagnostic| view.located(diagnostic)).collect();
        self.terminal.diagnostics(&located, &view.sources);
        self.has_failed = true;
    }

    /// Keeps statements, if they are right.
    fn define(&mut self, text: &str) -> Result<(), Failure> {
        let session = self.session.with(text);
        let view = match session.check(&self.environment()) {
            Ok(view) => view,
            Err(error) => {
                self.missing(&error);
                return Ok(());
            }
        };
        if !self.judge(&view) || (session.has_effects() && !self.show_new(&view)?) {
            self.session.skip();
            return Ok(());
        }
        self.names = view.names();
        self.session = session;
        Ok(())
    }

    /// Shows what of a graph has not been shown. False: there is no graph.
    fn show_new(&mut self, view: &View) -> Result<bool, Failure> {
        let Some(lines) = self.drawn(view)? else { return Ok(false) };
        let new: String = lines.iter().filter(|line| !self.shown.contains(*line)).cloned().collect();
        self.terminal.data(&new);
        self.shown = lines.into_iter().collect();
        Ok(true)
    }

    fn graph(&mut self) -> Result<(), Failure> {
        match self.session.check(&self.environment()) {
            Ok(view) => {
                if let Some(lines) = self.drawn(&view)? {
                    self.terminal.data(&lines.concat());
                    self.shown = lines.into_iter().collect();
                }
            }
            Err(error) => self.missing(&error),
        }
        Ok(())
    }

    /// The graph of everything, line by line.
    fn drawn(&mut self, view: &View) -> Result<Option<Vec<String>>, Failure> {
        let Some(graph) = self.first(view)? else { return Ok(None) };
        let declared = Declared::of(&graph);
        match mgmt_engine::prepare(graph, Vec::new(), &mgmt_engine::Preparation::default()) {
            Ok(prepared) => {
                for warning in &prepared.warnings {
                    self.terminal.warning(warning);
                }
                let text = graph::text(&Drawing::new("", &prepared.graph, &declared));
                Ok(Some(text.split_inclusive('\n').map(str::to_owned).collect()))
            }
            Err(error) => {
                self.fail(&Failure::failed(format!("the graph cannot run: {error}")));
                Ok(None)
            }
        }
    }

    /// The first graph for which all values are there.
    fn first(&mut self, view: &View) -> Result<Option<ResourceGraph>, Failure> {
        let mut found = None;
        let end = self.workshop.follow(&view.checked, Until::Seen(self.wait), &mut |seen| {
            found = Some(seen);
            ControlFlow::Break(())
        })?;
        match found {
            Some(Ok(graph)) => return Ok(Some(graph)),
            Some(Err(wrong)) => self.wrong(&wrong, view),
            None => self.gave_up(end, view),
        }
        Ok(None)
    }

    fn gave_up(&mut self, end: End, view: &View) {
        if let End::TooLong(mut parts) = end {
            for part in &mut parts {
                part.span = view.place(part.span);
                // No resource is ever there.
                part.missing.clear();
            }
            let failure = program::values::not_there(&parts, &view.sources, self.wait);
            self.fail(&failure.hint("`mgmt repl --wait SECONDS` gives them more time"));
        }
    }

    /// Looks at an expression.
    fn ask(&mut self, text: &str, look: Look, is_ready: &mut dyn FnMut() -> bool) -> Result<(), Failure> {
        if input_of(text) == Input::Nothing {
            return Ok(());
        }
        let view = match self.session.ask(text, &self.environment()) {
            Ok(view) => view,
            Err(error) => {
                self.missing(&error);
                return Ok(());
            }
        };
        self.session.skip();
        if !self.judge(&view) {
            return Ok(());
        }
        let ty = view.answer_type().unwrap_or_default();
        // A function has no text but its type.
        if look == Look::Type || ty.starts_with("func(") {
            self.terminal.data(&format!("{ty}\n"));
            return Ok(());
        }
        match look {
            Look::Live => self.watch(&view, is_ready),
            Look::Once | Look::Type => {
                let answer = self.first(&view)?.and_then(|graph| view.answer(&graph));
                if let Some(value) = answer {
                    self.terminal.data(&format!("{value}\n"));
                }
                Ok(())
            }
        }
    }

    /// Prints each value of an expression, until there is something to read.
    fn watch(&mut self, view: &View, is_ready: &mut dyn FnMut() -> bool) -> Result<(), Failure> {
        let terminal = self.terminal;
        let mut last = None;
        let end = self.workshop.follow(&view.checked, Until::Typed, &mut |seen| {
            match seen.map(|graph| view.answer(&graph)) {
                Ok(value) => {
                    if value != last
                        && let Some(value) = &value
                    {
                        terminal.data(&format!("{value}\n"));
                    }
                    last = value;
                }
                Err(wrong) => {
                    let located: Vec<Diagnostic> = wrong.iter().map(|found| view.located(found)).collect();
                    terminal.diagnostics(&located, &view.sources);
                    last = None;
                }
            }
            if is_ready() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if end == End::Typed && std::io::stdin().is_terminal() {
            // The line that ended it says nothing else. What cannot be read now is noticed later.
            let _ = rustix::io::read(rustix::stdio::stdin(), &mut [0; 4096][..]);
        }
        Ok(())
    }

    fn vars(&self) {
        let lines = self.names.iter().filter(|name| name.is_own).map(|name| match name.what {
            NameKind::Variable => format!("{} {}\n", name.text, name.about),
            NameKind::Function | NameKind::Class | NameKind::Alias => format!("{}\n", name.about),
        });
        self.terminal.data(&lines.collect::<String>());
    }

    fn doc(&mut self, name: &str) {
        let known = name.trim_end_matches(['(', ')']);
        if let Some(own) = self.names.iter().find(|own| own.is_own && own.text == known) {
            let text = match own.what {
                NameKind::Variable => format!("{} {}\n", own.text, own.about),
                _ => format!("{}\n", own.about),
            };
            self.terminal.data(&text);
        } else if let Some(found) = reference::functions::find(known) {
            self.terminal.data(&reference::functions::text(found));
        } else if let Some(schema) = mgmt_resources::KINDS.get(known) {
            self.terminal.data(&reference::text(schema));
        } else {
            self.fail(&functions::missing(known));
        }
    }

    /// Starts again from a program.
    fn load(&mut self, path: &OsString) -> Result<(), Failure> {
        let entry = match program::entry(path) {
            Ok(entry @ (Entry::File(_) | Entry::Directory(_) | Entry::Metadata(_))) => entry,
            Ok(Entry::StandardInput | Entry::Code(_)) => {
                self.fail(&Failure::failed("this is no path of a program").hint("files end in `.mcl`"));
                return Ok(());
            }
            Err(failure) => {
                self.fail(&failure);
                return Ok(());
            }
        };
        let environment = self.environment();
        let loaded = Session::on(entry, &environment)
            .and_then(|session| session.check(&environment).map(|view| (session, view)));
        match loaded {
            Ok((session, view)) => {
                if self.judge(&view) {
                    let names = view.names();
                    self.start_from(session, names);
                }
            }
            Err(error) => self.missing(&error),
        }
        Ok(())
    }

    fn start_from(&mut self, session: Session, names: Vec<Named>) {
        self.session = session;
        self.names = names;
        self.shown.clear();
    }
}
