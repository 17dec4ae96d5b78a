//! What the largest legal records cost in rows: a leader folds nothing else while it folds one, so no request may
//! make a record that touches more. Rows are counted, not time; the numbers are the arithmetic of each layout.

use crate::deliveries::{by, one, states, told};
use crate::endpoints::{hear, register, registration};
use crate::harness::{DAY_MS, FRONT, Node, TENANT, list, lookup, put_of, sealed};
use crate::respect::{quiet_at, want};
use fantail_machine::front::FrontAsk;
use fantail_machine::records::Stamped;
use fantail_machine::records::front::Size;
use fantail_machine::records::shard::{Change, ShardRecord};
use fantail_machine::shard::edges::{AskEdge, Edit};
use fantail_machine::shard::endpoints::Registration;
use fantail_machine::shard::outcome::{Said, Told};
use fantail_machine::shard::redrive::Wish;
use fantail_machine::shard::serve::Job;
use fantail_machine::shard::{ShardAnswer, ShardAsk, SweepNext};
use fantail_machine::tables::ledger::{self, ParcelId, TimersFrom};
use fantail_machine::tables::work::WorkId;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::News;
use fantail_rules::ids::{Arrival, Millis, PartitionId, TenantId, UserNo};
use fantail_rules::limits::{
    BATCH_ITEMS_MAX, EDGES_PER_RECORD_MAX, EXPLICIT_USERS_MAX, GUARD_MS, MARK_ROWS_PER_RECORD_MAX,
    RECORD_BYTES_MAX, TAKE_EVENTS_MAX, USERS_PER_RECORD_MAX,
};
use fantail_rules::marks::Mark;
use fantail_rules::preference::Preferences;
use fantail_rules::retry::Cause;

/// Pages in one `Expired` record.
const EXPIRED_PAGES: usize = 4;

fn edges(node: &mut Node, change: Change, asks: impl Iterator<Item = (u64, u64)>) {
    let edge = |(name, no)| AskEdge { user: lookup(name), list: list(no), name: sealed(3) };
    node.shard(ShardAsk::Edit { tenant: TENANT, edit: Edit { change, edges: asks.map(edge).collect() } });
}

fn users(node: &mut Node, names: std::ops::Range<u64>) {
    let puts = names.map(|name| put_of(name, name)).collect();
    node.shard(ShardAsk::PutUsers { tenant: TENANT, users: puts });
}

// proves: FAN-03
#[test]
fn a_post_to_a_large_list_costs_the_same_rows_whatever_its_size() {
    for followers in [0, 10, 2_000] {
        let mut node = Node::new();
        users(&mut node, 0..followers);
        edges(&mut node, Change::Join, (0..followers).map(|name| (name, 2)));
        node.post(list(2), true);
        node.post(list(2), true);
        // Idempotency key, event, last id, what the tenant has; the size row only when the tier changes.
        assert_eq!(node.rows_touched, [4]);
        node.take_all();
        // Two pointers, their list, the page and its index row, two watermarks.
        assert_eq!(node.rows_touched, [7], "{followers} followers");
    }
}

#[test]
fn the_largest_take_is_bounded() {
    let most = TAKE_EVENTS_MAX as u64;
    let mut node = Node::new();
    for no in 0..most {
        node.post(list(no), true);
    }
    node.take_all();
    assert_eq!(node.rows_touched, [2 * TAKE_EVENTS_MAX + 4]);
    // One tenant per event: nothing is shared.
    for tenant in 0..most {
        node.tenant = TenantId(tenant as u32 + 10);
        node.post(list(2), true);
    }
    node.take_all();
    assert_eq!(node.rows_touched, [5 * TAKE_EVENTS_MAX + 1]);
}

#[test]
fn the_largest_take_of_retractions_is_bounded() {
    let mut node = Node::new();
    let events: Vec<_> = (0..TAKE_EVENTS_MAX).map(|_| node.post(list(2), false)).collect();
    node.take_all();
    for event in events {
        node.retract(event);
    }
    node.take_all();
    assert_eq!(node.rows_touched, [2 * TAKE_EVENTS_MAX + 2]);
}

/// An event for as many explicit users as there may be is one page, one record, no row per user.
#[test]
fn the_largest_explicit_audience_costs_no_row_per_member() {
    let mut node = Node::new();
    let members: Vec<UserNo> = (0..EXPLICIT_USERS_MAX as u64).map(|no| UserNo(no * 1_000)).collect();
    node.send(&members);
    let front = node.journal[&PartitionId::Front(FRONT)].last().unwrap().len();
    node.take_all();
    assert_eq!(node.rows_touched, [4]);
    let given = node.journal[&PartitionId::Shard(node.at)].last().unwrap().len();
    assert!(front.max(given) < RECORD_BYTES_MAX, "{front} {given}");
}

#[test]
fn the_largest_edges_record_is_bounded() {
    let most = EDGES_PER_RECORD_MAX as u64;
    let mut node = Node::new();
    users(&mut node, 0..15 + most);
    // Fifteen members in each list, so that the next one is worth a report.
    (0..15).for_each(|name| edges(&mut node, Change::Join, (0..most).map(|no| (name, no))));
    assert_eq!(node.todos(), []);
    edges(&mut node, Change::Join, (0..most).map(|no| (15 + no, no)));
    assert_eq!(node.rows_touched, [4 * EDGES_PER_RECORD_MAX]);
    edges(&mut node, Change::Leave, (0..most).map(|no| (15 + no, no)));
    assert!(node.rows_touched.iter().all(|rows| *rows <= 4 * EDGES_PER_RECORD_MAX));
}

#[test]
fn the_largest_batches_are_cut_into_bounded_records() {
    let most = BATCH_ITEMS_MAX as u64;
    let mut node = Node::new();
    users(&mut node, 0..most);
    assert_eq!(node.rows_touched.len(), BATCH_ITEMS_MAX.div_ceil(USERS_PER_RECORD_MAX));
    // Two rows per user, the numbers handed out, and a page of the reach column for every 64.
    let pages = USERS_PER_RECORD_MAX / 64 + 1;
    assert!(node.rows_touched.iter().all(|rows| *rows <= 2 * USERS_PER_RECORD_MAX + 1 + pages));
    edges(&mut node, Change::Join, (0..most).map(|name| (name, 2)));
    assert_eq!(node.rows_touched.len(), BATCH_ITEMS_MAX.div_ceil(EDGES_PER_RECORD_MAX));
    assert!(node.rows_touched.iter().all(|rows| *rows <= 4 * EDGES_PER_RECORD_MAX));
    let largest = node.journal.values().flatten().map(Vec::len).max().unwrap();
    assert!(largest < RECORD_BYTES_MAX, "{largest}");
}

/// A user with this many entries, all of them flagged.
fn flagged(entries: usize) -> (Node, UserNo) {
    let mut node = Node::new();
    let user = node.user(0);
    node.join(0, list(2));
    for _ in 0..entries {
        node.post(list(2), false);
    }
    node.take_all();
    let all: Vec<u64> = (1..=entries as u64).collect();
    node.mark(user, Mark::Seen, &all);
    (node, user)
}

#[test]
fn the_largest_mark_records_are_bounded() {
    let one_more = MARK_ROWS_PER_RECORD_MAX + 1;
    let (mut node, user) = flagged(2 * MARK_ROWS_PER_RECORD_MAX);
    // Marked: a row per entry and the user's marks.
    assert_eq!(node.rows_touched, [one_more; 2]);
    // Moved, up and down: `seen` moves first, then `read`, each over all flag rows.
    node.mark(user, Mark::Archive, &(1..=2 * MARK_ROWS_PER_RECORD_MAX as u64).collect::<Vec<_>>());
    assert_eq!(node.rows_touched, [one_more; 2]);
    node.mark_all(user, Mark::Read, u64::MAX - 1);
    assert_eq!(node.rows_touched, [one_more; 4]);
    node.mark_all(user, Mark::Unread, 0);
    assert_eq!(node.rows_touched.iter().max(), Some(&one_more));
    // Cleared: the rows of a user who goes.
    node.delete_user(0);
    assert!(node.rows_touched.iter().all(|rows| *rows <= one_more), "{:?}", node.rows_touched);
}

/// Every event a pointer of its own list, and every one retracted.
#[test]
fn the_largest_expired_record_is_bounded() {
    let mut node = Node::new();
    for page in 0..EXPIRED_PAGES + 1 {
        let lists = (0..TAKE_EVENTS_MAX as u64).map(|no| list(no + (page * TAKE_EVENTS_MAX) as u64));
        let events: Vec<_> = lists.map(|list| node.post(list, true)).collect();
        node.take_all();
        for event in events {
            node.retract(event);
        }
        node.take_all();
    }
    node.now = node.now.plus(100 * DAY_MS);
    node.shard(ShardAsk::Expire { tenant: TENANT, retention_days: 90, swept: None });
    // Per event: pointer, pointer list, and the two rows of its retraction; per page: itself and its index row.
    let events = EXPIRED_PAGES * TAKE_EVENTS_MAX;
    assert_eq!(node.rows_touched, [4 * events + 2 * EXPIRED_PAGES + 1]);
}

#[test]
fn front_records_are_bounded() {
    let mut node = Node::new();
    let sizes = (0..256).map(|no| Size { tenant: TENANT, list: list(no), members: 20 }).collect();
    node.front(FrontAsk::Counted { shard: node.at, sizes });
    assert_eq!(node.rows_touched, [256]);
    node.post(list(2), true);
    assert_eq!(node.rows_touched, [5], "key, event, last id, what the tenant has, and the new tier");
}

/// Everything a dense parcel can be told costs a handful of rows, not one per member.
#[test]
fn the_largest_parcel_of_a_list_costs_a_handful_of_rows() {
    let mut node = Node::new();
    users(&mut node, 0..1_000);
    edges(&mut node, Change::Join, (0..1_000).map(|name| (name, 2)));
    for name in 0..1_000 {
        register(&mut node, name, Registration { address: sealed(name), ..registration(name, 1, 1) });
        hear(&mut node, UserNo(name), 1, 1, News::Granted { suppressed: false });
    }
    node.delivery = Some(by(&[ChannelKind::Push]));
    node.post(list(2), true);
    node.take_all();
    // As without deliveries, one row of work, and the tally of the lane.
    assert_eq!(node.rows_touched, [6 + 2]);
    let work = WorkId { tenant: TENANT, arrival: Arrival(1), channel: ChannelKind::Push };
    let parcel = ParcelId::of(work, UserNo(0));
    node.shard(one(Job::Work(work), 1_000));
    // The ledger, two tallies, the to-do row, and the work that is done.
    assert_eq!(node.rows_touched, [5]);
    let answer = |said: Said| (0..1_000).map(|at| told(at, said, "said")).collect::<Vec<_>>();
    let after = Said::NotTaken { cause: Cause::Scope, retry_after_ms: None };
    node.shard(ShardAsk::Outcome { parcel, told: answer(after).into() });
    // The ledger, two tallies, the to-do row, and timers: a second or two apart at most.
    assert!(matches!(node.rows_touched[..], [5..=7]), "{:?}", node.rows_touched);
    node.now = node.now.plus(10_000);
    node.shard(one(Job::Wake { parcel, due: node.now }, 1_000));
    assert!(matches!(node.rows_touched[..], [5..=7]), "{:?}", node.rows_touched);
    node.shard(ShardAsk::Outcome { parcel, told: answer(Said::Malformed).into() });
    assert_eq!(node.rows_touched, [5], "and a row among the dead letters");
    node.shard(ShardAsk::Redrive { parcel, wish: Wish::Drop, users: None });
    assert_eq!(node.rows_touched, [4]);
    let largest = node.journal[&PartitionId::Shard(node.at)].iter().map(Vec::len).max().unwrap();
    assert!(largest < RECORD_BYTES_MAX, "{largest}");
}

/// What is told about members who were named lies together: 32 rows of 32 members at most.
#[test]
fn the_largest_parcel_of_names_costs_few_rows() {
    let mut node = Node::new();
    let members: Vec<UserNo> = (0..1_000).map(UserNo).collect();
    users(&mut node, 0..1_000);
    for name in 0..1_000 {
        register(&mut node, name, Registration { address: sealed(name), ..registration(name, 1, 1) });
        hear(&mut node, UserNo(name), 1, 1, News::Granted { suppressed: false });
    }
    node.delivery = Some(by(&[ChannelKind::Push, ChannelKind::InApp]));
    node.send(&members);
    node.take_all();
    // As without deliveries; the members, the work, and the ledger and two tallies of their inboxes.
    assert_eq!(node.rows_touched, [4 + 2 + 3]);
    let work = WorkId { tenant: TENANT, arrival: Arrival(1), channel: ChannelKind::Push };
    node.shard(one(Job::Work(work), 1_000));
    assert_eq!(node.rows_touched, [5]);
    let parcel = ParcelId::of(work, UserNo(0));
    let told: Vec<_> = (0..1_000).map(|at| told(at, Said::Accepted, "")).collect();
    node.shard(ShardAsk::Outcome { parcel, told: told.into() });
    assert_eq!(node.rows_touched, [32 + 4]);
    node.now = node.now.plus(31 * DAY_MS);
    let sweep = ShardAsk::Sweep { tenant: TENANT, behind: Arrival::START, guard_ms: GUARD_MS };
    // Of both parcels: what was told, the ledger and the tally; then the lane's tally and the members. No row that does not exist.
    node.shard(sweep);
    assert_eq!(node.rows_touched, [2 * (32 + 2) + 1 + 1]);
}

/// So many users, each with one delivery that waits for the morning.
fn waiting_for_the_morning(users_max: u64) -> Node {
    let mut node = Node::new();
    users(&mut node, 0..users_max);
    node.delivery = Some(by(&[ChannelKind::Push]));
    for name in 0..users_max {
        register(&mut node, name, Registration { address: sealed(name), ..registration(name, 1, 1) });
        hear(&mut node, UserNo(name), 1, 1, News::Granted { suppressed: false });
        want(&mut node, name, quiet_at("Asia/Tokyo"));
        node.send(&[UserNo(name)]);
        node.take_all();
        let work = WorkId { tenant: TENANT, arrival: node.progress().last, channel: ChannelKind::Push };
        node.shard(one(Job::Work(work), 10));
    }
    node
}

// fixes: correctness A10
#[test]
fn a_preference_change_costs_what_its_user_has_waiting() {
    let costs = [3, 300].map(|others| {
        let mut node = waiting_for_the_morning(others);
        let (records, user) = (node.records(), others / 2);
        want(&mut node, user, Preferences::default());
        let reads = node.reads_of(ShardAsk::Replan { tenant: TENANT, user: UserNo(user), from: None });
        let due = node.read_shard(|state| {
            ledger::timers_due(state.tables(), TimersFrom::Due(Millis(0)), node.now, 10).unwrap().len()
        });
        assert_eq!(due, 1, "the delivery of this user meets its gates again");
        (node.records() - records, reads, node.rows_touched.clone())
    });
    assert_eq!(costs[0], costs[1]);
    let (records, reads, _) = &costs[0];
    assert!(*records <= 3 && *reads <= 20, "{records} records, {reads} rows");
}

// fixes: correctness A8
#[test]
fn a_step_of_the_sweep_costs_the_same_however_much_is_kept() {
    for sends in [400, 1_600] {
        let mut node = Node::new();
        users(&mut node, 0..1);
        register(&mut node, 0, Registration { address: sealed(0), ..registration(0, 1, 1) });
        hear(&mut node, UserNo(0), 1, 1, News::Granted { suppressed: false });
        node.delivery = Some(by(&[ChannelKind::Push, ChannelKind::InApp]));
        for _ in 0..sends {
            node.send(&[UserNo(0)]);
            node.take_all();
            let work = WorkId { tenant: TENANT, arrival: node.progress().last, channel: ChannelKind::Push };
            node.shard(one(Job::Work(work), 10));
            let told = vec![told(0, Said::Accepted, "")];
            node.shard(ShardAsk::Outcome { parcel: ParcelId::of(work, UserNo(0)), told: told.into() });
        }
        node.now = node.now.plus(31 * DAY_MS);
        let sweep = |behind| ShardAsk::Sweep { tenant: TENANT, behind, guard_ms: GUARD_MS };
        let (mut behind, mut steps, mut rows) = (Arrival::START, 0, 0);
        while let ShardAnswer::Swept(SweepNext { behind: Some(next), .. }) = node.shard(sweep(behind)) {
            (behind, steps) = (next, steps + 1);
            rows += node.rows_touched.iter().sum::<usize>();
        }
        // The ledger and tally of each channel, what was told, and the members; a lane's tally for each record.
        assert!(rows <= sends * 8, "{rows} rows for {sends} sends");
        assert!(steps <= sends / 32, "{steps} steps for {sends} sends");
        assert!(node.reads_of(sweep(Arrival::START)) <= 4, "nothing is left");
    }
}

// fixes: correctness A3
#[test]
fn an_outcome_with_long_texts_is_cut_into_records_that_fit() {
    let long = |position| Told {
        code: "c".repeat(64),
        message: "m".repeat(256),
        provider_id: "p".repeat(256),
        ..told(position, Said::Accepted, "")
    };
    let mut node = Node::new();
    let members: Vec<UserNo> = (0..1_000).map(UserNo).collect();
    users(&mut node, 0..1_000);
    for name in 0..1_000 {
        register(&mut node, name, Registration { address: sealed(name), ..registration(name, 1, 1) });
        hear(&mut node, UserNo(name), 1, 1, News::Granted { suppressed: false });
    }
    node.delivery = Some(by(&[ChannelKind::Push]));
    node.send(&members);
    node.take_all();
    let work = WorkId { tenant: TENANT, arrival: Arrival(1), channel: ChannelKind::Push };
    node.shard(one(Job::Work(work), 1_000));
    let parcel = ParcelId::of(work, UserNo(0));
    let before = node.journal[&PartitionId::Shard(node.at)].len();
    let all: Vec<Told> = (0..1_000).map(long).collect();
    node.shard(ShardAsk::Outcome { parcel, told: all.into() });
    let mut positions = Vec::new();
    for bytes in &node.journal[&PartitionId::Shard(node.at)][before..] {
        assert!(bytes.len() <= RECORD_BYTES_MAX, "{}", bytes.len());
        let ShardRecord::Outcome(outcome) = Stamped::<ShardRecord>::decode(bytes).unwrap().record else {
            panic!("nothing but outcomes follows")
        };
        assert_eq!(outcome.notes.len(), outcome.positions.len());
        assert!(outcome.notes.iter().all(|note| note.provider_id.len() == 256 && note.message.len() == 256));
        positions.extend(outcome.positions);
    }
    assert_eq!(positions, (0..1_000).collect::<Vec<u16>>(), "every member once");
    assert!(states(&node, parcel).iter().all(|state| *state == State::Accepted));
}

/// Planning reads the column, not the devices of each member.
#[test]
fn planning_for_a_dense_list_reads_few_rows() {
    let mut node = Node::new();
    users(&mut node, 0..1_000);
    edges(&mut node, Change::Join, (0..1_000).map(|name| (name, 2)));
    for name in 0..1_000 {
        register(&mut node, name, Registration { address: sealed(name), ..registration(name, 1, 1) });
        hear(&mut node, UserNo(name), 1, 1, News::Granted { suppressed: false });
    }
    node.delivery = Some(by(&[ChannelKind::Push]));
    node.post(list(2), false);
    node.take_all();
    let work = WorkId { tenant: TENANT, arrival: Arrival(1), channel: ChannelKind::Push };
    let parcel = ParcelId::of(work, UserNo(0));
    let reads = node.reads_of(one(Job::Work(work), 1_000));
    assert!(reads <= 40, "{reads} rows to plan and fold the first round");
    let after = Said::NotTaken { cause: Cause::Scope, retry_after_ms: None };
    let told: Vec<_> = (0..1_000).map(|at| told(at, after, "")).collect();
    let reads = node.reads_of(ShardAsk::Outcome { parcel, told: told.into() });
    assert!(reads <= 10, "{reads} rows to write down what came of it");
    node.now = node.now.plus(10_000);
    let reads = node.reads_of(one(Job::Wake { parcel, due: node.now }, 1_000));
    assert!(reads <= 40, "{reads} rows to plan and fold another round");
}
