//! `cron` becomes `crontab`.

use mgmt_value::Str;

use super::rule::Rule;
use super::small::state;

/// The words before the name of a job in Puppet's own comments: what it has made is found again.
const MARK: &str = "Puppet Name";

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

pub(super) fn cron(rule: &mut Rule<'_>) -> &'static str {
    rule.name = rule.declared.subject().into();
    rule.accept(&["name"]);
    rule.accept_if("provider", &["crontab"]);
    state(rule, "present");
    rule.set("mark", Str::from(MARK));
    let user = rule.text("user").unwrap_or_else(|| "root".to_owned());
    if rule.text("target").is_some_and(|target| target != user) {
        rule.cannot("target", "is the table of another user");
    }
    rule.set("user", Str::from(user));
    if let Some(command) = rule.text("command") {
        rule.set("command", Str::from(command.trim()));
    }
    if let Some(special) = rule.text("special")
        && special != "absent"
    {
        rule.set("special", Str::from(special));
    }
    for (field, words, first) in [
        ("minute", &[][..], 0),
        ("hour", &[], 0),
        ("monthday", &[], 1),
        ("month", &MONTHS, 1),
        ("weekday", &DAYS, 0),
    ] {
        let Some(values) = rule.texts(field) else { continue };
        let values: Vec<String> = values.iter().map(|value| numbered(value, words, first)).collect();
        match values.as_slice() {
            [] => {}
            [one] if one == "absent" => {}
            _ => rule.set(field, Str::from(values.join(","))),
        }
    }
    if let Some(environment) = rule.texts("environment") {
        let lines =
            environment.into_iter().filter(|line| line != "absent").map(Str::from).collect::<Vec<_>>();
        rule.set("environment", lines);
    }
    "crontab"
}

/// Names of days and months, whole or by their first letters, are numbers in Puppet's tables.
fn numbered(value: &str, words: &[&str], first: usize) -> String {
    let lower = value.to_lowercase();
    let is_word = |word: &&str| lower.len() >= 3 && word.starts_with(&lower);
    match words.iter().position(is_word) {
        Some(at) => (at + first).to_string(),
        None => value.to_owned(),
    }
}
