//! Webhooks to the producer, in the root; and in every shard how far each has told.
//!
//! ```text
//!  8 tenant id: text      -> target: sealed, url: sealed, events, created, off: option (why: text, since: millis)
//!  9 tenant id: text      -> since: millis, while its receiver takes nothing
//! 60 tenant webhook: text -> through: position
//! ```

use super::root::of_prefix;
use super::{Family, Key, Row, collect, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::webhook::WebhookPut;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Millis, Position, TenantId};

#[must_use]
pub fn key(tenant: TenantId, id: &str) -> Vec<u8> {
    Key::new(Family::Webhook, tenant).bytes(id.as_bytes()).finish()
}

#[must_use]
pub fn told_key(tenant: TenantId, webhook: &str) -> Vec<u8> {
    Key::new(Family::Told, tenant).bytes(webhook.as_bytes()).finish()
}

#[must_use]
pub fn failing_key(tenant: TenantId, id: &str) -> Vec<u8> {
    Key::new(Family::WebhookFailing, tenant).bytes(id.as_bytes()).finish()
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookRow {
    pub put: WebhookPut,
    pub created: Millis,
    /// Why it is off, and since when.
    pub off: Option<(String, Millis)>,
}

pub struct Through(pub Position);

pub struct Since(pub Millis);

pub fn all(tables: &dyn Tables) -> Result<Vec<WebhookRow>, TablesError> {
    of_prefix(tables, &Key::of_partition(Family::Webhook))
}

pub fn of_tenant(tables: &dyn Tables, tenant: TenantId) -> Result<Vec<WebhookRow>, TablesError> {
    of_prefix(tables, &Key::new(Family::Webhook, tenant))
}

/// How far a webhook has told of this shard; `None` if it has not begun.
pub fn told(tables: &dyn Tables, tenant: TenantId, webhook: &str) -> Result<Option<Position>, TablesError> {
    Ok(get::<Through>(tables, &told_key(tenant, webhook))?.map(|through| through.0))
}

/// Since when its receiver takes nothing, if so.
pub fn failing_since(tables: &dyn Tables, tenant: TenantId, id: &str) -> Result<Option<Millis>, TablesError> {
    Ok(get::<Since>(tables, &failing_key(tenant, id))?.map(|since| since.0))
}

/// All webhooks that this shard knows the place of, whether they are still there or not.
pub fn all_told(tables: &dyn Tables) -> Result<Vec<(TenantId, String)>, TablesError> {
    let prefix = Key::of_partition(Family::Told);
    let (from, to) = (prefix.clone().finish(), prefix.end());
    let range = KeyRange { from: &from, to: &to };
    collect(tables, range, Order::Ascending, usize::MAX, |key, _| {
        let (tenant, id) =
            key[1..].split_first_chunk().ok_or_else(|| Malformed::Short.in_row(Through::NAME))?;
        let id = str::from_utf8(id).map_err(|_| Malformed::Value("text").in_row(Through::NAME))?;
        Ok((TenantId(u32::from_be_bytes(*tenant)), id.to_owned()))
    })
}

impl Row for WebhookRow {
    const NAME: &'static str = "webhook";

    fn write(&self, w: &mut Writer) {
        self.put.write(w);
        w.millis(self.created).option(self.off.as_ref(), |w, (why, since)| {
            w.text(why).millis(*since);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            put: WebhookPut::read(r)?,
            created: r.millis()?,
            off: r.option(|r| Ok((r.text()?, r.millis()?)))?,
        })
    }
}

impl Row for Through {
    const NAME: &'static str = "told";

    fn write(&self, w: &mut Writer) {
        w.position(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.position().map(Self)
    }
}

impl Row for Since {
    const NAME: &'static str = "webhook failing";

    fn write(&self, w: &mut Writer) {
        w.millis(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.millis().map(Self)
    }
}
