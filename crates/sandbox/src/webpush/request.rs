//! What RFC 8030 wants of a message besides who sends it. Pure.

use hyper::http::HeaderMap;

const BODY_BYTES_MAX: usize = 4_096;
const TOPIC_MAX: usize = 32;
/// Four weeks: who asks for more gets this.
const TTL_SECONDS_MAX: u64 = 2_419_200;
const URGENCIES: &[&str] = &["very-low", "low", "normal", "high"];

/// What the headers say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    pub ttl_seconds: u64,
    pub urgency: String,
    pub topic: Option<String>,
}

/// A status, the number that autopush gives it, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub status: u16,
    pub errno: u16,
    pub message: &'static str,
}

const fn bad(errno: u16, message: &'static str) -> Refusal {
    Refusal { status: 400, errno, message }
}

pub fn check(headers: &HeaderMap, body: &[u8]) -> Result<Terms, Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let ttl = text("ttl").ok_or(bad(111, "the TTL header is missing"))?;
    let ttl_seconds: u64 = ttl.trim().parse().map_err(|_| bad(112, "the TTL header is no number"))?;
    let urgencies: Vec<&str> = headers
        .get_all("urgency")
        .iter()
        .flat_map(|value| value.to_str().unwrap_or("?").split(','))
        .map(str::trim)
        .collect();
    let urgency = match urgencies[..] {
        [] => "normal",
        [one] if URGENCIES.contains(&one) => one,
        _ => return Err(bad(110, "the Urgency header is not one of four words")),
    };
    let topic = text("topic").map(str::to_owned);
    if headers.contains_key("topic") && !topic.as_deref().is_some_and(is_topic) {
        return Err(bad(113, "the Topic header is not up to 32 characters of base64url"));
    }
    if body.len() > BODY_BYTES_MAX {
        return Err(Refusal { status: 413, errno: 104, message: "the body is longer than 4096 bytes" });
    }
    if !body.is_empty() && text("content-encoding") != Some("aes128gcm") {
        return Err(bad(110, "the Content-Encoding is not aes128gcm"));
    }
    let ttl_seconds = ttl_seconds.min(TTL_SECONDS_MAX);
    Ok(Terms { ttl_seconds, urgency: urgency.to_owned(), topic })
}

fn is_topic(topic: &str) -> bool {
    (1..=TOPIC_MAX).contains(&topic.len())
        && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::http::{HeaderName, HeaderValue};

    fn map(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in given {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"));
        }
        map
    }

    #[test]
    fn headers_and_bodies_are_judged() {
        let (ttl, coding) = (("ttl", "60"), ("content-encoding", "aes128gcm"));
        let (long_topic, topic) = ("t".repeat(33), "t".repeat(32));
        for (given, length, expected) in [
            (vec![ttl, coding], 4_096, Ok(60)),
            (vec![ttl], 0, Ok(60)),
            (vec![("ttl", "0")], 0, Ok(0)),
            (vec![("ttl", "9999999")], 0, Ok(2_419_200)),
            (vec![coding], 10, Err(400)),
            (vec![("ttl", "-1")], 0, Err(400)),
            (vec![("ttl", "soon")], 0, Err(400)),
            (vec![ttl], 10, Err(400)),
            (vec![ttl, ("content-encoding", "aesgcm")], 10, Err(400)),
            (vec![ttl, coding], 4_097, Err(413)),
            (vec![ttl, ("urgency", "high")], 0, Ok(60)),
            (vec![ttl, ("urgency", "high, low")], 0, Err(400)),
            (vec![ttl, ("urgency", "high"), ("urgency", "low")], 0, Err(400)),
            (vec![ttl, ("urgency", "loud")], 0, Err(400)),
            (vec![ttl, ("topic", topic.as_str())], 0, Ok(60)),
            (vec![ttl, ("topic", long_topic.as_str())], 0, Err(400)),
            (vec![ttl, ("topic", "a/b")], 0, Err(400)),
            (vec![ttl, ("topic", "")], 0, Err(400)),
        ] {
            let found = check(&map(&given), &vec![0; length]);
            let found = found.map(|terms| terms.ttl_seconds).map_err(|refusal| refusal.status);
            assert_eq!(found, expected, "{given:?} {length}");
        }
    }
}
