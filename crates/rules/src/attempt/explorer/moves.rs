//! What can happen next in a world: at the desks, on the wire, between leaders, and afterwards.

use super::world::{Answer, Desk, Letter, World};
use super::{Invariant, Move, Protocol, Scenario};
use crate::attempt::{Ask, Lookup, Resolution, State, Step, resolve_unknown};

/// A step that breaks an invariant at once carries it.
pub type Successor = (Move, World, Option<Invariant>);

impl Scenario {
    /// Every world that can come next.
    pub fn successors(&self, world: &World) -> Vec<Successor> {
        let mut moves = Vec::new();
        for leader in 0..=world.epoch {
            (0..self.members).for_each(|member| self.at_desk(world, leader, member, &mut moves));
        }
        if world.epoch + 1 < self.leaders {
            let mut deposed = world.clone();
            deposed.epoch += 1;
            let mut crashed = deposed.clone();
            crashed.forget(world.epoch);
            moves.push((Move("pause and be deposed", world.epoch, 0), deposed, None));
            moves.push((Move("crash and be deposed", world.epoch, 0), crashed, None));
        }
        for index in 0..world.wire.len() {
            on_the_wire(world, index, &mut moves);
        }
        if self.afterwards {
            (0..self.members).for_each(|member| afterwards(world, member, &mut moves));
        }
        moves.iter_mut().for_each(|(_, world, _)| world.normalise(self.protocol));
        moves
    }

    /// What a leader can do next about a member.
    fn at_desk(&self, world: &World, leader: usize, member: usize, moves: &mut Vec<Successor>) {
        let leads = leader == world.epoch || self.protocol == Protocol::Unfenced;
        let to = |what, desk| {
            let mut world = world.clone();
            world.desks[leader][member] = desk;
            (Move(what, leader, member), world, None)
        };
        match world.desks[leader][member] {
            Desk::Idle if leads => moves.extend(self.begin(world, leader, member)),
            Desk::Idle => {}
            Desk::Ready(attempt) => {
                let (step, mut sent, _) = to("send", Desk::Waiting(attempt));
                sent.post(Letter { leader: Some(leader), member, attempt, answer: None });
                let authorised = world.ledger[member].authorised_by[usize::from(attempt)] == Some(leader);
                moves.push((step, sent, (!authorised).then_some(Invariant::NoSendWithoutIntent)));
                moves.push(to("miss the deadline", Desk::Got(attempt, Answer::NotSent)));
            }
            Desk::Waiting(attempt) => {
                moves.push(to("stop waiting", Desk::Got(attempt, Answer::Unanswered)));
            }
            Desk::Got(_, answer) => {
                assert!(leads, "what a deposed leader knows is on the wire");
                let (what, mut written, _) = to("write the outcome", Desk::Idle);
                let broken = self.write_outcome(&mut written, leader, member, answer);
                moves.push((what, written, broken));
            }
        }
    }

    /// What a leader with an empty desk does about a member, as its protocol says.
    fn begin(&self, world: &World, leader: usize, member: usize) -> Option<Successor> {
        let mut world = world.clone();
        let (what, broken) = match self.protocol {
            Protocol::Fantail | Protocol::Unfenced => self.begin_with_intent(&mut world, leader, member)?,
            Protocol::SetThenSend | Protocol::SendThenSet => {
                (self.begin_with_key(&mut world, leader, member)?, None)
            }
        };
        Some((Move(what, leader, member), world, broken))
    }

    fn begin_with_intent(
        &self,
        world: &mut World,
        leader: usize,
        member: usize,
    ) -> Option<(&'static str, Option<Invariant>)> {
        let row = &mut world.ledger[member];
        match row.state {
            State::Planned | State::Deferred if row.attempt < row.attempts_max() => {
                row.authorise(leader);
                world.desks[leader][member] = Desk::Ready(row.attempt);
                Some(("authorise", world.append(leader, member, Step::Authorise)))
            }
            State::Planned | State::Deferred => {
                Some(("use up the retries", world.append(leader, member, Step::Exhausted)))
            }
            State::Intent => row
                .is_orphan_of(leader)
                .then(|| ("find an orphan", world.append(leader, member, Step::Orphaned))),
            State::Unknown => Some(("resolve", self.resolve(world, leader, member))),
            State::Accepted
            | State::Delivered
            | State::Failed
            | State::Suppressed
            | State::Expired
            | State::Cancelled
            | State::Folded
            | State::Superseded
            | State::Unconfirmed
            | State::Dead => None,
        }
    }

    /// The planted protocols know a key that is set or not; the transition function has no step for what they do.
    fn begin_with_key(&self, world: &mut World, leader: usize, member: usize) -> Option<&'static str> {
        let row = &mut world.ledger[member];
        if row.state != State::Planned {
            return None;
        }
        if row.attempt == row.attempts_max() {
            row.state = State::Dead;
            return Some("use up the retries");
        }
        if self.protocol == Protocol::SetThenSend {
            row.authorise(leader);
            row.state = State::Accepted;
        } else {
            row.attempt += 1;
        }
        world.desks[leader][member] = Desk::Ready(row.attempt);
        Some("begin")
    }

    /// What production would do about an unknown delivery.
    fn resolve(&self, world: &mut World, leader: usize, member: usize) -> Option<Invariant> {
        let row = &mut world.ledger[member];
        let lookup = match (self.has_lookup, row.looked_up) {
            (false, _) => Lookup::Missing,
            (true, false) => Lookup::Possible,
            (true, true) => Lookup::Silent,
        };
        let Self { class, channel, .. } = *self;
        match resolve_unknown(&Ask { class, channel, resends: row.resends, lookup, paid: false }) {
            Resolution::LookUp => {
                row.looked_up = true;
                let found = world.copies[member] > 0;
                found.then(|| world.append(leader, member, Step::ResolvedAccepted)).flatten()
            }
            Resolution::Resend => {
                row.resends += 1;
                row.looked_up = false;
                row.authorise(leader);
                world.desks[leader][member] = Desk::Ready(row.attempt);
                world.append(leader, member, Step::Resend)
            }
            Resolution::GiveUp => world.append(leader, member, Step::GiveUp),
        }
    }

    fn write_outcome(
        &self,
        world: &mut World,
        leader: usize,
        member: usize,
        answer: Answer,
    ) -> Option<Invariant> {
        let state = match (self.protocol, answer) {
            (Protocol::Fantail | Protocol::Unfenced, answer) => {
                return world.append(leader, member, answer.step());
            }
            (Protocol::SetThenSend | Protocol::SendThenSet, Answer::Accepted) => State::Accepted,
            (Protocol::SetThenSend | Protocol::SendThenSet, Answer::Rejected) => State::Failed,
            // The key is taken away again, so that there can be another attempt.
            (Protocol::SetThenSend, Answer::Later | Answer::NotSent) => State::Planned,
            (Protocol::SetThenSend, Answer::Unanswered) => State::Accepted,
            (Protocol::SendThenSet, Answer::Later | Answer::NotSent | Answer::Unanswered) => State::Planned,
        };
        world.ledger[member].state = state;
        None
    }
}

/// What can become of a letter.
fn on_the_wire(world: &World, index: usize, moves: &mut Vec<Successor>) {
    let mut without = world.clone();
    let letter = without.wire.remove(index);
    let Letter { leader, member, attempt, answer } = letter;
    let at = leader.unwrap_or(world.epoch);
    let mut push = |what, world, broken| moves.push((Move(what, at, member), world, broken));
    let Some(answer) = answer else {
        let answers = [
            ("take", Answer::Accepted, 1),
            ("refuse for now", Answer::Later, 0),
            ("refuse", Answer::Rejected, 0),
        ];
        for (what, answer, copies) in answers {
            let mut world = without.clone();
            world.copies[member] += copies;
            world.post(Letter { answer: Some(answer), ..letter });
            push(what, world, None);
        }
        push("lose the request", without, None);
        return;
    };
    let mut world = without.clone();
    if world.desks[at][member] == Desk::Waiting(attempt) {
        world.desks[at][member] = Desk::Got(attempt, answer);
        push("answer", world, None);
    } else if let Some(step) = world.ledger[member].learns(attempt, answer) {
        let broken = world.append(world.epoch, member, step);
        push("late answer", world, broken);
    }
    push("lose the answer", without, None);
}

/// A receipt of a copy, and an operator who redrives what is dead.
fn afterwards(world: &World, member: usize, moves: &mut Vec<Successor>) {
    let row = world.ledger[member];
    if world.copies[member] > 0 && row.state != State::Delivered {
        let mut told = world.clone();
        let broken = told.append(world.epoch, member, Step::ReceiptDelivered);
        moves.push((Move("receipt", world.epoch, member), told, broken));
    }
    if row.state == State::Dead && !row.redriven {
        let mut redriven = world.clone();
        redriven.ledger[member].redriven = true;
        let broken = redriven.append(world.epoch, member, Step::Redrive);
        moves.push((Move("redrive", world.epoch, member), redriven, broken));
    }
}
