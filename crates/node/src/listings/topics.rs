//! Topics that have subscribers, in the order of their hashes: each shard knows the topics of its own users.

use super::most;
use crate::ask::Refusal;
use crate::core::Core;
use crate::node::Node;
use crate::people::{locate, open_name};
use fantail_machine::tables::follow;
use fantail_machine::tables::list::{self, ListRow};
use fantail_ports::keyring::{Context, Sealed};
use fantail_rules::ids::{ListId, PartitionId, TenantId};
use fantail_rules::limits::LISTING_ROWS_MAX;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedTopic {
    pub topic: String,
    pub subscribers: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicPage {
    pub topics: Vec<ListedTopic>,
    /// Those behind it may be asked for next.
    pub next: Option<ListId>,
}

/// What the shards know of a topic.
#[derive(Default)]
struct Sum {
    subscribers: u64,
    names: Vec<Sealed>,
}

impl Sum {
    fn add(&mut self, row: ListRow) {
        self.subscribers += row.members;
        self.names.push(row.name);
    }
}

/// What one shard knows behind a list, and the list that was looked at last if it may know more.
type ShardTopics = (Vec<(ListId, ListRow)>, Option<ListId>);

impl Node {
    /// Topics behind a list.
    pub fn list_topics(
        &self,
        tenant: TenantId,
        behind: Option<ListId>,
        limit: usize,
    ) -> Result<TopicPage, Refusal> {
        page(&self.core, tenant, behind, limit)
    }

    /// Topics of one user behind a list.
    pub fn list_topics_of(
        &self,
        tenant: TenantId,
        user: &str,
        behind: Option<ListId>,
        limit: usize,
    ) -> Result<TopicPage, Refusal> {
        page_of_user(&self.core, tenant, user, behind, limit)
    }
}

fn page(core: &Core, tenant: TenantId, behind: Option<ListId>, limit: usize) -> Result<TopicPage, Refusal> {
    core.require_tenant(tenant)?;
    let mut shards = Vec::with_capacity(core.shards.len());
    for shard in core.shards.keys() {
        shards.push(core.read(PartitionId::Shard(*shard), |view| {
            list::topics_behind(view.tables(), tenant, behind, most(limit))
        })?);
    }
    let (sums, next) = joined(shards, limit);
    Ok(TopicPage { topics: sums.into_iter().filter_map(|sum| named(core, tenant, sum)).collect(), next })
}

/// Adds up what the shards know, as far as all of them were looked at.
fn joined(shards: Vec<ShardTopics>, limit: usize) -> (Vec<Sum>, Option<ListId>) {
    let through = shards.iter().filter_map(|(_, cut_at)| *cut_at).min();
    let mut sums: BTreeMap<ListId, Sum> = BTreeMap::new();
    for (topic, row) in shards.into_iter().flat_map(|(rows, _)| rows) {
        if through.is_none_or(|through| topic <= through) {
            sums.entry(topic).or_default().add(row);
        }
    }
    let last_shown = sums.keys().nth(limit.saturating_sub(1)).copied();
    let next = last_shown.filter(|_| sums.len() > limit).or(through);
    (sums.into_values().take(limit).collect(), next)
}

fn page_of_user(
    core: &Core,
    tenant: TenantId,
    user: &str,
    behind: Option<ListId>,
    limit: usize,
) -> Result<TopicPage, Refusal> {
    let (shard, number) = locate(core, tenant, user)?;
    let followed = core.read(PartitionId::Shard(shard), |view| {
        follow::of_user(view.tables(), tenant, number, behind, LISTING_ROWS_MAX)
    })?;
    let is_cut = followed.len() == LISTING_ROWS_MAX;
    let last = followed.last().map(|followed| followed.list);
    let is_on =
        followed.into_iter().filter(|followed| followed.list.is_topic() && followed.intervals.is_open());
    let mut lists: Vec<ListId> = is_on.map(|followed| followed.list).collect();
    let is_more = lists.len() > limit;
    lists.truncate(limit);
    let next = if is_more { lists.last().copied() } else { last.filter(|_| is_cut) };
    let mut topics = Vec::with_capacity(lists.len());
    for topic in lists {
        let mut sum = Sum::default();
        for shard in core.shards.keys() {
            let row =
                core.read(PartitionId::Shard(*shard), |view| list::find(view.tables(), tenant, topic))?;
            row.into_iter().for_each(|row| sum.add(row));
        }
        topics.extend(named(core, tenant, sum));
    }
    Ok(TopicPage { topics, next })
}

/// Opens the name of a topic. A topic without subscribers is none.
fn named(core: &Core, tenant: TenantId, sum: Sum) -> Option<ListedTopic> {
    if sum.subscribers == 0 {
        return None;
    }
    let topic = sum.names.iter().find_map(|name| open_name(core, tenant, Context::ListName, name))?;
    Some(ListedTopic { topic, subscribers: sum.subscribers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(no: u8) -> ListId {
        ListId([no; 16])
    }

    /// What a shard with these topics and their members answers that looks at so many rows.
    fn look(topics: &BTreeMap<u8, u64>, behind: Option<ListId>, rows: usize) -> ShardTopics {
        let mut left = topics.iter().filter(|(no, _)| behind.is_none_or(|behind| id(**no) > behind));
        let found: Vec<_> = left
            .by_ref()
            .take(rows)
            .map(|(no, members)| (id(*no), ListRow { members: *members, ..ListRow::default() }))
            .collect();
        let cut_at = left.next().and(found.last()).map(|(last, _)| *last);
        (found, cut_at)
    }

    /// However little each shard looks at, all pages together have every topic once, with all of its subscribers.
    #[test]
    fn pages_of_all_shards_have_each_topic_once() {
        for seed in 0..400u64 {
            let chance = |no: u64| (seed * 7_919 + no).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let topics_of = |shard: u64| -> BTreeMap<u8, u64> {
                let all = (0..24u8).map(|no| (no, chance(shard * 100 + u64::from(no)) % 12));
                all.filter(|(_, members)| *members > 6).collect()
            };
            let shards: Vec<BTreeMap<u8, u64>> = (0..=seed % 4).map(topics_of).collect();
            let (rows, limit) = (chance(900) as usize % 5 + 1, chance(901) as usize % 5 + 1);
            let (mut behind, mut found) = (None, Vec::new());
            loop {
                let looks = shards.iter().map(|topics| look(topics, behind, rows)).collect();
                let (sums, next) = joined(looks, limit);
                assert!(sums.len() <= limit);
                found.extend(sums.into_iter().map(|sum| sum.subscribers));
                assert!(next.is_none() || next > behind, "seed {seed}: each page gets on");
                behind = next;
                if behind.is_none() {
                    break;
                }
            }
            let mut all: BTreeMap<u8, u64> = BTreeMap::new();
            for (no, members) in shards.iter().flatten() {
                *all.entry(*no).or_default() += members;
            }
            assert_eq!(found, all.into_values().collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
