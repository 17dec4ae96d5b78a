//! Requests that post events, built once and patched in place: sending one costs the generator a few dozen bytes of
//! digits, not a serialization. Ids and recipients have a fixed number of digits so that lengths never change.

use crate::http::{Answer, Target};
use crate::load::{Script, Verdict};
use crate::people;
use anyhow::Result;

/// The JSON of an event's content has this many bytes, as the goals say.
const CONTENT_BYTES: usize = 300;
const ID_DIGITS: usize = 16;

/// Who gets the events of a request.
#[derive(Clone, Copy, Debug)]
pub enum Audience {
    /// One of this many users, another one for every event.
    OneOf(u64),
    /// The followers of one of this many actors, another one for every event.
    FollowersOfOneOf(u64),
}

/// A request with `events` events (one of them is not sent as a batch), whose ids ascend from `first`.
pub struct EventRequest {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    events: usize,
    next: u64,
    /// How many users or actors take turns.
    recipients: u64,
}

/// Where in the request an event's digits are.
struct Slot {
    id: usize,
    recipient: usize,
}

impl EventRequest {
    /// `source` keeps the ids of one load apart from those of another.
    pub fn new(target: &Target, source: &str, audience: Audience, events: usize, first: u64) -> Self {
        let mut body = Vec::new();
        let mut slots = Vec::new();
        if events > 1 {
            body.push(b'[');
        }
        for at in 0..events {
            if at > 0 {
                body.push(b',');
            }
            slots.push(push_event(&mut body, source, audience));
        }
        if events > 1 {
            body.push(b']');
        }
        let bytes = target.send("POST", "/api/v1/events", &body);
        let head = bytes.len() - body.len();
        for slot in &mut slots {
            slot.id += head;
            slot.recipient += head;
        }
        let (Audience::OneOf(recipients) | Audience::FollowersOfOneOf(recipients)) = audience;
        Self { bytes, slots, events, next: first, recipients }
    }

    /// The same request for many connections, each with ids of its own.
    pub fn for_connections(
        target: &Target,
        source: &str,
        audience: Audience,
        events: usize,
        connections: u64,
    ) -> Vec<Self> {
        let first = |connection: u64| connection * 1_000_000_000_000;
        (0..connections).map(|at| Self::new(target, source, audience, events, first(at))).collect()
    }
}

impl Script for EventRequest {
    fn next(&mut self) -> &[u8] {
        for slot in &self.slots {
            put_digits(&mut self.bytes[slot.id..slot.id + ID_DIGITS], self.next);
            let recipient = spread(self.next) % self.recipients;
            put_digits(&mut self.bytes[slot.recipient..slot.recipient + people::DIGITS], recipient);
            self.next += 1;
        }
        &self.bytes
    }

    fn judge(&mut self, answer: &Answer<'_>) -> Result<Verdict> {
        if answer.status == 503 {
            return Ok(Verdict::Busy);
        }
        answer.expect(202)?;
        // Events of one batch may be refused one by one; a load that counts them would lie.
        let refused = self.events > 1 && contains(answer.body, b"\"refused\"");
        Ok(if refused { Verdict::Busy } else { Verdict::Done })
    }
}

pub fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Which recipient an id goes to: scattered, and the same every time.
pub fn spread(id: u64) -> u64 {
    let mut mixed = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// One event as JSON: what `title` says is shown to the reader.
pub fn event_json(source: &str, id: &str, audience: &str, title: &str) -> String {
    let content = content_json(title);
    format!(
        r#"{{"specversion":"1.0","id":"{id}","source":"{source}","type":"bench.posted","data":{{"audience":{audience},"content":{content}}}}}"#
    )
}

fn content_json(title: &str) -> String {
    let empty = format!(r#"{{"title":"{title}","body":""}}"#).len();
    let body: String =
        "measured in the same run, on the same disk. ".chars().cycle().take(CONTENT_BYTES - empty).collect();
    format!(r#"{{"title":"{title}","body":"{body}"}}"#)
}

fn push_event(body: &mut Vec<u8>, source: &str, audience: Audience) -> Slot {
    const ID: &str = "IIIIIIIIIIIIIIII";
    const RECIPIENT: &str = "RRRRRRR";
    let audience = match audience {
        Audience::OneOf(_) => format!(r#"{{"users":["u{RECIPIENT}"]}}"#),
        Audience::FollowersOfOneOf(_) => format!(r#"{{"followersOf":"a{RECIPIENT}"}}"#),
    };
    let text = event_json(source, ID, &audience, "something happened");
    let place = |part: &str| body.len() + text.find(part).expect("the text was made with this part in it");
    let slot = Slot { id: place(ID), recipient: place(RECIPIENT) };
    body.extend_from_slice(text.as_bytes());
    slot
}

pub fn put_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit is below 10");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn target() -> Target {
        Target { address: ([127, 0, 0, 1], 1).into(), key: "ft_x".into() }
    }

    fn body(request: &[u8]) -> Value {
        let text = std::str::from_utf8(request).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        serde_json::from_str(body).expect("JSON")
    }

    #[test]
    fn events_are_patched_in_place() {
        let mut request = EventRequest::new(&target(), "/bench", Audience::OneOf(10), 1, 7);
        for id in 7..9 {
            let event = body(request.next());
            assert_eq!(event["id"], format!("{id:016}"));
            let user = spread(id) % 10;
            assert_eq!(event["data"]["audience"]["users"][0], people::user(user));
            let content = serde_json::to_string(&event["data"]["content"]).expect("JSON");
            assert_eq!(content.len(), CONTENT_BYTES);
        }
    }

    #[test]
    fn batches_have_ascending_ids() {
        let mut request = EventRequest::new(&target(), "/bench", Audience::FollowersOfOneOf(3), 100, 0);
        request.next();
        let events = body(request.next());
        let events = events.as_array().expect("a batch");
        assert_eq!((events.len(), &events[99]["id"]), (100, &Value::from(format!("{:016}", 199))));
        assert_eq!(events[0]["data"]["audience"]["followersOf"], people::actor(spread(100) % 3));
    }
}
