//! Times as text.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `HH:MM:SS` as a clock on the wall shows it.
pub(crate) fn wall_clock(moment: Timestamp, zone: &TimeZone) -> String {
    moment.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// As RFC 3339 in UTC, to the microsecond.
pub(crate) fn rfc3339(moment: Timestamp) -> String {
    format!("{moment:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_utc() {
        let moment = Timestamp::new(951_782_399, 123_456_789).unwrap();
        assert_eq!(rfc3339(moment), "2000-02-28T23:59:59.123456Z");
    }

    #[test]
    fn the_wall_clock_follows_the_zone() {
        let moment = Timestamp::new(951_782_399, 0).unwrap();
        assert_eq!(wall_clock(moment, &TimeZone::UTC), "23:59:59");
        let east = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(wall_clock(moment, &east), "00:59:59");
    }
}
