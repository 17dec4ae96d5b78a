//! One user's inbox: runs up to `materialised_through`, recent events above it, nothing above `reached`.
//!
//! Runs lie behind each other in time: the newest page is in the newest of them, and a count asks each for a number.

use super::partition::TenantInbox;
use crate::inbox::hot::{ENTRIES_MAX, Hot, HotPage};
use crate::inbox::run::Look;
use crate::inbox::{Owner, Runs};
use fantail_ports::inbox::{ArrivalRange, Reader};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, PartitionId};
use std::sync::Arc;

pub struct UserInbox<'a> {
    runs: &'a Runs,
    hot: &'a Hot,
    tenant: &'a TenantInbox,
    owner: Owner,
}

impl<'a> UserInbox<'a> {
    pub fn new(
        runs: &'a Runs,
        hot: &'a Hot,
        partition: PartitionId,
        tenant: &'a TenantInbox,
        reader: &Reader<'_>,
    ) -> Self {
        let owner = Owner { partition, tenant: reader.tenant, user: reader.user };
        Self { runs, hot, tenant, owner }
    }

    pub fn page(
        &self,
        reader: &Reader<'_>,
        range: ArrivalRange,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<Arrival>, TablesError> {
        let mut recent = self.tenant.recent.arrivals(reader.user, reader.follows, self.recent_part(range));
        let mut page = Vec::new();
        if newest_first {
            page.extend(recent.into_iter().rev().take(limit));
            if page.len() < limit {
                self.newest(self.runs_part(range), limit, &mut page)?;
            }
        } else {
            let mut buffer = Vec::new();
            let mut look = self.look(self.runs_part(range), &mut buffer);
            for run in self.runs.iter() {
                run.oldest(&mut look, limit, &mut page)?;
            }
            recent.truncate(limit - page.len());
            page.extend(recent);
        }
        Ok(page)
    }

    pub fn count(&self, reader: &Reader<'_>, range: ArrivalRange) -> Result<u64, TablesError> {
        let recent = self.tenant.recent.arrivals(reader.user, reader.follows, self.recent_part(range));
        let mut count = recent.len() as u64;
        let mut buffer = Vec::new();
        let mut look = self.look(self.runs_part(range), &mut buffer);
        for run in self.runs.iter() {
            count += run.count(&mut look)?;
        }
        Ok(count)
    }

    /// Runs may hold events that this state has not reached, during a replay: they are not there yet.
    fn runs_part(&self, range: ArrivalRange) -> ArrivalRange {
        let through = self.tenant.materialised_through.min(self.tenant.reached);
        ArrivalRange { after: range.after, before: range.before.min(through.next()) }
    }

    fn recent_part(&self, range: ArrivalRange) -> ArrivalRange {
        ArrivalRange { after: range.after.max(self.tenant.materialised_through), before: range.before }
    }

    fn look<'b>(&self, range: ArrivalRange, buffer: &'b mut Vec<u8>) -> Look<'b> {
        Look::new(self.owner.tenant, self.owner.user, range, buffer)
    }

    /// Adds the newest entries inside `range`: from memory if it begins at the newest one and the user reads often.
    fn newest(&self, range: ArrivalRange, limit: usize, page: &mut Vec<Arrival>) -> Result<(), TablesError> {
        let through = self.tenant.materialised_through;
        let is_newest = range.before == through.next() && through <= self.tenant.reached;
        if !is_newest || limit > ENTRIES_MAX {
            return self.newest_in_runs(range, limit, page);
        }
        let hot = self.hot_page(through, limit)?;
        let wanted = hot.arrivals.iter().copied().filter(|arrival| range.contains(*arrival));
        page.extend(wanted.take(limit - page.len()));
        match hot.arrivals.last() {
            Some(last) if !hot.is_whole && page.len() < limit && *last > range.after => {
                self.newest_in_runs(ArrivalRange { after: range.after, before: *last }, limit, page)
            }
            _ => Ok(()),
        }
    }

    fn newest_in_runs(
        &self,
        range: ArrivalRange,
        limit: usize,
        page: &mut Vec<Arrival>,
    ) -> Result<(), TablesError> {
        let mut buffer = Vec::new();
        let mut look = self.look(range, &mut buffer);
        for run in self.runs.iter().rev() {
            let is_older =
                run.section(self.owner.tenant).is_some_and(|section| section.through <= range.after);
            if page.len() >= limit || is_older {
                break;
            }
            run.newest(&mut look, limit, page)?;
        }
        Ok(())
    }

    /// The user's newest entries through `through`, at least `limit` of them if there are so many.
    fn hot_page(&self, through: Arrival, limit: usize) -> Result<Arc<HotPage>, TablesError> {
        let known = self.hot.get(self.owner).filter(|page| page.is_whole || page.arrivals.len() >= limit);
        if let Some(page) = &known
            && page.through == through
        {
            return Ok(Arc::clone(page));
        }
        let older = known.as_ref().map_or(Arrival::START, |page| page.through);
        let range = ArrivalRange { after: older, before: through.next() };
        let mut arrivals = Vec::new();
        self.newest_in_runs(range, limit, &mut arrivals)?;
        let mut is_whole = arrivals.len() < limit;
        if let Some(page) = known.filter(|_| is_whole) {
            let room = ENTRIES_MAX - arrivals.len();
            is_whole = page.is_whole && page.arrivals.len() <= room;
            arrivals.extend(page.arrivals.iter().take(room));
        }
        let page = Arc::new(HotPage { through, arrivals, is_whole });
        self.hot.put(self.owner, Arc::clone(&page));
        Ok(page)
    }
}
