//! Time zones as small numbers, so that a column holds one in twelve bits.
//!
//! `zones.txt` has one IANA name per line, links included; the number of a zone is the number of its line. What must
//! never happen: a number that changes its meaning. The file is append-only: a name that a later tzdb brings goes to the
//! end, and one that it drops keeps its line. Number 0 is "no zone is known".
//!
//! The rules behind a name come from the tzdb that is compiled in, never from the machine, so that every node decides
//! alike. What they say is recorded as a fact before it is applied (docs/decisions/0002).

use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::sync::{LazyLock, OnceLock};

const LIST: &str = include_str!("zones.txt");

/// A zone, or none. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ZoneNo(u16);

impl ZoneNo {
    /// No zone is known.
    pub const NONE: Self = Self(0);
    /// What fits into twelve bits.
    pub const MAX: u16 = (1 << 12) - 1;

    /// The zone with exactly this IANA name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let by_name = &TABLE.by_name;
        let at = by_name.binary_search_by(|(listed, _)| (*listed).cmp(name)).ok()?;
        Some(by_name[at].1)
    }

    /// `None` for the number of a later version: whose clock that is, is not known here.
    #[must_use]
    pub fn from_stored(number: u16) -> Option<Self> {
        (usize::from(number) <= TABLE.zones.len()).then_some(Self(number))
    }

    /// The number to store.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// `None` for [`ZoneNo::NONE`].
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.listed().map(|listed| listed.name)
    }

    /// Every zone there is, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..).map(Self).take(TABLE.zones.len())
    }

    /// What its clocks do. `None` for [`ZoneNo::NONE`], and for a name that the tzdb has dropped since.
    #[must_use]
    pub fn rules(self) -> Option<&'static TimeZone> {
        let listed = self.listed()?;
        listed.rules.get_or_init(|| TimeZoneDatabase::bundled().get(listed.name).ok()).as_ref()
    }

    /// This zone, or UTC if it has no rules: for what must come at some time rather than never.
    #[must_use]
    pub fn or_utc(self) -> Self {
        if self.rules().is_some() { self } else { Self::find("UTC").unwrap_or(Self::NONE) }
    }

    fn listed(self) -> Option<&'static Listed> {
        TABLE.zones.get(usize::from(self.0).checked_sub(1)?)
    }
}

struct Table {
    /// In the order of their numbers, which begin at 1.
    zones: Vec<Listed>,
    by_name: Vec<(&'static str, ZoneNo)>,
}

struct Listed {
    name: &'static str,
    /// Parsed when somebody asks: most of the zones are nobody's.
    rules: OnceLock<Option<TimeZone>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let zones = LIST.lines().map(|name| Listed { name, rules: OnceLock::new() }).collect();
    let mut by_name: Vec<_> = LIST.lines().zip((1..).map(ZoneNo)).collect();
    by_name.sort_unstable();
    Table { zones, by_name }
});

#[cfg(test)]
mod tests {
    use super::*;

    // proves: QH-06
    #[test]
    fn names_are_found_as_iana_spells_them() {
        let check = |name: &str, number: Option<u16>| {
            assert_eq!(ZoneNo::find(name).map(ZoneNo::number), number, "{name}");
        };
        // Frozen: these stand in columns.
        check("Africa/Abidjan", Some(1));
        check("America/New_York", Some(171));
        check("Europe/Berlin", Some(434));
        check("Europe/Kiev", Some(450));
        check("Europe/Kyiv", Some(452));
        check("Zulu", Some(598));
        for name in ["", "europe/berlin", "Europe/Berlin ", "Mars/Olympus", "CEST", "UTC+2", "\n", "Europe"] {
            check(name, None);
        }
    }

    #[test]
    fn every_zone_of_the_tzdb_has_a_number() {
        for name in TimeZoneDatabase::bundled().available() {
            let name = name.as_str();
            let zone = ZoneNo::find(name).unwrap_or_else(|| panic!("append {name} to zones.txt"));
            assert_eq!(zone.name(), Some(name));
            assert!(zone.rules().is_some(), "{name}");
        }
    }

    /// Lines may be added, never moved, changed or removed: an FNV-1a of those that were there first.
    #[test]
    fn the_first_lines_stay_as_they_are() {
        let bytes = LIST.lines().take(598).flat_map(|name| name.bytes().chain([b'\n']));
        let hash = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        assert_eq!(hash, 0xB3ABD19F04A249E2, "a number would change its meaning");
    }

    #[test]
    fn numbers_and_names_are_one_to_one() {
        assert!(ZoneNo::all().count() <= usize::from(ZoneNo::MAX));
        for (zone, number) in ZoneNo::all().zip(1..) {
            assert_eq!(zone.number(), number);
            assert_eq!(ZoneNo::from_stored(number), Some(zone));
            assert_eq!(zone.name().and_then(ZoneNo::find), Some(zone), "listed twice");
        }
        let after = u16::try_from(ZoneNo::all().count() + 1).expect("they are less than 4096");
        assert_eq!((ZoneNo::from_stored(after), ZoneNo::from_stored(u16::MAX)), (None, None));
        assert_eq!(ZoneNo::from_stored(0), Some(ZoneNo::NONE));
        assert_eq!(ZoneNo::NONE.name(), None);
        assert!(ZoneNo::NONE.rules().is_none());
        assert_eq!(ZoneNo::NONE.or_utc().name(), Some("UTC"));
    }
}
