//! A shard owns some users: who they are, what they follow, what they got and what they did with it.
//!
//! One file per record family, plan and apply side by side: `users`, `erase`, `endpoints`, `respect`, `edges`, `take` with `wanted`, `mark`,
//! `report`, `expire`; then how events leave the house: `dispatch`, `serve` with `intend` and `wake` behind their `gate`, `reachable`, `outcome`,
//! `redrive`, folded by `ledgers` and dropped by `sweep`. What is told together goes through `collect` and `windows`, and
//! `fallback` knows which channel waits for which, `halt` ends what was called off, `throttle` who got one of a kind.
//! `inbox` reads. Lists and inbox windows are derived: apply says what changed, the store folds it.

mod ask;
pub mod edges;
pub mod endpoints;
pub mod erase;
pub mod expire;
pub mod mark;
pub mod report;
pub mod respect;
pub mod take;
mod told;
pub mod users;
mod wanted;

pub mod collect;
pub mod dispatch;
mod fallback;
mod gate;
mod halt;
pub mod intend;
mod ledgers;
pub mod outcome;
mod reachable;
pub mod redrive;
mod replan;
pub mod serve;
mod sweep;
mod throttle;
pub mod wake;
pub mod windows;

pub mod walk;

pub mod inbox;

pub use ask::{ShardAnswer, ShardAsk};
pub use replan::ReplanPlace;
pub use sweep::SweepNext;

use crate::Planned;
use crate::front::Moment;
use crate::front::fact::FrontFact;
use crate::records::digest::DigestRecord;
use crate::records::shard::ShardRecord;
use crate::tables::directory::DirectoryTodo;
use crate::tables::ledger::Timer;
use crate::tables::todo::Todo;
use crate::tables::work::WorkId;
use crate::view::View;
use fantail_ports::inbox::{Forget, Window};
use fantail_ports::lists::ListEdit;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, ShardNo};
use fantail_rules::policy::Policies;
use fantail_rules::priority::Priority;

pub type Plan = Planned<ShardRecord, ShardAnswer>;

/// `policies`: what the tenants say. It is asked here and never when a record is folded.
pub fn plan(
    view: &mut View<'_>,
    ask: ShardAsk,
    shard: ShardNo,
    moment: Moment<'_>,
    policies: &Policies,
) -> Result<Plan, TablesError> {
    let (now, steps) = (moment.now, &moment.knobs.steps);
    let known = serve::Known { policies, now, steps };
    match ask {
        ShardAsk::PutUsers { tenant, users } => users::plan_put(view, tenant, users),
        ShardAsk::DeleteUser { tenant, lookup } => users::plan_delete(view, tenant, lookup),
        ShardAsk::Erase { tenant, lookup, erasure, entries } => {
            erase::plan_begin(view, tenant, lookup, erasure, entries)
        }
        ShardAsk::Purge { tenant, erasure, behind } => {
            erase::plan_purge(view, (tenant, erasure), behind, steps.purge_works)
        }
        ShardAsk::Reached { tenant, erasure, place } => erase::plan_reached(view, tenant, erasure, place),
        ShardAsk::Removed { tenant, erasure, removed, is_done } => {
            erase::plan_note(view, tenant, erasure, removed, is_done)
        }
        ShardAsk::Edit { tenant, edit } => edges::plan(view, tenant, edit),
        ShardAsk::Take { front, facts } => take::plan(view, front, &facts, shard, known),
        ShardAsk::Mark { tenant, user, mark } => mark::plan(view, (tenant, user), mark, known),
        ShardAsk::Reported { sizes } => Ok(Planned::one(ShardRecord::Reported { sizes }, ShardAnswer::Noted)),
        ShardAsk::Shredded { keys } => Ok(Planned::one(ShardRecord::Shredded { keys }, ShardAnswer::Noted)),
        ShardAsk::Walk(ask) => walk::plan(view, ask, known),
        ShardAsk::Told { told, from } => told::plan(view, told, from),
        ShardAsk::Untell { tenant, webhook } => told::plan_untell(view, tenant, webhook),
        ShardAsk::Expire { tenant, retention_days, swept } => {
            expire::plan(view, (tenant, retention_days), swept, now, steps)
        }
        ShardAsk::Sweep { tenant, behind, guard_ms } => {
            let oldest_kept = Millis(now.0.saturating_sub(guard_ms));
            sweep::plan(view, (tenant, behind), oldest_kept, now, steps)
        }
        ShardAsk::Register { tenant, user, registration } => {
            endpoints::plan_register(view, tenant, user, *registration, now)
        }
        ShardAsk::Unregister { tenant, user, device } => {
            endpoints::plan_unregister(view, tenant, user, device)
        }
        ShardAsk::Prefer { tenant, user, prefer } => respect::plan_prefer(view, tenant, user, *prefer),
        ShardAsk::Consent { tenant, user, channel, consent } => {
            respect::plan_consent(view, tenant, user, channel, consent)
        }
        ShardAsk::Replan { tenant, user, from } => {
            replan::plan(view, (tenant, user), from, now, steps.replan_ledgers)
        }
        ShardAsk::EndHalted { tenant, arrival, behind } => halt::plan(view, (tenant, arrival), behind, known),
        ShardAsk::CloseWindows { ends } => windows::plan_close(view, &ends, now, steps.closed_windows),
        ShardAsk::Fold { tenant, window } => windows::plan_fold(view, tenant, window, moment),
        ShardAsk::Digested { tenant, window, content } => {
            windows::plan_digested(view, tenant, window, content, now)
        }
        ShardAsk::Hear { tenant, heard } => endpoints::plan_hear(view, tenant, &heard),
        ShardAsk::Age { tenant, page } => endpoints::plan_age(view, (tenant, page), now, steps.aged_pages),
        ShardAsk::Serve { jobs, deliveries_max } => serve::plan(view, &jobs, deliveries_max, known),
        ShardAsk::Outcome { parcel, told } => outcome::plan(view, parcel, &told, moment),
        ShardAsk::Orphans { parcel } => outcome::plan_orphans(view, parcel, moment),
        ShardAsk::Redrive { parcel, wish, users } => redrive::plan(view, parcel, wish, users.as_deref(), now),
        ShardAsk::Receipt { parcel, heard } => redrive::plan_receipt(view, parcel, &heard, now),
    }
}

/// What a record changes besides tables.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    pub edits: Vec<ListEdit>,
    pub windows: Vec<Window>,
    pub forgets: Vec<Forget>,
    /// What the dispatcher can do from now on.
    pub offers: Vec<Offer>,
}

/// Something to send or to do. Nothing is lost if nobody hears of it: its row tells a new leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// A walk may go on.
    Walk,
    Work {
        work: WorkId,
        lane: Priority,
    },
    Timer(Timer),
    /// A window was opened.
    Window {
        closes_at: Millis,
    },
    Todo(Todo),
    /// A directory wants something of a shard.
    Directory(DirectoryTodo),
}

/// Folds a record. `facts` are the front's facts that a `Take` refers to, all of them, in order; others need none.
pub fn apply(
    view: &mut View<'_>,
    record: &ShardRecord,
    at: Millis,
    facts: &[FrontFact],
    derived: &mut Derived,
) -> Result<(), TablesError> {
    match record {
        ShardRecord::UserPut { tenant, users } => users::apply_put(view, *tenant, users, at),
        ShardRecord::UserGone { tenant, user, lookup, key } => {
            users::apply_gone(view, *tenant, *user, *lookup, *key, derived)
        }
        ShardRecord::Erasure(erasure) => erase::apply(view, erasure, at),
        ShardRecord::Edges { tenant, change, edges } => edges::apply(view, *tenant, *change, edges, derived),
        ShardRecord::Take { front, from, to } => take::apply(view, *front, *from, *to, facts, at, derived),
        ShardRecord::Given(given) => take::apply_given(view, given, at, derived),
        ShardRecord::Marked { tenant, user, mark, arrivals } => {
            mark::apply(view, *tenant, *user, *mark, arrivals, at)
        }
        ShardRecord::Moved { tenant, user, watermark, to } => {
            mark::apply_moved(view, *tenant, *user, *watermark, *to)
        }
        ShardRecord::Cleared { tenant, user, arrivals } => {
            mark::apply_cleared(view, *tenant, *user, arrivals)
        }
        ShardRecord::Reported { sizes } => report::apply_reported(view, sizes),
        ShardRecord::Shredded { keys } => {
            report::apply_shredded(view, keys);
            Ok(())
        }
        ShardRecord::Unlisted { tenant, user, lists } => {
            edges::apply_unlisted(view, *tenant, *user, lists, derived)
        }
        ShardRecord::Expired { tenant, through } => expire::apply(view, *tenant, *through, derived),
        ShardRecord::EndpointPut { tenant, endpoints } => endpoints::apply_put(view, *tenant, endpoints, at),
        ShardRecord::EndpointState { tenant, states } => endpoints::apply_state(view, *tenant, states),
        ShardRecord::EndpointGone { tenant, endpoints } => endpoints::apply_gone(view, *tenant, endpoints),
        ShardRecord::Preferred(preferred) => respect::apply_preferred(view, preferred, at),
        ShardRecord::Consented { tenant, consents } => respect::apply_consented(view, *tenant, consents, at),
        ShardRecord::Replanned { tenant, user } => {
            view.delete(Todo::Replan { tenant: *tenant, user: *user }.key());
            Ok(())
        }
        ShardRecord::Intend(intend) => intend::apply(view, intend, at, derived),
        ShardRecord::Wake(wake) => wake::apply(view, wake, at, derived),
        ShardRecord::Outcome(outcome) => outcome::apply(view, outcome, derived),
        ShardRecord::Receipt(receipt) => redrive::apply_receipt(view, receipt, derived),
        ShardRecord::Redrive(redrive) => redrive::apply(view, redrive, at, derived),
        ShardRecord::Closed { work, .. } => dispatch::close(view, *work, derived),
        ShardRecord::Halt(record) => halt::apply(view, record, at, derived),
        ShardRecord::Swept(swept) => sweep::apply(view, swept),
        ShardRecord::Digest(DigestRecord::Collected(collected)) => collect::apply(view, collected, derived),
        ShardRecord::Digest(DigestRecord::Closed(closed)) => windows::apply_closed(view, closed),
        ShardRecord::Digest(DigestRecord::Folded(folded)) => windows::apply_folded(view, folded, derived),
        ShardRecord::Digest(DigestRecord::Digested(digested)) => {
            windows::apply_digested(view, digested, at, derived)
        }
        ShardRecord::Walk(record) => walk::apply(view, record, at, derived),
        ShardRecord::Throttle(record) => throttle::apply(view, record, at),
        ShardRecord::Told(told) => {
            told::apply(view, told);
            Ok(())
        }
        ShardRecord::Untold { tenant, webhook } => {
            told::apply_untold(view, *tenant, webhook);
            Ok(())
        }
    }
}
