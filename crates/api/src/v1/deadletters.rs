//! Dead letters: looked at, redriven, dropped.
//!
//! Comes from: `pipeline`. Goes to: `Node::{dead_letters, redrive}`. A redrive never sends what a provider has.

use crate::call::Call;
use crate::check::{Faults, name_fault};
use crate::cursor::{self, Owner};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::event_ask::channel_of;
use crate::v1::event_ids;
use crate::v1::inbox::priority_of;
use crate::v1::notifications::shown;
use fantail_node::ask::ParcelId;
use fantail_node::ask::{ChannelKind, Refusal, Which, Wish};
use fantail_node::dead_letters::DeadPlace;
use fantail_rules::ids::{Arrival, ShardNo, TenantId, UserNo};
use fantail_rules::limits::BATCH_ITEMS_MAX;
use fantail_wire::notification::{DeadLetter, DeadLetterChoice, DeadLetters, DeadLettersChanged};

const OWNER: &str = "dead letters";

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let owner = Owner { tenant, name: OWNER };
    let after = match call.query.get("cursor") {
        None => None,
        Some(text) => Some(place_of(tenant, owner, text).ok_or(Refusal::BadCursor)?),
    };
    let (letters, next) = call.node.dead_letters(tenant, after, call.list_limit()?)?;
    let letter = |one: fantail_node::ask::DeadLetter| DeadLetter {
        event_id: one.event.to_string(),
        notification_id: one.name,
        user_id: one.user,
        address: one.address,
        channel: shown(one.channel),
        endpoint: one.device,
        priority: priority_of(one.lane),
        code: one.code,
        attempts: one.attempts,
        begun_at: time::text(one.begun_at),
    };
    let answer = DeadLetters {
        dead_letters: letters.into_iter().map(letter).collect(),
        next_cursor: next.map(|place| cursor::of_names(owner, &text_of(place))),
    };
    Ok(Reply::json(200, &answer))
}

fn text_of((shard, parcel): DeadPlace) -> String {
    format!("{shard}.{}.{}.{}", parcel.arrival, parcel.channel as u8, parcel.first)
}

fn place_of(tenant: TenantId, owner: Owner<'_>, text: &str) -> Option<DeadPlace> {
    let text = cursor::to_names(owner, text)?;
    let mut parts = text.split('.');
    let shard = ShardNo(parts.next()?.parse().ok()?);
    let arrival = Arrival(parts.next()?.parse().ok()?);
    let channel = ChannelKind::from_stored(parts.next()?.parse().ok()?)?;
    let first = UserNo(parts.next()?.parse().ok()?);
    parts.next().is_none().then_some((shard, ParcelId { tenant, arrival, channel, first }))
}

pub async fn redrive(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    change(tenant, call, Wish::Redrive).await
}

pub async fn discard(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    change(tenant, call, Wish::Drop).await
}

async fn change(tenant: TenantId, call: Call, wish: Wish) -> Result<Reply, Problem> {
    let choice: DeadLetterChoice = call.json_or_default()?;
    let event = match (&choice.event_id, &choice.notification_id) {
        (None, None) => None,
        (Some(id), None) => Some(event_ids::of_field(tenant, &call, "/eventId", id)?),
        (None, Some(name)) => Some(event_ids::of_field(tenant, &call, "/notificationId", name)?),
        (Some(_), Some(_)) => {
            return Err(Problem::field("/notificationId", "give eventId or notificationId, not both"));
        }
    };
    if let Some(fault) = choice.code.as_deref().and_then(name_fault) {
        return Err(Problem::field("/code", fault));
    }
    if choice.users.as_ref().is_some_and(|users| users.len() > BATCH_ITEMS_MAX) {
        return Err(Problem::field("/users", format!("must have at most {BATCH_ITEMS_MAX} users")));
    }
    let mut faults = Faults::default();
    for (index, user) in choice.users.iter().flatten().enumerate() {
        faults.name(Pointer::ROOT.key("users").index(index), user);
    }
    faults.into_result()?;
    let which = Which {
        event,
        channel: choice.channel.map(channel_of),
        code: choice.code,
        users: choice.users,
        is_dry_run: choice.dry_run,
    };
    let count = call.node.redrive(tenant, &which, wish).await?;
    Ok(Reply::json(200, &DeadLettersChanged { count, dry_run: choice.dry_run }))
}
