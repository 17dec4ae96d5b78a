//! What a producer may ask for beside the content, and what became of a wish to call things off.

use super::{DeliveryState, NotificationStatus};
use fantail_rules::ids::Millis;
use fantail_rules::schedule::Appointment;
use fantail_rules::zone::ZoneNo;
use std::collections::BTreeSet;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionsAsk {
    /// Held back until then; `None` for now.
    pub due: Option<Millis>,
    /// When each recipient is to be told, on that user's own clock.
    pub appointment: Option<Appointment>,
    /// Everything with the same key can be called off together.
    pub cancellation_key: Option<String>,
    /// A later one takes the place of an earlier one on a device.
    pub collapse_key: Option<String>,
    /// Channels carry a generic text; the content is for the inbox alone.
    pub is_sensitive: bool,
}

impl OptionsAsk {
    /// Until when its front holds it back: shards do not hear of it before the first of all people may be told.
    #[must_use]
    pub fn held_until(&self, now: Millis) -> Option<Millis> {
        let due = self.due.or(self.appointment.and_then(Appointment::earliest));
        due.filter(|due| *due > now)
    }

    /// From when on the time to live counts: when the last of all people may be told.
    #[must_use]
    pub fn begins(&self, now: Millis) -> Millis {
        let due = self.held_until(now).unwrap_or(now);
        self.appointment.map_or(due, |appointment| appointment.begins(due))
    }

    /// When the last of the people in these zones is told, or of all people if none are known.
    #[must_use]
    pub fn last_told(&self, now: Millis, zones: &BTreeSet<ZoneNo>) -> Millis {
        let of_these =
            self.appointment.and_then(|appointment| appointment.last_of(zones.iter().copied(), now));
        of_these.unwrap_or_else(|| self.begins(now))
    }
}

/// What was called off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Called {
    /// Something of them was still to be sent.
    pub cancelled: u64,
    /// All of them had been decided about.
    pub too_late: u64,
    /// Deliveries that had left before.
    pub deliveries_sent: u64,
    /// A shard has not taken it yet: until it does, something may still be sent.
    pub is_pending: bool,
}

impl Called {
    /// How one stands after it was called off.
    pub(crate) fn add(&mut self, status: &NotificationStatus) {
        let counts = || status.channels.iter().flat_map(|channel| &channel.counts);
        self.deliveries_sent +=
            counts().filter(|(state, _)| has_left(*state)).map(|(_, count)| count).sum::<u64>();
        if !status.has_stopped() {
            self.too_late += 1;
        } else {
            self.cancelled += 1;
        }
    }
}

/// Whether something was, or may have been, sent.
fn has_left(state: DeliveryState) -> bool {
    match state {
        DeliveryState::Intent
        | DeliveryState::Accepted
        | DeliveryState::Delivered
        | DeliveryState::Failed
        | DeliveryState::Unknown
        | DeliveryState::Unconfirmed => true,
        DeliveryState::Planned
        | DeliveryState::Suppressed
        | DeliveryState::Deferred
        | DeliveryState::Expired
        | DeliveryState::Cancelled
        | DeliveryState::Folded
        | DeliveryState::Superseded
        | DeliveryState::Dead => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::{ChannelKind, ChannelStatus, Phase};
    use fantail_rules::ulid::Ulid;

    // proves: SCH-02
    #[test]
    fn too_late_is_what_had_been_decided_about() {
        let status = |phase, never_released, counts: &[(DeliveryState, u64)]| NotificationStatus {
            name: None,
            event: Ulid(1),
            created_at: Millis(0),
            category: String::new(),
            is_cancelled: true,
            is_retracted: false,
            recipients: 1,
            phase,
            never_released,
            due: None,
            channels: vec![ChannelStatus {
                channel: ChannelKind::Push,
                counts: counts.to_vec(),
                unreached: 0,
                is_done: phase == Phase::Done,
            }],
        };
        use DeliveryState::{Accepted, Cancelled, Deferred, Delivered, Intent, Suppressed};
        let cases = [
            (status(Phase::Done, false, &[(Accepted, 2), (Delivered, 1)]), (0, 1, 3)),
            (status(Phase::Done, false, &[(Suppressed, 2)]), (0, 1, 0)),
            (status(Phase::Done, false, &[(Accepted, 2), (Cancelled, 1)]), (1, 0, 2)),
            (status(Phase::Sending, false, &[(Accepted, 2)]), (1, 0, 2)),
            (status(Phase::Sending, false, &[(Intent, 1)]), (0, 1, 1)),
            (status(Phase::Sending, false, &[(Intent, 1), (Deferred, 1)]), (1, 0, 1)),
            (status(Phase::Done, true, &[]), (1, 0, 0)),
        ];
        for (status, (cancelled, too_late, deliveries_sent)) in cases {
            let mut called = Called::default();
            called.add(&status);
            assert_eq!(
                called,
                Called { cancelled, too_late, deliveries_sent, is_pending: false },
                "{status:?}"
            );
        }
    }
}
