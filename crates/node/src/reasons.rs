//! How deliveries come to stand where they stand, counted by channel, state and reason.
//!
//! Comes from: the records that a shard's leader plans. Does: adds up the standings of each; a parcel that went one way
//! costs one addition. Goes to: `meter`, and from there to metrics; nothing decides on it.
//!
//! What must never happen: a label that somebody outside can make up. Reasons that are not in [`REASONS`] are `other`.

use fantail_machine::parcel::Words;
use fantail_machine::records::delivery::{Intend, Outcome, Receipt, Redrive, Wake};
use fantail_machine::records::digest::DigestRecord;
use fantail_machine::records::halt::HaltRecord;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::shard::collect::{COLLECTED, SINGLY};
use fantail_machine::shard::intend::ENDPOINT_CHANGED;
use fantail_machine::shard::wake::RESENT;
use fantail_machine::shard::windows::READ;
use fantail_machine::tables::ledger::Standing;
use fantail_rules::attempt::State;
use fantail_rules::chain::{Cause, Spared, WAITING};
use fantail_rules::channel_kind::ChannelKind;
use std::collections::BTreeMap;

/// What is told of a standing without a code, and of one with a code that is not known here.
const NONE: &str = "none";
const OTHER: &str = "other";
/// Of what a digest took.
const DIGEST: &str = "digest";

/// Gates' words, ours, and those of providers that mean something everywhere.
pub const REASONS: [&str; 68] = [
    "no_endpoint",
    "address_suppressed",
    "erased",
    "endpoint_gone",
    "cancelled",
    "retracted",
    "ttl_expired",
    "no_consent",
    "channel_blocked",
    "global_off",
    "category_off",
    "category_channel_off",
    "channel_off",
    "quiet_hours",
    "quiet_hours_no_zone",
    "frequency_capped",
    "profile_unresolved",
    "throttled",
    "local_time",
    "off_peak",
    "endpoint_pending",
    ENDPOINT_CHANGED,
    "leader_lost",
    "no_answer",
    "not_started",
    "no_provider",
    "no_connection",
    "unprocessed",
    "deadline",
    "forbidden_target",
    "unconfirmed",
    RESENT,
    "redriven",
    DIGEST,
    COLLECTED,
    SINGLY,
    READ,
    WAITING,
    "fallback_no_receipt",
    "fallback_not_seen",
    "fallback_failed",
    "fallback_arrived",
    "fallback_seen",
    "fallback_sent",
    "fallback_elsewhere",
    "opened",
    "clicked",
    "complained",
    "bounced",
    "dropped",
    "timeout",
    "reset",
    "protocol",
    "endpoint",
    "dead",
    "malformed",
    "unwanted",
    "400",
    "401",
    "403",
    "404",
    "410",
    "413",
    "429",
    "500",
    "502",
    "503",
    "504",
];

/// Deliveries that came to each standing.
#[derive(Clone, Debug, Default)]
pub struct Stood(BTreeMap<(ChannelKind, State, &'static str), u64>);

impl Stood {
    pub fn count(&mut self, record: &ShardRecord) {
        match record {
            ShardRecord::Intend(Intend { work, verdicts, .. }) => self.add_words(work.channel, verdicts),
            ShardRecord::Wake(Wake { parcel, verdicts, .. }) => self.add_words(parcel.channel, verdicts),
            ShardRecord::Outcome(Outcome { parcel, standings, .. })
            | ShardRecord::Redrive(Redrive { parcel, standings, .. }) => {
                self.add_words(parcel.channel, standings);
            }
            ShardRecord::Digest(DigestRecord::Folded(folded)) => {
                for item in &folded.items {
                    self.add(folded.channel, &item.standing, item.positions.len() as u64);
                }
            }
            ShardRecord::Receipt(Receipt { parcel, standing, .. }) => self.add(parcel.channel, standing, 1),
            ShardRecord::Halt(HaltRecord::CalledOff(called)) => {
                let channels = called.delivery.iter().flat_map(|delivery| delivery.channels.iter());
                let (standing, count) = (called.standing(), called.members.len() as u64);
                channels.for_each(|channel| self.add(channel, &standing, count));
            }
            ShardRecord::EndpointPut { .. }
            | ShardRecord::EndpointState { .. }
            | ShardRecord::UserPut { .. }
            | ShardRecord::UserGone { .. }
            | ShardRecord::Preferred(_)
            | ShardRecord::Consented { .. }
            | ShardRecord::Replanned { .. }
            | ShardRecord::Erasure(_)
            | ShardRecord::Edges { .. }
            | ShardRecord::Take { .. }
            | ShardRecord::Given(_)
            | ShardRecord::Marked { .. }
            | ShardRecord::Moved { .. }
            | ShardRecord::Cleared { .. }
            | ShardRecord::Unlisted { .. }
            | ShardRecord::Reported { .. }
            | ShardRecord::Shredded { .. }
            | ShardRecord::Expired { .. }
            | ShardRecord::EndpointGone { .. }
            | ShardRecord::Closed { .. }
            | ShardRecord::Halt(HaltRecord::Ended { .. })
            | ShardRecord::Swept(_)
            | ShardRecord::Digest(
                DigestRecord::Collected(_) | DigestRecord::Closed(_) | DigestRecord::Digested(_),
            )
            | ShardRecord::Told(_)
            | ShardRecord::Walk(_)
            | ShardRecord::Throttle(_)
            | ShardRecord::Untold { .. } => {}
        }
    }

    fn add_words(&mut self, channel: ChannelKind, words: &Words<Standing>) {
        if let [only] = words.words.as_slice() {
            return self.add(channel, only, words.codes.len() as u64);
        }
        let mut counts = vec![0; words.words.len()];
        words.codes.iter().for_each(|code| counts[usize::from(*code)] += 1);
        words.words.iter().zip(counts).for_each(|(standing, count)| self.add(channel, standing, count));
    }

    fn add(&mut self, channel: ChannelKind, standing: &Standing, count: u64) {
        if count > 0 {
            // The code of what a digest took names the digest.
            let reason = if standing.state == State::Folded { DIGEST } else { known(&standing.code) };
            *self.0.entry((channel, standing.state, reason)).or_insert(0) += count;
        }
    }

    pub fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(key, count)| *self.0.entry(*key).or_insert(0) += count);
    }

    /// What is more than an allowed attempt, by channel, state and reason.
    pub fn outcomes(&self) -> impl Iterator<Item = (ChannelKind, State, &'static str, u64)> {
        let ended = self.0.iter().filter(|((_, state, _), _)| *state != State::Intent);
        ended.map(|((channel, state, reason), count)| (*channel, *state, *reason, *count))
    }

    /// Fallbacks that were tried, by cause, and that were not needed, by reason.
    pub fn fallbacks(&self) -> impl Iterator<Item = (ChannelKind, &'static str, &'static str, u64)> {
        self.0.iter().filter_map(|((channel, state, reason), count)| match state {
            State::Intent => Cause::parse(reason).map(|cause| (*channel, "tried", cause.word(), *count)),
            State::Suppressed => {
                Spared::parse(reason).map(|spared| (*channel, "not_needed", spared.word(), *count))
            }
            _ => None,
        })
    }

    /// Deliveries of which nobody knew whether they had been sent: how many were sent once more, and how many were let be.
    #[must_use]
    pub fn ambiguous(&self, channel: ChannelKind) -> (u64, u64) {
        let sum = |is_one: &dyn Fn(State, &str) -> bool| {
            let of =
                self.0.iter().filter(|((of, state, reason), _)| *of == channel && is_one(*state, reason));
            of.map(|(_, count)| count).sum()
        };
        let resent = sum(&|state, reason| state == State::Intent && reason == RESENT);
        (resent, sum(&|state, _| state == State::Unconfirmed))
    }
}

fn known(code: &str) -> &'static str {
    if code.is_empty() {
        return NONE;
    }
    REASONS.into_iter().find(|reason| *reason == code).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_machine::records::delivery::{Consents, Counted};
    use fantail_machine::tables::ledger::ParcelId;
    use fantail_rules::gates::Reason;
    use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};

    fn standing(state: State, code: &str) -> Standing {
        Standing {
            state,
            retries: 0,
            resends: 0,
            due: Millis(0),
            code: code.to_owned(),
            was_authorised: false,
        }
    }

    fn outcome(standings: &[(State, &str)]) -> ShardRecord {
        let mut words = Words::empty();
        standings.iter().for_each(|(state, code)| words.push(standing(*state, code)));
        let parcel = ParcelId {
            tenant: TenantId(1),
            arrival: Arrival(1),
            channel: ChannelKind::Push,
            first: UserNo(0),
        };
        let positions = (0..).take(standings.len()).collect();
        let (counted, consents) = (Counted::nothing(), Consents::nothing());
        let due = Millis(1);
        ShardRecord::Wake(Wake { parcel, round: 2, due, positions, verdicts: words, counted, consents })
    }

    // proves: OBS-03, PRF-04
    #[test]
    fn every_gate_is_told_apart() {
        for reason in Reason::ALL {
            assert_eq!(known(reason.word()), reason.word());
        }
        let steps = Cause::ALL.map(Cause::word).into_iter().chain(Spared::ALL.map(Spared::word));
        for word in steps {
            assert_eq!(known(word), word);
        }
    }

    // proves: DEL-17, OBS-03
    #[test]
    fn fallbacks_are_counted_by_why() {
        let mut stood = Stood::default();
        stood.count(&outcome(&[
            (State::Intent, "fallback_no_receipt"),
            (State::Intent, "fallback_no_receipt"),
            (State::Intent, ""),
            (State::Suppressed, "fallback_seen"),
            (State::Suppressed, "no_consent"),
            (State::Deferred, WAITING),
        ]));
        let told: Vec<_> = stood.fallbacks().map(|(_, what, why, count)| (what, why, count)).collect();
        let expected = [("tried", "fallback_no_receipt", 2), ("not_needed", "fallback_seen", 1)];
        assert_eq!(told, expected);
    }

    // proves: DED-01, OBS-03
    #[test]
    fn labels_are_bounded_and_the_ambiguous_are_counted() {
        let mut stood = Stood::default();
        stood.count(&outcome(&[
            (State::Intent, RESENT),
            (State::Intent, ""),
            (State::Unconfirmed, "unconfirmed"),
            (State::Unconfirmed, "unconfirmed"),
            (State::Failed, "made up by a provider"),
            (State::Failed, "and another"),
        ]));
        stood.count(&outcome(&[(State::Accepted, ""), (State::Accepted, "")]));
        let mut all = Stood::default();
        all.join(&stood);
        all.join(&stood);
        assert_eq!(all.ambiguous(ChannelKind::Push), (2, 4));
        assert_eq!(all.ambiguous(ChannelKind::Sms), (0, 0));
        let told: Vec<_> = all.outcomes().map(|(_, state, reason, count)| (state, reason, count)).collect();
        let expected = [
            (State::Accepted, "none", 4),
            (State::Failed, "other", 4),
            (State::Unconfirmed, "unconfirmed", 4),
        ];
        assert_eq!(told, expected);
    }
}
