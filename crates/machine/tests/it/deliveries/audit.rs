//! What is kept about deliveries equals a recount over all ledgers.

use crate::harness::Node;
use fantail_machine::books::{Books, Imbalance};
use fantail_machine::shard::collect::COLLECTED;
use fantail_machine::tables::ledger::{LedgerRow, ParcelId, Timer};
use fantail_machine::tables::tally::Tally;
use fantail_machine::tables::waiting::{self, Waiting};
use fantail_machine::tables::window::ItemRow;
use fantail_machine::tables::work::WorkRow;
use fantail_machine::tables::{Family, Row};
use fantail_ports::tables::{KeyRange, Order, Tables};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::gates::Reason;
use fantail_rules::ids::{Arrival, Millis, Position, TenantId, UserNo};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn rows(tables: &dyn Tables, family: Family) -> Rows {
    let (from, to) = ([family as u8], [family as u8 + 1]);
    let mut found = Rows::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        found.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    };
    tables.scan(KeyRange { from: &from, to: &to }, Order::Ascending, visit).unwrap();
    found
}

/// The layout as its file describes it.
fn parcel_of(key: &[u8]) -> ParcelId {
    assert_eq!(key.len(), 22);
    ParcelId {
        tenant: TenantId(u32::from_be_bytes(key[1..5].try_into().unwrap())),
        arrival: Arrival(u64::from_be_bytes(key[5..13].try_into().unwrap())),
        channel: ChannelKind::from_stored(key[13]).unwrap(),
        first: UserNo(u64::from_be_bytes(key[14..22].try_into().unwrap())),
    }
}

/// All ledgers of a shard.
pub fn ledgers(tables: &dyn Tables) -> Vec<(ParcelId, LedgerRow)> {
    let found = rows(tables, Family::Ledger).into_iter();
    found.map(|(key, value)| (parcel_of(&key), LedgerRow::decode(&value).unwrap())).collect()
}

/// What a walk over the books finds, some rows at a time.
pub fn imbalances(tables: &dyn Tables, rows_max: usize) -> Vec<Imbalance> {
    let (mut books, mut found) = (Books::begin(Position(7)), Vec::new());
    while !books.is_done() {
        found.extend(books.step(tables, Position(7), rows_max).unwrap());
    }
    found
}

/// Tallies, timers, to-do rows and dead letters are exactly what the ledgers say, and nobody is in two of them.
pub fn audit(node: &Node) {
    node.read_shard(|state| {
        let tables = state.tables();
        assert_eq!((imbalances(tables, 2), imbalances(tables, 1_000)), (Vec::new(), Vec::new()));
        let (mut timers, mut under_way, mut dead) = (Rows::new(), Rows::new(), Rows::new());
        let (mut events, mut lanes): (BTreeMap<_, Tally>, BTreeMap<_, Tally>) = Default::default();
        let (mut known, mut collected) = (BTreeSet::new(), BTreeSet::new());
        for (parcel, ledger) in ledgers(tables) {
            assert_eq!(ledger.members.count(), ledger.standings.codes.len());
            let lane = ledger.terms.lane as u8;
            for (member, standing) in ledger.members.iter().zip(ledger.standings.iter()) {
                let is_new = known.insert((parcel.tenant, parcel.arrival, parcel.channel as u8, member));
                assert!(is_new, "{member:?} is in two parcels of {parcel:?}");
                let is_waiting = matches!(standing.state, State::Deferred | State::Unknown);
                // What waits in a window has no time of its own.
                let is_collected = standing.state == State::Deferred && standing.code == COLLECTED;
                assert_eq!(standing.due > Millis(0), is_waiting && !is_collected, "{standing:?}");
                if is_collected {
                    collected.insert((parcel.tenant, parcel.arrival, parcel.first));
                }
                let of_event = (parcel.tenant, parcel.arrival, parcel.channel as u8);
                events.entry(of_event).or_default().enter(standing.state, 1);
                lanes.entry((parcel.tenant, lane)).or_default().enter(standing.state, 1);
                if is_waiting && !is_collected {
                    let (due, lane) = (standing.due, ledger.terms.lane);
                    timers.insert(Timer { due, parcel, lane }.key(), Vec::new());
                }
                if standing.state == State::Intent {
                    under_way.insert(parcel.under_way_key(), vec![lane]);
                }
                if standing.state == State::Dead {
                    dead.insert(parcel.dead_key(), Vec::new());
                }
            }
        }
        check_collected(tables, collected);
        assert_eq!(rows(tables, Family::Timer), timers, "timers");
        assert_eq!(rows(tables, Family::UnderWay), under_way, "what may be under way");
        check_waiting(tables);
        assert_eq!(rows(tables, Family::Dead), dead, "dead letters");
        for (key, value) in rows(tables, Family::Tally) {
            let kept = Tally::decode(&value).unwrap();
            let parcel = parcel_of(&[&key[..], &[0; 8]].concat());
            let of_event = (parcel.tenant, parcel.arrival, parcel.channel as u8);
            let counted = events.remove(&of_event).unwrap_or_default();
            check(&kept, &counted);
        }
        assert!(events.values().all(|left| left.all() == 0), "every ledger has a tally");
        for work in rows(tables, Family::Work) {
            let tenant = TenantId(u32::from_be_bytes(work.0[1..5].try_into().unwrap()));
            let lane = WorkRow::decode(&work.1).unwrap().terms.lane as u8;
            lanes.entry((tenant, lane)).or_default().open += 1;
        }
        for (key, value) in rows(tables, Family::SweptTally) {
            let tenant = TenantId(u32::from_be_bytes(key[1..5].try_into().unwrap()));
            let swept = Tally::decode(&value).unwrap();
            assert_eq!(swept.in_flight(), 0, "only what has ended is swept");
            lanes.entry((tenant, key[5])).or_default().join(&swept);
        }
        for (key, value) in rows(tables, Family::LaneTally) {
            let tenant = TenantId(u32::from_be_bytes(key[1..5].try_into().unwrap()));
            let counted = lanes.remove(&(tenant, key[5])).unwrap_or_default();
            let kept = Tally::decode(&value).unwrap();
            check(&kept, &counted);
            assert_eq!(kept.open, counted.open, "work that is open");
        }
        assert!(lanes.values().all(|left| left.all() + left.open == 0), "every lane has a tally");
    });
}

/// The index names every user with a delivery that waits at a gate, and nobody else.
fn check_waiting(tables: &dyn Tables) {
    let mut waiting = Rows::new();
    for (parcel, ledger) in ledgers(tables) {
        let row = Waiting { arrival: parcel.arrival, channel: parcel.channel };
        for (member, standing) in ledger.members.iter().zip(ledger.standings.iter()) {
            if standing.state == State::Deferred && Reason::parse(&standing.code).is_some() {
                waiting.insert(waiting::key(parcel.tenant, member.user, row), Vec::new());
            }
        }
    }
    assert_eq!(rows(tables, Family::Waiting), waiting);
}

/// What waits for a window is in one.
fn check_collected(tables: &dyn Tables, mut collected: BTreeSet<(TenantId, Arrival, UserNo)>) {
    for (key, value) in rows(tables, Family::WindowItem) {
        let tenant = TenantId(u32::from_be_bytes(key[1..5].try_into().unwrap()));
        let arrival = Arrival(u64::from_be_bytes(key[13..].try_into().unwrap()));
        collected.remove(&(tenant, arrival, ItemRow::decode(&value).unwrap().first));
    }
    assert!(collected.is_empty(), "{collected:?}");
}

fn check(kept: &Tally, counted: &Tally) {
    for state in State::ALL {
        assert_eq!(kept.of(state), counted.of(state), "{state:?}");
    }
    let terminal = State::ALL.into_iter().filter(|state| state.is_terminal());
    let terminal: u64 = terminal.map(|state| kept.of(state)).sum();
    assert_eq!(kept.all(), terminal + kept.in_flight(), "what was ever planned has ended or is in flight");
}
