//! Walks: who is chosen by a segment is found user by user; the cursor of each walk, and what it has found.
//!
//! ```text
//! 24 tenant event: ulid              -> walk, with its pace and whether it is paused by now   (front)
//! 25 tenant list: 16 event: ulid     -> (empty)                 whose walk goes by an uploaded list; goes with it (front)
//! 80 tenant arrival: u64             -> event: ulid, delivery, walk, bound: user, next: user, state: u8, pacedUntil, begun,
//!                                       ahead: varint, lookedAt: varint, members: varint, entries: varint,
//!                                       skipped: list of (text, varint)
//! 81 tenant arrival: u64 first: user -> members: ascending      a part that not every channel has passed
//! 84 tenant arrival: u64             -> (empty)                 while it is not over: the to-do row of its walk
//! ```
//! The cursor moves in the record that brings the members behind it: there is no member twice, and none is left out.

use super::work::{self, WorkId};
use super::{Family, Key, Row, collect, get, put};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::front::Delivery;
use crate::records::segment::UploadId;
use crate::records::walk::Walk;
use crate::view::View;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::limits::WALK_PARTS_AHEAD_MAX;
use fantail_rules::ulid::Ulid;

/// What the front keeps of a bulk send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BulkRow {
    pub walk: Walk,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WalkRow {
    pub event: Ulid,
    pub delivery: Delivery,
    pub walk: Walk,
    /// The first who came too late.
    pub bound: UserNo,
    /// The first who was not looked at.
    pub next: UserNo,
    pub state: WalkState,
    pub paced_until: Millis,
    pub begun: Millis,
    /// Parts that not every channel has passed.
    pub ahead: u32,
    pub looked_at: u64,
    pub members: u64,
    /// Members whose inbox shows it.
    pub entries: u64,
    /// By reason, ascending.
    pub skipped: Vec<(String, u64)>,
}

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WalkState {
    Running = 0,
    Paused = 1,
    /// Everybody was looked at.
    Done = 2,
    /// It was called off, or its time is over.
    Stopped = 3,
}

/// Members of a part, ascending.
pub struct Part(pub Vec<UserNo>);

impl WalkRow {
    /// The work of each channel.
    pub fn works(&self, tenant: TenantId, arrival: Arrival) -> impl Iterator<Item = WorkId> {
        let channels = self.delivery.channels.without(ChannelKind::InApp);
        channels.iter().map(move |channel| WorkId { tenant, arrival, channel })
    }

    /// Whether it is for inboxes, too. What has a time of each recipient's own is in none.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        let Delivery { channels, terms, .. } = &self.delivery;
        channels.contains(ChannelKind::InApp) && terms.appointment.is_none()
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, WalkState::Done | WalkState::Stopped)
    }

    pub(crate) fn skip(&mut self, skipped: &[(String, u64)]) {
        for (reason, count) in skipped {
            match self.skipped.binary_search_by(|(known, _)| known.cmp(reason)) {
                Ok(at) => self.skipped[at].1 += count,
                Err(at) => self.skipped.insert(at, (reason.clone(), *count)),
            }
        }
    }
}

#[must_use]
pub fn bulk_key(tenant: TenantId, event: Ulid) -> Vec<u8> {
    Key::new(Family::Bulk, tenant).bytes(&event.bytes()).finish()
}

#[must_use]
pub fn key(tenant: TenantId, arrival: Arrival) -> Vec<u8> {
    Key::new(Family::Walk, tenant).u64(arrival.0).finish()
}

#[must_use]
pub fn part_key(tenant: TenantId, arrival: Arrival, first: UserNo) -> Vec<u8> {
    Key::new(Family::WalkPart, tenant).u64(arrival.0).u64(first.0).finish()
}

#[must_use]
pub fn open_key(tenant: TenantId, arrival: Arrival) -> Vec<u8> {
    Key::new(Family::WalkOpen, tenant).u64(arrival.0).finish()
}

#[must_use]
pub fn listed_key(tenant: TenantId, list: UploadId, event: Ulid) -> Vec<u8> {
    Key::new(Family::BulkByList, tenant).bytes(&list.0).bytes(&event.bytes()).finish()
}

pub fn bulk(tables: &dyn Tables, tenant: TenantId, event: Ulid) -> Result<Option<BulkRow>, TablesError> {
    get(tables, &bulk_key(tenant, event))
}

/// Bulk sends of a tenant, the newest first, at most so many; those before one of them.
pub fn bulks(
    tables: &dyn Tables,
    tenant: TenantId,
    before: Option<Ulid>,
    limit: usize,
) -> Result<Vec<Ulid>, TablesError> {
    let prefix = Key::new(Family::Bulk, tenant);
    let to = before.map_or_else(|| prefix.end(), |event| bulk_key(tenant, event));
    let range = KeyRange { from: &prefix.finish(), to: &to };
    collect(tables, range, Order::Descending, limit, |key, _| event_at(key, 5))
}

/// Bulk sends that go by an uploaded list.
pub fn by_list(tables: &dyn Tables, tenant: TenantId, list: UploadId) -> Result<Vec<Ulid>, TablesError> {
    let prefix = Key::new(Family::BulkByList, tenant).bytes(&list.0);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    collect(tables, range, Order::Ascending, usize::MAX, |key, _| event_at(key, 21))
}

fn event_at(key: &[u8], place: usize) -> Result<Ulid, TablesError> {
    let event = key.get(place..).and_then(|tail| tail.try_into().ok()).map(Ulid::from_bytes);
    event.ok_or_else(|| Malformed::Value("bulk key").in_row(BulkRow::NAME))
}

/// A front has admitted a bulk send.
pub(crate) fn put_bulk(view: &mut View<'_>, tenant: TenantId, event: Ulid, walk: &Walk) {
    put(view, bulk_key(tenant, event), &BulkRow { walk: walk.clone() });
    if let Some(list) = walk.list {
        view.put(listed_key(tenant, list, event), Vec::new());
    }
}

/// A front forgets a bulk send. Nothing if it is none.
pub(crate) fn drop_bulk(view: &mut View<'_>, tenant: TenantId, event: Ulid) -> Result<(), TablesError> {
    if let Some(row) = bulk(view, tenant, event)? {
        view.delete(bulk_key(tenant, event));
        if let Some(list) = row.walk.list {
            view.delete(listed_key(tenant, list, event));
        }
    }
    Ok(())
}

pub fn find(tables: &dyn Tables, tenant: TenantId, arrival: Arrival) -> Result<Option<WalkRow>, TablesError> {
    get(tables, &key(tenant, arrival))
}

/// Walks of all tenants that are not over, in order. Their rows are large: whoever wants one reads it by itself.
pub fn open(tables: &dyn Tables) -> Result<Vec<(TenantId, Arrival)>, TablesError> {
    let prefix = Key::of_partition(Family::WalkOpen);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    collect(tables, range, Order::Ascending, usize::MAX, |key, _| open_at(key))
}

/// How many walks of a tenant are not over.
pub fn open_count(tables: &dyn Tables, tenant: TenantId) -> Result<usize, TablesError> {
    let prefix = Key::new(Family::WalkOpen, tenant);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    Ok(collect(tables, range, Order::Ascending, usize::MAX, |key, _| open_at(key))?.len())
}

/// Whose walk is not over, by the key that says so.
pub(super) fn open_at(key: &[u8]) -> Result<(TenantId, Arrival), TablesError> {
    let malformed = || Malformed::Value("walk key").in_row(WalkRow::NAME);
    let tenant = key.get(1..5).and_then(|tenant| tenant.try_into().ok()).ok_or_else(malformed)?;
    let arrival = key.get(5..13).and_then(|arrival| arrival.try_into().ok()).ok_or_else(malformed)?;
    Ok((TenantId(u32::from_be_bytes(tenant)), Arrival(u64::from_be_bytes(arrival))))
}

/// Parts that wait, in order.
fn parts(tables: &dyn Tables, tenant: TenantId, arrival: Arrival) -> Result<Vec<Vec<UserNo>>, TablesError> {
    let prefix = Key::new(Family::WalkPart, tenant).u64(arrival.0);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    let limit = WALK_PARTS_AHEAD_MAX as usize + 1;
    collect(tables, range, Order::Ascending, limit, |_, row| Ok(Part::decode(row)?.0))
}

/// The next members at or above a user, at most so many, and whether there are more that were found already.
pub fn members_from(
    tables: &dyn Tables,
    work: WorkId,
    from: UserNo,
    limit: usize,
) -> Result<(Vec<UserNo>, bool), TablesError> {
    let parts = parts(tables, work.tenant, work.arrival)?;
    let mut waiting = parts.into_iter().flatten().filter(|user| *user >= from);
    let members: Vec<UserNo> = waiting.by_ref().take(limit).collect();
    Ok((members, waiting.next().is_some()))
}

/// Some work of a walk has moved on or ended: parts that all channels have passed go. Says whether any did.
pub(crate) fn let_go(view: &mut View<'_>, tenant: TenantId, arrival: Arrival) -> Result<bool, TablesError> {
    let Some(mut row) = find(view, tenant, arrival)? else { return Ok(false) };
    let mut passed = UserNo(u64::MAX);
    for work in row.works(tenant, arrival) {
        if let Some(open) = work::find(view, work)? {
            passed = passed.min(open.next);
        }
    }
    let before = row.ahead;
    for members in parts(view, tenant, arrival)? {
        let (Some(first), Some(last)) = (members.first(), members.last()) else { continue };
        if *last < passed {
            view.delete(part_key(tenant, arrival, *first));
            row.ahead = row.ahead.saturating_sub(1);
        }
    }
    if row.ahead != before {
        put(view, key(tenant, arrival), &row);
    }
    Ok(row.ahead != before)
}

impl Row for BulkRow {
    const NAME: &'static str = "bulk";

    fn write(&self, w: &mut Writer) {
        self.walk.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { walk: Walk::read(r)? })
    }
}

impl Row for WalkRow {
    const NAME: &'static str = "walk";

    fn write(&self, w: &mut Writer) {
        w.ulid(self.event);
        self.delivery.write(w);
        self.walk.write(w);
        w.user(self.bound).user(self.next).u8(self.state as u8).millis(self.paced_until).millis(self.begun);
        w.varint(self.ahead.into()).varint(self.looked_at).varint(self.members).varint(self.entries);
        w.list(self.skipped.iter(), |w, (reason, count)| {
            w.text(reason).varint(*count);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            event: r.ulid()?,
            delivery: Delivery::read(r)?,
            walk: Walk::read(r)?,
            bound: r.user()?,
            next: r.user()?,
            state: match r.u8()? {
                0 => WalkState::Running,
                1 => WalkState::Paused,
                2 => WalkState::Done,
                3 => WalkState::Stopped,
                _ => return Err(Malformed::Value("walk state")),
            },
            paced_until: r.millis()?,
            begun: r.millis()?,
            ahead: r.u32()?,
            looked_at: r.varint()?,
            members: r.varint()?,
            entries: r.varint()?,
            skipped: r.list(|r| Ok((r.text()?, r.varint()?)))?,
        })
    }
}

impl Row for Part {
    const NAME: &'static str = "walk part";

    fn write(&self, w: &mut Writer) {
        w.ascending(self.0.iter().map(|user| user.0));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self(r.ascending()?.into_iter().map(UserNo).collect()))
    }
}
