//! A parcel's messages: each member's address and content, opened.
//!
//! Comes from: a parcel whose Intent is durable. Does: reads endpoints page by page and opens addresses together; picks the
//! content of the channel, the reader's own where there is one. Goes to: the channel, and to the journal what cannot be
//! sent.
//!
//! What must never happen: an address under a key that was destroyed, or one whose claim is not the member's any more.

use super::{Parcel, changed, gone};
use crate::ask::{EventView, Refusal};
use crate::content::{generic, pick};
use crate::core::{Core, locked};
use crate::editions;
use crate::people::name_of;
use crate::{digests, inbox, links};
use fantail_machine::shard::intend::Send;
use fantail_machine::shard::outcome::Told;
use fantail_machine::tables::digest::is_digest;
use fantail_machine::tables::endpoint;
use fantail_ports::channel::{Callbacks, Message, Shipment};
use fantail_ports::keyring::Context;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{ClaimNo, DeviceNo, KeyNo, Millis, PartitionId, TenantId, UserNo};
use fantail_rules::link::{Link, Purpose};
use fantail_rules::nameless;
use fantail_rules::priority::Priority;
use fantail_rules::reference::Reference;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A message whose first byte did not leave by then does not leave.
const START_WITHIN_MS: u64 = 2_000;
/// What is needed to send, or why a member cannot be sent to.
pub struct Packed {
    pub shipment: Shipment,
    /// The position of each message, and the claim it goes to.
    pub positions: Vec<(u16, ClaimNo)>,
    pub unsendable: Vec<Told>,
}

/// What is open of each endpoint, ascending.
type Addresses = Vec<Open>;

/// Endpoints that got another address meanwhile, which is still being claimed.
type Changed = BTreeSet<(UserNo, DeviceNo)>;

/// An endpoint, opened.
struct Open {
    of: (UserNo, DeviceNo),
    claim: ClaimNo,
    /// Of its user.
    key: KeyNo,
    address: Vec<u8>,
}

impl Parcel {
    /// Opens addresses and content.
    pub(super) fn pack(&self, began: Millis) -> Result<Packed, Refusal> {
        let (core, allowed) = (&*self.core, &self.allowed);
        let tenant = allowed.parcel.tenant;
        let event = match is_digest(allowed.event) {
            true => digests::view(core, self.shard, tenant, allowed.event)?,
            false => inbox::event(core, tenant, allowed.event)?,
        };
        let users = self.users();
        let (mut addresses, pending) = self.addresses(&users)?;
        let contents = if event.is_sensitive { BTreeMap::new() } else { self.contents(&event, &users)? };
        let key = reference_key(core, tenant)?;
        let shared: Arc<[u8]> = match event.is_sensitive {
            true => generic(self.channel).into(),
            false => pick(&event.content, self.channel).into(),
        };
        let room = allowed.sends.len();
        let (mut positions, mut messages) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut unsendable = Vec::new();
        for Send { position, member, attempt } in &allowed.sends {
            let of_member = addresses.binary_search_by_key(&(member.user, member.device), |open| open.of);
            let Ok(found) = of_member else {
                let is_changed = pending.contains(&(member.user, member.device));
                unsendable.push(if is_changed { changed(*position) } else { gone(*position) });
                continue;
            };
            let Open { claim, key: user_key, address: endpoint, .. } = &mut addresses[found];
            let reference = Reference {
                tenant,
                shard: self.shard,
                arrival: allowed.parcel.arrival,
                channel: self.channel,
                user: member.user,
                device: member.device,
            };
            let mut content = contents.get(&member.user).cloned();
            if self.channel == ChannelKind::Webhook {
                content =
                    Some(self.with_ids(&content.unwrap_or_else(|| shared.clone()), &event, member.user)?);
            }
            positions.push((*position, *claim));
            messages.push(Message {
                reference: reference.write(&key),
                // A member is there once, and so is its address.
                endpoint: std::mem::take(endpoint),
                content,
                attempt: *attempt,
                recipient: member.user.0 << 16 | u64::from(self.shard.0),
                unsubscribe: self.unsubscribe((member.user, *user_key), &event.category)?,
            });
        }
        let shipment = Shipment {
            tenant,
            content: shared,
            lane: allowed.terms.lane,
            expires_at: allowed.terms.expires_at,
            collapse_key: event.collapse_key.clone(),
            deadline: began.plus(START_WITHIN_MS),
            callbacks: self.callbacks(&key),
            messages,
        };
        Ok(Packed { shipment, positions, unsendable })
    }

    /// The members that are sent to, ascending, each once.
    fn users(&self) -> Vec<UserNo> {
        let mut users: Vec<UserNo> = self.allowed.sends.iter().map(|send| send.member.user).collect();
        users.dedup();
        users
    }

    /// What users get who do not get what everybody gets.
    fn contents(&self, event: &EventView, users: &[UserNo]) -> Result<BTreeMap<UserNo, Arc<[u8]>>, Refusal> {
        let (core, tenant, id) = (&*self.core, self.allowed.parcel.tenant, self.allowed.event);
        let readers = (self.shard, users);
        let mut contents = editions::by_user(core, (tenant, id), &event.content, self.channel, readers)?;
        if event.is_personal {
            let own = inbox::personals(core, tenant, id, readers)?;
            contents.extend(own.map(|(user, own)| (user, pick(&own, self.channel).into())));
        }
        Ok(contents)
    }

    /// The content of a webhook, and whose and of what it is. A template says its body itself, whole. Of something sensitive
    /// only the ids are told that say nothing about it.
    fn with_ids(&self, content: &[u8], event: &EventView, user: UserNo) -> Result<Arc<[u8]>, Refusal> {
        let (core, tenant) = (&*self.core, self.allowed.parcel.tenant);
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(content) else {
            return Ok(content.into());
        };
        if fields.contains_key("contentType") {
            return Ok(content.into());
        }
        fields.insert("eventId".to_owned(), self.allowed.event.to_string().into());
        let name = name_of(core, tenant, self.shard, user)?;
        if !name.is_empty() && nameless::shown(&name).is_none() {
            fields.insert("userId".to_owned(), name.into());
        }
        if !event.is_sensitive {
            let notification = event.name.clone().map(|name| ("notificationId", name));
            let category = (!event.category.is_empty()).then(|| ("category", event.category.clone()));
            let said = [notification, category].into_iter().flatten();
            fields.extend(said.map(|(field, text)| (field.to_owned(), Value::from(text))));
        }
        Ok(serde_json::to_vec(&fields).expect("it was JSON").into())
    }

    fn addresses(&self, users: &[UserNo]) -> Result<(Addresses, Changed), Refusal> {
        let tenant = self.allowed.parcel.tenant;
        let room = self.allowed.sends.len();
        let (mut whose, mut sealed) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut pending = BTreeSet::new();
        self.core.read(PartitionId::Shard(self.shard), |view| {
            endpoint::destinations(view.tables(), tenant, users, &mut |at, one| {
                if one.kind != self.channel {
                    return;
                }
                if one.status == Status::Pending {
                    pending.insert((users[at], one.device));
                } else if one.status == Status::Active {
                    whose.push(((users[at], one.device), one.claim, one.address.key));
                    sealed.push(one.address);
                }
            })
        })?;
        let open = self.core.ports.keyring.open_all(tenant, Context::Address, sealed).map_err(locked)?;
        // A key that is gone takes its address along.
        let open = whose.into_iter().zip(open);
        let open =
            open.filter_map(|((of, claim, key), address)| Some(Open { of, claim, key, address: address? }));
        Ok((open.collect(), pending))
    }

    /// Where this user says no to more of this kind by mail; what is critical has no way out.
    fn unsubscribe(&self, (user, key): (UserNo, KeyNo), category: &str) -> Result<Option<String>, Refusal> {
        let is_mail = self.channel == ChannelKind::Email && self.allowed.terms.lane != Priority::Critical;
        let Some(base) = self.core.ports.public_url.get().filter(|_| is_mail) else { return Ok(None) };
        let link = Link {
            shard: self.shard,
            user,
            purpose: Purpose::Unsubscribe,
            channel: Some(ChannelKind::Email),
            category: (!category.is_empty()).then(|| category.to_owned()),
            until: links::end_of_new_link(&self.core),
        };
        let token = links::sealed(&self.core, self.allowed.parcel.tenant, key, &link)?;
        Ok(token.map(|token| format!("{base}/u/{token}")))
    }

    fn callbacks(&self, key: &[u8; 16]) -> Option<Arc<Callbacks>> {
        let base_url = self.core.ports.public_url.get()?.clone();
        Some(Arc::new(Callbacks { base_url, key: *key }))
    }
}

/// The key under which references of a tenant are sealed.
pub fn reference_key(core: &Core, tenant: TenantId) -> Result<[u8; 16], Refusal> {
    core.ports.keyring.digest(tenant, b"delivery reference").map_err(locked)
}
