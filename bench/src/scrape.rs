//! The server's own counters, read from `/metrics`. A counter that a build does not have is shown as n/a; nothing
//! fails for want of it unless a measurement rests on it.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// Samples by name, those with several labels added up.
#[derive(Clone, Debug, Default)]
pub struct Metrics(BTreeMap<String, f64>);

/// What is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Group commits of the journal: one write and one fsync each.
    JournalCommits,
    JournalRecords,
    JournalBytes,
    /// Inbox entries handed to the store's files since the start; durable at the next sync point.
    EntriesWritten,
    /// Events, counted once per shard, whose entries are not written yet.
    WindowEvents,
    /// Bytes committed since the last sync point: what a recovery replays.
    UnsyncedBytes,
    /// Accepted facts that the slowest shard has not taken yet.
    TakeLagFacts,
    /// Messages that a provider was given.
    DeliveryAttempts,
    /// Records that the audit log has not told of.
    AuditLag,
}

impl Reading {
    fn name(self) -> &'static str {
        match self {
            Self::JournalCommits => "fantail_commits_total",
            Self::JournalRecords => "fantail_journal_records_total",
            Self::JournalBytes => "fantail_journal_bytes_total",
            Self::EntriesWritten => "fantail_inbox_entries_total",
            Self::WindowEvents => "fantail_window_events",
            Self::UnsyncedBytes => "fantail_unsynced_bytes",
            Self::TakeLagFacts => "fantail_take_lag_facts",
            Self::DeliveryAttempts => "fantail_delivery_attempts_total",
            Self::AuditLag => "fantail_audit_derived_lag_records",
        }
    }
}

impl Metrics {
    pub fn parse(text: &str) -> Self {
        let mut found: BTreeMap<String, f64> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let name = series.split('{').next().unwrap_or(series);
            let Ok(value) = value.parse::<f64>() else { continue };
            *found.entry(name.to_owned()).or_default() += value;
        }
        Self(found)
    }

    pub fn get(&self, reading: Reading) -> Option<f64> {
        self.0.get(reading.name()).copied()
    }

    /// For measurements that cannot be made without it.
    pub fn require(&self, reading: Reading) -> Result<f64> {
        self.get(reading).with_context(|| format!("/metrics does not have {}", reading.name()))
    }

    /// How much a counter grew since.
    pub fn since(&self, earlier: &Self, reading: Reading) -> Option<f64> {
        Some(self.get(reading)? - earlier.get(reading)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_added_up_and_absence_is_told() {
        let text = "# HELP x y\nfantail_commits_total{a=\"1\"} 2\nfantail_commits_total{a=\"b c\"} 3\n";
        let metrics = Metrics::parse(text);
        assert_eq!(metrics.get(Reading::JournalCommits), Some(5.0));
        assert_eq!(metrics.get(Reading::JournalBytes), None);
        assert_eq!(metrics.since(&Metrics::default(), Reading::JournalCommits), None);
        assert_eq!(metrics.since(&metrics, Reading::JournalCommits), Some(0.0));
    }
}
