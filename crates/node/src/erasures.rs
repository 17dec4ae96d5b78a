//! Erasures: a user is removed from everything that is kept, and a receipt says what that was.
//!
//! Comes from: the erasure API; then from to-do rows, so that a crash only makes it go on. Does: has the user's shard remove
//! the user, then what is kept about deliveries, some events at a time; has every front drop what the user alone was told;
//! appends to the list of erasures; destroys the key; and says that it is done. Goes to: `machine::shard::erase`,
//! `machine::front::unsay`, `erasure_list`, the keyring.
//!
//! What must never happen: a receipt that says done while a key is there, or before the list of erasures has it.

use fantail_machine::records::erasure::ErasurePlace;
pub use fantail_machine::records::erasure::Store;
pub use fantail_machine::tables::erasure::ErasureRow;

use crate::ask::{InboxFrom, Refusal};
use crate::core::{Core, answer, internal, locked};
use crate::erasure_list;
use crate::inbox;
use crate::node::Node;
use crate::people::locate;
use crate::take::HOUSE;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::erasure;
use fantail_machine::tables::event::PersonalPlace;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Arrival, FrontNo, KeyNo, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;
use tracing::info;

/// What an ask takes in a queue.
const ASK_BYTES: usize = 4_096;
/// Pages of personal content after which the to-do row hears how far the erasure is: a restart looks at so many again.
const NOTE_EVERY_STEPS: u32 = 16;
/// Entries of an inbox that are counted at a time.
const COUNTED_PAGE: usize = 1_000;

impl Node {
    /// Begins to erase a user. The answer means that the user is gone for every reader and every send, durably; what is
    /// kept elsewhere follows, and the id tells how far it is.
    pub async fn erase(&self, tenant: TenantId, name: &str) -> Result<Ulid, Refusal> {
        let core = &self.core;
        let (shard, number) = locate(core, tenant, name)?;
        let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
        let entries = entries_of(core, tenant, shard, number)?;
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
pub(crate) fn entries_of(
    core: &Core,
    tenant: TenantId,
    shard: ShardNo,
    user: UserNo,
) -> Result<u64, Refusal> {
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

/// An erasure that goes on, step by step. Doing any step again changes nothing.
pub struct Erasing {
    tenant: TenantId,
    erasure: Ulid,
    /// `None` until the rows were read.
    at: Option<At>,
    /// Removed from a front, and not yet on the receipt.
    unreported: u64,
    /// Steps since the to-do row heard how far the erasure is.
    unnoted: u32,
    is_done: bool,
}

/// What an erasure needs to go on.
#[derive(Clone, Copy)]
struct At {
    user: UserNo,
    key: KeyNo,
    place: Option<ErasurePlace>,
}

impl Erasing {
    #[must_use]
    pub fn new(tenant: TenantId, erasure: Ulid) -> Self {
        Self { tenant, erasure, at: None, unreported: 0, unnoted: 0, is_done: false }
    }

    #[must_use]
    pub fn is_of(&self, tenant: TenantId, erasure: Ulid) -> bool {
        (self.tenant, self.erasure) == (tenant, erasure)
    }

    #[must_use]
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Goes on for one step. After a failure the next call takes the same step again.
    pub async fn step(&mut self, core: &Core, shard: ShardNo) -> Result<(), Refusal> {
        let Some(At { user, key, place }) = self.at else { return self.find(core, shard) };
        match place {
            Some(ErasurePlace::Deliveries(behind)) => self.purge(core, shard, behind).await,
            Some(ErasurePlace::Content { front, behind }) => {
                self.unsay(core, front, (shard, user), behind).await
            }
            None => self.finish(core, shard, key).await,
        }
    }

    /// Reads where an earlier leader stopped.
    fn find(&mut self, core: &Core, shard: ShardNo) -> Result<(), Refusal> {
        let (tenant, erasure) = (self.tenant, self.erasure);
        let (row, place) = core.read(PartitionId::Shard(shard), |view| {
            let row = erasure::find(view.tables(), tenant, erasure)?;
            Ok((row, erasure::place(view.tables(), tenant, erasure)?))
        })?;
        let place = Some(place.unwrap_or(ErasurePlace::Deliveries(Arrival::START)));
        match row {
            Some(ErasureRow { user, key, ended: None, .. }) => self.at = Some(At { user, key, place }),
            Some(ErasureRow { ended: Some(_), .. }) | None => self.is_done = true,
        }
        Ok(())
    }

    fn go_to(&mut self, place: Option<ErasurePlace>) {
        self.at = self.at.map(|at| At { place, ..at });
    }

    /// Removes what is kept about deliveries, some events at a time.
    async fn purge(&mut self, core: &Core, shard: ShardNo, behind: Arrival) -> Result<(), Refusal> {
        let (tenant, erasure) = (self.tenant, self.erasure);
        match ask_shard(core, shard, ShardAsk::Purge { tenant, erasure, behind }).await? {
            ShardAnswer::Purged { next: Some(next) } => self.go_to(Some(ErasurePlace::Deliveries(next))),
            ShardAnswer::Purged { next: None } => self.go_to(content_of(core.fronts.keys().next())),
            _ => return Err(internal("the shard answered something else")),
        }
        Ok(())
    }

    /// Has a front drop personal content of the user, some rows at a time, and puts on the receipt how much that was.
    async fn unsay(
        &mut self,
        core: &Core,
        front: FrontNo,
        (shard, user): (ShardNo, UserNo),
        behind: Option<PersonalPlace>,
    ) -> Result<(), Refusal> {
        let (tenant, erasure) = (self.tenant, self.erasure);
        if self.unreported > 0 {
            let removed = vec![(Store::Content, self.unreported)];
            let ask = ShardAsk::Removed { tenant, erasure, removed, is_done: false };
            ask_shard(core, shard, ask).await?;
            self.unreported = 0;
        }
        if self.unnoted >= NOTE_EVERY_STEPS {
            let place = ErasurePlace::Content { front, behind };
            ask_shard(core, shard, ShardAsk::Reached { tenant, erasure, place }).await?;
            self.unnoted = 0;
        }
        let mut next = None;
        if let Some(handle) = core.front(front) {
            let ask = FrontAsk::Unsay { tenant, shard, user, behind };
            let said = answer(handle.queue.push(HOUSE, &Actor::System, vec![ask], ASK_BYTES)).await?;
            let FrontAnswer::Unsaid { removed, next: after } = said else {
                return Err(internal("the front answered something else"));
            };
            self.unreported += removed;
            next = after;
        }
        self.unnoted += 1;
        self.go_to(match next {
            Some(next) => Some(ErasurePlace::Content { front, behind: Some(next) }),
            None => content_of(core.fronts.keys().find(|other| **other > front)),
        });
        Ok(())
    }

    /// Appends to the list of erasures, destroys the key and says that the erasure is done.
    async fn finish(&mut self, core: &Core, shard: ShardNo, key: KeyNo) -> Result<(), Refusal> {
        let (tenant, erasure) = (self.tenant, self.erasure);
        erasure_list::append(core, shard, tenant, erasure)?;
        core.ports.keyring.destroy(tenant, key).map_err(locked)?;
        core.known.forget_events();
        let content = Some((Store::Content, self.unreported)).filter(|(_, count)| *count > 0);
        let removed = content.into_iter().chain([(Store::Key, 1)]).collect();
        ask_shard(core, shard, ShardAsk::Removed { tenant, erasure, removed, is_done: true }).await?;
        self.is_done = true;
        info!(%tenant, %erasure, "erasure done");
        Ok(())
    }
}

/// The beginning of a front. `None`: all fronts were looked at.
fn content_of(front: Option<&FrontNo>) -> Option<ErasurePlace> {
    front.map(|front| ErasurePlace::Content { front: *front, behind: None })
}

async fn ask_shard(core: &Core, shard: ShardNo, ask: ShardAsk) -> Result<ShardAnswer, Refusal> {
    answer(core.shard(shard).queue.push(HOUSE, &Actor::System, vec![ask], ASK_BYTES)).await
}
