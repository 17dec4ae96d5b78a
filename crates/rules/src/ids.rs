//! Names and amounts as types, so that two numbers that mean different things cannot be swapped.
//!
//! What must never happen: a key, a path or a call without its tenant. Types that name something inside a
//! tenant (`UserNo`, `ListId`, `Arrival`) mean nothing alone and are always carried beside a `TenantId`.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number! {
    /// An app or brand. First in every key. Dense, assigned by the root machine, never reused.
    TenantId(u32)
}
number! {
    /// A user inside (tenant, shard): dense from 0, never reused, so that lists and columns stay small.
    UserNo(u64)
}
number! {
    /// One shard of the users. The count is fixed when the data directory is created.
    ShardNo(u16)
}
number! {
    /// One partition of the fronts. Fits in ten bits, because every ULID names the front that minted it.
    FrontNo(u16)
}
number! {
    /// Place of a record in its partition's journal. The first record has position 1; 0 means "before all".
    Position(u64)
}
number! {
    /// Place of an event in the order of one (tenant, shard): dense from 1. Follow intervals, watermarks,
    /// page cursors and run boundaries are all arrivals, so they compare with one integer comparison.
    Arrival(u64)
}
number! {
    /// Who leads a partition. The journal refuses appends of an older epoch.
    Epoch(u64)
}
number! {
    /// Milliseconds since 1970 (UTC).
    Millis(u64)
}
number! {
    /// A key in the keyring of one tenant. Number 0 is the tenant's own key; every user has another one.
    KeyNo(u64)
}

number! {
    /// An endpoint of one user: dense from 1, never reused. Fits in thirteen bits, because the reach column packs it
    /// with its channel.
    DeviceNo(u16)
}
number! {
    /// A user's claim of an address: counted per user, never reused, so that a late answer to an old claim is known
    /// for what it is.
    ClaimNo(u32)
}
number! {
    /// One partition of the directory. The count is fixed when the data directory is created.
    DirectoryNo(u16)
}

impl Position {
    pub const START: Self = Self(0);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Arrival {
    pub const START: Self = Self(0);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl KeyNo {
    /// The tenant's own key: seals what belongs to no single user.
    pub const TENANT: Self = Self(0);
}

impl Millis {
    #[must_use]
    pub fn plus(self, span_ms: u64) -> Self {
        Self(self.0.saturating_add(span_ms))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The followers of an actor or the subscribers of a topic: a keyed hash of the name under the tenant's pepper,
/// so that neither journal nor tables carry the name in the clear.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ListId(pub [u8; 16]);

/// A keyed hash of an external user id under the tenant's pepper. It finds the user and chooses the shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lookup(pub [u8; 16]);

/// A keyed hash of a channel and an address there (token, mail address, number, URL), under the tenant's pepper.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddressHash(pub [u8; 16]);

/// A keyed hash of the name that a producer gave a device; it finds the device among its user's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceHash(pub [u8; 16]);

impl AddressHash {
    /// The directory partition that knows whose address this is.
    #[must_use]
    pub fn directory(&self, directory_count: u16) -> DirectoryNo {
        DirectoryNo(spread(&self.0, directory_count))
    }
}

impl DeviceNo {
    pub const MAX: Self = Self((1 << 13) - 1);
}

impl Lookup {
    /// The shard that owns this user. The same forever, as the shard count never changes.
    #[must_use]
    pub fn shard(&self, shard_count: u16) -> ShardNo {
        ShardNo(spread(&self.0, shard_count))
    }
}

impl ListId {
    /// The lowest bit says what kind of list it is, so that a user's follows and topics can be told apart.
    #[must_use]
    pub fn with_kind(mut self, topic: bool) -> Self {
        self.0[15] = (self.0[15] & !1) | u8::from(topic);
        self
    }

    #[must_use]
    pub fn is_topic(&self) -> bool {
        self.0[15] & 1 == 1
    }

    /// The front that orders what this list's owner says.
    #[must_use]
    pub fn front(&self, front_count: u16) -> FrontNo {
        FrontNo(spread(&self.0, front_count))
    }
}

/// Maps a uniformly random 16-byte hash to `0..count`.
#[must_use]
pub fn spread(hash: &[u8; 16], count: u16) -> u16 {
    let mut head = [0; 8];
    head.copy_from_slice(&hash[..8]);
    let count = u64::from(count.max(1));
    u16::try_from(u64::from_be_bytes(head) % count).expect("a remainder of a u16 fits in a u16")
}

macro_rules! hex_debug {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    };
}
hex_debug!(ListId);
hex_debug!(Lookup);
hex_debug!(AddressHash);
hex_debug!(DeviceHash);

/// One ordered journal and the machine that owns it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PartitionId {
    Root,
    Front(FrontNo),
    Directory(DirectoryNo),
    Shard(ShardNo),
}

impl PartitionId {
    /// The number that stands for this partition in files. Frozen: kind in the two high bits, then the number.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Root => 0,
            Self::Front(FrontNo(no)) => 0x4000 | no,
            Self::Directory(DirectoryNo(no)) => 0x8000 | no,
            Self::Shard(ShardNo(no)) => 0xC000 | no,
        }
    }

    /// The partition with this number.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        let no = code & 0x3FFF;
        match code & 0xC000 {
            0 if no == 0 => Some(Self::Root),
            0x4000 => Some(Self::Front(FrontNo(no))),
            0x8000 => Some(Self::Directory(DirectoryNo(no))),
            0xC000 => Some(Self::Shard(ShardNo(no))),
            _ => None,
        }
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => write!(f, "root"),
            Self::Front(no) => write!(f, "front-{no}"),
            Self::Directory(no) => write!(f, "directory-{no}"),
            Self::Shard(no) => write!(f, "shard-{no}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_codes_round_trip() {
        let cases = [
            PartitionId::Root,
            PartitionId::Front(FrontNo(0)),
            PartitionId::Front(FrontNo(1023)),
            PartitionId::Directory(DirectoryNo(0)),
            PartitionId::Shard(ShardNo(0)),
            PartitionId::Shard(ShardNo(4095)),
        ];
        for partition in cases {
            assert_eq!(PartitionId::from_code(partition.code()), Some(partition));
        }
        assert_eq!(PartitionId::from_code(7), None);
        assert_eq!(PartitionId::from_code(0x8001), Some(PartitionId::Directory(DirectoryNo(1))));
    }

    #[test]
    fn spread_stays_in_range() {
        for byte in 0..=255u8 {
            for count in [1u16, 2, 3, 4, 1000] {
                assert!(spread(&[byte; 16], count) < count);
            }
        }
    }
}
