//! What the table has to show.

use super::{Figure, Row, tools};

/// Rows in which the raw loop is near, and how many times as long we may take.
const NEAR: [(&str, f64); 2] = [("10000 files, cold", 2.0), ("10000 files, warm", 3.0)];

/// Something that is claimed, whether it is so, and what was seen. What the rows cannot tell is neither so nor not so.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) claim: String,
    pub(crate) is_so: Option<bool>,
    pub(crate) seen: String,
}

impl Verdict {
    pub(crate) fn text(&self) -> String {
        let answer = match self.is_so {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not judged",
        };
        let seen = if self.seen.is_empty() { String::new() } else { format!(" ({})", self.seen) };
        format!("{}: **{answer}**{seen}", self.claim)
    }
}

/// All verdicts on these rows.
pub(crate) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut all = vec![first(rows)];
    all.extend(NEAR.map(|(work, most)| near(rows, work, most)));
    all
}

/// Nobody but the raw loop needs less than we do.
fn first(rows: &[Row]) -> Verdict {
    let not_first = |row: &Row| {
        let Some(ours) = row.figures.get(tools::OURS).and_then(Figure::amount) else {
            return Some(format!("{}: no figure of ours", row.work));
        };
        let better: Vec<&str> = row
            .figures
            .iter()
            .filter(|(name, _)| ![tools::OURS, tools::RAW].contains(name))
            .filter(|(_, figure)| figure.amount().is_some_and(|theirs| theirs < ours))
            .map(|(name, _)| *name)
            .collect();
        (!better.is_empty()).then(|| format!("{}: {}", row.work, better.join(", ")))
    };
    let others: Vec<String> = rows.iter().filter_map(not_first).collect();
    Verdict {
        claim: "mgmt is first in every row, apart from the raw loop".to_owned(),
        is_so: (!rows.is_empty()).then_some(others.is_empty()),
        seen: others.join("; "),
    }
}

fn near(rows: &[Row], work: &str, most: f64) -> Verdict {
    let claim = format!("mgmt takes at most {most} times as long as the raw loop, {work}");
    let Some(row) = rows.iter().find(|row| row.work == work) else {
        return Verdict { claim, is_so: None, seen: "that was not measured".to_owned() };
    };
    let figure = |name| row.figures.get(name).and_then(Figure::amount);
    match (figure(tools::OURS), figure(tools::RAW)) {
        (Some(ours), Some(raw)) if raw > 0.0 => {
            let ratio = ours / raw;
            Verdict { claim, is_so: Some(ratio <= most), seen: format!("{ratio:.2} times") }
        }
        (_, None) => Verdict { claim, is_so: None, seen: "there is no raw loop".to_owned() },
        _ => Verdict { claim, is_so: Some(false), seen: "no figure of ours".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compare::Missing;

    fn row(work: &str, figures: &[(&'static str, u64)]) -> Row {
        let time = |milliseconds| match milliseconds {
            0 => Figure::None(Missing::Failed),
            _ => Figure::Time(Duration::from_millis(milliseconds)),
        };
        Row {
            work: work.to_owned(),
            figures: figures.iter().map(|(name, number)| (*name, time(*number))).collect(),
        }
    }

    fn answers(rows: &[Row]) -> Vec<Option<bool>> {
        verdicts(rows).iter().map(|verdict| verdict.is_so).collect()
    }

    #[test]
    fn all_is_well_when_only_the_raw_loop_is_faster() {
        let rows = [
            row("one", &[("raw loop", 1), ("mgmt", 50), ("Puppet", 51)]),
            row("10000 files, cold", &[("raw loop", 10), ("mgmt", 20), ("Puppet", 0)]),
            row("10000 files, warm", &[("raw loop", 10), ("mgmt", 30)]),
        ];
        assert_eq!(answers(&rows), [Some(true); 3]);
    }

    #[test]
    fn whoever_is_faster_is_named_with_the_row() {
        let rows =
            [row("one", &[("mgmt", 50), ("CFEngine", 40), ("Ansible", 60)]), row("two", &[("mgmt", 1)])];
        let first = &verdicts(&rows)[0];
        assert_eq!((first.is_so, &*first.seen), (Some(false), "one: CFEngine"));
        assert!(first.text().ends_with("**no** (one: CFEngine)"), "{}", first.text());
    }

    #[test]
    fn a_row_without_our_figure_is_not_won() {
        let rows = [row("10000 files, cold", &[("mgmt", 0), ("raw loop", 3)])];
        assert_eq!(answers(&rows), [Some(false), Some(false), None]);
    }

    #[test]
    fn too_far_from_the_raw_loop_is_no() {
        let rows = [
            row("10000 files, cold", &[("raw loop", 10), ("mgmt", 21)]),
            row("10000 files, warm", &[("raw loop", 10), ("mgmt", 31)]),
        ];
        assert_eq!(answers(&rows), [Some(true), Some(false), Some(false)]);
        assert!(verdicts(&rows)[1].text().contains("2.10 times"));
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        assert_eq!(answers(&[]), [None; 3]);
        assert_eq!(answers(&[row("10000 files, cold", &[("mgmt", 1)])]), [Some(true), None, None]);
    }
}
