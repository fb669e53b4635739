//! The table.

use std::time::Duration;

/// Prints lines and remembers the targets that were missed.
#[derive(Default)]
pub(crate) struct Report {
    targets: Vec<(String, Verdict)>,
}

/// What became of a target.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Met,
    Missed,
    /// What was measured is not enough to tell.
    Open,
}

impl Report {
    /// Says on what machine this was measured.
    pub(crate) fn machine(&self) {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        println!("machine: {cores} cores, Linux {}", kernel.trim());
    }

    /// Begins a group of lines.
    pub(crate) fn section(&self, title: &str) {
        println!("\n== {title}");
    }

    /// Our time beside the raw loop's.
    pub(crate) fn ratio(
        &mut self,
        what: &str,
        count: usize,
        ours: Duration,
        raw: Duration,
        target: Option<f64>,
    ) {
        let ratio = ours.as_secs_f64() / raw.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        let verdict = self.judge(what, target.map(|target| (ratio <= target, format!("≤ {target} ×"))));
        println!(
            "{what:<52} ours {:>9.2} µs each, raw {:>9.2} µs each, ratio {ratio:>5.2}{verdict}",
            each(ours),
            each(raw)
        );
    }

    /// A time against a fixed target.
    pub(crate) fn time(&mut self, what: &str, time: Duration, target: Option<Duration>) {
        let verdict = self.judge(what, target.map(|target| (time <= target, format!("≤ {target:?}"))));
        println!("{what:<52} {time:>12.3?}{verdict}");
    }

    /// The median of several runs against a fixed target, and how far the runs were apart.
    pub(crate) fn time_spread(&mut self, what: &str, time: Spread, target: Option<Duration>) {
        let median = time.median;
        let verdict = self.judge(what, target.map(|target| (median <= target, format!("≤ {target:?}"))));
        println!("{what:<62} {median:>10.1?}   ({:.1?} to {:.1?}){verdict}", time.lowest, time.highest);
    }

    /// Our times beside the raw loop's, each pair taken in turn.
    pub(crate) fn ratio_spread(
        &mut self,
        what: &str,
        count: usize,
        pairs: &[(Duration, Duration)],
        target: Option<f64>,
    ) {
        let mut ratios: Vec<f64> =
            pairs.iter().map(|(ours, raw)| ours.as_secs_f64() / raw.as_secs_f64()).collect();
        ratios.sort_by(f64::total_cmp);
        let (Some(lowest), Some(highest)) = (ratios.first(), ratios.last()) else { return };
        let ratio = ratios[ratios.len() / 2];
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        let ours = each(median(pairs.iter().map(|(ours, _)| *ours).collect()));
        let raw = each(median(pairs.iter().map(|(_, raw)| *raw).collect()));
        let verdict = self.judge(what, target.map(|target| (ratio <= target, format!("≤ {target} ×"))));
        let spread = if pairs.len() > 1 { format!(" ({lowest:.2} to {highest:.2})") } else { String::new() };
        println!(
            "{what:<52} ours {ours:>9.2} µs each, raw {raw:>9.2} µs each, ratio {ratio:>5.2}{spread}{verdict}"
        );
    }

    /// Two ways to do the same, each pair of times taken in turn: the median of the ratios, and the interval in which it is with a
    /// probability of 95 %. A target is met or missed if the whole interval is on one side of it; else nothing is known.
    pub(crate) fn paired(
        &mut self,
        what: &str,
        count: usize,
        pairs: &[(Duration, Duration)],
        target: Option<f64>,
    ) {
        let ratio =
            Interval::of(pairs.iter().map(|(with, without)| with.as_secs_f64() / without.as_secs_f64()));
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let each = |time: f64| time * 1e6 / count as f64;
        let more = Interval::of(
            pairs.iter().map(|(with, without)| each(with.as_secs_f64() - without.as_secs_f64())),
        );
        let verdict = target.map(|target| {
            let verdict = ratio.against(target);
            self.targets.push((what.to_owned(), verdict));
            let word = match verdict {
                Verdict::Met => "met",
                Verdict::Missed => "MISSED",
                Verdict::Open => "not to be told",
            };
            format!("   [≤ {target} ×: {word}]")
        });
        println!(
            "{what:<52} {:.3} × ({:.3} to {:.3}), {:+.2} µs each ({:+.2} to {:+.2}), {} pairs{}",
            ratio.median,
            ratio.low,
            ratio.high,
            more.median,
            more.low,
            more.high,
            pairs.len(),
            verdict.unwrap_or_default()
        );
    }

    /// Any other figure.
    pub(crate) fn figure(&mut self, what: &str, text: &str, target: Option<(bool, String)>) {
        let verdict = self.judge(what, target);
        println!("{what:<52} {text}{verdict}");
    }

    fn judge(&mut self, what: &str, target: Option<(bool, String)>) -> String {
        let Some((good, text)) = target else { return String::new() };
        self.targets.push((what.to_owned(), if good { Verdict::Met } else { Verdict::Missed }));
        format!("   [{text}: {}]", if good { "met" } else { "MISSED" })
    }

    /// How many targets were met.
    pub(crate) fn summary(&self) {
        let of = |wanted: Verdict| self.targets.iter().filter(move |(_, verdict)| *verdict == wanted);
        println!("\n{} of {} targets met", of(Verdict::Met).count(), self.targets.len());
        of(Verdict::Missed).for_each(|(what, _)| println!("missed: {what}"));
        of(Verdict::Open).for_each(|(what, _)| println!("not to be told, more turns are needed: {what}"));
    }
}

/// The median of some values, and between which of them the true one is with a probability of 95 %, whatever their distribution.
#[derive(Debug, PartialEq)]
struct Interval {
    low: f64,
    median: f64,
    high: f64,
}

impl Interval {
    fn of(values: impl Iterator<Item = f64>) -> Interval {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        // Each value is above the true median or below it, like a coin: how many are above is binomial.
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index"
        )]
        let off =
            (values.len() as f64 / 2.0 - 0.98 * (values.len() as f64).sqrt()).floor().max(1.0) as usize - 1;
        let last = values.len().saturating_sub(1);
        Interval { low: at(off), median: at(values.len() / 2), high: at(last.saturating_sub(off)) }
    }

    fn against(&self, target: f64) -> Verdict {
        match (self.low <= target, self.high <= target) {
            (_, true) => Verdict::Met,
            (false, _) => Verdict::Missed,
            _ => Verdict::Open,
        }
    }
}

/// Several measurements of one thing.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) lowest: Duration,
    pub(crate) median: Duration,
    pub(crate) highest: Duration,
}

impl Spread {
    pub(crate) fn of(mut times: Vec<Duration>) -> Spread {
        times.sort();
        let at = |index: usize| times.get(index).copied().unwrap_or_default();
        Spread { lowest: at(0), median: at(times.len() / 2), highest: at(times.len().saturating_sub(1)) }
    }
}

/// The median of several runs.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The value below which the given part of all values lies.
pub(crate) fn percentile(sorted: &[Duration], part: f64) -> Duration {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let index = ((sorted.len() as f64 - 1.0) * part).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_the_middle_and_leaves_out_what_is_far_away() {
        // The ranks of a table: of 40 values, the 13th and the 28th.
        let found = Interval::of((0..40).map(|number| f64::from(number) + 1.0));
        assert_eq!(found, Interval { low: 13.0, median: 21.0, high: 28.0 });
        let found = Interval::of([3.0, 1.0, 2.0].into_iter());
        assert_eq!(found, Interval { low: 1.0, median: 2.0, high: 3.0 });
    }

    #[test]
    fn what_is_on_both_sides_of_a_target_is_not_decided() {
        let around = |low: f64, high: f64| Interval { low, median: f64::midpoint(low, high), high };
        assert!(around(1.0, 1.02).against(1.03) == Verdict::Met);
        assert!(around(1.0, 1.06).against(1.03) == Verdict::Open);
        assert!(around(1.04, 1.06).against(1.03) == Verdict::Missed);
    }
}
