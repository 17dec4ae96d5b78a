//! Whatever the API accepts, the audit log can say: every record with every name at its largest.

use super::*;
use fantail_audit::fact::Fact as AuditFact;
use fantail_machine::codec::Reader;
use fantail_machine::records::Fact as RecordFact;
use fantail_machine::records::erasure::Store;
use fantail_machine::records::front::{Admitted, Audience, Options};
use fantail_machine::records::policy::{CategoryPut, DefaultsPut};
use fantail_machine::records::provider::ProviderPut;
use fantail_machine::records::root::{ApiKey, Noted, Tenant, TenantQuota};
use fantail_machine::records::schedule::{Definition, SchedulePut, ScheduleRan, Sends};
use fantail_machine::records::segment::{SegmentListed, SegmentPut, UploadId};
use fantail_machine::records::template::{About, DefinitionBytes, TemplateActivated, TemplatePut};
use fantail_machine::records::walk::Pace;
use fantail_machine::records::webhook::WebhookPut;
use fantail_machine::records::wipe::WipedStretch;
use fantail_ports::audit::Digest;
use fantail_rules::ids::{AddressHash, ListId};
use fantail_rules::limits::NAME_BYTES_MAX;
use fantail_rules::policy::{CategoryPolicy, Defaults};
use fantail_rules::provider_kind::ProviderKind;
use fantail_rules::quota::Quota;
use fantail_rules::suppression::Reason;
use fantail_rules::tier::Tier;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;
use std::collections::BTreeSet;

const TENANT: TenantId = TenantId(u32::MAX);

fn difference() -> Difference {
    Difference { before: Some(Digest([255; 32])), after: Some(Digest([255; 32])) }
}

/// One of each kind, with a name wherever a tenant gives one.
fn root_records(name: &str) -> Vec<RootRecord> {
    let put = [tenancy(name), templates_and_policies(name), schedules_and_segments(name), ways_out(name)];
    put.into_iter().flatten().chain(gone(name)).chain(deletion(name)).collect()
}

fn deletion(name: &str) -> [RootRecord; 4] {
    let (tenant, slug, difference) = (TENANT, name.to_owned(), difference());
    [
        DeletionRecord::Ending { tenant, slug: slug.clone(), difference },
        DeletionRecord::Wiped(WipedStretch { tenant, from: Vec::new(), to: Vec::new() }),
        DeletionRecord::Counted { tenant, rows: u64::MAX },
        DeletionRecord::Ended { tenant, slug, rows: u64::MAX },
    ]
    .map(RootRecord::Deletion)
}

fn tenancy(name: &str) -> Vec<RootRecord> {
    let owner = Tenant {
        id: TENANT,
        slug: name.to_owned(),
        name: name.to_owned(),
        tier_up: 0,
        retention_days: 0,
        created: Millis(0),
        rate: None,
    };
    let key = ApiKey {
        tenant: TENANT,
        id: name.to_owned(),
        secret_hash: [0; 32],
        scopes: Vec::new(),
        created: Millis(0),
        expires: None,
        rate: None,
    };
    vec![
        RootRecord::Layout(Layout { shards: u16::MAX, fronts: 1, directories: 1 }),
        RootRecord::TenantPut(owner, difference()),
        RootRecord::QuotaPut(TenantQuota { tenant: TENANT, quota: Quota::default() }, difference()),
        RootRecord::KeyPut(key, difference()),
        RootRecord::Noted(Noted { tenant: TENANT, action: "provider.test".into(), target: name.to_owned() }),
    ]
}

fn templates_and_policies(name: &str) -> Vec<RootRecord> {
    let (tenant, id, version, difference) = (TENANT, name.to_owned(), u32::MAX, difference());
    let about =
        About { author: id.clone(), category: id.clone(), name: Some(id.clone()), note: None, hash: [0; 32] };
    let (dropped, definition) = (Vec::new(), DefinitionBytes(Vec::new()));
    let put = TemplatePut { tenant, id: id.clone(), version, about, dropped, definition, difference };
    let (policy, defaults) = (CategoryPolicy::default(), Defaults::default());
    vec![
        RootRecord::TemplatePut(Box::new(put)),
        RootRecord::TemplateActivated(TemplateActivated {
            tenant,
            id: id.clone(),
            version,
            active: false,
            difference,
        }),
        RootRecord::CategoryPut(Box::new(CategoryPut { tenant, name: id, version, policy, difference })),
        RootRecord::DefaultsPut(Box::new(DefaultsPut { tenant, version, defaults, difference })),
    ]
}

fn schedules_and_segments(name: &str) -> Vec<RootRecord> {
    let (tenant, id, difference) = (TENANT, name.to_owned(), difference());
    let definition = Definition {
        tenant,
        id: id.clone(),
        cron: id.clone(),
        zone: ZoneNo::NONE,
        starts: None,
        ends: None,
        is_paused: true,
        sends: Sends::Notification,
        body: Sealed::default(),
        author: None,
    };
    let put = SchedulePut { definition, version: u32::MAX, next: None, difference };
    let ran = ScheduleRan { tenant, id: id.clone(), due: Millis(0), run: None, next: None };
    let segment = SegmentPut { tenant, name: id.clone(), filter: None, note: String::new() };
    let (list, members) = (UploadId::default(), u64::MAX);
    vec![
        RootRecord::SchedulePut(Box::new(put)),
        RootRecord::ScheduleRan(ran),
        RootRecord::SegmentPut(segment, difference),
        RootRecord::SegmentListed(SegmentListed { tenant, name: id, list, members, difference }),
    ]
}

fn ways_out(name: &str) -> Vec<RootRecord> {
    let (tenant, id, difference) = (TENANT, name.to_owned(), difference());
    let provider = ProviderPut {
        tenant,
        id: id.clone(),
        kind: ProviderKind::Smtp,
        settings: id.clone(),
        secrets: Sealed::default(),
        order: 0,
        weight: 0,
        per_second: None,
        concurrency: None,
        enabled: true,
        expires: None,
    };
    let (target, url) = (Sealed::default(), Sealed::default());
    let webhook = WebhookPut { tenant, id: id.clone(), target, url, events: 1 };
    let rotated = CallbackRotated { tenant, id: id.clone(), number: 1, until: Millis(1), difference };
    let switched = |off| WebhookSwitched { tenant, id: id.clone(), off, difference };
    vec![
        RootRecord::ProviderPut(Box::new(provider), difference),
        RootRecord::CallbackRotated(rotated),
        RootRecord::WebhookPut(webhook, difference),
        RootRecord::WebhookSwitched(switched(None)),
        RootRecord::WebhookSwitched(switched(Some(id.clone()))),
        RootRecord::WebhookFailing { tenant, id, is_failing: true },
    ]
}

fn gone(name: &str) -> [RootRecord; 7] {
    let (tenant, id, difference) = (TENANT, || name.to_owned(), difference());
    [
        RootRecord::KeyRevoked { tenant, id: id(), difference },
        RootRecord::TemplateGone { tenant, id: id(), difference },
        RootRecord::CategoryGone { tenant, name: id(), difference },
        RootRecord::ScheduleGone { tenant, id: id(), difference },
        RootRecord::SegmentGone { tenant, id: id(), difference },
        RootRecord::WebhookGone { tenant, id: id(), difference },
        RootRecord::ProviderGone { tenant, id: id(), difference },
    ]
}

fn front_records(name: &str) -> Vec<FrontRecord> {
    let (tenant, event) = (TENANT, Ulid(u128::MAX));
    let admitted = Admitted {
        tenant,
        event,
        key: [255; 16],
        body: [255; 16],
        kind: name.to_owned(),
        category: name.to_owned(),
        priority: 0,
        actor: None,
        content: Sealed::default(),
        delivery: None,
        personal: 0,
        options: Options::default(),
        audience: Audience::Listed { list: ListId([1; 16]), tier: Tier::Written, turned: false },
    };
    let steers = [Steer::Pause, Steer::Resume, Steer::Pace(Pace::Free)];
    let steered = steers.into_iter().map(|steer| FrontRecord::Steered { tenant, event, steer });
    [
        FrontRecord::Admitted(admitted),
        FrontRecord::Retracted { tenant, event },
        FrontRecord::Cancelled { tenant, event },
    ]
    .into_iter()
    .chain(steered)
    .collect()
}

fn directory_records() -> Vec<DirectoryRecord> {
    let (tenant, address) = (TENANT, AddressHash([255; 16]));
    let reasons = [Reason::DeadEndpoint, Reason::HardBounce, Reason::Complaint, Reason::Stop, Reason::Manual];
    let suppressed = reasons.into_iter().map(|reason| DirectoryRecord::Suppressed {
        tenant,
        address,
        reason,
        difference: difference(),
    });
    let unsuppressed = DirectoryRecord::Unsuppressed { tenant, address, difference: difference() };
    suppressed.chain([unsuppressed]).collect()
}

/// Tags that the decoder knows.
fn known_tags<R: RecordFact>() -> BTreeSet<u8> {
    let is_known = |tag: &u8| !matches!(R::read(*tag, &mut Reader::new(&[])), Err(Malformed::Tag(_)));
    (0..=u8::MAX).filter(is_known).collect()
}

fn check(said: Said) {
    let body = said.fact.encode().unwrap_or_else(|failed| panic!("{:?}: {failed}", said.fact));
    assert_eq!(AuditFact::decode(said.fact.kind(), &body), Ok(said.fact));
}

// fixes: correctness A1
#[test]
fn whatever_the_api_accepts_fits_into_the_audit_log() {
    let tags: BTreeSet<u8> = root_records("a").iter().map(RecordFact::tag).collect();
    assert_eq!(tags, known_tags::<RootRecord>(), "a new record has its place in this test");
    for letter in ["a", "\u{e9}", "\u{20ac}", "\u{1f600}"] {
        for bytes in [1, 63, 64, 65, 240, 253, 254, 255, NAME_BYTES_MAX] {
            let name = letter.repeat(bytes / letter.len()) + &"b".repeat(bytes % letter.len());
            // Ids of keys are the server's own.
            let by = Actor::Key("0123456789AB".into());
            root_records(&name).into_iter().flat_map(|record| of_root(&by, record)).for_each(check);
            front_records(&name).into_iter().flat_map(|record| of_front(&by, record)).for_each(check);
            directory_records().into_iter().flat_map(|record| of_directory(&by, record)).for_each(check);
        }
    }
}

// fixes: correctness A1
#[test]
fn an_erasure_that_reached_every_store_fits_into_the_audit_log() {
    let removed = (1..=u8::MAX).filter_map(Store::from_stored).map(|store| (store, u64::MAX)).collect();
    let erasure = Erasure { tenant: TENANT, erasure: Ulid(u128::MAX), step: Step::Done, removed };
    check(erased(&Actor::Admin, &erasure).expect("it says what was removed"));
}
