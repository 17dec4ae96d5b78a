//! Neighbouring runs become one. They lie behind each other in time, so a user's segments are put one behind the
//! other as they are; entries that nobody will ask for again are left out on the way.

use super::contents::Section;
use super::run::Run;
use super::segment::{Joined, Segment};
use super::writer::RunWriter;
use fantail_ports::store::StoreError;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, TenantId, UserNo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is dropped when runs are rewritten.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    /// Of each tenant, everything at or below.
    pub through: BTreeMap<TenantId, Arrival>,
    pub users: BTreeSet<(TenantId, UserNo)>,
}

impl Gone {
    pub fn through(&self, tenant: TenantId) -> Arrival {
        self.through.get(&tenant).copied().unwrap_or_default()
    }
}

/// Writes what is left of `runs`, oldest first, behind each other.
pub fn merge(runs: &[Arc<Run>], gone: &Gone, writer: &mut RunWriter<'_>) -> Result<(), StoreError> {
    let tenants: BTreeSet<TenantId> =
        runs.iter().flat_map(|run| run.sections.iter().map(|section| section.tenant)).collect();
    for tenant in tenants {
        let mut parts = Vec::new();
        for run in runs {
            parts.extend(run.section(tenant).map(|section| (run, section)));
        }
        merge_tenant(tenant, &parts, gone, writer)?;
    }
    Ok(())
}

fn merge_tenant(
    tenant: TenantId,
    parts: &[(&Arc<Run>, &Section)],
    gone: &Gone,
    writer: &mut RunWriter<'_>,
) -> Result<(), StoreError> {
    let (Some((_, oldest)), Some((_, newest))) = (parts.first(), parts.last()) else { return Ok(()) };
    let horizon = gone.through(tenant).max(oldest.after);
    if newest.through <= horizon {
        return Ok(());
    }
    writer.begin_section(tenant, horizon, newest.through)?;
    let mut cursors = Vec::new();
    for (run, section) in parts.iter().filter(|(_, section)| section.through > horizon) {
        cursors.extend(Cursor::begin(run, section, horizon)?);
    }
    let mut joined = Joined::default();
    // Few runs are merged at a time: looking at each is cheaper than a heap.
    while let Some(user) = cursors.iter().map(|cursor| cursor.user).min() {
        let is_gone = gone.users.contains(&(tenant, UserNo(user)));
        joined.clear();
        let mut at = 0;
        while at < cursors.len() {
            let cursor = &mut cursors[at];
            let mut goes_on = true;
            while goes_on && cursor.user == user {
                if !is_gone {
                    cursor.copy(&mut joined, writer)?;
                }
                goes_on = cursor.advance()?;
            }
            if goes_on {
                at += 1;
            } else {
                cursors.remove(at);
            }
        }
        if joined.count > 0 {
            writer.push(user, &joined)?;
        }
    }
    Ok(())
}

/// Walks the segments of one section.
struct Cursor<'a> {
    run: &'a Run,
    block: usize,
    blocks_end: usize,
    bytes: Vec<u8>,
    /// Where the segment after the current one begins.
    next: usize,
    /// Where the current segment begins, and the user before it.
    at: usize,
    before: u64,
    user: u64,
    /// What its offsets are moved by, wrapping: those that are kept end up above zero.
    by: u64,
    /// Offsets at or below are left out.
    keep_above: u64,
}

impl<'a> Cursor<'a> {
    fn begin(run: &'a Run, section: &Section, base: Arrival) -> Result<Option<Self>, TablesError> {
        let mut cursor = Self {
            run,
            block: section.blocks.start,
            blocks_end: section.blocks.end,
            bytes: Vec::new(),
            next: 0,
            at: 0,
            before: 0,
            user: 0,
            by: section.after.0.wrapping_sub(base.0),
            keep_above: base.0.saturating_sub(section.after.0),
        };
        if cursor.block == cursor.blocks_end {
            return Ok(None);
        }
        cursor.load()?;
        Ok(Some(cursor))
    }

    fn load(&mut self) -> Result<(), TablesError> {
        let checked = self.run.block(self.block, &mut self.bytes)?.len();
        self.next = self.bytes.len() - checked;
        self.user = self.run.block_user(self.block);
        self.step()
    }

    /// Goes to the next segment; `false` at the end of the section.
    fn advance(&mut self) -> Result<bool, TablesError> {
        if self.next < self.bytes.len() {
            self.step()?;
            return Ok(true);
        }
        self.block += 1;
        if self.block == self.blocks_end {
            return Ok(false);
        }
        self.load()?;
        Ok(true)
    }

    #[inline]
    fn step(&mut self) -> Result<(), TablesError> {
        (self.at, self.before) = (self.next, self.user);
        let mut rest = &self.bytes[self.at..];
        let segment =
            Segment::take(&mut rest, self.before).ok_or_else(|| self.run.damaged_block(self.block))?;
        (self.user, self.next) = (segment.user, self.bytes.len() - rest.len());
        Ok(())
    }

    /// Puts the current segment behind what the user has, without what is left out.
    #[inline]
    fn copy(&self, joined: &mut Joined, writer: &mut RunWriter<'_>) -> Result<(), StoreError> {
        let mut rest = &self.bytes[self.at..self.next];
        let segment =
            Segment::take(&mut rest, self.before).ok_or_else(|| self.run.damaged_block(self.block))?;
        if !joined.fits(segment.count) {
            writer.push(self.user, joined)?;
            joined.clear();
        }
        if segment.first > self.keep_above {
            joined.append(&segment, self.by);
        } else {
            let kept = segment.offsets().filter(|offset| *offset > self.keep_above);
            kept.for_each(|offset| joined.push(offset.wrapping_add(self.by)));
        }
        Ok(())
    }
}
