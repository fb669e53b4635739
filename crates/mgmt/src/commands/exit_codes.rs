//! The exit codes: the one table, and the rules that choose from it.

use std::fmt::Write as _;

/// All is well.
pub(crate) const OK: u8 = 0;
/// The run failed, or a checked file is not right.
pub(crate) const FAILED: u8 = 1;
/// Two things that were compared are not the same.
pub(crate) const DIFFERENT: u8 = 1;
/// The command line or the configuration is wrong, or a file to check could not be read.
pub(crate) const USAGE: u8 = 2;
/// With `--detailed-exitcode`: something was changed.
pub(crate) const CHANGED: u8 = 2;
/// `status`: mgmt is not running.
pub(crate) const NOT_RUNNING: u8 = 3;
/// With `--detailed-exitcode`: something failed.
pub(crate) const FAILURES: u8 = 4;
/// Stopped by SIGINT, not gracefully.
pub(crate) const INTERRUPTED: u8 = 130;
/// Stopped by SIGTERM, not gracefully.
pub(crate) const TERMINATED: u8 = 143;

/// A row of the table.
pub(crate) struct Row {
    pub(crate) code: &'static str,
    pub(crate) when: &'static str,
}

/// The table. These meanings never change.
pub(crate) const TABLE: &[Row] = &[
    Row {
        code: "0",
        when: "All is well: a clean end, one ^C or SIGTERM that was obeyed gracefully (whatever the state of the \
               resources: `--detailed-exitcode` tells them apart), the graph converged and `--converged-exit` was given \
               (with `--noop` also if changes are pending), or help and the like were printed.",
    },
    Row {
        code: "1",
        when: "The run failed: `--max-runtime` is over; `--converged-exit` was given and the graph came to rest while a \
               resource is failed, retrying, blocked, flapping or held back by a `limit` of 0, or while the program is stale, waiting or invalid or the newest \
               deploy is refused; a host of `--remote` has failed or was lost; another instance uses the same prefix; the \
               prefix cannot be used. `status`: a host has not converged or is lost, or the store is degraded. `check`: a \
               program or a graph has errors, or has warnings with `--deny-warnings`. `fmt`: a file has syntax errors or, \
               with `--check` or `--diff`, would change. `repl`: a line of standard input was wrong. `graph`: a value \
               of the program has failed or is not there in time. `graph --settle`: a resource failed. `diff`: there is a difference. `plan`: a resource will fail. `apply`: the host has \
               changed since the plan was made. `why`: nothing is known.",
    },
    Row {
        code: "2",
        when: "The command line is wrong, or the graph given to `run`, `graph` or `diff` has errors. `check` and \
               `fmt`: a file could not be read or written. `plan --detailed-exitcode`: there is something to change.",
    },
    Row { code: "3", when: "`status`, `retry`: mgmt is not running." },
    Row { code: "1 to 125", when: "An `exit` resource ended the program with that code." },
    Row { code: "130", when: "Stopped by SIGINT (^C), and what was running had to be cancelled." },
    Row { code: "143", when: "Stopped by SIGTERM, and what was running had to be cancelled." },
];

/// The table of `run --detailed-exitcode`, which replaces 0 and 1 at a clean end.
pub(crate) const DETAILED: &[Row] = &[
    Row { code: "0", when: "Nothing was changed and nothing failed. What `print` writes is not a change." },
    Row { code: "2", when: "Something was changed, or would have been with `--noop`." },
    Row {
        code: "4",
        when: "At the end, the last attempt of a resource had failed, or the program or deploy was outdated; or the run ended at \
               rest, and a resource was blocked, flapping or held back by a `limit` of 0.",
    },
    Row { code: "6", when: "Both." },
];

/// Why `run` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The graph converged and that was to be the end.
    Converged,
    /// The graph came to rest with failed resources, and that was to be the end.
    Quiet,
    /// An `exit` resource asked for it.
    Requested(u8),
    /// The time was over.
    MaxRuntime,
    /// A signal came, and everything came to its end by itself.
    Graceful,
    /// SIGINT came, and things had to be cancelled.
    Interrupted,
    /// SIGTERM came, and things had to be cancelled.
    Terminated,
    /// The engine ended by itself, which it never should.
    Broken,
}

/// The code for an ending, where so many resources were changed and so many are failing in the end.
pub(crate) fn of(ending: Ending, detailed: bool, changed: usize, failed: usize) -> u8 {
    match ending {
        Ending::Requested(code) => code,
        Ending::MaxRuntime | Ending::Broken => FAILED,
        Ending::Quiet if detailed => (if changed > 0 { CHANGED } else { OK }) | FAILURES,
        Ending::Quiet => FAILED,
        Ending::Interrupted => INTERRUPTED,
        Ending::Terminated => TERMINATED,
        Ending::Converged | Ending::Graceful if detailed => {
            (if changed > 0 { CHANGED } else { OK }) | (if failed > 0 { FAILURES } else { OK })
        }
        Ending::Converged if failed > 0 => FAILED,
        Ending::Converged | Ending::Graceful => OK,
    }
}

/// The tables for people.
pub(crate) fn text() -> String {
    let mut text = String::from("Exit codes of mgmt\n\n");
    rows(&mut text, TABLE);
    text.push_str("\nWith `run --detailed-exitcode`, a clean end gives instead\n\n");
    rows(&mut text, DETAILED);
    text
}

fn rows(text: &mut String, table: &[Row]) {
    for row in table {
        let when = super::help::wrap(row.when, 80).replace('\n', "\n            ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:9} {when}", row.code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_failed_matter_only_when_the_run_ended_by_converging() {
        assert_eq!(of(Ending::Converged, false, 3, 0), 0);
        assert_eq!(of(Ending::Converged, false, 3, 1), 1);
        assert_eq!(of(Ending::Quiet, false, 3, 0), 1);
        assert_eq!(of(Ending::Quiet, true, 3, 1), 6);
        assert_eq!(of(Ending::Graceful, false, 3, 1), 0);
        assert_eq!(of(Ending::MaxRuntime, false, 0, 0), 1);
        assert_eq!(of(Ending::Requested(42), false, 0, 1), 42);
        assert_eq!(of(Ending::Broken, true, 0, 0), 1);
    }

    #[test]
    fn detailed_codes_tell_changes_and_failures_apart() {
        for (changed, failed, code) in [(0, 0, 0), (5, 0, 2), (0, 5, 4), (1, 1, 6)] {
            assert_eq!(of(Ending::Converged, true, changed, failed), code);
            assert_eq!(of(Ending::Graceful, true, changed, failed), code);
        }
        assert_eq!(of(Ending::Terminated, true, 1, 1), 143);
        assert_eq!(of(Ending::Interrupted, true, 1, 1), 130);
    }
}
