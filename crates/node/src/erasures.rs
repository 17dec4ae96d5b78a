//! Erasures: a user is removed from everything that is kept, and a receipt says what that was.
//!
//! Comes from: the erasure API; then from to-do rows, so that a crash only makes it go on. Does: has the user's shard remove
//! the user, then what is kept about deliveries, some events at a time; has every front drop what the user alone was told;
//! destroys the key; and says that it is done. Goes to: `machine::shard::erase`, `machine::front::unsay`, the keyring.
//!
//! What must never happen: a receipt that says done while a key is there.

pub use fantail_machine::records::erasure::Store;
pub use fantail_machine::tables::erasure::ErasureRow;

use crate::ask::{InboxFrom, Refusal};
use crate::core::{Core, answer, internal, locked};
use crate::inbox;
use crate::node::Node;
use crate::people::locate;
use crate::take::HOUSE;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::erasure;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Arrival, FrontNo, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;
use tracing::info;

/// What an ask takes in a queue.
const ASK_BYTES: usize = 4_096;
/// Entries of an inbox that are counted at a time.
const COUNTED_PAGE: usize = 1_000;

impl Node {
    /// Begins to erase a user. The answer means that the user is gone for every reader and every send, durably; what is
    /// kept elsewhere follows, and the id tells how far it is.
    pub async fn erase(&self, tenant: TenantId, name: &str) -> Result<Ulid, Refusal> {
        let core = &self.core;
        let (shard, number) = locate(core, tenant, name)?;
        let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
        let entries = entries(core, tenant, shard, number)?;
        // The shard is where fronts have their number: who has the id finds the row.
        let wall = core.ports.clock.wall();
        let erasure = Ulid::new(wall, FrontNo(shard.0), core.ports.entropy.random_u128());
        let ask = ShardAsk::Erase { tenant, lookup, erasure, entries };
        match answer(core.shard(shard).queue.push(tenant, &self.by, vec![ask], ASK_BYTES)).await? {
            ShardAnswer::Noted => Ok(erasure),
            _ => Err(Refusal::UnknownUser { user: name.to_owned() }),
        }
    }

    pub fn erasure(&self, tenant: TenantId, erasure: Ulid) -> Result<Option<ErasureRow>, Refusal> {
        self.core.require_tenant(tenant)?;
        let shard = ShardNo(erasure.front().0);
        if !self.core.shards.contains_key(&shard) {
            return Ok(None);
        }
        self.core.read(PartitionId::Shard(shard), |view| erasure::find(view.tables(), tenant, erasure))
    }
}

/// How many entries an inbox has, page by page.
fn entries(core: &Core, tenant: TenantId, shard: ShardNo, user: UserNo) -> Result<u64, Refusal> {
    let (mut count, mut from) = (0, InboxFrom::Newest);
    loop {
        let (found, next) = inbox::count(core, tenant, (shard, user), from, COUNTED_PAGE)?;
        count += found;
        match next {
            Some(next) => from = next,
            None => return Ok(count),
        }
    }
}

/// Goes on with an erasure until it is done. Doing any of it again changes nothing.
pub async fn go_on(core: &Core, shard: ShardNo, tenant: TenantId, erasure: Ulid) -> Result<(), Refusal> {
    let found = core.read(PartitionId::Shard(shard), |view| erasure::find(view.tables(), tenant, erasure))?;
    let Some(ErasureRow { user, key, .. }) = found else { return Ok(()) };
    let mut behind = Some(Arrival::START);
    while let Some(from) = behind {
        let ask = ShardAsk::Purge { tenant, erasure, behind: from };
        behind = match ask_shard(core, shard, ask).await? {
            ShardAnswer::Purged { next } => next,
            _ => return Err(internal("the shard answered something else")),
        };
    }
    for front in core.fronts.keys() {
        unsay(core, *front, (tenant, erasure), (shard, user)).await?;
    }
    core.ports.keyring.destroy(tenant, key).map_err(locked)?;
    core.known.forget_events();
    let removed = vec![(Store::Key, 1)];
    ask_shard(core, shard, ShardAsk::Removed { tenant, erasure, removed, is_done: true }).await?;
    info!(%tenant, %erasure, "erasure done");
    Ok(())
}

/// Has a front drop what the user alone was told, and says how much that was.
async fn unsay(
    core: &Core,
    front: FrontNo,
    (tenant, erasure): (TenantId, Ulid),
    (shard, user): (ShardNo, UserNo),
) -> Result<(), Refusal> {
    let Some(handle) = core.front(front) else { return Ok(()) };
    let mut behind = None;
    loop {
        let ask = FrontAsk::Unsay { tenant, shard, user, behind };
        let said = answer(handle.queue.push(HOUSE, &Actor::System, vec![ask], ASK_BYTES)).await?;
        let FrontAnswer::Unsaid { removed, next } = said else {
            return Err(internal("the front answered something else"));
        };
        if removed > 0 {
            let removed = vec![(Store::Content, removed)];
            ask_shard(core, shard, ShardAsk::Removed { tenant, erasure, removed, is_done: false }).await?;
        }
        match next {
            Some(next) => behind = Some(next),
            None => return Ok(()),
        }
    }
}

async fn ask_shard(core: &Core, shard: ShardNo, ask: ShardAsk) -> Result<ShardAnswer, Refusal> {
    answer(core.shard(shard).queue.push(HOUSE, &Actor::System, vec![ask], ASK_BYTES)).await
}
