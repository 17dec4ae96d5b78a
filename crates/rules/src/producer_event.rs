//! What a producer can be told by webhook. Names and numbers are frozen.
//!
//! Decides: which state of a delivery is worth a word. States that something follows (queued, sending, deferred, unknown) are
//! not: what follows is told.

use crate::attempt::State;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum ProducerEvent {
    Sent = 0,
    Delivered = 1,
    /// Refused for good, bounced, or given up.
    Failed = 2,
    Suppressed = 3,
    Expired = 4,
    Cancelled = 5,
    /// May or may not have been sent.
    Unconfirmed = 6,
    /// Of an event to a list: how far it is.
    Progress = 7,
    /// Of an event to a list: it is done.
    Summary = 8,
}

impl ProducerEvent {
    pub const ALL: [Self; 9] = [
        Self::Sent,
        Self::Delivered,
        Self::Failed,
        Self::Suppressed,
        Self::Expired,
        Self::Cancelled,
        Self::Unconfirmed,
        Self::Progress,
        Self::Summary,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "notification.sent",
            Self::Delivered => "notification.delivered",
            Self::Failed => "notification.failed",
            Self::Suppressed => "notification.suppressed",
            Self::Expired => "notification.expired",
            Self::Cancelled => "notification.cancelled",
            Self::Unconfirmed => "notification.unconfirmed",
            Self::Progress => "notification.progress",
            Self::Summary => "notification.summary",
        }
    }

    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Its place in a set of events.
    #[must_use]
    pub fn bit(self) -> u32 {
        1 << self as u8
    }

    #[must_use]
    pub fn is_in(self, set: u32) -> bool {
        set & self.bit() != 0
    }

    /// What a delivery that came to a state is worth.
    #[must_use]
    pub fn of_state(state: State) -> Option<Self> {
        match state {
            State::Accepted => Some(Self::Sent),
            State::Delivered => Some(Self::Delivered),
            State::Failed | State::Dead => Some(Self::Failed),
            State::Suppressed => Some(Self::Suppressed),
            State::Expired => Some(Self::Expired),
            State::Cancelled => Some(Self::Cancelled),
            State::Unconfirmed => Some(Self::Unconfirmed),
            State::Planned
            | State::Intent
            | State::Deferred
            | State::Folded
            | State::Superseded
            | State::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: API-06
    #[test]
    fn names_and_bits_are_frozen_and_unique() {
        for (number, event) in ProducerEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, number);
            assert_eq!(ProducerEvent::parse(event.name()), Some(event));
            for other in ProducerEvent::ALL {
                assert_eq!(other.is_in(event.bit()), other == event);
            }
        }
        assert_eq!(ProducerEvent::parse("notification.read"), None);
        assert_eq!(ProducerEvent::of_state(State::Dead), Some(ProducerEvent::Failed));
        assert_eq!(ProducerEvent::of_state(State::Deferred), None);
    }
}
