//! Examples of the audit log and its proofs.

use super::Example;
use super::examples::{examples, map, text};
use fantail_wire::audit::{
    AuditAnchor, AuditCheckpoint, AuditCheckpoints, AuditEntries, AuditEntry, AuditMember, AuditProof,
    AuditProofs,
};
use serde_json::json;

const TIME: &str = "2026-11-15T08:30:00.000Z";
const EVENT: &str = "01KG9V7W0R8T6M4QZ2X5C7B9NA";
const HASH: &str = "8612457cccc9955a6976d49bbc262a2d3899b0f24568fcbe559381b52ced9e61";
const NOTE: &str = "fantail audit checkpoint 1\nnumber 12\n…";

fn entry() -> AuditEntry {
    AuditEntry {
        partition: text("shard-2"),
        sequence: 7,
        at: text(TIME),
        kind: text("parcel"),
        fact: map(json!({
            "eventId": EVENT, "channel": "push", "round": 1,
            "members": {"count": 1, "root": HASH}, "states": {"sending": 1},
        })),
        hash: text(HASH),
        bytes: text("02010400…"),
    }
}

examples! {
    AuditEntries => AuditEntries { entries: vec![entry()], next_cursor: Some(text("AQMAAAAA")), closed: Some(0) };
    AuditProofs => AuditProofs {
        event_id: text(EVENT),
        user_id: text("ann"),
        proofs: vec![AuditProof {
            entry: entry(),
            member: AuditMember {
                salt: text("c83e5d5e5130994339dec0fcad7e1229"),
                pseudonym: text("08080808080808080808080808080808"),
                endpoint: 1,
                state: text("sending"),
                state_number: 1,
                reason: text(""),
                consent_version: 0,
                leaf: text(HASH),
            },
            index: 0,
            count: 1,
            path: vec![text(HASH)],
            anchor: Some(AuditAnchor {
                later: vec![text("02010500…")],
                head_sequence: 8,
                head_hash: text(HASH),
                head_index: 3,
                head_path: vec![text(HASH)],
                checkpoint: text(NOTE),
            }),
        }],
        closed: 0,
        complete: true,
    };
    AuditCheckpoints => AuditCheckpoints {
        public_key: text(HASH),
        checkpoints: vec![AuditCheckpoint { number: 12, at: text(TIME), note: text(NOTE) }],
        next: Some(13),
    };
}
