//! A store under test, the journal of what was said to it, and the plainest model of what it must answer.

use crate::store::{Rig, SHARD, commit, read};
use fantail_ports::inbox::{ArrivalRange, Audience, Followed, Forget, Reader, Window, WindowEvent};
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_ports::store::{Commit, Tended};
use fantail_rules::ids::{Arrival, ListId, Position, TenantId, UserNo};
use fantail_rules::interval::Intervals;
use std::collections::{BTreeMap, BTreeSet};

pub const TENANT: TenantId = TenantId(5);
pub const LIST: ListId = ListId([8; 16]);
pub const EVERYTHING: ArrivalRange = ArrivalRange { after: Arrival(0), before: Arrival(u64::MAX) };

/// Everything that was said, and what follows from it.
#[derive(Clone, Default)]
pub struct Model {
    pub events: BTreeMap<(TenantId, Arrival), Audience>,
    pub follows: BTreeMap<(TenantId, UserNo), BTreeMap<ListId, Intervals>>,
    pub reached: BTreeMap<TenantId, Arrival>,
    pub forgotten: BTreeMap<TenantId, Arrival>,
    pub gone: BTreeSet<(TenantId, UserNo)>,
}

impl Model {
    pub fn follows_of(&self, tenant: TenantId, user: UserNo) -> Vec<Followed> {
        let lists = self.follows.get(&(tenant, user)).into_iter().flatten();
        lists.map(|(list, intervals)| Followed { list: *list, intervals: intervals.clone() }).collect()
    }

    pub fn expected(&self, reader: &Reader<'_>, range: ArrivalRange) -> Vec<Arrival> {
        let is_addressed = |arrival: Arrival, audience: &Audience| match audience {
            Audience::Members(users) => users.contains(&reader.user),
            Audience::List(list) => {
                reader.follows.iter().any(|one| one.list == *list && one.intervals.contains(arrival))
            }
        };
        let events = self.events.iter().filter(|((tenant, arrival), audience)| {
            *tenant == reader.tenant && range.contains(*arrival) && is_addressed(*arrival, audience)
        });
        events.map(|((_, arrival), _)| *arrival).collect()
    }

    /// Folds a commit as a store does.
    pub fn fold(&mut self, commit: &Commit) {
        for edit in &commit.edits {
            let lists = self.follows.entry((edit.key.tenant, edit.user)).or_default();
            lists.insert(edit.key.list, edit.intervals.clone());
        }
        for window in &commit.windows {
            for event in &window.events {
                self.reached.insert(window.tenant, event.arrival);
                self.events.insert((window.tenant, event.arrival), event.audience.clone());
            }
        }
        for forget in &commit.forgets {
            match forget {
                Forget::Through { tenant, arrival } => {
                    self.forgotten.insert(*tenant, *arrival);
                }
                Forget::User { tenant, user } => {
                    self.gone.insert((*tenant, *user));
                }
            }
        }
    }
}

/// A rig, the journal of what was committed to it, and the model at every position.
pub struct World {
    pub rig: Box<dyn Rig>,
    pub journal: Vec<Commit>,
    pub models: Vec<Model>,
    /// How much of the journal the store has.
    pub at: usize,
}

impl World {
    pub fn new(rig: Box<dyn Rig>) -> Self {
        Self { rig, journal: Vec::new(), models: vec![Model::default()], at: 0 }
    }

    pub fn model(&self) -> &Model {
        &self.models[self.at]
    }

    pub fn say(&mut self, mut next: Commit) {
        assert_eq!(self.at, self.journal.len(), "nothing is said during a replay");
        next.through = Position(self.journal.len() as u64 + 1);
        let mut model = self.model().clone();
        model.fold(&next);
        self.models.push(model);
        self.journal.push(next);
        self.replay_one();
    }

    pub fn replay_one(&mut self) {
        commit(&*self.rig, SHARD, self.journal[self.at].clone());
        self.at += 1;
    }

    pub fn crash(&mut self) {
        self.rig.crash();
        self.at = self.rig.store().marks().get(&SHARD).map_or(0, |mark| mark.0 as usize);
    }

    pub fn replay(&mut self) {
        while self.at < self.journal.len() {
            self.replay_one();
        }
    }

    pub fn tend(&self) -> Tended {
        self.rig.store().tend().expect("a healthy store is tended")
    }

    pub fn tend_all(&self) {
        for _ in 0..10_000 {
            if self.tend() == Tended::Idle {
                return;
            }
        }
        panic!("tending never ends");
    }

    pub fn event(&mut self, audience: Audience) {
        let arrival = self.model().reached.get(&TENANT).copied().unwrap_or_default().next();
        let events = vec![WindowEvent { arrival, audience }];
        self.say(Commit { windows: vec![Window { tenant: TENANT, events }], ..Commit::default() });
    }

    pub fn edit(&mut self, user: u64, change: impl FnOnce(&mut Intervals, Arrival)) {
        let at = self.model().reached.get(&TENANT).copied().unwrap_or_default();
        let lists = self.model().follows.get(&(TENANT, UserNo(user)));
        let mut intervals = lists.and_then(|lists| lists.get(&LIST)).cloned().unwrap_or_default();
        change(&mut intervals, at);
        let key = ListKey { tenant: TENANT, list: LIST };
        let edits = vec![ListEdit { key, user: UserNo(user), intervals, at, floor: Arrival(u64::MAX) }];
        self.say(Commit { edits, ..Commit::default() });
    }

    /// Compares one reader over a range, in both directions and with every small limit.
    pub fn check(&self, tenant: TenantId, user: UserNo, range: ArrivalRange, limit: usize, hint: &str) {
        let follows = self.model().follows_of(tenant, user);
        let reader = Reader { tenant, user, follows: &follows };
        let expected = self.model().expected(&reader, range);
        read(&*self.rig, SHARD, |view| {
            let count = view.inbox().count(&reader, range).expect("a healthy store counts");
            assert_eq!(count, expected.len() as u64, "count of {user} in {range:?}, {hint}");
            let oldest = view.inbox().page(&reader, range, false, limit).expect("a healthy store reads");
            let wanted: Vec<_> = expected.iter().copied().take(limit).collect();
            assert_eq!(oldest, wanted, "oldest of {user} in {range:?}, {hint}");
            let newest = view.inbox().page(&reader, range, true, limit).expect("a healthy store reads");
            let wanted: Vec<_> = expected.iter().rev().copied().take(limit).collect();
            assert_eq!(newest, wanted, "newest of {user} in {range:?}, {hint}");
        });
    }

    pub fn check_all(&self, users: std::ops::Range<u64>, hint: &str) {
        for user in users {
            self.check(TENANT, UserNo(user), EVERYTHING, 1_000, hint);
        }
    }
}
