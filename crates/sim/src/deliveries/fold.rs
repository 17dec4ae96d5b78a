//! Records, one by one. What no record may say is found here: two lives of one delivery, an Intent against a halt, an
//! expiry or a dead endpoint, a copy that is not counted.

use super::schedule::listed;
use super::{Deliveries, Delivery, Endpoint, Event, Key, Shard, chains};
use crate::broken::{Broken, Invariant};
use crate::executor::at_once;
use fantail_machine::records::Stamped;
use fantail_machine::records::delivery::{Intend, Outcome, Receipt, Swept, Wake};
use fantail_machine::records::front::{Delivery as Leaving, FrontRecord};
use fantail_machine::records::halt::HaltRecord;
use fantail_machine::records::respect::Preferred;
use fantail_machine::records::shard::{Given, ShardRecord};
use fantail_machine::tables::ledger::{ParcelId, Standing};
use fantail_machine::tables::work::Terms;
use fantail_ports::journal::{Journal, ReadLimit};
use fantail_rules::attempt::{Class, State};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{
    Arrival, DeviceNo, FrontNo, Millis, PartitionId, Position, ShardNo, TenantId, UserNo,
};
use fantail_rules::limits::GUARD_MS;
use fantail_rules::ulid::Ulid;

impl Deliveries {
    /// Folds everything that became durable since the last time.
    pub fn follow(&mut self, journal: &dyn Journal, partitions: &[PartitionId]) -> Result<(), Broken> {
        for partition in partitions {
            let after = self.read.get(partition).copied().unwrap_or_default();
            let limit = ReadLimit { records: usize::MAX, bytes: usize::MAX };
            let Ok(bounds) = journal.bounds(*partition) else { continue };
            if bounds.next <= after.next() {
                continue;
            }
            let Some(Ok(records)) = at_once(journal.read(*partition, after.next(), limit)) else { continue };
            for record in records {
                self.read.insert(*partition, record.position);
                let told = match partition {
                    PartitionId::Root | PartitionId::Directory(_) => Ok(()),
                    PartitionId::Front(front) => self.fold_front(*front, record.position, &record.bytes),
                    PartitionId::Shard(shard) => self.fold_shard(*shard, &record.bytes),
                };
                told.map_err(|broken| {
                    let what = format!("{partition} at {}: {}", record.position, broken.what);
                    Broken { what, ..broken }
                })?;
            }
        }
        Ok(())
    }

    fn fold_front(&mut self, front: FrontNo, at: Position, bytes: &[u8]) -> Result<(), Broken> {
        let stamped = match Stamped::<FrontRecord>::decode(bytes) {
            Ok(stamped) => stamped,
            Err(malformed) => return Invariant::Survives.broken(malformed.to_string()),
        };
        self.schedule.fold((front, at), &stamped.record, stamped.at)?;
        self.withdraw((front, at), &stamped.record);
        self.fronts.insert((front, at), stamped.record);
        Ok(())
    }

    fn fold_shard(&mut self, shard: ShardNo, bytes: &[u8]) -> Result<(), Broken> {
        let Stamped { at, record, .. } = match Stamped::<ShardRecord>::decode(bytes) {
            Ok(stamped) => stamped,
            Err(malformed) => return Invariant::Survives.broken(malformed.to_string()),
        };
        match record {
            ShardRecord::Take { front, from, to } => self.take(shard, front, from, to),
            ShardRecord::Given(given) => self.given(shard, &given),
            ShardRecord::Intend(intend) => return self.intend(shard, &intend, at),
            ShardRecord::Wake(wake) => return self.wake(shard, &wake, at),
            ShardRecord::Outcome(outcome) => return self.outcome(shard, &outcome),
            ShardRecord::Receipt(receipt) => return self.receipt(shard, &receipt),
            ShardRecord::Redrive(redrive) => {
                for (position, standing) in redrive.positions.iter().zip(redrive.standings.iter()) {
                    self.change(shard, redrive.parcel, *position, standing)?;
                }
            }
            ShardRecord::Digest(record) => return self.digest(shard, record),
            ShardRecord::Erasure(erasure) => self.erasure(&erasure),
            ShardRecord::Swept(swept) => return self.sweep(shard, &swept, at),
            ShardRecord::Walk(record) => return self.walk(shard, &record, at),
            ShardRecord::Closed { work, .. } => {
                let shard = self.shard(shard);
                shard.works.remove(&work);
                shard.closed.insert(work);
            }
            ShardRecord::Halt(HaltRecord::CalledOff(called)) => self.called_off(shard, &called),
            other => self.shard(shard).person(other),
        }
        Ok(())
    }

    pub(super) fn shard(&mut self, shard: ShardNo) -> &mut Shard {
        self.shards.entry(shard).or_default()
    }

    fn take(&mut self, no: ShardNo, front: FrontNo, from: Position, to: Position) {
        let shard = self.shards.entry(no).or_default();
        shard.taken.insert(front, to);
        let said = self.fronts.range((front, from)..=(front, to)).map(|(_, record)| record);
        let said: Vec<&FrontRecord> = said.collect();
        for record in &said {
            if let Some((tenant, event, leaving)) = listed(record) {
                shard.arrive(tenant, event, leaving, Vec::new());
            }
        }
        for record in said {
            if let FrontRecord::Steered { tenant, event, steer } = record {
                shard.steer(*tenant, *event, *steer);
            }
            if let FrontRecord::Retracted { tenant, event } | FrontRecord::Cancelled { tenant, event } =
                record
                && let Some(arrival) = shard.arrivals.get(&(*tenant, *event))
                && let Some(event) = shard.events.get_mut(&(*tenant, *arrival))
            {
                event.is_halted = true;
            }
        }
    }

    fn given(&mut self, no: ShardNo, given: &Given) {
        let Given { tenant, event, delivery, members, .. } = given;
        self.shard(no).taken.insert(given.front, given.position);
        let arrival = self.shard(no).arrive(*tenant, *event, *delivery, members.clone());
        let Some(leaving) = delivery.filter(|leaving| leaving.channels.contains(ChannelKind::InApp)) else {
            return;
        };
        for user in members {
            let channel = ChannelKind::InApp;
            let key = Key { shard: no, tenant: *tenant, arrival, channel, user: *user, device: DeviceNo(0) };
            self.all.insert(key, Delivery::new(given.in_app(*user).state, leaving.terms));
        }
    }

    fn intend(&mut self, no: ShardNo, intend: &Intend, at: Millis) -> Result<(), Broken> {
        let work = intend.work;
        let shard = self.shards.entry(no).or_default();
        let event = shard.events.get(&(work.tenant, work.arrival));
        let leaving = event.and_then(|event| event.leaving).filter(|_| shard.works.contains_key(&work));
        let (Some(first), Some(leaving)) = (shard.works.get(&work).copied(), leaving) else {
            return Invariant::OneLife.broken(format!("{work:?} is intended but not open"));
        };
        shard.intend_walked(intend)?;
        let mut keys = Vec::new();
        for (member, standing) in intend.members.iter().zip(intend.verdicts.iter()) {
            let key = Key {
                shard: no,
                tenant: work.tenant,
                arrival: work.arrival,
                channel: work.channel,
                user: member.user,
                device: member.device,
            };
            if standing.state == State::Intent {
                shard.may_leave(key, at)?;
                shard.count(key, leaving.terms.lane, at)?;
                chains::check(&self.all, key, &leaving.terms)?;
            }
            let mut delivery = Delivery::new(standing.state, leaving.terms);
            // What waits for other channels starts when its turn comes.
            delivery.has_waited |= leaving.terms.chain.step(key.channel).is_some();
            delivery.intents = u64::from(standing.state == State::Intent);
            let before = self.all.insert(key, delivery);
            Invariant::OneLife.holds(before.is_none(), || format!("{key:?} is planned twice: {before:?}"))?;
            keys.push(key);
        }
        shard.parcels.insert(ParcelId::of(work, first), keys);
        match intend.next {
            Some(next) => drop(shard.works.insert(work, next)),
            None => drop(shard.works.remove(&work)),
        }
        Ok(())
    }

    fn wake(&mut self, no: ShardNo, wake: &Wake, at: Millis) -> Result<(), Broken> {
        for (position, standing) in wake.positions.iter().zip(wake.verdicts.iter()) {
            let (key, before) = self.member(no, wake.parcel, *position)?;
            let is_waiting = matches!(before.state, State::Deferred | State::Unknown);
            Invariant::OneLife.holds(is_waiting, || format!("{key:?} is woken but was {before:?}"))?;
            if standing.state == State::Intent {
                self.shard(no).may_leave(key, at)?;
                self.shard(no).count(key, before.terms.lane, at)?;
                if before.intents == 0 {
                    chains::check(&self.all, key, &before.terms)?;
                }
                let is_copy = before.state == State::Unknown;
                let right = standing.resends == before.resends + u8::from(is_copy)
                    && !(is_copy && before.terms.class == Class::Bulk);
                Invariant::Copies.holds(right, || format!("{key:?} was {before:?} and is {standing:?}"))?;
            }
            self.change(no, wake.parcel, *position, standing)?;
        }
        Ok(())
    }

    fn outcome(&mut self, no: ShardNo, outcome: &Outcome) -> Result<(), Broken> {
        for (position, standing) in outcome.positions.iter().zip(outcome.standings.iter()) {
            let (key, before) = self.member(no, outcome.parcel, *position)?;
            let is_under_way = before.state == State::Intent && standing.state != State::Intent;
            Invariant::OneLife.holds(is_under_way, || {
                format!("an answer makes {key:?} {standing:?}, but it was {before:?}")
            })?;
            self.change(no, outcome.parcel, *position, standing)?;
        }
        Ok(())
    }

    /// Receipts only move forward, and have nothing sent.
    fn receipt(&mut self, no: ShardNo, receipt: &Receipt) -> Result<(), Broken> {
        let (key, before) = self.member(no, receipt.parcel, receipt.position)?;
        let state = receipt.standing.state;
        let is_forward = match state {
            State::Delivered => before.intents > 0,
            State::Failed => before.intents > 0 && before.state != State::Delivered,
            _ => false,
        };
        Invariant::OneLife
            .holds(is_forward, || format!("a receipt makes {key:?} {state:?}, but it was {before:?}"))?;
        self.change(no, receipt.parcel, receipt.position, &receipt.standing)?;
        self.all.entry(key).and_modify(|delivery| delivery.is_heard = true);
        Ok(())
    }

    /// What is past the guard, and has ended, is dropped; lanes go on counting it.
    fn sweep(&mut self, no: ShardNo, swept: &Swept, at: Millis) -> Result<(), Broken> {
        let shard = self.shards.entry(no).or_default();
        for parcel in &swept.parcels {
            let event =
                shard.arrivals.iter().find(|((of, _), to)| (*of, **to) == (parcel.tenant, parcel.arrival));
            let age_ms = event.map_or(0, |((_, event), _)| at.since(event.millis()));
            Invariant::OneLife
                .holds(age_ms >= GUARD_MS, || format!("{parcel:?} is swept after {age_ms} ms"))?;
            let keys = shard.parcels.remove(parcel).unwrap_or_else(|| {
                let of = |key: &&Key| key.shard == no && key.work() == parcel.work();
                self.all.keys().filter(of).copied().collect()
            });
            for key in keys {
                let Some(delivery) = self.all.get_mut(&key) else { continue };
                let has_ended = delivery.state.is_terminal() && !delivery.is_swept;
                Invariant::Terminal.holds(has_ended, || format!("{key:?} is swept as {delivery:?}"))?;
                delivery.is_swept = true;
            }
        }
        Ok(())
    }

    pub(super) fn member(
        &self,
        no: ShardNo,
        parcel: ParcelId,
        position: u16,
    ) -> Result<(Key, Delivery), Broken> {
        let keys = self.shards.get(&no).and_then(|shard| shard.parcels.get(&parcel));
        let key = keys.and_then(|keys| keys.get(usize::from(position))).copied();
        match key.and_then(|key| Some((key, self.all.get(&key)?.clone()))) {
            Some(found) => Ok(found),
            None => Invariant::OneLife.broken(format!("{parcel:?} has nobody at {position}")),
        }
    }

    pub(super) fn change(
        &mut self,
        no: ShardNo,
        parcel: ParcelId,
        position: u16,
        standing: &Standing,
    ) -> Result<(), Broken> {
        let (key, mut delivery) = self.member(no, parcel, position)?;
        delivery.intents += u64::from(standing.state == State::Intent);
        (delivery.state, delivery.resends) = (standing.state, standing.resends);
        delivery.has_waited |= standing.state == State::Deferred && delivery.intents == 0;
        self.all.insert(key, delivery);
        Ok(())
    }
}

impl Delivery {
    pub(super) fn new(state: State, terms: Terms) -> Self {
        let has_waited = state == State::Deferred;
        Self {
            state,
            terms,
            resends: 0,
            intents: 0,
            calls: 0,
            is_heard: false,
            is_swept: false,
            has_waited,
            digest: None,
        }
    }
}

impl Shard {
    pub(super) fn arrive(
        &mut self,
        tenant: TenantId,
        id: Ulid,
        leaving: Option<Leaving>,
        named: Vec<UserNo>,
    ) -> Arrival {
        let last = self.last.entry(tenant).or_default();
        *last = last.next();
        let arrival = *last;
        for channel in leaving.iter().flat_map(|leaving| leaving.channels.without(ChannelKind::InApp).iter())
        {
            let work = fantail_machine::tables::work::WorkId { tenant, arrival, channel };
            self.works.insert(work, UserNo(0));
        }
        self.arrivals.insert((tenant, id), arrival);
        self.events.insert((tenant, arrival), Event { leaving, named, is_halted: false });
        arrival
    }

    /// Users and their endpoints. Everything else is no concern of deliveries.
    fn person(&mut self, record: ShardRecord) {
        match record {
            ShardRecord::UserPut { tenant, users } => {
                self.users.extend(users.into_iter().map(|user| ((tenant, user.lookup), user.user)));
            }
            ShardRecord::UserGone { tenant, user, lookup, .. } => {
                self.users.remove(&(tenant, lookup));
                self.agreed.remove(&(tenant, user));
                self.limits.remove(&(tenant, user));
                self.endpoints.retain(|(of, owner, _), _| (*of, *owner) != (tenant, user));
            }
            ShardRecord::EndpointPut { tenant, endpoints } => {
                let since = self.last.get(&tenant).copied().unwrap_or_default();
                self.endpoints.extend(endpoints.into_iter().map(|put| {
                    let endpoint = Endpoint { kind: put.kind, claim: put.claim, status: put.status, since };
                    ((tenant, put.user, put.device), endpoint)
                }));
            }
            ShardRecord::EndpointState { tenant, states } => {
                let since = self.last.get(&tenant).copied().unwrap_or_default();
                for state in states {
                    let found = self.endpoints.get_mut(&(tenant, state.user, state.device));
                    let found = found.filter(|one| one.claim == state.claim && one.status.holds_address());
                    found.into_iter().for_each(|one| (one.status, one.since) = (state.status, since));
                }
            }
            ShardRecord::Consented { tenant, consents } => {
                for one in consents.into_iter().filter(|one| one.channel == ChannelKind::Push) {
                    if one.consent.is_granted {
                        self.agreed.insert((tenant, one.user));
                    } else {
                        self.agreed.remove(&(tenant, one.user));
                    }
                }
            }
            ShardRecord::Preferred(preferred) => {
                let Preferred { tenant, user, preferences, .. } = preferred;
                match preferences.limits.get(&ChannelKind::Push) {
                    Some(limit) => self.limits.insert((tenant, user), limit.caps.per_hour),
                    None => self.limits.remove(&(tenant, user)),
                };
            }
            ShardRecord::EndpointGone { tenant, endpoints } => {
                for (user, device) in endpoints {
                    self.endpoints.remove(&(tenant, user, device));
                }
            }
            _ => {}
        }
    }
}
