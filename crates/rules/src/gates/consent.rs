//! The gate that nothing passes by being important: what the user agreed to, channel by channel.
//!
//! Push needs a yes. Mail and messages may be sent until the user says no, except that marketing messages need a yes. The
//! inbox and webhooks need none: the first is the tenant's own place, the second was set up by whoever reads it.

use super::{Ask, Consent, Profile, Reason, Verdict};
use crate::channel_kind::ChannelKind;

#[must_use]
pub fn check(ask: &Ask, profile: &Profile) -> Option<Verdict> {
    let said = profile.consents.of(ask.channel);
    let may_send = match ask.channel {
        ChannelKind::Push => said == Consent::Granted,
        ChannelKind::Sms if ask.is_marketing => said == Consent::Granted,
        ChannelKind::Email | ChannelKind::Sms => said != Consent::Withdrawn,
        ChannelKind::InApp | ChannelKind::Webhook => true,
    };
    (!may_send).then_some(Verdict::Suppress(Reason::NoConsent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priority::Priority;

    // proves: PRF-07, DEL-18
    #[test]
    fn each_channel_has_its_own_default() {
        use ChannelKind::{Email, InApp, Push, Sms, Webhook};
        // (channel, is_marketing) -> allowed when not said, granted, withdrawn
        for (channel, is_marketing, allowed) in [
            (Push, false, [false, true, false]),
            (Push, true, [false, true, false]),
            (Email, false, [true, true, false]),
            (Email, true, [true, true, false]),
            (Sms, false, [true, true, false]),
            (Sms, true, [false, true, false]),
            (InApp, false, [true, true, true]),
            (InApp, true, [true, true, true]),
            (Webhook, false, [true, true, true]),
            (Webhook, true, [true, true, true]),
        ] {
            for (consent, allowed) in Consent::ALL.into_iter().zip(allowed) {
                let mut profile = Profile::default();
                profile.consents = profile.consents.with(channel, consent);
                for lane in Priority::ALL {
                    let ask = Ask { lane, is_marketing, ..Ask::new(channel) };
                    let expected = (!allowed).then_some(Verdict::Suppress(Reason::NoConsent));
                    assert_eq!(check(&ask, &profile), expected, "{ask:?} {consent:?}");
                }
            }
        }
    }
}
