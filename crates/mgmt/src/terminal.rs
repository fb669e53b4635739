//! The one way to the terminal.

use std::io::IsTerminal;

use mgmt_telemetry::{
    ColorChoice, Diagnostic, Filter, Format, Lines, Output, Severity, TerminalHints, colored, terminal_width,
};

use crate::failure::Failure;

/// Where words go and how they look.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    output: Output,
    format: Format,
    /// Standard error takes colour.
    color: bool,
    /// Standard error is a terminal whose cursor can be moved, and people read it.
    is_live: bool,
    /// Standard output takes colour.
    data_color: bool,
}

/// How many diagnostics were shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
}

impl Terminal {
    pub(crate) fn new(format: Format, choice: ColorChoice) -> Terminal {
        let hints = |is_terminal| TerminalHints::from_environment(is_terminal);
        let notices = hints(std::io::stderr().is_terminal());
        Terminal {
            output: Output::standard(),
            format,
            color: colored(choice, &notices),
            is_live: format == Format::Human && notices.is_terminal && !notices.dumb,
            data_color: colored(choice, &hints(std::io::stdout().is_terminal())),
        }
    }

    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Whether data may be coloured.
    pub(crate) fn data_color(&self) -> bool {
        self.data_color
    }

    /// Whether everything else may be.
    pub(crate) fn color(&self) -> bool {
        self.color
    }

    /// Whether lines may be drawn again and again below the log.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Starts to show log lines.
    pub(crate) fn start_log(&self, filter: Filter) {
        mgmt_telemetry::start(mgmt_telemetry::Settings {
            output: self.output.clone(),
            format: self.format,
            color: self.color,
            filter,
        });
    }

    /// Prints what the command was asked for.
    pub(crate) fn data(&self, text: &str) {
        self.output.data(text);
    }

    /// Prints a warning.
    pub(crate) fn warning(&self, message: &str) {
        self.diagnostic(&Diagnostic {
            severity: Severity::Warning,
            message: message.into(),
            ..Diagnostic::default()
        });
    }

    /// Says why the program ends, unless that has been said.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.message.is_empty() {
            return;
        }
        self.diagnostic(&Diagnostic {
            message: failure.message.as_str().into(),
            hints: failure.hints.iter().map(|hint| hint.as_str().into()).collect(),
            ..Diagnostic::default()
        });
    }

    /// Shows diagnostics, and counts them.
    pub(crate) fn diagnostics<'a>(&self, diagnostics: impl IntoIterator<Item = Diagnostic<'a>>) -> Tally {
        let mut lines = Lines::default();
        let mut tally = Tally::default();
        for diagnostic in diagnostics {
            match diagnostic.severity {
                Severity::Error => tally.errors += 1,
                Severity::Warning => tally.warnings += 1,
                Severity::Note => {}
            }
            self.show(&diagnostic, &mut lines);
        }
        tally
    }

    /// Shows a diagnostic. Of several about one file, show all at once.
    pub(crate) fn diagnostic(&self, diagnostic: &Diagnostic<'_>) {
        self.show(diagnostic, &mut Lines::default());
    }

    fn show<'a>(&self, diagnostic: &Diagnostic<'a>, lines: &mut Lines<'a>) {
        self.output.notice(&match self.format {
            Format::Json => diagnostic.json(lines),
            Format::Human => {
                let mut text = diagnostic.human(lines, self.color, terminal_width());
                // What takes several lines is set apart from what follows.
                if diagnostic.source.is_some() {
                    text.push('\n');
                }
                text
            }
        });
    }
}
