//! Leading a partition: plan, append, apply, answer.
//!
//! Comes from: the queue. Does: plans a batch over the durable state and the batches in flight, appends it, and
//! only once it is durable folds it into the store and answers. Planning runs ahead of the disk by `AHEAD`
//! batches; readers never see that far.
//! Goes to: the journal, the store, the callers, and whoever watches the partition's position.
//!
//! What must never happen: an answer, or a row a reader can see, whose facts are not durable.

use crate::ask::Refusal;
use crate::machines::{Batch, Machine};
use crate::meter::Meter;
use crate::ports::Ports;
use crate::queue::{Item, Queue};
use fantail_machine::front::Moment;
use fantail_machine::front::fact::FrontFact;
use fantail_machine::shard::Offer;
use fantail_machine::tables::todo;
use fantail_machine::view::View;
use fantail_ports::BoxFuture;
use fantail_ports::journal::{Append, AppendError};
use fantail_ports::store::{Commit, StoreError};
use fantail_ports::tables::{Changes, TablesError};
use fantail_rules::ids::{Epoch, Millis, PartitionId, Position};
use fantail_rules::limits::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
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
    pub epoch: Epoch,
    /// The position of the next record.
    pub next: Position,
    /// The time of the last record: the next ones carry no earlier one.
    pub time: Millis,
    /// Says what is durable and folded.
    pub applied: watch::Sender<Position>,
    /// Called after a batch was folded, before its callers are answered.
    pub settled: Settled,
}

/// An item with the answers it gets once they are durable.
type Answered<M> = (Item<<M as Machine>::Ask, <M as Machine>::Answer>, Vec<<M as Machine>::Answer>);

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
        let mut flights: VecDeque<Flight<M>> = VecDeque::new();
        let stop = loop {
            let step = match self.next(&mut flights).await {
                Next::Landed(landed) => self.land(&mut flights, landed),
                Next::Waiting => self.take_off(&mut flights),
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
        refuse(flights, &Refusal::Stopped { reason });
    }

    /// What happens next: the oldest batch lands, or something waits and there is room to plan.
    async fn next(&self, flights: &mut VecDeque<Flight<M>>) -> Next {
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
    fn take_off(&mut self, flights: &mut VecDeque<Flight<M>>) -> Result<(), Stop> {
        let items = self.queue.pop(BATCH_RECORDS_MAX, BATCH_BYTES_MAX);
        if items.is_empty() {
            return Ok(());
        }
        let mut batch = Batch { first: self.next, ..Batch::default() };
        let mut changes = Changes::new();
        let answers = self
            .plan(items, flights, &mut changes, &mut batch)
            .map_err(|failed| Stop::Failed(failed.to_string()))?;
        let count = batch.records.len() as u64;
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
        let commit = Commit {
            through,
            changes,
            edits: derived.edits,
            windows: derived.windows,
            forgets: derived.forgets,
        };
        flights.push_back(Flight { append, commit, facts: batch.facts, offers: derived.offers, answers });
        Ok(())
    }

    /// Decides every ask in order, each seeing what the ones before it decided.
    fn plan(
        &mut self,
        items: Vec<Item<M::Ask, M::Answer>>,
        flights: &VecDeque<Flight<M>>,
        changes: &mut Changes,
        batch: &mut Batch,
    ) -> Result<Vec<Answered<M>>, StoreError> {
        let partition = self.machine.partition();
        let clock = &self.ports.clock;
        self.time = self.time.max(clock.wall());
        let now = self.time;
        let pending: Vec<&Changes> = flights.iter().map(|flight| &flight.commit.changes).collect();
        let (machine, entropy, meter) = (&self.machine, &self.ports.entropy, &self.meter);
        let mut items = Some(items);
        let mut answered = Err(TablesError::Io { reason: "the store gave no state".to_owned() });
        self.ports.store.read(partition, &mut |state| {
            let mut view = View::new(state.tables(), &pending, changes).with_lists(state.lists());
            answered = items.take().map_or(Ok(Vec::new()), |items| {
                items
                    .into_iter()
                    .map(|mut item| {
                        let asks = std::mem::take(&mut item.asks);
                        batch.by = item.by.clone();
                        let started = clock.micros();
                        let answers: Result<Vec<_>, _> = asks
                            .into_iter()
                            .map(|ask| {
                                let moment =
                                    Moment { now, random: entropy.random_u128(), quiet_before: false };
                                machine.decide(&mut view, ask, moment, batch)
                            })
                            .collect();
                        meter.decided(clock.micros().saturating_sub(started));
                        Ok((item, answers?))
                    })
                    .collect()
            });
        })?;
        Ok(answered?)
    }

    /// The oldest batch is durable (or failed): fold it, then answer.
    fn land(
        &mut self,
        flights: &mut VecDeque<Flight<M>>,
        landed: Result<Position, AppendError>,
    ) -> Result<(), Stop> {
        match landed {
            Ok(_) => {}
            Err(AppendError::NoRoom { free_bytes, .. }) => {
                warn!(partition = %self.machine.partition(), free_bytes, "journal has no room");
                self.next = self.applied.borrow().next();
                refuse(std::mem::take(flights), &Refusal::NoRoom);
                return Ok(());
            }
            Err(failed) => return Err(Stop::Failed(failed.to_string())),
        }
        let flight = flights.pop_front().expect("a batch that landed was in flight");
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
            item.answer(Ok(answers));
        }
        Ok(())
    }

    fn fold(&self, commit: Commit) -> Result<(), Stop> {
        let partition: PartitionId = self.machine.partition();
        self.ports.store.commit(partition, commit).map_err(|failed| Stop::Failed(failed.to_string()))
    }
}

/// Closes a queue when its leader ends, however that ends.
struct CloseOnDrop<A, R>(Arc<Queue<A, R>>);

impl<A, R> Drop for CloseOnDrop<A, R> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn refuse<M: Machine>(flights: VecDeque<Flight<M>>, refusal: &Refusal) {
    for (item, _) in flights.into_iter().flat_map(|flight| flight.answers) {
        item.answer(Err(refusal.clone()));
    }
}
