//! Windows that are over are closed, and their digests written.
//!
//! Comes from: the clock, and a shard's to-do rows. Does: has the shard close what is over and take what waits; then reads
//! what the digest is to tell of, says it (`said`), seals it under its reader's key and has the shard freeze it. A crash in
//! between does it again: the row is there until the digest is. Goes to: `machine::shard::windows`, and from there, as work,
//! to the dispatcher.
//!
//! What must never happen: a digest that is sent before its bytes are durable, or written twice.

pub mod report;
mod said;

use crate::ask::{EventView, Refusal};
use crate::backoff::Backoff;
use crate::core::{Core, answer, internal, locked};
use crate::inbox;
use crate::notify::recipient;
use crate::queue::QueueLine;
use crate::take::HOUSE;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::digest;
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::window::{self, WindowNo, WindowRow};
use fantail_ports::keyring::{Context, KeyringError, Sealed};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::ulid::Ulid;
use said::Teller;
use std::sync::Arc;

/// The clock may be set, so nothing is slept over for longer.
const SLEEP_MS_MAX: u64 = 60_000;
/// A leader whose time is a little behind is asked again after this.
const PAUSE_MS: u64 = 200;

/// Closes the windows of one shard as they end, until the node stops.
pub async fn close_windows(core: Arc<Core>, shard: ShardNo) {
    let handle = core.shard(shard);
    // No window that ends before this is open. Rows that are gone lie about for a while and are not walked again.
    let mut floor = Millis(0);
    let mut backoff = Backoff::of("windows");
    while !core.root.is_closed() {
        // Before the wall is asked: time that passes in between is not slept over.
        let mut looked_at = core.ports.clock.monotonic();
        let now = core.ports.clock.wall();
        let next = core.read(PartitionId::Shard(shard), |view| {
            window::ends(view.tables(), floor, Millis(u64::MAX - 1), 1)
        });
        let next = match next {
            Ok(next) => next,
            Err(refusal) => {
                backoff.wait(&core.ports, &core.meter, &refusal).await;
                continue;
            }
        };
        let mut wait_ms = next.first().map(|end| end.closes_at.since(now).min(SLEEP_MS_MAX));
        if wait_ms == Some(0) && core.clock.hold().is_some() {
            // A clock that may be wrong ends no window.
            wait_ms = Some(SLEEP_MS_MAX);
        }
        if wait_ms == Some(0) {
            let ask = ShardAsk::CloseWindows { from: floor };
            match answer(handle.queue.push(HOUSE, &Actor::System, vec![ask], 64)).await {
                Ok(ShardAnswer::Closed { through: None }) => continue,
                Ok(ShardAnswer::Closed { through: Some(through) }) => {
                    backoff.reset();
                    floor = floor.max(through.plus(1));
                    // The leader's time may be a little behind: then it is asked again.
                    if next.first().is_none_or(|end| end.closes_at <= through) {
                        continue;
                    }
                    (looked_at, wait_ms) = (core.ports.clock.monotonic(), Some(PAUSE_MS));
                }
                Err(Refusal::Stopped { .. }) => return,
                Ok(_) => {
                    let other = internal("the shard answered something else");
                    wait_ms = Some(backoff.failed(&core.meter, &other));
                    looked_at = core.ports.clock.monotonic();
                }
                Err(refusal) => {
                    wait_ms = Some(backoff.failed(&core.meter, &refusal));
                    looked_at = core.ports.clock.monotonic();
                }
            }
        }
        let until = wait_ms.map(|ms| core.ports.tasks.sleep_until(looked_at.plus(ms)));
        handle.windows.wait(until).await;
    }
}

/// Does what a to-do row asks for, if it is about a window.
pub async fn run(core: &Arc<Core>, shard: ShardNo, todo: Todo) -> Result<(), Refusal> {
    match todo {
        Todo::Fold { tenant, window } => fold(core, shard, tenant, window).await,
        Todo::Digest { tenant, window } => write(core, shard, tenant, window).await,
        Todo::Report { .. }
        | Todo::Shred { .. }
        | Todo::Claim { .. }
        | Todo::Release(_)
        | Todo::Replan { .. }
        | Todo::Halt { .. }
        | Todo::Erase { .. } => Ok(()),
    }
}

async fn fold(core: &Arc<Core>, shard: ShardNo, tenant: TenantId, window: WindowNo) -> Result<(), Refusal> {
    loop {
        let ask = ShardAsk::Fold { tenant, window };
        core.ports.points.reach("digest.folding");
        match answer(core.shard(shard).queue.push(
            QueueLine::internal(tenant),
            &Actor::System,
            vec![ask],
            1_024,
        ))
        .await?
        {
            ShardAnswer::Folded { more: true } => {}
            ShardAnswer::Folded { more: false } => return Ok(()),
            _ => return Err(internal("the shard answered something else")),
        }
    }
}

async fn write(core: &Arc<Core>, shard: ShardNo, tenant: TenantId, no: WindowNo) -> Result<(), Refusal> {
    let row = core.read(PartitionId::Shard(shard), |view| window::find(view.tables(), tenant, no))?;
    let Some(row) = row else { return Ok(()) };
    let content = written(core, shard, tenant, &row)?;
    core.ports.points.reach("digest.written");
    let bytes = content.as_ref().map_or(64, |content| content.bytes.len() + 64);
    let ask = ShardAsk::Digested { tenant, window: no, content };
    let line = QueueLine::internal(tenant);
    answer(core.shard(shard).queue.push(line, &Actor::System, vec![ask], bytes)).await?;
    core.meter.digest_written(row.events.len() as u64);
    Ok(())
}

/// What a digest says, sealed. `None` if its reader is gone.
fn written(
    core: &Arc<Core>,
    shard: ShardNo,
    tenant: TenantId,
    row: &WindowRow,
) -> Result<Option<Sealed>, Refusal> {
    let Some(reader) = recipient(core, tenant, shard, row.of.user)? else { return Ok(None) };
    let mut told = Vec::with_capacity(row.events.len());
    for event in &row.events {
        match inbox::event(core, tenant, *event) {
            Ok(view) => told.push((*event, Some(view))),
            // Its front has forgotten it: it counts, and nobody is named for it.
            Err(Refusal::UnknownEvent { .. }) => told.push((*event, None)),
            Err(other) => return Err(other),
        }
    }
    let content =
        Teller { core, tenant, channel: row.of.channel, reader: &reader }.tell(row.digest, &told)?;
    match core.ports.keyring.seal(tenant, reader.key, Context::Content, &content) {
        Ok(sealed) => Ok(Some(sealed)),
        Err(KeyringError::NoKey { .. }) => Ok(None),
        Err(failed) => Err(locked(failed)),
    }
}

/// A digest as the channels see an event. What its reader alone may read is gone with the key.
pub fn view(core: &Core, shard: ShardNo, tenant: TenantId, event: Ulid) -> Result<Arc<EventView>, Refusal> {
    let row = core.read(PartitionId::Shard(shard), |view| digest::find(view.tables(), tenant, event))?;
    let row = row.ok_or(Refusal::UnknownEvent { event })?;
    let content = match core.ports.keyring.open(tenant, Context::Content, &row.content) {
        Ok(content) => content,
        Err(KeyringError::NoKey { .. }) => Vec::new(),
        Err(failed) => return Err(locked(failed)),
    };
    Ok(Arc::new(EventView {
        created_at: event.millis(),
        kind: "digest".to_owned(),
        category: String::new(),
        priority: fantail_rules::priority::Priority::Normal,
        actor: None,
        content,
        is_personal: false,
        collapse_key: Some(format!("digest-{:016x}", row.collapse)),
        is_sensitive: false,
    }))
}
