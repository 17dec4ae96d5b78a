//! Templates: numbers that are never used twice, one version in force, and callers who know what they replace.

use crate::harness::{Node, START, TENANT};
use fantail_machine::records::template::{About, DefinitionBytes};
use fantail_machine::root::template::{Answer, Ask, Change, Expect};
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::tables::template;
use fantail_rules::ids::{Millis, PartitionId, TenantId};
use fantail_rules::limits::{RECORD_BYTES_MAX, TEMPLATE_VERSIONS_MAX, TEMPLATES_PER_TENANT_MAX};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;

pub fn about(text: u8) -> About {
    About {
        author: "k1".into(),
        category: "orders".into(),
        name: Some("Order".into()),
        note: None,
        hash: [text; 32],
    }
}

fn ask(node: &mut Node, id: &str, expect: Expect, change: Change) -> Answer {
    let ask = Ask { tenant: node.tenant, id: id.into(), expect, change };
    match node.root(RootAsk::Template(Box::new(ask))) {
        RootAnswer::Template(answer) => answer,
        other => panic!("{other:?}"),
    }
}

pub fn put(node: &mut Node, id: &str, expect: Expect, text: u8) -> Answer {
    let definition = DefinitionBytes(vec![text; 3]);
    ask(node, id, expect, Change::Put { about: about(text), definition })
}

pub fn set(node: &mut Node, id: &str, version: Option<u32>, active: Option<bool>) -> Answer {
    ask(node, id, Expect::Unsaid, Change::Set { version, active })
}

pub fn delete(node: &mut Node, id: &str) -> Answer {
    ask(node, id, Expect::Unsaid, Change::Delete)
}

fn with_tenant() -> Node {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "a".into(), name: "A".into() });
    node
}

/// In force, newest, usable, created by this ask.
fn done(answer: Answer) -> (u32, u32, bool, bool) {
    match answer {
        Answer::Done { row, created } => (row.version, row.newest, row.active, created),
        other => panic!("{other:?}"),
    }
}

fn kept(node: &Node, id: &str) -> Vec<u32> {
    let read = |tenant| {
        node.read(PartitionId::Root, |state| template::versions(state.tables(), tenant, id).unwrap())
    };
    read(node.tenant).into_iter().map(|(version, _)| version).collect()
}

fn text_of(node: &Node, id: &str, version: u32) -> Option<Vec<u8>> {
    let found = node.read(PartitionId::Root, |state| {
        template::definition(state.tables(), node.tenant, id, version).unwrap()
    });
    found.map(|definition| definition.0)
}

fn records(node: &Node) -> usize {
    node.journal[&PartitionId::Root].len()
}

// proves: TPL-05
#[test]
fn versions_are_written_rolled_back_and_switched_off() {
    let mut node = with_tenant();
    assert_eq!(done(put(&mut node, "x", Expect::Unsaid, 1)), (1, 1, true, true));
    assert_eq!(done(put(&mut node, "x", Expect::Version(1), 2)), (2, 2, true, false));
    node.now = Millis(START.0 + 5);
    assert_eq!(done(set(&mut node, "x", Some(1), None)), (1, 2, true, false));
    assert_eq!(done(set(&mut node, "x", None, Some(false))), (1, 2, false, false));
    let before = records(&node);
    assert_eq!(done(set(&mut node, "x", Some(1), Some(false))), (1, 2, false, false));
    assert_eq!(records(&node), before, "again changes nothing");
    assert_eq!(set(&mut node, "x", Some(3), None), Answer::UnknownVersion);
    assert_eq!(set(&mut node, "y", Some(1), None), Answer::Unknown);
    assert_eq!(
        done(put(&mut node, "x", Expect::Version(1), 3)),
        (3, 3, false, false),
        "it stays switched off"
    );
    assert_eq!(text_of(&node, "x", 1), Some(vec![1; 3]));
    let row = node.read(PartitionId::Root, |state| template::find(state.tables(), TENANT, "x").unwrap());
    assert_eq!(row.map(|row| (row.created, row.updated)), Some((START, node.now)));
    let versions =
        node.read(PartitionId::Root, |state| template::versions(state.tables(), TENANT, "x").unwrap());
    assert_eq!(versions[0].1.about, about(1));
    assert_eq!((versions[0].1.at, versions[2].1.at), (START, node.now));
}

#[test]
fn only_who_knows_what_is_in_force_replaces_it() {
    let mut node = with_tenant();
    let nothing = Answer::Conflict { current: None };
    for expect in [Expect::Present, Expect::Version(1)] {
        assert_eq!(put(&mut node, "x", expect, 1), nothing, "{expect:?}");
    }
    assert!(done(put(&mut node, "x", Expect::Absent, 1)).3);
    for expect in [Expect::Unsaid, Expect::Absent, Expect::Version(2)] {
        assert_eq!(put(&mut node, "x", expect, 2), Answer::Conflict { current: Some(1) }, "{expect:?}");
    }
    assert_eq!(done(put(&mut node, "x", Expect::Present, 2)).0, 2);
    // The one in force counts, not the newest.
    set(&mut node, "x", Some(1), None);
    assert_eq!(put(&mut node, "x", Expect::Version(2), 3), Answer::Conflict { current: Some(1) });
    assert_eq!(done(put(&mut node, "x", Expect::Version(1), 3)).0, 3);
    // A repeat after a lost answer finds itself.
    let before = records(&node);
    for expect in [Expect::Version(1), Expect::Unsaid, Expect::Version(3)] {
        assert_eq!(done(put(&mut node, "x", expect, 3)).0, 3, "{expect:?}");
    }
    assert_eq!(put(&mut node, "x", Expect::Absent, 3), Answer::Conflict { current: Some(3) });
    let old = Expect::Version(1);
    assert_eq!(ask(&mut node, "x", old, Change::Delete), Answer::Conflict { current: Some(3) });
    let back = Change::Set { version: Some(1), active: None };
    assert_eq!(ask(&mut node, "x", old, back), Answer::Conflict { current: Some(3) });
    assert_eq!(records(&node), before);
}

#[test]
fn the_oldest_make_room_but_not_the_one_that_is_replaced() {
    let mut node = with_tenant();
    let most = TEMPLATE_VERSIONS_MAX as u32;
    for version in 1..=most {
        let expect = if version == 1 { Expect::Absent } else { Expect::Present };
        assert_eq!(done(put(&mut node, "x", expect, version as u8)).0, version);
    }
    set(&mut node, "x", Some(1), None);
    assert_eq!(done(put(&mut node, "x", Expect::Version(1), 200)).0, most + 1);
    assert_eq!(node.rows_touched, [5]);
    assert_eq!(kept(&node, "x"), std::iter::once(1).chain(3..=most + 1).collect::<Vec<_>>());
    assert_eq!(text_of(&node, "x", 2), None);
    assert_eq!(done(set(&mut node, "x", Some(1), None)).0, 1, "it can be regretted");
    assert_eq!(set(&mut node, "x", Some(2), None), Answer::UnknownVersion);
}

#[test]
fn deleting_leaves_nothing_but_the_number() {
    let mut node = with_tenant();
    for id in ["x", "xx", "x/1"] {
        put(&mut node, id, Expect::Unsaid, 1);
        put(&mut node, id, Expect::Present, 2);
    }
    assert_eq!(delete(&mut node, "x"), Answer::Gone);
    assert_eq!(delete(&mut node, "x"), Answer::Unknown);
    assert_eq!((kept(&node, "x"), text_of(&node, "x", 1)), (vec![], None));
    assert_eq!((kept(&node, "xx"), kept(&node, "x/1")), (vec![1, 2], vec![1, 2]), "names that begin alike");
    assert_eq!(
        done(put(&mut node, "x", Expect::Absent, 1)),
        (3, 3, true, true),
        "numbers are not used again"
    );
    node.tenant = TenantId(9);
    assert_eq!(put(&mut node, "x", Expect::Unsaid, 1), Answer::UnknownTenant);
}

#[test]
fn templates_are_limited_and_paged_by_id() {
    let mut node = with_tenant();
    for no in 0..TEMPLATES_PER_TENANT_MAX {
        assert!(done(put(&mut node, &format!("t{no:04}"), Expect::Unsaid, 1)).3);
    }
    let full = Answer::TooMany { limit: TEMPLATES_PER_TENANT_MAX };
    assert_eq!(put(&mut node, "one more", Expect::Unsaid, 1), full);
    assert_eq!(done(put(&mut node, "t0000", Expect::Present, 2)).0, 2);
    let page = |after: Option<&str>| {
        let found = node.read(PartitionId::Root, |state| {
            template::page(state.tables(), TENANT, after, 2).unwrap().into_iter().map(|(id, _)| id).collect()
        });
        let found: Vec<String> = found;
        found
    };
    assert_eq!(page(None), ["t0000", "t0001"]);
    assert_eq!(page(Some("t0001")), ["t0002", "t0003"]);
    assert_eq!(page(Some("t00015")), ["t0002", "t0003"]);
    assert_eq!(page(Some("t0999")), Vec::<String>::new());
}

#[test]
fn the_largest_records_are_bounded() {
    let mut node = with_tenant();
    let id = "i".repeat(256);
    let about = About {
        author: "a".repeat(256),
        category: "c".repeat(64),
        name: Some("n".repeat(256)),
        note: Some("o".repeat(512)),
        hash: [1; 32],
    };
    let definition = DefinitionBytes(vec![b' '; RECORD_BYTES_MAX - (16 << 10)]);
    ask(&mut node, &id, Expect::Unsaid, Change::Put { about, definition });
    let largest = node.journal[&PartitionId::Root].last().unwrap().len();
    assert!(largest < RECORD_BYTES_MAX, "{largest}");
    for text in 0..TEMPLATE_VERSIONS_MAX as u8 + 5 {
        put(&mut node, &id, Expect::Present, text + 2);
    }
    delete(&mut node, &id);
    // Each version and its definition; the template, the floor, and what the tenant has.
    assert_eq!(node.rows_touched, [2 * TEMPLATE_VERSIONS_MAX + 3]);
}

#[derive(Clone, Debug)]
pub enum Op {
    Put(u8, u8, Option<Index>),
    Set(u8, Index, Option<bool>),
    Delete(u8),
}

pub fn op() -> impl Strategy<Value = Op> {
    let id = 0u8..3;
    prop_oneof![
        6 => (id.clone(), 0u8..4, any::<Option<Index>>()).prop_map(|(id, text, knows)| Op::Put(id, text, knows)),
        4 => (id.clone(), any::<Index>(), any::<Option<bool>>()).prop_map(|(id, v, on)| Op::Set(id, v, on)),
        1 => id.prop_map(Op::Delete),
    ]
}

/// A version around those that exist.
fn near(newest: u32, pick: &Index) -> u32 {
    pick.index(newest as usize + 2) as u32
}

pub fn drive(node: &mut Node, newest: u32, op: &Op) -> Answer {
    match op {
        Op::Put(id, text, knows) => {
            let expect = knows.as_ref().map_or(Expect::Present, |pick| Expect::Version(near(newest, pick)));
            match put(node, &id.to_string(), expect, *text) {
                Answer::Conflict { current: None } => put(node, &id.to_string(), Expect::Absent, *text),
                answer => answer,
            }
        }
        Op::Set(id, pick, active) => set(node, &id.to_string(), Some(near(newest, pick)), *active),
        Op::Delete(id) => delete(node, &id.to_string()),
    }
}

proptest! {
    /// Whatever happens, a version of an id stands for one text for good, and what is in force is there.
    #[test]
    fn a_version_is_one_text_for_good(ops in vec(op(), 1..60)) {
        let mut node = with_tenant();
        let mut texts: BTreeMap<(u8, u32), u8> = BTreeMap::new();
        for op in &ops {
            let newest = texts.keys().map(|(_, version)| *version).max().unwrap_or(0);
            let before = records(&node);
            let answer = drive(&mut node, newest, op);
            if let (Op::Put(id, text, _), Answer::Done { row, .. }) = (op, &answer) {
                let known = texts.insert((*id, row.version), *text);
                prop_assert!(known.is_none_or(|known| known == *text), "{id} {row:?}");
                prop_assert_eq!(known.is_none(), records(&node) > before);
            }
            for id in 0u8..3 {
                let name = id.to_string();
                let row = node.read(PartitionId::Root, |state| {
                    template::find(state.tables(), TENANT, &name).unwrap()
                });
                let kept = kept(&node, &name);
                prop_assert_eq!(row.is_some(), !kept.is_empty());
                prop_assert!(row.is_none_or(|row| kept.contains(&row.version) && kept.last() == Some(&row.newest)));
                for version in kept {
                    prop_assert_eq!(text_of(&node, &name, version), Some(vec![texts[&(id, version)]; 3]));
                }
            }
        }
    }
}
