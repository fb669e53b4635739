//! Paths that a resource names. They are watched, so that a resource without events of its own is looked at when one of them changes and
//! not only once for each `runinterval`.

use std::path::PathBuf;

use mgmt_resource::Meta;

use super::context::asks;
use crate::catalogue::Declared;
use crate::data::Data;

/// The most paths that are watched for one resource.
const MAX_PATHS: usize = 32;

/// The longest value that is looked at: longer ones are contents.
const MAX_VALUE_LEN: usize = 4096;

/// Events that may lead to checks: some at once, and then one in ten seconds. A log that a condition names changes all the time.
const EVENT_BURST: i64 = 5;
const EVENTS_PER_SECOND: f64 = 0.1;

/// Where the kernel tells of no changes, or of too many.
const SILENT: [&str; 4] = ["/dev/", "/proc/", "/sys/", "/run/user/"];

/// Directories of which every entry would be an event. Paths below them count.
const CROWDED: [&str; 16] = [
    "/",
    "/bin",
    "/dev",
    "/etc",
    "/home",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr/bin",
    "/usr/sbin",
    "/var/log",
    "/var/run",
    "/var/tmp",
];

/// Parameters whose path says nothing about the state of the resource.
const UNRELATED: [&str; 8] = ["home", "shell", "cwd", "device", "content", "message", "description", "tag"];

/// Makes a resource be looked at whenever it is notified of a change of the paths that it names, and after so many seconds.
pub(super) fn limit(meta: &mut Meta) {
    meta.poll = 0;
    meta.limit = EVENTS_PER_SECOND;
    meta.burst = EVENT_BURST;
}

/// What the conditions of a command depend on: programs and paths. Without conditions, it depends on nothing.
pub(super) fn of_conditions(declared: &Declared) -> Vec<String> {
    let path: Vec<String> = declared.get("path").map(texts).unwrap_or_default();
    let directories: Vec<&str> =
        path.iter().flat_map(|list| list.split(':')).filter(|directory| directory.starts_with('/')).collect();
    let cwd = declared.get("cwd").filter(|_| !is_secret(declared, "cwd")).and_then(Data::text);
    let commands = |parameter| match is_secret(declared, parameter) {
        true => Vec::new(),
        false => declared.get(parameter).map(texts).unwrap_or_default(),
    };
    let commands = ["onlyif", "unless"].map(commands).concat();
    let mut found = Found::default();
    commands.iter().for_each(|command| found.command(command, &directories));
    if let Some(cwd) = cwd {
        commands.iter().for_each(|command| found.relative(command, &cwd));
    }
    if !is_secret(declared, "creates") {
        declared.get("creates").map(texts).unwrap_or_default().iter().for_each(|path| found.path(path));
    }
    found.0
}

/// What any other resource depends on: parameters that are paths, or name a file of a module, and a title that is a path. Of a `file` that goes
/// through a directory, everything below counts.
pub(super) fn of_parameters(
    declared: &Declared,
    local_source: &dyn Fn(&str) -> Option<PathBuf>,
) -> Vec<String> {
    let mut found = Found::default();
    found.path(&declared.title);
    for (name, value) in &declared.parameters {
        if UNRELATED.contains(&name.as_str()) || is_secret(declared, name) {
            continue;
        }
        for text in texts(value) {
            match local_source(&text).filter(|_| !text.starts_with('/')) {
                Some(path) => found.path(&path.to_string_lossy()),
                None => found.path(&text),
            }
        }
    }
    let is_recursive = declared.kind == "File" && asks(declared, "recurse");
    if is_recursive {
        found.0.iter_mut().for_each(|path| path.push('/'));
    }
    found.0
}

fn is_secret(declared: &Declared, parameter: &str) -> bool {
    declared.sensitive.iter().any(|name| name == parameter)
        || matches!(declared.get(parameter), Some(Data::Secret(_)))
}

/// The texts of a value: itself, or those in a list, or in lists of a list. Secrets are none.
fn texts(value: &Data) -> Vec<String> {
    match value {
        Data::Text(text) if text.len() <= MAX_VALUE_LEN => vec![text.clone()],
        Data::List(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Paths, each once.
#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    /// Takes a text that is a path as a whole.
    fn path(&mut self, text: &str) {
        if text.starts_with('/') && !text.contains([':', '\n', '\0']) && !text.starts_with("//") {
            self.add(text);
        }
    }

    /// Takes the paths that a command names, and where its program may be.
    fn command(&mut self, command: &str, directories: &[&str]) {
        let mut is_program = true;
        for word in words(command) {
            if word.starts_with('/') {
                self.add(fixed_part(word));
            } else if is_program && !word.contains(['/', '$', '*', '{', '[', '\\']) {
                directories.iter().for_each(|directory| {
                    self.add(&format!("{}/{word}", directory.trim_end_matches('/')));
                });
            }
            is_program = false;
        }
    }

    /// Takes the words of a command that may be paths in the directory that it runs in. A program is only one if it names a directory.
    fn relative(&mut self, command: &str, cwd: &str) {
        for (at, word) in words(command).enumerate() {
            let word = word.trim_start_matches("./");
            let is_path = !word.is_empty() && !word.starts_with('/') && (at > 0 || word.contains('/'));
            if is_path {
                self.add(fixed_part(&format!("{}/{word}", cwd.trim_end_matches('/'))));
            }
        }
    }

    fn add(&mut self, path: &str) {
        let path = path.trim_end_matches('/');
        let is_quiet = !path.is_empty()
            && !CROWDED.contains(&path)
            && !SILENT.iter().any(|silent| path.starts_with(silent))
            && !path.split('/').any(|part| part == "..");
        if is_quiet && self.0.len() < MAX_PATHS && !self.0.iter().any(|found| found == path) {
            self.0.push(path.to_owned());
        }
    }
}

/// The words of a command that may be paths.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let words = command.split(|letter: char| letter.is_whitespace() || "\"'`;|&()<>=,".contains(letter));
    words.filter(|word| !word.is_empty() && !word.starts_with('-'))
}

/// A path up to the last directory before a pattern, if there is one: then what is in that directory counts.
fn fixed_part(path: &str) -> &str {
    let pattern = path.find(['*', '?', '[', '{', '$', '\\']);
    let end = pattern.map_or(path.len(), |at| path[..at].rfind('/').unwrap_or(0));
    path.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(command: &str) -> Vec<String> {
        let mut found = Found::default();
        found.command(command, &["/bin", "/usr/bin/"]);
        found.0
    }

    #[test]
    fn a_command_names_its_program_and_paths() {
        assert_eq!(
            named("grep -q '^x' /etc/app.conf && test -f \"/srv/a b/c\""),
            ["/bin/grep", "/usr/bin/grep", "/etc/app.conf", "/srv/a"]
        );
        assert_eq!(named("/opt/check --config=/etc/c.yaml >/dev/null 2>&1"), ["/opt/check", "/etc/c.yaml"]);
        assert_eq!(named("/usr/bin/test -e /srv/*.conf"), ["/usr/bin/test", "/srv"]);
        assert_eq!(named("test -d /tmp"), ["/bin/test", "/usr/bin/test"]);
        assert_eq!(named("ls /etc/../x $HOME/y"), ["/bin/ls", "/usr/bin/ls"]);
    }

    #[test]
    fn a_relative_path_is_in_the_directory_of_the_command() {
        let mut found = Found::default();
        found.relative("test -e marker && ./check conf.d/*.conf ../up /abs", "/srv/app/");
        assert_eq!(found.0, ["/srv/app/marker", "/srv/app/check", "/srv/app/conf.d"]);
        let mut program = Found::default();
        program.relative("bin/check", "/srv/app");
        assert_eq!(program.0, ["/srv/app/bin/check"]);
    }

    #[test]
    fn what_is_no_path_is_not_watched_and_there_is_a_limit() {
        let mut found = Found::default();
        for text in ["/usr/bin:/bin", "x", "//server/share", "/", "/proc/1", "/etc/a\nb", "/etc/a", "/etc/a/"]
        {
            found.path(text);
        }
        assert_eq!(found.0, ["/etc/a"]);
        (0..100).for_each(|number| found.path(&format!("/etc/{number}")));
        assert_eq!(found.0.len(), MAX_PATHS);
    }
}
