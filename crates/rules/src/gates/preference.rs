//! What the user wants to hear of, and where; first what the tenant does not send at all.
//!
//! In this order, and the first "off" wins: everything, the category, the category on this channel, the channel. If the
//! user chose channels for the category, that choice stands in place of the channel's switch. What the tenant blocks is
//! off for everybody; what it makes mandatory, and what is critical, no wish of the user switches off.

use super::{Ask, Choice, Policy, Profile, Reason, Verdict};

#[must_use]
pub fn check(ask: &Ask, profile: &Profile, choice: &Choice) -> Option<Verdict> {
    let Policy { blocked, mandatory, .. } = ask.policy;
    if blocked.contains(ask.channel) {
        return Some(Verdict::Suppress(Reason::ChannelBlocked));
    }
    if ask.is_critical() || mandatory.contains(ask.channel) {
        return None;
    }
    unwanted(ask, profile, choice).map(Verdict::Suppress)
}

fn unwanted(ask: &Ask, profile: &Profile, choice: &Choice) -> Option<Reason> {
    if profile.global_off {
        return Some(Reason::GlobalOff);
    }
    if choice.is_off {
        return Some(Reason::CategoryOff);
    }
    match choice.channels {
        Some(chosen) => (!chosen.contains(ask.channel)).then_some(Reason::CategoryChannelOff),
        None => profile.channels_off.contains(ask.channel).then_some(Reason::ChannelOff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel_kind::{ChannelKind, ChannelSet};
    use crate::gates::Frequency;
    use crate::priority::Priority;

    fn set(kinds: &[ChannelKind]) -> ChannelSet {
        kinds.iter().copied().collect()
    }

    fn check_reason(ask: Ask, profile: Profile, choice: Choice, reason: Option<Reason>) {
        assert_eq!(check(&ask, &profile, &choice), reason.map(Verdict::Suppress), "{profile:?} {choice:?}");
    }

    // proves: PRF-01, PRF-03
    #[test]
    fn the_first_off_wins() {
        let push = Ask::new(ChannelKind::Push);
        let off = Choice { is_off: true, ..Choice::default() };
        let by_mail = Choice { channels: Some(set(&[ChannelKind::Email])), ..Choice::default() };
        let by_push = Choice { channels: Some(set(&[ChannelKind::Push])), ..Choice::default() };
        let nowhere = Choice { channels: Some(ChannelSet::EMPTY), ..Choice::default() };
        let global = Profile { global_off: true, ..Profile::default() };
        let no_push = Profile { channels_off: set(&[ChannelKind::Push]), ..Profile::default() };
        let neither = Profile { global_off: true, ..no_push };
        for (profile, choice, reason) in [
            (Profile::default(), Choice::default(), None),
            (neither, off, Some(Reason::GlobalOff)),
            (global, by_push, Some(Reason::GlobalOff)),
            (no_push, off, Some(Reason::CategoryOff)),
            (Profile::default(), Choice { is_off: true, ..by_push }, Some(Reason::CategoryOff)),
            (no_push, by_mail, Some(Reason::CategoryChannelOff)),
            (Profile::default(), nowhere, Some(Reason::CategoryChannelOff)),
            (no_push, Choice::default(), Some(Reason::ChannelOff)),
            (no_push, by_push, None), // the category's channels stand in place of the switch
            (Profile::default(), by_push, None),
            (Profile::default(), Choice { frequency: Frequency::Daily, ..Choice::default() }, None),
        ] {
            check_reason(push, profile, choice, reason);
        }
        check_reason(Ask::new(ChannelKind::Email), no_push, Choice::default(), None);
    }

    // proves: PRF-03, DEL-18
    #[test]
    fn the_tenant_may_insist_or_refuse() {
        let (everything_off, off) = (
            Profile { global_off: true, channels_off: ChannelSet::ALL, ..Profile::default() },
            Choice { is_off: true, channels: Some(ChannelSet::EMPTY), ..Choice::default() },
        );
        let mail = Ask::new(ChannelKind::Email);
        let with =
            |mandatory, blocked| Ask { policy: Policy { mandatory, blocked, ..Policy::default() }, ..mail };
        let (none, email, sms) = (ChannelSet::EMPTY, set(&[ChannelKind::Email]), set(&[ChannelKind::Sms]));
        check_reason(with(email, none), everything_off, off, None);
        check_reason(with(sms, none), everything_off, off, Some(Reason::GlobalOff));
        check_reason(with(none, email), Profile::default(), Choice::default(), Some(Reason::ChannelBlocked));
        check_reason(with(email, email), Profile::default(), Choice::default(), Some(Reason::ChannelBlocked));
        check_reason(with(none, sms), Profile::default(), Choice::default(), None);
        let critical = |ask: Ask| Ask { lane: Priority::Critical, ..ask };
        check_reason(critical(mail), everything_off, off, None);
        check_reason(critical(with(none, email)), everything_off, off, Some(Reason::ChannelBlocked));
    }
}
