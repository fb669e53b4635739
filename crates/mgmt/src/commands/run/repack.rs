//! What hosts run, packed again whenever its files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgmt_engine::{Engine, PathWatch};
use mgmt_lang::Part;
use mgmt_lang::module::is_embedded;
use mgmt_remote::Handed;
use mgmt_store::Program;
use mgmt_watch::WatchPath;
use tokio::sync::{Notify, mpsc};

use super::First;
use super::follow::settle;
use super::program::Loaded as LoadedProgram;
use crate::configuration::{self, Input};
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::program::package;
use crate::terminal::Terminal;

/// Who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipient {
    /// All who run what this run was given.
    All,
    /// One host.
    Host(usize),
}

/// Where it comes from.
pub(super) enum Text {
    Graph(Input),
    Program(LoadedProgram),
    Manifest(Manifest),
    Both(Box<super::joint::Loaded>),
}

impl Text {
    /// Where what a run was given comes from, if it can become something else.
    pub(super) fn of(first: &First) -> Option<Text> {
        match first {
            First::Graph(Some(input), _) if input.can_be_read_again() => Some(Text::Graph(input.clone())),
            First::Program(loaded) if loaded.is_in_files() => Some(Text::Program(loaded.clone())),
            First::Manifest(loaded) if !loaded.manifest.places().is_empty() => {
                Some(Text::Manifest(loaded.manifest.clone()))
            }
            First::Both(loaded)
                if loaded.program.is_in_files() || !loaded.manifest.manifest.places().is_empty() =>
            {
                Some(Text::Both(Box::new(loaded.clone())))
            }
            _ => None,
        }
    }
}

/// What hosts run, and how.
pub(super) struct Repack {
    pub(super) recipient: Recipient,
    pub(super) text: Text,
    /// How it is to be run. What it is is filled in.
    pub(super) how: Program,
    /// What they have.
    pub(super) last: Handed,
    pub(super) engine: Arc<Engine>,
    pub(super) terminal: Terminal,
}

/// Packs a graph.
pub(super) fn graph(content: Vec<u8>, how: &Program) -> Result<Handed, Failure> {
    let package = package::single("start.yaml", content)?;
    let program = Program { frontend: "yaml".to_owned(), entry: package.entry, ..how.clone() };
    Ok(Handed { program, files: package.files })
}

/// Packs a program.
pub(super) fn program(loaded: &LoadedProgram, how: &Program) -> Result<Handed, Failure> {
    let package = package::package(&loaded.entry, &loaded.checked, loaded.options.module_path.as_deref())?;
    let program = Program { frontend: "lang".to_owned(), entry: package.entry, ..how.clone() };
    Ok(Handed { program, files: package.files })
}

/// Packs a manifest.
pub(super) fn manifest(manifest: &Manifest, how: &Program) -> Result<Handed, Failure> {
    let package = manifest.package()?;
    let program = Program { frontend: "puppet".to_owned(), entry: package.entry, ..how.clone() };
    Ok(Handed { program, files: package.files })
}

/// Packs a program and a manifest.
pub(super) fn both(loaded: &super::joint::Loaded, how: &Program) -> Result<Handed, Failure> {
    let super::joint::Loaded { program, manifest, allow_unmatched } = loaded;
    let lang = package::package(&program.entry, &program.checked, program.options.module_path.as_deref())?;
    let package = package::both(lang, manifest.manifest.package()?, *allow_unmatched)?;
    let program = Program { frontend: "langpuppet".to_owned(), entry: package.entry, ..how.clone() };
    Ok(Handed { program, files: package.files })
}

impl Repack {
    /// Sends it again whenever it is different, or somebody asks for it, until it is aborted.
    pub(super) async fn follow(mut self, asked: Arc<Notify>, changes: mpsc::Sender<(Recipient, Handed)>) {
        let changed = Arc::new(Notify::new());
        loop {
            let watching = self.watch(&changed);
            // What happened before it was watched is seen, too.
            let mut is_asked = false;
            while !self.look_again(is_asked) {
                is_asked = tokio::select! {
                    () = asked.notified() => true,
                    () = changed.notified() => { settle(&changed).await; false }
                };
            }
            drop(watching);
            if changes.send((self.recipient, self.last.clone())).await.is_err() {
                return;
            }
        }
    }

    /// Whether there is something else to run now. Whatever is wrong with it is shown, and what runs goes on.
    fn look_again(&mut self, asked: bool) -> bool {
        let packed = tokio::task::block_in_place(|| self.pack());
        match packed {
            Ok(packed) if packed != self.last || asked => {
                tracing::info!("the program has changed, and is handed to the hosts");
                self.last = packed;
                true
            }
            Ok(_) => false,
            Err(failure) => {
                self.terminal.failure(&failure);
                tracing::error!("program has errors; still running the previous version");
                false
            }
        }
    }

    fn pack(&mut self) -> Result<Handed, Failure> {
        match &mut self.text {
            Text::Graph(input) => graph(configuration::load(input, &self.terminal)?.content, &self.how),
            Text::Program(loaded) => {
                *loaded = read_again(loaded, &self.terminal)?;
                program(loaded, &self.how)
            }
            // Each host compiles it by itself, and tells what is wrong with it there.
            Text::Manifest(text) => manifest(text, &self.how),
            Text::Both(loaded) => {
                if loaded.program.is_in_files() {
                    loaded.program = read_again(&loaded.program, &self.terminal)?;
                }
                both(loaded, &self.how)
            }
        }
    }

    fn watch(&self, changed: &Arc<Notify>) -> Vec<PathWatch> {
        let mut watches = Vec::new();
        for (path, recursive) in self.places() {
            for path in [std::path::absolute(&path), path.canonicalize()].into_iter().flatten() {
                let Ok(place) = WatchPath::new(path, recursive) else { continue };
                let changed = Arc::clone(changed);
                watches.push(self.engine.watch_path(&place, move || changed.notify_one()));
            }
        }
        watches
    }

    /// Where its files are.
    fn places(&self) -> Vec<(PathBuf, bool)> {
        match &self.text {
            Text::Graph(input) => vec![(input.path().to_owned(), false)],
            Text::Program(loaded) => places(loaded),
            Text::Manifest(manifest) => manifest.places(),
            Text::Both(loaded) => {
                let program = if loaded.program.is_in_files() { places(&loaded.program) } else { Vec::new() };
                [program, loaded.manifest.manifest.places()].concat()
            }
        }
    }
}

fn read_again(loaded: &LoadedProgram, terminal: &Terminal) -> Result<LoadedProgram, Failure> {
    LoadedProgram::new(loaded.entry.clone(), loaded.options.clone(), terminal)
}

/// Where the files of a program are.
fn places(loaded: &LoadedProgram) -> Vec<(PathBuf, bool)> {
    let texts = loaded.checked.sources.iter().map(|(_, source)| Path::new(&*source.name));
    let texts = texts.filter(|name| !is_embedded(name)).map(|name| (name.to_owned(), false));
    let parts = loaded.checked.deploy.parts().iter().filter_map(|part| match part {
        Part::File(place) => Some((place.clone(), false)),
        Part::Directory(place) => Some((place.clone(), true)),
        Part::Text(..) => None,
    });
    texts.chain(parts).collect()
}
