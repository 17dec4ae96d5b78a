//! A message that may or may not have been sent: send another copy, or live with not knowing?
//!
//! Comes from: a timer, when no late answer or receipt came within [`evidence_wait_ms`]. Decides: by class and channel,
//! because a second login code is a nuisance and a second advertisement is a complaint. Goes to: a lookup whose answer
//! is a record, an `Intent` of the next round, or `Unconfirmed`.
//!
//! What must never happen: a second resend, or any resend of bulk. So copies ≤ 1 + resends ≤ 2, and ≤ 1 for bulk.

use crate::channel_kind::ChannelKind;
use crate::limits::{
    EVIDENCE_WAIT_EMAIL_MS, EVIDENCE_WAIT_MS, EVIDENCE_WAIT_SMS_MS, RESENDS_PER_DELIVERY_MAX,
};
use crate::priority::Priority;

/// What a copy too many or too few would mean.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Somebody waits for it: rather twice than never.
    Critical,
    /// Expected: not lost without looking.
    Transactional,
    /// Nobody waits for it: rather never than twice.
    Bulk,
}

impl Class {
    #[must_use]
    pub fn of(lane: Priority, category: &str) -> Self {
        match lane {
            Priority::Critical => Self::Critical,
            Priority::Low => Self::Bulk,
            Priority::High | Priority::Normal if matches!(category, "marketing" | "digest") => Self::Bulk,
            Priority::High | Priority::Normal => Self::Transactional,
        }
    }

    /// As metrics say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Transactional => "transactional",
            Self::Bulk => "bulk",
        }
    }
}

/// Whether the provider can be asked what became of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lookup {
    /// It has no such question.
    Missing,
    Possible,
    /// It was asked and knows nothing: the message may never have come, or may still come.
    Silent,
}

/// A delivery that is `Unknown`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    pub class: Class,
    pub channel: ChannelKind,
    pub resends: u8,
    pub lookup: Lookup,
    /// Every copy costs the tenant money, as most SMS do.
    pub paid: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// Ask the provider, then ask here again.
    LookUp,
    /// [`Step::Resend`](super::Step::Resend), if the gates still let it pass, with the same collapse and message id.
    Resend,
    /// [`Step::GiveUp`](super::Step::GiveUp).
    GiveUp,
}

/// What to do about an unknown delivery once the wait for evidence is over.
#[must_use]
pub fn resolve_unknown(ask: &Ask) -> Resolution {
    let may_resend = ask.resends < RESENDS_PER_DELIVERY_MAX && is_worth_a_copy(ask);
    let at_once = ask.class == Class::Critical || shows_one_of_two_copies(ask.channel);
    if may_resend && at_once {
        return Resolution::Resend;
    }
    match ask.lookup {
        Lookup::Possible => Resolution::LookUp,
        Lookup::Missing | Lookup::Silent if may_resend => Resolution::Resend,
        Lookup::Missing | Lookup::Silent => Resolution::GiveUp,
    }
}

fn is_worth_a_copy(ask: &Ask) -> bool {
    match ask.class {
        Class::Critical => true,
        Class::Transactional => !ask.paid,
        Class::Bulk => false,
    }
}

/// Push has its collapse id, in-app its entry, and webhooks are at least once by contract, with an id to tell by. An
/// email or a text is seen twice, so the provider is asked first where it can be.
fn shows_one_of_two_copies(channel: ChannelKind) -> bool {
    match channel {
        ChannelKind::InApp | ChannelKind::Push | ChannelKind::Webhook => true,
        ChannelKind::Email | ChannelKind::Sms => false,
    }
}

/// How long a late answer, a receipt or a lookup has to come before the policy decides. Providers of email and SMS
/// report after minutes; who waits for something critical does not.
#[must_use]
pub fn evidence_wait_ms(class: Class, channel: ChannelKind) -> u64 {
    match channel {
        ChannelKind::Email | ChannelKind::Sms if class == Class::Critical => EVIDENCE_WAIT_MS,
        ChannelKind::InApp | ChannelKind::Push | ChannelKind::Webhook => EVIDENCE_WAIT_MS,
        ChannelKind::Email => EVIDENCE_WAIT_EMAIL_MS,
        ChannelKind::Sms => EVIDENCE_WAIT_SMS_MS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChannelKind::{Email, InApp, Push, Sms, Webhook};
    use Class::{Bulk, Critical, Transactional};
    use Lookup::{Missing, Possible, Silent};
    use Resolution::{GiveUp, LookUp, Resend};

    #[test]
    fn lane_and_category_give_the_class() {
        for (lane, category, expected) in [
            (Priority::Critical, "security", Critical),
            (Priority::Critical, "marketing", Critical),
            (Priority::High, "message", Transactional),
            (Priority::High, "marketing", Bulk),
            (Priority::Normal, "", Transactional),
            (Priority::Normal, "digest", Bulk),
            (Priority::Low, "message", Bulk),
        ] {
            assert_eq!(Class::of(lane, category), expected, "{lane:?} {category}");
        }
    }

    // proves: DED-01
    #[test]
    fn class_and_channel_decide_about_a_copy() {
        // (class, channels, lookup, never resent, resent once)
        for (class, channels, lookup, first, second) in [
            (Critical, &ChannelKind::ALL[..], Missing, Resend, GiveUp),
            (Critical, &ChannelKind::ALL[..], Possible, Resend, LookUp),
            (Critical, &ChannelKind::ALL[..], Silent, Resend, GiveUp),
            (Transactional, &[InApp, Push, Webhook][..], Missing, Resend, GiveUp),
            (Transactional, &[InApp, Push, Webhook][..], Possible, Resend, LookUp),
            (Transactional, &[Email, Sms][..], Missing, Resend, GiveUp),
            (Transactional, &[Email, Sms][..], Possible, LookUp, LookUp),
            (Transactional, &[Email, Sms][..], Silent, Resend, GiveUp),
            (Bulk, &ChannelKind::ALL[..], Missing, GiveUp, GiveUp),
            (Bulk, &ChannelKind::ALL[..], Possible, LookUp, LookUp),
            (Bulk, &ChannelKind::ALL[..], Silent, GiveUp, GiveUp),
        ] {
            for channel in channels {
                let ask = Ask { class, channel: *channel, resends: 0, lookup, paid: false };
                assert_eq!(resolve_unknown(&ask), first, "{ask:?}");
                let ask = Ask { resends: 1, ..ask };
                assert_eq!(resolve_unknown(&ask), second, "{ask:?}");
            }
        }
    }

    #[test]
    fn a_paid_copy_is_sent_again_only_if_it_is_critical() {
        for (class, lookup, expected) in [
            (Critical, Possible, Resend),
            (Transactional, Missing, GiveUp),
            (Transactional, Possible, LookUp),
            (Transactional, Silent, GiveUp),
            (Bulk, Silent, GiveUp),
        ] {
            let ask = Ask { class, channel: Sms, resends: 0, lookup, paid: true };
            assert_eq!(resolve_unknown(&ask), expected, "{ask:?}");
        }
    }

    #[test]
    fn who_waits_for_it_does_not_wait_for_evidence() {
        for (class, channel, expected) in [
            (Critical, Sms, 5_000),
            (Critical, Email, 5_000),
            (Transactional, Push, 5_000),
            (Transactional, Sms, 120_000),
            (Bulk, Email, 600_000),
        ] {
            assert_eq!(evidence_wait_ms(class, channel), expected, "{class:?} {channel:?}");
        }
    }
}
