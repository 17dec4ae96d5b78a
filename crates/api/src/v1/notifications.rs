//! Notifications: sent to named users, followed to their end, explained, called off.
//!
//! Comes from: `pipeline`. Decides: that the request is well formed. Goes to: `Node::notify`, and the node's views of
//! what became of it.

use crate::auth;
use crate::call::Call;
use crate::check::Faults;
use crate::cursor::{self, Owner};
use crate::pointer::Pointer;
use crate::problem::{FIELD_ERRORS_MAX, Problem};
use crate::reply::Reply;
use crate::time;
use crate::v1::notification_ask::Draft;
use crate::v1::{event_ids, story, trace};
use axum::http::{HeaderName, HeaderValue};
use fantail_node::ask::{self, Accepted, Called, ChannelKind, NotifyAsk, Place, Refusal, Who};
use fantail_rules::address;
use fantail_rules::endpoint::Platform;
use fantail_rules::ids::{ShardNo, TenantId, UserNo};
use fantail_rules::limits::LIST_PAGE_MAX;
use fantail_rules::outlook::expected_ms;
use fantail_rules::ulid::Ulid;
use fantail_templates::Compiled;
use fantail_wire::code::Code;
use fantail_wire::event::Channel;
use fantail_wire::notification::{
    CancelByKey, CancelResult, ChannelStatus, Delivery, NotificationAccepted, NotificationSend,
    NotificationStatus, Phase, SendStatus,
};
use fantail_wire::problem::FieldError;
use std::sync::Arc;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const DELIVERIES_DEFAULT: usize = 100;

pub async fn send(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let began = call.node.wall();
    let request: NotificationSend = call.json()?;
    let mut draft = Draft::of(tenant, &call, request)?;
    check_name(tenant, &call, &draft.ask.id)?;
    let template = draft.choose_template(tenant, &call)?;
    auth::require_priority(&call.caller, draft.ask.priority)?;
    call.spend(tenant, draft.who.len())?;
    let accepted = issue(tenant, &call, &mut draft, template).await?;
    if !accepted.replayed {
        call.node.accepted(tenant, accepted.event, began, call.origin());
    }
    accepted_reply(tenant, &call, draft, accepted)
}

/// Renders what is well formed and has it accepted, once.
pub async fn issue(
    tenant: TenantId,
    call: &Call,
    draft: &mut Draft,
    template: Option<(Arc<Compiled>, u32)>,
) -> Result<Accepted, Problem> {
    match call.node.recipients(tenant, &draft.who).await {
        Ok(recipients) => {
            draft.zones = recipients.iter().map(|recipient| recipient.zone).collect();
            let recipients = match template {
                None => recipients.into_iter().zip(std::mem::take(&mut draft.own)).collect(),
                Some(template) => draft.render(tenant, call, template, recipients).await?,
            };
            Ok(call.node.notify(tenant, NotifyAsk { recipients, ..draft.ask.clone() }).await?)
        }
        // The first one was accepted when they were all there.
        Err(Refusal::UnknownRecipients { users }) => {
            let heard = call.node.recall_notification(tenant, &draft.ask.id, draft.ask.body_hash).await?;
            heard.ok_or_else(|| unknown_users(&draft.who, &users))
        }
        Err(other) => Err(other.into()),
    }
}

/// Where the users stand in the request that do not exist.
pub fn unknown_users(all: &[Who], unknown: &[String]) -> Problem {
    let error = |(index, who): (usize, &Who)| match who {
        Who::User(name) if unknown.contains(name) => {
            Some(FieldError::new(format!("/recipients/{index}/userId"), format!("no such user: {name}")))
        }
        Who::User(_) | Who::Address { .. } => None,
    };
    let errors = all.iter().enumerate().filter_map(error).take(FIELD_ERRORS_MAX).collect();
    let detail = format!("{} recipients do not exist", unknown.len());
    Problem::new(Code::InvalidRecipient, detail).with_errors(errors)
}

fn accepted_reply(tenant: TenantId, call: &Call, draft: Draft, accepted: Accepted) -> Result<Reply, Problem> {
    let Draft { ask, who, zones, .. } = draft;
    let (now, count) = (call.node.wall(), who.len() as u64);
    let is_held = ask.options.held_until(now).is_some();
    let begins = ask.options.last_told(now, &zones);
    let within_ms = match begins > now {
        // How its channels will be doing then is not known.
        true => expected_ms(ask.priority, count, &[]),
        false => call.node.expected_ms(tenant, ask.channels, ask.priority, count)?,
    };
    let answer = NotificationAccepted {
        request_id: call.request_id.clone(),
        notification_id: ask.id,
        event_id: accepted.event.to_string(),
        status: if is_held { SendStatus::Scheduled } else { SendStatus::Accepted },
        recipient_count: count,
        estimated_delivery: time::text(begins.plus(within_ms)),
    };
    let reply = Reply::json(202, &answer);
    let is_first = !accepted.replayed;
    Ok(if is_first { reply } else { reply.with_header(REPLAYED, HeaderValue::from_static("true")) })
}

fn event_of(tenant: TenantId, call: &Call) -> Result<Ulid, Problem> {
    event_ids::of_path(tenant, call, "notification")
}

/// A name that is the id of another event could not be told from it.
fn check_name(tenant: TenantId, call: &Call, name: &str) -> Result<(), Problem> {
    match Ulid::parse(name) {
        Some(event) if call.node.is_known_event(tenant, event)? => {
            Err(Problem::field("/notificationId", "is the id of another event"))
        }
        Some(_) | None => Ok(()),
    }
}

pub fn channel_status(one: &ask::ChannelStatus) -> ChannelStatus {
    let counts = |(state, count): &(ask::DeliveryState, u64)| {
        (*count > 0).then(|| (state.public_word().to_owned(), *count))
    };
    ChannelStatus {
        channel: shown(one.channel),
        counts: one.counts.iter().filter_map(counts).collect(),
        unreached: one.unreached,
        done: one.is_done,
    }
}

pub async fn status(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    let found = call.node.status(tenant, event)?;
    let text = event.to_string();
    let owner = Owner { tenant, name: &text };
    let from = match call.query.get("cursor") {
        None => None,
        Some(text) => Some(place_of(owner, text).ok_or(Refusal::BadCursor)?),
    };
    let page =
        call.node.deliveries(tenant, event, from, call.query.limit(DELIVERIES_DEFAULT, LIST_PAGE_MAX)?)?;
    let answer = NotificationStatus {
        event_id: text.clone(),
        notification_id: found.name,
        status: match found.phase {
            ask::Phase::Scheduled => Phase::Scheduled,
            ask::Phase::Sending => Phase::Sending,
            ask::Phase::Done => Phase::Done,
        },
        created_at: time::text(found.created_at),
        scheduled_at: found.due.map(time::text),
        category: found.category,
        cancelled: found.is_cancelled,
        retracted: found.is_retracted,
        recipient_count: found.recipients,
        channels: found.channels.iter().map(channel_status).collect(),
        deliveries: page.recipients.into_iter().map(delivery).collect(),
        next_cursor: page.next.map(|place| cursor::of_names(owner, &place_text(place))),
    };
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
        address: one.address,
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
    let found = call.node.explain(tenant, event, &whom(&call)?)?;
    Ok(Reply::json(200, &story::tell(&found)))
}

pub async fn trace(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    let found = call.node.explain(tenant, event, &whom(&call)?)?;
    Ok(Reply::json(200, &trace::tell(&found)))
}

/// Whose story: a user's, or that of an address.
fn whom(call: &Call) -> Result<Who, Problem> {
    let fields = [
        ("user", None),
        ("email", Some(ChannelKind::Email)),
        ("phone", Some(ChannelKind::Sms)),
        ("webhook", Some(ChannelKind::Webhook)),
        ("pushToken", Some(ChannelKind::Push)),
    ];
    let mut given =
        fields.into_iter().filter_map(|(field, kind)| Some((field, kind, call.query.get(field)?)));
    match (given.next(), given.next()) {
        (Some((_, None, user)), None) => Ok(Who::User(user.to_owned())),
        (Some((field, Some(kind), text)), None) => {
            let read =
                address::read(kind, text).map_err(|fault| Problem::field(format!("/{field}"), fault))?;
            let (address, platform) = (Vec::new(), Platform::None);
            Ok(Who::Address { kind, address, identity: read.identity, platform, consent: None })
        }
        (None, _) => Err(Problem::field("/user", "needs one of user, email, phone, webhook and pushToken")),
        (Some(_), Some((field, ..))) => {
            let rule = "needs exactly one of user, email, phone, webhook and pushToken, not several";
            Err(Problem::field(format!("/{field}"), rule))
        }
    }
}

/// What of it was not sent stays unsent. What was, was.
pub async fn cancel(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    Ok(called_off(&call.node.cancel(tenant, event).await?))
}

/// Too late is an answer, not a fault.
pub async fn cancel_by_key(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: CancelByKey = call.json()?;
    let mut faults = Faults::default();
    faults.name(Pointer::ROOT.key("cancellationKey"), &request.cancellation_key);
    faults.into_result()?;
    let called = call.node.cancel_by_key(tenant, &request.cancellation_key).await?;
    Ok(called_off(&called))
}

/// 202 says that something may still be sent until all shards have taken it.
fn called_off(called: &Called) -> Reply {
    let answer = CancelResult {
        cancelled: called.cancelled,
        too_late: called.too_late,
        deliveries_sent: called.deliveries_sent,
        pending: called.is_pending,
    };
    Reply::json(if called.is_pending { 202 } else { 200 }, &answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: API-03
    #[test]
    fn users_that_do_not_exist_are_named_with_their_place() {
        let who = ["ann", "eve", "bob", "mallory"].map(|name| Who::User(name.to_owned()));
        let problem = unknown_users(&who, &["eve".to_owned(), "mallory".to_owned()]);
        let found: Vec<(&str, &str)> =
            problem.errors.iter().map(|error| (error.pointer.as_str(), error.detail.as_str())).collect();
        let expected = [
            ("/recipients/1/userId", "no such user: eve"),
            ("/recipients/3/userId", "no such user: mallory"),
        ];
        assert_eq!((problem.code, found), (Code::InvalidRecipient, expected.to_vec()));
        let many: Vec<String> = (0..100).map(|no| no.to_string()).collect();
        let all: Vec<Who> = many.iter().cloned().map(Who::User).collect();
        assert_eq!(unknown_users(&all, &many).errors.len(), FIELD_ERRORS_MAX);
    }
}
