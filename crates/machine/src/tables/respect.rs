//! What users want: their preferences and consents as they are, and how they came to be so.
//!
//! ```text
//! 62 tenant user: u64                -> revision: varint, preferences, list of (channel: u8, revision: varint, consent)
//! 63 tenant user: u64 revision: u64  -> at: millis, 1 kind: u8, source: text, before: preferences, after: preferences
//!                                                 | 2 channel: u8, before: option consent, after: consent
//! ```
//! Row 62 exists once a user said anything. A few bits of it are in the column; see `columns`.

use super::{Family, Key, Row, collect, get, tail_u64};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::respect::{Consent, read_channel, read_kind, read_preferences, write_preferences};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, TenantId, UserNo};
use fantail_rules::preference::{ChangeKind, Preferences};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RespectRow {
    /// Of the latest change; 0 if there was none.
    pub revision: u32,
    pub preferences: Preferences,
    /// Ascending by channel.
    pub consents: Vec<Consenting>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consenting {
    pub channel: ChannelKind,
    /// Of the change that made it so: the proof is found under it.
    pub revision: u32,
    pub consent: Consent,
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    pub at: Millis,
    pub what: What,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    Preferences { kind: ChangeKind, source: String, before: Preferences, after: Preferences },
    Consent { channel: ChannelKind, before: Option<Consent>, after: Consent },
}

impl RespectRow {
    #[must_use]
    pub fn consent(&self, channel: ChannelKind) -> Option<&Consenting> {
        self.consents.iter().find(|consenting| consenting.channel == channel)
    }
}

#[must_use]
pub fn key(tenant: TenantId, user: UserNo) -> Vec<u8> {
    Key::new(Family::Respect, tenant).u64(user.0).finish()
}

#[must_use]
pub fn history_key(tenant: TenantId, user: UserNo, revision: u32) -> Vec<u8> {
    Key::new(Family::RespectHistory, tenant).u64(user.0).u64(revision.into()).finish()
}

pub fn find(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<RespectRow, TablesError> {
    Ok(get(tables, &key(tenant, user))?.unwrap_or_default())
}

/// Changes below a revision, newest first.
pub fn history(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
    below: u32,
    limit: usize,
) -> Result<Vec<(u32, Changed)>, TablesError> {
    let (from, to) = (history_key(tenant, user, 0), history_key(tenant, user, below));
    collect(tables, KeyRange { from: &from, to: &to }, Order::Descending, limit, |key, value| {
        let revision = u32::try_from(tail_u64(key, Changed::NAME)?);
        let revision = revision.map_err(|_| Malformed::Value("revision").in_row(Changed::NAME))?;
        Ok((revision, Changed::decode(value)?))
    })
}

impl Row for RespectRow {
    const NAME: &'static str = "respect";

    fn write(&self, w: &mut Writer) {
        write_preferences(w.varint(self.revision.into()), &self.preferences);
        w.list(self.consents.iter(), |w, consenting| {
            w.u8(consenting.channel as u8).varint(consenting.revision.into());
            consenting.consent.write(w);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (revision, preferences) = (r.u32()?, read_preferences(r)?);
        let consents = r.list(|r| {
            let (channel, revision) = (read_channel(r)?, r.u32()?);
            Ok(Consenting { channel, revision, consent: Consent::read(r)? })
        })?;
        let ascending = consents.is_sorted_by(|a, b| a.channel < b.channel);
        let row = Self { revision, preferences, consents };
        if ascending { Ok(row) } else { Err(Malformed::Value("consents")) }
    }
}

impl Row for Changed {
    const NAME: &'static str = "respect history";

    fn write(&self, w: &mut Writer) {
        w.millis(self.at);
        match &self.what {
            What::Preferences { kind, source, before, after } => {
                w.u8(1).u8(*kind as u8).text(source);
                write_preferences(w, before);
                write_preferences(w, after);
            }
            What::Consent { channel, before, after } => {
                w.u8(2).u8(*channel as u8).option(before.as_ref(), |w, before| before.write(w));
                after.write(w);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let at = r.millis()?;
        let what = match r.u8()? {
            1 => What::Preferences {
                kind: read_kind(r)?,
                source: r.text()?,
                before: read_preferences(r)?,
                after: read_preferences(r)?,
            },
            2 => What::Consent {
                channel: read_channel(r)?,
                before: r.option(Consent::read)?,
                after: Consent::read(r)?,
            },
            other => return Err(Malformed::Tag(other)),
        };
        Ok(Self { at, what })
    }
}
