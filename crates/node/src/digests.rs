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
use crate::due::{DueTurns, LOOKED_AT_MAX};
use crate::errands::FirstFailure;
use crate::inbox;
use crate::notify::recipient;
use crate::queue::QueueLine;
use crate::take::HOUSE;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::digest;
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::window::{self, WindowEnd, WindowNo, WindowRow};
use fantail_ports::keyring::{Context, KeyringError, Sealed};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::ulid::Ulid;
use said::Teller;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The clock may be set, so nothing is slept over for longer.
const SLEEP_MS_MAX: u64 = 60_000;
/// A leader whose time is a little behind is asked again after this.
const PAUSE_MS: u64 = 200;

/// Closes the windows of one shard as they end, until the node stops.
pub async fn close_windows(core: Arc<Core>, shard: ShardNo) {
    let handle = core.shard(shard);
    let mut closing = WindowCloser { core: core.clone(), shard, floor: Millis(0), leader_now: Millis(0) };
    let mut backoff = Backoff::of("windows");
    while !core.root.is_closed() {
        // Before the wall is asked: time that passes in between is not slept over.
        let looked_at = core.ports.clock.monotonic();
        let closed = match closing.wait_ms() {
            Ok(Some(0)) => closing.close().await,
            Ok(wait_ms) => {
                let until = wait_ms.map(|ms| core.ports.tasks.sleep_until(looked_at.plus(ms)));
                handle.windows.wait(until).await;
                continue;
            }
            Err(refusal) => Err(refusal),
        };
        match closed {
            Ok(0) => {
                // The leader's time is a little behind.
                let until = core.ports.tasks.sleep_until(core.ports.clock.monotonic().plus(PAUSE_MS));
                handle.windows.wait(Some(until)).await;
            }
            Ok(_) => backoff.reset(),
            Err(Refusal::Stopped { .. }) => return,
            Err(refusal) => backoff.wait(&core.ports, &core.meter, &refusal).await,
        }
    }
}

/// Closes what is over, in turns of the tenants.
struct WindowCloser {
    core: Arc<Core>,
    shard: ShardNo,
    /// No window that ends before this is open. Rows that are gone lie about for a while and are not walked again.
    floor: Millis,
    /// The leader's time when it last closed windows. No window that is opened later ends earlier.
    leader_now: Millis,
}

impl WindowCloser {
    /// How long no window ends. `None`: none is open.
    fn wait_ms(&self) -> Result<Option<u64>, Refusal> {
        let now = self.core.ports.clock.wall();
        let next = self.core.read(PartitionId::Shard(self.shard), |view| {
            window::ends(view.tables(), self.floor, Millis(u64::MAX - 1), 1)
        })?;
        let wait_ms = next.first().map(|end| end.closes_at.since(now).min(SLEEP_MS_MAX));
        // A clock that may be wrong ends no window, and neither does a node that is paused.
        let is_held = wait_ms == Some(0) && self.core.keeps_back_what_is_due();
        Ok(if is_held { Some(SLEEP_MS_MAX) } else { wait_ms })
    }

    /// Closes all that is over, once through; returns how many windows that were.
    async fn close(&mut self) -> Result<usize, Refusal> {
        let (core, partition) = (self.core.clone(), PartitionId::Shard(self.shard));
        let (leader_before, mut seen_through, mut count) = (self.leader_now, self.floor, 0);
        let mut turns: DueTurns<WindowEnd> = DueTurns::default();
        turns.begin(Some(window::ends_from(self.floor)));
        while !turns.is_over() {
            if core.keeps_back_what_is_due() {
                return Ok(count);
            }
            let by = core.ports.clock.wall();
            turns.look(
                |end| end.tenant,
                |from, accept| {
                    core.read(partition, |view| {
                        window::look_for_ends(view.tables(), from, by, LOOKED_AT_MAX, accept)
                    })
                },
            )?;
            seen_through = by;
            let ends = turns.take(core.knobs.steps.closed_windows);
            if ends.is_empty() {
                continue;
            }
            let bytes = 64 + ends.len() * size_of::<WindowEnd>();
            let ask = ShardAsk::CloseWindows { ends };
            let pushed = core.shard(self.shard).queue.push(HOUSE, &Actor::System, vec![ask], bytes);
            let ShardAnswer::Closed { count: closed, now } = answer(pushed).await? else {
                return Err(internal("the shard answered something else"));
            };
            (count, self.leader_now) = (count + closed, now);
        }
        if !turns.has_skipped() {
            // All that ended by then were open when this began, and are closed now.
            self.floor = self.floor.max(leader_before.min(seen_through).plus(1));
        }
        Ok(count)
    }
}

/// Goes on with windows that are over, those of one round together. Returns those that are not done.
pub async fn run(core: &Arc<Core>, shard: ShardNo, todos: &[Todo]) -> (Vec<Todo>, Result<(), Refusal>) {
    let (mut left, mut first) = (Vec::new(), FirstFailure::default());
    let mut folding = Vec::new();
    for todo in todos {
        if let Todo::Fold { tenant, window } = *todo {
            core.ports.points.reach("digest.folding");
            let ask = ShardAsk::Fold { tenant, window };
            folding.push((*todo, push(core, shard, tenant, ask, 1_024)));
        }
    }
    for (todo, pushed) in folding {
        let folded = match answer(pushed).await {
            Ok(ShardAnswer::Folded { more }) => {
                left.extend(Some(todo).filter(|_| more));
                Ok(())
            }
            Ok(_) => Err(internal("the shard answered something else")),
            Err(refusal) => Err(refusal),
        };
        if let Err(stopped) = first.note(folded) {
            return (left, Err(stopped));
        }
    }
    let mut writing = Vec::new();
    for todo in todos {
        if let Todo::Digest { tenant, window } = *todo {
            match begin_to_write(core, shard, tenant, window) {
                Ok(begun) => writing.extend(begun),
                Err(refusal) => {
                    if let Err(stopped) = first.note(Err(refusal)) {
                        return (left, Err(stopped));
                    }
                }
            }
        }
    }
    for (events, pushed) in writing {
        let written = answer(pushed).await.map(|_| core.meter.digest_written(events));
        if let Err(stopped) = first.note(written) {
            return (left, Err(stopped));
        }
    }
    (left, first.end())
}

type Pushed = Result<oneshot::Receiver<Result<Vec<ShardAnswer>, Refusal>>, Refusal>;

fn push(core: &Core, shard: ShardNo, tenant: TenantId, ask: ShardAsk, bytes: usize) -> Pushed {
    let line = QueueLine::internal(tenant);
    core.shard(shard).queue.push(line, &Actor::System, vec![ask], bytes)
}

/// Composes a digest and asks the shard to freeze it. `None` if its window is gone.
fn begin_to_write(
    core: &Arc<Core>,
    shard: ShardNo,
    tenant: TenantId,
    no: WindowNo,
) -> Result<Option<(u64, Pushed)>, Refusal> {
    let row = core.read(PartitionId::Shard(shard), |view| window::find(view.tables(), tenant, no))?;
    let Some(row) = row else { return Ok(None) };
    let content = written(core, shard, tenant, &row)?;
    core.ports.points.reach("digest.written");
    let bytes = content.as_ref().map_or(64, |content| content.bytes.len() + 64);
    let ask = ShardAsk::Digested { tenant, window: no, content };
    Ok(Some((row.events.len() as u64, push(core, shard, tenant, ask, bytes))))
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
        name: None,
    }))
}
