//! Removes the rows of a deleted tenant from a partition, some at a time.
//!
//! Comes from: the node's tenant deletion. Decides: the next stretch of keys with rows of the tenant. Goes to: a record that names
//! the stretch, so that it stays small however many rows go.
//!
//! Invariant: no row of another tenant goes, and none of the partition itself.

use crate::records::wipe::WipedStretch;
use crate::tables::{Family, Key, read_ordered};
use crate::view::View;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::TenantId;
use std::ops::ControlFlow;

/// What a step removed, and the key to go on from; `None`: the partition was looked at to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wiped {
    pub removed: u64,
    pub next: Option<Vec<u8>>,
}

/// How the keys of a family name their tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// The tenant stands first.
    Tenant,
    /// Eight bytes of time stand before it.
    TimeAndTenant,
    /// Time and tenant are ordered numbers.
    OrderedTimeAndTenant,
    /// The rows are of no tenant, or say that a tenant is deleted.
    Kept,
}

const BY_TIME: [Family; 3] = [Family::Scheduled, Family::ScheduleTimer, Family::WindowTimer];

/// The families in the order in which they go: first what is still to be done, last how far the tenant's arrivals are. A test with
/// a history of every family fails if one is missing.
const FAMILIES: &[Family] = &[
    Family::Todo,
    Family::DirectoryTodo,
    Family::Scheduled,
    Family::ScheduleTimer,
    Family::Timer,
    Family::WindowTimer,
    Family::Work,
    Family::WalkOpen,
    Family::ApiKey,
    Family::Template,
    Family::TemplateVersion,
    Family::TemplateDefinition,
    Family::TemplateFloor,
    Family::Webhook,
    Family::WebhookFailing,
    Family::Category,
    Family::Defaults,
    Family::Segment,
    Family::Provider,
    Family::FirstAccount,
    Family::AccountFloor,
    Family::CallbackSecret,
    Family::Schedule,
    Family::ScheduleStanding,
    Family::Quota,
    Family::Tenant,
    Family::Event,
    Family::Personal,
    Family::Idempotency,
    Family::Size,
    Family::CancellationKey,
    Family::ScheduledCount,
    Family::ScheduledWalks,
    Family::Bulk,
    Family::BulkByList,
    Family::UserByLookup,
    Family::User,
    Family::Follow,
    Family::FollowCount,
    Family::List,
    Family::Taken,
    Family::TakenByUlid,
    Family::TakenLate,
    Family::Pointer,
    Family::PointerList,
    Family::Retracted,
    Family::RetractedByList,
    Family::Flags,
    Family::Marks,
    Family::Destinations,
    Family::EndpointDetails,
    Family::Reach,
    Family::Counts,
    Family::Respect,
    Family::RespectHistory,
    Family::WorkMembers,
    Family::Halted,
    Family::Ledger,
    Family::UnderWay,
    Family::Dead,
    Family::Waiting,
    Family::Tally,
    Family::LaneTally,
    Family::SweptTally,
    Family::Track,
    Family::Told,
    Family::Throttle,
    Family::ThrottleEnd,
    Family::WindowOpen,
    Family::Window,
    Family::WindowItem,
    Family::WindowLatest,
    Family::Digest,
    Family::Storm,
    Family::Walk,
    Family::WalkPart,
    Family::WalkEntry,
    Family::UploadPage,
    Family::Upload,
    Family::Address,
    Family::Erasure,
    Family::ErasureLookup,
    Family::ErasureOf,
    Family::Usage,
    Family::ShardState,
];

/// Families that are not listed are kept.
fn owner(family: Family) -> Owner {
    if BY_TIME.contains(&family) {
        Owner::TimeAndTenant
    } else if family == Family::Timer {
        Owner::OrderedTimeAndTenant
    } else if FAMILIES.contains(&family) {
        Owner::Tenant
    } else {
        Owner::Kept
    }
}

/// The family of a key, if rows of it belong to tenants.
fn family_of(key: &[u8]) -> Option<usize> {
    let first = key.first()?;
    FAMILIES.iter().position(|family| *family as u8 == *first)
}

/// Whose a row is.
fn is_of(family: Family, key: &[u8], tenant: TenantId) -> bool {
    let own = tenant.0.to_be_bytes();
    match owner(family) {
        Owner::Kept => false,
        Owner::Tenant => key.get(1..5) == Some(&own),
        Owner::TimeAndTenant => key.get(9..13) == Some(&own),
        Owner::OrderedTimeAndTenant => {
            let behind_time = key.get(1..).and_then(read_ordered);
            let found = behind_time.and_then(|(_, rest)| read_ordered(rest));
            found.is_some_and(|(found, _)| found == u64::from(tenant.0))
        }
    }
}

/// Keys between which rows of the tenant may stand.
fn range_of(family: Family, tenant: TenantId) -> (Vec<u8>, Vec<u8>) {
    let prefix = match owner(family) {
        Owner::Tenant => Key::new(family, tenant),
        Owner::Kept | Owner::TimeAndTenant | Owner::OrderedTimeAndTenant => Key::of_partition(family),
    };
    (prefix.clone().finish(), prefix.end())
}

/// The next rows from a key on. Looks at so many rows of one family at most, its own and those of others in between.
pub(crate) fn plan(
    tables: &dyn Tables,
    tenant: TenantId,
    from: Option<&[u8]>,
    rows_max: usize,
) -> Result<(Option<WipedStretch>, Wiped), TablesError> {
    let begin = from.and_then(family_of).unwrap_or_default();
    for (place, family) in FAMILIES.iter().copied().enumerate().skip(begin) {
        let (mut low, high) = range_of(family, tenant);
        if let Some(from) = from.filter(|_| place == begin) {
            low = low.max(from.to_vec());
        }
        let (mut own, mut looked_at, mut last) = (0, 0, None);
        tables.scan(KeyRange { from: &low, to: &high }, Order::Ascending, &mut |key, _| {
            own += u64::from(is_of(family, key, tenant));
            looked_at += 1;
            if looked_at < rows_max {
                return ControlFlow::Continue(());
            }
            last = Some([key, &[0]].concat());
            ControlFlow::Break(())
        })?;
        if own == 0 && last.is_none() {
            continue;
        }
        let next = last.clone().or_else(|| FAMILIES.get(place + 1).map(|next| vec![*next as u8]));
        let stretch = WipedStretch { tenant, from: low, to: last.unwrap_or(high) };
        return Ok(((own > 0).then_some(stretch), Wiped { removed: own, next }));
    }
    Ok((None, Wiped { removed: 0, next: None }))
}

/// Deletes the tenant's rows of a stretch, and gives each of them to `each` before.
pub(crate) fn apply(
    view: &mut View<'_>,
    stretch: &WipedStretch,
    mut each: impl FnMut(Family, &[u8], &[u8]) -> Result<(), TablesError>,
) -> Result<(), TablesError> {
    let WipedStretch { tenant, from, to } = stretch;
    let Some(family) = family_of(from).map(|place| FAMILIES[place]) else { return Ok(()) };
    let (low, high) = range_of(family, *tenant);
    let (low, high) = (low.max(from.clone()), high.min(to.clone()));
    let (mut keys, mut failed) = (Vec::new(), Ok(()));
    view.scan(KeyRange { from: &low, to: &high }, Order::Ascending, &mut |key, value| {
        if is_of(family, key, *tenant) {
            failed = each(family, key, value);
            keys.push(key.to_vec());
        }
        if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    failed?;
    keys.into_iter().for_each(|key| view.delete(key));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::Plain;
    use fantail_ports::tables::Changes;
    use std::collections::BTreeSet;

    const GONE: TenantId = TenantId(7);
    const STAYS: TenantId = TenantId(8);

    /// A row of a family, for a tenant, with a number.
    fn key(family: Family, tenant: TenantId, no: u64) -> Vec<u8> {
        match owner(family) {
            Owner::Kept | Owner::Tenant => Key::new(family, tenant).u64(no).finish(),
            Owner::TimeAndTenant => {
                Key::of_partition(family).u64(no).bytes(&tenant.0.to_be_bytes()).bytes(b"x").finish()
            }
            Owner::OrderedTimeAndTenant => {
                Key::of_partition(family).ordered(no).ordered(tenant.0.into()).ordered(no).finish()
            }
        }
    }

    /// Wipes until nothing is left; says how many steps that took and how many rows went.
    fn wipe(plain: &mut Plain, rows_max: usize) -> (usize, u64) {
        let (mut from, mut steps, mut rows) = (None, 0, 0);
        loop {
            let (stretch, wiped) = plan(plain, GONE, from.as_deref(), rows_max).expect("plain tables");
            assert!(wiped.removed <= rows_max as u64);
            let mut changes = Changes::new();
            let mut view = View::new(plain, &[], &mut changes);
            let mut seen = 0;
            stretch.iter().for_each(|stretch| {
                apply(&mut view, stretch, |_, _, _| {
                    seen += 1;
                    Ok(())
                })
                .expect("plain tables");
            });
            assert_eq!(seen, wiped.removed, "a step says what it removes");
            changes.into_keys().for_each(|key| drop(plain.0.remove(&key)));
            (steps, rows) = (steps + 1, rows + wiped.removed);
            match wiped.next {
                Some(next) => from = Some(next),
                None => return (steps, rows),
            }
        }
    }

    #[test]
    fn every_row_of_the_tenant_goes_and_no_other() {
        for rows_max in [1, 3, 1_000] {
            let mut plain = Plain::default();
            let kept = [Family::Layout, Family::TenantEnd, Family::FrontState, Family::TakenFrom];
            for no in 0..5 {
                for family in FAMILIES.iter().chain(&kept) {
                    plain.0.insert(key(*family, GONE, no), vec![1]);
                    plain.0.insert(key(*family, STAYS, no), vec![2]);
                }
            }
            let others: usize = plain.0.values().filter(|value| **value == [2]).count();
            let (_, rows) = wipe(&mut plain, rows_max);
            assert_eq!(rows, 5 * FAMILIES.len() as u64);
            assert_eq!(plain.0.values().filter(|value| **value == [2]).count(), others);
            let left: BTreeSet<u8> =
                plain.0.iter().filter(|(_, value)| **value == [1]).map(|(key, _)| key[0]).collect();
            assert_eq!(left, kept.iter().map(|family| *family as u8).collect());
            assert_eq!(wipe(&mut plain, rows_max).1, 0, "a second time there is nothing");
        }
    }

    #[test]
    fn every_family_is_listed_once() {
        let listed: BTreeSet<u8> = FAMILIES.iter().map(|family| *family as u8).collect();
        assert_eq!(listed.len(), FAMILIES.len());
        assert!(FAMILIES.iter().all(|family| owner(*family) != Owner::Kept));
    }

    #[test]
    fn a_stretch_that_is_too_wide_takes_no_row_of_others() {
        let mut plain = Plain::default();
        for family in [Family::User, Family::Ledger, Family::Scheduled] {
            plain.0.insert(key(family, STAYS, 1), vec![2]);
        }
        for (from, to) in
            [(vec![], vec![0xff; 9]), (vec![Family::User as u8], vec![0xff; 9]), (vec![0xff], vec![])]
        {
            let mut changes = Changes::new();
            let mut view = View::new(&plain, &[], &mut changes);
            let stretch = WipedStretch { tenant: GONE, from, to };
            apply(&mut view, &stretch, |_, _, _| Ok(())).expect("plain tables");
            assert!(changes.is_empty());
        }
    }
}
