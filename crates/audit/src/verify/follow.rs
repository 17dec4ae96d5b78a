//! One chain, followed entry by entry.
//!
//! What must never happen: one change that hides another. After every finding the chain is taken up again at the entry
//! that is there, and goes on being checked.

use super::{At, Finding, Place, Vouched};
use fantail_ports::audit::{ChainId, Digest, Entry, Sequence};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub struct Followed {
    /// The entry with the highest sequence so far.
    last: Option<Last>,
    /// Gaps that no late entry has filled.
    gaps: Vec<Gap>,
    /// What checkpoints vouch for above `last`, ascending.
    vouched: VecDeque<Vouched>,
    /// The highest sequence that any checkpoint vouches for.
    covered: u64,
}

#[derive(Debug)]
struct Last {
    at: At,
    hash: Digest,
    /// A checkpoint vouches for this very hash, so a break behind it is not its fault.
    confirmed: bool,
    blamed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u64,
    last: u64,
    before: Place,
}

impl Followed {
    /// A checkpoint vouches for an entry. Heads that did not move are listed again and again.
    pub fn expect(&mut self, vouched: Vouched) {
        self.covered = self.covered.max(vouched.sequence.0);
        let known = |known: &Vouched| (known.sequence, known.hash) == (vouched.sequence, vouched.hash);
        if !self.vouched.back().is_some_and(known) {
            self.vouched.push_back(vouched);
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Entries above the last one that a checkpoint vouches for.
    #[must_use]
    pub fn uncovered(&self) -> u64 {
        self.reached().saturating_sub(self.covered)
    }

    pub fn take(&mut self, entry: &Entry, hash: Digest, place: Place) -> Vec<Finding> {
        let at = At { chain: entry.chain, sequence: entry.sequence, place };
        let next = self.reached().saturating_add(1);
        if at.sequence.0 < next {
            return vec![self.late(at)];
        }
        let mut findings = Vec::new();
        if at.sequence.0 > next {
            self.gaps.push(Gap { first: next, last: at.sequence.0 - 1, before: place });
        } else {
            findings.extend(self.check_link(entry, at));
        }
        let own_fault = findings.contains(&Finding::Altered { at });
        let (confirmed, contradicted) = self.ask_checkpoints(at.sequence, hash);
        let blamed = own_fault || contradicted;
        if contradicted && !own_fault {
            findings.push(Finding::Altered { at });
        }
        self.last = Some(Last { at, hash, confirmed, blamed });
        findings
    }

    /// What is missing at the end.
    #[must_use]
    pub fn finish(self, chain: ChainId) -> Vec<Finding> {
        let last = Sequence(self.reached());
        let removed = |gap: &Gap| Finding::Removed {
            chain,
            first: Sequence(gap.first),
            last: Sequence(gap.last),
            before: gap.before,
        };
        let mut findings: Vec<Finding> = self.gaps.iter().map(removed).collect();
        if let Some(Vouched { sequence, checkpoint, .. }) = self
            .vouched
            .iter()
            .filter(|vouched| vouched.sequence > last)
            .max_by_key(|vouched| vouched.sequence)
        {
            findings.push(Finding::CutOff { chain, last, expected: *sequence, checkpoint: *checkpoint });
        }
        findings
    }

    fn reached(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.at.sequence.0)
    }

    /// An entry behind one that follows it: it fills a gap, or was there before.
    fn late(&mut self, at: At) -> Finding {
        let sequence = at.sequence.0;
        let Some(index) = self.gaps.iter().position(|gap| (gap.first..=gap.last).contains(&sequence)) else {
            return Finding::Repeated { at };
        };
        let gap = self.gaps.remove(index);
        if sequence < gap.last {
            self.gaps.insert(index, Gap { first: sequence + 1, ..gap });
        }
        if gap.first < sequence {
            self.gaps.insert(index, Gap { last: sequence - 1, ..gap });
        }
        Finding::Reordered { at }
    }

    /// Whether the entry follows the last one; if not, the last one is blamed, unless a checkpoint clears it.
    fn check_link(&self, entry: &Entry, at: At) -> Option<Finding> {
        match &self.last {
            None => (entry.previous != Digest::default()).then_some(Finding::Altered { at }),
            Some(last) if entry.previous == last.hash => None,
            Some(last) if last.confirmed => Some(Finding::Altered { at }),
            Some(last) if last.blamed => None,
            Some(last) => Some(Finding::Altered { at: last.at }),
        }
    }

    /// Whether a checkpoint confirms, or contradicts, the hash of the entry with this sequence.
    fn ask_checkpoints(&mut self, sequence: Sequence, hash: Digest) -> (bool, bool) {
        let (mut confirmed, mut contradicted) = (false, false);
        while let Some(vouched) = self.vouched.front().filter(|vouched| vouched.sequence <= sequence) {
            if vouched.sequence == sequence {
                confirmed |= vouched.hash == hash;
                contradicted |= vouched.hash != hash;
            }
            self.vouched.pop_front();
        }
        (confirmed && !contradicted, contradicted)
    }
}
