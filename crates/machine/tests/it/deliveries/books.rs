//! A tally that is not what the ledgers say is found and named, whatever the size of the steps.

use super::audit::imbalances;
use super::*;
use fantail_machine::books::{Imbalance, Of, What};
use fantail_machine::tables::Row;
use fantail_machine::view::View;
use fantail_ports::tables::Changes;

/// What is found after a change to the tables of a shard in which three deliveries are under way and one work waits.
fn check(tamper: impl Fn(&mut View<'_>, ParcelId), expected: impl Fn(ParcelId) -> Vec<Imbalance>) {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..3).map(|name| user_with(&mut node, name, 1)).collect();
    node.delivery = Some(by(&[PUSH]));
    node.send(&users);
    node.take_all();
    let first = work(&node);
    let (allowed, _) = intend(&mut node, first, 2);
    intend(&mut node, first, 2);
    node.send(&users);
    node.take_all();
    let parcel = allowed.expect("two may be sent").parcel;
    node.read_shard(|state| {
        let mut changes = Changes::new();
        let mut view = View::new(state.tables(), &[], &mut changes);
        tamper(&mut view, parcel);
        for rows_max in [1, 2, 100] {
            assert_eq!(imbalances(&view, rows_max), expected(parcel), "{rows_max} at a time");
        }
    });
}

fn event_key(parcel: ParcelId) -> Vec<u8> {
    tally::key(parcel.tenant, parcel.arrival, parcel.channel)
}

// proves: DEL-14
#[test]
fn a_wrong_tally_is_named() {
    let under_way = |parcel: ParcelId, of, kept, counted| {
        vec![Imbalance { tenant: parcel.tenant, of, what: What::Deliveries(State::Intent), kept, counted }]
    };
    check(|_, _| {}, |_| Vec::new());
    check(
        |view, parcel| {
            let mut tally = tally::find(view, &event_key(parcel)).unwrap();
            tally.enter(State::Intent, 2);
            view.put(event_key(parcel), tally.encode());
        },
        |parcel| under_way(parcel, Of::Event(parcel.work()), 5, 3),
    );
    check(
        |view, parcel| view.delete(event_key(parcel)),
        |parcel| under_way(parcel, Of::Event(parcel.work()), 0, 3),
    );
    check(
        |view, parcel| {
            let key = tally::lane_key(parcel.tenant, Priority::Normal);
            let mut tally = tally::find(view, &key).unwrap();
            tally.leave(State::Intent, 1);
            view.put(key, tally.encode());
        },
        |parcel| under_way(parcel, Of::Lane(Priority::Normal), 2, 3),
    );
    // A lost ledger is missed by its event and by its lane.
    check(
        |view, parcel| view.delete(parcel.key()),
        |parcel| {
            let mut found = under_way(parcel, Of::Event(parcel.work()), 3, 1);
            found.extend(under_way(parcel, Of::Lane(Priority::Normal), 3, 1));
            found
        },
    );
    // Work that nobody will find again.
    check(
        |view, parcel| {
            let arrival = parcel.arrival.next();
            view.delete(WorkId { arrival, ..parcel.work() }.key());
        },
        |parcel| {
            let of = Of::Lane(Priority::Normal);
            vec![Imbalance { tenant: parcel.tenant, of, what: What::OpenWork, kept: 1, counted: 0 }]
        },
    );
}
