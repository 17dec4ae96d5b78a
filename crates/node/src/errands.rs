//! Errands: effects that to-do rows remember. List sizes are told to the fronts, keys of gone users destroyed.
//!
//! Comes from: a shard's to-do rows, whenever its position moves. Does: the effect, durably, then records that it
//! is done; a crash in between does it again, which changes nothing.
//! Goes to: `front::Counted` and the keyring, then `shard::{Reported, Shredded}`.

use crate::ask::Refusal;
use crate::core::{Core, answer, locked};
use crate::take::HOUSE;
use fantail_machine::front::FrontAsk;
use fantail_machine::records::front::Size;
use fantail_machine::shard::{ShardAsk, report};
use fantail_machine::tables::todo::{self, Todo};
use fantail_rules::ids::{KeyNo, PartitionId, ShardNo, TenantId};
use std::sync::Arc;
use tracing::warn;

const TODOS_MAX: usize = 256;

pub struct ErrandLoop {
    pub core: Arc<Core>,
    pub shard: ShardNo,
}

impl ErrandLoop {
    pub async fn run(self) {
        let mut applied = self.core.shard(self.shard).applied.clone();
        loop {
            applied.borrow_and_update();
            match self.run_once().await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(Refusal::Stopped { .. }) => return,
                Err(refusal) => {
                    warn!(shard = %self.shard, %refusal, "errand put off");
                    let deadline = self.core.ports.clock.monotonic().plus(200);
                    self.core.ports.tasks.sleep_until(deadline).await;
                    continue;
                }
            }
            if applied.changed().await.is_err() {
                return;
            }
        }
    }

    /// Does what waits now; says whether there was anything.
    pub async fn run_once(&self) -> Result<bool, Refusal> {
        let (sizes, keys) = self.core.read(PartitionId::Shard(self.shard), |view| {
            let todos = todo::waiting(view.tables(), TODOS_MAX)?;
            let sizes = report::sizes_to_report(view.tables(), &todos)?;
            let keys: Vec<_> = todos.iter().filter_map(|todo| key_of(*todo)).collect();
            Ok((sizes, keys))
        })?;
        let any = !sizes.is_empty() || !keys.is_empty();
        if !sizes.is_empty() {
            self.report(sizes).await?;
        }
        if !keys.is_empty() {
            self.shred(keys).await?;
        }
        Ok(any)
    }

    /// Every front hears every size: a topic's events come through any of them.
    async fn report(&self, sizes: Vec<Size>) -> Result<(), Refusal> {
        for front in self.core.fronts.values() {
            let ask = FrontAsk::Counted { shard: self.shard, sizes: sizes.clone() };
            answer(front.queue.push(HOUSE, vec![ask], sizes.len() * 32)).await?;
        }
        self.tell_shard(ShardAsk::Reported { sizes }).await
    }

    async fn shred(&self, keys: Vec<(TenantId, KeyNo)>) -> Result<(), Refusal> {
        for (tenant, key) in &keys {
            self.core.ports.keyring.destroy(*tenant, *key).map_err(locked)?;
        }
        self.core.known.forget_events();
        self.tell_shard(ShardAsk::Shredded { keys }).await
    }

    async fn tell_shard(&self, ask: ShardAsk) -> Result<(), Refusal> {
        answer(self.core.shard(self.shard).queue.push(HOUSE, vec![ask], 1_024)).await?;
        Ok(())
    }
}

fn key_of(todo: Todo) -> Option<(TenantId, KeyNo)> {
    match todo {
        Todo::Shred { tenant, key } => Some((tenant, key)),
        Todo::Report { .. } | Todo::Claim { .. } | Todo::Release(_) => None,
    }
}
