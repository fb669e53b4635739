//! `cargo xtask docs`: the reference pages, which the program writes itself, the crate map, and the API documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Failed, cargo, say, step, workspace};

/// Where the pages are, below the root of the workspace.
const PAGES: &str = "docs/reference";

/// What to do about pages that are out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Write them.
    Write,
    /// Fail.
    Check,
}

pub(crate) fn run(mode: Mode) -> Result<(), Failed> {
    crate::crates::run(mode)?;
    let scratch = Scratch::new()?;
    step(
        Command::new(cargo())
            .args(["run", "--quiet", "--package", "mgmt", "--", "docs", "reference", "--format", "markdown"])
            .arg("--output")
            .arg(&scratch.0),
    )?;
    let pages = workspace().join(PAGES);
    let (mut wanted, found) = (tree(&scratch.0)?, tree(&pages)?);
    let proofs = crate::proofs::page(&kinds(&wanted))?;
    wanted.insert(PathBuf::from("proofs.md"), proofs.into_bytes());
    match mode {
        Mode::Write => write(&pages, &wanted, &found)?,
        Mode::Check => compare(&wanted, &found)?,
    }
    crate::site::run(mode == Mode::Write)?;
    let mut doc = Command::new(cargo());
    step(doc.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))
}

/// The kinds that have a page, with their traits.
fn kinds(pages: &Files) -> BTreeMap<String, BTreeSet<String>> {
    let kinds = pages.iter().filter(|(path, _)| path.parent() == Some(Path::new("kinds")));
    let read = |page: &[u8]| {
        let text = String::from_utf8_lossy(page).into_owned();
        let name =
            text.lines().find_map(|line| line.strip_prefix("# `")?.strip_suffix('`').map(str::to_owned))?;
        let traits = text.split("## Traits").nth(1).unwrap_or_default().lines();
        let traits =
            traits.filter_map(|line| Some(line.strip_prefix("- **")?.split_once("**")?.0.to_owned()));
        Some((name, traits.collect()))
    };
    kinds.filter_map(|(_, page)| read(page)).collect()
}

/// Files below a directory, by their path in it. A directory that is not there has none.
fn tree(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, Failed> {
    let failed = |path: &Path, error| Failed::new(format!("cannot read {}: {error}", path.display()));
    let mut files = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        if !directory.exists() {
            continue;
        }
        for entry in std::fs::read_dir(&directory).map_err(|error| failed(&directory, error))? {
            let path = entry.map_err(|error| failed(&directory, error))?.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let content = std::fs::read(&path).map_err(|error| failed(&path, error))?;
                files.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), content);
            }
        }
    }
    Ok(files)
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn write(pages: &Path, wanted: &Files, found: &Files) -> Result<(), Failed> {
    for (name, content) in wanted.iter().filter(|(name, content)| found.get(*name) != Some(content)) {
        let path = pages.join(name);
        let parent = path.parent().unwrap_or(pages);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, content))
            .map_err(|error| Failed::new(format!("cannot write {}: {error}", path.display())))?;
        say(&format!("wrote {PAGES}/{}\n", name.display()));
    }
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        let path = pages.join(name);
        std::fs::remove_file(&path)
            .map_err(|error| Failed::new(format!("cannot remove {}: {error}", path.display())))?;
        say(&format!("removed {PAGES}/{}\n", name.display()));
    }
    Ok(())
}

fn compare(wanted: &Files, found: &Files) -> Result<(), Failed> {
    let mut stale: Vec<String> = Vec::new();
    for (name, content) in wanted {
        match found.get(name) {
            Some(present) if present == content => {}
            Some(_) => stale.push(format!("  {PAGES}/{} is out of date", name.display())),
            None => stale.push(format!("  {PAGES}/{} is missing", name.display())),
        }
    }
    let extra = found.keys().filter(|name| !wanted.contains_key(*name));
    stale.extend(extra.map(|name| format!("  {PAGES}/{} is no longer generated", name.display())));
    if stale.is_empty() {
        return Ok(());
    }
    Err(Failed::new(format!("run `cargo xtask docs` and commit the result:\n{}", stale.join("\n"))))
}

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, Failed> {
        let path = std::env::temp_dir().join(format!("mgmt-xtask-docs-{}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| Failed::new(format!("cannot create {}: {error}", path.display())))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind in the directory for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[(&str, &str)]) -> Files {
        names.iter().map(|(name, content)| (PathBuf::from(name), content.as_bytes().to_vec())).collect()
    }

    #[test]
    fn every_kind_of_difference_is_named() {
        let wanted = files(&[("same", "1"), ("stale", "2"), ("missing", "3")]);
        let found = files(&[("same", "1"), ("stale", "x"), ("extra", "4")]);
        let Failed(why) = compare(&wanted, &found).unwrap_err();
        for part in ["stale is out of date", "missing is missing", "extra is no longer generated"] {
            assert!(why.contains(part), "{why}");
        }
        assert!(!why.contains("same"));
        assert!(compare(&wanted, &wanted).is_ok());
    }

    #[test]
    fn the_table_of_proofs_is_whole_and_up_to_date() {
        let pages = tree(&workspace().join(PAGES)).unwrap();
        let made = crate::proofs::page(&kinds(&pages)).unwrap_or_else(|Failed(why)| panic!("{why}"));
        assert!(pages[Path::new("proofs.md")] == made.as_bytes(), "run `cargo xtask docs`");
    }

    #[test]
    fn writing_makes_both_the_same() {
        let scratch = Scratch::new().unwrap();
        std::fs::create_dir(scratch.0.join("kinds")).unwrap();
        std::fs::write(scratch.0.join("kinds/extra"), "4").unwrap();
        let wanted = files(&[("a", "1"), ("kinds/b", "2")]);
        write(&scratch.0, &wanted, &tree(&scratch.0).unwrap()).unwrap();
        assert_eq!(tree(&scratch.0).unwrap(), wanted);
    }
}
