//! Fallback chains: the channel that is tried next, and when.

use crate::channel_kind::ChannelKind;

/// One step of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub channel: ChannelKind,
    pub when: Condition,
    /// How long the channel before it has; 0 where it has failed.
    pub after_seconds: u32,
}

/// What sends a chain on its way. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Condition {
    /// Nobody said that it arrived.
    NoReceipt = 1,
    /// The user has neither seen nor read it.
    NotSeen = 2,
    /// The channel before it cannot deliver: it failed for good, may not be used, or nobody is there.
    Failed = 3,
}

impl Condition {
    /// In the order of their numbers.
    pub const ALL: [Self; 3] = [Self::NoReceipt, Self::NotSeen, Self::Failed];

    /// As requests and answers say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoReceipt => "noReceipt",
            Self::NotSeen => "notSeen",
            Self::Failed => "failed",
        }
    }

    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| *condition as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_frozen() {
        for (number, name) in [(1, "noReceipt"), (2, "notSeen"), (3, "failed")] {
            assert_eq!(Condition::from_stored(number).map(Condition::name), Some(name));
        }
        assert_eq!((Condition::from_stored(0), Condition::from_stored(4)), (None, None));
    }
}
