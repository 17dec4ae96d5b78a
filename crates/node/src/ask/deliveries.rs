//! What became of notifications, as callers see it.

use super::{ChannelKind, ChannelSet, Class, DeliveryState, Halt, Place, Priority};
pub use crate::delivery_times::DeliveryTimes;
use fantail_machine::tables::track::Note;
use fantail_rules::chain::Chain;
use fantail_rules::gates::Reason;
use fantail_rules::ids::{Arrival, Millis, UserNo};
use fantail_rules::schedule::Appointment;
use fantail_rules::ulid::Ulid;

/// What became of a notification, in sums.
#[derive(Clone, Debug)]
pub struct NotificationStatus {
    pub event: Ulid,
    /// What its producer calls it; events have no name.
    pub name: Option<String>,
    pub created_at: Millis,
    pub category: String,
    pub is_cancelled: bool,
    pub is_retracted: bool,
    /// How many were named; 0 for a list.
    pub recipients: u64,
    pub phase: Phase,
    /// It was called off before it was due.
    pub never_released: bool,
    /// When it was, or is, to be sent, if that was not at once.
    pub due: Option<Millis>,
    pub channels: Vec<ChannelStatus>,
}

impl NotificationStatus {
    /// Whether calling it off has stopped, or stops, anything. What of a list was never looked at leaves no trace.
    pub(crate) fn has_stopped(&self) -> bool {
        if self.never_released || self.recipients == 0 {
            return self.never_released || self.is_cancelled;
        }
        let sum = |wanted: &[DeliveryState]| -> u64 {
            let counts = self.channels.iter().flat_map(|channel| &channel.counts);
            counts.filter(|(state, _)| wanted.contains(state)).map(|(_, count)| count).sum()
        };
        let is_on_its_way = || sum(&[DeliveryState::Intent, DeliveryState::Unknown]) > 0;
        sum(&[DeliveryState::Cancelled, DeliveryState::Deferred, DeliveryState::Planned]) > 0
            || (self.phase != Phase::Done && !is_on_its_way())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Held back until it is due.
    Scheduled,
    Sending,
    /// Nothing more will happen on its own.
    Done,
}

#[derive(Clone, Debug)]
pub struct ChannelStatus {
    pub channel: ChannelKind,
    pub counts: Vec<(DeliveryState, u64)>,
    /// Members of the list who have no endpoint there.
    pub unreached: u64,
    /// Nothing more will happen, other than receipts and redrives.
    pub is_done: bool,
}

#[derive(Clone, Debug)]
pub struct RecipientPage {
    pub recipients: Vec<RecipientStatus>,
    pub next: Option<Place>,
}

/// One delivery.
#[derive(Clone, Debug)]
pub struct RecipientStatus {
    pub place: Place,
    /// Empty if the user is gone, or has no name.
    pub user: String,
    /// Of a user without a name, in part.
    pub address: Option<String>,
    pub device: u16,
    pub state: DeliveryState,
    pub code: String,
    pub attempts: u8,
    /// When its parcel was planned.
    pub begun_at: Millis,
    pub times: DeliveryTimes,
}

/// Everything that is known about one recipient of an event.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub event: Ulid,
    /// What its producer calls it; events have no name.
    pub name: Option<String>,
    pub user: String,
    pub accepted_at: Millis,
    pub category: String,
    pub priority: Priority,
    pub channels: ChannelSet,
    /// Which of them wait for which.
    pub chain: Chain,
    pub expires_at: Option<Millis>,
    pub class: Option<Class>,
    /// `None`: the user's shard has not taken it, or it is not for anybody there.
    pub arrival: Option<Arrival>,
    pub is_in_inbox: bool,
    /// What it tells of, if it is a digest.
    pub digest_of: Option<Vec<Ulid>>,
    /// When it was, or is, to be sent, if that was not at once.
    pub due: Option<Millis>,
    /// When recipients are told, on their own clocks.
    pub appointment: Option<Appointment>,
    pub phase: Phase,
    pub collapse_key: Option<String>,
    pub is_sensitive: bool,
    pub rendered: Option<RenderedView>,
    pub halted: Option<Halt>,
    pub deliveries: Vec<(ChannelKind, Vec<DeliveryView>)>,
}

/// What a template made for one recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenderedView {
    pub template: String,
    pub version: u32,
    pub variant: Option<String>,
    /// The language of each channel: what is not translated is in the default one.
    pub locales: Vec<(ChannelKind, String)>,
}

#[derive(Clone, Debug)]
pub struct DeliveryView {
    pub device: u16,
    pub state: DeliveryState,
    pub code: String,
    pub retries: u8,
    pub resends: u8,
    /// When it is looked at again; of what waits in a window, when that ends.
    pub due: Millis,
    pub parcel_first: UserNo,
    pub position: u16,
    pub round: u16,
    pub begun_at: Millis,
    /// For direct sends: what happened, in order.
    pub notes: Vec<DeliveryNote>,
}

#[derive(Clone, Debug)]
pub struct DeliveryNote {
    pub at: Millis,
    pub state: DeliveryState,
    pub code: String,
    pub message: String,
    pub provider_id: String,
    /// Which gate put the delivery off, if that is what it says.
    pub gate: Option<Reason>,
}

impl DeliveryNote {
    pub(crate) fn of(note: Note) -> Self {
        let gate = note.gate();
        let Note { at, state, code, message, provider_id } = note;
        Self { at, state, code, message, provider_id, gate }
    }
}

#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub event: Ulid,
    /// What its producer calls it; events have no name.
    pub name: Option<String>,
    pub channel: ChannelKind,
    pub lane: Priority,
    pub user: String,
    /// Of a user without a name, in part.
    pub address: Option<String>,
    pub device: u16,
    pub code: String,
    pub attempts: u8,
    pub begun_at: Millis,
}

/// What somebody says about a delivery later.
#[derive(Clone, Debug)]
pub struct ReceiptAsk {
    /// As the message carried it.
    pub reference: String,
    /// The only channel that is spoken of; `None` for any.
    pub channel: Option<ChannelKind>,
    pub outcome: Outcome,
    pub at: Option<Millis>,
    /// The provider's word for it, if there is one.
    pub code: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Delivered,
    Opened,
    Clicked,
    Complained,
    Failed,
    Bounced,
}
