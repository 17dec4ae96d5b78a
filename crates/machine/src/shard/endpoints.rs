//! Endpoints: where the users of this shard can be reached.
//!
//! Comes from: the device and user APIs, with names and addresses sealed; the directory, which says whose an address
//! is; providers, which say that nobody is there; housekeeping, when nothing was heard for long.
//! Decides: which device of the user it is, whether the address must be claimed, what became of a claim.
//! Goes to: `EndpointPut`, `EndpointState`, `EndpointGone`, folded into the endpoint pages and the reach column by
//! `endpoints::fold`; a new claim, and one that is over, become to-do rows for the directory.

mod fold;

pub(super) use fold::{apply_gone, apply_put, apply_state, apply_user_gone};

use super::respect::consented;
use super::{Plan, ShardAnswer, users};
use crate::Planned;
use crate::records::endpoint::{EndpointPut, EndpointState};
use crate::records::respect::Consent;
use crate::records::shard::ShardRecord;
use crate::tables::endpoint::{self, Endpoint, UserEndpoints};
use crate::tables::respect;
use crate::tables::todo::{Release, Todo};
use crate::view::View;
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::endpoint::{News, Platform, Status, after};
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceHash, DeviceNo, Lookup, Millis, TenantId, UserNo};
use fantail_rules::limits::{
    ENDPOINT_STATES_PER_RECORD_MAX, ENDPOINTS_PER_RECORD_MAX, ENDPOINTS_PER_USER_MAX, REFRESH_MS_MIN,
};
use std::collections::BTreeMap;

/// The channels whose addresses are part of a user's profile.
const PROFILE: [ChannelKind; 2] = [ChannelKind::Email, ChannelKind::Sms];

/// A device as its producer registers it.
#[derive(Clone, Debug)]
pub struct Registration {
    pub kind: ChannelKind,
    pub platform: Platform,
    pub name_hash: DeviceHash,
    pub name: Option<Sealed>,
    pub address_hash: AddressHash,
    pub address: Sealed,
    pub meta: Option<Sealed>,
    /// More than the address differs from what is stored, as far as the caller saw.
    pub changed: bool,
    /// What the user said about this channel when the device was registered.
    pub consent: Option<Consent>,
}

/// An address of a user's profile.
#[derive(Clone, Debug)]
pub struct Contact {
    pub kind: ChannelKind,
    pub address_hash: AddressHash,
    pub address: Sealed,
}

/// What was heard of one claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    pub user: UserNo,
    pub device: DeviceNo,
    pub claim: ClaimNo,
    pub news: News,
}

/// A profile has one endpoint per channel. Keyed hashes of names never look like this.
fn profile_name(kind: ChannelKind) -> DeviceHash {
    let mut name = [0; 16];
    name[15] = kind as u8;
    DeviceHash(name)
}

/// The user's endpoints that come from the profile.
pub fn is_of_profile(endpoint: &Endpoint) -> bool {
    endpoint.name_hash == profile_name(endpoint.kind)
}

pub(super) fn plan_register(
    view: &View<'_>,
    tenant: TenantId,
    user: Lookup,
    registration: Registration,
    now: Millis,
) -> Result<Plan, TablesError> {
    let Some((user, key)) = users::existing(view, tenant, user)? else {
        return Ok(Planned::nothing(ShardAnswer::UnknownUser));
    };
    if key != registration.address.key {
        return Ok(Planned::nothing(ShardAnswer::Reseal(key)));
    }
    let (channel, consent) = (registration.kind, registration.consent.clone());
    let mut planner = Planner::new(view, tenant);
    let answer = planner.register(user, registration, now)?;
    let mut records = planner.into_records();
    if let Some(consent) = consent.filter(|_| matches!(answer, ShardAnswer::Registered { .. })) {
        let row = respect::find(view, tenant, user)?;
        records.extend(consented(tenant, user, &row, channel, consent));
    }
    Ok(Planned { records, answer })
}

pub(super) fn plan_unregister(
    view: &View<'_>,
    tenant: TenantId,
    user: Lookup,
    device: DeviceHash,
) -> Result<Plan, TablesError> {
    let Some((user, _)) = users::existing(view, tenant, user)? else {
        return Ok(Planned::nothing(ShardAnswer::UnknownUser));
    };
    let state = endpoint::state_of(view, tenant, user)?;
    Ok(match state.by_name(device) {
        None => Planned::nothing(ShardAnswer::UnknownDevice),
        Some(found) => {
            let endpoints = vec![(user, found.device)];
            Planned::one(ShardRecord::EndpointGone { tenant, endpoints }, ShardAnswer::Unregistered)
        }
    })
}

/// What was heard becomes a fact where it still means something: the endpoint has this claim, and it changes.
pub(super) fn plan_hear(view: &View<'_>, tenant: TenantId, heard: &[Heard]) -> Result<Plan, TablesError> {
    let mut states = Vec::new();
    for one in heard {
        states.extend(state_after(view, tenant, *one)?);
    }
    let records = state_records(tenant, &states);
    Ok(Planned { records, answer: ShardAnswer::Noted })
}

/// The fact that news about a claim come to, if they still mean something.
pub fn state_after(
    tables: &dyn Tables,
    tenant: TenantId,
    heard: Heard,
) -> Result<Option<EndpointState>, TablesError> {
    let Heard { user, device, claim, news } = heard;
    let state = |status| EndpointState { user, device, claim, status };
    let found = endpoint::find(tables, tenant, user, device)?.filter(|found| found.claim == claim);
    let changed = found.and_then(|found| after(found.status, found.kind, news));
    if changed.is_none() && news == News::Released {
        let waiting = Todo::Release(Release { tenant, user, device, claim, address: AddressHash::default() });
        return Ok(tables.get(&waiting.key())?.map(|_| state(Status::Released)));
    }
    Ok(changed.map(state))
}

/// Records of a size that apply can bear.
#[must_use]
pub fn state_records(tenant: TenantId, states: &[EndpointState]) -> Vec<ShardRecord> {
    let chunks = states.chunks(ENDPOINT_STATES_PER_RECORD_MAX);
    chunks.map(|states| ShardRecord::EndpointState { tenant, states: states.to_vec() }).collect()
}

pub(super) fn plan_age(
    view: &View<'_>,
    (tenant, page): (TenantId, u64),
    now: Millis,
    pages_max: usize,
) -> Result<Plan, TablesError> {
    let pages = endpoint::pages_from(view, tenant, page, pages_max)?;
    let next = pages.last().filter(|_| pages.len() == pages_max).map(|(page, _)| page + 1);
    let mut states = Vec::new();
    for (no, page) in &pages {
        for (user, state) in page.users(*no) {
            for found in &state.endpoints {
                let news = News::Idle { silent_ms: now.since(found.last_seen) };
                let status = after(found.status, found.kind, news);
                let (device, claim) = (found.device, found.claim);
                states.extend(status.map(|status| EndpointState { user, device, claim, status }));
            }
        }
    }
    Ok(Planned { records: state_records(tenant, &states), answer: ShardAnswer::Aged { next } })
}

/// Decides registration by registration, remembering what the batch itself has changed already.
pub(super) struct Planner<'a> {
    view: &'a View<'a>,
    tenant: TenantId,
    users: BTreeMap<UserNo, UserEndpoints>,
    puts: Vec<EndpointPut>,
    gone: Vec<(UserNo, DeviceNo)>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(view: &'a View<'a>, tenant: TenantId) -> Self {
        Self { view, tenant, users: BTreeMap::new(), puts: Vec::new(), gone: Vec::new() }
    }

    fn state(&mut self, user: UserNo) -> Result<&mut UserEndpoints, TablesError> {
        if !self.users.contains_key(&user) {
            self.users.insert(user, endpoint::state_of(self.view, self.tenant, user)?);
        }
        Ok(self.users.get_mut(&user).expect("it was put there if it was not"))
    }

    /// The addresses of a profile, as it is now. One that it no longer has goes, unless it is `kept` as it is. `false`: there is no room for
    /// one of them, and nothing of the user has changed.
    pub(super) fn put_profile(
        &mut self,
        user: UserNo,
        profile: Vec<Contact>,
        kept: ChannelSet,
    ) -> Result<bool, TablesError> {
        let (before, puts, gone) = (self.state(user)?.clone(), self.puts.len(), self.gone.len());
        let fits = self.change_profile(user, profile, kept)?;
        if !fits {
            self.users.insert(user, before);
            self.puts.truncate(puts);
            self.gone.truncate(gone);
        }
        Ok(fits)
    }

    fn change_profile(
        &mut self,
        user: UserNo,
        profile: Vec<Contact>,
        kept: ChannelSet,
    ) -> Result<bool, TablesError> {
        let wanted = |kind| kept.contains(kind) || profile.iter().any(|contact| contact.kind == kind);
        for kind in PROFILE.into_iter().filter(|kind| !wanted(*kind)) {
            let known = self.state(user)?.by_name(profile_name(kind)).map(|known| known.device);
            known.into_iter().try_for_each(|device| self.remove(user, device))?;
        }
        for Contact { kind, address_hash, address } in profile {
            let registration = Registration {
                kind,
                platform: Platform::None,
                name_hash: profile_name(kind),
                name: None,
                address_hash,
                address,
                meta: None,
                changed: false,
                consent: None,
            };
            // At time zero everything is fresh: an address that is known already is not written again.
            if self.register(user, registration, Millis(0))? == ShardAnswer::TooManyEndpoints {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn register(&mut self, user: UserNo, new: Registration, now: Millis) -> Result<ShardAnswer, TablesError> {
        let known = self.state(user)?.by_name(new.name_hash).cloned();
        let kept = known.as_ref().filter(|known| {
            known.status.holds_address() && known.kind == new.kind && known.address_hash == new.address_hash
        });
        if let Some(kept) = kept {
            let fresh = now.since(kept.last_seen) < REFRESH_MS_MIN && kept.status != Status::Stale;
            let status = kept.status.refreshed();
            let answer = ShardAnswer::Registered { device: kept.device, status, created: false };
            if !fresh || new.changed || kept.platform != new.platform {
                let (device, claim) = (kept.device, kept.claim);
                self.put(user, device, claim, status, new, now)?;
            }
            return Ok(answer);
        }
        let device = match &known {
            Some(known) => known.device,
            None => match self.new_device(user)? {
                Some(device) => device,
                None => return Ok(ShardAnswer::TooManyEndpoints),
            },
        };
        let claim = ClaimNo(self.state(user)?.claims + 1);
        self.put(user, device, claim, Status::Pending, new, now)?;
        Ok(ShardAnswer::Registered { device, status: Status::Pending, created: known.is_none() })
    }

    /// The number of another device. If the user has too many, the longest silent of those that are of no use goes.
    fn new_device(&mut self, user: UserNo) -> Result<Option<DeviceNo>, TablesError> {
        let state = self.state(user)?;
        if state.devices >= DeviceNo::MAX.0 {
            return Ok(None);
        }
        let device = DeviceNo(state.devices + 1);
        if state.endpoints.len() >= ENDPOINTS_PER_USER_MAX {
            let useless = state.endpoints.iter().filter(|known| !known.status.holds_address());
            let Some(oldest) = useless.min_by_key(|known| (known.last_seen, known.device)) else {
                return Ok(None);
            };
            let oldest = oldest.device;
            self.remove(user, oldest)?;
        }
        Ok(Some(device))
    }

    fn put(
        &mut self,
        user: UserNo,
        device: DeviceNo,
        claim: ClaimNo,
        status: Status,
        new: Registration,
        now: Millis,
    ) -> Result<(), TablesError> {
        let Registration { kind, platform, name_hash, name, address_hash, address, meta, .. } = new;
        let put = EndpointPut {
            user,
            device,
            claim,
            status,
            kind,
            platform,
            name_hash,
            name,
            address_hash,
            address,
            meta,
        };
        self.state(user)?.put(&put, now);
        self.puts.push(put);
        Ok(())
    }

    fn remove(&mut self, user: UserNo, device: DeviceNo) -> Result<(), TablesError> {
        self.state(user)?.remove(device);
        self.gone.push((user, device));
        Ok(())
    }

    /// Puts before removals: numbers are never reused, so nothing that was removed is put again.
    pub(super) fn into_records(self) -> Vec<ShardRecord> {
        let tenant = self.tenant;
        let puts = self.puts.chunks(ENDPOINTS_PER_RECORD_MAX);
        let gone = self.gone.chunks(ENDPOINT_STATES_PER_RECORD_MAX);
        let puts = puts.map(|puts| ShardRecord::EndpointPut { tenant, endpoints: puts.to_vec() });
        let gone = gone.map(|gone| ShardRecord::EndpointGone { tenant, endpoints: gone.to_vec() });
        puts.chain(gone).collect()
    }
}
