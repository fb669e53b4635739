//! Crate map and dependency check: both read the manifests of the workspace, as `cargo metadata` gives them.
//!
//! - The crate map is the table in `docs/architecture.md` between two comments. Its column "may use" is generated: the workspace
//!   crates that a crate depends on, without those of its tests. The rest of a row is written by hand.
//! - Every dependency has to be named by the sources of its crate, as `name::…` or `use name`: a normal one by the program, one for
//!   tests by a test, benchmark, example or doc comment.
//!
//! The check reads text and has no list of exceptions. A dependency that only a macro names would be reported: have the crate of the
//! macro re-export it. The opposite, a dependency that is reported too late, is possible: a name in a string counts, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::docs::Mode;
use crate::step::{Failed, cargo, say, workspace};

/// The page with the crate map, below the root of the workspace.
const PAGE: &str = "docs/architecture.md";
const MAP_BEGIN: &str =
    "<!-- crate map: `cargo xtask docs` writes the column \"may use\" from the Cargo.toml files -->";
const MAP_END: &str = "<!-- end of the crate map -->";
/// The prefix of the names of our crates, which the map leaves out.
const PREFIX: &str = "mgmt-";

/// One crate of the workspace.
#[derive(Debug)]
struct Package {
    name: String,
    directory: PathBuf,
    dependencies: Vec<Dependency>,
}

/// One line of a manifest.
#[derive(Debug)]
struct Dependency {
    /// The name in the manifest.
    name: String,
    /// Whether tests, benchmarks and examples alone have it.
    dev: bool,
    /// The name of the crate if it belongs to the workspace.
    member: Option<String>,
}

pub(crate) fn run(mode: Mode) -> Result<(), Failed> {
    let packages = packages()?;
    let path = workspace().join(PAGE);
    let page = read(&path)?;
    let wanted = with_map(&page, &edges(&packages))?;
    if wanted != page {
        if mode == Mode::Check {
            return Err(Failed::new(format!(
                "{PAGE}: the crate map is out of date; run `cargo xtask docs` and commit it"
            )));
        }
        std::fs::write(&path, wanted)
            .map_err(|error| Failed::new(format!("cannot write {}: {error}", path.display())))?;
        say(&format!("wrote {PAGE}\n"));
    }
    let mut unused = Vec::new();
    for package in &packages {
        let sources = Sources::read(&package.directory)?;
        unused.extend(package.dependencies.iter().filter(|dependency| !sources.name(dependency)).map(
            |dependency| {
                let section = if dependency.dev { "dev-dependencies" } else { "dependencies" };
                format!("  {}: `{}` in [{section}]", package.name, dependency.name)
            },
        ));
    }
    unused.extend(unshared(&read(&workspace().join("Cargo.toml"))?, &packages));
    if unused.is_empty() {
        return Ok(());
    }
    let list = unused.join("\n");
    Err(Failed::new(format!(
        "unused dependencies; remove them, or move them to where they are used:\n{list}"
    )))
}

fn read(path: &Path) -> Result<String, Failed> {
    std::fs::read_to_string(path)
        .map_err(|error| Failed::new(format!("cannot read {}: {error}", path.display())))
}

/// The crates of the workspace, by name.
fn packages() -> Result<Vec<Package>, Failed> {
    let failed = |why: String| Failed::new(format!("cannot read the manifests (cargo metadata): {why}"));
    let output = Command::new(cargo())
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(workspace())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let dependency = |line: &Value| Dependency {
        name: text(if line["rename"].is_null() { &line["name"] } else { &line["rename"] }),
        dev: line["kind"] == "dev",
        member: line["path"].is_string().then(|| text(&line["name"])),
    };
    let package = |package: &Value| Package {
        name: text(&package["name"]),
        directory: Path::new(&text(&package["manifest_path"])).parent().unwrap_or(Path::new("")).to_owned(),
        dependencies: list(&package["dependencies"]).iter().map(dependency).collect(),
    };
    Ok(list(&metadata["packages"]).iter().map(package).collect())
}

/// The workspace crates that each crate uses, by their names on the map.
fn edges(packages: &[Package]) -> BTreeMap<String, BTreeSet<String>> {
    let short = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let used = |package: &Package| {
        let normal = package.dependencies.iter().filter(|dependency| !dependency.dev);
        normal.filter_map(|dependency| dependency.member.as_deref().map(short)).collect()
    };
    packages.iter().map(|package| (short(&package.name), used(package))).collect()
}

/// The page with the last column of the crate map as the manifests have it.
fn with_map(page: &str, edges: &BTreeMap<String, BTreeSet<String>>) -> Result<String, Failed> {
    let parts = page.split_once(MAP_BEGIN).and_then(|(before, rest)| {
        let (map, after) = rest.split_once(MAP_END)?;
        Some((before, map, after))
    });
    let (before, map, after) = parts.ok_or_else(|| {
        Failed::new(format!("{PAGE}: the crate map has to stand between `{MAP_BEGIN}` and `{MAP_END}`"))
    })?;
    let (mut lines, mut seen, mut wrong) = (Vec::new(), BTreeSet::new(), Vec::new());
    for line in map.lines() {
        let Some((name, rest)) = line.strip_prefix("| `").and_then(|row| row.split_once("` | ")) else {
            lines.push(line.to_owned());
            continue;
        };
        let Some(used) = edges.get(name) else {
            wrong.push(format!("  remove the row of `{name}`: there is no such crate"));
            continue;
        };
        if !seen.insert(name) {
            wrong.push(format!("  remove the second row of `{name}`"));
        }
        let description = rest.split(" | ").next().unwrap_or(rest).trim_end_matches('|').trim_end();
        let used = if used.is_empty() {
            "–".to_owned()
        } else {
            used.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        lines.push(format!("| `{name}` | {description} | {used} |"));
    }
    for name in edges.keys().filter(|name| !seen.contains(name.as_str())) {
        wrong.push(format!("  add a row for the crate `{name}`: | `{name}` | what it is | |"));
    }
    if !wrong.is_empty() {
        return Err(Failed::new(format!(
            "{PAGE}: the crate map does not match the workspace:\n{}",
            wrong.join("\n")
        )));
    }
    Ok(format!("{before}{MAP_BEGIN}{}\n{MAP_END}{after}", lines.join("\n")))
}

/// Entries of `[workspace.dependencies]` that no crate uses.
fn unshared(manifest: &str, packages: &[Package]) -> Vec<String> {
    let used: BTreeSet<&str> = packages
        .iter()
        .flat_map(|package| package.dependencies.iter().map(|dependency| dependency.name.as_str()))
        .collect();
    let lines = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let names = lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once(" = ")?.0));
    let unused = names.filter(|name| !used.contains(name));
    unused.map(|name| format!("  Cargo.toml: `{name}` in [workspace.dependencies]")).collect()
}

/// The sources of one crate.
#[derive(Debug, Default)]
struct Sources {
    /// The program without its tests and comments.
    program: String,
    /// Tests, benchmarks, examples, and doc comments, which may have tests.
    tests: String,
}

impl Sources {
    fn read(directory: &Path) -> Result<Sources, Failed> {
        let mut paths = Vec::new();
        rust_files(directory, &mut paths)?;
        let mut files = BTreeMap::new();
        for path in paths {
            let text = read(&path)?;
            files.insert(path, text);
        }
        // A module that is declared under `#[cfg(test)]` is a test with all that is below it.
        let mut test_modules = Vec::new();
        for (path, text) in &files {
            let declared = text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
                let (visibility, name) = rest.lines().next()?.strip_suffix(';')?.split_once("mod ")?;
                (visibility.trim_start().is_empty() || visibility.starts_with("pub")).then_some(name)
            });
            test_modules.extend(declared.map(|name| module_directory(path).join(name)));
        }
        let program = directory.join("src");
        let mut sources = Sources::default();
        for (path, text) in &files {
            let is_test = (!path.starts_with(&program) && !path.ends_with("build.rs"))
                || test_modules
                    .iter()
                    .any(|module| path.with_extension("") == *module || path.starts_with(module));
            if is_test {
                sources.tests.push_str(text);
            } else {
                sources.add(text);
            }
        }
        Ok(sources)
    }

    /// Adds a file of the program. A module with tests is the last item of its file (clippy sees to that).
    fn add(&mut self, text: &str) {
        let (program, tests) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((text, ""));
        self.tests.push_str(tests);
        for line in program.lines() {
            let code = line.trim_start();
            let part = match code.strip_prefix("//") {
                None => &mut self.program,
                Some(comment) if comment.starts_with(['/', '!']) => &mut self.tests,
                Some(_) => continue,
            };
            part.push_str(code);
            part.push('\n');
        }
    }

    /// Whether a dependency is named. The name of a library has no hyphens: they become underscores, or go (`md-5` is `md5`).
    fn name(&self, dependency: &Dependency) -> bool {
        let text = if dependency.dev { &self.tests } else { &self.program };
        ["_", ""].iter().any(|hyphen| names(text, &dependency.name.replace('-', hyphen)))
    }
}

/// Whether a text names a crate: as `name::…` or `use name`.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let is_word = !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let is_first =
            !before.ends_with("::") || !before.trim_end_matches("::").ends_with(char::is_alphanumeric);
        is_word
            && is_first
            && (after.starts_with("::") || before.ends_with("use ") && after.starts_with([';', ' ']))
    })
}

/// Where the modules are that a file declares.
fn module_directory(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default();
    if ["lib", "main", "mod"].iter().any(|root| stem == *root) {
        file.parent().unwrap_or(file).to_owned()
    } else {
        file.with_extension("")
    }
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failed> {
    let failed = |error| Failed::new(format!("cannot read {}: {error}", directory.display()));
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges_of(list: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        list.iter().map(|(name, used)| ((*name).to_owned(), names(used))).collect()
    }

    fn page(rows: &str) -> String {
        format!("# Page\n\n{MAP_BEGIN}\n| crate | what | may use |\n|---|---|---|\n{rows}{MAP_END}\n\nrest\n")
    }

    #[test]
    fn the_last_column_is_generated_and_the_rest_is_kept() {
        let edges = edges_of(&[("a", &[]), ("b", &["a", "c"]), ("c", &[])]);
        let old = page("| `a` | first, with `x | y` no | old |\n| `c` | third | |\n| `b` | second | – |\n");
        let rows = "| `a` | first, with `x | – |\n| `c` | third | – |\n| `b` | second | a, c |\n";
        let made = with_map(&old, &edges).unwrap();
        assert_eq!(made, page(rows));
        assert_eq!(with_map(&made, &edges).unwrap(), made);
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_named() {
        let edges = edges_of(&[("a", &[]), ("new", &[])]);
        let Failed(why) =
            with_map(&page("| `a` | x | |\n| `a` | x | |\n| `gone` | y | |\n"), &edges).unwrap_err();
        for part in ["add a row for the crate `new`", "remove the row of `gone`", "the second row of `a`"] {
            assert!(why.contains(part), "{why}");
        }
        let Failed(why) = with_map("# no map\n", &edges).unwrap_err();
        assert!(why.contains(MAP_BEGIN), "{why}");
    }

    #[test]
    fn the_map_is_up_to_date_and_no_dependency_is_unused() {
        run(Mode::Check).unwrap_or_else(|Failed(why)| panic!("{why}"));
    }

    #[test]
    fn a_crate_is_named_by_paths_and_imports_alone() {
        for text in ["use tar::Builder;", "let x = tar::Builder::new();", "use tar as archive;", "::tar::x()"]
        {
            assert!(names(text, "tar"), "{text}");
        }
        for text in ["use guitar::Builder;", "let tar = 1;", "x::tar::y()", "tar_gz::x()", "// a tar file"] {
            assert!(!names(text, "tar"), "{text}");
        }
    }

    #[test]
    fn tests_and_comments_do_not_count_as_the_program() {
        let mut sources = Sources::default();
        sources.add(
            "/// use doc::X;\n// gone::x()\nuse code::X;\n#[cfg(test)]\nmod tests {\n    use test::X;\n}\n",
        );
        assert!(names(&sources.program, "code"));
        assert!(["doc", "gone", "test"].iter().all(|name| !names(&sources.program, name)));
        assert!(names(&sources.tests, "doc") && names(&sources.tests, "test"));
    }

    #[test]
    fn shared_dependencies_that_no_crate_has_are_named() {
        let manifest = "[workspace.dependencies]\n# note\nused = \"1\"\nunused = { version = \"1\" }\n\n[profile.dev]\nx = 1\n";
        let used = Dependency { name: "used".to_owned(), dev: false, member: None };
        let package = Package { name: "p".to_owned(), directory: PathBuf::new(), dependencies: vec![used] };
        assert_eq!(unshared(manifest, &[package]), ["  Cargo.toml: `unused` in [workspace.dependencies]"]);
    }
}
