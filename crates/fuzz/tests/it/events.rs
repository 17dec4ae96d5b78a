//! CloudEvents as producers post them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fantail_fuzz::{Corpus, fuzz};
use fantail_wire::event::CloudEvent;

const WORDS: &[&str] = &[
    "null",
    "[",
    "]",
    "{",
    "}",
    "\"data\":",
    "\"data_base64\":\"",
    "\"id\":",
    "\"audience\":",
    "\"users\":[",
    "\"time\":\"",
    "\\ud800",
    "\\u0000",
    "1e400",
    "-1",
    "\"content\":",
    "\"options\":{}",
    "\"traceparent\":\"x\",",
];

#[test]
fn events_are_read_or_refused() {
    let data = r#"{"audience":{"users":["ann"]},"channels":["push"],"content":{"title":"x","data":{"a":[1,{"b":null}]}}}"#;
    let head =
        r#""specversion":"1.0","id":"1","source":"s","type":"t","actor":"ann","time":"2026-01-31T12:00:00Z""#;
    let inputs = vec![
        format!("{{{head},\"data\":{data}}}").into_bytes(),
        format!("{{{head},\"data_base64\":\"{}\"}}", STANDARD.encode(data)).into_bytes(),
    ];
    for input in &inputs {
        assert!(serde_json::from_slice::<CloudEvent>(input).is_ok(), "the corpus has good events");
    }
    fuzz("CloudEvent", &Corpus::new(inputs, WORDS), |input| {
        if let Ok(event) = serde_json::from_slice::<CloudEvent>(input) {
            let written = serde_json::to_string(&event).expect("what was read can be written");
            let again: CloudEvent = serde_json::from_str(&written).expect("and read again");
            assert_eq!(serde_json::to_string(&again).expect("JSON"), written);
        }
    });
}
