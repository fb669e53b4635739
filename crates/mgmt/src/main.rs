//! The `mgmt` program: command line, wiring, signals, exit codes.
//!
//! Nothing is decided here that a library could decide. Each subcommand is one file under `commands`; it takes its
//! parsed arguments and the [`terminal::Terminal`] and gives back how the program ends. Only `run` and `apply` change
//! resources of the host. `fmt` writes the files that it formats, `get` the directory of modules and the lock file, `setup` units,
//! `firstboot` a list of the scripts that it ran, and `repl` its history. `deploy`, `forget`, `log`, `members`, `admit`, `etcd` and
//! `world` write to the store, and `retry` asks the running agent.
//!
//! Invariants
//! - Every word to the terminal goes through [`terminal::Terminal`]: data to standard output, the rest to standard error.
//! - The report of a panic, which is a bug, shows no value ([`panics`]).
//! - Every way to end is an [`Exit`] or a [`Failure`]; `commands/exit_codes.rs` is the one table of codes.
//! - Every environment variable is declared in `environment.rs`.
//! - Old spellings are accepted in `commands/run/historic.rs` and nowhere else.

mod cli;
mod commands;
mod configuration;
mod connection;
mod control;
mod environment;
mod failure;
#[cfg(test)]
mod hostile;
mod legacy_lang;
mod managed;
mod manifest;
mod metrics;
mod panics;
mod place;
mod private;
mod program;
mod reference;
mod runtime;
mod signing;
mod ssh;
mod terminal;
mod version;

use failure::{Exit, Failure};
use mgmt_sys::memory::UntilTheEnd;
use mgmt_telemetry::{ColorChoice, Format};
use terminal::Terminal;

#[global_allocator]
static ALLOCATOR: UntilTheEnd<mimalloc::MiMalloc> = UntilTheEnd(mimalloc::MiMalloc);

fn main() {
    // Before anything else: this program may have been started only to become another one.
    mgmt_sys::process::exec_as_entry();
    mgmt_sys::process::keep_inherited_descriptors();
    mgmt_remote::ask_entry();
    mgmt_remote::await_entry();
    panics::tell(&Terminal::new(Format::Human, ColorChoice::Auto));
    let arguments: Vec<_> = std::env::args_os().collect();
    let (terminal, result) = match cli::parse(arguments) {
        Ok(cli::Parsed { terminal, command }) => {
            panics::tell(&terminal);
            let result = commands::dispatch(command, &terminal);
            (terminal, result)
        }
        Err(not_parsed) => (not_parsed.terminal, Err(not_parsed.failure)),
    };
    let mut code = match result {
        Ok(Exit(code)) => code,
        Err(failure) => {
            terminal.failure(&failure);
            failure.code
        }
    };
    if let Some(error) = terminal.output().failure() {
        terminal.failure(&Failure::failed(format!("cannot write to standard output: {error}")));
        code = code.max(1);
    }
    mgmt_sys::memory::leave(code)
}
