//! How the server is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer of `/readyz?verbose`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    pub ready: bool,
    pub version: String,
    pub checks: Vec<Check>,
}

/// One thing that readiness depends on, or that an operator should know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    pub name: String,
    pub ok: bool,
    pub detail: String,
}

/// The server as its operator sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    pub version: String,
    /// There while the server accepts and reads, and sends nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PausedCopy>,
}

/// Why a server is paused: its data directory was made from a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PausedCopy {
    /// When the backup was taken, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub backup_taken_at: Option<String>,
    /// When it was restored; absent for a server that runs on the backup itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub restored_at: Option<String>,
    /// Whether erasures that were completed after the backup were applied again. If not, users who were erased since are here again.
    pub erasures_applied: bool,
}

/// A full copy of the data, made while serving.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// Directory on the server's machine.
    pub path: String,
    pub bytes: u64,
    pub keys: KeysInBackup,
}

/// What a backup has of the keys that open everything else in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KeysInBackup {
    /// Sealed to the recipient of the setting `backup.recipient`.
    Sealed,
    /// None: they have to come from elsewhere.
    LeftOut,
    /// In the clear: whoever has the backup can read everything.
    Clear,
}

/// The machine's clock was accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClockAccepted {
    /// The time that the server goes by now.
    pub now: String,
    /// How far the clock was ahead of what the server went by until now; negative if it was behind.
    pub offset_seconds: i64,
}
