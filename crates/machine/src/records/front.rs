//! Facts of a front: what was accepted, in the order of acceptance.
//!
//! ```text
//! 1 Admitted   tenant, event: ulid, key: 16, body: 16, kind: text, category: text, priority: u8,
//!              actor: option sealed, content: sealed, delivery: option (channels: u8, terms),
//!              personal: varint, options, audience
//!              audience = 0 list: 16, tier: u8, turned: flag | 1 list of (shard: varint, members: ascending) | 2 walk
//! 2 Retracted  tenant, event: ulid
//! 3 Counted    shard, list of (tenant, list: 16, members: varint)
//! 4 Forgotten  tenant, bucket: varint, keys: list of 16, events: list of ulid
//! 5 Cancelled  tenant, event: ulid
//! 6 Part       tenant, event: ulid, list of (shard: varint, user, content: sealed); its Admitted follows
//! 7 Released   tenant, event: ulid, due, about (see `tables::taken`), delivery: option, audience
//! 8 Steered    tenant, event: ulid, steer = 0 pause | 1 resume | 2 pace      for walks, see `walk`
//! 9 CalledOff  see `halt`
//! 17 Unsaid    tenant, shard: varint, user, events: list of ulid
//! 70 Wiped     see `wipe`
//!
//! options = flags: u8 (1 due, 2 cancellation, 4 collapse, 8 sensitive, 16 name), due: millis, cancellation: 16,
//!           collapse: sealed, name: sealed; those that are there
//! ```

use super::Fact;
use super::halt::CalledOffSchedule;
pub use super::size::Size;
pub use super::walk::Steer;
use super::walk::Walk;
use super::wipe::WipedStretch;
use crate::codec::{Malformed, Reader, Writer};
use crate::tables::taken::About;
use crate::tables::work::Terms;
use fantail_ports::keyring::Sealed;
use fantail_rules::admit::Bucket;
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::ids::{ListId, Millis, ShardNo, TenantId, UserNo};
use fantail_rules::tier::Tier;
use fantail_rules::ulid::Ulid;

#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are the large one")]
pub enum FrontRecord {
    Admitted(Admitted),
    Retracted {
        tenant: TenantId,
        event: Ulid,
    },
    /// The sizes of a shard's parts of some lists: absolute, so a repeat changes nothing.
    Counted {
        shard: ShardNo,
        sizes: Vec<Size>,
    },
    /// Idempotency keys and events past their time.
    Forgotten {
        tenant: TenantId,
        bucket: Bucket,
        keys: Vec<[u8; 16]>,
        events: Vec<Ulid>,
    },
    /// Content of single recipients. Means nothing without the `Admitted` that follows it.
    Part {
        tenant: TenantId,
        event: Ulid,
        contents: Vec<Personal>,
    },
    /// What of it has not been sent stays where it is.
    Cancelled {
        tenant: TenantId,
        event: Ulid,
    },
    /// The time of what was scheduled has come.
    Released(Released),
    /// Follows the `Cancelled` or `Retracted` of what is scheduled for named users: see `halt`.
    CalledOff(CalledOffSchedule),
    /// A walk is paused, goes on, or has another pace.
    Steered {
        tenant: TenantId,
        event: Ulid,
        steer: Steer,
    },
    /// What this recipient alone was told of these events is gone.
    Unsaid {
        tenant: TenantId,
        shard: ShardNo,
        user: UserNo,
        events: Vec<Ulid>,
    },
    /// Rows of a deleted tenant are gone.
    Wiped(WipedStretch),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    pub tenant: TenantId,
    pub event: Ulid,
    /// Keyed hash of the idempotency key.
    pub key: [u8; 16],
    /// Hash of the decoded request.
    pub body: [u8; 16],
    pub kind: String,
    pub category: String,
    pub priority: u8,
    pub actor: Option<Sealed>,
    pub content: Sealed,
    /// `None`: for inboxes alone.
    pub delivery: Option<Delivery>,
    /// How many recipients have content of their own.
    pub personal: u64,
    pub options: Options,
    pub audience: Audience,
}

/// What a producer asked for beside the content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Held back until then.
    pub due: Option<Millis>,
    /// Keyed hash of the key under which it can be called off.
    pub cancellation: Option<[u8; 16]>,
    /// The key by which a later one takes the place of an earlier one on a device.
    pub collapse: Option<Sealed>,
    /// Channels carry a generic text.
    pub is_sensitive: bool,
    /// The producer's name of a notification or a bulk send. Events have none, nor has what earlier versions accepted.
    pub name: Option<Sealed>,
}

/// An event that was held back, with all that the shards need of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Released {
    pub tenant: TenantId,
    pub event: Ulid,
    pub due: Millis,
    pub about: About,
    pub delivery: Option<Delivery>,
    pub audience: Audience,
}

/// What one recipient alone is told, sealed under that user's key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Personal {
    pub shard: ShardNo,
    pub user: UserNo,
    pub content: Sealed,
}

/// How an event leaves the house.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    pub channels: ChannelSet,
    pub terms: Terms,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    /// `turned`: the list's last event had the other tier.
    Listed { list: ListId, tier: Tier, turned: bool },
    /// Members by shard, both ascending.
    Addressed(Vec<(ShardNo, Vec<UserNo>)>),
    /// Whoever a segment chooses, found user by user.
    Walked(Box<Walk>),
}

/// The tag of a walk.
const WALKED: u8 = 2;

impl Audience {
    pub(crate) fn write(&self, w: &mut Writer) {
        match self {
            Self::Listed { list, tier, turned } => {
                w.u8(0).list_id(*list).u8(*tier as u8).flag(*turned);
            }
            Self::Addressed(shards) => {
                w.u8(1).list(shards.iter(), |w, (shard, members)| {
                    w.varint(shard.0.into()).ascending(members.iter().map(|member| member.0));
                });
            }
            Self::Walked(walk) => walk.write(w.u8(WALKED)),
        }
    }

    /// Whether these are the bytes of a walk.
    pub(crate) fn is_walk(bytes: &[u8]) -> bool {
        bytes.first() == Some(&WALKED)
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match r.u8()? {
            WALKED => Self::Walked(Box::new(Walk::read(r)?)),
            0 => Self::Listed { list: r.list_id()?, tier: read_tier(r)?, turned: r.flag()? },
            1 => Self::Addressed(
                r.list(|r| Ok((r.shard()?, r.ascending()?.into_iter().map(UserNo).collect())))?,
            ),
            other => return Err(Malformed::Tag(other)),
        })
    }
}

impl Options {
    pub(crate) fn write(&self, w: &mut Writer) {
        let flags = u8::from(self.due.is_some())
            | u8::from(self.cancellation.is_some()) << 1
            | u8::from(self.collapse.is_some()) << 2
            | u8::from(self.is_sensitive) << 3
            | u8::from(self.name.is_some()) << 4;
        w.u8(flags);
        if let Some(due) = self.due {
            w.millis(due);
        }
        if let Some(cancellation) = &self.cancellation {
            w.fixed(cancellation);
        }
        for text in [&self.collapse, &self.name].into_iter().flatten() {
            w.sealed(text);
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = r.u8()?;
        (flags <= 31).then_some(()).ok_or(Malformed::Value("options"))?;
        Ok(Self {
            due: (flags & 1 != 0).then(|| r.millis()).transpose()?,
            cancellation: (flags & 2 != 0).then(|| r.array()).transpose()?,
            collapse: (flags & 4 != 0).then(|| r.sealed()).transpose()?,
            is_sensitive: flags & 8 != 0,
            name: (flags & 16 != 0).then(|| r.sealed()).transpose()?,
        })
    }
}

impl Released {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).ulid(self.event).millis(self.due);
        self.about.write(w);
        w.option(self.delivery.as_ref(), |w, delivery| delivery.write(w));
        self.audience.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            event: r.ulid()?,
            due: r.millis()?,
            about: About::read(r)?,
            delivery: r.option(Delivery::read)?,
            audience: Audience::read(r)?,
        })
    }
}

impl Delivery {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.u8(self.channels.bits());
        self.terms.write(w);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { channels: ChannelSet::from_stored(r.u8()?), terms: Terms::read(r)? })
    }
}

pub(crate) fn read_tier(r: &mut Reader<'_>) -> Result<Tier, Malformed> {
    match r.u8()? {
        0 => Ok(Tier::Written),
        1 => Ok(Tier::Pointer),
        _ => Err(Malformed::Value("tier")),
    }
}

impl Admitted {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).ulid(self.event).fixed(&self.key).fixed(&self.body);
        w.text(&self.kind).text(&self.category).u8(self.priority);
        w.option(self.actor.as_ref(), |w, actor| {
            w.sealed(actor);
        });
        w.sealed(&self.content);
        w.option(self.delivery.as_ref(), |w, delivery| delivery.write(w)).varint(self.personal);
        self.options.write(w);
        self.audience.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            event: r.ulid()?,
            key: r.array()?,
            body: r.array()?,
            kind: r.text()?,
            category: r.text()?,
            priority: r.u8()?,
            actor: r.option(Reader::sealed)?,
            content: r.sealed()?,
            delivery: r.option(Delivery::read)?,
            personal: r.varint()?,
            options: Options::read(r)?,
            audience: Audience::read(r)?,
        })
    }
}

impl Fact for FrontRecord {
    fn tag(&self) -> u8 {
        match self {
            Self::Admitted(_) => 1,
            Self::Retracted { .. } => 2,
            Self::Counted { .. } => 3,
            Self::Forgotten { .. } => 4,
            Self::Cancelled { .. } => 5,
            Self::Part { .. } => 6,
            Self::Released(_) => 7,
            Self::Steered { .. } => 8,
            Self::CalledOff(_) => 9,
            Self::Unsaid { .. } => 17,
            Self::Wiped(_) => 70,
        }
    }

    fn write(&self, w: &mut Writer) {
        match self {
            Self::Admitted(admitted) => admitted.write(w),
            Self::Released(released) => released.write(w),
            Self::CalledOff(called) => called.write(w),
            Self::Wiped(stretch) => stretch.write(w),
            Self::Steered { tenant, event, steer } => {
                steer.write(w.tenant(*tenant).ulid(*event));
            }
            Self::Unsaid { tenant, shard, user, events } => {
                w.tenant(*tenant).varint(shard.0.into()).user(*user).list(events.iter(), |w, event| {
                    w.ulid(*event);
                });
            }
            Self::Retracted { tenant, event } | Self::Cancelled { tenant, event } => {
                w.tenant(*tenant).ulid(*event);
            }
            Self::Part { tenant, event, contents } => {
                w.tenant(*tenant).ulid(*event).list(contents.iter(), |w, one| {
                    w.varint(one.shard.0.into()).user(one.user).sealed(&one.content);
                });
            }
            Self::Counted { shard, sizes } => {
                w.varint(shard.0.into()).list(sizes.iter(), |w, size| size.write(w));
            }
            Self::Forgotten { tenant, bucket, keys, events } => {
                w.tenant(*tenant).varint(bucket.0.into());
                w.list(keys.iter(), |w, key| {
                    w.fixed(key);
                });
                w.list(events.iter(), |w, event| {
                    w.ulid(*event);
                });
            }
        }
    }

    fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag {
            1 => Self::Admitted(Admitted::read(r)?),
            2 => Self::Retracted { tenant: r.tenant()?, event: r.ulid()? },
            3 => Self::Counted { shard: r.shard()?, sizes: r.list(Size::read)? },
            4 => Self::Forgotten {
                tenant: r.tenant()?,
                bucket: Bucket(r.u32()?),
                keys: r.list(Reader::array)?,
                events: r.list(Reader::ulid)?,
            },
            5 => Self::Cancelled { tenant: r.tenant()?, event: r.ulid()? },
            6 => Self::Part {
                tenant: r.tenant()?,
                event: r.ulid()?,
                contents: r
                    .list(|r| Ok(Personal { shard: r.shard()?, user: r.user()?, content: r.sealed()? }))?,
            },
            7 => Self::Released(Released::read(r)?),
            8 => Self::Steered { tenant: r.tenant()?, event: r.ulid()?, steer: Steer::read(r)? },
            9 => Self::CalledOff(CalledOffSchedule::read(r)?),
            17 => Self::Unsaid {
                tenant: r.tenant()?,
                shard: ShardNo(r.u16()?),
                user: r.user()?,
                events: r.list(Reader::ulid)?,
            },
            70 => Self::Wiped(WipedStretch::read(r)?),
            _ => return Err(Malformed::Tag(tag)),
        })
    }
}
