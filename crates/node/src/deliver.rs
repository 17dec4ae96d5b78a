//! One turn: its parcels planned together, each sent, and what came of it written down.
//!
//! Comes from: `dispatch`, with permits. Does: has the shard journal what may be sent; only once that is durable hands
//! exactly those members to the channel, parcel by parcel; journals every answer, in portions if some take long. Goes to:
//! `machine::shard::{serve, outcome}`, and back to `dispatch` with the permits.
//!
//! What must never happen: a byte that leaves before its Intent is durable; a parcel that starts before one that the turn has
//! before it; an answer that is dropped while the journal can take it.

mod pack;

use crate::ask::Refusal;
use crate::core::{Core, answer};
use crate::dispatch::{Came, Start, UnderWay};
use crate::queue::{QueueClass, QueueLine};
use crate::spans::{self, Steps};
use crate::supervise::caught;
use fantail_machine::shard::intend::Allowed;
use fantail_machine::shard::outcome::{Said, Told};
use fantail_machine::shard::serve::Served;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Report, Shipment};
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::limits::PARCEL_MS_MAX;
use fantail_rules::pacing::{Call, Signal};
use fantail_rules::priority::Priority;
use fantail_rules::retry::Cause;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use tracing::{error, warn};

pub use pack::reference_key;

/// Answers are written down at the latest after this, however many are still awaited.
const PORTION_MS: u64 = 50;
/// A journal that has no room, or a full queue, is asked again after this.
const PAUSE_MS: u64 = 50;

pub async fn run(core: Arc<Core>, start: Start) {
    let (channel, shard) = (start.channel, start.shard());
    let ask = ShardAsk::Serve { jobs: start.jobs(), deliveries_max: start.turn.deliveries_max };
    let asked = core.ports.clock.wall();
    let line = line(start.turn.tenant, start.turn.lane);
    let served = match answer(core.shard(shard).queue.push(line, &Actor::System, vec![ask], 1_024)).await {
        Ok(ShardAnswer::Served(served)) => served,
        Err(Refusal::Stopped { .. }) => return,
        // No journal, no Intent, no send: it waits.
        Ok(_) | Err(_) => {
            pause(&core).await;
            core.dispatch.planned(start, &[]);
            return;
        }
    };
    let came: Vec<Came> = served.iter().map(came).collect();
    let under_way = start.under_way.clone();
    let mut permits = core.dispatch.planned(start, &came);
    let intended = core.ports.clock.wall();
    for allowed in served.into_iter().filter_map(|served| served.allowed) {
        if allowed.sends.is_empty() {
            continue;
        }
        core.ports.points.reach("deliver.allowed");
        let share = permits.min(sends_of(&allowed));
        permits -= share;
        let parcel = Parcel {
            core: core.clone(),
            shard,
            channel,
            allowed,
            permits: AtomicU32::new(share),
            _under_way: under_way.clone(),
        };
        let mut parcel: BoxFuture<'static, ()> = Box::pin(parcel.run_contained(asked, intended));
        // All that can leave at once leaves here, so that the next parcel starts after this one; then it goes on alone.
        if !is_over(&mut parcel).await {
            core.ports.tasks.spawn("parcel", parcel);
        }
    }
}

fn came(served: &Served) -> Came {
    let sends = served.allowed.as_ref().map_or(0, sends_of);
    Came { sends, more: served.more, is_early: served.is_early }
}

fn sends_of(allowed: &Allowed) -> u32 {
    u32::try_from(allowed.sends.len()).unwrap_or(u32::MAX)
}

/// Deliveries take turns beside the tenants' own asks: those of each tenant in a line of their own, critical ones apart.
fn line(tenant: TenantId, lane: Priority) -> QueueLine {
    QueueLine::delivery(tenant, lane == Priority::Critical)
}

async fn pause(core: &Core) {
    let deadline = core.ports.clock.monotonic().plus(PAUSE_MS);
    core.ports.tasks.sleep_until(deadline).await;
}

struct Parcel {
    core: Arc<Core>,
    shard: ShardNo,
    channel: ChannelKind,
    allowed: Allowed,
    /// How many of the turn's permits it still has. Each ends once its call was answered and the answer is written down, so
    /// that a message that hangs holds its own permit and no other.
    permits: AtomicU32,
    _under_way: UnderWay,
}

impl Parcel {
    /// Runs it. If that panics, what may have been sent is unknown and the permits come back.
    async fn run_contained(self, asked: Millis, intended: Millis) {
        let core = &self.core;
        let began = core.ports.clock.monotonic();
        let count = |panic: &str| core.ports.tasks.count_panic("parcel", panic);
        if caught(Box::pin(self.run(asked, intended)), count).await.is_err() {
            let told = self.allowed.sends.iter().map(|send| panicked(send.position)).collect();
            self.settle(told).await;
            self.end_all(began);
        }
    }

    /// Sends it and writes down what comes of it. `asked` and `intended` are when the turn was.
    async fn run(&self, asked: Millis, intended: Millis) {
        let core = &self.core;
        let began = core.ports.clock.monotonic();
        let sent = self.send(began).await;
        self.end_all(began);
        let steps = Steps { asked, intended, sent, acknowledged: core.ports.clock.wall() };
        spans::parcel(core, self.channel, self.shard, &self.allowed, steps);
    }

    /// Ends each call once its answer is written down. Returns when the last one was answered.
    async fn send(&self, began: Millis) -> Millis {
        assert!(!self.core.pause.is_on(), "a node that is paused starts no turn");
        let clock = &self.core.ports.clock;
        let packed = match self.pack(began) {
            Ok(packed) => packed,
            Err(refusal) => {
                warn!(%refusal, "parcel not sent");
                let told = self.allowed.sends.iter().map(|send| not_started(send.position)).collect();
                self.settle(told).await;
                return clock.wall();
            }
        };
        self.core.ports.points.reach("deliver.packed");
        let Some(provider) = self.core.ports.channels.get(&self.channel) else {
            let told = packed.positions.iter().map(|(position, _)| no_provider(*position));
            self.settle(packed.unsendable.into_iter().chain(told).collect()).await;
            return clock.wall();
        };
        let answers = Answers::new(packed.positions.len(), packed.unsendable);
        let (age_ms, ready) = (clock.wall().since(self.allowed.event.millis()), clock.monotonic());
        let report = |index: usize, answer: Answer| {
            let Some((position, claim)) = packed.positions.get(index).copied() else { return };
            self.core.ports.points.reach("deliver.answered");
            let Some(message) = packed.shipment.messages.get(index) else { return };
            if message.attempt == 1 {
                let waited_ms = age_ms + clock.monotonic().since(ready);
                self.core.meter.answered(self.allowed.terms.lane, waited_ms);
            }
            let signal = match answer.signal() {
                Signal::Rest { .. } | Signal::Fails if provider.paces(&message.endpoint) => Signal::Nothing,
                signal => signal,
            };
            let call = Call { began, signal };
            answers.hear(index, call, Told::of(position, answer).about(claim));
        };
        let mut sending = self.contained(&**provider, &packed.shipment, &report);
        let mut is_over = packed.positions.is_empty();
        let give_up = began.plus(PARCEL_MS_MAX);
        while !is_over {
            if clock.monotonic() >= give_up {
                let (channel, shard) = (self.channel.name(), self.shard);
                error!(channel, %shard, "a channel never ended a parcel, its answers are unknown");
                self.core.meter.parcel_abandoned();
                break;
            }
            let later = self.core.ports.clock.monotonic().plus(PORTION_MS);
            is_over = until(&mut sending, self.core.ports.tasks.sleep_until(later)).await;
            let (told, calls) = answers.take();
            is_over = beside(&mut sending, is_over, self.settle(told)).await;
            self.end(&calls);
        }
        self.core.ports.points.reach("deliver.sent");
        let sent = clock.wall();
        drop(sending);
        let left = answers.finish();
        let silent = packed.positions.iter().zip(&left.is_heard).filter(|(_, is_heard)| !**is_heard);
        let silent = silent.map(|((position, _), _)| unreported(*position));
        self.settle(left.told.into_iter().chain(silent).collect()).await;
        self.end(&left.calls);
        sent
    }

    /// A call of a channel. A panic ends it: what it did not report is unknown then.
    fn contained<'a>(
        &'a self,
        provider: &'a dyn Channel,
        shipment: &'a Shipment,
        report: &'a Report<'a>,
    ) -> BoxFuture<'a, ()> {
        let count = |panic: &str| self.core.ports.tasks.count_panic("channel", panic);
        let send = Box::pin(async move { provider.send(shipment, report).await });
        Box::pin(async move { drop(caught(send, count).await) })
    }

    /// Calls are over. A user with more devices than there were permits ends no more calls than were permitted.
    fn end(&self, calls: &[Call]) {
        let left = self.permits.load(Ordering::Relaxed);
        let calls = &calls[..calls.len().min(left as usize)];
        self.permits.store(left - calls.len() as u32, Ordering::Relaxed);
        let now = self.core.ports.clock.monotonic();
        self.core.dispatch.ended(self.channel, self.allowed.parcel.tenant, now, calls);
    }

    /// The permits that no call used come back.
    fn end_all(&self, began: Millis) {
        let left = self.permits.load(Ordering::Relaxed) as usize;
        self.end(&vec![Call { began, signal: Signal::Nothing }; left]);
    }

    /// Journals answers, however long that takes; only a stopped leader ends it.
    async fn settle(&self, told: Vec<Told>) {
        if told.is_empty() {
            return;
        }
        self.core.ports.points.reach("deliver.settling");
        let bytes = told.iter().map(Told::bytes).sum();
        let told = Arc::new(told);
        loop {
            let ask = ShardAsk::Outcome { parcel: self.allowed.parcel, told: Arc::clone(&told) };
            let queue = &self.core.shard(self.shard).queue;
            let line = line(self.allowed.parcel.tenant, self.allowed.terms.lane);
            match answer(queue.push(line, &Actor::System, vec![ask], bytes)).await {
                Ok(_) => {
                    self.core.ports.points.reach("deliver.settled");
                    self.core.meter.settled(self.channel, &told);
                    return;
                }
                Err(Refusal::Stopped { .. }) => return,
                Err(_) => pause(&self.core).await,
            }
        }
    }
}

/// What a channel has said so far.
struct Answers(Mutex<Heard>);

struct Heard {
    calls: Vec<Call>,
    told: Vec<Told>,
    /// By message: a channel that says nothing about one leaves it unknown, not under way for ever.
    is_heard: Vec<bool>,
}

impl Answers {
    /// `told` is what is known before anything is sent.
    fn new(messages: usize, mut told: Vec<Told>) -> Self {
        told.reserve(messages);
        let calls = Vec::with_capacity(messages);
        Self(Mutex::new(Heard { calls, told, is_heard: vec![false; messages] }))
    }

    fn state(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, index: usize, call: Call, told: Told) {
        let mut heard = self.state();
        heard.is_heard[index] = true;
        heard.calls.push(call);
        heard.told.push(told);
    }

    fn take(&self) -> (Vec<Told>, Vec<Call>) {
        let mut heard = self.state();
        (std::mem::take(&mut heard.told), std::mem::take(&mut heard.calls))
    }

    fn finish(self) -> Heard {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes on as far as it can now; says whether that was the end.
async fn is_over(future: &mut BoxFuture<'static, ()>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// Polls both; says whether the first has ended.
async fn until(sending: &mut BoxFuture<'_, ()>, mut later: BoxFuture<'static, ()>) -> bool {
    poll_fn(|context| {
        if sending.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        Pin::new(&mut later).poll(context).map(|()| false)
    })
    .await
}

/// Waits for the second while the first goes on; says whether the first has ended.
async fn beside(
    sending: &mut BoxFuture<'_, ()>,
    mut is_over: bool,
    settling: impl Future<Output = ()>,
) -> bool {
    let mut settling = pin!(settling);
    poll_fn(|context| {
        is_over = is_over || sending.as_mut().poll(context).is_ready();
        settling.as_mut().poll(context).map(|()| is_over)
    })
    .await
}

fn told(position: u16, said: Said, code: &str) -> Told {
    let (message, provider_id) = (String::new(), String::new());
    Told { position, claim: None, said, code: code.to_owned(), message, provider_id }
}

fn gone(position: u16) -> Told {
    told(position, Said::Rejected, fantail_machine::shard::intend::ENDPOINT_GONE)
}

/// Not sent to the address that was: it waits for the one that is being claimed.
fn changed(position: u16) -> Told {
    let said = Said::NotTaken { cause: Cause::Ours, retry_after_ms: None };
    told(position, said, fantail_machine::shard::intend::ENDPOINT_CHANGED)
}

fn no_provider(position: u16) -> Told {
    told(position, Said::Rejected, "no_provider")
}

fn unreported(position: u16) -> Told {
    told(position, Said::Unanswered, "no_answer")
}

fn panicked(position: u16) -> Told {
    told(position, Said::Unanswered, "panicked")
}

fn not_started(position: u16) -> Told {
    told(position, Said::NotTaken { cause: Cause::Ours, retry_after_ms: None }, "not_started")
}

/// Before anything is sent: what an earlier leader may have sent is not known to have arrived. A journal that has no
/// room is asked again, so that a node with a full disk starts and serves; only a stopped leader ends it.
pub async fn take_over(core: &Core, shard: ShardNo) -> Result<u64, Refusal> {
    let mut count = 0;
    loop {
        let found = core.read(PartitionId::Shard(shard), |view| {
            fantail_machine::tables::ledger::under_way(view.tables(), None, core.knobs.orphans_page)
        })?;
        if found.is_empty() {
            return Ok(count);
        }
        let (asked, bytes) = (found.len() as u64, found.len() * 64);
        let asks = found.into_iter().map(|(parcel, _)| ShardAsk::Orphans { parcel }).collect();
        match crate::core::answers(core.shard(shard).queue.push(
            QueueClass::Recovery,
            &Actor::System,
            asks,
            bytes,
        ))
        .await
        {
            Ok(_) => count += asked,
            Err(stopped @ Refusal::Stopped { .. }) => return Err(stopped),
            Err(_) => pause(core).await,
        }
    }
}
