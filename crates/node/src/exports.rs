//! What is kept about one user, for the user: lists and deliveries, page by page. Everything else has a reader of its own.
//!
//! Comes from: the export API. Does: walks the user's shard, opens names. Changes nothing.

use crate::ask::{ChannelKind, DeliveryView, Refusal};
use crate::deliveries::deliveries_of;
use crate::node::Node;
use crate::people::{locate, open_name};
use fantail_machine::tables::{follow, guard, list, taken};
use fantail_ports::keyring::Context;
use fantail_rules::ids::{Arrival, ListId, PartitionId, TenantId};
use fantail_rules::ulid::Ulid;

/// A list that the user is on, or was and could still read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Of the actor or the topic.
    pub name: String,
    pub is_topic: bool,
    pub is_on: bool,
}

/// Deliveries of one event by one channel.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// `None` once the event itself is past its retention.
    pub event: Option<Ulid>,
    pub channel: ChannelKind,
    pub deliveries: Vec<DeliveryView>,
}

impl Node {
    /// Lists behind one, and where to go on.
    pub fn lists_of(
        &self,
        tenant: TenantId,
        user: &str,
        behind: Option<ListId>,
        limit: usize,
    ) -> Result<(Vec<Listed>, Option<ListId>), Refusal> {
        let (shard, number) = locate(&self.core, tenant, user)?;
        let found = self.core.read(PartitionId::Shard(shard), |view| {
            let page = follow::of_user(view.tables(), tenant, number, behind, limit)?;
            page.into_iter()
                .map(|followed| Ok((list::find(view.tables(), tenant, followed.list)?, followed)))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let next = found.last().filter(|_| found.len() == limit).map(|(_, followed)| followed.list);
        let named = found.into_iter().filter_map(|(row, followed)| {
            let name = open_name(&self.core, tenant, Context::ListName, &row?.name)?;
            Some(Listed { name, is_topic: followed.list.is_topic(), is_on: followed.intervals.is_open() })
        });
        Ok((named.collect(), next))
    }

    /// What became of deliveries to the user, of some events behind an arrival, and where to go on.
    pub fn deliveries_to(
        &self,
        tenant: TenantId,
        user: &str,
        behind: Arrival,
        limit: usize,
    ) -> Result<(Vec<Delivered>, Option<Arrival>), Refusal> {
        let (shard, number) = locate(&self.core, tenant, user)?;
        self.core.read(PartitionId::Shard(shard), |view| {
            let tables = view.tables();
            let arrivals = guard::guarded(tables, tenant, behind, limit)?;
            let mut found = Vec::new();
            for arrival in &arrivals {
                for channel in ChannelKind::ALL {
                    let deliveries = deliveries_of(tables, tenant, *arrival, channel, number)?;
                    if !deliveries.is_empty() {
                        let event = taken::event_at(tables, tenant, *arrival)?;
                        found.push(Delivered { event, channel, deliveries });
                    }
                }
            }
            Ok((found, arrivals.last().copied()))
        })
    }
}
