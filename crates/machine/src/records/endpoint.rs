//! Facts about endpoints, in the records of a shard.
//!
//! ```text
//! 13 EndpointPut    tenant, list of (user, device: varint, claim: varint, status: u8, kind: u8, platform: u8,
//!                   name hash: 16, name: option sealed, address hash: 16, address: sealed, meta: option sealed)
//! 14 EndpointState  tenant, list of (user, device: varint, claim: varint, status: u8)
//! 15 EndpointGone   tenant, list of (user, device: varint)
//! ```

use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::keyring::Sealed;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceHash, DeviceNo, UserNo};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointPut {
    pub user: UserNo,
    pub device: DeviceNo,
    /// The claim under which the endpoint has its address. Another one than before: the address is asked for anew.
    pub claim: ClaimNo,
    pub status: Status,
    pub kind: ChannelKind,
    pub platform: Platform,
    pub name_hash: DeviceHash,
    /// What the producer calls the device; none for the addresses of the profile.
    pub name: Option<Sealed>,
    pub address_hash: AddressHash,
    /// Sealed under the user's own key, like the name and the rest.
    pub address: Sealed,
    /// What else is known of the device, as JSON.
    pub meta: Option<Sealed>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointState {
    pub user: UserNo,
    pub device: DeviceNo,
    pub claim: ClaimNo,
    pub status: Status,
}

impl EndpointPut {
    pub(super) fn write(&self, w: &mut Writer) {
        w.user(self.user).device(self.device).claim(self.claim);
        w.u8(self.status as u8).u8(self.kind as u8).u8(self.platform as u8);
        w.fixed(&self.name_hash.0);
        write_optional(w, self.name.as_ref());
        w.fixed(&self.address_hash.0).sealed(&self.address);
        write_optional(w, self.meta.as_ref());
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            user: r.user()?,
            device: r.device()?,
            claim: r.claim()?,
            status: read_status(r)?,
            kind: read_kind(r)?,
            platform: read_platform(r)?,
            name_hash: r.device_hash()?,
            name: r.option(Reader::sealed)?,
            address_hash: r.address()?,
            address: r.sealed()?,
            meta: r.option(Reader::sealed)?,
        })
    }
}

impl EndpointState {
    pub(super) fn write(&self, w: &mut Writer) {
        w.user(self.user).device(self.device).claim(self.claim).u8(self.status as u8);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { user: r.user()?, device: r.device()?, claim: r.claim()?, status: read_status(r)? })
    }
}

pub(crate) fn write_optional(w: &mut Writer, sealed: Option<&Sealed>) {
    w.option(sealed, |w, sealed| {
        w.sealed(sealed);
    });
}

pub(crate) fn read_status(r: &mut Reader<'_>) -> Result<Status, Malformed> {
    Status::from_stored(r.u8()?).ok_or(Malformed::Value("endpoint status"))
}

pub(crate) fn read_kind(r: &mut Reader<'_>) -> Result<ChannelKind, Malformed> {
    ChannelKind::from_stored(r.u8()?).ok_or(Malformed::Value("channel kind"))
}

pub(crate) fn read_platform(r: &mut Reader<'_>) -> Result<Platform, Malformed> {
    Platform::from_stored(r.u8()?).ok_or(Malformed::Value("platform"))
}
