//! What clients send back in the head of a request: cursors, keys, times.

use fantail_api::cursor::{Owner, of_inbox, of_names, to_before, to_names, to_since};
use fantail_api::{key, time};
use fantail_fuzz::{Corpus, fuzz};
use fantail_node::ask::InboxFrom;
use fantail_rules::ids::{Arrival, TenantId};

const ANN: Owner<'static> = Owner { tenant: TenantId(1), name: "ann" };
const BOB: Owner<'static> = Owner { tenant: TenantId(1), name: "bob" };

#[test]
fn cursors_are_read_or_refused() {
    let inbox = |from| of_inbox(ANN, from).expect("a cursor").into_bytes();
    let inputs = vec![
        inbox(InboxFrom::Before(Arrival(7))),
        inbox(InboxFrom::Since(Arrival(u64::MAX))),
        of_names(ANN, "topic/news").into_bytes(),
        of_names(BOB, "").into_bytes(),
    ];
    let given = inputs.clone();
    fuzz("cursor", &Corpus::new(inputs, &["A", "_", "-", "=", "AA"]), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        for owner in [ANN, BOB] {
            let read = [
                to_before(owner, text).and_then(|arrival| of_inbox(owner, InboxFrom::Before(arrival))),
                to_since(owner, text).and_then(|arrival| of_inbox(owner, InboxFrom::Since(arrival))),
                to_names(owner, text).map(|place| of_names(owner, &place)),
            ];
            for again in read.into_iter().flatten() {
                assert_eq!(again, text, "one place has one cursor");
                assert!(given.iter().any(|given| given == input), "no other text is a cursor: {text}");
            }
        }
    });
}

#[test]
fn keys_and_times_are_read_or_refused() {
    let inputs = [
        "fk_live_0123456789abcdef_0123456789abcdef0123456789abcdef",
        "2026-11-16T08:30:00.250Z",
        "2026-11-16T08:30:00+05:45",
        "-009999-01-02T01:59:59Z",
        "9999-12-30T22:00:00.999999999Z",
    ];
    let corpus =
        Corpus::new(inputs.map(|text| text.as_bytes().to_vec()).to_vec(), &["_", "fk", ":", "-", "Z", "T"]);
    fuzz("key or time", &corpus, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Some(at) = time::parse(text) {
            assert_eq!(time::parse(&time::text(at)), Some(at), "a time is written as it is read");
        }
        let _read = (key::read(text), key::is_admin_key(text));
    });
}
