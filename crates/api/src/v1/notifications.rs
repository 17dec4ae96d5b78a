//! Notifications: sent to named users, followed to their end, explained, called off.
//!
//! Comes from: `pipeline`. Decides: that the request is well formed. Goes to: `Node::notify`, and the node's views of
//! what became of it.

use crate::call::Call;
use crate::check::Faults;
use crate::cursor::{self, Owner};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::event_ask::{self, channel_of, priority_of};
use crate::v1::story;
use aws_lc_rs::digest::{Context, SHA256};
use axum::http::{HeaderName, HeaderValue};
use fantail_node::ask::{Accepted, ChannelKind, ChannelSet, NotifyAsk, Place, Priority, Refusal};
use fantail_rules::ids::{ShardNo, TenantId, UserNo};
use fantail_rules::limits::{CATEGORY_BYTES_MAX, RECIPIENTS_MAX};
use fantail_rules::ulid::Ulid;
use fantail_wire::code::Code;
use fantail_wire::event::Channel;
use fantail_wire::notification::{
    ChannelStatus, Delivery, NotificationAccepted, NotificationSend, NotificationStatus, SendStatus,
};
use std::collections::BTreeSet;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const DELIVERIES_MAX: usize = 1_000;

pub async fn send(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: NotificationSend = call.json()?;
    let draft = Draft::of(&call, request)?;
    let count = draft.users.len() as u64;
    let accepted = match call.node.recipients(tenant, &draft.users) {
        Ok(recipients) => {
            let recipients = recipients.into_iter().zip(draft.own).collect();
            call.node.notify(tenant, NotifyAsk { recipients, ..draft.ask.clone() }).await?
        }
        // The first one was accepted when they were all there.
        Err(unknown @ Refusal::UnknownRecipients { .. }) => {
            let heard = call.node.recall_notification(tenant, &draft.ask.id, draft.ask.body_hash).await?;
            heard.ok_or_else(|| Problem::from(unknown))?
        }
        Err(other) => return Err(other.into()),
    };
    Ok(accepted_reply(&call, draft.ask.id, accepted, draft.ask.priority, count))
}

fn accepted_reply(call: &Call, id: String, accepted: Accepted, priority: Priority, count: u64) -> Reply {
    // What the lanes promise for the first attempt.
    let within_ms = match priority {
        Priority::Critical => 500,
        Priority::High => 2_000,
        Priority::Normal => 5_000,
        Priority::Low => 60_000,
    };
    let answer = NotificationAccepted {
        request_id: call.request_id.clone(),
        notification_id: id,
        event_id: accepted.event.to_string(),
        status: SendStatus::Accepted,
        recipient_count: count,
        estimated_delivery: time::text(call.node.wall().plus(within_ms)),
    };
    let reply = Reply::json(202, &answer);
    if accepted.replayed { reply.with_header(REPLAYED, HeaderValue::from_static("true")) } else { reply }
}

/// A request that is well formed.
struct Draft {
    /// Without its recipients.
    ask: NotifyAsk,
    users: Vec<String>,
    own: Vec<Option<Vec<u8>>>,
}

impl Draft {
    fn of(call: &Call, request: NotificationSend) -> Result<Self, Problem> {
        let (mut faults, root) = (Faults::default(), Pointer::ROOT);
        let header = call.headers.get("idempotency-key").and_then(|value| value.to_str().ok());
        let id = request.notification_id.or_else(|| header.map(str::to_owned));
        let id = id.unwrap_or_else(|| call.request_id.clone());
        faults.name(root.key("notificationId"), &id);
        let category = request.category.unwrap_or_else(|| "general".to_owned());
        faults.text(root.key("category"), &category, CATEGORY_BYTES_MAX);
        faults.name(root.key("category"), &category);
        let priority = request.priority.map_or_else(|| Priority::of_category(&category), priority_of);
        let ttl_ms = event_ask::ttl_of(request.options.ttl, root.key("options").key("ttl"), &mut faults);
        let content = event_ask::content_of(&request.content, root.key("content"), &mut faults);
        let list = root.key("recipients");
        if request.recipients.is_empty() || request.recipients.len() > RECIPIENTS_MAX {
            faults.add(list, format!("must have 1 to {RECIPIENTS_MAX} recipients"));
        }
        let (mut users, mut own, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (index, recipient) in request.recipients.into_iter().enumerate().take(RECIPIENTS_MAX) {
            let at = list.index(index);
            faults.name(at.key("userId"), &recipient.user_id);
            if !seen.insert(recipient.user_id.clone()) {
                faults.add(at.key("userId"), "named twice");
            }
            let theirs = recipient.content.as_ref();
            own.push(theirs.map(|one| event_ask::content_of(one, at.key("content"), &mut faults)));
            users.push(recipient.user_id);
        }
        faults.into_result()?;
        let channels: ChannelSet = request.channels.into_iter().map(channel_of).collect();
        let channels = if channels.is_empty() { channels.with(ChannelKind::InApp) } else { channels };
        let mut ask = NotifyAsk {
            id,
            kind: "notification".to_owned(),
            category,
            priority,
            channels,
            ttl_ms,
            content,
            recipients: Vec::new(),
            body_hash: [0; 16],
        };
        ask.body_hash = hash_of(&ask, &users, &own);
        Ok(Self { ask, users, own })
    }
}

/// Everything that is said, each part with its length.
fn hash_of(ask: &NotifyAsk, users: &[String], own: &[Option<Vec<u8>>]) -> [u8; 16] {
    let mut hash = Context::new(&SHA256);
    let mut part = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(ask.category.as_bytes());
    part(&[ask.priority as u8, ask.channels.bits()]);
    part(&ask.ttl_ms.to_be_bytes());
    part(&ask.content);
    for (user, own) in users.iter().zip(own) {
        part(user.as_bytes());
        part(own.as_deref().unwrap_or_default());
    }
    let mut head = [0; 16];
    head.copy_from_slice(&hash.finish().as_ref()[..16]);
    head
}

/// The event of a path: our id, or the producer's.
fn event_of(tenant: TenantId, call: &Call) -> Result<Ulid, Problem> {
    let found = match call.ulid("notification") {
        Some(event) => Some(event),
        None => call.node.find_notification(tenant, call.name("notification")?)?,
    };
    found.ok_or_else(|| Problem::new(Code::EventNotFound, "no such notification"))
}

pub async fn status(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    let found = call.node.status(tenant, event)?;
    let counts = |(state, count): &(fantail_node::ask::DeliveryState, u64)| {
        (*count > 0).then(|| (state.public_word().to_owned(), *count))
    };
    let channel = |one: &fantail_node::ask::ChannelStatus| ChannelStatus {
        channel: shown(one.channel),
        counts: one.counts.iter().filter_map(counts).collect(),
        unreached: one.unreached,
        done: one.is_done,
    };
    let mut answer = NotificationStatus {
        event_id: event.to_string(),
        created_at: time::text(found.created_at),
        category: found.category,
        cancelled: found.is_cancelled,
        retracted: found.is_retracted,
        recipient_count: found.recipients,
        channels: found.channels.iter().map(channel).collect(),
        deliveries: Vec::new(),
        next_cursor: None,
    };
    if call.query.get("limit").is_some() || call.query.get("cursor").is_some() {
        let text = event.to_string();
        let owner = Owner { tenant, name: &text };
        let from = match call.query.get("cursor") {
            None => None,
            Some(text) => Some(place_of(owner, text).ok_or(Refusal::BadCursor)?),
        };
        let page = call.node.deliveries(tenant, event, from, call.query.limit(100, DELIVERIES_MAX)?)?;
        answer.next_cursor = page.next.map(|place| cursor::of_names(owner, &place_text(place)));
        answer.deliveries = page.recipients.into_iter().map(delivery).collect();
    }
    Ok(Reply::json(200, &answer))
}

fn place_text(place: Place) -> String {
    format!("{}.{}.{}", place.shard, place.channel as u8, place.user)
}

fn place_of(owner: Owner<'_>, text: &str) -> Option<Place> {
    let text = cursor::to_names(owner, text)?;
    let mut parts = text.split('.');
    let place = Place {
        shard: ShardNo(parts.next()?.parse().ok()?),
        channel: ChannelKind::from_stored(parts.next()?.parse().ok()?)?,
        user: UserNo(parts.next()?.parse().ok()?),
    };
    parts.next().is_none().then_some(place)
}

fn delivery(one: fantail_node::ask::RecipientStatus) -> Delivery {
    Delivery {
        user_id: one.user,
        channel: shown(one.place.channel),
        endpoint: one.device,
        state: one.state.public_word().to_owned(),
        code: one.code,
        attempts: one.attempts,
        begun_at: time::text(one.begun_at),
    }
}

pub fn shown(kind: ChannelKind) -> Channel {
    match kind {
        ChannelKind::InApp => Channel::InApp,
        ChannelKind::Push => Channel::Push,
        ChannelKind::Email => Channel::Email,
        ChannelKind::Sms => Channel::Sms,
        ChannelKind::Webhook => Channel::Webhook,
    }
}

pub async fn explain(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    let user = call.query.get("user").ok_or_else(|| Problem::field("/user", "is required"))?;
    let found = call.node.explain(tenant, event, user)?;
    Ok(Reply::json(200, &story::tell(&found)))
}

/// What of it was not sent stays unsent. What was, was.
pub async fn cancel(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    call.node.cancel(tenant, event).await?;
    Ok(Reply::no_content())
}
