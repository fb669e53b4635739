//! What `augtool` has said: how each step has gone, and what its errors are in our words.

use mgmt_resource::{Error, Result};
use mgmt_value::Str;

use super::Augeas;
use super::script::{MARK, Step, TREE};

/// What one step has said.
struct Said {
    answers: Vec<String>,
    errors: Vec<String>,
}

/// Fails if some step has. Nothing is known, and this is an error, if it has not come to its end.
pub(super) fn check(declared: &Augeas, steps: &[Step<'_>], answers: &[u8], errors: &[u8]) -> Result<bool> {
    // A path may be in an answer, behind what was asked; and in an error, where one with a mark only makes it another error.
    let (answered, refused) = (format!("/{MARK} (o)"), format!("'{MARK}'"));
    let answers = parts(answers, |line| line == answered);
    let mut errors = parts(errors, |line| line.contains(&refused));
    if answers.len() != steps.len() || errors.len() != steps.len() {
        return Ok(false);
    }
    // What the first mark has brought along, each of them does.
    let noise = errors[0].clone();
    for errors in &mut errors {
        errors.truncate(errors.strip_suffix(&noise[..]).map_or(errors.len(), <[String]>::len));
    }
    for (step, (answers, errors)) in steps.iter().zip(answers.into_iter().zip(errors)) {
        step.check(declared, &Said { answers, errors })?;
    }
    Ok(true)
}

/// The lines before each line with a mark. What stands behind the last mark is none of it.
fn parts(output: &[u8], is_mark: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(output);
    let mut parts = vec![Vec::new()];
    for line in text.lines() {
        match is_mark(line) {
            true => parts.push(Vec::new()),
            false => parts.last_mut().into_iter().for_each(|part| part.push(line.to_owned())),
        }
    }
    parts.pop();
    parts
}

impl Step<'_> {
    fn check(&self, declared: &Augeas, said: &Said) -> Result<()> {
        let lens = declared.lens.display();
        match self {
            Step::Begin => Ok(()),
            Step::Load => match said.node("/error") {
                None => said.no_error("cannot read the file"),
                Some((path, why)) if path.starts_with("/augeas/load/") => {
                    Err(failed(&format!("cannot use the lens {lens}"), &why)
                        .with_hint("lenses are in /usr/share/augeas/lenses; install augeas-lenses"))
                }
                Some(_) => {
                    Err(failed(&format!("the file is not what {lens} describes"), &said.parse_failure())
                        .with_hint("mend the file, or name the lens of its format"))
                }
            },
            Step::Remove(path) => said.no_error(&format!("cannot remove {}", shown(path))),
            Step::Clear(path) => said.no_error(&format!("cannot clear {}", shown(path))),
            Step::Set(set) => said.no_error(&format!("cannot set {}", shown(&set.path))),
            // What it is to be put beside was only there if there was nothing of `unless`.
            Step::Insert(insert) if !insert.unless.is_empty() && said.is_there() => Ok(()),
            Step::Insert(insert) => said.no_error(&format!("cannot insert beside {}", shown(&insert.path))),
            Step::Save => match said.node("/error") {
                None => said.no_error("cannot write the file"),
                Some((_, kind)) => {
                    let message = said.node("/error/message").map_or(kind, |(_, message)| message);
                    Err(failed(&format!("the edits do not fit into the format {lens}"), &message)
                        .with_hint("look at the tree of a file that has what you want, with `augtool print`"))
                }
            },
        }
    }
}

impl Said {
    fn no_error(&self, what: &str) -> Result<()> {
        match self.errors.is_empty() {
            true => Ok(()),
            false => {
                let lines = self.errors.iter().map(|line| line.trim_start_matches("error: "));
                let lines: Vec<&str> = lines.filter(|line| *line != "Failed to execute command").collect();
                Err(failed(what, &lines.join(": ")))
            }
        }
    }

    /// The first node whose path ends so, and its value.
    fn node(&self, end: &str) -> Option<(&str, String)> {
        self.answers.iter().find_map(|line| {
            let (path, value) = line.split_once(" = \"")?;
            path.ends_with(end).then(|| (path, unescaped(value.strip_suffix('"').unwrap_or(value))))
        })
    }

    /// Whether there is something of `unless`.
    fn is_there(&self) -> bool {
        self.answers.iter().any(|line| line.starts_with("/augeas/version"))
    }

    fn parse_failure(&self) -> String {
        let value = |end: &str| self.node(end).map(|(_, value)| value);
        let message = value("/error/message").or_else(|| value("/error")).unwrap_or_default();
        let message = message.lines().next().unwrap_or_default();
        match (value("/error/line"), value("/error/char")) {
            (Some(line), Some(character)) => format!("{message} in line {line}, character {character}"),
            _ => message.to_owned(),
        }
    }
}

/// In one line, and without what is in the file: it may be a secret.
fn failed(what: &str, why: &str) -> Error {
    // Behind the first line come the tree and the whole description of the format that it does not fit into.
    let why = why.lines().next().unwrap_or_default().replace(&format!("{TREE}/"), "");
    let words: Vec<&str> = why.split_whitespace().collect();
    Error::new(format_args!("{what}: {}", Str::from(words.join(" ")).display()))
}

pub(super) fn shown(path: &[u8]) -> String {
    Str::new(path).display().to_string()
}

/// A value as `print` shows it, in quotes.
fn unescaped(shown: &str) -> String {
    let mut text = String::new();
    let mut letters = shown.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                other => text.extend(other),
            },
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(step: Step<'_>, answers: &str, errors: &str) -> Result<bool> {
        let mark =
            |text: &str| format!("error: Failed to execute command\n{text}Unknown command 'mgmt-mark'\n");
        let errors = mark("") + errors + &mark("");
        let answers = format!("/mgmt-mark (o)\n{answers}/mgmt-mark (o)\n");
        let declared = Augeas { lens: "Hosts.lns".into(), ..Augeas::default() };
        check(&declared, &[Step::Begin, step], answers.as_bytes(), errors.as_bytes())
    }

    #[test]
    fn an_error_belongs_to_its_step_and_is_one_line() {
        assert!(told(Step::Save, "Saved 1 file(s)\n", "").unwrap());
        let error = told(
            Step::Remove(b"x["),
            "",
            "error: Invalid path expression\nerror: garbage\n/files/text/x|=|[\n",
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "cannot remove x[: Invalid path expression: garbage: x|=|["
        );
        let error = told(
            Step::Load,
            "/augeas/files/text/error = \"parse_failed\"\n/augeas/files/text/error/line = \"3\"\n\
             /augeas/files/text/error/char = \"0\"\n/augeas/files/text/error/message = \"No\\nsecret\"\n",
            "",
        );
        assert!(error.unwrap_err().to_string().ends_with("describes: No in line 3, character 0"));
    }

    #[test]
    fn what_has_not_come_to_its_end_is_not_taken_for_done() {
        let declared = Augeas::default();
        let whole = "/mgmt-mark (o)\n/mgmt-mark (o)\n";
        let errors = "Unknown command 'mgmt-mark'\nUnknown command 'mgmt-mark'\n";
        let check = |answers: &str, errors: &str| {
            check(&declared, &[Step::Begin, Step::Save], answers.as_bytes(), errors.as_bytes())
        };
        assert!(check(whole, errors).unwrap());
        for (answers, errors) in
            [("", ""), (whole, ""), ("/mgmt-mark (o)\n", errors), (whole, &errors.repeat(2))]
        {
            assert!(!check(answers, errors).unwrap());
        }
    }
}
