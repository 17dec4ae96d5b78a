//! Typed tables: one file per key family, each with its byte layout. Keys are
//!
//! ```text
//! | family: u8 | tenant: u32 big-endian | … owner, then order, big-endian … |
//! ```
//! What must never happen: a row of one tenant under the key of another. `Key::new` asks for the tenant; the few
//! rows that belong to no tenant say so with `Key::of_partition`.

use crate::codec::{Malformed, Reader, Writer};
use crate::view::View;
use fantail_ports::tables::{COLUMNS, Changes, KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::TenantId;
use std::collections::btree_map;
use std::ops::{Bound, ControlFlow};

pub mod policy;
pub mod provider;
pub mod root;
pub mod schedule;
pub mod segment;
pub mod template;
pub mod webhook;

pub mod event;
pub mod idempotency;
pub mod scheduled;
pub mod size;
pub mod usage;

pub mod directory;

pub mod endpoint;
pub mod erasure;
pub mod follow;
pub mod list;
pub mod mark;
pub mod pointer;
pub mod progress;
pub mod respect;
pub mod retracted;
pub mod shown;
pub mod taken;
pub mod todo;
pub mod user;

pub mod digest;
pub mod guard;
pub mod ledger;
pub mod tally;
pub mod throttle;
pub mod track;
pub mod waiting;
pub mod walk;
pub mod window;
pub mod work;

pub mod look;
pub mod seek;

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Family {
    Layout = 1,
    Tenant = 2,
    ApiKey = 3,
    Template = 4,
    TemplateVersion = 5,
    TemplateDefinition = 6,
    TemplateFloor = 7,
    Webhook = 8,
    WebhookFailing = 9,
    Category = 10,
    Defaults = 11,
    Segment = 12,
    Provider = 13,
    Schedule = 14,
    Quota = 15,
    FrontState = 16,
    Idempotency = 17,
    Event = 18,
    Size = 19,
    Personal = 20,
    Scheduled = 21,
    CancellationKey = 22,
    ScheduledCount = 23,
    Bulk = 24,
    BulkByList = 25,
    AccountFloor = 26,
    ScheduleStanding = 27,
    ScheduleTimer = 28,
    ScheduledWalks = 29,
    FirstAccount = 30,
    TenantEnd = 31,
    ShardState = 32,
    TakenFrom = 33,
    UserByLookup = 34,
    User = 35,
    Follow = 36,
    FollowCount = 37,
    List = 38,
    Taken = 39,
    TakenByUlid = 40,
    Pointer = 41,
    PointerList = 42,
    Retracted = 43,
    RetractedByList = 44,
    Flags = 45,
    Marks = 46,
    Todo = 47,
    Destinations = 48,
    Reach = COLUMNS,
    Work = 50,
    WorkMembers = 51,
    Halted = 52,
    Ledger = 53,
    Timer = 54,
    UnderWay = 55,
    Dead = 56,
    Tally = 57,
    LaneTally = 58,
    Track = 59,
    Told = 60,
    SweptTally = 61,
    Respect = 62,
    RespectHistory = 63,
    TakenLate = 64,
    Counts = 65,
    Throttle = 66,
    ThrottleEnd = 67,
    Waiting = 68,
    WindowOpen = 73,
    Window = 74,
    WindowItem = 75,
    WindowTimer = 76,
    WindowLatest = 77,
    Digest = 78,
    Storm = 79,
    Walk = 80,
    WalkPart = 81,
    UploadPage = 82,
    Upload = 83,
    WalkOpen = 84,
    WalkEntry = 85,
    ErasureLookup = 86,
    EndpointDetails = 92,
    Erasure = 87,
    Usage = 88,
    CallbackSecret = 89,
    ErasureOf = 90,
    Address = 96,
    DirectoryTodo = 97,
}

/// What changed in one family. Every batch is asked for several families, so this allocates nothing.
pub(crate) fn changed_rows(
    changes: &Changes,
    family: Family,
) -> btree_map::Range<'_, Vec<u8>, Option<Vec<u8>>> {
    let (from, to) = ([family as u8], [family as u8 + 1]);
    changes.range::<[u8], _>((Bound::Included(&from[..]), Bound::Excluded(&to[..])))
}

/// Where to begin to read rows of one family, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowsFrom<K> {
    At(K),
    Behind(K),
}

impl<K: Ord> RowsFrom<K> {
    /// Whether a row is at or behind it.
    #[must_use]
    pub fn has(&self, row: &K) -> bool {
        match self {
            Self::At(first) => row >= first,
            Self::Behind(last) => row > last,
        }
    }
}

/// A key under construction.
#[derive(Clone, Debug)]
pub struct Key(Vec<u8>);

impl Key {
    #[must_use]
    pub fn new(family: Family, tenant: TenantId) -> Self {
        let mut bytes = Vec::with_capacity(40);
        bytes.push(family as u8);
        bytes.extend_from_slice(&tenant.0.to_be_bytes());
        Self(bytes)
    }

    /// A row of the partition itself, of no tenant.
    #[must_use]
    pub fn of_partition(family: Family) -> Self {
        Self(vec![family as u8])
    }

    #[must_use]
    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A number in one to nine bytes, small ones in few; such keys ascend as their numbers do.
    #[must_use]
    pub fn ordered(mut self, value: u64) -> Self {
        let bytes = value.to_be_bytes();
        match value {
            0..=ORDERED_ONE => self.0.push(bytes[7]),
            _ if value <= ORDERED_TWO => {
                let above = value - ORDERED_ONE - 1;
                self.0.extend_from_slice(&[TWO_BYTES + (above >> 8) as u8, above as u8]);
            }
            _ => {
                let length = 8 - value.leading_zeros() as usize / 8;
                self.0.push(LONGER + length as u8);
                self.0.extend_from_slice(&bytes[8 - length..]);
            }
        }
        self
    }

    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// The first key that does not begin with this one.
    #[must_use]
    pub fn end(&self) -> Vec<u8> {
        let mut end = self.0.clone();
        while let Some(last) = end.last_mut() {
            if *last < u8::MAX {
                *last += 1;
                return end;
            }
            end.pop();
        }
        vec![u8::MAX; 64]
    }
}

/// The largest number of one byte and of two; first bytes above it say how much follows.
const ORDERED_ONE: u64 = 199;
const ORDERED_TWO: u64 = ORDERED_ONE + 48 * 256;
const TWO_BYTES: u8 = 200;
const LONGER: u8 = 247;

/// Reads what [`Key::ordered`] wrote, and what is left behind it.
pub(crate) fn read_ordered(key: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = key.split_first()?;
    if *first < TWO_BYTES {
        return Some((u64::from(*first), rest));
    }
    if *first <= LONGER {
        let (second, rest) = rest.split_first()?;
        let above = u64::from(*first - TWO_BYTES) << 8 | u64::from(*second);
        return Some((above + ORDERED_ONE + 1, rest));
    }
    let (bytes, rest) = rest.split_at_checked(usize::from(*first - LONGER))?;
    Some((bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)), rest))
}

/// A value of some family.
pub trait Row: Sized {
    const NAME: &'static str;
    fn write(&self, w: &mut Writer);
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed>;

    fn decode(bytes: &[u8]) -> Result<Self, TablesError> {
        let mut r = Reader::new(bytes);
        Self::read(&mut r)
            .and_then(|row| r.end().map(|()| row))
            .map_err(|malformed| malformed.in_row(Self::NAME))
    }

    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        self.write(&mut w);
        w.finish()
    }
}

pub fn get<R: Row>(tables: &dyn Tables, key: &[u8]) -> Result<Option<R>, TablesError> {
    tables.get(key)?.map(|bytes| R::decode(&bytes)).transpose()
}

pub fn put<R: Row>(view: &mut View<'_>, key: Vec<u8>, row: &R) {
    view.put(key, row.encode());
}

/// What is left of a key behind its prefix, read as one big-endian number.
pub(crate) fn tail_u64(key: &[u8], family: &'static str) -> Result<u64, TablesError> {
    let tail = key.len().checked_sub(8).map(|start| &key[start..]);
    let bytes: [u8; 8] =
        tail.and_then(|tail| tail.try_into().ok()).ok_or_else(|| Malformed::Short.in_row(family))?;
    Ok(u64::from_be_bytes(bytes))
}

/// Rows of a range, mapped, at most `limit`. Mapping errors stop the scan and are returned.
pub fn collect<T>(
    tables: &dyn Tables,
    range: KeyRange<'_>,
    order: Order,
    limit: usize,
    mut map: impl FnMut(&[u8], &[u8]) -> Result<T, TablesError>,
) -> Result<Vec<T>, TablesError> {
    let mut rows = Vec::new();
    let mut failed = None;
    if limit == 0 {
        return Ok(rows);
    }
    tables.scan(range, order, &mut |key, value| {
        match map(key, value) {
            Ok(row) => rows.push(row),
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    failed.map_or(Ok(rows), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_numbers_take_few_bytes() {
        for (value, bytes) in [(0, 1), (199, 1), (200, 2), (12_487, 2), (12_488, 3), (65_535, 3), (65_536, 4)]
        {
            assert_eq!(Key(Vec::new()).ordered(value).finish().len(), bytes, "{value}");
        }
        assert_eq!(Key(Vec::new()).ordered(u64::MAX).finish().len(), 9);
    }

    proptest! {
        /// What is read is what was written, and bytes ascend as numbers do, whatever stands behind them.
        #[test]
        fn ordered_numbers_ascend(
            a in prop_oneof![0u64..20_000, any::<u64>()],
            b in prop_oneof![0u64..20_000, any::<u64>()],
            behind: Vec<u8>,
        ) {
            let write = |value| Key(Vec::new()).ordered(value).bytes(&behind).finish();
            let written = write(a);
            prop_assert_eq!(read_ordered(&written), Some((a, &behind[..])));
            if a != b {
                prop_assert_eq!(write(a).cmp(&write(b)), a.cmp(&b));
            }
        }

        /// A prefix's range holds exactly the keys that begin with it.
        #[test]
        fn a_prefix_ends_before_the_next(prefix in proptest::collection::vec(any::<u8>(), 1..6), key: Vec<u8>) {
            let prefix = Key(prefix);
            let (from, to) = (prefix.clone().finish(), prefix.end());
            let inside = from <= key && key < to;
            // All bytes set: no key of ours has that family, so the end only has to be far away.
            let bounded = from.iter().any(|byte| *byte < u8::MAX);
            prop_assert!(!bounded || inside == key.starts_with(&from));
            let own = [from, key].concat();
            prop_assert!(!bounded || own < to);
        }
    }

    #[test]
    fn the_tail_of_a_short_key_is_refused() {
        assert_eq!(tail_u64(&7u64.to_be_bytes(), "short"), Ok(7));
        assert!(tail_u64(&[1, 2, 3], "short").is_err());
    }
}
