//! Bulk sends: accepted as one record, watched, paused, called off.
//!
//! Comes from: `pipeline`. Decides: that all of it is well formed; what is told is rendered as that of an event, in every locale and
//! variant. Goes to: `Node::{bulk, bulks, bulk_view, steer_bulk, estimate_bulk}`.

use crate::auth;
use crate::call::Call;
use crate::check::Faults;
use crate::cursor::{self, Owner};
use crate::idempotency;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::event_ask::ask_of;
use crate::v1::event_ids;
use crate::v1::events::{LeftOut, filled};
use crate::v1::notifications::channel_status;
use aws_lc_rs::digest::{SHA256, digest};
use axum::http::{HeaderName, HeaderValue};
use fantail_node::ask::Refusal;
use fantail_node::bulk::{BulkAsk, BulkPhase, BulkView, Pace, Steer, WaitsFor};
use fantail_node::named::Named;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{SPREAD_MINUTES_MAX, TTL_S_DEFAULT, TTL_S_MAX, WALK_RATE_MAX};
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::ulid::Ulid;
use fantail_rules::wall::parse_minute;
use fantail_rules::zone::ZoneNo;
use fantail_wire::bulk::{
    Bulk, BulkAccepted, BulkEstimate, BulkPatch, BulkSend, BulkStatus, Bulks, ChannelEstimate, OffPeak,
};
use fantail_wire::code::Code;
use fantail_wire::event::{Audience, CloudEvent, EventData, Priority};

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

pub async fn create(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let ask = read(tenant, &call, call.json()?).await?;
    auth::require_priority(&call.caller, ask.event.priority)?;
    call.spend(tenant, 1)?;
    let notification_id = ask.event.id.clone();
    let accepted = call.node.bulk(tenant, ask).await?;
    let event_id = accepted.event.to_string();
    let answer = BulkAccepted { request_id: call.request_id.clone(), notification_id, event_id };
    let reply = Reply::json(202, &answer);
    let is_first = !accepted.replayed;
    Ok(if is_first { reply } else { reply.with_header(REPLAYED, HeaderValue::from_static("true")) })
}

pub async fn estimate(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let ask = read(tenant, &call, call.json()?).await?;
    let (node, now) = (call.node.clone(), call.node.wall());
    let found = crate::aside::run(&call.app, tenant, crate::aside::Work::Scan, move || {
        node.estimate_bulk(tenant, &ask)
    })
    .await??;
    let channel = |(name, (recipients, reasons)): (&str, (u64, _))| {
        let suppressed: std::collections::BTreeMap<&str, u64> = reasons;
        let suppressed = suppressed.into_iter().map(|(why, count)| (why.to_owned(), count)).collect();
        (name.to_owned(), ChannelEstimate { recipients, suppressed })
    };
    let answer = BulkEstimate {
        users: found.users,
        audience: found.audience,
        exact: found.is_exact,
        channels: found.by_channel.into_iter().map(channel).collect(),
        finishes_at: time::text(now.plus(found.finishes_in_ms)),
    };
    Ok(Reply::json(200, &answer))
}

/// The newest first, those of a status if one is named.
pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let phase = call.query.get("status").map(phase_of).transpose()?;
    let name = format!("bulk:{}", call.query.get("status").unwrap_or_default());
    let owner = Owner { tenant, name: &name };
    let before = match call.query.get("cursor") {
        Some(text) => {
            let place = cursor::to_names(owner, text).and_then(|place| Ulid::parse(&place));
            Some(place.ok_or(Refusal::BadCursor)?)
        }
        None => None,
    };
    let limit = call.list_limit()?;
    let node = call.node.clone();
    let page = crate::aside::run(&call.app, tenant, crate::aside::Work::Scan, move || {
        node.bulks(tenant, before, phase, limit)
    })
    .await??;
    let next_cursor = page.next.map(|event| cursor::of_names(owner, &event.to_string()));
    Ok(Reply::json(200, &Bulks { bulks: page.bulks.into_iter().map(told).collect(), next_cursor }))
}

fn phase_of(word: &str) -> Result<BulkPhase, Problem> {
    match word {
        "scheduled" => Ok(BulkPhase::Scheduled),
        "running" => Ok(BulkPhase::Running),
        "paused" => Ok(BulkPhase::Paused),
        "sending" => Ok(BulkPhase::Sending),
        "done" => Ok(BulkPhase::Done),
        "cancelled" => Ok(BulkPhase::Cancelled),
        _ => Err(Problem::field("/status", "must be scheduled, running, paused, sending, done or cancelled")),
    }
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    shown(tenant, &call, event)
}

pub async fn patch(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    let BulkPatch { rate_per_second, spread_over_minutes } = call.json()?;
    let pace = pace_of(rate_per_second, spread_over_minutes)?;
    call.node.steer_bulk(tenant, event, Steer::Pace(pace)).await?;
    shown(tenant, &call, event)
}

pub async fn steer(tenant: TenantId, call: Call, steer: Steer) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    call.node.steer_bulk(tenant, event, steer).await?;
    shown(tenant, &call, event)
}

pub async fn cancel(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    // Only what is a bulk send is called off here.
    call.node.bulk_view(tenant, event)?;
    let called = call.node.cancel(tenant, event).await?;
    let reply = shown(tenant, &call, event)?;
    Ok(if called.is_pending { reply.accepted() } else { reply })
}

fn event_of(tenant: TenantId, call: &Call) -> Result<Ulid, Problem> {
    let found = event_ids::find(tenant, call, call.name("bulk")?)?;
    found.ok_or_else(no_bulk)
}

fn no_bulk() -> Problem {
    Problem::new(Code::EventNotFound, "there is no bulk send with this id")
}

/// What is asked for, checked and rendered.
pub async fn read(tenant: TenantId, call: &Call, request: BulkSend) -> Result<BulkAsk, Problem> {
    let said = serde_json::to_vec(&request).map_err(|_| Problem::new(Code::Internal, "cannot be written"))?;
    let pace = pace_of(request.rate_per_second, request.spread_over_minutes)?;
    let window = request.off_peak.as_ref().map(window_of).transpose()?;
    let spread_s = u64::from(request.spread_over_minutes.unwrap_or_default()) * 60;
    let mut options = request.options;
    options.ttl = options.ttl.or(Some((TTL_S_DEFAULT + spread_s).min(TTL_S_MAX)));
    let name = idempotency::name_of(&call.headers, request.notification_id)?;
    let minted = || format!("bulk_{:032x}", call.app.entropy.random_u128());
    let event = CloudEvent {
        specversion: "1.0".to_owned(),
        id: name.unwrap_or_else(minted),
        source: "bulk".to_owned(),
        kind: "bulk".to_owned(),
        actor: None,
        time: None,
        data: EventData {
            audience: Audience::Segment(request.recipient_query.segment.clone()),
            category: request.category,
            priority: Some(request.priority.unwrap_or(Priority::Low)),
            channels: request.channels,
            ttl: None,
            options,
            content: request.content,
            template_id: request.template_id,
            template_version: request.template_version,
            variables: request.variables,
        },
    };
    let left_out = LeftOut::of(&event);
    let mut faults = Faults::default();
    let id = event.id.clone();
    // A bulk send is named as a notification is, and has no actor.
    let is_taken = |_: Named<'_>| call.is_taken(tenant, Named::Notification(&id));
    let event = ask_of(event, Pointer::ROOT, call.node.wall(), &is_taken, &mut faults);
    faults.into_result().map_err(placed)?;
    let mut event = filled(tenant, call, event, left_out).await.map_err(placed)?;
    if event.channels.is_empty() {
        return Err(Problem::field(
            "/channels",
            "at least one of inApp, push, email, sms and webhook is needed",
        ));
    }
    event.body_hash.copy_from_slice(&digest(&SHA256, &said).as_ref()[..16]);
    Ok(BulkAsk {
        segment: request.recipient_query.segment,
        excludes_opted_out: request.recipient_query.exclude_opted_out.unwrap_or(true),
        ignores_quiet_hours: !request.respect_quiet_hours.unwrap_or(true),
        pace,
        window,
        event,
    })
}

/// Where the field stands in this request.
fn placed(mut problem: Problem) -> Problem {
    for error in &mut problem.errors {
        let pointer = error.pointer.strip_prefix("/data").unwrap_or(&error.pointer);
        error.pointer = match pointer {
            "/id" => "/notificationId".to_owned(),
            "/audience/segment" => "/recipientQuery/segment".to_owned(),
            other => other.to_owned(),
        };
    }
    problem
}

fn pace_of(rate_per_second: Option<u32>, spread_over_minutes: Option<u32>) -> Result<Pace, Problem> {
    match (rate_per_second, spread_over_minutes) {
        (None, None) => Ok(Pace::Free),
        (Some(rate), None) if (1..=WALK_RATE_MAX).contains(&rate) => Ok(Pace::PerSecond(rate)),
        (None, Some(minutes)) if (1..=SPREAD_MINUTES_MAX).contains(&minutes) => {
            Ok(Pace::Over(u64::from(minutes) * 60_000))
        }
        (Some(_), None) => {
            Err(Problem::field("/ratePerSecond", format!("must be a number from 1 to {WALK_RATE_MAX}")))
        }
        (None, Some(_)) => {
            let rule = format!("must be a number from 1 to {SPREAD_MINUTES_MAX}");
            Err(Problem::field("/spreadOverMinutes", rule))
        }
        (Some(_), Some(_)) => Err(Problem::field("/spreadOverMinutes", "either this or ratePerSecond")),
    }
}

fn window_of(off_peak: &OffPeak) -> Result<(Window, ZoneNo), Problem> {
    let minute = |text: &str, at: &str| {
        parse_minute(text)
            .ok_or_else(|| Problem::field(format!("/offPeak/{at}"), "must be a time like 22:00"))
    };
    let start_minute = minute(&off_peak.start, "start")?;
    let end_minute = minute(&off_peak.end, "end")?;
    let name = off_peak.timezone.as_deref().unwrap_or("UTC");
    let zone =
        ZoneNo::find(name).ok_or_else(|| Problem::field("/offPeak/timezone", "is no IANA time zone"))?;
    let window = Window::new(Times { start_minute, end_minute }, Days::ALL);
    window.map(|window| (window, zone)).ok_or_else(|| Problem::field("/offPeak", "is no window"))
}

fn shown(tenant: TenantId, call: &Call, event: Ulid) -> Result<Reply, Problem> {
    let view: BulkView = call.node.bulk_view(tenant, event).map_err(|refusal| match refusal {
        Refusal::UnknownEvent { .. } => no_bulk(),
        other => other.into(),
    })?;
    Ok(Reply::json(200, &told(view)))
}

fn told(view: BulkView) -> Bulk {
    let status = match view.phase {
        BulkPhase::Scheduled => BulkStatus::Scheduled,
        BulkPhase::Running => BulkStatus::Running,
        BulkPhase::Paused => BulkStatus::Paused,
        BulkPhase::Sending => BulkStatus::Sending,
        BulkPhase::Done => BulkStatus::Done,
        BulkPhase::Cancelled => BulkStatus::Cancelled,
    };
    let waits_for = view.waits_for.map(|waits| match waits {
        WaitsFor::Window => "window".to_owned(),
        WaitsFor::Pace => "rate".to_owned(),
        WaitsFor::Deliveries => "deliveries".to_owned(),
    });
    Bulk {
        event_id: view.event.to_string(),
        notification_id: view.name,
        segment: view.walk.segment,
        status,
        waits_for,
        created_at: time::text(view.created_at),
        scheduled_at: view.due.map(time::text),
        users: view.users,
        looked_at: view.looked_at,
        members: view.members,
        entries: view.entries,
        skipped: view.skipped,
        channels: view.channels.iter().map(channel_status).collect(),
    }
}
