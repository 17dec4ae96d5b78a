//! The audit log: what was decided and done, and proofs of it. Bytes are lowercase hex.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntries {
    /// Oldest first.
    pub entries: Vec<AuditEntry>,
    /// There may be more, even if `entries` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// If a user was asked about: entries of this page of which it cannot be told any more whether they are about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// The chain: each partition of the journal has one for each tenant.
    pub partition: String,
    /// The place in its chain: 1, 2, 3, …
    pub sequence: u64,
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// action, accepted, deduplicated, parcel, outcome, deadLettered, redriven, cancelled, erased, consent, endpoint,
    /// openings; more may come.
    pub kind: String,
    /// What it says, by kind.
    pub fact: Map<String, Value>,
    /// SHA-256 of `bytes`.
    pub hash: String,
    /// The entry as it is stored; bytes 36 to 67 are the hash of the one before.
    pub bytes: String,
}

/// What is proven about one recipient.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditProofs {
    pub event_id: String,
    pub user_id: String,
    /// In the order of the log: verdicts, outcomes, receipts.
    pub proofs: Vec<AuditProof>,
    /// Entries about the event that cannot be opened any more.
    pub closed: u64,
    /// Whether the whole log was searched.
    pub complete: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditProof {
    pub entry: AuditEntry,
    pub member: AuditMember,
    /// The member's place, among how many.
    pub index: u32,
    pub count: u32,
    /// Hashes from the leaf up to the root in the entry.
    pub path: Vec<String>,
    /// Left out until a checkpoint covers the entry, and for chains that move too fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<AuditAnchor>,
}

/// What the leaf says, with the salt that opens it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditMember {
    pub salt: String,
    /// Stands for the user.
    pub pseudonym: String,
    /// Which of the user's endpoints; 0 where the user alone is meant.
    pub endpoint: u16,
    /// As in the status of a notification.
    pub state: String,
    /// Its number, as hashed.
    pub state_number: u8,
    pub reason: String,
    pub consent_version: u64,
    /// The leaf that comes of it.
    pub leaf: String,
}

/// How the entry is tied to a signed checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditAnchor {
    /// Bytes of the entries behind it in its chain, up to the head. The next one contains its hash, and so on.
    pub later: Vec<String>,
    /// The chain's last entry at the checkpoint.
    pub head_sequence: u64,
    pub head_hash: String,
    /// The head's place among all heads, and the hashes up to the root that was signed.
    pub head_index: u32,
    pub head_path: Vec<String>,
    /// The checkpoint: six lines and the signature over them.
    pub checkpoint: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditCheckpoints {
    /// Ed25519, of the signer now. Keep it where nobody who owns the server can change it.
    pub public_key: String,
    pub checkpoints: Vec<AuditCheckpoint>,
    /// The number to go on from, as `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditCheckpoint {
    pub number: u64,
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// Six lines and the signature over them. It is of the whole log, so it says how many chains all tenants have together.
    pub note: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    // fixes: security L14
    #[test]
    fn checkpoints_say_that_they_count_the_chains_of_all_tenants() {
        let schema = schemars::schema_for!(AuditCheckpoint);
        let note = schema.pointer("/properties/note/description").and_then(|text| text.as_str());
        assert!(note.is_some_and(|text| text.contains("all tenants")), "{note:?}");
    }
}
