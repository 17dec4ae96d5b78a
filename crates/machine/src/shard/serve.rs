//! A turn of the dispatcher: what it can do next, decided together.
//!
//! Comes from: the dispatcher, with permits for so many deliveries and jobs in the order in which they are to start. Decides:
//! how far the permits reach. Each job is planned by `intend` or `wake`, and sees what was decided about those before it.
//! Goes to: a record for each; once they are durable the leader sends what they allow, in this order.
//!
//! What must never happen: a job that starts while one before it has members left, for they may be of the same user.

use super::intend::Allowed;
use super::{Derived, Plan, ShardAnswer, intend, wake};
use crate::Planned;
use crate::records::shard::ShardRecord;
use crate::tables::ledger::ParcelId;
use crate::tables::work::WorkId;
use crate::view::View;
use fantail_ports::tables::{Changes, TablesError};
use fantail_rules::ids::Millis;
use fantail_rules::knobs::StepSizes;
use fantail_rules::policy::Policies;

/// Something that can be planned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Job {
    /// The next parcel of some work.
    Work(WorkId),
    /// The members of a parcel that are due.
    Wake { parcel: ParcelId, due: Millis },
}

/// What planning may use beside the tables.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub policies: &'a Policies,
    pub now: Millis,
    pub steps: &'a StepSizes,
}

/// What came of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// `None` if there was nothing to decide about.
    pub allowed: Option<Allowed>,
    /// Whether there is more to decide about.
    pub more: bool,
    /// The time of a timer has not come by the leader's time: its row waits.
    pub is_early: bool,
}

/// What is decided about one job.
pub(super) struct Decided {
    /// In their order.
    pub records: Vec<ShardRecord>,
    pub served: Served,
    /// Users or members that were read for it.
    pub looked_at: usize,
}

impl Decided {
    pub(super) fn nothing() -> Self {
        let served = Served { allowed: None, more: false, is_early: false };
        Self { records: Vec::new(), served, looked_at: 0 }
    }
}

/// Answers for as many jobs as were looked at, at least one; the others wait.
pub(super) fn plan(
    view: &View<'_>,
    jobs: &[Job],
    deliveries_max: u32,
    known: Known<'_>,
) -> Result<Plan, TablesError> {
    let mut changes = Changes::new();
    let mut seen = view.under(&mut changes);
    let (mut records, mut answers) = (Vec::new(), Vec::new());
    let (mut left, mut looked_at) = (deliveries_max as usize, 0);
    for job in jobs {
        let most = u32::try_from(left).unwrap_or(u32::MAX);
        let Decided { records: decided, served, looked_at: users } = match *job {
            Job::Work(work) => intend::plan(&seen, work, most, known)?,
            Job::Wake { parcel, due } => wake::plan(&seen, parcel, due, most, known)?,
        };
        left = left.saturating_sub(served.allowed.as_ref().map_or(0, |allowed| allowed.sends.len()));
        looked_at += users;
        // All of them together cost no more than one full parcel may.
        let is_over = served.more || left == 0 || looked_at >= known.steps.parcel_users_scanned;
        answers.push(served);
        let is_last = is_over || answers.len() == jobs.len();
        for record in decided {
            if !is_last {
                super::apply(&mut seen, &record, known.now, &[], &mut Derived::default())?;
            }
            records.push(record);
        }
        if is_last {
            break;
        }
    }
    Ok(Planned { records, answer: ShardAnswer::Served(answers) })
}
