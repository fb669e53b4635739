//! The files of the program that a run was given, while the graph of a plan runs in its place: an edit of them ends the plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgmt_engine::{Engine, PathWatch};
use mgmt_lang::module::is_embedded;
use mgmt_watch::WatchPath;
use tokio::sync::Notify;

use super::super::First;
use super::super::follow::settle;
use super::super::program::Loaded as LoadedProgram;
use crate::configuration::{self, Input};
use crate::terminal::Terminal;

/// A watch on files.
pub(super) struct Edits {
    changed: Arc<Notify>,
    _watches: Vec<PathWatch>,
}

impl Edits {
    pub(super) fn watch(engine: &Engine, what: &First) -> Edits {
        let changed = Arc::new(Notify::new());
        let watch = |(path, below): (PathBuf, bool)| {
            let place = WatchPath::new(&path, below).ok()?;
            let changed = Arc::clone(&changed);
            Some(engine.watch_path(&place, move || changed.notify_one()))
        };
        let watches = paths(what).into_iter().filter_map(watch).collect();
        if is_edited(what) == Some(true) {
            // It was while nobody watched.
            changed.notify_one();
        }
        Edits { changed, _watches: watches }
    }

    /// A watch on what a manifest was compiled from, if there is one. What has changed before this is not told.
    pub(super) fn of_manifest(engine: &Engine, what: &First) -> Option<Edits> {
        let manifest = match what {
            First::Manifest(loaded) => loaded,
            First::Both(loaded) => &loaded.manifest,
            First::Graph(..) | First::Program(_) => return None,
        };
        let changed = Arc::new(Notify::new());
        let watch = |(path, below): (PathBuf, bool)| {
            let place = WatchPath::new(&path, below).ok()?;
            let changed = Arc::clone(&changed);
            Some(engine.watch_path(&place, move || changed.notify_one()))
        };
        let watches = manifest.paths().filter_map(watch).collect();
        Some(Edits { changed, _watches: watches })
    }

    /// Waits until something has happened to a file, and then nothing more for a while.
    pub(super) async fn next(&self) {
        self.changed.notified().await;
        settle(&self.changed).await;
    }
}

/// The files that something was made of, each by its name and where that leads, and whether all that is below counts.
fn paths(what: &First) -> Vec<(PathBuf, bool)> {
    let files: Vec<(PathBuf, bool)> = match what {
        First::Graph(input, _) => input.iter().map(|input| (input.path().to_owned(), false)).collect(),
        First::Program(loaded) => texts(loaded).map(|(path, _)| (path.to_owned(), false)).collect(),
        First::Manifest(loaded) => loaded.paths().collect(),
        First::Both(loaded) => {
            let texts = texts(&loaded.program).map(|(path, _)| (path.to_owned(), false));
            texts.chain(loaded.manifest.paths()).collect()
        }
    };
    let both = |(path, below): (PathBuf, bool)| {
        let mut found: Vec<PathBuf> =
            [std::path::absolute(&path), path.canonicalize()].into_iter().flatten().collect();
        found.dedup();
        found.into_iter().map(move |path| (path, below))
    };
    files.into_iter().flat_map(both).collect()
}

/// The texts of a program that can change.
fn texts(loaded: &LoadedProgram) -> impl Iterator<Item = (&Path, &str)> {
    let sources = loaded.checked.sources.iter().filter(|_| loaded.is_in_files());
    let texts = sources.map(|(_, source)| (Path::new(&*source.name), &*source.text));
    texts.filter(|(name, _)| !is_embedded(name))
}

/// Whether the files have other contents than what was made of them. Of a manifest, nobody knows before it is compiled.
pub(super) fn is_edited(what: &First) -> Option<bool> {
    match what {
        First::Graph(input, loaded) => {
            let read = |input: &Input| input.read().is_ok_and(|content| content != loaded.content);
            Some(input.as_ref().is_some_and(read))
        }
        First::Program(loaded) => {
            let differs = |(path, text): (&Path, &str)| {
                std::fs::read(path).is_ok_and(|content| content != text.as_bytes())
            };
            Some(texts(loaded).any(differs))
        }
        First::Manifest(_) | First::Both(_) => None,
    }
}

/// The same, made of the files as they are now. Nothing if that is for whoever follows them: they have errors, which are to be
/// reported, or have to be compiled.
pub(super) fn renewed(what: &First, terminal: &Terminal) -> Option<First> {
    match what {
        First::Graph(Some(input), _) if input.can_be_read_again() => {
            configuration::load(input, terminal).ok().map(|loaded| First::Graph(Some(input.clone()), loaded))
        }
        First::Program(loaded) if loaded.is_in_files() => {
            let new = LoadedProgram::new(loaded.entry.clone(), loaded.options.clone(), terminal).ok()?;
            Some(First::Program(LoadedProgram { checked: new.checked, ..loaded.clone() }))
        }
        _ => None,
    }
}
