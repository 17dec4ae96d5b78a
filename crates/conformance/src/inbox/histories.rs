//! Random histories of windows, follows, tending, syncs, crashes and replays against the model.

use super::world::{Model, World};
use crate::chance::Chance;
use crate::lists::members;
use crate::store::{Fresh, SHARD, sync};
use fantail_ports::inbox::{ArrivalRange, Audience, Forget, Reader, Window, WindowEvent};
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_ports::store::{Commit, Store, Tended, View};
use fantail_rules::ids::{Arrival, ListId, Position, TenantId, UserNo};
use fantail_rules::interval::Intervals;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Small numbers, so that everything meets everything.
const TENANTS: u64 = 2;
const LISTS: u64 = 5;
const USERS: u64 = 24;
const STEPS: u64 = 260;

/// How many histories; `FANTAIL_HISTORIES` asks for more, as `make nightly` does.
fn seeds() -> u64 {
    const DEFAULT: u64 = 8;
    std::env::var("FANTAIL_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT)
}

// proves: FAN-04, INB-04, INB-06, NFR-03
pub fn random_histories_equal_the_model(fresh: Fresh<'_>) {
    for seed in 0..seeds() {
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

/// Follows, unfollows and events go on while another thread turns windows into entries.
// proves: FAN-04, INB-04, INB-06
pub fn commits_go_on_while_the_store_is_tended(fresh: Fresh<'_>) {
    let rig = fresh();
    let (store, is_over) = (rig.store(), AtomicBool::new(false));
    let (mut chance, mut model) = (Chance::new(77), Model::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                store.tend().expect("a healthy store is tended");
            }
        });
        for through in 1..=STEPS * 4 {
            let next = Commit { through: Position(through), ..random_commit(&mut chance, &model) };
            model.fold(&next);
            store.commit(SHARD, next).expect("a healthy store takes commits");
            check_reader(&mut chance, store, &model, through);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    while store.tend().expect("a healthy store is tended") == Tended::MoreWaiting {}
    for _ in 0..STEPS {
        check_reader(&mut chance, store, &model, 0);
    }
}

fn check_reader(chance: &mut Chance, store: &dyn Store, model: &Model, step: u64) {
    let (tenant, user) = (TenantId(chance.below(TENANTS) as u32), UserNo(chance.below(USERS)));
    if model.gone.contains(&(tenant, user)) {
        return;
    }
    let follows = model.follows_of(tenant, user);
    let reader = Reader { tenant, user, follows: &follows };
    let after = model.forgotten.get(&tenant).copied().unwrap_or_default();
    let range = ArrivalRange { after, before: Arrival(u64::MAX) };
    let mut expected = model.expected(&reader, range);
    expected.reverse();
    let mut check = |view: &dyn View| {
        let found = view.inbox().page(&reader, range, true, usize::MAX).expect("a healthy store reads");
        assert_eq!(found, expected, "user {user} of {tenant} at step {step}");
        let count = view.inbox().count(&reader, range).expect("a healthy store counts");
        assert_eq!(count, expected.len() as u64, "user {user} of {tenant} at step {step}");
    };
    store.read(SHARD, &mut check).expect("a healthy store reads");
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
        next.edits.push(ListEdit {
            key: ListKey { tenant, list },
            user,
            intervals: intervals.clone(),
            at,
            floor: Arrival(u64::MAX),
        });
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
