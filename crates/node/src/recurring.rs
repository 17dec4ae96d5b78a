//! Recurring schedules: kept in the root, and handed out when they are due.
//!
//! Comes from: the schedule API, and the clock. Does: seals what is sent, waits for the earliest timer, and writes down what a run
//! came to. Goes to: `machine::root::schedule`; what a run sends goes the way of everything that is sent, under a name that its
//! schedule and its time give it.
//!
//! What must never happen: a run that is issued twice. It is written down after it was issued; whoever issues it again in
//! between asks under the same name, and hears of the first one.

pub use fantail_machine::records::schedule::{Author, Came, Definition, Run, Sends};
pub use fantail_machine::tables::schedule::{ScheduleRow, Standing};
pub use put_off::PutOff;

mod put_off;

use crate::Node;
use crate::ask::Refusal;
use crate::ask::templates::Expect;
use crate::backoff::Backoff;
use crate::core::{Core, answer, internal, locked};
use crate::queue::QueueLine;
use crate::quotas;
use fantail_machine::root::schedule::{Answer, Ask};
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::tables::schedule::{self, Waiting};
use fantail_machine::tables::usage;
use fantail_ports::keyring::{Context, Sealed};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{KeyNo, Millis, PartitionId, TenantId};
use fantail_rules::limits::SCHEDULES_PER_TENANT_MAX;
use fantail_rules::quota::Resource;
use fantail_rules::schedule::Recurrence;
use fantail_rules::zone::ZoneNo;
use tracing::{info, warn};

/// The clock may be set, so nothing is slept over for longer.
const SLEEP_MS_MAX: u64 = 60_000;
/// Schedules of a tenant that are planned again together.
const REPLAN_PAGE: usize = 100;
/// Schedules that are handed out together, and rows that are looked at for them.
const DUE_MAX: usize = 16;
const LOOKED_AT_MAX: usize = 4_096;

/// What a tenant says of a schedule.
#[derive(Clone, Debug)]
pub struct ScheduleAsk {
    pub cron: String,
    /// `NONE`: everybody's own.
    pub zone: ZoneNo,
    pub starts: Option<Millis>,
    pub ends: Option<Millis>,
    pub is_paused: bool,
    pub sends: Sends,
    pub body: Vec<u8>,
    /// Whether whoever asks may send what is critical.
    pub may_be_critical: bool,
}

#[derive(Clone, Debug)]
pub struct ScheduleView {
    pub row: ScheduleRow,
    pub standing: Standing,
    /// What each run asks for.
    pub body: Vec<u8>,
}

/// A run that is to be issued.
#[derive(Clone, Debug)]
pub struct DueRun {
    pub tenant: TenantId,
    pub id: String,
    /// What was waited for; the run may be a later one.
    pub due: Millis,
    pub run: Millis,
    pub recurrence: Recurrence,
    pub sends: Sends,
    pub body: Vec<u8>,
    /// Whose rights it has.
    pub author: Option<Author>,
}

impl Node {
    /// The schedule, and whether it is new. What it says was understood before.
    pub async fn put_schedule(
        &self,
        tenant: TenantId,
        id: &str,
        expect: Expect,
        ask: ScheduleAsk,
    ) -> Result<(ScheduleView, bool), Refusal> {
        let core = &self.core;
        core.require_tenant(tenant)?;
        let body = core.ports.keyring.seal(tenant, KeyNo::TENANT, Context::Content, &ask.body);
        let definition = Definition {
            tenant,
            id: id.to_owned(),
            cron: ask.cron,
            zone: ask.zone,
            starts: ask.starts,
            ends: ask.ends,
            is_paused: ask.is_paused,
            sends: ask.sends,
            body: body.map_err(locked)?,
            author: Some(Author {
                key: self.by.key_id().map(str::to_owned),
                may_be_critical: ask.may_be_critical,
            }),
        };
        let known = core.read(PartitionId::Root, |view| schedule::find(view.tables(), tenant, id))?;
        let bytes = |body: usize| usage::ROW_BYTES + body as u64;
        let grown = bytes(definition.body.bytes.len());
        let adds = match known {
            Some(row) => quotas::adds(None, grown.saturating_sub(bytes(row.definition.body.bytes.len()))),
            None => quotas::adds(Some(Resource::Schedules), grown),
        };
        let _claim = quotas::claim(core, tenant, adds)?;
        match ask_root(core, &self.by, Ask::Put { definition, expect }).await? {
            Answer::Schedule { row, is_new } => {
                core.schedules.ring();
                Ok((view(core, *row)?, is_new))
            }
            other => Err(refused(&other, id)),
        }
    }

    pub fn schedule(&self, tenant: TenantId, id: &str) -> Result<ScheduleView, Refusal> {
        self.core.require_tenant(tenant)?;
        let row = self.core.read(PartitionId::Root, |view| schedule::find(view.tables(), tenant, id))?;
        view(&self.core, row.ok_or_else(|| Refusal::UnknownSchedule { schedule: id.to_owned() })?)
    }

    /// Those behind an id, in order.
    pub fn schedules(
        &self,
        tenant: TenantId,
        behind: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(ScheduleRow, Standing)>, Refusal> {
        self.core.require_tenant(tenant)?;
        self.core.read(PartitionId::Root, |view| {
            let rows = schedule::of_tenant(view.tables(), tenant, behind, limit)?.into_iter();
            rows.map(|row| {
                let standing = schedule::standing(view.tables(), tenant, &row.definition.id)?;
                Ok((row, standing))
            })
            .collect()
        })
    }

    pub async fn delete_schedule(&self, tenant: TenantId, id: &str, expect: Expect) -> Result<(), Refusal> {
        match ask_root(&self.core, &self.by, Ask::Delete { tenant, id: id.to_owned(), expect }).await? {
            Answer::Gone => Ok(()),
            other => Err(refused(&other, id)),
        }
    }

    /// Plans all schedules again, a page at a time: a new build may have other time zones. Those that come as planned
    /// cost a read.
    pub async fn replan_schedules(&self) -> Result<(), Refusal> {
        let core = &self.core;
        for tenant in core.control.now().tenants.keys() {
            let mut behind: Option<String> = None;
            loop {
                let page = self.schedules(*tenant, behind.as_deref(), REPLAN_PAGE)?;
                behind = page.last().map(|(row, _)| row.definition.id.clone());
                for (row, standing) in page {
                    let Some(due) = standing.next else { continue };
                    let id = row.definition.id;
                    let ask = Ask::Replan { tenant: *tenant, id: id.clone(), due };
                    match ask_root(core, &Actor::System, ask).await? {
                        Answer::Replanned { next: None } => {}
                        Answer::Replanned { next: Some(next) } => {
                            let next = next.map(|next| next.to_string());
                            info!(%tenant, schedule = id, %due, next, "schedule planned again, time zones have changed");
                        }
                        other => return Err(refused(&other, &id)),
                    }
                }
                if behind.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits until runs are to be issued, other than those that are put off. `None` once the node stops.
    pub async fn due_runs(&self, put_off: &mut PutOff) -> Option<Vec<DueRun>> {
        let core = &self.core;
        let mut backoff = Backoff::of("runs");
        while !put_off.is_replanned {
            match self.replan_schedules().await {
                Ok(()) => put_off.is_replanned = true,
                Err(Refusal::Stopped { .. }) => return None,
                Err(refusal) => backoff.wait(&core.ports, &core.meter, &refusal).await,
            }
        }
        let mut looked_at = core.ports.clock.monotonic();
        let mut pause_ms = put_off.pause_ms();
        while !core.root.is_closed() {
            if let Some(ms) = pause_ms {
                let until = core.ports.tasks.sleep_until(looked_at.plus(ms));
                core.schedules.wait(Some(until)).await;
            }
            // Before the wall is asked: time that passes in between is not slept over.
            looked_at = core.ports.clock.monotonic();
            match self.look(put_off).await {
                Ok(Looked::Due(runs)) => return Some(runs),
                Ok(Looked::Later(ms)) => {
                    backoff.reset();
                    pause_ms = Some(ms.min(SLEEP_MS_MAX));
                }
                Err(Refusal::Stopped { .. }) => return None,
                Err(refusal) => {
                    pause_ms = Some(backoff.failed(&core.meter, &refusal));
                    looked_at = core.ports.clock.monotonic();
                }
            }
        }
        None
    }

    async fn look(&self, put_off: &mut PutOff) -> Result<Looked, Refusal> {
        let core = &self.core;
        let (now, steady) = (core.ports.clock.wall(), core.ports.clock.monotonic());
        if core.keeps_back_what_is_due() {
            // A clock that may be wrong starts no run, and leaves none out; a node that is paused waits.
            return Ok(Looked::Later(SLEEP_MS_MAX));
        }
        let limit = LOOKED_AT_MAX + put_off.len();
        let waiting = core.read(PartitionId::Root, |view| schedule::waiting(view.tables(), limit))?;
        put_off.keep(&waiting);
        let later_ms = waiting.iter().find(|one| one.due > now).map(|one| one.due.since(now));
        let mut runs = Vec::new();
        let due: Vec<Waiting> = waiting
            .into_iter()
            .take_while(|one| one.due <= now)
            .filter(|one| !put_off.rests(one, steady))
            .collect();
        let has_more = due.len() > DUE_MAX;
        for one in put_off::in_turns(due, DUE_MAX) {
            core.ports.points.reach("schedule.due");
            match self.due_run(&one, now).await {
                Ok(Some(run)) => runs.push(run),
                Ok(None) => {}
                Err(stopped @ Refusal::Stopped { .. }) => return Err(stopped),
                Err(refusal) => {
                    core.meter.loop_failed("runs");
                    warn!(tenant = %one.tenant, schedule = one.id, %refusal, "a schedule cannot be read");
                    put_off.add(&one, steady);
                }
            }
        }
        if !runs.is_empty() {
            return Ok(Looked::Due(runs));
        }
        Ok(Looked::Later(put_off.again_ms(has_more, later_ms, steady).unwrap_or(SLEEP_MS_MAX)))
    }

    /// The run of a schedule that is due; `None` if there is none, which is written down.
    async fn due_run(&self, one: &Waiting, now: Millis) -> Result<Option<DueRun>, Refusal> {
        let Waiting { due, tenant, id } = one;
        let ScheduleView { row, body, .. } = match self.schedule(*tenant, id) {
            Ok(view) => view,
            // It was deleted in this moment.
            Err(Refusal::UnknownSchedule { .. }) => return Ok(None),
            Err(other) => return Err(other),
        };
        let Some(recurrence) = row.definition.recurrence() else {
            self.ran(id, (*tenant, *due), None, now).await?;
            return Ok(None);
        };
        let caught_up = recurrence.catch_up(*due, now);
        let Some(run) = caught_up.run else {
            warn!(%tenant, schedule = id, %due, "a run of a schedule is left out");
            self.ran(id, (*tenant, *due), None, caught_up.through).await?;
            return Ok(None);
        };
        let Definition { sends, author, .. } = row.definition;
        let (tenant, due) = (*tenant, *due);
        Ok(Some(DueRun { tenant, id: id.clone(), due, run, recurrence, sends, body, author }))
    }

    /// A run cannot be issued for now.
    pub fn put_off(&self, put_off: &mut PutOff, run: &DueRun) {
        let one = Waiting { due: run.due, tenant: run.tenant, id: run.id.clone() };
        put_off.add(&one, self.core.ports.clock.monotonic());
    }

    /// Issuing a run has panicked.
    pub fn run_panicked(&self, panic: &str) {
        self.core.ports.tasks.count_panic("run", panic);
    }

    /// What a run came to: it is not issued again.
    pub async fn run_came(&self, due: &DueRun, came: Came) -> Result<(), Refusal> {
        self.core.ports.points.reach("schedule.issued");
        match &came {
            Came::Issued(event) => {
                info!(tenant = %due.tenant, schedule = due.id, run = %due.run, %event, "a schedule ran");
            }
            Came::Refused(why) => {
                warn!(tenant = %due.tenant, schedule = due.id, run = %due.run, why, "a schedule could not run");
            }
        }
        let run = Some(Run { at: due.run, came });
        self.ran(&due.id, (due.tenant, due.due), run, due.run).await
    }

    async fn ran(
        &self,
        id: &str,
        (tenant, due): (TenantId, Millis),
        run: Option<Run>,
        through: Millis,
    ) -> Result<(), Refusal> {
        let which = match run.as_ref().map(|run| &run.came) {
            Some(Came::Issued(_)) => ScheduleRun::Issued,
            Some(Came::Refused(_)) => ScheduleRun::Refused,
            None => ScheduleRun::LeftOut,
        };
        let ask = Ask::Ran { tenant, id: id.to_owned(), due, run, through };
        match ask_root(&self.core, &Actor::System, ask).await? {
            Answer::Ran => self.core.meter.schedule_ran(which),
            // It was changed or deleted meanwhile.
            Answer::Unknown => {}
            other => return Err(refused(&other, id)),
        }
        Ok(())
    }
}

/// How runs end, as metrics say it. In the order of [`ScheduleRun::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScheduleRun {
    Issued,
    Refused,
    LeftOut,
}

impl ScheduleRun {
    pub const ALL: [Self; 3] = [Self::Issued, Self::Refused, Self::LeftOut];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Refused => "refused",
            Self::LeftOut => "left_out",
        }
    }
}

enum Looked {
    Due(Vec<DueRun>),
    /// Nothing for so many milliseconds.
    Later(u64),
}

fn view(core: &Core, row: ScheduleRow) -> Result<ScheduleView, Refusal> {
    let Definition { tenant, id, body, .. } = &row.definition;
    let standing = core.read(PartitionId::Root, |view| schedule::standing(view.tables(), *tenant, id))?;
    let body = open(core, *tenant, body)?;
    Ok(ScheduleView { row, standing, body })
}

fn open(core: &Core, tenant: TenantId, body: &Sealed) -> Result<Vec<u8>, Refusal> {
    core.ports.keyring.open(tenant, Context::Content, body).map_err(locked)
}

async fn ask_root(core: &Core, by: &Actor, ask: Ask) -> Result<Answer, Refusal> {
    let (tenant, bytes) = match &ask {
        Ask::Put { definition, .. } => (definition.tenant, definition.body.bytes.len() + 1_024),
        Ask::Ran { tenant, .. } | Ask::Replan { tenant, .. } | Ask::Delete { tenant, .. } => (*tenant, 1_024),
    };
    match answer(core.root.push(
        QueueLine::asked_by(by, tenant),
        by,
        vec![RootAsk::Schedule(Box::new(ask))],
        bytes,
    ))
    .await?
    {
        RootAnswer::Schedule(answer) => Ok(answer),
        _ => Err(internal("the root answered something else")),
    }
}

fn refused(answer: &Answer, id: &str) -> Refusal {
    match answer {
        Answer::UnknownTenant => Refusal::UnknownTenant,
        Answer::Unknown => Refusal::UnknownSchedule { schedule: id.to_owned() },
        Answer::Conflict { current } => Refusal::PolicyConflict { current: *current },
        Answer::TooMany => Refusal::TooMany { limit: SCHEDULES_PER_TENANT_MAX },
        Answer::Schedule { .. } | Answer::Ran | Answer::Replanned { .. } | Answer::Gone => {
            internal("the root answered something else")
        }
    }
}
