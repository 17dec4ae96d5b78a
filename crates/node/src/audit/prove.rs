//! The proof of one recipient: what was decided and done about a user and an event, each with the path to the root that
//! the log commits to, and from there to a signed checkpoint.
//!
//! Comes from: the audit API. Does: finds the entries about the event in the chain of the user's shard, opens the user's
//! leaf with the user's own secret, and follows the chain to a checkpoint. Goes to: callers, who check it without us.
//!
//! Deliveries that were asked for one by one are opened from the log alone. Those of lists are derived again from the
//! journal: possible as long as the record is there and everybody in the parcel still has a key. What must never happen:
//! a word about anybody else.

use super::checkpoints::unreadable;
use super::derive;
use super::people::{People, Person, Recent};
use super::search::{BYTES_MAX, checkpoints};
use crate::ask::Refusal;
use crate::core::{Core, stopped};
use crate::deliveries::row_of;
use crate::people::locate;
use fantail_audit::checkpoint::{Checkpoint, head_path};
use fantail_audit::fact::Fact;
use fantail_audit::member::{Member, Salt, SaltUse, leaves};
use fantail_audit::opening::Veiled;
use fantail_audit::proof::{Proof, prove_by_leaves};
use fantail_ports::audit::{Digest, Entry, Head, Search, Sequence};
use fantail_ports::journal::{JournalError, ReadLimit};
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId};
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
    let person =
        People::find(core, &Recent::default(), tenant, shard, std::iter::once(number)).await?.of(number);
    let mut walk = Walk { core, shard, person, event, candidate: None, proofs: Proofs::default() };
    let mut after = None;
    for _ in 0..SEARCHES_MAX {
        let limit = ReadLimit { records: SEARCHED_ENTRIES, bytes: BYTES_MAX };
        let search = Search { from: row.at, until: Millis(u64::MAX), after, limit };
        let found = core.ports.audit.log.search(tenant, search).await.map_err(unreadable)?;
        for entry in found.entries {
            walk.take(entry).await?;
        }
        after = found.next;
        if after.is_none() {
            walk.proofs.is_complete = true;
            break;
        }
    }
    walk.settle().await?;
    let mut proofs = walk.proofs;
    for proven in &mut proofs.proven {
        proven.anchor = anchor(core, &proven.entry).await?;
    }
    Ok(proofs)
}

/// Looks at the entries of the log in order.
struct Walk<'a> {
    core: &'a Core,
    shard: ShardNo,
    person: Person,
    event: Ulid,
    /// An entry about the event, and the openings that followed it so far.
    candidate: Option<(Entry, Fact, Vec<Veiled>)>,
    proofs: Proofs,
}

impl Walk<'_> {
    async fn take(&mut self, entry: Entry) -> Result<(), Refusal> {
        if entry.chain.partition != PartitionId::Shard(self.shard) {
            return Ok(());
        }
        // What a later version says is not about members that we could open.
        let Ok(fact) = Fact::decode(entry.kind, &entry.body) else { return self.settle().await };
        match (&mut self.candidate, &fact) {
            (Some((about, _, veiled)), Fact::Openings(openings))
                if about.position == entry.position && about.kind == openings.of =>
            {
                veiled.extend(&openings.veiled);
                Ok(())
            }
            _ => {
                self.settle().await?;
                let is_wanted = matches!(fact, Fact::Parcel(_) | Fact::Outcome(_));
                if is_wanted && fact.event() == Some(self.event) {
                    self.candidate = Some((entry, fact, Vec::new()));
                }
                Ok(())
            }
        }
    }

    /// No more openings follow the candidate: opens it.
    async fn settle(&mut self) -> Result<(), Refusal> {
        let Some((entry, fact, veiled)) = self.candidate.take() else { return Ok(()) };
        let count = fact.members().map_or(0, |members| members.count as usize);
        let (leaves, mine) = if veiled.len() == count {
            (veiled.iter().map(|one| one.leaf).collect(), self.lifted(&entry, &veiled))
        } else {
            match self.derived_again(&entry, &fact).await? {
                Some(members) => (leaves(&members), self.recognised(&entry, &members)),
                None => {
                    self.proofs.closed += 1;
                    return Ok(());
                }
            }
        };
        for (index, member) in mine {
            let proof = prove_by_leaves(&entry, leaves.clone(), member, index);
            let proof = proof.map_err(|failed| stopped(&failed.to_string()))?;
            self.proofs.proven.push(Proven { entry: entry.clone(), proof, anchor: None });
        }
        Ok(())
    }

    fn salt(&self, entry: &Entry, index: u32) -> Salt {
        let usage = SaltUse { kind: entry.kind, position: entry.position, index };
        Salt::derive(&self.person.secret, usage)
    }

    fn lifted(&self, entry: &Entry, veiled: &[Veiled]) -> Vec<(u32, Member)> {
        let lift = |(index, one): (u32, &Veiled)| {
            let member = one.lift(self.salt(entry, index), self.person.pseudonym)?;
            Some((index, member))
        };
        (0..).zip(veiled).filter_map(lift).collect()
    }

    fn recognised(&self, entry: &Entry, members: &[Member]) -> Vec<(u32, Member)> {
        let own = |(index, member): (u32, &Member)| {
            let is_own = member.pseudonym == self.person.pseudonym && member.salt == self.salt(entry, index);
            is_own.then_some((index, *member))
        };
        (0..).zip(members).filter_map(own).collect()
    }

    /// The members as the record has them; `None` if it is gone, or if they cannot be told from it any more.
    async fn derived_again(&self, entry: &Entry, fact: &Fact) -> Result<Option<Vec<Member>>, Refusal> {
        let (partition, one) = (entry.chain.partition, ReadLimit { records: 1, bytes: 0 });
        let records = match self.core.ports.journal.read(partition, entry.position, one).await {
            Ok(records) => records,
            Err(JournalError::Trimmed { .. }) => return Ok(None),
            Err(failed) => return Err(stopped(&failed.to_string())),
        };
        let Some(record) = records.first() else { return Ok(None) };
        let (_, said) = derive::say(self.core, &Recent::default(), partition, record).await?;
        Ok(said.into_iter().find(|said| said.fact == *fact).map(|said| said.members))
    }
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
