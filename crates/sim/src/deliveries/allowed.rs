//! Whether a delivery may be sent at its place of the journal, and what that counts.

use super::{Key, Shard};
use crate::broken::{Broken, Invariant};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::Millis;
use fantail_rules::priority::Priority;

const HOUR_MS: u64 = 3_600_000;

impl Shard {
    /// A notification counts for the hour in which it may first be sent, to whichever device.
    pub(super) fn count(&mut self, key: Key, lane: Priority, at: Millis) -> Result<(), Broken> {
        let Key { tenant, arrival, user, .. } = key;
        let is_new = key.channel == ChannelKind::Push && self.authorised.insert((tenant, user, arrival));
        let Some(limit) = self.limits.get(&(tenant, user)).filter(|_| is_new) else { return Ok(()) };
        let got = self.got.entry((tenant, user, at.0 / HOUR_MS)).or_default();
        let is_fine = *got < *limit || lane == Priority::Critical;
        Invariant::Limits.holds(is_fine, || format!("{key:?} is intended after {got} of {limit}"))?;
        *got += 1;
        Ok(())
    }

    /// Whether anything may be sent at this place of the journal.
    pub(super) fn may_leave(&self, key: Key, at: Millis) -> Result<(), Broken> {
        let event = self.events.get(&(key.tenant, key.arrival));
        let halted = event.is_none_or(|event| event.is_halted);
        Invariant::CalledOff
            .holds(!halted, || format!("{key:?} is intended, but the event was called off"))?;
        let terms = event.and_then(|event| event.leaving).map(|leaving| leaving.terms);
        let is_late = terms.is_none_or(|terms| at >= terms.expires_at);
        Invariant::TimeToLive.holds(!is_late, || format!("{key:?} is intended at {at}, too late"))?;
        let has_agreed = key.channel != ChannelKind::Push || self.agreed.contains(&(key.tenant, key.user));
        Invariant::Consent.holds(has_agreed, || format!("{key:?} is intended without consent"))?;
        let status = self.endpoints.get(&(key.tenant, key.user, key.device)).map(|one| one.status);
        let is_active = status == Some(Status::Active);
        Invariant::Endpoints
            .holds(is_active, || format!("{key:?} is intended, but its endpoint is {status:?}"))
    }
}
