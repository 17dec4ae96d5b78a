//! `data_base64` of a CloudEvent: the same JSON as `data`, as some SDKs write it. It nests no deeper than a body may.

use crate::event::EventData;
use crate::nesting::{JSON_DEPTH_MAX, is_deeper_than};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error};
use std::borrow::Cow;

/// `data` as base64 of its JSON.
pub(crate) struct EncodedData(pub EventData);

impl<'de> Deserialize<'de> for EncodedData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let json = STANDARD.decode(text.as_bytes()).map_err(|_| Error::custom("must be base64"))?;
        if is_deeper_than(JSON_DEPTH_MAX, &json) {
            return Err(Error::custom(format_args!("JSON nests at most {JSON_DEPTH_MAX} levels deep")));
        }
        serde_json::from_slice(&json)
            .map(Self)
            .map_err(|fault| Error::custom(format_args!("decoded: {fault}")))
    }
}
