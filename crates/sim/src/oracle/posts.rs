//! Requests, their repeats and their retractions, as clients were told.
//!
//! A record is one key with one body. It never happened, surely happened, or may have (an answer is outstanding or
//! was lost). What must never be heard: two ids for one request, two first answers, or two bodies of one key.

use super::people::Known;
use super::{Heard, Oracle, Step, Who};
use crate::broken::{Broken, Invariant};
use crate::call::{Audience, Post, PostId};
use fantail_node::ask::{Accepted, Refusal};
use fantail_rules::ids::TenantId;
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

pub struct Record {
    pub post: Post,
    pub fate: Fate,
    /// The first attempt that may be the one.
    pub first_invoked: Step,
    pub acked: Step,
    pub event: Option<Ulid>,
    attempts: u32,
    in_flight: u32,
    /// The answer of an attempt was lost.
    lost: bool,
    first_answers: u32,
    /// All shards have taken it since this moment; for a lost one: if it ever happened.
    settled: Option<Step>,
    pub retraction: Retraction,
    /// Somebody asked for it to be called off.
    pub may_be_cancelled: bool,
    /// For explicit users: whom the request meant.
    targets: BTreeMap<u16, Meant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Never,
    Maybe,
    Happened,
    /// The same key was accepted with another body.
    Beaten,
}

/// One explicit recipient when the request was sent.
#[derive(Clone, Copy)]
struct Meant {
    incarnation: u32,
    /// The user was there, the same one, from the sending to the answer.
    surely: bool,
}

#[derive(Default)]
pub struct Retraction {
    pub in_flight: u32,
    lost: bool,
    acked: bool,
    settled: bool,
}

impl Retraction {
    pub fn lose(&mut self) {
        self.in_flight -= 1;
        if !self.acked {
            self.lost = true;
            self.settled = false;
        }
    }

    fn ack(&mut self) {
        self.in_flight -= 1;
        if !self.acked {
            self.acked = true;
            self.settled = false;
        }
    }

    #[must_use]
    pub fn known(&self) -> Known {
        match (self.acked, self.settled) {
            (true, true) => Known::Yes,
            (false, _) if !self.lost && self.in_flight == 0 => Known::No,
            (_, _) => Known::Maybe,
        }
    }

    /// It was lost, and had it happened, everybody would have it by now.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.lost && !self.acked && self.settled && self.in_flight == 0
    }

    /// What was read decides whether it happened.
    pub fn decide(&mut self, happened: bool) {
        self.lost = false;
        self.acked = happened;
        self.settled = happened;
    }
}

impl Record {
    pub fn new(post: Post) -> Self {
        Self {
            post,
            fate: Fate::Never,
            first_invoked: 0,
            acked: 0,
            event: None,
            attempts: 0,
            in_flight: 0,
            lost: false,
            first_answers: 0,
            settled: None,
            retraction: Retraction::default(),
            may_be_cancelled: false,
            targets: BTreeMap::new(),
        }
    }

    /// Everything durable has been taken.
    pub fn quiet(&mut self, step: Step, may_wait: bool) {
        let readable = self.fate == Fate::Happened || (self.fate == Fate::Maybe && self.in_flight == 0);
        if readable && !may_wait && self.settled.is_none() {
            self.settled = Some(step);
        }
        if self.retraction.in_flight == 0 {
            self.retraction.settled = self.retraction.acked || self.retraction.lost;
        }
    }

    /// Since when every shard has it, if it happened.
    #[must_use]
    pub fn taken_at(&self) -> Option<Step> {
        self.settled
    }

    /// Nobody is asking any more; what is read decides whether it happened.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.fate == Fate::Maybe && self.lost && self.in_flight == 0 && self.settled.is_some()
    }

    /// Whether an explicit request meant this user as it is now.
    pub fn meant(&self, user: u16, incarnation: u32) -> Known {
        match self.targets.get(&user) {
            None => Known::No,
            Some(meant) if meant.surely && meant.incarnation == incarnation => Known::Yes,
            Some(meant) if meant.surely => Known::No,
            Some(_) => Known::Maybe,
        }
    }
}

impl Oracle {
    /// No recipient's deletion is under way, and none is beyond judgement.
    pub(super) fn targets_are_judged(&mut self, post: PostId) -> bool {
        let Post { tenant, audience, .. } = self.records[post.0].post.clone();
        match audience {
            Audience::List(_) | Audience::Strangers(_) | Audience::Everyone => true,
            Audience::Users(users) => {
                users.into_iter().all(|user| !self.person(Who { tenant, user }).retired)
            }
        }
    }

    pub(super) fn invoke_post(&mut self, id: PostId, step: Step) {
        self.aim(id);
        let Post { tenant, later, .. } = self.records[id.0].post;
        let is_called_off = later.cancellation.is_some_and(|key| self.is_calling_off(tenant, key));
        let record = &mut self.records[id.0];
        record.may_be_cancelled |= is_called_off;
        record.attempts += 1;
        record.in_flight += 1;
        if record.fate == Fate::Never {
            record.fate = Fate::Maybe;
            record.first_invoked = step;
        }
        if record.fate == Fate::Maybe {
            record.settled = None;
        }
    }

    /// Notes whom an attempt means; attempts that mean different people leave it open.
    fn aim(&mut self, id: PostId) {
        let Record { post: Post { tenant, audience, .. }, fate, .. } = &self.records[id.0];
        let (tenant, again) = (*tenant, *fate != Fate::Never);
        let Audience::Users(users) = audience.clone() else { return };
        for user in users {
            let person = self.person(Who { tenant, user });
            let meant = Meant {
                incarnation: person.incarnation,
                surely: person.exists && !person.ending && !person.retired,
            };
            let targets = &mut self.records[id.0].targets;
            let known = targets.get(&user).copied().filter(|_| again);
            let same = known.is_none_or(|known| known.surely && known.incarnation == meant.incarnation);
            if self.records[id.0].fate == Fate::Happened {
                continue;
            }
            self.records[id.0].targets.insert(user, Meant { surely: meant.surely && same, ..meant });
        }
    }

    /// Recipients who did not stay the same until now may or may not have been meant.
    fn hold_aim(&mut self, id: PostId) {
        let tenant = self.records[id.0].post.tenant;
        let users: Vec<u16> = self.records[id.0].targets.keys().copied().collect();
        for user in users {
            let person = self.person(Who { tenant, user });
            let (incarnation, stays) =
                (person.incarnation, person.exists && !person.ending && !person.retired);
            if let Some(meant) = self.records[id.0].targets.get_mut(&user) {
                meant.surely &= stays && meant.incarnation == incarnation;
            }
        }
    }

    pub(super) fn lose_post(&mut self, id: PostId) {
        let record = &mut self.records[id.0];
        record.in_flight -= 1;
        if record.fate == Fate::Maybe {
            record.lost = true;
            record.settled = None;
            self.hold_aim(id);
        }
    }

    pub(super) fn heard_post(
        &mut self,
        id: PostId,
        invoked: Step,
        heard: Heard<Accepted>,
        step: Step,
    ) -> Result<(), Broken> {
        match heard {
            Heard::Unknown => {
                self.lose_post(id);
                Ok(())
            }
            Heard::Yes(accepted) => {
                self.records[id.0].in_flight -= 1;
                self.accepted(id, invoked, accepted, step)
            }
            Heard::No(refusal) => {
                self.records[id.0].in_flight -= 1;
                self.seen.refused += 1;
                self.refused(id, invoked, &refusal, step)
            }
        }
    }

    fn accepted(&mut self, id: PostId, invoked: Step, accepted: Accepted, step: Step) -> Result<(), Broken> {
        let record = &mut self.records[id.0];
        let told = format!("{:?} was answered with {accepted:?}", record.post);
        let known = record.fate == Fate::Happened && record.acked < invoked;
        let right = accepted.replayed || !known;
        Invariant::Idempotency.holds(right, || format!("{told}, not as a repeat"))?;
        let right = !accepted.replayed || record.attempts > 1;
        Invariant::Idempotency.holds(right, || format!("{told}, but it was never asked before"))?;
        record.first_answers += u32::from(!accepted.replayed);
        Invariant::Idempotency.holds(record.first_answers <= 1, || format!("{told}, for the second time"))?;
        if accepted.replayed {
            self.seen.repeats += 1;
        } else {
            self.seen.accepted += 1;
        }
        self.happened(id, accepted.event, step, true)
    }

    /// A request surely happened, and this is its event: it was `heard`, or somebody has read it.
    pub(super) fn happened(
        &mut self,
        id: PostId,
        event: Ulid,
        step: Step,
        heard: bool,
    ) -> Result<(), Broken> {
        let record = &self.records[id.0];
        let told = format!("{:?} is {event}", record.post);
        let same = record.event.is_none_or(|known| known == event);
        Invariant::Idempotency.holds(same, || format!("{told} and {:?}", record.event))?;
        let own = self.events.insert(event, id).is_none_or(|other| other == id);
        Invariant::Idempotency.holds(own, || format!("{told}, which is another request's"))?;
        Invariant::Idempotency
            .holds(record.fate != Fate::Beaten, || format!("{told}, but another body has its key"))?;
        self.records[id.0].event = Some(event);
        self.settle_fate(id, step, heard);
        for other in self.others(id) {
            let told = || format!("{told}, and the key was accepted with another body");
            Invariant::Idempotency.holds(self.records[other.0].fate != Fate::Happened, told)?;
            self.records[other.0].fate = Fate::Beaten;
        }
        Ok(())
    }

    fn settle_fate(&mut self, id: PostId, step: Step, heard: bool) {
        if self.records[id.0].fate != Fate::Happened {
            if heard {
                self.hold_aim(id);
            }
            let record = &mut self.records[id.0];
            let readable = record.is_readable();
            record.fate = Fate::Happened;
            record.acked = step;
            record.settled = record.settled.filter(|_| readable);
        }
    }

    fn others(&self, id: PostId) -> Vec<PostId> {
        let post = &self.records[id.0].post;
        let same_key = self.keys.get(&(post.tenant, post.key));
        same_key.into_iter().flatten().copied().filter(|other| *other != id).collect()
    }

    fn refused(&mut self, id: PostId, invoked: Step, refusal: &Refusal, step: Step) -> Result<(), Broken> {
        let record = &self.records[id.0];
        let told = format!("{:?} was refused: {refusal}", record.post);
        match refusal {
            Refusal::OtherBody => {
                self.seen.other_bodies += 1;
                Invariant::Idempotency
                    .holds(record.fate != Fate::Happened, || format!("{told}, but it happened"))?;
                let others = self.others(id);
                let rival = others.into_iter().find(|other| {
                    let other = &self.records[other.0];
                    other.attempts > 0 && other.fate != Fate::Never
                });
                self.records[id.0].fate = Fate::Beaten;
                match rival {
                    Some(rival) => self.settle_fate(rival, step, true),
                    None => {
                        return Invariant::Idempotency.broken(format!("{told}, but there is no other body"));
                    }
                }
                Ok(())
            }
            Refusal::NoRoom | Refusal::Busy { .. } => {
                self.fell_through(id);
                Ok(())
            }
            Refusal::UnknownRecipients { users } => {
                let known = record.fate == Fate::Happened && record.acked < invoked;
                Invariant::Idempotency.holds(!known, || format!("{told}, but it had been accepted"))?;
                self.hold_aim(id);
                let record = &self.records[id.0];
                let wrong = record
                    .targets
                    .iter()
                    .find(|(user, meant)| meant.surely && users.contains(&crate::call::user_name(**user)));
                Invariant::Survives.holds(wrong.is_none(), || format!("{told}, but the users exist"))?;
                self.fell_through(id);
                Ok(())
            }
            other => Invariant::Serves.broken(format!("{told}: {other:?}")),
        }
    }

    /// An attempt surely did not happen; if no other may have, the request did not.
    fn fell_through(&mut self, id: PostId) {
        let record = &mut self.records[id.0];
        if record.fate == Fate::Maybe && record.in_flight == 0 && !record.lost {
            record.fate = Fate::Never;
        }
    }

    /// A lost request that somebody who should have it does not have: it never happened.
    pub(super) fn did_not_happen(&mut self, id: PostId) {
        let record = &mut self.records[id.0];
        record.lost = false;
        record.fate = Fate::Never;
    }

    pub(super) fn heard_retract(
        &mut self,
        tenant: TenantId,
        id: PostId,
        heard: Heard<()>,
        _: Step,
    ) -> Result<(), Broken> {
        let record = &mut self.records[id.0];
        let own = record.post.tenant == tenant;
        let told = format!("{:?} retracted by tenant {tenant}", record.post);
        match heard {
            Heard::Unknown => record.retraction.lose(),
            Heard::Yes(()) => {
                Invariant::Tenants.holds(own, || told)?;
                record.retraction.ack();
                self.seen.retracts += 1;
            }
            Heard::No(Refusal::UnknownEvent { .. }) => {
                record.retraction.in_flight -= 1;
                Invariant::Survives.holds(!own, || format!("{told}: unknown event"))?;
            }
            Heard::No(_) => record.retraction.in_flight -= 1,
        }
        Ok(())
    }
}
