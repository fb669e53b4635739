//! Puppet's own command line as a source of catalogues: slow, and without anything of ours in it.

use std::path::Path;

use mgmt_sys::process::Command;
use tokio::io::AsyncWriteExt as _;

use crate::answer::{Compiled, Message, Refused};
use crate::installation::Installation;
use crate::puppet::{Input, PuppetError, Settings};

/// Lines of a catalogue are as long as the catalogue.
const LONGEST: usize = 512 << 20;

/// Compiles once, and ends.
pub(crate) async fn compile(
    installation: &Installation,
    settings: &Settings,
    input: &Input,
) -> Result<Compiled, PuppetError> {
    let not_started = |why: String| PuppetError::NotStarted {
        ruby: installation.ruby.clone(),
        why,
        output: Vec::new(),
        killed: false,
    };
    let mut argv = vec![installation.puppet.display().to_string()];
    argv.extend(["catalog", "compile", "--render-as", "rich_data_json"].map(str::to_owned));
    argv.extend(["--log_level", "warning", "--color", "false"].map(str::to_owned));
    argv.extend(settings.arguments());
    let (files, directories) = match input {
        Input::Manifest(path) => {
            argv.extend(["--manifest".to_owned(), path.display().to_string()]);
            if path.is_dir() { (Vec::new(), vec![path.clone()]) } else { (vec![path.clone()], Vec::new()) }
        }
        Input::Environment(directory) => {
            let environment = Environment::of(directory).ok_or_else(|| {
                not_started(format!("{} cannot be the name of an environment", directory.display()))
            })?;
            argv.extend([
                "--environmentpath".to_owned(),
                environment.path,
                "--environment".to_owned(),
                environment.name,
            ]);
            (Vec::new(), vec![directory.clone()])
        }
        // Through the pipe, where nobody else sees it and no limit holds.
        Input::Code(_) => {
            argv.extend(["--manifest", "/dev/stdin"].map(str::to_owned));
            (Vec::new(), Vec::new())
        }
        Input::Agent => return Err(not_started("a server compiles, not this host".to_owned())),
    };
    let mut command = Command::new(argv);
    command.env = std::env::vars_os().collect();
    command.env.insert("LC_ALL".into(), "C.UTF-8".into());
    command.capture_limit = LONGEST;
    let (running, mut standard_input) =
        command.spawn_listening().map_err(|error| not_started(error.to_string()))?;
    let write = async {
        if let Input::Code(code) = input {
            // If it ends early, its end tells why.
            let _ = standard_input.write_all(code.as_bytes()).await;
        }
        drop(standard_input);
    };
    let (finished, ()) = tokio::join!(running.wait(), write);
    let finished = finished.map_err(|error| not_started(error.to_string()))?;
    let messages = messages(&finished.stderr.bytes);
    let start =
        finished.stdout.bytes.iter().position(|&byte| byte == b'{').unwrap_or(finished.stdout.bytes.len());
    if !finished.status.success() || finished.truncated() {
        let (mut errors, messages): (Vec<Message>, Vec<Message>) =
            messages.into_iter().partition(Message::is_error);
        // It says the same again, in two wrappings.
        errors.truncate(1);
        return Err(PuppetError::Refused(Box::new(Refused {
            errors,
            messages,
            files,
            directories,
            absent: Vec::new(),
            seen: None,
        })));
    }
    let catalogue = serde_json::from_slice(&finished.stdout.bytes[start..])
        .map_err(|error| PuppetError::Confused(error.to_string()))?;
    Ok(Compiled {
        catalogue,
        relations: Vec::new(),
        modulepath: Vec::new(),
        types: Default::default(),
        paths: None,
        generated: Default::default(),
        lookups: Default::default(),
        modules: Default::default(),
        files,
        absent: Vec::new(),
        directories,
        fact_directories: Vec::new(),
        seen: None,
        messages,
    })
}

/// An environment is found by its name in a directory of environments.
struct Environment {
    path: String,
    name: String,
}

impl Environment {
    fn of(directory: &Path) -> Option<Environment> {
        let directory = directory.canonicalize().ok()?;
        let name = directory.file_name()?.to_str()?.to_owned();
        let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let path = directory.parent()?.display().to_string();
        name.chars().all(word).then_some(Environment { path, name })
    }
}

/// `Warning: text (file: F, line: L)`, line by line.
fn messages(output: &[u8]) -> Vec<Message> {
    let text = String::from_utf8_lossy(output);
    text.lines()
        .filter_map(|line| {
            let (level, rest) = line.split_once(": ")?;
            let level = match level {
                "Warning" => "warning",
                "Error" => "err",
                _ => return None,
            };
            let (source, rest) = match rest.strip_prefix("Facter: ") {
                Some(rest) => ("Facter", rest),
                None => ("Puppet", rest),
            };
            let (level, source, message) = (level.to_owned(), source.to_owned(), rest.to_owned());
            Some(Message { level, source, message, ..Message::default() }.located())
        })
        .collect()
}
