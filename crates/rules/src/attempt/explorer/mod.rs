//! Every way in which sending can go wrong, tried out: all interleavings of leaders, crashes, takeovers, a network that
//! loses and delays, and a provider that takes or refuses, in a small world, with the transition function of production.
//!
//! A world is a ledger (durable: what the journal's records add up to), the desks of the leaders (lost in a crash),
//! letters on the wire (they outlive their sender) and the copies that the provider got. A deposed leader does not know
//! that it is: it goes on sending what it may, and the journal refuses what it writes. The search is breadth first, so
//! the path printed for a broken invariant is a shortest one.
//!
//! Reading order: what is claimed and how it is searched (here), `world`, `moves`.

mod moves;
mod world;

use super::{Class, State};
use crate::channel_kind::ChannelKind;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use world::World;

/// A scenario with more is too large to be tried with every build.
const WORLDS_MAX: usize = 500_000;

/// How a protocol orders the record and the send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Intent, send, outcome; an Intent without outcome is unknown.
    Fantail,
    /// Planted: the key is set, then the message is sent. What has its key is done.
    SetThenSend,
    /// Planted: the message is sent, then the key is set. What has no key is sent.
    SendThenSet,
    /// Planted: Fantail with a journal that takes the records of deposed leaders.
    Unfenced,
}

/// What must hold; the numbers are those of the list of invariants in the design's notes on reliability.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Invariant {
    /// 1: whatever happened, each delivery ends in a terminal state.
    Ends,
    /// 5: copies ≤ 1 + resends.
    CopiesAreCounted,
    /// 5: one copy at most if the class says so.
    AtMostOnce,
    /// 6: what ended as accepted or delivered has reached the provider.
    NoPhantomSuccess,
    /// 7: nothing is sent that the journal did not authorise, in the epoch of the sender.
    NoSendWithoutIntent,
    /// 8: a deposed leader overwrites nothing.
    NewerEpochStays,
    /// 8: who sees the newest records never tries what the transition function refuses.
    NoImpossibleStep,
    /// 24: attempts are bounded.
    RetriesEnd,
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub protocol: Protocol,
    pub class: Class,
    pub channel: ChannelKind,
    pub has_lookup: bool,
    pub leaders: usize,
    pub members: usize,
    /// Attempts that are not resends; every resend and every redrive allows one more.
    pub attempts: u8,
    /// Receipts and one redrive by an operator; they multiply the worlds.
    pub afterwards: bool,
}

#[derive(Debug)]
pub struct Findings {
    pub worlds: usize,
    /// Each broken invariant with a shortest way to break it.
    pub broken: BTreeMap<Invariant, Vec<Move>>,
}

/// One thing that happens: what, at which leader, to which member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move(pub &'static str, pub usize, pub usize);

/// Tries everything.
pub fn explore(scenario: Scenario) -> Findings {
    let first = World::first(scenario.members, scenario.attempts);
    let mut seen = BTreeSet::from([first.clone()]);
    let mut paths: Vec<(usize, Move)> = vec![(0, Move("begin", 0, 0))];
    let mut queue = VecDeque::from([(0, first)]);
    let mut broken = BTreeMap::new();
    while let Some((id, world)) = queue.pop_front() {
        let successors = scenario.successors(&world);
        for invariant in scenario.broken_in(&world, successors.is_empty()) {
            broken.entry(invariant).or_insert_with(|| path(&paths, id));
        }
        for (step, world, at_once) in successors {
            if let Some(invariant) = at_once {
                broken.entry(invariant).or_insert_with(|| {
                    let mut path = path(&paths, id);
                    path.push(step);
                    path
                });
            }
            if seen.insert(world.clone()) {
                assert!(seen.len() <= WORLDS_MAX, "{scenario:?} is too large");
                paths.push((id, step));
                queue.push_back((paths.len() - 1, world));
            }
        }
    }
    Findings { worlds: seen.len(), broken }
}

fn path(paths: &[(usize, Move)], mut id: usize) -> Vec<Move> {
    let mut path = Vec::new();
    while id != 0 {
        path.push(paths[id].1);
        id = paths[id].0;
    }
    path.reverse();
    path
}

impl Scenario {
    fn broken_in(&self, world: &World, quiescent: bool) -> Vec<Invariant> {
        let mut broken = Vec::new();
        for (row, copies) in world.ledger.iter().zip(world.copies) {
            let mut hold = |holds: bool, invariant| {
                if !holds {
                    broken.push(invariant)
                }
            };
            hold(copies <= 1 + row.resends, Invariant::CopiesAreCounted);
            hold(self.class != Class::Bulk || copies <= 1, Invariant::AtMostOnce);
            hold(row.attempt <= row.attempts_max(), Invariant::RetriesEnd);
            hold(!quiescent || row.state.is_terminal(), Invariant::Ends);
            let reached = !matches!(row.state, State::Accepted | State::Delivered) || copies >= 1;
            hold(!quiescent || reached, Invariant::NoPhantomSuccess);
        }
        broken
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "how much was explored is worth knowing")]
mod tests {
    use super::*;

    const TWO_MEMBERS: Scenario = Scenario {
        protocol: Protocol::Fantail,
        class: Class::Critical,
        channel: ChannelKind::Push,
        has_lookup: false,
        leaders: 2,
        members: 2,
        attempts: 1,
        afterwards: false,
    };
    const THREE_LEADERS: Scenario =
        Scenario { leaders: 3, members: 1, attempts: 2, afterwards: true, ..TWO_MEMBERS };

    fn check(scenario: Scenario, expected: &[Invariant]) -> usize {
        let findings = explore(scenario);
        let broken: Vec<Invariant> = findings.broken.keys().copied().collect();
        println!("{} worlds, broken {broken:?}: {scenario:?}", findings.worlds);
        assert_eq!(broken, expected, "{findings:#?}");
        findings.worlds
    }

    fn check_class(class: Class, channel: ChannelKind, has_lookup: bool) {
        let two_members = Scenario { class, channel, has_lookup, ..TWO_MEMBERS };
        let three_leaders = Scenario { class, channel, has_lookup, ..THREE_LEADERS };
        let worlds = check(two_members, &[]) + check(three_leaders, &[]);
        assert!(worlds > 1_000, "{worlds} worlds are no exploration");
    }

    // proves: DED-01, DED-03, DED-04
    #[test]
    fn critical_deliveries_keep_every_invariant() {
        check_class(Class::Critical, ChannelKind::Push, false);
    }

    #[test]
    fn transactional_deliveries_keep_every_invariant() {
        check_class(Class::Transactional, ChannelKind::Email, true);
    }

    #[test]
    fn bulk_deliveries_keep_every_invariant() {
        check_class(Class::Bulk, ChannelKind::Email, true);
    }

    #[test]
    fn every_planted_protocol_is_caught() {
        let planted = |protocol| Scenario { protocol, attempts: 2, ..TWO_MEMBERS };
        check(planted(Protocol::SetThenSend), &[Invariant::NoPhantomSuccess]);
        check(planted(Protocol::SendThenSet), &[Invariant::CopiesAreCounted, Invariant::NoSendWithoutIntent]);
        let unfenced = Scenario { members: 1, ..planted(Protocol::Unfenced) };
        check(unfenced, &[Invariant::NewerEpochStays, Invariant::NoImpossibleStep]);
    }
}
