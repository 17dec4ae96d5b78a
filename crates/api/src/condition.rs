//! What a caller believes to be in force: `If-Match` with a version in quotes, or `If-None-Match: *` for nothing.

use crate::problem::Problem;
use axum::http::{HeaderMap, HeaderName, header};
use fantail_node::ask::templates::Expect;
use fantail_wire::code::Code;

pub fn expect_of(headers: &HeaderMap) -> Result<Expect, Problem> {
    let (wanted, unwanted) = (only(headers, header::IF_MATCH)?, only(headers, header::IF_NONE_MATCH)?);
    match (wanted, unwanted) {
        (None, None) => Ok(Expect::Unsaid),
        (Some("*"), None) => Ok(Expect::Present),
        (Some(tag), None) => version(tag)
            .map(Expect::Version)
            .ok_or_else(|| Problem::field("/If-Match", "must be * or one version in quotes, like \"3\"")),
        (None, Some("*")) => Ok(Expect::Absent),
        (None, Some(_)) => Err(Problem::field("/If-None-Match", "can only be *")),
        // Both are conditions, and they cannot hold together.
        (Some(_), Some(_)) => {
            Err(Problem::new(Code::VersionConflict, "If-Match and If-None-Match contradict each other"))
        }
    }
}

fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    let (first, second) = (values.next(), values.next());
    let Some(first) = first else { return Ok(None) };
    match (first.to_str(), second) {
        (Ok(text), None) => Ok(Some(text.trim())),
        (Ok(_), Some(_)) | (Err(_), _) => Err(Problem::field(format!("/{name}"), "must be given once")),
    }
}

fn version(tag: &str) -> Option<u32> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let version: u64 = digits.parse().ok().filter(|_| plain)?;
    // There is no such version, whatever the number is beyond them.
    Some(u32::try_from(version).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn conditions_are_one_version_or_a_star() {
        let cases = [
            (None, None, Some(Expect::Unsaid)),
            (Some("*"), None, Some(Expect::Present)),
            (Some("\"3\""), None, Some(Expect::Version(3))),
            (None, Some("*"), Some(Expect::Absent)),
            (Some("3"), None, None),
            (Some("W/\"3\""), None, None),
            (Some("\"+3\""), None, None),
            (Some("\"3\", \"4\""), None, None),
            (Some("\"9999999999\""), None, Some(Expect::Version(u32::MAX))),
            (Some("\"99999999999999999999\""), None, None),
            (None, Some("\"3\""), None),
            (Some("*"), Some("*"), None),
        ];
        for (wanted, unwanted, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::IF_MATCH, wanted), (header::IF_NONE_MATCH, unwanted)] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(expect_of(&headers).ok(), expected, "{wanted:?} {unwanted:?}");
        }
        let mut twice = HeaderMap::new();
        twice.append(header::IF_MATCH, HeaderValue::from_static("\"1\""));
        twice.append(header::IF_MATCH, HeaderValue::from_static("\"2\""));
        assert!(expect_of(&twice).is_err());
    }
}
