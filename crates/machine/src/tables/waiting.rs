//! Waiting deliveries by user: a preference change finds those of its user and reads nothing of others.
//!
//! ```text
//! 68 tenant user arrival channel: u8 -> (empty)     deliveries of the event to this user wait at a gate
//! ```
//! Numbers are `Key::ordered`. A user with several devices has one row per event and channel.
//!
//! Invariant: a row exists as long as a ledger has a delivery of the user that waits at a gate; `shard::ledgers` writes both.
//! Deliveries that began to wait before there was this index have no row: a bit in the column of their user stands for them.

use super::{Family, Key, collect, read_ordered};
use crate::codec::Malformed;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, TenantId, UserNo};

const NAME: &str = "waiting";

/// One row of a user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Waiting {
    pub arrival: Arrival,
    pub channel: ChannelKind,
}

#[must_use]
pub fn key(tenant: TenantId, user: UserNo, waiting: Waiting) -> Vec<u8> {
    of(tenant, user).ordered(waiting.arrival.0).bytes(&[waiting.channel as u8]).finish()
}

fn of(tenant: TenantId, user: UserNo) -> Key {
    Key::new(Family::Waiting, tenant).ordered(user.0)
}

/// Rows of a user behind one, in order, at most `limit`.
pub fn of_user(
    tables: &dyn Tables,
    (tenant, user): (TenantId, UserNo),
    behind: Option<Waiting>,
    limit: usize,
) -> Result<Vec<Waiting>, TablesError> {
    let prefix = of(tenant, user);
    let to = prefix.end();
    let from = match behind {
        None => prefix.finish(),
        Some(behind) => [key(tenant, user, behind), vec![0]].concat(),
    };
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, _| {
        parse(key).map(|(_, waiting)| waiting).ok_or_else(|| Malformed::Value("key").in_row(NAME))
    })
}

/// Rows of all users of a tenant, in order.
pub fn all(tables: &dyn Tables, tenant: TenantId) -> Result<Vec<(UserNo, Waiting)>, TablesError> {
    let prefix = Key::new(Family::Waiting, tenant);
    let (from, to) = (prefix.clone().finish(), prefix.end());
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, usize::MAX, |key, _| {
        parse(key).ok_or_else(|| Malformed::Value("key").in_row(NAME))
    })
}

fn parse(key: &[u8]) -> Option<(UserNo, Waiting)> {
    let (user, rest) = read_ordered(key.get(5..)?)?;
    let (arrival, rest) = read_ordered(rest)?;
    let [channel] = rest else { return None };
    let channel = ChannelKind::from_stored(*channel)?;
    Some((UserNo(user), Waiting { arrival: Arrival(arrival), channel }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_say_who_waits_for_what(
            tenant: u32, user: u64, arrival: u64, channel in 0usize..5, bytes in vec(any::<u8>(), 0..24),
        ) {
            let waiting = Waiting { arrival: Arrival(arrival), channel: ChannelKind::ALL[channel] };
            let key = key(TenantId(tenant), UserNo(user), waiting);
            prop_assert_eq!(parse(&key), Some((UserNo(user), waiting)));
            // Never panics.
            parse(&bytes);
        }
    }
}
