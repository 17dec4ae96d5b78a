//! Folds facts about endpoints.
//!
//! Comes from: `EndpointPut`, `EndpointState`, `EndpointGone` and users who go. Does: keeps pages and the reach column
//! in step. Goes to: those two, and to-do rows for the directory.
//!
//! What must never happen: an endpoint that gives up its address, for whatever reason, without a row that tells the
//! directory; the address would belong to nobody who can be asked to release it.

use super::super::replan;
use crate::columns;
use crate::records::endpoint::{EndpointPut, EndpointState};
use crate::tables::endpoint::{self, Endpoint, OpenPage, Page};
use crate::tables::todo::{Release, Todo};
use crate::tables::usage::{self, Balance};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceNo, Millis, TenantId, UserNo};
use fantail_rules::quota::Resource;
use std::collections::BTreeSet;

pub(in crate::shard) fn apply_put(
    view: &mut View<'_>,
    tenant: TenantId,
    puts: &[EndpointPut],
    at: Millis,
) -> Result<(), TablesError> {
    let mut pages = Pages::new(view, tenant);
    for put in puts {
        let before = pages.page(put.user)?.of_mut(put.user).put(put, at);
        let weight = usage::weight_of_endpoint(put.name.as_ref(), &put.address, put.meta.as_ref());
        pages.balance.add(put.name.as_ref().map(|_| Resource::Devices), weight);
        before.iter().for_each(|before| pages.uncount(before));
        let kept = before.as_ref().is_some_and(|before| before.claim == put.claim);
        if kept {
            continue;
        }
        before.into_iter().for_each(|before| pages.give_up(put.user, &before));
        let claim = Todo::Claim { tenant, user: put.user, device: put.device };
        pages.view.put(claim.key(), claim.value());
    }
    pages.close()
}

pub(in crate::shard) fn apply_state(
    view: &mut View<'_>,
    tenant: TenantId,
    states: &[EndpointState],
) -> Result<(), TablesError> {
    let mut claimed = BTreeSet::new();
    let mut pages = Pages::new(view, tenant);
    for EndpointState { user, device, claim, status } in states.iter().copied() {
        if status == Status::Released {
            let address = AddressHash::default();
            let over = Todo::Release(Release { tenant, user, device, claim, address });
            pages.view.delete(over.key());
        }
        let Some(before) = pages.set_status(user, device, claim, status)? else { continue };
        pages.view.delete(Todo::Claim { tenant, user, device }.key());
        if before.status == Status::Pending && status != Status::Pending {
            claimed.insert(user);
        }
        if matches!(status, Status::Dead | Status::Expired) {
            pages.give_up(user, &before);
        }
    }
    pages.close()?;
    // What waits for the endpoint is due now.
    claimed.into_iter().try_for_each(|user| replan::ask_again(view, tenant, user))
}

pub(in crate::shard) fn apply_gone(
    view: &mut View<'_>,
    tenant: TenantId,
    endpoints: &[(UserNo, DeviceNo)],
) -> Result<(), TablesError> {
    let mut pages = Pages::new(view, tenant);
    for (user, device) in endpoints.iter().copied() {
        let known = pages.page(user)?.of_known(user);
        let before = known.and_then(|known| known.remove(device));
        before.iter().for_each(|before| pages.uncount(before));
        before.into_iter().for_each(|before| pages.give_up(user, &before));
    }
    pages.close()
}

pub(in crate::shard) fn apply_user_gone(
    view: &mut View<'_>,
    tenant: TenantId,
    user: UserNo,
) -> Result<(), TablesError> {
    let mut pages = Pages::new(view, tenant);
    let gone = pages.page(user)?.forget(user);
    let endpoints = gone.into_iter().flat_map(|gone| gone.endpoints);
    endpoints.for_each(|before| {
        pages.uncount(&before);
        pages.give_up(user, &before);
    });
    pages.close()?;
    columns::remove_user(view, tenant, user)
}

/// The page at hand, written back with the reach of the users it touched when another one is needed.
struct Pages<'v, 'a> {
    view: &'v mut View<'a>,
    tenant: TenantId,
    open: Option<OpenPage>,
    touched: BTreeSet<UserNo>,
    balance: Balance,
}

impl<'v, 'a> Pages<'v, 'a> {
    fn new(view: &'v mut View<'a>, tenant: TenantId) -> Self {
        Self { view, tenant, open: None, touched: BTreeSet::new(), balance: Balance::default() }
    }

    /// The page of a user that changes.
    fn page(&mut self, user: UserNo) -> Result<&mut Page, TablesError> {
        let no = endpoint::page_of(user);
        if !self.open.as_ref().is_some_and(|open| open.is(no)) {
            self.write()?;
            self.open = Some(OpenPage::open(self.view, self.tenant, no)?);
        }
        self.touched.insert(user);
        let open = self.open.as_mut().expect("it was opened if it was not");
        Ok(&mut open.page)
    }

    /// Sets the status of a claim that still holds its address; returns the endpoint as it was.
    fn set_status(
        &mut self,
        user: UserNo,
        device: DeviceNo,
        claim: ClaimNo,
        status: Status,
    ) -> Result<Option<Endpoint>, TablesError> {
        let Some(known) = self.page(user)?.of_known(user) else { return Ok(None) };
        let found = known.endpoints.iter_mut().find(|found| found.device == device && found.claim == claim);
        let Some(found) = found.filter(|found| found.status.holds_address()) else { return Ok(None) };
        let before = found.clone();
        found.status = status;
        Ok(Some(before))
    }

    /// The endpoint no longer wants its address: nobody is to be asked for it, somebody is to be told.
    fn give_up(&mut self, user: UserNo, before: &Endpoint) {
        let (tenant, device) = (self.tenant, before.device);
        self.view.delete(Todo::Claim { tenant, user, device }.key());
        if before.status.holds_address() {
            let (claim, address) = (before.claim, before.address_hash);
            let release = Todo::Release(Release { tenant, user, device, claim, address });
            self.view.put(release.key(), release.value());
        }
    }

    /// The tenant has this endpoint no more.
    fn uncount(&mut self, before: &Endpoint) {
        let weight = usage::weight_of_endpoint(before.name.as_ref(), &before.address, before.meta.as_ref());
        self.balance.remove(before.name.as_ref().map(|_| Resource::Devices), weight);
    }

    fn write(&mut self) -> Result<(), TablesError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        open.write(self.view, self.tenant);
        let touched = std::mem::take(&mut self.touched);
        let users = touched.iter().filter_map(|user| open.page.of(*user).map(|state| (*user, state)));
        columns::refresh(self.view, self.tenant, users)
    }

    fn close(mut self) -> Result<(), TablesError> {
        self.write()?;
        self.balance.write(self.view, self.tenant)
    }
}
