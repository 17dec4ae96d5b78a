//! Calls of the provider, and the books at the end.

use super::{Deliveries, Delivery, Endpoint, Key};
use crate::broken::{Broken, Invariant};
use crate::provider::{Provider, Sent};
use fantail_machine::records::erased_user::{ErasedUser, ErasedUserEntry};
use fantail_machine::tables::ledger::{self, ParcelId};
use fantail_machine::tables::tally::{self, Tally};
use fantail_machine::tables::work;
use fantail_ports::erasure_list::ErasureList;
use fantail_ports::keyring::{Context, Keyring};
use fantail_ports::store::Store;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::attempt::{Class, State};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Lookup, Millis, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::reference::Reference;
use fantail_rules::ulid::Ulid;
use std::collections::{BTreeMap, BTreeSet};

/// Somebody whom an event surely reached, and by which channel.
#[derive(Clone, Copy, Debug)]
pub struct Meant {
    pub tenant: TenantId,
    pub event: Ulid,
    pub shard: ShardNo,
    pub lookup: Lookup,
    pub channel: ChannelKind,
}

fn key_of(keyring: &dyn Keyring, tenant: TenantId) -> Option<[u8; 16]> {
    keyring.digest(tenant, b"delivery reference").ok()
}

impl Deliveries {
    /// A call needs an Intent that is durable and was not used yet, and copies are counted.
    pub fn called(&mut self, sent: &Sent, keyring: &dyn Keyring) -> Result<(), Broken> {
        let reference = Reference::read(&sent.reference, |tenant| key_of(keyring, tenant));
        let Some(reference) =
            reference.filter(|one| (one.tenant, one.channel) == (sent.tenant, sent.channel))
        else {
            return Invariant::FailClosed.broken(format!("{sent:?} carries a reference that is not its own"));
        };
        let key = Key::of(&reference);
        let Some(delivery) = self.all.get_mut(&key) else {
            return Invariant::FailClosed.broken(format!("{key:?} is sent, but no durable record knows it"));
        };
        delivery.calls += 1;
        // A receipt about one copy may come while another one is handed over.
        let is_under_way = delivery.state == State::Intent || delivery.is_heard;
        let is_allowed = is_under_way && delivery.calls <= delivery.intents;
        let told = format!("{key:?} is sent as {delivery:?}");
        Invariant::FailClosed.holds(is_allowed, || told.clone())?;
        let most = if delivery.terms.class == Class::Bulk { 1 } else { 1 + u64::from(delivery.resends) };
        Invariant::Copies.holds(sent.copies <= most, || format!("{told}: {} copies arrived", sent.copies))
    }

    /// A message was handed over. Retries may be overtaken, and so may what was allowed before a crash and not sent.
    /// What was accepted up to `held_through` may have been kept back by a node that did not believe its clock.
    pub fn started(
        &mut self,
        reference: &str,
        keyring: &dyn Keyring,
        held_through: Millis,
    ) -> Result<(), Broken> {
        // One that is nobody's is found when it is called.
        let Some(reference) = Reference::read(reference, |tenant| key_of(keyring, tenant)) else {
            return Ok(());
        };
        let key = Key::of(&reference);
        // A walk comes to each user when it does, whatever came before.
        if self.shards.get(&key.shard).is_some_and(|shard| shard.is_walk(key.tenant, key.arrival)) {
            return Ok(());
        }
        let is_first = |delivery: &&Delivery| delivery.intents == 1 && !delivery.has_waited;
        let Some(delivery) = self.all.get(&key).filter(is_first) else {
            return Ok(());
        };
        let line = (key.shard, key.tenant, key.channel, key.user, key.device, delivery.terms.lane as u8);
        let before = self.started.insert(line, key.arrival);
        let is_in_order = before.is_none_or(|before| before < key.arrival);
        Invariant::StartOrder.holds(is_in_order || self.was_held(key, held_through), || {
            format!("{key:?} starts after {before:?}")
        })
    }

    fn was_held(&self, key: Key, held_through: Millis) -> bool {
        let arrivals = self.shards.get(&key.shard).map(|shard| &shard.arrivals);
        let mut events = arrivals.into_iter().flatten().filter(|(_, arrival)| **arrival == key.arrival);
        events.any(|((tenant, event), _)| *tenant == key.tenant && event.millis() <= held_through)
    }

    /// Every erasure is in the list from which copies erase again.
    pub fn check_erasure_list(&self, list: &dyn ErasureList, keyring: &dyn Keyring) -> Result<(), Broken> {
        let opened = |entry: &Vec<u8>| {
            let ErasedUserEntry { tenant, sealed } = ErasedUserEntry::decode(entry).ok()?;
            let plain = keyring.open(tenant, Context::ErasedUser, &sealed).ok()?;
            Some((tenant, ErasedUser::decode(&plain).ok()?.erasure))
        };
        let entries = list.read(0, usize::MAX).unwrap_or_default();
        let listed: BTreeSet<Option<(TenantId, Ulid)>> = entries.iter().map(opened).collect();
        Invariant::Survives
            .holds(!listed.contains(&None), || "an entry of the list of erasures is not read".to_owned())?;
        for erasure in self.erasures.keys() {
            let is_listed = listed.contains(&Some(*erasure));
            Invariant::Survives.holds(is_listed, || format!("the erasure {erasure:?} is not in the list"))?;
        }
        Ok(())
    }

    /// Everything has ended, as it must, and the tables say so too.
    pub fn check_end(
        &self,
        store: &dyn Store,
        provider: &Provider,
        keyring: &dyn Keyring,
    ) -> Result<(), Broken> {
        for (key, delivery) in &self.all {
            let ended = delivery.state.is_terminal();
            Invariant::Terminal.holds(ended, || format!("{key:?} has not ended: {delivery:?}"))?;
            if key.channel != ChannelKind::InApp {
                let reference = key_of(keyring, key.tenant).map(|seal| key.reference().write(&seal));
                let copies = reference.map_or(0, |reference| provider.copies(&reference));
                check_copies(*key, delivery, copies)?;
            }
        }
        for (erasure, is_done) in &self.erasures {
            Invariant::Terminal.holds(*is_done, || format!("the erasure {erasure:?} has not ended"))?;
        }
        self.check_named()?;
        self.check_digests()?;
        for shard in self.shards.keys() {
            let mut found = Ok(Ok(()));
            let read = store.read(PartitionId::Shard(*shard), &mut |view| {
                found = self.check_tables(*shard, view.tables()).and_then(|told| match told {
                    Ok(()) => self.check_walks(*shard, view.tables()),
                    Err(broken) => Ok(Err(broken)),
                });
            });
            match (read, found) {
                (Ok(()), Ok(checked)) => checked?,
                (Err(failed), _) => return Invariant::Serves.broken(failed.to_string()),
                (_, Err(failed)) => return Invariant::Serves.broken(failed.to_string()),
            }
        }
        Ok(())
    }

    /// Nothing is kept of events that are past the guard. Everything has ended before.
    pub fn check_swept(&self, store: &dyn Store, oldest_kept: Millis) -> Result<(), Broken> {
        for shard in self.shards.keys() {
            let mut kept = Ok(Vec::new());
            let read = store.read(PartitionId::Shard(*shard), &mut |view| {
                kept = ledger::all(view.tables(), None, usize::MAX);
            });
            match (read, kept) {
                (Ok(()), Ok(kept)) => {
                    let old = kept.iter().filter(|(_, row)| row.event.millis() < oldest_kept);
                    let old: Vec<ParcelId> = old.map(|(parcel, _)| *parcel).collect();
                    Invariant::Swept.holds(old.is_empty(), || {
                        format!("{shard} keeps {} old ledgers: {old:?}", old.len())
                    })?;
                }
                (read, kept) => {
                    return Invariant::Serves.broken(format!("cannot read: {read:?} {:?}", kept.err()));
                }
            }
        }
        Ok(())
    }

    /// What was acknowledged to have arrived stays so, whatever was heard or decided since.
    pub fn check_arrived<'a>(
        &self,
        references: impl Iterator<Item = &'a str>,
        keyring: &dyn Keyring,
    ) -> Result<(), Broken> {
        for reference in references {
            let key = Reference::read(reference, |tenant| key_of(keyring, tenant));
            let found = key.and_then(|reference| self.all.get(&Key::of(&reference)));
            let is_delivered = found.is_some_and(|delivery| delivery.state == State::Delivered);
            Invariant::Survives
                .holds(is_delivered, || format!("{reference} had arrived, and is {found:?}"))?;
        }
        Ok(())
    }

    /// Whoever was named has a delivery by every channel, whatever became of it.
    fn check_named(&self) -> Result<(), Broken> {
        for (no, shard) in &self.shards {
            for ((tenant, arrival), event) in shard.events.iter().filter(|(_, event)| !event.named.is_empty())
            {
                for channel in event.leaving.iter().flat_map(|leaving| leaving.channels.iter()) {
                    let told = self.users(*no, *tenant, *arrival, channel);
                    let all = event.named.iter().all(|user| told.contains(user));
                    Invariant::Terminal.holds(all && told.len() == event.named.len(), || {
                        format!("{no} {tenant} {arrival} {channel:?} named {:?}, told {told:?}", event.named)
                    })?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn users(
        &self,
        shard: ShardNo,
        tenant: TenantId,
        arrival: Arrival,
        channel: ChannelKind,
    ) -> BTreeSet<UserNo> {
        let of_event = |key: &&Key| {
            (key.shard, key.tenant, key.arrival, key.channel) == (shard, tenant, arrival, channel)
        };
        self.all.keys().filter(of_event).map(|key| key.user).collect()
    }

    /// An event that somebody surely has, and who surely could be reached, was not left out.
    pub fn check_meant(&self, meant: &Meant) -> Result<(), Broken> {
        let Some(shard) = self.shards.get(&meant.shard) else { return Ok(()) };
        let user = shard.users.get(&(meant.tenant, meant.lookup));
        let arrival = shard.arrivals.get(&(meant.tenant, meant.event));
        let (Some(user), Some(arrival)) = (user, arrival) else {
            return Invariant::Terminal.broken(format!("{meant:?} is not in the journal"));
        };
        let work = work::WorkId { tenant: meant.tenant, arrival: *arrival, channel: meant.channel };
        let is_halted = shard.events.get(&(meant.tenant, *arrival)).is_none_or(|event| event.is_halted);
        if is_halted || shard.closed.contains(&work) || shard.works.contains_key(&work) {
            return Ok(());
        }
        let of_user = shard.endpoints.range((meant.tenant, *user, Default::default())..);
        let mut of_user =
            of_user.take_while(|((tenant, owner, _), _)| (*tenant, *owner) == (meant.tenant, *user));
        // One that was used all the time since.
        let is_used = |one: &Endpoint| one.is_used() && one.kind == meant.channel && one.since < *arrival;
        if !of_user.any(|(_, one)| is_used(one)) {
            return Ok(());
        }
        let told =
            self.all.keys().any(|key| key.shard == meant.shard && key.work() == work && key.user == *user);
        Invariant::Terminal.holds(told, || format!("{meant:?}: {user} has no delivery of {arrival}"))
    }

    /// Ledgers and counters equal what the journal says.
    fn check_tables(&self, shard: ShardNo, tables: &dyn Tables) -> Result<Result<(), Broken>, TablesError> {
        let open = work::all(tables, None, 10)?.len();
        let timers = ledger::timers(tables, Millis(0), Millis(u64::MAX - 1), 10)?.len();
        let under_way = ledger::under_way(tables, None, 10)?.len();
        let mut told = Invariant::Terminal.holds((open, timers, under_way) == (0, 0, 0), || {
            format!("{shard} has {open} open works, {timers} timers and {under_way} parcels under way")
        });
        let mut lanes: BTreeMap<(TenantId, u8), Tally> = BTreeMap::new();
        for (work, counted) in self.counted(shard, &mut lanes) {
            let kept = tally::find(tables, &tally::key(work.tenant, work.arrival, work.channel))?;
            let scanned = scanned(tables, work)?;
            for (what, other) in [("kept", &kept), ("scanned", &scanned)] {
                told = told.and_then(|()| is_same(&counted, other, || format!("{shard} {work:?} {what}")));
            }
        }
        for ((tenant, lane), counted) in lanes {
            let lane = fantail_rules::priority::Priority::from_stored(lane);
            let kept = tally::find(tables, &tally::lane_key(tenant, lane))?;
            told = told.and_then(|()| is_same(&counted, &kept, || format!("{shard} {tenant} {lane:?}")));
        }
        Ok(told)
    }

    fn counted(
        &self,
        shard: ShardNo,
        lanes: &mut BTreeMap<(TenantId, u8), Tally>,
    ) -> BTreeMap<work::WorkId, Tally> {
        let mut works: BTreeMap<work::WorkId, Tally> = BTreeMap::new();
        for (key, delivery) in self.all.iter().filter(|(key, _)| key.shard == shard) {
            let of_event = works.entry(key.work()).or_default();
            if !delivery.is_swept {
                of_event.enter(delivery.state, 1);
            }
            let lane = (key.tenant, delivery.terms.lane as u8);
            lanes.entry(lane).or_default().enter(delivery.state, 1);
        }
        works
    }
}

fn check_copies(key: Key, delivery: &Delivery, copies: u64) -> Result<(), Broken> {
    let told = || format!("{key:?} ended as {delivery:?}, and {copies} copies arrived");
    let most = if delivery.terms.class == Class::Bulk { 1 } else { 1 + u64::from(delivery.resends) };
    Invariant::Copies.holds(copies <= most, told)?;
    let is_phantom = delivery.state == State::Accepted && copies == 0;
    Invariant::NoPhantom.holds(!is_phantom, told)?;
    let is_hidden = copies > 0
        && matches!(
            delivery.state,
            State::Suppressed | State::Expired | State::Cancelled | State::Dead | State::Failed
        )
        && delivery.resends == 0
        && !delivery.is_heard;
    Invariant::NoPhantom.holds(!is_hidden, told)
}

/// A full scan of the ledgers of an event and channel.
fn scanned(tables: &dyn Tables, work: work::WorkId) -> Result<Tally, TablesError> {
    let mut tally = Tally::default();
    let from = ParcelId::of(work, UserNo(0));
    for (parcel, row) in ledger::of_event(tables, from, usize::MAX)? {
        if parcel.work() == work {
            row.standings.iter().for_each(|standing| tally.enter(standing.state, 1));
        }
    }
    Ok(tally)
}

fn is_same(counted: &Tally, other: &Tally, what: impl Fn() -> String) -> Result<(), Broken> {
    let differs = State::ALL.into_iter().find(|state| counted.of(*state) != other.of(*state));
    Invariant::Conservation.holds(differs.is_none(), || {
        let state = differs.unwrap_or(State::Planned);
        let (own, other) = (counted.of(state), other.of(state));
        format!("{}: {other} are {state:?}, the journal says {own}", what())
    })
}
