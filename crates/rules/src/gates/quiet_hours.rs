//! The gate that waits: while the user's quiet window is in force, nothing rings but what is critical.
//!
//! The inbox is not held back: it wakes nobody, and what was taken into it is there (DESIGN: visibility is a fact of Take).
//! A window whose zone nobody knows cannot be judged; then it is taken to be in force until the profile changes.

use super::{Ask, Profile, Reason, Verdict};
use crate::quiet::quiet_until_at;
use crate::wall::LocalNow;

/// `local` is the clock of the user's zone.
#[must_use]
pub fn check(ask: &Ask, profile: &Profile, local: Option<&LocalNow>) -> Option<Verdict> {
    let window = profile.quiet?;
    if ask.is_critical() || !ask.interrupts() {
        return None;
    }
    let Some(local) = local else {
        return Some(Verdict::Defer { until: None, reason: Reason::QuietHoursNoZone });
    };
    let until = quiet_until_at(window, local)?;
    Some(Verdict::Defer { until: Some(until), reason: Reason::QuietHours })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel_kind::ChannelKind;
    use crate::ids::Millis;
    use crate::priority::Priority;
    use crate::quiet::{Days, Times, Window};
    use crate::zone::ZoneNo;

    /// 2026-06-09 23:00 in Berlin.
    const LATE: Millis = Millis(1_781_038_800_000);

    // proves: QH-03, QH-04, QH-05
    #[test]
    fn only_what_may_ring_waits_for_the_morning() {
        let times = Times { start_minute: 1_320, end_minute: 420 };
        let quiet = Profile { quiet: Window::new(times, Days::ALL), ..Profile::default() };
        let berlin = LocalNow::new(ZoneNo::find("Europe/Berlin").expect("a zone"), LATE);
        let morning = Verdict::Defer { until: Some(LATE.plus(8 * 3_600_000)), reason: Reason::QuietHours };
        let no_zone = Verdict::Defer { until: None, reason: Reason::QuietHoursNoZone };
        let push = Ask::new(ChannelKind::Push);
        let critical = Ask { lane: Priority::Critical, ..push };
        let inbox = Ask::new(ChannelKind::InApp);
        for (ask, profile, local, expected) in [
            (push, quiet, berlin, Some(morning)),
            (push, quiet, None, Some(no_zone)),
            (push, Profile::default(), berlin, None),
            (push, Profile::default(), None, None), // no window, no deferral
            (critical, quiet, berlin, None),
            (critical, quiet, None, None),
            (inbox, quiet, berlin, None),
            (inbox, quiet, None, None),
            (Ask::new(ChannelKind::Email), quiet, berlin, Some(morning)),
            (Ask::new(ChannelKind::Sms), quiet, berlin, Some(morning)),
            (Ask::new(ChannelKind::Webhook), quiet, berlin, Some(morning)),
            (
                push,
                quiet,
                berlin.and_then(|local| LocalNow::new(local.zone, local.now.plus(8 * 3_600_000))),
                None,
            ),
        ] {
            assert_eq!(check(&ask, &profile, local.as_ref()), expected, "{ask:?} {profile:?}");
        }
    }
}
