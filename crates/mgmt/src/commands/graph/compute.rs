//! One graph, where nothing of it runs: of a program whose values are waited for, of a file, of a manifest, of both.

use std::cell::{OnceCell, RefCell};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgmt_lang::{Checked, Outcome, Running};
use mgmt_puppet::{Half, merge};
use mgmt_resource::{ProgramFiles, ResourceGraph};
use mgmt_state::LocalState;
use mgmt_store::SharedState;

use crate::commands::exit_codes;
use crate::commands::run::prefix::{Choice, Prefix};
use crate::configuration::{self, FrontEnd, FrontEndParser, Input};
use crate::failure::Failure;
use crate::manifest::{Manifest, ManifestArguments, load_with_secrets};
use crate::program;
use crate::program::deployed::Deployed;
use crate::program::events::Sources;
use crate::program::surroundings::Surroundings;
use crate::terminal::Terminal;

/// How graphs are computed.
pub(crate) struct Computing<'a> {
    /// The command, for hints.
    pub(crate) command: &'static str,
    pub(crate) terminal: &'a Terminal,
    pub(crate) module_path: Option<&'a Path>,
    /// The name that a program takes this host to have.
    pub(crate) hostname: &'a str,
    /// How long the values of a program may take to be there.
    pub(crate) wait: Duration,
    /// Keys that nobody reads, and what would be left to Puppet, are errors.
    pub(crate) strict: bool,
    pub(crate) manifest: &'a ManifestArguments,
    /// The texts that were found and nobody should see.
    pub(crate) secrets: RefCell<Vec<String>>,
    /// The files of the program, if there is one.
    pub(crate) files: OnceCell<Arc<dyn ProgramFiles>>,
}

/// What to compute a graph of, on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArguments {
    /// How it is written: `lang`, `yaml`, `puppet`, `langpuppet` for a program and a manifest as one graph, or `empty`
    #[arg(value_name = "FRONT-END", value_parser = FrontEndParser)]
    pub(crate) front_end: FrontEnd,

    /// A file, a directory with a module or a manifest, `-` for standard input, or a program itself in quotes
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) input: Option<OsString>,

    /// In a graph file, keys that nobody reads are errors, not warnings; in a manifest, what would be left to Puppet is
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) manifest: ManifestArguments,
}

/// How to compute it, on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct HowArguments {
    /// Find no edges automatically
    #[arg(long)]
    pub(crate) no_autoedges: bool,

    /// How many seconds the values of a program may take to be there
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) wait: u64,

    /// Where downloaded modules are [env: MGMT_MODULE_PATH]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    pub(crate) module_path: Option<PathBuf>,
}

impl InputArguments {
    /// How to compute its graph.
    pub(crate) fn computing<'a>(
        &'a self,
        how: &'a HowArguments,
        command: &'static str,
        hostname: &'a str,
        terminal: &'a Terminal,
    ) -> Computing<'a> {
        Computing { strict: self.strict, ..how.computing(&self.manifest, command, hostname, terminal) }
    }
}

impl HowArguments {
    /// How to compute a graph with these.
    pub(crate) fn computing<'a>(
        &'a self,
        manifest: &'a ManifestArguments,
        command: &'static str,
        hostname: &'a str,
        terminal: &'a Terminal,
    ) -> Computing<'a> {
        Computing {
            command,
            terminal,
            module_path: self.module_path.as_deref(),
            hostname,
            wait: Duration::from_secs(self.wait),
            strict: false,
            manifest,
            secrets: RefCell::default(),
            files: OnceCell::new(),
        }
    }
}

/// A graph and its name.
pub(crate) type Computed = (String, ResourceGraph);

impl Computing<'_> {
    /// The graph of what stands behind the name of a front-end.
    pub(crate) fn graph(&self, front_end: FrontEnd, input: Option<&OsStr>) -> Result<Computed, Failure> {
        let command = self.command;
        let needs =
            |what: &str, write: &str| Failure::usage(what).hint(format!("write `mgmt {command} {write}`"));
        match (front_end, input) {
            (FrontEnd::Lang, Some(input)) => self.program(input),
            (FrontEnd::Yaml, Some(file)) => {
                let loaded = configuration::load(&Input::new(Path::new(file), self.strict), self.terminal)?;
                Ok((loaded.name, loaded.graph))
            }
            (FrontEnd::Puppet, input) => match (input, &self.manifest.puppet) {
                (Some(_), Some(_)) => {
                    Err(Failure::usage("there are two manifests").hint("leave out `--puppet`"))
                }
                (Some(input), None) => Ok(self.manifest(input)?.1),
                (None, Some(input)) => Ok(self.manifest(input.as_os_str())?.1),
                (None, None) => Err(needs("there is no manifest", "puppet FILE.pp")),
            },
            (FrontEnd::LangPuppet, None) => {
                let (lang, puppet) = self.manifest.both()?;
                self.both(lang.as_os_str(), puppet.as_os_str())
            }
            (FrontEnd::LangPuppet, Some(input)) => Err(needs(
                &format!(
                    "the front-end `langpuppet` takes a program and a manifest, found `{}`",
                    input.display()
                ),
                "langpuppet --lang PROGRAM --puppet MANIFEST",
            )),
            (FrontEnd::Lang, None) => Err(needs("there is no program", "lang PATH")),
            (FrontEnd::Yaml, None) => Err(needs("the front-end `yaml` needs a file", "yaml FILE")),
            (FrontEnd::Empty, None) => Ok(("empty".to_owned(), ResourceGraph::new())),
            (FrontEnd::Empty, Some(_)) => Err(Failure::usage("the front-end `empty` takes no file")),
        }
    }

    /// The graph of a program and a manifest.
    pub(crate) fn both(&self, lang: &OsStr, puppet: &OsStr) -> Result<Computed, Failure> {
        let (program_name, program) = self.program(lang)?;
        let (manifest, (manifest_name, theirs)) = self.manifest(puppet)?;
        let merged = merge(
            Half { graph: &program, name: &program_name },
            Half { graph: &theirs, name: &manifest_name },
            self.manifest.allow_unmatched,
        );
        manifest.show(&merged.diagnostics, self.terminal, crate::manifest::Errors::Always);
        let graph = merged.graph.ok_or_else(|| Failure::shown(exit_codes::USAGE))?;
        Ok((merged.name, graph))
    }

    /// The graph of a manifest.
    fn manifest(&self, input: &OsStr) -> Result<(Manifest, Computed), Failure> {
        let manifest = Manifest::new(input, &self.manifest.settings, self.strict)?.with_tags(self.manifest);
        let (attempt, secrets, _) = load_with_secrets(&manifest, self.terminal)?;
        self.secrets.borrow_mut().extend(secrets);
        let (graph, name) = attempt.into_graph()?;
        Ok((manifest, (name, graph)))
    }

    /// The graph of a program.
    pub(crate) fn program(&self, input: &OsStr) -> Result<Computed, Failure> {
        let options = program::Options { module_path: program::module_path(self.module_path), lints: false };
        let checked = program::check(&program::entry(input)?, &options).map_err(|error| {
            program::show_missing(&error, self.terminal);
            Failure::shown(exit_codes::USAGE)
        })?;
        self.terminal.diagnostics(&checked.diagnostics, &checked.sources);
        if !checked.is_right() {
            return Err(Failure::shown(exit_codes::USAGE));
        }
        let name = checked.sources.iter().next().map(|(_, source)| source.name.to_string());
        // One program is computed at most.
        let _ = self.files.set(Arc::new(Deployed(checked.deploy.clone())));
        let checked = Arc::new(checked);
        let runtime = crate::runtime::start(Some(1))?;
        let graph = runtime.block_on(first_graph(&checked, self.hostname, self.wait))?;
        graph.map(|graph| (name.unwrap_or_default(), graph)).map_err(|wrong| {
            self.terminal.diagnostics(&wrong, &checked.sources);
            Failure::shown(exit_codes::FAILED)
        })
    }
}

/// The first graph of a program for which all values are there.
async fn first_graph(
    checked: &Arc<Checked>,
    hostname: &str,
    wait: Duration,
) -> Result<Result<ResourceGraph, Vec<mgmt_diagnostics::Diagnostic>>, Failure> {
    // Functions may keep files; they are gone when the graph has been printed.
    let prefix = Prefix::open(&Choice::Temporary, hostname)?;
    let local = LocalState::open(prefix.directory("local")?)
        .map_err(|error| Failure::failed(format!("cannot open the local store: {error}")))?;
    let world = SharedState::in_memory(hostname).map_err(|error| Failure::failed(error.to_string()))?;
    world.ready().await;
    let (local, world) = (Arc::new(local), Arc::new(world));
    let surroundings = Arc::new(Surroundings::new(hostname, checked.deploy.clone(), local, world));
    let mut sources = Sources::new(None, Arc::clone(&surroundings));
    let mut running = tokio::task::block_in_place(|| {
        Running::new(Arc::clone(checked), mgmt_resources::KINDS, surroundings)
    });
    let deadline = tokio::time::Instant::now() + wait;
    loop {
        match tokio::task::block_in_place(|| running.settle()) {
            Outcome::Graph(graph) => return Ok(Ok(graph)),
            // There is nothing to change before there is a graph.
            Outcome::Changed(_) => {}
            Outcome::Unchanged => return Ok(Ok(ResourceGraph::new())),
            Outcome::Wrong(wrong) => return Ok(Err(wrong)),
            Outcome::Waiting => {}
        }
        sources.apply(running.watch_changes());
        match tokio::time::timeout_at(deadline, sources.happenings.next()).await {
            Ok(happened) => happened.tell(&mut running),
            Err(_) => {
                let parts = running.frozen_parts().unwrap_or_default();
                return Err(program::values::not_there(&parts, &checked.sources, wait)
                    .hint("`--wait SECONDS` gives them more time"));
            }
        }
    }
}
