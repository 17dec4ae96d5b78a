//! Where users can be reached by a channel, and what a delivery does whose endpoint is not active yet.
//!
//! Comes from: `gate`, user by user, and `wake`. Decides: which endpoints are in a parcel, and how long a delivery to one of
//! them waits while the directory decides about its address. Goes to: members of parcels, and `Defer` verdicts.
//!
//! Invariant: a delivery to a pending endpoint ends by itself, after [`ENDPOINT_WAIT_MS`] or with its time to live.

use super::gate::Decision;
use super::intend::{ADDRESS_SUPPRESSED, ENDPOINT_GONE, NO_ENDPOINT};
use super::outcome::round_up;
use crate::columns::Reach;
use crate::parcel::Member;
use crate::tables::endpoint::{self, Endpoint};
use crate::tables::ledger::{LedgerRow, Standing};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::Step;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::gates::Reason;
use fantail_rules::ids::{DeviceNo, Millis, TenantId, UserNo};
use fantail_rules::limits::ENDPOINT_WAIT_MS;

/// A timer that fires later than this after its time says that the server was stopped or behind: the directory was too.
const LATE_MS: u64 = 10_000;

/// The endpoints of one user by one channel.
#[derive(Default)]
pub(super) struct Reachable {
    /// Ascending.
    pub active: Vec<DeviceNo>,
    /// Their addresses are still being claimed. Ascending.
    pub pending: Vec<DeviceNo>,
    /// Some endpoint of the user, by whichever channel, is on the suppression list.
    has_suppressed: bool,
}

impl Reachable {
    /// Reads the user's endpoints only if the column does not tell.
    pub(super) fn of(
        view: &View<'_>,
        tenant: TenantId,
        (user, reach): (UserNo, &Reach),
        channel: ChannelKind,
    ) -> Result<Self, TablesError> {
        if !reach.has_more() && !reach.is_pending(channel) {
            let mut active: Vec<DeviceNo> = reach.endpoints(channel).collect();
            active.sort_unstable();
            return Ok(Self { active, pending: Vec::new(), has_suppressed: reach.is_suppressed() });
        }
        let mut all = endpoint::of_user(view, tenant, user)?;
        all.retain(|one| one.kind == channel);
        all.sort_unstable_by_key(|one| one.device);
        let with =
            |status| all.iter().filter(move |one| one.status == status).map(|one| one.device).collect();
        let has_suppressed = reach.is_suppressed();
        Ok(Self { active: with(Status::Active), pending: with(Status::Pending), has_suppressed })
    }

    /// Why nothing is sent to a device that is not here; device 0 stands for all of the channel.
    pub(super) fn missing(
        &self,
        view: &View<'_>,
        (tenant, user): (TenantId, UserNo),
        channel: ChannelKind,
        device: DeviceNo,
    ) -> Result<&'static str, TablesError> {
        let is_any = device == DeviceNo(0);
        // Few users have any: for the others no row is read.
        let all = if self.has_suppressed { endpoint::of_user(view, tenant, user)? } else { Vec::new() };
        let is_meant = |one: &Endpoint| one.kind == channel && (is_any || one.device == device);
        let is_suppressed = |one: &Endpoint| is_meant(one) && one.status == Status::Suppressed;
        Ok(match all.iter().any(is_suppressed) {
            true => ADDRESS_SUPPRESSED,
            false if is_any => NO_ENDPOINT,
            false => ENDPOINT_GONE,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.pending.is_empty()
    }

    pub(super) fn is_pending(&self, device: DeviceNo) -> bool {
        self.pending.contains(&device)
    }

    /// Active or pending.
    pub(super) fn has(&self, device: DeviceNo) -> bool {
        self.active.contains(&device) || self.is_pending(device)
    }

    /// All of them, ascending.
    pub(super) fn all(&self) -> Vec<DeviceNo> {
        let mut all = self.active.clone();
        if !self.pending.is_empty() {
            all.extend(&self.pending);
            all.sort_unstable();
        }
        all
    }
}

/// A delivery that is allowed, to an endpoint that is pending when it is planned.
pub(super) fn waits(now: Millis, expires_at: Millis) -> Decision {
    let due = round_up(now.plus(ENDPOINT_WAIT_MS), now).min(expires_at);
    Decision { due, ..Decision::plain(Step::Defer, Reason::EndpointPending.word()) }
}

/// The same when its time has come and the endpoint is still pending: it waits on, or there is no endpoint.
pub(super) fn waits_on(ledger: &LedgerRow, standing: &Standing, now: Millis) -> Decision {
    let expires_at = ledger.terms.expires_at;
    let until = round_up(ledger.begun.plus(ENDPOINT_WAIT_MS), ledger.begun);
    let is_late = now.since(standing.due) > LATE_MS;
    if !is_for_endpoint(standing) || is_late {
        return waits(now, expires_at);
    }
    if now < until {
        return Decision { due: until.min(expires_at), ..waits(now, expires_at) };
    }
    Decision::plain(Step::Suppress, NO_ENDPOINT)
}

/// Whether a member waits for an endpoint that is still pending: no change of preferences helps it.
pub(super) fn is_held(
    view: &View<'_>,
    tenant: TenantId,
    member: Member,
    standing: &Standing,
) -> Result<bool, TablesError> {
    if !is_for_endpoint(standing) {
        return Ok(false);
    }
    let found = endpoint::find(view, tenant, member.user, member.device)?;
    Ok(found.is_some_and(|one| one.status == Status::Pending))
}

/// Whether a member waits for its endpoint.
pub(super) fn is_for_endpoint(standing: &Standing) -> bool {
    standing.code == Reason::EndpointPending.word()
}
