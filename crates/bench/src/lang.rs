//! The language: checking and formatting of programs that are large, long-winded or deep.
//!
//! Everything here is done by one thread at a time, in memory. What counts is the processor time of the whole process, so
//! that it is the same thing as "on one core" and other programs disturb it little.

use std::process::Command;
use std::time::{Duration, Instant};

use mgmt_lang::module::{Entry, Memory};
use mgmt_lang::{Checked, Environment};

use crate::processor_time;
use crate::programs::{self, Chain, Nest};
use crate::report::{Report, Spread};

/// How often each thing is measured.
const RUNS: usize = 5;
/// What is cheaper than this is done several times in a row.
const LONG_ENOUGH: Duration = Duration::from_millis(20);
/// How much more a line, a bind or a level may cost in something large than in something small.
const FLAT: f64 = 1.5;

pub(crate) fn run(report: &mut Report) {
    sizes(report);
    formatting(report);
    chains(report);
    nests(report);
    mistakes(report);
}

/// Programs of all sizes, each in a process of its own.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn sizes(report: &mut Report) {
    report.section("check of a program, processor time, median of 5 runs (lowest to highest)");
    // The sizes take turns, so that whatever else the machine does meets all of them.
    let mut sizes = [1_000, 10_000, 100_000, 1_000_000].map(|lines| (lines, Vec::new()));
    for _ in 0..RUNS {
        sizes.iter_mut().for_each(|(lines, runs)| runs.push(in_child(*lines)));
    }
    for (lines, runs) in &sizes {
        let lines = *lines;
        let times = |of: fn(&Measured) -> Duration| runs.iter().map(of).collect::<Vec<_>>();
        let check = Spread::of(times(|run| run.check));
        let judged = (lines == 100_000).then_some(Duration::from_secs(1));
        report.time_spread(&format!("check, {lines} lines"), check, judged);
        if judged.is_some() {
            report.time_spread("  by the clock", Spread::of(times(|run| run.clock)), judged);
        }
        let beside =
            |raw: fn(&Measured) -> Duration| runs.iter().map(|run| (run.check, raw(run))).collect::<Vec<_>>();
        let count = runs[0].lines;
        report.ratio_spread("  against parsing alone", count, &beside(|run| run.parse), None);
        report.ratio_spread("  against one pass over the bytes", count, &beside(|run| run.pass), None);
        let peak = runs.iter().map(|run| run.peak).max().unwrap_or_default();
        let text = format!(
            "{:.1} MiB, {} bytes per line of {}",
            peak as f64 / 1048576.0,
            peak / count as u64,
            runs[0].bytes / count
        );
        report.figure(&format!("  peak memory, {lines} lines"), &text, None);
    }
    let cost = |run: &Measured| run.check.as_secs_f64() / run.lines as f64;
    let [_, (_, usual), ..] = &sizes;
    for (lines, runs) in &sizes {
        let growth = middle(runs.iter().zip(usual).map(|(run, usual)| cost(run) / cost(usual)).collect());
        let cost = middle(runs.iter().map(cost).collect());
        let text = format!("{:.3} µs, {growth:.2} × that of 10000 lines", cost * 1e6);
        let target = (*lines > 10_000).then(|| (growth <= FLAT, format!("flat, ≤ {FLAT} ×")));
        report.figure(&format!("cost per line, {lines} lines"), &text, target);
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn formatting(report: &mut Report) {
    report.section("format, one core");
    let canonical = mgmt_syntax::format(&programs::realistic(100_000)).unwrap();
    let untidy = programs::untidy(&canonical);
    assert_eq!(mgmt_syntax::format(&untidy).unwrap(), canonical);
    for (what, text) in [("every line changes", &untidy), ("nothing changes", &canonical)] {
        let time = cost(|| mgmt_syntax::format(text), RUNS);
        let speed = |time: Duration| text.len() as f64 / 1e6 / time.as_secs_f64();
        let figures = format!(
            "{:.1} MB/s ({:.1} to {:.1})",
            speed(time.median),
            speed(time.highest),
            speed(time.lowest)
        );
        let target = Some((speed(time.median) >= 20.0, "≥ 20 MB/s".into()));
        report.figure(&format!("{:.1} MB, {what}", text.len() as f64 / 1e6), &figures, target);
    }
}

fn chains(report: &mut Report) {
    report.section("chains of binds, each made of the one before");
    for (what, kind) in [
        ("its number and one more", Chain::Numbers),
        ("a list of it", Chain::Lists),
        ("a struct with it in two fields", Chain::Pairs),
        ("a generic function of it", Chain::Generic),
        ("a function that calls it", Chain::Functions),
    ] {
        growth(report, what, "bind", (500, 5_000), |length| programs::chain(kind, length));
    }
    growth(report, "functions that call the one before twice", "function", (10, 30), programs::doubling);
    let files = files(programs::doubling_generic(30));
    assert!(!check(&files).is_right());
    let time = cost(|| check(&files), RUNS);
    let what = "30 functions, each with a result of twice the size: refused";
    report.time_spread(what, time, Some(Duration::from_millis(100)));
}

fn nests(report: &mut Report) {
    report.section("expressions inside of each other");
    for (what, kind) in [
        ("parentheses", Nest::Parentheses),
        ("lists", Nest::Lists),
        ("structs", Nest::Structs),
        ("functions that return a function", Nest::Functions),
        ("calls", Nest::Calls),
        ("branches", Nest::Branches),
        ("sums, 1 + 1 + 1", Nest::Sum),
        ("sums, 1 + (1 + (1", Nest::SumOfParentheses),
    ] {
        growth(report, what, "level", (200, 2_000), |depth| programs::nest(kind, depth));
    }
}

/// A page of mistakes should not take longer to write than the program without them.
fn mistakes(report: &mut Report) {
    report.section("mistakes");
    let right = programs::misspelt(2_000).replace("$sone", "$some");
    let wrong = programs::misspelt(2_000);
    let (right_files, wrong_files) = (files(right), files(wrong));
    assert!(!check(&wrong_files).is_right());
    let pairs: Vec<(Duration, Duration)> = (0..RUNS)
        .map(|_| (processor_time_of(|| check(&wrong_files)), processor_time_of(|| check(&right_files))))
        .collect();
    report.ratio_spread("2000 misspelt names of 2000, beside the right program", 8_000, &pairs, None);
}

/// How much more one of many costs than one of few.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn growth(
    report: &mut Report,
    what: &str,
    unit: &str,
    (few, many): (usize, usize),
    program: impl Fn(usize) -> String,
) {
    let [few_files, many_files] = [few, many].map(|count| files(program(count)));
    must_be_right(&check(&few_files));
    must_be_right(&check(&many_files));
    let each =
        |files: &Memory, count: usize| cost(|| check(files), 1).median.as_secs_f64() * 1e6 / count as f64;
    let pairs: Vec<(f64, f64)> =
        (0..RUNS).map(|_| (each(&few_files, few), each(&many_files, many))).collect();
    let growth = middle(pairs.iter().map(|(small, large)| large / small).collect());
    let small = middle(pairs.iter().map(|(small, _)| *small).collect());
    let large = middle(pairs.iter().map(|(_, large)| *large).collect());
    let text =
        format!("{large:.3} µs per {unit} of {many}, {small:.3} µs per {unit} of {few}, ratio {growth:.2}");
    report.figure(what, &text, Some((growth <= FLAT, format!("flat, ≤ {FLAT} ×"))));
}

/// What one check in a process of its own took.
struct Measured {
    lines: usize,
    bytes: usize,
    check: Duration,
    clock: Duration,
    parse: Duration,
    pass: Duration,
    peak: u64,
}

fn in_child(lines: usize) -> Measured {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--child", "check", &lines.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [lines, bytes, check, clock, parse, pass, peak] = numbers[..] else { panic!("got {text}") };
    let time = Duration::from_nanos;
    Measured {
        lines: usize::try_from(lines).unwrap(),
        bytes: usize::try_from(bytes).unwrap(),
        check: time(check),
        clock: time(clock),
        parse: time(parse),
        pass: time(pass),
        peak,
    }
}

/// The part that runs in a process of its own: checks a program of this many lines once, as the program itself does.
/// Prints its lines and bytes, nanoseconds of the check by the processor and by the clock, of parsing and of one pass
/// over the bytes, and the most memory that was resident up to the end of the check.
pub(crate) fn child(wanted: usize) {
    // What is set up once, however large the program, is set up.
    must_be_right(&check(&files(programs::realistic(100))));
    let text = programs::realistic(wanted);
    let (bytes, lines) = (text.len(), text.lines().count());
    let pass = processor_time_of(|| text.bytes().filter(|byte| *byte == b'\n').count());
    let files = files(text);
    let began = Instant::now();
    let check = processor_time_of(|| must_be_right(&check(&files)));
    let clock = began.elapsed();
    let peak = peak();
    drop(files);
    let text = programs::realistic(wanted);
    let parse = processor_time_of(|| mgmt_syntax::parse(&text));
    let nanos = |time: Duration| time.as_nanos();
    println!("{lines} {bytes} {} {} {} {} {peak}", nanos(check), nanos(clock), nanos(parse), nanos(pass));
}

/// The most memory that this process had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn files(text: String) -> Memory {
    Memory::from([("/main.mcl", text)])
}

fn check(files: &Memory) -> Checked {
    let environment = Environment {
        kinds: &mgmt_resources::KINDS,
        library: mgmt_funcs::library(),
        files,
        module_path: None,
        lints: true,
    };
    mgmt_lang::check(&Entry::File("/main.mcl".into()), &environment).unwrap()
}

fn must_be_right(checked: &Checked) {
    let first = checked.diagnostics.iter().find(|diagnostic| diagnostic.is_error());
    assert!(first.is_none(), "a program that is measured is wrong: {first:#?}");
}

/// What something costs, several times; what is cheap is done often enough to see.
fn cost<T>(work: impl Fn() -> T, runs: usize) -> Spread {
    let once = processor_time_of(&work);
    let times = u32::try_from(LONG_ENOUGH.as_nanos() / once.as_nanos().max(1)).unwrap_or(u32::MAX) + 1;
    let measure =
        || processor_time_of(|| (0..times).for_each(|_| drop(std::hint::black_box(work())))) / times;
    Spread::of((0..runs).map(|_| measure()).collect())
}

/// The median.
fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// What all threads of this process had of the processors for something, and for dropping it.
fn processor_time_of<T>(work: impl FnOnce() -> T) -> Duration {
    let before = processor_time();
    drop(std::hint::black_box(work()));
    processor_time() - before
}
