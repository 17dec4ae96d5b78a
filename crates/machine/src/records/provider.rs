//! Facts about accounts with providers: what a tenant sends through.
//!
//! ```text
//! 44 ProviderPut  tenant, id: text, kind: varint, settings: text, secrets: sealed, order: varint, weight: varint,
//!                 perSecond: option varint, concurrency: option varint, enabled: flag, expires: option millis, difference
//! 45 ProviderGone tenant, id: text, difference
//! ```
//! `settings` is JSON without anything secret; `secrets` is JSON too, sealed under the tenant's own key.

use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::keyring::Sealed;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::provider_kind::ProviderKind;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProviderPut {
    pub tenant: TenantId,
    pub id: String,
    pub kind: ProviderKind,
    pub settings: String,
    pub secrets: Sealed,
    /// Accounts of a lower order are asked first.
    pub order: u16,
    /// The share of users that an account has among those of its order.
    pub weight: u16,
    /// Messages that may begin in a second; `None`: as its kind has it.
    pub per_second: Option<u32>,
    /// Messages that may be under way; `None`: as its kind has it.
    pub concurrency: Option<u32>,
    pub enabled: bool,
    /// When its credentials end, if that is known.
    pub expires: Option<Millis>,
}

impl ProviderPut {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).varint(self.kind as u64).text(&self.settings);
        w.sealed(&self.secrets).varint(self.order.into()).varint(self.weight.into());
        for limit in [self.per_second, self.concurrency] {
            w.option(limit, |w, limit| {
                w.varint(limit.into());
            });
        }
        w.flag(self.enabled).option(self.expires, |w, at| {
            w.millis(at);
        });
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, id) = (r.tenant()?, r.text()?);
        let kind = u8::try_from(r.u32()?).ok().and_then(ProviderKind::from_stored);
        Ok(Self {
            tenant,
            id,
            kind: kind.ok_or(Malformed::Value("provider kind"))?,
            settings: r.text()?,
            secrets: r.sealed()?,
            order: r.u16()?,
            weight: r.u16()?,
            per_second: r.option(Reader::u32)?,
            concurrency: r.option(Reader::u32)?,
            enabled: r.flag()?,
            expires: r.option(Reader::millis)?,
        })
    }
}
