//! Walks that wait while others have much before them on their channels.
//!
//! Comes from: `run`, round by round. Decides: which walks need not be read in a round: there may be many of them. Each channel
//! set is asked about until it is found contended, then no more in that round.
//!
//! Invariant: a walk that waits is read once a second, as its time may be over, or it may have been stopped.

use super::run::LOOK_AGAIN_MS;
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::ids::{Arrival, Millis, TenantId};
use std::collections::BTreeMap;

/// In memory only.
#[derive(Default)]
pub struct Contention {
    waiting: BTreeMap<(TenantId, Arrival), WaitingWalk>,
    /// Channels that are contended in this round.
    contended: Vec<ChannelSet>,
}

#[derive(Clone, Copy)]
struct WaitingWalk {
    channels: ChannelSet,
    read_at: Millis,
}

impl Contention {
    /// Forgets walks that are over. `open` is in order.
    pub fn begin_round(&mut self, open: &[(TenantId, Arrival)]) {
        self.waiting.retain(|walk, _| open.binary_search(walk).is_ok());
        self.contended.clear();
    }

    /// Whether a walk waits on, and is not read.
    pub fn holds_back(
        &mut self,
        walk: (TenantId, Arrival),
        now: Millis,
        is_contended: impl Fn(ChannelSet) -> bool,
    ) -> bool {
        let Some(WaitingWalk { channels, read_at }) = self.waiting.get(&walk).copied() else { return false };
        let is_fresh = (read_at..read_at.plus(LOOK_AGAIN_MS)).contains(&now);
        let waits = is_fresh && self.is_contended(channels, is_contended);
        if !waits {
            self.waiting.remove(&walk);
        }
        waits
    }

    /// Whether a walk that was just read has to wait for its channels. It is remembered then.
    pub fn puts_off(
        &mut self,
        walk: (TenantId, Arrival),
        channels: ChannelSet,
        read_at: Millis,
        is_contended: impl Fn(ChannelSet) -> bool,
    ) -> bool {
        let waits = self.is_contended(channels, is_contended);
        if waits {
            self.waiting.insert(walk, WaitingWalk { channels, read_at });
        }
        waits
    }

    fn is_contended(&mut self, channels: ChannelSet, is_contended: impl Fn(ChannelSet) -> bool) -> bool {
        if self.contended.contains(&channels) {
            return true;
        }
        let found = is_contended(channels);
        self.contended.extend(found.then_some(channels));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::channel_kind::ChannelKind::{self, Email, Push};
    use std::cell::Cell;

    fn set(channel: ChannelKind) -> ChannelSet {
        ChannelSet::EMPTY.with(channel)
    }

    /// How often a round of a hundred walks, of which every tenth is for email, reads one and asks for a channel set.
    fn round(contention: &mut Contention, now: u64, contended: &[ChannelKind]) -> (usize, usize) {
        let open: Vec<_> = (0..100).map(|no| (TenantId(1), Arrival(no))).collect();
        let asked = Cell::new(0);
        let is_contended = |channels: ChannelSet| {
            asked.set(asked.get() + 1);
            contended.iter().any(|channel| channels.contains(*channel))
        };
        contention.begin_round(&open);
        let mut reads = 0;
        for walk in open {
            if contention.holds_back(walk, Millis(now), is_contended) {
                continue;
            }
            reads += 1;
            let channel = if walk.1.0.is_multiple_of(10) { Email } else { Push };
            contention.puts_off(walk, set(channel), Millis(now), is_contended);
        }
        (reads, asked.get())
    }

    #[test]
    fn walks_that_wait_for_their_channels_are_read_once_a_second() {
        let mut contention = Contention::default();
        assert_eq!(round(&mut contention, 5_000, &[Push, Email]), (100, 2));
        assert_eq!(round(&mut contention, 5_999, &[Push, Email]), (0, 2));
        assert_eq!(round(&mut contention, 6_000, &[Push, Email]), (100, 2));
        assert_eq!(round(&mut contention, 5_000, &[Push, Email]).0, 100, "the clock was set back");
        assert_eq!(round(&mut contention, 5_050, &[Push]).0, 10, "the others go on at once");
        assert_eq!(round(&mut contention, 5_100, &[]).0, 100);
        contention.begin_round(&[]);
        assert!(contention.waiting.is_empty());
    }
}
