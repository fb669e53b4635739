//! `cargo xtask new-kind` and `cargo xtask new-function`: everything that a new kind or function needs, so that the checks of the
//! project pass with it as it is. What remains is to say what it does.

mod changes;
mod function;
mod kind;
mod lists;
mod names;

use crate::step::{Failed, say, workspace};

const KIND_HELP: &str = "\
Adds a kind of resources

  cargo xtask new-kind NAME

NAME is the kind as programs declare it, such as `motd` or `docker:image`.

Writes the kind, which keeps one line of text in a file, and its tests, and adds it to the registry, the coverage matrix and the
lists of examples, plans, readers and graphs that tests want every kind to be in. Then change the kind to what it is for.
";

const FUNCTION_HELP: &str = "\
Adds a function of mcl

  cargo xtask new-function [--live] MODULE.NAME

MODULE is the path of its module, such as `strings` or `golang/strings`; without it, the function needs no import.
--live adds a function that follows the host: it looks at a path and is woken when the path changes.

Writes the function with an example, which is its test, and adds it to its module and, if it looks at the host, to the list of
what functions reach. Then change the function to what it is for.
";

/// Adds a kind.
pub(crate) fn new_kind(arguments: &[&str]) -> Result<(), Failed> {
    let name = match arguments {
        [name] if !name.starts_with('-') => name,
        ["-h" | "--help"] => return told(KIND_HELP),
        _ => return Err(misused(KIND_HELP)),
    };
    let (name, changes) = kind::changes(&workspace(), name)?;
    tell(&changes.write()?);
    let module = name.module();
    say(&format!(
        "\n\
         test it:          cargo test --workspace --test kinds {module}::\n\
         say what it does: crates/resources/src/kinds/{module}.rs\n\
         then:             cargo xtask docs\n"
    ));
    Ok(())
}

/// Adds a function.
pub(crate) fn new_function(arguments: &[&str]) -> Result<(), Failed> {
    let (name, effect) = match arguments {
        ["-h" | "--help"] => return told(FUNCTION_HELP),
        ["--live", name] | [name, "--live"] if !name.starts_with('-') => (name, function::Effect::Live),
        [name] if !name.starts_with('-') => (name, function::Effect::Pure),
        _ => return Err(misused(FUNCTION_HELP)),
    };
    let changes = function::changes(&workspace(), name, effect)?;
    let lines = changes.write()?;
    tell(&lines);
    say("\n\
         test it:          cargo test --workspace --test lang function_examples::\n\
         say what it does: the end of the file above\n\
         then:             cargo xtask docs\n");
    Ok(())
}

fn tell(lines: &[String]) {
    for line in lines {
        say(&format!("{line}\n"));
    }
}

fn told(help: &str) -> Result<(), Failed> {
    say(help);
    Ok(())
}

fn misused(help: &str) -> Failed {
    Failed::new(format!("expected one name\n\n{help}"))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// Files of the workspace in a directory of their own.
    pub(super) struct Copy {
        directory: tempfile::TempDir,
    }

    impl Copy {
        /// Copies files and folders, which are named by their paths below the root.
        pub(super) fn of(files: &[&str], folders: &[&str]) -> Copy {
            let copy = Copy { directory: tempfile::tempdir().unwrap() };
            let mut open: Vec<PathBuf> =
                files.iter().chain(folders).chain(&["rustfmt.toml"]).map(PathBuf::from).collect();
            while let Some(path) = open.pop() {
                let from = workspace().join(&path);
                if from.is_dir() {
                    open.extend(
                        std::fs::read_dir(&from).unwrap().map(|entry| path.join(entry.unwrap().file_name())),
                    );
                    continue;
                }
                let to = copy.root().join(&path);
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::copy(&from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
            }
            copy
        }

        pub(super) fn root(&self) -> &Path {
            self.directory.path()
        }

        pub(super) fn read(&self, path: &str) -> String {
            std::fs::read_to_string(self.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
        }

        pub(super) fn is_as_before(&self, path: &str) -> bool {
            self.read(path) == std::fs::read_to_string(workspace().join(path)).unwrap()
        }

        /// Lines that are no longer there, or no longer in their order.
        pub(super) fn lost(&self, path: &str) -> Vec<String> {
            let (old, new) = (std::fs::read_to_string(workspace().join(path)).unwrap(), self.read(path));
            let mut new = new.lines();
            old.lines()
                .filter(|line| !new.by_ref().any(|present| present == *line))
                .map(str::to_owned)
                .collect()
        }
    }

    #[test]
    fn the_help_is_shown_for_whoever_asks_and_for_whoever_errs() {
        for chore in [new_kind, new_function] {
            assert!(chore(&["--help"]).is_ok());
            for wrong in [&[][..], &["a", "b"], &["--what"], &["--live"]] {
                let Err(Failed(why)) = chore(wrong) else { panic!("{wrong:?}") };
                assert!(
                    why.starts_with("expected one name\n\n") && why.contains("  cargo xtask new-"),
                    "{why}"
                );
            }
        }
    }
}
