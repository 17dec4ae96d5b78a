//! What an endpoint asks the stub to do: text such as `stub:ok`, `stub:429=2` or `stub:fail=20`.
//!
//! A name behind a slash tells endpoints apart (`stub:ok/ann`), since an address belongs to one user, and means nothing else.
//! Nothing is allocated here: on the way of a fan-out these few bytes are compared a million times a second.

/// What the endpoint wishes for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// `stub:ok`: taken at once.
    Ok,
    /// `stub:slow=50`: taken, and answered after so many milliseconds.
    Slow { ms: u64 },
    /// `stub:429` or `stub:429=2`: too many, come back after so many seconds.
    Busy { after_s: Option<u64> },
    /// `stub:500`: failed.
    Failed,
    /// `stub:503`: down.
    Down,
    /// `stub:dead`: the endpoint does not exist any more.
    Dead,
    /// `stub:malformed`: the payload is refused.
    Malformed,
    /// `stub:unwanted`: the recipient wants nothing more.
    Unwanted,
    /// `stub:timeout`: taken, but the answer is lost.
    AnswerLost,
    /// `stub:lost`: not taken, and the answer is lost as well.
    Lost,
    /// `stub:refused`: no connection.
    Refused,
    /// `stub:fail=20`: this share of attempts fails.
    Fail { percent: u8 },
    /// `stub:fail-first=2`: so many attempts fail, the next one is taken.
    FailFirst { attempts: u8 },
}

const SCHEME: &[u8] = b"stub:";
/// Mail addresses wish before the `@`. The domain is reserved for tests and never anybody's.
const MAIL: &[u8] = b"@stub.test";
/// Numbers of a country that does not exist are taken.
const PHONE: &[u8] = b"+999";
/// An hour: a longer wait in an endpoint is a slip of the pen.
const SLOW_MS_MAX: u64 = 3_600_000;
const AFTER_S_MAX: u64 = 86_400;

/// Whether this is an endpoint of the stub, whatever it wishes for.
#[must_use]
pub fn is_of_stub(endpoint: &[u8]) -> bool {
    let endpoint = token(endpoint);
    endpoint.starts_with(SCHEME) || endpoint.ends_with(MAIL) || endpoint.starts_with(PHONE)
}

/// `None` if this is no endpoint of the stub.
#[must_use]
pub fn wish(endpoint: &[u8]) -> Option<Wish> {
    let endpoint = token(endpoint);
    let rest = match endpoint.strip_prefix(SCHEME) {
        Some(rest) => rest,
        None if endpoint.starts_with(PHONE) => return Some(Wish::Ok),
        None => endpoint.strip_suffix(MAIL)?,
    };
    if rest == b"ok" || rest.starts_with(b"ok/") {
        return Some(Wish::Ok);
    }
    let rest = rest.split(|byte| *byte == b'/').next()?;
    match split(rest) {
        (b"slow", Some(number)) => up_to(number, SLOW_MS_MAX).map(|ms| Wish::Slow { ms }),
        (b"429", None) => Some(Wish::Busy { after_s: None }),
        (b"429", Some(number)) => up_to(number, AFTER_S_MAX).map(|s| Wish::Busy { after_s: Some(s) }),
        (b"500", None) => Some(Wish::Failed),
        (b"503", None) => Some(Wish::Down),
        (b"dead", None) => Some(Wish::Dead),
        (b"malformed", None) => Some(Wish::Malformed),
        (b"unwanted", None) => Some(Wish::Unwanted),
        (b"timeout", None) => Some(Wish::AnswerLost),
        (b"lost", None) => Some(Wish::Lost),
        (b"refused", None) => Some(Wish::Refused),
        (b"fail", Some(number)) => {
            let percent = u8::try_from(up_to(number, 100)?).ok()?;
            Some(Wish::Fail { percent })
        }
        (b"fail-first", Some(number)) => {
            let attempts = u8::try_from(up_to(number, u64::from(u8::MAX))?).ok()?;
            Some(Wish::FailFirst { attempts })
        }
        _ => None,
    }
}

/// A push address is a line that ends with its token; other endpoints have no spaces.
fn token(endpoint: &[u8]) -> &[u8] {
    match endpoint.starts_with(b"fcm ") {
        true => endpoint.rsplit(|byte| *byte == b' ').next().unwrap_or(endpoint),
        false => endpoint,
    }
}

fn split(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == b'=') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn up_to(digits: &[u8], max: u64) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| *number <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(endpoint: &str, expected: Option<Wish>) {
        assert_eq!(wish(endpoint.as_bytes()), expected, "{endpoint}");
    }

    #[test]
    fn endpoints_are_wishes() {
        check("stub:ok", Some(Wish::Ok));
        check("stub:ok/ann", Some(Wish::Ok));
        check("stub:429=2/ann", Some(Wish::Busy { after_s: Some(2) }));
        check("ok/ann@stub.test", Some(Wish::Ok));
        check("429=2/ann@stub.test", Some(Wish::Busy { after_s: Some(2) }));
        check("+99912345678", Some(Wish::Ok));
        check("fcm token 12 - stub:dead/ann", Some(Wish::Dead));
        check("stub:okay", None);
        check("stub:slow=50", Some(Wish::Slow { ms: 50 }));
        check("stub:429", Some(Wish::Busy { after_s: None }));
        check("stub:429=2", Some(Wish::Busy { after_s: Some(2) }));
        check("stub:500", Some(Wish::Failed));
        check("stub:503", Some(Wish::Down));
        check("stub:dead", Some(Wish::Dead));
        check("stub:malformed", Some(Wish::Malformed));
        check("stub:unwanted", Some(Wish::Unwanted));
        check("stub:timeout", Some(Wish::AnswerLost));
        check("stub:lost", Some(Wish::Lost));
        check("stub:refused", Some(Wish::Refused));
        check("stub:fail=20", Some(Wish::Fail { percent: 20 }));
        check("stub:fail-first=2", Some(Wish::FailFirst { attempts: 2 }));
    }

    #[test]
    fn what_is_no_wish_is_refused() {
        for endpoint in [
            "",
            "stub:",
            "ok",
            "Stub:ok",
            "stub:okay",
            "stub:ok=1",
            "stub:slow",
            "stub:slow=",
            "stub:slow=-1",
            "stub:slow=+1",
            "stub:slow=3600001",
            "stub:429=x",
            "stub:fail=101",
            "stub:fail-first=256",
            "stub:dead=1",
            " stub:ok",
            "ann@stub.test",
            "ok@example.com",
            "+43660123456",
        ] {
            check(endpoint, None);
        }
    }
}
