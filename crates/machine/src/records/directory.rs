//! Facts of a directory: whose an address is, and what may not be sent to.
//!
//! ```text
//! 1 Claimed      tenant, list of (address: 16, owner)
//! 2 Released     tenant, list of (address: 16, owner)
//! 3 Told         tenant, list of address: 16
//! 4 Suppressed   tenant, address: 16, reason: u8, difference
//! 5 Unsuppressed tenant, address: 16, difference
//! owner = shard: varint, user, device: varint, claim: varint
//! ```

use super::Fact;
use super::difference::Difference;
use super::wipe::WipedStretch;
use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceNo, ShardNo, TenantId, UserNo};
use fantail_rules::suppression::Reason;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryRecord {
    /// The address is this owner's from now on; whoever had it before is to release it first.
    Claimed {
        tenant: TenantId,
        claims: Vec<Claim>,
    },
    /// These claims are over: their shards use them no more.
    Released {
        tenant: TenantId,
        claims: Vec<Claim>,
    },
    /// The owners know how it stands with these addresses.
    Told {
        tenant: TenantId,
        addresses: Vec<AddressHash>,
    },
    Suppressed {
        tenant: TenantId,
        address: AddressHash,
        reason: Reason,
        difference: Difference,
    },
    Unsuppressed {
        tenant: TenantId,
        address: AddressHash,
        difference: Difference,
    },
    /// Rows of a deleted tenant are gone.
    Wiped(WipedStretch),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    pub address: AddressHash,
    pub owner: Owner,
}

/// An endpoint and the claim under which it wants, or has, its address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner {
    pub shard: ShardNo,
    pub user: UserNo,
    pub device: DeviceNo,
    pub claim: ClaimNo,
}

impl Owner {
    #[must_use]
    pub fn is_same_user(&self, other: &Self) -> bool {
        (self.shard, self.user) == (other.shard, other.user)
    }

    #[must_use]
    pub fn is_same_endpoint(&self, other: &Self) -> bool {
        self.is_same_user(other) && self.device == other.device
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.varint(self.shard.0.into()).user(self.user).device(self.device).claim(self.claim);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { shard: r.shard()?, user: r.user()?, device: r.device()?, claim: r.claim()? })
    }
}

impl Claim {
    fn write(&self, w: &mut Writer) {
        w.fixed(&self.address.0);
        self.owner.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { address: r.address()?, owner: Owner::read(r)? })
    }
}

pub(crate) fn read_reason(r: &mut Reader<'_>) -> Result<Reason, Malformed> {
    Reason::from_stored(r.u8()?).ok_or(Malformed::Value("suppression reason"))
}

impl Fact for DirectoryRecord {
    fn tag(&self) -> u8 {
        match self {
            Self::Claimed { .. } => 1,
            Self::Released { .. } => 2,
            Self::Told { .. } => 3,
            Self::Suppressed { .. } => 4,
            Self::Unsuppressed { .. } => 5,
            Self::Wiped(_) => 70,
        }
    }

    fn write(&self, w: &mut Writer) {
        match self {
            Self::Claimed { tenant, claims } | Self::Released { tenant, claims } => {
                w.tenant(*tenant).list(claims.iter(), |w, claim| claim.write(w));
            }
            Self::Told { tenant, addresses } => {
                w.tenant(*tenant).list(addresses.iter(), |w, address| {
                    w.fixed(&address.0);
                });
            }
            Self::Suppressed { tenant, address, reason, difference } => {
                w.tenant(*tenant).fixed(&address.0).u8(*reason as u8);
                difference.write(w);
            }
            Self::Unsuppressed { tenant, address, difference } => {
                w.tenant(*tenant).fixed(&address.0);
                difference.write(w);
            }
            Self::Wiped(stretch) => stretch.write(w),
        }
    }

    fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag {
            1 => Self::Claimed { tenant: r.tenant()?, claims: r.list(Claim::read)? },
            2 => Self::Released { tenant: r.tenant()?, claims: r.list(Claim::read)? },
            3 => Self::Told { tenant: r.tenant()?, addresses: r.list(Reader::address)? },
            4 => Self::Suppressed {
                tenant: r.tenant()?,
                address: r.address()?,
                reason: read_reason(r)?,
                difference: Difference::read(r)?,
            },
            5 => Self::Unsuppressed {
                tenant: r.tenant()?,
                address: r.address()?,
                difference: Difference::read(r)?,
            },
            70 => Self::Wiped(WipedStretch::read(r)?),
            _ => return Err(Malformed::Tag(tag)),
        })
    }
}
