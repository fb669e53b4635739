//! Old spellings: those with a meaning today work and warn, the others say what replaced them.

use std::ffi::OsString;
use std::path::PathBuf;

use super::arguments::Arguments;
use crate::configuration::FrontEnd;
use crate::environment;
use crate::failure::Failure;
use crate::legacy_lang::{LegacyIgnored, no_effect};

/// Flags of earlier versions. None is shown in the help.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Historic {
    #[arg(long, short = 't', value_name = "SECONDS", allow_negative_numbers = true, hide = true)]
    converged_timeout: Option<String>,
    #[arg(long, hide = true)]
    converged_timeout_no_exit: bool,
    #[arg(long, value_name = "FILE", hide = true)]
    converged_status_file: Option<PathBuf>,
    #[arg(long, short = 'f', value_name = "FILE", hide = true)]
    file: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true)]
    yaml: Option<PathBuf>,
    #[arg(long, hide = true)]
    peer_urls: Vec<String>,
    #[arg(long, hide = true)]
    advertise_peer_urls: Vec<String>,
    #[arg(long, hide = true)]
    no_magic: bool,
    #[arg(long, hide = true)]
    no_config_watch: bool,
    #[arg(long, value_name = "SECONDS", hide = true)]
    exittime: Option<String>,
    #[arg(long, hide = true)]
    stdin: bool,
    #[command(flatten)]
    ignored: LegacyIgnored,
}

/// The flags of `run lang` that do what other commands do today.
fn of_programs(
    arguments: &mut Arguments,
    historic: &Historic,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    warnings.extend(arguments.steps.warnings("run"));
    arguments.download |= arguments.steps.downloads();
    if arguments.steps.is_any() && arguments.front_end != Some(FrontEnd::Lang) {
        return Err(Failure::usage("`--only-download`, `--update` and `--only-unify` are for `run lang`"));
    }
    if historic.stdin {
        only_one(arguments.input.is_some(), "PATH", "--stdin")?;
        warnings.push("`--stdin` is written `-` now".to_owned());
        arguments.input = Some("-".into());
    }
    if historic.no_config_watch {
        warnings.push("`--no-config-watch` is called `--no-watch` now".to_owned());
        arguments.no_watch = true;
    }
    if let Some(seconds) = &historic.exittime {
        only_one(arguments.max_runtime.is_some(), "--max-runtime", "--exittime")?;
        warnings.push("`--exittime` is called `--max-runtime` now".to_owned());
        arguments.max_runtime = Some(seconds.clone());
    }
    Ok(())
}

/// Turns old spellings into today's. Gives the warnings to print.
pub(super) fn modernise(arguments: &mut Arguments) -> Result<Vec<String>, Failure> {
    let historic = std::mem::take(&mut arguments.historic);
    let mut warnings = Vec::new();
    if arguments.front_end.is_none() && arguments.manifest.asks_for_both() {
        arguments.front_end = Some(FrontEnd::LangPuppet);
    }
    if let (Some(input), None) = (&arguments.manifest.puppet, arguments.front_end) {
        arguments.front_end = Some(FrontEnd::Puppet);
        arguments.input = Some(input.clone());
        arguments.manifest.puppet = None;
    }
    let lang = arguments.manifest.lang.clone().filter(|_| arguments.front_end != Some(FrontEnd::LangPuppet));
    timeout(arguments, &historic, &mut warnings)?;
    if let Some(file) = &historic.converged_status_file {
        only_one(
            arguments.converger_status_file.is_some(),
            "--converger-status-file",
            "--converged-status-file",
        )?;
        warnings.push("`--converged-status-file` is called `--converger-status-file` now".to_owned());
        arguments.converger_status_file = Some(file.clone());
    }
    let serving = &mut arguments.serving;
    for (old, new, given, today) in [
        ("--peer-urls", "--server-urls", &historic.peer_urls, &mut serving.server_urls),
        (
            "--advertise-peer-urls",
            "--advertise-server-urls",
            &historic.advertise_peer_urls,
            &mut serving.advertise_server_urls,
        ),
    ] {
        if !given.is_empty() {
            only_one(!today.is_empty(), new, old)?;
            warnings.push(format!("`{old}` is called `{new}` now"));
            today.clone_from(given);
        }
    }
    let inputs = [
        ("--file", FrontEnd::Yaml, "yaml", historic.file.as_ref()),
        ("--yaml", FrontEnd::Yaml, "yaml", historic.yaml.as_ref()),
        ("--lang", FrontEnd::Lang, "lang", lang.as_ref()),
    ];
    for (flag, front_end, word, input) in inputs {
        let Some(input) = input else { continue };
        if arguments.front_end.is_some() {
            return Err(Failure::usage(format!("`{flag}` cannot stand together with a front-end"))
                .hint(format!("write `mgmt run {word} {}`", input.display())));
        }
        warnings.push(format!("`run {flag} FILE` is written `run {word} FILE` now"));
        arguments.front_end = Some(front_end);
        arguments.input = Some(input.clone());
    }
    of_programs(arguments, &historic, &mut warnings)?;
    if historic.no_magic {
        warnings.push(no_effect("--no-magic", "hosts always learn from the cluster where its servers are"));
    }
    warnings.extend(historic.ignored.warnings());
    Ok(warnings)
}

fn timeout(
    arguments: &mut Arguments,
    historic: &Historic,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let from_environment = || {
        let fresh = arguments.converger_timeout.is_none() && environment::CONVERGER_TIMEOUT.get().is_none();
        environment::CONVERGED_TIMEOUT.text().filter(|_| fresh)
    };
    let old = match &historic.converged_timeout {
        Some(seconds) => Some(("`--converged-timeout`", seconds.clone())),
        None => from_environment().map(|seconds| ("`MGMT_CONVERGED_TIMEOUT`", seconds)),
    };
    if let Some((name, seconds)) = old {
        only_one(arguments.converger_timeout.is_some(), "--converger-timeout", "--converged-timeout")?;
        // A negative timeout never ended the program, and asking for that is no mistake.
        let exits = !historic.converged_timeout_no_exit && !seconds.trim().starts_with('-');
        warnings.push(if exits {
            format!("{name} is historic: write `--converger-timeout {seconds} --converged-exit`")
        } else {
            format!("{name} is historic: write `--converger-timeout {seconds}`")
        });
        arguments.converger_timeout = Some(seconds);
        arguments.converged_exit |= exits;
    }
    if historic.converged_timeout_no_exit {
        only_one(arguments.converged_exit, "--converged-exit", "--converged-timeout-no-exit")?;
        warnings.push("`--converged-timeout-no-exit` is the default now: leave it out".to_owned());
    }
    Ok(())
}

fn only_one(new_is_given: bool, new: &str, old: &str) -> Result<(), Failure> {
    if !new_is_given {
        return Ok(());
    }
    Err(Failure::usage(format!("`{old}` cannot stand together with `{new}`"))
        .hint(format!("leave out `{old}`")))
}

/// Commands that other versions have, and what to say about them.
const ABSENT: &[(&str, &str)] =
    &[("tools", "it is not part of this version"), ("provisioner", "it is not part of this version")];

/// Flags of the whole program that take their value as the next word.
const GLOBALS_WITH_VALUE: &[&str] = &["--message-format", "--color", "--log"];

/// Rewrites what the parser could not even read: the commands `r` and so on, and the two-letter flag `-gf`.
/// Gives the warnings to print.
pub(crate) fn rewrite(mut arguments: Vec<OsString>) -> Result<(Vec<OsString>, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    let Some(at) = command_position(&arguments) else { return Ok((arguments, warnings)) };
    let command = arguments[at].to_string_lossy().into_owned();
    if let Some((name, why)) = ABSENT.iter().find(|(name, _)| *name == command) {
        return Err(Failure::usage(format!("there is no command `{name}` in this version")).hint(why));
    }
    if command == "r" {
        warnings.push("`mgmt r` is written `mgmt run` now".to_owned());
        arguments[at] = "run".into();
    }
    if command == "d" {
        warnings.push("`mgmt d` is written `mgmt deploy` now".to_owned());
        arguments[at] = "deploy".into();
    }
    if command == "g" {
        warnings.push("`mgmt g` is written `mgmt get` now".to_owned());
        arguments[at] = "get".into();
    }
    join_optimizations(&mut arguments, at + 1);
    if arguments[at] != "run" {
        return Ok((arguments, warnings));
    }
    end_pprof(&mut arguments, at + 1);
    for argument in arguments.iter_mut().skip(at + 1).take_while(|argument| *argument != "--") {
        let Some(value) = argument.to_str().and_then(|text| text.strip_prefix("-gf")) else { continue };
        let replacement = match value.strip_prefix('=') {
            _ if value.is_empty() => "--graphviz-filter".to_owned(),
            Some(value) => format!("--graphviz-filter={value}"),
            None => continue,
        };
        warnings.push("`-gf` is written `--graphviz-filter` now".to_owned());
        *argument = replacement.into();
    }
    Ok((arguments, warnings))
}

/// The words that name a front-end.
const FRONT_ENDS: [&str; 5] = ["lang", "yaml", "puppet", "langpuppet", "empty"];

/// `--unify-optimizations a b` is a list of words, up to what is a flag, a front-end or a program.
fn join_optimizations(arguments: &mut Vec<OsString>, start: usize) {
    let is_flag =
        |argument: &OsString| argument == "--unify-optimizations" || argument == "--lp-unify-optimizations";
    let is_word = |argument: &OsString| {
        argument.to_str().is_some_and(|text| {
            !text.starts_with('-')
                && !FRONT_ENDS.contains(&text)
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        })
    };
    let mut at = start;
    while at < arguments.len() && arguments[at] != "--" {
        if is_flag(&arguments[at]) {
            // The first word is its value, whatever it is.
            let more = arguments.iter().skip(at + 2).take_while(|argument| is_word(argument)).count();
            if more > 0 {
                arguments.drain(at + 2..at + 2 + more);
            }
        }
        at += 1;
    }
}

/// `--pprof lang X`: the flag has no address.
fn end_pprof(arguments: &mut [OsString], start: usize) {
    let rest = arguments.get_mut(start..).unwrap_or_default();
    for at in 1..rest.len() {
        let is_front_end = rest[at].to_str().is_some_and(|text| FRONT_ENDS.contains(&text));
        if is_front_end && rest[at - 1] == "--pprof" {
            rest[at - 1] = "--pprof=".into();
        }
    }
}

fn command_position(arguments: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        let argument = arguments.get(at)?;
        if GLOBALS_WITH_VALUE.iter().any(|flag| argument == flag) {
            at += 2;
        } else if argument.as_encoded_bytes().starts_with(b"-") {
            at += 1;
        } else {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> (String, usize) {
        let words = line.split(' ').map(OsString::from).collect();
        let (words, warnings) = rewrite(words).unwrap();
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), warnings.len())
    }

    #[test]
    fn only_the_command_itself_is_rewritten() {
        assert_eq!(rewritten("mgmt r yaml r"), ("mgmt run yaml r".into(), 1));
        assert_eq!(rewritten("mgmt --log debug r yaml r"), ("mgmt --log debug run yaml r".into(), 1));
        assert_eq!(rewritten("mgmt --log=debug r empty"), ("mgmt --log=debug run empty".into(), 1));
        assert_eq!(rewritten("mgmt g lang g"), ("mgmt get lang g".into(), 1));
        assert_eq!(rewritten("mgmt run -gf neato -g f"), ("mgmt run --graphviz-filter neato -g f".into(), 1));
        assert_eq!(rewritten("mgmt run -gf=neato"), ("mgmt run --graphviz-filter=neato".into(), 1));
        assert_eq!(rewritten("mgmt run -gfoo"), ("mgmt run -gfoo".into(), 0));
        assert_eq!(rewritten("mgmt run -- -gf"), ("mgmt run -- -gf".into(), 0));
        assert_eq!(rewritten("mgmt"), ("mgmt".into(), 0));
        let lists = [
            ("--unify-optimizations a b lang x.mcl", "--unify-optimizations a lang x.mcl"),
            ("lang --unify-optimizations a b ./x.mcl", "lang --unify-optimizations a ./x.mcl"),
            ("lang x.mcl --unify-optimizations a b", "lang x.mcl --unify-optimizations a"),
            ("--unify-optimizations a --noop lang b", "--unify-optimizations a --noop lang b"),
            ("--unify-optimizations=a lang b", "--unify-optimizations=a lang b"),
            ("--pprof lang b", "--pprof= lang b"),
            ("--pprof localhost:1 lang b", "--pprof localhost:1 lang b"),
            ("lang b --pprof", "lang b --pprof"),
        ];
        for (old, new) in lists {
            assert_eq!(rewritten(&format!("mgmt run {old}")).0, format!("mgmt run {new}"));
        }
    }

    #[test]
    fn absent_commands_say_so() {
        for (name, _) in ABSENT {
            let failure = rewrite(vec!["mgmt".into(), name.into()]).unwrap_err();
            assert_eq!(failure.code, 2);
            assert!(failure.message.contains(name) && failure.hints.len() == 1);
        }
    }
}
