//! What is told of a panic.
//!
//! A panic is a mistake of ours, and its message may have anything in it, also what nobody may see. The usual way tells all of it, as it
//! is, on standard error. Here it goes the way of everything else that is told: as an entry of the log or as a
//! diagnostic, for people or for programs, on one line, and without values ([`panic_words`]).

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use mgmt_diagnostics::{Diagnostic, SourceMap};
use mgmt_value::{is_panic_expected, panic_words};

use crate::terminal::Terminal;

const REPORT: &str =
    "this is a mistake in mgmt itself: please report it, with these lines and what was declared";

/// Tells of panics through this terminal from now on.
pub(crate) fn tell(terminal: &Terminal) {
    let terminal = terminal.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let message = message(panic);
        if is_panic_expected() {
            // Whoever catches it says what is damaged.
            tracing::debug!("{message}");
            return;
        }
        // Whoever does not want to see the log is told all the same.
        if tracing::enabled!(tracing::Level::ERROR) {
            tracing::error!(hint = REPORT, "{message}");
        } else {
            terminal.diagnostic(&Diagnostic::error(message).hint(REPORT), &SourceMap::default());
        }
        // Names of functions and places in the source, if the environment asks for them.
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            terminal.output().notice(&format!("{trace}\n"));
        }
    }));
}

fn message(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    format!("the thread {thread} panicked{place}: {}", panic_words(panic.payload()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use std::process::Command;

    use mgmt_telemetry::{ColorChoice, Filter, Format};
    use mgmt_value::{Secret, Str};

    use super::*;

    /// In every value that nobody may see.
    const CANARY: &str = "c4n4ry";
    /// Set in a process that panics; says how it speaks.
    const MARK: &str = "MGMT_TEST_PANICS";

    /// Panics in every way in which a value can get into a message.
    fn panic_with_secrets() {
        let text = || format!("é {CANARY}\u{1b}[31m\nerror: forged");
        let ways: [Box<dyn FnOnce() + Send>; 8] = [
            Box::new(|| panic!("words of the source")),
            Box::new(move || drop(text()[1..].to_owned())),
            Box::new(move || std::hint::black_box(Err::<(), String>(text())).unwrap()),
            Box::new(move || assert_eq!(text(), "")),
            Box::new(move || panic!("{}", text())),
            Box::new(move || panic!("{:?} {:?}", text(), Secret::<Str>::from(CANARY))),
            Box::new(move || std::panic::panic_any(text())),
            Box::new(move || std::panic::panic_any(text().into_bytes())),
        ];
        for way in ways {
            // The name of a thread is nobody's secret, and may not forge a line either.
            std::thread::Builder::new().name("worker\u{1b}".into()).spawn(way).unwrap().join().unwrap_err();
        }
    }

    #[test]
    fn an_expected_panic_is_not_told() {
        if std::env::var(MARK).is_ok() {
            let terminal = Terminal::new(Format::Human, ColorChoice::Never);
            terminal.start_log("info".parse::<Filter>().unwrap());
            tell(&terminal);
            assert_eq!(mgmt_value::catch_expected_panic(|| panic!("damaged")), None::<u8>);
            assert!(std::panic::catch_unwind(|| panic!("unexpected")).is_err());
            return;
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "panics::tests::an_expected_panic_is_not_told", "--nocapture"])
            .env(MARK, "human")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("unexpected") && !said.contains("damaged"), "{said}");
    }

    #[test]
    fn no_panic_tells_a_value_or_moves_the_cursor() {
        if let Ok(how) = std::env::var(MARK) {
            let format = if how.contains("json") { Format::Json } else { Format::Human };
            let terminal = Terminal::new(format, ColorChoice::Never);
            if how.contains("log") {
                terminal.start_log("info".parse::<Filter>().unwrap());
            }
            tell(&terminal);
            return panic_with_secrets();
        }
        for how in ["human", "json", "human log", "json log"] {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "panics::tests::no_panic_tells_a_value_or_moves_the_cursor", "--nocapture"])
                .env(MARK, how)
                .env_remove("RUST_BACKTRACE")
                .output()
                .unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{how}: {said}");
            assert_eq!(said.matches("panicked at ").count(), 8, "{how}: {said}");
            assert_eq!(said.matches("panics.rs:").count(), 8, "{how}: {said}");
            assert!(said.contains("words of the source") && said.contains("please report it"), "{said}");
            assert!(!said.contains(CANARY) && !said.contains("forged"), "{how}: {said}");
            assert!(!said.chars().any(|character| character.is_control() && character != '\n'), "{said:?}");
            let lines = said.lines().filter(|line| !line.is_empty());
            if how.contains("json") {
                assert!(
                    lines.clone().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
                    "{said}"
                );
            }
        }
    }
}
