//! Every change of the control plane says what it replaced: the hashes of a thing's changes link up, and the last one is
//! that of what the tables hold.

use crate::harness::{Node, TENANT, sealed};
use crate::{policies, providers, templates, webhooks};
use fantail_machine::directory::DirectoryAsk;
use fantail_machine::records::Stamped;
use fantail_machine::records::difference::{Difference, hash};
use fantail_machine::records::directory::DirectoryRecord;
use fantail_machine::records::root::{RootRecord, Tenant, TenantQuota};
use fantail_machine::records::segment::{SegmentPut, UploadId};
use fantail_machine::records::webhook::WebhookPut;
use fantail_machine::root::template::Expect;
use fantail_machine::root::{RootAsk, segment, webhook};
use fantail_machine::tables::policy::{CategoryRow, DefaultsRow};
use fantail_machine::tables::provider::ProviderRow;
use fantail_machine::tables::root::{ApiKeyRow, api_key, quota_key, tenant_key};
use fantail_machine::tables::template;
use fantail_machine::tables::webhook::WebhookRow;
use fantail_machine::tables::{Row, get, policy, provider as provider_table, webhook as webhook_table};
use fantail_ports::audit::Digest;
use fantail_rules::digest::StormTerms;
use fantail_rules::ids::{AddressHash, PartitionId};
use fantail_rules::policy::{CategoryPolicy, Defaults};
use fantail_rules::preference::{Preferences, Switch};
use fantail_rules::quota::{Quota, Resource};
use fantail_rules::suppression::Reason;
use std::collections::BTreeMap;

/// The differences of each thing, in order.
fn of_root(node: &Node) -> BTreeMap<String, Vec<Difference>> {
    let mut all: BTreeMap<String, Vec<Difference>> = BTreeMap::new();
    for bytes in &node.journal[&PartitionId::Root] {
        let (what, difference) = match Stamped::<RootRecord>::decode(bytes).unwrap().record {
            RootRecord::Layout(_)
            | RootRecord::WebhookFailing { .. }
            | RootRecord::ScheduleRan(_)
            | RootRecord::Noted(_) => continue,
            RootRecord::SchedulePut(put) => (format!("schedule {}", put.definition.id), put.difference),
            RootRecord::ScheduleGone { id, difference, .. } => (format!("schedule {id}"), difference),
            RootRecord::TenantPut(tenant, difference) => (format!("tenant {}", tenant.slug), difference),
            RootRecord::QuotaPut(_, difference) => ("quota".to_owned(), difference),
            RootRecord::KeyPut(key, difference) => (format!("key {}", key.id), difference),
            RootRecord::KeyRevoked { id, difference, .. } => (format!("key {id}"), difference),
            RootRecord::TemplatePut(put) => (format!("template {}", put.id), put.difference),
            RootRecord::TemplateActivated(set) => (format!("template {}", set.id), set.difference),
            RootRecord::TemplateGone { id, difference, .. } => (format!("template {id}"), difference),
            RootRecord::SegmentPut(put, difference) => (format!("segment {}", put.name), difference),
            RootRecord::SegmentListed(set) => (format!("segment {}", set.name), set.difference),
            RootRecord::SegmentGone { id, difference, .. } => (format!("segment {id}"), difference),
            RootRecord::CategoryPut(put) => (format!("category {}", put.name), put.difference),
            RootRecord::CategoryGone { name, difference, .. } => (format!("category {name}"), difference),
            RootRecord::DefaultsPut(put) => ("defaults".to_owned(), put.difference),
            RootRecord::WebhookPut(put, difference) => (format!("webhook {}", put.id), difference),
            RootRecord::WebhookSwitched(set) => (format!("webhook {}", set.id), set.difference),
            RootRecord::WebhookGone { id, difference, .. } => (format!("webhook {id}"), difference),
            RootRecord::ProviderPut(put, difference) => (format!("provider {}", put.id), difference),
            RootRecord::ProviderGone { id, difference, .. } => (format!("provider {id}"), difference),
            RootRecord::CallbackRotated(set) => (format!("callback {}", set.id), set.difference),
        };
        all.entry(what).or_default().push(difference);
    }
    all
}

/// Each begins with nothing and goes on where the one before it ended.
fn check_linked(what: &str, differences: &[Difference], changes: usize, last: Option<Digest>) {
    assert_eq!(differences.len(), changes, "{what}");
    let mut before = None;
    for difference in differences {
        assert_eq!(difference.before, before, "{what}");
        assert_ne!(difference.after, before, "{what} changes");
        before = difference.after;
    }
    assert_eq!(before, last, "{what} is as the tables have it");
}

fn stored<R: Row>(node: &Node, key: &[u8]) -> Option<Digest> {
    let row = node.read(PartitionId::Root, |state| get::<R>(state.tables(), key).unwrap());
    row.map(|row| hash(R::NAME, &row.encode()))
}

/// Another name, and two quotas.
fn patch_tenant(node: &mut Node) {
    let name = Some("B".into());
    let patch = |name, quota| {
        let (tier_up, retention_days, rate) = (None, None, None);
        RootAsk::PatchTenant { tenant: TENANT, name, tier_up, retention_days, rate, quota }
    };
    node.root(patch(name, None));
    node.root(patch(None, Some(Quota::default())));
    node.root(patch(None, Some(Quota::default().with(Resource::Users, Some(7)))));
}

// proves: AUD-03
#[test]
fn changes_of_the_control_plane_link_up() {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "a".into(), name: "A".into() });
    patch_tenant(&mut node);
    let (id, secret_hash, scopes) = (String::from("k1"), [1; 32], Vec::new());
    node.root(RootAsk::CreateKey { tenant: TENANT, id, secret_hash, scopes, expires: None, rate: None });
    node.now = node.now.plus(5);
    node.root(RootAsk::RevokeKey { tenant: TENANT, id: "k1".into() });
    webhooks::put(&mut node, "wh_1");
    webhooks::switch(&mut node, "wh_1", Some("410"));
    webhooks::fail(&mut node, "wh_1", true);
    webhooks::switch(&mut node, "wh_1", None);
    let (target, url) = (sealed(1), sealed(2));
    let put = WebhookPut { tenant: TENANT, id: "wh_2".into(), target, url, events: 7 };
    node.root(RootAsk::Webhook(webhook::Ask::Put(put)));
    node.root(RootAsk::Webhook(webhook::Ask::Delete { tenant: TENANT, id: "wh_2".into() }));
    providers::history(&mut node);
    let put = SegmentPut { tenant: TENANT, name: "s".into(), filter: None, note: String::new() };
    node.root(RootAsk::Segment(segment::Ask::Put(put.clone())));
    node.root(RootAsk::Segment(segment::Ask::Put(put)));
    let (name, list) = ("s".to_owned(), UploadId([7; 16]));
    node.root(RootAsk::Segment(segment::Ask::List { tenant: TENANT, name, list, members: 3 }));
    node.root(RootAsk::Segment(segment::Ask::Delete { tenant: TENANT, name: "s".into() }));
    for text in [1, 2] {
        node.now = node.now.plus(5);
        templates::put(&mut node, "order", Expect::Present, text);
        templates::put(&mut node, "order", Expect::Unsaid, text);
        templates::put(&mut node, "gone", Expect::Unsaid, text);
    }
    templates::set(&mut node, "order", Some(1), None);
    templates::set(&mut node, "order", None, Some(false));
    templates::delete(&mut node, "gone");
    for storm in [None, Some(StormTerms::USUAL)] {
        let policy = CategoryPolicy { storm, ..CategoryPolicy::default() };
        policies::put(&mut node, "gone", Expect::Unsaid, policy.clone());
        policies::put(&mut node, "likes", Expect::Unsaid, policy.clone());
        policies::put(&mut node, "likes", Expect::Present, policy);
        let everything = if storm.is_none() { Switch::Off } else { Switch::On };
        let preferences = Preferences { everything, ..Preferences::default() };
        policies::set_defaults(&mut node, Expect::Unsaid, Defaults { preferences });
    }
    policies::delete(&mut node, "gone", Expect::Unsaid);

    let all = of_root(&node);
    check_linked("tenant", &all["tenant a"], 2, stored::<Tenant>(&node, &tenant_key(TENANT)));
    check_linked("quota", &all["quota"], 2, stored::<TenantQuota>(&node, &quota_key(TENANT)));
    check_linked("key", &all["key k1"], 2, stored::<ApiKeyRow>(&node, &api_key(TENANT, "k1")));
    let key = webhook_table::key(TENANT, "wh_1");
    check_linked("webhook", &all["webhook wh_1"], 3, stored::<WebhookRow>(&node, &key));
    check_linked("webhook", &all["webhook wh_2"], 2, None);
    let key = provider_table::key(TENANT, "ios");
    check_linked("provider", &all["provider ios"], 2, stored::<ProviderRow>(&node, &key));
    check_linked("provider", &all["provider android"], 2, None);
    check_linked("segment", &all["segment s"], 3, None);
    check_linked("category", &all["category gone"], 2, None);
    let key = policy::category_key(TENANT, "likes");
    check_linked("category", &all["category likes"], 2, stored::<CategoryRow>(&node, &key));
    check_linked(
        "defaults",
        &all["defaults"],
        2,
        stored::<DefaultsRow>(&node, &policy::defaults_key(TENANT)),
    );
    check_linked("template", &all["template gone"], 2, None);
    let row = node
        .read(PartitionId::Root, |state| template::find(state.tables(), TENANT, "order").unwrap().unwrap());
    // In force is the first text again.
    let last = hash("template", &[&row.encode()[..], &templates::about(1).hash].concat());
    check_linked("template", &all["template order"], 4, Some(last));
}

// proves: AUD-03
#[test]
fn suppressions_say_what_they_replace() {
    let mut node = Node::new();
    let (tenant, address) = (TENANT, AddressHash([7; 16]));
    for reason in [Reason::Manual, Reason::Manual, Reason::Complaint] {
        node.directory(DirectoryAsk::Suppress { tenant, address, reason });
    }
    node.directory(DirectoryAsk::Unsuppress { tenant, address });
    let records = node.journal.iter().filter(|(of, _)| matches!(of, PartitionId::Directory(_)));
    let differences =
        records.flat_map(|(_, records)| records).filter_map(
            |bytes| match Stamped::<DirectoryRecord>::decode(bytes).unwrap().record {
                DirectoryRecord::Suppressed { difference, .. } => Some(difference),
                DirectoryRecord::Unsuppressed { difference, .. } => Some(difference),
                DirectoryRecord::Claimed { .. }
                | DirectoryRecord::Released { .. }
                | DirectoryRecord::Told { .. } => None,
            },
        );
    check_linked("suppression", &differences.collect::<Vec<_>>(), 3, None);
}
