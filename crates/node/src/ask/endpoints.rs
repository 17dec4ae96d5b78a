//! Endpoints of users, and addresses that nothing is sent to, as callers ask for them and see them.

use crate::respect::ConsentAsk;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::ids::{AddressHash, Millis};
use fantail_rules::suppression::Reason;

/// One way to reach a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel {
    pub kind: ChannelKind,
    pub status: Status,
    /// Of the profile's addresses only: tokens and URLs of devices are not shown.
    pub address: Option<String>,
}

/// A device that is registered.
#[derive(Clone, Debug)]
pub struct DeviceAsk {
    pub user: String,
    pub device: String,
    pub kind: ChannelKind,
    pub platform: Platform,
    /// What the channel needs to send there: the token, or for webhooks URL and secret as JSON.
    pub address: Vec<u8>,
    pub identity: String,
    /// What else is known of it, as JSON; may be empty.
    pub meta: Vec<u8>,
    /// What the user said about this channel.
    pub consent: Option<ConsentAsk>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registered {
    pub status: Status,
    /// The device was not known before.
    pub created: bool,
}

/// A device as its tenant sees it. Tokens are not shown again.
#[derive(Clone, Debug)]
pub struct DeviceView {
    pub device: String,
    pub kind: ChannelKind,
    pub platform: Platform,
    pub meta: Vec<u8>,
    pub status: Status,
    pub registered_at: Millis,
    pub last_seen_at: Millis,
}

/// An address that nothing is sent to, or that is asked about.
#[derive(Clone, Debug)]
pub struct SuppressionAsk {
    pub kind: ChannelKind,
    pub identity: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuppressionView {
    /// Of the channel and the address.
    pub hash: AddressHash,
    pub reason: Reason,
    pub since: Millis,
}
