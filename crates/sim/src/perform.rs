//! A call becomes requests on the node's public surface, nothing else.

use crate::call::{
    Address, Answer, Audience, Call, DeviceNo, EVERYONE, List, Post, PostId, Stranger, Target, Token, Who,
    attributes, cancellation_name, device_name, token_text, user_name,
};
use crate::executor::Executor;
use crate::note::{note_action, note_target};
use crate::template;
use fantail_memory::clock::ManualClock;
use fantail_node::Node;
use fantail_node::ask::{
    self, Accepted, DeviceAsk, EdgeAsk, EventAsk, InboxAsk, InboxFrom, InboxPage, MarkAsk, MarkTarget,
    NotificationView, NotifyAsk, ProfileAsk, ReceiptAsk, Refusal, SuppressionAsk, UserAsk,
};
use fantail_node::bulk::{BulkAsk, Pace};
use fantail_node::respect::{ConsentAsk, Prefer};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::caps::{Caps, Limit};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::ids::TenantId;
use fantail_rules::marks::State;
use fantail_rules::preference::Preferences;
use fantail_rules::suppression::Reason;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

/// More than any simulated inbox holds.
pub const WHOLE: usize = 100_000;
/// A directory that has not answered by then is not waited for.
const ENROL_LOOKS_MAX: usize = 200;

pub async fn perform(node: Node, call: Call, tasks: Executor, clock: Arc<ManualClock>) -> Answer {
    match call {
        Call::PutUsers { tenant, users } => {
            let asks = users.iter().map(|(user, attribute)| user_ask(*user, *attribute)).collect();
            Answer::Users(node.put_users(tenant, asks).await)
        }
        Call::DeleteUser { who, erases } => Answer::Deleted(delete(&node, who, erases).await),
        Call::Duel { who, attribute, delete_first } => duel(&node, who, attribute, delete_first).await,
        Call::Edit { tenant, change, edges } => {
            let ask = |(user, list): &(u16, List)| EdgeAsk { user: user_name(*user), list: list.ask() };
            Answer::Edges(node.edit_lists(tenant, change, edges.iter().map(ask).collect()).await)
        }
        Call::Post { tenant, posts } => Answer::Posted(match &posts[..] {
            [(_, post)] if post.is_bulk() => vec![node.bulk(tenant, bulk_ask(post)).await],
            [(_, Post { audience: Audience::Strangers(strangers), .. })] => {
                vec![notify(&node, &posts[0].1, strangers).await]
            }
            _ => post_all(&node, tenant, &posts).await,
        }),
        Call::Retract { tenant, event, .. } => Answer::Retracted(node.retract(tenant, event).await),
        Call::Cancel { tenant, event, .. } => Answer::Cancelled(node.cancel(tenant, event).await),
        Call::Steer { tenant, event, steer } => Answer::Steered(node.steer_bulk(tenant, event, steer).await),
        Call::Forget { stranger } => {
            Answer::Deleted(node.delete_user(stranger.tenant, &stranger.name()).await)
        }
        Call::CancelKey { tenant, key } => {
            Answer::CalledOff(node.cancel_by_key(tenant, &cancellation_name(key)).await)
        }
        Call::Receipt { tenant, reference, outcome, .. } => {
            let ask = ReceiptAsk { reference, channel: None, outcome, at: None, code: String::new() };
            let answer = node.receive(tenant, &[ask]).await.pop();
            Answer::Receipt(answer.unwrap_or(Err(Refusal::UnknownTenant)))
        }
        Call::Consent { who, is_granted } => {
            let ask = ConsentAsk { is_granted, ..agreed() };
            Answer::Consented(node.consent(who.tenant, &who.name(), ChannelKind::Push, ask).await)
        }
        Call::Limit { who, per_hour } => Answer::Consented(limit(&node, who, per_hour).await),
        Call::Enrol { who, address } => Answer::Enrolled(enrol(&node, who, address, (tasks, clock)).await),
        Call::Mark { who, mark, target } => {
            let target = match target {
                Target::Some(posts) => {
                    MarkTarget::Events(posts.into_iter().map(|(_, event)| event).collect())
                }
                Target::All { through } => MarkTarget::All { through },
            };
            Answer::Marked(node.mark(who.tenant, MarkAsk { user: who.name(), mark, target }).await)
        }
        Call::Register { who, device, token } => {
            Answer::Registered(node.register_device(who.tenant, device_ask(who, device, token)).await)
        }
        Call::Unregister { who, device } => {
            let (user, device) = (who.name(), device_name(device));
            Answer::Unregistered(node.unregister_device(who.tenant, &user, &device).await)
        }
        Call::Suppress { tenant, token, on } => Answer::Suppressed(suppress(&node, tenant, token, on).await),
        Call::Note { tenant, note } => {
            Answer::Noted(node.note(tenant, note_action(note), &note_target(note)).await)
        }
        Call::ReadUser { who } => Answer::User(node.user(who.tenant, &who.name()).await),
        Call::Audit { who } => Answer::Page(page(&node, who, InboxFrom::Newest, WHOLE).await),
        Call::Poll { who, from, limit } => {
            Answer::Page(page(&node, who, InboxFrom::Since(from), limit).await)
        }
        Call::Walk { who, limit } => Answer::Walked(walk(&node, who, limit, &tasks, &clock).await),
    }
}

/// Whether its owner has heard of it.
async fn suppress(node: &Node, tenant: TenantId, token: Token, on: bool) -> Result<bool, Refusal> {
    let ask = SuppressionAsk { kind: ChannelKind::Push, identity: token_text(token) };
    match on {
        true => node.suppress(tenant, &ask, Reason::Manual).await,
        false => node.unsuppress(tenant, &ask).await.map(|()| true),
    }
}

async fn delete(node: &Node, who: Who, erases: bool) -> Result<(), Refusal> {
    if erases {
        // The receipt of an erasure before is no new one: there is no user.
        return match node.erase(who.tenant, &who.name()).await? {
            begun if begun.is_repeat => Err(Refusal::UnknownUser { user: who.name() }),
            _ => Ok(()),
        };
    }
    node.delete_user(who.tenant, &who.name()).await
}

/// Those by template are rendered with what the node has stored.
async fn post_all(node: &Node, tenant: TenantId, posts: &[(PostId, Post)]) -> Vec<Result<Accepted, Refusal>> {
    let mut asks = Vec::with_capacity(posts.len());
    for (_, post) in posts {
        let mut ask = post.ask();
        if post.by_template {
            match node.compiled(tenant, template::TEMPLATE, None) {
                Ok((compiled, version)) => ask.content = template::render(&compiled, version, post),
                Err(refusal) => return vec![Err(refusal); posts.len()],
            }
        }
        asks.push(ask);
    }
    node.post_events(tenant, asks).await
}

/// As the API does it: first who they are, then what they are told.
async fn notify(node: &Node, post: &Post, strangers: &[Stranger]) -> Result<Accepted, Refusal> {
    let who = |stranger: &Stranger| ask::Who::Address {
        kind: stranger.kind,
        address: stranger.text().into_bytes(),
        identity: stranger.text(),
        platform: Platform::None,
        consent: None,
    };
    let all: Vec<ask::Who> = strangers.iter().map(who).collect();
    let recipients = node.recipients(post.tenant, &all).await?;
    let EventAsk { id, kind, category, priority, channels, ttl_ms, content, options, body_hash, .. } =
        post.ask();
    let recipients = recipients.into_iter().map(|recipient| (recipient, None)).collect();
    let ask =
        NotifyAsk { id, kind, category, priority, channels, ttl_ms, content, recipients, options, body_hash };
    node.notify(post.tenant, ask).await
}

/// Slow enough for a walk of several steps.
fn bulk_ask(post: &Post) -> BulkAsk {
    BulkAsk {
        segment: EVERYONE.to_owned(),
        excludes_opted_out: false,
        ignores_quiet_hours: false,
        pace: Pace::PerSecond(20),
        window: None,
        event: post.ask(),
    }
}

fn device_ask(who: Who, device: DeviceNo, token: Token) -> DeviceAsk {
    DeviceAsk {
        user: who.name(),
        device: device_name(device),
        kind: ChannelKind::Push,
        platform: Platform::Ios,
        address: token_text(token).into_bytes(),
        identity: token_text(token),
        meta: Vec::new(),
        consent: Some(agreed()),
    }
}

/// Whoever has a device was asked.
/// Over whatever was said before.
async fn limit(node: &Node, who: Who, per_hour: u16) -> Result<u32, Refusal> {
    let limit = Limit { caps: Caps { per_hour, per_day: 0 }, pace: None };
    let limits = [(ChannelKind::Push, limit)].into_iter().collect();
    let preferences = Preferences { limits, ..Preferences::default() };
    let instead_of = node.respect(who.tenant, &who.name())?.revision;
    let prefer = Prefer { instead_of, source: "sim".to_owned(), preferences };
    match node.prefer(who.tenant, &who.name(), prefer).await {
        // Somebody was faster, which is as good as a full queue.
        Err(Refusal::RespectConflict { .. }) => Err(Refusal::Busy { retry_after_ms: 1 }),
        other => other,
    }
}

fn agreed() -> ConsentAsk {
    ConsentAsk { is_granted: true, given: None, version: "1".to_owned(), source: "sim".to_owned() }
}

/// Registers an address that nobody else has, and waits until it is used.
async fn enrol(
    node: &Node,
    who: Who,
    address: Address,
    (tasks, clock): (Executor, Arc<ManualClock>),
) -> Result<(), Refusal> {
    let (device, text) = (address.kind.name().to_owned(), address.text(who));
    let ask = DeviceAsk {
        user: who.name(),
        device: device.clone(),
        kind: address.kind,
        platform: Platform::None,
        address: text.clone().into_bytes(),
        identity: text,
        meta: Vec::new(),
        consent: (address.kind == ChannelKind::Push).then(agreed),
    };
    node.register_device(who.tenant, ask).await?;
    for _ in 0..ENROL_LOOKS_MAX {
        let found = node.devices(who.tenant, &who.name()).await?;
        if found.iter().any(|view| view.device == device && view.status == Status::Active) {
            return Ok(());
        }
        tasks.sleep_until(clock.monotonic().plus(10)).await;
    }
    Err(Refusal::Busy { retry_after_ms: 10 })
}

fn user_ask(user: u16, attribute: u64) -> UserAsk {
    let profile = ProfileAsk { locale: template::locale_of(user).to_owned(), ..ProfileAsk::default() };
    UserAsk { user: user_name(user), attributes: attributes(attribute), profile }
}

pub async fn page(node: &Node, who: Who, from: InboxFrom, limit: usize) -> Result<InboxPage, Refusal> {
    node.inbox(who.tenant, InboxAsk { user: who.name(), limit, from, state: State::All }).await
}

async fn walk(
    node: &Node,
    who: Who,
    limit: usize,
    tasks: &Executor,
    clock: &ManualClock,
) -> Result<Vec<NotificationView>, Refusal> {
    let (mut seen, mut from) = (Vec::new(), InboxFrom::Newest);
    loop {
        let page = page(node, who, from, limit).await?;
        seen.extend(page.notifications);
        match page.next {
            Some(next) => from = next,
            None => return Ok(seen),
        }
        tasks.sleep_until(clock.monotonic().plus(1)).await;
    }
}

async fn duel(node: &Node, who: Who, attribute: u64, delete_first: bool) -> Answer {
    let name = who.name();
    let mut put = Box::pin(node.put_users(who.tenant, vec![user_ask(who.user, attribute)]));
    let mut delete = Box::pin(node.delete_user(who.tenant, &name));
    let (mut put_answer, mut delete_answer) = (None, None);
    poll_fn(|context| {
        for turn in [delete_first, !delete_first] {
            if turn
                && delete_answer.is_none()
                && let Poll::Ready(answer) = delete.as_mut().poll(context)
            {
                delete_answer = Some(answer);
            }
            if !turn
                && put_answer.is_none()
                && let Poll::Ready(answer) = put.as_mut().poll(context)
            {
                put_answer = Some(answer);
            }
        }
        match (put_answer.take(), delete_answer.take()) {
            (Some(mut put), Some(delete)) => {
                let put = put.pop().unwrap_or(Err(Refusal::UnknownTenant));
                Poll::Ready(Answer::Duel { put, delete })
            }
            (put, delete) => {
                (put_answer, delete_answer) = (put, delete);
                Poll::Pending
            }
        }
    })
    .await
}
