//! The module downloader: fetches the modules of a program that come from elsewhere, and keeps the lock file.
//!
//! The one entry point is [`download()`]: it follows the imports of a program, has git fetch what is missing, puts each module in its
//! place and writes the [`Lock`](mgmt_lang::module::Lock). Everything else about modules only reads and is part of `lang`: what an
//! import names, where that is, the format of the lock, and that a module is used only if its content is what the lock says.
//!
//! # Invariants
//!
//! - A downloaded module is plain files: no `.git`, no link that leads out of it. It appears in one step, complete.
//! - A module that was changed by hand is never replaced.
//! - What is locked is what is fetched, unless an update was asked for.
//!
//! Deliberately absent: downloading while a program is checked or runs, and any other way to get a module than git.

mod download;
mod git;
mod install;

pub use download::{
    DownloadError, DownloadOptions, DownloadOutcome, DownloadPlace, DownloadProblem, DownloadProgress,
    Downloaded, DownloadedModule, download,
};
