//! Finds one person among the members behind an entry, with that person's own secret.
//!
//! Comes from: `prove` and `of_user`, entry by entry. Does: lifts the openings that follow the entry; where none were kept,
//! derives the members again from the journal, which is possible as long as the record is there and everybody among them
//! still has a key. Goes to: proofs, and pages about one user. What must never happen: a word about anybody else.

use super::checkpoints::unreadable;
use super::derive;
use super::people::{Person, Recent};
use super::search::BYTES_MAX;
use crate::ask::Refusal;
use crate::core::{Core, internal};
use fantail_audit::fact::{Fact, OPENINGS_MAX};
use fantail_audit::member::{Member, Salt, SaltUse, leaves};
use fantail_audit::opening::Veiled;
use fantail_ports::audit::{Digest, Entry, Sequence};
use fantail_ports::journal::{JournalError, ReadLimit};

pub struct Opener<'a> {
    pub core: &'a Core,
    /// Whom earlier entries were about: mostly the same people.
    pub recent: &'a Recent,
    pub person: Person,
}

/// What is behind an entry.
pub struct Opened {
    pub leaves: Vec<Digest>,
    /// This person's, with their places among the leaves.
    pub own: Vec<(u32, Member)>,
}

impl Opener<'_> {
    /// `behind`: what the caller has read of the log behind the entry; more is read if that is not enough. `None` if the
    /// members cannot be told any more.
    pub async fn open(
        &self,
        entry: &Entry,
        fact: &Fact,
        behind: &[Entry],
    ) -> Result<Option<Opened>, Refusal> {
        let count = fact.members().map_or(0, |members| members.count as usize);
        let veiled = self.veiled(entry, count, behind).await?;
        if veiled.len() == count {
            let leaves = veiled.iter().map(|one| one.leaf).collect();
            return Ok(Some(Opened { leaves, own: self.lifted(entry, &veiled) }));
        }
        let members = self.derived_again(entry, fact).await?;
        let opened =
            |members: Vec<Member>| Opened { leaves: leaves(&members), own: self.recognised(entry, &members) };
        Ok(members.map(opened))
    }

    /// The openings that follow an entry in its chain, at once or not at all.
    async fn veiled(&self, entry: &Entry, count: usize, behind: &[Entry]) -> Result<Vec<Veiled>, Refusal> {
        let mut veiled = Vec::new();
        let mut following = behind.iter().filter(|one| one.chain == entry.chain);
        let mut last = entry.sequence;
        while veiled.len() < count {
            let Some(next) = following.next() else {
                let from = Sequence(last.0 + 1);
                let records = (count - veiled.len()).div_ceil(OPENINGS_MAX);
                let limit = ReadLimit { records, bytes: BYTES_MAX };
                let read = self.core.ports.audit.log.read_chain(entry.chain, from, limit).await;
                let read = read.map_err(unreadable)?;
                let more = read.iter().map_while(|next| openings(entry, next)).flatten();
                veiled.extend(more);
                return Ok(veiled);
            };
            let Some(more) = openings(entry, next) else { return Ok(veiled) };
            veiled.extend(more);
            last = next.sequence;
        }
        Ok(veiled)
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
            Err(failed) => return Err(internal(&failed.to_string())),
        };
        let Some(record) = records.first() else { return Ok(None) };
        let (_, said) = derive::say(self.core, self.recent, partition, record).await?;
        Ok(said.into_iter().find(|said| said.fact == *fact).map(|said| said.members))
    }
}

/// What an entry opens of another one; `None` if it does not follow it for that.
fn openings(of: &Entry, next: &Entry) -> Option<Vec<Veiled>> {
    match Fact::decode(next.kind, &next.body) {
        Ok(Fact::Openings(openings)) if (next.position, openings.of) == (of.position, of.kind) => {
            Some(openings.veiled)
        }
        // What a later version says opens nothing that we could read.
        Ok(_) | Err(_) => None,
    }
}
