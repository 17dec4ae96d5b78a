//! Acceptance of events: names become hashes, content is sealed, recipients are resolved.
//!
//! Comes from: the API, authenticated and validated. Decides: nothing a machine decides; it only turns names into
//! numbers, so that no personal byte reaches the journal in the clear.
//! Goes to: the queue of the actor's front, and back with the answers once they are durable.

use crate::ask::{Accepted, AudienceAsk, EventAsk, ListAsk, Refusal};
use crate::bulk::{self, WalkClaim};
use crate::core::{Core, answers, internal, locked};
use crate::crowds::require_room;
use crate::groups::{self, Facts, Ties};
use crate::notify::{added_by, options_of};
use crate::quotas::{self, Claim};
use crate::spans;
use fantail_machine::front::admit::{Ask, AskAudience};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::front::Delivery;
use fantail_machine::tables::user;
use fantail_machine::tables::work::Terms;
use fantail_ports::keyring::{Context, Sealed};
use fantail_rules::actor::Actor;
use fantail_rules::attempt::Class;
use fantail_rules::category::CategoryId;
use fantail_rules::chain::Chain;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::ids::{FrontNo, KeyNo, Lookup, Millis, PartitionId, ShardNo, TenantId, UserNo, spread};
use fantail_rules::priority::Priority;
use fantail_rules::schedule::Appointment;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use tokio::sync::oneshot;

/// Asks for one front: their places in the request, and what to say if the front has nothing to say.
#[derive(Default)]
struct Group {
    places: Vec<(usize, Option<Refusal>)>,
    asks: Vec<FrontAsk>,
    bytes: usize,
}

pub async fn post(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    events: Vec<EventAsk>,
) -> Vec<Result<Accepted, Refusal>> {
    if !core.fanout.claim(tenant, events.len()) {
        core.meter.busy();
        return events.iter().map(|_| Err(Refusal::Busy { retry_after_ms: 1_000 })).collect();
    }
    let began = core.ports.clock.wall();
    let Pushes { mut results, pending, claims, walks } = push(core, by, tenant, events);
    for (places, pushed) in pending {
        match answers(pushed).await {
            Ok(answers) => {
                for ((place, otherwise), answer) in places.into_iter().zip(answers) {
                    results[place] = accepted(answer, otherwise);
                }
            }
            Err(refusal) => places.into_iter().for_each(|(place, _)| results[place] = Err(refusal.clone())),
        }
    }
    drop((claims, walks));
    count(core, &results);
    for fresh in results.iter().flatten().filter(|accepted| !accepted.replayed) {
        spans::admitted(core, tenant, fresh.event, began);
    }
    results
}

/// What was asked of the fronts, and the room it holds until it is answered.
struct Pushes {
    results: Vec<Result<Accepted, Refusal>>,
    pending: Vec<Pending>,
    claims: Vec<Claim>,
    walks: Vec<WalkClaim>,
}

/// What a front was asked: the places in the request, and where its answers come.
type Pending = (Vec<(usize, Option<Refusal>)>, Result<Pushed, Refusal>);
type Pushed = oneshot::Receiver<Result<Vec<FrontAnswer>, Refusal>>;

/// Puts events into the queues of their fronts, with nothing between reading a segment and asking that could take long: see
/// `Core::naming`.
fn push(core: &Core, by: &Actor, tenant: TenantId, events: Vec<EventAsk>) -> Pushes {
    let is_walked = events.iter().any(|event| matches!(event.audience, AudienceAsk::Segment(_)));
    let _naming = is_walked.then(|| core.naming.read().unwrap_or_else(PoisonError::into_inner));
    let mut results: Vec<Result<Accepted, Refusal>> = Vec::with_capacity(events.len());
    let mut by_front: BTreeMap<FrontNo, Group> = BTreeMap::new();
    let (mut claims, mut walks) = (Vec::new(), Vec::new());
    let policy = core.control.now().tenants.get(&tenant).map(|found| found.tier_up);
    for (index, event) in events.into_iter().enumerate() {
        let bytes = event.content.len() + 512;
        let prepared = policy.ok_or(Refusal::UnknownTenant).and_then(|up| prepare(core, tenant, event, up));
        let claimed = prepared.and_then(|prepared| {
            let walk = walk_claim(core, tenant, &prepared)?;
            let (prepared, claim) = within_quota(core, tenant, prepared)?;
            Ok((prepared, claim, walk))
        });
        match claimed {
            Ok((Prepared { front, ask, otherwise }, claim, walk)) => {
                claims.extend(claim);
                walks.extend(walk);
                let bytes = bytes + members_bytes(&ask);
                let group = by_front.entry(front).or_default();
                group.places.push((index, otherwise));
                group.asks.push(ask);
                group.bytes += bytes;
                results.push(Err(internal("not asked yet")));
            }
            Err(refusal) => results.push(Err(refusal)),
        }
    }
    let mut pending = Vec::new();
    for (front, Group { places, asks, bytes }) in by_front {
        let handle = core.front(front).ok_or_else(|| internal("no such front"));
        pending.push((places, handle.and_then(|handle| handle.queue.push(tenant, by, asks, bytes))));
    }
    Pushes { results, pending, claims, walks }
}

/// Holds the place of a walk, if an event is one.
fn walk_claim(core: &Core, tenant: TenantId, prepared: &Prepared) -> Result<Option<WalkClaim>, Refusal> {
    let FrontAsk::Admit(ask) = &prepared.ask else { return Ok(None) };
    matches!(ask.audience, AskAudience::Walk(_)).then(|| bulk::claim(core, tenant)).transpose()
}

/// Holds room for what an event adds. One that does not fit can still be a repeat, which adds nothing.
fn within_quota(
    core: &Core,
    tenant: TenantId,
    prepared: Prepared,
) -> Result<(Prepared, Option<Claim>), Refusal> {
    let FrontAsk::Admit(ask) = &prepared.ask else { return Ok((prepared, None)) };
    match quotas::claim(core, tenant, added_by(ask)) {
        Ok(claim) => Ok((prepared, claim)),
        Err(over @ Refusal::OverQuota { .. }) => {
            let ask = FrontAsk::Recall { tenant, key: ask.key, body: ask.body };
            Ok((Prepared { ask, otherwise: Some(over), ..prepared }, None))
        }
        Err(refusal) => Err(refusal),
    }
}

/// What the recipients of an event hold in memory.
fn members_bytes(ask: &FrontAsk) -> usize {
    let FrontAsk::Admit(ask) = ask else { return 0 };
    match &ask.audience {
        AskAudience::Members(shards) => shards.iter().map(|(_, users)| size_of_val(users.as_slice())).sum(),
        AskAudience::List(_) | AskAudience::Walk(_) => 0,
    }
}

fn count(core: &Core, results: &[Result<Accepted, Refusal>]) {
    let repeated = results.iter().flatten().filter(|accepted| accepted.replayed).count() as u64;
    let fresh = results.iter().flatten().count() as u64 - repeated;
    core.meter.accepted(fresh, repeated);
    if results.iter().any(|result| matches!(result, Err(Refusal::Busy { .. }))) {
        core.meter.busy();
    }
}

fn accepted(answer: FrontAnswer, otherwise: Option<Refusal>) -> Result<Accepted, Refusal> {
    match answer {
        FrontAnswer::Unheard => {
            Err(otherwise.unwrap_or_else(|| internal("the front answered something else")))
        }
        FrontAnswer::Admitted(event) => Ok(Accepted { event, replayed: false }),
        FrontAnswer::Repeat(event) => Ok(Accepted { event, replayed: true }),
        FrontAnswer::OtherBody => Err(Refusal::OtherBody),
        FrontAnswer::TooManyScheduled { limit } => Err(Refusal::TooManyScheduled { limit }),
        FrontAnswer::Retracted
        | FrontAnswer::Steered
        | FrontAnswer::TooLate
        | FrontAnswer::Cancelled
        | FrontAnswer::UnknownEvent
        | FrontAnswer::Counted
        | FrontAnswer::Released { .. }
        | FrontAnswer::Unsaid { .. }
        | FrontAnswer::Wiped(_)
        | FrontAnswer::Forgot { .. } => Err(internal("the front answered something else")),
    }
}

/// What to ask of which front.
struct Prepared {
    front: FrontNo,
    ask: FrontAsk,
    /// The refusal if the request is not a repeat after all.
    otherwise: Option<Refusal>,
}

/// What the request of an event is remembered by. The word in front keeps it apart from whatever else is hashed with the same
/// key: no source is taken for the word of something else.
pub fn event_key(core: &Core, tenant: TenantId, source: &str, id: &str) -> Result<[u8; 16], Refusal> {
    let name = [b"event\0", source.as_bytes(), b"\0", id.as_bytes()].concat();
    core.ports.keyring.digest(tenant, &name).map_err(locked)
}

/// Hashes, seals and resolves one event, and chooses its front. An event whose recipients are not all there can still
/// be a repeat: the first one was accepted when they were.
fn prepare(core: &Core, tenant: TenantId, event: EventAsk, tier_up: u32) -> Result<Prepared, Refusal> {
    if !event.channels.without(ChannelKind::InApp).is_empty() {
        require_room(core, tenant, event.priority)?;
    }
    let keyring = &core.ports.keyring;
    let key = event_key(core, tenant, &event.source, &event.id)?;
    let now = core.ports.clock.wall();
    let options = options_of(core, tenant, &event.options, now)?;
    // Its time begins when it is due.
    let when = (event.options.appointment, event.options.begins(now).plus(event.ttl_ms));
    let facts = Facts {
        kind: &event.kind,
        category: &event.category,
        actor: event.actor.as_deref(),
        source: &event.source,
        collapse_key: event.options.collapse_key.as_deref(),
        content: &event.content,
    };
    let ties = groups::of(core, tenant, &facts)?;
    let delivery = delivery_of(channels_of(&event), event.priority, &event.category, &ties, when);
    let audience = audience_of(core, tenant, event.audience)?;
    // Everything an author says meets in one front; without an author, the topic or the request decides.
    let front = match (&event.actor, &audience) {
        (Some(actor), _) => core.front_of(core.list_id(tenant, &ListAsk::FollowersOf(actor.clone()))?),
        (None, Ok(AskAudience::List(list))) => core.front_of(*list),
        (None, Ok(AskAudience::Members(_) | AskAudience::Walk(_)) | Err(_)) => {
            FrontNo(spread(&key, core.layout.fronts))
        }
    };
    let audience = match audience {
        Ok(audience) => audience,
        Err(unknown) => {
            let ask = FrontAsk::Recall { tenant, key, body: event.body_hash };
            return Ok(Prepared { front, ask, otherwise: Some(unknown) });
        }
    };
    let actor = event.actor.as_deref().map(|actor| seal_name(core, tenant, Context::Actor, actor));
    let content = keyring.seal(tenant, KeyNo::TENANT, Context::Content, &event.content).map_err(locked)?;
    let ask = Ask {
        tenant,
        key,
        body: event.body_hash,
        kind: event.kind,
        category: event.category,
        priority: event.priority as u8,
        actor: actor.transpose()?,
        content,
        delivery,
        personal: Vec::new(),
        options,
        audience,
        tier_up,
    };
    Ok(Prepared { front, ask: FrontAsk::Admit(Box::new(ask)), otherwise: None })
}

/// By which channels it is told. Whoever a walk passes has it in the inbox, as the members of a list do; what has a time of
/// each recipient's own is in none.
fn channels_of(event: &EventAsk) -> ChannelSet {
    let is_walked = matches!(event.audience, AudienceAsk::Segment(_));
    let is_shown = is_walked && event.options.appointment.is_none();
    if is_shown { event.channels.with(ChannelKind::InApp) } else { event.channels }
}

/// Whom it is for, or what to say if it is no repeat: somebody, or a segment, is not there.
fn audience_of(
    core: &Core,
    tenant: TenantId,
    audience: AudienceAsk,
) -> Result<Result<AskAudience, Refusal>, Refusal> {
    match audience {
        AudienceAsk::Segment(segment) => walked(core, tenant, &segment),
        AudienceAsk::FollowersOf(actor) => {
            Ok(Ok(AskAudience::List(core.list_id(tenant, &ListAsk::FollowersOf(actor))?)))
        }
        AudienceAsk::Topic(topic) => Ok(Ok(AskAudience::List(core.list_id(tenant, &ListAsk::Topic(topic))?))),
        AudienceAsk::Users(users) => match resolve(core, tenant, &users) {
            Ok(members) => Ok(Ok(AskAudience::Members(members))),
            Err(unknown @ Refusal::UnknownRecipients { .. }) => Ok(Err(unknown)),
            Err(other) => Err(other),
        },
    }
}

/// A walk over those whom a segment chooses; a segment that is gone may have been there when it was first asked for.
fn walked(core: &Core, tenant: TenantId, segment: &str) -> Result<Result<AskAudience, Refusal>, Refusal> {
    match bulk::plain_walk(core, tenant, segment) {
        Ok(walk) => Ok(Ok(AskAudience::Walk(Box::new(walk)))),
        Err(unknown @ Refusal::UnknownSegment { .. }) => Ok(Err(unknown)),
        Err(other) => Err(other),
    }
}

/// How an event leaves the house.
pub fn delivery_of(
    channels: ChannelSet,
    lane: Priority,
    category: &str,
    ties: &Ties,
    (appointment, expires_at): (Option<Appointment>, Millis),
) -> Option<Delivery> {
    let (class, category) = (Class::of(lane, category), CategoryId::of(category));
    let chain = Chain::of(&ties.fallback, channels);
    let Ties { group, kind, .. } = *ties;
    let terms = Terms { lane, class, category, expires_at, group, appointment, chain, kind };
    (!channels.is_empty()).then_some(Delivery { channels, terms })
}

/// Seals the name of somebody under that user's own key, so that erasing the user erases the name everywhere; a
/// name that belongs to no user is sealed under the tenant's key.
pub fn seal_name(core: &Core, tenant: TenantId, context: Context, name: &str) -> Result<Sealed, Refusal> {
    let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
    let key = core.read(PartitionId::Shard(core.shard_of(lookup)), |view| {
        let Some(number) = user::number(view.tables(), tenant, lookup)? else { return Ok(KeyNo::TENANT) };
        let row = user::find(view.tables(), tenant, number)?;
        Ok(row.map_or(KeyNo::TENANT, |row| row.id.key))
    })?;
    core.ports.keyring.seal(tenant, key, context, name.as_bytes()).map_err(locked)
}

/// Explicit recipients as members by shard, or the names of those that do not exist.
fn resolve(core: &Core, tenant: TenantId, users: &[String]) -> Result<Vec<(ShardNo, Vec<UserNo>)>, Refusal> {
    let mut by_shard: BTreeMap<ShardNo, Vec<(Lookup, &String)>> = BTreeMap::new();
    for name in users {
        let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
        by_shard.entry(core.shard_of(lookup)).or_default().push((lookup, name));
    }
    let mut unknown = Vec::new();
    let mut members = Vec::with_capacity(by_shard.len());
    for (shard, lookups) in by_shard {
        let numbers = core.read(PartitionId::Shard(shard), |view| {
            let find = |(lookup, name): &(Lookup, &String)| {
                Ok((user::number(view.tables(), tenant, *lookup)?, (*name).clone()))
            };
            lookups.iter().map(find).collect::<Result<Vec<_>, _>>()
        })?;
        let mut found: Vec<UserNo> = numbers.iter().filter_map(|(number, _)| *number).collect();
        unknown.extend(numbers.into_iter().filter(|(number, _)| number.is_none()).map(|(_, name)| name));
        found.sort_unstable();
        found.dedup();
        members.push((shard, found));
    }
    if unknown.is_empty() { Ok(members) } else { Err(Refusal::UnknownRecipients { users: unknown }) }
}
