//! Which sender a message is from: of those that reach its number, the ones that name it most closely; of these, the kind
//! that comes first; of these, always the same one for one recipient, so that a conversation stays in one thread and a
//! STOP meets the number that it was said to.

use super::settings::Sender;

/// The index of the sender, or none if nobody reaches the number.
#[must_use]
pub fn route(senders: &[Sender], number: &str, recipient: u64) -> Option<usize> {
    let fitting = senders
        .iter()
        .enumerate()
        .filter_map(|(index, sender)| Some((index, sender, reach(sender, number)?)));
    let fitting: Vec<_> = fitting.collect();
    let (closest, kind) = fitting
        .iter()
        .map(|(_, sender, reach)| (*reach, sender.kind))
        .max_by_key(|(reach, kind)| (*reach, std::cmp::Reverse(*kind)))?;
    let equal = fitting.into_iter().filter(|(_, sender, reach)| *reach == closest && sender.kind == kind);
    equal.max_by_key(|(index, sender, _)| share(sender, *index, recipient)).map(|(index, _, _)| index)
}

/// How many digits of the number the sender names; none at all reach everywhere.
fn reach(sender: &Sender, number: &str) -> Option<usize> {
    if sender.prefixes.is_empty() {
        return Some(0);
    }
    sender.prefixes.iter().filter(|prefix| number.starts_with(prefix.as_str())).map(String::len).max()
}

/// Rendezvous hashing: a sender that comes or goes moves only its own share of the recipients. Shares are as large as what a
/// sender may send: the best of so many draws, one for each segment in a second, up to a bound on the work.
fn share(sender: &Sender, index: usize, recipient: u64) -> u64 {
    let draws = u64::from(sender.per_second.clamp(1, 16));
    (0..draws).map(|draw| mixed(recipient ^ mixed(((index as u64) << 8) | draw))).max().unwrap_or_default()
}

/// The finalizer of SplitMix64: every bit of the input reaches every bit of the output.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twilio::settings::{Identity, Kind};

    fn sender(kind: Kind, prefixes: &[&str]) -> Sender {
        let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        Sender { identity: Identity::From("x".into()), kind, prefixes, per_second: 1 }
    }

    // proves: SMS-01
    #[test]
    fn the_closest_prefix_decides_then_the_kind() {
        let senders = [
            sender(Kind::LongCode, &[]),
            sender(Kind::TollFree, &["+1"]),
            sender(Kind::ShortCode, &["+1"]),
            sender(Kind::LongCode, &["+1242", "+44"]),
            sender(Kind::Alphanumeric, &["+43"]),
        ];
        for (number, expected) in [
            ("+12025550100", Some(2)),
            ("+12425550100", Some(3)),
            ("+447700900000", Some(3)),
            ("+436601234567", Some(4)),
            ("+33612345678", Some(0)),
        ] {
            assert_eq!(route(&senders, number, 7), expected, "{number}");
        }
        assert_eq!(route(&senders[1..], "+33612345678", 7), None, "nobody reaches it");
    }

    // proves: SMS-01
    #[test]
    fn a_recipient_stays_with_its_sender_and_a_new_one_takes_only_its_share() {
        let three = vec![sender(Kind::LongCode, &["+1"]); 3];
        let four = vec![sender(Kind::LongCode, &["+1"]); 4];
        let mut counts = [0; 3];
        for recipient in 0..3_000 {
            let before = route(&three, "+12025550100", recipient).expect("a sender");
            assert_eq!(route(&three, "+12025550199", recipient), Some(before));
            counts[before] += 1;
            let after = route(&four, "+12025550100", recipient).expect("a sender");
            assert!(after == before || after == 3, "{recipient}");
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn who_may_send_more_has_more_recipients() {
        let mut two = vec![sender(Kind::TenDlc, &[]); 2];
        two[1].per_second = 3;
        let to_second =
            (0..4_000).filter(|recipient| route(&two, "+12025550100", *recipient) == Some(1)).count();
        assert!((2_800..3_200).contains(&to_second), "{to_second}");
    }
}
