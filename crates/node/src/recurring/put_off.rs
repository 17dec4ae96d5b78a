//! Which runs are next, and those that cannot be issued for now. In memory only: a start tries each at once.

use fantail_machine::tables::schedule::Waiting;
use fantail_rules::fair_queue::FairQueue;
use fantail_rules::ids::{Millis, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// What cannot be issued for now is tried again after this, doubled up to the maximum.
const PAUSE_MS: u64 = 1_000;
const PAUSE_MS_MAX: u64 = 60_000;
/// Runs whose rest is remembered. Further ones are tried again once a second.
const PUT_OFF_MAX: usize = 4_096;

/// Runs that cannot be issued for now. Each rests by itself and holds up no other one.
#[derive(Default)]
pub struct PutOff {
    rests: BTreeMap<(Millis, TenantId, String), Rest>,
    /// All schedules were planned with the time zones of this build.
    pub(super) is_replanned: bool,
}

/// How often a run was put off, and until when on the steady clock.
struct Rest {
    times: u32,
    until: Millis,
}

impl PutOff {
    fn is_full(&self) -> bool {
        self.rests.len() >= PUT_OFF_MAX
    }

    pub(super) fn add(&mut self, one: &Waiting, now: Millis) {
        if self.is_full() && !self.rests.contains_key(&key(one)) {
            return;
        }
        let rest = self.rests.entry(key(one)).or_insert(Rest { times: 0, until: now });
        let after_ms = PAUSE_MS.saturating_mul(1 << rest.times.min(8)).min(PAUSE_MS_MAX);
        *rest = Rest { times: rest.times.saturating_add(1), until: now.plus(after_ms) };
    }

    pub(super) fn rests(&self, one: &Waiting, now: Millis) -> bool {
        self.rests.get(&key(one)).is_some_and(|rest| rest.until > now)
    }

    /// Forgets what waits no more.
    pub(super) fn keep(&mut self, waiting: &[Waiting]) {
        if !self.rests.is_empty() {
            let waiting: BTreeSet<_> = waiting.iter().map(key).collect();
            self.rests.retain(|one, _| waiting.contains(one));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rests.len()
    }

    /// A pause before the next look, if not all are remembered.
    pub(super) fn pause_ms(&self) -> Option<u64> {
        self.is_full().then_some(PAUSE_MS)
    }

    /// After how many milliseconds the next run is looked for: at once if there are more than were looked at, unless a run that
    /// failed may not be remembered. `later_ms` is when the next one is due.
    pub(super) fn again_ms(&self, has_more: bool, later_ms: Option<u64>, now: Millis) -> Option<u64> {
        if has_more {
            return Some(self.pause_ms().unwrap_or(0));
        }
        later_ms.into_iter().chain(self.next_ms(now)).min()
    }

    /// After how many milliseconds the first of them is tried again.
    fn next_ms(&self, now: Millis) -> Option<u64> {
        let until = self.rests.values().map(|rest| rest.until).min()?;
        Some(until.since(now).max(self.pause_ms().unwrap_or(1)))
    }
}

fn key(one: &Waiting) -> (Millis, TenantId, String) {
    (one.due, one.tenant, one.id.clone())
}

/// The first runs if tenants take turns: a run may take long to issue, and those of one tenant do not hold up all others.
pub(super) fn in_turns(due: Vec<Waiting>, limit: usize) -> Vec<Waiting> {
    let mut queue = FairQueue::new(usize::MAX);
    for one in due {
        let has_room = queue.push(one.tenant, one);
        debug_assert!(has_room, "the queue is as large as can be");
    }
    std::iter::from_fn(|| queue.pop()).take(limit).map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(due: u64, id: &str) -> Waiting {
        Waiting { due: Millis(due), tenant: TenantId(1), id: id.to_owned() }
    }

    // fixes: correctness A6
    #[test]
    fn a_run_that_fails_rests_longer_each_time_and_holds_up_no_other() {
        let (bad, good) = (waiting(1, "bad"), waiting(2, "good"));
        let mut put_off = PutOff::default();
        for (now, until) in [(0, 1_000), (1_000, 3_000), (3_000, 7_000)] {
            put_off.add(&bad, Millis(now));
            assert!(put_off.rests(&bad, Millis(until - 1)) && !put_off.rests(&bad, Millis(until)));
            assert!(!put_off.rests(&good, Millis(now)));
            assert_eq!(put_off.next_ms(Millis(now)), Some(until - now));
        }
        put_off.keep(&[good]);
        assert_eq!((put_off.len(), put_off.next_ms(Millis(0))), (0, None), "it waits no more");
    }

    #[test]
    fn memory_is_bounded_and_the_rest_is_tried_once_a_second() {
        let mut put_off = PutOff::default();
        (0..2 * PUT_OFF_MAX as u64).for_each(|due| put_off.add(&waiting(due, "one"), Millis(0)));
        assert_eq!((put_off.len(), put_off.pause_ms()), (PUT_OFF_MAX, Some(PAUSE_MS)));
        assert_eq!(
            put_off.again_ms(true, None, Millis(0)),
            Some(PAUSE_MS),
            "those that fail again are first"
        );
        assert_eq!(PutOff::default().again_ms(true, Some(5), Millis(0)), Some(0));
        assert_eq!(PutOff::default().again_ms(false, Some(5), Millis(0)), Some(5));
    }

    /// A hundred runs of one tenant are due before the single one of another.
    #[test]
    fn runs_of_tenants_take_turns() {
        let waiting =
            |tenant, no: u64| Waiting { due: Millis(no), tenant: TenantId(tenant), id: no.to_string() };
        let due: Vec<Waiting> = (0..100).map(|no| waiting(1, no)).chain([waiting(2, 500)]).collect();
        let first = in_turns(due, 4);
        assert_eq!(first, [waiting(1, 0), waiting(2, 500), waiting(1, 1), waiting(1, 2)]);
    }
}
