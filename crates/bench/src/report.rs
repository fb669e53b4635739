//! The table.

use std::time::Duration;

/// Prints lines and remembers the targets that were missed.
#[derive(Default)]
pub(crate) struct Report {
    targets: Vec<(String, bool)>,
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

    /// Any other figure.
    pub(crate) fn figure(&mut self, what: &str, text: &str, target: Option<(bool, String)>) {
        let verdict = self.judge(what, target);
        println!("{what:<52} {text}{verdict}");
    }

    fn judge(&mut self, what: &str, target: Option<(bool, String)>) -> String {
        let Some((good, text)) = target else { return String::new() };
        self.targets.push((what.to_owned(), good));
        format!("   [{text}: {}]", if good { "met" } else { "MISSED" })
    }

    /// How many targets were met.
    pub(crate) fn summary(&self) {
        let missed: Vec<_> = self.targets.iter().filter(|(_, good)| !good).collect();
        println!("\n{} of {} targets met", self.targets.len() - missed.len(), self.targets.len());
        for (what, _) in missed {
            println!("missed: {what}");
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
