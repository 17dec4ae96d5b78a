//! Calling off and taking back, so that the answer is obeyed.
//!
//! Comes from: producers who change their minds. Does: has the front of the event record it, then waits until every shard
//! has taken the record. Goes to: `machine::shard::halt`, which ends what waits.
//!
//! What must never happen: an Intent that is journaled after an answer that says that nothing more is sent. A shard that is
//! behind by more than [`OBEYED_WITHIN_MS`] makes the answer `is_pending` instead.

use crate::ask::{Called, Phase, Refusal};
use crate::core::{Core, answer, answers, broken, internal, locked, stopped};
use crate::{deliveries, take};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::tables::{scheduled, taken, todo};
use fantail_ports::keyring::Keyring;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{FrontNo, Millis, PartitionId, TenantId};
use fantail_rules::limits::OBEYED_WITHIN_MS;
use fantail_rules::ulid::Ulid;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Takes an event back; says whether every shard has taken that.
pub async fn retract(core: &Core, by: &Actor, tenant: TenantId, event: Ulid) -> Result<bool, Refusal> {
    core.require_tenant(tenant)?;
    let unknown = Refusal::UnknownEvent { event };
    let Some(front) = core.front(event.front()) else { return Err(unknown) };
    match answer(front.queue.push(tenant, by, vec![FrontAsk::Retract { tenant, event }], 64)).await? {
        FrontAnswer::Retracted => is_taken_by_all(core, event.front(), give_up_at(core)).await,
        _ => Err(unknown),
    }
}

/// Stops what of an event was not sent yet, and says what that was.
pub async fn cancel(core: &Core, by: &Actor, tenant: TenantId, event: Ulid) -> Result<Called, Refusal> {
    deliveries::row_of(core, tenant, event)?;
    let mut called = Called::default();
    cancel_all(core, by, tenant, event.front(), vec![event], &mut called).await?;
    Ok(called)
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
    for front in core.fronts.keys() {
        let mut after = None;
        loop {
            let events = core.read(PartitionId::Front(*front), |view| {
                scheduled::cancellable(view.tables(), tenant, &hash, after, core.knobs.cancelled_page)
            })?;
            let Some(last) = events.last().copied() else { break };
            after = Some(last);
            cancel_all(core, by, tenant, *front, events, &mut called).await?;
        }
    }
    Ok(called)
}

/// Events of one front. What is over is not recorded as cancelled: nothing of it can be stopped.
async fn cancel_all(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    front: FrontNo,
    events: Vec<Ulid>,
    called: &mut Called,
) -> Result<(), Refusal> {
    let mut asked = Vec::with_capacity(events.len());
    for event in events {
        match deliveries::status(core, tenant, event) {
            Ok(status) if status.phase == Phase::Done && !status.has_stopped() => called.add(&status),
            Ok(_) => asked.push(event),
            // So long ago that what became of it is not kept any more.
            Err(Refusal::UnknownEvent { .. }) => called.too_late += 1,
            Err(other) => return Err(other),
        }
    }
    if asked.is_empty() {
        return Ok(());
    }
    let handle = core.front(front).ok_or_else(|| internal("no such front"))?;
    let asks: Vec<FrontAsk> = asked.iter().map(|event| FrontAsk::Cancel { tenant, event: *event }).collect();
    let bytes = asks.len() * 64;
    answers(handle.queue.push(tenant, by, asks, bytes)).await?;
    let give_up = give_up_at(core);
    called.is_pending |= !is_taken_by_all(core, front, give_up).await?;
    for event in asked {
        has_ended(core, tenant, event, give_up).await?;
        match deliveries::status(core, tenant, event) {
            Ok(status) => called.add(&status),
            Err(Refusal::UnknownEvent { .. }) => called.too_late += 1,
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

pub fn give_up_at(core: &Core) -> Millis {
    core.ports.clock.monotonic().plus(OBEYED_WITHIN_MS)
}

/// Waits until every shard has taken what a front has recorded by now; says whether they have in time.
async fn is_taken_by_all(core: &Core, front: FrontNo, give_up: Millis) -> Result<bool, Refusal> {
    let handle = core.front(front).ok_or_else(|| internal("no such front"))?;
    let recorded = *handle.applied.borrow();
    for shard in core.shards.keys() {
        let is_taken = || Ok(take::taken(&core.ports, *shard, front).map_err(broken)? >= recorded);
        if !until(core, PartitionId::Shard(*shard), give_up, is_taken).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits until what waited of an event has ended, so that it can be counted. Much of it may take longer than the caller waits:
/// it is not sent all the same.
async fn has_ended(core: &Core, tenant: TenantId, event: Ulid, give_up: Millis) -> Result<(), Refusal> {
    for shard in core.shards.keys() {
        let has_ended = || {
            core.read(PartitionId::Shard(*shard), |view| {
                let Some((arrival, _)) = taken::arrival_of(view.tables(), tenant, event)? else {
                    return Ok(true);
                };
                let todo = todo::Todo::Halt { tenant, arrival };
                Ok(todo::still_waiting(view.tables(), vec![todo])?.is_empty())
            })
        };
        until(core, PartitionId::Shard(*shard), give_up, has_ended).await?;
    }
    Ok(())
}

/// Waits for something that later records of a partition bring; `false` if it does not come in time.
pub async fn until(
    core: &Core,
    partition: PartitionId,
    give_up: Millis,
    is_so: impl Fn() -> Result<bool, Refusal> + Send,
) -> Result<bool, Refusal> {
    let mut applied =
        core.applied.get(&partition).ok_or_else(|| internal("a partition has no leader"))?.clone();
    loop {
        applied.borrow_and_update();
        if is_so()? {
            return Ok(true);
        }
        if core.ports.clock.monotonic() >= give_up {
            return Ok(false);
        }
        let mut moved = pin!(applied.changed());
        let mut late = core.ports.tasks.sleep_until(give_up);
        let is_over = poll_fn(|context| match moved.as_mut().poll(context) {
            Poll::Ready(moved) => Poll::Ready(moved.is_err()),
            Poll::Pending => late.as_mut().poll(context).map(|()| false),
        });
        if is_over.await {
            return Err(stopped("the leader has stopped"));
        }
    }
}
