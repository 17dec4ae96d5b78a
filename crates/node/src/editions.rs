//! Which edition of an event each of its readers gets.
//!
//! Comes from: `deliver`, for the members of a parcel, `inbox`, for one reader, and explain. Does: reads what the choice
//! needs to know of users, in one batch, and only if there is a choice. The choice itself is `fantail_templates`'s.
//! Goes to: channels and inboxes. Not here: rendering, which was done when the event was accepted.
//!
//! What must never happen: a retry or an inbox in another language because the user changed it since: the locale is the
//! one that the user had when the event was due, as far back as the last change.

use crate::ask::{EventView, Refusal, RenderedView};
use crate::content;
use crate::core::{Core, locked};
use crate::inbox;
use fantail_machine::tables::user;
use fantail_ports::keyring::{Context, Sealed};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;
use fantail_templates::{Editions, Reader};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a channel carries to each of these users. Empty if all get the same.
pub fn by_user(
    core: &Core,
    (tenant, event): (TenantId, Ulid),
    content: &[u8],
    kind: ChannelKind,
    (shard, users): (ShardNo, &[UserNo]),
) -> Result<BTreeMap<UserNo, Arc<[u8]>>, Refusal> {
    let Some(editions) = content::editions(content) else { return Ok(BTreeMap::new()) };
    // Members share the bytes of their edition.
    let mut shared: BTreeMap<usize, Arc<[u8]>> = BTreeMap::new();
    let mut chosen = BTreeMap::new();
    for (user, reader) in users.iter().zip(readers(core, tenant, event, &editions, (shard, users))?) {
        let Some(body) = editions.body(editions.choose(&reader), kind) else { continue };
        let bytes = shared.entry(body.place).or_insert_with(|| body.bytes.into());
        chosen.insert(*user, Arc::clone(bytes));
    }
    Ok(chosen)
}

/// What a reader's inbox shows of an event, if that is not the same for everybody. Empty if it shows nothing of it.
pub fn in_inbox(
    core: &Core,
    (tenant, event): (TenantId, Ulid),
    content: &[u8],
    (shard, user): (ShardNo, UserNo),
) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(editions) = content::editions(content) else { return Ok(None) };
    let reader =
        readers(core, tenant, event, &editions, (shard, &[user]))?.into_iter().next().unwrap_or_default();
    let shown = content::edition_in_inbox(&editions, editions.choose(&reader));
    Ok(Some(shown.map(Cow::into_owned).unwrap_or_default()))
}

/// What a template made for one recipient; `None` if there was no template.
pub fn rendered(
    core: &Core,
    (tenant, event): (TenantId, Ulid),
    view: &EventView,
    (shard, user): (ShardNo, UserNo),
) -> Result<Option<RenderedView>, Refusal> {
    let own = if view.is_personal { inbox::personal(core, tenant, event, (shard, user))? } else { None };
    let Some(editions) = Editions::read(own.as_deref().unwrap_or(&view.content)) else { return Ok(None) };
    let readers = if editions.differ() {
        readers(core, tenant, event, &editions, (shard, &[user]))?
    } else {
        Vec::new()
    };
    let edition = editions.choose(&readers.into_iter().next().unwrap_or_default());
    let in_locale = |(kind, locale): (ChannelKind, &str)| (kind, locale.to_owned());
    Ok(Some(RenderedView {
        template: editions.template.to_owned(),
        version: editions.version,
        variant: editions.variant(edition).map(str::to_owned),
        locales: editions.locales(edition).map(in_locale).collect(),
    }))
}

/// What the choice goes by, of each of these users in their order. Of those who are gone nothing is known.
fn readers(
    core: &Core,
    tenant: TenantId,
    event: Ulid,
    editions: &Editions<'_>,
    (shard, users): (ShardNo, &[UserNo]),
) -> Result<Vec<Reader>, Refusal> {
    let rows = core.read(PartitionId::Shard(shard), |view| {
        users.iter().map(|user| user::find(view.tables(), tenant, *user)).collect::<Result<Vec<_>, _>>()
    })?;
    let mut readers: Vec<Reader> = rows
        .iter()
        .map(|row| {
            let locale = row.as_ref().map(|row| row.locale_at(event.millis()).to_owned());
            Reader { locale: locale.unwrap_or_default(), name: String::new() }
        })
        .collect();
    if editions.differ_by_name() {
        let (places, sealed): (Vec<usize>, Vec<Sealed>) =
            rows.into_iter().enumerate().filter_map(|(place, row)| Some((place, row?.id))).unzip();
        let names = core.ports.keyring.open_all(tenant, Context::UserId, sealed).map_err(locked)?;
        for (place, name) in places.into_iter().zip(names) {
            readers[place].name = name.and_then(|name| String::from_utf8(name).ok()).unwrap_or_default();
        }
    }
    Ok(readers)
}
