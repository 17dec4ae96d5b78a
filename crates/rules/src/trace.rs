//! The names of traces and spans: derived from what they are about, so that no record has to carry them.
//!
//! Comes from: an event's id, and the `traceparent` of whoever asked. Decides: which trace a span belongs to. Goes to:
//! spans that are exported, and traces that are told on demand; both name the same.
//!
//! A notification is a trace of its own, named by its id: what is sent hours later, by another process, finds it again.
//! The caller's trace is linked and not continued, since one request may hold a thousand notifications.

use crate::ulid::Ulid;

/// 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceId(pub u128);

/// 16 hexadecimal digits, never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpanId(pub u64);

/// A span among all traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub trace: TraceId,
    pub span: SpanId,
}

impl TraceId {
    #[must_use]
    pub fn of_event(event: Ulid) -> Self {
        Self(event.0)
    }

    /// Of one parcel of a list: a post to millions is not one trace of a million spans.
    #[must_use]
    pub fn of_parcel(event: Ulid, numbers: &[u64]) -> Self {
        let half = |name| u128::from(SpanId::of(event, name, numbers).0);
        Self(half("trace, upper half") << 64 | half("trace, lower half"))
    }

    #[must_use]
    pub fn text(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl SpanId {
    /// By what it is about: the same question gives the same id. FNV-1a, finished so that near numbers fall far apart.
    #[must_use]
    pub fn of(event: Ulid, name: &str, numbers: &[u64]) -> Self {
        let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
        let bytes = event.bytes().into_iter().chain(name.bytes()).chain([0]).chain(numbers);
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mixed = (hash ^ (hash >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed ^ (mixed >> 29)).max(1))
    }

    #[must_use]
    pub fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// Where everything of an event hangs.
#[must_use]
pub fn root(event: Ulid) -> Place {
    Place { trace: TraceId::of_event(event), span: SpanId::of(event, "accept", &[]) }
}

/// Reads a `traceparent` as W3C Trace Context has it. What is malformed counts as absent, as it asks for.
#[must_use]
pub fn origin(traceparent: &str) -> Option<Place> {
    let mut parts = traceparent.split('-');
    let version = hex(parts.next()?, 2)?;
    let (trace, span) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?);
    hex(parts.next()?, 2)?;
    // Later versions may say more behind; this one has nothing.
    if version == 0xff || (version == 0 && parts.next().is_some()) || trace == 0 || span == 0 {
        return None;
    }
    Some(Place { trace: TraceId(trace), span: SpanId(u64::try_from(span).ok()?) })
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == digits && text.bytes().all(is_plain)).then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    // proves: OBS-02
    #[test]
    fn a_traceparent_is_read_or_counts_as_absent() {
        for good in ["00-{t}-{s}-01", "00-{t}-{s}-00", "01-{t}-{s}-01-more", "fe-{t}-{s}-ff"] {
            let text = good.replace("{t}", TRACE).replace("{s}", SPAN);
            let found = origin(&text).expect(&text);
            assert_eq!(
                (found.trace.text(), found.span.text()),
                (TRACE.to_owned(), SPAN.to_owned()),
                "{text}"
            );
        }
        for bad in [
            "",
            "00",
            "00-{t}-{s}",
            "00-{t}-{s}-01-more",
            "ff-{t}-{s}-01",
            "00-{t}-{s}-1",
            "00-{t}-{s}-0g",
            "00-{s}-{t}-01",
            "00-{T}-{s}-01",
            "00-00000000000000000000000000000000-{s}-01",
            "00-{t}-0000000000000000-01",
            " 00-{t}-{s}-01",
            "00-{t}-{s}-01 ",
            "+0-{t}-{s}-01",
            "00-é-{s}-01",
        ] {
            let text = bad.replace("{t}", TRACE).replace("{T}", &TRACE.to_uppercase()).replace("{s}", SPAN);
            assert_eq!(origin(&text), None, "{text}");
        }
    }

    #[test]
    fn ids_are_of_what_they_are_about() {
        let (one, other) = (Ulid(7), Ulid(8));
        assert_eq!(SpanId::of(one, "send", &[1, 2]), SpanId::of(one, "send", &[1, 2]));
        let mut seen = BTreeSet::new();
        for event in [one, other] {
            for name in ["accept", "admit", "send"] {
                for number in 0..1_000 {
                    assert!(seen.insert(SpanId::of(event, name, &[number, 1]).0), "{name} {number}");
                }
            }
        }
        assert_ne!(TraceId::of_parcel(one, &[1]), TraceId::of_parcel(one, &[2]));
        assert_eq!(root(one).trace, TraceId(7));
    }
}
