//! Facts about accounts with providers: what a tenant sends through.
//!
//! ```text
//! 44 ProviderPut  tenant, id: text, kind: varint, settings: text, secrets: sealed, order: varint, weight: varint,
//!                 perSecond: option varint, concurrency: option varint, enabled: flag, expires: option millis, difference
//! 45 ProviderGone tenant, id: text, difference
//! 46 CallbackRotated tenant, id: text, number: varint, until: millis, difference
//! ```
//! `settings` is JSON without anything secret; `secrets` is JSON too, sealed under the tenant's own key.

use super::difference::Difference;
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

/// Another secret is in the address at which reports about an account are believed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallbackRotated {
    pub tenant: TenantId,
    pub id: String,
    /// Of the secret from now on.
    pub number: u32,
    /// Until when the one before is believed. A time that is over ends all that were replaced.
    pub until: Millis,
    pub difference: Difference,
}

impl CallbackRotated {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).varint(self.number.into()).millis(self.until);
        self.difference.write(w);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            id: r.text()?,
            number: r.u32()?,
            until: r.millis()?,
            difference: Difference::read(r)?,
        })
    }
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
