//! Any record that a writer of ours could write, small enough to be shrunk by hand.

mod deliveries;

pub use deliveries::*;

use crate::digests::digest_record;
use crate::erasures::erasure_record;
use crate::policies::policy_record;
use crate::respect::{respect_record, zone};
use crate::schedules::schedule_record;
use fantail_machine::columns::counts::Count;
use fantail_machine::parcel::{Collector, Members, Words};
use fantail_machine::records::deletion::DeletionRecord;
use fantail_machine::records::delivery::{Consents, Counted, Intend, Outcome, Receipt, Redrive, Swept, Wake};
use fantail_machine::records::difference::Difference;
use fantail_machine::records::directory::{Claim, DirectoryRecord, Owner};
use fantail_machine::records::endpoint::{EndpointPut, EndpointState};
use fantail_machine::records::front::{Admitted, Audience, Delivery, FrontRecord, Options, Released, Size};
use fantail_machine::records::root::{ApiKey, Layout, Noted, RootRecord, Tenant, TenantQuota};
use fantail_machine::records::segment::{SegmentListed, SegmentPut, UploadId};
use fantail_machine::records::shard::{Change, Edge, Given, ShardRecord, UserPut};
use fantail_machine::records::template::{About, DefinitionBytes, TemplateActivated, TemplatePut};
use fantail_machine::records::walk::{Delisted, Enlisted, Passed, WalkRecord};
use fantail_machine::records::webhook::{Told, WebhookPut, WebhookSwitched};
use fantail_machine::records::wipe::WipedStretch;
use fantail_machine::tables::directory::{AddressRow, Suppression};
use fantail_machine::tables::ledger::{LedgerRow, ParcelId, Standing};
use fantail_machine::tables::taken;
use fantail_machine::tables::track::Note;
use fantail_machine::tables::work::{Terms, WorkId};
use fantail_ports::audit::Digest;
use fantail_ports::keyring::Sealed;
use fantail_rules::actor::Actor;
use fantail_rules::admit::Bucket;
use fantail_rules::attempt::{Class, State};
use fantail_rules::caps::Pace;
use fantail_rules::category::CategoryId;
use fantail_rules::chain::Chain;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::gates;
use fantail_rules::ids::{
    AddressHash, Arrival, ClaimNo, DeviceHash, DeviceNo, FrontNo, KeyNo, ListId, Lookup, Millis, Position,
    ShardNo, TenantId, UserNo,
};
use fantail_rules::marks::{Mark, Watermark};
use fantail_rules::pacing::Rate;
use fantail_rules::policy::{Condition, Step};
use fantail_rules::priority::Priority;
use fantail_rules::quota::{Quota, Resource};
use fantail_rules::schedule::Appointment;
use fantail_rules::suppression::Reason;
use fantail_rules::tier::Tier;
use fantail_rules::ulid::Ulid;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;

pub fn tenant() -> impl Strategy<Value = TenantId> {
    any::<u32>().prop_map(TenantId)
}

pub fn millis() -> impl Strategy<Value = Millis> {
    any::<u64>().prop_map(Millis)
}

pub fn user() -> impl Strategy<Value = UserNo> {
    any::<u64>().prop_map(UserNo)
}

pub fn arrival() -> impl Strategy<Value = Arrival> {
    any::<u64>().prop_map(Arrival)
}

pub fn list() -> impl Strategy<Value = ListId> {
    any::<[u8; 16]>().prop_map(ListId)
}

pub fn ulid() -> impl Strategy<Value = Ulid> {
    any::<u128>().prop_map(Ulid)
}

pub fn tier() -> impl Strategy<Value = Tier> {
    prop_oneof![Just(Tier::Written), Just(Tier::Pointer)]
}

pub fn sealed() -> impl Strategy<Value = Sealed> {
    (any::<u64>(), any::<[u8; 12]>(), vec(any::<u8>(), 0..40)).prop_map(|(key, nonce, bytes)| Sealed {
        key: KeyNo(key),
        nonce,
        bytes,
    })
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    btree_set(any::<u64>(), 0..20).prop_map(|set| set.into_iter().map(Arrival).collect())
}

fn members() -> impl Strategy<Value = Vec<UserNo>> {
    btree_set(any::<u64>(), 0..20).prop_map(|set| set.into_iter().map(UserNo).collect())
}

fn sizes() -> impl Strategy<Value = Vec<Size>> {
    let size =
        (tenant(), list(), any::<u64>()).prop_map(|(tenant, list, members)| Size { tenant, list, members });
    vec(size, 0..8)
}

fn rate() -> impl Strategy<Value = Rate> {
    any::<(u32, u32)>().prop_map(|(per_second, burst)| Rate { per_second, burst })
}

pub fn tenant_row() -> impl Strategy<Value = Tenant> {
    (tenant(), any::<String>(), any::<String>(), any::<u32>(), any::<u32>(), millis(), option::of(rate()))
        .prop_map(|(id, slug, name, tier_up, retention_days, created, rate)| Tenant {
            id,
            slug,
            name,
            tier_up,
            retention_days,
            created,
            rate,
        })
}

pub fn tenant_quota() -> impl Strategy<Value = TenantQuota> {
    (tenant(), vec(option::of(any::<u64>()), Resource::ALL.len())).prop_map(|(tenant, limits)| {
        let all = Resource::ALL.into_iter().zip(limits);
        let quota = all.fold(Quota::default(), |quota, (resource, limit)| quota.with(resource, limit));
        TenantQuota { tenant, quota }
    })
}

pub fn api_key() -> impl Strategy<Value = ApiKey> {
    let scopes = vec(any::<String>(), 0..5);
    (tenant(), any::<String>(), any::<[u8; 32]>(), scopes, millis(), option::of(millis()), option::of(rate()))
        .prop_map(|(tenant, id, secret_hash, scopes, created, expires, rate)| ApiKey {
            tenant,
            id,
            secret_hash,
            scopes,
            created,
            expires,
            rate,
        })
}

pub fn about() -> impl Strategy<Value = About> {
    let words = any::<(String, String, Option<String>, Option<String>)>();
    (words, any::<[u8; 32]>()).prop_map(|((author, category, name, note), hash)| About {
        author,
        category,
        name,
        note,
        hash,
    })
}

pub fn actor() -> impl Strategy<Value = Actor> {
    let key = any::<String>().prop_map(|id| Actor::Key(id.into()));
    let provider = any::<String>().prop_map(|account| Actor::provider(&account));
    prop_oneof![Just(Actor::System), Just(Actor::Admin), Just(Actor::Recipient), key, provider]
}

pub fn difference() -> impl Strategy<Value = Difference> {
    let digest = || option::of(any::<[u8; 32]>().prop_map(Digest));
    (digest(), digest()).prop_map(|(before, after)| Difference { before, after })
}

fn template_record() -> impl Strategy<Value = RootRecord> {
    let head = || (tenant(), any::<String>(), any::<u32>());
    let dropped = btree_set(any::<u32>(), 0..4).prop_map(|set| set.into_iter().collect());
    let definition = vec(any::<u8>(), 0..40).prop_map(DefinitionBytes);
    prop_oneof![
        (head(), about(), dropped, definition, difference()).prop_map(
            |((tenant, id, version), about, dropped, definition, difference)| {
                let put = TemplatePut { tenant, id, version, about, dropped, definition, difference };
                RootRecord::TemplatePut(Box::new(put))
            }
        ),
        (head(), any::<bool>(), difference()).prop_map(|((tenant, id, version), active, difference)| {
            RootRecord::TemplateActivated(TemplateActivated { tenant, id, version, active, difference })
        }),
        (tenant(), any::<String>(), difference())
            .prop_map(|(tenant, id, difference)| RootRecord::TemplateGone { tenant, id, difference }),
    ]
}

fn segment_record() -> impl Strategy<Value = RootRecord> {
    let name = || (tenant(), any::<String>());
    prop_oneof![
        (name(), option::of(any::<String>()), any::<String>(), difference()).prop_map(
            |((tenant, name), filter, note, difference)| {
                RootRecord::SegmentPut(SegmentPut { tenant, name, filter, note }, difference)
            }
        ),
        (name(), any::<[u8; 16]>(), any::<u64>(), difference()).prop_map(
            |((tenant, name), list, members, difference)| {
                let list = UploadId(list);
                RootRecord::SegmentListed(SegmentListed { tenant, name, list, members, difference })
            }
        ),
        (name(), difference()).prop_map(|((tenant, id), difference)| RootRecord::SegmentGone {
            tenant,
            id,
            difference
        }),
    ]
}

fn webhook_record() -> impl Strategy<Value = RootRecord> {
    let name = || (tenant(), any::<String>());
    prop_oneof![
        (name(), sealed(), sealed(), any::<u32>(), difference()).prop_map(
            |((tenant, id), target, url, events, difference)| {
                RootRecord::WebhookPut(WebhookPut { tenant, id, target, url, events }, difference)
            }
        ),
        (name(), option::of(any::<String>()), difference()).prop_map(|((tenant, id), off, difference)| {
            RootRecord::WebhookSwitched(WebhookSwitched { tenant, id, off, difference })
        }),
        (name(), any::<bool>())
            .prop_map(|((tenant, id), is_failing)| { RootRecord::WebhookFailing { tenant, id, is_failing } }),
        (name(), difference()).prop_map(|((tenant, id), difference)| RootRecord::WebhookGone {
            tenant,
            id,
            difference
        }),
    ]
}

pub fn root_record() -> impl Strategy<Value = RootRecord> {
    prop_oneof![
        any::<(u16, u16, u16)>().prop_map(|(shards, fronts, directories)| {
            RootRecord::Layout(Layout { shards, fronts, directories })
        }),
        (tenant_row(), difference())
            .prop_map(|(tenant, difference)| RootRecord::TenantPut(tenant, difference)),
        (tenant_quota(), difference())
            .prop_map(|(quota, difference)| RootRecord::QuotaPut(quota, difference)),
        (api_key(), difference()).prop_map(|(key, difference)| RootRecord::KeyPut(key, difference)),
        (tenant(), any::<String>(), difference())
            .prop_map(|(tenant, id, difference)| RootRecord::KeyRevoked { tenant, id, difference }),
        (tenant(), any::<String>(), any::<String>())
            .prop_map(|(tenant, action, target)| { RootRecord::Noted(Noted { tenant, action, target }) }),
        deletion_record().prop_map(RootRecord::Deletion),
        template_record(),
        webhook_record(),
        crate::providers::record(),
        segment_record(),
        policy_record(),
        schedule_record(),
    ]
}

fn audience() -> impl Strategy<Value = Audience> {
    prop_oneof![
        (list(), tier(), any::<bool>()).prop_map(|(list, tier, turned)| Audience::Listed {
            list,
            tier,
            turned
        }),
        btree_map(any::<u16>(), members(), 0..4)
            .prop_map(|map| Audience::Addressed(map.into_iter().map(|(no, m)| (ShardNo(no), m)).collect())),
    ]
}

pub fn terms() -> impl Strategy<Value = Terms> {
    let lane = (0u8..4).prop_map(Priority::from_stored);
    let class = prop_oneof![Just(Class::Critical), Just(Class::Transactional), Just(Class::Bulk)];
    let named = ((any::<(u64, u64)>(), option::of(any::<u64>())), appointment(), chain());
    (lane, class, named, millis()).prop_map(
        |(lane, class, (((category, group), kind), appointment, chain), expires_at)| {
            let category = CategoryId(category);
            Terms { lane, class, category, expires_at, group, appointment, chain, kind }
        },
    )
}

pub fn chain() -> impl Strategy<Value = Chain> {
    let step = |channel: u8| {
        let channel = ChannelKind::from_stored(channel).expect("one of four");
        (0..Condition::ALL.len(), any::<u32>()).prop_map(move |(when, after_seconds)| Step {
            channel,
            when: Condition::ALL[when],
            after_seconds,
        })
    };
    let steps = (1u8..5).prop_flat_map(move |last| (1..=last).map(step).collect::<Vec<_>>());
    (steps, 0u8..32).prop_map(|(steps, channels)| Chain::of(&steps, ChannelSet::from_stored(channels)))
}

/// Two bits that say what it is, and what would be read.
fn appointment() -> impl Strategy<Value = Option<Appointment>> {
    let word = (0u64..4, prop_oneof![0u64..1_440, (0u64..1 << 29)]);
    word.prop_map(|(kind, value)| Appointment::from_stored(value << 2 | kind).flatten())
}

pub fn delivery() -> impl Strategy<Value = Delivery> {
    (0u8..32, terms())
        .prop_map(|(channels, terms)| Delivery { channels: ChannelSet::from_stored(channels), terms })
}

pub fn options() -> impl Strategy<Value = Options> {
    let keys = (option::of(any::<[u8; 16]>()), option::of(sealed()), option::of(sealed()));
    (option::of(millis()), keys, any::<bool>()).prop_map(
        |(due, (cancellation, collapse, name), is_sensitive)| Options {
            due,
            cancellation,
            collapse,
            is_sensitive,
            name,
        },
    )
}

fn admitted() -> impl Strategy<Value = Admitted> {
    let ids = (tenant(), ulid(), any::<[u8; 16]>(), any::<[u8; 16]>());
    let words = (any::<String>(), any::<String>(), any::<u8>());
    (ids, words, option::of(sealed()), sealed(), option::of(delivery()), (options(), audience())).prop_map(
        |(
            (tenant, event, key, body),
            (kind, category, priority),
            actor,
            content,
            delivery,
            (options, audience),
        )| {
            Admitted {
                tenant,
                event,
                key,
                body,
                kind,
                category,
                priority,
                actor,
                content,
                delivery,
                personal: 0,
                options,
                audience,
            }
        },
    )
}

pub fn taken_about() -> impl Strategy<Value = taken::About> {
    (any::<u64>(), any::<bool>())
        .prop_map(|(category, is_critical)| taken::About { category: CategoryId(category), is_critical })
}

fn deletion_record() -> impl Strategy<Value = DeletionRecord> {
    prop_oneof![
        stretch().prop_map(DeletionRecord::Wiped),
        (tenant(), any::<String>(), difference())
            .prop_map(|(tenant, slug, difference)| DeletionRecord::Ending { tenant, slug, difference }),
        (tenant(), any::<u64>()).prop_map(|(tenant, rows)| DeletionRecord::Counted { tenant, rows }),
        (tenant(), any::<String>(), any::<u64>()).prop_map(|(tenant, slug, rows)| DeletionRecord::Ended {
            tenant,
            slug,
            rows
        }),
    ]
}

/// Rows of a deleted tenant that go.
fn stretch() -> impl Strategy<Value = WipedStretch> {
    (tenant(), vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..20)).prop_map(|(tenant, from, to)| WipedStretch {
        tenant,
        from,
        to,
    })
}

pub fn front_record() -> impl Strategy<Value = FrontRecord> {
    let forgotten = (tenant(), any::<u32>(), vec(any::<[u8; 16]>(), 0..8), vec(ulid(), 0..8));
    prop_oneof![
        admitted().prop_map(FrontRecord::Admitted),
        (tenant(), ulid(), millis(), taken_about(), option::of(delivery()), audience()).prop_map(
            |(tenant, event, due, about, delivery, audience)| {
                FrontRecord::Released(Released { tenant, event, due, about, delivery, audience })
            }
        ),
        (tenant(), ulid()).prop_map(|(tenant, event)| FrontRecord::Retracted { tenant, event }),
        crate::cancels::front_record(),
        (tenant(), ulid()).prop_map(|(tenant, event)| FrontRecord::Cancelled { tenant, event }),
        (any::<u16>(), sizes())
            .prop_map(|(shard, sizes)| FrontRecord::Counted { shard: ShardNo(shard), sizes }),
        forgotten.prop_map(|(tenant, bucket, keys, events)| FrontRecord::Forgotten {
            tenant,
            bucket: Bucket(bucket),
            keys,
            events,
        }),
        (tenant(), any::<u16>(), user(), vec(ulid(), 0..4)).prop_map(|(tenant, shard, user, events)| {
            FrontRecord::Unsaid { tenant, shard: ShardNo(shard), user, events }
        }),
        stretch().prop_map(FrontRecord::Wiped),
    ]
}

pub fn mark() -> impl Strategy<Value = Mark> {
    prop_oneof![
        Just(Mark::Read),
        Just(Mark::Unread),
        Just(Mark::Seen),
        Just(Mark::Archive),
        Just(Mark::Unarchive),
        millis().prop_map(|until| Mark::Snooze { until }),
        Just(Mark::Unsnooze),
        Just(Mark::Delete),
    ]
}

fn watermark() -> impl Strategy<Value = Watermark> {
    prop_oneof![Just(Watermark::Read), Just(Watermark::Seen), Just(Watermark::Archived)]
}

fn user_put() -> impl Strategy<Value = UserPut> {
    (user(), any::<[u8; 16]>(), sealed(), sealed(), any::<String>(), zone()).prop_map(
        |(user, lookup, id, attributes, locale, zone)| UserPut {
            user,
            lookup: Lookup(lookup),
            id,
            attributes,
            locale,
            zone,
        },
    )
}

fn edges() -> impl Strategy<Value = ShardRecord> {
    let edge =
        (user(), list(), option::of(sealed())).prop_map(|(user, list, name)| Edge { user, list, name });
    let change = prop_oneof![Just(Change::Join), Just(Change::Leave)];
    (tenant(), change, vec(edge, 0..8)).prop_map(|(tenant, change, edges)| ShardRecord::Edges {
        tenant,
        change,
        edges,
    })
}

fn take() -> impl Strategy<Value = ShardRecord> {
    any::<(u16, u64, u64)>().prop_map(|(front, from, to)| ShardRecord::Take {
        front: FrontNo(front),
        from: Position(from),
        to: Position(to),
    })
}

fn user_gone() -> impl Strategy<Value = ShardRecord> {
    (tenant(), user(), any::<[u8; 16]>(), any::<u64>()).prop_map(|(tenant, user, lookup, key)| {
        ShardRecord::UserGone { tenant, user, lookup: Lookup(lookup), key: KeyNo(key) }
    })
}

pub fn status() -> impl Strategy<Value = Status> {
    any::<Index>().prop_map(|pick| *pick.get(&Status::ALL))
}

fn device() -> impl Strategy<Value = DeviceNo> {
    (1..=DeviceNo::MAX.0).prop_map(DeviceNo)
}

pub fn endpoint_put() -> impl Strategy<Value = EndpointPut> {
    let numbers = (user(), device(), any::<u32>(), status());
    let kinds = (any::<Index>(), any::<Index>());
    let name = (any::<[u8; 16]>(), option::of(sealed()));
    let address = (any::<[u8; 16]>(), sealed(), option::of(sealed()));
    (numbers, kinds, name, address).prop_map(
        |((user, device, claim, status), (kind, platform), (hash, name), (to, address, meta))| EndpointPut {
            user,
            device,
            claim: ClaimNo(claim),
            status,
            kind: *kind.get(&ChannelKind::ALL),
            platform: *platform.get(&Platform::ALL),
            name_hash: DeviceHash(hash),
            name,
            address_hash: AddressHash(to),
            address,
            meta,
        },
    )
}

fn endpoint_state() -> impl Strategy<Value = EndpointState> {
    (user(), device(), any::<u32>(), status()).prop_map(|(user, device, claim, status)| EndpointState {
        user,
        device,
        claim: ClaimNo(claim),
        status,
    })
}

fn endpoint_record() -> impl Strategy<Value = ShardRecord> {
    prop_oneof![
        (tenant(), vec(endpoint_put(), 0..4))
            .prop_map(|(tenant, endpoints)| ShardRecord::EndpointPut { tenant, endpoints }),
        (tenant(), vec(endpoint_state(), 0..6))
            .prop_map(|(tenant, states)| ShardRecord::EndpointState { tenant, states }),
        (tenant(), vec((user(), device()), 0..6))
            .prop_map(|(tenant, endpoints)| ShardRecord::EndpointGone { tenant, endpoints }),
    ]
}

fn owner() -> impl Strategy<Value = Owner> {
    (any::<u16>(), user(), device(), any::<u32>()).prop_map(|(shard, user, device, claim)| Owner {
        shard: ShardNo(shard),
        user,
        device,
        claim: ClaimNo(claim),
    })
}

fn address() -> impl Strategy<Value = AddressHash> {
    any::<[u8; 16]>().prop_map(AddressHash)
}

fn reason() -> impl Strategy<Value = Reason> {
    any::<Index>().prop_map(|pick| *pick.get(&Reason::ALL))
}

pub fn address_row() -> impl Strategy<Value = AddressRow> {
    let suppression = (reason(), millis()).prop_map(|(reason, since)| Suppression { reason, since });
    (option::of(owner()), vec(owner(), 0..4), option::of(suppression))
        .prop_map(|(owner, releasing, suppression)| AddressRow { owner, releasing, suppression })
}

pub fn directory_record() -> impl Strategy<Value = DirectoryRecord> {
    let claims = || vec((address(), owner()).prop_map(|(address, owner)| Claim { address, owner }), 0..4);
    prop_oneof![
        (tenant(), claims()).prop_map(|(tenant, claims)| DirectoryRecord::Claimed { tenant, claims }),
        (tenant(), claims()).prop_map(|(tenant, claims)| DirectoryRecord::Released { tenant, claims }),
        (tenant(), vec(address(), 0..4))
            .prop_map(|(tenant, addresses)| DirectoryRecord::Told { tenant, addresses }),
        (tenant(), address(), reason(), difference()).prop_map(|(tenant, address, reason, difference)| {
            DirectoryRecord::Suppressed { tenant, address, reason, difference }
        }),
        (tenant(), address(), difference()).prop_map(|(tenant, address, difference)| {
            DirectoryRecord::Unsuppressed { tenant, address, difference }
        }),
        stretch().prop_map(DirectoryRecord::Wiped),
    ]
}

pub fn shard_record() -> impl Strategy<Value = ShardRecord> {
    prop_oneof![
        6 => user_record(),
        6 => delivery_record(),
        3 => endpoint_record(),
        1 => told_record(),
        1 => crate::throttles::record(),
        1 => crate::cancels::shard_record(),
        1 => walk_record(),
        2 => respect_record(),
        2 => digest_record(),
        1 => stretch().prop_map(ShardRecord::Wiped),
    ]
}

fn walk_record() -> impl Strategy<Value = ShardRecord> {
    let list = || any::<[u8; 16]>().prop_map(UploadId);
    let users = btree_set(any::<u64>(), 0..8).prop_map(|users| users.into_iter().map(UserNo).collect());
    let pages = btree_set(any::<u64>(), 0..8).prop_map(|pages| pages.into_iter().collect());
    prop_oneof![
        passed(),
        (tenant(), list(), users).prop_map(|(tenant, list, users)| WalkRecord::Enlisted(Enlisted {
            tenant,
            list,
            users
        })),
        (tenant(), list(), pages, any::<bool>()).prop_map(|(tenant, list, pages, is_last)| {
            WalkRecord::Delisted(Delisted { tenant, list, pages, is_last })
        }),
    ]
    .prop_map(ShardRecord::Walk)
}

fn passed() -> impl Strategy<Value = WalkRecord> {
    let users =
        || btree_set(any::<u64>(), 0..8).prop_map(|users| users.into_iter().map(UserNo).collect::<Vec<_>>());
    let members = (users(), users());
    let skipped = vec((any::<String>(), any::<u64>()), 0..4);
    (tenant(), arrival(), user(), any::<u64>(), members, skipped, any::<(u64, bool)>()).prop_map(
        |(tenant, arrival, next, looked_at, (members, unshown), skipped, (paced_until, is_end))| {
            let paced_until = Millis(paced_until);
            WalkRecord::Passed(Passed {
                tenant,
                arrival,
                next,
                looked_at,
                members,
                unshown,
                skipped,
                paced_until,
                is_end,
            })
        },
    )
}

fn told_record() -> impl Strategy<Value = ShardRecord> {
    prop_oneof![
        (tenant(), any::<String>(), any::<u64>()).prop_map(|(tenant, webhook, through)| {
            ShardRecord::Told(Told { tenant, webhook, through: Position(through) })
        }),
        (tenant(), any::<String>()).prop_map(|(tenant, webhook)| ShardRecord::Untold { tenant, webhook }),
    ]
}

fn user_record() -> impl Strategy<Value = ShardRecord> {
    prop_oneof![
        (tenant(), vec(user_put(), 0..4)).prop_map(|(tenant, users)| ShardRecord::UserPut { tenant, users }),
        user_gone(),
        edges(),
        take(),
        given(),
        (tenant(), user(), mark(), arrivals())
            .prop_map(|(tenant, user, mark, arrivals)| ShardRecord::Marked { tenant, user, mark, arrivals }),
        (tenant(), user(), watermark(), arrival())
            .prop_map(|(tenant, user, watermark, to)| ShardRecord::Moved { tenant, user, watermark, to }),
        (tenant(), user(), arrivals()).prop_map(|(tenant, user, arrivals)| ShardRecord::Cleared {
            tenant,
            user,
            arrivals
        }),
        sizes().prop_map(|sizes| ShardRecord::Reported { sizes }),
        erasure_record(),
        vec((tenant(), any::<u64>().prop_map(KeyNo)), 0..8).prop_map(|keys| ShardRecord::Shredded { keys }),
        (tenant(), arrival()).prop_map(|(tenant, through)| ShardRecord::Expired { tenant, through }),
        (tenant(), user(), vec(list(), 0..8)).prop_map(|(tenant, user, lists)| ShardRecord::Unlisted {
            tenant,
            user,
            lists
        }),
    ]
}
