//! Reading and marking inboxes.
//!
//! Comes from: the inbox API. Does: reads one state of the user's shard, fetches each event's content from its
//! front, opens it; marks are resolved to arrivals that the user has before they are asked of the shard.
//! Goes to: `machine::shard::{inbox, mark}`.

use crate::ask::{
    Counts, EventView, InboxAsk, InboxFrom, InboxPage, MarkAsk, MarkResult, MarkTarget, NotificationView,
    Priority, Refusal,
};
use crate::core::{Core, answer, internal, locked};
use crate::editions;
use crate::known::ShardPages;
use crate::people::locate;
use fantail_machine::records::front::Options;
use fantail_machine::shard::inbox::{Entry, UserInbox};
use fantail_machine::shard::{ShardAnswer, ShardAsk, mark};
use fantail_machine::tables::digest::is_digest;
use fantail_machine::tables::event::{self, EventRow};
use fantail_ports::keyring::{Context, KeyringError, Sealed};
use fantail_ports::tables::TablesError;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Arrival, FrontNo, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::limits::SNOOZED_MAX;
use fantail_rules::marks::State;
use fantail_rules::merge::Direction;
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn page(core: &Core, tenant: TenantId, ask: &InboxAsk) -> Result<InboxPage, Refusal> {
    let (shard, user) = locate(core, tenant, &ask.user)?;
    core.meter.inbox_read();
    let (direction, from) = match ask.from {
        InboxFrom::Newest => (Direction::NewestFirst, None),
        InboxFrom::Before(arrival) => (Direction::NewestFirst, Some(arrival)),
        InboxFrom::Since(arrival) => (Direction::OldestFirst, Some(arrival)),
    };
    let (found, counts, horizon) = with_inbox(core, tenant, shard, user, |inbox| {
        let found = inbox.page(direction, from, ask.state, ask.limit)?;
        Ok((found, inbox.counts()?, inbox.progress.last))
    })?;
    let next = found.resume.map(|arrival| match direction {
        Direction::NewestFirst => InboxFrom::Before(arrival),
        Direction::OldestFirst => InboxFrom::Since(arrival),
    });
    // A client that polls goes on where this page ended, so that what the page left out is not skipped.
    let horizon = match next {
        Some(InboxFrom::Since(arrival)) => arrival,
        Some(InboxFrom::Newest | InboxFrom::Before(_)) | None => horizon,
    };
    Ok(InboxPage {
        notifications: describe(core, tenant, (shard, user), &found.entries)?,
        next,
        horizon,
        unread: counts.unread,
        unseen: counts.unseen,
    })
}

/// How many entries there are from a place on, in any state, and where to go on counting.
pub fn count(
    core: &Core,
    tenant: TenantId,
    (shard, user): (ShardNo, UserNo),
    from: InboxFrom,
    limit: usize,
) -> Result<(u64, Option<InboxFrom>), Refusal> {
    let from = match from {
        InboxFrom::Newest => None,
        InboxFrom::Before(arrival) | InboxFrom::Since(arrival) => Some(arrival),
    };
    with_inbox(core, tenant, shard, user, |inbox| {
        let found = inbox.page(Direction::NewestFirst, from, State::All, limit)?;
        Ok((found.entries.len() as u64, found.resume.map(InboxFrom::Before)))
    })
}

pub fn notification(
    core: &Core,
    tenant: TenantId,
    name: &str,
    event: Ulid,
) -> Result<NotificationView, Refusal> {
    let reader = locate(core, tenant, name)?;
    let entry = entry(core, tenant, name, event)?;
    let found = describe(core, tenant, reader, &[entry])?.pop();
    found.ok_or(Refusal::UnknownNotification { event })
}

pub fn entry(core: &Core, tenant: TenantId, name: &str, event: Ulid) -> Result<Entry, Refusal> {
    let (shard, user) = locate(core, tenant, name)?;
    let found = with_inbox(core, tenant, shard, user, |inbox| inbox.entry(event))?;
    found.ok_or(Refusal::UnknownNotification { event })
}

pub fn counts(core: &Core, tenant: TenantId, name: &str) -> Result<Counts, Refusal> {
    let (shard, user) = locate(core, tenant, name)?;
    let counts = with_inbox(core, tenant, shard, user, |inbox| inbox.counts())?;
    Ok(Counts { unread: counts.unread, unseen: counts.unseen })
}

/// Marks what the inbox has of the target. Refuses with `UnknownNotification` if it has none of the events.
pub async fn mark(core: &Core, by: &Actor, tenant: TenantId, ask: MarkAsk) -> Result<MarkResult, Refusal> {
    let (shard, user) = locate(core, tenant, &ask.user)?;
    let mut unknown = Vec::new();
    let mark = match ask.target {
        MarkTarget::All { through } => {
            let newest = with_inbox(core, tenant, shard, user, |inbox| Ok(inbox.progress.last))?;
            let through = through.map_or(newest, |through| through.min(newest));
            mark::Ask::All { mark: ask.mark, through }
        }
        MarkTarget::Events(events) => {
            let found = with_inbox(core, tenant, shard, user, |inbox| {
                events.iter().map(|event| Ok((*event, inbox.entry(*event)?))).collect::<Result<Vec<_>, _>>()
            })?;
            let mut arrivals: Vec<Arrival> = Vec::new();
            for (event, entry) in found {
                match entry {
                    Some(entry) => arrivals.push(entry.arrival),
                    None => unknown.push(event),
                }
            }
            if let Some(event) = unknown.first().copied().filter(|_| arrivals.is_empty()) {
                return Err(Refusal::UnknownNotification { event });
            }
            mark::Ask::Some { mark: ask.mark, arrivals }
        }
    };
    let ask_shard = ShardAsk::Mark { tenant, user, mark };
    match answer(core.shard(shard).queue.push(tenant, by, vec![ask_shard], 256)).await? {
        ShardAnswer::Marked => Ok(MarkResult { counts: counts(core, tenant, &ask.user)?, unknown }),
        ShardAnswer::UnknownUser => Err(Refusal::UnknownUser { user: ask.user }),
        ShardAnswer::TooManySnoozed => Err(Refusal::TooManySnoozed { limit: SNOOZED_MAX }),
        _ => Err(internal("the shard answered something else")),
    }
}

fn with_inbox<T>(
    core: &Core,
    tenant: TenantId,
    shard: ShardNo,
    user: UserNo,
    read: impl FnOnce(&UserInbox<'_>) -> Result<T, TablesError>,
) -> Result<T, Refusal> {
    let now = core.ports.clock.wall();
    let said = core.control.now();
    core.read(PartitionId::Shard(shard), |view| {
        let pages = ShardPages { known: &core.known, shard };
        let reader = (tenant, user);
        read(&UserInbox::open(view.tables(), view.inbox(), &pages, reader, &said.policies, now)?)
    })
}

/// What all users see of an event.
pub fn event(core: &Core, tenant: TenantId, event: Ulid) -> Result<Arc<EventView>, Refusal> {
    if let Some(known) = core.known.event(tenant, event) {
        return Ok(known);
    }
    let epoch = core.known.epoch();
    let row =
        core.read(PartitionId::Front(event.front()), |view| event::find(view.tables(), tenant, event))?;
    let opened = Arc::new(opened(core, tenant, row.ok_or(Refusal::UnknownEvent { event })?)?);
    core.known.keep_event(epoch, tenant, event, Arc::clone(&opened));
    Ok(opened)
}

/// What the producer calls an event, if it has a name and is still known.
pub fn name_of_event(core: &Core, tenant: TenantId, event: Ulid) -> Result<Option<String>, Refusal> {
    if is_digest(event) {
        return Ok(None);
    }
    match self::event(core, tenant, event) {
        Ok(view) => Ok(view.name.clone()),
        Err(Refusal::UnknownEvent { .. }) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

/// The name that an event was accepted with. A key that is gone hides it.
pub fn name_in(core: &Core, tenant: TenantId, options: &Options) -> Result<Option<String>, Refusal> {
    let Some(sealed) = &options.name else { return Ok(None) };
    let name = open(core, tenant, Context::NotificationName, sealed)?;
    Ok(name.and_then(|name| String::from_utf8(name).ok()))
}

/// Adds content to entries. An event that its front has forgotten is left out.
fn describe(
    core: &Core,
    tenant: TenantId,
    reader: (ShardNo, UserNo),
    entries: &[Entry],
) -> Result<Vec<NotificationView>, Refusal> {
    let epoch = core.known.epoch();
    let mut events: BTreeMap<Ulid, Arc<EventView>> = BTreeMap::new();
    let mut unknown: BTreeMap<FrontNo, Vec<Ulid>> = BTreeMap::new();
    for Entry { event, .. } in entries {
        match core.known.event(tenant, *event) {
            Some(known) => drop(events.insert(*event, known)),
            None => unknown.entry(event.front()).or_default().push(*event),
        }
    }
    for (front, asked) in unknown {
        let found = core.read(PartitionId::Front(front), |view| {
            let find =
                |event: &Ulid| Ok(event::find(view.tables(), tenant, *event)?.map(|row| (*event, row)));
            asked.iter().filter_map(|event| find(event).transpose()).collect::<Result<Vec<_>, _>>()
        })?;
        for (event, row) in found {
            let opened = Arc::new(opened(core, tenant, row)?);
            core.known.keep_event(epoch, tenant, event, Arc::clone(&opened));
            events.insert(event, opened);
        }
    }
    let mut described = Vec::with_capacity(entries.len());
    for entry in entries {
        let Some(post) = events.get(&entry.event) else { continue };
        let own = if post.is_personal {
            personal(core, tenant, entry.event, reader)?
        } else {
            editions::in_inbox(core, (tenant, entry.event), &post.content, reader)?
        };
        described.push(view(entry, Arc::clone(post), own));
    }
    Ok(described)
}

fn opened(core: &Core, tenant: TenantId, row: EventRow) -> Result<EventView, Refusal> {
    let open_some = |context, sealed: Option<Sealed>| match sealed {
        Some(sealed) => open(core, tenant, context, &sealed),
        None => Ok(None),
    };
    let name = name_in(core, tenant, &row.options)?;
    let actor = open_some(Context::Actor, row.actor)?;
    let collapse = open_some(Context::CollapseKey, row.options.collapse)?;
    Ok(EventView {
        created_at: row.at,
        kind: row.kind,
        category: row.category,
        priority: Priority::from_stored(row.priority),
        actor: actor.and_then(|actor| String::from_utf8(actor).ok()),
        content: open(core, tenant, Context::Content, &row.content)?.unwrap_or_default(),
        is_personal: row.personal > 0,
        collapse_key: collapse.and_then(|key| String::from_utf8(key).ok()),
        is_sensitive: row.options.is_sensitive,
        name,
    })
}

/// What one recipient alone is told, for all channels. A key that is gone hides it.
pub fn personal(
    core: &Core,
    tenant: TenantId,
    event: Ulid,
    (shard, user): (ShardNo, UserNo),
) -> Result<Option<Vec<u8>>, Refusal> {
    let sealed = core.read(PartitionId::Front(event.front()), |view| {
        event::personal(view.tables(), tenant, event, shard, user)
    })?;
    let Some(sealed) = sealed else { return Ok(None) };
    Ok(Some(open(core, tenant, Context::Content, &sealed)?.unwrap_or_default()))
}

/// The same for many users of a shard, who ascend: those who are told something alone, and what.
pub fn personals<'u>(
    core: &Core,
    tenant: TenantId,
    event: Ulid,
    (shard, users): (ShardNo, &'u [UserNo]),
) -> Result<impl Iterator<Item = (UserNo, Vec<u8>)> + use<'u>, Refusal> {
    let found = core.read(PartitionId::Front(event.front()), |view| {
        event::personals(view.tables(), tenant, event, (shard, users))
    })?;
    let (places, sealed): (Vec<usize>, Vec<Sealed>) = found.into_iter().unzip();
    let open = core.ports.keyring.open_all(tenant, Context::Content, sealed).map_err(locked)?;
    Ok(places.into_iter().zip(open).map(|(at, open)| (users[at], open.unwrap_or_default())))
}

fn view(entry: &Entry, post: Arc<EventView>, content: Option<Vec<u8>>) -> NotificationView {
    NotificationView {
        event: entry.event,
        arrival: entry.arrival,
        post,
        content,
        seen: entry.seen,
        read: entry.read,
        archived: entry.archived,
        snoozed_until: entry.snoozed_until,
    }
}

/// Opens what is sealed; a destroyed key hides it, which is its purpose. Every other failure is an error: content that
/// cannot be read now must not be taken for empty content.
fn open(
    core: &Core,
    tenant: TenantId,
    context: Context,
    sealed: &Sealed,
) -> Result<Option<Vec<u8>>, Refusal> {
    hidden_without_key(core.ports.keyring.open(tenant, context, sealed))
}

fn hidden_without_key(opened: Result<Vec<u8>, KeyringError>) -> Result<Option<Vec<u8>>, Refusal> {
    match opened {
        Ok(bytes) => Ok(Some(bytes)),
        Err(KeyringError::NoKey { .. }) => Ok(None),
        Err(failed) => Err(locked(failed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::KeyNo;

    // fixes: correctness C2
    #[test]
    fn only_a_destroyed_key_hides_content() {
        let (tenant, key) = (TenantId(1), KeyNo(1));
        let file = || "tenant-1.keys".to_owned();
        let reason = || "input/output error".to_owned();
        assert!(matches!(hidden_without_key(Ok(vec![7])), Ok(Some(bytes)) if bytes == [7]));
        assert!(matches!(hidden_without_key(Err(KeyringError::NoKey { tenant, key })), Ok(None)));
        for failed in [
            KeyringError::DoesNotOpen { tenant, key },
            KeyringError::Damaged { file: file(), reason: reason() },
            KeyringError::Io { file: file(), reason: reason() },
        ] {
            assert!(matches!(hidden_without_key(Err(failed)), Err(Refusal::Internal { .. })));
        }
    }
}
