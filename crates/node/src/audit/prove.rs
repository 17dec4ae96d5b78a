//! The proof of one recipient: what was decided and done about a user and an event, each with the path to the root that
//! the log commits to, and from there to a signed checkpoint.
//!
//! Comes from: the audit API. Does: finds the entries about the event in the chain of the user's shard, has the user's
//! leaves opened (`opener`), and follows the chain to a checkpoint. Goes to: callers, who check it without us.

use super::checkpoints::unreadable;
use super::opener::{Opened, Opener};
use super::people::{People, Recent};
use super::search::{BYTES_MAX, checkpoints};
use crate::ask::Refusal;
use crate::core::{Core, internal};
use crate::deliveries::row_of;
use crate::people::locate;
use fantail_audit::checkpoint::{Checkpoint, head_path};
use fantail_audit::fact::Fact;
use fantail_audit::proof::{Proof, prove_by_leaves};
use fantail_ports::audit::{Digest, Entry, Head, Search, Sequence};
use fantail_ports::journal::ReadLimit;
use fantail_rules::ids::{Millis, PartitionId, TenantId};
use fantail_rules::ulid::Ulid;

/// Searches that one call makes: 32 pages of a megabyte each, if the tenant is in all of them.
const SEARCHES_MAX: usize = 64;
const SEARCHED_ENTRIES: usize = 4_096;
/// Entries between a proven one and the head of a checkpoint. A chain that moves faster is verified from its files.
const LATER_MAX: usize = 1_000;
/// Checkpoints that are looked at for one that knows the entry.
const CHECKPOINTS_MAX: usize = 64;

/// What is known about one recipient.
#[derive(Clone, Debug, Default)]
pub struct Proofs {
    pub proven: Vec<Proven>,
    /// Entries about the event whose members cannot be opened any more.
    pub closed: u64,
    /// The log was searched to its end.
    pub is_complete: bool,
}

#[derive(Clone, Debug)]
pub struct Proven {
    pub entry: Entry,
    pub proof: Proof,
    /// `None` until a checkpoint covers the entry.
    pub anchor: Option<Anchor>,
}

/// How an entry is tied to a signed checkpoint.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// The entries of the chain behind the proven one, up to the head.
    pub later: Vec<Entry>,
    pub head: Head,
    /// The head's place among all heads, and its path to the root that was signed.
    pub index: u32,
    pub path: Vec<Digest>,
    pub checkpoint: Checkpoint,
}

pub async fn prove(core: &Core, tenant: TenantId, event: Ulid, user: &str) -> Result<Proofs, Refusal> {
    let row = row_of(core, tenant, event)?;
    let (shard, number) = locate(core, tenant, user)?;
    let recent = Recent::default();
    let person = People::find(core, &recent, tenant, shard, std::iter::once(number)).await?.of(number);
    let opener = Opener { core, recent: &recent, person };
    let (mut proofs, mut after) = (Proofs::default(), None);
    for _ in 0..SEARCHES_MAX {
        let limit = ReadLimit { records: SEARCHED_ENTRIES, bytes: BYTES_MAX };
        let search = Search { from: row.at, until: Millis(u64::MAX), after, limit };
        let found = core.ports.audit.log.search(tenant, search).await.map_err(unreadable)?;
        let of_shard = |entry: &Entry| entry.chain.partition == PartitionId::Shard(shard);
        for (place, entry) in found.entries.iter().enumerate().filter(|(_, entry)| of_shard(entry)) {
            open(&opener, event, entry, &found.entries[place + 1..], &mut proofs).await?;
        }
        after = found.next;
        if after.is_none() {
            proofs.is_complete = true;
            break;
        }
    }
    for proven in &mut proofs.proven {
        proven.anchor = anchor(core, &proven.entry).await?;
    }
    Ok(proofs)
}

/// Proves what an entry says about the user and the event, if it does.
async fn open(
    opener: &Opener<'_>,
    event: Ulid,
    entry: &Entry,
    behind: &[Entry],
    proofs: &mut Proofs,
) -> Result<(), Refusal> {
    // What a later version says is not about members that we could open.
    let Ok(fact) = Fact::decode(entry.kind, &entry.body) else { return Ok(()) };
    let is_wanted = matches!(fact, Fact::Parcel(_) | Fact::Outcome(_)) && fact.event() == Some(event);
    if !is_wanted {
        return Ok(());
    }
    let Some(Opened { leaves, own }) = opener.open(entry, &fact, behind).await? else {
        proofs.closed += 1;
        return Ok(());
    };
    for (index, member) in own {
        let proof = prove_by_leaves(entry, leaves.clone(), member, index);
        let proof = proof.map_err(|failed| internal(&failed.to_string()))?;
        proofs.proven.push(Proven { entry: entry.clone(), proof, anchor: None });
    }
    Ok(())
}

/// Follows the chain from an entry to the first checkpoint that lists all heads and knows it.
async fn anchor(core: &Core, entry: &Entry) -> Result<Option<Anchor>, Refusal> {
    let first = first_since(core, entry.at).await?;
    let candidates = checkpoints(core, first, CHECKPOINTS_MAX).await?;
    let knows = |head: &&Head| head.chain == entry.chain && head.sequence >= entry.sequence;
    let found = candidates.into_iter().filter(Checkpoint::is_whole).find_map(|checkpoint| {
        let head = checkpoint.heads.iter().find(knows).copied()?;
        Some((checkpoint, head))
    });
    let Some((checkpoint, head)) = found else { return Ok(None) };
    let Some(later) = later(core, entry, &head).await? else { return Ok(None) };
    let Some((index, path)) = head_path(&checkpoint.heads, head.chain) else { return Ok(None) };
    Ok(Some(Anchor { later, head, index, path, checkpoint }))
}

/// The number of the first checkpoint at or after a time: numbers and times ascend together.
async fn first_since(core: &Core, at: Millis) -> Result<u64, Refusal> {
    let (mut low, mut high) = (1, 2);
    loop {
        match checkpoints(core, high, 1).await?.first() {
            Some(checkpoint) if checkpoint.statement.at < at => (low, high) = (high, high * 2),
            Some(_) | None => break,
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        let is_before = checkpoints(core, middle, 1).await?.first().is_some_and(|one| one.statement.at < at);
        if is_before { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// The entries behind one, up to a head; `None` if there are too many of them to hand over.
async fn later(core: &Core, entry: &Entry, head: &Head) -> Result<Option<Vec<Entry>>, Refusal> {
    let wanted = usize::try_from(head.sequence.0 - entry.sequence.0).unwrap_or(usize::MAX);
    if wanted > LATER_MAX {
        return Ok(None);
    }
    let mut later: Vec<Entry> = Vec::with_capacity(wanted);
    while later.len() < wanted {
        let from = Sequence(entry.sequence.0 + 1 + later.len() as u64);
        let limit = ReadLimit { records: wanted - later.len(), bytes: BYTES_MAX };
        let more = core.ports.audit.log.read_chain(entry.chain, from, limit).await.map_err(unreadable)?;
        if more.is_empty() {
            return Ok(None);
        }
        later.extend(more);
    }
    Ok(Some(later))
}
