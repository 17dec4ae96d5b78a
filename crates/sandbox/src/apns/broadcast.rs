//! Broadcasts of Live Activities, and the channels they go to.
//!
//! ```text
//! POST   /4/broadcasts/apps/{bundle}       apns-channel-id, apns-push-type: liveactivity
//! POST   /1/apps/{bundle}/channels         → 201, apns-channel-id
//! GET    /1/apps/{bundle}/channels         apns-channel-id
//! DELETE /1/apps/{bundle}/channels         apns-channel-id
//! GET    /1/apps/{bundle}/all-channels
//! ```

use super::reasons;
use crate::emulator::{Call, Reply};
use crate::ids;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const CHANNELS_MAX: usize = 10_000;
const BUNDLES_MAX: usize = 1_000;
const PAYLOAD_BYTES_MAX: usize = 5_120;

/// Channels by bundle: the storage policy of each.
#[derive(Debug, Default)]
pub struct Channels {
    of: Mutex<BTreeMap<String, BTreeMap<String, u64>>>,
}

/// What a path asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path<'a> {
    Broadcast { bundle: &'a str },
    Channels { bundle: &'a str },
    AllChannels { bundle: &'a str },
}

impl<'a> Path<'a> {
    #[must_use]
    pub fn read(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match parts[..] {
            ["4", "broadcasts", "apps", bundle] => Some(Self::Broadcast { bundle }),
            ["1", "apps", bundle, "channels"] => Some(Self::Channels { bundle }),
            ["1", "apps", bundle, "all-channels"] => Some(Self::AllChannels { bundle }),
            _ => None,
        }
    }
}

/// A broadcast that was taken, or an answer.
pub enum Outcome {
    Taken { channel: String },
    Answer(Reply),
}

impl Channels {
    pub fn answer(&self, path: Path<'_>, call: &Call) -> Outcome {
        let reply = match (path, call.method.as_str()) {
            (Path::Broadcast { bundle }, "POST") => match self.broadcast(bundle, call) {
                Ok(channel) => return Outcome::Taken { channel },
                Err(reason) => Err(reason),
            },
            (Path::Channels { bundle }, "POST") => self.create(bundle, &call.body),
            (Path::Channels { bundle }, "GET") => self.get(bundle, call),
            (Path::Channels { bundle }, "DELETE") => self.delete(bundle, call),
            (Path::AllChannels { bundle }, "GET") => Ok(self.all(bundle)),
            (Path::Broadcast { .. } | Path::Channels { .. } | Path::AllChannels { .. }, _) => {
                Err("MethodNotAllowed")
            }
        };
        let refused = |reason| reasons::reply(reason).unwrap_or(Reply::new(StatusCode::BAD_REQUEST));
        Outcome::Answer(reply.unwrap_or_else(refused))
    }

    fn broadcast(&self, bundle: &str, call: &Call) -> Result<String, &'static str> {
        match call.header("apns-push-type") {
            None => return Err("MissingPushType"),
            Some(push_type) if push_type.eq_ignore_ascii_case("liveactivity") => {}
            Some(_) => return Err("InvalidPushType"),
        }
        let channel = self.known(bundle, call)?;
        if call.header("apns-expiration").is_some_and(|at| at.parse::<u64>().is_err()) {
            return Err("BadExpirationDate");
        }
        if !matches!(call.header("apns-priority"), None | Some("1" | "5" | "10")) {
            return Err("BadPriority");
        }
        if call.body.is_empty() {
            return Err("PayloadEmpty");
        }
        if call.body.len() > PAYLOAD_BYTES_MAX {
            return Err("PayloadTooLarge");
        }
        let payload: Result<Value, _> = serde_json::from_slice(&call.body);
        if payload.is_ok_and(|payload| payload["aps"].is_object()) {
            Ok(channel)
        } else {
            Err("BadRequestPayload")
        }
    }

    fn create(&self, bundle: &str, body: &[u8]) -> Result<Reply, &'static str> {
        let asked: Value = serde_json::from_slice(body).map_err(|_| "BadRequestPayload")?;
        let push_type = asked.get("push-type").and_then(Value::as_str).ok_or("MissingPushType")?;
        if !push_type.eq_ignore_ascii_case("liveactivity") {
            return Err("InvalidPushType");
        }
        let policy = asked.get("message-storage-policy").and_then(Value::as_u64);
        let policy = policy.filter(|policy| *policy <= 1).ok_or("BadRequestParams")?;
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if of.len() >= BUNDLES_MAX && !of.contains_key(bundle) {
            return Err("CannotCreateChannelConfig");
        }
        let channels = of.entry(bundle.to_owned()).or_default();
        if channels.len() >= CHANNELS_MAX {
            return Err("CannotCreateChannelConfig");
        }
        let id = STANDARD.encode(ids::bytes::<16>());
        channels.insert(id.clone(), policy);
        Ok(Reply::new(StatusCode::CREATED).with("apns-channel-id", &id))
    }

    fn get(&self, bundle: &str, call: &Call) -> Result<Reply, &'static str> {
        let id = self.known(bundle, call)?;
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let policy = of.get(bundle).and_then(|channels| channels.get(&id)).copied().unwrap_or_default();
        Ok(Reply::json(
            StatusCode::OK,
            &json!({"message-storage-policy": policy, "push-type": "LiveActivity"}),
        ))
    }

    fn delete(&self, bundle: &str, call: &Call) -> Result<Reply, &'static str> {
        let id = self.known(bundle, call)?;
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channels) = of.get_mut(bundle) {
            channels.remove(&id);
        }
        Ok(Reply::new(StatusCode::NO_CONTENT))
    }

    fn all(&self, bundle: &str) -> Reply {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let ids: Vec<&String> = of.get(bundle).into_iter().flat_map(BTreeMap::keys).collect();
        Reply::json(StatusCode::OK, &json!({"channels": ids}))
    }

    /// The channel that the call names, if this app has it.
    fn known(&self, bundle: &str, call: &Call) -> Result<String, &'static str> {
        let id = call.header("apns-channel-id").ok_or("MissingChannelId")?;
        if STANDARD.decode(id).is_err() {
            return Err("BadChannelId");
        }
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = of.get(bundle).is_some_and(|channels| channels.contains_key(id));
        if is_known { Ok(id.to_owned()) } else { Err("ChannelNotRegistered") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        for (path, expected) in [
            ("/4/broadcasts/apps/com.a", Some(Path::Broadcast { bundle: "com.a" })),
            ("/1/apps/com.a/channels", Some(Path::Channels { bundle: "com.a" })),
            ("/1/apps/com.a/all-channels", Some(Path::AllChannels { bundle: "com.a" })),
            ("/1/apps/com.a", None),
            ("/3/device/abc", None),
        ] {
            assert_eq!(Path::read(path), expected, "{path}");
        }
    }
}
