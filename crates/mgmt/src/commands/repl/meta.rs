//! Commands: what is said to the program and not in the language.

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Type,
    Watch,
    Graph,
    Vars,
    Doc,
    Load,
    Reset,
    Help,
    Quit,
}

/// Each with its name, what follows it, and what it does.
const COMMANDS: &[(Command, &str, &str, &str)] = &[
    (Command::Type, ":type", "EXPRESSION", "the type of an expression"),
    (Command::Watch, ":watch", "EXPRESSION", "each value of an expression, as it changes, until Enter or ^C"),
    (Command::Graph, ":graph", "", "the graph of all resources so far; nothing of it ever runs"),
    (Command::Vars, ":vars", "", "what has been defined"),
    (Command::Doc, ":doc", "NAME", "what is known about a function, a module or a kind"),
    (Command::Load, ":load", "PATH", "start again from a program in a file or a directory"),
    (Command::Reset, ":reset", "", "start again from nothing"),
    (Command::Help, ":help", "", "this list"),
    (Command::Quit, ":quit", "", "the end, as ^D is"),
];

/// Words that other programs of this kind understand. None of them is a text of the language.
const WORDS: &[(&str, &str)] = &[("help", ":help"), ("quit", ":quit"), ("exit", ":quit")];

/// Whether a text is a command: no text of the language starts with a colon, or is one of a few words.
pub(super) fn is_command(text: &str) -> bool {
    text.trim_start().starts_with(':') || word(text).is_some()
}

/// The command that a word stands for.
pub(super) fn word(text: &str) -> Option<&'static str> {
    WORDS.iter().find(|(word, _)| *word == text.trim()).map(|(_, command)| *command)
}

/// Whether a text is the name of a function and nothing else.
pub(super) fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_./".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(is_part)
        && !matches!(text, "true" | "false")
}

/// The command of a name, or of a start that only one name has.
pub(super) fn find(word: &str) -> Option<Command> {
    let word = word.trim();
    let mut found = COMMANDS.iter().filter(|(_, name, _, _)| name.starts_with(word) && word.len() > 1);
    match (found.next(), found.next()) {
        (Some((command, ..)), None) => Some(*command),
        _ => None,
    }
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(_, name, _, _)| *name)
}

/// What a command wants to be told, if it wants anything.
pub(super) fn argument(command: Command) -> (&'static str, &'static str) {
    let row = COMMANDS.iter().find(|(other, ..)| *other == command);
    row.map_or(("", ""), |(_, name, argument, _)| (*name, *argument))
}

pub(super) fn help() -> String {
    let rows = COMMANDS.iter().map(|(_, name, argument, meaning)| {
        let form = format!("{name} {argument}");
        format!("  {form:20} {meaning}\n")
    });
    let rows: String = rows.collect();
    let what = crate::commands::help::wrap(
        "An expression prints its value. A definition is kept: a variable, a function, a class, an import; the newer \
         one counts. A resource is kept too, and only shown. A text goes on until its brackets and strings are closed.",
        80,
    );
    format!("{what}\n\n{rows}\n  Tab completes, ^R searches what was typed before, ^C gives up a line.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_its_start() {
        assert_eq!(find(":quit"), Some(Command::Quit));
        assert_eq!(find(":q"), Some(Command::Quit));
        assert_eq!(find(":t"), Some(Command::Type));
        assert_eq!(find(":"), None);
        assert_eq!(find(":x"), None);
        for name in names() {
            assert!(find(name).is_some(), "{name}");
        }
    }
}
