//! Notifications: sent to named users, followed to their end, explained, called off.
//!
//! Comes from: `pipeline`. Decides: that the request is well formed. Goes to: `Node::notify`, and the node's views of
//! what became of it.

use crate::aside;
use crate::auth;
use crate::call::Call;
use crate::check::Faults;
use crate::cursor::{self, Owner};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::event_ask::{self, channel_of, priority_of};
use crate::v1::rendering::{self, Reader, Scene};
use crate::v1::story;
use aws_lc_rs::digest::{Context, SHA256};
use axum::http::{HeaderName, HeaderValue};
use fantail_node::ask::{Accepted, ChannelKind, NotifyAsk, Place, Priority, Recipient, Refusal};
use fantail_rules::ids::{ShardNo, TenantId, UserNo};
use fantail_rules::limits::{CATEGORY_BYTES_MAX, RECIPIENTS_MAX};
use fantail_rules::ulid::Ulid;
use fantail_templates::Compiled;
use fantail_wire::code::Code;
use fantail_wire::event::Channel;
use fantail_wire::notification::{
    ChannelStatus, Delivery, NotificationAccepted, NotificationSend, NotificationStatus, SendStatus,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const DELIVERIES_MAX: usize = 1_000;

pub async fn send(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: NotificationSend = call.json()?;
    let mut draft = Draft::of(&call, request)?;
    let template = draft.choose_template(tenant, &call)?;
    auth::require_priority(&call.caller, draft.ask.priority)?;
    let count = draft.users.len() as u64;
    call.spend(tenant, draft.users.len())?;
    let accepted = match call.node.recipients(tenant, &draft.users) {
        Ok(recipients) => {
            let recipients = match template {
                None => recipients.into_iter().zip(std::mem::take(&mut draft.own)).collect(),
                Some(compiled) => draft.render(tenant, &call, compiled, recipients).await?,
            };
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
    /// The variables of each user, and those of all.
    variables: Vec<Map<String, Value>>,
    shared: Map<String, Value>,
    template: Option<(String, Option<u32>)>,
    /// What the caller said, and the template may still say.
    category: Option<String>,
    priority: Option<Priority>,
}

impl Draft {
    fn of(call: &Call, request: NotificationSend) -> Result<Self, Problem> {
        let (mut faults, root) = (Faults::default(), Pointer::ROOT);
        let header = call.headers.get("idempotency-key").and_then(|value| value.to_str().ok());
        let id = request.notification_id.or_else(|| header.map(str::to_owned));
        let id = id.unwrap_or_else(|| call.request_id.clone());
        faults.name(root.key("notificationId"), &id);
        if let Some(category) = &request.category {
            faults.text(root.key("category"), category, CATEGORY_BYTES_MAX);
            faults.name(root.key("category"), category);
        }
        let ttl_ms = event_ask::ttl_of(request.options.ttl, root.key("options").key("ttl"), &mut faults);
        let content = match (&request.content, &request.template_id) {
            (Some(content), None) => event_ask::content_of(content, root.key("content"), &mut faults),
            (None, Some(_)) => Vec::new(),
            (Some(_), Some(_)) | (None, None) => {
                faults.add(root.key("content"), "either content or templateId is required");
                Vec::new()
            }
        };
        let list = root.key("recipients");
        if request.recipients.is_empty() || request.recipients.len() > RECIPIENTS_MAX {
            faults.add(list, format!("must have 1 to {RECIPIENTS_MAX} recipients"));
        }
        let (mut users, mut own, mut variables) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for (index, recipient) in request.recipients.into_iter().enumerate().take(RECIPIENTS_MAX) {
            let at = list.index(index);
            faults.name(at.key("userId"), &recipient.user_id);
            if !seen.insert(recipient.user_id.clone()) {
                faults.add(at.key("userId"), "named twice");
            }
            if recipient.content.is_some() && request.template_id.is_some() {
                faults.add(at.key("content"), "the template says it");
            }
            let theirs = recipient.content.as_ref();
            own.push(theirs.map(|one| event_ask::content_of(one, at.key("content"), &mut faults)));
            users.push(recipient.user_id);
            variables.push(recipient.variables);
        }
        faults.into_result()?;
        let (category, priority) = (request.category, request.priority.map(priority_of));
        let mut draft = Self {
            ask: NotifyAsk {
                id,
                kind: "notification".to_owned(),
                category: String::new(),
                priority: Priority::Normal,
                channels: request.channels.into_iter().map(channel_of).collect(),
                ttl_ms,
                content,
                recipients: Vec::new(),
                body_hash: [0; 16],
            },
            users,
            own,
            variables,
            shared: request.variables,
            template: request.template_id.map(|id| (id, request.template_version)),
            category,
            priority,
        };
        draft.ask.body_hash = draft.hash();
        Ok(draft)
    }

    /// Fills in what was left out, from the template if there is one.
    fn choose_template(&mut self, tenant: TenantId, call: &Call) -> Result<Option<Arc<Compiled>>, Problem> {
        let found = match &self.template {
            None => None,
            Some((id, version)) => Some((id, call.node.compiled(tenant, id, *version)?)),
        };
        let of_template = found.as_ref().map(|(_, (compiled, _))| compiled.category().to_owned());
        let category = self.category.take().or(of_template.filter(|category| !category.is_empty()));
        self.ask.category = category.unwrap_or_else(|| "general".to_owned());
        let priority = self.priority.unwrap_or_else(|| Priority::of_category(&self.ask.category));
        self.ask.priority = priority;
        let Some((id, (compiled, version))) = found else {
            if self.ask.channels.is_empty() {
                self.ask.channels = self.ask.channels.with(ChannelKind::InApp);
            }
            return Ok(None);
        };
        self.ask.channels = rendering::channels_of(&compiled, self.ask.channels)?;
        // Shown to nobody, since everybody has content of their own; it says which version that was.
        self.ask.content = json!({"templateId": id, "version": version}).to_string().into_bytes();
        Ok(Some(compiled))
    }

    async fn render(
        &mut self,
        tenant: TenantId,
        call: &Call,
        compiled: Arc<Compiled>,
        recipients: Vec<Recipient>,
    ) -> Result<Vec<(Recipient, Option<Vec<u8>>)>, Problem> {
        let scene = Scene {
            compiled,
            tenant: call.node.tenant(tenant).ok_or(Refusal::UnknownTenant)?,
            id: self.ask.id.clone(),
            channels: self.ask.channels,
            shared: std::mem::take(&mut self.shared),
            now: call.node.wall(),
        };
        let variables = std::mem::take(&mut self.variables);
        let readers = self.users.iter().cloned().zip(recipients).zip(variables);
        let readers: Vec<Reader> =
            readers.map(|((name, recipient), own)| Reader { name, recipient, own }).collect();
        let rendered = aside::run(&call.app, move || {
            let contents = scene.render(&readers)?;
            Ok(readers.into_iter().zip(contents).map(|(reader, own)| (reader.recipient, Some(own))).collect())
        });
        rendered.await?
    }

    /// Everything that is said, each part with its length.
    fn hash(&self) -> [u8; 16] {
        let mut hash = Context::new(&SHA256);
        let mut part = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        let ask = &self.ask;
        part(self.category.as_deref().unwrap_or_default().as_bytes());
        part(&[self.priority.map_or(u8::MAX, |priority| priority as u8), ask.channels.bits()]);
        part(&ask.ttl_ms.to_be_bytes());
        part(&ask.content);
        part(json!({"template": self.template, "variables": self.shared}).to_string().as_bytes());
        for ((user, own), variables) in self.users.iter().zip(&self.own).zip(&self.variables) {
            part(user.as_bytes());
            part(own.as_deref().unwrap_or_default());
            part(Value::Object(variables.clone()).to_string().as_bytes());
        }
        let mut head = [0; 16];
        head.copy_from_slice(&hash.finish().as_ref()[..16]);
        head
    }
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
