//! Accounts with providers: who may replace what.

use crate::harness::{DAY_MS, Node, START, TENANT, sealed};
use crate::strategies;
use fantail_machine::records::difference::Difference;
use fantail_machine::records::provider::{CallbackRotated, ProviderPut};
use fantail_machine::records::root::RootRecord;
use fantail_machine::root::provider::{Answer, Ask, Change};
use fantail_machine::root::template::Expect;
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::tables::provider;
use fantail_rules::ids::{Millis, PartitionId, TenantId};
use fantail_rules::limits::PROVIDERS_PER_TENANT_MAX;
use fantail_rules::provider_kind::ProviderKind;
use proptest::option;
use proptest::prelude::*;
use std::collections::BTreeSet;

pub fn account(tenant: TenantId, id: &str) -> ProviderPut {
    ProviderPut {
        tenant,
        id: id.into(),
        kind: ProviderKind::Apns,
        settings: r#"{"teamId":"TEAM"}"#.into(),
        secrets: sealed(1),
        order: 300,
        weight: 2,
        per_second: Some(100),
        concurrency: None,
        enabled: true,
        expires: Some(Millis(5)),
    }
}

fn ask(node: &mut Node, expect: Expect, change: Change) -> Answer {
    match node.root(RootAsk::Provider(Box::new(Ask { expect, change }))) {
        RootAnswer::Provider(answer) => answer,
        other => panic!("{other:?}"),
    }
}

pub fn put(node: &mut Node, expect: Expect, put: ProviderPut) -> Answer {
    ask(node, expect, Change::Put(put))
}

pub fn delete(node: &mut Node, expect: Expect, id: &str) -> Answer {
    ask(node, expect, Change::Delete { tenant: TENANT, id: id.into() })
}

/// One account that was changed, and one that is gone.
pub fn history(node: &mut Node) {
    for id in ["ios", "ios", "android"] {
        put(node, Expect::Unsaid, account(TENANT, id));
    }
    delete(node, Expect::Unsaid, "android");
    put(node, Expect::Unsaid, mail(TENANT, "mail"));
    let until = node.now.plus(9);
    rotate(node, "mail", until);
}

/// An account, one whose address has another secret than at first, and one that is gone.
pub fn rows(node: &mut Node) {
    put(node, Expect::Unsaid, account(TENANT, "ios"));
    put(node, Expect::Unsaid, mail(TENANT, "mail"));
    rotate(node, "mail", Millis(START.0 + DAY_MS));
    put(node, Expect::Unsaid, account(TENANT, "gone"));
    delete(node, Expect::Unsaid, "gone");
}

pub fn mail(tenant: TenantId, id: &str) -> ProviderPut {
    ProviderPut { kind: ProviderKind::Smtp, ..account(tenant, id) }
}

pub fn rotate(node: &mut Node, id: &str, until: Millis) -> Answer {
    ask(node, Expect::Unsaid, Change::RotateCallback { tenant: TENANT, id: id.into(), until })
}

pub fn examples(tenant: TenantId, difference: Difference) -> Vec<RootRecord> {
    vec![
        RootRecord::ProviderPut(Box::new(account(tenant, "ios")), difference),
        RootRecord::ProviderGone { tenant, id: "ios".into(), difference },
    ]
}

pub fn rotated_example(tenant: TenantId, difference: Difference) -> RootRecord {
    let id = "mail".into();
    RootRecord::CallbackRotated(CallbackRotated { tenant, id, number: 3, until: Millis(5), difference })
}

pub fn record() -> impl Strategy<Value = RootRecord> {
    let limit = || option::of(any::<u32>());
    let terms =
        (any::<u16>(), any::<u16>(), limit(), limit(), any::<bool>(), option::of(strategies::millis()));
    let kind = proptest::sample::select(&ProviderKind::ALL[..]);
    let put = (strategies::tenant(), any::<String>(), kind, any::<String>(), strategies::sealed(), terms)
        .prop_map(|(tenant, id, kind, settings, secrets, terms)| {
            let (order, weight, per_second, concurrency, enabled, expires) = terms;
            ProviderPut {
                tenant,
                id,
                kind,
                settings,
                secrets,
                order,
                weight,
                per_second,
                concurrency,
                enabled,
                expires,
            }
        });
    prop_oneof![
        (put, strategies::difference())
            .prop_map(|(put, difference)| RootRecord::ProviderPut(Box::new(put), difference)),
        (strategies::tenant(), any::<String>(), strategies::difference())
            .prop_map(|(tenant, id, difference)| RootRecord::ProviderGone { tenant, id, difference }),
        (strategies::tenant(), any::<String>(), any::<u32>(), strategies::millis(), strategies::difference())
            .prop_map(|(tenant, id, number, until, difference)| {
                RootRecord::CallbackRotated(CallbackRotated { tenant, id, number, until, difference })
            }),
    ]
}

fn version(answer: &Answer) -> u32 {
    match answer {
        Answer::Provider { row, .. } => row.version,
        other => panic!("{other:?}"),
    }
}

// proves: TEN-05
#[test]
fn whoever_replaces_an_account_knows_it() {
    let mut node = Node::new();
    assert_eq!(put(&mut node, Expect::Unsaid, account(TENANT, "ios")), Answer::UnknownTenant);
    node.root(RootAsk::CreateTenant { slug: "default".into(), name: "Default".into() });
    assert_eq!(version(&put(&mut node, Expect::Absent, account(TENANT, "ios"))), 1);
    let conflict = Answer::Conflict { current: Some(1) };
    assert_eq!(put(&mut node, Expect::Absent, account(TENANT, "ios")), conflict);
    let rotated = ProviderPut { secrets: sealed(2), ..account(TENANT, "ios") };
    assert_eq!(version(&put(&mut node, Expect::Version(1), rotated)), 2);
    let other = ProviderPut { kind: ProviderKind::Fcm, ..account(TENANT, "ios") };
    assert_eq!(put(&mut node, Expect::Unsaid, other), Answer::OtherKind);
    assert_eq!(delete(&mut node, Expect::Version(1), "ios"), Answer::Conflict { current: Some(2) });
    assert_eq!(delete(&mut node, Expect::Version(2), "ios"), Answer::Gone);
    assert_eq!(delete(&mut node, Expect::Unsaid, "ios"), Answer::Unknown);
}

/// Whoever has seen an account that was deleted since cannot replace the one that has its name now, nor keep its credentials.
// fixes: security P13
#[test]
fn a_version_of_an_account_is_never_another_account() {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "default".into(), name: "Default".into() });
    for expected in [1, 2] {
        assert_eq!(version(&put(&mut node, Expect::Unsaid, account(TENANT, "ios"))), expected);
    }
    assert_eq!(version(&put(&mut node, Expect::Unsaid, account(TENANT, "kept"))), 1);
    delete(&mut node, Expect::Unsaid, "ios");
    delete(&mut node, Expect::Unsaid, "kept");
    assert_eq!(version(&put(&mut node, Expect::Absent, account(TENANT, "ios"))), 3);
    for seen in [1, 2] {
        let conflict = Answer::Conflict { current: Some(3) };
        assert_eq!(put(&mut node, Expect::Version(seen), account(TENANT, "ios")), conflict);
    }
    assert_eq!(version(&put(&mut node, Expect::Version(3), account(TENANT, "ios"))), 4);
    assert_eq!(
        version(&put(&mut node, Expect::Absent, account(TENANT, "kept"))),
        3,
        "above all that are gone"
    );
}

/// The number of the secret in the address, and those that are believed beside it.
fn secrets(node: &Node, id: &str) -> (u32, Vec<u32>) {
    let row = node.read(PartitionId::Root, |state| {
        provider::callback_secret(state.tables(), TENANT, id).unwrap().unwrap_or_default()
    });
    let believed = row.replaced.iter().filter(|(_, until)| *until > node.now);
    (row.number, believed.map(|(number, _)| *number).collect())
}

// fixes: security P14
#[test]
fn a_replaced_secret_is_believed_for_a_while() {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "default".into(), name: "Default".into() });
    assert_eq!(rotate(&mut node, "mail", Millis(0)), Answer::Unknown);
    put(&mut node, Expect::Unsaid, account(TENANT, "ios"));
    assert_eq!(rotate(&mut node, "ios", Millis(0)), Answer::OtherKind, "Apple calls nobody");
    put(&mut node, Expect::Unsaid, mail(TENANT, "mail"));
    assert_eq!(secrets(&node, "mail"), (0, vec![]));
    let (soon, late) = (node.now.plus(10), node.now.plus(20));
    assert_eq!(rotate(&mut node, "mail", late), Answer::Rotated);
    assert_eq!(rotate(&mut node, "mail", soon), Answer::Rotated);
    assert_eq!(secrets(&node, "mail"), (2, vec![0, 1]), "each until its own time");
    node.now = soon;
    assert_eq!(secrets(&node, "mail"), (2, vec![0]));
    for number in 3..6 {
        assert_eq!(rotate(&mut node, "mail", late), Answer::Rotated, "{number}");
    }
    assert_eq!(secrets(&node, "mail"), (5, vec![0, 2, 3, 4]));
    assert_eq!(rotate(&mut node, "mail", late), Answer::TooManySecrets);
    assert_eq!(rotate(&mut node, "mail", soon), Answer::Rotated, "it is now: they all end");
    assert_eq!(secrets(&node, "mail"), (6, vec![]));
}

/// Whoever knew the address of an account that was deleted does not know that of the account that has its name now.
// fixes: security P14
#[test]
fn a_secret_of_a_deleted_account_is_never_believed_again() {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "default".into(), name: "Default".into() });
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        put(&mut node, Expect::Unsaid, mail(TENANT, "mail"));
        for _ in 0..3 {
            let (number, _) = secrets(&node, "mail");
            assert!(seen.insert(number), "{number} was there before: {seen:?}");
            rotate(&mut node, "mail", Millis(0));
        }
        seen.insert(secrets(&node, "mail").0);
        delete(&mut node, Expect::Unsaid, "mail");
        assert_eq!(secrets(&node, "mail"), (0, vec![]), "nothing is kept of it");
    }
}

#[test]
fn there_is_an_end_to_accounts() {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "default".into(), name: "Default".into() });
    for no in 0..PROVIDERS_PER_TENANT_MAX {
        assert_eq!(version(&put(&mut node, Expect::Unsaid, account(TENANT, &format!("p{no}")))), 1);
    }
    assert_eq!(put(&mut node, Expect::Unsaid, account(TENANT, "one more")), Answer::TooMany);
    assert_eq!(version(&put(&mut node, Expect::Unsaid, account(TENANT, "p0"))), 2, "known ones may change");
}
