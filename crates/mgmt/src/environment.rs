//! Every environment variable that the program reads, in one place. An empty variable counts as unset.

use std::ffi::OsString;

/// A variable and what it means.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
}

impl Variable {
    /// Its value, unless it is unset or empty.
    pub(crate) fn get(&self) -> Option<OsString> {
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }

    /// Its value as text. What is not UTF-8 is shown with replacement characters, and will hardly parse.
    pub(crate) fn text(&self) -> Option<String> {
        self.get().map(|value| value.to_string_lossy().into_owned())
    }
}

macro_rules! variables {
    ($($constant:ident, $name:literal, $meaning:literal;)*) => {
        $(pub(crate) const $constant: Variable = Variable { name: $name, meaning: $meaning };)*

        /// All of them, in the order of the reference page.
        pub(crate) const ALL: &[Variable] = &[$($constant),*];
    };
}

variables! {
    LOG, "MGMT_LOG", "Which log lines are shown, as for `--log`.";
    NO_PROGRESS, "MGMT_NO_PROGRESS",
        "Anything: a terminal shows lines of the log alone, not how far the work is, as for `run --no-progress`.";
    PREFIX, "MGMT_PREFIX", "The working directory, as for `run --prefix`.";
    MODULE_PATH, "MGMT_MODULE_PATH", "Where downloaded modules are kept, as for `--module-path`.";
    CONVERGER_TIMEOUT, "MGMT_CONVERGER_TIMEOUT",
        "Seconds without work that count as converged, as for `run --converger-timeout`.";
    MAX_RUNTIME, "MGMT_MAX_RUNTIME", "Seconds after which the program ends, as for `run --max-runtime`.";
    CONVERGED_TIMEOUT, "MGMT_CONVERGED_TIMEOUT",
        "Historic: `MGMT_CONVERGER_TIMEOUT` together with `--converged-exit`. Works, with a warning.";
    SEEDS, "MGMT_SEEDS", "Servers of the store that hosts share, as for `--seeds`; separated by commas.";
    SIGN_KEY, "MGMT_SIGN_KEY", "The private key that deploys are signed with, as for `--sign-key`.";
    DEPLOY_KEY, "MGMT_DEPLOY_KEY", "A file of public keys: only deploys that are signed with one are run, as for `--deploy-key`.";
    SSH_PRIV_ID_RSA, "MGMT_SSH_PRIV_ID_RSA", "The private key to log in to other hosts with, as for `--ssh-id`.";
    CCONNS, "MGMT_CCONNS", "How many hosts are connected to at the same time, as for `run --cconns`.";
    CLIENT_URLS, "MGMT_CLIENT_URLS", "Where a server listens for clients, as for `run --client-urls`.";
    SERVER_URLS, "MGMT_SERVER_URLS", "Where a server listens for others, as for `run --server-urls`.";
    ADVERTISE_CLIENT_URLS, "MGMT_ADVERTISE_CLIENT_URLS",
        "Where clients reach a server, as for `run --advertise-client-urls`.";
    ADVERTISE_SERVER_URLS, "MGMT_ADVERTISE_SERVER_URLS",
        "Where others reach a server, as for `run --advertise-server-urls`.";
    NO_NETWORK, "MGMT_NO_NETWORK", "No effect: no port is opened unless a flag asks for it.";
    IDEAL_CLUSTER_SIZE, "MGMT_IDEAL_CLUSTER_SIZE",
        "How many hosts serve the store, as for `run --ideal-cluster-size`.";
    CLUSTER_PACE, "MGMT_CLUSTER_PACE",
        "`quick`: a host of a cluster that is away for two seconds is gone. For tests on one machine.";
    CLUSTER_QUOTA, "MGMT_CLUSTER_QUOTA",
        "How many bytes the data of a server of the cluster may take. 2 GiB without it.";
    READ_LIMIT, "MGMT_READ_LIMIT",
        "How many bytes a function such as `os.readfile` reads from one file at most. 16 MiB without it.";
    PPROF, "MGMT_PPROF", "No effect in this version: the address of a profiling server.";
    PPROF_PATH, "MGMT_PPROF_PATH", "No effect in this version: where to write a profile.";
    STATE_DIRECTORY, "STATE_DIRECTORY",
        "The working directory when neither `--prefix` nor `MGMT_PREFIX` says otherwise; set by the service \
         manager. Of a list separated by colons, the first is taken.";
    NOTIFY_SOCKET, "NOTIFY_SOCKET", "Where the service manager is told how `run` is doing; set by the service manager.";
    WATCHDOG_USEC, "WATCHDOG_USEC",
        "Microseconds in which `run` has to tell the service manager that it is alive; set by the service manager.";
    WATCHDOG_PID, "WATCHDOG_PID", "The process that `WATCHDOG_USEC` is for; set by the service manager.";
    XDG_CACHE_HOME, "XDG_CACHE_HOME", "Where users other than root have their working directory: `mgmt` in it.";
    XDG_STATE_HOME, "XDG_STATE_HOME", "Where `repl` keeps what was typed: `mgmt/repl-history` in it.";
    HOME, "HOME",
        "Users other than root have their working directory in `.cache/mgmt` in it; `repl` keeps what was typed in \
         `.local/state/mgmt`.";
    TERM, "TERM", "`dumb`: `repl` takes lines as they come, without an editor; `run` shows lines of the log alone.";
    TMPDIR, "TMPDIR", "Where a temporary working directory is made.";
    SUDO_UID, "SUDO_UID", "Who owns the file of `run --graphviz`, and runs its filter.";
    SUDO_GID, "SUDO_GID", "The group of the file of `run --graphviz`.";
    NO_COLOR, "NO_COLOR", "No colour, unless `--color` asks for it.";
    CLICOLOR, "CLICOLOR", "`0`: no colour.";
    CLICOLOR_FORCE, "CLICOLOR_FORCE", "Anything but `0`: colour even where the output is no terminal.";
    TZ, "TZ", "The time zone of the times in log lines.";
}

/// The table for people.
pub(crate) fn table() -> String {
    let width = ALL.iter().map(|variable| variable.name.len()).max().unwrap_or_default();
    ALL.iter().map(|variable| format!("  {:width$}  {}\n", variable.name, variable.meaning)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_declared_once_and_explained_in_sentences() {
        for (at, variable) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.name != variable.name), "{}", variable.name);
            assert!(variable.meaning.ends_with('.'), "{}", variable.name);
        }
    }
}
