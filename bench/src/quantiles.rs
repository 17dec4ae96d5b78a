//! Latencies: every one is kept, so that the percentiles are exact. Four bytes each.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Latencies in tenths of a microsecond, in no order.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<u32>);

/// What is shown of them.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    pub count: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Samples {
    pub fn record(&mut self, elapsed: Duration) {
        self.0.push(u32::try_from(elapsed.as_nanos() / 100).unwrap_or(u32::MAX));
    }

    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn summarise(mut self) -> Summary {
        self.0.sort_unstable();
        Summary {
            count: self.0.len() as u64,
            p50_ms: self.quantile_ms(50),
            p99_ms: self.quantile_ms(99),
            max_ms: self.quantile_ms(100),
        }
    }

    /// The smallest sample that so many percent do not exceed. Sorted before.
    fn quantile_ms(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).map_or(0.0, |tenths| f64::from(*tenths) / 10_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        let check = |micros: std::ops::RangeInclusive<u64>, expected: [f64; 3]| {
            let mut samples = Samples::default();
            micros.rev().for_each(|us| samples.record(Duration::from_micros(us)));
            let summary = samples.summarise();
            assert_eq!([summary.p50_ms, summary.p99_ms, summary.max_ms], expected);
        };
        check(1..=1_000, [0.5, 0.99, 1.0]);
        check(7..=7, [0.007, 0.007, 0.007]);
        assert_eq!(Samples::default().summarise(), Summary::default());
    }
}
