//! Which accounts a message may go through, and in which order.
//!
//! Decides: for push the one account that the token belongs to, for everything else all accounts of the channel. Among those of
//! one order each user has its own first one, by weight, and keeps it as long as the accounts stay and it has room.

use super::no_provider;
use super::sender::AccountSender;
use fantail_ports::channel::{Answer, Message, Refusal};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::provider_kind::ProviderKind;
use fantail_rules::push_address::{PushAddress, Service};
use std::sync::Arc;

/// Places in `ways`, which ascend by order. Never empty; the error is the answer to the message.
pub fn chain(
    channel: ChannelKind,
    ways: &[Arc<AccountSender>],
    message: &Message,
) -> Result<Vec<usize>, Answer> {
    let kinds: &[ProviderKind] = match channel {
        ChannelKind::Push => match PushAddress::read(&message.endpoint).map(|address| address.service) {
            Some(Service::Apns { .. }) => &[ProviderKind::Apns],
            Some(Service::Fcm { .. }) => &[ProviderKind::Fcm],
            Some(Service::WebPush { .. }) => &[ProviderKind::WebPush],
            None => return Err(malformed()),
        },
        ChannelKind::Email => &[ProviderKind::Ses, ProviderKind::Smtp],
        ChannelKind::Sms => &[ProviderKind::Twilio],
        ChannelKind::InApp | ChannelKind::Webhook => &[],
    };
    let serves = |way: &AccountSender| {
        let is_own = way.client.as_ref().map_or(true, |client| client.serves(&message.endpoint));
        way.account.enabled && kinds.contains(&way.account.kind) && is_own
    };
    let of_kind: Vec<usize> = (0..ways.len()).filter(|at| serves(&ways[*at])).collect();
    let terms = |at: &usize| (ways[*at].account.order, ways[*at].account.weight);
    let mut chain = ordered(&of_kind.iter().map(terms).collect::<Vec<_>>(), message.recipient);
    chain.iter_mut().for_each(|place| *place = of_kind[*place]);
    if channel == ChannelKind::Push {
        chain.truncate(1);
    }
    if chain.is_empty() { Err(no_provider()) } else { Ok(chain) }
}

/// A message whose own account has no room now begins with the account of the same order that has room first: it does not
/// wait at one while there is room at another. `ahead` is how many messages begin with each.
pub fn begin_where_room_is(chain: &mut [usize], ways: &[Arc<AccountSender>], ahead: &mut [u64]) {
    let Some(own) = chain.first().copied() else { return };
    let equals = chain.iter().take_while(|at| ways[**at].account.order == ways[own].account.order).count();
    if equals > 1 {
        let waits = chain[..equals].iter().map(|at| ways[*at].wait_us(ahead[*at]));
        // Of equal accounts the first one: an account with room keeps its users.
        let soonest = waits.enumerate().min_by_key(|(_, wait_us)| *wait_us).map_or(0, |(place, _)| place);
        chain[..=soonest].rotate_right(1);
    }
    ahead[chain[0]] += 1;
}

/// Whether accounts of this kind serve a channel.
pub fn is_of(kind: ProviderKind, channel: ChannelKind) -> bool {
    match kind {
        ProviderKind::Apns | ProviderKind::Fcm | ProviderKind::WebPush => channel == ChannelKind::Push,
        ProviderKind::Ses | ProviderKind::Smtp => channel == ChannelKind::Email,
        ProviderKind::Twilio => channel == ChannelKind::Sms,
    }
}

/// Places of (order, weight), which ascend by order: in each order the user's own one first, the others behind it.
fn ordered(terms: &[(u16, u16)], recipient: u64) -> Vec<usize> {
    let mut places = Vec::with_capacity(terms.len());
    let mut from = 0;
    for equals in terms.chunk_by(|a, b| a.0 == b.0) {
        let own = own_of(equals, recipient);
        places.push(from + own);
        places.extend((0..equals.len()).filter(|at| *at != own).map(|at| from + at));
        from += equals.len();
    }
    places
}

/// Weights of nothing count as one all together, so that somebody is always asked.
fn own_of(equals: &[(u16, u16)], recipient: u64) -> usize {
    let total: u64 = equals.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let Some(mut share) = spread(recipient).checked_rem(total) else { return 0 };
    for (at, (_, weight)) in equals.iter().enumerate() {
        match share.checked_sub(u64::from(*weight)) {
            Some(rest) => share = rest,
            None => return at,
        }
    }
    0
}

/// Neighbours become strangers (the finisher of splitmix64).
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn malformed() -> Answer {
    Answer::Rejected {
        refusal: Refusal::Malformed,
        code: "endpoint".to_owned(),
        message: "the device was registered without the service that pushes to it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_orders_come_first_and_everybody_is_asked() {
        assert_eq!(ordered(&[(1, 1), (2, 1), (3, 1)], 7), [0, 1, 2]);
        assert!(ordered(&[], 7).is_empty());
        for recipient in 0..100 {
            let mut places = ordered(&[(1, 2), (1, 1), (5, 1)], recipient);
            assert_eq!(places[2], 2);
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2]);
        }
        assert_eq!(ordered(&[(1, 0), (1, 0)], 7), [0, 1], "weights of nothing");
    }

    // proves: PSH-04
    #[test]
    fn users_are_spread_by_weight_and_keep_their_account() {
        let first = |recipient| ordered(&[(1, 3), (1, 1), (1, 0)], recipient)[0];
        let mut counts = [0; 3];
        for user in 0..40_000u64 {
            counts[first(user << 16)] += 1;
            assert_eq!(first(user << 16), first(user << 16));
        }
        assert!((29_500..30_500).contains(&counts[0]), "{counts:?}");
        assert!((9_500..10_500).contains(&counts[1]), "{counts:?}");
        assert_eq!(counts[2], 0);
    }
}
