//! The inbox shows every event once, to whom it is addressed, whether and when background work ran.
//!
//! The model is the plainest there is: all events in a map, and each asked in turn. Random histories of windows,
//! follows, tending, syncs, crashes and replays are compared with it, reader by reader.

use crate::chance::Chance;
use crate::lists::{members, since};
use crate::store::{Case, Fresh, Rig, SHARD, commit, read, run, sync};
use fantail_ports::inbox::{ArrivalRange, Audience, Followed, Forget, Reader, Window, WindowEvent};
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_ports::store::{Commit, Tended};
use fantail_rules::ids::{Arrival, ListId, Position, TenantId, UserNo};
use fantail_rules::interval::Intervals;
use std::collections::{BTreeMap, BTreeSet};

pub const CASES: &[Case] = &[
    ("an event is visible at once, to its audience only", event_is_visible_at_once),
    ("a reader sees what arrived while on the list", intervals_decide),
    ("pages go both ways and stop at their limit", pages_go_both_ways),
    ("tending changes nothing", tending_changes_nothing),
    ("a count is exact over many small slices", count_is_exact_over_many_slices),
    ("entries survive crashes without being doubled", crashes_do_not_double),
    ("a forgotten user and a forgotten past leave the rest alone", forgetting_leaves_the_rest),
    ("snapshots carry windows and entries", snapshots_carry_windows_and_entries),
    ("random histories equal the model", random_histories_equal_the_model),
];

pub fn inbox_suite(fresh: Fresh<'_>) {
    run("inbox", CASES, fresh);
}

const TENANT: TenantId = TenantId(5);
const LIST: ListId = ListId([8; 16]);

/// Everything that was said, and what follows from it.
#[derive(Clone, Default)]
struct Model {
    events: BTreeMap<(TenantId, Arrival), Audience>,
    follows: BTreeMap<(TenantId, UserNo), BTreeMap<ListId, Intervals>>,
    reached: BTreeMap<TenantId, Arrival>,
    forgotten: BTreeMap<TenantId, Arrival>,
    gone: BTreeSet<(TenantId, UserNo)>,
}

impl Model {
    fn follows_of(&self, tenant: TenantId, user: UserNo) -> Vec<Followed> {
        let lists = self.follows.get(&(tenant, user)).into_iter().flatten();
        lists.map(|(list, intervals)| Followed { list: *list, intervals: intervals.clone() }).collect()
    }

    fn expected(&self, reader: &Reader<'_>, range: ArrivalRange) -> Vec<Arrival> {
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
    fn fold(&mut self, commit: &Commit) {
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
struct World {
    rig: Box<dyn Rig>,
    journal: Vec<Commit>,
    models: Vec<Model>,
    /// How much of the journal the store has.
    at: usize,
}

impl World {
    fn new(rig: Box<dyn Rig>) -> Self {
        Self { rig, journal: Vec::new(), models: vec![Model::default()], at: 0 }
    }

    fn model(&self) -> &Model {
        &self.models[self.at]
    }

    fn say(&mut self, mut next: Commit) {
        assert_eq!(self.at, self.journal.len(), "nothing is said during a replay");
        next.through = Position(self.journal.len() as u64 + 1);
        let mut model = self.model().clone();
        model.fold(&next);
        self.models.push(model);
        self.journal.push(next);
        self.replay_one();
    }

    fn replay_one(&mut self) {
        commit(&*self.rig, SHARD, self.journal[self.at].clone());
        self.at += 1;
    }

    fn crash(&mut self) {
        self.rig.crash();
        self.at = self.rig.store().marks().get(&SHARD).map_or(0, |mark| mark.0 as usize);
    }

    fn replay(&mut self) {
        while self.at < self.journal.len() {
            self.replay_one();
        }
    }

    fn tend(&self) -> Tended {
        self.rig.store().tend().expect("a healthy store is tended")
    }

    fn tend_all(&self) {
        for _ in 0..10_000 {
            if self.tend() == Tended::Idle {
                return;
            }
        }
        panic!("tending never ends");
    }

    fn event(&mut self, audience: Audience) {
        let arrival = self.model().reached.get(&TENANT).copied().unwrap_or_default().next();
        let events = vec![WindowEvent { arrival, audience }];
        self.say(Commit { windows: vec![Window { tenant: TENANT, events }], ..Commit::default() });
    }

    fn edit(&mut self, user: u64, change: impl FnOnce(&mut Intervals, Arrival)) {
        let at = self.model().reached.get(&TENANT).copied().unwrap_or_default();
        let lists = self.model().follows.get(&(TENANT, UserNo(user)));
        let mut intervals = lists.and_then(|lists| lists.get(&LIST)).cloned().unwrap_or_default();
        change(&mut intervals, at);
        let key = ListKey { tenant: TENANT, list: LIST };
        let edits = vec![ListEdit { key, user: UserNo(user), intervals, at }];
        self.say(Commit { edits, ..Commit::default() });
    }

    /// Compares one reader over a range, in both directions and with every small limit.
    fn check(&self, tenant: TenantId, user: UserNo, range: ArrivalRange, limit: usize, hint: &str) {
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

    fn check_all(&self, users: std::ops::Range<u64>, hint: &str) {
        for user in users {
            self.check(TENANT, UserNo(user), EVERYTHING, 1_000, hint);
        }
    }
}

const EVERYTHING: ArrivalRange = ArrivalRange { after: Arrival(0), before: Arrival(u64::MAX) };

fn explicit(users: &[u64]) -> Audience {
    Audience::Members(users.iter().copied().map(UserNo).collect())
}

fn event_is_visible_at_once(fresh: Fresh<'_>) {
    let mut world = World::new(fresh());
    world.check_all(0..5, "before anything");
    world.edit(2, |stays, at| assert!(stays.open(at)));
    world.event(Audience::List(LIST));
    world.event(explicit(&[1, 3]));
    world.check_all(0..5, "before tending");
    let other = Reader { tenant: TenantId(6), user: UserNo(1), follows: &[] };
    read(&*world.rig, SHARD, |view| {
        assert_eq!(view.inbox().count(&other, EVERYTHING).expect("a healthy store counts"), 0);
    });
}

// proves: FAN-04
fn intervals_decide(fresh: Fresh<'_>) {
    let mut world = World::new(fresh());
    for round in 0..6 {
        world.event(Audience::List(LIST));
        world.edit(1, |stays, at| {
            if round % 2 == 0 {
                stays.open(at)
            } else {
                stays.close(at)
            };
        });
        world.event(Audience::List(LIST));
        if round == 3 {
            world.tend_all();
        }
        world.check_all(0..3, "following and leaving");
    }
    world.tend_all();
    world.check_all(0..3, "after tending");
}

// proves: INB-04
fn pages_go_both_ways(fresh: Fresh<'_>) {
    let mut world = World::new(fresh());
    for arrival in 1..=20u64 {
        world.event(if arrival % 3 == 0 { explicit(&[2]) } else { explicit(&[1, 2]) });
        if arrival % 6 == 0 && arrival < 18 {
            world.tend_all();
        }
    }
    for after in 0..=21 {
        for before in 0..=22 {
            let range = ArrivalRange { after: Arrival(after), before: Arrival(before) };
            world.check(TENANT, UserNo(1), range, 1 + (after as usize % 5), "rows and windows");
        }
    }
    world.check(TENANT, UserNo(2), EVERYTHING, 0, "nothing wanted");
}

// proves: INB-06
fn tending_changes_nothing(fresh: Fresh<'_>) {
    let mut world = World::new(fresh());
    for user in 0..700 {
        world.edit(user, |stays, at| assert!(stays.open(at)));
    }
    for step in 0..12u64 {
        world.event(Audience::List(LIST));
        world.edit(step * 40, |stays, at| assert!(stays.close(at)));
        world.check_all(0..20, "before a slice");
        world.tend();
        world.check_all(0..20, "after a slice");
    }
    world.tend_all();
    for user in [0, 1, 40, 255, 256, 257, 440, 699, 700] {
        world.check(TENANT, UserNo(user), EVERYTHING, 1_000, "after tending");
    }
}

// proves: INB-06, INB-09
fn count_is_exact_over_many_slices(fresh: Fresh<'_>) {
    let mut world = World::new(fresh());
    for arrival in 1..=600u64 {
        world.event(if arrival % 5 == 0 { explicit(&[1, 2]) } else { explicit(&[1]) });
        world.tend();
        if arrival % 97 == 0 {
            world.check_all(1..3, "while it grows");
            world.crash();
            world.replay();
        }
    }
    for _ in 0..3 {
        world.check_all(0..3, "consolidated");
        world.tend_all();
    }
    let mut chance = Chance::new(1);
    for _ in 0..200 {
        let after = chance.below(610);
        let range = ArrivalRange { after: Arrival(after), before: Arrival(after + chance.below(400)) };
        world.check(TENANT, UserNo(1 + chance.below(2)), range, 50, "any range");
    }
}

fn crashes_do_not_double(fresh: Fresh<'_>) {
    let mut world = World::new(fresh());
    for user in 0..40 {
        world.edit(user, |stays, at| assert!(stays.open(at)));
    }
    sync(&*world.rig);
    for round in 0..8u64 {
        world.event(Audience::List(LIST));
        world.edit(round, |stays, at| assert!(stays.close(at)));
        world.event(explicit(&[3, 30]));
        if round % 3 == 0 {
            sync(&*world.rig);
        }
        world.event(Audience::List(LIST));
        world.tend_all();
        world.crash();
        world.check_all(0..41, "as of the sync point");
        while world.at < world.journal.len() {
            world.replay_one();
            world.check_all(0..41, "during the replay");
        }
        if round % 2 == 0 {
            world.tend_all();
            world.check_all(0..41, "after the replay");
        }
    }
}

fn forgetting_leaves_the_rest(fresh: Fresh<'_>) {
    let mut world = World::new(fresh());
    for _ in 0..30 {
        world.event(explicit(&[1, 2, 3]));
        world.tend();
    }
    let through = Forget::Through { tenant: TENANT, arrival: Arrival(20) };
    let user = Forget::User { tenant: TENANT, user: UserNo(2) };
    world.say(Commit { forgets: vec![through, user], ..Commit::default() });
    let kept = ArrivalRange { after: Arrival(20), before: Arrival(u64::MAX) };
    for round in 0..4 {
        for user in [1, 3] {
            world.check(TENANT, UserNo(user), kept, 1_000, "what is kept");
        }
        match round {
            0 => world.tend_all(),
            1 => sync(&*world.rig),
            _ => {
                world.crash();
                world.replay();
            }
        }
    }
    world.event(explicit(&[1, 3]));
    world.tend_all();
    world.check(TENANT, UserNo(3), kept, 1_000, "what comes after");
}

fn snapshots_carry_windows_and_entries(fresh: Fresh<'_>) {
    let mut world = World::new(fresh());
    world.edit(2, |stays, at| assert!(stays.open(at)));
    for _ in 0..9 {
        world.event(Audience::List(LIST));
    }
    world.tend_all();
    world.event(Audience::List(LIST));
    world.event(explicit(&[1, 2]));
    sync(&*world.rig);
    let marks = world.rig.store().snapshot(world.rig.blobs(), "inbox").expect("a healthy store is copied");
    let other = fresh();
    other.store().restore(world.rig.blobs(), "inbox").expect("a whole snapshot is taken in");
    assert_eq!(other.store().marks(), marks);
    world.rig = other;
    for _ in 0..2 {
        world.check_all(0..4, "in the copy");
        world.event(Audience::List(LIST));
        world.tend_all();
    }
    let list = ListKey { tenant: TENANT, list: LIST };
    assert_eq!(members(&*world.rig, list, None, 9)[0].intervals, since(0));
}

/// Small numbers, so that everything meets everything.
const TENANTS: u64 = 2;
const LISTS: u64 = 5;
const USERS: u64 = 24;
const STEPS: u64 = 260;

// proves: FAN-04, INB-04, INB-06, NFR-03
fn random_histories_equal_the_model(fresh: Fresh<'_>) {
    for seed in 0..8 {
        let mut chance = Chance::new(seed);
        let mut world = World::new(fresh());
        for step in 0..STEPS {
            let hint = format!("seed {seed}, step {step}");
            match chance.below(20) {
                0 => sync(&*world.rig),
                1 if chance.once_in(2) => crash_and_replay(&mut chance, &mut world, &hint),
                2..=6 => {
                    world.tend();
                }
                _ => {
                    let next = random_commit(&mut chance, world.model());
                    world.say(next);
                }
            }
            check_some(&mut chance, &world, &hint);
        }
        world.tend_all();
        for _ in 0..20 {
            check_some(&mut chance, &world, &format!("seed {seed}, at the end"));
        }
    }
}

fn crash_and_replay(chance: &mut Chance, world: &mut World, hint: &str) {
    world.crash();
    check_some(chance, world, &format!("{hint}, crashed"));
    while world.at < world.journal.len() {
        world.replay_one();
        if chance.once_in(4) {
            world.tend();
        }
        if chance.once_in(20) {
            sync(&*world.rig);
        }
        if chance.once_in(60) {
            world.crash();
        }
        check_some(chance, world, &format!("{hint}, replaying {}", world.at));
    }
}

fn random_commit(chance: &mut Chance, model: &Model) -> Commit {
    let mut next = Commit::default();
    let mut model = model.clone();
    for _ in 0..chance.below(4) {
        let (tenant, user) = (TenantId(chance.below(TENANTS) as u32), UserNo(chance.below(USERS)));
        let list = ListId([chance.below(LISTS) as u8; 16]);
        let at = model.reached.get(&tenant).copied().unwrap_or_default();
        let lists = model.follows.entry((tenant, user)).or_default();
        let intervals = lists.entry(list).or_default();
        let changed = if intervals.is_open() { intervals.close(at) } else { intervals.open(at) };
        assert!(changed, "an open stay closes and a closed one opens");
        next.edits.push(ListEdit { key: ListKey { tenant, list }, user, intervals: intervals.clone(), at });
    }
    for tenant in 0..TENANTS {
        let tenant = TenantId(tenant as u32);
        let mut arrival = model.reached.get(&tenant).copied().unwrap_or_default();
        let events: Vec<_> = (0..chance.below(4))
            .map(|_| {
                arrival = Arrival(arrival.0 + 1 + chance.below(2));
                WindowEvent { arrival, audience: random_audience(chance) }
            })
            .collect();
        if !events.is_empty() {
            next.windows.push(Window { tenant, events });
        }
    }
    if chance.once_in(25) {
        let tenant = TenantId(chance.below(TENANTS) as u32);
        let reached = model.reached.get(&tenant).copied().unwrap_or_default();
        let forgotten = model.forgotten.get(&tenant).copied().unwrap_or_default();
        let arrival = Arrival(forgotten.0 + (reached.0 - forgotten.0) / 3);
        next.forgets.push(Forget::Through { tenant, arrival });
    }
    if chance.once_in(60) {
        let user = UserNo(chance.below(USERS));
        next.forgets.push(Forget::User { tenant: TenantId(0), user });
    }
    next
}

fn random_audience(chance: &mut Chance) -> Audience {
    if chance.once_in(3) {
        let users: BTreeSet<u64> = (0..chance.below(6)).map(|_| chance.below(USERS)).collect();
        Audience::Members(users.into_iter().map(UserNo).collect())
    } else {
        Audience::List(ListId([chance.below(LISTS) as u8; 16]))
    }
}

fn check_some(chance: &mut Chance, world: &World, hint: &str) {
    for _ in 0..3 {
        let (tenant, user) = (TenantId(chance.below(TENANTS) as u32), UserNo(chance.below(USERS)));
        if world.models.iter().any(|model| model.gone.contains(&(tenant, user))) {
            continue;
        }
        // Nobody asks for what was forgotten, also not while the journal is replayed.
        let last = world.models.last().expect("a world begins with the empty model");
        let forgotten = last.forgotten.get(&tenant).copied().unwrap_or_default();
        let reached = last.reached.get(&tenant).copied().unwrap_or_default();
        let range = if chance.once_in(2) {
            ArrivalRange { after: forgotten, before: Arrival(u64::MAX) }
        } else {
            let after = forgotten.0 + chance.below(reached.0 - forgotten.0 + 2);
            ArrivalRange { after: Arrival(after), before: Arrival(after + chance.below(30)) }
        };
        world.check(tenant, user, range, 1 + chance.below(30) as usize, hint);
    }
    for (tenant, list) in [(0, 0), (1, 3)] {
        let key = ListKey { tenant: TenantId(tenant), list: ListId([list; 16]) };
        let open: Vec<UserNo> = members(&*world.rig, key, None, 1_000)
            .into_iter()
            .filter(|member| member.intervals.is_open())
            .map(|member| member.user)
            .collect();
        let follows = |user: &UserNo| {
            let lists = world.model().follows.get(&(key.tenant, *user));
            lists.and_then(|lists| lists.get(&key.list)).is_some_and(Intervals::is_open)
        };
        let expected: Vec<UserNo> = (0..USERS).map(UserNo).filter(follows).collect();
        assert_eq!(open, expected, "members, {hint}");
    }
}
