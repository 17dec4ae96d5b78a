//! A fault profile as JSON, in and out.
//!
//! ```json
//! {"seed": 1, "byMessage": false,
//!  "latency": {"kind": "fixed", "ms": 5},
//!  "errors": {"ServiceUnavailable": 0.01},
//!  "quota": {"count": 600000, "windowMs": 60000},
//!  "goAwayEvery": 5000, "blackHole": 0.0, "loseConnection": 0.0, "loseAnswer": 0.0, "gatewayTimeout": 0.0,
//!  "slowRead": {"share": 0.0, "ms": 0},
//!  "receipts": {"duplicateShare": 0.0, "lateShare": 0.0, "lateMs": 0},
//!  "clockSkewMs": 0}
//! ```
//! Everything may be left out. An unknown field is refused: a fault that was misspelt would test nothing.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Profile {
    pub seed: u64,
    /// Fates go by message id and attempt instead of by order of arrival.
    pub by_message: bool,
    pub latency: Latency,
    /// Share of calls per kind of error; the kinds are the emulator's own names, or a status.
    pub errors: BTreeMap<String, f64>,
    pub quota: Option<Quota>,
    /// Every connection goes away after so many calls.
    pub go_away_every: Option<u64>,
    pub black_hole: f64,
    pub lose_connection: f64,
    pub lose_answer: f64,
    pub gateway_timeout: f64,
    pub slow_read: SlowRead,
    pub receipts: Receipts,
    /// How far the emulator's clock is ahead of the sandbox's.
    pub clock_skew_ms: i64,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub enum Latency {
    #[default]
    None,
    Fixed {
        ms: u64,
    },
    Uniform {
        ms_min: u64,
        ms_max: u64,
    },
    /// Half of the answers are faster than the median, few are much slower, none is slower than the greatest.
    LogNormal {
        ms_median: u64,
        sigma: f64,
        ms_max: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    pub count: u64,
    pub window_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SlowRead {
    pub share: f64,
    pub ms: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Receipts {
    pub duplicate_share: f64,
    pub late_share: f64,
    pub late_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct ProfileError {
    pub field: String,
    pub reason: &'static str,
}

/// Nothing waits longer than ten minutes.
const MS_MAX: u64 = 600_000;

impl Profile {
    /// Whether every call has the same, uneventful fate.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.latency == Latency::None
            && self.errors.is_empty()
            && self.black_hole
                + self.lose_connection
                + self.lose_answer
                + self.gateway_timeout
                + self.slow_read.share
                == 0.0
    }

    pub fn read(value: &Value) -> Result<Self, ProfileError> {
        let mut fields = Fields::of(value, "")?;
        let errors = match fields.take("errors") {
            None => BTreeMap::new(),
            Some(Value::Object(kinds)) => {
                let share = |(kind, value): (&String, &Value)| {
                    Ok((kind.clone(), share_of(value).ok_or_else(|| bad(&format!("errors.{kind}"), SHARE))?))
                };
                kinds.iter().map(share).collect::<Result<_, ProfileError>>()?
            }
            Some(_) => return Err(bad("errors", "must be an object of kinds and shares")),
        };
        let quota = match fields.inner("quota")? {
            None => None,
            Some(mut inner) => {
                let quota =
                    Quota { count: inner.number("count", u64::MAX)?, window_ms: inner.ms("windowMs")? };
                inner.end()?;
                (quota.window_ms > 0).then_some(quota)
            }
        };
        let mut slow_read = SlowRead::default();
        if let Some(mut inner) = fields.inner("slowRead")? {
            slow_read = SlowRead { share: inner.share("share")?, ms: inner.ms("ms")? };
            inner.end()?;
        }
        let mut receipts = Receipts::default();
        if let Some(mut inner) = fields.inner("receipts")? {
            let (duplicate_share, late_share) = (inner.share("duplicateShare")?, inner.share("lateShare")?);
            receipts = Receipts { duplicate_share, late_share, late_ms: inner.ms("lateMs")? };
            inner.end()?;
        }
        let profile = Self {
            seed: fields.number("seed", u64::MAX)?,
            by_message: fields.flag("byMessage")?,
            latency: read_latency(&mut fields)?,
            errors,
            quota,
            go_away_every: Some(fields.number("goAwayEvery", u64::MAX)?).filter(|every| *every > 0),
            black_hole: fields.share("blackHole")?,
            lose_connection: fields.share("loseConnection")?,
            lose_answer: fields.share("loseAnswer")?,
            gateway_timeout: fields.share("gatewayTimeout")?,
            slow_read,
            receipts,
            clock_skew_ms: fields.signed("clockSkewMs")?,
        };
        fields.end()?;
        let all: f64 = profile.errors.values().sum::<f64>()
            + profile.black_hole
            + profile.lose_connection
            + profile.lose_answer
            + profile.gateway_timeout;
        if all > 1.0 + 1e-9 {
            return Err(bad("errors", "the shares of all faults are more than 1 together"));
        }
        Ok(profile)
    }

    #[must_use]
    pub fn write(&self) -> Value {
        let latency = match &self.latency {
            Latency::None => Value::Null,
            Latency::Fixed { ms } => json!({"kind": "fixed", "ms": ms}),
            Latency::Uniform { ms_min, ms_max } => {
                json!({"kind": "uniform", "msMin": ms_min, "msMax": ms_max})
            }
            Latency::LogNormal { ms_median, sigma, ms_max } => {
                json!({"kind": "logNormal", "msMedian": ms_median, "sigma": sigma, "msMax": ms_max})
            }
        };
        let quota = self.quota.map(|quota| json!({"count": quota.count, "windowMs": quota.window_ms}));
        json!({
            "seed": self.seed,
            "byMessage": self.by_message,
            "latency": latency,
            "errors": self.errors,
            "quota": quota,
            "goAwayEvery": self.go_away_every,
            "blackHole": self.black_hole,
            "loseConnection": self.lose_connection,
            "loseAnswer": self.lose_answer,
            "gatewayTimeout": self.gateway_timeout,
            "slowRead": {"share": self.slow_read.share, "ms": self.slow_read.ms},
            "receipts": {
                "duplicateShare": self.receipts.duplicate_share,
                "lateShare": self.receipts.late_share,
                "lateMs": self.receipts.late_ms,
            },
            "clockSkewMs": self.clock_skew_ms,
        })
    }
}

fn read_latency(fields: &mut Fields<'_>) -> Result<Latency, ProfileError> {
    let Some(mut inner) = fields.inner("latency")? else { return Ok(Latency::None) };
    let latency = match inner.take("kind").and_then(Value::as_str) {
        Some("fixed") => Latency::Fixed { ms: inner.ms("ms")? },
        Some("uniform") => Latency::Uniform { ms_min: inner.ms("msMin")?, ms_max: inner.ms("msMax")? },
        Some("logNormal") => Latency::LogNormal {
            ms_median: inner.ms("msMedian")?,
            sigma: inner.take("sigma").and_then(Value::as_f64).unwrap_or(0.5).clamp(0.0, 5.0),
            ms_max: inner.ms("msMax")?,
        },
        _ => return Err(bad("latency.kind", "must be fixed, uniform or logNormal")),
    };
    inner.end()?;
    match latency {
        Latency::Uniform { ms_min, ms_max } if ms_min > ms_max => {
            Err(bad("latency.msMin", "is greater than msMax"))
        }
        _ => Ok(latency),
    }
}

const SHARE: &str = "must be a share between 0 and 1";

fn bad(field: &str, reason: &'static str) -> ProfileError {
    ProfileError { field: field.to_owned(), reason }
}

fn share_of(value: &Value) -> Option<f64> {
    value.as_f64().filter(|share| (0.0..=1.0).contains(share))
}

/// Takes an object apart and knows what nobody asked for.
struct Fields<'a> {
    at: &'a str,
    left: Vec<&'a String>,
    given: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, at: &'a str) -> Result<Self, ProfileError> {
        let given = value.as_object().ok_or_else(|| bad(at, "must be an object"))?;
        Ok(Self { at, left: given.keys().collect(), given })
    }

    fn take(&mut self, field: &str) -> Option<&'a Value> {
        self.left.retain(|left| *left != field);
        self.given.get(field).filter(|value| !value.is_null())
    }

    fn named(&self, field: &str) -> String {
        if self.at.is_empty() { field.to_owned() } else { format!("{}.{field}", self.at) }
    }

    fn inner(&mut self, field: &'a str) -> Result<Option<Fields<'a>>, ProfileError> {
        self.take(field).map(|value| Fields::of(value, field)).transpose()
    }

    fn number(&mut self, field: &str, most: u64) -> Result<u64, ProfileError> {
        let Some(value) = self.take(field) else { return Ok(0) };
        let number = value.as_u64().filter(|number| *number <= most);
        number.ok_or_else(|| bad(&self.named(field), "must be a whole number in its range"))
    }

    fn signed(&mut self, field: &str) -> Result<i64, ProfileError> {
        let Some(value) = self.take(field) else { return Ok(0) };
        value.as_i64().ok_or_else(|| bad(&self.named(field), "must be a whole number"))
    }

    fn ms(&mut self, field: &str) -> Result<u64, ProfileError> {
        self.number(field, MS_MAX)
    }

    fn share(&mut self, field: &str) -> Result<f64, ProfileError> {
        let Some(value) = self.take(field) else { return Ok(0.0) };
        share_of(value).ok_or_else(|| bad(&self.named(field), SHARE))
    }

    fn flag(&mut self, field: &str) -> Result<bool, ProfileError> {
        let Some(value) = self.take(field) else { return Ok(false) };
        value.as_bool().ok_or_else(|| bad(&self.named(field), "must be true or false"))
    }

    fn end(self) -> Result<(), ProfileError> {
        match self.left.first() {
            None => Ok(()),
            Some(field) => Err(bad(&self.named(field), "is not known")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_the_same() {
        let profile = Profile {
            seed: 3,
            by_message: true,
            latency: Latency::LogNormal { ms_median: 20, sigma: 0.5, ms_max: 100 },
            errors: BTreeMap::from([("ServiceUnavailable".to_owned(), 0.25)]),
            quota: Some(Quota { count: 5, window_ms: 60_000 }),
            go_away_every: Some(5_000),
            black_hole: 0.125,
            lose_connection: 0.25,
            lose_answer: 0.125,
            gateway_timeout: 0.0625,
            slow_read: SlowRead { share: 0.5, ms: 10 },
            receipts: Receipts { duplicate_share: 0.5, late_share: 0.25, late_ms: 1_000 },
            clock_skew_ms: -90_000,
        };
        assert_eq!(Profile::read(&profile.write()), Ok(profile));
        assert_eq!(Profile::read(&Profile::default().write()), Ok(Profile::default()));
        assert_eq!(Profile::read(&json!({})), Ok(Profile::default()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (value, field) in [
            (json!([]), ""),
            (json!({"sead": 1}), "sead"),
            (json!({"seed": -1}), "seed"),
            (json!({"errors": {"X": 2}}), "errors.X"),
            (json!({"errors": {"X": 0.6}, "blackHole": 0.5}), "errors"),
            (json!({"latency": {"kind": "fixed", "ms": 600_001}}), "latency.ms"),
            (json!({"latency": {"kind": "slow"}}), "latency.kind"),
            (json!({"latency": {"kind": "uniform", "msMin": 2, "msMax": 1}}), "latency.msMin"),
            (json!({"latency": {"kind": "fixed", "ms": 1, "sigma": 1}}), "latency.sigma"),
            (json!({"slowRead": {"share": true}}), "slowRead.share"),
            (json!({"byMessage": 1}), "byMessage"),
        ] {
            let error = Profile::read(&value).expect_err("wrong");
            assert_eq!(error.field, field, "{value}");
        }
    }
}
