//! `cargo xtask profile`: where the time of the hottest works goes, sampled by perf, as a page.
//!
//! Everything happens in memory, so that what is seen is the program and the kernel and not a disk. Shares are those of
//! processor time, of all threads. Half of it is the kernel's, which callgrind could not see; nor does the whole program run under it.
//! What dominates is written by hand in `profile-notes.md`, a section for each work, and put into the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::step::{Failed, cargo, say, step, workspace};

/// How many resources each work has.
const RESOURCES: usize = 10_000;
/// How many files are edited. Each once: whoever is undone again and again is left alone for a while.
const EDITS: usize = 2_000;
/// How many functions are shown of each.
const SHOWN: usize = 15;
/// What people have to say about each work.
const NOTES: &str = include_str!("profile-notes.md");

struct Work {
    name: &'static str,
    /// What mgmt is told; `DIR` is where everything lies.
    arguments: &'static [&'static str],
    /// Whether it goes on and files are edited meanwhile.
    edits: bool,
}

const CONVERGE: &[&str] = &[
    "run",
    "--tmp-prefix",
    "--fsync",
    "none",
    "--log",
    "error",
    "--converger-timeout=0",
    "--converged-exit",
    "lang",
    "DIR/files.mcl",
];
const KEEP: &[&str] = &["run", "--tmp-prefix", "--fsync", "none", "--log", "error", "lang", "DIR/files.mcl"];
const WORKS: [Work; 4] = [
    Work { name: "10 000 files that are not there", arguments: CONVERGE, edits: false },
    Work { name: "the same files, all right already", arguments: CONVERGE, edits: false },
    Work {
        name: "2 000 of them edited by somebody, each until it is repaired",
        arguments: KEEP,
        edits: true,
    },
    Work {
        name: "check of a program of 10 000 files",
        arguments: &["check", "lang", "DIR/files.mcl"],
        edits: false,
    },
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
        let mut mgmt = Command::new(program);
        mgmt.args(work.arguments.iter().map(|word| word.replace("DIR", &directory.to_string_lossy())));
        mgmt.env("TMPDIR", directory).stdin(Stdio::null());
        if work.edits {
            record_edits(&mut mgmt, directory, &data)?;
        } else {
            let mut perf = recorder(&data);
            perf.arg(mgmt.get_program()).args(mgmt.get_args()).env("TMPDIR", directory);
            recorded(work.name, &mut perf)?;
        }
        let _ = write!(page, "\n## {}\n\n{}\n", capital(work.name), note(work.name).unwrap_or_default());
        let symbols = shares(&data, "dso,symbol")?;
        page.push_str("\n| of the time | in |\n|---|---|\n");
        for (share, room) in by_room(&symbols) {
            let _ = writeln!(page, "| {share:.1} % | {room} |");
        }
        page.push_str("\n| of the time | function |\n|---|---|\n");
        for (share, _, symbol) in symbols.iter().take(SHOWN) {
            let _ = writeln!(page, "| {share:.1} % | `{}` |", symbol.replace('|', "\\|"));
        }
    }
    Ok(page)
}

fn recorder(data: &Path) -> Command {
    let mut perf = Command::new("perf");
    perf.args(["record", "--freq=10000", "--output"]).arg(data).stdin(Stdio::null());
    perf
}

fn recorded(what: &str, perf: &mut Command) -> Result<(), Failed> {
    let told = perf
        .output()
        .map_err(|error| Failed::new(format!("cannot run perf (package linux-perf): {error}")))?;
    if told.status.success() {
        return Ok(());
    }
    Err(Failed::new(format!("{what}: {}", String::from_utf8_lossy(&told.stderr))))
}

/// Has files edited, and looks at mgmt alone meanwhile, once it is at rest.
fn record_edits(mgmt: &mut Command, directory: &Path, data: &Path) -> Result<(), Failed> {
    /// What was wrong before it began is right once it has.
    const LAST: usize = RESOURCES - 1;
    const EDIT: &str = r#"
n=0
while [ $n -lt "$1" ]; do
    file="$0/tree/file$n"
    echo drift > "$file"
    until read -r line < "$file" && [ "$line" = "content $n" ]; do :; done
    n=$((n + 1))
done"#;
    let last = directory.join(format!("tree/file{LAST}"));
    std::fs::write(&last, "drift").map_err(|error| cannot("write", &last, &error))?;
    let running = mgmt.spawn().map_err(|error| Failed::new(format!("cannot run mgmt: {error}")))?;
    let mut running = Running(running);
    let until = Instant::now() + Duration::from_secs(120);
    while std::fs::read_to_string(&last).ok() != Some(format!("content {LAST}\n")) {
        if Instant::now() > until || running.0.try_wait().is_ok_and(|status| status.is_some()) {
            return Err(Failed::new("mgmt does not repair what was edited before it began"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // What follows the last file is no repair.
    std::thread::sleep(Duration::from_secs(3));
    let mut perf = recorder(data);
    perf.args(["--pid", &running.0.id().to_string(), "--", "timeout", "300", "sh", "-c", EDIT]);
    recorded("edits", perf.arg(directory).arg(EDITS.to_string()))
}

/// A program that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is written about a work.
fn note(name: &str) -> Option<&'static str> {
    let section = |text: &'static str| {
        let (title, note) = text.split_once('\n')?;
        (title.trim() == name).then(|| note.trim())
    };
    NOTES.split("## ").find_map(section)
}

const INTRODUCTION: &str = "\
# Profiles

Where the processor time of the hottest works goes, of all threads together, each in the function or part that was running (and not in those that called it). Written by `cargo xtask profile` (perf, an optimised build,
everything in memory, mgmt as in [the comparison](benchmarks.md)); `[k]` is a function of the kernel. What dominates is said by people, in `xtask/src/profile-notes.md`.
Without counters of the processor, as in most virtual machines, perf asks a clock: its ticks are noted where the kernel allows interrupts again (`_raw_spin_unlock_irqrestore`, `finish_task_switch`, `exc_page_fault`), which is
later than where the time went.
";

/// Files as a program.
fn write_inputs(directory: &Path) -> std::io::Result<()> {
    let tree = directory.join("tree");
    std::fs::create_dir(&tree)?;
    let mut program = String::new();
    for number in 0..RESOURCES {
        let path = tree.join(format!("file{number}"));
        let path = path.display();
        let _ = writeln!(
            program,
            "file \"{path}\" {{\n\tstate => \"exists\",\n\tcontent => \"content {number}\\n\",\n}}"
        );
    }
    std::fs::write(directory.join("files.mcl"), program)
}

/// A share in percent, the object file and the function.
type Share = (f64, String, String);

/// What perf has seen, by `key`: the largest share first.
fn shares(data: &Path, key: &str) -> Result<Vec<Share>, Failed> {
    let told = Command::new("perf")
        .args(["report", "--stdio", "--no-children", "--call-graph=none", "--field-separator=\t", "--fields"])
        .args([&format!("overhead,{key}"), "--input"])
        .arg(data)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failed::new(format!("cannot run perf: {error}")))?;
    Ok(String::from_utf8_lossy(&told.stdout).lines().filter_map(line).collect())
}

/// A line of the report: `12.34%`, an object file and a function, with tabs between them.
fn line(line: &str) -> Option<Share> {
    let mut words = line.split('\t').map(str::trim);
    let share = words.next()?.strip_suffix('%')?.parse().ok()?;
    let (object, symbol) = (words.next()?, words.next()?);
    Some((share, object.to_owned(), symbol.trim_start_matches("[.] ").to_owned()))
}

/// The shares of the kernel, of each crate of ours, and of what we use; those that matter, largest first.
fn by_room(symbols: &[Share]) -> Vec<(f64, String)> {
    let mut rooms: BTreeMap<String, f64> = BTreeMap::new();
    for (share, object, symbol) in symbols {
        *rooms.entry(room(object, symbol)).or_default() += share;
    }
    let mut rooms: Vec<(f64, String)> = rooms.into_iter().map(|(room, share)| (share, room)).collect();
    rooms.sort_by(|one, other| other.0.total_cmp(&one.0));
    rooms.retain(|(share, _)| *share >= 0.5);
    rooms
}

fn room(object: &str, symbol: &str) -> String {
    if object.starts_with("[kernel") || symbol.starts_with("[k]") {
        let is_new_page = ["clear_page", "page_fault", "anonymous_page", "handle_mm_fault"];
        return match is_new_page.iter().any(|part| symbol.contains(part)) {
            true => "the kernel: memory that is used for the first time".to_owned(),
            false => "the kernel: everything else".to_owned(),
        };
    }
    if symbol.starts_with("mi_") || symbol.starts_with("_mi_") {
        return "the allocator".to_owned();
    }
    // The first crate of ours in a name: `<a::B as mgmt_c::D>::e` counts for the one that it is made for.
    let ours = symbol
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .find(|word| word.strip_prefix("mgmt_").is_some_and(|rest| !rest.is_empty()) || *word == "mgmt");
    match ours {
        Some(ours) => format!("`{}`", ours.trim_start_matches("mgmt_")),
        None => "libraries".to_owned(),
    }
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
        let own = (1.25, "mgmt".to_owned(), "mgmt::run".to_owned());
        assert_eq!(line("   1.25%\tmgmt\t[.] mgmt::run\t-\t-"), Some(own));
        let kernel = (22.1, "[kernel.kallsyms]".to_owned(), "[k] clear_page".to_owned());
        assert_eq!(line("22.10%\t[kernel.kallsyms]  \t[k] clear_page"), Some(kernel));
        assert_eq!(line("# Samples: 4K"), None);
        assert_eq!(line("# a\tb\tc"), None);
    }

    #[test]
    fn functions_belong_to_a_part() {
        assert_eq!(
            room("[kernel.kallsyms]", "[k] clear_page_erms"),
            "the kernel: memory that is used for the first time"
        );
        assert_eq!(room("[kernel.kallsyms]", "[k] path_openat"), "the kernel: everything else");
        assert_eq!(room("mgmt", "_mi_page_malloc_zero"), "the allocator");
        assert_eq!(room("mgmt", "<mgmt_resource::graph::Spec as core::clone::Clone>::clone"), "`resource`");
        assert_eq!(room("libc.so.6", "__memmove_avx512_unaligned_erms"), "libraries");
        let shares =
            [(30.0, "mgmt", "mgmt_sys::a"), (0.1, "mgmt", "mgmt_lang::b"), (40.0, "mgmt", "mi_free")];
        let shares = shares.map(|(share, object, symbol)| (share, object.to_owned(), symbol.to_owned()));
        assert_eq!(by_room(&shares), [(40.0, "the allocator".to_owned()), (30.0, "`sys`".to_owned())]);
    }

    #[test]
    fn every_work_has_a_note_of_what_dominates() {
        for work in WORKS {
            assert!(note(work.name).is_some_and(|note| note.len() > 40), "{}", work.name);
        }
        assert_eq!(NOTES.matches("## ").count(), WORKS.len());
    }
}
