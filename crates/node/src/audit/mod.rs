//! The audit log is derived from the journal, beside everything else: no delivery waits for it.
//!
//! ```text
//! journal ──► feed ──► derive, parcels ──► facts ──► the log, with the mark through which it is derived
//!                                                      └──► checkpoints: signed statements about all chains
//! ```
//! Reading order: `feed` (the loop), `derive` (what a record says), `parcels` (what it says about many), `people` (who they
//! are, and the secrets of their leaves), `checkpoints`, and for readers `search` with `of_user`, and `prove`; the last two
//! find one person among many by `opener`.
//!
//! What must never happen: a fact that is not durable in the journal; a record that is trimmed before it was derived; a
//! name or an address in the log.

pub mod feed;

mod derive;
mod parcels;
mod people;

pub mod checkpoints;

pub mod notes;
mod of_user;
mod opener;
pub mod prove;
pub mod search;

use crate::Node;
use crate::ask::Refusal;
use fantail_audit::checkpoint::Checkpoint;
use fantail_audit::key::PublicKey;
use fantail_rules::ids::TenantId;
use fantail_rules::ulid::Ulid;

impl Node {
    /// The audit log of a tenant, oldest first.
    pub async fn audit(&self, tenant: TenantId, ask: search::Ask<'_>) -> Result<search::Page, Refusal> {
        search::search(&self.core, tenant, ask).await
    }

    /// What the audit log proves about one recipient of an event.
    pub async fn audit_proofs(
        &self,
        tenant: TenantId,
        event: Ulid,
        user: &str,
    ) -> Result<prove::Proofs, Refusal> {
        prove::prove(&self.core, tenant, event, user).await
    }

    /// Checkpoints of the audit log with this number and later. They are about all tenants: show a tenant their notes
    /// only.
    pub async fn audit_checkpoints(&self, from: u64, limit: usize) -> Result<Vec<Checkpoint>, Refusal> {
        search::checkpoints(&self.core, from, limit).await
    }

    /// The key that signs checkpoints now.
    #[must_use]
    pub fn audit_key(&self) -> PublicKey {
        search::public_key(&self.core)
    }
}
