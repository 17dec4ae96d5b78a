//! Throttles: one of a kind for each user, then none for a while.
//!
//! Comes from: `gate`, which asks what users got lately, and `intend` and `wake` with those who may get something now.
//! Decides: nothing itself, `rules::throttle` does. Goes to: `Spaced`, right before the Intend or Wake that authorises, so that what
//! was allowed is never forgotten and never counted without being allowed; and `Lapsed`, for what holds nobody back any more.

use super::serve::Known;
use crate::records::shard::ShardRecord;
use crate::records::throttle::{Lapsed, Spaced, ThrottleRecord};
use crate::tables::throttle;
use crate::tables::work::{Terms, WorkId};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, TenantId, UserNo};
use fantail_rules::throttle::Latest;

/// What of a work is of one kind, and what a delivery of it leaves behind; `None` if its category is not throttled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Throttling {
    pub kind: u64,
    pub latest: Latest,
}

impl Throttling {
    pub(super) fn of(work: WorkId, terms: Terms, known: Known<'_>) -> Option<Self> {
        let said = known.policies.of(work.tenant, terms.category).throttle.as_ref()?;
        let latest = Latest::of(work.arrival, known.now, said.per_seconds);
        // Without a key all of the category is of one kind.
        Some(Self { kind: terms.kind.unwrap_or(terms.category.0), latest })
    }

    /// What these users, who ascend, got lately of this kind.
    pub(super) fn read(
        self,
        view: &View<'_>,
        tenant: TenantId,
        users: &[UserNo],
    ) -> Result<Vec<Option<Latest>>, TablesError> {
        throttle::read(view, tenant, self.kind, users)
    }

    /// That these users, who ascend, may get it.
    pub(super) fn spaced(self, tenant: TenantId, users: Vec<UserNo>) -> Option<ShardRecord> {
        let Self { kind, latest } = self;
        let spaced = Spaced { tenant, kind, latest, users };
        let is_any = !spaced.users.is_empty();
        is_any.then_some(ShardRecord::Throttle(ThrottleRecord::Spaced(spaced)))
    }
}

/// What of a tenant's throttles is over, on so many pages of two rows each.
pub(super) fn plan_lapsed(
    view: &View<'_>,
    tenant: TenantId,
    now: Millis,
    pages_max: usize,
) -> Result<Option<ShardRecord>, TablesError> {
    let pages = throttle::lapsed(view, tenant, now, pages_max)?;
    let is_any = !pages.is_empty();
    Ok(is_any.then_some(ShardRecord::Throttle(ThrottleRecord::Lapsed(Lapsed { tenant, pages }))))
}

pub(super) fn apply(view: &mut View<'_>, record: &ThrottleRecord, at: Millis) -> Result<(), TablesError> {
    match record {
        ThrottleRecord::Spaced(Spaced { tenant, kind, latest, users }) => {
            throttle::keep(view, (*tenant, *kind), users, *latest, at)
        }
        ThrottleRecord::Lapsed(Lapsed { tenant, pages }) => {
            pages.iter().for_each(|page| throttle::forget(view, *tenant, *page));
            Ok(())
        }
    }
}
