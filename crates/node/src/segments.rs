//! Segments: who is chosen by a condition or an uploaded list.
//!
//! Comes from: the segment API. Does: checks that a condition can be understood, brings uploads to the shards in portions and
//! names the list once all of them have it, and counts. Goes to: `machine::root::segment` and `machine::shard::walk`. Lists that
//! nobody needs any more go in `uploads`.
//!
//! What must never happen: half an upload that somebody is chosen by.

pub use fantail_machine::records::segment::SegmentPut;
pub use fantail_machine::tables::segment::{SegmentList, SegmentRow};

use crate::Node;
use crate::ask::Refusal;
use crate::chosen::{Chooser, Stretch};
use crate::core::{Core, answer, internal, locked};
use fantail_machine::records::segment::UploadId;
use fantail_machine::root::segment::{Answer, Ask};
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::shard::{ShardAnswer, ShardAsk, walk};
use fantail_machine::tables::{progress, segment};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Lookup, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::limits::{ESTIMATE_USERS_MAX, SEGMENTS_PER_TENANT_MAX};
use fantail_rules::segment::Filter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Parts of a shard that a sample is taken from, spread evenly.
const SAMPLES: u64 = 16;

/// How many are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    pub members: u64,
    pub users: u64,
    /// Everybody was looked at; otherwise it is what a sample comes to.
    pub is_exact: bool,
}

/// A list on its way in.
pub struct Upload {
    core: Arc<Core>,
    by: Actor,
    tenant: TenantId,
    name: String,
    list: UploadId,
    pub unknown: u64,
}

impl Node {
    /// The segment, and whether it is new. The condition was understood before.
    pub async fn put_segment(&self, put: SegmentPut) -> Result<(SegmentRow, bool), Refusal> {
        let name = put.name.clone();
        match ask_root(&self.core, &self.by, Ask::Put(put)).await? {
            Answer::Segment { row, is_new } => Ok((row, is_new)),
            other => Err(refused(&other, &name)),
        }
    }

    pub fn segment(&self, tenant: TenantId, name: &str) -> Result<SegmentRow, Refusal> {
        find(&self.core, tenant, name)
    }

    /// Those behind a name, in order.
    pub fn segments(
        &self,
        tenant: TenantId,
        behind: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SegmentRow>, Refusal> {
        self.core.require_tenant(tenant)?;
        self.core.read(PartitionId::Root, |view| segment::of_tenant(view.tables(), tenant, behind, limit))
    }

    pub async fn delete_segment(&self, tenant: TenantId, name: &str) -> Result<(), Refusal> {
        match ask_root(&self.core, &self.by, Ask::Delete { tenant, name: name.to_owned() }).await? {
            Answer::Gone => Ok(()),
            other => Err(refused(&other, name)),
        }
    }

    pub fn count_segment(&self, tenant: TenantId, name: &str) -> Result<Size, Refusal> {
        let row = find(&self.core, tenant, name)?;
        let chooser = chooser(&self.core, &row)?;
        count(&self.core, tenant, &chooser)
    }

    pub fn begin_upload(&self, tenant: TenantId, name: &str) -> Result<Upload, Refusal> {
        find(&self.core, tenant, name)?;
        let list = UploadId(self.core.ports.entropy.random_u128().to_be_bytes());
        let (core, by, name) = (self.core.clone(), self.by.clone(), name.to_owned());
        Ok(Upload { core, by, tenant, name, list, unknown: 0 })
    }
}

impl Upload {
    /// Durable on return, and seen by nobody yet.
    pub async fn add(&mut self, users: &[String]) -> Result<(), Refusal> {
        let core = &self.core;
        let mut by_shard: BTreeMap<ShardNo, Vec<Lookup>> = BTreeMap::new();
        for name in users {
            let lookup = core.ports.keyring.lookup_user(self.tenant, name).map_err(locked)?;
            by_shard.entry(core.shard_of(lookup)).or_default().push(lookup);
        }
        let mut pending = Vec::with_capacity(by_shard.len());
        for (shard, users) in by_shard {
            let bytes = users.len() * 16 + 64;
            let ask = ShardAsk::Walk(walk::Ask::Enlist { tenant: self.tenant, list: self.list, users });
            pending.push(core.shard(shard).queue.push(self.tenant, &self.by, vec![ask], bytes));
        }
        for pushed in pending {
            match answer(pushed).await? {
                ShardAnswer::Walk(walk::Answer::Enlisted { known }) => {
                    self.unknown += known.iter().filter(|known| !**known).count() as u64;
                }
                _ => return Err(internal("the shard answered something else")),
            }
        }
        Ok(())
    }

    /// From now on the segment has this list.
    pub async fn finish(self) -> Result<SegmentRow, Refusal> {
        let members = self.core.shards.keys().try_fold(0, |sum, shard| {
            let here = self.core.read(PartitionId::Shard(*shard), |view| {
                segment::upload(view.tables(), self.tenant, self.list)
            })?;
            Ok(sum + here.members)
        })?;
        let ask = Ask::List { tenant: self.tenant, name: self.name.clone(), list: self.list, members };
        match ask_root(&self.core, &self.by, ask).await? {
            Answer::Segment { row, .. } => Ok(row),
            other => Err(refused(&other, &self.name)),
        }
    }
}

async fn ask_root(core: &Core, by: &Actor, ask: Ask) -> Result<Answer, Refusal> {
    let tenant = match &ask {
        Ask::Put(put) => put.tenant,
        Ask::List { tenant, .. } | Ask::Delete { tenant, .. } => *tenant,
    };
    match answer(core.root.push(tenant, by, vec![RootAsk::Segment(ask)], 8_192)).await? {
        RootAnswer::Segment(answer) => Ok(answer),
        _ => Err(internal("the root answered something else")),
    }
}

fn refused(answer: &Answer, name: &str) -> Refusal {
    match answer {
        Answer::UnknownTenant => Refusal::UnknownTenant,
        Answer::Unknown => Refusal::UnknownSegment { segment: name.to_owned() },
        Answer::TooMany => Refusal::TooMany { limit: SEGMENTS_PER_TENANT_MAX },
        Answer::Segment { .. } | Answer::Gone => internal("the root answered something else"),
    }
}

pub fn find(core: &Core, tenant: TenantId, name: &str) -> Result<SegmentRow, Refusal> {
    core.require_tenant(tenant)?;
    let row = core.read(PartitionId::Root, |view| segment::find(view.tables(), tenant, name))?;
    row.ok_or_else(|| Refusal::UnknownSegment { segment: name.to_owned() })
}

/// A condition that was accepted once can be understood: the language only grows.
pub fn chooser(core: &Core, row: &SegmentRow) -> Result<Chooser, Refusal> {
    let list = row.list.map(|list| list.id);
    Chooser::new(core, row.put.tenant, understood(row.put.filter.as_deref())?, list)
}

pub fn understood(filter: Option<&str>) -> Result<Option<Filter>, Refusal> {
    let filter = filter.map(Filter::parse).transpose();
    filter.map_err(|fault| internal(&format!("a stored filter is not understood: {}", fault.what)))
}

/// How many there are, by looking at everybody, or at some if there are too many.
pub fn count(core: &Core, tenant: TenantId, chooser: &Chooser) -> Result<Size, Refusal> {
    let mut size = Size { members: 0, users: 0, is_exact: true };
    for shard in core.shards.keys() {
        let sample = Sample::of(core, tenant, *shard)?;
        let (mut looked_at, mut members) = (0, 0);
        for (from, bound) in sample.stretches() {
            let stretch = Stretch { from, bound, looked_at_max: u64::MAX, members_max: usize::MAX };
            let chosen = chooser.look(core, *shard, stretch, core.ports.clock.wall())?;
            looked_at += chosen.looked_at;
            members += chosen.members.len() as u64;
        }
        size.users += sample.users;
        size.is_exact &= sample.is_whole();
        size.members += sample.scaled(members, looked_at);
    }
    Ok(size)
}

/// Which users of a shard are looked at.
pub struct Sample {
    pub users: u64,
    each: u64,
}

impl Sample {
    pub fn of(core: &Core, tenant: TenantId, shard: ShardNo) -> Result<Self, Refusal> {
        let progress = core.read(PartitionId::Shard(shard), |view| progress::find(view.tables(), tenant))?;
        let most = ESTIMATE_USERS_MAX / u64::from(core.layout.shards).max(1);
        Ok(Self::new(progress.users, most))
    }

    fn new(users: u64, most: u64) -> Self {
        Self { users, each: if users <= most { users } else { most / SAMPLES } }
    }

    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.each == self.users
    }

    /// From one user to another, ascending.
    pub fn stretches(&self) -> impl Iterator<Item = (UserNo, UserNo)> {
        let count = if self.is_whole() { 1 } else { SAMPLES };
        (0..count).map(move |at| {
            let from = self.users / count * at;
            (UserNo(from), UserNo(self.users.min(from + self.each)))
        })
    }

    /// What was found in the sample, for everybody.
    #[must_use]
    pub fn scaled(&self, found: u64, looked_at: u64) -> u64 {
        if self.is_whole() || looked_at == 0 {
            return found;
        }
        let all = u128::from(found) * u128::from(self.users) / u128::from(looked_at);
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_evenly_or_whole() {
        let small = Sample::new(100, 100);
        assert!(small.is_whole());
        assert_eq!(small.stretches().collect::<Vec<_>>(), [(UserNo(0), UserNo(100))]);
        assert_eq!(small.scaled(7, 100), 7);
        let large = Sample::new(1_600, 160);
        assert!(!large.is_whole());
        let all: Vec<_> = large.stretches().collect();
        assert_eq!(
            (all.len(), all[0], all[15]),
            (16, (UserNo(0), UserNo(10)), (UserNo(1_500), UserNo(1_510)))
        );
        assert_eq!(large.scaled(8, 160), 80);
        assert_eq!(Sample::new(0, 10).stretches().collect::<Vec<_>>(), [(UserNo(0), UserNo(0))]);
    }
}
