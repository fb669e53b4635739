//! A plan for people.

use mgmt_telemetry::escape;

use super::document::{Document, Step, Totals};

/// The resources that would change something, and how many would not.
pub(super) fn text(document: &Document, diffs: bool) -> String {
    let mut text = String::new();
    let is_shown = |step: &&Step| !step.lines.is_empty() || step.error.is_some() || step.held.is_some();
    for step in document.steps.iter().filter(is_shown) {
        text += &escape(&step.resource);
        if let Some(origin) = &step.origin {
            text += &format!("  ({})", escape(origin));
        }
        text.push('\n');
        for line in &step.lines {
            let whose = line.resource.as_ref().map_or_else(String::new, |id| format!("{}: ", escape(id)));
            text += &format!("  {:<9}  {whose}{}\n", line.certainty.word(), line.effect);
            if diffs {
                let lines = line.diff.iter().flat_map(|diff| diff.lines());
                lines.for_each(|line| text += &format!("             {}\n", escape(line)));
            }
        }
        if let Some((message, certainty)) = &step.error {
            let word = match certainty {
                mgmt_engine::Certainty::Exact => "error",
                _ => "unknown",
            };
            text += &format!("  {word:<9}  {}\n", escape(message));
        }
        if let Some(why) = &step.held {
            text += &format!("  {:<9}  {}\n", "held", escape(why));
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let Totals { create, change, remove, run, right, errors, open, held } = document.totals;
    let left = match held {
        0 => String::new(),
        _ => format!("; {} left alone until later", resources(held, "is", "are")),
    };
    if document.totals.changes() == 0 && errors == 0 && open == 0 {
        text += &format!("nothing to change: {} as declared{left}\n", resources(right, "is", "are"));
        return text;
    }
    text += &format!("{create} to create, {change} to change, {remove} to remove, {run} to run; ");
    text += &format!("{} as declared", resources(right, "is", "are"));
    text += &left;
    if open > 0 {
        text += &format!("; {} not be looked at before that", resources(open, "can", "can"));
    }
    if errors > 0 {
        text += &format!("; {} not be looked at", resources(errors, "can", "can"));
    }
    text.push('\n');
    text
}

fn resources(count: usize, one: &str, more: &str) -> String {
    if count == 1 { format!("1 resource {one}") } else { format!("{count} resources {more}") }
}
