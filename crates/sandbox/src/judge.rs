//! Compares what a sender says it sent with what arrived.
//!
//! It knows the record and nothing of the pipeline: what it counts was seen on a socket.

use crate::record::{Counts, Row, hex};
use serde_json::{Value, json};
use std::collections::HashMap;

/// A send that somebody accepted and answers for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Send {
    pub id: String,
    /// If given, only arrivals for this recipient count.
    pub recipient: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// Sends that arrived exactly once.
    pub unique: u64,
    pub repeated: Vec<Repeated>,
    pub missing: Vec<Send>,
    /// Arrivals that nobody claims.
    pub unexpected: Vec<Unexpected>,
    /// Listed twice by the sender itself: counted once.
    pub listed_twice: u64,
    /// Arrivals the record had no room for. If there are any, the verdict says nothing.
    pub unrecorded: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repeated {
    pub send: Send,
    pub times: u64,
    /// Of these, how many were answered: a repeat after an answer has no excuse.
    pub answered: u64,
    /// Different contents under one id.
    pub differing: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unexpected {
    pub emulator: &'static str,
    pub id: String,
    pub recipient: String,
    pub sha256: String,
}

/// Examples of each kind in an answer; the counts are always whole.
const LISTED_MAX: usize = 1_000;

#[must_use]
pub fn judge(rows: &[Row], counts: Counts, sends: &[Send]) -> Verdict {
    let mut verdict = Verdict { unrecorded: counts.unrecorded, ..Verdict::default() };
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        by_id.entry(&row.id).or_default().push(at);
    }
    let mut claimed = vec![false; rows.len()];
    let mut seen: HashMap<(&str, Option<&str>), ()> = HashMap::with_capacity(sends.len());
    for send in sends {
        if seen.insert((&send.id, send.recipient.as_deref()), ()).is_some() {
            verdict.listed_twice += 1;
            continue;
        }
        let of_recipient = |at: &&usize| {
            send.recipient.as_deref().is_none_or(|recipient| recipient == &*rows[**at].recipient)
        };
        let arrived: Vec<usize> =
            by_id.get(send.id.as_str()).into_iter().flatten().filter(of_recipient).copied().collect();
        for at in &arrived {
            claimed[*at] = true;
        }
        match arrived.as_slice() {
            [] => verdict.missing.push(send.clone()),
            [_] => verdict.unique += 1,
            [first, ..] => verdict.repeated.push(Repeated {
                send: send.clone(),
                times: arrived.len() as u64,
                answered: arrived.iter().filter(|at| rows[**at].answered).count() as u64,
                differing: arrived.iter().any(|at| rows[*at].sha256 != rows[*first].sha256),
            }),
        }
    }
    let strangers = rows.iter().zip(&claimed).filter(|(_, claimed)| !**claimed);
    verdict.unexpected = strangers
        .map(|(row, _)| Unexpected {
            emulator: row.emulator,
            id: row.id.to_string(),
            recipient: row.recipient.to_string(),
            sha256: hex(&row.sha256),
        })
        .collect();
    verdict
}

impl Send {
    /// `{"id": …, "recipient": …}` or the id alone.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        if let Some(id) = value.as_str() {
            return Some(Self { id: id.to_owned(), recipient: None });
        }
        let recipient = match value.get("recipient") {
            None | Some(Value::Null) => None,
            Some(recipient) => Some(recipient.as_str()?.to_owned()),
        };
        Some(Self { id: value.get("id")?.as_str()?.to_owned(), recipient })
    }

    fn write(&self) -> Value {
        json!({"id": self.id, "recipient": self.recipient})
    }
}

impl Verdict {
    #[must_use]
    pub fn is_exactly_once(&self) -> bool {
        self.is_complete()
            && self.repeated.is_empty()
            && self.missing.is_empty()
            && self.unexpected.is_empty()
    }

    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unrecorded == 0
    }

    #[must_use]
    pub fn write(&self) -> Value {
        let repeated = self.repeated.iter().take(LISTED_MAX).map(|repeated| {
            let mut value = repeated.send.write();
            value["times"] = repeated.times.into();
            value["answered"] = repeated.answered.into();
            value["differing"] = repeated.differing.into();
            value
        });
        let unexpected = self.unexpected.iter().take(LISTED_MAX).map(|row| {
            json!({"emulator": row.emulator, "id": row.id, "recipient": row.recipient, "sha256": row.sha256})
        });
        json!({
            "complete": self.is_complete(),
            "unique": self.unique,
            "repeated": repeated.collect::<Vec<_>>(),
            "repeatedCount": self.repeated.len(),
            "missing": self.missing.iter().take(LISTED_MAX).map(Send::write).collect::<Vec<_>>(),
            "missingCount": self.missing.len(),
            "unexpected": unexpected.collect::<Vec<_>>(),
            "unexpectedCount": self.unexpected.len(),
            "listedTwice": self.listed_twice,
            "unrecorded": self.unrecorded,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::arrival;
    use crate::record::{Arrival, Limits, Record, sha256};

    fn check(arrived: &[(&str, &str)], sends: &[(&str, Option<&str>)], expected: [u64; 4]) {
        let record = Record::new(Limits::default());
        for (id, recipient) in arrived {
            record.add(arrival(id, recipient));
        }
        let sends: Vec<Send> = sends
            .iter()
            .map(|(id, recipient)| Send { id: (*id).to_owned(), recipient: recipient.map(str::to_owned) })
            .collect();
        let verdict = record.read(|rows, counts| judge(rows, counts, &sends));
        let found = [
            verdict.unique,
            verdict.repeated.len() as u64,
            verdict.missing.len() as u64,
            verdict.unexpected.len() as u64,
        ];
        assert_eq!(found, expected, "{arrived:?} {sends:?}");
        assert_eq!(verdict.is_exactly_once(), expected[1..] == [0, 0, 0]);
    }

    #[test]
    fn every_send_is_unique_repeated_or_missing() {
        check(&[], &[], [0, 0, 0, 0]);
        check(&[("a", "x")], &[("a", None)], [1, 0, 0, 0]);
        check(&[("a", "x"), ("a", "x")], &[("a", Some("x"))], [0, 1, 0, 0]);
        check(&[("a", "x")], &[("a", Some("y"))], [0, 0, 1, 1]);
        check(&[("a", "x"), ("a", "y")], &[("a", Some("x")), ("a", Some("y"))], [2, 0, 0, 0]);
        check(&[("a", "x"), ("b", "y")], &[("a", None), ("a", None)], [1, 0, 0, 1]);
        check(&[], &[("a", None)], [0, 0, 1, 0]);
    }

    #[test]
    fn a_repeat_tells_whether_it_was_answered_and_the_same() {
        let record = Record::new(Limits::default());
        let first = record.add(arrival("a", "x"));
        record.answered(first);
        record.add(Arrival { sha256: sha256(b"other"), ..arrival("a", "x") });
        let sends = [Send { id: "a".to_owned(), recipient: None }];
        let verdict = record.read(|rows, counts| judge(rows, counts, &sends));
        let [repeated] = &verdict.repeated[..] else { panic!("{verdict:?}") };
        assert_eq!((repeated.times, repeated.answered, repeated.differing), (2, 1, true));
        assert_eq!(verdict.write()["repeated"][0]["times"], json!(2));
    }

    #[test]
    fn an_incomplete_record_acquits_nobody() {
        let record = Record::new(Limits { rows: 0, ..Limits::default() });
        record.add(arrival("a", "x"));
        let verdict = record.read(|rows, counts| judge(rows, counts, &[]));
        assert!(!verdict.is_exactly_once() && !verdict.is_complete());
    }

    #[test]
    fn refused_arrivals_are_not_judged() {
        let record = Record::new(Limits::default());
        record.add(Arrival { refused: Some("BadTopic".to_owned()), ..arrival("a", "x") });
        let sends = [Send { id: "a".to_owned(), recipient: None }];
        let verdict = record.read(|rows, counts| judge(rows, counts, &sends));
        assert_eq!(verdict.missing.len(), 1);
    }
}
