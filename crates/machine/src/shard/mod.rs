//! A shard owns some users: who they are, what they follow, what they got and what they did with it.
//!
//! One file per record family, plan and apply side by side: `users`, `erase`, `endpoints`, `respect`, `edges`, `take`, `mark`, `report`,
//! `expire`; then how events leave the house: `dispatch`, `serve` with `intend` and `wake` behind their `gate`, `outcome`,
//! `redrive`, folded by `ledgers` and dropped by `sweep`.
//! `inbox` reads. Lists and inbox windows are derived: apply says what changed, the store folds it.

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

pub mod dispatch;
mod gate;
pub mod intend;
mod ledgers;
pub mod outcome;
pub mod redrive;
mod replan;
pub mod serve;
mod sweep;
pub mod wake;

pub mod inbox;

use crate::Planned;
use crate::front::Moment;
use crate::front::fact::FrontFact;
use crate::records::erasure::Store;
use crate::records::front::Size;
use crate::records::respect::Consent;
use crate::records::shard::ShardRecord;
use crate::records::webhook::Told;
use crate::tables::ledger::{ParcelId, Timer};
use crate::tables::todo::Todo;
use crate::tables::work::WorkId;
use crate::view::View;
use fantail_ports::inbox::{Forget, Window};
use fantail_ports::lists::ListEdit;
use fantail_ports::tables::TablesError;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{
    Arrival, DeviceHash, DeviceNo, FrontNo, KeyNo, Lookup, Millis, Position, ShardNo, TenantId, UserNo,
};
use fantail_rules::policy::Policies;
use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum ShardAsk {
    PutUsers {
        tenant: TenantId,
        users: Vec<users::Put>,
    },
    DeleteUser {
        tenant: TenantId,
        lookup: Lookup,
    },
    /// Remove a user from everything; so many entries were in its inbox.
    Erase {
        tenant: TenantId,
        lookup: Lookup,
        erasure: Ulid,
        entries: u64,
    },
    /// Go on with it, behind this event.
    Purge {
        tenant: TenantId,
        erasure: Ulid,
        behind: Arrival,
    },
    /// So much was removed elsewhere.
    Removed {
        tenant: TenantId,
        erasure: Ulid,
        removed: Vec<(Store, u64)>,
        is_done: bool,
    },
    Edit {
        tenant: TenantId,
        edit: edges::Edit,
    },
    /// The next facts of a front, in order.
    Take {
        front: FrontNo,
        facts: Arc<[FrontFact]>,
    },
    Mark {
        tenant: TenantId,
        user: UserNo,
        mark: mark::Ask,
    },
    Reported {
        sizes: Vec<Size>,
    },
    Shredded {
        keys: Vec<(TenantId, KeyNo)>,
    },
    /// See `told`.
    Told {
        told: Told,
        from: Option<Position>,
    },
    /// The webhook is gone.
    Untell {
        tenant: TenantId,
        webhook: String,
    },
    Expire {
        tenant: TenantId,
        retention_days: u32,
        swept: Option<expire::Place>,
    },
    /// Drop what is kept about deliveries and past the guard, of events above this arrival.
    Sweep {
        tenant: TenantId,
        behind: Arrival,
        guard_ms: u64,
    },
    Register {
        tenant: TenantId,
        user: Lookup,
        registration: Box<endpoints::Registration>,
    },
    Unregister {
        tenant: TenantId,
        user: Lookup,
        device: DeviceHash,
    },
    Prefer {
        tenant: TenantId,
        user: Lookup,
        prefer: Box<respect::Prefer>,
    },
    Consent {
        tenant: TenantId,
        user: Lookup,
        channel: ChannelKind,
        consent: Consent,
    },
    /// The user wants something else: what waits behind this timer is due.
    Replan {
        tenant: TenantId,
        user: UserNo,
        behind: Option<Timer>,
    },
    /// What was heard of endpoints' claims.
    Hear {
        tenant: TenantId,
        heard: Vec<endpoints::Heard>,
    },
    /// Look for devices that were silent for long, on some pages from this one on.
    Age {
        tenant: TenantId,
        page: u64,
    },
    /// What these jobs allow, in order, of at most so many deliveries.
    Serve {
        jobs: Vec<serve::Job>,
        deliveries_max: u32,
    },
    Outcome {
        parcel: ParcelId,
        told: Vec<outcome::Told>,
    },
    /// Whoever led before may have sent what is marked as Intent.
    Orphans {
        parcel: ParcelId,
    },
    Redrive {
        parcel: ParcelId,
        wish: redrive::Wish,
        users: Option<Vec<UserNo>>,
    },
    Receipt {
        /// `first` does not matter.
        parcel: ParcelId,
        heard: redrive::Heard,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShardAnswer {
    Users(Vec<users::PutAnswer>),
    UserGone {
        key: KeyNo,
    },
    UnknownUser,
    Edges(Vec<edges::EdgeAnswer>),
    Took,
    Marked,
    TooManySnoozed,
    Noted,
    Expired(expire::Progress),
    /// Where to go on, if there may be more.
    Swept {
        next: Option<Arrival>,
    },
    Registered {
        device: DeviceNo,
        status: Status,
        created: bool,
    },
    /// The user has another key than the one this was sealed under.
    Reseal(KeyNo),
    TooManyEndpoints,
    /// What the user wants has this revision now.
    Respected {
        revision: u32,
    },
    /// Where to go on, if there may be more.
    Purged {
        next: Option<Arrival>,
    },
    /// Where to go on, if there may be more.
    Replanned {
        behind: Option<Timer>,
    },
    /// It was changed meanwhile and has another one.
    Changed {
        revision: u32,
    },
    Unregistered,
    UnknownDevice,
    /// The page to go on from, if there is one.
    Aged {
        next: Option<u64>,
    },
    /// Of the first so many jobs; the others were not looked at.
    Served(Vec<serve::Served>),
    /// So many dead letters.
    Redriven(u64),
    UnknownDelivery,
    /// A receipt that says nothing new.
    Known,
}

pub type Plan = Planned<ShardRecord, ShardAnswer>;

/// `policies`: what the tenants say. It is asked here and never when a record is folded.
pub fn plan(
    view: &mut View<'_>,
    ask: ShardAsk,
    shard: ShardNo,
    moment: Moment,
    policies: &Policies,
) -> Result<Plan, TablesError> {
    let now = moment.now;
    match ask {
        ShardAsk::PutUsers { tenant, users } => users::plan_put(view, tenant, users),
        ShardAsk::DeleteUser { tenant, lookup } => users::plan_delete(view, tenant, lookup),
        ShardAsk::Erase { tenant, lookup, erasure, entries } => {
            erase::plan_begin(view, tenant, lookup, erasure, entries)
        }
        ShardAsk::Purge { tenant, erasure, behind } => erase::plan_purge(view, tenant, erasure, behind),
        ShardAsk::Removed { tenant, erasure, removed, is_done } => {
            erase::plan_note(view, tenant, erasure, removed, is_done)
        }
        ShardAsk::Edit { tenant, edit } => edges::plan(view, tenant, edit),
        ShardAsk::Take { front, facts } => take::plan(view, front, &facts, shard),
        ShardAsk::Mark { tenant, user, mark } => mark::plan(view, tenant, user, mark, now),
        ShardAsk::Reported { sizes } => Ok(Planned::one(ShardRecord::Reported { sizes }, ShardAnswer::Noted)),
        ShardAsk::Shredded { keys } => Ok(Planned::one(ShardRecord::Shredded { keys }, ShardAnswer::Noted)),
        ShardAsk::Told { told, from } => told::plan(view, told, from),
        ShardAsk::Untell { tenant, webhook } => told::plan_untell(view, tenant, webhook),
        ShardAsk::Expire { tenant, retention_days, swept } => {
            expire::plan(view, tenant, retention_days, swept, now)
        }
        ShardAsk::Sweep { tenant, behind, guard_ms } => {
            let oldest_kept = Millis(now.0.saturating_sub(guard_ms));
            sweep::plan(view, tenant, behind, oldest_kept)
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
        ShardAsk::Replan { tenant, user, behind } => replan::plan(view, tenant, user, behind, now),
        ShardAsk::Hear { tenant, heard } => endpoints::plan_hear(view, tenant, &heard),
        ShardAsk::Age { tenant, page } => endpoints::plan_age(view, tenant, page, now),
        ShardAsk::Serve { jobs, deliveries_max } => {
            serve::plan(view, &jobs, deliveries_max, serve::Known { policies, now })
        }
        ShardAsk::Outcome { parcel, told } => outcome::plan(view, parcel, &told, now, moment.random),
        ShardAsk::Orphans { parcel } => outcome::plan_orphans(view, parcel, now),
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
    Work { work: WorkId, lane: Priority },
    Timer(Timer),
    Todo(Todo),
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
        ShardRecord::Wake(wake) => wake::apply(view, wake, derived),
        ShardRecord::Outcome(outcome) => outcome::apply(view, outcome, derived),
        ShardRecord::Receipt(receipt) => redrive::apply_receipt(view, receipt, derived),
        ShardRecord::Redrive(redrive) => redrive::apply(view, redrive, derived),
        ShardRecord::Closed { work, .. } => dispatch::close(view, *work),
        ShardRecord::Swept(swept) => sweep::apply(view, swept),
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
