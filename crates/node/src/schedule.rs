//! What is to happen later, or not at all.
//!
//! Comes from: the clock, and producers who change their minds. Does: has each front release what is due, and finds what
//! was accepted under a cancellation key. Goes to: `machine::front::release`, and to `accept::cancel` one by one.
//!
//! What must never happen: a release that depends on memory. The front's rows say what is due; the bell only says that
//! one may have come in that is due earlier.

use crate::ask::{Called, Refusal};
use crate::backoff::Backoff;
use crate::core::{Core, answer, answers, internal, locked};
use crate::deliveries;
use crate::take::HOUSE;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::tables::scheduled;
use fantail_ports::keyring::Keyring;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{FrontNo, PartitionId, TenantId};
use std::sync::Arc;

/// The clock may be set, so nothing is slept over for longer.
const SLEEP_MS_MAX: u64 = 60_000;
/// Events that are called off together.
const CANCELLED_AT_ONCE: usize = 256;

/// Releases what one front holds back, until the node stops.
pub async fn run(core: Arc<Core>, front: FrontNo) {
    let Some(handle) = core.front(front) else { return };
    let mut backoff = Backoff::of("schedule");
    while !core.root.is_closed() {
        // Before the wall is asked: time that passes in between is not slept over.
        let mut looked_at = core.ports.clock.monotonic();
        let due = core.read(PartitionId::Front(front), |view| scheduled::earliest(view.tables()));
        let wait_ms = match due {
            Err(refusal) => {
                backoff.wait(&core.ports, &core.meter, &refusal).await;
                continue;
            }
            Ok(None) => None,
            Ok(Some(due)) => Some(due.since(core.ports.clock.wall()).min(SLEEP_MS_MAX)),
        };
        let wait_ms = match wait_ms {
            Some(0) => {
                match answer(handle.queue.push(HOUSE, &Actor::System, vec![FrontAsk::Release], 64)).await {
                    Ok(FrontAnswer::Released { .. }) => {
                        backoff.reset();
                        continue;
                    }
                    Err(Refusal::Stopped { .. }) => return,
                    Ok(_) => {
                        let other = internal("the front answered something else");
                        looked_at = core.ports.clock.monotonic();
                        Some(backoff.failed(&core.meter, &other))
                    }
                    Err(refusal) => {
                        looked_at = core.ports.clock.monotonic();
                        Some(backoff.failed(&core.meter, &refusal))
                    }
                }
            }
            later => later,
        };
        let until = wait_ms.map(|ms| core.ports.tasks.sleep_until(looked_at.plus(ms)));
        handle.scheduled.wait(until).await;
    }
}

/// The keyed hash of a cancellation key.
pub fn cancellation(keyring: &dyn Keyring, tenant: TenantId, key: &str) -> Result<[u8; 16], Refusal> {
    keyring.digest(tenant, format!("cancellation\0{key}").as_bytes()).map_err(locked)
}

/// Stops everything that was accepted under a key, as far as it is not too late.
pub async fn cancel_by_key(core: &Core, by: &Actor, tenant: TenantId, key: &str) -> Result<Called, Refusal> {
    core.require_tenant(tenant)?;
    let hash = cancellation(&*core.ports.keyring, tenant, key)?;
    let mut called = Called::default();
    for (front, handle) in &core.fronts {
        let mut after = None;
        loop {
            let events = core.read(PartitionId::Front(*front), |view| {
                scheduled::cancellable(view.tables(), tenant, &hash, after, CANCELLED_AT_ONCE)
            })?;
            let Some(last) = events.last().copied() else { break };
            after = Some(last);
            let asks: Vec<FrontAsk> =
                events.iter().map(|event| FrontAsk::Cancel { tenant, event: *event }).collect();
            let bytes = asks.len() * 64;
            answers(handle.queue.push(tenant, by, asks, bytes)).await?;
            for event in events {
                match deliveries::status(core, tenant, event) {
                    Ok(status) => called.add(&status),
                    // So long ago that what became of it is not kept any more. Others under the key may be newer.
                    Err(Refusal::UnknownEvent { .. }) => called.too_late += 1,
                    Err(other) => return Err(other),
                }
            }
        }
    }
    Ok(called)
}
