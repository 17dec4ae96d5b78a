//! The entries about one user: what was decided and done, their endpoints, their erasure.
//!
//! Comes from: `search`, if a user is named. Does: walks the chain of the user's shard, where all of it is, and recognises
//! the user by the pseudonym or among the members of a parcel. Goes to: a page; the place to go on is a place in the chain.
//!
//! One call looks at so many entries and opens so many of them, whatever it finds. Of a user who is gone only the erasure
//! can be recognised, by the keyed hash of the id.

use super::checkpoints::unreadable;
use super::opener::Opener;
use super::people::{People, Person, Recent, let_others};
use super::search::{Ask, BYTES_MAX, Page};
use crate::ask::Refusal;
use crate::core::{Core, locked};
use fantail_audit::fact::Fact;
use fantail_audit::member::Pseudonym;
use fantail_machine::tables::user;
use fantail_ports::audit::{ChainId, Entry, Sequence};
use fantail_ports::journal::ReadLimit;
use fantail_rules::ids::{Lookup, Millis, PartitionId, TenantId};

/// Entries that one call looks at.
const LOOKS_MAX: usize = 4_096;
/// Entries whose members one call finds out about: a millisecond or two for each.
const OPENED_MAX: usize = 64;
/// Entries that are read at once.
const READ_MAX: usize = 512;

pub async fn search(core: &Core, tenant: TenantId, name: &str, ask: Ask<'_>) -> Result<Page, Refusal> {
    let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
    let partition = PartitionId::Shard(core.shard_of(lookup));
    let (chain, recent) = (ChainId { tenant, partition }, Recent::default());
    let person = person(core, &recent, chain, lookup).await?;
    let first = match ask.after {
        Some(looked_at) => Sequence(looked_at.saturating_add(1)),
        None => first_since(core, chain, ask.from).await?,
    };
    let opener = person.map(|person| Opener { core, recent: &recent, person });
    let mut walk = Walk { ask, lookup, opener, looks: 0, opened: 0, page: Page::default() };
    let mut from = first;
    loop {
        let limit = ReadLimit { records: READ_MAX, bytes: BYTES_MAX };
        let entries = core.ports.audit.log.read_chain(chain, from, limit).await.map_err(unreadable)?;
        let Some(last) = entries.last() else { return Ok(walk.page) };
        from = Sequence(last.sequence.0 + 1);
        for (place, entry) in entries.iter().enumerate() {
            // Times ascend along a chain.
            if entry.at >= ask.until {
                return Ok(walk.page);
            }
            walk.take(entry, &entries[place + 1..]).await?;
            if walk.is_over() {
                walk.page.next = Some(entry.sequence.0);
                return Ok(walk.page);
            }
        }
    }
}

/// The user as the log knows it; `None` if there is no such user.
async fn person(
    core: &Core,
    recent: &Recent,
    chain: ChainId,
    lookup: Lookup,
) -> Result<Option<Person>, Refusal> {
    let (tenant, shard) = (chain.tenant, core.shard_of(lookup));
    let number = core.read(chain.partition, |view| user::number(view.tables(), tenant, lookup))?;
    let Some(number) = number else { return Ok(None) };
    let people = People::find(core, recent, tenant, shard, std::iter::once(number)).await?;
    Ok(people.known(number))
}

/// The first entry of a chain at or after a time.
async fn first_since(core: &Core, chain: ChainId, at: Millis) -> Result<Sequence, Refusal> {
    let log = &core.ports.audit.log;
    let head = log.heads().into_iter().find(|head| head.chain == chain);
    let (mut low, mut high) = (1, head.map_or(1, |head| head.sequence.0 + 1));
    while at > Millis(0) && low < high {
        let middle = low + (high - low) / 2;
        let one = ReadLimit { records: 1, bytes: 0 };
        let found = log.read_chain(chain, Sequence(middle), one).await.map_err(unreadable)?;
        let is_before = found.first().is_some_and(|entry| entry.at < at);
        if is_before { low = middle + 1 } else { high = middle }
    }
    Ok(Sequence(low))
}

struct Walk<'a> {
    ask: Ask<'a>,
    lookup: Lookup,
    opener: Option<Opener<'a>>,
    looks: usize,
    opened: usize,
    page: Page,
}

impl Walk<'_> {
    fn is_over(&self) -> bool {
        self.page.entries.len() >= self.ask.limit || self.looks >= LOOKS_MAX || self.opened >= OPENED_MAX
    }

    async fn take(&mut self, entry: &Entry, behind: &[Entry]) -> Result<(), Refusal> {
        self.looks += 1;
        // What a later version says is about nobody whom we could recognise.
        let Ok(fact) = Fact::decode(entry.kind, &entry.body) else { return Ok(()) };
        if self.ask.event.is_some() && fact.event() != self.ask.event {
            return Ok(());
        }
        if self.is_about(entry, &fact, behind).await? {
            self.page.entries.push(entry.clone());
        }
        Ok(())
    }

    async fn is_about(&mut self, entry: &Entry, fact: &Fact, behind: &[Entry]) -> Result<bool, Refusal> {
        let is_own =
            |pseudonym| self.opener.as_ref().is_some_and(|opener| opener.person.pseudonym == pseudonym);
        match fact {
            Fact::Erased(fact) => Ok(fact.pseudonym == Pseudonym(self.lookup.0)),
            Fact::Endpoint(fact) => Ok(is_own(fact.pseudonym)),
            Fact::Consent(fact) => Ok(is_own(fact.pseudonym)),
            Fact::ConsentBy(fact) => Ok(is_own(fact.consent.pseudonym)),
            Fact::Parcel(_) | Fact::Outcome(_) | Fact::DeadLettered(_) | Fact::Redriven(_) => {
                let Some(opener) = &self.opener else { return Ok(false) };
                self.opened += 1;
                let opened = opener.open(entry, fact, behind).await?;
                let_others().await;
                self.page.closed += u64::from(opened.is_none());
                Ok(opened.is_some_and(|opened| !opened.own.is_empty()))
            }
            Fact::Action(_)
            | Fact::Accepted(_)
            | Fact::Deduplicated(_)
            | Fact::Cancelled(_)
            | Fact::Openings(_) => Ok(false),
        }
    }
}
