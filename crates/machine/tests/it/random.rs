//! Random histories of one shard: whatever users, authors and time do, every count and every page equals that of
//! the plain model.

use crate::deliveries::{Act, act, audit, drive};
use crate::endpoints::{register, registration};
use crate::harness::{DAY_MS, Node, list};
use crate::model::{Model, Person};
use fantail_machine::front::FrontAnswer;
use fantail_machine::records::shard::Change;
use fantail_machine::shard::edges::EdgeAnswer;
use fantail_machine::tables::{follow, list as lists};
use fantail_ports::lists::ListKey;
use fantail_rules::ids::{Millis, Position, UserNo};
use fantail_rules::marks::Mark;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const USERS: u64 = 3;
const LISTS: u64 = 3;
const RETENTION_DAYS: u32 = 3;

#[derive(Clone, Debug)]
pub enum Op {
    Join(u64, u64),
    Leave(u64, u64),
    Post(u64, bool),
    /// One bit per user.
    Send(u8),
    Retract(Index),
    Take(usize),
    Mark(u64, u8, Vec<Index>),
    MarkAll(u64, u8, Index),
    Wait(u64),
    Expire,
    DeleteUser(u64),
    Errands,
    Register(u64, u64, u64),
    Unregister(u64, u64),
    Suppress(u64, bool),
    Deliver(Act),
}

pub fn op() -> impl Strategy<Value = Op> {
    let (user, list) = (0..USERS, 0..LISTS);
    prop_oneof![
        4 => (user.clone(), list.clone()).prop_map(|(user, list)| Op::Join(user, list)),
        2 => (user.clone(), list.clone()).prop_map(|(user, list)| Op::Leave(user, list)),
        8 => (list, any::<bool>()).prop_map(|(list, pointer)| Op::Post(list, pointer)),
        3 => (1u8..8).prop_map(Op::Send),
        3 => any::<Index>().prop_map(Op::Retract),
        6 => (1usize..6).prop_map(Op::Take),
        8 => (user.clone(), 0u8..8, vec(any::<Index>(), 1..4)).prop_map(|(u, m, picks)| Op::Mark(u, m, picks)),
        4 => (user.clone(), 0u8..8, any::<Index>()).prop_map(|(u, m, through)| Op::MarkAll(u, m, through)),
        3 => (1u64..40).prop_map(Op::Wait),
        2 => Just(Op::Expire),
        1 => user.clone().prop_map(Op::DeleteUser),
        2 => Just(Op::Errands),
        3 => (user.clone(), 0u64..3, 0u64..3).prop_map(|(user, no, token)| Op::Register(user, no, token)),
        1 => (user.clone(), 0u64..3).prop_map(|(user, no)| Op::Unregister(user, no)),
        1 => (0u64..3, any::<bool>()).prop_map(|(token, on)| Op::Suppress(token, on)),
        12 => act().prop_map(Op::Deliver),
    ]
}

pub fn mark_of(number: u8, now: Millis) -> Mark {
    let snooze = Mark::Snooze { until: now.plus(20 * 3_600_000) };
    let marks =
        [Mark::Read, Mark::Unread, Mark::Seen, Mark::Archive, Mark::Unarchive, snooze, Mark::Unsnooze];
    marks.get(usize::from(number)).copied().unwrap_or(Mark::Delete)
}

/// The machines and the model, side by side.
struct World {
    node: Node,
    model: Model,
    numbers: Vec<UserNo>,
}

impl World {
    fn new() -> Self {
        let (mut node, mut model) = (Node::new(), Model::default());
        let numbers: Vec<UserNo> = (0..USERS).map(|name| node.user(name)).collect();
        model.people = numbers.iter().map(|user| (*user, Person::default())).collect();
        Self { node, model, numbers }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Join(name, no) => self.edit(Change::Join, *name, *no),
            Op::Leave(name, no) => self.edit(Change::Leave, *name, *no),
            Op::Post(no, pointer) => self.model.post(self.node.post(list(*no), *pointer), list(*no)),
            Op::Send(bits) => {
                let chosen = self.numbers.iter().enumerate().filter(|(name, _)| bits & (1 << name) != 0);
                let mut members: Vec<UserNo> = chosen.map(|(_, user)| *user).collect();
                members.sort_unstable();
                self.model.send(self.node.send(&members), members);
            }
            Op::Retract(pick) => self.retract(pick),
            Op::Take(at_most) => {
                self.node.take(*at_most);
                self.model.take(*at_most, self.node.now);
            }
            Op::Mark(name, mark, picks) => self.mark(*name, *mark, picks),
            Op::MarkAll(name, mark, through) => {
                let user = self.numbers[*name as usize];
                let mark = mark_of(*mark, self.node.now);
                // Sometimes beyond the newest entry, as a caller with an old page may ask.
                let through = through.index(self.model.events.len() + 3) as u64;
                self.node.mark_all(user, mark, through);
                self.model.mark_all(user, mark, through);
            }
            Op::Wait(hours) => self.node.now = self.node.now.plus(hours * DAY_MS / 24),
            Op::Expire => {
                self.node.expire(RETENTION_DAYS);
                self.model.expire(RETENTION_DAYS, self.node.now);
            }
            Op::DeleteUser(name) => self.replace_user(*name),
            // Sizes go to the front as facts of no concern to the shard, but they take their place in its order.
            Op::Errands => self.node.run_errands(),
            // Where somebody can be reached changes nothing of what they see.
            Op::Register(name, no, token) => {
                drop(register(&mut self.node, *name, registration(*name, *no, *token)));
            }
            Op::Unregister(..) | Op::Suppress(..) => {}
            // What leaves the house changes nothing inside, and a cancelled event stays in its inboxes.
            Op::Deliver(act) => {
                let facts = |node: &Node| node.facts(Position::START).len();
                let before = facts(&self.node);
                drive(&mut self.node, act);
                if facts(&self.node) > before {
                    self.model.cancel();
                }
            }
        }
    }

    fn edit(&mut self, change: Change, name: u64, no: u64) {
        let own = &mut self.model.people.get_mut(&self.numbers[name as usize]).unwrap().lists;
        let changed = match change {
            Change::Join => own.insert(list(no)),
            Change::Leave => own.remove(&list(no)),
        };
        let expected = if changed { EdgeAnswer::Changed } else { EdgeAnswer::Unchanged };
        assert_eq!(self.node.edit(change, name, list(no)), expected);
    }

    fn retract(&mut self, pick: &Index) {
        let known = self.model.known();
        if known.is_empty() {
            return;
        }
        let event = *pick.get(&known);
        let before = self.node.journal.values().map(Vec::len).sum::<usize>();
        assert_eq!(self.node.retract(event), FrontAnswer::Retracted);
        if self.node.journal.values().map(Vec::len).sum::<usize>() > before {
            self.model.retract(event);
        }
    }

    /// Also entries that were retracted, deleted or have expired since the caller looked.
    fn mark(&mut self, name: u64, mark: u8, picks: &[Index]) {
        let user = self.numbers[name as usize];
        let had: Vec<u64> = self.model.people[&user].rows.keys().copied().collect();
        if had.is_empty() {
            return;
        }
        let arrivals: Vec<u64> = picks.iter().map(|pick| *pick.get(&had)).collect();
        let mark = mark_of(mark, self.node.now);
        self.node.mark(user, mark, &arrivals);
        self.model.mark(user, mark, &arrivals);
    }

    /// A user goes and comes back under the same name: a new number, an empty inbox, no lists.
    fn replace_user(&mut self, name: u64) {
        self.node.delete_user(name);
        self.model.people.remove(&self.numbers[name as usize]);
        let number = self.node.user(name);
        self.model.people.insert(number, Person::default());
        self.numbers[name as usize] = number;
    }

    /// Lists from both sides, and how long they are.
    fn check_lists(&self) {
        let tenant = self.node.tenant;
        self.node.read_shard(|state| {
            for no in 0..LISTS {
                let listed = state.lists().members(ListKey { tenant, list: list(no) }, None, 100).unwrap();
                let open = listed.into_iter().filter(|member| member.intervals.is_open());
                let members: Vec<UserNo> = open.map(|member| member.user).collect();
                let expected =
                    self.model.people.iter().filter(|(_, person)| person.lists.contains(&list(no)));
                assert_eq!(members, expected.map(|(user, _)| *user).collect::<Vec<_>>());
                let row = lists::find(state.tables(), tenant, list(no)).unwrap().unwrap_or_default();
                assert_eq!(row.members, members.len() as u64);
            }
            for (user, person) in &self.model.people {
                let open = follow::count(state.tables(), tenant, *user).unwrap();
                assert_eq!(open.total(), person.lists.len() as u64);
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    // proves: FAN-04, FAN-12, INB-04, INB-05, INB-06, INB-10, INB-13
    #[test]
    fn every_answer_equals_the_plain_model(ops in vec(op(), 1..90), limit in 1usize..9) {
        let mut world = World::new();
        for op in &ops {
            world.run(op);
            world.model.check(&world.node, limit);
            audit(&world.node);
        }
        world.check_lists();
    }
}
