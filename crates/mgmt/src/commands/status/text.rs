//! The lines for people.

use std::fmt::Write as _;

use mgmt_health::{
    HostReport, HostState, Instead, PendingValue, ProgramState, ResourceReport, ResourceState,
};
use mgmt_store::Status;
use mgmt_telemetry::escape;

use super::Shown;
use crate::commands::deploy::moment;
use crate::commands::members;
use crate::program::values::listed;

/// All lines.
pub(super) fn human(shown: &Shown) -> String {
    let mut lines = String::new();
    for (host, (status, report)) in &shown.hosts {
        host_lines(&mut lines, shown, host, status, report);
    }
    for (host, member) in &shown.lost {
        let since = at(member.lost_since(), shown.now);
        let how = match member.stopped {
            Some(_) => "stopped",
            None => "last seen",
        };
        let (host, version) = (escape(host), escape(&member.version));
        push(&mut lines, 0, &format!("{host}  lost: {how} {since}; version {version}"));
        push(
            &mut lines,
            1,
            &format!("hint: `mgmt forget {host}` removes it; after 7 days it is removed by itself"),
        );
    }
    for problem in &shown.problems {
        push(&mut lines, 0, &format!("problem: {}", escape(problem)));
    }
    for warning in &shown.warnings {
        push(&mut lines, 0, &format!("warning: {}", escape(warning)));
    }
    if let Some(cluster) = &shown.cluster {
        let summary = match &cluster.sight {
            Some(sight) => members::summary(sight),
            None => "no server answers".to_owned(),
        };
        push(&mut lines, 0, &format!("store  {}: {summary}", cluster.state.name()));
        for member in &cluster.members {
            if let Some(error) = &member.error {
                push(&mut lines, 1, &format!("{}: {}", escape(&member.name), escape(error)));
            }
        }
    }
    lines
}

fn host_lines(lines: &mut String, shown: &Shown, host: &str, status: &Status, report: &HostReport) {
    let state = report.state_with_newest(shown.newest);
    let summary = report.summary();
    // A host on an older deploy is stale, whatever it reports of itself.
    let summary = match (state, report.state()) {
        (HostState::Stale, own) if own != state => {
            summary.replacen(own.name(), &format!("{}, {}", state.name(), own.name()), 1)
        }
        _ => summary,
    };
    let leads = if shown.scheduler.as_deref() == Some(host) { "; schedules" } else { "" };
    let own = match (report.deploy.running, &report.deploy.instead) {
        (Some(_), _) | (None, Some(Instead::Plan { .. })) => "",
        (None, _) => "; no deploy",
    };
    let version = escape(&status.version);
    push(lines, 0, &format!("{}  {}{own}{leads}; version {version}", escape(host), escape(&summary)));
    if let Some(duplicate) = &report.duplicate {
        let (since, other) = (at(duplicate.since, shown.now), escape(&duplicate.other));
        push(lines, 1, &format!("another agent uses this host name since {since}: {other}"));
    }
    program_lines(lines, shown.now, &report.program);
    if let Some(refused) = &report.deploy.refused {
        let next = refused.next.map(|next| format!(", next attempt {}", at(next, shown.now)));
        let (name, error) = (refused.name(), escape(&refused.error));
        // An error about trust names the deploy itself.
        match error.starts_with(&format!("{name} is refused: ")) {
            true => push(lines, 1, &error),
            false => push(lines, 1, &format!("{name} refused: {error}")),
        }
        push(lines, 2, &format!("since {}{}", at(refused.since, shown.now), next.unwrap_or_default()));
    } else if let (Some(reason), Some(newest)) = (report.lag(shown.newest), shown.newest) {
        push(lines, 1, &format!("not on the newest deploy {newest}: {}", escape(&reason)));
    }
    for resource in &report.unhealthy {
        resource_lines(lines, shown.now, resource);
    }
    let more = report.counts.unhealthy().saturating_sub(report.unhealthy.len() as u64);
    if more > 0 {
        push(lines, 1, &format!("and {more} more"));
    }
}

fn program_lines(lines: &mut String, now: u64, program: &ProgramState) {
    let (since, error, values) = match program {
        ProgramState::Waiting { values, .. } => return waiting_lines(lines, now, values),
        ProgramState::Stale { since, error, values } => (since, error, values.as_slice()),
        ProgramState::Invalid { since, error } => (since, error, &[][..]),
        ProgramState::Starting | ProgramState::Live => return,
    };
    push(lines, 1, &format!("program {}: {}", program.name(), escape(error)));
    push(lines, 2, &format!("since {}", at(*since, now)));
    for value in values {
        let text = format!("{}: {}: {}", value.position, value.expression, value.error);
        push(lines, 2, escape(&text).as_ref());
    }
}

fn waiting_lines(lines: &mut String, now: u64, values: &[PendingValue]) {
    let count = mgmt_health::plural(values.len() as u64, "value", "values");
    push(lines, 1, &format!("program waiting for {count}"));
    for value in values {
        push(lines, 2, escape(&format!("{}: {}: no value yet", value.position, value.expression)).as_ref());
        push(lines, 3, &format!("since {}", at(value.since, now)));
        if !value.missing.is_empty() {
            push(lines, 3, escape(&format!("not there yet: {}", listed(&value.missing))).as_ref());
        }
    }
}

fn resource_lines(lines: &mut String, now: u64, resource: &ResourceReport) {
    let state = resource.state.to_string();
    push(lines, 1, &format!("{}  {}", escape(&resource.resource), escape(&state)));
    let next = match &resource.state {
        ResourceState::Retrying { next, .. } => format!(", next attempt {}", at(*next, now)),
        ResourceState::Failed { .. } => {
            ", next attempt after an event, a deploy, a reload or `mgmt retry`".to_owned()
        }
        ResourceState::Flapping { backoff_ms, .. } => {
            format!(", backing off {} s", backoff_ms.div_ceil(1000))
        }
        _ => String::new(),
    };
    push(lines, 2, &format!("since {}{next}", at(resource.since, now)));
}

/// A line, with the parts of a text of several lines below each other.
fn push(lines: &mut String, depth: usize, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(lines, "{:1$}{text}", "", depth * 2);
}

/// A moment, absolute and relative.
fn at(seconds: u64, now: u64) -> String {
    let relative = match seconds.cmp(&now) {
        std::cmp::Ordering::Equal => "now".to_owned(),
        std::cmp::Ordering::Less => format!("{} ago", length(now - seconds)),
        std::cmp::Ordering::Greater => format!("in {}", length(seconds - now)),
    };
    format!("{} ({relative})", moment(seconds))
}

fn length(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_absolute_with_a_zone_and_relative() {
        assert_eq!(at(100, 112), "1970-01-01 00:01:40 UTC (12 s ago)");
        assert_eq!(at(400, 100), "1970-01-01 00:06:40 UTC (in 5 min)");
        assert_eq!(at(7, 7), "1970-01-01 00:00:07 UTC (now)");
        assert_eq!(length(7200 * 3), "6 h");
        assert_eq!(length(86_400 * 3), "3 days");
    }
}
