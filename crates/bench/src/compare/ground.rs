//! Where everything happens, and how a program is timed there.

use std::cell::RefCell;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::{Figure, Missing};

/// Files in one directory.
const PER_DIRECTORY: usize = 100;
/// How often everything is measured at least, and how often what takes little time.
const LEAST: usize = 3;
const MOST: usize = 5;
/// Whoever takes longer than this together has been measured often enough.
const ENOUGH: Duration = Duration::from_secs(10);
/// What takes longer than this is measured once: that it differs by a second shows nothing.
const ONCE: Duration = Duration::from_secs(60);

/// Directories, none of which is removed before everything is measured: a file system that looks through what was freed lately
/// makes files more slowly, and whoever comes next would pay for it.
pub(crate) struct Ground {
    kept: RefCell<Vec<tempfile::TempDir>>,
    /// How long one run of a tool may take.
    pub(crate) limit: Duration,
    /// Everything is done once, to try the harness.
    pub(crate) quick: bool,
}

impl Ground {
    pub(crate) fn new(limit: Duration, quick: bool) -> Ground {
        Ground { kept: RefCell::default(), limit, quick }
    }

    /// A new directory: not in memory, as hosts have disks.
    pub(crate) fn place(&self) -> PathBuf {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().to_owned();
        self.kept.borrow_mut().push(directory);
        path
    }

    /// How long a program takes from its start to its end, if it ends well and within the limit. If it does not end, it is
    /// killed with everything that it has started.
    pub(crate) fn timed(&self, command: &mut Command) -> Result<Duration, Missing> {
        let began = Instant::now();
        let mut child = command.process_group(0).spawn().map_err(|error| {
            println!("{command:?} cannot be started: {error}");
            Missing::Failed
        })?;
        let ended = ends_within(&child, self.limit);
        let took = began.elapsed();
        if !ended {
            println!("{command:?} did not end within {:?}", self.limit);
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        }
        let status = child.wait().map_err(|_| Missing::Failed)?;
        match (ended, status.success()) {
            (false, _) => Err(Missing::Endless),
            (true, true) => Ok(took),
            (true, false) => {
                println!("{command:?} ended with {status}");
                Err(Missing::Failed)
            }
        }
    }

    /// Measures as often as it takes. `most` is for what is judged, others are measured at least three times, and five if
    /// that takes little time.
    pub(crate) fn repeat<T>(
        &self,
        most: Option<usize>,
        mut run: impl FnMut() -> Result<T, Missing>,
    ) -> Result<Vec<T>, Missing> {
        let began = Instant::now();
        let mut all = Vec::new();
        loop {
            all.push(run()?);
            let spent = began.elapsed();
            let enough = match most {
                Some(most) => all.len() >= most,
                None => all.len() >= MOST || all.len() >= LEAST && spent > ENOUGH,
            };
            if enough || self.quick || all.len() == 1 && spent > ONCE {
                return Ok(all);
            }
        }
    }
}

fn ends_within(child: &Child, limit: Duration) -> bool {
    let handle = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left.try_into().unwrap())) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("cannot wait for a program: {error}"),
        }
    }
}

/// The median, if there is anything at all: nothing is not the same as no time.
pub(crate) fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

/// The median of all that was measured, or why there is none.
pub(crate) fn figure(times: Result<Vec<Duration>, Missing>) -> Figure {
    match times.map(median) {
        Ok(Some(time)) => Figure::Time(time),
        Ok(None) => Figure::None(Missing::Failed),
        Err(why) => Figure::None(why),
    }
}

pub(crate) fn paths(directory: &Path, count: usize) -> Vec<PathBuf> {
    let path = |number: usize| {
        let directory = directory.join(format!("d{}", number / PER_DIRECTORY));
        std::fs::create_dir_all(&directory).unwrap();
        directory.join(format!("f{number}"))
    };
    (0..count).map(path).collect()
}

/// A program that ends with the measurement.
pub(crate) struct Going(pub(crate) Child);

impl Going {
    pub(crate) fn is_there(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_none())
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        if !ends_within(&self.0, Duration::from_secs(30)) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// Whether something becomes so in time.
pub(crate) fn until(limit: Duration, pause: Duration, is_so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        std::thread::sleep(pause);
    }
    is_so()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(limit: u64) -> Ground {
        Ground::new(Duration::from_secs(limit), false)
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_what_it_has_started() {
        let ground = Ground::new(Duration::from_millis(200), false);
        let place = ground.place();
        let file = place.join("id");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display())]);
        // On a busy machine the shell may be killed before it has told of its child.
        while !file.exists() {
            assert_eq!(ground.timed(&mut shell), Err(Missing::Endless));
        }
        let id = std::fs::read_to_string(&file).unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
            // Whoever adopts it may take a while to hear of its end.
            stat.is_empty() || stat.contains(") Z ")
        };
        assert!(until(Duration::from_secs(60), Duration::from_millis(10), gone), "{id} is still there");
    }

    #[test]
    fn a_program_that_fails_has_no_time() {
        assert_eq!(ground(60).timed(&mut Command::new("/bin/false")), Err(Missing::Failed));
        assert_eq!(ground(60).timed(&mut Command::new("/no/such/program")), Err(Missing::Failed));
        assert!(ground(60).timed(&mut Command::new("/bin/true")).is_ok());
    }

    #[test]
    fn nothing_measured_is_no_time_at_all() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(figure(Ok(Vec::new())), Figure::None(Missing::Failed));
        assert_eq!(figure(Err(Missing::Endless)), Figure::None(Missing::Endless));
        let times = [3, 1, 2].map(Duration::from_secs).to_vec();
        assert_eq!(figure(Ok(times)), Figure::Time(Duration::from_secs(2)));
    }

    #[test]
    fn what_is_quick_is_measured_more_often_and_one_failure_is_enough() {
        assert_eq!(ground(1).repeat(None, || Ok(())).map(|all| all.len()), Ok(MOST));
        assert_eq!(ground(1).repeat(Some(15), || Ok(())).map(|all| all.len()), Ok(15));
        assert_eq!(Ground::new(ONCE, true).repeat(Some(15), || Ok(())).map(|all| all.len()), Ok(1));
        let mut left = 2;
        let failing = || {
            left -= 1;
            if left > 0 { Ok(()) } else { Err(Missing::NotDone) }
        };
        assert_eq!(ground(1).repeat(None, failing), Err(Missing::NotDone));
    }
}
