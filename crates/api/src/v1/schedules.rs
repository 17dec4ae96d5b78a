//! Recurring schedules: checked as a whole, with what they send, before they are kept.
//!
//! Comes from: `pipeline`. Decides: that a schedule can be understood and that its first run could be issued now. Goes to:
//! `Node::{put_schedule, …}`; runs are issued by `runs`.

use crate::auth;
use crate::body;
use crate::call::Call;
use crate::check::Faults;
use crate::condition::expect_of;
use crate::cursor::{self, Owner};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::bulk;
use crate::v1::notification_ask::Draft;
use crate::v1::notifications::unknown_users;
use crate::v1::preferences::merge;
use fantail_node::ask::templates::Expect;
use fantail_node::ask::{Priority, Refusal};
use fantail_node::named::Named;
use fantail_node::recurring::{Author, Came, Run, ScheduleAsk, ScheduleRow, ScheduleView, Sends, Standing};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::{
    SCHEDULE_BYTES_MAX, SCHEDULE_GAP_MINUTES_MIN, SCHEDULE_ID_BYTES_MAX, SCHEDULE_RUNS_SHOWN,
};
use fantail_rules::schedule::Cron;
use fantail_rules::zone::ZoneNo;
use fantail_wire::bulk::BulkSend;
use fantail_wire::code::Code;
use fantail_wire::notification::{NotificationSend, SendOptions};
use fantail_wire::schedule::{Schedule, SchedulePut, ScheduleRun, ScheduleSummary, Schedules};
use serde_json::{Map, Value};

/// The time zone of everybody's own.
const RECIPIENT: &str = "recipient";
/// Stands for the time of a run while a schedule is checked.
const ANY_TIME: &str = "00:00";

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let view = call.node.schedule(tenant, call.name("schedule")?)?;
    reply(200, view, call.node.wall())
}

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let owner = Owner { tenant, name: "schedules" };
    let behind = match call.query.get("cursor") {
        Some(text) => Some(cursor::to_names(owner, text).ok_or(Refusal::BadCursor)?),
        None => None,
    };
    let limit = call.list_limit()?;
    let found = call.node.schedules(tenant, behind.as_deref(), limit)?;
    let last = found.last().filter(|_| found.len() == limit);
    let next_cursor = last.map(|(row, _)| cursor::of_names(owner, &row.definition.id));
    Ok(Reply::json(200, &Schedules { schedules: found.into_iter().map(summary).collect(), next_cursor }))
}

pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (id, expect) =
        (call.new_name(tenant, "schedule", Named::Schedule)?.to_owned(), expect_of(&call.headers)?);
    if id.len() > SCHEDULE_ID_BYTES_MAX {
        let rule = format!("must have at most {SCHEDULE_ID_BYTES_MAX} bytes");
        return Err(Problem::field("/schedule", rule));
    }
    call.spend_import(tenant, 1)?;
    let ask = understood(tenant, &call, call.json()?).await?;
    let (view, is_new) = call.node.put_schedule(tenant, &id, expect, ask).await?;
    reply(if is_new { 201 } else { 200 }, view, call.node.wall())
}

/// Without a condition the patch is merged again if somebody else was faster.
pub async fn patch(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (id, expect) = (call.name("schedule")?.to_owned(), expect_of(&call.headers)?);
    call.spend_import(tenant, 1)?;
    let patch: Map<String, Value> = call.json()?;
    let _turn = call.app.merge_turns.take(tenant, "schedule", &id).await;
    loop {
        let view = call.node.schedule(tenant, &id)?;
        let version = view.row.version;
        if !expect.holds(Some(version)) {
            return Err(Refusal::PolicyConflict { current: Some(version) }.into());
        }
        let mut document = serde_json::to_value(definition(&view)?).expect("our shapes are JSON");
        merge(&mut document, &Value::Object(patch.clone()));
        let wanted: SchedulePut = body::from_document(document)?;
        let ask = understood(tenant, &call, wanted).await?;
        match call.node.put_schedule(tenant, &id, Expect::Version(version), ask).await {
            Ok((view, _)) => return reply(200, view, call.node.wall()),
            Err(Refusal::PolicyConflict { current: Some(_) }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let expect = expect_of(&call.headers)?;
    call.node.delete_schedule(tenant, call.name("schedule")?, expect).await?;
    Ok(Reply::no_content())
}

/// What a schedule comes to, if all of it is well formed and could be sent now.
async fn understood(tenant: TenantId, call: &Call, wanted: SchedulePut) -> Result<ScheduleAsk, Problem> {
    let (mut faults, root) = (Faults::default(), Pointer::ROOT);
    check_cron(&wanted.cron, root.key("cron"), &mut faults);
    let zone = zone_of(wanted.timezone.as_deref(), root.key("timezone"), &mut faults);
    let mut instant = |text: &Option<String>, at: Pointer<'_>| {
        let text = text.as_deref()?;
        let parsed = time::parse(text);
        if parsed.is_none() {
            faults.add(at, "must be a time like 2026-01-31T12:00:00Z");
        }
        parsed
    };
    let starts = instant(&wanted.starts_at, root.key("startsAt"));
    let ends = instant(&wanted.ends_at, root.key("endsAt"));
    if starts.zip(ends).is_some_and(|(starts, ends)| ends <= starts) {
        faults.add(root.key("endsAt"), "must be after startsAt");
    }
    let (sends, body) = match (&wanted.notification, &wanted.bulk) {
        (Some(notification), None) => {
            let (name, options) = (notification.notification_id.as_deref(), &notification.options);
            check_run(name, options, root.key("notification"), &mut faults);
            (Sends::Notification, serde_json::to_vec(notification))
        }
        (None, Some(bulk)) => {
            let (name, options) = (bulk.notification_id.as_deref(), &bulk.options);
            check_run(name, options, root.key("bulk"), &mut faults);
            (Sends::ToSegment, serde_json::to_vec(bulk))
        }
        (None, None) | (Some(_), Some(_)) => {
            faults.add(root.key("notification"), "either notification or bulk is required");
            (Sends::Notification, Ok(Vec::new()))
        }
    };
    let body = body.map_err(|_| Problem::new(Code::Internal, "cannot be written"))?;
    if body.len() > SCHEDULE_BYTES_MAX {
        faults.add(root, format!("what is sent must have at most {SCHEDULE_BYTES_MAX} bytes as JSON"));
    }
    faults.into_result()?;
    let is_local = zone == Some(ZoneNo::NONE);
    check_message(tenant, call, &wanted, is_local).await?;
    let (cron, is_paused) = (wanted.cron, wanted.paused);
    let zone = zone.unwrap_or(ZoneNo::NONE);
    let may_be_critical = auth::require_priority(&call.caller, Priority::Critical).is_ok();
    Ok(ScheduleAsk { cron, zone, starts, ends, is_paused, sends, body, may_be_critical })
}

fn check_cron(cron: &str, at: Pointer<'_>, faults: &mut Faults) {
    match Cron::parse(cron) {
        Err(fault) => faults.add(at, fault.to_string()),
        Ok(cron) if cron.gap_minutes() < SCHEDULE_GAP_MINUTES_MIN => {
            faults.add(at, format!("runs must be at least {SCHEDULE_GAP_MINUTES_MIN} minutes apart"));
        }
        Ok(_) => {}
    }
}

fn zone_of(name: Option<&str>, at: Pointer<'_>, faults: &mut Faults) -> Option<ZoneNo> {
    match name {
        Some(RECIPIENT) => Some(ZoneNo::NONE),
        name => {
            let zone = ZoneNo::find(name.unwrap_or("UTC"));
            if zone.is_none() {
                faults.add(at, "must be an IANA time zone, or recipient");
            }
            zone
        }
    }
}

/// What a run says itself.
fn check_run(name: Option<&str>, options: &SendOptions, at: Pointer<'_>, faults: &mut Faults) {
    if name.is_some() {
        faults.add(at.key("notificationId"), "every run has a name of its own");
    }
    let wishes = at.key("options");
    if options.scheduled_at.is_some() {
        faults.add(wishes.key("scheduledAt"), "the schedule says when");
    }
    if options.send_at_local.as_deref().is_some_and(|text| text.contains('T')) {
        faults.add(wishes.key("sendAtLocal"), "must be a time of day: the schedule says on which day");
    }
}

/// A run at this moment would be taken.
async fn check_message(
    tenant: TenantId,
    call: &Call,
    wanted: &SchedulePut,
    is_local: bool,
) -> Result<(), Problem> {
    let at_any_time = |options: &mut SendOptions, at: &str| match (is_local, &options.send_at_local) {
        (true, Some(_)) => Err(Problem::field(format!("{at}/options/sendAtLocal"), "the schedule says when")),
        (true, None) => {
            options.send_at_local = Some(ANY_TIME.to_owned());
            Ok(())
        }
        (false, _) => Ok(()),
    };
    if let Some(mut request) = wanted.notification.clone() {
        at_any_time(&mut request.options, "/notification")?;
        return check_notification(tenant, call, request)
            .await
            .map_err(|problem| problem.below("/notification"));
    }
    if let Some(mut request) = wanted.bulk.clone() {
        at_any_time(&mut request.options, "/bulk")?;
        return check_bulk(tenant, call, request).await.map_err(|problem| problem.below("/bulk"));
    }
    Ok(())
}

async fn check_notification(tenant: TenantId, call: &Call, request: NotificationSend) -> Result<(), Problem> {
    let mut draft = Draft::of(tenant, call, request)?;
    let template = draft.choose_template(tenant, call)?;
    auth::require_priority(&call.caller, draft.ask.priority)?;
    let recipients = match call.node.recipients(tenant, &draft.who).await {
        Ok(recipients) => recipients,
        Err(Refusal::UnknownRecipients { users }) => return Err(unknown_users(&draft.who, &users)),
        Err(other) => return Err(other.into()),
    };
    if let Some(template) = template {
        draft.render(tenant, call, template, recipients).await?;
    }
    Ok(())
}

async fn check_bulk(tenant: TenantId, call: &Call, request: BulkSend) -> Result<(), Problem> {
    let ask = bulk::read(tenant, call, request).await?;
    auth::require_priority(&call.caller, ask.event.priority)?;
    call.node.segment(tenant, &ask.segment)?;
    Ok(())
}

fn reply(status: u16, view: ScheduleView, now: Millis) -> Result<Reply, Problem> {
    let version = view.row.version;
    Ok(Reply::json(status, &shown(&view, now)?).with_version(version))
}

fn shown(view: &ScheduleView, now: Millis) -> Result<Schedule, Problem> {
    let ScheduleView { row, standing, .. } = view;
    let next = standing.next.into_iter();
    let later = row.definition.recurrence().into_iter();
    // What is waited for is a fact; what comes behind it is what the time zones of today say.
    let later =
        later.flat_map(|recurrence| recurrence.runs(standing.next.unwrap_or(now), SCHEDULE_RUNS_SHOWN));
    let runs = next.chain(later.filter(|_| standing.next.is_some()));
    Ok(Schedule {
        schedule_id: row.definition.id.clone(),
        version: row.version,
        definition: definition(view)?,
        next_runs: runs.take(SCHEDULE_RUNS_SHOWN).map(time::text).collect(),
        runs_as: row.definition.author.as_ref().map(runs_as),
        last_run: standing.last.as_ref().map(run),
        created_at: time::text(row.created),
        updated_at: time::text(row.updated),
    })
}

/// As it was said.
fn definition(view: &ScheduleView) -> Result<SchedulePut, Problem> {
    let said = &view.row.definition;
    let unread = |_| Problem::new(Code::Internal, "what the schedule sends cannot be read");
    let (notification, bulk) = match said.sends {
        Sends::Notification => (Some(serde_json::from_slice(&view.body).map_err(unread)?), None),
        Sends::ToSegment => (None, Some(serde_json::from_slice(&view.body).map_err(unread)?)),
    };
    Ok(SchedulePut {
        cron: said.cron.clone(),
        timezone: Some(zone_name(said.zone)),
        starts_at: said.starts.map(time::text),
        ends_at: said.ends.map(time::text),
        paused: said.is_paused,
        notification,
        bulk,
    })
}

fn zone_name(zone: ZoneNo) -> String {
    zone.name().unwrap_or(RECIPIENT).to_owned()
}

fn run(run: &Run) -> ScheduleRun {
    let (event_id, refused) = match &run.came {
        Came::Issued(event) => (Some(event.to_string()), None),
        Came::Refused(why) => (None, Some(why.clone())),
    };
    ScheduleRun { at: time::text(run.at), event_id, refused }
}

/// As the audit log names it.
fn runs_as(author: &Author) -> String {
    author.key.clone().unwrap_or_else(|| Actor::Admin.name().to_owned())
}

fn summary((row, standing): (ScheduleRow, Standing)) -> ScheduleSummary {
    ScheduleSummary {
        runs_as: row.definition.author.as_ref().map(runs_as),
        schedule_id: row.definition.id,
        version: row.version,
        cron: row.definition.cron,
        timezone: zone_name(row.definition.zone),
        paused: row.definition.is_paused,
        next_run: standing.next.map(time::text),
        last_run: standing.last.as_ref().map(run),
    }
}
