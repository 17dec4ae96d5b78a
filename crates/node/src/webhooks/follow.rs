//! The followers: one task per webhook reads the shards' records behind its place and tells the producer.
//!
//! Comes from: shards, whose applied positions move. Does: sends what a stretch of records says, waits until the receiver has
//! taken all of it, and only then moves the place on, durably. So everything is told at least once, a repeat under the
//! same id; a receiver that fails rests longer and longer, and is switched off when it fails for too long.
//! Goes to: the webhook channel, with its signing and its rules about where it may connect to.
//!
//! What must never happen: a place that is ahead of what the receiver took; one webhook that waits for another.

use super::failure::AttemptFailure;
use super::tell::{self, News};
use super::{WebhookFailure, fail, set, switch};
use crate::ask::Refusal;
use crate::core::{Core, answer, internal, locked};
use crate::deliveries;
use crate::supervise::caught;
use crate::take::HOUSE;
use fantail_machine::shard::ShardAsk;
use fantail_machine::tables::webhook::{self, WebhookRow};
use fantail_ports::channel::{Answer, Message, Shipment};
use fantail_ports::journal::{JournalError, ReadLimit};
use fantail_ports::keyring::Context;
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, PartitionId, Position, ShardNo, TenantId};
use fantail_rules::priority::Priority;
use fantail_rules::producer_event::ProducerEvent;
use fantail_rules::retry::rest_ms;
use fantail_rules::ulid::Ulid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{info, warn};

/// How often tasks look.
const LOOK_EVERY_MS: u64 = 250;
/// Records that are read at once, and messages that are sent at once.
const READ: ReadLimit = ReadLimit { records: 512, bytes: 1 << 20 };
const MESSAGES_MAX: usize = 64;
/// A place that had nothing to tell is written down after so many records.
const SILENT_RECORDS_MAX: u64 = 4_096;
/// Events to lists that one task remembers to have told the end of.
const ENDED_MAX: usize = 1_024;
/// Messages start within this.
const START_WITHIN_MS: u64 = 60_000;

/// A webhook whose task panicked starts again after this, so that one bad record does not fill the log.
const PANIC_REST_MS: u64 = 60_000;

/// Webhooks that have a task.
type Running = Arc<Mutex<BTreeSet<(TenantId, String)>>>;

/// Webhooks that shards know the place of. Read before any can be made: one whose place is set is not there yet.
pub fn known(core: &Core) -> Result<BTreeSet<(TenantId, String)>, Refusal> {
    let mut known = BTreeSet::new();
    for shard in core.shards.keys() {
        known.extend(core.read(PartitionId::Shard(*shard), |view| webhook::all_told(view.tables()))?);
    }
    Ok(known)
}

/// Starts a task for every webhook that is on, and forgets those that are gone, until the root's queue closes.
pub async fn run(core: Arc<Core>, mut known: BTreeSet<(TenantId, String)>) {
    let running = Running::default();
    while !core.root.is_closed() {
        let control = core.control.now();
        let webhooks = &control.webhooks;
        let gone: Vec<_> = known.iter().filter(|name| !webhooks.contains_key(name)).cloned().collect();
        for name in gone {
            match forget(&core, &name).await {
                Ok(()) => drop(known.remove(&name)),
                Err(refusal) => {
                    warn!(tenant = %name.0, webhook = name.1, %refusal, "webhook not forgotten yet")
                }
            }
        }
        known.extend(webhooks.keys().cloned());
        let is_paused = core.pause.is_on();
        for row in webhooks.values().filter(|row| row.off.is_none() && !is_paused) {
            let name = (row.put.tenant, row.put.id.clone());
            if running.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
                let (follower, running) = (Follower::new(core.clone(), row), running.clone());
                let (tasks, clock) = (core.ports.tasks.clone(), core.ports.clock.clone());
                let follow = async move {
                    let count = |panic: &str| tasks.count_panic("webhook", panic);
                    if caught(Box::pin(follower.run()), count).await.is_err() {
                        tasks.sleep_until(clock.monotonic().plus(PANIC_REST_MS)).await;
                    }
                    running.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                };
                core.ports.tasks.spawn("webhook", Box::pin(follow));
            }
        }
        core.ports.tasks.sleep_until(core.ports.clock.monotonic().plus(LOOK_EVERY_MS)).await;
    }
}

/// How far a webhook had told goes with it.
async fn forget(core: &Core, (tenant, webhook): &(TenantId, String)) -> Result<(), Refusal> {
    for shard in core.shards.values() {
        let ask = ShardAsk::Untell { tenant: *tenant, webhook: webhook.clone() };
        answer(shard.queue.push(HOUSE, &Actor::System, vec![ask], 128)).await?;
    }
    core.webhook_progresses.forget(*tenant, webhook);
    Ok(())
}

struct Follower {
    core: Arc<Core>,
    tenant: TenantId,
    id: String,
    row: WebhookRow,
    /// Since this task began; since when is in the root's tables.
    failures: u32,
    /// Events to lists that told their end.
    ended: BTreeSet<Ulid>,
    /// The time that sums were given, by the name of their message: sent again, they are the same bytes.
    timed: BTreeMap<String, Millis>,
    places: BTreeMap<ShardNo, Place>,
}

/// How far the webhook is in a shard.
#[derive(Clone, Copy)]
struct Place {
    /// Durably.
    told: Position,
    /// Behind it there was nothing to tell up to here.
    looked: Position,
}

/// Messages of a stretch of records, and the record behind which it ends.
struct Stretch {
    messages: Vec<(String, Vec<u8>)>,
    /// Events to lists whose end is among them.
    ended: Vec<Ulid>,
    through: Position,
}

impl Follower {
    fn new(core: Arc<Core>, row: &WebhookRow) -> Self {
        let (tenant, id) = (row.put.tenant, row.put.id.clone());
        Self {
            core,
            tenant,
            id,
            row: row.clone(),
            failures: 0,
            ended: BTreeSet::new(),
            timed: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    /// Until the webhook is off or gone, or the node stops.
    async fn run(mut self) {
        loop {
            let control = self.core.control.now();
            let row = control.webhooks.get(&(self.tenant, self.id.clone()));
            let Some(row) = row.filter(|row| row.off.is_none() && !self.core.root.is_closed()) else {
                return;
            };
            self.row = (**row).clone();
            let rest = match self.turn().await {
                Ok(true) => 0,
                Ok(false) => LOOK_EVERY_MS,
                Err(Refusal::Stopped { reason }) => {
                    warn!(tenant = %self.tenant, webhook = self.id, reason, "webhook stopped");
                    return;
                }
                Err(refusal) => {
                    warn!(tenant = %self.tenant, webhook = self.id, %refusal, "webhook put off");
                    LOOK_EVERY_MS
                }
            };
            if rest > 0 {
                self.core.ports.tasks.sleep_until(self.core.ports.clock.monotonic().plus(rest)).await;
            }
        }
    }

    /// One stretch of each shard; says whether there was anything.
    async fn turn(&mut self) -> Result<bool, Refusal> {
        let core = self.core.clone();
        let mut is_moved = false;
        for shard in core.shards.keys() {
            let place = self.place(*shard)?;
            let applied = super::applied(&core, *shard);
            if place.looked < applied {
                let stretch = self.stretch(*shard, place.looked, applied).await?;
                is_moved |= self.tell(*shard, place, stretch).await?;
            }
        }
        Ok(is_moved)
    }

    fn place(&mut self, shard: ShardNo) -> Result<Place, Refusal> {
        let partition = PartitionId::Shard(shard);
        let found = self.core.read(partition, |view| webhook::told(view.tables(), self.tenant, &self.id))?;
        let told = found.unwrap_or(Position::START);
        let place = self.places.entry(shard).or_insert(Place { told, looked: told });
        if place.told != told {
            // A replay went back: everything is told again, also what has ended.
            if told < place.told {
                self.ended.clear();
            }
            *place = Place { told, looked: told };
        }
        Ok(*place)
    }

    async fn stretch(
        &mut self,
        shard: ShardNo,
        after: Position,
        applied: Position,
    ) -> Result<Stretch, Refusal> {
        let core = self.core.clone();
        let mut stretch = Stretch { messages: Vec::new(), ended: Vec::new(), through: after };
        let records = match core.ports.journal.read(PartitionId::Shard(shard), after.next(), READ).await {
            Ok(records) => records,
            // It was off for longer than the journal is kept: what is gone cannot be told.
            Err(JournalError::Trimmed { first, .. }) => {
                stretch.through = Position(first.0.saturating_sub(1));
                warn!(tenant = %self.tenant, webhook = self.id, through = %stretch.through, "webhook missed what was trimmed");
                return Ok(stretch);
            }
            Err(failed) => return Err(internal(&failed.to_string())),
        };
        let mut listed = BTreeMap::new();
        for record in records.iter().take_while(|record| record.position <= applied) {
            for (index, news) in tell::news(&core, self.tenant, shard, record)?.into_iter().enumerate() {
                match news {
                    News::Single { event, body } if event.is_in(self.row.put.events) => {
                        let name = format!("{}-{shard}-{}-{index}", self.id, record.position);
                        stretch.messages.push((name, body.to_string().into_bytes()));
                    }
                    News::Single { .. } => {}
                    News::Listed { event, at } => {
                        listed.insert(event, at);
                    }
                }
            }
            stretch.through = record.position;
            if stretch.messages.len() >= MESSAGES_MAX {
                break;
            }
        }
        for (event, at) in listed {
            self.take_listed(event, at, &mut stretch)?;
        }
        Ok(stretch)
    }

    /// The sums of an event to a list, as they are now. They are not told again once they are final. Other sums are another
    /// message: its name derives from what it says.
    fn take_listed(&mut self, event: Ulid, at: Millis, stretch: &mut Stretch) -> Result<(), Refusal> {
        if self.ended.contains(&event) {
            return Ok(());
        }
        let status = match deliveries::status(&self.core, self.tenant, event) {
            Ok(status) => status,
            Err(Refusal::UnknownEvent { .. }) => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        let (told, data) = tell::sums(&status);
        if told.is_in(self.row.put.events) {
            let word = if told == ProducerEvent::Summary { "summary" } else { "progress" };
            let digest = self.core.ports.keyring.digest(self.tenant, data.to_string().as_bytes());
            let digest = u128::from_be_bytes(digest.map_err(locked)?);
            let name = format!("{}-{event}-{word}-{digest:032x}", self.id);
            let at = *self.timed.entry(name.clone()).or_insert(at);
            while self.timed.len() > ENDED_MAX {
                self.timed.pop_first();
            }
            stretch.messages.push((name, tell::body(told, at, data).to_string().into_bytes()));
        }
        if told == ProducerEvent::Summary {
            stretch.ended.push(event);
        }
        Ok(())
    }

    /// Sends a stretch and moves the place on if all of it was taken; says whether there was anything to move for.
    async fn tell(&mut self, shard: ShardNo, place: Place, stretch: Stretch) -> Result<bool, Refusal> {
        let Stretch { messages, ended, through } = stretch;
        if messages.is_empty() && through.0 - place.told.0 < SILENT_RECORDS_MAX {
            let is_moved = through > place.looked;
            self.places.insert(shard, Place { told: place.told, looked: through });
            return Ok(is_moved);
        }
        if !messages.is_empty() {
            if let Some(failure) = self.send(messages).await? {
                self.failed(failure).await?;
                return Ok(false);
            }
            let at = self.core.ports.clock.wall();
            self.core.webhook_progresses.succeeded(self.tenant, &self.id, at);
        }
        self.failures = 0;
        if self.failing_since()?.is_some() {
            fail(&self.core, self.tenant, &self.id, false).await?;
        }
        set(&self.core, &Actor::System, self.tenant, &self.id, shard, through, Some(place.told)).await?;
        self.ended.extend(ended);
        while self.ended.len() > ENDED_MAX {
            self.ended.pop_first();
        }
        Ok(true)
    }

    /// Why not all of it was taken, if so.
    async fn send(&self, messages: Vec<(String, Vec<u8>)>) -> Result<Option<AttemptFailure>, Refusal> {
        let core = &self.core;
        assert!(!core.pause.is_on(), "tasks of webhooks start after the resume");
        let target = core.ports.keyring.open(self.tenant, Context::Address, &self.row.put.target);
        let target = target.map_err(locked)?;
        let message = |(reference, content): (String, Vec<u8>)| Message {
            reference,
            endpoint: target.clone(),
            content: Some(content.into()),
            attempt: u8::try_from(self.failures + 1).unwrap_or(u8::MAX),
            recipient: 0,
            unsubscribe: None,
        };
        let shipment = Shipment {
            tenant: self.tenant,
            content: Vec::new().into(),
            lane: Priority::Normal,
            expires_at: Millis(u64::MAX),
            collapse_key: None,
            deadline: core.ports.clock.monotonic().plus(START_WITHIN_MS),
            callbacks: None,
            messages: messages.into_iter().map(message).collect(),
        };
        let Some(channel) = core.ports.channels.get(&ChannelKind::Webhook) else {
            return Ok(Some(AttemptFailure::of_ours("no_provider")));
        };
        let answers: Mutex<Vec<Answer>> = Mutex::default();
        let report = |_: usize, answer: Answer| {
            answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        };
        channel.send(&shipment, &report).await;
        let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        if answers.len() < shipment.messages.len() {
            return Ok(Some(AttemptFailure::of_ours("no_answer")));
        }
        Ok(answers.iter().find_map(AttemptFailure::of))
    }

    async fn failed(&mut self, failure: AttemptFailure) -> Result<(), Refusal> {
        let core = self.core.clone();
        self.failures = self.failures.saturating_add(1);
        let (wall, since) = (core.ports.clock.wall(), self.failing_since()?);
        if since.is_none() {
            fail(&core, self.tenant, &self.id, true).await?;
        }
        let AttemptFailure { reason, detail, is_final } = failure;
        let report = |next_at| {
            let failure = WebhookFailure { reason: reason.clone(), detail: detail.clone(), next_at };
            core.webhook_progresses.failed(self.tenant, &self.id, wall, failure);
        };
        if is_final || wall.since(since.unwrap_or(wall)) >= core.ports.webhook_patience_ms {
            report(None);
            info!(tenant = %self.tenant, webhook = self.id, reason, detail, failures = self.failures, "webhook switched off");
            switch(&core, &Actor::System, self.tenant, &self.id, Some(reason)).await?;
            return Ok(());
        }
        let rest = rest_ms(self.failures).min(core.ports.webhook_patience_ms);
        report(Some(wall.plus(rest)));
        warn!(tenant = %self.tenant, webhook = self.id, reason, detail, failures = self.failures, rest, "webhook failed");
        let rested = core.ports.clock.monotonic().plus(rest);
        core.ports.tasks.sleep_until(rested).await;
        Ok(())
    }

    /// By the clock on the wall, and durably: a receiver is not forgiven because we were started anew.
    fn failing_since(&self) -> Result<Option<Millis>, Refusal> {
        let (tenant, id) = (self.tenant, &self.id);
        self.core.read(PartitionId::Root, |view| webhook::failing_since(view.tables(), tenant, id))
    }
}
