//! Problem documents (RFC 9457, `application/problem+json`) with a stable `code`.

use crate::code::Code;
use crate::template::ProblemCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const MEDIA_TYPE: &str = "application/problem+json";

/// What went wrong, for people and programs. Programs branch on `code`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where the code is explained, relative to this server.
    #[serde(rename = "type")]
    pub kind: String,
    /// Same for every occurrence of the code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time.
    pub detail: String,
    pub code: Code,
    /// The id of this request, also in the `x-request-id` header and in the server's log.
    pub request_id: String,
    /// Which fields are wrong, if fields are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// One wrong field.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FieldError {
    /// A JSON pointer into the body, or `/` and the name of a query or path parameter or header.
    pub pointer: String,
    pub detail: String,
    /// What kind of fault it is, in templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ProblemCode>,
}

impl FieldError {
    #[must_use]
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: detail.into(), code: None }
    }
}
