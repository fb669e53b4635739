//! The command line: what there is, and how it is read.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use mgmt_telemetry::{ColorChoice, Filter, Format};

use crate::commands::{
    admit, apply, check, completions, deploy, diff, docs, etcd, explain, firstboot, fmt, forget, functions,
    get, graph, help, history, kinds, log, man, members, plan, puppet, repl, retry, run, setup, status, why,
    world,
};
use crate::environment;
use crate::failure::Failure;
use crate::terminal::{Mistakes, Terminal};

/// Keeps this machine in a desired state, in real time.
#[derive(Debug, Parser)]
#[command(
    name = "mgmt",
    version,
    long_version = crate::version::long(),
    disable_help_subcommand = true,
    infer_long_args = false,
    max_term_width = 100,
    after_help = "`mgmt help COMMAND` says more about a command; `mgmt help exit-codes` and `mgmt help environment` \
                  list those."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,

    /// Print under which terms the program may be used
    #[arg(long, exclusive = true)]
    license: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

/// What may stand with every command.
#[derive(Debug, clap::Args)]
struct Globals {
    /// How log lines and errors are written
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human", help_heading = "Output")]
    message_format: MessageFormat,

    /// JSON, of what the command prints and of log lines and errors: `--message-format json` and `--format json` at once
    #[arg(long, global = true, help_heading = "Output", conflicts_with = "message_format")]
    json: bool,

    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    color: ColorWhen,

    /// Which log lines to show: off, error, warn, info, debug, trace, or a list such as `info,engine=debug`
    /// [env: MGMT_LOG] [default: info]
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Output")]
    log: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MessageFormat {
    /// Lines for people
    Human,
    /// One JSON object per line
    Json,
    /// For editors: each error on one line, as `file:line:column: level[code]: message`
    Short,
    /// For forges: all errors as one SARIF document, which `check` prints
    Sarif,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ColorWhen {
    /// On a terminal, as the usual environment variables say
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<run::Arguments>),
    Plan(plan::Arguments),
    Apply(apply::Arguments),
    Check(check::Arguments),
    Fmt(fmt::Arguments),
    Get(get::Arguments),
    Graph(graph::Arguments),
    Diff(diff::Arguments),
    Puppet(puppet::Arguments),
    Repl(repl::Arguments),
    Deploy(Box<deploy::Arguments>),
    Status(status::Arguments),
    Retry(retry::Arguments),
    Forget(forget::Arguments),
    Log(log::Arguments),
    History(history::Arguments),
    Why(why::Arguments),
    Members(members::Arguments),
    Admit(admit::Arguments),
    Etcd(etcd::Arguments),
    World(world::Arguments),
    Setup(setup::Arguments),
    Firstboot(firstboot::Arguments),
    Explain(explain::Arguments),
    Kinds(kinds::Arguments),
    Functions(functions::Arguments),
    Docs(docs::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    Help(help::Arguments),
    #[command(skip)]
    License,
}

/// A command line that was understood.
pub(crate) struct Parsed {
    pub(crate) terminal: Terminal,
    pub(crate) command: Command,
}

/// One that was not.
pub(crate) struct NotParsed {
    pub(crate) terminal: Terminal,
    pub(crate) failure: Failure,
}

/// Which log lines were asked for.
pub(crate) fn log() -> Option<String> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let flag = guess(&arguments, "--log").map(|text| text.to_string_lossy().into_owned());
    flag.or_else(|| environment::LOG.text())
}

/// The definition, for help, completions and the manual.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Why a line cannot be read: a flag of old that there is no other for, or anything else.
pub(crate) enum Mistake {
    Historic(Failure),
    Line(Box<clap::Error>),
}

/// Understands a command line, and gives warnings about flags of old. Nothing else happens.
pub(crate) fn read(arguments: Vec<OsString>) -> Result<(Cli, Vec<String>), Mistake> {
    let (arguments, historic) = run::rewrite_historic(arguments).map_err(Mistake::Historic)?;
    let found = definition().try_get_matches_from(arguments);
    let cli = found.and_then(|found| Cli::from_arg_matches(&found));
    cli.map(|cli| (cli, historic)).map_err(|error| Mistake::Line(Box::new(error)))
}

/// Reads a command line. Help and the version are printed here, because they may be asked for in its middle.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Parsed, Box<NotParsed>> {
    // What was meant for output must hold even for a line that cannot be read.
    let guess = Terminal::new(guess_format(&arguments), guess_color(&arguments));
    let not_parsed =
        |terminal: &Terminal, failure| Box::new(NotParsed { terminal: terminal.clone(), failure });
    let (cli, historic) = match read(arguments) {
        Ok(understood) => understood,
        Err(Mistake::Historic(failure)) => return Err(not_parsed(&guess, failure)),
        Err(Mistake::Line(error)) => return Err(not_parsed(&guess, show(&guess, &error))),
    };
    let terminal = Terminal::new(
        match cli.globals.message_format {
            _ if cli.globals.json => Format::Json,
            MessageFormat::Human | MessageFormat::Short | MessageFormat::Sarif => Format::Human,
            MessageFormat::Json => Format::Json,
        },
        match cli.globals.color {
            ColorWhen::Auto => ColorChoice::Auto,
            ColorWhen::Always => ColorChoice::Always,
            ColorWhen::Never => ColorChoice::Never,
        },
    );
    let terminal = match cli.globals.message_format {
        MessageFormat::Human | MessageFormat::Json => terminal,
        MessageFormat::Short => terminal.mistakes(Mistakes::Short),
        MessageFormat::Sarif if matches!(cli.command, Some(Command::Check(_))) => {
            terminal.mistakes(Mistakes::Sarif(Arc::default()))
        }
        MessageFormat::Sarif => {
            return Err(not_parsed(&terminal, Failure::usage("only `mgmt check` writes SARIF")));
        }
    };
    let terminal = if cli.globals.json { terminal.json_data() } else { terminal };
    let (named, text) = match &cli.globals.log {
        Some(text) => ("--log", Some(text.clone())),
        None => (environment::LOG.name, environment::LOG.text()),
    };
    let filter = match text.as_deref().unwrap_or_default().parse::<Filter>() {
        Ok(filter) => filter,
        Err(error) => return Err(not_parsed(&terminal, Failure::usage(format!("{named}: {error}")))),
    };
    terminal.start_log(filter);
    for warning in historic {
        terminal.warning(&warning);
    }
    let command = match cli.command {
        _ if cli.license => Command::License,
        Some(command) => command,
        None => Command::Help(help::Arguments::default()),
    };
    Ok(Parsed { terminal, command })
}

/// Prints what the parser has to say: help and version as data, mistakes as a failure.
fn show(terminal: &Terminal, error: &clap::Error) -> Failure {
    let styled = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let text = if terminal.data_color() { styled.ansi().to_string() } else { styled.to_string() };
            terminal.data(&text);
            Failure::shown(crate::commands::exit_codes::OK)
        }
        _ if terminal.format() == Format::Json => {
            let text = styled.to_string();
            Failure::usage(text.strip_prefix("error: ").unwrap_or(&text).trim_end())
        }
        _ => {
            let text = if terminal.color() { styled.ansi().to_string() } else { styled.to_string() };
            terminal.output().notice(&text);
            Failure::shown(crate::commands::exit_codes::USAGE)
        }
    }
}

/// Whether JSON was asked for, in a line that may be wrong elsewhere.
fn guess_format(arguments: &[OsString]) -> Format {
    let flags = arguments.iter().take_while(|argument| *argument != "--");
    if flags.into_iter().any(|argument| argument == "--json") {
        return Format::Json;
    }
    match guess(arguments, "--message-format") {
        Some(value) if value == "json" => Format::Json,
        _ => Format::Human,
    }
}

fn guess_color(arguments: &[OsString]) -> ColorChoice {
    match guess(arguments, "--color") {
        Some(value) if value == "always" => ColorChoice::Always,
        Some(value) if value == "never" => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

fn guess<'a>(arguments: &'a [OsString], flag: &str) -> Option<&'a OsStr> {
    arguments.iter().enumerate().find_map(|(at, argument)| {
        if argument == flag {
            return arguments.get(at + 1).map(OsString::as_os_str);
        }
        argument.to_str()?.strip_prefix(flag)?.strip_prefix('=').map(OsStr::new)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        definition().debug_assert();
    }

    /// Numbers below a bound, the same in every run with the same `MGMT_SEED`.
    fn chance() -> impl FnMut(usize) -> usize {
        let seed = std::env::var("MGMT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move |bound| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // The upper bits are the better ones.
            usize::try_from(state >> 33).unwrap() % bound
        }
    }

    /// Every word that the definition knows, in any order and with any value, is understood or refused.
    #[test]
    fn any_words_are_a_command_line_or_a_mistake() {
        fn words(command: &clap::Command, all: &mut Vec<OsString>) {
            all.push(command.get_name().into());
            for argument in command.get_arguments() {
                let flag = argument.get_long().map(|long| format!("--{long}"));
                all.extend(flag.iter().flat_map(|flag| [flag.into(), format!("{flag}=").into()]));
                all.extend(argument.get_short().map(|short| format!("-{short}").into()));
                all.extend(argument.get_possible_values().iter().map(|value| value.get_name().into()));
            }
            command.get_subcommands().for_each(|command| words(command, all));
        }
        let mut all: Vec<OsString> = Vec::new();
        words(&definition(), &mut all);
        let values = [
            "",
            "-",
            "--",
            "-1",
            "1",
            "1e99",
            "18446744073709551616",
            "/",
            "é",
            "a=b",
            "'",
            "1h",
            "=",
            "-é",
            "--é=\n",
        ];
        all.extend(values.map(OsString::from));
        all.push(std::os::unix::ffi::OsStringExt::from_vec(vec![0xff, b'=', 0xfe]));
        let mut below = chance();
        let (mut understood, mut refused) = (0, 0);
        for _ in 0..1_500 {
            let mut line = vec![OsString::from("mgmt")];
            for _ in 0..1 + below(7) {
                let mut word = all[below(all.len())].clone();
                if word.to_str().is_some_and(|word| word.ends_with('=')) {
                    word.push(&all[below(all.len())]);
                }
                line.push(word);
            }
            let Ok((line, _)) = run::rewrite_historic(line) else {
                refused += 1;
                continue;
            };
            match definition().try_get_matches_from(line) {
                Ok(_) => understood += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(understood > 0 && refused > 0, "{understood} understood, {refused} refused");
    }

    #[test]
    fn the_format_is_found_in_a_line_that_cannot_be_read() {
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(guess_format(&line(&["mgmt", "--message-format", "json", "oops"])), Format::Json);
        assert_eq!(guess_format(&line(&["mgmt", "--message-format=json", "oops"])), Format::Json);
        assert_eq!(guess_format(&line(&["mgmt", "--message-format"])), Format::Human);
        assert_eq!(guess_format(&line(&["mgmt", "oops", "--json"])), Format::Json);
        assert_eq!(guess_format(&line(&["mgmt", "oops", "--", "--json"])), Format::Human);
    }

    /// The command lines of this program in a block of a page: words, up to what is for the shell.
    fn lines(block: &str) -> Vec<Vec<OsString>> {
        let mut lines = Vec::new();
        for line in block.replace("\\\n", " ").lines() {
            let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
            let mut end = |words: &mut Vec<String>| {
                let words = std::mem::take(words);
                let from = words
                    .iter()
                    .position(|word| word == "mgmt")
                    .filter(|at| words[..*at].iter().all(|word| word == "sudo" || word.contains('=')));
                if let Some(from) = from {
                    lines.push(words[from..].iter().map(OsString::from).collect());
                }
            };
            for character in line.chars().chain([' ']) {
                match (quote, character) {
                    (Some(open), _) if open == character => quote = None,
                    (Some(_), _) => word.get_or_insert_default().push(character),
                    (None, '\'' | '"') => {
                        quote = Some(character);
                        word.get_or_insert_default();
                    }
                    (None, '#') if word.is_none() => break,
                    (None, '|' | ';' | '&' | '(' | ')' | '>' | '<') => {
                        words.extend(word.take());
                        end(&mut words);
                    }
                    (None, ' ') => words.extend(word.take()),
                    (None, _) => word.get_or_insert_default().push(character),
                }
            }
            end(&mut words);
        }
        lines
    }

    #[test]
    fn every_command_in_the_pages_is_understood() {
        let mut found = 0;
        for (page, text) in mgmt_test_support::pages::written() {
            for line in mgmt_test_support::pages::blocks(&text, "sh").iter().flat_map(|block| lines(block)) {
                let (rewritten, _) = run::rewrite_historic(line.clone())
                    .unwrap_or_else(|failure| panic!("{page}: {line:?}: {}", failure.message));
                if let Err(error) = definition().try_get_matches_from(rewritten)
                    && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
                {
                    panic!("{page}: {line:?}\n{error}");
                }
                found += 1;
            }
        }
        assert!(found >= 64, "only {found} commands were found");
    }
}
