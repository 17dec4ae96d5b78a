//! Entries that a user has and does not see.
//!
//! Comes from: `inbox`, for a page or for counts. Decides: what was retracted, what sleeps, and what the user did not want to
//! see when it arrived, unless it is critical or the tenant insists. Goes to: pages, which leave it out, and counts, which
//! take it away.

use super::{BEYOND, Pages, UserInbox, clip};
use crate::tables::retracted;
use crate::tables::taken::{Reach, TakenEvent};
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::TablesError;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, ListId};
use fantail_rules::interval::Interval;
use fantail_rules::limits::INBOX_HIDDEN_LOOKED_AT_MAX;
use fantail_rules::merge::{Direction, merge};
use std::collections::BTreeSet;

/// Entries that are looked at together to find out which of them are not wanted.
const UNWANTED_AT_ONCE: usize = 1_000;

impl UserInbox<'_> {
    /// Entries that exist but do not count now: retracted, snoozed, or not wanted here.
    pub(super) fn hidden(&self) -> Result<BTreeSet<Arrival>, TablesError> {
        let marks = &self.marks;
        // Nothing at or below both watermarks counts, unless it was flagged unread. The archive's does not matter
        // here: entries below it count again once they are unarchived.
        let floor =
            if marks.unread_flags > 0 { Arrival::START } else { marks.read_through.min(marks.seen_through) };
        let range = ArrivalRange { after: floor.max(self.progress.horizon), before: BEYOND };
        let mut hidden: BTreeSet<Arrival> = self.retracted(range)?.into_iter().collect();
        let asleep = marks.snoozed.iter().filter(|(_, until)| *until > self.now);
        hidden.extend(asleep.map(|(arrival, _)| *arrival).filter(|a| *a > self.progress.horizon));
        self.unwanted(range, &mut hidden)?;
        Ok(hidden)
    }

    /// Entries of a range that the user does not want to see. The newest are looked at one by one; what lies further back
    /// counts whether it is wanted or not.
    fn unwanted(&self, range: ArrivalRange, hidden: &mut BTreeSet<Arrival>) -> Result<(), TablesError> {
        let stretches: Vec<_> = self.marks.turns.hiding().collect();
        let mut pages = Pages { inbox: self, current: None };
        let mut looked_at = 0;
        for (from, until) in stretches.into_iter().rev() {
            let mut within = clip(range, Interval { from, until });
            while within.after.next() < within.before {
                let sources = self.sources(within, Direction::NewestFirst, UNWANTED_AT_ONCE)?;
                let merged = merge(Direction::NewestFirst, &sources);
                looked_at += merged.arrivals.len();
                for arrival in merged.arrivals {
                    if pages.taken(arrival)?.is_some_and(|taken| self.hides(arrival, taken)) {
                        hidden.insert(arrival);
                    }
                }
                let Some(next) = merged.resume else { break };
                if looked_at >= INBOX_HIDDEN_LOOKED_AT_MAX {
                    return Ok(());
                }
                within.before = next;
            }
        }
        Ok(())
    }

    /// Whether the user does not want to see this.
    pub(super) fn hides(&self, arrival: Arrival, taken: TakenEvent) -> bool {
        let (Reach::Written(_, about) | Reach::Pointer(_, about)) = taken.reach else { return false };
        let insists = || self.policies.of(self.tenant, about.category).mandatory.contains(ChannelKind::InApp);
        !about.is_critical && self.marks.turns.hides(about.category, arrival) && !insists()
    }

    /// Retracted events inside a range that this user had: walks the shorter of two lists.
    fn retracted(&self, range: ArrivalRange) -> Result<Vec<Arrival>, TablesError> {
        if self.progress.retracted == 0 {
            return Ok(Vec::new());
        }
        let mut found = self.walked(range)?;
        if self.progress.retracted <= 64 + 4 * self.follows.len() as u64 {
            for (arrival, list) in retracted::inside(self.tables, self.tenant, range)? {
                if self.had(arrival, list)? {
                    found.push(arrival);
                }
            }
            return Ok(found);
        }
        let given = retracted::of_list(self.tables, self.tenant, retracted::GIVEN, range)?;
        for arrival in given {
            if self.had(arrival, retracted::GIVEN)? {
                found.push(arrival);
            }
        }
        for followed in &self.follows {
            let of_list = retracted::of_list(self.tables, self.tenant, followed.list, range)?;
            found.extend(of_list.into_iter().filter(|arrival| followed.intervals.contains(*arrival)));
        }
        Ok(found)
    }

    /// Retracted walks that passed this user: few, and each is asked for where the user has it.
    fn walked(&self, range: ArrivalRange) -> Result<Vec<Arrival>, TablesError> {
        let all = ArrivalRange { after: Arrival::START, before: BEYOND };
        let mut found = Vec::new();
        for home in retracted::of_list(self.tables, self.tenant, retracted::WALKED, all)? {
            found.extend(self.passed(home)?.filter(|arrival| range.contains(*arrival)));
        }
        Ok(found)
    }

    fn had(&self, arrival: Arrival, list: ListId) -> Result<bool, TablesError> {
        match list {
            retracted::GIVEN => self.in_inbox(arrival),
            // They are found by `walked`, whatever the range.
            retracted::WALKED => Ok(false),
            list => Ok(self.was_on(list, arrival)),
        }
    }

    /// What lies inside a range and was taken back, but for what walks brought.
    pub(super) fn gone(&self, range: ArrivalRange) -> Result<BTreeSet<Arrival>, TablesError> {
        if self.progress.retracted == 0 {
            return Ok(BTreeSet::new());
        }
        let all = retracted::inside(self.tables, self.tenant, range)?;
        Ok(all.into_iter().map(|(arrival, _)| arrival).collect())
    }

    /// Whether a walk brought it, and was taken back.
    pub(super) fn is_walked_back(&self, taken: TakenEvent) -> Result<bool, TablesError> {
        match taken.reach {
            Reach::Walked { home, .. } if self.progress.retracted > 0 => {
                retracted::is(self.tables, self.tenant, home)
            }
            Reach::Walked { .. } | Reach::Given | Reach::Written(..) | Reach::Pointer(..) => Ok(false),
        }
    }
}
