//! The browsers behind the push service: their subscriptions, their keys, and what waits for them.

use super::decrypt::Keys;
use super::vapid::Strictness;
use crate::ids;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

const SUBSCRIPTIONS_MAX: usize = 100_000;
/// Messages that wait for one browser.
const WAITING_MAX: usize = 1_000;

pub struct Subscription {
    pub id: String,
    pub endpoint: String,
    pub origin: String,
    pub keys: Keys,
    pub bound_to: Option<Vec<u8>>,
    pub strictness: Strictness,
    /// What every message to it comes to, if not success.
    pub outcome: Option<String>,
    waiting: Mutex<VecDeque<Waiting>>,
}

/// A message that no browser fetched yet.
#[derive(Clone, PartialEq, Debug)]
pub struct Waiting {
    pub message: String,
    pub topic: Option<String>,
    pub urgency: String,
    pub expires_ms: u64,
    /// As the page would see it.
    pub text: String,
}

pub struct Wish<'a> {
    /// `https://host[:port]`
    pub origin: String,
    pub path: &'a str,
    pub bound_to: Option<Vec<u8>>,
    pub strictness: Strictness,
    pub outcome: Option<String>,
}

/// `None` stands for a subscription that was ended.
#[derive(Default)]
pub struct Browsers {
    known: Mutex<HashMap<String, Option<Arc<Subscription>>>>,
}

impl Browsers {
    /// `None` if there is no room.
    pub fn subscribe(&self, wish: Wish<'_>) -> Option<Arc<Subscription>> {
        let id = URL_SAFE_NO_PAD.encode(ids::bytes::<18>());
        let subscription = Arc::new(Subscription {
            endpoint: format!("{}{}{id}", wish.origin, wish.path),
            id: id.clone(),
            origin: wish.origin,
            keys: Keys::generate(),
            bound_to: wish.bound_to,
            strictness: wish.strictness,
            outcome: wish.outcome,
            waiting: Mutex::new(VecDeque::new()),
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= SUBSCRIPTIONS_MAX {
            return None;
        }
        known.insert(id, Some(Arc::clone(&subscription)));
        Some(subscription)
    }

    /// Outer `None`: never heard of. Inner `None`: ended.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Option<Arc<Subscription>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Whether there was one.
    pub fn end(&self, id: &str) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_mut(id).is_some_and(|subscription| subscription.take().is_some())
    }
}

impl Subscription {
    /// A message with the topic of another takes its place.
    pub fn wait(&self, message: Waiting) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if message.topic.is_some() {
            waiting.retain(|other| other.topic != message.topic);
        }
        if waiting.len() >= WAITING_MAX {
            waiting.pop_front();
        }
        waiting.push_back(message);
    }

    #[must_use]
    pub fn waiting(&self, now_ms: u64) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|message| message.expires_ms > now_ms);
        waiting.iter().cloned().collect()
    }

    /// As a page gets it from the browser.
    #[must_use]
    pub fn write(&self) -> Value {
        json!({
            "id": self.id,
            "endpoint": self.endpoint,
            "expirationTime": null,
            "keys": {
                "p256dh": URL_SAFE_NO_PAD.encode(&self.keys.public),
                "auth": URL_SAFE_NO_PAD.encode(self.keys.auth),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> Wish<'static> {
        Wish {
            origin: "https://push.example".to_owned(),
            path: "/wpush/v2/",
            bound_to: None,
            strictness: Strictness::Standard,
            outcome: None,
        }
    }

    #[test]
    fn a_topic_replaces_and_time_takes_away() {
        let browsers = Browsers::default();
        let subscription = browsers.subscribe(wish()).expect("room");
        let waiting = |message: &str, topic: Option<&str>, expires_ms: u64| Waiting {
            message: message.to_owned(),
            topic: topic.map(str::to_owned),
            urgency: "normal".to_owned(),
            expires_ms,
            text: String::new(),
        };
        for message in [
            waiting("a", Some("t"), 100),
            waiting("b", None, 50),
            waiting("c", Some("u"), 100),
            waiting("d", Some("t"), 100),
            waiting("e", None, 100),
        ] {
            subscription.wait(message);
        }
        let ids =
            |now_ms| subscription.waiting(now_ms).into_iter().map(|one| one.message).collect::<Vec<_>>();
        assert_eq!(ids(0), ["b", "c", "d", "e"]);
        assert_eq!(ids(50), ["c", "d", "e"]);
    }

    #[test]
    fn an_ended_subscription_is_remembered_as_ended() {
        let browsers = Browsers::default();
        let subscription = browsers.subscribe(wish()).expect("room");
        assert!(subscription.endpoint.starts_with("https://push.example/wpush/v2/"));
        assert!(browsers.find(&subscription.id).flatten().is_some());
        assert!(browsers.end(&subscription.id) && !browsers.end(&subscription.id));
        assert!(browsers.find(&subscription.id).is_some_and(|found| found.is_none()));
        assert!(browsers.find("other").is_none());
        let written = subscription.write();
        assert_eq!(written["keys"]["p256dh"].as_str().map(str::len), Some(87));
        assert_eq!(written["keys"]["auth"].as_str().map(str::len), Some(22));
    }
}
