//! `mgmt world`: everything in the store, to move it to another.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

use mgmt_store::{Effect, Entry, Span, Store, Transaction};

use crate::connection::{self, Connection};
use crate::failure::{Exit, Failure};
use crate::private;
use crate::terminal::Terminal;

/// Copy everything in the store, to move it to another
///
/// `mgmt world export` writes all keys with their values, one JSON object per line. `mgmt world import` reads that and
/// stores it: `mgmt world export | mgmt world import --seeds http://10.0.0.1:2379` moves what one host has into a cluster.
/// What only lasts as long as somebody holds it is left out. Deployed programs and exported resources are in it with all that they
/// have, secrets too: only you can read the file.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to do
    #[arg(value_name = "ACTION")]
    action: Action,

    /// The file to read or write; standard input or output without one
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// Import into a store that is not empty: what both have is replaced
    #[arg(long)]
    force: bool,

    /// The working directory of the run on this host, if there are no `--seeds` [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Action {
    /// Write everything in the store
    Export,
    /// Store everything that was written
    Import,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    connection::within(async {
        let store = arguments.connection.store(arguments.prefix.as_deref()).await?;
        match arguments.action {
            Action::Export => export(arguments, &store, terminal).await,
            Action::Import => import(arguments, &store, terminal).await,
        }
    })
}

async fn everything(store: &Arc<dyn Store>) -> Result<Vec<Entry>, Failure> {
    let all = store.read(vec![Span::Prefix("/".to_owned())]).await.map_err(Failure::failed)?;
    Ok(all.entries.into_iter().filter(|entry| entry.lease.is_none()).collect())
}

async fn export(arguments: &Arguments, store: &Arc<dyn Store>, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut text = String::new();
    for entry in everything(store).await? {
        text += &serde_json::to_string(&entry).map_err(Failure::failed)?;
        text.push('\n');
    }
    match &arguments.file {
        Some(path) => private::write(path, &text)
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?,
        None => terminal.data(&text),
    }
    Ok(Exit::OK)
}

/// What `mgmt world export` has written.
pub(crate) fn exported(input: impl BufRead) -> Result<Vec<Effect>, Failure> {
    let mut effects = Vec::new();
    for (number, line) in (1..).zip(input.lines()) {
        let line = line.map_err(|error| Failure::usage(format!("cannot read the input: {error}")))?;
        let entry: Entry = serde_json::from_str(&line).map_err(|error| {
            Failure::usage(format!("line {number} is not from `mgmt world export`: {error}"))
        })?;
        effects.push(Effect::Put { key: entry.key, value: entry.value, lease: None });
    }
    Ok(effects)
}

async fn import(arguments: &Arguments, store: &Arc<dyn Store>, terminal: &Terminal) -> Result<Exit, Failure> {
    let input: Box<dyn Read> = match &arguments.file {
        Some(path) => Box::new(
            std::fs::File::open(path)
                .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?,
        ),
        None => Box::new(std::io::stdin()),
    };
    // All of it is understood before anything is changed.
    let effects = exported(BufReader::new(input))?;
    if !arguments.force && !everything(store).await?.is_empty() {
        return Err(Failure::failed("the store is not empty")
            .hint("`--force` replaces what both have and leaves the rest alone"));
    }
    let (limits, count) = (store.limits(), effects.len());
    let mut effects = effects.into_iter().peekable();
    while effects.peek().is_some() {
        let (mut some, mut size) = (Vec::new(), 0);
        let bytes = |effect: &Effect| if let Effect::Put { value, .. } = effect { value.len() } else { 0 };
        while let Some(effect) = effects.next_if(|effect| {
            some.is_empty() || (some.len() < limits.operations && size + bytes(effect) <= limits.value)
        }) {
            size += bytes(&effect);
            some.push(effect);
        }
        let step = Transaction { effects: some, ..Transaction::default() };
        store.commit(step).await.map_err(Failure::failed)?;
    }
    terminal.output().notice(&format!("{count} keys stored\n"));
    Ok(Exit::OK)
}
