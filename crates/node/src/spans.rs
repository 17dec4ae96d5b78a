//! Spans of a notification's way: accept, admit, then intend, send and ack for each parcel of a direct send, and one
//! span for each parcel of a list, in a trace of its own that is linked to the event.
//!
//! Comes from: the steps themselves, once they are over. Goes to: `ports::trace`, if anybody listens.
//!
//! What must never happen: a step that waits for its span or fails because of it; a name, an address or content in one.

use crate::core::Core;
use crate::node::Node;
use fantail_machine::shard::intend::Allowed;
use fantail_machine::tables::event;
use fantail_ports::trace::{Attribute, Span, Tracer};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::trace::{Place, SpanId, TraceId, root};
use fantail_rules::ulid::Ulid;
use std::sync::Arc;

/// Who listens; nobody, unless told otherwise.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<dyn Tracer>>);

impl Spans {
    #[must_use]
    pub fn told_to(tracer: Arc<dyn Tracer>) -> Self {
        Self(Some(tracer))
    }
}

/// A step from then until then.
#[derive(Clone, Copy, Debug)]
pub struct Period {
    pub began: Millis,
    pub ended: Millis,
}

impl Node {
    /// An event was accepted for the first time, asked for by a caller with a trace of its own or without.
    pub fn accepted(&self, tenant: TenantId, event: Ulid, began: Millis, origin: Option<Place>) {
        let Some(tracer) = &self.core.ports.spans.0 else { return };
        tracer.record(Span {
            place: root(event),
            parent: None,
            link: origin,
            name: "accept",
            began,
            ended: self.core.ports.clock.wall(),
            attributes: about(tenant, event),
        });
    }
}

/// A front has admitted an event, durably.
pub fn admitted(core: &Core, tenant: TenantId, event: Ulid, began: Millis) {
    let Some(tracer) = &core.ports.spans.0 else { return };
    let root = root(event);
    tracer.record(Span {
        place: Place { trace: root.trace, span: SpanId::of(event, "admit", &[]) },
        parent: Some(root.span),
        link: None,
        name: "admit",
        began,
        ended: core.ports.clock.wall(),
        attributes: about(tenant, event),
    });
}

/// The times of a parcel's steps.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    pub asked: Millis,
    pub intended: Millis,
    pub sent: Millis,
    pub acknowledged: Millis,
}

/// A parcel has been sent, and what came of it is durable.
pub fn parcel(core: &Core, channel: ChannelKind, shard: ShardNo, allowed: &Allowed, steps: Steps) {
    let Some(tracer) = &core.ports.spans.0 else { return };
    let (event, tenant) = (allowed.event, allowed.parcel.tenant);
    let first = allowed.sends.first().map_or(0, |send| send.position);
    let numbers = [
        shard.0.into(),
        channel as u64,
        allowed.parcel.first.0,
        allowed.round.into(),
        first.into(),
        steps.asked.0,
    ];
    let mut attributes = about(tenant, event);
    attributes.push(("fantail.channel", Attribute::Text(channel.name().to_owned())));
    attributes.push(("fantail.shard", Attribute::Number(shard.0.into())));
    attributes.push(("fantail.round", Attribute::Number(allowed.round.into())));
    attributes.push(("fantail.deliveries", Attribute::Number(allowed.sends.len() as u64)));
    let root = root(event);
    let span = |name, parent, period: Period| Span {
        place: Place { trace: root.trace, span: SpanId::of(event, name, &numbers) },
        parent: Some(parent),
        link: None,
        name,
        began: period.began,
        ended: period.ended,
        attributes: attributes.clone(),
    };
    if is_for_a_list(core, tenant, event) {
        let place =
            Place { trace: TraceId::of_parcel(event, &numbers), span: SpanId::of(event, "parcel", &numbers) };
        let (began, ended) = (steps.asked, steps.acknowledged);
        let whole = Span { place, parent: None, link: Some(root), name: "parcel", began, ended, attributes };
        tracer.record(whole);
        return;
    }
    let intend = span("intend", root.span, Period { began: steps.asked, ended: steps.intended });
    let send = span("send", intend.place.span, Period { began: steps.intended, ended: steps.sent });
    let ack = span("ack", send.place.span, Period { began: steps.sent, ended: steps.acknowledged });
    [intend, send, ack].into_iter().for_each(|span| tracer.record(span));
}

/// What cannot be read now is told as a list's: one span too few is better than a thousand.
fn is_for_a_list(core: &Core, tenant: TenantId, event: Ulid) -> bool {
    if core.front(event.front()).is_none() {
        // A digest is for one.
        return false;
    }
    let row = core.read(PartitionId::Front(event.front()), |view| event::find(view.tables(), tenant, event));
    row.ok().flatten().is_none_or(|row| row.recipients == 0)
}

fn about(tenant: TenantId, event: Ulid) -> Vec<(&'static str, Attribute)> {
    vec![
        ("fantail.tenant", Attribute::Number(tenant.0.into())),
        ("fantail.event", Attribute::Text(event.to_string())),
    ]
}
