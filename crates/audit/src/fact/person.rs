//! What concerns one person, who is a pseudonym here. What a person said or signed is sealed under their key, so that
//! erasing them makes it unreadable without touching the chain.
//!
//! ```text
//! erased   pseudonym [16] | key number u64 | receipt [32] | actor name
//! endpoint pseudonym [16] | device u16 | status u8 | actor name
//! consent  pseudonym [16] | channel u8 | given u8 (0 or 1) | version u64 | sealed
//! consent by  consent | actor name
//! sealed   key number u64 | nonce [12] | length u16 and bytes
//! ```

use super::{EncodeError, check_length, check_name};
use crate::bytes::{Malformed, Reader, Writer};
use crate::member::{ConsentVersion, Pseudonym};
use fantail_ports::audit::Digest;
use fantail_ports::keyring::Sealed;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{DeviceNo, KeyNo};

/// A person was erased. That the key is destroyed is an action of its own, which follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Erased {
    pub pseudonym: Pseudonym,
    pub key: KeyNo,
    /// The hash of the receipt that lists what was reached: the journal's record of it.
    pub receipt: Digest,
    /// Who asked, as in an action.
    pub actor: String,
}

/// An endpoint of a person can be used, or cannot be used any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub pseudonym: Pseudonym,
    pub device: DeviceNo,
    /// `None`: it is gone.
    pub status: Option<Status>,
    /// Who asked, as in an action.
    pub actor: String,
}

/// Consent for a channel was given or withdrawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consent {
    pub pseudonym: Pseudonym,
    pub channel: ChannelKind,
    pub given: bool,
    /// The version that verdicts name from here on.
    pub version: ConsentVersion,
    /// The proof, under the person's key: the wording agreed to, source, address. May be empty.
    pub proof: Sealed,
}

/// The same, with who asked: a key of the producer, or the recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsentBy {
    pub consent: Consent,
    /// Who asked, as in an action.
    pub actor: String,
}

/// Room for a wording's hash, a source and an address, not for documents: those are blobs, named here by their hash.
const PROOF_BYTES_MAX: usize = 2_048;
/// Stands where a status would.
const GONE: u8 = u8::MAX;

impl Erased {
    pub(super) fn write(&self, body: &mut Writer) {
        body.bytes(&self.pseudonym.0).u64(self.key.0).bytes(&self.receipt.0);
        body.counted(self.actor.as_bytes());
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            pseudonym: Pseudonym(body.array()?),
            key: KeyNo(body.u64()?),
            receipt: Digest(body.array()?),
            actor: body.text()?,
        })
    }
}

impl Endpoint {
    pub(super) fn write(&self, body: &mut Writer) {
        let status = self.status.map_or(GONE, |status| status as u8);
        body.bytes(&self.pseudonym.0).u16(self.device.0).u8(status).counted(self.actor.as_bytes());
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (pseudonym, device) = (Pseudonym(body.array()?), DeviceNo(body.u16()?));
        let status = match body.u8()? {
            GONE => None,
            number => Some(Status::from_stored(number).ok_or(Malformed)?),
        };
        Ok(Self { pseudonym, device, status, actor: body.text()? })
    }
}

impl Consent {
    pub(super) fn check_lengths(&self) -> Result<(), EncodeError> {
        check_length("proof of consent", self.proof.bytes.len(), PROOF_BYTES_MAX)
    }

    pub(super) fn write(&self, body: &mut Writer) {
        body.bytes(&self.pseudonym.0).u8(self.channel as u8).u8(u8::from(self.given)).u64(self.version.0);
        body.u64(self.proof.key.0).bytes(&self.proof.nonce).counted(&self.proof.bytes);
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (pseudonym, channel) = (Pseudonym(body.array()?), body.channel()?);
        let given = match body.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        let version = ConsentVersion(body.u64()?);
        let (key, nonce, bytes) = (KeyNo(body.u64()?), body.array()?, body.counted()?.to_vec());
        Ok(Self { pseudonym, channel, given, version, proof: Sealed { key, nonce, bytes } })
    }
}

impl ConsentBy {
    pub(super) fn check_lengths(&self) -> Result<(), EncodeError> {
        check_name("actor", &self.actor)?;
        self.consent.check_lengths()
    }

    pub(super) fn write(&self, body: &mut Writer) {
        self.consent.write(body);
        body.counted(self.actor.as_bytes());
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { consent: Consent::read(body)?, actor: body.text()? })
    }
}
