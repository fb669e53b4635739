//! The pieces of work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::ground::{Going, Ground, figure, paths, until};
use super::inputs::Job;
use super::tools::Tool;
use super::{Figure, Missing, Table};

/// Whoever took longer than this for a tenth of the files is not asked for all of them.
const LONGEST: Duration = Duration::from_secs(10);
/// How often what is judged is measured.
const JUDGED: usize = 5;
/// Content of a file, in which nothing means anything to any tool.
pub(crate) const CONTENT: &str = "two hundred bytes of text that mean nothing at all to any of the tools which are compared here, neither quotes nor brackets nor dollars in it, so that all of them write the same into each of the files ok";

/// How long a tool takes for its program, if it ends well and what it was to do is done then.
fn once(
    ground: &Ground,
    tool: &Tool,
    program: &Path,
    is_done: impl Fn() -> bool,
) -> Result<Duration, Missing> {
    let took = tool.at_work(ground.timed(&mut tool.once(program))?)?;
    if is_done() {
        return Ok(took);
    }
    println!("{}: not everything is done", tool.name());
    Err(Missing::NotDone)
}

pub(crate) fn all_right(paths: &[PathBuf]) -> bool {
    // Old versions of CFEngine end the last line; nobody else does.
    let is_right = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .is_ok_and(|text| text == CONTENT || text.strip_suffix('\n') == Some(CONTENT))
    };
    paths.iter().all(is_right)
}

/// What the raw loop does for one file that is not there, and for one that may be right.
fn raw_create(path: &Path) {
    use std::io::Write;
    let temporary = path.with_extension("new");
    let mut file = std::fs::File::create_new(&temporary).unwrap();
    file.write_all(CONTENT.as_bytes()).unwrap();
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::rename(&temporary, path).unwrap();
}

fn raw_check(path: &Path) {
    use std::io::Read;
    let mut file = std::fs::File::open(path).unwrap();
    assert!(file.metadata().unwrap().is_file());
    let mut text = [0; 256];
    let length = file.read(&mut text).unwrap();
    assert_eq!(&text[..length], CONTENT.as_bytes());
}

fn clocked(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Cold and warm, once.
type Pair = (Duration, Duration);

/// N files, cold and warm.
pub(crate) fn files(ground: &Ground, tools: &[Tool], sizes: &[usize], table: &mut Table<'_>) {
    let (judged, others): (Vec<&Tool>, Vec<&Tool>) = tools.iter().partition(|tool| tool.is_judged());
    // What is judged comes first, before anybody has made the disk busy.
    for size in sizes {
        let works = works(*size);
        judged.iter().for_each(|tool| table.begin(&works[0], tool));
        for (tool, pairs) in judged.iter().zip(in_turn(ground, &judged, *size)) {
            put(table, &works, tool, pairs);
        }
    }
    let mut before: BTreeMap<&str, Result<Duration, Missing>> = BTreeMap::new();
    for size in sizes {
        for tool in &others {
            let works = works(*size);
            table.begin(&works[0], tool);
            let pairs = match before.get(tool.name()) {
                Some(Err(_)) => Err(Missing::NotAsked),
                Some(Ok(before)) if *before > LONGEST => Err(Missing::NotAsked),
                _ => ground.repeat(None, || cold_and_warm(ground, tool, *size)),
            };
            let cold = pairs.as_ref().map(|pairs| pairs.iter().map(|pair| pair.0).min().unwrap_or_default());
            before.insert(tool.name(), cold.map_err(|why| *why));
            put(table, &works, tool, pairs);
        }
    }
}

fn works(size: usize) -> [String; 2] {
    [format!("{size} files, cold"), format!("{size} files, warm")]
}

fn put(table: &mut Table<'_>, [cold, warm]: &[String; 2], tool: &Tool, pairs: Result<Vec<Pair>, Missing>) {
    let part = |which: fn(&Pair) -> Duration| {
        let times = pairs.as_ref().map(|pairs| pairs.iter().map(which).collect());
        figure(times.map_err(|why| *why))
    };
    table.put(cold, tool, part(|pair| pair.0));
    table.put(warm, tool, part(|pair| pair.1));
}

/// Several tools, round by round, and another one first each time.
fn in_turn(ground: &Ground, tools: &[&Tool], size: usize) -> Vec<Result<Vec<Pair>, Missing>> {
    let mut all: Vec<Result<Vec<Pair>, Missing>> = tools.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..if ground.quick { 1 } else { JUDGED } {
        for turn in 0..tools.len() {
            let at = (round + turn) % tools.len();
            let Ok(pairs) = &mut all[at] else { continue };
            match cold_and_warm(ground, tools[at], size) {
                Ok(pair) => pairs.push(pair),
                Err(why) => all[at] = Err(why),
            }
        }
    }
    all
}

fn cold_and_warm(ground: &Ground, tool: &Tool, size: usize) -> Result<Pair, Missing> {
    let home = ground.place();
    let paths = paths(&home.join("files"), size);
    let program = tool.write(&Job::Files { paths: &paths, content: CONTENT }, &home);
    let run = |raw: fn(&Path)| {
        // Whatever was written before is not written now.
        rustix::fs::sync();
        match tool {
            Tool::Raw => Ok(clocked(|| paths.iter().for_each(|path| raw(path)))),
            _ => once(ground, tool, &program, || all_right(&paths)),
        }
    };
    let cold = run(raw_create)?;
    // Whoever was not looked at has its files looked at, too: they are in memory then.
    assert!(all_right(&paths));
    Ok((cold, run(raw_check)?))
}

fn each(work: &str, tools: &[Tool], table: &mut Table<'_>, figure: impl Fn(&Tool) -> Figure) {
    for tool in tools {
        table.begin(work, tool);
        table.put(work, tool, figure(tool));
    }
}

/// One file, from the start of the program to its end.
pub(crate) fn one_file(ground: &Ground, tools: &[Tool], table: &mut Table<'_>) {
    each("one file, start to done", tools, table, |tool| {
        let run = || {
            let home = ground.place();
            let paths = paths(&home.join("files"), 1);
            let program = tool.write(&Job::Files { paths: &paths, content: CONTENT }, &home);
            match tool {
                Tool::Raw => Ok(clocked(|| raw_create(&paths[0]))),
                _ => once(ground, tool, &program, || all_right(&paths)),
            }
        };
        figure(ground.repeat(tool.is_judged().then_some(3 * JUDGED), run))
    });
}

/// From an edit of a managed file to its repair.
pub(crate) fn repair(ground: &Ground, tools: &[Tool], table: &mut Table<'_>) {
    each("edit to repaired", tools, table, |tool| {
        if matches!(tool, Tool::Raw) {
            return Figure::None(Missing::NoSuchThing);
        }
        let home = ground.place();
        let paths = paths(&home.join("files"), 1);
        let program = tool.write(&Job::Files { paths: &paths, content: CONTENT }, &home);
        if tool.follows_events() {
            let rounds = if ground.quick { 1 } else { 5 };
            return figure((0..rounds).try_fold(Vec::new(), |mut times, _| {
                times.extend(edits(ground, tool, &program, &paths)?);
                Ok(times)
            }));
        }
        let run = || {
            std::fs::write(&paths[0], "drift").unwrap();
            once(ground, tool, &program, || all_right(&paths))
        };
        figure(ground.repeat(None, run))
    });
}

/// Edits a managed file again and again while a tool runs; how long each repair took.
fn edits(ground: &Ground, tool: &Tool, program: &Path, paths: &[PathBuf]) -> Result<Vec<Duration>, Missing> {
    // Who is edited more often in a row is taken for undone by somebody else, and waits.
    const EDITS: usize = 10;
    /// Short enough to lose nothing, long enough to leave a processor to the tool.
    const PAUSE: Duration = Duration::from_micros(50);
    let (edits, rest) = if ground.quick { (2, 200) } else { (EDITS, 3_000) };
    // What was wrong before shows that somebody is at work.
    std::fs::write(&paths[0], "drift").unwrap();
    let mut command = tool.forever(program).ok_or(Missing::NoSuchThing)?;
    let _going = Going(command.spawn().map_err(|_| Missing::Failed)?);
    if !until(ground.limit, Duration::from_millis(10), || all_right(paths)) {
        return Err(Missing::NotDone);
    }
    std::thread::sleep(Duration::from_millis(rest));
    let edit = |_| {
        // Every edit meets somebody who is at rest.
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        std::fs::write(&paths[0], "drift").unwrap();
        let limit = ground.limit.min(Duration::from_secs(60));
        let is_right = until(limit, PAUSE, || all_right(paths));
        is_right.then(|| began.elapsed()).ok_or(Missing::NotDone)
    };
    (0..edits).map(edit).collect()
}

/// Commands, each after the one before.
pub(crate) fn chain(ground: &Ground, tools: &[Tool], table: &mut Table<'_>) {
    let commands = if ground.quick { 20 } else { 200 };
    each(&format!("{commands} commands in a chain"), tools, table, |tool| {
        let run = || {
            let home = ground.place();
            // Each in the one before: no command succeeds before the one that it comes after, and the last shows all.
            let inside = |above: &mut PathBuf, _| {
                above.push("d");
                Some(above.clone())
            };
            let directories: Vec<PathBuf> = (0..commands).scan(home.clone(), inside).collect();
            let is_done = || directories.iter().all(|directory| directory.is_dir());
            let program = tool.write(&Job::Chain(&directories), &home);
            let make = |directory: &PathBuf| {
                assert!(Command::new("/bin/mkdir").arg(directory).status().unwrap().success());
            };
            match tool {
                Tool::Raw => Ok(clocked(|| directories.iter().for_each(make))),
                _ => once(ground, tool, &program, is_done),
            }
        };
        figure(ground.repeat(tool.is_judged().then_some(JUDGED), run))
    });
}

/// Reading a program without running it.
pub(crate) fn checks(ground: &Ground, tools: &[Tool], sizes: &[usize], table: &mut Table<'_>) {
    for size in sizes {
        each(&format!("check of {size} resources"), tools, table, |tool| {
            let home = ground.place();
            let paths = paths(&home.join("files"), *size);
            let program = tool.write(&Job::Files { paths: &paths, content: CONTENT }, &home);
            let Some(mut command) = tool.check(&program) else {
                return Figure::None(Missing::NoSuchThing);
            };
            figure(ground.repeat(tool.is_judged().then_some(JUDGED), || ground.timed(&mut command)))
        });
    }
}
