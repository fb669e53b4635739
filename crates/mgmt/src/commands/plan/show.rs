//! A plan for people.

use mgmt_telemetry::escape;

use super::document::{Document, Line, Step, Totals};

/// How many resources that are no longer managed are named.
const MAX_RELEASED_SHOWN: usize = 20;

/// The resources that would change something, and how many would not.
pub(super) fn text(document: &Document, diffs: bool) -> String {
    let mut text = String::new();
    let is_shown = |step: &&Step| {
        !step.lines.is_empty() || step.error.is_some() || step.blocked_by.is_some() || step.held.is_some()
    };
    for step in document.steps.iter().filter(is_shown) {
        text += &step_text(step, diffs);
    }
    text += &released(&document.released);
    if !text.is_empty() {
        text.push('\n');
    }
    text + &summary(&document.totals)
}

fn step_text(step: &Step, diffs: bool) -> String {
    let mut text = escape(&step.resource).into_owned();
    if let Some(origin) = &step.origin {
        text += &format!("  ({})", escape(origin));
    }
    if step.is_reversal {
        text += "  no longer declared: reversed";
    }
    text.push('\n');
    for line in &step.lines {
        let word = if step.noop { "noop" } else { line.certainty.word() };
        text += &line_text(line, word, diffs);
    }
    if let Some(error) = &step.error {
        let word = if error.is_certain { "will fail" } else { "unknown" };
        text += &format!("  {word:<9}  {}\n", escape(&error.message));
        if let Some(hint) = error.hint.as_ref().filter(|_| error.is_certain) {
            text += &format!("             hint: {}\n", escape(hint));
        }
    }
    if let Some(by) = &step.blocked_by {
        text += &format!("  {:<9}  by {}\n", "blocked", escape(by));
    }
    if let Some(why) = &step.held {
        text += &format!("  {:<9}  {}\n", "held", escape(why));
    }
    text
}

fn line_text(line: &Line, word: &str, diffs: bool) -> String {
    let whose = line.resource.as_ref().map_or_else(String::new, |id| format!("{}: ", escape(id)));
    let mut text = format!("  {word:<9}  {whose}{}\n", line.effect);
    if diffs {
        text += &line.diff.as_deref().map(diff_text).unwrap_or_default();
    }
    text
}

/// A difference of texts, as it stands below a line.
fn diff_text(diff: &str) -> String {
    diff.lines().map(|line| format!("             {}\n", escape(line))).collect()
}

/// The resources that are left as they are.
fn released(released: &[String]) -> String {
    if released.is_empty() {
        return String::new();
    }
    let mut text = "no longer managed, left as they are:\n".to_owned();
    for resource in released.iter().take(MAX_RELEASED_SHOWN) {
        text += &format!("  {}\n", escape(resource));
    }
    if let Some(more @ 1..) = released.len().checked_sub(MAX_RELEASED_SHOWN) {
        text += &format!("  and {more} more\n");
    }
    text
}

/// How much there is to do, in one line.
pub(super) fn summary(totals: &Totals) -> String {
    let Totals { create, change, remove, run, right, errors, blocked, open, held, noop, released } = *totals;
    let mut text = match totals.changes() == 0 && errors == 0 && open == 0 {
        true => format!("nothing to change: {} as declared", resources(right, "is", "are")),
        false => format!(
            "{create} to create, {change} to change, {remove} to remove, {run} to run; {} as declared",
            resources(right, "is", "are")
        ),
    };
    let mut more = |count: usize, words: String| {
        if count > 0 {
            text += &format!("; {words}");
        }
    };
    more(held, format!("{} left alone until later", resources(held, "is", "are")));
    more(noop, format!("{noop} would be changed without `noop`"));
    more(open, format!("{} unknown until applied", resources(open, "is", "are")));
    more(errors, resources(errors, "will fail", "will fail"));
    more(blocked, format!("{} blocked", resources(blocked, "is", "are")));
    more(released, format!("{} no longer managed", resources(released, "is", "are")));
    text.push('\n');
    text
}

fn resources(count: usize, one: &str, more: &str) -> String {
    if count == 1 { format!("1 resource {one}") } else { format!("{count} resources {more}") }
}
