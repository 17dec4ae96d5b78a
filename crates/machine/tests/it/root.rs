//! The control plane: numbers, slugs and keys.

use crate::harness::{Node, START, TENANT};
use fantail_machine::records::root::Layout;
use fantail_machine::root::{RootAnswer, RootAsk, control};
use fantail_rules::ids::{Millis, PartitionId, TenantId};
use fantail_rules::limits::KEYS_PER_TENANT_MAX;
use fantail_rules::pacing::Rate;

fn create(node: &mut Node, slug: &str) -> RootAnswer {
    node.root(RootAsk::CreateTenant { slug: slug.into(), name: slug.to_uppercase() })
}

fn key(id: &str, tenant: TenantId) -> RootAsk {
    RootAsk::CreateKey {
        tenant,
        id: id.into(),
        secret_hash: [1; 32],
        scopes: vec![],
        expires: None,
        rate: None,
    }
}

#[test]
fn the_layout_is_fixed_by_the_first() {
    let mut node = Node::new();
    let first = Layout { shards: 4, fronts: 1, directories: 1 };
    assert_eq!(node.root(RootAsk::Layout(first)), RootAnswer::Layout(first));
    let second = RootAsk::Layout(Layout { shards: 8, fronts: 2, directories: 1 });
    assert_eq!(node.root(second), RootAnswer::Layout(first));
    assert_eq!(node.journal[&PartitionId::Root].len(), 1);
}

#[test]
fn tenants_get_dense_numbers_and_one_slug_each() {
    let mut node = Node::new();
    for (no, slug) in [(1, "a"), (2, "b")] {
        match create(&mut node, slug) {
            RootAnswer::Tenant(tenant) => assert_eq!((tenant.id, tenant.created), (TenantId(no), START)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(create(&mut node, "a"), RootAnswer::SlugTaken);
    let rate = Some(Rate { per_second: 10, burst: 20 });
    let patch = |tenant| RootAsk::PatchTenant {
        tenant,
        name: None,
        tier_up: Some(500),
        retention_days: None,
        rate,
        quota: None,
    };
    match node.root(patch(TenantId(2))) {
        RootAnswer::Tenant(tenant) => {
            assert_eq!((tenant.tier_up, tenant.retention_days, tenant.name.as_str()), (500, 90, "B"));
            assert_eq!(tenant.rate, rate);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(node.root(patch(TenantId(3))), RootAnswer::UnknownTenant);
}

#[test]
fn keys_live_until_they_are_revoked_and_are_limited() {
    let mut node = Node::new();
    assert_eq!(node.root(key("k", TENANT)), RootAnswer::UnknownTenant);
    create(&mut node, "a");
    assert_eq!(node.root(RootAsk::RevokeKey { tenant: TENANT, id: "k".into() }), RootAnswer::UnknownKey);
    for no in 0..KEYS_PER_TENANT_MAX {
        assert!(matches!(node.root(key(&format!("k{no}"), TENANT)), RootAnswer::Key(_)));
    }
    let full = RootAnswer::TooMany { limit: KEYS_PER_TENANT_MAX };
    assert_eq!(node.root(key("one more", TENANT)), full);
    let revoke = RootAsk::RevokeKey { tenant: TENANT, id: "k7".into() };
    assert_eq!(node.root(revoke.clone()), RootAnswer::Revoked);
    let records = node.journal[&PartitionId::Root].len();
    assert_eq!(node.root(revoke), RootAnswer::Revoked);
    assert_eq!(node.journal[&PartitionId::Root].len(), records, "again changes nothing");
    assert!(matches!(node.root(key("one more", TENANT)), RootAnswer::Key(_)));
    assert_eq!(node.root(key("another", TENANT)), full);
    let control = node.read(PartitionId::Root, |state| control(state.tables()).unwrap());
    let revoked: Vec<_> = control.keys.iter().filter(|row| row.revoked == Some(START)).collect();
    assert_eq!(revoked.len(), 1);
    assert_eq!(revoked[0].key.id, "k7");
}

/// What has expired opens nothing: it needs no revocation to make room.
// fixes: usability P8
#[test]
fn keys_that_are_over_count_for_nothing() {
    let mut node = Node::new();
    create(&mut node, "a");
    let over = START.plus(1_000);
    for no in 0..KEYS_PER_TENANT_MAX {
        let RootAsk::CreateKey { tenant, id, secret_hash, scopes, rate, .. } = key(&format!("k{no}"), TENANT)
        else {
            panic!("a key is created")
        };
        let expires = (no > 0).then_some(over);
        let ask = RootAsk::CreateKey { tenant, id, secret_hash, scopes, expires, rate };
        assert!(matches!(node.root(ask), RootAnswer::Key(_)));
    }
    let full = RootAnswer::TooMany { limit: KEYS_PER_TENANT_MAX };
    node.now = Millis(over.0 - 1);
    assert_eq!(node.root(key("early", TENANT)), full);
    node.now = over;
    for no in 1..KEYS_PER_TENANT_MAX {
        assert!(matches!(node.root(key(&format!("new{no}"), TENANT)), RootAnswer::Key(_)));
    }
    assert_eq!(node.root(key("late", TENANT)), full, "one without an end is left of the first");
}
