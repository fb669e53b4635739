//! Programs in the language: where they are, and what is wrong with them.

pub(crate) mod deployed;
pub(crate) mod events;
pub(crate) mod exports;
pub(crate) mod package;
pub(crate) mod surroundings;
pub(crate) mod values;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use mgmt_diagnostics::{Diagnostic, FileId, Label, SourceMap};
use mgmt_lang::module::{Disk, Entry, ResolveError};
use mgmt_lang::{Checked, Environment};

use crate::environment;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// The code of wrong metadata, which the program itself may have.
const BAD_METADATA: &str = "M0407";

/// How programs are checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Where downloaded modules are.
    pub(crate) module_path: Option<PathBuf>,
    /// Whether to look for what is probably not meant.
    pub(crate) lints: bool,
}

/// What an argument means: a path, `-`, or the program itself.
pub(crate) fn entry(argument: &OsStr) -> Result<Entry, Failure> {
    match argument.to_str() {
        Some(text) => Entry::parse_among(text, &Disk).map_err(|error| Failure {
            hints: error.hint.into_iter().collect(),
            ..Failure::usage(error.message)
        }),
        // No text of a program, so a path.
        None if Path::new(argument).is_dir() => Ok(Entry::Directory(argument.into())),
        None => Ok(Entry::File(argument.into())),
    }
}

/// Where downloaded modules are, if anybody says so.
pub(crate) fn module_path(flag: Option<&Path>) -> Option<PathBuf> {
    flag.map(Path::to_owned).or_else(|| environment::MODULE_PATH.get().map(PathBuf::from))
}

/// Reads a program with all that it imports, and checks it.
pub(crate) fn check(entry: &Entry, options: &Options) -> Result<Checked, ResolveError> {
    mgmt_lang::check(
        entry,
        &Environment {
            kinds: &mgmt_resources::KINDS,
            library: mgmt_funcs::library(),
            files: &Disk,
            module_path: options.module_path.clone(),
            lints: options.lints,
        },
    )
}

/// Programs from this many bytes on take more memory than the kernel hands out unnoticed.
const LARGE: usize = 256 << 10;
/// How much memory a large program takes for each of its bytes, while it is read and checked, and how much more while its graph
/// is made by the same thread.
const TO_CHECK: usize = 8;
const TO_RUN: usize = 3;

/// Has memory brought for a large program that this thread is about to read.
pub(crate) fn memory_to_check(entry: &Entry) {
    let length = match entry {
        Entry::File(path) => path.metadata(),
        Entry::Directory(directory) => directory.join("main.mcl").metadata(),
        _ => return,
    };
    let length = length.map_or(0, |found| usize::try_from(found.len()).unwrap_or(usize::MAX));
    if length >= LARGE {
        mgmt_sys::memory::ahead(length.saturating_mul(TO_CHECK));
    }
}

/// The same for one of which this thread is about to make a graph.
pub(crate) fn memory_to_run(checked: &Checked) {
    let length: usize = checked.sources.iter().map(|(_, source)| source.text.len()).sum();
    if length >= LARGE {
        mgmt_sys::memory::ahead(length.saturating_mul(TO_RUN));
    }
}

/// Shows why there is no program.
pub(crate) fn show_missing(error: &ResolveError, terminal: &Terminal) {
    let hints = error.hint().into_iter().chain(error.notes());
    let ResolveError::BadMetadata { display, text, note } = error else {
        terminal.failure(&Failure { hints: hints.collect(), ..Failure::usage(error) });
        return;
    };
    let diagnostic = Diagnostic {
        hints: hints.collect(),
        ..Diagnostic::error(&*note.message)
            .with_code(BAD_METADATA)
            .with_label(Label::primary(FileId::FIRST.span_of(note.span.clone())))
    };
    terminal.diagnostic(&diagnostic, &SourceMap::of(&**display, &**text));
}

/// Whether the program is there and is wrong, and not just out of reach.
pub(crate) fn is_wrong(error: &ResolveError) -> bool {
    match error {
        ResolveError::BadMetadata { .. }
        | ResolveError::BadLock { .. }
        | ResolveError::LockMismatch { .. } => true,
        ResolveError::NotFound { .. }
        | ResolveError::NoMetadata { .. }
        | ResolveError::NotDownloaded { .. }
        | ResolveError::Unreadable { .. }
        | ResolveError::LeadsOut { .. }
        | ResolveError::Mistrusted { .. }
        | ResolveError::System { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_wrong_metadata_is_about_metadata() {
        let (_, title, _) = mgmt_lang::CODES.iter().find(|(code, _, _)| *code == BAD_METADATA).unwrap();
        assert!(title.contains("metadata"));
    }
}
