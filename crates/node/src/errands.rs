//! Errands: effects that to-do rows remember. List sizes are told to the fronts, keys of gone users destroyed,
//! addresses claimed and given up, digests written. What takes long is done by `long_effects`.
//!
//! Comes from: a shard's to-do rows and those of the directories that concern it, whenever one of them moves.
//! Does: the effect, durably, then records that it is done; a crash in between does it again, which changes nothing.
//! Goes to: `front::Counted` and the keyring, then `shard::{Reported, Shredded}`; addresses are `claims`' matter.

use crate::ask::Refusal;
use crate::backoff::Backoff;
use crate::core::{Core, answer, locked};
use crate::take::HOUSE;
use crate::todos::Found;
use crate::{claims, digests};
use fantail_machine::front::FrontAsk;
use fantail_machine::records::front::Size;
use fantail_machine::shard::{ShardAsk, report};
use fantail_machine::tables::todo::{self, Release, Todo};
use fantail_ports::BoxFuture;
use fantail_ports::store::View;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{KeyNo, Millis, PartitionId, ShardNo, TenantId};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::watch;

/// After a failure.
const PAUSE_MS: u64 = 200;
/// Windows that are over and are gone on with in a round: each may have a digest to compose.
const WINDOWS_MAX: usize = 16;

pub struct ErrandLoop {
    pub core: Arc<Core>,
    pub shard: ShardNo,
}

impl ErrandLoop {
    /// Ends when the shard's queue is closed.
    pub async fn run(self) {
        let mut bell = self.core.shard(self.shard).bell.clone();
        let mut backoff = Backoff::of("errands");
        let mut retry_at: Option<Millis> = None;
        loop {
            let ports = &self.core.ports;
            bell.borrow_and_update();
            if retry_at.take_if(|at| *at <= ports.clock.monotonic()).is_some() {
                // What failed is still in the tables.
                self.core.shard(self.shard).todos.miss();
            }
            match self.run_once().await {
                Ok(Round { is_crowded: true, .. }) => {
                    // Others let go within moments: come back then. Nothing else waits for that.
                    let again = ports.clock.monotonic().plus(PAUSE_MS);
                    retry_at = retry_at.or(Some(again));
                    continue;
                }
                Ok(Round { any: true, .. }) => continue,
                Ok(_) if retry_at.is_none() => backoff.reset(),
                Ok(_) => {}
                Err(Refusal::Stopped { .. }) => return,
                Err(refusal) => {
                    let again = ports.clock.monotonic().plus(backoff.failed(&self.core.meter, &refusal));
                    retry_at = retry_at.or(Some(again));
                    // What else waits goes on after a moment, long before what failed is tried again.
                    ports.tasks.sleep_until(ports.clock.monotonic().plus(PAUSE_MS)).await;
                    continue;
                }
            }
            if !woken(&mut bell, retry_at.map(|at| ports.tasks.sleep_until(at))).await {
                return;
            }
        }
    }

    /// Does some of what waits now. An errand that fails holds up no other one.
    async fn run_once(&self) -> Result<Round, Refusal> {
        // First what others want of this shard: what is read after it is not overtaken by it. Then its own, however much
        // more others want.
        let any = claims::serve(&self.core, self.shard).await?;
        let remembered = &self.core.shard(self.shard).todos;
        let partition = PartitionId::Shard(self.shard);
        let taken = match remembered.take(self.core.knobs.todos_page) {
            Found::Here(todos) if todos.is_empty() => return Ok(Round { any, is_crowded: false }),
            Found::Here(todos) => todos,
            Found::InTables(look) => {
                let walk = |view: &dyn View| look.rows(view.tables());
                let found = self.core.read(partition, walk).inspect_err(|_| remembered.miss())?;
                remembered.found(found);
                return Ok(Round { any: true, is_crowded: false });
            }
        };
        let (windows, taken): (Vec<Todo>, Vec<Todo>) =
            taken.into_iter().partition(|todo| is_of_window(*todo));
        let (now, later) = windows.split_at(windows.len().min(WINDOWS_MAX));
        later.iter().rev().for_each(|todo| remembered.give_back(*todo));
        let (todos, sizes, wanted) = self.core.read(partition, |view| {
            let todos = todo::still_waiting(view.tables(), taken)?;
            let sizes = report::sizes_to_report(view.tables(), &todos)?;
            let wanted = claims::wanted(view.tables(), self.shard, &todos)?;
            Ok((todos, sizes, wanted))
        })?;
        let mut first = FirstFailure::default();
        if !sizes.is_empty() {
            first.note(self.report(sizes).await)?;
        }
        let keys: Vec<_> = todos.iter().filter_map(|todo| key_of(*todo)).collect();
        first.note(self.shred(keys).await)?;
        let releases: Vec<_> = todos.iter().filter_map(|todo| release_of(*todo)).collect();
        first.note(claims::release(&self.core, self.shard, releases).await)?;
        let claimed = claims::claim(&self.core, self.shard, wanted).await;
        let is_crowded = matches!(claimed, Ok(true));
        first.note(claimed.map(|_| ()))?;
        // Last, as they take longest.
        let (left, done) = digests::run(&self.core, self.shard, now).await;
        left.iter().rev().for_each(|todo| remembered.give_back(*todo));
        first.note(done)?;
        first.end().map(|()| Round { any: true, is_crowded })
    }

    /// Every front hears every size: a topic's events come through any of them.
    async fn report(&self, sizes: Vec<Size>) -> Result<(), Refusal> {
        for front in self.core.fronts.values() {
            let ask = FrontAsk::Counted { shard: self.shard, sizes: sizes.clone() };
            answer(front.queue.push(HOUSE, &Actor::System, vec![ask], sizes.len() * 32)).await?;
        }
        self.tell_shard(ShardAsk::Reported { sizes }).await
    }

    async fn shred(&self, keys: Vec<(TenantId, KeyNo)>) -> Result<(), Refusal> {
        let (mut shredded, mut first) = (Vec::with_capacity(keys.len()), FirstFailure::default());
        for (tenant, key) in keys {
            match self.core.ports.keyring.destroy(tenant, key) {
                Ok(()) => shredded.push((tenant, key)),
                Err(failed) => first.note(Err(locked(failed)))?,
            }
        }
        if !shredded.is_empty() {
            self.core.known.forget_events();
            first.note(self.tell_shard(ShardAsk::Shredded { keys: shredded }).await)?;
        }
        first.end()
    }

    async fn tell_shard(&self, ask: ShardAsk) -> Result<(), Refusal> {
        answer(self.core.shard(self.shard).queue.push(HOUSE, &Actor::System, vec![ask], 1_024)).await?;
        Ok(())
    }
}

/// What a round of the loop came to.
#[derive(Clone, Copy)]
struct Round {
    /// There was something to do.
    any: bool,
    /// An address is claimed by so many at once that its directory takes no more for now.
    is_crowded: bool,
}

/// The first failure of several errands. A leader that is gone ends them all.
#[derive(Default)]
pub(crate) struct FirstFailure(Option<Refusal>);

impl FirstFailure {
    pub(crate) fn note(&mut self, done: Result<(), Refusal>) -> Result<(), Refusal> {
        match done {
            Ok(()) => Ok(()),
            Err(stopped @ Refusal::Stopped { .. }) => Err(stopped),
            Err(refusal) => {
                self.0.get_or_insert(refusal);
                Ok(())
            }
        }
    }

    pub(crate) fn end(self) -> Result<(), Refusal> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Waits until the bell rings or `until` is over; false if nothing rings it any more.
pub(crate) async fn woken(
    bell: &mut watch::Receiver<u64>,
    mut until: Option<BoxFuture<'static, ()>>,
) -> bool {
    let mut rung = pin!(bell.changed());
    poll_fn(|context| match rung.as_mut().poll(context) {
        Poll::Ready(rung) => Poll::Ready(rung.is_ok()),
        Poll::Pending => match until.as_mut().map(|until| until.as_mut().poll(context)) {
            Some(Poll::Ready(())) => Poll::Ready(true),
            Some(Poll::Pending) | None => Poll::Pending,
        },
    })
    .await
}

fn is_of_window(todo: Todo) -> bool {
    match todo {
        Todo::Fold { .. } | Todo::Digest { .. } => true,
        Todo::Report { .. }
        | Todo::Shred { .. }
        | Todo::Claim { .. }
        | Todo::Release(_)
        | Todo::Replan { .. }
        | Todo::Halt { .. }
        | Todo::Erase { .. } => false,
    }
}

fn release_of(todo: Todo) -> Option<Release> {
    match todo {
        Todo::Release(release) => Some(release),
        Todo::Report { .. }
        | Todo::Shred { .. }
        | Todo::Claim { .. }
        | Todo::Replan { .. }
        | Todo::Fold { .. }
        | Todo::Digest { .. }
        | Todo::Halt { .. }
        | Todo::Erase { .. } => None,
    }
}

fn key_of(todo: Todo) -> Option<(TenantId, KeyNo)> {
    match todo {
        Todo::Shred { tenant, key } => Some((tenant, key)),
        Todo::Report { .. }
        | Todo::Claim { .. }
        | Todo::Release(_)
        | Todo::Replan { .. }
        | Todo::Fold { .. }
        | Todo::Digest { .. }
        | Todo::Halt { .. }
        | Todo::Erase { .. } => None,
    }
}
