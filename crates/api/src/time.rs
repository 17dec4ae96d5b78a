//! Times on the wire: RFC 3339 in UTC with milliseconds.

use fantail_rules::ids::Millis;
use fantail_rules::wall::utc_text;
use jiff::Timestamp;

/// `2026-01-31T12:00:00.000Z`
#[must_use]
pub fn text(at: Millis) -> String {
    utc_text(at)
}

/// Reads RFC 3339 with any offset. Times before 1970 are refused, and those at the end of the calendar that cannot be written.
#[must_use]
pub fn parse(text: &str) -> Option<Millis> {
    let at: Timestamp = text.parse().ok()?;
    let millis = Timestamp::from_millisecond(at.as_millisecond()).ok()?.as_millisecond();
    u64::try_from(millis).ok().map(Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip_with_milliseconds() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_769_860_800_000, "2026-01-31T12:00:00.000Z"),
            (1_769_860_800_007, "2026-01-31T12:00:00.007Z"),
        ];
        for (millis, expected) in cases {
            assert_eq!(text(Millis(millis)), expected);
            assert_eq!(parse(expected), Some(Millis(millis)));
        }
        assert_eq!(parse("2026-01-31T13:00:00+01:00"), Some(Millis(1_769_860_800_000)));
        for bad in [
            "",
            "tomorrow",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "1969-12-31T23:59:59Z",
            "9999-12-30T22:00:00.250Z",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert!(text(Millis(u64::MAX)).starts_with("9999-"));
    }
}
