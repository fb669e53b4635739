//! Old spellings: those with a meaning today work and warn, the others say what replaced them.

use std::ffi::OsString;
use std::path::PathBuf;

use super::arguments::Arguments;
use crate::configuration::FrontEnd;
use crate::environment;
use crate::failure::Failure;

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
    #[arg(long, hide = true)]
    skip_unify: bool,
    #[arg(long, value_name = "NAME", hide = true)]
    unify_name: Option<String>,
    #[arg(long, value_name = "NAME", hide = true)]
    unify_optimizations: Vec<String>,
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, hide = true)]
    depth: Option<i64>,
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, hide = true)]
    retry: Option<i64>,
}

/// Old flags that belong to what no longer is, and what came instead.
const WITHOUT_EFFECT: [(&str, &str); 6] = [
    ("--no-magic", "hosts always learn from the cluster where its servers are"),
    ("--skip-unify", "types are always checked"),
    ("--unify-name", "there is one type checker"),
    ("--unify-optimizations", "there is one type checker"),
    ("--depth", "imports of downloaded modules have no limit of depth"),
    ("--retry", "a download that fails is an error; run `mgmt get` again"),
];

impl Historic {
    fn without_effect(&self) -> [bool; 6] {
        [
            self.no_magic,
            self.skip_unify,
            self.unify_name.is_some(),
            !self.unify_optimizations.is_empty(),
            self.depth.is_some(),
            self.retry.is_some(),
        ]
    }
}

/// The flags of `run lang` that do what other commands do today.
fn of_programs(
    arguments: &mut Arguments,
    historic: &Historic,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    if arguments.only_download {
        warnings.push("`run --only-download lang PATH` is written `mgmt get PATH` now".to_owned());
    }
    if arguments.update {
        warnings.push("`--update` is written `mgmt get --update PATH` now".to_owned());
    }
    if arguments.only_unify {
        warnings.push("`run --only-unify lang PATH` is written `mgmt check PATH` now".to_owned());
    }
    arguments.download |= arguments.only_download || arguments.update;
    let of_lang = arguments.only_download || arguments.update || arguments.only_unify;
    if of_lang && arguments.front_end != Some(FrontEnd::Lang) {
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
    let given = historic.without_effect_given();
    warnings.extend(given.into_iter().map(|(flag, why)| format!("`{flag}` has no effect: {why}")));
    Ok(warnings)
}

impl Historic {
    fn without_effect_given(&self) -> Vec<(&'static str, &'static str)> {
        let given = self.without_effect();
        WITHOUT_EFFECT.iter().zip(given).filter_map(|(row, given)| given.then_some(*row)).collect()
    }
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
    if arguments[at] != "run" {
        return Ok((arguments, warnings));
    }
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
