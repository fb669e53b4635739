//! The tools, and how each is told what to do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::inputs::{Job, ansible, cfengine, mcl, puppet, pyinfra};
use super::{Missing, Settings};

/// The name of the column that is the floor.
pub(crate) const RAW: &str = "raw loop";
/// The name of our column.
pub(crate) const OURS: &str = "mgmt";

/// The program in Go ends when it has been quiet for a while, and with less than this before it has begun. It is taken off its
/// times.
const QUIET: Duration = Duration::from_secs(5);

/// A tool that was found, and where.
#[derive(Clone, Debug)]
pub(crate) enum Tool {
    /// System calls in a loop.
    Raw,
    Ours(PathBuf),
    /// The program of the same name in Go.
    Upstream(PathBuf),
    Puppet(PathBuf),
    /// `cf-agent`, and whether it has a word for the content of a file.
    Cfengine(PathBuf, bool),
    /// `ansible-playbook`.
    Ansible(PathBuf),
    Pyinfra(PathBuf),
}

/// All that are on this machine.
pub(crate) fn found(settings: &Settings) -> Vec<Tool> {
    let mut tools = vec![Tool::Raw, Tool::Ours(settings.mgmt.clone())];
    tools.extend(settings.upstream.clone().map(Tool::Upstream));
    tools.extend(program("puppet").map(Tool::Puppet));
    tools.extend(program("cf-agent").map(|path| {
        let has_content = has_content(&version(&path));
        Tool::Cfengine(path, has_content)
    }));
    tools.extend(program("ansible-playbook").map(Tool::Ansible));
    tools.extend(program("pyinfra").map(Tool::Pyinfra));
    tools.retain(|tool| !settings.without.contains(&tool.name().to_lowercase()));
    tools
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// The first line of what a program says about itself.
fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// CFEngine 3.16 and later say what a file contains in one word.
fn has_content(version: &str) -> bool {
    let Some(number) = version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return false;
    };
    let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (3, 16)
}

impl Tool {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Tool::Raw => RAW,
            Tool::Ours(_) => OURS,
            Tool::Upstream(_) => "mgmt (Go)",
            Tool::Puppet(_) => "Puppet",
            Tool::Cfengine(..) => "CFEngine",
            Tool::Ansible(_) => "Ansible",
            Tool::Pyinfra(_) => "pyinfra",
        }
    }

    pub(crate) fn version(&self) -> String {
        match self {
            Tool::Raw => "system calls from one thread".to_owned(),
            Tool::Ours(path)
            | Tool::Upstream(path)
            | Tool::Puppet(path)
            | Tool::Cfengine(path, _)
            | Tool::Ansible(path)
            | Tool::Pyinfra(path) => version(path),
        }
    }

    /// The part of a run in which it does something: without what it waits at the end.
    pub(crate) fn at_work(&self, took: Duration) -> Result<Duration, Missing> {
        match self {
            Tool::Upstream(_) => took.checked_sub(QUIET).ok_or(Missing::NotQuiet),
            _ => Ok(took),
        }
    }

    /// Whether it is judged how far these two are apart: they take turns.
    pub(crate) fn is_judged(&self) -> bool {
        matches!(self, Tool::Raw | Tool::Ours(_))
    }

    /// Whether it keeps running and repairs by events.
    pub(crate) fn follows_events(&self) -> bool {
        matches!(self, Tool::Ours(_) | Tool::Upstream(_))
    }

    /// Writes the program for a job into a directory; where it begins.
    pub(crate) fn write(&self, job: &Job<'_>, directory: &Path) -> PathBuf {
        let (name, text) = match self {
            Tool::Raw => ("nothing", String::new()),
            Tool::Ours(_) | Tool::Upstream(_) => ("main.mcl", mcl(job)),
            Tool::Puppet(_) => ("main.pp", puppet(job)),
            Tool::Cfengine(_, has_content) => ("main.cf", cfengine(job, *has_content)),
            Tool::Ansible(_) => ("main.yaml", ansible(job)),
            Tool::Pyinfra(_) => ("deploy.py", pyinfra(job)),
        };
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A run that ends when all is done.
    pub(crate) fn once(&self, program: &Path) -> Command {
        let command = match self {
            Tool::Raw => unreachable!("the raw loop is no program"),
            Tool::Ours(path) => {
                let mut command = Command::new(path);
                command.args(["run", "--tmp-prefix", "--fsync", "none", "--log", "error"]);
                command.args(["--converger-timeout=0", "--converged-exit", "lang"]);
                command
            }
            Tool::Upstream(path) => {
                let mut command = Command::new(path);
                let quiet = QUIET.as_secs().to_string();
                command.args(["run", "--tmp-prefix", "--no-pgp", "--converger-timeout", &quiet]);
                command.args(["--converged-exit", "lang"]);
                command
            }
            Tool::Puppet(path) => {
                let mut command = Command::new(path);
                // What it remembers of all files that it ever had makes it slow: each run has a memory of its own.
                command
                    .args(["apply", "--log_level", "err", "--vardir"])
                    .arg(program.with_file_name("puppet"));
                command
            }
            Tool::Cfengine(path, _) => {
                let mut command = Command::new(path);
                command.args(["-K", "-I", "-f"]);
                command
            }
            Tool::Ansible(path) => {
                let mut command = Command::new(path);
                command.args(["-i", "localhost,", "-c", "local"]);
                command
            }
            Tool::Pyinfra(path) => {
                let mut command = Command::new(path);
                command.args(["-y", "@local"]);
                command
            }
        };
        at_home(command, program)
    }

    /// A run that goes on.
    pub(crate) fn forever(&self, program: &Path) -> Option<Command> {
        let command = match self {
            Tool::Ours(path) => {
                let mut command = Command::new(path);
                command.args(["run", "--tmp-prefix", "--fsync", "none", "--log", "error", "lang"]);
                command
            }
            Tool::Upstream(path) => {
                let mut command = Command::new(path);
                command.args(["run", "--tmp-prefix", "--no-pgp", "lang"]);
                command
            }
            _ => return None,
        };
        Some(at_home(command, program))
    }

    /// Reads a program and says what is wrong with it.
    pub(crate) fn check(&self, program: &Path) -> Option<Command> {
        let (path, words): (PathBuf, &[&str]) = match self {
            Tool::Ours(path) => (path.clone(), &["check", "lang"]),
            Tool::Upstream(path) => (path.clone(), &["check", "--tmp-prefix", "lang"]),
            Tool::Puppet(path) => (path.clone(), &["parser", "validate"]),
            Tool::Cfengine(path, _) => (path.with_file_name("cf-promises"), &["-f"]),
            Tool::Ansible(path) => (path.clone(), &["-i", "localhost,", "--syntax-check"]),
            Tool::Raw | Tool::Pyinfra(_) => return None,
        };
        let mut command = Command::new(path);
        command.args(words);
        Some(at_home(command, program))
    }
}

/// In silence, and in the directory of the program: what is left behind there goes with it.
fn at_home(mut command: Command, program: &Path) -> Command {
    let home = program.parent().unwrap_or(Path::new("/"));
    command.arg(program).current_dir(home).env("TMPDIR", home);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_for_content_came_with_a_version() {
        assert!(has_content("CFEngine Core 3.21.0"));
        assert!(has_content("CFEngine Core 3.16"));
        assert!(has_content("CFEngine Core 4.0.0"));
        assert!(!has_content("CFEngine Core 3.15.2"));
        assert!(!has_content(""));
    }

    #[test]
    fn only_the_program_in_go_waits_at_its_end_and_cannot_have_ended_before() {
        let go = Tool::Upstream("go".into());
        assert_eq!(go.at_work(QUIET + Duration::from_secs(1)), Ok(Duration::from_secs(1)));
        assert_eq!(go.at_work(Duration::from_secs(1)), Err(Missing::NotQuiet));
        assert_eq!(Tool::Raw.at_work(Duration::from_secs(1)), Ok(Duration::from_secs(1)));
    }
}
