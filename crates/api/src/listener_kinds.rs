//! Which listener serves which routes. A route that a listener does not serve does not exist there.
//!
//! ```text
//! Public   hosted pages, callbacks, tracked links        strangers ask without a key
//! Api      what keys of tenants do, and /openapi.json    producers ask
//! Admin    what the server's own key does, metrics       operators ask; serves everything of Api as well
//! ```
//! Terse health is on every listener. Invariant: the server's own key is accepted on a listener of kind Admin only.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ListenerKind {
    Public = 1,
    Api = 2,
    Admin = 4,
}

/// A set of them: of a listener what it serves, of a route where it is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenerKinds(u8);

impl ListenerKinds {
    pub const PUBLIC: Self = Self::from_kinds(&[ListenerKind::Public]);
    pub const API: Self = Self::from_kinds(&[ListenerKind::Api]);
    pub const ADMIN: Self = Self::from_kinds(&[ListenerKind::Admin]);
    pub const API_AND_ADMIN: Self = Self::from_kinds(&[ListenerKind::Api, ListenerKind::Admin]);
    pub const ALL: Self = Self::from_kinds(&[ListenerKind::Public, ListenerKind::Api, ListenerKind::Admin]);

    #[must_use]
    pub const fn from_kinds(kinds: &[ListenerKind]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < kinds.len() {
            set |= kinds[at] as u8;
            at += 1;
        }
        Self(set)
    }

    #[must_use]
    pub const fn contains(self, kind: ListenerKind) -> bool {
        self.0 & kind as u8 != 0
    }

    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// As operators read it.
    #[must_use]
    pub fn names(self) -> String {
        let names =
            [(ListenerKind::Public, "public"), (ListenerKind::Api, "api"), (ListenerKind::Admin, "admin")];
        let own: Vec<&str> =
            names.iter().filter(|(kind, _)| self.contains(*kind)).map(|(_, name)| *name).collect();
        own.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sets() {
        let both = ListenerKinds::PUBLIC.union(ListenerKinds::ADMIN);
        assert!(both.contains(ListenerKind::Public) && !both.contains(ListenerKind::Api));
        assert!(both.intersects(ListenerKinds::API_AND_ADMIN) && !both.intersects(ListenerKinds::API));
        assert_eq!(both.names(), "public, admin");
        assert_eq!(ListenerKinds::PUBLIC.union(ListenerKinds::API_AND_ADMIN), ListenerKinds::ALL);
    }
}
