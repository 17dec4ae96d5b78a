//! Recurring schedules, in the root: what they are, how they stand, and a timer for each that waits.
//!
//! ```text
//! 14 tenant id: text                 -> definition (see `records::schedule`), version: varint, created, updated
//! 27 tenant id: text                 -> next: option millis, last: option run
//! 28 due: u64 tenant: u32 id: text   -> nothing
//! ```
//! The last one is ordered by time for all tenants: the clock asks for it, never a caller. Definition and standing are two
//! rows because the audit log tells changes of the first one by their hashes.

use super::{Family, Key, Row, collect, get, put};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::schedule::{Definition, Run, option_millis};
use crate::view::View;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleRow {
    pub definition: Definition,
    pub version: u32,
    pub created: Millis,
    pub updated: Millis,
}

/// How a schedule stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    pub next: Option<Millis>,
    /// Of the runs that were not left out.
    pub last: Option<Run>,
}

/// A schedule that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    pub due: Millis,
    pub tenant: TenantId,
    pub id: String,
}

#[must_use]
pub fn key(tenant: TenantId, id: &str) -> Vec<u8> {
    Key::new(Family::Schedule, tenant).bytes(id.as_bytes()).finish()
}

#[must_use]
pub fn standing_key(tenant: TenantId, id: &str) -> Vec<u8> {
    Key::new(Family::ScheduleStanding, tenant).bytes(id.as_bytes()).finish()
}

#[must_use]
pub fn timer_key(due: Millis, tenant: TenantId, id: &str) -> Vec<u8> {
    let key = Key::of_partition(Family::ScheduleTimer).u64(due.0).bytes(&tenant.0.to_be_bytes());
    key.bytes(id.as_bytes()).finish()
}

pub fn find(tables: &dyn Tables, tenant: TenantId, id: &str) -> Result<Option<ScheduleRow>, TablesError> {
    get(tables, &key(tenant, id))
}

pub fn standing(tables: &dyn Tables, tenant: TenantId, id: &str) -> Result<Standing, TablesError> {
    Ok(get(tables, &standing_key(tenant, id))?.unwrap_or_default())
}

/// Schedules of a tenant behind an id, in order.
pub fn of_tenant(
    tables: &dyn Tables,
    tenant: TenantId,
    behind: Option<&str>,
    limit: usize,
) -> Result<Vec<ScheduleRow>, TablesError> {
    let prefix = Key::new(Family::Schedule, tenant);
    let from = behind.map_or_else(|| prefix.clone().finish(), |id| [key(tenant, id), vec![0]].concat());
    let range = KeyRange { from: &from, to: &prefix.end() };
    collect(tables, range, Order::Ascending, limit, |_, row| ScheduleRow::decode(row))
}

/// Those that wait, the earliest first.
pub fn waiting(tables: &dyn Tables, limit: usize) -> Result<Vec<Waiting>, TablesError> {
    let prefix = Key::of_partition(Family::ScheduleTimer);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    collect(tables, range, Order::Ascending, limit, |key, _| {
        parse(key).ok_or_else(|| Malformed::Value("schedule timer").in_row(Standing::NAME))
    })
}

fn parse(key: &[u8]) -> Option<Waiting> {
    let due = Millis(u64::from_be_bytes(key.get(1..9)?.try_into().ok()?));
    let tenant = TenantId(u32::from_be_bytes(key.get(9..13)?.try_into().ok()?));
    Some(Waiting { due, tenant, id: String::from_utf8(key.get(13..)?.to_vec()).ok()? })
}

/// Another standing, with the timer that belongs to it. `None`: it is gone.
pub(crate) fn stand(
    view: &mut View<'_>,
    tenant: TenantId,
    id: &str,
    stands: Option<&Standing>,
) -> Result<(), TablesError> {
    if let Some(due) = standing(view, tenant, id)?.next {
        view.delete(timer_key(due, tenant, id));
    }
    match stands {
        None => view.delete(standing_key(tenant, id)),
        Some(stands) => put(view, standing_key(tenant, id), stands),
    }
    if let Some(due) = stands.and_then(|stands| stands.next) {
        view.put(timer_key(due, tenant, id), Vec::new());
    }
    Ok(())
}

impl Row for ScheduleRow {
    const NAME: &'static str = "schedule";

    fn write(&self, w: &mut Writer) {
        self.definition.write(w);
        w.varint(self.version.into()).millis(self.created).millis(self.updated);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            definition: Definition::read(r)?,
            version: r.u32()?,
            created: r.millis()?,
            updated: r.millis()?,
        })
    }
}

impl Row for Standing {
    const NAME: &'static str = "schedule standing";

    fn write(&self, w: &mut Writer) {
        option_millis(w, self.next);
        w.option(self.last.as_ref(), |w, run| run.write(w));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { next: r.option(Reader::millis)?, last: r.option(Run::read)? })
    }
}
