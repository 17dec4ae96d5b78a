//! Rows as bytes, and the order of their keys: tenant first, then owner, then what ascends with time.
//! Rows that only their own file can name are tested there.

use crate::digests::{digest_row, window_row};
use crate::erasures::erasure_row;
use crate::policies;
use crate::respect::{changed, respect_row, zone};
use crate::strategies::{
    about, address_row, api_key, arrival, delivery, endpoint_put, ledger_row, list, millis, note, options,
    parcel_id, sealed, taken_about, tenant, tenant_quota, tenant_row, terms, tier, ulid, user, work_id,
};
use crate::throttles::page_row;
use fantail_machine::columns;
use fantail_machine::records::endpoint::EndpointPut;
use fantail_machine::records::root::{Layout, Tenant, TenantQuota};
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::records::template::DefinitionBytes;
use fantail_machine::shard::{self, Derived};
use fantail_machine::tables::digest::{self, DigestRow};
use fantail_machine::tables::directory::{AddressRow, DirectoryTodo};
use fantail_machine::tables::event::{EventRow, FrontState};
use fantail_machine::tables::follow::Open;
use fantail_machine::tables::ledger::{LedgerRow, ParcelId, Timer};
use fantail_machine::tables::list::ListRow;
use fantail_machine::tables::pointer::PointerList;
use fantail_machine::tables::progress::Progress;
use fantail_machine::tables::root::ApiKeyRow;
use fantail_machine::tables::size::SizeRow;
use fantail_machine::tables::taken::{Page, Reach, TakenEvent};
use fantail_machine::tables::tally::{self, Tally};
use fantail_machine::tables::template::{Floor, TemplateRow, VersionRow};
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::track::{self, TrackRow};
use fantail_machine::tables::usage::{self, Usage};
use fantail_machine::tables::user::{UserRef, UserRow};
use fantail_machine::tables::waiting::{self, Waiting};
use fantail_machine::tables::window::{self, ItemRow, NoRow, WindowKey, WindowNo, WindowRow};
use fantail_machine::tables::work::{self, GivenMembers, Halt, To, WorkId, WorkRow};
use fantail_machine::tables::{
    Row, directory, endpoint, erasure, event, follow, idempotency, list as lists, mark, pointer, progress,
    respect, root, scheduled, size, taken, template, throttle, user as users,
};
use fantail_machine::view::View;
use fantail_memory::store::MemoryStore;
use fantail_ports::store::Store;
use fantail_ports::tables::{Changes, Tables};
use fantail_rules::admit::{Bucket, Known};
use fantail_rules::attempt::State;
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::digest::Storm;
use fantail_rules::ids::{
    AddressHash, Arrival, DeviceNo, KeyNo, Lookup, Millis, PartitionId, ShardNo, TenantId, UserNo,
};
use fantail_rules::interval::Intervals;
use fantail_rules::marks::{Flags, Marks};
use fantail_rules::priority::Priority;
use fantail_rules::quota::{Amounts, Resource};
use fantail_rules::visibility::{InboxWish, Turns, Unwanted};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use std::fmt::Debug;

fn check<R: Row + PartialEq + Debug>(row: &R) -> Result<(), TestCaseError> {
    let bytes = row.encode();
    let read = R::decode(&bytes);
    prop_assert_eq!(read.as_ref(), Ok(row));
    for length in 0..bytes.len() {
        prop_assert!(R::decode(&bytes[..length]).is_err(), "prefix of {length} bytes");
    }
    let longer = [&bytes[..], &[0]].concat();
    prop_assert!(R::decode(&longer).is_err(), "left-over bytes");
    Ok(())
}

/// Bytes that decode, decode to something that can be written and read again.
fn check_bytes<R: Row + PartialEq + Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(row) = R::decode(bytes) {
        prop_assert_eq!(R::decode(&row.encode()), Ok(row));
    }
    Ok(())
}

fn intervals() -> impl Strategy<Value = Intervals> {
    (btree_set(any::<u64>(), 0..20), any::<bool>()).prop_map(|(ends, open)| {
        let (mut intervals, mut is_open) = (Intervals::default(), false);
        for at in ends {
            is_open = if is_open { !intervals.close(Arrival(at)) } else { intervals.open(Arrival(at)) };
        }
        if !open && is_open {
            intervals.close(Arrival(u64::MAX));
        }
        intervals
    })
}

fn page() -> impl Strategy<Value = Page> {
    let walked =
        (arrival(), any::<u64>()).prop_map(|(home, first)| Reach::Walked { home, first: UserNo(first) });
    let listed = || (list(), taken_about());
    let reach = prop_oneof![
        Just(Reach::Given),
        listed().prop_map(|(list, about)| Reach::Written(list, about)),
        listed().prop_map(|(list, about)| Reach::Pointer(list, about)),
        walked
    ];
    let event = (ulid(), reach).prop_map(|(event, reach)| TakenEvent { event, reach });
    (millis(), vec(event, 1..20)).prop_map(|(at, events)| Page { at, events })
}

fn marks() -> impl Strategy<Value = Marks> {
    let watermarks = (arrival(), arrival(), arrival());
    let unwanted = prop_oneof![Just(None), Just(Some(Unwanted::Category)), Just(Some(Unwanted::Here))];
    let categories = vec((any::<u64>().prop_map(CategoryId), unwanted), 0..4);
    let wish = (any::<bool>(), any::<bool>(), categories)
        .prop_map(|(nothing, inbox_off, categories)| InboxWish { nothing, inbox_off, categories });
    let turns = vec((arrival(), wish), 0..4);
    (watermarks, any::<(i64, i64, u64)>(), vec((arrival(), millis()), 0..9), turns).prop_map(
        |((read, seen, archived), (unread, unseen, flags), snoozed, turns)| Marks {
            read_through: read,
            seen_through: seen,
            archived_through: archived,
            unread_adjustment: unread,
            unseen_adjustment: unseen,
            unread_flags: flags,
            snoozed,
            turns: Turns { turns },
        },
    )
}

fn user_row() -> impl Strategy<Value = UserRow> {
    let before = proptest::option::of((millis(), any::<String>()));
    (any::<[u8; 16]>(), millis(), millis(), sealed(), sealed(), (any::<String>(), zone()), before).prop_map(
        |(lookup, created, updated, id, attributes, (locale, zone), locale_before)| UserRow {
            lookup: Lookup(lookup),
            created,
            updated,
            id,
            attributes,
            locale,
            zone,
            locale_before,
        },
    )
}

/// The rows of a page as a history of puts leaves them.
fn endpoint_rows(puts: &[EndpointPut]) -> (endpoint::Destinations, endpoint::Details) {
    let (base, mut changes) = (MemoryStore::new(), Changes::new());
    let puts: Vec<_> =
        puts.iter().map(|put| EndpointPut { user: UserNo(put.user.0 % 16), ..put.clone() }).collect();
    let mut rows = None;
    base.read(PartitionId::Root, &mut |state| {
        let mut view = View::new(state.tables(), &[], &mut changes);
        let record = ShardRecord::EndpointPut { tenant: TenantId(1), endpoints: puts.clone() };
        shard::apply(&mut view, &record, Millis(7), &[], &mut Derived::default()).unwrap();
        let nobody = || vec![0];
        let row = |key: Vec<u8>| view.get(&key).unwrap().unwrap_or_else(nobody);
        let destinations = endpoint::Destinations::decode(&row(endpoint::key(TenantId(1), 0))).unwrap();
        let details = endpoint::Details::decode(&row(endpoint::details_key(TenantId(1), 0))).unwrap();
        rows = Some((destinations, details));
    })
    .unwrap();
    rows.expect("the store was read")
}

fn event_row() -> impl Strategy<Value = EventRow> {
    let words = (any::<String>(), any::<String>(), any::<u8>());
    let flags = any::<(bool, bool, bool)>();
    (flags, millis(), words, option::of(sealed()), sealed(), (option::of(delivery()), options())).prop_map(
        |(
            (retracted, cancelled, released),
            at,
            (kind, category, priority),
            actor,
            content,
            (delivery, options),
        )| {
            EventRow {
                retracted,
                cancelled,
                released,
                at,
                kind,
                category,
                priority,
                actor,
                content,
                delivery,
                personal: 3,
                recipients: 70_000,
                options,
            }
        },
    )
}

proptest! {
    #[test]
    fn root_rows_round_trip(
        numbers: (u16, u16, u16), tenant in tenant_row(), key in api_key(), revoked in option::of(millis()),
        quota in tenant_quota(), amounts: [u64; 4],
    ) {
        check(&Layout { shards: numbers.0, fronts: numbers.1, directories: numbers.2 })?;
        check(&tenant)?;
        check(&quota)?;
        let counted = [Resource::Users, Resource::Devices, Resource::Schedules, Resource::StoredBytes];
        let all = counted.into_iter().zip(amounts);
        check(&Usage(all.fold(Amounts::default(), |all, (resource, amount)| all.with(resource, amount))))?;
        check(&ApiKeyRow { key, revoked })?;
    }

    #[test]
    fn policy_rows_round_trip(rows in policies::rows()) {
        check(&rows.0)?;
        check(&rows.1)?;
    }

    #[test]
    fn template_rows_round_trip(
        about in about(), versions: (u32, u32, u32), active: bool, created in millis(), updated in millis(),
        definition in vec(any::<u8>(), 0..200),
    ) {
        let (version, newest, floor) = versions;
        check(&TemplateRow { version, newest, active, created, updated })?;
        check(&VersionRow { about, at: updated })?;
        check(&DefinitionBytes(definition))?;
        check(&Floor(floor))?;
    }

    #[test]
    fn front_rows_round_trip(
        last in ulid(), row in event_row(), body_hash: [u8; 16], tier in tier(),
        parts in btree_map(any::<u16>(), any::<u64>(), 0..6),
    ) {
        check(&FrontState { last })?;
        parts.values().try_for_each(|count| check(&scheduled::Count(*count)))?;
        check(&row)?;
        check(&Known { event: last, body_hash })?;
        check(&SizeRow { tier, parts: parts.into_iter().map(|(no, members)| (ShardNo(no), members)).collect() })?;
    }

    #[test]
    fn shard_rows_round_trip(
        user in user_row(), wants in respect_row(), erased in erasure_row(), changed in changed(), intervals in intervals(), page in page(), marks in marks(), name in sealed(),
        numbers: [u64; 5], flags: u8, puts in vec(endpoint_put(), 0..6), recent in btree_set(any::<u64>(), 1..16),
    ) {
        let [a, b, c, d, e] = numbers;
        check(&user)?;
        check(&wants)?;
        check(&erased)?;
        check(&changed)?;
        let (destinations, details) = endpoint_rows(&puts);
        check(&destinations)?;
        check(&details)?;
        check(&intervals)?;
        check(&page)?;
        check(&marks)?;
        check(&Flags(flags))?;
        check(&Open { actors: a, topics: b })?;
        check(&ListRow { members: a, reported: b, name })?;
        let recent = recent.into_iter().map(Arrival).collect();
        check(&PointerList { rank: a, expired: b, first: Arrival(a), recent })?;
        check(&Progress { last: Arrival(a), horizon: Arrival(b), users: c, retracted: d, pointer_lists: e })?;
        let erased_at = fantail_rules::ulid::Ulid(u128::from(a) << 64 | u128::from(b));
        prop_assert_eq!(erasure::ErasureRef::decode(&erasure::ErasureRef(erased_at).encode()).map(|row| row.0), Ok(erased_at));
        prop_assert_eq!(UserRef::decode(&UserRef(UserNo(a)).encode()).map(|row| row.0.0), Ok(a));
    }

    #[test]
    fn directory_rows_round_trip(row in address_row()) {
        check(&row)?;
    }

    #[test]
    fn delivery_rows_round_trip(
        ledger in ledger_row(), event in ulid(), terms in terms(), next in user(), listed in option::of(list()),
        members in btree_set(any::<u64>(), 0..20), counts in vec(any::<u64>(), 15), notes in vec(note(), 0..12),
    ) {
        check(&ledger)?;
        check(&WorkRow { event, terms, next, to: listed.map_or(To::Given, To::List) })?;
        let members = GivenMembers(members.into_iter().map(UserNo).collect());
        prop_assert_eq!(GivenMembers::decode(&members.encode()).map(|row| row.0), Ok(members.0));
        check(&Halt::Cancelled)?;
        check(&Halt::Retracted)?;
        let mut tally = Tally::default();
        tally.unreached = counts[14];
        State::ALL.into_iter().zip(&counts).for_each(|(state, count)| tally.enter(state, *count));
        check(&tally)?;
        let mut track = TrackRow::default();
        notes.iter().for_each(|note| track.add(3, note.clone()));
        notes.iter().take(1).for_each(|note| track.add(31, note.clone()));
        check(&track)?;
        let of_one = track.notes(3);
        prop_assert_eq!((of_one.first(), of_one.last()), (notes.first(), notes.last()));
        prop_assert!(of_one.len() <= 8 && track.notes(30).is_empty());
        prop_assert_eq!(track.notes(31), &notes[..notes.len().min(1)]);
    }

    #[test]
    fn damaged_rows_never_panic(bytes in vec(any::<u8>(), 0..120)) {
        check_bytes::<Layout>(&bytes)?;
        check_bytes::<Tenant>(&bytes)?;
        check_bytes::<TenantQuota>(&bytes)?;
        check_bytes::<Usage>(&bytes)?;
        check_bytes::<ApiKeyRow>(&bytes)?;
        check_bytes::<TemplateRow>(&bytes)?;
        check_bytes::<VersionRow>(&bytes)?;
        check_bytes::<DefinitionBytes>(&bytes)?;
        check_bytes::<FrontState>(&bytes)?;
        check_bytes::<scheduled::Count>(&bytes)?;
        check_bytes::<EventRow>(&bytes)?;
        check_bytes::<Known>(&bytes)?;
        check_bytes::<SizeRow>(&bytes)?;
        check_bytes::<UserRow>(&bytes)?;
        check_bytes::<Intervals>(&bytes)?;
        check_bytes::<Page>(&bytes)?;
        check_bytes::<Marks>(&bytes)?;
        check_bytes::<PointerList>(&bytes)?;
        check_bytes::<Progress>(&bytes)?;
        check_bytes::<ListRow>(&bytes)?;
        check_bytes::<endpoint::Destinations>(&bytes)?;
        check_bytes::<endpoint::Details>(&bytes)?;
        check_bytes::<AddressRow>(&bytes)?;
        check_bytes::<LedgerRow>(&bytes)?;
        check_bytes::<WorkRow>(&bytes)?;
        check_bytes::<Tally>(&bytes)?;
        check_bytes::<TrackRow>(&bytes)?;
        check_bytes::<WindowRow>(&bytes)?;
        check_bytes::<DigestRow>(&bytes)?;
    }

    #[test]
    fn rows_of_windows_round_trip(window in window_row(), digest in digest_row(), no: u64, first in user()) {
        check(&window)?;
        check(&digest)?;
        check(&NoRow(WindowNo(no)))?;
        check(&ItemRow { first })?;
        check(&Storm { slot: no, counts: [3; 9] })?;
    }

    #[test]
    fn rows_of_throttles_round_trip(page in page_row()) {
        check(&page)?;
    }

    // proves: TEN-01, DED-13
    /// All keys of one tenant lie between those of its neighbours, in every family.
    #[test]
    fn keys_of_a_tenant_lie_together(
        id in 1u32..u32::MAX, user in user(), list in list(), arrival in arrival(), event in ulid(),
        hash: [u8; 16], bucket: u32, name: String, work in work_id(), parcel in parcel_id(),
    ) {
        let keys = |tenant: TenantId| vec![
            root::tenant_key(tenant),
            root::api_key(tenant, &name),
            root::quota_key(tenant),
            usage::key(tenant),
            template::key(tenant, &name),
            template::version_key(tenant, &name, bucket),
            template::definition_key(tenant, &name, bucket),
            template::floor_key(tenant),
            idempotency::key(tenant, Bucket(bucket), &hash),
            event::key(tenant, event),
            size::key(tenant, list),
            scheduled::count_key(tenant),
            progress::key(tenant),
            users::lookup_key(tenant, Lookup(hash)),
            users::key(tenant, user),
            follow::key(tenant, user, list),
            follow::count_key(tenant, user),
            lists::key(tenant, list),
            taken::key(tenant, arrival),
            taken::index_key(tenant, event),
            taken::late_key(tenant, event),
            pointer::key(tenant, list, arrival),
            pointer::list_key(tenant, list),
            mark::key(tenant, user),
            respect::key(tenant, user),
            erasure::key(tenant, event),
            erasure::of_lookup_key(tenant, Lookup(hash)),
            Todo::Erase { tenant, erasure: event }.key(),
            respect::history_key(tenant, user, 7),
            endpoint::key(tenant, user.0),
            endpoint::details_key(tenant, user.0),
            columns::key(tenant, user.0),
            directory::key(tenant, AddressHash(hash)),
            DirectoryTodo::Tell { tenant, address: AddressHash(hash) }.key(),
            Todo::Claim { tenant, user, device: DeviceNo(bucket as u16) }.key(),
            Todo::Report { tenant, list }.key(),
            Todo::Shred { tenant, key: KeyNo(arrival.0) }.key(),
            WorkId { tenant, ..work }.key(),
            work::given_key(tenant, arrival),
            work::halt_key(tenant, arrival),
            ParcelId { tenant, ..parcel }.key(),
            ParcelId { tenant, ..parcel }.under_way_key(),
            ParcelId { tenant, ..parcel }.dead_key(),
            tally::key(tenant, arrival, work.channel),
            tally::lane_key(tenant, Priority::High),
            window::key(tenant, WindowNo(user.0)),
            window::item_key(tenant, WindowNo(user.0), arrival),
            window::latest_key(tenant),
            window::storm_key(tenant, user, CategoryId(arrival.0)),
            WindowKey { user, channel: work.channel, key: arrival.0 }.row_key(tenant),
            digest::key(tenant, event),
            throttle::key(tenant, arrival.0, user.0),
            throttle::end_key(tenant, throttle::PageId { hour: 7, kind: arrival.0, page: user.0 }),
            track::key(ParcelId { tenant, ..parcel }, bucket as u16 % 1_000),
            waiting::key(tenant, user, Waiting { arrival, channel: work.channel }),
        ];
        for (family, own) in keys(TenantId(id)).into_iter().enumerate() {
            prop_assert_eq!(&own[1..5], &id.to_be_bytes()[..], "family {}", own[0]);
            let (below, above) = (&keys(TenantId(id - 1))[family], &keys(TenantId(id + 1))[family]);
            prop_assert!(*below < own && own < *above, "family {}", own[0]);
            prop_assert_eq!(own[0], below[0]);
        }
    }

    /// Byte order of keys is the order of what they name.
    #[test]
    fn keys_ascend_with_what_they_name(tenant in tenant(), a: u64, b: u64, x in ulid(), y in ulid(), list in list()) {
        let (first, second) = (Arrival(a), Arrival(b));
        let order = a.cmp(&b);
        prop_assert_eq!(taken::key(tenant, first).cmp(&taken::key(tenant, second)), order);
        prop_assert_eq!(pointer::key(tenant, list, first).cmp(&pointer::key(tenant, list, second)), order);
        prop_assert_eq!(event::key(tenant, x).cmp(&event::key(tenant, y)), x.cmp(&y));
        let by_front = (x.front(), x).cmp(&(y.front(), y));
        prop_assert_eq!(taken::index_key(tenant, x).cmp(&taken::index_key(tenant, y)), by_front);
        let work = |arrival| WorkId { tenant, arrival, channel: ChannelKind::Sms };
        prop_assert_eq!(work(first).key().cmp(&work(second).key()), order);
        let parcel = |no| ParcelId::of(work(Arrival(7)), UserNo(no));
        prop_assert_eq!(parcel(a).key().cmp(&parcel(b).key()), order);
        prop_assert_eq!(parcel(a).under_way_key().cmp(&parcel(b).under_way_key()), order);
        let lane = Priority::Low;
        let due = |no| Timer { due: Millis(no), parcel: ParcelId::of(work(first), UserNo(1)), lane }.key();
        prop_assert_eq!(due(a).cmp(&due(b)), order);
        let (early, late) = (Bucket(a as u32), Bucket(b as u32));
        let hashes = (x.bytes(), y.bytes());
        prop_assert_eq!(
            idempotency::key(tenant, early, &hashes.0).cmp(&idempotency::key(tenant, late, &hashes.1)),
            (early, hashes.0).cmp(&(late, hashes.1)),
        );
    }
}
