//! Where users can be reached: devices, the addresses of profiles, and what may not be sent to.
//!
//! Comes from: the device, user and suppression APIs. Does: hashes and seals names and addresses, asks the user's
//! shard, opens them again for those who may read them. An answer means durable; whose the address is, the directory
//! says a moment later (`claims`). Goes to: `machine::shard::endpoints`, `machine::directory`.

use crate::ask::{
    Channel, ContactAsk, DeviceAsk, DeviceView, Refusal, Registered, SuppressionAsk, SuppressionView,
};
use crate::cancel::{give_up_at, until};
use crate::core::{Core, answer, internal, locked};
use crate::node::Node;
use crate::people::locate;
use crate::quotas;
use fantail_machine::directory::{DirectoryAnswer, DirectoryAsk, is_told};
use fantail_machine::shard::endpoints::{Contact, Registration, is_of_profile};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::endpoint::Endpoint;
use fantail_machine::tables::{directory, endpoint, usage, user};
use fantail_ports::keyring::{Context, KeyringError, Sealed};
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{AddressHash, DeviceHash, KeyNo, Lookup, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::limits::ENDPOINTS_PER_USER_MAX;
use fantail_rules::quota::{Amounts, Resource};
use fantail_rules::suppression::Reason;

/// Attempts to seal a device under the right key: the user may be deleted and made again in between.
const RESEALS_MAX: usize = 16;

impl Node {
    /// `Ok` only after it is durable. The device is used once its address is known to be this user's alone.
    pub async fn register_device(&self, tenant: TenantId, ask: DeviceAsk) -> Result<Registered, Refusal> {
        register(&self.core, &self.by, tenant, ask).await
    }

    pub async fn devices(&self, tenant: TenantId, user: &str) -> Result<Vec<DeviceView>, Refusal> {
        devices(&self.core, tenant, user)
    }

    pub async fn unregister_device(&self, tenant: TenantId, user: &str, device: &str) -> Result<(), Refusal> {
        unregister(&self.core, &self.by, tenant, user, device).await
    }

    /// From the answer on, nothing more is planned for this address within moments, whoever has it.
    /// Says whether the owner's shard has taken it; otherwise it will. A stronger reason that it has already stays.
    pub async fn suppress(
        &self,
        tenant: TenantId,
        ask: &SuppressionAsk,
        reason: Reason,
    ) -> Result<bool, Refusal> {
        suppress(&self.core, &self.by, tenant, ask, reason).await
    }

    pub async fn unsuppress(&self, tenant: TenantId, ask: &SuppressionAsk) -> Result<(), Refusal> {
        unsuppress(&self.core, &self.by, tenant, ask).await
    }

    /// A recipient answered START: lifts a STOP and nothing else.
    pub async fn start_address(&self, tenant: TenantId, ask: &SuppressionAsk) -> Result<(), Refusal> {
        let address = suppressed_hash(&self.core, tenant, ask)?;
        let start = DirectoryAsk::Start { tenant, address };
        tell_directory(&self.core, &self.by, tenant, address, start).await.map(drop)
    }

    pub async fn suppression(
        &self,
        tenant: TenantId,
        ask: &SuppressionAsk,
    ) -> Result<SuppressionView, Refusal> {
        suppression(&self.core, tenant, ask)
    }
}

pub async fn register(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    ask: DeviceAsk,
) -> Result<Registered, Refusal> {
    core.require_tenant(tenant)?;
    let lookup = core.ports.keyring.lookup_user(tenant, &ask.user).map_err(locked)?;
    let name_hash = device_hash(core, tenant, &ask.device)?;
    let unknown = || Refusal::UnknownUser { user: ask.user.clone() };
    for _ in 0..RESEALS_MAX {
        let (key, known) = known(core, tenant, lookup, name_hash)?.ok_or_else(unknown)?;
        let registration = match seal(core, tenant, key, &ask, name_hash, known.as_ref()) {
            Ok(registration) => registration,
            Err(KeyringError::NoKey { .. }) => return Err(unknown()),
            Err(failed) => return Err(locked(failed)),
        };
        let _claim = quotas::claim(core, tenant, added_by(&registration, known.as_ref()))?;
        let bytes = registration.address.bytes.len() + 512;
        let registration = Box::new(registration);
        let ask_shard = ShardAsk::Register { tenant, user: lookup, registration };
        let queue = &core.shard(core.shard_of(lookup)).queue;
        match answer(queue.push(tenant, by, vec![ask_shard], bytes)).await? {
            ShardAnswer::Registered { status, created, .. } => return Ok(Registered { status, created }),
            ShardAnswer::Reseal(_) => {}
            ShardAnswer::UnknownUser => return Err(unknown()),
            ShardAnswer::TooManyEndpoints => {
                return Err(Refusal::TooManyEndpoints { user: ask.user, limit: ENDPOINTS_PER_USER_MAX });
            }
            _ => return Err(internal("the shard answered something else")),
        }
    }
    Err(Refusal::Busy { retry_after_ms: 100 })
}

/// A new device, or what a known one grows by.
fn added_by(new: &Registration, known: Option<&Endpoint>) -> Amounts {
    let bytes = usage::weight_of_endpoint(new.name.as_ref(), &new.address, new.meta.as_ref());
    match known {
        Some(old) => {
            let before = usage::weight_of_endpoint(old.name.as_ref(), &old.address, old.meta.as_ref());
            quotas::adds(None, bytes.saturating_sub(before))
        }
        None => quotas::adds(Some(Resource::Devices), bytes),
    }
}

/// The user's key, and the device if it is known.
fn known(
    core: &Core,
    tenant: TenantId,
    lookup: Lookup,
    name: DeviceHash,
) -> Result<Option<(KeyNo, Option<Endpoint>)>, Refusal> {
    core.read(PartitionId::Shard(core.shard_of(lookup)), |view| {
        let Some(number) = user::number(view.tables(), tenant, lookup)? else { return Ok(None) };
        let Some(row) = user::find(view.tables(), tenant, number)? else { return Ok(None) };
        let known = endpoint::state_of(view.tables(), tenant, number)?.by_name(name).cloned();
        Ok(Some((row.id.key, known)))
    })
}

fn seal(
    core: &Core,
    tenant: TenantId,
    key: KeyNo,
    ask: &DeviceAsk,
    name_hash: DeviceHash,
    known: Option<&Endpoint>,
) -> Result<Registration, KeyringError> {
    let keyring = &core.ports.keyring;
    let meta = (!ask.meta.is_empty()).then_some(&ask.meta);
    let told = known.and_then(|known| known.meta.as_ref());
    let told = told.and_then(|meta| keyring.open(tenant, Context::DeviceMeta, meta).ok());
    let changed = told.as_ref() != meta || known.is_some_and(|known| known.platform != ask.platform);
    Ok(Registration {
        kind: ask.kind,
        platform: ask.platform,
        name_hash,
        name: Some(keyring.seal(tenant, key, Context::DeviceName, ask.device.as_bytes())?),
        address_hash: address_hash(core, tenant, ask.kind, &ask.identity)?,
        address: keyring.seal(tenant, key, Context::Address, &ask.address)?,
        meta: meta.map(|meta| keyring.seal(tenant, key, Context::DeviceMeta, meta)).transpose()?,
        changed,
        consent: ask.consent.clone().map(|consent| consent.at(core.ports.clock.wall())),
    })
}

/// Seals the addresses of a profile under the user's key.
pub fn seal_contacts(
    core: &Core,
    tenant: TenantId,
    key: KeyNo,
    contacts: &[ContactAsk],
) -> Result<Vec<Contact>, KeyringError> {
    let seal = |contact: &ContactAsk| {
        Ok(Contact {
            kind: contact.kind,
            address_hash: address_hash(core, tenant, contact.kind, &contact.identity)?,
            address: core.ports.keyring.seal(tenant, key, Context::Address, contact.address.as_bytes())?,
        })
    };
    contacts.iter().map(seal).collect()
}

pub async fn unregister(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    name: &str,
    device: &str,
) -> Result<(), Refusal> {
    core.require_tenant(tenant)?;
    let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
    let hash = device_hash(core, tenant, device)?;
    let ask = ShardAsk::Unregister { tenant, user: lookup, device: hash };
    match answer(core.shard(core.shard_of(lookup)).queue.push(tenant, by, vec![ask], 64)).await? {
        ShardAnswer::Unregistered => Ok(()),
        ShardAnswer::UnknownUser => Err(Refusal::UnknownUser { user: name.to_owned() }),
        _ => Err(Refusal::UnknownDevice { device: device.to_owned() }),
    }
}

/// The devices that were registered for a user, whatever became of them.
pub fn devices(core: &Core, tenant: TenantId, name: &str) -> Result<Vec<DeviceView>, Refusal> {
    let endpoints = of_user(core, tenant, name)?;
    let devices = endpoints.iter().filter(|endpoint| !is_of_profile(endpoint));
    Ok(devices.map(|endpoint| view(core, tenant, endpoint)).collect())
}

fn of_user(core: &Core, tenant: TenantId, name: &str) -> Result<Vec<Endpoint>, Refusal> {
    let (shard, number) = locate(core, tenant, name)?;
    core.read(PartitionId::Shard(shard), |view| endpoint::of_user(view.tables(), tenant, number))
}

fn view(core: &Core, tenant: TenantId, endpoint: &Endpoint) -> DeviceView {
    let name = endpoint.name.as_ref().and_then(|name| open(core, tenant, Context::DeviceName, name));
    let meta = endpoint.meta.as_ref().and_then(|meta| open(core, tenant, Context::DeviceMeta, meta));
    DeviceView {
        device: name.and_then(|name| String::from_utf8(name).ok()).unwrap_or_default(),
        kind: endpoint.kind,
        platform: endpoint.platform,
        meta: meta.unwrap_or_default(),
        status: endpoint.status,
        registered_at: endpoint.registered,
        last_seen_at: endpoint.last_seen,
    }
}

/// Whether and where a user can be reached: the profile's addresses opened, devices only counted. An address that belongs
/// to another user by now is not shown.
pub fn channels(
    core: &Core,
    tenant: TenantId,
    user: (ShardNo, UserNo),
    endpoints: &[Endpoint],
) -> Result<Vec<Channel>, Refusal> {
    let channel = |endpoint: &Endpoint| {
        let is_shown = is_of_profile(endpoint) && !is_anothers(core, tenant, user, endpoint)?;
        let address = is_shown.then(|| open(core, tenant, Context::Address, &endpoint.address)).flatten();
        let address = address.and_then(|address| String::from_utf8(address).ok());
        Ok(Channel { kind: endpoint.kind, status: endpoint.status, address })
    };
    endpoints.iter().map(channel).collect()
}

/// Whether an address that an endpoint gave up belongs to another user.
fn is_anothers(
    core: &Core,
    tenant: TenantId,
    (shard, user): (ShardNo, UserNo),
    endpoint: &Endpoint,
) -> Result<bool, Refusal> {
    match endpoint.status {
        Status::Pending | Status::Active | Status::Stale | Status::Suppressed => Ok(false),
        Status::Released => Ok(true),
        Status::Dead | Status::Expired => {
            let partition = PartitionId::Directory(core.directory_of(endpoint.address_hash));
            let row =
                core.read(partition, |view| directory::find(view.tables(), tenant, endpoint.address_hash))?;
            Ok(row.owner.is_some_and(|owner| (owner.shard, owner.user) != (shard, user)))
        }
    }
}

/// A destroyed key hides what it sealed; that is its purpose.
fn open(core: &Core, tenant: TenantId, context: Context, sealed: &Sealed) -> Option<Vec<u8>> {
    core.ports.keyring.open(tenant, context, sealed).ok()
}

pub async fn suppress(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    ask: &SuppressionAsk,
    reason: Reason,
) -> Result<bool, Refusal> {
    let address = suppressed_hash(core, tenant, ask)?;
    suppress_address(core, by, tenant, address, reason).await?;
    until_told(core, tenant, address).await
}

/// Whether the owner's shard has taken the suppression of an address, waited for as long as a request may take.
async fn until_told(core: &Core, tenant: TenantId, address: AddressHash) -> Result<bool, Refusal> {
    let partition = PartitionId::Directory(core.directory_of(address));
    let is_told = || core.read(partition, |view| is_told(view.tables(), tenant, address));
    until(core, partition, give_up_at(core), is_told).await
}

/// Says whether it was not suppressed before, or for a weaker reason.
pub async fn suppress_address(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    address: AddressHash,
    reason: Reason,
) -> Result<bool, Refusal> {
    let ask = DirectoryAsk::Suppress { tenant, address, reason };
    match tell_directory(core, by, tenant, address, ask).await? {
        DirectoryAnswer::Suppressed { changed } => Ok(changed),
        DirectoryAnswer::Unsuppressed
        | DirectoryAnswer::NotSuppressed
        | DirectoryAnswer::Claims(_)
        | DirectoryAnswer::Noted => Err(internal("the directory answered something else")),
    }
}

pub async fn unsuppress(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    ask: &SuppressionAsk,
) -> Result<(), Refusal> {
    let address = suppressed_hash(core, tenant, ask)?;
    match tell_directory(core, by, tenant, address, DirectoryAsk::Unsuppress { tenant, address }).await? {
        DirectoryAnswer::NotSuppressed => Err(Refusal::NotSuppressed),
        DirectoryAnswer::Unsuppressed
        | DirectoryAnswer::Suppressed { .. }
        | DirectoryAnswer::Claims(_)
        | DirectoryAnswer::Noted => Ok(()),
    }
}

pub fn suppression(core: &Core, tenant: TenantId, ask: &SuppressionAsk) -> Result<SuppressionView, Refusal> {
    let address = suppressed_hash(core, tenant, ask)?;
    let partition = PartitionId::Directory(core.directory_of(address));
    let row = core.read(partition, |view| directory::find(view.tables(), tenant, address))?;
    let found = row.suppression.ok_or(Refusal::NotSuppressed)?;
    Ok(SuppressionView { reason: found.reason, since: found.since })
}

async fn tell_directory(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    address: AddressHash,
    ask: DirectoryAsk,
) -> Result<DirectoryAnswer, Refusal> {
    answer(core.directory(core.directory_of(address)).queue.push(tenant, by, vec![ask], 64)).await
}

fn suppressed_hash(core: &Core, tenant: TenantId, ask: &SuppressionAsk) -> Result<AddressHash, Refusal> {
    core.require_tenant(tenant)?;
    address_hash(core, tenant, ask.kind, &ask.identity).map_err(locked)
}

/// Texts of different meaning that are hashed with one key begin differently.
pub fn address_hash(
    core: &Core,
    tenant: TenantId,
    kind: ChannelKind,
    identity: &str,
) -> Result<AddressHash, KeyringError> {
    let text = [b"address\0", kind.name().as_bytes(), b"\0", identity.as_bytes()].concat();
    core.ports.keyring.digest(tenant, &text).map(AddressHash)
}

fn device_hash(core: &Core, tenant: TenantId, device: &str) -> Result<DeviceHash, Refusal> {
    let text = [b"device\0", device.as_bytes()].concat();
    core.ports.keyring.digest(tenant, &text).map(DeviceHash).map_err(locked)
}
