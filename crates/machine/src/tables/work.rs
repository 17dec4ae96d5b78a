//! Work: an event that is to leave by one channel, and how far it has come.
//!
//! ```text
//! 50 tenant arrival: u64 channel: u8 -> event: ulid, terms, next: user, to
//!                                       terms = lane: u8, class: u8, category: 8, expires, group: 8, appointment: varint,
//!                                               chain, kind: option 8
//!                                       chain = list of (channel: u8, condition: u8, seconds: varint), and of the
//!                                               channels before it, if it is not empty: u8
//!                                       to = 0 list: 16 | 1 (the members of row 51) | 2 (parts of a walk)
//! 51 tenant arrival: u64             -> members: ascending      explicit recipients; stays as long as the ledgers
//! 52 tenant arrival: u64             -> why: u8                 nothing more of it is sent
//! ```
//! A row of 50 exists while members are left to be looked at: it is the to-do row of its work.

use super::{Family, Key, Row, RowsFrom, collect, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::policy::{read_step, write_step};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::attempt::Class;
use fantail_rules::category::CategoryId;
use fantail_rules::chain::Chain;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::ids::{Arrival, ListId, Millis, TenantId, UserNo};
use fantail_rules::policy::Step;
use fantail_rules::priority::Priority;
use fantail_rules::schedule::Appointment;
use fantail_rules::ulid::Ulid;

/// Names some work of a shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WorkId {
    pub tenant: TenantId,
    pub arrival: Arrival,
    pub channel: ChannelKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkRow {
    pub event: Ulid,
    pub terms: Terms,
    /// The first user who was not looked at.
    pub next: UserNo,
    pub to: To,
}

/// What a delivery is held to, wherever it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    pub lane: Priority,
    pub class: Class,
    /// Users say what they want category by category.
    pub category: CategoryId,
    /// Nothing is sent at or after this.
    pub expires_at: Millis,
    /// What belongs together in a digest has the same; see `rules::digest::group`.
    pub group: u64,
    /// When its recipients are to be told, by their own clocks. What has one is in no inbox.
    pub appointment: Option<Appointment>,
    /// Which channels of the event wait for which.
    pub chain: Chain,
    /// What is of one kind has the same, where its category has a key for that; see `throttle`.
    pub kind: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    List(ListId),
    /// Named one by one.
    Given,
    /// Chosen by a segment: the parts of `walk`.
    Walked,
}

/// Why nothing more of an event is sent. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Halt {
    Cancelled = 1,
    Retracted = 2,
}

impl Halt {
    /// As status, explain and metrics say it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Retracted => "retracted",
        }
    }
}

pub struct GivenMembers(pub Vec<UserNo>);

impl WorkId {
    #[must_use]
    pub fn key(self) -> Vec<u8> {
        Key::new(Family::Work, self.tenant).u64(self.arrival.0).bytes(&[self.channel as u8]).finish()
    }

    /// Reads the key of anything that is kept for each work.
    pub(super) fn parse(key: &[u8]) -> Option<Self> {
        let tenant = TenantId(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?));
        let arrival = Arrival(u64::from_be_bytes(key.get(5..13)?.try_into().ok()?));
        Some(Self { tenant, arrival, channel: ChannelKind::from_stored(*key.get(13)?)? })
    }
}

pub fn find(tables: &dyn Tables, work: WorkId) -> Result<Option<WorkRow>, TablesError> {
    get(tables, &work.key())
}

/// Where to begin to read work.
pub type WorksFrom = RowsFrom<WorkId>;

impl WorksFrom {
    fn key(self) -> Vec<u8> {
        match self {
            Self::At(first) => first.key(),
            Self::Behind(last) => [last.key(), vec![0]].concat(),
        }
    }
}

/// Work of all tenants above one, in order.
pub fn all(
    tables: &dyn Tables,
    after: Option<WorkId>,
    limit: usize,
) -> Result<Vec<(WorkId, WorkRow)>, TablesError> {
    all_from(tables, after.map(WorksFrom::Behind), limit)
}

/// Work of all tenants from one on, in order.
pub fn all_from(
    tables: &dyn Tables,
    from: Option<WorksFrom>,
    limit: usize,
) -> Result<Vec<(WorkId, WorkRow)>, TablesError> {
    let prefix = Key::of_partition(Family::Work);
    let from = from.map_or_else(|| prefix.clone().finish(), WorksFrom::key);
    collect(tables, KeyRange { from: &from, to: &prefix.end() }, Order::Ascending, limit, |key, value| {
        let work = WorkId::parse(key).ok_or_else(|| Malformed::Value("work key").in_row(WorkRow::NAME))?;
        Ok((work, WorkRow::decode(value)?))
    })
}

/// Arrivals above this one are asked about when parcels are planned: the tenant's oldest work is the one after it.
pub fn floor(tables: &dyn Tables, tenant: TenantId) -> Result<Arrival, TablesError> {
    let prefix = Key::new(Family::Work, tenant);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    let oldest = collect(tables, range, Order::Ascending, 1, |key, _| {
        WorkId::parse(key).ok_or_else(|| Malformed::Value("work key").in_row(WorkRow::NAME))
    })?;
    Ok(oldest.first().map_or(Arrival(u64::MAX), |work| Arrival(work.arrival.0.saturating_sub(1))))
}

/// Whether an event leaves the house, or did: it has work or ledgers, or a walk finds those who are told.
pub fn leaves(tables: &dyn Tables, tenant: TenantId, arrival: Arrival) -> Result<bool, TablesError> {
    for family in [Family::Work, Family::Ledger, Family::Walk] {
        let prefix = Key::new(family, tenant).u64(arrival.0);
        let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
        if !collect(tables, range, Order::Ascending, 1, |_, _| Ok(()))?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[must_use]
pub fn given_key(tenant: TenantId, arrival: Arrival) -> Vec<u8> {
    Key::new(Family::WorkMembers, tenant).u64(arrival.0).finish()
}

pub fn given(tables: &dyn Tables, tenant: TenantId, arrival: Arrival) -> Result<Vec<UserNo>, TablesError> {
    Ok(get::<GivenMembers>(tables, &given_key(tenant, arrival))?.map_or_else(Vec::new, |row| row.0))
}

#[must_use]
pub fn halt_key(tenant: TenantId, arrival: Arrival) -> Vec<u8> {
    Key::new(Family::Halted, tenant).u64(arrival.0).finish()
}

pub fn halted(tables: &dyn Tables, tenant: TenantId, arrival: Arrival) -> Result<Option<Halt>, TablesError> {
    get(tables, &halt_key(tenant, arrival))
}

impl Terms {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.u8(self.lane as u8).u8(class_code(self.class)).fixed(&self.category.0.to_le_bytes());
        w.millis(self.expires_at).fixed(&self.group.to_le_bytes());
        w.varint(Appointment::to_word(self.appointment));
        let steps: Vec<Step> = self.chain.steps().collect();
        w.list(steps.iter(), |w, step| write_step(w, *step));
        if !steps.is_empty() {
            w.u8(self.chain.at_once().bits());
        }
        w.option(self.kind, |w, kind| {
            w.fixed(&kind.to_le_bytes());
        });
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let lane = Priority::from_stored(r.u8()?);
        let class = match r.u8()? {
            0 => Class::Critical,
            1 => Class::Transactional,
            2 => Class::Bulk,
            _ => return Err(Malformed::Value("class")),
        };
        let category = CategoryId(u64::from_le_bytes(r.array()?));
        let (expires_at, group) = (r.millis()?, u64::from_le_bytes(r.array()?));
        let appointment = Appointment::from_stored(r.varint()?).ok_or(Malformed::Value("appointment"))?;
        let steps = r.list(read_step)?;
        let at_once = if steps.is_empty() { 0 } else { r.u8()? };
        let chain = Chain::from_stored(ChannelSet::from_stored(at_once), &steps);
        let chain = chain.ok_or(Malformed::Value("chain"))?;
        let kind = r.option(|r| Ok(u64::from_le_bytes(r.array()?)))?;
        Ok(Self { lane, class, category, expires_at, group, appointment, chain, kind })
    }
}

/// Frozen numbers.
fn class_code(class: Class) -> u8 {
    match class {
        Class::Critical => 0,
        Class::Transactional => 1,
        Class::Bulk => 2,
    }
}

impl Row for WorkRow {
    const NAME: &'static str = "work";

    fn write(&self, w: &mut Writer) {
        w.ulid(self.event);
        self.terms.write(w);
        w.user(self.next);
        match self.to {
            To::List(list) => w.u8(0).list_id(list),
            To::Given => w.u8(1),
            To::Walked => w.u8(2),
        };
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            event: r.ulid()?,
            terms: Terms::read(r)?,
            next: r.user()?,
            to: match r.u8()? {
                0 => To::List(r.list_id()?),
                1 => To::Given,
                2 => To::Walked,
                other => return Err(Malformed::Tag(other)),
            },
        })
    }
}

impl Row for GivenMembers {
    const NAME: &'static str = "work members";

    fn write(&self, w: &mut Writer) {
        w.ascending(self.0.iter().map(|user| user.0));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self(r.ascending()?.into_iter().map(UserNo).collect()))
    }
}

impl Row for Halt {
    const NAME: &'static str = "halted";

    fn write(&self, w: &mut Writer) {
        w.u8(*self as u8);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        match r.u8()? {
            1 => Ok(Self::Cancelled),
            2 => Ok(Self::Retracted),
            _ => Err(Malformed::Value("halt")),
        }
    }
}
