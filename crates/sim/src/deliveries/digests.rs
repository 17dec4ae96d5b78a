//! What is told together, as the journal says: whatever a digest takes was never sent, is in no other one, and the digest
//! is written with exactly as many.

use super::{Collecting, Deliveries};
use crate::broken::{Broken, Invariant};
use fantail_machine::records::digest::{Collected, DigestRecord, Digested, Folded};
use fantail_machine::records::front::Delivery as Leaving;
use fantail_machine::tables::digest::is_digest;
use fantail_machine::tables::work::Terms;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::ids::ShardNo;
use std::collections::{BTreeMap, BTreeSet};

impl Deliveries {
    pub(super) fn digest(&mut self, shard: ShardNo, record: DigestRecord) -> Result<(), Broken> {
        match record {
            DigestRecord::Collected(collected) => {
                self.collected(shard, &collected);
                Ok(())
            }
            DigestRecord::Closed(_) => Ok(()),
            DigestRecord::Folded(folded) => self.folded(shard, &folded),
            DigestRecord::Digested(digested) => self.digested(shard, &digested),
        }
    }

    fn collected(&mut self, shard: ShardNo, collected: &Collected) {
        for taking in &collected.takes {
            let Some(into) = taking.into else { continue };
            let window = Collecting {
                user: taking.user,
                channel: collected.work.channel,
                terms: collected.terms,
                digest: None,
                events: 0,
            };
            self.shard(shard).windows.insert((collected.work.tenant, into.no), window);
        }
    }

    fn folded(&mut self, shard: ShardNo, folded: &Folded) -> Result<(), Broken> {
        let window = (folded.tenant, folded.no);
        let known = self.shard(shard).windows.get_mut(&window);
        let is_same = known.is_some_and(|known| {
            let is_same = known.digest.is_none() || known.digest == folded.digest;
            known.digest = folded.digest;
            is_same
        });
        Invariant::OneLife.holds(is_same, || format!("{shard} {window:?} is folded into two digests"))?;
        for item in &folded.items {
            let parcel = folded.parcel(item);
            for position in &item.positions {
                let (key, before) = self.member(shard, parcel, *position)?;
                let is_waiting = before.state == State::Deferred && before.digest.is_none();
                Invariant::OneLife.holds(is_waiting, || format!("{key:?} is folded but was {before:?}"))?;
                self.change(shard, parcel, *position, &item.standing)?;
                if item.standing.state == State::Folded {
                    let never_sent = before.intents == 0 || before.state == State::Deferred;
                    Invariant::Copies.holds(never_sent, || format!("{key:?} is told twice: {before:?}"))?;
                    self.all.entry(key).and_modify(|delivery| delivery.digest = folded.digest);
                }
            }
            if item.standing.state == State::Folded && !item.positions.is_empty() {
                let window = self.shard(shard).windows.get_mut(&window);
                window.into_iter().for_each(|window| window.events += 1);
            }
        }
        Ok(())
    }

    fn digested(&mut self, shard: ShardNo, digested: &Digested) -> Result<(), Broken> {
        let window = self.shard(shard).windows.remove(&(digested.tenant, digested.no));
        let (Some(window), Some(_)) = (window, &digested.content) else { return Ok(()) };
        let Some(event) = window.digest.filter(|event| is_digest(*event)) else {
            return Invariant::OneLife.broken(format!("{shard} {window:?} is written but not folded"));
        };
        let channels = ChannelSet::EMPTY.with(window.channel);
        let chain = fantail_rules::chain::Chain::NONE;
        let terms = Terms { expires_at: digested.expires_at, appointment: None, chain, ..window.terms };
        let state = self.shard(shard);
        state.arrive(digested.tenant, event, Some(Leaving { channels, terms }), vec![window.user]);
        let before = state.digests.insert((digested.tenant, event), window.events);
        Invariant::OneLife.holds(before.is_none(), || format!("{shard} {event} is written twice"))
    }

    /// Whatever was folded is in a digest that was written, unless its reader is gone, and digests count right.
    pub(super) fn check_digests(&self) -> Result<(), Broken> {
        let mut told: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (key, delivery) in self.all.iter().filter(|(_, delivery)| delivery.state == State::Folded) {
            let Some(digest) = delivery.digest else {
                return Invariant::Terminal.broken(format!("{key:?} is in no digest"));
            };
            told.entry((key.shard, key.tenant, digest)).or_default().insert(key.arrival);
        }
        for ((no, tenant, digest), arrivals) in told {
            let Some(shard) = self.shards.get(&no) else { continue };
            let Some(count) = shard.digests.get(&(tenant, digest)) else {
                let is_gone = shard.windows.values().all(|window| window.digest != Some(digest));
                Invariant::Terminal.holds(is_gone, || format!("{no} {digest} was never written"))?;
                continue;
            };
            Invariant::Conservation.holds(*count == arrivals.len(), || {
                format!("{no} {digest} tells of {count}, but has taken {}", arrivals.len())
            })?;
        }
        Ok(())
    }

    /// Digests that were written.
    #[must_use]
    pub fn digests(&self) -> u64 {
        self.shards.values().map(|shard| shard.digests.len() as u64).sum()
    }
}
