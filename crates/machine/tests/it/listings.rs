//! Pages of what a tenant has: in their order, page by page, and past what is gone or meant for others.

use crate::courier::Courier;
use crate::endpoints::{address, register, registration};
use crate::harness::{DIRECTORY, FRONT, Node, SHARD, TENANT, list, lookup};
use fantail_machine::directory::DirectoryAsk;
use fantail_machine::shard::ShardAsk;
use fantail_machine::tables::look::LookMax;
use fantail_machine::tables::{directory, erasure, event, list as lists, user};
use fantail_rules::ids::{AddressHash, ListId, PartitionId, TenantId, UserNo};
use fantail_rules::suppression::Reason;
use fantail_rules::ulid::Ulid;

fn most(rows: usize, found: usize) -> LookMax {
    LookMax { rows, bytes: usize::MAX, found }
}

/// How much one look may come to: little, in rows or in what is found, and plenty.
const LOOKS: [(usize, usize); 4] = [(1, 9), (3, 9), (9, 2), (100, 100)];

// fixes: usability §3.21
#[test]
fn users_are_paged_past_those_who_are_gone() {
    let mut node = Node::new();
    for name in 0..12 {
        node.user(name);
    }
    for name in [0, 3, 4, 5, 6, 11] {
        node.delete_user(name);
    }
    for (rows, found_max) in LOOKS {
        let (mut found, mut next) = (Vec::new(), Some(UserNo(0)));
        while let Some(first) = next {
            let page =
                node.read_shard(|state| user::page(state.tables(), TENANT, first, most(rows, found_max)));
            let (users, after) = page.unwrap();
            assert!(users.len() <= found_max && after.is_none_or(|after| after > first));
            found.extend(users.into_iter().map(|(user, _)| user.0));
            next = after;
        }
        assert_eq!(found, [1, 2, 7, 8, 9, 10], "{rows} rows at a time");
    }
    let of = |tenant, first| {
        node.read_shard(|state| user::page(state.tables(), tenant, UserNo(first), most(9, 9))).unwrap()
    };
    assert_eq!(of(TenantId(9), 0), (Vec::new(), None), "another tenant has none");
    assert_eq!(of(TENANT, u64::MAX), (Vec::new(), None), "a place behind the end");
}

// fixes: usability §3.21
#[test]
fn topics_are_found_among_the_lists_of_actors() {
    let mut node = Node::new();
    node.user(0);
    let all: Vec<ListId> = (0..12).map(list).collect();
    all.iter().for_each(|list| node.join(0, *list));
    let mut expected: Vec<ListId> = all.into_iter().filter(ListId::is_topic).collect();
    expected.sort_unstable();
    for (rows, found_max) in LOOKS {
        let (mut found, mut behind) = (Vec::new(), None);
        loop {
            let page = node.read_shard(|state| {
                lists::topics_behind(state.tables(), TENANT, behind, most(rows, found_max))
            });
            let (topics, cut_at) = page.unwrap();
            found.extend(topics.into_iter().map(|(topic, _)| topic));
            assert!(cut_at.is_none() || cut_at > behind);
            behind = cut_at;
            if behind.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{rows} rows at a time");
    }
}

// fixes: usability §3.21
#[test]
fn suppressed_addresses_are_found_among_all_of_them() {
    let mut node = Node::new();
    for no in 0..8 {
        node.user(no);
        register(&mut node, no, registration(no, 1, no));
    }
    Courier::default().settle(&mut node, &[SHARD]);
    let suppress = |node: &mut Node, no: u64, reason| {
        node.directory(DirectoryAsk::Suppress { tenant: TENANT, address: address(no), reason });
    };
    for no in [1, 4, 5, 20] {
        suppress(&mut node, no, if no == 4 { Reason::Stop } else { Reason::Manual });
    }
    let of = |reason: Option<Reason>, rows: usize, found_max: usize| -> Vec<AddressHash> {
        let (mut found, mut behind) = (Vec::new(), None);
        loop {
            let page = node.read(PartitionId::Directory(DIRECTORY), |state| {
                directory::suppressed_behind(state.tables(), TENANT, behind, reason, most(rows, found_max))
            });
            let (rows, cut_at) = page.unwrap();
            found.extend(rows.into_iter().map(|(address, _)| address));
            assert!(cut_at.is_none() || cut_at > behind);
            behind = cut_at;
            if behind.is_none() {
                return found;
            }
        }
    };
    let sorted = |numbers: &[u64]| {
        let mut all: Vec<AddressHash> = numbers.iter().map(|no| address(*no)).collect();
        all.sort_unstable();
        all
    };
    for (rows, found_max) in LOOKS {
        assert_eq!(of(None, rows, found_max), sorted(&[1, 4, 5, 20]), "{rows} rows at a time");
        assert_eq!(of(Some(Reason::Stop), rows, found_max), sorted(&[4]));
        assert_eq!(of(Some(Reason::Complaint), rows, found_max), []);
    }
}

// fixes: usability §3.21
#[test]
fn events_and_erasures_are_paged_from_the_newest_on() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..4).map(|name| node.user(name)).collect();
    let mut sent: Vec<Ulid> = (0..9).map(|_| node.send(&users)).collect();
    sent.sort_unstable_by(|one, other| other.cmp(one));
    let everything = Ulid(0)..Ulid(u128::MAX);
    for (rows, found_max) in LOOKS {
        let (mut found, mut end) = (Vec::new(), everything.end);
        loop {
            let page = node.read(PartitionId::Front(FRONT), |state| {
                event::newest(state.tables(), TENANT, everything.start..end, None, most(rows, found_max))
            });
            let (events, cut_at) = page.unwrap();
            found.extend(events.into_iter().map(|(event, _)| event));
            let Some(last) = cut_at else { break };
            assert!(last < end);
            end = last;
        }
        assert_eq!(found, sent, "{rows} rows at a time");
    }
    let of_category = |category: &str, ids: std::ops::Range<Ulid>| {
        let page = node.read(PartitionId::Front(FRONT), |state| {
            event::newest(state.tables(), TENANT, ids, Some(category), most(100, 100))
        });
        page.unwrap().0.len()
    };
    assert_eq!(of_category("nobody's", everything.clone()), 0);
    let only_one = Ulid(sent[3].0)..Ulid(sent[2].0);
    let page = node.read(PartitionId::Front(FRONT), |state| {
        event::newest(state.tables(), TENANT, only_one.clone(), None, most(100, 100))
    });
    assert_eq!(page.unwrap().0.into_iter().map(|(event, _)| event).collect::<Vec<_>>(), [sent[3]]);
    for (name, id) in [(0, 50), (1, 70), (2, 60)] {
        let ask = ShardAsk::Erase { tenant: TENANT, lookup: lookup(name), erasure: Ulid(id), entries: 0 };
        node.shard(ask);
    }
    let newest = |ids: std::ops::Range<u128>, limit| -> Vec<u128> {
        let ids = Ulid(ids.start)..Ulid(ids.end);
        let found = node.read_shard(|state| erasure::newest(state.tables(), TENANT, ids, limit));
        found.unwrap().into_iter().map(|(erasure, _)| erasure.0).collect()
    };
    assert_eq!(newest(0..u128::MAX, 9), [70, 60, 50]);
    assert_eq!(newest(0..u128::MAX, 2), [70, 60]);
    assert_eq!(newest(50..60, 9), [50]);
    let (behind, before) = (80, 60);
    assert_eq!(newest(behind..before, 9), [0; 0]);
}
