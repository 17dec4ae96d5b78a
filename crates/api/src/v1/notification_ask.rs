//! A notification as it was asked for becomes an ask to the node: checked, named, hashed, and rendered if a template
//! says what is told.
//!
//! Comes from: `notifications`. Decides: that every field is well formed, and what holds where one was left out. Goes to:
//! `Node::notify`.

use crate::aside;
use crate::call::Call;
use crate::check::{Faults, secret_fault};
use crate::idempotency;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::v1::consents;
use crate::v1::devices::stored_platform;
use crate::v1::event_ask::{self, channel_of, priority_of};
use crate::v1::option_ask::{check_channels, options_of, out_of_inbox, ttl_of};
use crate::v1::push_target::{self, Given};
use crate::v1::rendering::{self, Reader, Scene};
use aws_lc_rs::digest::{Context, SHA256};
use fantail_node::ask::{ChannelKind, ChannelSet, NotifyAsk, OptionsAsk, Priority, Recipient, Refusal, Who};
use fantail_node::named::Named;
use fantail_rules::address::{self, Address};
use fantail_rules::endpoint::Platform;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::{CATEGORY_BYTES_MAX, RECIPIENTS_MAX};
use fantail_rules::nameless;
use fantail_rules::schedule::Appointment;
use fantail_rules::zone::ZoneNo;
use fantail_templates::Compiled;
use fantail_wire::code::Code;
use fantail_wire::event::Channel;
use fantail_wire::notification::{NotificationSend, PushAddress, RecipientSend};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A request that is well formed.
pub struct Draft {
    /// Without its recipients.
    pub ask: NotifyAsk,
    pub who: Vec<Who>,
    pub own: Vec<Option<Vec<u8>>>,
    /// Of the recipients, once they are known.
    pub zones: BTreeSet<ZoneNo>,
    /// The variables of each user, and those of all.
    variables: Vec<Map<String, Value>>,
    shared: Map<String, Value>,
    template: Option<(String, Option<u32>)>,
    /// What the caller said, and the template may still say.
    category: Option<String>,
    priority: Option<Priority>,
}

impl Draft {
    pub fn of(tenant: TenantId, call: &Call, request: NotificationSend) -> Result<Self, Problem> {
        let (mut faults, root) = (Faults::default(), Pointer::ROOT);
        let id = idempotency::name_of(&call.headers, request.notification_id)?;
        let id = id.unwrap_or_else(|| call.request_id.clone());
        check_id(&id, || call.is_taken(tenant, Named::Notification(&id)), &mut faults);
        if let Some(category) = &request.category {
            faults.text(root.key("category"), category, CATEGORY_BYTES_MAX);
            faults.name(root.key("category"), category);
        }
        let ttl_ms = ttl_of(request.options.ttl, root.key("options").key("ttl"), &mut faults);
        let options = options_of(&request.options, root.key("options"), call.node.wall(), &mut faults);
        let content = match (&request.content, &request.template_id) {
            (Some(content), None) => event_ask::content_of(content, root.key("content"), &mut faults),
            (None, Some(_)) => Vec::new(),
            (Some(_), Some(_)) | (None, None) => {
                faults.add(root.key("content"), event_ask::content_fault(request.content.is_some()));
                Vec::new()
            }
        };
        let list = root.key("recipients");
        if request.recipients.is_empty() || request.recipients.len() > RECIPIENTS_MAX {
            faults.add(list, format!("must have 1 to {RECIPIENTS_MAX} recipients"));
        }
        let (mut who, mut own, mut variables) = (Vec::new(), Vec::new(), Vec::new());
        let (mut seen, mut unreadable) = (BTreeSet::new(), Faults::default());
        for (index, recipient) in request.recipients.into_iter().enumerate().take(RECIPIENTS_MAX) {
            let at = list.index(index);
            let one = who_of(&recipient, at, &mut faults, &mut unreadable);
            if !seen.insert(key_of(&one)) {
                faults.add(at, "named twice");
            }
            if recipient.content.is_some() && request.template_id.is_some() {
                faults.add(at.key("content"), "the template says it");
            }
            let theirs = recipient.content.as_ref();
            own.push(theirs.map(|one| event_ask::content_of(one, at.key("content"), &mut faults)));
            who.push(one);
            variables.push(recipient.variables);
        }
        check_channels(&options, &request.channels, root.key("channels"), &mut faults);
        check_inboxes(&request.channels, &who, root.key("channels"), &mut faults);
        faults.into_result()?;
        unreadable.into_result().map_err(|problem| problem.of(Code::InvalidRecipient))?;
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
                options,
                body_hash: [0; 16],
            },
            who,
            own,
            zones: BTreeSet::new(),
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
    pub fn choose_template(
        &mut self,
        tenant: TenantId,
        call: &Call,
    ) -> Result<Option<(Arc<Compiled>, u32)>, Problem> {
        let found = match &self.template {
            None => None,
            Some((id, version)) => Some((id, call.node.compiled(tenant, id, *version)?)),
        };
        let of_template = found.as_ref().map(|(_, (compiled, _))| compiled.category().to_owned());
        let category = self.category.take().or(of_template.filter(|category| !category.is_empty()));
        self.ask.category = category.unwrap_or_else(|| "general".to_owned());
        let usual = || call.node.usual_priority(tenant, &self.ask.category);
        let priority = self.priority.unwrap_or_else(usual);
        self.ask.priority = priority;
        let kinds: ChannelSet = self.who.iter().filter_map(kind_of).collect();
        let Some((id, (compiled, version))) = found else {
            let inbox = ChannelSet::EMPTY.with(ChannelKind::InApp);
            if self.ask.channels.is_empty() {
                self.ask.channels = if kinds.is_empty() { inbox } else { kinds };
            }
            self.ask.channels = out_of_inbox(&self.ask.options, self.ask.channels, "/channels")?;
            self.require_channels()?;
            return Ok(None);
        };
        self.ask.channels = rendering::channels_of(&compiled, self.ask.channels)?;
        if !kinds.is_empty() {
            self.ask.channels = self.ask.channels.without(ChannelKind::InApp);
        }
        self.ask.channels = out_of_inbox(&self.ask.options, self.ask.channels, "/channels")?;
        self.require_channels()?;
        // Shown to nobody, since everybody has content of their own; it says which version that was.
        self.ask.content = json!({"templateId": id, "version": version}).to_string().into_bytes();
        Ok(Some((compiled, version)))
    }

    /// An address that none of the channels goes to would never be told anything.
    fn require_channels(&self) -> Result<(), Problem> {
        let mut faults = Faults::default();
        for (index, kind) in
            self.who.iter().enumerate().filter_map(|(index, who)| Some((index, kind_of(who)?)))
        {
            if !self.ask.channels.contains(kind) {
                let fault = format!("{} is not among the channels", kind.name());
                faults.add(Pointer::ROOT.key("recipients").index(index), fault);
            }
        }
        faults.into_result().map_err(|problem| problem.of(Code::InvalidRecipient))
    }

    pub async fn render(
        &mut self,
        tenant: TenantId,
        call: &Call,
        (compiled, version): (Arc<Compiled>, u32),
        recipients: Vec<Recipient>,
    ) -> Result<Vec<(Recipient, Option<Vec<u8>>)>, Problem> {
        let scene = Scene {
            compiled,
            version,
            tenant: call.node.tenant(tenant).ok_or(Refusal::UnknownTenant)?,
            id: self.ask.id.clone(),
            channels: self.ask.channels,
            has_inbox: self.ask.options.appointment.is_none()
                && self.who.iter().any(|who| kind_of(who).is_none()),
            shared: std::mem::take(&mut self.shared),
            now: call.node.wall(),
        };
        let variables = std::mem::take(&mut self.variables);
        let readers = self.who.iter().zip(recipients).zip(variables);
        let reader =
            |((who, recipient), own)| Reader { name: name_of(who), seed: key_of(who), recipient, own };
        let readers: Vec<Reader> = readers.map(reader).collect();
        let rendered = aside::run(&call.app, tenant, aside::Work::Send, move || {
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
        let OptionsAsk { due, appointment, cancellation_key, collapse_key, is_sensitive } = &ask.options;
        part(
            json!([due.map(|due| due.0), cancellation_key, collapse_key, is_sensitive])
                .to_string()
                .as_bytes(),
        );
        part(&Appointment::to_word(*appointment).to_be_bytes());
        part(json!({"template": self.template, "variables": self.shared}).to_string().as_bytes());
        for ((who, own), variables) in self.who.iter().zip(&self.own).zip(&self.variables) {
            part(key_of(who).as_bytes());
            part(own.as_deref().unwrap_or_default());
            part(Value::Object(variables.clone()).to_string().as_bytes());
        }
        let mut head = [0; 16];
        head.copy_from_slice(&hash.finish().as_ref()[..16]);
        head
    }
}

/// The producer's name for it. A repeat of what was accepted is answered whatever its name.
fn check_id(id: &str, is_taken: impl FnOnce() -> bool, faults: &mut Faults) {
    let root = Pointer::ROOT;
    let at = root.key("notificationId");
    faults.new_name(at, id, is_taken);
    if RESERVED_IDS.contains(&id) {
        faults.add(at, "is a path of its own: no notification can have this id");
    }
}

/// The words that stand in the place of an id in paths: `/api/v1/notifications/bulk/…`.
const RESERVED_IDS: [&str; 1] = ["bulk"];

fn check_inboxes(channels: &[Channel], who: &[Who], at: Pointer<'_>, faults: &mut Faults) {
    if channels.contains(&Channel::InApp) && who.iter().any(|one| kind_of(one).is_some()) {
        faults.add(at, "an address has no inbox: leave out inApp");
    }
}

/// Where a consent that comes with a notification was given, if that is not said.
const SOURCE: &str = "notification";

/// One recipient. What cannot be an address is a fault of the recipient, not of the request.
fn who_of(recipient: &RecipientSend, at: Pointer<'_>, faults: &mut Faults, unreadable: &mut Faults) -> Who {
    let url = recipient.webhook.as_ref().map(|webhook| &webhook.url);
    let token = recipient.push_token.as_ref().map(|push| &push.token);
    let given = [
        (ChannelKind::Email, "email", &recipient.email.as_ref()),
        (ChannelKind::Sms, "phone", &recipient.phone.as_ref()),
        (ChannelKind::Webhook, "webhook", &url),
        (ChannelKind::Push, "pushToken", &token),
    ];
    let mut given = given.into_iter().filter_map(|(kind, field, text)| Some((kind, field, (*text)?)));
    let (kind, field, text) = match (&recipient.user_id, given.next(), given.next()) {
        (Some(user), None, None) => {
            faults.name(at.key("userId"), user);
            return Who::User(user.clone());
        }
        (None, Some(one), None) => one,
        (None, None, _) => {
            faults.add(at, "needs one of userId, email, phone, webhook and pushToken");
            return Who::User(String::new());
        }
        (Some(_), Some(_), _) | (_, _, Some(_)) => {
            faults.add(at, "needs exactly one of userId, email, phone, webhook and pushToken, not several");
            return Who::User(String::new());
        }
    };
    let platform =
        recipient.push_token.as_ref().map_or(Platform::None, |push| stored_platform(push.platform));
    let read = match &recipient.push_token {
        None => address::read(kind, text),
        Some(push) => push_of(push, at.key(field), faults),
    };
    let read = match read {
        Ok(read) => read,
        Err(fault) => {
            unreadable.add(at.key(field), fault);
            return Who::Address {
                kind,
                address: Vec::new(),
                identity: text.clone(),
                platform,
                consent: None,
            };
        }
    };
    let address = match &recipient.webhook {
        None => read.text.into_bytes(),
        Some(webhook) => {
            faults.add_some(at.key(field).key("secret"), secret_fault(&webhook.secret));
            json!({"url": read.text, "secret": webhook.secret}).to_string().into_bytes()
        }
    };
    let consent = recipient.push_token.as_ref().and_then(|push| push.consent.clone());
    let consent = consent.map(|put| consents::ask_of(put, at.key(field).key("consent"), SOURCE, faults));
    Who::Address { kind, address, identity: read.identity, platform, consent }
}

/// The line that a token is sent to by.
fn push_of(push: &PushAddress, at: Pointer<'_>, faults: &mut Faults) -> Result<Address, &'static str> {
    let given = Given {
        platform: Some(push.platform),
        token: Some(&push.token),
        service: None,
        environment: push.environment,
        token_kind: None,
        app_id: push.app_id.as_deref(),
        subscription: None,
        // Whoever sends to a token says that it is good now; nobody registers it again.
        registered_at: Millis(0),
    };
    let target = push_target::target(&given, at, faults)?;
    Ok(Address { text: String::from_utf8_lossy(&target.address).into_owned(), identity: target.identity })
}

/// The channel of an address.
fn kind_of(who: &Who) -> Option<ChannelKind> {
    match who {
        Who::User(_) => None,
        Who::Address { kind, .. } => Some(*kind),
    }
}

/// What tells recipients apart.
fn key_of(who: &Who) -> String {
    match who {
        Who::User(name) => name.clone(),
        Who::Address { kind, identity, .. } => nameless::name(*kind, identity),
    }
}

/// As templates see it.
fn name_of(who: &Who) -> String {
    match who {
        Who::User(name) => name.clone(),
        Who::Address { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    // proves: API-03
    #[test]
    fn a_recipient_is_a_user_or_one_address() {
        let cases = [
            (json!({"userId": "ann"}), Ok("ann")),
            (json!({"email": "Ann@Example.COM"}), Ok("\u{1}email\u{1}ann@example.com")),
            (json!({"phone": "+43 660 1234567"}), Ok("\u{1}sms\u{1}+436601234567")),
            (
                json!({"webhook": {"url": "HTTPS://Example.com/x", "secret": SECRET}}),
                Ok("\u{1}webhook\u{1}https://example.com/x"),
            ),
            (json!({"email": "ann"}), Err(("INVALID_RECIPIENT", "/email"))),
            (json!({"phone": "0660"}), Err(("INVALID_RECIPIENT", "/phone"))),
            (
                json!({"webhook": {"url": "ftp://x", "secret": SECRET}}),
                Err(("INVALID_RECIPIENT", "/webhook")),
            ),
            (
                json!({"webhook": {"url": "https://x.io", "secret": "whsec_x"}}),
                Err(("INVALID_REQUEST", "/webhook/secret")),
            ),
            (json!({"pushToken": {"platform": "android", "token": "aB1"}}), Ok("\u{1}push\u{1}aB1")),
            (
                json!({"pushToken": {"platform": "ios", "token": "a b"}}),
                Err(("INVALID_RECIPIENT", "/pushToken")),
            ),
            (
                json!({"pushToken": {"platform": "android", "token": "t"}, "email": "ann@example.com"}),
                Err(("INVALID_REQUEST", "")),
            ),
            (
                json!({"webhook": {"url": "https://x.io", "secret": ""}}),
                Err(("INVALID_REQUEST", "/webhook/secret")),
            ),
            (json!({}), Err(("INVALID_REQUEST", ""))),
            (json!({"userId": ""}), Err(("INVALID_REQUEST", "/userId"))),
            (json!({"userId": "ann", "email": "ann@example.com"}), Err(("INVALID_REQUEST", ""))),
            (json!({"phone": "+43660123456", "email": "ann@example.com"}), Err(("INVALID_REQUEST", ""))),
        ];
        for (body, expected) in cases {
            let recipient: RecipientSend = serde_json::from_value(body.clone()).expect("a recipient");
            let (mut faults, mut unreadable) = (Faults::default(), Faults::default());
            let who = who_of(&recipient, Pointer::ROOT, &mut faults, &mut unreadable);
            let checked = faults
                .into_result()
                .and_then(|()| unreadable.into_result().map_err(|found| found.of(Code::InvalidRecipient)));
            let found = match &checked {
                Ok(()) => Ok(key_of(&who)),
                Err(problem) => Err((problem.code.text(), problem.errors[0].pointer.as_str())),
            };
            assert_eq!(found, expected.map(str::to_owned), "{body}");
        }
    }
}
