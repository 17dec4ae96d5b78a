//! A tenant is deleted: its rows go from every partition, and its number is never given again.

use crate::fixtures::history;
use crate::harness::{DIRECTORY, Node, SHARD, START, TENANT};
use fantail_machine::directory::{DirectoryAnswer, DirectoryAsk};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::root::{RootAnswer, RootAsk, control, deletion};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::{Family, root};
use fantail_machine::wipe::Wiped;
use fantail_ports::tables::{KeyRange, Order};
use fantail_rules::ids::{FrontNo, PartitionId, TenantId};
use std::ops::ControlFlow;

const ROWS_MAX: usize = 3;
/// Layout, a deleted tenant, the front's last id and what was taken of each front.
const KEPT: [u8; 4] =
    [Family::Layout as u8, Family::TenantEnd as u8, Family::FrontState as u8, Family::TakenFrom as u8];

fn create(node: &mut Node, slug: &str) -> RootAnswer {
    node.root(RootAsk::CreateTenant { slug: slug.into(), name: slug.to_uppercase() })
}

fn begin(node: &mut Node, tenant: TenantId) -> RootAnswer {
    node.root(RootAsk::Deletion(deletion::Ask::Begin { tenant }))
}

/// Asks until a partition was looked at to its end; says how many rows went.
fn wipe(mut step: impl FnMut(Option<Vec<u8>>) -> Wiped) -> u64 {
    let (mut from, mut removed) = (None, 0);
    loop {
        let wiped = step(from.take());
        removed += wiped.removed;
        match wiped.next {
            Some(next) => from = Some(next),
            None => return removed,
        }
    }
}

fn wipe_front(node: &mut Node) -> u64 {
    wipe(|from| match node.front(FrontAsk::Wipe { tenant: TENANT, from }) {
        FrontAnswer::Wiped(wiped) => wiped,
        other => panic!("{other:?}"),
    })
}

fn wipe_shard(node: &mut Node) -> u64 {
    wipe(|from| match node.shard(ShardAsk::Wipe { tenant: TENANT, from }) {
        ShardAnswer::Wiped(wiped) => wiped,
        other => panic!("{other:?}"),
    })
}

fn wipe_directory(node: &mut Node) -> u64 {
    wipe(|from| match node.directory(DirectoryAsk::Wipe { tenant: TENANT, from, rows_max: ROWS_MAX }) {
        DirectoryAnswer::Wiped(wiped) => wiped,
        other => panic!("{other:?}"),
    })
}

fn wipe_root(node: &mut Node) -> u64 {
    wipe(|from| {
        let ask = deletion::Ask::Wipe { tenant: TENANT, from, rows_max: ROWS_MAX };
        match node.root(RootAsk::Deletion(ask)) {
            RootAnswer::Wiped(wiped) => wiped,
            other => panic!("{other:?}"),
        }
    })
}

/// What a history that used every family leaves behind.
#[test]
fn every_row_of_every_family_goes() {
    let mut node = history();
    node.take_all();
    assert_eq!(begin(&mut node, TENANT), RootAnswer::Ending);
    let removed =
        [wipe_front(&mut node), wipe_shard(&mut node), wipe_directory(&mut node), wipe_root(&mut node)];
    assert!(removed.iter().all(|rows| *rows > 0), "{removed:?}");
    let directory = PartitionId::Directory(DIRECTORY);
    for partition in [PartitionId::Root, PartitionId::Front(FrontNo(0)), directory, PartitionId::Shard(SHARD)]
    {
        node.read(partition, |state| {
            let everything = KeyRange { from: &[], to: &[0xff; 64] };
            let visit = &mut |key: &[u8], _: &[u8]| {
                assert!(KEPT.contains(&key[0]), "{partition} {key:?} is left");
                ControlFlow::Continue(())
            };
            state.tables().scan(everything, Order::Ascending, visit).expect("memory does not fail");
        });
    }
    let records = node.records();
    assert_eq!(wipe_front(&mut node) + wipe_shard(&mut node) + wipe_directory(&mut node), 0);
    assert_eq!(node.records(), records, "again changes nothing");
}

#[test]
fn a_deleted_tenant_is_gone_at_once_and_its_number_for_good() {
    let mut node = Node::new();
    for slug in ["a", "b"] {
        create(&mut node, slug);
    }
    let gone = TenantId(2);
    let is_ended = |node: &mut Node, rows| {
        let ask = deletion::Ask::Wiped { tenant: gone, rows, is_done: true };
        assert_eq!(node.root(RootAsk::Deletion(ask)), RootAnswer::Noted);
    };
    assert_eq!(begin(&mut node, TenantId(3)), RootAnswer::UnknownTenant);
    is_ended(&mut node, 1);
    assert_eq!(begin(&mut node, gone), RootAnswer::Ending);
    let records = node.records();
    assert_eq!(begin(&mut node, gone), RootAnswer::Ending);
    assert_eq!(node.records(), records, "again changes nothing");
    let found = node.read(PartitionId::Root, |state| control(state.tables()).unwrap());
    assert_eq!(found.tenants.iter().map(|tenant| tenant.id.0).collect::<Vec<_>>(), [1]);
    assert_eq!(found.with_history, [gone], "nothing of it goes to the sandbox");
    assert_eq!(create(&mut node, "b"), RootAnswer::SlugTaken, "until it is over");
    let noted = deletion::Ask::Wiped { tenant: gone, rows: 40, is_done: false };
    assert_eq!(node.root(RootAsk::Deletion(noted)), RootAnswer::Noted);
    is_ended(&mut node, 2);
    let end = node.read(PartitionId::Root, |state| root::end_of(state.tables(), gone).unwrap()).unwrap();
    assert_eq!((end.tenant, end.ended, end.rows), (None, Some(START), 42));
    assert_eq!(begin(&mut node, gone), RootAnswer::UnknownTenant);
    match create(&mut node, "b") {
        RootAnswer::Tenant(tenant) => assert_eq!(tenant.id, TenantId(3)),
        other => panic!("{other:?}"),
    }
}
