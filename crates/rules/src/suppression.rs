//! Why nothing is sent to an address, whoever has it. What a user consents to is another matter and kept elsewhere.

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Reason {
    /// Providers say that nobody is there.
    DeadEndpoint = 1,
    HardBounce = 2,
    /// Somebody called our mail spam.
    Complaint = 3,
    /// Somebody answered STOP.
    Stop = 4,
    /// The tenant says so.
    Manual = 5,
}

impl Reason {
    /// In the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::DeadEndpoint, Self::HardBounce, Self::Complaint, Self::Stop, Self::Manual];

    /// As requests and answers say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DeadEndpoint => "deadEndpoint",
            Self::HardBounce => "hardBounce",
            Self::Complaint => "complaint",
            Self::Stop => "stop",
            Self::Manual => "manual",
        }
    }

    /// Whether this reason takes the place of the one that an address has. A complaint is the strongest. A STOP is the
    /// weakest, because a START lifts it. Of the others the first stays: it says why the address was suppressed.
    #[must_use]
    pub fn replaces(self, known: Self) -> bool {
        self.strength() > known.strength()
    }

    fn strength(self) -> u8 {
        match self {
            Self::Stop => 0,
            Self::DeadEndpoint | Self::HardBounce | Self::Manual => 1,
            Self::Complaint => 2,
        }
    }

    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }

    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // fixes: usability P3
    #[test]
    fn the_strongest_reason_stays_and_of_equal_ones_the_first() {
        use Reason::{Complaint, DeadEndpoint, HardBounce, Manual, Stop};
        for (known, new, replaced) in [
            (Manual, HardBounce, false),
            (HardBounce, Manual, false),
            (DeadEndpoint, HardBounce, false),
            (Manual, Complaint, true),
            (HardBounce, Complaint, true),
            (Complaint, Manual, false),
            (Complaint, HardBounce, false),
            (Complaint, Stop, false),
            (Manual, Stop, false),
            (Stop, Manual, true),
            (Stop, HardBounce, true),
            (Stop, Complaint, true),
        ] {
            assert_eq!(new.replaces(known), replaced, "{known:?}, then {new:?}");
        }
        assert!(Reason::ALL.iter().all(|reason| !reason.replaces(*reason)));
    }

    #[test]
    fn numbers_and_names_are_frozen() {
        let names = ["deadEndpoint", "hardBounce", "complaint", "stop", "manual"];
        for (number, name) in (1..).zip(names) {
            assert_eq!(Reason::from_stored(number), Reason::parse(name));
            assert_eq!(Reason::parse(name).map(|reason| reason as u8), Some(number));
        }
        assert_eq!(
            (Reason::from_stored(0), Reason::from_stored(6), Reason::parse("STOP")),
            (None, None, None)
        );
    }
}
