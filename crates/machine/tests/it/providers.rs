//! Accounts with providers: who may replace what.

use crate::harness::{Node, TENANT, sealed};
use crate::strategies;
use fantail_machine::records::difference::Difference;
use fantail_machine::records::provider::ProviderPut;
use fantail_machine::records::root::RootRecord;
use fantail_machine::root::provider::{Answer, Ask, Change};
use fantail_machine::root::template::Expect;
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::PROVIDERS_PER_TENANT_MAX;
use fantail_rules::provider_kind::ProviderKind;
use proptest::option;
use proptest::prelude::*;

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
}

pub fn examples(tenant: TenantId, difference: Difference) -> Vec<RootRecord> {
    vec![
        RootRecord::ProviderPut(Box::new(account(tenant, "ios")), difference),
        RootRecord::ProviderGone { tenant, id: "ios".into(), difference },
    ]
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
