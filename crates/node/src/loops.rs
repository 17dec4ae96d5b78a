//! Starts the loops of a node once all partitions are recovered and led: they take facts, send, close digests, sweep,
//! audit. Each ends when the queues are closed; any other end stops the process.

use crate::audit;
use crate::books;
use crate::bulk;
use crate::core::Core;
use crate::deletions;
use crate::dispatch;
use crate::errands::ErrandLoop;
use crate::housekeeping::{retention_loop, sync_loop};
use crate::long_effects::LongEffectWorker;
use crate::start::StartError;
use crate::take::TakeLoop;
use crate::{digests, guard_sweep, layout, schedule, webhooks};
use std::sync::Arc;

pub(crate) fn start(core: &Arc<Core>) -> Result<(), StartError> {
    layout::complete_keys(&core.ports, &core.control)?;
    audit::feed::check(core).map_err(StartError::Audit)?;
    let known = webhooks::follow::known(core).map_err(StartError::Webhooks)?;
    for (shard, handle) in &core.shards {
        for (front, from) in &core.fronts {
            let take = TakeLoop {
                ports: core.ports.clone(),
                meter: core.meter.clone(),
                shard: *shard,
                front: *front,
                tail: from.tail.clone(),
                queue: handle.queue.clone(),
                applied: from.applied.clone(),
                facts_max: core.knobs.take_facts,
            };
            let (shard, front) = (handle.queue.clone(), from.queue.clone());
            let may_end = move || shard.is_closed() || front.is_closed();
            core.ports.tasks.spawn_loop("take", may_end, Box::pin(take.run()));
        }
        let errands = ErrandLoop { core: core.clone(), shard: *shard };
        core.spawn_loop("errands", Box::pin(errands.run()));
        let long_effects = LongEffectWorker::new(core.clone(), *shard);
        core.spawn_loop("long effects", Box::pin(long_effects.run()));
        core.spawn_loop("guard sweep", Box::pin(guard_sweep::run(core.clone(), *shard)));
        core.spawn_loop("windows", Box::pin(digests::close_windows(core.clone(), *shard)));
        core.spawn_loop("bulk", Box::pin(bulk::run(core.clone(), *shard)));
    }
    for front in core.fronts.keys() {
        core.spawn_loop("schedule", Box::pin(schedule::run(core.clone(), *front)));
    }
    core.spawn_loop("dispatch", Box::pin(dispatch::run(core.clone())));
    core.spawn_loop("audit", Box::pin(audit::feed::run(core.clone())));
    core.spawn_loop("sync", Box::pin(sync_loop(core.clone())));
    core.spawn_loop("retention", Box::pin(retention_loop(core.clone())));
    core.spawn_loop("deletions", Box::pin(deletions::run(core.clone())));
    core.spawn_loop("books", Box::pin(books::run(core.clone())));
    core.spawn_loop("webhooks", Box::pin(webhooks::follow::run(core.clone(), known)));
    Ok(())
}
