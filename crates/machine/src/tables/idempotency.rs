//! Which requests a front has accepted: 32 bytes each, dropped by the bucket.
//!
//! ```text
//! 17 tenant bucket: u32 keyhash: 16 -> event: ulid, body: 16
//! ```

use super::{Family, Key, Row, collect, get};
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::admit::{Bucket, Known};
use fantail_rules::ids::TenantId;

#[must_use]
pub fn key(tenant: TenantId, bucket: Bucket, hash: &[u8; 16]) -> Vec<u8> {
    Key::new(Family::Idempotency, tenant).bytes(&bucket.0.to_be_bytes()).bytes(hash).finish()
}

/// Looks a key up in the given buckets.
pub fn find(
    tables: &dyn Tables,
    tenant: TenantId,
    hash: &[u8; 16],
    buckets: &[Bucket],
) -> Result<Option<Known>, TablesError> {
    for bucket in buckets {
        if let Some(known) = get(tables, &key(tenant, *bucket, hash))? {
            return Ok(Some(known));
        }
    }
    Ok(None)
}

/// Keys of one bucket.
pub type Outdated = (Bucket, Vec<[u8; 16]>);

/// Whether a bucket holds nothing. A bucket of the past that is empty stays so, as time does not go back.
pub fn is_empty(tables: &dyn Tables, tenant: TenantId, bucket: Bucket) -> Result<bool, TablesError> {
    let prefix = Key::new(Family::Idempotency, tenant).bytes(&bucket.0.to_be_bytes());
    let (from, to) = (prefix.clone().finish(), prefix.end());
    let range = KeyRange { from: &from, to: &to };
    Ok(collect(tables, range, Order::Ascending, 1, |_, _| Ok(()))?.is_empty())
}

/// Some keys of buckets below `before`, oldest first, all of one bucket.
pub fn outdated(
    tables: &dyn Tables,
    tenant: TenantId,
    before: Bucket,
    limit: usize,
) -> Result<Option<Outdated>, TablesError> {
    let prefix = Key::new(Family::Idempotency, tenant);
    let from = prefix.clone().finish();
    let to = prefix.bytes(&before.0.to_be_bytes()).finish();
    let range = KeyRange { from: &from, to: &to };
    let found = collect(tables, range, Order::Ascending, limit, |key, _| {
        let short = || Malformed::Short.in_row(Known::NAME);
        let tail: [u8; 20] = key.get(5..).and_then(|tail| tail.try_into().ok()).ok_or_else(short)?;
        let mut r = Reader::new(&tail);
        let bucket = r.array().map_err(|_| short())?;
        Ok((Bucket(u32::from_be_bytes(bucket)), r.array().map_err(|_| short())?))
    })?;
    let Some((bucket, _)) = found.first().copied() else { return Ok(None) };
    let keys = found.into_iter().filter(|(other, _)| *other == bucket).map(|(_, key)| key).collect();
    Ok(Some((bucket, keys)))
}

impl Row for Known {
    const NAME: &'static str = "idempotency";

    fn write(&self, w: &mut Writer) {
        w.ulid(self.event).fixed(&self.body_hash);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { event: r.ulid()?, body_hash: r.array()? })
    }
}
