//! The lines below the log: pure.

use std::time::Duration;

use mgmt_resource::Id;
use mgmt_telemetry::Escaped;
use unicode_width::UnicodeWidthChar as _;

/// How many resources are how far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) resources: usize,
    pub(super) done: usize,
    pub(super) running: usize,
    pub(super) failed: usize,
    pub(super) retrying: usize,
}

/// A resource that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slow<'a> {
    pub(super) id: &'a Id,
    pub(super) age: Duration,
}

/// So many are told by name.
const NAMES: usize = 5;

/// What to show: how far everything is, and what takes longest, the oldest first. Fits a terminal of this width and height.
pub(super) fn view(counts: &Counts, slow: &[Slow<'_>], size: (usize, usize), color: bool) -> Vec<String> {
    let (width, height) = size;
    let Counts { resources, done, running, failed, retrying } = *counts;
    let waiting = resources.saturating_sub(done + running + failed + retrying);
    let mut parts = vec![(format!("{done} of {resources} done"), ""), (format!("{running} running"), "")];
    for (count, what, paint) in
        [(failed, "failed", "\x1b[1;31m"), (retrying, "retrying", "\x1b[1;33m"), (waiting, "waiting", "")]
    {
        if count > 0 {
            parts.push((format!("{count} {what}"), paint));
        }
    }
    let mut lines = vec![joined(&parts, width, color)];
    // The log has to have room, too.
    let room = NAMES.min((height / 2).saturating_sub(1));
    let named = if slow.len() > room { room.saturating_sub(1) } else { slow.len() };
    for slow in slow.iter().take(named) {
        lines.push(cut(&format!("{:>10}  {}", age(slow.age), Escaped(&slow.id.to_string())), width));
    }
    if named < slow.len() && room > 0 {
        lines.push(cut(&format!("{:>10}  {} more", "", slow.len() - named), width));
    }
    lines
}

/// Parts with commas between them, as far as they fit, each in its colour.
fn joined(parts: &[(String, &str)], width: usize, color: bool) -> String {
    let plain = parts.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(", ");
    let short = cut(&plain, width);
    if !color || short != plain {
        return short;
    }
    let painted = parts.iter().map(|(text, paint)| match paint.is_empty() {
        true => text.clone(),
        false => format!("{paint}{text}\x1b[0m"),
    });
    painted.collect::<Vec<_>>().join(", ")
}

/// As much as fits beside a free column, so that no terminal goes on in the next line.
fn cut(text: &str, width: usize) -> String {
    let room = width.saturating_sub(1);
    let of = |character: char| character.width().unwrap_or(0);
    if text.chars().map(of).sum::<usize>() <= room {
        return text.to_owned();
    }
    let (mut kept, mut taken) = (String::new(), 0);
    for character in text.chars() {
        taken += of(character);
        if taken + 2 > room {
            break;
        }
        kept.push(character);
    }
    kept + &"..".chars().take(room).collect::<String>()
}

fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(slow: &[(&str, u64)], size: (usize, usize), color: bool) -> Vec<String> {
        let ids: Vec<Id> = slow.iter().map(|(name, _)| Id::new("exec", *name)).collect();
        let ages = slow.iter().map(|(_, age)| Duration::from_secs(*age));
        let slow: Vec<_> = ids.iter().zip(ages).map(|(id, age)| Slow { id, age }).collect();
        let counts = Counts { resources: 40, done: 12, running: 3, failed: 1, retrying: 0 };
        view(&counts, &slow, size, color)
    }

    #[test]
    fn the_view_has_counts_and_what_is_slow() {
        let lines = shown(&[("make", 3725), ("b", 72), ("c", 8)], (80, 24), false);
        assert_eq!(
            lines,
            [
                "12 of 40 done, 3 running, 1 failed, 24 waiting",
                "  1 h 02 min  exec[make]",
                "1 min 12 s  exec[b]",
                "       8 s  exec[c]"
            ]
            .map(|line| line.replace("  1 h", "1 h"))
        );
    }

    #[test]
    fn it_is_never_wider_or_higher_than_the_terminal() {
        let many: Vec<(&str, u64)> = vec![("a name that is long, with wide ones: 日本語日本語", 5); 30];
        for width in 1..90 {
            for height in 1..12 {
                let lines = shown(&many, (width, height), false);
                assert!(lines.len() <= height.max(2) / 2 + 1 && lines.len() <= 1 + NAMES, "{lines:?}");
                for line in lines {
                    let wide: usize = line.chars().map(|character| character.width().unwrap_or(0)).sum();
                    assert!(wide < width.max(1), "{width}: {line}");
                }
            }
        }
        assert!(shown(&many, (80, 24), false).last().is_some_and(|line| line.ends_with("26 more")));
    }

    #[test]
    fn colour_is_an_addition_and_names_cannot_move_the_cursor() {
        let lines = shown(&[("x\x1b[2J\n", 5)], (80, 24), true);
        assert!(lines[0].contains("\x1b[1;31m1 failed\x1b[0m"), "{lines:?}");
        assert!(!lines[1].contains('\x1b') && !lines[1].contains('\n'), "{lines:?}");
        assert!(!shown(&[], (80, 24), false)[0].contains('\x1b'));
    }
}
