//! What was sent today by a sender that is still new. The curve is a rule; here is the count.
//!
//! The count is kept in memory: a process that starts again begins the day anew, so a restart can at most double a day.

use super::settings::WarmUp;
use fantail_rules::ids::Millis;
use fantail_rules::warm_up::{DAY_MS, allowed};
use std::sync::{Mutex, PoisonError};

pub struct Days {
    plan: Option<WarmUp>,
    today: Mutex<Today>,
}

#[derive(Default)]
struct Today {
    day: u64,
    used: u64,
}

impl Days {
    #[must_use]
    pub fn new(plan: Option<WarmUp>) -> Self {
        Self { plan, today: Mutex::default() }
    }

    /// One message of today; or how long the day still lasts, if it has no more. `now` is wall time.
    pub fn take(&self, now: Millis) -> Result<(), u64> {
        let Some(plan) = self.plan else { return Ok(()) };
        let day = now.0 / DAY_MS;
        // Before its first day it is as on that day.
        let of_plan = u32::try_from(day.saturating_sub(plan.first_day)).unwrap_or(u32::MAX);
        let Some(allowed) = allowed(of_plan, plan.target) else { return Ok(()) };
        let mut today = self.today.lock().unwrap_or_else(PoisonError::into_inner);
        if today.day != day {
            *today = Today { day, used: 0 };
        }
        if today.used >= allowed {
            return Err((day + 1) * DAY_MS - now.0);
        }
        today.used += 1;
        Ok(())
    }

    /// Puts back mails that were taken at this time and not sent. Mails of yesterday give today nothing.
    pub fn put_back(&self, taken_at: Millis) {
        let mut today = self.today.lock().unwrap_or_else(PoisonError::into_inner);
        if today.day == taken_at.0 / DAY_MS {
            today.used = today.used.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: EML-01
    #[test]
    fn each_day_has_its_amount() {
        let days = Days::new(Some(WarmUp { first_day: 100, target: 1_000_000 }));
        let morning = Millis(100 * DAY_MS + 1_000);
        let took = (0..100).filter(|_| days.take(morning).is_ok()).count();
        assert_eq!(took, 50);
        assert_eq!(days.take(morning), Err(DAY_MS - 1_000));
        days.put_back(morning);
        assert_eq!(days.take(morning), Ok(()));
        let tomorrow = morning.plus(DAY_MS);
        let took = (0..100).filter(|_| days.take(tomorrow).is_ok()).count();
        assert_eq!(Some(took as u64), allowed(1, 1_000_000), "the next day has its own");
        days.put_back(morning);
        assert!(days.take(tomorrow).is_err(), "what was not sent yesterday is no more for today");
        assert_eq!(days.take(Millis(145 * DAY_MS)), Ok(()), "warm");
    }

    #[test]
    fn who_is_known_has_no_limit() {
        let days = Days::new(None);
        assert!((0..1_000).all(|_| days.take(Millis(0)).is_ok()));
    }
}
