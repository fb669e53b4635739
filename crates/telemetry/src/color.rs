//! Whether to use colour.

use std::ffi::OsStr;

/// What was asked for on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// Where a terminal would show it and nobody asked otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the surroundings say about colour.
#[derive(Clone, Debug, Default)]
pub struct TerminalHints {
    /// The stream is a terminal.
    pub is_terminal: bool,
    /// `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `CLICOLOR_FORCE` is set to something other than nothing and `0`.
    pub force: bool,
    /// `CLICOLOR` is `0`.
    pub off: bool,
    /// The terminal is said to understand nothing: `TERM` is `dumb`.
    pub dumb: bool,
}

impl TerminalHints {
    /// Reads the environment of this process.
    pub fn from_environment(is_terminal: bool) -> TerminalHints {
        TerminalHints::read(is_terminal, |name| std::env::var_os(name))
    }

    fn read<V: AsRef<OsStr>>(is_terminal: bool, variable: impl Fn(&str) -> Option<V>) -> TerminalHints {
        let set = |name: &str| variable(name).is_some_and(|value| !value.as_ref().is_empty());
        let is = |name: &str, word: &str| variable(name).is_some_and(|value| value.as_ref() == word);
        TerminalHints {
            is_terminal,
            no_color: set("NO_COLOR"),
            force: set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0"),
            off: is("CLICOLOR", "0"),
            dumb: is("TERM", "dumb"),
        }
    }
}

/// Whether to use colour: the flag decides, then `NO_COLOR`, then `CLICOLOR_FORCE`, then `CLICOLOR`, then the stream.
pub fn colored(choice: ColorChoice, hints: &TerminalHints) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if hints.no_color => false,
        ColorChoice::Auto if hints.force => true,
        ColorChoice::Auto => hints.is_terminal && !hints.off && !hints.dumb,
    }
}

/// The width of the terminal behind standard error, if there is one.
pub fn terminal_width() -> Option<usize> {
    terminal_size().map(|(width, _)| width)
}

/// The width and the height of the terminal behind standard error, if there is one. A height that it does not tell is that of
/// the smallest.
pub fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).ok()?;
    let height = if size.ws_row == 0 { 24 } else { size.ws_row };
    (size.ws_col > 0).then(|| (usize::from(size.ws_col), usize::from(height)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(is_terminal: bool, variables: &[(&str, &str)]) -> bool {
        let hints = TerminalHints::read(is_terminal, |name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
        });
        colored(ColorChoice::Auto, &hints)
    }

    #[test]
    fn only_a_terminal_gets_colour_by_default() {
        assert!(auto(true, &[("TERM", "xterm")]));
        assert!(!auto(false, &[("TERM", "xterm")]));
        assert!(!auto(true, &[("TERM", "dumb")]));
    }

    #[test]
    fn variables_decide_in_their_order() {
        assert!(!auto(true, &[("NO_COLOR", "1")]));
        assert!(auto(true, &[("NO_COLOR", "")]));
        assert!(!auto(true, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
        assert!(auto(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!auto(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!auto(true, &[("CLICOLOR", "0")]));
        assert!(!auto(false, &[("CLICOLOR", "1")]));
    }

    #[test]
    fn the_flag_wins_over_every_variable() {
        let hints = TerminalHints { no_color: true, ..TerminalHints::default() };
        assert!(colored(ColorChoice::Always, &hints));
        let hints = TerminalHints { force: true, is_terminal: true, ..TerminalHints::default() };
        assert!(!colored(ColorChoice::Never, &hints));
    }
}
