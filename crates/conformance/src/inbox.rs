//! The inbox shows every event once, to whom it is addressed, whether and when background work ran.
//!
//! The model is the plainest there is: all events in a map, and each asked in turn. Random histories of windows,
//! follows, tending, syncs, crashes and replays are compared with it, reader by reader.

mod histories;
mod world;

use crate::chance::Chance;
use crate::lists::{members, since};
use crate::store::{Case, Fresh, SHARD, read, run, sync};
use fantail_ports::inbox::{ArrivalRange, Audience, Forget, Reader};
use fantail_ports::lists::ListKey;
use fantail_ports::store::Commit;
use fantail_rules::ids::{Arrival, TenantId, UserNo};
use histories::{commits_go_on_while_the_store_is_tended, random_histories_equal_the_model};
use world::{EVERYTHING, LIST, TENANT, World};

pub const CASES: &[Case] = &[
    ("an event is visible at once, to its audience only", event_is_visible_at_once),
    ("a reader sees what arrived while on the list", intervals_decide),
    ("pages go both ways and stop at their limit", pages_go_both_ways),
    ("tending changes nothing", tending_changes_nothing),
    ("a count is exact over many small slices", count_is_exact_over_many_slices),
    ("entries survive crashes without being doubled", crashes_do_not_double),
    ("a forgotten user and a forgotten past leave the rest alone", forgetting_leaves_the_rest),
    ("snapshots carry windows and entries", snapshots_carry_windows_and_entries),
    ("commits go on while the store is tended", commits_go_on_while_the_store_is_tended),
    ("random histories equal the model", random_histories_equal_the_model),
];

pub fn inbox_suite(fresh: Fresh<'_>) {
    run("inbox", CASES, fresh);
}

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
