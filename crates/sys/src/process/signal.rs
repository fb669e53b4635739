//! Signals by name.

use std::fmt;

/// A signal with a name, such as `SIGTERM`.
///
/// Only the full upper-case spelling is accepted from users; [`Signal::parse`] suggests it when another
/// spelling was written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signal(rustix::process::Signal);

impl Signal {
    /// Asks a program to end; it may clean up first.
    pub const TERM: Signal = Signal(rustix::process::Signal::TERM);
    /// Ends a program at once; it cannot be caught.
    pub const KILL: Signal = Signal(rustix::process::Signal::KILL);
    /// What the interrupt key of a terminal sends.
    pub const INT: Signal = Signal(rustix::process::Signal::INT);
    /// Asks many daemons to read their configuration again.
    pub const HUP: Signal = Signal(rustix::process::Signal::HUP);

    /// Reads a full name such as `SIGTERM`.
    pub fn parse(text: &str) -> Result<Signal, UnknownSignal> {
        if let Some(signal) = Signal::by_name(text) {
            return Ok(signal);
        }
        let upper = text.trim().to_ascii_uppercase();
        let suggestion = [upper.clone(), format!("SIG{upper}")]
            .into_iter()
            .find_map(|guess| Signal::by_name(&guess))
            .or_else(|| upper.parse().ok().and_then(Signal::from_raw))
            .map(Signal::name);
        Err(UnknownSignal { given: text.to_owned(), suggestion })
    }

    /// The signal with this number, if it has a name.
    pub fn from_raw(number: i32) -> Option<Signal> {
        NAMES.iter().find(|(_, signal)| signal.as_raw() == number).map(|&(_, signal)| Signal(signal))
    }

    /// The number the kernel uses.
    pub fn as_raw(self) -> i32 {
        self.0.as_raw()
    }

    /// The full name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|&&(_, signal)| signal == self.0).map_or("unnamed signal", |&(name, _)| name)
    }

    pub(super) fn rustix(self) -> rustix::process::Signal {
        self.0
    }

    fn by_name(text: &str) -> Option<Signal> {
        NAMES.iter().find(|&&(name, _)| name == text).map(|&(_, signal)| Signal(signal))
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Signal, UnknownSignal> {
        Signal::parse(text)
    }
}

/// A text that is not the name of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSignal {
    /// What was written.
    pub given: String,
    /// The name that was probably meant.
    pub suggestion: Option<&'static str>,
}

impl std::error::Error for UnknownSignal {}

impl fmt::Display for UnknownSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown signal {:?}", self.given)?;
        match self.suggestion {
            Some(name) => write!(f, ", write {name:?}"),
            None => f.write_str(", expected a full upper-case name such as \"SIGTERM\""),
        }
    }
}

const NAMES: &[(&str, rustix::process::Signal)] = {
    use rustix::process::Signal as S;
    &[
        ("SIGHUP", S::HUP),
        ("SIGINT", S::INT),
        ("SIGQUIT", S::QUIT),
        ("SIGILL", S::ILL),
        ("SIGTRAP", S::TRAP),
        ("SIGABRT", S::ABORT),
        ("SIGIOT", S::ABORT),
        ("SIGBUS", S::BUS),
        ("SIGFPE", S::FPE),
        ("SIGKILL", S::KILL),
        ("SIGUSR1", S::USR1),
        ("SIGSEGV", S::SEGV),
        ("SIGUSR2", S::USR2),
        ("SIGPIPE", S::PIPE),
        ("SIGALRM", S::ALARM),
        ("SIGTERM", S::TERM),
        ("SIGSTKFLT", S::STKFLT),
        ("SIGCHLD", S::CHILD),
        ("SIGCONT", S::CONT),
        ("SIGSTOP", S::STOP),
        ("SIGTSTP", S::TSTP),
        ("SIGTTIN", S::TTIN),
        ("SIGTTOU", S::TTOU),
        ("SIGURG", S::URG),
        ("SIGXCPU", S::XCPU),
        ("SIGXFSZ", S::XFSZ),
        ("SIGVTALRM", S::VTALARM),
        ("SIGPROF", S::PROF),
        ("SIGWINCH", S::WINCH),
        ("SIGIO", S::IO),
        ("SIGPOLL", S::IO),
        ("SIGPWR", S::POWER),
        ("SIGSYS", S::SYS),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_is_read_and_printed_back() {
        for &(name, _) in NAMES {
            let signal = Signal::parse(name).unwrap();
            assert_eq!(Signal::from_raw(signal.as_raw()), Some(signal));
            assert_eq!(Signal::parse(signal.name()), Ok(signal));
        }
        assert_eq!(Signal::parse("SIGTERM").unwrap().as_raw(), 15);
    }

    #[test]
    fn other_spellings_are_refused_with_the_right_one() {
        for wrong in ["TERM", "sigterm", "term", "SigTerm", "15"] {
            let error = Signal::parse(wrong).unwrap_err();
            assert_eq!(error.suggestion, Some("SIGTERM"), "{wrong}");
            assert!(error.to_string().contains("\"SIGTERM\""), "{error}");
        }
        let error = Signal::parse("SIGNOTHING").unwrap_err();
        assert_eq!(error.suggestion, None);
        assert!(error.to_string().contains("expected a full upper-case name"), "{error}");
    }
}
