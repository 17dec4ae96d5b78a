//! Windows as a sync point keeps them: the events that were not materialised when it was made, so that nothing
//! but the journal behind the marks is needed to open the store.
//!
//! ```text
//! chunk   event*
//! event   arrival−previous 0 list:16
//!         arrival−previous 1 count user−previous*
//! ```

use super::pack::{Cut, put_number};
use fantail_ports::inbox::{Audience, WindowEvent};
use fantail_rules::ids::{Arrival, ListId, UserNo};

/// Bytes after which a chunk is closed; a single event may be larger.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    pub first: Arrival,
    pub last: Arrival,
    pub bytes: Vec<u8>,
}

/// Packs one more event, later than all before.
pub fn pack(chunks: &mut Vec<Chunk>, event: &WindowEvent) {
    if chunks.last().is_none_or(|chunk| chunk.bytes.len() >= CHUNK_BYTES) {
        chunks.push(Chunk { first: event.arrival, last: Arrival::START, bytes: Vec::new() });
    }
    let chunk = chunks.last_mut().expect("a chunk was just pushed if there was none");
    put_event(&mut chunk.bytes, chunk.last, event);
    chunk.last = event.arrival;
}

fn put_event(out: &mut Vec<u8>, previous: Arrival, event: &WindowEvent) {
    put_number(out, event.arrival.0 - previous.0);
    match &event.audience {
        Audience::List(list) => {
            out.push(0);
            out.extend_from_slice(&list.0);
        }
        Audience::Members(users) => {
            out.push(1);
            put_number(out, users.len() as u64);
            let mut previous = 0;
            for user in users {
                put_number(out, user.0 - previous);
                previous = user.0;
            }
        }
    }
}

/// The events of a chunk; `None` if it is damaged.
pub fn decode(bytes: &[u8]) -> Option<Vec<WindowEvent>> {
    let (mut cut, mut events, mut arrival) = (Cut(bytes), Vec::new(), 0u64);
    while !cut.is_empty() {
        arrival = arrival.checked_add(cut.number()?)?;
        let audience = match cut.array::<1>()? {
            [0] => Audience::List(ListId(cut.array()?)),
            [1] => Audience::Members(take_users(&mut cut)?),
            _ => return None,
        };
        events.push(WindowEvent { arrival: Arrival(arrival), audience });
    }
    Some(events)
}

fn take_users(cut: &mut Cut<'_>) -> Option<Vec<UserNo>> {
    let (count, mut users, mut user) = (cut.number()?, Vec::new(), 0u64);
    for _ in 0..count {
        user = user.checked_add(cut.number()?)?;
        users.push(UserNo(user));
    }
    Some(users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(events: &[WindowEvent]) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        events.iter().for_each(|event| pack(&mut chunks, event));
        chunks
    }

    fn audience() -> impl Strategy<Value = Audience> {
        prop_oneof![
            any::<[u8; 16]>().prop_map(|list| Audience::List(ListId(list))),
            proptest::collection::btree_set(any::<u64>(), 0..2_000)
                .prop_map(|users| Audience::Members(users.into_iter().map(UserNo).collect())),
        ]
    }

    proptest! {
        #[test]
        fn chunks_round_trip(steps in proptest::collection::vec((1u64..1_000, audience()), 0..40)) {
            let mut arrival = 0;
            let events: Vec<_> = steps
                .into_iter()
                .map(|(step, audience)| {
                    arrival += step;
                    WindowEvent { arrival: Arrival(arrival), audience }
                })
                .collect();
            let chunks = packed(&events);
            let mut found = Vec::new();
            for chunk in chunks {
                let part = decode(&chunk.bytes).expect("what was encoded decodes");
                prop_assert_eq!(part.first().map(|event| event.arrival), Some(chunk.first));
                prop_assert_eq!(part.last().map(|event| event.arrival), Some(chunk.last));
                found.extend(part);
            }
            prop_assert_eq!(found, events);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ignored = decode(&bytes);
        }
    }

    #[test]
    fn layout_is_frozen() {
        let events = [
            WindowEvent { arrival: Arrival(5), audience: Audience::List(ListId([9; 16])) },
            WindowEvent { arrival: Arrival(7), audience: Audience::Members(vec![UserNo(3), UserNo(300)]) },
        ];
        let mut expected = vec![5, 0];
        expected.extend_from_slice(&[9; 16]);
        expected.extend_from_slice(&[2, 1, 2, 3, 0xa9, 2]);
        assert_eq!(packed(&events)[0].bytes, expected);
    }
}
