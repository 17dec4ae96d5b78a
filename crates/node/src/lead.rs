//! Leading a partition: plan, append, apply, answer.
//!
//! Comes from: the queue. Does: plans a batch over the durable state and the batches in flight, appends it, and
//! only once it is durable folds it into the store and answers. Planning runs ahead of the disk by `AHEAD`
//! batches; readers never see that far.
//! Goes to: the journal, the store, the callers, and whoever watches the partition's position.
//!
//! A batch is cut by bytes: when it is full, what is left of an item waits for the next one. An ask whose records do not fit
//! is refused alone.
//!
//! What must never happen: an answer, or a row a reader can see, whose facts are not durable; an append that is larger than
//! the journal takes.

use crate::ask::Refusal;
use crate::batch::{Batch, TooLarge, Undecided};
use crate::machines::Machine;
use crate::meter::Meter;
use crate::ports::Ports;
use crate::queue::{Item, Queue};
use crate::quotas::TenantUsage;
use fantail_machine::front::Moment;
use fantail_machine::front::fact::FrontFact;
use fantail_machine::shard::Offer;
use fantail_machine::tables::{directory, todo, usage};
use fantail_machine::view::View;
use fantail_ports::BoxFuture;
use fantail_ports::journal::{Append, AppendError};
use fantail_ports::store::{Commit, StoreError};
use fantail_ports::tables::{Changes, TablesError};
use fantail_rules::ids::{Epoch, Millis, PartitionId, Position};
use fantail_rules::knobs::Knobs;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::vec;
use tokio::sync::watch;
use tracing::{error, warn};

/// Batches that may be planned before the first of them is durable.
const AHEAD: usize = 2;

/// Told of a batch that was folded: the facts that shards will take, and what the dispatcher can do.
pub type Settled = Box<dyn Fn(&[FrontFact], &[Offer]) + Send + Sync>;

pub struct Leader<M: Machine> {
    pub machine: M,
    pub ports: Arc<Ports>,
    pub meter: Arc<Meter>,
    pub queue: Arc<Queue<M::Ask, M::Answer>>,
    /// Hears what tenants have after each batch.
    pub usage: Arc<TenantUsage>,
    pub epoch: Epoch,
    /// The position of the next record.
    pub next: Position,
    /// The time of the last record: the next ones carry no earlier one.
    pub time: Millis,
    /// Says what is durable and folded.
    pub applied: watch::Sender<Position>,
    /// Called after a batch was folded, before its callers are answered.
    pub settled: Settled,
    pub knobs: Knobs,
}

/// What a leader has before it.
struct Underway<M: Machine> {
    /// Items that were popped and are not decided to the end: the batch was full.
    begun: VecDeque<Begun<M>>,
    flights: VecDeque<Flight<M>>,
}

/// An item, the asks of it that are left to decide, and the answers so far.
struct Begun<M: Machine> {
    item: Item<M::Ask, M::Answer>,
    left: vec::IntoIter<M::Ask>,
    answers: Vec<M::Answer>,
}

impl<M: Machine> From<Item<M::Ask, M::Answer>> for Begun<M> {
    fn from(mut item: Item<M::Ask, M::Answer>) -> Self {
        let left = std::mem::take(&mut item.asks).into_iter();
        Self { answers: Vec::with_capacity(left.len()), item, left }
    }
}

/// An item with what it is answered once it is durable.
type Answered<M> =
    (Item<<M as Machine>::Ask, <M as Machine>::Answer>, Result<Vec<<M as Machine>::Answer>, Refusal>);

/// A batch on its way to the disk.
struct Flight<M: Machine> {
    append: Option<BoxFuture<'static, Result<Position, AppendError>>>,
    commit: Commit,
    facts: Vec<FrontFact>,
    offers: Vec<Offer>,
    answers: Vec<Answered<M>>,
}

/// Why a leader ended.
#[derive(Debug)]
enum Stop {
    Closed,
    Failed(String),
}

enum Next {
    Landed(Result<Position, AppendError>),
    Waiting,
    Closed,
}

impl<M: Machine> Leader<M> {
    /// Leads until the queue is closed or the journal fails.
    pub async fn run(mut self) {
        let partition = self.machine.partition();
        // Also if this panics: no caller waits for a leader that is gone.
        let closing = CloseOnDrop(self.queue.clone());
        let mut underway = Underway { begun: VecDeque::new(), flights: VecDeque::new() };
        let stop = loop {
            let step = match self.next(&mut underway).await {
                Next::Landed(landed) => self.land(&mut underway, landed),
                Next::Waiting => self.take_off(&mut underway),
                Next::Closed => Err(Stop::Closed),
            };
            if let Err(stop) = step {
                break stop;
            }
        };
        let reason = match stop {
            Stop::Closed => "stopping".to_owned(),
            Stop::Failed(reason) => {
                error!(%partition, reason, "leader stopped");
                self.ports.stop.set(&reason);
                reason
            }
        };
        drop(closing);
        underway.refuse(&Refusal::Stopped { reason });
    }

    /// What happens next: the oldest batch lands, or something waits and there is room to plan.
    async fn next(&self, underway: &mut Underway<M>) -> Next {
        let (has_begun, flights) = (!underway.begun.is_empty(), &mut underway.flights);
        poll_fn(|context| {
            if let Some(oldest) = flights.front_mut() {
                match oldest.append.as_mut() {
                    None => return Poll::Ready(Next::Landed(Ok(oldest.commit.through))),
                    Some(append) => {
                        if let Poll::Ready(landed) = append.as_mut().poll(context) {
                            return Poll::Ready(Next::Landed(landed));
                        }
                    }
                }
            }
            if flights.len() < AHEAD && has_begun {
                return Poll::Ready(Next::Waiting);
            }
            if flights.len() < AHEAD && self.queue.poll_ready(context).is_ready() {
                if !self.queue.is_closed() {
                    return Poll::Ready(Next::Waiting);
                }
                if flights.is_empty() {
                    return Poll::Ready(Next::Closed);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Plans the next batch and starts its append.
    fn take_off(&mut self, underway: &mut Underway<M>) -> Result<(), Stop> {
        let begun = &mut underway.begun;
        if begun.is_empty() {
            let items = self.queue.pop(self.knobs.batch_records, self.knobs.batch_bytes);
            begun.extend(items.into_iter().map(Begun::from));
        }
        if begun.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new(self.next, self.knobs);
        let mut changes = Changes::new();
        let now = self.time.max(self.ports.clock.wall());
        let answers = self
            .plan(underway, &mut changes, &mut batch, now)
            .map_err(|failed| Stop::Failed(failed.to_string()))?;
        let count = batch.records.len() as u64;
        if count > 0 {
            self.time = now;
        }
        let through = Position(self.next.0 + count - 1);
        let append = (count > 0).then(|| {
            self.ports.journal.append(Append {
                partition: self.machine.partition(),
                epoch: self.epoch,
                first: self.next,
                records: batch.records,
            })
        });
        self.next = Position(self.next.0 + count);
        self.ports.points.reach("lead.planned");
        self.meter.planned(count, batch.bytes as u64);
        self.meter.endpoints(&batch.endpoints);
        self.meter.stood(&batch.deliveries);
        let mut derived = batch.derived;
        derived.offers.extend(todo::among(&changes).map(Offer::Todo));
        derived.offers.extend(directory::among(&changes).map(Offer::Directory));
        let commit = Commit {
            through,
            changes,
            edits: derived.edits,
            windows: derived.windows,
            forgets: derived.forgets,
        };
        underway.flights.push_back(Flight {
            append,
            commit,
            facts: batch.facts,
            offers: derived.offers,
            answers,
        });
        Ok(())
    }

    /// Decides asks in order until the batch is full, each seeing what the ones before it decided. Returns the items that
    /// are decided to the end.
    fn plan(
        &self,
        underway: &mut Underway<M>,
        changes: &mut Changes,
        batch: &mut Batch,
        now: Millis,
    ) -> Result<Vec<Answered<M>>, StoreError> {
        let Underway { begun, flights } = underway;
        let partition = self.machine.partition();
        let clock = &self.ports.clock;
        let pending: Vec<&Changes> = flights.iter().map(|flight| &flight.commit.changes).collect();
        let (machine, entropy, meter) = (&self.machine, &self.ports.entropy, &self.meter);
        let knobs = &self.knobs;
        let mut answered = Err(TablesError::Io { reason: "the store gave no state".to_owned() });
        self.ports.store.read(partition, &mut |state| {
            let mut view = View::new(state.tables(), &pending, changes).with_lists(state.lists());
            let mut decide = |ask, batch: &mut Batch| {
                let random = entropy.random_u128();
                let moment = Moment { now, random, knobs, quiet_before: false };
                machine.decide(&mut view, ask, moment, batch)
            };
            let mut decided = Vec::with_capacity(begun.len());
            answered = loop {
                let Some(mut next) = begun.pop_front() else { break Ok(std::mem::take(&mut decided)) };
                batch.by = next.item.by.clone();
                let started = clock.micros();
                let done = next.decide(batch, &mut decide);
                meter.decided(clock.micros().saturating_sub(started));
                match done {
                    Err(failed) => break Err(failed),
                    Ok(Done::Answers) => decided.push((next.item, Ok(next.answers))),
                    Ok(Done::TooLarge(too_large)) => {
                        error!(%partition, %too_large, "ask refused, its records do not fit");
                        meter.too_large();
                        decided.push((next.item, Err(refusal_of(too_large))));
                    }
                    Ok(Done::Full) => begun.push_front(next),
                }
                if batch.is_full() {
                    break Ok(std::mem::take(&mut decided));
                }
            };
        })?;
        Ok(answered?)
    }

    /// The oldest batch is durable (or failed): fold it, then answer.
    fn land(
        &mut self,
        underway: &mut Underway<M>,
        landed: Result<Position, AppendError>,
    ) -> Result<(), Stop> {
        match landed {
            Ok(_) => {}
            Err(AppendError::NoRoom { free_bytes, .. }) => {
                warn!(partition = %self.machine.partition(), free_bytes, "journal has no room");
                self.next = self.applied.borrow().next();
                underway.refuse(&Refusal::NoRoom);
                return Ok(());
            }
            // Nothing was written. It is a mistake of ours, as sizes are checked before: what built on it is refused too.
            Err(AppendError::TooLarge { what, bytes, max }) => {
                error!(partition = %self.machine.partition(), what, bytes, max, "journal refused an append");
                self.meter.too_large();
                self.next = self.applied.borrow().next();
                underway.refuse(&Refusal::TooLarge { what, bytes, max });
                return Ok(());
            }
            Err(failed) => return Err(Stop::Failed(failed.to_string())),
        }
        let flight = underway.flights.pop_front().expect("a batch that landed was in flight");
        let through = flight.commit.through;
        let grew = flight.append.is_some();
        if grew {
            self.ports.points.reach("lead.durable");
            self.fold(flight.commit)?;
            self.ports.points.reach("lead.folded");
            // Before anybody hears of the new position, what it brings can be read.
            (self.settled)(&flight.facts, &flight.offers);
            self.applied.send_replace(through);
            self.ports.points.reach("lead.settled");
        }
        for (item, answers) in flight.answers {
            item.answer(answers);
        }
        Ok(())
    }

    fn fold(&self, commit: Commit) -> Result<(), Stop> {
        let partition: PartitionId = self.machine.partition();
        let failed = |failed: StoreError| Stop::Failed(failed.to_string());
        let usage = usage::among(&commit.changes).map_err(|malformed| failed(malformed.into()))?;
        self.ports.store.commit(partition, commit).map_err(failed)?;
        self.usage.settle(partition, &usage);
        Ok(())
    }
}

/// Closes a queue when its leader ends, however that ends.
struct CloseOnDrop<A, R>(Arc<Queue<A, R>>);

impl<A, R> Drop for CloseOnDrop<A, R> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<M: Machine> Underway<M> {
    /// Refuses what is in flight and what was begun: its answers may rest on it.
    fn refuse(&mut self, refusal: &Refusal) {
        for (item, _) in self.flights.drain(..).flat_map(|flight| flight.answers) {
            item.answer(Err(refusal.clone()));
        }
        for begun in self.begun.drain(..) {
            begun.item.answer(Err(refusal.clone()));
        }
    }
}

impl<M: Machine> Begun<M> {
    /// Decides asks until none is left, the batch is full, or one does not fit.
    fn decide(
        &mut self,
        batch: &mut Batch,
        decide: &mut impl FnMut(M::Ask, &mut Batch) -> Result<M::Answer, Undecided>,
    ) -> Result<Done, TablesError> {
        while let Some(ask) = self.left.next() {
            match decide(ask, batch) {
                Ok(answer) => self.answers.push(answer),
                Err(Undecided::Tables(failed)) => return Err(failed),
                // What the item asked for before stays decided, as if the node had died behind it.
                Err(Undecided::TooLarge(too_large)) => return Ok(Done::TooLarge(too_large)),
            }
            if batch.is_full() && self.left.len() > 0 {
                return Ok(Done::Full);
            }
        }
        Ok(Done::Answers)
    }
}

enum Done {
    Answers,
    Full,
    TooLarge(TooLarge),
}

fn refusal_of(TooLarge { what, bytes, max }: TooLarge) -> Refusal {
    Refusal::TooLarge { what, bytes, max }
}

#[cfg(test)]
mod tests;
