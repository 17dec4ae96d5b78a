//! Reading the audit log of one tenant, and its checkpoints.
//!
//! Comes from: the audit API. Does: looks at a bounded part of the log per call, and says where to go on. Goes to: callers,
//! as stored; what an entry says is decoded where it is shown.

use super::checkpoints::{parsed, unreadable};
use super::of_user;
use crate::ask::Refusal;
use crate::core::Core;
use crate::take::HOUSE;
use fantail_audit::checkpoint::Checkpoint;
use fantail_audit::fact::Fact;
use fantail_audit::key::PublicKey;
use fantail_ports::audit::{Cursor, Entry, Search};
use fantail_ports::journal::ReadLimit;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::ulid::Ulid;

/// Searches that one call makes before it answers with what it has.
const SEARCHES_MAX: usize = 8;
pub(super) const BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Entries at this time and later, and before that time.
    pub from: Millis,
    pub until: Millis,
    /// Only what is about this event.
    pub event: Option<Ulid>,
    /// Only what is about this user.
    pub user: Option<&'a str>,
    /// Behind this place, which is one of a page with the same user, or of one without any.
    pub after: Option<u64>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// There may be more behind this place.
    pub next: Option<u64>,
    /// Entries of which it cannot be told any more whether they are about the user.
    pub closed: u64,
}

pub async fn search(core: &Core, tenant: TenantId, ask: Ask<'_>) -> Result<Page, Refusal> {
    if tenant != HOUSE {
        core.require_tenant(tenant)?;
    }
    if let Some(user) = ask.user {
        return of_user::search(core, tenant, user, ask).await;
    }
    let mut page = Page { next: ask.after, ..Page::default() };
    for _ in 0..SEARCHES_MAX {
        let limit = ReadLimit { records: ask.limit - page.entries.len(), bytes: BYTES_MAX };
        let after = page.next.map(Cursor);
        let search = Search { from: ask.from, until: ask.until, after, limit };
        let found = core.ports.audit.log.search(tenant, search).await.map_err(unreadable)?;
        page.entries.extend(found.entries.into_iter().filter(|entry| is_about(entry, ask.event)));
        page.next = found.next.map(|Cursor(place)| place);
        if page.next.is_none() || page.entries.len() >= ask.limit {
            break;
        }
    }
    Ok(page)
}

fn is_about(entry: &Entry, event: Option<Ulid>) -> bool {
    // A kind of a later version is about something that we do not know.
    let about = || Fact::decode(entry.kind, &entry.body).ok().and_then(|fact| fact.event());
    event.is_none() || about() == event
}

/// Checkpoints with this number and later.
pub async fn checkpoints(core: &Core, from: u64, limit: usize) -> Result<Vec<Checkpoint>, Refusal> {
    let limit = ReadLimit { records: limit, bytes: BYTES_MAX };
    let stored = core.ports.audit.log.checkpoints(from, limit).await.map_err(unreadable)?;
    stored.iter().map(|stored| parsed(stored).map_err(unreadable)).collect()
}

/// The key that signs now.
#[must_use]
pub fn public_key(core: &Core) -> PublicKey {
    core.ports.audit.signer.public()
}
