//! Erasures of users and their receipts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErasureAsk {
    pub user_id: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Erasure {
    pub erasure_id: String,
    pub state: ErasureState,
    #[schemars(extend("format" = "date-time"))]
    pub requested_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub completed_at: Option<String>,
    /// What was removed, by store; so far, while it is running.
    pub removed: BTreeMap<String, u64>,
}

/// A page of erasures, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Erasures {
    pub erasures: Vec<Erasure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ErasureState {
    /// The user is gone for everybody; what is kept elsewhere is being removed.
    Running,
    /// Nothing is left, and the key is destroyed.
    Completed,
}
