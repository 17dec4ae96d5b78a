//! Who carries messages out of the house: which protocol an account of a tenant speaks, and for which channel.

use crate::channel_kind::ChannelKind;

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum ProviderKind {
    Apns = 1,
    Fcm = 2,
    WebPush = 3,
    Ses = 4,
    Smtp = 5,
    Twilio = 6,
}

impl ProviderKind {
    /// In the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Apns, Self::Fcm, Self::WebPush, Self::Ses, Self::Smtp, Self::Twilio];

    /// As requests, settings and metrics say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Apns => "apns",
            Self::Fcm => "fcm",
            Self::WebPush => "webPush",
            Self::Ses => "ses",
            Self::Smtp => "smtp",
            Self::Twilio => "twilio",
        }
    }

    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// `None` for a number of a later version.
    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    #[must_use]
    pub fn channel(self) -> ChannelKind {
        match self {
            Self::Apns | Self::Fcm | Self::WebPush => ChannelKind::Push,
            Self::Ses | Self::Smtp => ChannelKind::Email,
            Self::Twilio => ChannelKind::Sms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read_back() {
        for kind in ProviderKind::ALL {
            assert_eq!(ProviderKind::parse(kind.name()), Some(kind));
            assert_eq!(ProviderKind::from_stored(kind as u8), Some(kind));
        }
        assert_eq!(ProviderKind::parse("APNs"), None);
        assert_eq!(ProviderKind::from_stored(0), None);
    }
}
