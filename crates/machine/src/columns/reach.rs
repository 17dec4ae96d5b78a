//! Where one user can be reached, and under which key the user's secrets lie.
//!
//! ```text
//! 5 × code: u16 little-endian, flags: u8, key: u40 little-endian
//! code  = channel: 3 bits << 13 | device: 13 bits; 0 = none; ascending by device, active endpoints only
//! flags = bit 0: the user exists; bit 1: there are more active endpoints, on the page; bit 2: some are suppressed;
//!         bit 3 + n: an endpoint of the channel with number n is pending
//! key   = the number of the user's key; 0 = not said here, but in the user's row
//! ```

use crate::tables::endpoint::UserEndpoints;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{DeviceNo, KeyNo};

pub const WIDTH: usize = 16;
const CODES: usize = 5;
const FLAGS: usize = 2 * CODES;
const KEY: usize = FLAGS + 1;
const DEVICE_BITS: u32 = 13;

const EXISTS: u8 = 1;
const MORE: u8 = 2;
const SUPPRESSED: u8 = 4;
const PENDING_SHIFT: u8 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reach(pub(super) [u8; WIDTH]);

impl Reach {
    /// What the endpoints of a user come to, who has a key, or is not there any more.
    #[must_use]
    pub fn of(user: &UserEndpoints, key: Option<KeyNo>) -> Self {
        let known = key.map_or_else(Self::default, |key| Self::default().of_user(key));
        known.with_endpoints(user)
    }

    pub(super) fn of_user(mut self, key: KeyNo) -> Self {
        self.0[FLAGS] |= EXISTS;
        let [low @ .., _, _, _] =
            if key.0 >> (8 * (WIDTH - KEY)) == 0 { key.0.to_le_bytes() } else { [0; 8] };
        self.0[KEY..].copy_from_slice(&low);
        self
    }

    pub(super) fn with_endpoints(self, user: &UserEndpoints) -> Self {
        let mut reach = Self::default();
        reach.0[FLAGS] = self.0[FLAGS] & EXISTS;
        reach.0[KEY..].copy_from_slice(&self.0[KEY..]);
        let active = user.endpoints.iter().filter(|endpoint| endpoint.status == Status::Active);
        for (place, endpoint) in active.enumerate() {
            if place == CODES {
                reach.0[FLAGS] |= MORE;
                break;
            }
            let code = u16::from(endpoint.kind as u8) << DEVICE_BITS | endpoint.device.0;
            reach.0[2 * place..2 * place + 2].copy_from_slice(&code.to_le_bytes());
        }
        if user.endpoints.iter().any(|endpoint| endpoint.status == Status::Suppressed) {
            reach.0[FLAGS] |= SUPPRESSED;
        }
        for endpoint in user.endpoints.iter().filter(|endpoint| endpoint.status == Status::Pending) {
            reach.0[FLAGS] |= pending_bit(endpoint.kind);
        }
        reach
    }

    /// Active endpoints of a channel, ascending. If it [has more](Self::has_more), only the page knows them all.
    pub fn endpoints(&self, kind: ChannelKind) -> impl Iterator<Item = DeviceNo> {
        let codes = self.0;
        (0..CODES)
            .map(move |place| u16::from_le_bytes([codes[2 * place], codes[2 * place + 1]]))
            .filter(move |code| *code != 0 && code >> DEVICE_BITS == u16::from(kind as u8))
            .map(|code| DeviceNo(code & DeviceNo::MAX.0))
    }

    /// There are more active endpoints than fit: read them with `tables::endpoint::of_user`.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.0[FLAGS] & MORE != 0
    }

    /// Whether there is an active or pending endpoint of a channel, as far as can be told from here.
    #[must_use]
    pub fn may_have(&self, kind: ChannelKind) -> bool {
        self.has_more() || self.is_pending(kind) || self.endpoints(kind).next().is_some()
    }

    /// Some endpoint of a channel is pending. The page tells which.
    #[must_use]
    pub fn is_pending(&self, kind: ChannelKind) -> bool {
        self.0[FLAGS] & pending_bit(kind) != 0
    }

    #[must_use]
    pub fn exists(&self) -> bool {
        self.0[FLAGS] & EXISTS != 0
    }

    /// Some endpoint of the user may not be sent to.
    #[must_use]
    pub fn is_suppressed(&self) -> bool {
        self.0[FLAGS] & SUPPRESSED != 0
    }

    /// The user's key; `None` if only the user's row tells.
    #[must_use]
    pub fn key(&self) -> Option<KeyNo> {
        let mut bytes = [0; 8];
        bytes[..WIDTH - KEY].copy_from_slice(&self.0[KEY..]);
        Some(KeyNo(u64::from_le_bytes(bytes))).filter(|key| *key != KeyNo::TENANT)
    }
}

fn pending_bit(kind: ChannelKind) -> u8 {
    1 << (PENDING_SHIFT + kind as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_does_not_fit_is_left_to_the_row() {
        for (key, said) in
            [(1, Some(1)), ((1 << 40) - 1, Some((1 << 40) - 1)), (1 << 40, None), (u64::MAX, None)]
        {
            let reach = Reach::default().of_user(KeyNo(key));
            assert_eq!((reach.key(), reach.exists()), (said.map(KeyNo), true), "{key}");
        }
        assert_eq!(Reach::default().key(), None);
    }
}
