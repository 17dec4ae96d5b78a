//! What a record has to say to the audit log. Most of the time nothing: inboxes, lists and marks are no deliveries.
//!
//! Comes from: `feed`, record by record. Decides: which facts a record stands for, from the record and from what the tables
//! keep of it unchanged, so that deriving it twice says the same. Goes to: the log.
//!
//! What the journal does not say is not said: repeats leave no record. Who asked, and what was there before and after, is in
//! the record.

use super::parcels::Speaker;
use super::people::{People, Recent};
use crate::ask::Refusal;
use crate::core::{Core, internal};
use crate::take::HOUSE;
use fantail_audit::digest::sha256;
use fantail_audit::fact::{Accepted, Action, Cancelled, Consent, ConsentBy, Endpoint, Erased, Fact};
use fantail_audit::member::{ConsentVersion, Member, Pseudonym};
use fantail_machine::codec::Malformed;
use fantail_machine::records::Stamped;
use fantail_machine::records::difference::Difference;
use fantail_machine::records::digest::DigestRecord;
use fantail_machine::records::directory::DirectoryRecord;
use fantail_machine::records::erasure::{Erasure, Step};
use fantail_machine::records::front::{FrontRecord, Steer};
use fantail_machine::records::provider::CallbackRotated;
use fantail_machine::records::respect::{Consented, Preferred};
use fantail_machine::records::root::{Layout, RootRecord, TenantQuota};
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::records::webhook::WebhookSwitched;
use fantail_machine::tables::taken;
use fantail_machine::tables::work::WorkId;
use fantail_ports::journal::Record;
use fantail_ports::keyring::Sealed;
use fantail_rules::actor::Actor;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{DeviceNo, Millis, PartitionId, TenantId, UserNo};

/// A fact, and what is behind it.
pub struct Said {
    pub tenant: TenantId,
    pub fact: Fact,
    /// In the order of the tree, if the fact is about members.
    pub members: Vec<Member>,
    /// They were asked for one by one: their leaves and openings are kept in the log.
    pub is_tracked: bool,
}

impl Said {
    fn plain(tenant: TenantId, fact: Fact) -> Self {
        Self { tenant, fact, members: Vec::new(), is_tracked: false }
    }

    pub fn action(by: &Actor, tenant: TenantId, action: &str, target: String) -> Self {
        Self::changed(by, tenant, action, target, Difference::default())
    }

    fn changed(by: &Actor, tenant: TenantId, action: &str, target: String, difference: Difference) -> Self {
        let (actor, action) = (by.name().to_owned(), action.to_owned());
        let Difference { before, after } = difference;
        Self::plain(tenant, Fact::Action(Action { actor, action, target, before, after }.fitting()))
    }
}

/// When the record was written, and what it says.
pub async fn say(
    core: &Core,
    recent: &Recent,
    partition: PartitionId,
    record: &Record,
) -> Result<(Millis, Vec<Said>), Refusal> {
    match partition {
        PartitionId::Root => {
            let Stamped { at, by, record } = Stamped::decode(&record.bytes).map_err(malformed)?;
            Ok((at, of_root(&by, record)))
        }
        PartitionId::Front(_) => {
            let Stamped { at, by, record } = Stamped::decode(&record.bytes).map_err(malformed)?;
            Ok((at, of_front(&by, record)))
        }
        PartitionId::Directory(_) => {
            let Stamped { at, by, record } = Stamped::decode(&record.bytes).map_err(malformed)?;
            Ok((at, of_directory(&by, record)))
        }
        PartitionId::Shard(shard) => {
            let Stamped { at, by, record: fact } = Stamped::decode(&record.bytes).map_err(malformed)?;
            let speaker = Speaker { core, recent, shard, position: record.position };
            Ok((at, of_shard(speaker, &by, fact, record).await?))
        }
    }
}

fn malformed(malformed: Malformed) -> Refusal {
    internal(&format!("a record does not decode for the audit log: {malformed}"))
}

fn laid_out(by: &Actor, layout: &Layout) -> Said {
    Said::changed(by, HOUSE, "layout.put", String::new(), Difference::of(None, Some(layout)))
}

fn limited(by: &Actor, put: TenantQuota, difference: Difference) -> Said {
    Said::changed(by, put.tenant, "quota.put", String::new(), difference)
}

fn of_root(by: &Actor, fact: RootRecord) -> Vec<Said> {
    let said = match fact {
        RootRecord::Layout(layout) => laid_out(by, &layout),
        RootRecord::TenantPut(tenant, difference) => {
            Said::changed(by, tenant.id, "tenant.put", tenant.slug, difference)
        }
        RootRecord::QuotaPut(put, difference) => limited(by, put, difference),
        RootRecord::KeyPut(key, difference) => Said::changed(by, key.tenant, "key.put", key.id, difference),
        RootRecord::KeyRevoked { tenant, id, difference } => {
            Said::changed(by, tenant, "key.revoke", id, difference)
        }
        RootRecord::TemplatePut(put) => {
            let target = format!("{}/{}", put.id, put.version);
            Said::changed(by, put.tenant, "template.put", target, put.difference)
        }
        RootRecord::TemplateActivated(activated) => {
            let target = format!("{}/{}", activated.id, activated.version);
            let action = if activated.active { "template.activate" } else { "template.deactivate" };
            Said::changed(by, activated.tenant, action, target, activated.difference)
        }
        RootRecord::TemplateGone { tenant, id, difference } => {
            Said::changed(by, tenant, "template.delete", id, difference)
        }
        RootRecord::CategoryPut(put) => {
            Said::changed(by, put.tenant, "category.put", put.name, put.difference)
        }
        RootRecord::CategoryGone { tenant, name, difference } => {
            Said::changed(by, tenant, "category.delete", name, difference)
        }
        RootRecord::DefaultsPut(put) => {
            Said::changed(by, put.tenant, "defaults.put", String::new(), put.difference)
        }
        RootRecord::WebhookPut(put, difference) => {
            Said::changed(by, put.tenant, "webhook.put", put.id, difference)
        }
        RootRecord::ProviderPut(put, difference) => {
            Said::changed(by, put.tenant, "provider.put", put.id, difference)
        }
        RootRecord::ProviderGone { tenant, id, difference } => {
            Said::changed(by, tenant, "provider.delete", id, difference)
        }
        RootRecord::CallbackRotated(rotated) => callback_rotated(by, rotated),
        RootRecord::WebhookGone { tenant, id, difference } => {
            Said::changed(by, tenant, "webhook.delete", id, difference)
        }
        RootRecord::WebhookSwitched(switched) => webhook_switched(by, switched),
        RootRecord::SchedulePut(put) => {
            let action = if put.definition.is_paused { "schedule.pause" } else { "schedule.put" };
            Said::changed(by, put.definition.tenant, action, put.definition.id, put.difference)
        }
        RootRecord::ScheduleGone { tenant, id, difference } => {
            Said::changed(by, tenant, "schedule.delete", id, difference)
        }
        RootRecord::SegmentPut(put, difference) => {
            Said::changed(by, put.tenant, "segment.put", put.name, difference)
        }
        RootRecord::SegmentListed(listed) => {
            Said::changed(by, listed.tenant, "segment.upload", listed.name, listed.difference)
        }
        RootRecord::SegmentGone { tenant, id, difference } => {
            Said::changed(by, tenant, "segment.delete", id, difference)
        }
        RootRecord::Noted(noted) => Said::action(by, noted.tenant, &noted.action, noted.target),
        // Nobody did that; what a schedule issued is accepted as anything else is.
        RootRecord::WebhookFailing { .. } | RootRecord::ScheduleRan(_) => return Vec::new(),
    };
    vec![said]
}

fn callback_rotated(by: &Actor, rotated: CallbackRotated) -> Said {
    Said::changed(by, rotated.tenant, "provider.rotate", rotated.id, rotated.difference)
}

fn webhook_switched(by: &Actor, switched: WebhookSwitched) -> Said {
    let action = if switched.off.is_some() { "webhook.disable" } else { "webhook.enable" };
    Said::changed(by, switched.tenant, action, switched.id, switched.difference)
}

fn of_front(by: &Actor, record: FrontRecord) -> Vec<Said> {
    let actor = by.name().to_owned();
    match record {
        FrontRecord::Admitted(admitted) => {
            let (event, key, body) = (admitted.event, admitted.key, admitted.body);
            vec![Said::plain(admitted.tenant, Fact::Accepted(Accepted { event, key, body, actor }))]
        }
        FrontRecord::Retracted { tenant, event } => {
            vec![Said::action(by, tenant, "event.retract", event.to_string())]
        }
        FrontRecord::Cancelled { tenant, event } => {
            vec![Said::plain(tenant, Fact::Cancelled(Cancelled { event, actor }))]
        }
        // It was accepted when it was asked for; from here on the shards tell.
        FrontRecord::Released(_) => Vec::new(),
        FrontRecord::Steered { tenant, event, steer } => {
            let action = match steer {
                Steer::Pause => "bulk.pause",
                Steer::Resume => "bulk.resume",
                Steer::Pace(_) => "bulk.pace",
            };
            vec![Said::action(by, tenant, action, event.to_string())]
        }
        FrontRecord::Counted { .. }
        | FrontRecord::Forgotten { .. }
        | FrontRecord::Unsaid { .. }
        // The record before it says so.
        | FrontRecord::CalledOff(_)
        | FrontRecord::Part { .. } => Vec::new(),
    }
}

/// An address is a keyed hash here, as everywhere behind the API.
fn of_directory(by: &Actor, record: DirectoryRecord) -> Vec<Said> {
    let hex = |hash: [u8; 16]| Pseudonym(hash).to_string();
    match record {
        DirectoryRecord::Suppressed { tenant, address, reason, difference } => {
            let target = format!("{}/{}", hex(address.0), reason.name());
            vec![Said::changed(by, tenant, "address.suppress", target, difference)]
        }
        DirectoryRecord::Unsuppressed { tenant, address, difference } => {
            vec![Said::changed(by, tenant, "address.unsuppress", hex(address.0), difference)]
        }
        // Claims show where they take effect: at the endpoints.
        DirectoryRecord::Claimed { .. } | DirectoryRecord::Released { .. } | DirectoryRecord::Told { .. } => {
            Vec::new()
        }
    }
}

async fn of_shard(
    speaker: Speaker<'_>,
    by: &Actor,
    fact: ShardRecord,
    record: &Record,
) -> Result<Vec<Said>, Refusal> {
    match fact {
        ShardRecord::Given(given) => speaker.given(&given).await,
        ShardRecord::Intend(intend) => speaker.intend(&intend).await,
        ShardRecord::Wake(wake) => speaker.wake(&wake).await,
        ShardRecord::Outcome(outcome) => speaker.outcome(&outcome).await,
        ShardRecord::Receipt(receipt) => speaker.receipt(&receipt).await,
        ShardRecord::Redrive(redrive) => speaker.redrive(by, &redrive).await,
        ShardRecord::Closed { work, code } => closed(&speaker, by, work, &code),
        ShardRecord::UserGone { tenant, lookup, key, .. } => {
            let (pseudonym, receipt, actor) =
                (Pseudonym(lookup.0), sha256(&record.bytes), by.name().to_owned());
            Ok(vec![Said::plain(tenant, Fact::Erased(Erased { pseudonym, key, receipt, actor }))])
        }
        ShardRecord::Erasure(erasure) => Ok(erased(by, &erasure).into_iter().collect()),
        ShardRecord::Shredded { keys } => {
            speaker.recent.forget();
            let said = |(tenant, key)| Said::action(by, tenant, "key.destroy", format!("{key}"));
            Ok(keys.into_iter().map(said).collect())
        }
        ShardRecord::EndpointState { tenant, states } => {
            let states = states.iter().map(|state| (state.user, state.device, Some(state.status)));
            endpoints(speaker, by, tenant, states.collect()).await
        }
        // Who registered it; that it may be used is said by the claim, which the server itself makes.
        ShardRecord::EndpointPut { tenant, endpoints: put } => {
            let put = put.iter().map(|put| (put.user, put.device, Some(put.status)));
            endpoints(speaker, by, tenant, put.collect()).await
        }
        ShardRecord::EndpointGone { tenant, endpoints: gone } => {
            let gone = gone.into_iter().map(|(user, no)| (user, no, None));
            endpoints(speaker, by, tenant, gone.collect()).await
        }
        ShardRecord::Digest(DigestRecord::Folded(folded)) => speaker.folded(&folded).await,
        ShardRecord::Preferred(preferred) => preferences(speaker, by, &preferred).await,
        ShardRecord::Consented { tenant, consents: said } => consents(speaker, by, tenant, said).await,
        // On its own it goes on; somebody had it go back.
        ShardRecord::Told(told) => Ok(match by {
            Actor::System => Vec::new(),
            Actor::Admin | Actor::Key(_) | Actor::Recipient | Actor::Provider(_) => {
                vec![Said::action(by, told.tenant, "webhook.replay", told.webhook)]
            }
        }),
        ShardRecord::UserPut { .. }
        | ShardRecord::Replanned { .. }
        | ShardRecord::Edges { .. }
        | ShardRecord::Take { .. }
        | ShardRecord::Marked { .. }
        | ShardRecord::Moved { .. }
        | ShardRecord::Cleared { .. }
        | ShardRecord::Unlisted { .. }
        | ShardRecord::Reported { .. }
        | ShardRecord::Expired { .. }
        // Its front has said it.
        | ShardRecord::Halt(_)
        | ShardRecord::Swept(_)
        | ShardRecord::Digest(
            DigestRecord::Collected(_) | DigestRecord::Closed(_) | DigestRecord::Digested(_),
        )
        | ShardRecord::Walk(_)
        | ShardRecord::Throttle(_)
        | ShardRecord::Untold { .. } => Ok(Vec::new()),
    }
}

/// Work that ended before everybody was looked at.
fn closed(speaker: &Speaker<'_>, by: &Actor, work: WorkId, code: &str) -> Result<Vec<Said>, Refusal> {
    let event = speaker.core.read(PartitionId::Shard(speaker.shard), |view| {
        taken::event_at(view.tables(), work.tenant, work.arrival)
    })?;
    let event = event.map_or_else(String::new, |event| event.to_string());
    let target = format!("{event}/{}/{code}", work.channel.name());
    Ok(vec![Said::action(by, work.tenant, "delivery.close", target)])
}

/// What an erasure removed, step by step: together they are its receipt.
fn erased(by: &Actor, erasure: &Erasure) -> Option<Said> {
    let action = match &erasure.step {
        Step::Begun { .. } => "erasure.begin",
        Step::Purged { .. } => "erasure.purge",
        Step::Done => "erasure.complete",
        // Only where it goes on.
        Step::Reached(_) => return None,
    };
    let removed = erasure.removed.iter().map(|(store, count)| format!(" {}={count}", store.name()));
    let target = std::iter::once(erasure.erasure.to_string()).chain(removed).collect();
    Some(Said::action(by, erasure.tenant, action, target))
}

/// What was said is in the history of the user, under the revision.
async fn preferences(speaker: Speaker<'_>, by: &Actor, said: &Preferred) -> Result<Vec<Said>, Refusal> {
    let Speaker { core, recent, shard, .. } = speaker;
    let people = People::find(core, recent, said.tenant, shard, std::iter::once(said.user)).await?;
    let target = format!("{}/{}", people.of(said.user).pseudonym, said.revision);
    Ok(vec![Said::action(by, said.tenant, &format!("preferences.{}", said.kind.name()), target)])
}

async fn consents(
    speaker: Speaker<'_>,
    by: &Actor,
    tenant: TenantId,
    said: Vec<Consented>,
) -> Result<Vec<Said>, Refusal> {
    let Speaker { core, recent, shard, .. } = speaker;
    let people = People::find(core, recent, tenant, shard, said.iter().map(|one| one.user)).await?;
    let told = |one: Consented| {
        let consent = Consent {
            pseudonym: people.of(one.user).pseudonym,
            channel: one.channel,
            given: one.consent.is_granted,
            version: ConsentVersion(one.revision.into()),
            proof: Sealed::default(),
        };
        Said::plain(tenant, Fact::ConsentBy(ConsentBy { consent, actor: by.name().to_owned() }))
    };
    Ok(said.into_iter().map(told).collect())
}

async fn endpoints(
    speaker: Speaker<'_>,
    by: &Actor,
    tenant: TenantId,
    changed: Vec<(UserNo, DeviceNo, Option<Status>)>,
) -> Result<Vec<Said>, Refusal> {
    let Speaker { core, recent, shard, .. } = speaker;
    let people = People::find(core, recent, tenant, shard, changed.iter().map(|(user, ..)| *user)).await?;
    let said = |(user, device, status)| {
        let (pseudonym, actor) = (people.of(user).pseudonym, by.name().to_owned());
        Said::plain(tenant, Fact::Endpoint(Endpoint { pseudonym, device, status, actor }))
    };
    Ok(changed.into_iter().map(said).collect())
}

#[cfg(test)]
mod tests;
