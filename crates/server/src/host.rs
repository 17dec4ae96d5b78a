//! What the process tells about itself: readiness and the metrics of journal, store, node and listener.

use crate::backups::Backups;
use crate::config::Room;
use crate::copy_mark::CopyMark;
use crate::delivery_metrics;
use crate::disk_watch::reserve_bytes;
use crate::listen::Connections;
use crate::otlp;
use crate::panics;
use crate::provider_metrics;
use fantail_api::Host;
use fantail_api::telemetry::Text;
use fantail_channels::accounts::Registry;
use fantail_local::audit::LocalAudit;
use fantail_local::disk::{Disk, RealDisk};
use fantail_local::journal::{JournalStats, LocalJournal};
use fantail_node::Node;
use fantail_node::health::Health;
use fantail_node::meter::ANSWER_NAMES;
use fantail_node::recurring::ScheduleRun;
use fantail_node::start::Report;
use fantail_ports::BoxFuture;
use fantail_rules::believed_time::{Jump, StartClock};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::Millis;
use fantail_wire::health::{Backup, Check, PausedCopy};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct ServerHost {
    pub node: Node,
    pub journal: Arc<LocalJournal>,
    pub audit: Arc<LocalAudit>,
    pub report: Report,
    pub connections: Arc<Connections>,
    /// What became of spans, if there is a collector.
    pub traces: Option<Arc<otlp::Counts>>,
    pub backups: Arc<Backups>,
    pub data: PathBuf,
    pub room: Room,
    /// The mark of a restored copy, until it is resumed.
    pub paused: Arc<Mutex<Option<CopyMark>>>,
    pub accounts: Arc<Registry>,
    /// By the machine's clock.
    pub started_at: Millis,
}

impl Host for ServerHost {
    fn checks(&self) -> Vec<Check> {
        let health = self.node.health();
        let serving = match &health.stopped {
            None => (true, format!("{} tenants", health.tenants)),
            // The reason may name files, and this page is open to everyone.
            Some(_) => (false, "nothing more is promised, see the log".to_owned()),
        };
        let lag = format!("{} facts to take, {} asks waiting", health.take_lag, health.waiting);
        let store = format!(
            "{} bytes since the last sync point, {} events to fan out",
            health.store.unsynced_bytes, health.store.window_events
        );
        vec![
            check("node", serving.0, serving.1),
            check("journal", self.journal.failure().is_none(), self.journal_detail()),
            check("store", true, store),
            check("audit", true, self.audit_detail(&health)),
            self.room(),
            check("lag", true, lag),
            // Told, and no reason to send anyone away: the node goes by its own time.
            check("clock", true, self.clock_detail(&health)),
            // Requests are answered, so this is no reason either.
            check("sending", true, self.sending_detail()),
        ]
    }

    fn is_ready(&self) -> bool {
        self.node.stopped().is_none() && self.journal.failure().is_none() && self.room().ok
    }

    fn write_metrics(&self, text: &mut Text) {
        self.connections.write(text);
        let since = "When this process started, in seconds since 1970";
        text.gauge("fantail_start_time_seconds", since, self.started_at.0 / 1_000);
        let health = self.node.health();
        let paused = "1 while the server sends nothing, as its data directory was restored from a backup";
        text.gauge("fantail_paused", paused, u64::from(health.paused));
        write_failures(text, &health);
        write_deletions(text, &health);
        write_node(text, &health);
        write_refused(text, &health);
        write_deliveries(text, &health);
        delivery_metrics::write(text, &health);
        provider_metrics::write(text, &self.node, &self.accounts);
        write_audit(text, &health, self.node.wall());
        write_journal(text, &self.journal.stats());
        if let Some(traces) = &self.traces {
            traces.write(text);
        }
    }

    fn paused(&self) -> Option<PausedCopy> {
        self.mark().as_ref().map(CopyMark::shown)
    }

    fn resume(&self) -> BoxFuture<'static, Result<(), String>> {
        let (node, data, paused) = (self.node.clone(), self.data.clone(), self.paused.clone());
        Box::pin(async move {
            let resume = move || {
                // The mark goes first: a crash in between leaves a server that sends, as was asked. Two callers do no harm.
                CopyMark::remove(&data)?;
                *paused.lock().unwrap_or_else(PoisonError::into_inner) = None;
                node.resume();
                anyhow::Ok(())
            };
            match tokio::task::spawn_blocking(resume).await {
                Ok(resumed) => resumed.map_err(|failed| format!("{failed:#}")),
                Err(panicked) => Err(panicked.to_string()),
            }
        })
    }

    fn accounts(&self) -> &Arc<Registry> {
        &self.accounts
    }

    fn backup(&self, has_keys: bool) -> BoxFuture<'static, Result<Backup, String>> {
        let backups = self.backups.clone();
        Box::pin(async move {
            // Dropped with the request: a copy that nobody waits for is given up and removed.
            let wanted = Arc::new(());
            let asked = Arc::downgrade(&wanted);
            let is_wanted = move || asked.strong_count() > 0;
            let made = tokio::task::spawn_blocking(move || backups.make(has_keys, &is_wanted)).await;
            drop(wanted);
            match made {
                Ok(made) => made.map_err(|failed| format!("{failed:#}")),
                Err(panicked) => Err(panicked.to_string()),
            }
        })
    }
}

impl ServerHost {
    fn mark(&self) -> MutexGuard<'_, Option<CopyMark>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sending_detail(&self) -> String {
        match &*self.mark() {
            Some(mark) => format!("paused: {}", mark.sentence()),
            None => "as it comes".to_owned(),
        }
    }

    /// The same question that the journal asks before it writes.
    fn room(&self) -> Check {
        match RealDisk.space(&self.data) {
            Ok(space) => {
                let needed = reserve_bytes(space, self.room);
                let detail = format!("{} MiB free, {} needed", space.free_bytes >> 20, needed >> 20);
                check("room", space.free_bytes >= needed, detail)
            }
            Err(error) => check("room", false, error.to_string()),
        }
    }

    fn clock_detail(&self, health: &Health) -> String {
        let seconds = |ms: u64| ms / 1_000;
        let behind_ms = match self.report.clock {
            StartClock::Behind { by_ms } => Some(by_ms),
            StartClock::AsExpected | StartClock::Held { .. } => None,
        };
        let offset_ms = health.clock_jump.map(Jump::offset_ms);
        if let Some(ahead) = offset_ms.filter(|_| health.clock_held) {
            let ahead = seconds(ahead.unsigned_abs());
            return format!(
                "{ahead} s ahead, nothing is released, expired or deleted before `fantail clock accept`"
            );
        }
        match (offset_ms, behind_ms) {
            (Some(ahead @ 0..), _) => format!("{} s ahead, not adopted", seconds(ahead.unsigned_abs())),
            (Some(behind), _) => format!("{} s behind, not adopted", seconds(behind.unsigned_abs())),
            (None, Some(behind)) => format!("{} s behind the newest record at start", seconds(behind)),
            (None, None) => "as expected".to_owned(),
        }
    }

    fn audit_detail(&self, health: &Health) -> String {
        let opened = self.audit.report();
        let torn = match opened.torn_tails.len() {
            0 => String::new(),
            tails => format!(", {tails} cut-off writes were saved aside at start"),
        };
        let rebuilt = if opened.index_rebuilt { ", index made again" } else { "" };
        format!("{} records to derive{torn}{rebuilt}", health.audit_lag)
    }

    fn journal_detail(&self) -> String {
        let opened = self.journal.report();
        let end = match &opened.torn_tail {
            Some(torn) => format!("{} bytes of a cut-off write were saved as {}", torn.bytes, torn.saved_as),
            None if opened.clean => "closed cleanly before".to_owned(),
            None => "not closed cleanly before".to_owned(),
        };
        let replayed = self.report.replayed_records;
        format!("{} segments at start, {end}, {replayed} records replayed", opened.segments)
    }
}

fn check(name: &str, ok: bool, detail: String) -> Check {
    Check { name: name.to_owned(), ok, detail }
}

/// Panics, and errors of loops that try again.
fn write_failures(text: &mut Text, health: &Health) {
    let name = "fantail_panics_total";
    text.family(name, "counter", "Panics of this process, wherever they happened");
    text.sample(name, &[], panics::counted());
    text.family("fantail_task_panics_total", "counter", "Tasks and threads that panicked, by name");
    for (task, count) in &health.panics {
        text.sample("fantail_task_panics_total", &[("task", task)], count);
    }
    text.family("fantail_loop_errors_total", "counter", "Errors after which a loop tried again, by its name");
    for (task, count) in &health.loop_errors {
        text.sample("fantail_loop_errors_total", &[("task", task)], count);
    }
}

fn write_refused(text: &mut Text, health: &Health) {
    for (name, help, value) in [
        (
            "fantail_too_large_total",
            "Commands refused because their records do not fit into the journal",
            health.counters.too_large,
        ),
        (
            "fantail_disk_share_refused_total",
            "Commands refused because the disk is short and their tenant has had its share",
            health.disk_share_refused,
        ),
    ] {
        text.family(name, "counter", help);
        text.sample(name, &[], value);
    }
}

fn write_deletions(text: &mut Text, health: &Health) {
    text.family("fantail_tenants_deleting", "gauge", "Tenants that are being deleted");
    text.sample("fantail_tenants_deleting", &[], health.tenants_ending as u64);
    let name = "fantail_deleted_tenant_rows_total";
    text.family(name, "counter", "Rows of deleted tenants that were removed");
    text.sample(name, &[], health.counters.rows_wiped);
}

fn write_node(text: &mut Text, health: &Health) {
    let counters = &health.counters;
    for (name, help, value) in [
        ("fantail_batches_total", "Batches that leaders planned", counters.batches),
        ("fantail_records_total", "Records that leaders planned", counters.records),
        ("fantail_record_bytes_total", "Bytes of planned records", counters.record_bytes),
        ("fantail_clock_jumps_total", "Wall clock jumps that were not adopted", counters.clock_jumps),
        (
            "fantail_parcels_abandoned_total",
            "Parcels whose channel never ended; what it did not answer is unknown",
            counters.parcels_abandoned,
        ),
        ("fantail_events_taken_total", "Events brought into shards", counters.events_taken),
        ("fantail_digests_total", "Digests that were written", counters.digests),
        ("fantail_digest_items_total", "Deliveries that digests told of", counters.digest_items),
        ("fantail_busy_total", "Asks refused because queues were full", counters.busy),
        ("fantail_inbox_entries_total", "Inbox entries written", health.store.entries_written),
        (
            "fantail_inbox_run_bytes_written_total",
            "Bytes written to runs of the inbox index, by fan-out and by merging",
            health.store.run_bytes_written,
        ),
        (
            "fantail_inbox_stalls_total",
            "How often writing the inbox index had to wait for room on the disk",
            health.store.stalls,
        ),
    ] {
        text.family(name, "counter", help);
        text.sample(name, &[], value);
    }
    text.family(
        "fantail_schedule_runs_total",
        "counter",
        "Runs of recurring schedules, by what came of them",
    );
    for (run, count) in ScheduleRun::ALL.iter().zip(counters.schedule_runs) {
        text.sample("fantail_schedule_runs_total", &[("result", run.name())], count);
    }
    text.family("fantail_endpoint_changes_total", "counter", "Endpoints that came to each status");
    for (status, count) in Status::ALL.iter().zip(counters.endpoints) {
        text.sample("fantail_endpoint_changes_total", &[("status", status.name())], count);
    }
    for (name, help, value) in [
        ("fantail_apply_worst_micros", "Longest plan and apply of one ask", counters.decide_worst_micros),
        (
            "fantail_clock_held",
            "1 while the clock is too far ahead to release, expire or delete anything",
            u64::from(health.clock_held),
        ),
        ("fantail_take_lag_facts", "Facts the slowest shard has not taken", health.take_lag),
        ("fantail_queue_asks", "Asks that wait for leaders", health.waiting as u64),
        ("fantail_unsynced_bytes", "Bytes since the last sync point", health.store.unsynced_bytes),
        (
            "fantail_unmerged_tables",
            "Tables of rows that every read has to look into",
            health.store.unmerged_tables,
        ),
        ("fantail_window_events", "Events whose entries are not written yet", health.store.window_events),
        ("fantail_inbox_backlog_events", "Events that fan-out could write now", health.store.backlog_events),
        ("fantail_inbox_runs", "Runs of the inbox index", health.store.runs),
        ("fantail_inbox_run_entries", "Entries in these runs", health.store.run_entries),
        ("fantail_inbox_run_bytes", "Bytes of these runs", health.store.run_bytes),
        ("fantail_store_bytes", "Bytes of the store on disk", health.store.disk_bytes),
        ("fantail_tenants", "Tenants", health.tenants as u64),
    ] {
        text.gauge(name, help, value);
    }
}

/// Attempts by how they ended, and what is under way.
fn write_deliveries(text: &mut Text, health: &Health) {
    let name = "fantail_delivery_attempts_total";
    text.family(name, "counter", "Attempts that ended, by channel and by how");
    for (kind, counts) in ChannelKind::ALL.into_iter().zip(&health.counters.answers) {
        for (how, count) in ANSWER_NAMES.iter().zip(counts) {
            text.sample(name, &[("channel", kind.name()), ("outcome", how)], count);
        }
    }
    let name = "fantail_deliveries_in_flight";
    text.family(name, "gauge", "Deliveries that are being planned or sent, by channel");
    for (kind, count) in &health.in_flight {
        text.sample(name, &[("channel", kind.name())], count);
    }
    let name = "fantail_deliveries";
    text.family(name, "gauge", "Deliveries since the beginning, by lane and state");
    for (lane, state, count) in &health.deliveries {
        text.sample(name, &[("lane", lane.name()), ("state", state.public_word())], count);
    }
}

fn write_audit(text: &mut Text, health: &Health, now: Millis) {
    let name = "fantail_audit_entries_total";
    text.family(name, "counter", "Entries appended to the audit log");
    text.sample(name, &[], health.counters.audit_entries);
    let name = "fantail_audit_derive_micros_total";
    text.family(name, "counter", "Time that deriving audit entries took, with pauses");
    text.sample(name, &[], health.counters.audit_micros);
    let lag = "Records that the audit log has not derived yet";
    text.gauge("fantail_audit_derived_lag_records", lag, health.audit_lag);
    if let Some(at) = health.counters.checkpoint_at {
        let age = "Time since the newest checkpoint of the audit log; it grows while nothing moves";
        text.gauge("fantail_audit_checkpoint_age_seconds", age, now.since(at) / 1_000);
    }
}

fn write_journal(text: &mut Text, stats: &JournalStats) {
    for (name, help, value) in [
        ("fantail_commits_total", "Group commits, each one write and one sync", stats.commits),
        ("fantail_appends_total", "Appends that group commits carried", stats.appends),
        ("fantail_journal_records_total", "Records made durable", stats.records),
        ("fantail_journal_bytes_total", "Bytes written to the journal", stats.bytes),
        ("fantail_journal_refused_total", "Appends that found no room", stats.refused),
    ] {
        text.family(name, "counter", help);
        text.sample(name, &[], value);
    }
    text.gauge("fantail_commit_records_max", "Most records in one group commit", stats.group_records_max);
    write_sync_latency(text, stats);
}

fn write_sync_latency(text: &mut Text, stats: &JournalStats) {
    let name = "fantail_commit_seconds";
    text.family(name, "histogram", "Time of a group commit, write and sync");
    let mut below = 0;
    for (power, count) in stats.sync_buckets.iter().enumerate() {
        below += count;
        let bound = match power + 1 < stats.sync_buckets.len() {
            true => seconds(1 << power),
            false => "+Inf".to_owned(),
        };
        text.sample(&format!("{name}_bucket"), &[("le", &bound)], below);
    }
    text.sample(&format!("{name}_sum"), &[], seconds(stats.sync_micros_sum));
    text.sample(&format!("{name}_count"), &[], below);
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
