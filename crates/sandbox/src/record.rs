//! Every message that arrived, as the emulators saw it.
//!
//! Two stores, both bounded: rows (id, recipient, hash, time) for the judge, and the newest contents for the viewer. What
//! must never happen: a row that is lost in silence. When rows are full, what still arrives is counted as unrecorded,
//! logged as an error, and every verdict says that it is incomplete.

use aws_lc_rs::digest;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::error;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    Push,
    Email,
    Sms,
    Webhook,
}

/// What an emulator says about a message.
pub struct Arrival {
    pub emulator: &'static str,
    pub channel: Channel,
    /// What the sender repeats when it sends again: apns-id, Message-ID, a reference.
    pub id: String,
    pub recipient: String,
    pub sha256: [u8; 32],
    pub at_ms: u64,
    pub connection: u64,
    /// `None` if the provider would have taken it, otherwise its reason. Refused ones are shown, not judged.
    pub refused: Option<String>,
    pub contents: Box<dyn Contents>,
}

/// Something the viewer can show. Made into JSON only when somebody looks.
pub trait Contents: Send + Sync {
    fn show(&self) -> Value;
    /// About how much memory it holds.
    fn bytes(&self) -> usize;
}

impl Contents for Value {
    fn show(&self) -> Value {
        self.clone()
    }

    fn bytes(&self) -> usize {
        self.to_string().len()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub rows: usize,
    /// Of ids and recipients in rows.
    pub row_bytes: usize,
    pub shown: usize,
    pub shown_bytes: usize,
}

impl Default for Limits {
    /// About half a gigabyte at most.
    fn default() -> Self {
        Self { rows: 2_000_000, row_bytes: 256 << 20, shown: 10_000, shown_bytes: 64 << 20 }
    }
}

/// For the judge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub emulator: &'static str,
    pub id: Box<str>,
    pub recipient: Box<str>,
    pub sha256: [u8; 32],
    pub at_ms: u64,
    pub connection: u64,
    /// Whether the answer was handed to the connection.
    pub answered: bool,
    /// Messages of its emulator that had arrived by then and were not answered, this one included.
    pub under_way: u32,
}

struct Shown {
    no: u64,
    row: Option<usize>,
    answered: bool,
    arrival: Arrival,
}

/// What an answer refers to, so that it can be marked as answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    no: u64,
    row: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub arrived: u64,
    pub refused: u64,
    /// Arrived when the rows were full: the judge does not know them.
    pub unrecorded: u64,
    /// Left the viewer to make room.
    pub forgotten: u64,
}

pub struct Record {
    limits: Limits,
    store: Mutex<Store>,
}

#[derive(Default)]
struct Store {
    rows: Vec<Row>,
    row_bytes: usize,
    /// By emulator.
    under_way: BTreeMap<&'static str, u32>,
    shown: VecDeque<Shown>,
    shown_bytes: usize,
    next_no: u64,
    counts: Counts,
}

/// Which messages to show.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub channel: Option<Channel>,
    pub emulator: Option<String>,
    pub recipient: Option<String>,
    /// Only those with a higher number.
    pub after: u64,
    pub is_newest_first: bool,
    pub limit: usize,
}

impl fmt::Debug for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Record").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Channel {
    pub const ALL: [Self; 4] = [Self::Push, Self::Email, Self::Sms, Self::Webhook];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Email => "email",
            Self::Sms => "sms",
            Self::Webhook => "webhook",
        }
    }
}

#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

impl Record {
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, store: Mutex::new(Store { next_no: 1, ..Store::default() }) }
    }

    pub fn add(&self, arrival: Arrival) -> Ticket {
        let mut store = self.lock();
        let no = store.next_no;
        store.next_no += 1;
        let row = if arrival.refused.is_some() {
            store.counts.refused += 1;
            None
        } else {
            store.counts.arrived += 1;
            store.keep_row(&self.limits, &arrival)
        };
        store.show(&self.limits, Shown { no, row, answered: false, arrival });
        Ticket { no, row }
    }

    /// The answer left.
    pub fn answered(&self, ticket: Ticket) {
        let mut store = self.lock();
        let row = ticket.row.and_then(|row| store.rows.get_mut(row)).filter(|row| !row.answered);
        if let Some(row) = row {
            row.answered = true;
            let emulator = row.emulator;
            if let Some(count) = store.under_way.get_mut(emulator) {
                *count -= 1;
            }
        }
        if let Some(shown) = store.find(ticket.no) {
            shown.answered = true;
        }
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// All rows, for the judge.
    pub fn read<T>(&self, ask: impl FnOnce(&[Row], Counts) -> T) -> T {
        let store = self.lock();
        ask(&store.rows, store.counts)
    }

    /// Oldest first unless it is wished otherwise, without contents.
    #[must_use]
    pub fn list(&self, filter: &Filter) -> Vec<Value> {
        let store = self.lock();
        let wanted = |shown: &&Shown| {
            let arrival = &shown.arrival;
            shown.no > filter.after
                && filter.channel.is_none_or(|channel| channel == arrival.channel)
                && filter.emulator.as_ref().is_none_or(|emulator| emulator == arrival.emulator)
                && filter.recipient.as_ref().is_none_or(|recipient| *recipient == arrival.recipient)
        };
        let shown = store.shown.iter();
        if filter.is_newest_first {
            return shown.rev().filter(wanted).take(filter.limit).map(Shown::head).collect();
        }
        shown.filter(wanted).take(filter.limit).map(Shown::head).collect()
    }

    /// One message with its contents.
    #[must_use]
    pub fn get(&self, no: u64) -> Option<Value> {
        let mut store = self.lock();
        let shown = store.find(no)?;
        let mut value = shown.head();
        value["content"] = shown.arrival.contents.show();
        Some(value)
    }

    pub fn clear(&self) {
        let mut store = self.lock();
        let next_no = store.next_no;
        *store = Store { next_no, ..Store::default() };
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    fn keep_row(&mut self, limits: &Limits, arrival: &Arrival) -> Option<usize> {
        let bytes = arrival.id.len() + arrival.recipient.len();
        if self.rows.len() >= limits.rows || self.row_bytes + bytes > limits.row_bytes {
            if self.counts.unrecorded == 0 && limits.rows > 0 {
                error!(rows = self.rows.len(), "the record is full: verdicts are incomplete from now on");
            }
            self.counts.unrecorded += 1;
            return None;
        }
        self.row_bytes += bytes;
        let under_way = self.under_way.entry(arrival.emulator).or_default();
        *under_way += 1;
        self.rows.push(Row {
            emulator: arrival.emulator,
            id: arrival.id.as_str().into(),
            recipient: arrival.recipient.as_str().into(),
            sha256: arrival.sha256,
            at_ms: arrival.at_ms,
            connection: arrival.connection,
            answered: false,
            under_way: *under_way,
        });
        Some(self.rows.len() - 1)
    }

    fn show(&mut self, limits: &Limits, shown: Shown) {
        let bytes = shown.arrival.contents.bytes();
        if limits.shown == 0 || bytes > limits.shown_bytes {
            self.counts.forgotten += 1;
            return;
        }
        self.shown_bytes += bytes;
        self.shown.push_back(shown);
        while self.shown.len() > limits.shown || self.shown_bytes > limits.shown_bytes {
            let Some(oldest) = self.shown.pop_front() else { break };
            self.shown_bytes -= oldest.arrival.contents.bytes();
            self.counts.forgotten += 1;
        }
    }

    fn find(&mut self, no: u64) -> Option<&mut Shown> {
        let at = self.shown.binary_search_by_key(&no, |shown| shown.no).ok()?;
        self.shown.get_mut(at)
    }
}

impl Shown {
    fn head(&self) -> Value {
        let arrival = &self.arrival;
        json!({
            "no": self.no,
            "emulator": arrival.emulator,
            "channel": arrival.channel.name(),
            "id": arrival.id,
            "recipient": arrival.recipient,
            "sha256": hex(&arrival.sha256),
            "atMs": arrival.at_ms,
            "connection": arrival.connection,
            "answered": self.answered,
            "refused": arrival.refused,
            "judged": self.row.is_some(),
        })
    }
}

/// Lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn arrival(id: &str, recipient: &str) -> Arrival {
        Arrival {
            emulator: "apns",
            channel: Channel::Push,
            id: id.to_owned(),
            recipient: recipient.to_owned(),
            sha256: sha256(b"content"),
            at_ms: 5,
            connection: 1,
            refused: None,
            contents: Box::new(json!({"aps": {}})),
        }
    }

    #[test]
    fn what_arrived_is_listed_and_shown() {
        let record = Record::new(Limits::default());
        let ticket = record.add(arrival("a", "x"));
        record.add(Arrival { refused: Some("BadTopic".to_owned()), ..arrival("b", "y") });
        record.answered(ticket);
        let all = record.list(&Filter { limit: 10, ..Filter::default() });
        assert_eq!(all.len(), 2);
        assert_eq!((&all[0]["id"], &all[0]["answered"]), (&json!("a"), &json!(true)));
        assert_eq!((&all[1]["refused"], &all[1]["judged"]), (&json!("BadTopic"), &json!(false)));
        let of_y = Filter { recipient: Some("y".to_owned()), limit: 10, ..Filter::default() };
        assert_eq!(record.list(&of_y).len(), 1);
        assert_eq!(record.list(&Filter { after: 1, limit: 10, ..Filter::default() }).len(), 1);
        assert_eq!(record.get(1).map(|shown| shown["content"].clone()), Some(json!({"aps": {}})));
        record.clear();
        assert_eq!(record.get(1), None);
        assert_eq!(record.counts(), Counts::default());
    }

    #[test]
    fn a_full_record_says_so() {
        let limits = Limits { rows: 2, shown: 2, ..Limits::default() };
        let record = Record::new(limits);
        for id in ["a", "b", "c"] {
            let ticket = record.add(arrival(id, "x"));
            record.answered(ticket);
        }
        let counts = Counts { arrived: 3, refused: 0, unrecorded: 1, forgotten: 1 };
        assert_eq!(record.counts(), counts);
        assert_eq!(record.get(1), None, "the oldest made room");
        let bytes = Record::new(Limits { row_bytes: 2, shown_bytes: 1, ..Limits::default() });
        bytes.add(arrival("a", "x"));
        bytes.add(arrival("b", "y"));
        assert_eq!(bytes.counts(), Counts { arrived: 2, refused: 0, unrecorded: 1, forgotten: 2 });
    }
}
