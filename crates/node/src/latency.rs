//! How long deliveries took from being accepted to the provider's answer, in buckets, by lane.

use fantail_rules::priority::Priority;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const LANES: usize = Priority::ALL.len();
/// Upper bounds of the buckets. 500 ms is what the critical lane is held to.
pub const BOUNDS_MS: [u64; 14] =
    [10, 25, 50, 100, 200, 300, 400, 500, 750, 1_000, 2_000, 5_000, 30_000, 300_000];

#[derive(Default)]
pub struct Latencies([Latency; LANES]);

/// One bucket for each bound and one for everything above; each counts only its own range.
#[derive(Default)]
struct Latency {
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_ms: AtomicU64,
}

/// The buckets of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waited {
    pub buckets: [u64; BOUNDS_MS.len() + 1],
    pub sum_ms: u64,
}

impl Latencies {
    pub fn observe(&self, lane: Priority, ms: u64) {
        let latency = &self.0[lane as usize];
        latency.buckets[BOUNDS_MS.partition_point(|bound| *bound < ms)].fetch_add(1, Relaxed);
        latency.sum_ms.fetch_add(ms, Relaxed);
    }

    /// In the order of the lanes.
    pub fn read(&self) -> [Waited; LANES] {
        self.0.each_ref().map(|latency| Waited {
            buckets: latency.buckets.each_ref().map(|bucket| bucket.load(Relaxed)),
            sum_ms: latency.sum_ms.load(Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: OBS-01
    #[test]
    fn an_answer_at_the_bound_is_inside_it() {
        let latencies = Latencies::default();
        [0, 10, 500, 501, 900_000].into_iter().for_each(|ms| latencies.observe(Priority::Critical, ms));
        let [critical, high, ..] = latencies.read();
        let within = |bound| BOUNDS_MS.iter().zip(critical.buckets).filter(move |(ms, _)| **ms <= bound);
        assert_eq!(within(500).map(|(_, count)| count).sum::<u64>(), 3);
        assert_eq!((critical.buckets.iter().sum::<u64>(), critical.sum_ms), (5, 901_011));
        assert_eq!(high.buckets.iter().sum::<u64>(), 0);
    }
}
