//! When a delivery was sent, delivered, opened and clicked, from its notes.
//!
//! Comes from: the status. Deliveries of a fan-out have no notes: their ledger knows only when their parcel was planned.

use fantail_machine::shard::redrive::{CLICKED, OPENED};
use fantail_machine::tables::track::Note;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::Millis;

/// Each is `None` as long as it is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeliveryTimes {
    /// A provider took it.
    pub sent: Option<Millis>,
    pub delivered: Option<Millis>,
    pub opened: Option<Millis>,
    pub clicked: Option<Millis>,
}

impl DeliveryTimes {
    /// A click implies that the message was opened, and that implies that it was delivered: what no receipt reported before
    /// has the time of the first one that implies it.
    #[must_use]
    pub fn of(notes: &[Note]) -> Self {
        let first = |is_meant: &dyn Fn(&Note) -> bool| {
            notes.iter().filter(|note| is_meant(note)).map(|note| note.at).min()
        };
        let is_delivered = |note: &Note| note.state == State::Delivered;
        Self {
            sent: first(&|note| note.state == State::Accepted),
            delivered: first(&is_delivered),
            opened: first(&|note| is_delivered(note) && [OPENED, CLICKED].contains(&note.code.as_str())),
            clicked: first(&|note| is_delivered(note) && note.code == CLICKED),
        }
    }

    /// An entry of an inbox is sent and delivered when the user's shard takes its event.
    #[must_use]
    pub fn of_entry(channel: ChannelKind, state: State, begun: Millis) -> Option<Self> {
        let is_shown = channel == ChannelKind::InApp && state == State::Delivered;
        is_shown.then(|| Self { sent: Some(begun), delivered: Some(begun), ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes by state, code and time; the times of sent, delivered, opened and clicked, 0 for none.
    #[track_caller]
    fn check(notes: &[(State, &str, u64)], expected: [u64; 4]) {
        let note = |(state, code, at): &(State, &str, u64)| Note {
            at: Millis(*at),
            state: *state,
            code: (*code).to_owned(),
            message: String::new(),
            provider_id: String::new(),
        };
        let notes: Vec<Note> = notes.iter().map(note).collect();
        let found = DeliveryTimes::of(&notes);
        let times = [found.sent, found.delivered, found.opened, found.clicked];
        assert_eq!(times.map(|time| time.map_or(0, |time| time.0)), expected, "{notes:?}");
    }

    // proves: TRK-06
    // fixes: contract 1b
    #[test]
    fn times_are_those_of_what_was_reported_or_implies_it() {
        use State::{Accepted, Deferred, Delivered, Failed};
        check(&[], [0; 4]);
        check(&[(Deferred, "quiet_hours", 5), (Deferred, "busy", 7)], [0; 4]);
        check(&[(Deferred, "busy", 7), (Accepted, "", 9)], [9, 0, 0, 0]);
        check(&[(Accepted, "", 9), (Failed, "bounced", 20)], [9, 0, 0, 0]);
        check(&[(Accepted, "", 9), (Delivered, "", 12)], [9, 12, 0, 0]);
        check(
            &[(Accepted, "", 9), (Delivered, "", 12), (Delivered, "opened", 15), (Delivered, "clicked", 17)],
            [9, 12, 15, 17],
        );
        check(&[(Accepted, "", 9), (Delivered, "clicked", 17)], [9, 17, 17, 17]);
        // A receipt that comes before the provider's answer, or is about an earlier time.
        check(&[(Delivered, "", 8)], [0, 8, 0, 0]);
        check(&[(Accepted, "", 9), (Delivered, "opened", 15), (Delivered, "clicked", 14)], [9, 14, 14, 14]);
        check(&[(Accepted, "", 9), (Delivered, "complained", 15)], [9, 15, 0, 0]);
    }

    #[test]
    fn an_entry_is_delivered_when_it_is_taken() {
        let at = Some(Millis(7));
        let shown = DeliveryTimes::of_entry(ChannelKind::InApp, State::Delivered, Millis(7));
        assert_eq!(shown.map(|times| (times.sent, times.delivered, times.opened)), Some((at, at, None)));
        assert_eq!(DeliveryTimes::of_entry(ChannelKind::InApp, State::Suppressed, Millis(7)), None);
        assert_eq!(DeliveryTimes::of_entry(ChannelKind::Push, State::Delivered, Millis(7)), None);
    }
}
