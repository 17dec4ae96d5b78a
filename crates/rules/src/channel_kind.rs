//! The five ways to reach somebody, and sets of them.
//!
//! A kind says which contract a delivery has with its recipient; which provider carries it is decided later and does
//! not matter here. Sets are one byte, so that a preference or a fallback chain costs one.

/// Frozen numbers: they are stored, and they are the bits of [`ChannelSet`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum ChannelKind {
    InApp = 0,
    Push = 1,
    Email = 2,
    Sms = 3,
    Webhook = 4,
}

impl ChannelKind {
    /// In the order of their numbers.
    pub const ALL: [Self; 5] = [Self::InApp, Self::Push, Self::Email, Self::Sms, Self::Webhook];

    /// As requests, settings and metrics say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InApp => "inApp",
            Self::Push => "push",
            Self::Email => "email",
            Self::Sms => "sms",
            Self::Webhook => "webhook",
        }
    }

    /// The kind with exactly this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// `None` for a number of a later version: what it would mean to its recipient is not known here.
    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Some of the kinds. Frozen bits: bit n is the kind with number n.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChannelSet(u8);

impl ChannelSet {
    pub const EMPTY: Self = Self(0);
    pub const ALL: Self = Self((1 << ChannelKind::ALL.len()) - 1);

    #[must_use]
    pub fn with(self, kind: ChannelKind) -> Self {
        Self(self.0 | kind.bit())
    }

    #[must_use]
    pub fn without(self, kind: ChannelKind) -> Self {
        Self(self.0 & !kind.bit())
    }

    #[must_use]
    pub fn contains(self, kind: ChannelKind) -> bool {
        self.0 & kind.bit() != 0
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// In the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = ChannelKind> {
        ChannelKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }

    /// The byte to store.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Bits of a later version are left out: nothing here could send there.
    #[must_use]
    pub fn from_stored(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }
}

impl FromIterator<ChannelKind> for ChannelSet {
    fn from_iter<I: IntoIterator<Item = ChannelKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::EMPTY, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: DEL-01
    #[test]
    fn names_and_numbers_are_frozen() {
        let check = |kind: ChannelKind, number, name| {
            assert_eq!((kind as u8, kind.name()), (number, name));
            assert_eq!(ChannelKind::from_stored(number), Some(kind));
            assert_eq!(ChannelKind::parse(name), Some(kind));
        };
        check(ChannelKind::InApp, 0, "inApp");
        check(ChannelKind::Push, 1, "push");
        check(ChannelKind::Email, 2, "email");
        check(ChannelKind::Sms, 3, "sms");
        check(ChannelKind::Webhook, 4, "webhook");
        assert_eq!(ChannelKind::from_stored(5), None);
        for name in ["", "Push", "SMS", "inapp", "fax"] {
            assert_eq!(ChannelKind::parse(name), None, "{name}");
        }
    }

    #[test]
    fn every_set_is_what_was_put_in() {
        for bits in 0..=ChannelSet::ALL.bits() {
            let set = ChannelSet::from_stored(bits);
            assert_eq!(set.bits(), bits);
            assert_eq!(set.iter().collect::<ChannelSet>(), set);
            assert_eq!(set.iter().count(), bits.count_ones() as usize);
            assert_eq!(set.is_empty(), bits == 0);
            for kind in ChannelKind::ALL {
                assert!(set.with(kind).contains(kind) && !set.without(kind).contains(kind));
            }
        }
        assert_eq!(ChannelSet::from_stored(0xFF), ChannelSet::ALL, "later kinds are left out");
    }
}
