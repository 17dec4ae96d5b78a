//! Traces of what changes no table: backups, exports, tests of providers, refused logins.
//!
//! Input: an action and its target. Goes to: a record of the root, from which the audit log is derived like everything else.
//! Invariant: the record is durable on return, so what is noted before it is done cannot be done without a trace.

use super::people::{People, Recent};
use crate::ask::Refusal;
use crate::node::Node;
use crate::people::locate;
use crate::tenants;
use fantail_machine::records::root::Noted;
use fantail_rules::ids::TenantId;

pub use crate::take::HOUSE;

impl Node {
    /// Notes something about a tenant, or about the server (`HOUSE`). The target never names a person.
    pub async fn note(&self, tenant: TenantId, action: &str, target: &str) -> Result<(), Refusal> {
        let noted = Noted { tenant, action: action.to_owned(), target: target.to_owned() };
        tenants::note(&self.core, &self.by, noted).await
    }

    /// Notes something about a user, who is a pseudonym in the log.
    pub async fn note_about(&self, tenant: TenantId, action: &str, user: &str) -> Result<(), Refusal> {
        let (shard, number) = locate(&self.core, tenant, user)?;
        let recent = Recent::default();
        let people = People::find(&self.core, &recent, tenant, shard, std::iter::once(number)).await?;
        self.note(tenant, action, &people.of(number).pseudonym.to_string()).await
    }

    /// Waits; false if the node stops meanwhile.
    pub async fn sleep(&self, ms: u64) -> bool {
        let ports = &self.core.ports;
        ports.tasks.sleep_until(ports.clock.monotonic().plus(ms)).await;
        !self.core.root.is_closed()
    }
}
