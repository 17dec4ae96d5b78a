//! A sync point as bytes: magic and format, partitions, and a hash over everything before it.
//!
//! Numbers are big-endian; strings carry their length. A snapshot that does not hash is refused whole.

use super::partition::Partition;
use crate::hash::hash_parts;
use fantail_ports::blobs::{BlobError, Blobs};
use fantail_ports::inbox::Audience;
use fantail_ports::lists::ListKey;
use fantail_ports::store::StoreError;
use fantail_rules::ids::{Arrival, ListId, PartitionId, Position, TenantId, UserNo};
use fantail_rules::interval::{Interval, Intervals};
use std::collections::BTreeMap;
use std::io::Read;

const MAGIC: &[u8; 8] = b"FANTMEM\0";
const FORMAT: u32 = 1;
const HASH_BYTES: usize = 16;

pub fn encode(partitions: &BTreeMap<PartitionId, Partition>) -> Vec<u8> {
    let mut out = Writer(Vec::new());
    out.0.extend_from_slice(MAGIC);
    out.0.extend_from_slice(&FORMAT.to_be_bytes());
    out.number(partitions.len() as u64);
    for (id, partition) in partitions {
        out.number(u64::from(id.code()));
        out.partition(partition);
    }
    let hash = hash_parts(&[&out.0]);
    out.0.extend_from_slice(&hash.to_be_bytes());
    out.0
}

pub fn read(blobs: &dyn Blobs, name: &str) -> Result<BTreeMap<PartitionId, Partition>, StoreError> {
    let mut bytes = Vec::new();
    let read = blobs.get(name)?.read_to_end(&mut bytes);
    read.map_err(|cause| BlobError::Io { name: name.to_owned(), reason: cause.to_string() })?;
    let damaged = |reason: &str| StoreError::Damaged { what: name.to_owned(), reason: reason.to_owned() };
    let (body, hash) =
        bytes.split_last_chunk::<HASH_BYTES>().ok_or_else(|| damaged("shorter than its hash"))?;
    if hash_parts(&[body]).to_be_bytes() != *hash {
        return Err(damaged("does not match its hash"));
    }
    let mut rest = Cut(body);
    if rest.take(MAGIC.len()) != Some(MAGIC) {
        return Err(damaged("not a snapshot"));
    }
    let found = rest.array().map(u32::from_be_bytes).ok_or_else(|| damaged("cut off"))?;
    if found > FORMAT {
        return Err(StoreError::NewerFormat { what: name.to_owned(), found, known: FORMAT });
    }
    rest.partitions().ok_or_else(|| damaged("does not decode"))
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn partition(&mut self, partition: &Partition) {
        self.number(partition.position.0);
        self.number(partition.rows.len() as u64);
        for (key, value) in &partition.rows {
            self.bytes(key);
            self.bytes(value);
        }
        self.number(partition.lists.len() as u64);
        for (key, members) in &partition.lists {
            self.number(u64::from(key.tenant.0));
            self.bytes(&key.list.0);
            self.number(members.len() as u64);
            for (user, intervals) in members {
                self.number(user.0);
                self.intervals(intervals);
            }
        }
        self.number(partition.events.len() as u64);
        for ((tenant, arrival), audience) in &partition.events {
            self.number(u64::from(tenant.0));
            self.number(arrival.0);
            self.audience(audience);
        }
    }

    fn intervals(&mut self, intervals: &Intervals) {
        self.number(intervals.as_slice().len() as u64);
        for one in intervals.as_slice() {
            self.number(one.from.0);
            // No stay ends at arrival 0, so 0 stands for "still open".
            self.number(one.until.map_or(0, |until| until.0));
        }
    }

    fn audience(&mut self, audience: &Audience) {
        match audience {
            Audience::List(list) => {
                self.number(0);
                self.bytes(&list.0);
            }
            Audience::Members(users) => {
                self.number(1);
                self.number(users.len() as u64);
                users.iter().for_each(|user| self.number(user.0));
            }
        }
    }
}

/// What is left to read.
struct Cut<'a>(&'a [u8]);

impl<'a> Cut<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        self.take(usize::try_from(count).ok()?)
    }

    fn partitions(&mut self) -> Option<BTreeMap<PartitionId, Partition>> {
        let mut partitions = BTreeMap::new();
        for _ in 0..self.number()? {
            let id = PartitionId::from_code(u16::try_from(self.number()?).ok()?)?;
            partitions.insert(id, self.partition()?);
        }
        self.0.is_empty().then_some(partitions)
    }

    fn partition(&mut self) -> Option<Partition> {
        let mut partition = Partition::at(Position(self.number()?));
        for _ in 0..self.number()? {
            let key = self.bytes()?.to_vec();
            partition.set_row(key, Some(self.bytes()?.to_vec()));
        }
        for _ in 0..self.number()? {
            let tenant = TenantId(u32::try_from(self.number()?).ok()?);
            let key = ListKey { tenant, list: ListId(self.bytes()?.try_into().ok()?) };
            let mut members = BTreeMap::new();
            for _ in 0..self.number()? {
                members.insert(UserNo(self.number()?), self.intervals()?);
            }
            partition.lists.insert(key, members);
        }
        for _ in 0..self.number()? {
            let tenant = TenantId(u32::try_from(self.number()?).ok()?);
            let arrival = Arrival(self.number()?);
            partition.events.insert((tenant, arrival), self.audience()?);
        }
        Some(partition)
    }

    fn intervals(&mut self) -> Option<Intervals> {
        let count = self.number()?;
        let mut intervals = Vec::new();
        for _ in 0..count {
            let from = Arrival(self.number()?);
            let until = Some(self.number()?).filter(|until| *until != 0).map(Arrival);
            intervals.push(Interval { from, until });
        }
        Intervals::from_stored(&intervals)
    }

    fn audience(&mut self) -> Option<Audience> {
        match self.number()? {
            0 => Some(Audience::List(ListId(self.bytes()?.try_into().ok()?))),
            1 => {
                let count = self.number()?;
                let mut users = Vec::new();
                for _ in 0..count {
                    users.push(UserNo(self.number()?));
                }
                Some(Audience::Members(users))
            }
            _ => None,
        }
    }
}
