//! Facts about an erasure: a user is being removed from everything, and what of each store is gone by now.
//!
//! ```text
//! 60 Erasure  tenant, erasure: ulid, step, list of (store: u8, count: varint)
//!             step = 1 user, key: varint | 2 user, list of (arrival, channel: u8, device) | 3 | 4 place | 5 user, key: varint, lookup
//!             place = 1 arrival | 2 front: varint, option of (event: ulid, shard: varint, user)
//! ```

use crate::codec::{Malformed, Reader, Writer};
use crate::records::respect::read_channel;
use crate::tables::event::PersonalPlace;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, DeviceNo, FrontNo, KeyNo, Lookup, ShardNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Erasure {
    pub tenant: TenantId,
    pub erasure: Ulid,
    pub step: Step,
    /// What this step removed, in the order of the stores.
    pub removed: Vec<(Store, u64)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The user has gone; what others keep about it is still to be looked for.
    Begun {
        user: UserNo,
        key: KeyNo,
        /// For the list of erasures; records of versions without that list have none.
        lookup: Option<Lookup>,
    },
    /// What was told about attempts to reach the user by these is gone.
    Purged { user: UserNo, attempts: Vec<Attempts> },
    /// Nothing is left, and the key is destroyed.
    Done,
    /// Everything before this place was looked at: after a restart the erasure goes on here.
    Reached(ErasurePlace),
}

/// How far an erasure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErasurePlace {
    /// In what the shard keeps about deliveries, behind this event.
    Deliveries(Arrival),
    /// In the personal content that a front keeps, behind this row.
    Content { front: FrontNo, behind: Option<PersonalPlace> },
}

/// Names a row of attempts, together with tenant and user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempts {
    pub arrival: Arrival,
    pub channel: ChannelKind,
    pub device: DeviceNo,
}

/// Where something about a user is kept. Frozen numbers. A new store is a line here, its name, and whoever counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Store {
    Profile = 1,
    /// Devices and addresses, with their claims in the directory.
    Endpoints = 2,
    Preferences = 3,
    Consents = 4,
    /// Changes of preferences and consents.
    History = 5,
    /// Lists that the user is or was on.
    Follows = 6,
    /// What the user did with entries, one by one.
    Marks = 7,
    Inbox = 8,
    /// Deliveries that were still to be sent.
    Deliveries = 9,
    DeadLetters = 10,
    /// What was told about attempts: provider's words, ids and times.
    Attempts = 11,
    /// What the user alone was told.
    Content = 12,
    Key = 13,
    /// Windows in which something was collected to be told together.
    Digests = 14,
}

impl Store {
    /// In the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Profile,
        Self::Endpoints,
        Self::Preferences,
        Self::Consents,
        Self::History,
        Self::Follows,
        Self::Marks,
        Self::Inbox,
        Self::Deliveries,
        Self::DeadLetters,
        Self::Attempts,
        Self::Content,
        Self::Key,
        Self::Digests,
    ];

    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|store| *store as u8 == number)
    }

    /// As a receipt says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Endpoints => "devicesAndAddresses",
            Self::Preferences => "preferences",
            Self::Consents => "consents",
            Self::History => "preferenceHistory",
            Self::Follows => "follows",
            Self::Marks => "marks",
            Self::Inbox => "inbox",
            Self::Deliveries => "pendingDeliveries",
            Self::DeadLetters => "deadLetters",
            Self::Attempts => "deliveryAttempts",
            Self::Content => "personalContent",
            Self::Key => "key",
            Self::Digests => "digests",
        }
    }
}

impl Erasure {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).ulid(self.erasure);
        match &self.step {
            Step::Begun { user, key, lookup: None } => {
                w.u8(1).user(*user).varint(key.0);
            }
            Step::Begun { user, key, lookup: Some(lookup) } => {
                w.u8(5).user(*user).varint(key.0).fixed(&lookup.0);
            }
            Step::Purged { user, attempts } => {
                w.u8(2).user(*user).list(attempts.iter(), |w, one| {
                    w.arrival(one.arrival).u8(one.channel as u8).device(one.device);
                });
            }
            Step::Done => {
                w.u8(3);
            }
            Step::Reached(place) => {
                w.u8(4);
                place.write(w);
            }
        }
        write_removed(w, &self.removed);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, erasure) = (r.tenant()?, r.ulid()?);
        let step = match r.u8()? {
            1 => Step::Begun { user: r.user()?, key: KeyNo(r.varint()?), lookup: None },
            5 => Step::Begun { user: r.user()?, key: KeyNo(r.varint()?), lookup: Some(r.lookup()?) },
            2 => {
                let user = r.user()?;
                let attempts = r.list(|r| {
                    let (arrival, channel) = (r.arrival()?, read_channel(r)?);
                    Ok(Attempts { arrival, channel, device: r.device()? })
                })?;
                Step::Purged { user, attempts }
            }
            3 => Step::Done,
            4 => Step::Reached(ErasurePlace::read(r)?),
            other => return Err(Malformed::Tag(other)),
        };
        Ok(Self { tenant, erasure, step, removed: read_removed(r)? })
    }
}

impl ErasurePlace {
    pub(crate) fn write(&self, w: &mut Writer) {
        match self {
            Self::Deliveries(arrival) => {
                w.u8(1).arrival(*arrival);
            }
            Self::Content { front, behind } => {
                w.u8(2).varint(front.0.into()).option(behind.as_ref(), |w, behind| {
                    w.ulid(behind.event).varint(behind.shard.0.into()).user(behind.user);
                });
            }
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match r.u8()? {
            1 => Self::Deliveries(r.arrival()?),
            2 => {
                let front = FrontNo(r.u16()?);
                let behind = r.option(|r| {
                    Ok(PersonalPlace { event: r.ulid()?, shard: ShardNo(r.u16()?), user: r.user()? })
                })?;
                Self::Content { front, behind }
            }
            other => return Err(Malformed::Tag(other)),
        })
    }
}

pub(crate) fn write_removed(w: &mut Writer, removed: &[(Store, u64)]) {
    w.list(removed.iter(), |w, (store, count)| {
        w.u8(*store as u8).varint(*count);
    });
}

pub(crate) fn read_removed(r: &mut Reader<'_>) -> Result<Vec<(Store, u64)>, Malformed> {
    r.list(|r| {
        let store = Store::from_stored(r.u8()?).ok_or(Malformed::Value("store"))?;
        Ok((store, r.varint()?))
    })
}
