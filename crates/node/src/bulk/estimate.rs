//! What a bulk send would come to: who is chosen and what the gates would say, by looking at everybody or at a sample.

use super::{BulkAsk, Estimate, walk_of, window_of};
use crate::accept::delivery_of;
use crate::ask::Refusal;
use crate::chosen::{Chooser, Stretch};
use crate::core::Core;
use crate::crowds;
use crate::groups::Ties;
use crate::segments::{Sample, understood};
use fantail_machine::records::walk::{Pace, Walk};
use fantail_machine::shard::walk::pass;
use fantail_machine::tables::walk::{WalkRow, WalkState};
use fantail_machine::view::View;
use fantail_ports::tables::Changes;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::ids::{Millis, PartitionId, TenantId, UserNo};
use fantail_rules::limits::WALK_MEMBERS_MAX;
use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;

pub fn estimate(core: &Core, tenant: TenantId, ask: &BulkAsk) -> Result<Estimate, Refusal> {
    core.require_tenant(tenant)?;
    let walk = walk_of(core, tenant, ask)?;
    let chooser = Chooser::new(core, tenant, understood(walk.filter.as_deref())?, walk.list)?;
    let now = core.ports.clock.wall();
    let channels = ask.event.channels;
    // Nobody is told anything, so nothing belongs together, and no channel waits for another.
    let (ties, never) = (Ties::default(), (None, Millis(u64::MAX - 1)));
    let Some(delivery) = delivery_of(channels, ask.event.priority, &ask.event.category, &ties, never) else {
        return Ok(Estimate { is_exact: true, ..Estimate::default() });
    };
    let row = WalkRow {
        event: Ulid(0),
        delivery,
        walk,
        bound: UserNo(0),
        next: UserNo(0),
        state: WalkState::Running,
        paced_until: now,
        begun: now,
        ahead: 0,
        looked_at: 0,
        members: 0,
        entries: 0,
        skipped: Vec::new(),
    };
    let policies = core.control.now().policies.clone();
    let mut found = Estimate { is_exact: true, ..Estimate::default() };
    for shard in core.shards.keys() {
        let sample = Sample::of(core, tenant, *shard)?;
        let mut here = Estimate::default();
        let mut looked_at = 0;
        for (from, bound) in sample.stretches() {
            let stretch = Stretch { from, bound, looked_at_max: u64::MAX, members_max: usize::MAX };
            let chosen = chooser.look(core, *shard, stretch, now)?;
            looked_at += chosen.looked_at;
            here.audience += chosen.members.len() as u64;
            for members in chosen.members.chunks(WALK_MEMBERS_MAX) {
                let surveyed = core.read(PartitionId::Shard(*shard), |state| {
                    let mut changes = Changes::new();
                    let view = View::new(state.tables(), &[], &mut changes);
                    pass::survey(&view, &row, tenant, members, &policies, now)
                })?;
                for (channel, told, reasons) in surveyed {
                    let (sum, whys) = here.by_channel.entry(channel.name()).or_default();
                    *sum += told;
                    reasons.into_iter().for_each(|(why, count)| *whys.entry(why).or_default() += count);
                }
            }
        }
        let scaled = |count: u64| sample.scaled(count, looked_at);
        found.users += sample.users;
        found.is_exact &= sample.is_whole();
        found.audience += scaled(here.audience);
        for (channel, (told, whys)) in here.by_channel {
            let (sum, reasons) = found.by_channel.entry(channel).or_default();
            *sum += scaled(told);
            whys.into_iter().for_each(|(why, count)| *reasons.entry(why).or_default() += scaled(count));
        }
    }
    found.finishes_in_ms = finishes_in(core, tenant, &row.walk, channels, ask.event.priority, &found, now)?;
    Ok(found)
}

/// The slowest of what the producer wants, and what the channels do.
fn finishes_in(
    core: &Core,
    tenant: TenantId,
    walk: &Walk,
    channels: ChannelSet,
    lane: Priority,
    found: &Estimate,
    now: Millis,
) -> Result<u64, Refusal> {
    let channels = channels.without(ChannelKind::InApp);
    let told = found.by_channel.values().map(|(told, _)| *told).max().unwrap_or_default();
    let paced_ms = match walk.pace {
        Pace::Free => 0,
        Pace::PerSecond(rate) => told.saturating_mul(1_000) / u64::from(rate.max(1)),
        Pace::Over(ms) => ms,
    };
    let opens_ms = window_of(walk, now).map_or(0, |opens| opens.since(now));
    let sent_ms = crowds::expected(core, tenant, channels, lane, told)?;
    Ok(opens_ms + paced_ms.max(sent_ms))
}
