//! Who is subscribed to which topic.
//!
//! ```text
//! POST   /v1/projects/{p}/registrations/{token}/topicSubscriptions?topic_name=news
//! DELETE /v1/projects/{p}/registrations/{token}/topicSubscriptions/news
//! POST   /iid/v1:batchAdd, /iid/v1:batchRemove      the older way, at another host
//! ```

use super::errors;
use super::message::is_topic;
use crate::emulator::Reply;
use hyper::http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// Of one registration.
const TOPICS_MAX: usize = 2_000;
const REGISTRATIONS_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub struct Topics {
    /// By project and registration.
    of: Mutex<HashMap<(String, String), BTreeSet<String>>>,
}

/// What a path below `registrations` asks for.
pub struct Ask<'a> {
    pub project: &'a str,
    pub registration: &'a str,
    pub topic: Option<&'a str>,
    pub query: &'a str,
}

impl Topics {
    pub fn subscribe(&self, ask: &Ask<'_>) -> Reply {
        let named = ask.query.split('&').find_map(|pair| pair.strip_prefix("topic_name="));
        let topic = percent_decode_str(named.unwrap_or_default()).decode_utf8_lossy().into_owned();
        let topic = topic.strip_prefix("/topics/").unwrap_or(&topic);
        if !is_topic(topic) {
            return errors::violated("topic_name", "is no topic name");
        }
        if !self.add(ask.project, ask.registration, topic) {
            return errors::violated("topic_name", "too many topics");
        }
        let name =
            format!("projects/{}/registrations/{}/topicSubscriptions/{topic}", ask.project, ask.registration);
        Reply::json(StatusCode::OK, &json!({"name": name}))
    }

    pub fn unsubscribe(&self, ask: &Ask<'_>) -> Reply {
        let topic = percent_decode_str(ask.topic.unwrap_or_default()).decode_utf8_lossy().into_owned();
        let was_subscribed = self.remove(ask.project, ask.registration, &topic);
        let may_be_missing = ask.query.split('&').any(|pair| pair == "allow_missing=true");
        if was_subscribed || may_be_missing {
            return Reply::json(StatusCode::OK, &json!({}));
        }
        errors::not_found()
    }

    /// `{"to": "/topics/news", "registration_tokens": […]}`; one result for each, in their order.
    pub fn batch(&self, project: &str, body: &[u8], is_add: bool) -> Reply {
        let asked: Value = serde_json::from_slice(body).unwrap_or_default();
        let topic =
            asked["to"].as_str().and_then(|to| to.strip_prefix("/topics/")).filter(|topic| is_topic(topic));
        let (Some(topic), Some(tokens)) = (topic, asked["registration_tokens"].as_array()) else {
            return Reply::json(StatusCode::BAD_REQUEST, &json!({"error": "InvalidArgument"}));
        };
        let result = |token: &Value| match token.as_str() {
            None | Some("") => json!({"error": "INVALID_ARGUMENT"}),
            Some(token) if super::magic(token).is_some() => json!({"error": "NOT_FOUND"}),
            Some(token) if is_add && !self.add(project, token, topic) => json!({"error": "TOO_MANY_TOPICS"}),
            Some(_) if is_add => json!({}),
            Some(token) => {
                self.remove(project, token, topic);
                json!({})
            }
        };
        let results: Vec<Value> = tokens.iter().map(result).collect();
        Reply::json(StatusCode::OK, &json!({"results": results}))
    }

    /// `false` if there is no room.
    fn add(&self, project: &str, registration: &str, topic: &str) -> bool {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (project.to_owned(), registration.to_owned());
        if of.len() >= REGISTRATIONS_MAX && !of.contains_key(&key) {
            return false;
        }
        let topics = of.entry(key).or_default();
        if topics.len() >= TOPICS_MAX {
            return false;
        }
        topics.insert(topic.to_owned());
        true
    }

    /// Whether it was subscribed.
    fn remove(&self, project: &str, registration: &str, topic: &str) -> bool {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let topics = of.get_mut(&(project.to_owned(), registration.to_owned()));
        topics.is_some_and(|topics| topics.remove(topic))
    }

    /// All topics of a registration.
    #[must_use]
    pub fn list(&self, project: &str, registration: &str) -> Vec<String> {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let topics = of.get(&(project.to_owned(), registration.to_owned()));
        topics.into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_come_and_go() {
        let topics = Topics::default();
        let ask = |topic, query| Ask { project: "p", registration: "r", topic, query };
        assert_eq!(topics.subscribe(&ask(None, "topic_name=news")).status, 200);
        assert_eq!(topics.subscribe(&ask(None, "topic_name=%2Ftopics%2Fsport")).status, 200);
        assert_eq!(topics.subscribe(&ask(None, "topic_name=a%20b")).status, 400);
        assert_eq!(topics.list("p", "r"), ["news", "sport"]);
        assert_eq!(topics.unsubscribe(&ask(Some("news"), "")).status, 200);
        assert_eq!(topics.unsubscribe(&ask(Some("news"), "")).status, 404);
        assert_eq!(topics.unsubscribe(&ask(Some("news"), "allow_missing=true")).status, 200);
        assert_eq!(topics.list("p", "r"), ["sport"]);
        let batch = |is_add, to: &str| {
            let body = json!({"to": to, "registration_tokens": ["r", "sandbox-unregistered", ""]});
            topics.batch("p", body.to_string().as_bytes(), is_add)
        };
        let told: Value = serde_json::from_slice(&batch(true, "/topics/news").body).expect("JSON");
        assert_eq!(told, json!({"results": [{}, {"error": "NOT_FOUND"}, {"error": "INVALID_ARGUMENT"}]}));
        assert_eq!(topics.list("p", "r"), ["news", "sport"]);
        batch(false, "/topics/sport");
        assert_eq!(topics.list("p", "r"), ["news"]);
        assert_eq!(batch(true, "news").status, 400);
    }
}
