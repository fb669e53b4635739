//! The same work, done by every tool that is found on the machine, in one run: a table in Markdown, and the same as JSON.
//!
//! What is measured is a whole program, from its start to its end, as somebody would run it; the raw loop, which is the
//! floor, is the same system calls in this process. Where a tool has no such thing, or was too slow
//! with a tenth of the work to be asked for more, its cell says so. Nothing is computed from something else.

mod idle;
mod tools;
mod works;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tools::Tool;

/// What a tool needed for a piece of work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figure {
    /// Measured.
    Time(Duration),
    /// Something else than a time: bytes, or the share of a processor.
    Amount(f64, &'static str),
    /// The tool has no such thing, or would take too long.
    None,
}

/// One line of the table.
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) figures: BTreeMap<&'static str, Figure>,
}

/// What to compare, and where to write it.
pub(crate) struct Settings {
    pub(crate) mgmt: PathBuf,
    pub(crate) upstream: Option<PathBuf>,
    pub(crate) output: Option<PathBuf>,
    /// How long somebody who has nothing to do is looked at.
    pub(crate) idle: Duration,
    /// The largest number of files.
    pub(crate) largest: usize,
    /// Names of tools that are left out.
    pub(crate) without: Vec<String>,
}

/// The options after `compare`.
pub(crate) fn settings(mgmt: PathBuf, arguments: &[String]) -> Result<Settings, String> {
    let mut settings = Settings {
        mgmt,
        upstream: None,
        output: None,
        idle: Duration::from_secs(60),
        largest: 10_000,
        without: Vec::new(),
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{word}`: expected a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("`{word} {value}`: expected a number"));
        match word.as_str() {
            "--upstream" => settings.upstream = Some(value.into()),
            "--output" => settings.output = Some(value.into()),
            "--without" => settings.without.extend(value.split(',').map(str::to_lowercase)),
            "--idle" => settings.idle = Duration::from_secs(number()?),
            "--largest" => settings.largest = usize::try_from(number()?).unwrap_or(10_000),
            _ => {
                return Err(format!(
                    "unknown option `{word}`; there are --upstream, --output, --idle, --largest, --without"
                ));
            }
        }
    }
    Ok(settings)
}

pub(crate) fn run(settings: &Settings) {
    let tools = tools::found(settings);
    for tool in &tools {
        println!("{:<10} {}", tool.name(), tool.version());
    }
    let mut rows = Vec::new();
    let sizes: Vec<usize> =
        [100, 1_000, 10_000].into_iter().filter(|size| *size <= settings.largest).collect();
    rows.extend(works::files(&tools, &sizes));
    rows.push(works::one_file(&tools));
    rows.push(works::repair(&tools));
    rows.push(works::chain(&tools));
    rows.extend(works::checks(&tools, &sizes[1.min(sizes.len() - 1)..]));
    rows.extend(idle::run(&tools, settings.idle));
    let page = page(&tools, &rows);
    println!("\n{page}");
    if let Some(path) = &settings.output {
        write(path, &page);
        write(&path.with_extension("json"), &json(&tools, &rows));
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    println!("written to {}", path.display());
}

fn shown(figure: Figure, ours: Option<Figure>) -> String {
    let time = |time: Duration| match time.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.0} µs", seconds * 1e6),
    };
    let text = match figure {
        Figure::Time(measured) => time(measured),
        Figure::Amount(amount, unit) => format!("{amount:.2} {unit}"),
        Figure::None => return "–".to_owned(),
    };
    match (amount(figure), ours.and_then(amount)) {
        (Some(theirs), Some(ours)) if ours > 0.0 => format!("{text} ({:.2} ×)", theirs / ours),
        _ => text,
    }
}

fn amount(figure: Figure) -> Option<f64> {
    match figure {
        Figure::Time(time) => Some(time.as_secs_f64()),
        Figure::Amount(amount, _) => Some(amount),
        Figure::None => None,
    }
}

/// What the machine is, for whoever compares.
fn machine() -> Vec<(&'static str, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or("unknown").trim();
    let system = read("/etc/os-release");
    let system = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown");
    vec![
        ("processor", processor.trim_start_matches([' ', '\t', ':']).to_owned()),
        ("cores", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
        ("memory", memory.to_owned()),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("system", system.trim_matches('"').to_owned()),
        ("inotify instances per user", read("/proc/sys/fs/inotify/max_user_instances").trim().to_owned()),
        ("load at the end", read("/proc/loadavg").split_whitespace().next().unwrap_or_default().to_owned()),
    ]
}

fn page(tools: &[Tool], rows: &[Row]) -> String {
    let mut page = String::from(
        "<!-- Generated by `cargo xtask bench compare`; do not edit. -->\n\n# Benchmarks: the same work, tool by tool\n\n\
         Every figure is of one run of `cargo xtask bench compare` on one machine. In brackets: how many times as much as \
         mgmt. The raw loop is the same system calls without a program around them: the floor. A tool is measured as a \
         whole, from its start to its end; – means that a tool has no such thing, or took so long for a tenth of \
         it that it was not asked for all, or did not bring the files about (the program in Go needs an \
         inotify instance for each file). Nobody flushes to the disk: mgmt, which does so by \
         default, is told not to (`--fsync none`). The program in Go ends only after some seconds of quiet, which are taken off.\n\n",
    );
    // Writing to a string cannot fail, here and below.
    for (what, value) in machine() {
        let _ = writeln!(page, "- {what}: {value}");
    }
    for tool in tools {
        let _ = writeln!(page, "- {}: {}", tool.name(), tool.version());
    }
    let names: Vec<&str> = tools.iter().map(Tool::name).collect();
    let _ = writeln!(page, "\n| work | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for row in rows {
        let ours = row.figures.get(tools::OURS).copied();
        let cell = |name: &&str| {
            let figure = row.figures.get(name).copied().unwrap_or(Figure::None);
            shown(figure, ours.filter(|_| *name != tools::OURS))
        };
        let _ =
            writeln!(page, "| {} | {} |", row.work, names.iter().map(cell).collect::<Vec<_>>().join(" | "));
    }
    page.push_str(
        "\n- **files, cold**: N files of 200 bytes, none of which is there. **warm**: the same again, when all are right.\n\
         - **edit to repaired**: tools that follow events keep running and repair by themselves, the median of many edits; the \
         others are run once more, and the time of that run is the least that any loop around them could reach.\n\
         - **commands in a chain**: 200 times `/bin/true`, each after the one before.\n\
         - **check**: read a program and say what is wrong with it, without touching the host.\n\
         - **idle**: resident memory, and the share of one processor, of a run that keeps 1 000 files right and has nothing to do.\n",
    );
    page
}

fn json(tools: &[Tool], rows: &[Row]) -> String {
    let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let machine: Vec<String> =
        machine().iter().map(|(what, value)| format!("    {}: {}", quote(what), quote(value))).collect();
    let versions: Vec<String> =
        tools.iter().map(|tool| format!("    {}: {}", quote(tool.name()), quote(&tool.version()))).collect();
    let row = |row: &Row| {
        let figures: Vec<String> = row
            .figures
            .iter()
            .filter_map(|(name, figure)| {
                let unit = match figure {
                    Figure::Amount(_, unit) => unit,
                    _ => "seconds",
                };
                Some(format!(
                    "{}: {{\"value\": {}, \"unit\": {}}}",
                    quote(name),
                    amount(*figure)?,
                    quote(unit)
                ))
            })
            .collect();
        format!("    {{\"work\": {}, \"figures\": {{{}}}}}", quote(&row.work), figures.join(", "))
    };
    format!(
        "{{\n  \"machine\": {{\n{}\n  }},\n  \"tools\": {{\n{}\n  }},\n  \"rows\": [\n{}\n  ]\n}}\n",
        machine.join(",\n"),
        versions.join(",\n"),
        rows.iter().map(row).collect::<Vec<_>>().join(",\n")
    )
}
