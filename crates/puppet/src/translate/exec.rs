//! `exec` becomes `exec`.

use std::collections::BTreeMap;

use mgmt_value::Str;

use super::rule::{Rule, quoted};
use super::watched;
use crate::data::Data;

/// Where programs are looked for if nobody says so.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const SHELL: &str = "/bin/sh";

/// Words that mean something to a shell and are seldom programs. Without `provider => shell`, Puppet looks for a program of that
/// name, and fails.
const SHELL_WORDS: [&str; 45] = [
    "!", ".", ":", "[[", "alias", "bg", "break", "case", "cd", "command", "continue", "declare", "do",
    "done", "eval", "exec", "exit", "export", "fc", "fg", "for", "function", "getopts", "hash", "if", "jobs",
    "let", "local", "read", "readonly", "return", "select", "set", "shift", "source", "times", "trap",
    "type", "ulimit", "umask", "unalias", "unset", "until", "wait", "while",
];

pub(super) fn exec(rule: &mut Rule<'_>) -> &'static str {
    rule.accept_if("provider", &["posix", "shell"]);
    rule.hide("environment");
    if rule.text("logoutput").is_some_and(|when| !matches!(when.as_str(), "on_failure" | "false")) {
        rule.note(
            "logoutput",
            "asks for what a command writes also if it succeeds, which is told at the level `debug` here",
        );
    }
    for parameter in ["command", "onlyif", "unless", "refresh"] {
        program(rule, parameter);
    }
    let umask = rule.text("umask");
    command(rule, umask.as_deref());
    guards(rule, umask.as_deref());
    environment(rule);
    rule.carry("user", "user");
    rule.carry("group", "group");
    if let Some(directory) = rule.text("cwd") {
        for field in ["cwd", "ifcwd", "nifcwd"] {
            rule.set(field, Str::from(directory.as_str()));
        }
    }
    if rule.truth("refreshonly") == Some(true) {
        rule.set("refreshonly", true);
        // Nothing but a notification makes it run.
        rule.meta.poll = 0;
    }
    watch_conditions(rule);
    refresh(rule, umask.as_deref());
    returns(rule);
    patience(rule);
    "exec"
}

/// Puppet looks for the program of each command itself, before anybody runs it, unless a shell is asked for.
fn program(rule: &mut Rule<'_>, parameter: &'static str) {
    let declared = rule.declared;
    if declared.get("provider").and_then(Data::text).is_some_and(|provider| provider == "shell") {
        return;
    }
    let first = |value: &Data| match value.revealed() {
        Data::List(words) => words.first().and_then(Data::text),
        other => other.text().map(|text| first_word(&text).to_owned()),
    };
    let programs: Vec<String> = match declared.get(parameter).map(Data::revealed) {
        None if parameter == "command" => vec![first_word(&declared.title).to_owned()],
        None => return,
        // Of conditions, each is a command; of anything else, each is a word of one.
        Some(Data::List(list)) if matches!(parameter, "onlyif" | "unless") => {
            list.iter().filter_map(first).collect()
        }
        Some(value) => first(value).into_iter().collect(),
    };
    for program in programs {
        if !program.starts_with('/') && declared.get("path").is_none() {
            let shown = if rule.is_secret(parameter) { "a program" } else { &program };
            let why = format!(
                "`{parameter}` names {shown} without its directory, and there is no `path` to look for it in"
            );
            rule.is_wrong(why);
        } else if SHELL_WORDS.contains(&program.as_str()) {
            rule.cannot(
                parameter,
                format!("begins with `{program}`, which a shell knows, and none is asked for by `provider`"),
            );
        }
    }
}

/// The word that names the program: what is in the quotes that a command begins with, or all before the first blank.
fn first_word(command: &str) -> &str {
    let quote = command.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    let quoted = quote.and_then(|quote| command[1..].split_once(quote)).map(|(word, _)| word);
    quoted.filter(|word| !word.is_empty()).unwrap_or_else(|| command.split(' ').next().unwrap_or_default())
}

/// Another command for when it is notified.
fn refresh(rule: &mut Rule<'_>, umask: Option<&str>) {
    let text = match rule.take("refresh").map(Data::revealed) {
        None => return,
        Some(Data::List(words)) => {
            let words: Option<Vec<String>> =
                words.iter().map(|word| word.text().map(|word| quoted(&word))).collect();
            words.map(|words| words.join(" "))
        }
        Some(other) => other.text(),
    };
    let Some(text) = text else { return rule.cannot("refresh", "is not a command") };
    rule.set("refreshcmd", Str::from(with_umask(umask, &text)));
    rule.set("refreshshell", Str::from(SHELL));
    if let Some(directory) = rule.declared.get("cwd").and_then(Data::text) {
        rule.set("refreshcwd", Str::from(directory));
    }
}

fn command(rule: &mut Rule<'_>, umask: Option<&str>) {
    let text = match rule.take("command").map(Data::revealed) {
        Some(Data::List(words)) => {
            let words: Option<Vec<String>> = words.iter().map(Data::text).collect();
            match words {
                Some(words) if words.len() > 1 => return arguments(rule, &words, umask),
                Some(words) => words.concat(),
                None => return rule.cannot("command", "is not a list of words"),
            }
        }
        Some(other) => match other.text() {
            Some(text) => text,
            None => return rule.cannot("command", "is not a text"),
        },
        None => rule.declared.title.clone(),
    };
    rule.set("shell", Str::from(SHELL));
    rule.set("cmd", Str::from(with_umask(umask, &text)));
}

/// Words that no shell sees. The first is looked up in the `PATH` of the resource.
fn arguments(rule: &mut Rule<'_>, words: &[String], umask: Option<&str>) {
    if umask.is_some() {
        let text: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        rule.set("shell", Str::from(SHELL));
        rule.set("cmd", Str::from(with_umask(umask, &text.join(" "))));
        return;
    }
    let all = |words: &[String]| -> Vec<Str> { words.iter().map(|word| Str::from(word.as_str())).collect() };
    match words.split_first() {
        Some((program, rest)) if program.starts_with('/') && !program.contains(char::is_whitespace) => {
            rule.set("cmd", Str::from(program.as_str()));
            rule.set("args", all(rest));
        }
        _ => {
            rule.set("cmd", Str::from("/usr/bin/env"));
            rule.set("args", all(words));
        }
    }
}

fn with_umask(umask: Option<&str>, text: &str) -> String {
    match umask {
        Some(umask) => format!("umask {}\n{text}", quoted(umask)),
        None => text.to_owned(),
    }
}

/// Conditions. All of `onlyif` have to hold; any one of `unless` and `creates` is enough to keep it from running.
fn guards(rule: &mut Rule<'_>, umask: Option<&str>) {
    let onlyif = commands(rule, "onlyif");
    let mut unless = commands(rule, "unless");
    let creates = rule.texts("creates").unwrap_or_default();
    match creates.as_slice() {
        [] => {}
        [path] => rule.set("creates", Str::from(path.as_str())),
        paths => unless.extend(paths.iter().map(|path| format!("test -e {}", quoted(path)))),
    }
    // What commands say may change without an event.
    if !onlyif.is_empty() || !unless.is_empty() || creates.is_empty() {
        rule.meta.poll = rule.around.interval;
    }
    for (commands, field, shell, between) in
        [(onlyif, "ifcmd", "ifshell", " && "), (unless, "nifcmd", "nifshell", " || ")]
    {
        if commands.is_empty() {
            continue;
        }
        let text = match commands.as_slice() {
            [one] => one.clone(),
            several => several.iter().map(|one| format!("(\n{one}\n)")).collect::<Vec<_>>().join(between),
        };
        rule.set(field, Str::from(with_umask(umask, &text)));
        rule.set(shell, Str::from(SHELL));
    }
}

/// Has conditions that are commands looked at when a program or a path changes that they name.
fn watch_conditions(rule: &mut Rule<'_>) {
    let is_conditional = ["onlyif", "unless"].iter().any(|name| rule.declared.get(name).is_some());
    let paths = if is_conditional { watched::of_conditions(rule.declared) } else { Vec::new() };
    if !paths.is_empty() && rule.meta.poll > 0 {
        rule.set("watchfiles", paths.iter().map(|path| Str::from(path.as_str())).collect::<Vec<_>>());
        rule.set("interval", u32::try_from(rule.meta.poll).unwrap_or(0));
        watched::limit(&mut rule.meta);
    }
}

/// A command, or several; each a text or a list of words.
fn commands<'a>(rule: &mut Rule<'a>, parameter: &'a str) -> Vec<String> {
    let one = |value: &Data| match value.revealed() {
        Data::List(words) => {
            let words: Option<Vec<String>> =
                words.iter().map(|word| word.text().map(|word| quoted(&word))).collect();
            words.map(|words| words.join(" "))
        }
        other => other.text(),
    };
    let found: Option<Vec<String>> = match rule.take(parameter).map(Data::revealed) {
        None => return Vec::new(),
        Some(Data::List(list)) => list.iter().map(one).collect(),
        Some(other) => other.text().map(|text| vec![text]),
    };
    found.unwrap_or_else(|| {
        rule.cannot(parameter, "is not a list of commands");
        Vec::new()
    })
}

fn environment(rule: &mut Rule<'_>) {
    let path = match rule.texts("path") {
        Some(path) => path.join(":"),
        None => PATH.to_owned(),
    };
    // No `LC_ALL`, which would count more than a language that somebody asks for.
    let mut variables: BTreeMap<Str, Str> =
        [("PATH", path.as_str()), ("LANG", "C")].map(|(name, value)| (name.into(), value.into())).into();
    for variable in rule.texts("environment").unwrap_or_default() {
        match variable.split_once('=') {
            Some((name, value)) => {
                variables.insert(name.into(), value.into());
            }
            None => rule.cannot("environment", "has an entry that is not NAME=VALUE"),
        }
    }
    rule.set("env", variables);
}

fn returns(rule: &mut Rule<'_>) {
    let Some(codes) = rule.texts("returns") else { return };
    let codes: Option<Vec<u8>> = codes.iter().map(|code| code.parse().ok()).collect();
    match codes {
        Some(codes) if codes == [0] => {}
        Some(codes) => rule.set("returns", codes),
        None => rule.cannot("returns", "has something that is no exit code"),
    }
}

/// How long it may take, and how often it is tried.
fn patience(rule: &mut Rule<'_>) {
    const USUAL: f64 = 300.0;
    const LONGEST: f64 = 1e9;
    let seconds = |rule: &mut Rule<'_>, parameter: &'static str, usual: f64| {
        let Some(text) = rule.text(parameter) else { return usual };
        text.trim().parse::<f64>().ok().filter(|seconds| seconds.is_finite()).unwrap_or_else(|| {
            rule.cannot(parameter, "is not a number of seconds");
            usual
        })
    };
    let timeout = seconds(rule, "timeout", USUAL);
    // Zero and less is no limit.
    rule.meta.timeout = milliseconds(timeout.clamp(0.0, LONGEST));
    // Without `tries` a failure is retried as that of any other resource.
    if let Some(tries) = rule.integer("tries") {
        rule.meta.retry = Some(i16::try_from(tries.max(1) - 1).unwrap_or(i16::MAX));
        // When they are used up, the next run of Puppet would try again.
        let is_asked_for = rule.declared.get("refreshonly").and_then(Data::truth) == Some(true);
        if !is_asked_for && rule.meta.poll == 0 {
            rule.set("interval", u32::try_from(rule.around.interval).unwrap_or(0));
        }
    }
    let pause = seconds(rule, "try_sleep", 0.0);
    rule.meta.delay = milliseconds(pause.clamp(0.0, LONGEST));
}

fn milliseconds(seconds: f64) -> u64 {
    // Neither negative nor beyond what fits, by the clamping.
    (seconds * 1000.0) as u64
}
