//! `Retry-After`: seconds or a date; what is neither is as if it were absent.

use fantail_rules::ids::Millis;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use std::time::UNIX_EPOCH;

/// Whoever asks for more does not want the message; the caller's own limits decide then.
pub const RETRY_AFTER_MS_MAX: u64 = 24 * 3_600 * 1_000;

/// `now` is the wall time.
#[must_use]
pub fn retry_after_ms(headers: &HeaderMap, now: Millis) -> Option<u64> {
    let text = headers.get(RETRY_AFTER).map(HeaderValue::to_str)?.ok()?.trim();
    let after_ms = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse::<u64>().map_or(u64::MAX, |seconds| seconds.saturating_mul(1_000))
    } else {
        let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        (date.as_secs() * 1_000).saturating_sub(now.0)
    };
    Some(after_ms.min(RETRY_AFTER_MS_MAX))
}
