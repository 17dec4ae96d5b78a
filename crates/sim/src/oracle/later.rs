//! What is held back until it is due, what is called off by a key, and receipts.
//!
//! When something is released nobody is told, so that is heard from the journal (`deliveries::schedule`): before it nobody
//! may see the event, and after it everybody must who should.

use super::{CallId, Fate, Heard, Oracle, Record, Step};
use crate::broken::{Broken, Invariant};
use crate::call::{CancellationNo, Who};
use crate::deliveries::News;
use crate::provider::Sent;
use fantail_node::ask::{Called, ChannelKind, Outcome, Refusal};
use fantail_rules::ids::TenantId;
use fantail_rules::ulid::Ulid;
use std::collections::{BTreeMap, BTreeSet};

/// Messages that receipts are written about.
const TOLD_MAX: usize = 40;

#[derive(Default)]
pub struct Agenda {
    /// Events that nobody has yet, or ever will have.
    held: BTreeMap<Ulid, Holding>,
    /// Events that were called off, however.
    called_off: BTreeSet<Ulid>,
    /// Messages that were taken in, the last ones.
    told: Vec<Told>,
    /// Somebody said of these that they arrived, and it was acknowledged.
    delivered: BTreeSet<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holding {
    Waits,
    /// It was called off before it was due.
    Dropped,
}

/// A message that a provider took in.
#[derive(Clone, Debug)]
pub struct Told {
    pub tenant: TenantId,
    pub reference: String,
    pub owner: Option<(Who, ChannelKind)>,
}

impl Agenda {
    /// Whether nobody has the event, as far as that is known.
    pub fn hides(&self, event: Option<Ulid>) -> bool {
        event.is_some_and(|event| self.held.contains_key(&event))
    }

    /// Whether the shards may not have heard of it yet, though they have taken everything.
    pub fn may_wait(&self, record: &Record) -> bool {
        let waits = |event| self.held.get(&event) == Some(&Holding::Waits);
        record.post.later.due.is_some() && record.event.is_none_or(waits)
    }
}

impl Oracle {
    /// Something that the journal says about what is held back or called off.
    pub fn hear(&mut self, news: News) -> Result<(), Broken> {
        match news {
            News::Held(event) => drop(self.agenda.held.insert(event, Holding::Waits)),
            News::Released(event) => {
                self.seen.released += 1;
                self.agenda.held.remove(&event);
            }
            News::Dropped(event) => {
                self.seen.dropped += 1;
                self.agenda.held.insert(event, Holding::Dropped);
            }
            News::CalledOff(event) => {
                self.agenda.called_off.insert(event);
                let record = self.events.get(&event).map(|post| &self.records[post.0]);
                let is_wanted = record.is_none_or(|record| record.may_be_cancelled);
                return Invariant::CalledOff.holds(is_wanted, || {
                    format!("nobody called {event} off: {:?}", record.map(|one| &one.post))
                });
            }
        }
        Ok(())
    }

    pub(super) fn invoke_cancel_key(&mut self, tenant: TenantId, key: CancellationNo) {
        let under = |record: &&mut Record| is_under(record, tenant, key);
        self.records.iter_mut().filter(under).for_each(|record| record.may_be_cancelled = true);
    }

    /// Whether a key is being called off at this moment.
    pub(super) fn is_calling_off(&self, tenant: TenantId, key: CancellationNo) -> bool {
        self.calls.values().any(|open| {
            matches!(open.call, crate::call::Call::CancelKey { tenant: t, key: k } if (t, k) == (tenant, key))
        })
    }

    /// Everything that had surely been accepted under the key is called off.
    pub(super) fn heard_cancel_key(
        &mut self,
        tenant: TenantId,
        key: CancellationNo,
        invoked: Step,
        heard: Heard<Called>,
    ) -> Result<(), Broken> {
        let called = match heard {
            Heard::Yes(called) => called,
            Heard::Unknown | Heard::No(Refusal::Busy { .. } | Refusal::NoRoom) => return Ok(()),
            Heard::No(other) => {
                return Invariant::Serves.broken(format!("{tenant} cannot call off {key}: {other:?}"));
            }
        };
        self.seen.called_off += called.cancelled + called.too_late;
        let (mut surely, mut perhaps, mut over) = (0, 0, 0);
        for record in self.records.iter().filter(|record| is_under(record, tenant, key)) {
            perhaps += u64::from(!matches!(record.fate, Fate::Never | Fate::Beaten));
            let Some(event) =
                record.event.filter(|_| record.fate == Fate::Happened && record.acked < invoked)
            else {
                continue;
            };
            surely += 1;
            // What was over is not recorded as called off: it is among what came too late.
            over += u64::from(!self.agenda.called_off.contains(&event));
            Invariant::CalledOff.holds(over <= called.too_late, || {
                format!("{:?} is {event} and was not called off", record.post)
            })?;
        }
        let all = called.cancelled + called.too_late;
        Invariant::CalledOff.holds((surely..=perhaps).contains(&all), || {
            format!("{tenant} called off {all} under {key}, expected {surely} to {perhaps}")
        })
    }

    /// Remembers a message that was taken in, so that receipts can be written about it.
    pub(super) fn remember(&mut self, sent: &Sent, owner: Option<Who>) {
        if sent.copies == 0 {
            return;
        }
        if self.agenda.told.len() >= TOLD_MAX {
            self.agenda.told.remove(0);
        }
        let owner = owner.map(|owner| (owner, sent.channel));
        self.agenda.told.push(Told { tenant: sent.tenant, reference: sent.reference.clone(), owner });
    }

    #[must_use]
    pub fn told(&self) -> &[Told] {
        &self.agenda.told
    }

    /// What is kept about deliveries is past its time.
    pub fn forget_told(&mut self) {
        self.agenda.told.clear();
    }

    /// Messages of which it was acknowledged that they arrived.
    pub fn arrived(&self) -> impl Iterator<Item = &str> {
        self.agenda.delivered.iter().map(String::as_str)
    }

    /// An address that bounces, or whose owner complains, is used no more.
    pub(super) fn invoke_receipt(&mut self, outcome: Outcome, owner: Option<(Who, ChannelKind)>) {
        let is_suppressing = matches!(outcome, Outcome::Bounced | Outcome::Complained);
        let Some((who, kind)) = owner.filter(|_| is_suppressing) else { return };
        if let Some(enrolled) = self.person(who).enrolled.get_mut(&kind) {
            enrolled.surely = false;
        }
    }

    pub(super) fn heard_receipt(
        &mut self,
        reference: String,
        outcome: Outcome,
        is_own: bool,
        heard: Heard<bool>,
    ) -> Result<(), Broken> {
        match heard {
            Heard::Yes(_) => {
                self.seen.receipts += 1;
                Invariant::Tenants.holds(is_own, || format!("{reference} was believed of another"))?;
                if !matches!(outcome, Outcome::Failed | Outcome::Bounced) {
                    self.agenda.delivered.insert(reference);
                }
                Ok(())
            }
            Heard::No(Refusal::UnknownDelivery) => {
                Invariant::Survives.holds(!is_own, || format!("{reference} was sent and is not known"))
            }
            Heard::Unknown | Heard::No(Refusal::Busy { .. } | Refusal::NoRoom) => Ok(()),
            Heard::No(other) => Invariant::Serves.broken(format!("a receipt was refused: {other:?}")),
        }
    }
}

/// What it means for deliveries is judged where the journal is folded.
pub(super) fn heard_consent(heard: Heard<u32>) -> Result<(), Broken> {
    match heard {
        Heard::Yes(revision) => Invariant::Survives.holds(revision > 0, || "nothing was said".to_owned()),
        Heard::Unknown | Heard::No(Refusal::UnknownUser { .. } | Refusal::Busy { .. } | Refusal::NoRoom) => {
            Ok(())
        }
        Heard::No(other) => Invariant::Serves.broken(format!("a consent was refused: {other:?}")),
    }
}

impl Oracle {
    /// Events that were known to be under a key when a call began: what comes later is the business of later calls.
    pub fn events_under(&self, tenant: TenantId, key: CancellationNo, call: CallId) -> Vec<Ulid> {
        let invoked = self.calls.get(&call).map_or(0, |open| open.invoked);
        let is_before = |record: &&Record| record.fate == Fate::Happened && record.acked < invoked;
        let under = self.records.iter().filter(|record| is_under(record, tenant, key)).filter(is_before);
        under.filter_map(|record| record.event).collect()
    }
}

fn is_under(record: &Record, tenant: TenantId, key: CancellationNo) -> bool {
    (record.post.tenant, record.post.later.cancellation) == (tenant, Some(key))
}
