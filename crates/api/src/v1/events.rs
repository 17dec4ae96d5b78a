//! Events: accepted durably, answered with their id, retracted.
//!
//! Comes from: `pipeline`. Decides: which of the three CloudEvents forms this is, and that all of it is well formed.
//! Goes to: `Node::post_events`. A batch is accepted only if every event in it is valid.

use crate::aside;
use crate::auth;
use crate::body;
use crate::call::Call;
use crate::check::Faults;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::v1::batch;
use crate::v1::event_ask::ask_of;
use crate::v1::event_ids;
use crate::v1::option_ask::out_of_inbox;
use crate::v1::rendering::{self, Scene};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use fantail_node::ask::{Accepted, AudienceAsk, ChannelKind, ChannelSet, EventAsk, Refusal};
use fantail_node::named::Named;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::EVENTS_PER_REQUEST_MAX;
use fantail_wire::code::Code;
use fantail_wire::event::{AcceptedStatus, CloudEvent, EventAccepted, EventResult, EventsAccepted};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

pub async fn post(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    match form_of(&call.headers, &call.body)? {
        Form::Structured => one(tenant, &call, body::parse(&call.body)?).await,
        Form::Binary => {
            let event = binary_event(&call.headers, &call.body)?;
            one(tenant, &call, event).await
        }
        Form::Batch => many(tenant, &call, body::parse(&call.body)?).await,
    }
}

/// Hides an event everywhere, and stops what of it was not sent. 202 says that a shard has not taken it yet.
pub async fn retract(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_ids::of_path(tenant, &call, "event")?;
    let is_taken = call.node.retract(tenant, event).await?;
    let reply = Reply::no_content();
    Ok(if is_taken { reply } else { reply.accepted() })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Structured,
    Binary,
    Batch,
}

fn form_of(headers: &HeaderMap, body: &[u8]) -> Result<Form, Problem> {
    body::require_utf8(headers)?;
    let media_type = body::media_type(headers);
    match media_type.as_deref() {
        Some("application/cloudevents+json") => Ok(Form::Structured),
        Some("application/cloudevents-batch+json") => Ok(Form::Batch),
        Some("application/json") if headers.contains_key("ce-specversion") => Ok(Form::Binary),
        Some("application/json") => {
            let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
            Ok(if first == Some(&b'[') { Form::Batch } else { Form::Structured })
        }
        Some(_) | None => Err(Problem::new(
            Code::UnsupportedMediaType,
            "send `Content-Type: application/json`, `application/cloudevents+json` or \
             `application/cloudevents-batch+json`",
        )),
    }
}

/// Attributes from `ce-*` headers, the body is `data`.
fn binary_event(headers: &HeaderMap, body: &[u8]) -> Result<CloudEvent, Problem> {
    let mut faults = Faults::default();
    let mut required = |name: &'static str| match attribute(headers, name) {
        Ok(Some(value)) => value,
        Ok(None) => {
            faults.add(Pointer::ROOT.key(name), "this header is required");
            String::new()
        }
        Err(fault) => {
            faults.add(Pointer::ROOT.key(name), fault);
            String::new()
        }
    };
    let specversion = required("ce-specversion");
    let (id, source, kind) = (required("ce-id"), required("ce-source"), required("ce-type"));
    let mut optional = |name: &'static str| {
        attribute(headers, name).unwrap_or_else(|fault| {
            faults.add(Pointer::ROOT.key(name), fault);
            None
        })
    };
    let (actor, time) = (optional("ce-actor"), optional("ce-time"));
    faults.into_result()?;
    let data = body::parse(body).map_err(|mut problem| {
        problem.errors.iter_mut().for_each(|error| error.pointer.insert_str(0, "/data"));
        problem
    })?;
    Ok(CloudEvent { specversion, id, source, kind, actor, time, data })
}

fn attribute(headers: &HeaderMap, name: &str) -> Result<Option<String>, &'static str> {
    let mut values = headers.get_all(name).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("is there more than once");
    }
    let text = value.to_str().map_err(|_| "must be ASCII, with percent-encoding for the rest")?;
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| "is not valid UTF-8 after decoding")?;
    Ok(Some(decoded.into_owned()))
}

async fn one(tenant: TenantId, call: &Call, event: CloudEvent) -> Result<Reply, Problem> {
    let mut faults = Faults::default();
    let left_out = LeftOut::of(&event);
    let is_taken = |named: Named<'_>| call.is_taken(tenant, named);
    let ask = ask_of(event, Pointer::ROOT, call.node.wall(), &is_taken, &mut faults);
    faults.into_result()?;
    let ask = filled(tenant, call, ask, left_out).await?;
    auth::require_priority(&call.caller, ask.priority)?;
    call.spend(tenant, cost_of(&ask))?;
    let began = call.node.wall();
    let is_held = ask.options.held_until(began).is_some();
    let mut results = call.node.post_events(tenant, vec![ask]).await;
    told(call, tenant, &results, began);
    let accepted = results.pop().expect("one result per event")?;
    count(call, tenant, &[Ok(accepted)]);
    let answer = EventAccepted {
        request_id: call.request_id.clone(),
        event_id: accepted.event.to_string(),
        status: if is_held { AcceptedStatus::Scheduled } else { AcceptedStatus::Accepted },
    };
    let reply = Reply::json(202, &answer);
    if accepted.replayed {
        return Ok(reply.with_header(REPLAYED, HeaderValue::from_static("true")));
    }
    Ok(reply)
}

async fn many(tenant: TenantId, call: &Call, events: Vec<CloudEvent>) -> Result<Reply, Problem> {
    let left_out: Vec<LeftOut> = events.iter().map(LeftOut::of).collect();
    let mut asks = Vec::with_capacity(events.len());
    let checked = check_all(events, call.node.wall(), &|named| call.is_taken(tenant, named))?;
    for (index, (ask, left_out)) in checked.into_iter().zip(left_out).enumerate() {
        let filled = filled(tenant, call, ask, left_out).await;
        asks.push(filled.map_err(|problem| problem.below(&format!("/{index}")))?);
    }
    asks.iter().try_for_each(|ask| auth::require_priority(&call.caller, ask.priority))?;
    call.spend(tenant, asks.iter().map(cost_of).sum())?;
    let began = call.node.wall();
    let results = call.node.post_events(tenant, asks).await;
    told(call, tenant, &results, began);
    count(call, tenant, &results);
    if let Some(problem) = batch::refused_as_one(&results) {
        return Err(problem);
    }
    let events = results.into_iter().map(result_of).collect();
    Ok(Reply::json(202, &EventsAccepted { request_id: call.request_id.clone(), events }))
}

/// Spans of what was accepted for the first time.
fn told(call: &Call, tenant: TenantId, results: &[Result<Accepted, Refusal>], began: Millis) {
    for fresh in results.iter().flatten().filter(|accepted| !accepted.replayed) {
        call.node.accepted(tenant, fresh.event, began, call.origin());
    }
}

/// What an event does not say itself.
pub struct LeftOut {
    template: Option<TemplateUse>,
    /// The tenant's policy for the category has one.
    priority: bool,
}

impl LeftOut {
    pub fn of(event: &CloudEvent) -> Self {
        Self { template: TemplateUse::of(event), priority: event.data.priority.is_none() }
    }
}

/// How an event says what is told, other than by saying it.
struct TemplateUse {
    id: String,
    version: Option<u32>,
    variables: Map<String, Value>,
    /// What the event says itself goes before what the template says.
    has_category: bool,
}

impl TemplateUse {
    fn of(event: &CloudEvent) -> Option<Self> {
        let data = &event.data;
        Some(Self {
            id: data.template_id.clone()?,
            version: data.template_version,
            variables: data.variables.clone(),
            has_category: data.category.is_some(),
        })
    }
}

/// An event with what it left out, after it was hashed: a repeat says the same, whatever the policies are by then.
pub async fn filled(
    tenant: TenantId,
    call: &Call,
    mut ask: EventAsk,
    left_out: LeftOut,
) -> Result<EventAsk, Problem> {
    if let Some(template) = left_out.template {
        ask = rendered(tenant, call, ask, template).await?;
    }
    ask.channels = out_of_inbox(&ask.options, ask.channels, "/data/channels")?;
    if left_out.priority {
        ask.priority = call.node.usual_priority(tenant, &ask.category);
    }
    Ok(ask)
}

/// With what is told: rendered in every locale and variant, here, and frozen.
async fn rendered(
    tenant: TenantId,
    call: &Call,
    mut ask: EventAsk,
    template: TemplateUse,
) -> Result<EventAsk, Problem> {
    let (compiled, version) = call.node.compiled(tenant, &template.id, template.version)?;
    if !template.has_category && !compiled.category().is_empty() {
        ask.category = compiled.category().to_owned();
    }
    ask.channels = rendering::channels_of(&compiled, ask.channels)?;
    // Inboxes show it in any case, unless it comes by its recipients' clocks.
    let inbox = ask.options.appointment.is_none()
        && rendering::channels_of(&compiled, ChannelSet::EMPTY)?.contains(ChannelKind::InApp);
    let scene = Scene {
        compiled,
        version,
        tenant: call.node.tenant(tenant).ok_or(Refusal::UnknownTenant)?,
        id: ask.id.clone(),
        channels: if inbox { ask.channels.with(ChannelKind::InApp) } else { ask.channels },
        has_inbox: inbox,
        shared: template.variables,
        now: call.node.wall(),
    };
    let rendered = aside::run(&call.app, tenant, aside::Work::Send, move || scene.render_for_all()).await?;
    ask.content = rendered.map_err(|problem| problem.below("/data"))?;
    Ok(ask)
}

/// What an event costs its producer.
fn cost_of(ask: &EventAsk) -> usize {
    match &ask.audience {
        AudienceAsk::Users(users) => users.len(),
        AudienceAsk::FollowersOf(_) | AudienceAsk::Topic(_) | AudienceAsk::Segment(_) => 1,
    }
}

fn check_all(
    events: Vec<CloudEvent>,
    now: Millis,
    is_taken: &dyn Fn(Named<'_>) -> bool,
) -> Result<Vec<EventAsk>, Problem> {
    if events.is_empty() || events.len() > EVENTS_PER_REQUEST_MAX {
        return Err(Problem::field("", format!("a batch has 1 to {EVENTS_PER_REQUEST_MAX} events")));
    }
    let mut faults = Faults::default();
    let root = Pointer::ROOT;
    let asks = events
        .into_iter()
        .enumerate()
        .map(|(index, event)| ask_of(event, root.index(index), now, is_taken, &mut faults))
        .collect();
    faults.into_result()?;
    Ok(asks)
}

fn result_of(result: Result<Accepted, Refusal>) -> EventResult {
    match result {
        Ok(accepted) => {
            EventResult::Accepted { event_id: accepted.event.to_string(), replayed: accepted.replayed }
        }
        Err(refusal) => {
            let problem = Problem::from(refusal);
            EventResult::Refused { code: problem.code, detail: problem.detail.into_owned() }
        }
    }
}

fn count(call: &Call, tenant: TenantId, results: &[Result<Accepted, Refusal>]) {
    let (mut fresh, mut replayed) = (0, 0);
    for accepted in results.iter().flatten() {
        if accepted.replayed { replayed += 1 } else { fresh += 1 }
    }
    call.app.telemetry.events_accepted(tenant, fresh);
    call.app.telemetry.events_replayed.add(replayed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::CONTENT_TYPE;

    const NOW: Millis = Millis(1_769_860_800_000);

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn the_form_follows_content_type_and_first_byte() {
        let json = "application/json; charset=utf-8";
        let cases = [
            (Some("application/cloudevents+json"), "[", Ok(Form::Structured)),
            (Some("application/cloudevents-batch+json; charset=utf-8"), "{", Ok(Form::Batch)),
            (Some(json), " \n[", Ok(Form::Batch)),
            (Some(json), "{", Ok(Form::Structured)),
            (Some(json), "", Ok(Form::Structured)),
            (Some("text/plain"), "{", Err(Code::UnsupportedMediaType)),
            (None, "{", Err(Code::UnsupportedMediaType)),
        ];
        for (media_type, body, expected) in cases {
            let mut map = HeaderMap::new();
            if let Some(media_type) = media_type {
                map.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            }
            let form = form_of(&map, body.as_bytes()).map_err(|problem| problem.code);
            assert_eq!(form, expected, "{media_type:?} {body}");
        }
        let binary = headers(&[("content-type", "application/json"), ("ce-specversion", "1.0")]);
        assert_eq!(form_of(&binary, b"{}").map_err(|problem| problem.code), Ok(Form::Binary));
    }

    // fixes: usability C12
    #[test]
    fn binary_attributes_come_from_headers() {
        let body = br#"{"audience":{"topic":"t"},"content":{"title":"x"}}"#;
        let full = headers(&[
            ("ce-specversion", "1.0"),
            ("ce-id", "1"),
            ("ce-source", "/caf%C3%A9"),
            ("ce-type", "t"),
            ("ce-actor", "ann"),
        ]);
        let event = binary_event(&full, body).expect("an event");
        assert_eq!((event.source.as_str(), event.actor.as_deref()), ("/café", Some("ann")));
        let missing = binary_event(&headers(&[("ce-specversion", "1.0")]), body).expect_err("no id");
        let pointers: Vec<_> = missing.errors.iter().map(|error| error.pointer.as_str()).collect();
        assert_eq!(pointers, ["/ce-id", "/ce-source", "/ce-type"]);
        let mut twice = full.clone();
        twice.append("ce-id", HeaderValue::from_static("2"));
        let twice = binary_event(&twice, body).expect_err("two ids");
        assert_eq!(twice.errors[0].pointer, "/ce-id");
        let wrong = binary_event(&full, b"{\"x\":1}").expect_err("unknown field");
        assert_eq!(wrong.errors[0].pointer, "/data/x");
    }

    // fixes: usability C12
    #[test]
    fn a_time_is_a_time() {
        for (time, is_taken) in [
            ("2026-01-31T12:00:00Z", true),
            ("2026-01-31T12:00:00.5+01:00", true),
            ("1969-07-20T20:17:40Z", true),
            ("yesterday", false),
            ("2026-01-31", false),
            ("2026-01-31T12:00:00", false),
            ("", false),
        ] {
            let text = format!(
                r#"{{"specversion":"1.0","id":"1","source":"s","type":"t","time":"{time}",
                "data":{{"audience":{{"topic":"t"}},"content":{{"title":"x"}}}}}}"#
            );
            let event: CloudEvent = serde_json::from_str(&text).expect("an event");
            let found = check_all(vec![event], NOW, &|_| false).map(|asks| asks.len());
            let found = found.map_err(|problem| problem.errors[0].pointer.clone());
            assert_eq!(found, if is_taken { Ok(1) } else { Err("/0/time".to_owned()) }, "{time}");
        }
    }

    #[test]
    fn one_bad_event_refuses_the_batch_and_is_named() {
        let event = |id: &str| -> CloudEvent {
            let text = format!(
                r#"{{"specversion":"1.0","id":"{id}","source":"s","type":"t",
                "data":{{"audience":{{"topic":"t"}},"content":{{"title":"x"}}}}}}"#
            );
            serde_json::from_str(&text).expect("an event")
        };
        let problem = check_all(vec![event("1"), event("")], NOW, &|_| false).expect_err("no id");
        assert_eq!(problem.errors[0].pointer, "/1/id");
        assert_eq!(check_all(vec![event("1"), event("2")], NOW, &|_| false).expect("valid").len(), 2);
        assert!(check_all(Vec::new(), NOW, &|_| false).is_err());
        assert!(check_all(vec![event("1"); EVENTS_PER_REQUEST_MAX + 1], NOW, &|_| false).is_err());
    }
}
