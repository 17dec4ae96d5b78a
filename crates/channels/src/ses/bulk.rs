//! Many mails in one call. SES writes them from a template that says nothing of its own: subject and texts of each are its data,
//! so links, pictures and ways out stay those of one recipient.
//!
//! Comes from: the client, with a shipment of an account that asked for it. Decides: which mails share a call. Goes to: the
//! same pace, the same days and the same answers as mails that go alone.
//!
//! What must never happen: a mail before its turn; a critical mail that waits for others; an entry of a call whose answer was
//! lost that is taken for sent or unsent.

use super::answer::{News, bulk_answers};
use super::client::{Ses, failed, too_late};
use super::limits::{BULK_BYTES_MAX, BULK_ENTRIES_MAX, BULK_TURNS_MS};
use super::payload::{bulk_entry, send_bulk_email};
use crate::email::Batch;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Report, Shipment};
use fantail_rules::ids::Millis;
use fantail_rules::priority::Priority;
use futures_util::future::join_all;
use std::ops::Range;

/// A mail that is ready for a call.
struct Entry {
    /// Of its message.
    index: usize,
    has_html: bool,
    json: String,
}

/// Mails that go together.
struct Call {
    entries: Vec<Entry>,
    bytes: usize,
    first_at: Millis,
    /// The turn of the last one.
    leaves_at: Millis,
}

impl Call {
    fn new(entry: Entry, at: Millis) -> Self {
        Self { bytes: HEAD_BYTES + entry.json.len(), entries: vec![entry], first_at: at, leaves_at: at }
    }

    fn takes(&self, entry: &Entry, at: Millis, span_ms: u64) -> bool {
        self.entries.len() < BULK_ENTRIES_MAX
            && self.bytes + 1 + entry.json.len() <= BULK_BYTES_MAX
            && self.entries[0].has_html == entry.has_html
            && at <= self.first_at.plus(span_ms)
    }

    fn push(&mut self, entry: Entry, at: Millis) {
        self.bytes += 1 + entry.json.len();
        self.entries.push(entry);
        self.leaves_at = at;
    }
}

/// Room for what stands around the entries.
const HEAD_BYTES: usize = 4_096;

impl Ses {
    /// As many at a time as one call takes, so that what waits for a place is not yet written.
    pub(super) async fn deliver_all<'a>(
        &'a self,
        shipment: &'a Shipment,
        batch: &'a Batch<'a>,
        report: &'a Report<'a>,
    ) {
        let count = shipment.messages.len();
        let some = |first: usize| first..count.min(first + BULK_ENTRIES_MAX);
        let firsts = (0..count).step_by(BULK_ENTRIES_MAX);
        join_all(firsts.map(|first| self.deliver_some(shipment, some(first), batch, report))).await;
    }

    fn deliver_some<'a>(
        &'a self,
        shipment: &'a Shipment,
        indices: Range<usize>,
        batch: &'a Batch<'a>,
        report: &'a Report<'a>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let permit = self.within(shipment.deadline, self.calls.acquire()).await;
            if permit.is_none() || self.now() > shipment.deadline {
                return indices.for_each(|index| report(index, too_late()));
            }
            let (entries, alone) = self.write(shipment, indices, batch, report).await;
            let calls = self.gather(entries, shipment, report);
            let together = calls.into_iter().map(|call| self.post(call, shipment.deadline, report));
            let alone = alone.into_iter().map(|index| self.deliver_alone(shipment, index, batch, report));
            tokio::join!(join_all(together), join_all(alone));
        })
    }

    /// The mails that can share a call, and the messages that have to go alone.
    async fn write(
        &self,
        shipment: &Shipment,
        indices: Range<usize>,
        batch: &Batch<'_>,
        report: &Report<'_>,
    ) -> (Vec<Entry>, Vec<usize>) {
        let (mut entries, mut alone) = (Vec::new(), Vec::new());
        for index in indices {
            let message = &shipment.messages[index];
            match batch.parts(message).await {
                Ok(parts) => match bulk_entry(&parts, &message.reference) {
                    Some(json) if HEAD_BYTES + json.len() <= BULK_BYTES_MAX => {
                        entries.push(Entry { index, has_html: parts.html.is_some(), json });
                    }
                    Some(_) | None => alone.push(index),
                },
                Err(error) => report(index, error.answer()),
            }
            // Writing takes a moment each, and others wait for this thread.
            tokio::task::yield_now().await;
        }
        (entries, alone)
    }

    async fn deliver_alone(&self, shipment: &Shipment, index: usize, batch: &Batch<'_>, report: &Report<'_>) {
        report(index, self.attempt(shipment, &shipment.messages[index], batch).await);
    }

    /// Every mail takes its turn; those whose turns are near share a call.
    fn gather(&self, entries: Vec<Entry>, shipment: &Shipment, report: &Report<'_>) -> Vec<Call> {
        let span_ms = match shipment.lane {
            Priority::Critical => 0,
            Priority::High | Priority::Normal | Priority::Low => BULK_TURNS_MS,
        };
        let mut calls: Vec<Call> = Vec::new();
        for entry in entries {
            match (self.turn(shipment.deadline), calls.last_mut()) {
                (Err(answer), _) => report(entry.index, answer),
                (Ok(at), Some(call)) if call.takes(&entry, at, span_ms) => call.push(entry, at),
                (Ok(at), Some(_) | None) => calls.push(Call::new(entry, at)),
            }
        }
        calls
    }

    async fn post(&self, mut call: Call, deadline: Millis, report: &Report<'_>) {
        if call.leaves_at > self.now() {
            self.ports.tasks.sleep_until(call.leaves_at).await;
        }
        let wall = self.ports.clock.wall();
        call.entries.retain(|entry| match self.warm(wall) {
            Ok(()) => true,
            Err(answer) => {
                report(entry.index, answer);
                false
            }
        });
        let Some(first) = call.entries.first() else { return };
        let entries: Vec<&str> = call.entries.iter().map(|entry| entry.json.as_str()).collect();
        let request = send_bulk_email(&self.settings, first.has_html, &entries);
        let answers = match self.call(request, deadline).await {
            Ok(reply) => {
                let verdicts = bulk_answers(reply.status, &reply.headers, &reply.body, entries.len());
                // Each thing that is to be known about the account once, what slows it down before what speeds it up.
                for news in [News::NeedsOperator, News::DayIsOver, News::Throttled, News::Works] {
                    if let Some(verdict) = verdicts.iter().find(|verdict| verdict.news == news) {
                        self.heed(verdict);
                    }
                }
                verdicts.into_iter().map(|verdict| verdict.answer).collect()
            }
            Err(failure) => vec![failed(failure); entries.len()],
        };
        for (entry, answer) in call.entries.iter().zip::<Vec<Answer>>(answers) {
            self.settle(&answer, wall);
            report(entry.index, answer);
        }
    }
}
