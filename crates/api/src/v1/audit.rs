//! The audit log: read, proven, vouched for.
//!
//! Comes from: `pipeline`. Goes to: `Node::{audit, audit_proofs, audit_checkpoints}`. Checkpoints are about all tenants, so
//! a tenant is shown what was signed, and never the heads of others. One thread reads the log for everybody, so each read waits
//! for its tenant's turn.

use crate::aside;
use crate::call::Call;
use crate::check;
use crate::cursor::{self, Owner};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::audit_fact;
use crate::v1::event_ids;
use fantail_audit::entry;
use fantail_audit::fact::Fact;
use fantail_node::ask::Refusal;
use fantail_node::audit::notes::HOUSE;
use fantail_node::audit::prove::{Anchor, Proven};
use fantail_node::audit::search::Ask;
use fantail_ports::audit::Entry;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::ulid::Ulid;
use fantail_wire::audit::{
    AuditAnchor, AuditCheckpoint, AuditCheckpoints, AuditEntries, AuditEntry, AuditMember, AuditProof,
    AuditProofs,
};

pub const PAGE_MAX: usize = 1_000;

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = user_of(&call)?;
    // A place among the entries about one user is none among those about another, or about all.
    let name = user.map_or_else(|| "audit".to_owned(), |user| format!("audit of {user}"));
    let owner = Owner { tenant, name: &name };
    let place = |text: &str| cursor::to_names(owner, text)?.parse().ok();
    let after = match call.query.get("cursor") {
        None => None,
        Some(text) => Some(place(text).ok_or(Refusal::BadCursor)?),
    };
    let event = call.query.get("notification").map(|name| event_of(tenant, &call, name)).transpose()?;
    let ask = Ask {
        from: time_of(&call, "from")?.unwrap_or(Millis(0)),
        until: time_of(&call, "to")?.unwrap_or(Millis(u64::MAX)),
        event,
        user,
        after,
        limit: call.query.limit(100, PAGE_MAX)?,
    };
    let _turn = aside::read_turn(&call.app, tenant).await?;
    let page = call.node.audit(tenant, ask).await?;
    let answer = AuditEntries {
        entries: page.entries.iter().map(shown).collect(),
        next_cursor: page.next.map(|place| cursor::of_names(owner, &place.to_string())),
        closed: user.map(|_| page.closed),
    };
    Ok(Reply::json(200, &answer))
}

/// Lists actions on the server itself, and logins with unknown keys.
pub async fn list_server(call: Call) -> Result<Reply, Problem> {
    list(HOUSE, call).await
}

pub async fn prove(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let required = |name: &str| {
        let value = call.query.get(name);
        value.ok_or_else(|| Problem::field(format!("/{name}"), "is required"))
    };
    let event = event_of(tenant, &call, required("notification")?)?;
    let user = required("user")?;
    let _turn = aside::read_turn(&call.app, tenant).await?;
    let found = call.node.audit_proofs(tenant, event, user).await?;
    let answer = AuditProofs {
        event_id: event.to_string(),
        user_id: user.to_owned(),
        proofs: found.proven.iter().map(proof).collect(),
        closed: found.closed,
        complete: found.is_complete,
    };
    Ok(Reply::json(200, &answer))
}

pub async fn checkpoints(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let wrong = || Problem::field("/from", "must be the number of a checkpoint");
    let from = match call.query.get("from") {
        None => 1,
        Some(text) => text.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?,
    };
    let limit = call.query.limit(100, PAGE_MAX)?;
    let _turn = aside::read_turn(&call.app, tenant).await?;
    let found = call.node.audit_checkpoints(from, limit).await?;
    let answer = AuditCheckpoints {
        public_key: hex(&call.node.audit_key().0),
        next: found.last().map(|last| last.statement.number + 1),
        checkpoints: found
            .iter()
            .map(|checkpoint| AuditCheckpoint {
                number: checkpoint.statement.number,
                at: time::text(checkpoint.statement.at),
                note: checkpoint.note(),
            })
            .collect(),
    };
    Ok(Reply::json(200, &answer))
}

/// The user that is asked about, if any. Somebody who is gone can be asked about too.
fn user_of(call: &Call) -> Result<Option<&str>, Problem> {
    let Some(user) = call.query.get("user") else { return Ok(None) };
    match check::name_fault(user) {
        None => Ok(Some(user)),
        Some(fault) => Err(Problem::field("/user", fault)),
    }
}

/// The event that is asked about, by either id.
fn event_of(tenant: TenantId, call: &Call, name: &str) -> Result<Ulid, Problem> {
    event_ids::of_field(tenant, call, "/notification", name)
}

/// A query parameter that is a time.
pub fn time_of(call: &Call, name: &str) -> Result<Option<Millis>, Problem> {
    let wrong = || Problem::field(format!("/{name}"), "must be a time like 2026-01-31T12:00:00Z");
    call.query.get(name).map(|text| time::parse(text).ok_or_else(wrong)).transpose()
}

fn shown(entry: &Entry) -> AuditEntry {
    let bytes = entry::encode(entry);
    let (kind, fact) = match Fact::decode(entry.kind, &entry.body) {
        Ok(fact) => audit_fact::tell(&fact),
        // Said by a later version: the bytes are all that can be shown.
        Err(_) => ("unknown", Default::default()),
    };
    AuditEntry {
        partition: entry.chain.partition.to_string(),
        sequence: entry.sequence.0,
        at: time::text(entry.at),
        kind: kind.to_owned(),
        fact,
        hash: entry::hash_of(&bytes).to_string(),
        bytes: hex(&bytes),
    }
}

fn proof(proven: &Proven) -> AuditProof {
    let member = &proven.proof.member;
    let fact = Fact::decode(proven.entry.kind, &proven.entry.body).ok();
    AuditProof {
        entry: shown(&proven.entry),
        member: AuditMember {
            salt: hex(&member.salt.0),
            pseudonym: member.pseudonym.to_string(),
            endpoint: member.device.0,
            state: member.verdict.public_word().to_owned(),
            state_number: member.verdict as u8,
            reason: member.reason.as_str().to_owned(),
            consent_version: member.consent.0,
            leaf: member.leaf().to_string(),
        },
        index: proven.proof.index,
        count: fact.and_then(|fact| fact.members()).map_or(0, |members| members.count),
        path: proven.proof.path.iter().map(ToString::to_string).collect(),
        anchor: proven.anchor.as_ref().map(anchor),
    }
}

fn anchor(anchor: &Anchor) -> AuditAnchor {
    AuditAnchor {
        later: anchor.later.iter().map(|entry| hex(&entry::encode(entry))).collect(),
        head_sequence: anchor.head.sequence.0,
        head_hash: anchor.head.hash.to_string(),
        head_index: anchor.index,
        head_path: anchor.path.iter().map(ToString::to_string).collect(),
        checkpoint: anchor.checkpoint.note(),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
