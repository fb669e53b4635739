//! Every target, for a moment: its corpus, and as many inputs made from it as there is time for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::{Fuzzer, Target};

/// How to run, as `cargo xtask fuzz` says it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For each target.
    pub time: Duration,
    /// Where to begin.
    pub seed: u64,
    /// The only target, or all.
    pub target: Option<String>,
    /// An input that takes longer than this hangs.
    pub patience: Duration,
    /// Where the corpora are, a directory for each target.
    pub corpus: PathBuf,
    /// Where the input is that is being tried.
    pub trying: PathBuf,
}

impl Settings {
    /// What `FUZZ_SECONDS`, `FUZZ_TARGET` and `MGMT_SEED` say: a second, all and one unless they do.
    #[must_use]
    pub fn from_environment(corpus: PathBuf) -> Settings {
        let number = |variable: &str, otherwise: u64| {
            std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
        };
        Settings {
            time: Duration::from_secs(number("FUZZ_SECONDS", 1)),
            seed: number("MGMT_SEED", 1),
            target: std::env::var("FUZZ_TARGET").ok().filter(|name| !name.is_empty()),
            patience: Duration::from_secs(60),
            corpus,
            trying: std::env::temp_dir().join("mgmt-fuzz"),
        }
    }
}

/// Runs these targets. Gives a line for each, or the first thing that went wrong, with the input in the corpus.
///
/// # Errors
///
/// A target panics, or its corpus is empty or cannot be read.
pub fn run(targets: &[Target], settings: &Settings) -> Result<Vec<String>, String> {
    // It may be one of other tests, which share the corpora.
    if let Some(name) = settings.target.as_ref().filter(|name| !settings.corpus.join(name).is_dir()) {
        return Err(format!("there is no target {name}"));
    }
    let is_chosen = |target: &&Target| settings.target.as_ref().is_none_or(|name| target.name == name);
    targets.iter().filter(is_chosen).map(|target| run_one(target, settings)).collect()
}

fn run_one(target: &Target, settings: &Settings) -> Result<String, String> {
    let name = target.name;
    let place = settings.corpus.join(name);
    adopt(name, &place, settings)?;
    let corpus = corpus(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    if corpus.is_empty() {
        return Err(format!("{name}: nothing in its corpus"));
    }
    let trial = Trial::new(name, settings)?;
    for (path, input) in &corpus {
        if !trial.passes(target, input) {
            return Err(format!("{} makes {name} panic", path.display()));
        }
    }
    let (until, mut slowest, mut count) = (Instant::now() + settings.time, Duration::ZERO, 0_u64);
    for input in Fuzzer::new(corpus.into_iter().map(|(_, input)| input).collect(), settings.seed) {
        let began = Instant::now();
        if !trial.passes(target, &input) {
            let path = place.join(format!("found-{}-{count}", settings.seed));
            std::fs::write(&path, &input).map_err(|error| format!("{}: {error}", path.display()))?;
            return Err(format!(
                "{name}: input {count} of seed {} makes it panic; it is kept as {}",
                settings.seed,
                path.display()
            ));
        }
        slowest = slowest.max(began.elapsed());
        count += 1;
        if Instant::now() >= until {
            break;
        }
    }
    Ok(format!("{name:<14} {count:>9} inputs, the slowest took {slowest:?}"))
}

fn corpus(place: &Path) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(place)? {
        paths.push(entry?.path());
    }
    paths.sort();
    paths.into_iter().map(|path| Ok((path.clone(), std::fs::read(&path)?))).collect()
}

/// Takes into the corpus what an earlier run was trying when it ended without a word: a stack that overflows and an input that
/// hangs leave nobody who could.
fn adopt(name: &str, place: &Path, settings: &Settings) -> Result<(), String> {
    let Ok(entries) = std::fs::read_dir(&settings.trying) else { return Ok(()) };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some((of, process)) = path.file_name().and_then(|name| name.to_str()?.split_once('.')) else {
            continue;
        };
        if of != name || Path::new("/proc").join(process).exists() {
            continue;
        }
        let kept = place.join(format!("found-ended-{process}"));
        let taken = std::fs::copy(&path, &kept).and_then(|_| std::fs::remove_file(&path));
        taken.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Inputs that are tried, each of which lies in a file while it is.
struct Trial {
    file: File,
    path: PathBuf,
    /// When the present one began, in milliseconds since `start` and one more; 0 for none.
    since: Arc<AtomicU64>,
    start: Instant,
}

impl Trial {
    fn new(name: &str, settings: &Settings) -> Result<Trial, String> {
        let path = settings.trying.join(format!("{name}.{}", std::process::id()));
        let made = std::fs::create_dir_all(&settings.trying).and_then(|()| File::create(&path));
        let file = made.map_err(|error| format!("{}: {error}", path.display()))?;
        let (since, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let (watched, place, patience) = (Arc::downgrade(&since), path.clone(), settings.patience);
        std::thread::spawn(move || watch(&watched, start, patience, &place));
        Ok(Trial { file, path, since, start })
    }

    /// Whether a target does not panic.
    fn passes(&self, target: &Target, input: &[u8]) -> bool {
        // Without the file all is tried the same; only what ends the process would not be kept.
        let _ = self.file.set_len(0).and_then(|()| self.file.write_all_at(input, 0));
        self.since.store(milliseconds(self.start) + 1, Ordering::Relaxed);
        let passes = catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok();
        self.since.store(0, Ordering::Relaxed);
        passes
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Ends the process when an input takes too long. The file with it stays.
fn watch(since: &Weak<AtomicU64>, start: Instant, patience: Duration, path: &Path) {
    while let Some(began) = since.upgrade().map(|since| since.load(Ordering::Relaxed)) {
        let took = Duration::from_millis(milliseconds(start).saturating_sub(began.saturating_sub(1)));
        if began > 0 && took > patience {
            #[expect(clippy::print_stderr, reason = "nobody is left who could tell")]
            {
                eprintln!("it hangs with {}, which the next run takes into the corpus", path.display());
            }
            std::process::abort();
        }
        std::thread::sleep(Duration::from_millis(100).min(patience / 4));
    }
}
