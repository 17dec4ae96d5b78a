//! Direct sends: a notification to named users, each perhaps with content of its own.
//!
//! Comes from: the API, rendered. Does: resolves recipients once (`recipients`), seals what each alone is told under that
//! user's key, and asks the front, which finds repeats. Goes to: `front::admit`, and from there to the shards as any
//! event for explicit users.

use crate::accept::delivery_of;
use crate::ask::{Accepted, NotifyAsk, OptionsAsk, Recipient, Refusal};
use crate::cancel::cancellation;
use crate::core::{Core, answer, internal, locked};
use crate::crowds::require_room;
use crate::groups::{self, Facts};
use crate::quotas;
use crate::spans;
use fantail_machine::front::admit::{Ask, AskAudience};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::front::{Options, Personal};
use fantail_machine::tables::user::{self, UserRow};
use fantail_machine::tables::{idempotency, usage};
use fantail_ports::keyring::{Context, KeyringError};
use fantail_rules::actor::Actor;
use fantail_rules::admit::Bucket;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{FrontNo, KeyNo, Lookup, Millis, PartitionId, ShardNo, TenantId, UserNo, spread};
use fantail_rules::quota::{Amounts, Resource};
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

/// Who these users are, in their order, or the names of those that do not exist.
pub fn recipients(core: &Core, tenant: TenantId, names: &[String]) -> Result<Vec<Recipient>, Refusal> {
    core.require_tenant(tenant)?;
    let mut by_shard: BTreeMap<ShardNo, Vec<(usize, Lookup)>> = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
        by_shard.entry(core.shard_of(lookup)).or_default().push((at, lookup));
    }
    let mut found: Vec<Option<Recipient>> = vec![None; names.len()];
    for (shard, lookups) in by_shard {
        let rows = core.read(PartitionId::Shard(shard), |view| {
            let mut rows = Vec::with_capacity(lookups.len());
            for (at, lookup) in &lookups {
                let Some(number) = user::number(view.tables(), tenant, *lookup)? else { continue };
                rows.extend(user::find(view.tables(), tenant, number)?.map(|row| (*at, number, row)));
            }
            Ok(rows)
        })?;
        for (at, user, row) in rows {
            found[at] = Some(of_row(core, tenant, (shard, user), row));
        }
    }
    let unknown: Vec<String> =
        names.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(name, _)| name.clone()).collect();
    if unknown.is_empty() {
        return Ok(found.into_iter().flatten().collect());
    }
    Err(Refusal::UnknownRecipients { users: unknown })
}

/// One user by its number; `None` if it has gone.
pub fn recipient(
    core: &Core,
    tenant: TenantId,
    shard: ShardNo,
    user: UserNo,
) -> Result<Option<Recipient>, Refusal> {
    let row = core.read(PartitionId::Shard(shard), |view| user::find(view.tables(), tenant, user))?;
    Ok(row.map(|row| of_row(core, tenant, (shard, user), row)))
}

fn of_row(core: &Core, tenant: TenantId, (shard, user): (ShardNo, UserNo), row: UserRow) -> Recipient {
    let attributes = core.ports.keyring.open(tenant, Context::UserAttributes, &row.attributes);
    let attributes = attributes.unwrap_or_default();
    Recipient { shard, user, key: row.id.key, locale: row.locale, zone: row.zone, attributes }
}

/// Accepts a notification. `Ok` only after it is durable.
pub async fn notify(core: &Core, by: &Actor, tenant: TenantId, ask: NotifyAsk) -> Result<Accepted, Refusal> {
    if !core.fanout.claim(tenant, 1) {
        core.meter.busy();
        return Err(Refusal::Busy { retry_after_ms: 1_000 });
    }
    core.require_tenant(tenant)?;
    if !ask.channels.without(ChannelKind::InApp).is_empty() {
        require_room(core, tenant, ask.priority)?;
    }
    let key = request_key(core, tenant, &ask.id)?;
    let front = FrontNo(spread(&key, core.layout.fronts));
    let bytes: usize = ask.recipients.iter().map(|(_, own)| 64 + own.as_ref().map_or(0, Vec::len)).sum();
    let bytes = bytes + ask.content.len() + 512;
    let (id, body) = (ask.id.clone(), ask.body_hash);
    let prepared = prepare(core, tenant, key, ask)?;
    let _claim = match quotas::claim(core, tenant, added_by(&prepared)) {
        Ok(claim) => claim,
        // A repeat adds nothing.
        Err(refusal) => return recall(core, tenant, &id, body).await?.ok_or(refusal),
    };
    core.ports.points.reach("accept.sealed");
    let began = core.ports.clock.wall();
    let Some(front) = core.front(front) else { return Err(internal("there is no such front")) };
    match answer(front.queue.push(tenant, by, vec![FrontAsk::Admit(Box::new(prepared))], bytes)).await? {
        FrontAnswer::Admitted(event) => {
            core.meter.accepted(1, 0);
            spans::admitted(core, tenant, event, began);
            Ok(Accepted { event, replayed: false })
        }
        FrontAnswer::Repeat(event) => {
            core.meter.accepted(0, 1);
            Ok(Accepted { event, replayed: true })
        }
        FrontAnswer::OtherBody => Err(Refusal::OtherBody),
        FrontAnswer::TooManyScheduled { limit } => Err(Refusal::TooManyScheduled { limit }),
        FrontAnswer::Unheard
        | FrontAnswer::Steered
        | FrontAnswer::TooLate
        | FrontAnswer::Retracted
        | FrontAnswer::Cancelled
        | FrontAnswer::UnknownEvent
        | FrontAnswer::Counted
        | FrontAnswer::Released { .. }
        | FrontAnswer::Unsaid { .. }
        | FrontAnswer::Wiped(_)
        | FrontAnswer::Forgot { .. } => Err(internal("the front answered something else")),
    }
}

/// What the tenant has more of with this event.
pub fn added_by(ask: &Ask) -> Amounts {
    let own = |one: &Personal| usage::weight(&[&one.content]);
    let bytes = usage::weight(&[&ask.content]) + ask.personal.iter().map(own).sum::<u64>();
    quotas::adds(ask.options.due.map(|_| Resource::Waiting), bytes)
}

/// Whether a request was heard before, for one that could not be admitted any more.
pub async fn recall(
    core: &Core,
    tenant: TenantId,
    id: &str,
    body: [u8; 16],
) -> Result<Option<Accepted>, Refusal> {
    let key = request_key(core, tenant, id)?;
    let front = FrontNo(spread(&key, core.layout.fronts));
    let Some(front) = core.front(front) else { return Ok(None) };
    match answer(front.queue.push(tenant, &Actor::System, vec![FrontAsk::Recall { tenant, key, body }], 64))
        .await?
    {
        FrontAnswer::Repeat(event) => Ok(Some(Accepted { event, replayed: true })),
        FrontAnswer::OtherBody => Err(Refusal::OtherBody),
        _ => Ok(None),
    }
}

/// The event that a producer named so, for as long as the name is remembered to find repeats.
pub fn find(core: &Core, tenant: TenantId, id: &str) -> Result<Option<Ulid>, Refusal> {
    core.require_tenant(tenant)?;
    let key = request_key(core, tenant, id)?;
    let front = FrontNo(spread(&key, core.layout.fronts));
    let buckets = Bucket::searched(core.ports.clock.wall());
    let found = core
        .read(PartitionId::Front(front), |view| idempotency::find(view.tables(), tenant, &key, &buckets))?;
    Ok(found.map(|known| known.event))
}

pub fn request_key(core: &Core, tenant: TenantId, id: &str) -> Result<[u8; 16], Refusal> {
    core.ports.keyring.digest(tenant, format!("notification\0{id}").as_bytes()).map_err(locked)
}

fn prepare(core: &Core, tenant: TenantId, key: [u8; 16], ask: NotifyAsk) -> Result<Ask, Refusal> {
    let keyring = &core.ports.keyring;
    let mut members: BTreeMap<ShardNo, Vec<UserNo>> = BTreeMap::new();
    let mut personal = Vec::new();
    for (recipient, own) in &ask.recipients {
        members.entry(recipient.shard).or_default().push(recipient.user);
        if let Some(own) = own {
            let content = keyring.seal(tenant, recipient.key, Context::Content, own).map_err(gone)?;
            personal.push(Personal { shard: recipient.shard, user: recipient.user, content });
        }
    }
    for users in members.values_mut() {
        users.sort_unstable();
        users.dedup();
    }
    // What is told to one user alone goes with that user's key; what several are told belongs to the tenant.
    let key_of_content = match &ask.recipients[..] {
        [(only, _)] => only.key,
        _ => KeyNo::TENANT,
    };
    let content = keyring.seal(tenant, key_of_content, Context::Content, &ask.content).map_err(gone)?;
    let now = core.ports.clock.wall();
    let options = options_of(core, tenant, &ask.options, now)?;
    // The name goes with the content: a producer may put an address into it.
    let name =
        keyring.seal(tenant, key_of_content, Context::NotificationName, ask.id.as_bytes()).map_err(gone)?;
    let options = Options { name: Some(name), ..options };
    let facts = Facts {
        kind: &ask.kind,
        category: &ask.category,
        actor: None,
        source: "",
        collapse_key: ask.options.collapse_key.as_deref(),
        content: &ask.content,
    };
    let ties = groups::of(core, tenant, &facts)?;
    // Its time begins when it is due.
    let when = (ask.options.appointment, ask.options.begins(now).plus(ask.ttl_ms));
    Ok(Ask {
        tenant,
        key,
        body: ask.body_hash,
        kind: ask.kind,
        delivery: delivery_of(ask.channels, ask.priority, &ask.category, &ties, when),
        category: ask.category,
        priority: ask.priority as u8,
        actor: None,
        content,
        personal,
        options,
        audience: AskAudience::Members(members.into_iter().collect()),
        tier_up: u32::MAX,
    })
}

/// A recipient who goes in this moment takes the key along: whoever asks again hears that it is gone.
fn gone(failed: KeyringError) -> Refusal {
    match failed {
        KeyringError::NoKey { .. } => Refusal::Busy { retry_after_ms: 100 },
        other => locked(other),
    }
}

/// What was asked for beside the content, hashed and sealed. What is due already is not scheduled.
pub fn options_of(core: &Core, tenant: TenantId, ask: &OptionsAsk, now: Millis) -> Result<Options, Refusal> {
    let keyring = &core.ports.keyring;
    let hash = |key: &String| cancellation(&**keyring, tenant, key);
    let seal = |key: &String| {
        keyring.seal(tenant, KeyNo::TENANT, Context::CollapseKey, key.as_bytes()).map_err(locked)
    };
    Ok(Options {
        due: ask.held_until(now),
        cancellation: ask.cancellation_key.as_ref().map(hash).transpose()?,
        collapse: ask.collapse_key.as_ref().map(seal).transpose()?,
        is_sensitive: ask.is_sensitive,
        name: None,
    })
}
