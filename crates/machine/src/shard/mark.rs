//! Marks: read, seen, archived, snoozed, deleted; one, many or all.
//!
//! Comes from: the inbox API, with ids resolved to arrivals that the user has.
//! Decides: which flag rows change and in which steps a watermark moves, so that no record touches too many rows.
//! Goes to: `Marked`, `Moved` and `Cleared`; the arithmetic is `rules::marks`. What is looked at by its id spares steps that wait,
//! see `fallback`; those of entries that are marked all at once find out when their time comes.

use super::serve::Known;
use super::{Plan, ShardAnswer, fallback};
use crate::Planned;
use crate::records::shard::ShardRecord;
use crate::tables::{mark, progress, put, user};
use crate::view::View;
use fantail_ports::tables::{Order, TablesError};
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::limits::{MARK_ROWS_PER_RECORD_MAX, SNOOZED_MAX};
use fantail_rules::marks::{Flags, Mark, Marks, Watermark};

#[derive(Clone, Debug)]
pub enum Ask {
    /// Arrivals that the user has; any order.
    Some { mark: Mark, arrivals: Vec<Arrival> },
    /// Everything up to and including `through` (everything at all for `Unread` and `Unarchive`).
    All { mark: Mark, through: Arrival },
}

const EVERYTHING: Arrival = Arrival(u64::MAX - 1);

pub(super) fn plan(
    view: &View<'_>,
    (tenant, user): (TenantId, UserNo),
    ask: Ask,
    known: Known<'_>,
) -> Result<Plan, TablesError> {
    if user::find(view, tenant, user)?.is_none() {
        return Ok(Planned::nothing(ShardAnswer::UnknownUser));
    }
    let planner = Planner { view, tenant, user, marks: mark::find(view, tenant, user)? };
    match ask {
        Ask::Some { mark, arrivals } => {
            let Planned { records, answer } = planner.some(mark, arrivals.clone(), known.now)?;
            let is_look = is_look(mark) && known.policies.has_fallback(tenant);
            let looked_at = if is_look { arrivals.as_slice() } else { &[] };
            let records = fallback::looked_at(view, records, (tenant, user), looked_at, known.now)?;
            Ok(Planned { records, answer })
        }
        Ask::All { mark, through } => {
            let through = through.min(progress::find(view, tenant)?.last);
            Ok(Planned { records: planner.all(mark, through)?, answer: ShardAnswer::Marked })
        }
    }
}

/// Whether it shows that the user has looked at the entries.
fn is_look(mark: Mark) -> bool {
    match mark {
        Mark::Read | Mark::Seen | Mark::Archive | Mark::Snooze { .. } | Mark::Delete => true,
        Mark::Unread | Mark::Unarchive | Mark::Unsnooze => false,
    }
}

struct Planner<'a> {
    view: &'a View<'a>,
    tenant: TenantId,
    user: UserNo,
    marks: Marks,
}

impl Planner<'_> {
    fn some(&self, mark: Mark, mut arrivals: Vec<Arrival>, now: Millis) -> Result<Plan, TablesError> {
        arrivals.sort_unstable();
        arrivals.dedup();
        if let Mark::Snooze { .. } = mark {
            let others = self.marks.snoozed.iter();
            let kept = others.filter(|(arrival, until)| *until > now && !arrivals.contains(arrival)).count();
            if kept + arrivals.len() > SNOOZED_MAX {
                return Ok(Planned::nothing(ShardAnswer::TooManySnoozed));
            }
        }
        Ok(Planned { records: self.marked(mark, &arrivals), answer: ShardAnswer::Marked })
    }

    fn all(&self, mark: Mark, through: Arrival) -> Result<Vec<ShardRecord>, TablesError> {
        let marks = &self.marks;
        let mut records = Vec::new();
        match mark {
            Mark::Read => {
                if marks.unread_flags > 0 {
                    let below =
                        self.with_flag(Flags::UNREAD, Arrival::START, through.min(marks.read_through))?;
                    records.extend(self.marked(Mark::Read, &below));
                }
                self.move_up(Watermark::Seen, through, &mut records)?;
                self.move_up(Watermark::Read, through, &mut records)?;
            }
            Mark::Seen => self.move_up(Watermark::Seen, through, &mut records)?,
            Mark::Archive => {
                let below =
                    self.with_flag(Flags::UNARCHIVED, Arrival::START, through.min(marks.archived_through))?;
                records.extend(self.marked(Mark::Archive, &below));
                self.move_up(Watermark::Archived, through, &mut records)?;
            }
            Mark::Unread => {
                let above = self.with_flag(Flags::READ, marks.read_through, EVERYTHING)?;
                records.extend(self.marked(Mark::Unread, &above));
                self.move_down(Watermark::Read, &mut records)?;
            }
            Mark::Unarchive => {
                let above = self.with_flag(Flags::ARCHIVED, marks.archived_through, EVERYTHING)?;
                records.extend(self.marked(Mark::Unarchive, &above));
                self.move_down(Watermark::Archived, &mut records)?;
            }
            // Entries are snoozed and deleted one by one only.
            Mark::Snooze { .. } | Mark::Unsnooze | Mark::Delete => {}
        }
        Ok(records)
    }

    fn marked(&self, mark: Mark, arrivals: &[Arrival]) -> Vec<ShardRecord> {
        let (tenant, user) = (self.tenant, self.user);
        arrivals
            .chunks(MARK_ROWS_PER_RECORD_MAX)
            .map(|arrivals| ShardRecord::Marked { tenant, user, mark, arrivals: arrivals.to_vec() })
            .collect()
    }

    fn with_flag(&self, flag: u8, after: Arrival, through: Arrival) -> Result<Vec<Arrival>, TablesError> {
        let rows = self.rows(after, through, Order::Ascending)?;
        Ok(rows.into_iter().filter(|(_, flags)| flags.has(flag)).map(|(arrival, _)| arrival).collect())
    }

    fn rows(
        &self,
        after: Arrival,
        through: Arrival,
        order: Order,
    ) -> Result<Vec<(Arrival, Flags)>, TablesError> {
        mark::flagged(self.view, self.tenant, self.user, after, through, order, usize::MAX)
    }

    /// Steps upwards, each over at most so many flag rows.
    fn move_up(
        &self,
        watermark: Watermark,
        to: Arrival,
        records: &mut Vec<ShardRecord>,
    ) -> Result<(), TablesError> {
        let from = self.marks.watermark(watermark);
        if to <= from {
            return Ok(());
        }
        let rows = self.rows(from, to, Order::Ascending)?;
        for full in rows.chunks_exact(MARK_ROWS_PER_RECORD_MAX) {
            let (last, _) = full[full.len() - 1];
            if last < to {
                records.push(self.moved(watermark, last));
            }
        }
        records.push(self.moved(watermark, to));
        Ok(())
    }

    /// Steps down to the start.
    fn move_down(&self, watermark: Watermark, records: &mut Vec<ShardRecord>) -> Result<(), TablesError> {
        let from = self.marks.watermark(watermark);
        if from == Arrival::START {
            return Ok(());
        }
        let rows = self.rows(Arrival::START, from, Order::Descending)?;
        for full in rows.chunks_exact(MARK_ROWS_PER_RECORD_MAX) {
            let (last, _) = full[full.len() - 1];
            if last.0 > 1 {
                records.push(self.moved(watermark, Arrival(last.0 - 1)));
            }
        }
        records.push(self.moved(watermark, Arrival::START));
        Ok(())
    }

    fn moved(&self, watermark: Watermark, to: Arrival) -> ShardRecord {
        ShardRecord::Moved { tenant: self.tenant, user: self.user, watermark, to }
    }
}

pub(super) fn apply(
    view: &mut View<'_>,
    tenant: TenantId,
    user: UserNo,
    mark: Mark,
    arrivals: &[Arrival],
    at: Millis,
) -> Result<(), TablesError> {
    let mut marks = mark::find(view, tenant, user)?;
    for arrival in arrivals {
        match mark {
            Mark::Snooze { until } => {
                let fits = marks.snooze(*arrival, Some(until), at);
                assert!(fits, "plan counted the snoozed entries");
            }
            Mark::Unsnooze => {
                marks.snooze(*arrival, None, at);
            }
            Mark::Read | Mark::Unread | Mark::Seen | Mark::Archive | Mark::Unarchive | Mark::Delete => {
                let old = mark::flags(view, tenant, user, *arrival)?;
                let new = old.after(mark);
                marks.reflag(*arrival, old, new);
                mark::set_flags(view, tenant, user, *arrival, new);
            }
        }
    }
    put(view, mark::key(tenant, user), &marks);
    Ok(())
}

pub(super) fn apply_moved(
    view: &mut View<'_>,
    tenant: TenantId,
    user: UserNo,
    watermark: Watermark,
    to: Arrival,
) -> Result<(), TablesError> {
    let mut marks = mark::find(view, tenant, user)?;
    let from = marks.watermark(watermark);
    let rows = mark::flagged(view, tenant, user, from.min(to), from.max(to), Order::Ascending, usize::MAX)?;
    for (arrival, flags) in marks.move_watermark(watermark, to, &rows) {
        mark::set_flags(view, tenant, user, arrival, flags);
    }
    put(view, mark::key(tenant, user), &marks);
    Ok(())
}

pub(super) fn apply_cleared(
    view: &mut View<'_>,
    tenant: TenantId,
    user: UserNo,
    arrivals: &[Arrival],
) -> Result<(), TablesError> {
    let mut marks = mark::find(view, tenant, user)?;
    for arrival in arrivals {
        let flags = mark::flags(view, tenant, user, *arrival)?;
        marks.reflag(*arrival, flags, Flags::default());
        mark::set_flags(view, tenant, user, *arrival, Flags::default());
    }
    put(view, mark::key(tenant, user), &marks);
    Ok(())
}
