//! Parcels, ledgers, and the records that change them.

use super::*;

pub fn work_id() -> impl Strategy<Value = WorkId> {
    let channel = any::<Index>().prop_map(|pick| *pick.get(&ChannelKind::ALL));
    (tenant(), arrival(), channel).prop_map(|(tenant, arrival, channel)| WorkId { tenant, arrival, channel })
}

pub fn parcel_id() -> impl Strategy<Value = ParcelId> {
    (work_id(), user()).prop_map(|(work, first)| ParcelId::of(work, first))
}

pub(super) fn state() -> impl Strategy<Value = State> {
    any::<Index>().prop_map(|pick| *pick.get(&State::ALL))
}

pub fn standing() -> impl Strategy<Value = Standing> {
    (state(), any::<u8>(), any::<u8>(), millis(), "[a-z_]{0,8}").prop_map(
        |(state, retries, resends, due, code)| Standing {
            state,
            retries,
            resends,
            due,
            code,
            was_authorised: false,
        },
    )
}

pub fn note() -> impl Strategy<Value = Note> {
    (millis(), state(), any::<(String, String, String)>())
        .prop_map(|(at, state, (code, message, provider_id))| Note { at, state, code, message, provider_id })
}

/// Users near each other and far apart, each with some devices.
pub fn parcel_members() -> impl Strategy<Value = Members> {
    let devices = btree_set(1..=DeviceNo::MAX.0, 1..4);
    btree_map(prop_oneof![0u64..50, any::<u64>()], devices, 0..20).prop_map(|users| {
        let mut collector = Collector::default();
        for (user, devices) in users {
            let devices: Vec<DeviceNo> = devices.into_iter().map(DeviceNo).collect();
            assert!(collector.add(UserNo(user), &devices, 1_000));
        }
        collector.finish()
    })
}

/// As many words as there are members.
pub(super) fn words(count: usize) -> impl Strategy<Value = Words<Standing>> {
    (vec(standing(), 1..5), vec(any::<Index>(), count)).prop_map(|(some, picks)| {
        let mut words = Words::empty();
        picks.iter().for_each(|pick| words.push(pick.get(&some).clone()));
        words
    })
}

pub(super) fn told() -> impl Strategy<Value = (Vec<u16>, Words<Standing>)> {
    btree_set(0u16..1_000, 0..20).prop_flat_map(|positions| {
        let count = positions.len();
        (Just(positions.into_iter().collect()), words(count))
    })
}

pub fn ledger_row() -> impl Strategy<Value = LedgerRow> {
    let members = parcel_members().prop_flat_map(|members| {
        let count = members.count();
        (Just(members), words(count))
    });
    (ulid(), terms(), any::<bool>(), any::<u16>(), millis(), members).prop_map(
        |(event, terms, is_tracked, round, begun, (members, standings))| LedgerRow {
            event,
            terms,
            is_tracked,
            round,
            begun,
            members,
            standings,
        },
    )
}

pub(super) fn counted() -> impl Strategy<Value = Counted> {
    let pace = any::<(u16, u32)>().prop_map(|(burst, refill_seconds)| Pace { burst, refill_seconds });
    let count = (any::<u16>(), option::of(pace)).prop_map(|(day, pace)| Count { day, pace });
    btree_map(any::<u16>(), count, 0..6).prop_map(|all| {
        let mut how = Words::empty();
        all.values().for_each(|count| how.push(*count));
        Counted { positions: all.into_keys().collect(), how }
    })
}

/// Of so many members.
fn consents(count: usize) -> impl Strategy<Value = Consents> {
    vec(prop_oneof![Just(0), 1u32..4, any::<u32>()], count).prop_map(Consents::of)
}

pub(super) fn intend() -> impl Strategy<Value = ShardRecord> {
    let members = ledger_row().prop_flat_map(|row| {
        let consents = consents(row.members.count());
        (Just(row.members), Just(row.standings), consents)
    });
    (work_id(), option::of(user()), any::<u64>(), members, counted()).prop_map(
        |(work, next, unreached, (members, verdicts, consents), counted)| {
            ShardRecord::Intend(Intend { work, next, unreached, members, verdicts, counted, consents })
        },
    )
}

fn told_with_consents() -> impl Strategy<Value = (Vec<u16>, Words<Standing>, Consents)> {
    told().prop_flat_map(|(positions, standings)| {
        let consents = consents(positions.len());
        (Just(positions), Just(standings), consents)
    })
}

pub(super) fn outcome() -> impl Strategy<Value = ShardRecord> {
    (parcel_id(), any::<u16>(), told(), option::of(note())).prop_map(
        |(parcel, round, (positions, standings), note)| {
            let notes = note.map_or_else(Vec::new, |note| vec![note; positions.len()]);
            ShardRecord::Outcome(Outcome { parcel, round, positions, standings, notes })
        },
    )
}

pub(super) fn delivery_record() -> impl Strategy<Value = ShardRecord> {
    prop_oneof![
        intend(),
        outcome(),
        (parcel_id(), any::<u16>(), millis(), told_with_consents(), counted()).prop_map(
            |(parcel, round, due, (positions, verdicts, consents), counted)| ShardRecord::Wake(Wake {
                parcel,
                round,
                due,
                positions,
                verdicts,
                counted,
                consents
            })
        ),
        (parcel_id(), any::<u16>(), standing(), note()).prop_map(|(parcel, position, standing, note)| {
            ShardRecord::Receipt(Receipt { parcel, position, standing, note })
        }),
        (parcel_id(), told()).prop_map(|(parcel, (positions, standings))| {
            ShardRecord::Redrive(Redrive { parcel, positions, standings })
        }),
        (work_id(), any::<String>()).prop_map(|(work, code)| ShardRecord::Closed { work, code }),
        (tenant(), vec(parcel_id(), 0..4), arrivals()).prop_map(|(tenant, parcels, arrivals)| {
            let parcels = parcels.into_iter().map(|parcel| ParcelId { tenant, ..parcel }).collect();
            ShardRecord::Swept(Swept { tenant, parcels, arrivals })
        }),
    ]
}

pub(super) fn given() -> impl Strategy<Value = ShardRecord> {
    let reason = any::<Index>().prop_map(|pick| *pick.get(&gates::Reason::ALL));
    let members = (members(), btree_map(user(), reason, 0..4));
    (any::<u16>(), any::<u64>(), tenant(), ulid(), any::<bool>(), option::of(delivery()), members).prop_map(
        |(front, position, tenant, event, is_late, delivery, (members, unwanted))| {
            let (front, position) = (FrontNo(front), Position(position));
            let unwanted = unwanted.into_iter().collect();
            ShardRecord::Given(Given { front, position, tenant, event, is_late, delivery, members, unwanted })
        },
    )
}
