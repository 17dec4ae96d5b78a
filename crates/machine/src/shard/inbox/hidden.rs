//! What an inbox holds and does not show or count: what was taken back, and what is snoozed.

use super::{BEYOND, UserInbox};
use crate::tables::retracted;
use crate::tables::taken::{Reach, TakenEvent};
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, ListId};
use std::collections::BTreeSet;

impl UserInbox<'_> {
    /// Entries that exist but do not count now: retracted or snoozed.
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
        Ok(hidden)
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
            Reach::Walked { .. } | Reach::Given | Reach::Written(_) | Reach::Pointer(_) => Ok(false),
        }
    }
}
