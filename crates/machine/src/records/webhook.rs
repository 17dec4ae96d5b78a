//! Facts about webhooks to the producer: a part of the control plane, and in each shard how far each has told.
//!
//! ```text
//! 40 WebhookPut      tenant, id: text, target: sealed, url: sealed, events: varint, difference (root)
//! 41 WebhookGone     tenant, id: text, difference                                       (root)
//! 42 WebhookSwitched tenant, id: text, off: option text, difference                     (root)
//! 43 WebhookFailing  tenant, id: text, isFailing: flag                                  (root)
//! 40 Told            tenant, webhook: text, through: position                           (shard)
//! 41 Untold          tenant, webhook: text                                              (shard)
//! ```
//! `target` is where and with which secret, as the channel reads it; both are sealed under the tenant's own key.

use super::difference::Difference;
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::keyring::Sealed;
use fantail_rules::ids::{Position, TenantId};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookPut {
    pub tenant: TenantId,
    pub id: String,
    pub target: Sealed,
    /// For whoever asks where it goes, without the secret.
    pub url: Sealed,
    /// Which events are told: a bit each, see `rules::producer_event`.
    pub events: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookSwitched {
    pub tenant: TenantId,
    pub id: String,
    /// Why it is off; `None`: it is on.
    pub off: Option<String>,
    pub difference: Difference,
}

/// Everything through this record of the shard was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub tenant: TenantId,
    pub webhook: String,
    pub through: Position,
}

impl WebhookPut {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).sealed(&self.target).sealed(&self.url);
        w.varint(self.events.into());
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            id: r.text()?,
            target: r.sealed()?,
            url: r.sealed()?,
            events: r.u32()?,
        })
    }
}

impl WebhookSwitched {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).option(self.off.as_deref(), |w, why| {
            w.text(why);
        });
        self.difference.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, id, off) = (r.tenant()?, r.text()?, r.option(Reader::text)?);
        Ok(Self { tenant, id, off, difference: Difference::read(r)? })
    }
}

impl Told {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.webhook).position(self.through);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { tenant: r.tenant()?, webhook: r.text()?, through: r.position()? })
    }
}
