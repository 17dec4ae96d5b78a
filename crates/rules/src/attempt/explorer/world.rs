//! One moment: what is durable, what is in the heads of the leaders, what is on the wire, and what the provider got.

use super::{Invariant, Protocol};
use crate::attempt::{State, Step, next};

const LEADERS: usize = 3;
const MEMBERS: usize = 2;
/// Attempts of one member, counted from 1, resends and redrives included.
const ATTEMPTS: usize = 5;

/// Durable: one member as the journal has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Row {
    pub state: State,
    pub attempt: u8,
    /// Attempts that are neither resends nor redrives, at most.
    pub attempts: u8,
    pub resends: u8,
    pub looked_up: bool,
    pub redriven: bool,
    /// Who authorised each attempt.
    pub authorised_by: [Option<usize>; ATTEMPTS],
    /// Epoch of the newest record about it.
    pub written_by: usize,
}

/// Volatile: what a leader is doing about one member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Desk {
    Idle,
    /// May be sent.
    Ready(u8),
    /// Was sent; no answer yet.
    Waiting(u8),
    /// Has an outcome that is not written down.
    Got(u8, Answer),
}

/// What came of a send, as its sender sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Answer {
    Accepted,
    Rejected,
    Later,
    NotSent,
    Unanswered,
}

/// On the wire, in either direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Letter {
    /// Who waits for the answer, if anybody does.
    pub leader: Option<usize>,
    pub member: usize,
    pub attempt: u8,
    /// `None` on its way to the provider.
    pub answer: Option<Answer>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct World {
    /// The leader whose records the journal takes.
    pub epoch: usize,
    pub ledger: [Row; MEMBERS],
    pub desks: [[Desk; MEMBERS]; LEADERS],
    /// Sorted: worlds that differ in their order only are the same.
    pub wire: Vec<Letter>,
    pub copies: [u8; MEMBERS],
}

impl Row {
    pub fn attempts_max(&self) -> u8 {
        self.attempts + self.resends + u8::from(self.redriven)
    }

    pub fn authorise(&mut self, leader: usize) {
        self.attempt += 1;
        self.authorised_by[usize::from(self.attempt)] = Some(leader);
    }

    /// Neither answers nor evidence other than receipts change anything.
    fn is_settled(&self) -> bool {
        matches!(self.state, State::Accepted | State::Delivered | State::Failed)
    }

    /// What an answer says that nobody waited for. Bad news is of use about the newest attempt only.
    pub fn learns(&self, attempt: u8, answer: Answer) -> Option<Step> {
        let is_newest = attempt == self.attempt;
        match answer {
            Answer::Accepted => Some(Step::ResolvedAccepted),
            Answer::Rejected => is_newest.then_some(Step::ResolvedFailed),
            Answer::Later | Answer::NotSent => is_newest.then_some(Step::ResolvedNotSent),
            Answer::Unanswered => None,
        }
    }

    pub fn is_orphan_of(&self, leader: usize) -> bool {
        self.authorised_by[usize::from(self.attempt)].is_some_and(|author| author < leader)
    }
}

impl Answer {
    /// The record of the leader that waited for it.
    pub fn step(self) -> Step {
        match self {
            Self::Accepted => Step::Accepted,
            Self::Rejected => Step::Rejected,
            Self::Later => Step::Later,
            Self::NotSent => Step::NotSent,
            Self::Unanswered => Step::Unanswered,
        }
    }
}

impl World {
    /// Nothing was sent. Members that a scenario does not have are closed.
    pub fn first(members: usize, attempts: u8) -> Self {
        let row = |member| Row {
            state: if member < members { State::Planned } else { State::Suppressed },
            attempt: 0,
            attempts,
            resends: 0,
            looked_up: false,
            redriven: false,
            authorised_by: [None; ATTEMPTS],
            written_by: 0,
        };
        Self {
            epoch: 0,
            ledger: [row(0), row(1)],
            desks: [[Desk::Idle; MEMBERS]; LEADERS],
            wire: Vec::new(),
            copies: [0; MEMBERS],
        }
    }

    /// A record of a leader, through the transition function of production.
    pub fn append(&mut self, leader: usize, member: usize, step: Step) -> Option<Invariant> {
        let row = &mut self.ledger[member];
        let Ok(state) = next(row.state, step) else { return Some(Invariant::NoImpossibleStep) };
        let overwrites = leader < row.written_by && state != row.state;
        row.state = state;
        row.written_by = row.written_by.max(leader);
        overwrites.then_some(Invariant::NewerEpochStays)
    }

    pub fn post(&mut self, letter: Letter) {
        self.wire.push(letter);
        self.wire.sort_unstable();
    }

    /// All that is not durable is gone, and answers find nobody. Requests on the wire outlive their sender.
    pub fn forget(&mut self, leader: usize) {
        self.desks[leader] = [Desk::Idle; MEMBERS];
        self.wire.retain(|letter| letter.leader != Some(leader) || letter.answer.is_none());
    }

    /// Makes worlds equal that cannot differ in anything that matters from here on. Where deposed leaders can write,
    /// everything matters.
    pub fn normalise(&mut self, protocol: Protocol) {
        if protocol == Protocol::Unfenced {
            return;
        }
        for member in 0..MEMBERS {
            let settled = protocol == Protocol::Fantail && self.ledger[member].is_settled();
            (0..self.epoch + usize::from(settled)).for_each(|leader| self.stop_waiting(leader, member));
            self.forget_authors(member);
        }
        let (ledger, desks) = (&self.ledger, &self.desks);
        for letter in &mut self.wire {
            let waits = |leader: &usize| desks[*leader][letter.member] == Desk::Waiting(letter.attempt);
            letter.leader = letter.leader.filter(waits);
        }
        self.wire.retain(|letter| match (letter.leader, letter.answer) {
            (Some(_), _) | (_, None) => true,
            (None, Some(answer)) => {
                let row = &ledger[letter.member];
                protocol == Protocol::Fantail
                    && !row.is_settled()
                    && row.learns(letter.attempt, answer).is_some()
            }
        });
        self.wire.sort_unstable();
        self.put_twins_in_order();
    }

    /// A deposed leader that waits is as one that does not, and what it knows is as a letter that may get lost: the
    /// journal refuses its records. The same goes for every leader once a member is settled.
    fn stop_waiting(&mut self, leader: usize, member: usize) {
        match self.desks[leader][member] {
            Desk::Idle | Desk::Ready(_) => return,
            Desk::Waiting(_) => {}
            Desk::Got(attempt, answer) => {
                self.wire.push(Letter { leader: None, member, attempt, answer: Some(answer) });
            }
        }
        self.desks[leader][member] = Desk::Idle;
    }

    /// Who authorised what has been sent does not matter any more.
    fn forget_authors(&mut self, member: usize) {
        let row = &mut self.ledger[member];
        for attempt in 0..row.attempt {
            if !self.desks.iter().any(|desks| desks[member] == Desk::Ready(attempt)) {
                row.authorised_by[usize::from(attempt)] = None;
            }
        }
    }

    /// Which of the two members is which does not matter.
    fn put_twins_in_order(&mut self) {
        let mut twin = self.clone();
        twin.ledger.reverse();
        twin.copies.reverse();
        twin.desks.iter_mut().for_each(|desks| desks.reverse());
        twin.wire.iter_mut().for_each(|letter| letter.member = MEMBERS - 1 - letter.member);
        twin.wire.sort_unstable();
        if twin < *self && twin.ledger[0].state != State::Suppressed {
            *self = twin;
        }
    }
}
