//! Facts of a shard: everything about its users.
//!
//! ```text
//!  1 UserPut   tenant, list of (user, lookup: 16, id: sealed, attributes: sealed, locale: text, zone: varint)
//!  2 UserGone  tenant, user, lookup: 16, key: varint
//!  3 Edges     tenant, change: u8, list of (user, list: 16, name: option sealed)
//!  4 Take      front: varint, from: position, to: position
//!  5 Given     front: varint, position, tenant, event: ulid, late: flag, delivery: option (channels: u8, terms),
//!              members: ascending
//!  6 Marked    tenant, user, mark: u8, until: millis, arrivals: ascending
//!  7 Moved     tenant, user, watermark: u8, to: arrival
//!  8 Cleared   tenant, user, arrivals: ascending
//!  9 Reported  list of (tenant, list: 16, members: varint)
//! 10 Shredded  list of (tenant, key: varint)
//! 11 Expired   tenant, through: arrival
//! 12 Unlisted  tenant, user, lists: list of 16
//! 13 EndpointPut, 14 EndpointState, 15 EndpointGone: see `endpoint`
//! 20 to 26: see `delivery`; 28, 29: see `halt`; 30 to 32: see `respect`; 33, 34: see `throttle`; 40 Told, 41 Untold: see `webhook`; 42 to 45: see `digest`;
//! 50 to 59: see `walk`;
//! 60 Erasure: see `erasure`; 70 Wiped: see `wipe`
//! ```

use super::Fact;
use super::delivery::{self, Intend, Outcome, Receipt, Redrive, Swept, Wake};
use super::digest::DigestRecord;
use super::endpoint::{EndpointPut, EndpointState};
use super::erasure::Erasure;
use super::front::Size;
pub use super::given::Given;
use super::halt::HaltRecord;
use super::mark;
use super::respect::{Consented, Preferred, read_zone};
use super::throttle::ThrottleRecord;
use super::walk::WalkRecord;
use super::webhook::Told;
use crate::codec::{Malformed, Reader, Writer};
use crate::tables::work::WorkId;
use fantail_ports::keyring::Sealed;
use fantail_rules::ids::{Arrival, DeviceNo, FrontNo, KeyNo, ListId, Lookup, Position, TenantId, UserNo};
use fantail_rules::marks::{Mark, Watermark};
use fantail_rules::zone::ZoneNo;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShardRecord {
    UserPut {
        tenant: TenantId,
        users: Vec<UserPut>,
    },
    UserGone {
        tenant: TenantId,
        user: UserNo,
        lookup: Lookup,
        key: KeyNo,
    },
    /// See `halt`.
    Halt(HaltRecord),
    /// See `erasure`.
    Erasure(Erasure),
    Wiped(super::wipe::WipedStretch),
    Edges {
        tenant: TenantId,
        change: Change,
        edges: Vec<Edge>,
    },
    /// Everything a front said from one position to another, by reference: list events become visible,
    /// retracted ones disappear. Events for explicit users of this shard never lie in between; see `Given`.
    Take {
        front: FrontNo,
        from: Position,
        to: Position,
    },
    /// One event for explicit users of this shard, at its place in the front's order.
    Given(Given),
    Marked {
        tenant: TenantId,
        user: UserNo,
        mark: Mark,
        arrivals: Vec<Arrival>,
    },
    Moved {
        tenant: TenantId,
        user: UserNo,
        watermark: Watermark,
        to: Arrival,
    },
    /// These entries lose their flags (they expired, or their user goes).
    Cleared {
        tenant: TenantId,
        user: UserNo,
        arrivals: Vec<Arrival>,
    },
    /// These stays on lists are dropped (they are past retention, or their user goes).
    Unlisted {
        tenant: TenantId,
        user: UserNo,
        lists: Vec<ListId>,
    },
    /// The fronts have these sizes now.
    Reported {
        sizes: Vec<Size>,
    },
    /// These keys are destroyed.
    Shredded {
        keys: Vec<(TenantId, KeyNo)>,
    },
    /// Entries up to here are past the tenant's retention.
    Expired {
        tenant: TenantId,
        through: Arrival,
    },
    /// Endpoints come, change their address, or are heard of again.
    EndpointPut {
        tenant: TenantId,
        endpoints: Vec<EndpointPut>,
    },
    /// What became of claims. One that is released is over, whether or not its endpoint is still there.
    EndpointState {
        tenant: TenantId,
        states: Vec<EndpointState>,
    },
    EndpointGone {
        tenant: TenantId,
        endpoints: Vec<(UserNo, DeviceNo)>,
    },
    /// A user wants something else from now on.
    Preferred(Preferred),
    Consented {
        tenant: TenantId,
        consents: Vec<Consented>,
    },
    /// Everything that waited for this user is due now.
    Replanned {
        tenant: TenantId,
        user: UserNo,
    },
    /// About those who are chosen, not named.
    Walk(WalkRecord),
    Intend(Intend),
    Wake(Wake),
    Outcome(Outcome),
    Receipt(Receipt),
    Redrive(Redrive),
    /// Nobody else is looked at for this work.
    Closed {
        work: WorkId,
        code: String,
    },
    Swept(Swept),
    /// About what is told together.
    Digest(DigestRecord),
    /// A webhook to the producer has told everything through a record.
    Told(Told),
    /// See `throttle`.
    Throttle(ThrottleRecord),
    /// It is gone, and with it how far it had told.
    Untold {
        tenant: TenantId,
        webhook: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserPut {
    pub user: UserNo,
    pub lookup: Lookup,
    pub id: Sealed,
    pub attributes: Sealed,
    /// In the clear, as gates and rendering need them; empty if not known.
    pub locale: String,
    pub zone: ZoneNo,
}

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Change {
    Join = 1,
    Leave = 2,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    pub user: UserNo,
    pub list: ListId,
    /// The list's name, if the shard does not have it yet.
    pub name: Option<Sealed>,
}

fn read_arrivals(r: &mut Reader<'_>) -> Result<Vec<Arrival>, Malformed> {
    Ok(r.ascending()?.into_iter().map(Arrival).collect())
}

impl UserPut {
    fn write(&self, w: &mut Writer) {
        w.user(self.user).fixed(&self.lookup.0).sealed(&self.id).sealed(&self.attributes);
        w.text(&self.locale).varint(self.zone.number().into());
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            user: r.user()?,
            lookup: r.lookup()?,
            id: r.sealed()?,
            attributes: r.sealed()?,
            locale: r.text()?,
            zone: read_zone(r)?,
        })
    }
}

impl Edge {
    fn write(&self, w: &mut Writer) {
        w.user(self.user).list_id(self.list).option(self.name.as_ref(), |w, name| {
            w.sealed(name);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { user: r.user()?, list: r.list_id()?, name: r.option(Reader::sealed)? })
    }
}

impl Fact for ShardRecord {
    fn tag(&self) -> u8 {
        match self {
            Self::UserPut { .. } => 1,
            Self::UserGone { .. } => 2,
            Self::Edges { .. } => 3,
            Self::Take { .. } => 4,
            Self::Given(_) => 5,
            Self::Marked { .. } => 6,
            Self::Moved { .. } => 7,
            Self::Cleared { .. } => 8,
            Self::Reported { .. } => 9,
            Self::Shredded { .. } => 10,
            Self::Expired { .. } => 11,
            Self::Unlisted { .. } => 12,
            Self::EndpointPut { .. } => 13,
            Self::EndpointState { .. } => 14,
            Self::EndpointGone { .. } => 15,
            Self::Intend(_) => 20,
            Self::Wake(_) => 21,
            Self::Outcome(_) => 22,
            Self::Receipt(_) => 23,
            Self::Redrive(_) => 24,
            Self::Closed { .. } => 25,
            Self::Swept(_) => 26,
            Self::Halt(record) => record.tag(),
            Self::Preferred(_) => 30,
            Self::Consented { .. } => 31,
            Self::Replanned { .. } => 32,
            Self::Throttle(record) => record.tag(),
            Self::Told(_) => 40,
            Self::Untold { .. } => 41,
            Self::Digest(record) => record.tag(),
            Self::Walk(walk) => walk.tag(),
            Self::Erasure(_) => 60,
            Self::Wiped(_) => 70,
        }
    }

    fn write(&self, w: &mut Writer) {
        match self {
            Self::UserPut { tenant, users } => {
                w.tenant(*tenant).list(users.iter(), |w, user| user.write(w));
            }
            Self::UserGone { tenant, user, lookup, key } => {
                w.tenant(*tenant).user(*user).fixed(&lookup.0).varint(key.0);
            }
            Self::Edges { tenant, change, edges } => {
                w.tenant(*tenant).u8(*change as u8).list(edges.iter(), |w, edge| edge.write(w));
            }
            Self::Take { front, from, to } => drop(w.varint(front.0.into()).position(*from).position(*to)),
            Self::Given(given) => given.write(w),
            Self::Marked { tenant, user, mark, arrivals } => {
                mark::write(w.tenant(*tenant).user(*user), *mark);
                w.ascending(arrivals.iter().map(|arrival| arrival.0));
            }
            Self::Moved { tenant, user, watermark, to } => {
                w.tenant(*tenant).user(*user).u8(*watermark as u8).arrival(*to);
            }
            Self::Cleared { tenant, user, arrivals } => {
                w.tenant(*tenant).user(*user).ascending(arrivals.iter().map(|arrival| arrival.0));
            }
            Self::Reported { sizes } => {
                w.list(sizes.iter(), |w, size| size.write(w));
            }
            Self::Shredded { keys } => {
                w.list(keys.iter(), |w, (tenant, key)| {
                    w.tenant(*tenant).varint(key.0);
                });
            }
            Self::Expired { tenant, through } => drop(w.tenant(*tenant).arrival(*through)),
            Self::Unlisted { tenant, user, lists } => {
                w.tenant(*tenant).user(*user).list(lists.iter(), |w, list| {
                    w.list_id(*list);
                });
            }
            Self::EndpointPut { tenant, endpoints } => {
                w.tenant(*tenant).list(endpoints.iter(), |w, put| put.write(w));
            }
            Self::EndpointState { tenant, states } => {
                w.tenant(*tenant).list(states.iter(), |w, state| state.write(w));
            }
            Self::EndpointGone { tenant, endpoints } => {
                w.tenant(*tenant).list(endpoints.iter(), |w, (user, device)| {
                    w.user(*user).device(*device);
                });
            }
            Self::Intend(intend) => intend.write(w),
            Self::Wake(wake) => wake.write(w),
            Self::Outcome(outcome) => outcome.write(w),
            Self::Receipt(receipt) => receipt.write(w),
            Self::Redrive(redrive) => redrive.write(w),
            Self::Closed { work, code } => delivery::write_closed(w, *work, code),
            Self::Swept(swept) => swept.write(w),
            Self::Halt(record) => record.write(w),
            Self::Preferred(preferred) => preferred.write(w),
            Self::Consented { tenant, consents } => {
                w.tenant(*tenant).list(consents.iter(), |w, one| one.write(w));
            }
            Self::Replanned { tenant, user } => drop(w.tenant(*tenant).user(*user)),
            Self::Digest(record) => record.write(w),
            Self::Walk(walk) => walk.write(w),
            Self::Throttle(record) => record.write(w),
            Self::Told(told) => told.write(w),
            Self::Untold { tenant, webhook } => drop(w.tenant(*tenant).text(webhook)),
            Self::Erasure(erasure) => erasure.write(w),
            Self::Wiped(stretch) => stretch.write(w),
        }
    }

    fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag {
            1 => Self::UserPut { tenant: r.tenant()?, users: r.list(UserPut::read)? },
            2 => Self::UserGone {
                tenant: r.tenant()?,
                user: r.user()?,
                lookup: r.lookup()?,
                key: KeyNo(r.varint()?),
            },
            3 => {
                let tenant = r.tenant()?;
                let change = match r.u8()? {
                    1 => Change::Join,
                    2 => Change::Leave,
                    _ => return Err(Malformed::Value("change")),
                };
                Self::Edges { tenant, change, edges: r.list(Edge::read)? }
            }
            4 => Self::Take { front: FrontNo(r.u16()?), from: r.position()?, to: r.position()? },
            5 => Self::Given(Given::read(r)?),
            6 => Self::Marked {
                tenant: r.tenant()?,
                user: r.user()?,
                mark: mark::read(r)?,
                arrivals: read_arrivals(r)?,
            },
            7 => Self::Moved {
                tenant: r.tenant()?,
                user: r.user()?,
                watermark: mark::read_watermark(r)?,
                to: r.arrival()?,
            },
            8 => Self::Cleared { tenant: r.tenant()?, user: r.user()?, arrivals: read_arrivals(r)? },
            9 => Self::Reported { sizes: r.list(Size::read)? },
            10 => Self::Shredded { keys: r.list(|r| Ok((r.tenant()?, KeyNo(r.varint()?))))? },
            11 => Self::Expired { tenant: r.tenant()?, through: r.arrival()? },
            12 => Self::Unlisted { tenant: r.tenant()?, user: r.user()?, lists: r.list(Reader::list_id)? },
            13 => Self::EndpointPut { tenant: r.tenant()?, endpoints: r.list(EndpointPut::read)? },
            14 => Self::EndpointState { tenant: r.tenant()?, states: r.list(EndpointState::read)? },
            15 => Self::EndpointGone {
                tenant: r.tenant()?,
                endpoints: r.list(|r| Ok((r.user()?, r.device()?)))?,
            },
            20 => Self::Intend(Intend::read(r)?),
            21 => Self::Wake(Wake::read(r)?),
            22 => Self::Outcome(Outcome::read(r)?),
            23 => Self::Receipt(Receipt::read(r)?),
            24 => Self::Redrive(Redrive::read(r)?),
            25 => {
                let (work, code) = delivery::read_closed(r)?;
                Self::Closed { work, code }
            }
            26 => Self::Swept(Swept::read(r)?),
            28 | 29 => Self::Halt(HaltRecord::read(tag, r)?),
            30 => Self::Preferred(Preferred::read(r)?),
            31 => Self::Consented { tenant: r.tenant()?, consents: r.list(Consented::read)? },
            32 => Self::Replanned { tenant: r.tenant()?, user: r.user()? },
            33 | 34 => Self::Throttle(ThrottleRecord::read(tag, r)?),
            40 => Self::Told(Told::read(r)?),
            41 => Self::Untold { tenant: r.tenant()?, webhook: r.text()? },
            42..=45 => Self::Digest(DigestRecord::read(tag, r)?),
            50..=59 => Self::Walk(WalkRecord::read(tag, r)?),
            60 => Self::Erasure(Erasure::read(r)?),
            70 => Self::Wiped(super::wipe::WipedStretch::read(r)?),
            _ => return Err(Malformed::Tag(tag)),
        })
    }
}
