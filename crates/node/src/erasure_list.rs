//! The list of erasures: every erasure that ends is appended to it, and a copy that was made from an older backup erases those
//! users again.
//!
//! Input: erasures that are about to end; for a copy, entries of the list behind the place that the list had when the backup was
//! made. Goes to: the port of the same name; back from it, to the shards, as erasures under their old ids.
//!
//! Invariant: no erasure is done before its entry is durable. What must never happen: an erasure that the backup knows is begun
//! again, since another user may have the name by then.

use crate::ask::Refusal;
use crate::core::{Core, answer, answer_when_there_is_room, internal, locked};
use crate::erasures::entries_of;
use crate::node::Node;
use crate::take::HOUSE;
use fantail_machine::records::erased_user::{ErasedUser, ErasedUserEntry};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::{erasure, user};
use fantail_ports::keyring::{Context, KeyringError};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{KeyNo, PartitionId, ShardNo, TenantId};
use fantail_rules::ulid::Ulid;
use tracing::{error, warn};

/// What an ask takes in a queue.
const ASK_BYTES: usize = 4_096;

/// What became of entries of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ErasedAgain {
    /// The user was there, and is gone now.
    pub erased: u64,
    /// This copy knows the erasure, or has no such user.
    pub nothing_to_do: u64,
    /// The copy has no such tenant.
    pub of_other_tenants: u64,
}

impl ErasedAgain {
    pub fn add(&mut self, other: Self) {
        self.erased += other.erased;
        self.nothing_to_do += other.nothing_to_do;
        self.of_other_tenants += other.of_other_tenants;
    }
}

/// Appends an erasure that is about to end.
pub(crate) fn append(core: &Core, shard: ShardNo, tenant: TenantId, erasure: Ulid) -> Result<(), Refusal> {
    let lookup =
        core.read(PartitionId::Shard(shard), |view| erasure::lookup(view.tables(), tenant, erasure))?;
    let Some(lookup) = lookup else {
        warn!(%tenant, %erasure, "an erasure of an earlier version is not in the list of erasures");
        return Ok(());
    };
    let plain = ErasedUser { lookup, erasure }.encode();
    let sealed = match core.ports.keyring.seal(tenant, KeyNo::TENANT, Context::ErasedUser, &plain) {
        Ok(sealed) => sealed,
        Err(KeyringError::NoKey { .. }) => {
            warn!(%tenant, %erasure, "the tenant's key is destroyed, so this erasure is not in the list of erasures");
            return Ok(());
        }
        Err(failed) => return Err(locked(failed)),
    };
    let appended = core.ports.erasure_list.append(&ErasedUserEntry { tenant, sealed }.encode());
    appended.map_err(|failed| {
        error!(%tenant, %erasure, %failed, "an erasure waits, as the list of erasures cannot be written");
        internal(&failed.to_string())
    })
}

impl Node {
    /// Begins the erasures of these entries, as far as this copy does not know them. The answer means that their users are gone
    /// for every reader and every send, durably.
    pub async fn erase_again(&self, entries: &[Vec<u8>]) -> Result<ErasedAgain, Refusal> {
        let core = &self.core;
        let mut came = ErasedAgain::default();
        let mut asked = Vec::new();
        for entry in entries {
            match ask_of(core, entry)? {
                Todo::Erase(shard, ask) => {
                    let push = || {
                        core.shard(shard).queue.push(
                            HOUSE,
                            &Actor::System,
                            vec![ShardAsk::clone(&ask)],
                            ASK_BYTES,
                        )
                    };
                    match push() {
                        // What came before is waited for first: there is room then.
                        Err(Refusal::Busy { .. }) => {
                            count_answers(&mut asked, &mut came).await?;
                            came.add(counted(answer_when_there_is_room(&core.ports, push).await?)?);
                        }
                        pushed => asked.push(pushed),
                    }
                }
                Todo::Nothing => came.nothing_to_do += 1,
                Todo::OtherTenant => came.of_other_tenants += 1,
            }
        }
        count_answers(&mut asked, &mut came).await?;
        Ok(came)
    }
}

enum Todo {
    Erase(ShardNo, Box<ShardAsk>),
    Nothing,
    OtherTenant,
}

fn ask_of(core: &Core, entry: &[u8]) -> Result<Todo, Refusal> {
    let unread =
        |reason: &str| internal(&format!("an entry of the list of erasures cannot be read: {reason}"));
    let ErasedUserEntry { tenant, sealed } =
        ErasedUserEntry::decode(entry).map_err(|malformed| unread(&malformed.to_string()))?;
    if !core.control.now().tenants.contains_key(&tenant) {
        return Ok(Todo::OtherTenant);
    }
    let opened = core.ports.keyring.open(tenant, Context::ErasedUser, &sealed);
    let opened = opened.map_err(|failed| unread(&failed.to_string()))?;
    let ErasedUser { lookup, erasure } =
        ErasedUser::decode(&opened).map_err(|malformed| unread(&malformed.to_string()))?;
    let shard = core.shard_of(lookup);
    let (known, number) = core.read(PartitionId::Shard(shard), |view| {
        let known = erasure::find(view.tables(), tenant, erasure)?.is_some();
        Ok((known, user::number(view.tables(), tenant, lookup)?))
    })?;
    let Some(number) = number.filter(|_| !known) else { return Ok(Todo::Nothing) };
    let entries = entries_of(core, tenant, shard, number)?;
    Ok(Todo::Erase(shard, Box::new(ShardAsk::Erase { tenant, lookup, erasure, entries })))
}

type Pushed = Result<tokio::sync::oneshot::Receiver<Result<Vec<ShardAnswer>, Refusal>>, Refusal>;

async fn count_answers(asked: &mut Vec<Pushed>, came: &mut ErasedAgain) -> Result<(), Refusal> {
    for pushed in asked.drain(..) {
        came.add(counted(answer(pushed).await?)?);
    }
    Ok(())
}

fn counted(answer: ShardAnswer) -> Result<ErasedAgain, Refusal> {
    match answer {
        ShardAnswer::Noted => Ok(ErasedAgain { erased: 1, ..ErasedAgain::default() }),
        // Two entries of one user, and the first one did it.
        ShardAnswer::UnknownUser => Ok(ErasedAgain { nothing_to_do: 1, ..ErasedAgain::default() }),
        _ => Err(internal("the shard answered something else")),
    }
}
