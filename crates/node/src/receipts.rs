//! What providers, and whoever speaks for them, say about deliveries later.
//!
//! Comes from: the receipts API, with the reference that every message carries. Does: reads the reference under the
//! tenant's key, so that nobody speaks about another tenant's deliveries or about made-up ones; tells the shard; has the
//! directory suppress addresses that bounced for good or whose owner complained. Goes to: `machine::shard::redrive`, and the
//! directory.
//!
//! What must never happen: a receipt that is answered before it is durable. Saying it again changes nothing.

use crate::ask::{Outcome, ReceiptAsk, Refusal};
use crate::core::{Core, answers, internal};
use crate::deliver::reference_key;
use crate::devices::suppress_address;
use crate::node::Node;
use fantail_machine::shard::redrive::{CLICKED, COMPLAINED, Heard, OPENED};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::endpoint;
use fantail_machine::tables::ledger::{self, ParcelId};
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{PartitionId, ShardNo, TenantId};
use fantail_rules::reference::Reference;
use fantail_rules::suppression::Reason;
use std::collections::BTreeMap;

/// A hard bounce, as the ledger says it.
const BOUNCED: &str = "bounced";
/// Bytes that one receipt may take in a queue.
const RECEIPT_BYTES: usize = 128;

impl Node {
    /// Whose delivery a reference names, if it is sealed by us.
    pub fn tenant_of_reference(&self, reference: &str) -> Result<TenantId, Refusal> {
        let core = &self.core;
        let key = |tenant| {
            core.require_tenant(tenant).ok()?;
            reference_key(core, tenant).ok()
        };
        Reference::read(reference, key).map(|found| found.tenant).ok_or(Refusal::UnknownDelivery)
    }

    /// What links of a tenant's mails are sealed under.
    pub fn link_key(&self, tenant: TenantId) -> Result<[u8; 16], Refusal> {
        reference_key(&self.core, tenant)
    }

    /// One result for each: whether it said anything new, about the delivery or about the address.
    pub async fn receive(&self, tenant: TenantId, asks: &[ReceiptAsk]) -> Vec<Result<bool, Refusal>> {
        receive(&self.core, &self.by, tenant, asks).await
    }
}

async fn receive(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    asks: &[ReceiptAsk],
) -> Vec<Result<bool, Refusal>> {
    let read: Vec<_> = asks.iter().map(|ask| reference_of(core, tenant, ask)).collect();
    let mut by_shard: BTreeMap<ShardNo, Vec<usize>> = BTreeMap::new();
    for (at, reference) in read.iter().enumerate() {
        if let Ok(reference) = reference {
            by_shard.entry(reference.shard).or_default().push(at);
        }
    }
    let mut results: Vec<Result<bool, Refusal>> =
        read.iter().map(|read| read.as_ref().map(|_| false).map_err(Clone::clone)).collect();
    for (shard, places) in by_shard {
        let of = |at: &usize| read[*at].as_ref().ok().map(|reference| shard_ask(reference, &asks[*at]));
        let told: Vec<ShardAsk> = places.iter().filter_map(of).collect();
        let bytes = told.len() * RECEIPT_BYTES;
        match answers(core.shard(shard).queue.push(tenant, by, told, bytes)).await {
            Ok(answers) => {
                for (at, answer) in places.into_iter().zip(answers) {
                    results[at] = result_of(&answer);
                }
            }
            Err(refusal) => places.into_iter().for_each(|at| results[at] = Err(refusal.clone())),
        }
    }
    for ((reference, ask), result) in read.iter().zip(asks).zip(&mut results) {
        // Also if it was heard before: the one who said it may have died in between.
        if let (Ok(reference), Ok(is_news)) = (reference, &result) {
            let suppressed = suppress(core, by, reference, ask.outcome).await;
            *result = suppressed.map(|is_suppressed| *is_news || is_suppressed);
        }
    }
    results
}

fn reference_of(core: &Core, tenant: TenantId, ask: &ReceiptAsk) -> Result<Reference, Refusal> {
    core.require_tenant(tenant)?;
    let key = reference_key(core, tenant)?;
    let reference = Reference::read(&ask.reference, |of| (of == tenant).then_some(key));
    let is_spoken_of = |reference: &Reference| ask.channel.is_none_or(|channel| channel == reference.channel);
    let reference =
        reference.filter(|reference| core.shards.contains_key(&reference.shard) && is_spoken_of(reference));
    reference.ok_or(Refusal::UnknownDelivery)
}

fn shard_ask(reference: &Reference, ask: &ReceiptAsk) -> ShardAsk {
    let Reference { tenant, arrival, channel, user, device, .. } = *reference;
    let said = ask.code.clone();
    // What recipients did is told by our words, what providers call it by theirs.
    let (delivered, code, message) = match ask.outcome {
        Outcome::Delivered => (true, said, String::new()),
        Outcome::Opened => (true, OPENED.to_owned(), said),
        Outcome::Clicked => (true, CLICKED.to_owned(), said),
        Outcome::Complained => (true, COMPLAINED.to_owned(), said),
        Outcome::Failed => (false, said, String::new()),
        Outcome::Bounced => (false, BOUNCED.to_owned(), said),
    };
    let heard = Heard { user, device, delivered, at: ask.at, code, message };
    ShardAsk::Receipt { parcel: ParcelId { tenant, arrival, channel, first: user }, heard }
}

fn result_of(answer: &ShardAnswer) -> Result<bool, Refusal> {
    match answer {
        ShardAnswer::Noted => Ok(true),
        ShardAnswer::Known => Ok(false),
        ShardAnswer::UnknownDelivery => Err(Refusal::UnknownDelivery),
        _ => Err(internal("the shard answered something else")),
    }
}

/// Nothing more is sent to an address that bounced for good, or whose owner complained. Says whether that is news.
async fn suppress(core: &Core, by: &Actor, reference: &Reference, outcome: Outcome) -> Result<bool, Refusal> {
    let reason = match outcome {
        Outcome::Bounced => Reason::HardBounce,
        // Nobody complains about a text message but by STOP, which a START lifts.
        Outcome::Complained if reference.channel == ChannelKind::Sms => Reason::Stop,
        Outcome::Complained => Reason::Complaint,
        Outcome::Delivered | Outcome::Opened | Outcome::Clicked | Outcome::Failed => return Ok(false),
    };
    let Reference { tenant, shard, user, device, .. } = *reference;
    let parcel = ParcelId { tenant, arrival: reference.arrival, channel: reference.channel, first: user };
    let (found, begun) = core.read(PartitionId::Shard(shard), |view| {
        let begun = ledger::holding(view.tables(), parcel)?.map(|(_, row)| row.begun);
        Ok((endpoint::find(view.tables(), tenant, user, device)?, begun))
    })?;
    // One that is gone, or came to another address since, is not the one that this is about.
    let Some(endpoint) = found.filter(|one| begun.is_some_and(|begun| one.registered <= begun)) else {
        return Ok(false);
    };
    suppress_address(core, by, tenant, endpoint.address_hash, reason).await
}
