//! Who is in a parcel, and one small word about each: the bytes that `Intend`, `Outcome` and the ledger share.
//!
//! ```text
//! members = count: varint, first: varint, rice: u8, gaps: bytes (each gap - 1: unary high part, `rice` low bits),
//!           shapes: list of ascending devices, shape of each user: codes
//! codes   = width: u8 (0, 1, 2, 4, 8 or 16 bits; 0: all are the first), packed bytes
//! ```
//! A thousand deliveries to two devices each of every tenth user take less than half a byte each; of every thousandth
//! user less than a byte. What must never happen: a member that is found under another number than it was written
//! with (positions are counted user by user, device by device, and never change), or a member with another's word.

pub mod bits;

use crate::codec::{Malformed, Reader, Writer};
use bits::{BitReader, BitWriter};
use fantail_rules::ids::{DeviceNo, UserNo};
use fantail_rules::limits::PARCEL_MEMBERS_MAX;
use std::collections::BTreeMap;

/// Users with ever other devices end a parcel here: its bytes should tell of deliveries, not of shapes.
const SHAPES_MAX: usize = 256;

/// The members of a parcel: users, ascending, each with some of its devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    users: Vec<UserNo>,
    /// Which devices a user has here. Few shapes fit most users.
    shapes: Vec<Vec<DeviceNo>>,
    /// The shape of each user.
    shape_of: Vec<u16>,
}

/// One delivery of a parcel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member {
    pub user: UserNo,
    /// 0 where a user is addressed who has no endpoint.
    pub device: DeviceNo,
}

/// Collects members until a parcel is full.
#[derive(Default)]
pub struct Collector {
    members: Members,
    known: BTreeMap<Vec<DeviceNo>, u16>,
    count: usize,
}

impl Collector {
    /// Deliveries so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds a user above the last one. `false`, and nothing is added, if the parcel has no room for it.
    pub fn add(&mut self, user: UserNo, devices: &[DeviceNo], count_max: usize) -> bool {
        debug_assert!(self.members.users.last().is_none_or(|last| *last < user));
        if devices.is_empty() || self.count + devices.len() > count_max.min(PARCEL_MEMBERS_MAX as usize) {
            return devices.is_empty();
        }
        let shape = match self.known.get(devices) {
            Some(shape) => *shape,
            None if self.members.shapes.len() == SHAPES_MAX => return false,
            None => {
                let shape = self.members.shapes.len() as u16;
                self.members.shapes.push(devices.to_vec());
                self.known.insert(devices.to_vec(), shape);
                shape
            }
        };
        self.members.users.push(user);
        self.members.shape_of.push(shape);
        self.count += devices.len();
        true
    }

    pub fn finish(self) -> Members {
        self.members
    }
}

impl Members {
    /// All deliveries, in the order of their positions.
    pub fn iter(&self) -> impl Iterator<Item = Member> {
        self.users.iter().zip(&self.shape_of).flat_map(|(user, shape)| {
            self.shapes[usize::from(*shape)].iter().map(|device| Member { user: *user, device: *device })
        })
    }

    /// How many deliveries there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shape_of.iter().map(|shape| self.shapes[usize::from(*shape)].len()).sum()
    }

    #[must_use]
    pub fn users(&self) -> &[UserNo] {
        &self.users
    }

    /// The positions of a user's deliveries.
    #[must_use]
    pub fn of_user(&self, user: UserNo) -> Vec<(usize, DeviceNo)> {
        let Ok(at) = self.users.binary_search(&user) else { return Vec::new() };
        let devices = |shape: &u16| &self.shapes[usize::from(*shape)];
        let before: usize = self.shape_of[..at].iter().map(|shape| devices(shape).len()).sum();
        devices(&self.shape_of[at]).iter().enumerate().map(|(own, device)| (before + own, *device)).collect()
    }

    pub fn write(&self, w: &mut Writer) {
        w.varint(self.users.len() as u64);
        let (Some(first), Some(last)) = (self.users.first(), self.users.last()) else { return };
        let mean = (last.0 - first.0) / self.users.len() as u64;
        let rice = mean.max(1).ilog2().min(48);
        let mut gaps = BitWriter::default();
        for pair in self.users.windows(2) {
            let gap = pair[1].0 - pair[0].0 - 1;
            gaps.put_unary(gap >> rice);
            gaps.put(gap & ((1 << rice) - 1), rice);
        }
        w.user(*first).u8(rice as u8).bytes(&gaps.finish());
        w.list(self.shapes.iter(), |w, shape| {
            w.ascending(shape.iter().map(|device| u64::from(device.0)));
        });
        write_codes(w, &self.shape_of, self.shapes.len());
    }

    pub fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = read_count(r)?;
        if count == 0 {
            return Ok(Self::default());
        }
        let (mut user, rice) = (r.user()?, u32::from(r.u8()?));
        if rice > 48 {
            return Err(Malformed::Value("rice"));
        }
        let mut gaps = BitReader::new(r.bytes()?);
        let mut users = Vec::with_capacity(count);
        users.push(user);
        for _ in 1..count {
            let high = gaps.take_unary()?;
            let gap = high.checked_mul(1 << rice).ok_or(Malformed::Value("gap"))? | gaps.take(rice)?;
            let next = user.0.checked_add(gap).and_then(|user| user.checked_add(1));
            user = UserNo(next.ok_or(Malformed::Value("gap"))?);
            users.push(user);
        }
        let shapes = r.list(|r| {
            let devices = r.ascending()?.into_iter().map(u16::try_from);
            let devices: Result<Vec<u16>, _> = devices.collect();
            Ok(devices.map_err(|_| Malformed::Value("device"))?.into_iter().map(DeviceNo).collect())
        })?;
        let shape_of = read_codes(r, count, shapes.len())?;
        Ok(Self { users, shapes, shape_of })
    }
}

fn read_count(r: &mut Reader<'_>) -> Result<usize, Malformed> {
    let count = usize::try_from(r.varint()?).map_err(|_| Malformed::Value("count"))?;
    if count > PARCEL_MEMBERS_MAX as usize { Err(Malformed::Value("count")) } else { Ok(count) }
}

/// One word of a small dictionary for every member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words<T> {
    pub words: Vec<T>,
    pub codes: Vec<u16>,
}

impl<T: PartialEq> Words<T> {
    #[must_use]
    pub fn all(word: T, count: usize) -> Self {
        Self { words: vec![word], codes: vec![0; count] }
    }

    #[must_use]
    pub fn empty() -> Self {
        Self { words: Vec::new(), codes: Vec::new() }
    }

    #[must_use]
    pub fn of(&self, at: usize) -> Option<&T> {
        self.codes.get(at).map(|code| &self.words[usize::from(*code)])
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.codes.iter().map(|code| &self.words[usize::from(*code)])
    }

    /// Adds a word for the next member.
    pub fn push(&mut self, word: T) {
        let code = self.code(word);
        self.codes.push(code);
    }

    pub fn set(&mut self, at: usize, word: T) {
        let code = self.code(word);
        self.codes[at] = code;
    }

    fn code(&mut self, word: T) -> u16 {
        let known = self.words.iter().position(|known| *known == word).unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        });
        u16::try_from(known).expect("a parcel changes each of its members once before it is compacted")
    }

    /// Forgets words that nobody has.
    pub fn compact(&mut self) {
        let mut used = vec![false; self.words.len()];
        self.codes.iter().for_each(|code| used[usize::from(*code)] = true);
        if used.iter().all(|used| *used) {
            return;
        }
        let mut next = 0;
        let renamed: Vec<u16> = used
            .iter()
            .map(|used| {
                let code = next;
                next += u16::from(*used);
                code
            })
            .collect();
        self.codes.iter_mut().for_each(|code| *code = renamed[usize::from(*code)]);
        let mut used = used.into_iter();
        self.words.retain(|_| used.next().unwrap_or(false));
    }

    pub fn write(&self, w: &mut Writer, write: impl FnMut(&mut Writer, &T)) {
        w.varint(self.codes.len() as u64);
        w.list(self.words.iter(), write);
        write_codes(w, &self.codes, self.words.len());
    }

    pub fn read<'a>(
        r: &mut Reader<'a>,
        read: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Self, Malformed> {
        let count = read_count(r)?;
        let words = r.list(read)?;
        let codes = read_codes(r, count, words.len())?;
        Ok(Self { words, codes })
    }
}

fn write_codes(w: &mut Writer, codes: &[u16], words: usize) {
    let width = match words {
        0 | 1 => 0,
        2 => 1,
        3..=4 => 2,
        5..=16 => 4,
        17..=256 => 8,
        _ => 16,
    };
    let mut packed = BitWriter::default();
    if width > 0 {
        codes.iter().for_each(|code| packed.put(u64::from(*code), width));
    }
    w.u8(width as u8).bytes(&packed.finish());
}

fn read_codes(r: &mut Reader<'_>, count: usize, words: usize) -> Result<Vec<u16>, Malformed> {
    let width = u32::from(r.u8()?);
    let mut packed = BitReader::new(r.bytes()?);
    if width > 16 || (words == 0 && count > 0) {
        return Err(Malformed::Value("codes"));
    }
    (0..count)
        .map(|_| {
            let code = packed.take(width)? as u16;
            if usize::from(code) < words { Ok(code) } else { Err(Malformed::Value("code")) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collect(users: impl Iterator<Item = (u64, Vec<u16>)>) -> Members {
        let mut collector = Collector::default();
        for (user, devices) in users {
            let devices: Vec<DeviceNo> = devices.into_iter().map(DeviceNo).collect();
            collector.add(UserNo(user), &devices, 1_000);
        }
        collector.finish()
    }

    fn bytes(members: &Members) -> Vec<u8> {
        let mut w = Writer::default();
        members.write(&mut w);
        w.finish()
    }

    // proves: DED-11
    #[test]
    fn members_take_less_than_a_byte_per_delivery() {
        for (apart, bound) in [(1, 80), (10, 400), (1_000, 800)] {
            let spread = |at: u64| at * apart + at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % apart;
            let members = collect((0..500).map(|at| (spread(at), vec![1, 2])));
            assert_eq!(members.count(), 1_000);
            let size = bytes(&members).len();
            assert!(size <= bound, "{size} bytes for 1,000 deliveries {apart} users apart");
        }
    }

    #[test]
    fn a_parcel_has_room_for_so_many() {
        let mut collector = Collector::default();
        assert!(collector.add(UserNo(1), &[DeviceNo(1), DeviceNo(2)], 3));
        assert!(!collector.add(UserNo(2), &[DeviceNo(1), DeviceNo(2)], 3));
        assert!(collector.add(UserNo(2), &[DeviceNo(1)], 3));
        assert!(collector.add(UserNo(3), &[], 3), "who has no device takes no room");
        assert_eq!(collector.finish().iter().count(), 3);
    }

    proptest! {
        #[test]
        fn members_and_words_round_trip(
            users in proptest::collection::btree_map(0u64..1 << 40, proptest::collection::btree_set(0u16..30, 1..4), 0..200),
            words in proptest::collection::vec(0u64..900, 0..1_000),
        ) {
            let members = collect(users.clone().into_iter().map(|(user, devices)| (user, devices.into_iter().collect())));
            let encoded = bytes(&members);
            let mut r = Reader::new(&encoded);
            let read = Members::read(&mut r).expect("our own bytes");
            prop_assert!(r.end().is_ok());
            prop_assert_eq!(&read, &members);
            let all: Vec<Member> = members.iter().collect();
            prop_assert_eq!(all.len(), members.count());
            for user in members.users() {
                for (at, device) in members.of_user(*user) {
                    prop_assert_eq!(all[at], Member { user: *user, device });
                }
            }
            let mut dictionary = Words::empty();
            words.iter().for_each(|word| dictionary.push(*word));
            dictionary.compact();
            let mut w = Writer::default();
            dictionary.write(&mut w, |w, word| { w.varint(*word); });
            let encoded = w.finish();
            let read = Words::read(&mut Reader::new(&encoded), Reader::varint).expect("our own bytes");
            prop_assert_eq!(&read, &dictionary);
            prop_assert!(words.iter().eq(read.iter()));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(members) = Members::read(&mut Reader::new(&bytes)) {
                prop_assert!(members.users().len() <= 1_000);
            }
            if let Ok(words) = Words::read(&mut Reader::new(&bytes), Reader::varint) {
                prop_assert!(words.codes.len() <= 1_000 && words.iter().count() == words.codes.len());
            }
        }
    }
}
