//! `date`, `time` and `datetime`: an instant in the user's zone, or in a zone that is named. Patterns are those of
//! strftime that need no language: names of months and days belong into the text.

use super::{invalid, scene};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use minijinja::value::{Kwargs, Value};
use minijinja::{Error, State};
use std::sync::LazyLock;

/// Compiled in, so that every node knows the same zones.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const PATTERN_BYTES_MAX: usize = 64;
/// Directives that are the same in every language.
const DIRECTIVES: &str = "YmdejyHIMSklFTRuwVGzZ%";

pub fn date(state: &State, value: &Value, format: Option<&str>, kwargs: Kwargs) -> Result<String, Error> {
    shown(state, value, format, &kwargs, "%Y-%m-%d")
}

pub fn time(state: &State, value: &Value, format: Option<&str>, kwargs: Kwargs) -> Result<String, Error> {
    shown(state, value, format, &kwargs, "%H:%M")
}

pub fn datetime(state: &State, value: &Value, format: Option<&str>, kwargs: Kwargs) -> Result<String, Error> {
    shown(state, value, format, &kwargs, "%Y-%m-%d %H:%M")
}

/// Why this is not a pattern.
pub fn pattern_fault(pattern: &str) -> Option<String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Some(format!("a pattern has at most {PATTERN_BYTES_MAX} bytes"));
    }
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            continue;
        }
        match letters.next() {
            Some(directive) if DIRECTIVES.contains(directive) => {}
            Some(directive) => return Some(format!("%{directive} is not available in a pattern")),
            None => return Some("a pattern ends with a lone %".to_owned()),
        }
    }
    None
}

/// Why this is not a zone.
pub fn zone_fault(name: &str) -> Option<String> {
    ZONES.get(name).err().map(|_| format!("there is no time zone {}", name.escape_debug()))
}

fn shown(
    state: &State<'_, '_>,
    value: &Value,
    format: Option<&str>,
    kwargs: &Kwargs,
    usual: &str,
) -> Result<String, Error> {
    let format = match format {
        Some(format) => Some(format),
        None => kwargs.get::<Option<&str>>("format")?,
    };
    let pattern = format.unwrap_or(usual);
    let zone = kwargs.get::<Option<&str>>("zone")?;
    kwargs.assert_all_used()?;
    if let Some(fault) = pattern_fault(pattern) {
        return Err(invalid(fault));
    }
    let zone = match zone {
        Some(name) => zone_of(name)?,
        None => zone_of(scene(state)?.zone()?)?,
    };
    let zoned = instant(value)?.to_zoned(zone);
    strtime::format(pattern, &zoned).map_err(|error| invalid(error.to_string()))
}

fn zone_of(name: &str) -> Result<TimeZone, Error> {
    ZONES.get(name).map_err(|_| invalid(format!("there is no time zone {}", name.escape_debug())))
}

/// Milliseconds since 1970, or RFC 3339.
fn instant(value: &Value) -> Result<Timestamp, Error> {
    if value.is_integer() {
        let millis = i64::try_from(value.clone())?;
        return Timestamp::from_millisecond(millis).map_err(|_| invalid("the time is out of range"));
    }
    let text = value.as_str().ok_or_else(|| invalid(format!("needs a time, not {}", value.kind())))?;
    text.parse().map_err(|_| invalid("needs a time as RFC 3339 or in milliseconds"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::check;

    /// The tests' user lives in Vienna.
    #[test]
    fn times_are_shown_in_the_users_zone() {
        check("{{ 0|datetime }}", "1970-01-01 01:00");
        check("{{ '2026-07-01T22:30:00Z'|date }}", "2026-07-02");
        check("{{ '2026-07-01T22:30:00Z'|time }}", "00:30");
        check("{{ '2026-01-31T12:00:00+02:00'|datetime('%d.%m.%Y %H:%M %Z') }}", "31.01.2026 11:00 CET");
        check("{{ '2026-01-31T12:00:00Z'|time(zone='America/New_York') }}", "07:00");
        check("{{ '2026-01-31T12:00:00Z'|date(format='%e/%m/%y', zone='UTC') }}", "31/01/26");
        // Spring: the hour between two and three is not there.
        check("{{ '2026-03-29T00:59:00Z'|time }} {{ '2026-03-29T01:00:00Z'|time }}", "01:59 03:00");
        check("{{ 'tomorrow'|date }}", "error: needs a time as RFC 3339");
        check("{{ '2026-01-31'|date }}", "error: needs a time");
        check("{{ [1]|date }}", "error: needs a time, not");
        check("{{ 9223372036854775807|date }}", "error: the time is out of range");
        check("{{ 0|date('%B') }}", "error: %B is not available");
        check("{{ 0|date(zone='Mars/Olympus') }}", "error: there is no time zone");
    }

    #[test]
    fn patterns_need_no_language() {
        for (pattern, good) in [
            ("", true),
            ("%d.%m.%Y", true),
            ("%H:%M:%S %z %%", true),
            ("%A", false),
            ("%p", false),
            ("%", false),
            ("%-d", false),
            ("%99999d", false),
        ] {
            assert_eq!(pattern_fault(pattern).is_none(), good, "{pattern}");
        }
        assert!(pattern_fault(&"x".repeat(65)).is_some());
        for directive in DIRECTIVES.chars() {
            let zoned = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
            strtime::format(format!("%{directive}"), &zoned).expect("a directive of the formatter");
        }
    }
}
