//! Times as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::zone::Zone;

/// A moment, in seconds since 1970 and the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    seconds: i64,
    nanoseconds: u32,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Moment { seconds: seconds(since), nanoseconds: since.subsec_nanos() },
            Err(before) => Moment { seconds: -seconds(before.duration()), nanoseconds: 0 },
        }
    }

    /// `HH:MM:SS` as a clock on the wall shows it.
    pub(crate) fn wall_clock(self, zone: &Zone) -> String {
        let seconds = self.seconds.saturating_add(i64::from(zone.offset_at(self.seconds))).rem_euclid(86_400);
        format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    /// As RFC 3339 in UTC, to the microsecond.
    pub(crate) fn rfc3339(self) -> String {
        let (year, month, day) = civil_date(self.seconds.div_euclid(86_400));
        let seconds = self.seconds.rem_euclid(86_400);
        format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            self.nanoseconds / 1000
        )
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// Year, month and day of the Gregorian calendar, from days since 1970-01-01. The year is counted from March, so
/// that the leap day is its last.
pub(crate) fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a date.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_utc() {
        let moment = |seconds| Moment { seconds, nanoseconds: 123_456_789 };
        assert_eq!(moment(0).rfc3339(), "1970-01-01T00:00:00.123456Z");
        assert_eq!(moment(951_782_399).rfc3339(), "2000-02-28T23:59:59.123456Z");
        assert_eq!(moment(951_782_400).rfc3339(), "2000-02-29T00:00:00.123456Z");
        assert_eq!(moment(4_102_444_800).rfc3339(), "2100-01-01T00:00:00.123456Z");
        assert_eq!(moment(-1).rfc3339(), "1969-12-31T23:59:59.123456Z");
    }

    #[test]
    fn dates_and_days_are_each_others_inverse() {
        for days in (-200_000..200_000).step_by(7) {
            let (year, month, day) = civil_date(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn the_wall_clock_follows_the_zone() {
        let moment = Moment { seconds: 951_782_399, nanoseconds: 0 };
        assert_eq!(moment.wall_clock(&Zone::UTC), "23:59:59");
        assert_eq!(moment.wall_clock(&Zone::fixed(3600)), "00:59:59");
        assert_eq!(moment.wall_clock(&Zone::fixed(-19_800)), "18:29:59");
    }
}
