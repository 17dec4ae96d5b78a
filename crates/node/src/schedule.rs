//! What is to happen later.
//!
//! Comes from: the clock. Does: has each front release what is due. Goes to: `machine::front::release`.
//!
//! What must never happen: a release that depends on memory. The front's rows say what is due; the bell only says that
//! one may have come in that is due earlier.

use crate::ask::Refusal;
use crate::backoff::Backoff;
use crate::core::{Core, answer, internal};
use crate::take::HOUSE;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::tables::scheduled;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{FrontNo, PartitionId};
use std::sync::Arc;

/// The clock may be set, so nothing is slept over for longer.
const SLEEP_MS_MAX: u64 = 60_000;

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
            // A clock that may be wrong releases nothing.
            Ok(Some(_)) if core.clock.hold().is_some() => Some(SLEEP_MS_MAX),
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
