//! What leaves the house: who may get it, and who must.
//!
//! Whether it may leave at all, and how often, is in the journal; see `deliveries`. Here are only things that clients
//! know: whose device it is, who was meant, and what was said.

use super::people::{Enrolled, Known};
use super::posts::Fate;
use super::{Heard, Oracle, Step, Who};
use crate::broken::{Broken, Invariant};
use crate::call::{Address, Audience, PostId, Stranger, user_name};
use crate::provider::Sent;
use crate::template;
use fantail_node::ask::{ChannelKind, Refusal};
use fantail_rules::ids::TenantId;
use fantail_rules::ulid::Ulid;
use serde_json::Value;
use std::collections::BTreeSet;

/// What a digest says, as far as it can be held against anything: a text message names nothing.
struct Digest {
    events: Vec<Ulid>,
}

impl Digest {
    fn read(content: &[u8]) -> Option<Self> {
        let said: Value = serde_json::from_slice(content).ok()?;
        let Some(ids) = said["digest"]["eventIds"].as_array() else {
            let is_text = said["body"].as_str().is_some_and(|body| body.ends_with(" new in like"));
            return is_text.then_some(Self { events: Vec::new() });
        };
        let events: Option<Vec<Ulid>> = ids.iter().map(|id| Ulid::parse(id.as_str()?)).collect();
        Some(Self { events: events? })
    }
}

/// What was posted, and the ids that the server adds for a user's webhook: whose and of what it is.
struct Received {
    content: Vec<u8>,
    event: Option<String>,
    user: Option<String>,
}

impl Received {
    fn read(sent: &Sent) -> Self {
        let as_sent = Self { content: sent.content.clone(), event: None, user: None };
        if sent.channel != ChannelKind::Webhook {
            return as_sent;
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(&sent.content) else { return as_sent };
        // A template says the body itself, whole.
        if fields.contains_key("contentType") {
            return as_sent;
        }
        let [event, user, ..] = ["eventId", "userId", "category", "notificationId"]
            .map(|name| fields.remove(name).and_then(|id| Some(id.as_str()?.to_owned())));
        Self { content: written_anew(Value::Object(fields).to_string().as_bytes()), event, user }
    }

    /// Whether the ids are those of the delivery, as far as its event is known.
    fn is_about(&self, event: Option<Ulid>, owner: Option<Who>) -> bool {
        let is_event =
            self.event.as_ref().is_none_or(|id| event.is_none_or(|event| *id == event.to_string()));
        let is_user = self.user.as_ref().is_none_or(|id| owner.is_some_and(|who| *id == user_name(who.user)));
        is_event && is_user
    }
}

/// JSON as the server writes what it has read.
pub fn written_anew(content: &[u8]) -> Vec<u8> {
    serde_json::from_slice::<Value>(content).map_or(content.to_vec(), |value| value.to_string().into_bytes())
}

/// An event that must have a delivery.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub who: Who,
    pub event: Ulid,
    pub channel: ChannelKind,
    pub address: Address,
}

impl Oracle {
    /// A provider was called: with something that was posted, for somebody who was meant.
    pub fn judge_call(&mut self, sent: &Sent) -> Result<(), Broken> {
        let told = || format!("{sent:?} for {:?}", String::from_utf8_lossy(&sent.endpoint));
        let received = Received::read(sent);
        let Some(post) = self.contents.get(&received.content).copied() else {
            if let Some(digest) = Digest::read(&sent.content) {
                return self.judge_digest(sent, &digest);
            }
            return Invariant::Survives.broken(format!("nobody said {}", told()));
        };
        // Tokens that go from hand to hand name nobody; `owners` watches over them.
        let owner = Address::owner(&sent.endpoint);
        self.remember(sent, owner);
        let record = &self.records[post.0];
        let own = owner.is_none_or(|owner| owner.tenant == sent.tenant) && record.post.tenant == sent.tenant;
        Invariant::Tenants.holds(own, || format!("{} of {:?}", told(), record.post))?;
        let wanted = record.post.channels.contains(sent.channel);
        Invariant::ExactlyOnce
            .holds(wanted, || format!("{:?} does not leave like {}", record.post, told()))?;
        let is_about = received.is_about(record.event, owner);
        Invariant::ExactlyOnce.holds(is_about, || format!("{:?} has other ids: {}", record.post, told()))?;
        let happened = !matches!(record.fate, Fate::Never | Fate::Beaten);
        Invariant::Survives.holds(happened, || format!("{:?} was not accepted: {}", record.post, told()))?;
        if Stranger::is_at(&sent.endpoint) {
            let is_meant = matches!(&record.post.audience, Audience::Strangers(strangers)
                if strangers.iter().any(|one| one.text().as_bytes() == sent.endpoint));
            return Invariant::ExactlyOnce
                .holds(is_meant, || format!("{:?} does not mean {}", record.post, told()));
        }
        let Some(owner) = owner else { return Ok(()) };
        let Some(person) = self.people.get(&owner) else {
            return Invariant::ExactlyOnce.broken(format!("nobody is {owner:?}"));
        };
        // Of somebody who is deleted, or was, too little is known.
        let expected = || template::expected(&record.post, sent.channel, template::locale_of(owner.user));
        let is_own = !record.post.by_template || expected().as_ref() == Some(&received.content);
        Invariant::ExactlyOnce.holds(is_own, || format!("{owner:?} gets another text: {}", told()))?;
        let is_meant = person.may_be_erased() || self.covers(owner, post) != Known::No;
        Invariant::ExactlyOnce.holds(is_meant, || format!("{owner:?} was not meant by {:?}", record.post))
    }

    /// A digest tells of what was posted for its reader, of one tenant, each thing once.
    fn judge_digest(&mut self, sent: &Sent, digest: &Digest) -> Result<(), Broken> {
        let told = || format!("{sent:?} for {:?}", String::from_utf8_lossy(&sent.endpoint));
        let owner = Address::owner(&sent.endpoint);
        self.remember(sent, owner);
        let is_own = owner.is_none_or(|owner| owner.tenant == sent.tenant);
        Invariant::Tenants.holds(is_own, told)?;
        let unique: BTreeSet<Ulid> = digest.events.iter().copied().collect();
        Invariant::ExactlyOnce.holds(unique.len() == digest.events.len(), told)?;
        for event in unique {
            // Of what nobody was told the id of, too little is known.
            let found = self.records.iter().position(|record| record.event == Some(event));
            let Some(at) = found else { continue };
            let post = &self.records[at].post;
            Invariant::Tenants.holds(post.tenant == sent.tenant, || format!("{} of {post:?}", told()))?;
            let wanted = post.channels.contains(sent.channel);
            Invariant::ExactlyOnce.holds(wanted, || format!("{post:?} does not leave like {}", told()))?;
            let Some(person) = owner.and_then(|owner| self.people.get(&owner)) else { continue };
            let is_meant = person.may_be_erased()
                || owner.is_none_or(|owner| self.covers(owner, PostId(at)) != Known::No);
            Invariant::ExactlyOnce.holds(is_meant, || format!("{owner:?} was not meant by {post:?}"))?;
        }
        Ok(())
    }

    /// Addresses that are nobody's and were surely written to; not those that somebody had deleted.
    #[must_use]
    pub fn strangers_due(&self) -> Vec<(Ulid, Stranger)> {
        let mut dues = Vec::new();
        for record in &self.records {
            let Audience::Strangers(strangers) = &record.post.audience else { continue };
            let Some(event) = record.event.filter(|_| record.is_settled_event()) else { continue };
            if !record.may_be_cancelled && record.retraction.known() == Known::No {
                let there = strangers.iter().filter(|one| !self.forgotten.contains(one));
                dues.extend(there.map(|one| (event, *one)));
            }
        }
        dues
    }

    /// Everybody who surely has an event, and surely had a device when it was posted.
    #[must_use]
    pub fn dues(&self) -> Vec<Due> {
        let mut dues = Vec::new();
        for (record, id) in self.records.iter().zip(0..) {
            let Some(event) = record.event.filter(|_| record.is_settled_event()) else { continue };
            if record.may_be_cancelled || record.retraction.known() != Known::No {
                continue;
            }
            for (who, person) in self.people.iter().filter(|(who, _)| who.tenant == record.post.tenant) {
                if person.retired || !person.exists || self.covers(*who, PostId(id)) != Known::Yes {
                    continue;
                }
                let known = person.enrolled.iter().filter(|(kind, _)| record.post.channels.contains(**kind));
                let known = known.filter(|(_, device)| device.surely && device.since < record.first_invoked);
                let due = known.map(|(kind, device)| Due {
                    who: *who,
                    event,
                    channel: *kind,
                    address: device.address,
                });
                dues.extend(due);
            }
        }
        dues
    }

    pub(super) fn heard_enrol(
        &mut self,
        who: Who,
        address: Address,
        heard: Heard<()>,
        step: Step,
    ) -> Result<(), Broken> {
        let person = self.person(who);
        match heard {
            Heard::Unknown => self.lose_enrol(who, address),
            Heard::Yes(()) => {
                person.readers -= 1;
                Invariant::Survives
                    .holds(person.exists, || format!("{who:?} has a device but never existed"))?;
                let known = person.enrolled.get(&address.kind).copied();
                let surely = known.is_none_or(|known| known.surely && known.address == address);
                let since = known.map_or(step, |known| known.since);
                person.enrolled.insert(address.kind, Enrolled { address, since, surely });
                self.seen.enrolments += 1;
            }
            Heard::No(Refusal::UnknownUser { .. }) => {
                person.readers -= 1;
                Invariant::Survives.holds(!person.exists, || format!("{who:?} exists but has no devices"))?;
            }
            Heard::No(_) => self.lose_enrol(who, address),
        }
        Ok(())
    }

    /// It may have happened, or half of it.
    pub(super) fn lose_enrol(&mut self, who: Who, address: Address) {
        let person = self.person(who);
        person.readers -= 1;
        person.enrolled.insert(address.kind, Enrolled { address, since: Step::MAX, surely: false });
    }

    pub(super) fn heard_cancel(
        &mut self,
        tenant: TenantId,
        id: PostId,
        heard: Heard<()>,
    ) -> Result<(), Broken> {
        let own = self.records[id.0].post.tenant == tenant;
        let told = format!("{:?} cancelled by tenant {tenant}", self.records[id.0].post);
        match heard {
            Heard::Yes(()) => {
                self.seen.cancels += 1;
                Invariant::Tenants.holds(own, || told)
            }
            Heard::No(Refusal::UnknownEvent { .. }) => {
                Invariant::Survives.holds(!own, || format!("{told}: unknown event"))
            }
            Heard::No(_) | Heard::Unknown => Ok(()),
        }
    }
}
