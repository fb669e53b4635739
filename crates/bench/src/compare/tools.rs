//! The tools, and how each is told what to do.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::Settings;

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
    /// `cf-agent`.
    Cfengine(PathBuf),
    /// `ansible-playbook`.
    Ansible(PathBuf),
    Pyinfra(PathBuf),
}

/// What a tool is to do.
pub(crate) enum Job<'a> {
    /// These files, with this content.
    Files { paths: &'a [PathBuf], content: &'a str },
    /// So many commands, each after the one before.
    Chain(usize),
}

/// All that are on this machine.
pub(crate) fn found(settings: &Settings) -> Vec<Tool> {
    let mut tools = vec![Tool::Raw, Tool::Ours(settings.mgmt.clone())];
    tools.extend(settings.upstream.clone().map(Tool::Upstream));
    tools.extend(program("puppet").map(Tool::Puppet));
    tools.extend(program("cf-agent").map(Tool::Cfengine));
    tools.extend(program("ansible-playbook").map(Tool::Ansible));
    tools.extend(program("pyinfra").map(Tool::Pyinfra));
    tools.retain(|tool| !settings.without.contains(&tool.name().to_lowercase()));
    tools
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

impl Tool {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Tool::Raw => "raw loop",
            Tool::Ours(_) => OURS,
            Tool::Upstream(_) => "mgmt (Go)",
            Tool::Puppet(_) => "Puppet",
            Tool::Cfengine(_) => "CFEngine",
            Tool::Ansible(_) => "Ansible",
            Tool::Pyinfra(_) => "pyinfra",
        }
    }

    pub(crate) fn version(&self) -> String {
        let (program, flag) = match self {
            Tool::Raw => return "system calls from one thread".to_owned(),
            Tool::Ours(path) | Tool::Upstream(path) => (path, "--version"),
            Tool::Puppet(path) | Tool::Cfengine(path) | Tool::Ansible(path) | Tool::Pyinfra(path) => {
                (path, "--version")
            }
        };
        let output = Command::new(program).arg(flag).stdin(Stdio::null()).output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim().to_owned()
    }

    /// What it waits for at the end of a run, without doing anything.
    pub(crate) fn waits(&self) -> Duration {
        if matches!(self, Tool::Upstream(_)) { QUIET } else { Duration::ZERO }
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
            Tool::Cfengine(_) => ("main.cf", cfengine(job)),
            Tool::Ansible(_) => ("main.yaml", ansible(job)),
            Tool::Pyinfra(_) => ("deploy.py", pyinfra(job)),
        };
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A run that ends when all is done.
    pub(crate) fn once(&self, program: &Path) -> Command {
        let mut command = match self {
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
                command.args(["apply", "--log_level", "err"]);
                command
            }
            Tool::Cfengine(path) => {
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
        command.arg(program).current_dir(program.parent().unwrap_or(Path::new("/")));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A run that goes on.
    pub(crate) fn forever(&self, program: &Path) -> Option<Command> {
        let mut command = match self {
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
        command.arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(command)
    }

    /// Reads a program and says what is wrong with it.
    pub(crate) fn check(&self, program: &Path) -> Option<Command> {
        let (path, words): (PathBuf, &[&str]) = match self {
            Tool::Ours(path) => (path.clone(), &["check", "lang"]),
            Tool::Upstream(path) => (path.clone(), &["check", "--tmp-prefix", "lang"]),
            Tool::Puppet(path) => (path.clone(), &["parser", "validate"]),
            Tool::Cfengine(path) => (path.with_file_name("cf-promises"), &["-f"]),
            Tool::Ansible(path) => (path.clone(), &["-i", "localhost,", "--syntax-check"]),
            Tool::Raw | Tool::Pyinfra(_) => return None,
        };
        let mut command = Command::new(path);
        command.args(words).arg(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(command)
    }
}

fn mcl(job: &Job<'_>) -> String {
    let mut text = String::new();
    match job {
        Job::Files { paths, content } => {
            for path in *paths {
                let _ = writeln!(
                    text,
                    "file \"{}\" {{\n\tstate => \"exists\",\n\tmode => \"0644\",\n\tcontent => \"{content}\",\n}}",
                    path.display()
                );
            }
        }
        Job::Chain(count) => {
            for number in 0..*count {
                let _ =
                    writeln!(text, "exec \"e{number}\" {{\n\tcmd => \"/bin/true\",\n\tshell => \"\",\n}}");
            }
            for number in 1..*count {
                let _ = writeln!(text, "Exec[\"e{}\"] -> Exec[\"e{number}\"]", number - 1);
            }
        }
    }
    text
}

fn puppet(job: &Job<'_>) -> String {
    let mut text = String::new();
    match job {
        Job::Files { paths, content } => {
            for path in *paths {
                let _ = writeln!(
                    text,
                    "file {{ '{}': ensure => file, mode => '0644', content => '{content}' }}",
                    path.display()
                );
            }
        }
        Job::Chain(count) => {
            for number in 0..*count {
                let after =
                    if number > 0 { format!(", require => Exec['e{}']", number - 1) } else { String::new() };
                let _ = writeln!(text, "exec {{ 'e{number}': command => '/bin/true'{after} }}");
            }
        }
    }
    text
}

fn cfengine(job: &Job<'_>) -> String {
    // Promises of one type are kept in their order, so that a chain needs nothing else.
    let mut text = String::from(
        "body common control { bundlesequence => { \"main\" }; }\nbody perms m { mode => \"0644\"; }\nbody edit_defaults e { empty_file_before_editing => \"true\"; edit_backup => \"false\"; }\n\
         bundle edit_line content { insert_lines: \"$(main.content)\"; }\nbundle agent main\n{\n",
    );
    match job {
        Job::Files { paths, content } => {
            let _ = writeln!(text, "vars: \"content\" string => \"{content}\";\nfiles:");
            for path in *paths {
                let _ = writeln!(
                    text,
                    "\"{}\" create => \"true\", perms => m, edit_line => content, edit_defaults => e;",
                    path.display()
                );
            }
        }
        Job::Chain(count) => {
            text.push_str("commands:\n");
            for number in 0..*count {
                let _ = writeln!(text, "\"/bin/true\" handle => \"e{number}\";");
            }
        }
    }
    text.push_str("}\n");
    text
}

fn ansible(job: &Job<'_>) -> String {
    let mut text = String::from("- hosts: all\n  gather_facts: false\n  tasks:\n");
    match job {
        Job::Files { paths, content } => {
            for path in *paths {
                let _ = writeln!(
                    text,
                    "  - copy: {{dest: {}, mode: \"0644\", content: \"{content}\"}}",
                    path.display()
                );
            }
        }
        Job::Chain(count) => {
            for _ in 0..*count {
                text.push_str("  - command: /bin/true\n");
            }
        }
    }
    text
}

fn pyinfra(job: &Job<'_>) -> String {
    let mut text = String::from("from io import StringIO\nfrom pyinfra.operations import files, server\n");
    match job {
        Job::Files { paths, content } => {
            for path in *paths {
                let _ = writeln!(
                    text,
                    "files.put(src=StringIO('{content}'), dest='{}', mode='644')",
                    path.display()
                );
            }
        }
        Job::Chain(count) => {
            for _ in 0..*count {
                text.push_str("server.shell(commands=['/bin/true'])\n");
            }
        }
    }
    text
}
