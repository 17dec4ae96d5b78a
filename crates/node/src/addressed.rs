//! Recipients that are named by an address alone.
//!
//! Comes from: the API, with addresses read by `rules::address`. Does: finds whose an address is; one that is nobody's gets
//! a user without a name, whose endpoint is claimed and checked for suppression as any other. Waits for that, because what
//! is sent before would find no endpoint. Goes to: `notify`, as recipients like all others.

use crate::ask::{ContactAsk, DeviceAsk, ProfileAsk, Recipient, Refusal, UserAsk, Who};
use crate::core::{Core, internal, locked, stopped};
use crate::devices::{self, address_hash};
use crate::notify;
use crate::people;
use crate::respect::{self, ConsentAsk};
use fantail_machine::tables::{directory, endpoint, user};
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::ids::{AddressHash, Millis, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::nameless;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Claims are settled within milliseconds; a directory that takes longer is busy.
const CLAIM_MS_MAX: u64 = 5_000;
/// The one endpoint of a user without a name that no profile has.
const DEVICE: &str = "address";

/// An address, where it stands in the request.
struct Wanted<'a> {
    place: usize,
    kind: ChannelKind,
    address: &'a [u8],
    identity: &'a str,
    platform: Platform,
    hash: AddressHash,
    consent: Option<&'a ConsentAsk>,
}

/// Who these are, in their order. `Ok` only after new ones are durable and can be sent to, or may not be.
pub async fn resolve(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    all: &[Who],
) -> Result<Vec<Recipient>, Refusal> {
    let names = all.iter().filter_map(|who| match who {
        Who::User(name) => Some(name.clone()),
        Who::Address { .. } => None,
    });
    let mut named = notify::recipients(core, tenant, &names.collect::<Vec<_>>())?.into_iter();
    let wanted = wanted(core, tenant, all)?;
    let strangers: Vec<&Wanted<'_>> = {
        let mut strangers = Vec::new();
        for one in &wanted {
            match owner(core, tenant, one.hash)? {
                Some(owner) if is_there(core, tenant, one, owner)? => {}
                Some(_) | None => strangers.push(one),
            }
        }
        strangers
    };
    create(core, by, tenant, &strangers).await?;
    let known = wanted.iter().filter(|one| strangers.iter().all(|stranger| stranger.place != one.place));
    for one in known {
        agree(core, by, tenant, one).await?;
    }
    let mut owners = BTreeMap::new();
    let give_up = core.ports.clock.monotonic().plus(CLAIM_MS_MAX);
    for one in &wanted {
        owners.insert(one.place, settled(core, tenant, one, give_up).await?);
    }
    let mut found = Vec::with_capacity(all.len());
    for place in 0..all.len() {
        found.push(match owners.get(&place) {
            Some((shard, user)) => notify::recipient(core, tenant, *shard, *user)?
                .ok_or(Refusal::Busy { retry_after_ms: 100 })?,
            None => named.next().ok_or_else(|| internal("a recipient was lost"))?,
        });
    }
    apart(found)
}

fn wanted<'a>(core: &Core, tenant: TenantId, all: &'a [Who]) -> Result<Vec<Wanted<'a>>, Refusal> {
    let mut wanted = Vec::new();
    for (place, who) in all.iter().enumerate() {
        if let Who::Address { kind, address, identity, platform, consent } = who {
            let hash = address_hash(core, tenant, *kind, identity).map_err(locked)?;
            let (kind, platform, consent) = (*kind, *platform, consent.as_ref());
            wanted.push(Wanted { place, kind, address, identity, platform, hash, consent });
        }
    }
    Ok(wanted)
}

/// Whose an address is.
pub fn owner(
    core: &Core,
    tenant: TenantId,
    address: AddressHash,
) -> Result<Option<(ShardNo, UserNo)>, Refusal> {
    let partition = PartitionId::Directory(core.directory_of(address));
    let row = core.read(partition, |view| directory::find(view.tables(), tenant, address))?;
    Ok(row.owner.map(|owner| (owner.shard, owner.user)))
}

/// Whether the owner of an address can be sent to as it is. One who was deleted a moment ago cannot, though the directory
/// has not heard of it. Neither can a token without a name that was not used for so long that it counts as silent: whoever
/// names it says that it is there. For a user with a name the app has to say so.
fn is_there(
    core: &Core,
    tenant: TenantId,
    one: &Wanted<'_>,
    (shard, user): (ShardNo, UserNo),
) -> Result<bool, Refusal> {
    let name = nameless::name(one.kind, one.identity);
    let lookup = core.ports.keyring.lookup_user(tenant, &name).map_err(locked)?;
    core.read(PartitionId::Shard(shard), |view| {
        let Some(row) = user::find(view.tables(), tenant, user)? else { return Ok(false) };
        if one.kind != ChannelKind::Push || row.lookup != lookup {
            return Ok(true);
        }
        let endpoints = endpoint::of_user(view.tables(), tenant, user)?;
        Ok(!endpoints.iter().any(|found| found.address_hash == one.hash && found.status == Status::Stale))
    })
}

/// A user without a name says what the request says. One with a name is asked elsewhere.
async fn agree(core: &Core, by: &Actor, tenant: TenantId, one: &Wanted<'_>) -> Result<(), Refusal> {
    let Some(consent) = one.consent else { return Ok(()) };
    let name = nameless::name(one.kind, one.identity);
    match respect::consent(core, by, tenant, &name, one.kind, consent.clone()).await {
        Ok(_) | Err(Refusal::UnknownUser { .. }) => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

/// Makes users of addresses that are nobody's.
async fn create(core: &Core, by: &Actor, tenant: TenantId, strangers: &[&Wanted<'_>]) -> Result<(), Refusal> {
    let is_profile = |one: &Wanted<'_>| matches!(one.kind, ChannelKind::Email | ChannelKind::Sms);
    let user = |one: &&Wanted<'_>| {
        let contact = ContactAsk {
            kind: one.kind,
            address: String::from_utf8_lossy(one.address).into_owned(),
            identity: one.identity.to_owned(),
        };
        let contacts = if is_profile(one) { vec![contact] } else { Vec::new() };
        UserAsk {
            user: nameless::name(one.kind, one.identity),
            attributes: b"{}".to_vec(),
            profile: ProfileAsk { contacts, ..ProfileAsk::default() },
        }
    };
    let made = people::put_users(core, by, tenant, strangers.iter().map(user).collect()).await;
    made.into_iter().collect::<Result<Vec<_>, _>>()?;
    for one in strangers.iter().filter(|one| !is_profile(one)) {
        let device = DeviceAsk {
            user: nameless::name(one.kind, one.identity),
            device: DEVICE.to_owned(),
            kind: one.kind,
            platform: one.platform,
            address: one.address.to_vec(),
            identity: one.identity.to_owned(),
            meta: Vec::new(),
            consent: one.consent.cloned(),
        };
        devices::register(core, by, tenant, device).await.map_err(|refusal| match refusal {
            // Deleted since: whoever asks again makes it anew, and its name is for nobody to see.
            Refusal::UnknownUser { .. } => Refusal::Busy { retry_after_ms: 100 },
            other => other,
        })?;
    }
    Ok(())
}

/// Waits until it is known whether the owner of an address may be sent to.
async fn settled(
    core: &Core,
    tenant: TenantId,
    one: &Wanted<'_>,
    give_up: Millis,
) -> Result<(ShardNo, UserNo), Refusal> {
    let name = nameless::name(one.kind, one.identity);
    let home = core.shard_of(core.ports.keyring.lookup_user(tenant, &name).map_err(locked)?);
    loop {
        let found = owner(core, tenant, one.hash)?;
        let shard = PartitionId::Shard(found.map_or(home, |(shard, _)| shard));
        let mut applied = core.applied.get(&shard).ok_or_else(|| stopped("a shard has no leader"))?.clone();
        applied.borrow_and_update();
        if let Some((shard, user)) = owner(core, tenant, one.hash)?
            && !is_pending(core, tenant, (shard, user), one.hash)?
        {
            return Ok((shard, user));
        }
        if core.ports.clock.monotonic() >= give_up {
            return Err(Refusal::Busy { retry_after_ms: 1_000 });
        }
        let mut moved = pin!(applied.changed());
        let mut late = core.ports.tasks.sleep_until(give_up);
        let is_over = poll_fn(|context| match moved.as_mut().poll(context) {
            Poll::Ready(moved) => Poll::Ready(moved.is_err()),
            Poll::Pending => late.as_mut().poll(context).map(|()| false),
        });
        if is_over.await {
            return Err(stopped("the leader has stopped"));
        }
    }
}

fn is_pending(
    core: &Core,
    tenant: TenantId,
    (shard, user): (ShardNo, UserNo),
    address: AddressHash,
) -> Result<bool, Refusal> {
    core.read(PartitionId::Shard(shard), |view| {
        let endpoints = endpoint::of_user(view.tables(), tenant, user)?;
        let found = endpoints.iter().find(|one| one.address_hash == address);
        Ok(found.is_none_or(|one| matches!(one.status, Status::Pending | Status::Released)))
    })
}

/// Two names of one recipient would be one delivery with two contents.
fn apart(found: Vec<Recipient>) -> Result<Vec<Recipient>, Refusal> {
    let mut places = BTreeMap::new();
    for (second, recipient) in found.iter().enumerate() {
        if let Some(first) = places.insert((recipient.shard, recipient.user), second) {
            return Err(Refusal::SameRecipient { first, second });
        }
    }
    Ok(found)
}
