//! Several jobs in one turn: what the permits reach, and what each sees of those before it.

use super::*;

/// A user with so many devices, and so many events for that user alone.
fn world(devices: u64, events: usize) -> (Node, Vec<WorkId>) {
    let mut node = Node::new();
    let user = user_with(&mut node, 1, devices);
    node.delivery = Some(by(&[PUSH]));
    let mut works = Vec::new();
    for _ in 0..events {
        node.send(&[user]);
        node.take_all();
        works.push(work(&node));
    }
    (node, works)
}

fn turn(node: &mut Node, jobs: &[Job], deliveries_max: u32) -> Vec<(usize, bool)> {
    let served = served(node, ShardAsk::Serve { jobs: jobs.to_vec(), deliveries_max });
    let sends = |served: &Served| served.allowed.as_ref().map_or(0, |allowed| allowed.sends.len());
    served.iter().map(|served| (sends(served), served.more)).collect()
}

// proves: PRI-04
#[test]
fn works_start_in_order_as_far_as_the_permits_reach() {
    let (mut node, works) = world(2, 4);
    let jobs: Vec<Job> = works.into_iter().map(Job::Work).collect();
    assert_eq!(turn(&mut node, &jobs, 4), [(2, false), (2, false)], "the others are not looked at");
    assert_eq!(turn(&mut node, &jobs, 100), [(0, false), (0, false), (2, false), (2, false)]);
}

/// Who is in the second work may be left in the first: it has to end before.
// proves: PRI-04
#[test]
fn nothing_starts_behind_work_that_has_members_left() {
    let mut node = Node::new();
    let users = [user_with(&mut node, 1, 1), user_with(&mut node, 2, 2), user_with(&mut node, 3, 1)];
    node.delivery = Some(by(&[PUSH]));
    node.send(&users);
    node.take_all();
    let first = work(&node);
    node.send(&users[2..]);
    node.take_all();
    let jobs = [Job::Work(first), Job::Work(work(&node))];
    assert_eq!(turn(&mut node, &jobs, 2), [(1, true)], "two do not fit beside one");
    assert_eq!(turn(&mut node, &jobs, 4), [(3, false), (1, false)]);
}

/// Two timers of one parcel may come up in the same turn.
// proves: DED-03
#[test]
fn a_member_is_allowed_once_in_a_turn() {
    let (mut node, works) = world(3, 1);
    let parcel = intend(&mut node, works[0], 10).0.expect("it is new").parcel;
    let busy = |position| {
        let retry_after_ms = Some(5_000 * (1 + u64::from(position)));
        told(position, Said::NotTaken { cause: Cause::Message, retry_after_ms }, "busy")
    };
    settle(&mut node, parcel, (0..3).map(busy).collect());
    let wakes: Vec<Job> =
        timers(&node).iter().map(|timer| Job::Wake { parcel: timer.parcel, due: timer.due }).collect();
    assert!(wakes.len() > 1, "{wakes:?}");
    node.now = node.now.plus(60_000);
    let came = turn(&mut node, &wakes, 10);
    assert_eq!(came[0], (3, false));
    assert!(came[1..].iter().all(|came| *came == (0, false)), "{came:?}");
}

/// A dispatcher may ask too early, by the leader's time. A timer whose members were decided about has gone instead.
#[test]
fn a_turn_says_whether_a_timer_is_still_to_come() {
    let (mut node, parcel) = one_under_way(by(&[PUSH]));
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "busy")]);
    let Timer { due, .. } = timers(&node)[0];
    for (now, expected) in [(due.0 - 1, (None, true)), (due.0, (Some(1), false)), (due.0, (None, false))] {
        node.now = Millis(now);
        let served = served(&mut node, one(Job::Wake { parcel, due }, 1_000)).remove(0);
        let sends = served.allowed.map(|allowed| allowed.sends.len());
        assert_eq!((sends, served.is_early), expected, "at {now}, due at {due}");
    }
}
