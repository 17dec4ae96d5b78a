//! An endpoint of a user, and what becomes of it: a token, a mail address, a number or a URL that belongs to one user.
//!
//! ```text
//! pending ──granted──► active ◄─refresh─ stale ──270 idle days──► expired
//!    │                  │  ▲    30 idle days ▲
//!    └──suppressed──► suppressed              dead: the provider says so
//! any of these four ──another user claims the address──► released
//! ```
//! What must never happen: an endpoint that is used while its address may belong to somebody else. Only `Active` is
//! used, and the four that hold an address lose it before anybody else may use it.

use crate::channel_kind::ChannelKind;
use crate::limits::{EXPIRED_AFTER_MS, STALE_AFTER_MS};

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Status {
    /// Registered; the directory has not said yet that the address is this user's alone.
    Pending = 1,
    Active = 2,
    /// Silent for long: not used until it refreshes.
    Stale = 3,
    /// Silent for so long that the address was given up.
    Expired = 4,
    /// The provider says that nobody is there.
    Dead = 5,
    /// The address belongs to somebody else now.
    Released = 6,
    /// Nothing may be sent to the address, whoever has it.
    Suppressed = 7,
}

impl Status {
    /// In the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Active,
        Self::Stale,
        Self::Expired,
        Self::Dead,
        Self::Released,
        Self::Suppressed,
    ];

    /// As answers and metrics say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Stale => "stale",
            Self::Expired => "expired",
            Self::Dead => "dead",
            Self::Released => "released",
            Self::Suppressed => "suppressed",
        }
    }

    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| *status as u8 == number)
    }

    /// The endpoint has, or has asked for, its address: whoever wants it next must wait until it is released.
    #[must_use]
    pub fn holds_address(self) -> bool {
        match self {
            Self::Pending | Self::Active | Self::Stale | Self::Suppressed => true,
            Self::Expired | Self::Dead | Self::Released => false,
        }
    }

    /// After the endpoint was heard of again under the same address, which it still holds.
    #[must_use]
    pub fn refreshed(self) -> Self {
        match self {
            Self::Stale => Self::Active,
            Self::Pending | Self::Active | Self::Expired | Self::Dead | Self::Released | Self::Suppressed => {
                self
            }
        }
    }
}

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Platform {
    #[default]
    None = 0,
    Ios = 1,
    Android = 2,
    Web = 3,
}

impl Platform {
    /// In the order of their numbers.
    pub const ALL: [Self; 4] = [Self::None, Self::Ios, Self::Android, Self::Web];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ios => "ios",
            Self::Android => "android",
            Self::Web => "web",
        }
    }

    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.name() == name)
    }

    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What is heard of an endpoint's claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// The directory answered the claim: the address is this endpoint's.
    Granted { suppressed: bool },
    /// The directory has the claim; somebody else lets go of the address first.
    Queued,
    /// The directory says, unasked, what holds now. Said in order, so the last one counts.
    Told { suppressed: bool },
    /// The address belongs to somebody else now, or to nobody.
    Released,
    /// The provider says that nobody is there.
    Dead,
    /// Nothing was heard of the device for so long.
    Idle { silent_ms: u64 },
}

/// What the endpoint is now; `None` if it stays as it was and nothing needs to be written.
#[must_use]
pub fn after(status: Status, kind: ChannelKind, news: News) -> Option<Status> {
    let held = status.holds_address();
    match news {
        News::Granted { suppressed } => (status == Status::Pending).then(|| granted(suppressed)),
        News::Queued => (status == Status::Pending).then_some(Status::Pending),
        News::Told { suppressed: true } => {
            (held && status != Status::Suppressed).then_some(Status::Suppressed)
        }
        News::Told { suppressed: false } => {
            matches!(status, Status::Pending | Status::Suppressed).then_some(Status::Active)
        }
        News::Released => held.then_some(Status::Released),
        News::Dead => held.then_some(Status::Dead),
        News::Idle { silent_ms } if kind == ChannelKind::Push && held => {
            let active = status == Status::Active;
            match silent_ms {
                EXPIRED_AFTER_MS.. => Some(Status::Expired),
                STALE_AFTER_MS.. if active => Some(Status::Stale),
                _ => None,
            }
        }
        // Mail addresses, numbers and URLs do not call to say that they are still there.
        News::Idle { .. } => None,
    }
}

fn granted(suppressed: bool) -> Status {
    if suppressed { Status::Suppressed } else { Status::Active }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Active, Dead, Expired, Pending, Released, Stale, Suppressed};

    const DAY_MS: u64 = 24 * 3_600_000;

    // proves: DEV-01
    #[test]
    fn numbers_and_names_are_frozen() {
        for (number, name) in
            [(1, "pending"), (2, "active"), (3, "stale"), (4, "expired"), (5, "dead"), (6, "released")]
                .into_iter()
                .chain([(7, "suppressed")])
        {
            assert_eq!(Status::from_stored(number).map(Status::name), Some(name));
        }
        assert_eq!((Status::from_stored(0), Status::from_stored(8)), (None, None));
        for (number, name) in [(0, "none"), (1, "ios"), (2, "android"), (3, "web")] {
            assert_eq!(Platform::from_stored(number), Platform::parse(name));
            assert_eq!(Platform::parse(name).map(|platform| platform as u8), Some(number));
        }
        assert_eq!((Platform::from_stored(4), Platform::parse("iOS")), (None, None));
    }

    /// Every status, in the order of their numbers.
    fn check(news: News, expected: [Option<Status>; 7]) {
        let found = Status::ALL.map(|status| after(status, ChannelKind::Push, news));
        assert_eq!(found, expected, "{news:?}");
    }

    // proves: DEV-02, DEV-03
    #[test]
    fn what_becomes_of_an_endpoint() {
        let same = None;
        let to = Some;
        check(News::Granted { suppressed: false }, [to(Active), same, same, same, same, same, same]);
        check(News::Granted { suppressed: true }, [to(Suppressed), same, same, same, same, same, same]);
        check(News::Queued, [to(Pending), same, same, same, same, same, same]);
        let suppressed = to(Suppressed);
        check(News::Told { suppressed: true }, [suppressed, suppressed, suppressed, same, same, same, same]);
        check(News::Told { suppressed: false }, [to(Active), same, same, same, same, same, to(Active)]);
        let released = to(Released);
        check(News::Released, [released, released, released, same, same, same, released]);
        check(News::Dead, [to(Dead), to(Dead), to(Dead), same, same, same, to(Dead)]);
        check(News::Idle { silent_ms: 30 * DAY_MS - 1 }, [same; 7]);
        check(News::Idle { silent_ms: 30 * DAY_MS }, [same, to(Stale), same, same, same, same, same]);
        let expired = to(Expired);
        check(News::Idle { silent_ms: 270 * DAY_MS }, [expired, expired, expired, same, same, same, expired]);
    }

    #[test]
    fn only_devices_grow_stale() {
        for kind in ChannelKind::ALL.into_iter().filter(|kind| *kind != ChannelKind::Push) {
            assert_eq!(after(Active, kind, News::Idle { silent_ms: 300 * DAY_MS }), None, "{kind:?}");
        }
        assert_eq!(Stale.refreshed(), Active);
        assert!(Status::ALL.into_iter().filter(|status| *status != Stale).all(|s| s.refreshed() == s));
    }

    // proves: DEV-03
    /// Once a claim was released, nothing that is said about it brings it back.
    #[test]
    fn what_was_given_up_stays_so() {
        for gone in [Expired, Dead, Released] {
            for news in [
                News::Granted { suppressed: false },
                News::Queued,
                News::Told { suppressed: false },
                News::Told { suppressed: true },
                News::Released,
                News::Dead,
                News::Idle { silent_ms: u64::MAX },
            ] {
                assert_eq!(after(gone, ChannelKind::Push, news), None, "{gone:?} {news:?}");
            }
        }
    }
}
