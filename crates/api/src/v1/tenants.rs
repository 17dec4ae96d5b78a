//! Tenants: made and listed by the server's admin key, changed also by their own admin keys.

use crate::auth;
use crate::call::Call;
use crate::check::{Faults, display_name_fault, slug_fault};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_node::Node;
use fantail_node::ask::{self, Rate, Resource, TenantAsk, TenantPatch, TenantView};
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{PRODUCER_RATE_MAX, TIER_UP_MIN};
use fantail_wire::code::Code;
use fantail_wire::tenant::{Quota, RateLimit, Tenant, TenantChange, TenantCreate, Tenants, Usage};

pub const RETENTION_DAYS_MAX: u32 = 3_650;

pub async fn create(call: Call) -> Result<Reply, Problem> {
    let request: TenantCreate = call.json()?;
    let name = request.name.unwrap_or_else(|| request.slug.clone());
    let mut faults = Faults::default();
    faults.add_some(Pointer::ROOT.key("slug"), slug_fault(&request.slug));
    faults.add_some(Pointer::ROOT.key("name"), display_name_fault(&name));
    faults.into_result()?;
    let tenant = call.node.create_tenant(TenantAsk { slug: request.slug, name }).await?;
    Ok(Reply::json(201, &shown(&call.node, tenant)))
}

pub async fn list(call: Call) -> Result<Reply, Problem> {
    let tenants = call.node.tenants().into_iter().map(|tenant| shown(&call.node, tenant)).collect();
    Ok(Reply::json(200, &Tenants { tenants }))
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    match call.node.tenant(tenant) {
        Some(tenant) => Ok(Reply::json(200, &shown(&call.node, tenant))),
        None => Err(Problem::new(Code::UnknownTenant, "no such tenant")),
    }
}

pub async fn change(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let patch = patch_of(call.json()?)?;
    if patch.rate.is_some() || patch.quota.is_some() {
        auth::require_server(&call.caller)?;
    }
    let tenant = call.node.patch_tenant(tenant, patch).await?;
    Ok(Reply::json(200, &shown(&call.node, tenant)))
}

fn patch_of(request: TenantChange) -> Result<TenantPatch, Problem> {
    let mut faults = Faults::default();
    if let Some(name) = &request.name {
        faults.add_some(Pointer::ROOT.key("name"), display_name_fault(name));
    }
    if request.celebrity_threshold.is_some_and(|threshold| threshold < TIER_UP_MIN) {
        faults.add(Pointer::ROOT.key("celebrityThreshold"), format!("must be at least {TIER_UP_MIN}"));
    }
    if request.retention_days.is_some_and(|days| !(1..=RETENTION_DAYS_MAX).contains(&days)) {
        faults.add(Pointer::ROOT.key("retentionDays"), format!("must be 1 to {RETENTION_DAYS_MAX}"));
    }
    let rate = rate_of(request.rate_limit, Pointer::ROOT.key("rateLimit"), &mut faults);
    faults.into_result()?;
    Ok(TenantPatch {
        name: request.name,
        tier_up: request.celebrity_threshold,
        retention_days: request.retention_days,
        rate,
        quota: request.quota.map(quota_of),
    })
}

fn quota_of(limits: Quota) -> ask::Quota {
    let Quota { users, devices, schedules, waiting, stored_bytes } = limits;
    ask::Quota::default()
        .with(Resource::Users, users)
        .with(Resource::Devices, devices)
        .with(Resource::Schedules, schedules)
        .with(Resource::Waiting, waiting)
        .with(Resource::StoredBytes, stored_bytes)
}

/// One second's worth is the burst of a rate that does not name one.
pub fn rate_of(limit: Option<RateLimit>, at: Pointer<'_>, faults: &mut Faults) -> Option<Rate> {
    let RateLimit { per_second, burst } = limit?;
    let (is_given, burst) = (burst.is_some(), burst.unwrap_or(per_second));
    if per_second > PRODUCER_RATE_MAX {
        faults.add(at.key("perSecond"), format!("must be at most {PRODUCER_RATE_MAX}"));
    }
    if burst > PRODUCER_RATE_MAX || (burst == 0 && (per_second > 0 || is_given)) {
        faults.add(at.key("burst"), format!("must be 1 to {PRODUCER_RATE_MAX}"));
    }
    Some(Rate { per_second, burst })
}

pub fn rate_shown(rate: Rate) -> RateLimit {
    RateLimit { per_second: rate.per_second, burst: Some(rate.burst).filter(|burst| *burst > 0) }
}

fn shown(node: &Node, tenant: TenantView) -> Tenant {
    let usage = node.usage(tenant.id);
    let limit = |resource| tenant.quota.limit(node.quota_defaults(), resource);
    let quota = Quota {
        users: limit(Resource::Users),
        devices: limit(Resource::Devices),
        schedules: limit(Resource::Schedules),
        waiting: limit(Resource::Waiting),
        stored_bytes: limit(Resource::StoredBytes),
    };
    Tenant {
        slug: tenant.slug,
        name: tenant.name,
        celebrity_threshold: tenant.tier_up,
        retention_days: tenant.retention_days,
        rate_limit: tenant.rate.map(rate_shown),
        quota,
        usage: Usage {
            users: usage.of(Resource::Users),
            devices: usage.of(Resource::Devices),
            schedules: usage.of(Resource::Schedules),
            waiting: usage.of(Resource::Waiting),
            stored_bytes: usage.of(Resource::StoredBytes),
        },
        created_at: time::text(tenant.created_at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_bounds() {
        let change = |celebrity_threshold, retention_days| TenantChange {
            name: None,
            celebrity_threshold,
            retention_days,
            rate_limit: None,
            quota: None,
        };
        for (threshold, days, pointer) in [
            (None, None, None),
            (Some(TIER_UP_MIN), Some(1), None),
            (Some(u32::MAX), Some(RETENTION_DAYS_MAX), None),
            (Some(TIER_UP_MIN - 1), None, Some("/celebrityThreshold")),
            (None, Some(0), Some("/retentionDays")),
            (None, Some(RETENTION_DAYS_MAX + 1), Some("/retentionDays")),
        ] {
            let found =
                patch_of(change(threshold, days)).err().map(|problem| problem.errors[0].pointer.clone());
            assert_eq!(found.as_deref(), pointer);
        }
    }

    #[test]
    fn rates_have_bounds() {
        let most = PRODUCER_RATE_MAX;
        for (per_second, burst, expected) in [
            (0, None, Ok((0, 0))),
            (5, None, Ok((5, 5))),
            (5, Some(1), Ok((5, 1))),
            (most, Some(most), Ok((most, most))),
            (5, Some(0), Err("/burst")),
            (0, Some(0), Err("/burst")),
            (5, Some(most + 1), Err("/burst")),
            (most + 1, Some(1), Err("/perSecond")),
        ] {
            let mut faults = Faults::default();
            let rate = rate_of(Some(RateLimit { per_second, burst }), Pointer::ROOT, &mut faults);
            let found = match faults.into_result() {
                Ok(()) => Ok(rate.map(|rate| (rate.per_second, rate.burst)).expect("a rate")),
                Err(problem) => Err(problem.errors[0].pointer.clone()),
            };
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }
}
