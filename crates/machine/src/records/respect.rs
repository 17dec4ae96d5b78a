//! Facts about what users want: preferences and consent.
//!
//! ```text
//! 30 Preferred  tenant, user, revision: varint, kind: u8, source: text, preferences
//! 31 Consented  tenant, list of (user, revision: varint, channel: u8, consent)
//! 32 Replanned  tenant, user
//!
//! preferences = everything: u8, quiet: option (enabled: flag, window: varint, zone: varint), on: u8, off: u8,
//!               list of (category: text, switch: u8, channels: option u8),
//!               list of (channel: u8, limit: 10), ascending
//! consent     = granted: flag, given: millis, version: text, source: text
//! ```

use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::caps::Limit;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::ids::{Millis, TenantId, UserNo};
use fantail_rules::preference::{CategoryChoice, ChangeKind, Preferences, Quiet, Switch, Switches};
use fantail_rules::quiet::Window;
use fantail_rules::zone::ZoneNo;

/// A user's preferences are these from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preferred {
    pub tenant: TenantId,
    pub user: UserNo,
    /// One above that of the state which this replaces.
    pub revision: u32,
    pub kind: ChangeKind,
    /// Who said so, in the producer's words.
    pub source: String,
    pub preferences: Preferences,
}

/// A user has consented to a channel, or does not any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consented {
    pub user: UserNo,
    pub revision: u32,
    pub channel: ChannelKind,
    pub consent: Consent,
}

/// What was said about being told by one channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consent {
    pub is_granted: bool,
    /// When the user said so.
    pub given: Millis,
    /// Of the text that the user saw.
    pub version: String,
    pub source: String,
}

impl Preferred {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).user(self.user).varint(self.revision.into()).u8(self.kind as u8);
        write_preferences(w.text(&self.source), &self.preferences);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            user: r.user()?,
            revision: r.u32()?,
            kind: read_kind(r)?,
            source: r.text()?,
            preferences: read_preferences(r)?,
        })
    }
}

impl Consented {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.user(self.user).varint(self.revision.into()).u8(self.channel as u8);
        self.consent.write(w);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            user: r.user()?,
            revision: r.u32()?,
            channel: read_channel(r)?,
            consent: Consent::read(r)?,
        })
    }
}

impl Consent {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.flag(self.is_granted).millis(self.given).text(&self.version).text(&self.source);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { is_granted: r.flag()?, given: r.millis()?, version: r.text()?, source: r.text()? })
    }
}

pub(crate) fn write_preferences(w: &mut Writer, preferences: &Preferences) {
    let Preferences { everything, quiet, channels, limits, categories } = preferences;
    w.u8(*everything as u8).option(quiet.as_ref(), |w, quiet| {
        let (window, zone) = (quiet.window.bits(), quiet.zone.number());
        w.flag(quiet.is_enabled).varint(window.into()).varint(zone.into());
    });
    w.u8(channels.on().bits()).u8(channels.off().bits());
    w.list(categories.iter(), |w, (name, choice)| {
        w.text(name).u8(choice.switch as u8).option(choice.channels, |w, channels| {
            w.u8(channels.bits());
        });
    });
    w.list(limits.iter(), |w, (channel, limit)| {
        w.u8(*channel as u8).fixed(&limit.to_bytes());
    });
}

pub(crate) fn read_preferences(r: &mut Reader<'_>) -> Result<Preferences, Malformed> {
    let everything = read_switch(r)?;
    let quiet = r.option(|r| {
        let is_enabled = r.flag()?;
        let window = Window::from_stored(r.u32()?).ok_or(Malformed::Value("window"))?;
        Ok(Quiet { is_enabled, window, zone: read_zone(r)? })
    })?;
    let (on, off) = (ChannelSet::from_stored(r.u8()?), ChannelSet::from_stored(r.u8()?));
    let switched = |switches: Switches, (set, switch): (ChannelSet, Switch)| {
        set.iter().fold(switches, |switches, channel| switches.with(channel, switch))
    };
    let channels = [(on, Switch::On), (off, Switch::Off)].into_iter().fold(Switches::default(), switched);
    let categories = r.list(|r| {
        let (name, switch) = (r.text()?, read_switch(r)?);
        let channels = r.option(|r| r.u8().map(ChannelSet::from_stored))?;
        Ok((name, CategoryChoice { switch, channels }))
    })?;
    let limits = r.list(|r| Ok((read_channel(r)?, Limit::from_stored(r.array()?))))?;
    let (limits, categories) = (limits.into_iter().collect(), categories.into_iter().collect());
    Ok(Preferences { everything, quiet, channels, limits, categories })
}

/// The number of a later version's zone is kept as none: whose clock that is, is not known here.
pub(crate) fn read_zone(r: &mut Reader<'_>) -> Result<ZoneNo, Malformed> {
    Ok(ZoneNo::from_stored(r.u16()?).unwrap_or(ZoneNo::NONE))
}

pub(crate) fn read_channel(r: &mut Reader<'_>) -> Result<ChannelKind, Malformed> {
    ChannelKind::from_stored(r.u8()?).ok_or(Malformed::Value("channel"))
}

pub(crate) fn read_kind(r: &mut Reader<'_>) -> Result<ChangeKind, Malformed> {
    ChangeKind::from_stored(r.u8()?).ok_or(Malformed::Value("kind of change"))
}

fn read_switch(r: &mut Reader<'_>) -> Result<Switch, Malformed> {
    Switch::from_stored(r.u8()?).ok_or(Malformed::Value("switch"))
}
