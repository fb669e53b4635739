//! `cargo xtask profile`: where the time of the hottest works goes, sampled by perf, as a page.
//!
//! Everything happens in memory, so that what is seen is the program and the kernel and not a disk. Shares are those of
//! processor time, of all threads.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::step::{Failed, cargo, say, step, workspace};

/// How many resources each work has.
const RESOURCES: usize = 10_000;
/// How many functions are shown of each.
const SHOWN: usize = 15;

struct Work {
    name: &'static str,
    /// What mgmt is told; `DIR` is where everything lies.
    arguments: &'static [&'static str],
}

const CONVERGE: &[&str] =
    &["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", "yaml", "DIR/files.yaml"];
const WORKS: [Work; 3] = [
    Work { name: "10 000 files that are not there", arguments: CONVERGE },
    Work { name: "the same files, all right already", arguments: CONVERGE },
    Work { name: "check of a program of 10 000 files", arguments: &["check", "lang", "DIR/files.mcl"] },
];

/// Builds the program with its symbols, does each work under perf, and writes the page.
pub(crate) fn run() -> Result<(), Failed> {
    step(Command::new(cargo()).args(["build", "--profile", "release-fast", "--package", "mgmt"]))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    let program = target.join("release-fast/mgmt");
    let directory = Path::new("/dev/shm").join(format!("mgmt-profile-{}", std::process::id()));
    std::fs::create_dir(&directory).map_err(|error| cannot("make", &directory, &error))?;
    let page = profile(&program, &directory);
    let _ = std::fs::remove_dir_all(&directory);
    let file = workspace().join("docs/explanation/profiles.md");
    std::fs::write(&file, page?).map_err(|error| cannot("write", &file, &error))
}

fn profile(program: &Path, directory: &Path) -> Result<String, Failed> {
    write_inputs(directory).map_err(|error| cannot("write to", directory, &error))?;
    let mut page = String::from(INTRODUCTION);
    for work in WORKS {
        say(&format!("{}\n", work.name));
        let data = directory.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "--freq=5000", "--output"]).arg(&data).arg(program);
        perf.args(work.arguments.iter().map(|word| word.replace("DIR", &directory.to_string_lossy())));
        perf.env("TMPDIR", directory).stdin(Stdio::null());
        let told = perf
            .output()
            .map_err(|error| Failed::new(format!("cannot run perf (package linux-perf): {error}")))?;
        if !told.status.success() {
            return Err(Failed::new(format!("{}: {}", work.name, String::from_utf8_lossy(&told.stderr))));
        }
        let _ = write!(page, "\n## {}\n\n| of the time | in |\n|---|---|\n", capital(work.name));
        for (share, place) in shares(&data, "dso")?.into_iter().take(3) {
            let place = match place.as_str() {
                "[kernel.kallsyms]" => "the kernel".to_owned(),
                place => format!("`{place}`"),
            };
            let _ = writeln!(page, "| {share} | {place} |");
        }
        page.push_str("\n| of the time | function |\n|---|---|\n");
        for (share, symbol) in shares(&data, "symbol")?.into_iter().take(SHOWN) {
            let _ = writeln!(page, "| {share} | `{}` |", symbol.replace('|', "\\|"));
        }
    }
    Ok(page)
}

const INTRODUCTION: &str = "\
# Profiles

Where the processor time of the hottest works goes, of all threads together. Written by `cargo xtask profile` (perf, an optimised build, everything in memory);
`[k]` is a function of the kernel. What follows from it is in [Benchmarks](benchmarks.md).
";

/// Files as a graph and as a program.
fn write_inputs(directory: &Path) -> std::io::Result<()> {
    let tree = directory.join("tree");
    std::fs::create_dir(&tree)?;
    let mut graph = String::from("graph: files\nresources:\n  file:\n");
    let mut program = String::new();
    for number in 0..RESOURCES {
        let path = tree.join(format!("file{number}"));
        let path = path.display();
        let _ = writeln!(
            graph,
            "  - name: file{number}\n    path: {path}\n    state: exists\n    content: \"content {number}\\n\""
        );
        let _ = writeln!(
            program,
            "file \"{path}\" {{\n\tstate => \"exists\",\n\tcontent => \"content {number}\\n\",\n}}"
        );
    }
    std::fs::write(directory.join("files.yaml"), graph)?;
    std::fs::write(directory.join("files.mcl"), program)
}

/// What perf has seen, by `key`: shares and names, the largest first.
fn shares(data: &Path, key: &str) -> Result<Vec<(String, String)>, Failed> {
    let told = Command::new("perf")
        .args(["report", "--stdio", "--no-children", "--call-graph=none", "--field-separator=\t", "--fields"])
        .args([&format!("overhead,{key}"), "--input"])
        .arg(data)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failed::new(format!("cannot run perf: {error}")))?;
    Ok(String::from_utf8_lossy(&told.stdout).lines().filter_map(line).collect())
}

/// A line of the report: `12.34%`, a tab, and a name.
fn line(line: &str) -> Option<(String, String)> {
    let (share, name) = line.split_once('\t')?;
    let share = share.trim();
    share.ends_with('%').then_some(())?;
    let name = name.split('\t').next()?.trim();
    Some((share.to_owned(), name.trim_start_matches("[.] ").to_owned()))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failed {
    Failed::new(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_report_are_understood() {
        let own = ("1.25%".to_owned(), "mgmt::run".to_owned());
        assert_eq!(line("   1.25%\t[.] mgmt::run\t-\t-"), Some(own));
        assert_eq!(line("22.10%\t[k] clear_page"), Some(("22.10%".into(), "[k] clear_page".into())));
        assert_eq!(line("# Samples: 4K"), None);
        assert_eq!(line("# a\tb"), None);
    }
}
