//! What is to happen later.
//!
//! Comes from: the clock. Does: looks for what is due and has each front release it, in turns of the tenants (`due`).
//! Goes to: `machine::front::release`.
//!
//! What must never happen: a release that depends on memory. The front's rows say what is due; the bell only says that
//! one may have come in that is due earlier.

use crate::ask::Refusal;
use crate::backoff::Backoff;
use crate::core::{Core, answer, internal};
use crate::due::{DueTurns, LOOKED_AT_MAX};
use crate::take::HOUSE;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::tables::scheduled::{self, HeldId};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{FrontNo, Millis, PartitionId};
use std::sync::Arc;

/// The clock may be set, so nothing is slept over for longer.
const SLEEP_MS_MAX: u64 = 60_000;
/// What an ask takes in the queue besides what it names.
const ASK_BYTES: usize = 64;

/// Releases what one front holds back, until the node stops.
pub async fn run(core: Arc<Core>, front: FrontNo) {
    let Some(handle) = core.front(front) else { return };
    let mut backoff = Backoff::of("schedule");
    while !core.root.is_closed() {
        // Before the wall is asked: time that passes in between is not slept over.
        let looked_at = core.ports.clock.monotonic();
        let released = match wait_ms(&core, front) {
            Ok(Some(0)) => release(&core, front).await,
            Ok(wait_ms) => {
                let until = wait_ms.map(|ms| core.ports.tasks.sleep_until(looked_at.plus(ms)));
                handle.scheduled.wait(until).await;
                continue;
            }
            Err(refusal) => Err(refusal),
        };
        match released {
            Ok(()) => backoff.reset(),
            Err(Refusal::Stopped { .. }) => return,
            Err(refusal) => backoff.wait(&core.ports, &core.meter, &refusal).await,
        }
    }
}

/// How long nothing is due. `None`: nothing is held back.
fn wait_ms(core: &Core, front: FrontNo) -> Result<Option<u64>, Refusal> {
    let due = core.read(PartitionId::Front(front), |view| scheduled::earliest(view.tables()))?;
    Ok(due.map(|due| {
        // A clock that may be wrong releases nothing, and neither does a node that is paused.
        let is_held = core.keeps_back_what_is_due();
        if is_held { SLEEP_MS_MAX } else { due.since(core.ports.clock.wall()).min(SLEEP_MS_MAX) }
    }))
}

/// Releases all that is due, once through.
async fn release(core: &Core, front: FrontNo) -> Result<(), Refusal> {
    let Some(handle) = core.front(front) else { return Ok(()) };
    let mut turns: DueTurns<HeldId> = DueTurns::default();
    turns.begin(None);
    while !turns.is_over() {
        if core.keeps_back_what_is_due() {
            return Ok(());
        }
        let by: Millis = core.ports.clock.wall();
        turns.look(
            |id| id.tenant,
            |from, accept| {
                core.read(PartitionId::Front(front), |view| {
                    scheduled::look_for_due(view.tables(), from, by, LOOKED_AT_MAX, accept)
                })
            },
        )?;
        let due = turns.take(core.knobs.steps.released_events);
        if due.is_empty() {
            continue;
        }
        let bytes = ASK_BYTES + due.len() * size_of::<HeldId>();
        let ask = FrontAsk::Release { due };
        match answer(handle.queue.push(HOUSE, &Actor::System, vec![ask], bytes)).await? {
            FrontAnswer::Released { .. } => {}
            _ => return Err(internal("the front answered something else")),
        }
    }
    Ok(())
}
