//! The trace of one recipient, on demand: made from what ledger and track remember, so that no recipient of a list costs a
//! span before somebody asks.
//!
//! Comes from: what the node knows about one recipient. Decides: only what is a span. Goes to: the trace API. Its trace
//! is the event's, so that it lies beside what was exported.

use crate::time;
use crate::v1::notifications::shown;
use fantail_node::ask::{ChannelKind, DeliveryView, Explanation};
use fantail_rules::ids::Millis;
use fantail_rules::trace::{SpanId, root};
use fantail_wire::notification::{Trace, TraceSpan};

pub fn tell(found: &Explanation) -> Trace {
    let root = root(found.event);
    let accept = TraceSpan {
        span_id: root.span.text(),
        parent_span_id: None,
        name: if found.digest_of.is_some() { "digest" } else { "accept" }.to_owned(),
        channel: None,
        endpoint: None,
        started_at: time::text(found.accepted_at),
        ended_at: time::text(found.accepted_at),
        state: None,
        code: String::new(),
    };
    let mut spans = vec![accept];
    for (channel, deliveries) in &found.deliveries {
        deliveries.iter().for_each(|one| delivery(found, *channel, one, &mut spans));
    }
    Trace {
        trace_id: root.trace.text(),
        event_id: found.event.to_string(),
        notification_id: found.name.clone(),
        user_id: found.user.clone(),
        spans,
    }
}

/// One span from the decision to the latest news, and one for each attempt below it.
fn delivery(found: &Explanation, channel: ChannelKind, one: &DeliveryView, spans: &mut Vec<TraceSpan>) {
    let numbers = [channel as u64, one.parcel_first.0, one.position.into()];
    let id = SpanId::of(found.event, "delivery", &numbers);
    let last = one.notes.last().map_or(one.begun_at, |note| note.at);
    let span = |id: SpanId, parent: SpanId, name: &str, began: Millis, ended: Millis| TraceSpan {
        span_id: id.text(),
        parent_span_id: Some(parent.text()),
        name: name.to_owned(),
        channel: Some(shown(channel)),
        endpoint: Some(one.device),
        started_at: time::text(began),
        ended_at: time::text(ended.max(began)),
        state: Some(one.state.public_word().to_owned()),
        code: one.code.clone(),
    };
    spans.push(span(id, root(found.event).span, "delivery", one.begun_at, last));
    for (at, note) in one.notes.iter().enumerate() {
        let own = SpanId::of(found.event, "attempt", &[&numbers[..], &[at as u64]].concat());
        let name = if note.gate.is_some() { "gate" } else { "attempt" };
        let attempt = span(own, id, name, note.at, note.at);
        let (state, code) = (Some(note.state.public_word().to_owned()), note.code.clone());
        spans.push(TraceSpan { state, code, ..attempt });
    }
}
