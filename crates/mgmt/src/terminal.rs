//! The one way to the terminal.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use mgmt_diagnostics::{Diagnostic, Renderer, Sarif, Severity, SourceMap};
use mgmt_telemetry::{ColorChoice, Filter, Format, Output, TerminalHints, colored, terminal_width};

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
    mistakes: Mistakes,
    /// JSON was asked for whatever the command prints.
    json_data: bool,
}

/// How mistakes are shown, to people or instead of that.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mistakes {
    /// With the lines that they are in.
    #[default]
    Full,
    /// Each on one line.
    Short,
    /// Not at all, because they have been shown before.
    Silent,
    /// Gathered, for [`Terminal::sarif`].
    // A lock, because a terminal is handed around by shared references. Nobody ever waits for it.
    Sarif(Arc<Mutex<Sarif>>),
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
            mistakes: Mistakes::Full,
            json_data: false,
        }
    }

    /// The same, with another way to show mistakes.
    pub(crate) fn mistakes(self, mistakes: Mistakes) -> Terminal {
        Terminal { mistakes, ..self }
    }

    /// Whether mistakes are not shown, because they have been before.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.mistakes, Mistakes::Silent)
    }

    /// The same, where whatever a command prints is JSON if it has such a form.
    pub(crate) fn json_data(self) -> Terminal {
        Terminal { json_data: true, ..self }
    }

    /// What a command prints in: the format that it was given, or JSON if that was asked for whatever it is, or its usual one.
    pub(crate) fn data_format<T>(&self, given: Option<T>, json: T, usual: T) -> T {
        given.unwrap_or(if self.json_data { json } else { usual })
    }

    /// The mistakes that were shown, as a document, if that is how they are wanted.
    pub(crate) fn sarif(&self) -> Option<String> {
        let Mistakes::Sarif(sarif) = &self.mistakes else { return None };
        let sarif = sarif.lock().unwrap_or_else(PoisonError::into_inner);
        Some(sarif.document("mgmt", crate::version::VERSION))
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
        self.diagnostic(&Diagnostic::warning(message), &SourceMap::default());
    }

    /// Says why the program ends, unless that has been said.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.message.is_empty() {
            return;
        }
        let diagnostic = Diagnostic { hints: failure.hints.clone(), ..Diagnostic::error(&*failure.message) };
        self.diagnostic(&diagnostic, &SourceMap::default());
    }

    /// Shows diagnostics about the texts of a map, and counts them.
    pub(crate) fn diagnostics<'a>(
        &self,
        diagnostics: impl IntoIterator<Item = &'a Diagnostic>,
        sources: &SourceMap,
    ) -> Tally {
        let mut tally = Tally::default();
        for diagnostic in diagnostics {
            match diagnostic.severity {
                Severity::Error => tally.errors += 1,
                Severity::Warning => tally.warnings += 1,
                Severity::Note => {}
            }
            self.diagnostic(diagnostic, sources);
        }
        tally
    }

    /// Shows a diagnostic about the texts of a map.
    pub(crate) fn diagnostic(&self, diagnostic: &Diagnostic, sources: &SourceMap) {
        let renderer = Renderer::new(sources);
        self.output.notice(&match (self.format, &self.mistakes) {
            (_, Mistakes::Silent) => return,
            (Format::Json, _) => renderer.json(diagnostic),
            (Format::Human, Mistakes::Short) => renderer.short(diagnostic),
            (Format::Human, Mistakes::Sarif(sarif)) => {
                return sarif.lock().unwrap_or_else(PoisonError::into_inner).add(diagnostic, sources);
            }
            (Format::Human, Mistakes::Full) => {
                let mut text = renderer.human(diagnostic, self.color, terminal_width());
                // What takes several lines is set apart from what follows.
                if !diagnostic.labels.is_empty() {
                    text.push('\n');
                }
                text
            }
        });
    }
}
