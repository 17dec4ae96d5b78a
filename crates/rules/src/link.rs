//! Links that let a recipient say what it wants without logging in: to a page of preferences, or out of something.
//!
//! ```text
//! text   = base32 (Crockford, lower case) of tenant, key (varints), nonce: 12, sealed
//! sealed = under the user's own key: version 1, shard, user (varints), purpose: u8, channel: u8 (0 for all, else its
//!          number + 1), until: varint (0 for ever), category: the rest, in UTF-8 (empty for all)
//! ```
//! Comes from: the API that makes links, and whoever follows one. Decides: what a link is for, and what is left of the
//! preferences of someone who leaves by it. What must never happen: a link that says to a reader of the URL whom it belongs
//! to or what it is about, and one that outlives its user: it is sealed under a key that goes with the user.

use crate::channel_kind::{ChannelKind, ChannelSet};
use crate::ids::{KeyNo, Millis, ShardNo, TenantId, UserNo};
use crate::limits::CATEGORY_CHOICES_MAX;
use crate::preference::{Preferences, Switch};
use crate::reference::{base32, put, take, unbase32};

const VERSION: u64 = 1;
const NONCE_BYTES: usize = 12;
/// Longer texts are not looked at: the longest category, sealed, is a third of it.
const TEXT_BYTES_MAX: usize = 512;

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Purpose {
    /// To see and change everything.
    Preferences = 1,
    /// To leave, and nothing else: such links travel in headers of mails, and further.
    Unsubscribe = 2,
}

/// What a link says once it is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    pub shard: ShardNo,
    pub user: UserNo,
    pub purpose: Purpose,
    /// What it is about: all channels without one.
    pub channel: Option<ChannelKind>,
    /// All categories without one.
    pub category: Option<String>,
    /// From when on it is of no use.
    pub until: Option<Millis>,
}

/// A link as it travels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    pub tenant: TenantId,
    pub key: KeyNo,
    pub nonce: [u8; NONCE_BYTES],
    pub sealed: Vec<u8>,
}

impl Envelope {
    #[must_use]
    pub fn write(&self) -> String {
        let mut bytes = Vec::with_capacity(self.sealed.len() + 24);
        put(&mut bytes, self.tenant.0.into());
        put(&mut bytes, self.key.0);
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&self.sealed);
        base32(&bytes)
    }

    /// `None` for what cannot be one. Whether it is one of ours, only its key can say.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let bytes = unbase32(Some(text).filter(|text| text.len() <= TEXT_BYTES_MAX)?)?;
        let mut rest = &bytes[..];
        let tenant = TenantId(u32::try_from(take(&mut rest)?).ok()?);
        let key = KeyNo(take(&mut rest)?);
        let (nonce, sealed) = rest.split_first_chunk()?;
        Some(Self { tenant, key, nonce: *nonce, sealed: sealed.to_vec() })
    }
}

impl Link {
    /// What is to be sealed.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        let channel = self.channel.map_or(0, |channel| channel as u64 + 1);
        let numbers = [
            VERSION,
            self.shard.0.into(),
            self.user.0,
            self.purpose as u64,
            channel,
            self.until.map_or(0, |until| until.0),
        ];
        numbers.into_iter().for_each(|number| put(&mut bytes, number));
        bytes.extend_from_slice(self.category.as_deref().unwrap_or_default().as_bytes());
        bytes
    }

    #[must_use]
    pub fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut number = || take(&mut bytes);
        if number()? != VERSION {
            return None;
        }
        let (shard, user) = (ShardNo(u16::try_from(number()?).ok()?), UserNo(number()?));
        let purpose = match number()? {
            1 => Purpose::Preferences,
            2 => Purpose::Unsubscribe,
            _ => return None,
        };
        let channel = match u8::try_from(number()?).ok()?.checked_sub(1) {
            None => None,
            Some(stored) => Some(ChannelKind::from_stored(stored)?),
        };
        let until = Some(Millis(number()?)).filter(|until| until.0 > 0);
        let category = Some(String::from_utf8(bytes.to_vec()).ok()?).filter(|name| !name.is_empty());
        Some(Self { shard, user, purpose, channel, category, until })
    }

    #[must_use]
    pub fn is_over(&self, now: Millis) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// What the user wants once it has left what this link is about. Where a category of its own cannot be noted any more,
    /// more is left rather than less.
    #[must_use]
    pub fn leave(&self, before: &Preferences) -> Preferences {
        let mut after = before.clone();
        let has_room = |name: &String| {
            before.categories.contains_key(name) || before.categories.len() < CATEGORY_CHOICES_MAX
        };
        match (self.category.as_ref().filter(|name| has_room(name)), self.channel) {
            (Some(name), None) => after.categories.entry(name.clone()).or_default().switch = Switch::Off,
            (Some(name), Some(channel)) => {
                let allowed: ChannelSet = ChannelKind::ALL
                    .into_iter()
                    .filter(|kind| before.channels.of(*kind) != Switch::Off)
                    .collect();
                let choice = after.categories.entry(name.clone()).or_default();
                let left = choice.channels.unwrap_or(allowed).without(channel);
                choice.channels = Some(left);
            }
            (None, Some(channel)) => {
                after.channels = after.channels.with(channel, Switch::Off);
                // A category's own channels count whatever is said about channels elsewhere.
                for choice in after.categories.values_mut() {
                    choice.channels = choice.channels.map(|channels| channels.without(channel));
                }
            }
            (None, None) => after.everything = Switch::Off,
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preference::CategoryChoice;
    use proptest::prelude::*;

    fn link(channel: Option<ChannelKind>, category: Option<&str>) -> Link {
        let category = category.map(str::to_owned);
        let purpose = Purpose::Unsubscribe;
        Link { shard: ShardNo(3), user: UserNo(70), purpose, channel, category, until: None }
    }

    // proves: EML-03, PRF-01
    #[test]
    fn whoever_leaves_is_told_nothing_more_of_it() {
        use ChannelKind::{Email, Push};
        let own = |kinds: &[ChannelKind]| CategoryChoice {
            switch: Switch::NotSaid,
            channels: Some(kinds.iter().copied().collect()),
        };
        let mut before = Preferences::default();
        before.categories.insert("likes".to_owned(), own(&[Email, Push]));
        before.channels = before.channels.with(ChannelKind::Sms, Switch::Off);
        let after = link(Some(Email), Some("news")).leave(&before);
        let news = after.categories["news"].channels.expect("its own channels");
        assert!(!news.contains(Email) && !news.contains(ChannelKind::Sms) && news.contains(Push));
        assert_eq!(after.categories["likes"], before.categories["likes"], "nothing else changes");
        assert_eq!(after.channels, before.channels);
        let after = link(None, Some("news")).leave(&before);
        assert_eq!(after.categories["news"].switch, Switch::Off);
        let after = link(Some(Email), None).leave(&before);
        assert_eq!(after.channels.of(Email), Switch::Off);
        assert_eq!(after.categories["likes"], own(&[Push]), "no way around the channel is left");
        let after = link(None, None).leave(&before);
        assert_eq!(after.everything, Switch::Off);
        for link in [link(Some(Email), Some("news")), link(None, Some("news")), link(Some(Email), None)] {
            let once = link.leave(&before);
            assert_eq!(link.leave(&once), once, "to leave again changes nothing");
        }
    }

    #[test]
    fn where_no_category_can_be_noted_more_is_left() {
        let named = |no: usize| (format!("c{no}"), CategoryChoice::default());
        let full = Preferences {
            categories: (0..CATEGORY_CHOICES_MAX).map(named).collect(),
            ..Preferences::default()
        };
        let after = link(Some(ChannelKind::Email), Some("news")).leave(&full);
        assert_eq!((after.channels.of(ChannelKind::Email), after.categories.len()), (Switch::Off, 64));
        assert_eq!(link(None, Some("news")).leave(&full).everything, Switch::Off);
        let known = link(None, Some("c7")).leave(&full);
        assert_eq!((known.everything, known.categories["c7"].switch), (Switch::NotSaid, Switch::Off));
    }

    #[test]
    fn links_end() {
        let ending = Link { until: Some(Millis(100)), ..link(None, None) };
        assert_eq!([99, 100, 101].map(|now| ending.is_over(Millis(now))), [false, true, true]);
        assert!(!link(None, None).is_over(Millis(u64::MAX)));
    }

    #[test]
    fn the_layout_is_frozen() {
        let full = Link { until: Some(Millis(300)), ..link(Some(ChannelKind::Email), Some("news")) };
        assert_eq!(full.write(), [&[1, 3, 70, 2, 3, 0xac, 2], &b"news"[..]].concat());
        let (tenant, key, nonce, sealed) = (TenantId(7), KeyNo(300), [9; 12], vec![1, 2, 3]);
        let envelope = Envelope { tenant, key, nonce, sealed };
        assert_eq!(envelope.write(), "0yp04289144gj289144gj28904106");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            shard: u16, user in 0..u64::MAX >> 1, channel in 0u8..6, category in ".{0,20}",
            until in 0..u64::MAX >> 1, text in "[0-9a-z]{0,80}", bytes: Vec<u8>,
        ) {
            let link = Link {
                shard: ShardNo(shard),
                user: UserNo(user),
                purpose: Purpose::Preferences,
                channel: channel.checked_sub(1).and_then(ChannelKind::from_stored),
                category: Some(category).filter(|name| !name.is_empty()),
                until: Some(Millis(until)).filter(|until| until.0 > 0),
            };
            prop_assert_eq!(Link::read(&link.write()), Some(link.clone()));
            let (tenant, key) = (TenantId(u32::from(shard)), KeyNo(user));
            let envelope = Envelope { tenant, key, nonce: [channel; 12], sealed: link.write() };
            prop_assert_eq!(Envelope::read(&envelope.write()), Some(envelope));
            // What anybody may send us never panics.
            drop((Envelope::read(&text), Link::read(&bytes)));
        }
    }
}
