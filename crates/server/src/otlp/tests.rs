//! What collectors read, and what becomes of spans that they do not.

use super::*;
use fantail_ports::trace::Attribute;
use fantail_rules::ids::Millis;
use fantail_rules::trace::{Place, SpanId, TraceId};
use serde_json::{Value, json};

fn span() -> Span {
    Span {
        place: Place { trace: TraceId(1), span: SpanId(2) },
        parent: Some(SpanId(3)),
        link: Some(Place { trace: TraceId(4), span: SpanId(5) }),
        name: "send",
        began: Millis(7),
        ended: Millis(9),
        attributes: vec![("a", Attribute::Text("b".to_owned())), ("n", Attribute::Number(6))],
    }
}

// proves: OBS-02
#[test]
fn spans_are_told_as_collectors_read_them() {
    let told: Value = serde_json::from_slice(&payload::body(&[span()])).expect("JSON");
    let expected = json!({
        "traceId": "00000000000000000000000000000001", "spanId": "0000000000000002",
        "parentSpanId": "0000000000000003", "name": "send", "kind": 3,
        "startTimeUnixNano": "7000000", "endTimeUnixNano": "9000000",
        "attributes": [{"key": "a", "value": {"stringValue": "b"}}, {"key": "n", "value": {"intValue": "6"}}],
        "links": [{"traceId": "00000000000000000000000000000004", "spanId": "0000000000000005"}],
    });
    assert_eq!(told["resourceSpans"][0]["scopeSpans"][0]["spans"][0], expected);
}

#[test]
fn a_full_queue_drops_and_counts_and_nobody_waits() {
    let (spans, waiting) = sync_channel(2);
    let counts = Arc::new(Counts::default());
    let queue = Queue { spans, counts: counts.clone() };
    (0..5).for_each(|_| queue.record(span()));
    assert_eq!(counts.dropped.load(Relaxed), 3);
    drop(waiting);
    queue.record(span());
    assert_eq!(counts.dropped.load(Relaxed), 4, "also when nobody takes any more");
}

#[test]
fn what_a_collector_does_not_take_is_counted_as_lost() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let endpoint = endpoint.parse().expect("an endpoint");
    let settings = Settings { endpoint, headers: Headers::default(), roots: None };
    let exporter = Exporter::start(settings).expect("a thread");
    exporter.tracer.record(span());
    exporter.stop();
    assert_eq!((exporter.counts.failed.load(Relaxed), exporter.counts.exported.load(Relaxed)), (1, 0));
}
