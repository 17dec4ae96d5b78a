//! Facts about categories, and about users who say nothing: a part of the control plane, in a file of its own.
//!
//! ```text
//! 10 CategoryPut   tenant, name: text, version: varint, policy, difference
//! 11 CategoryGone  tenant, name: text, difference
//! 12 DefaultsPut   tenant, version: varint, defaults, difference
//!
//! policy   = mandatory: u8, blocked: u8, overflow: u8, priority: option u8,
//!            digest: option (window, min, max, leading: varints, key: option text),
//!            storm: option (window: varint, threshold: u8), daily: time, weekly: time,
//!            throttle: option (seconds: varint, key: option text),
//!            fallback: list of (channel: u8, condition: u8, seconds: varint)
//! time     = minute: varint, days: u8
//! defaults = preferences (see `respect`)
//! ```

use super::difference::Difference;
use super::respect::{read_channel, read_preferences, write_preferences};
use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::digest::{Calendar, StormTerms, Terms};
use fantail_rules::gates::Overflow;
use fantail_rules::ids::TenantId;
use fantail_rules::policy::{
    CalendarTimes, CategoryPolicy, Condition, Defaults, Digest, KeyTemplate, Step, Throttle,
};
use fantail_rules::priority::Priority;
use fantail_rules::quiet::Days;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CategoryPut {
    pub tenant: TenantId,
    pub name: String,
    /// Never used for anything of this tenant's policies before, even if a category of that name was deleted.
    pub version: u32,
    pub policy: CategoryPolicy,
    pub difference: Difference,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultsPut {
    pub tenant: TenantId,
    /// As of a category.
    pub version: u32,
    pub defaults: Defaults,
    pub difference: Difference,
}

impl CategoryPut {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.name).varint(self.version.into());
        write_policy(w, &self.policy);
        self.difference.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, name, version) = (r.tenant()?, r.text()?, r.u32()?);
        Ok(Self { tenant, name, version, policy: read_policy(r)?, difference: Difference::read(r)? })
    }
}

impl DefaultsPut {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).varint(self.version.into());
        write_defaults(w, &self.defaults);
        self.difference.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, version) = (r.tenant()?, r.u32()?);
        Ok(Self { tenant, version, defaults: read_defaults(r)?, difference: Difference::read(r)? })
    }
}

pub(crate) fn write_defaults(w: &mut Writer, defaults: &Defaults) {
    write_preferences(w, &defaults.preferences);
}

pub(crate) fn read_defaults(r: &mut Reader<'_>) -> Result<Defaults, Malformed> {
    Ok(Defaults { preferences: read_preferences(r)? })
}

pub(crate) fn write_policy(w: &mut Writer, policy: &CategoryPolicy) {
    let CategoryPolicy { mandatory, blocked, overflow, priority, digest, storm, calendar, .. } = policy;
    w.u8(mandatory.bits()).u8(blocked.bits()).u8(match overflow {
        Overflow::Drop => 0,
        Overflow::Fold => 1,
    });
    w.option(*priority, |w, priority| {
        w.u8(priority as u8);
    });
    w.option(digest.as_ref(), |w, Digest { terms, collapse_key }| {
        w.varint(terms.window_seconds.into()).varint(terms.min_count.into());
        w.varint(terms.max_count.into()).varint(terms.leading.into());
        write_key(w, collapse_key.as_ref());
    });
    w.option(*storm, |w, storm| {
        w.varint(storm.window_seconds.into()).u8(storm.threshold);
    });
    for time in [calendar.daily, calendar.weekly] {
        w.varint(time.minute().into()).u8(time.days().bits());
    }
    w.option(policy.throttle.as_ref(), |w, throttle| {
        w.varint(throttle.per_seconds.into());
        write_key(w, throttle.key.as_ref());
    });
    w.list(policy.fallback.iter(), |w, step| write_step(w, *step));
}

pub(crate) fn read_policy(r: &mut Reader<'_>) -> Result<CategoryPolicy, Malformed> {
    let (mandatory, blocked) = (ChannelSet::from_stored(r.u8()?), ChannelSet::from_stored(r.u8()?));
    let overflow = match r.u8()? {
        0 => Overflow::Drop,
        1 => Overflow::Fold,
        _ => return Err(Malformed::Value("overflow")),
    };
    Ok(CategoryPolicy {
        mandatory,
        blocked,
        overflow,
        priority: r.option(|r| Ok(Priority::from_stored(r.u8()?)))?,
        digest: r.option(read_digest)?,
        storm: r.option(|r| Ok(StormTerms { window_seconds: r.u32()?, threshold: r.u8()? }))?,
        calendar: CalendarTimes { daily: read_time(r)?, weekly: read_time(r)? },
        throttle: r.option(|r| Ok(Throttle { per_seconds: r.u32()?, key: read_key(r)? }))?,
        fallback: r.list(read_step)?,
    })
}

fn read_digest(r: &mut Reader<'_>) -> Result<Digest, Malformed> {
    let terms =
        Terms { window_seconds: r.u32()?, min_count: r.u16()?, max_count: r.u16()?, leading: r.u16()? };
    Ok(Digest { terms, collapse_key: read_key(r)? })
}

fn read_time(r: &mut Reader<'_>) -> Result<Calendar, Malformed> {
    let (minute, days) = (r.u16()?, Days::from_bits(r.u8()?).ok_or(Malformed::Value("days"))?);
    Calendar::new(minute, days).ok_or(Malformed::Value("minute"))
}

pub(crate) fn write_step(w: &mut Writer, step: Step) {
    w.u8(step.channel as u8).u8(step.when as u8).varint(step.after_seconds.into());
}

pub(crate) fn read_step(r: &mut Reader<'_>) -> Result<Step, Malformed> {
    let (channel, when) = (read_channel(r)?, Condition::from_stored(r.u8()?));
    Ok(Step { channel, when: when.ok_or(Malformed::Value("condition"))?, after_seconds: r.u32()? })
}

fn write_key(w: &mut Writer, key: Option<&KeyTemplate>) {
    w.option(key, |w, key| {
        w.text(key.text());
    });
}

fn read_key(r: &mut Reader<'_>) -> Result<Option<KeyTemplate>, Malformed> {
    r.option(|r| KeyTemplate::parse(&r.text()?).map_err(|_| Malformed::Value("key")))
}
