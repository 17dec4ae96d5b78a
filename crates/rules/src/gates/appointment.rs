//! The gate of the producer's wish: what is to be told at a time of the recipient's own day waits for it, however urgent it
//! is. Whoever says both is taken at the word.

use super::{Ask, Person, Reason, Verdict};
use crate::ids::Millis;
use crate::schedule::Appointment;

#[must_use]
pub fn check(ask: &Ask, person: &Person, now: Millis) -> Option<Verdict> {
    let reason = match ask.appointment? {
        Appointment::At(_) => Reason::LocalTime,
        Appointment::OffPeak(_) => Reason::OffPeak,
    };
    (person.from > now).then_some(Verdict::Defer { until: Some(person.from), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel_kind::ChannelKind;
    use crate::priority::Priority;
    use crate::quiet::{Days, Times, Window};
    use crate::schedule::SendAtLocal;

    // proves: SCH-01, SCH-02
    #[test]
    fn what_has_a_time_waits_for_it() {
        let noon = Appointment::At(SendAtLocal::parse("12:00").expect("a time"));
        let times = Times { start_minute: 60, end_minute: 300 };
        let night = Appointment::OffPeak(Window::new(times, Days::ALL).expect("a window"));
        let push = Ask::new(ChannelKind::Push);
        let (at_noon, off_peak) =
            (Ask { appointment: Some(noon), ..push }, Ask { appointment: Some(night), ..push });
        let critical = Ask { lane: Priority::Critical, ..at_noon };
        let waits = |reason| Some(Verdict::Defer { until: Some(Millis(10)), reason });
        for (ask, now, expected) in [
            (at_noon, 9, waits(Reason::LocalTime)),
            (critical, 9, waits(Reason::LocalTime)),
            (off_peak, 9, waits(Reason::OffPeak)),
            (at_noon, 10, None),
            (off_peak, 11, None),
            (push, 9, None),
        ] {
            let person = Person { from: Millis(10), ..Person::default() };
            assert_eq!(check(&ask, &person, Millis(now)), expected, "{ask:?} {now}");
        }
    }
}
