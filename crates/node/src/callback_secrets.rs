//! The secrets in the addresses at which reports about mails are believed: mail servers sign nothing.
//!
//! Comes from: the providers API, and callbacks. Does: derives the secret of an account from its number under the tenant's own
//! key; has the root count the number up. Goes to: `machine::root::provider`.
//!
//! What must never happen: a secret that was ended or belonged to a deleted account and is believed again; a lookup that takes
//! longer for an account that exists.

use crate::Node;
use crate::ask::Refusal;
use crate::ask::templates::Expect;
use crate::core::{internal, locked};
use fantail_machine::root::provider::{Answer, Change};
use fantail_machine::tables::provider::CallbackSecretRow;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::CALLBACK_SECRETS_REPLACED_MAX;

/// One that a call may show.
pub struct CallbackSecret {
    pub text: String,
    pub is_believed: bool,
}

impl Node {
    /// What is in the address of an account now.
    pub fn callback_secret(&self, tenant: TenantId, account: &str) -> Result<String, Refusal> {
        self.core.require_tenant(tenant)?;
        let number = self.callback_secret_row(tenant, account).map_or(0, |row| row.number);
        self.derive_callback_secret(tenant, account, number)
    }

    /// Until when a replaced secret of an account is believed, if one is.
    #[must_use]
    pub fn callback_replaced_until(&self, tenant: TenantId, account: &str) -> Option<Millis> {
        let now = self.wall();
        let row = self.callback_secret_row(tenant, account)?;
        row.replaced.iter().map(|(_, until)| *until).filter(|until| *until > now).max()
    }

    /// The one in the address now, and those it replaced. As many for every account, and for tenants that do not exist.
    pub fn callback_secrets(
        &self,
        tenant: Option<TenantId>,
        account: &str,
    ) -> Result<Vec<CallbackSecret>, Refusal> {
        let somebody = self.core.control.now().tenants.keys().next().copied();
        let Some(holder) = tenant.or(somebody) else { return Ok(Vec::new()) };
        let now = self.wall();
        let row = self.callback_secret_row(holder, account).unwrap_or_default();
        let replaced = row.replaced.iter().map(|(number, until)| (*number, *until > now));
        let padding = std::iter::repeat((0, false));
        let numbers = std::iter::once((row.number, true)).chain(replaced).chain(padding);
        numbers
            .take(1 + CALLBACK_SECRETS_REPLACED_MAX)
            .map(|(number, is_valid)| {
                let text = self.derive_callback_secret(holder, account, number)?;
                Ok(CallbackSecret { text, is_believed: is_valid && tenant.is_some() })
            })
            .collect()
    }

    /// Puts another secret into the address of an account. The one before is believed until then, and with a time that is
    /// over neither it nor any other.
    pub async fn rotate_callback_secret(
        &self,
        tenant: TenantId,
        account: &str,
        until: Millis,
    ) -> Result<(), Refusal> {
        let change = Change::RotateCallback { tenant, id: account.to_owned(), until };
        match self.ask_provider(tenant, account, Expect::Unsaid, change).await? {
            Answer::Rotated => Ok(()),
            _ => Err(internal("the root answered something else")),
        }
    }

    fn callback_secret_row(&self, tenant: TenantId, account: &str) -> Option<CallbackSecretRow> {
        self.core.control.now().callback_secrets.get(&(tenant, account.to_owned())).cloned()
    }

    fn derive_callback_secret(
        &self,
        tenant: TenantId,
        account: &str,
        number: u32,
    ) -> Result<String, Refusal> {
        let text = match number {
            0 => [b"callback secret\0", account.as_bytes()].concat(),
            _ => [&b"replaced callback secret\0"[..], &number.to_be_bytes(), account.as_bytes()].concat(),
        };
        let secret = self.core.ports.keyring.digest(tenant, &text).map_err(locked)?;
        Ok(secret.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
