//! The header `Idempotency-Key`: the name of a send whose body gives none.
//!
//! Invariant: a given header always has an effect, because a retry would send twice otherwise.

use crate::problem::Problem;
use axum::http::{HeaderMap, HeaderName};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const POINTER: &str = "/Idempotency-Key";

/// The name of a send: that of its body, or else the header.
pub fn name_of(headers: &HeaderMap, of_body: Option<String>) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(HEADER).iter();
    let Some(header) = given.next() else { return Ok(of_body) };
    if given.next().is_some() {
        return Err(Problem::field(POINTER, "must be given once"));
    }
    let key = str::from_utf8(header.as_bytes()).map_err(|_| Problem::field(POINTER, "must be UTF-8"))?;
    match of_body {
        Some(name) if name != key => Err(Problem::field(POINTER, "contradicts notificationId")),
        Some(_) | None => Ok(Some(key.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    // fixes: usability B1
    #[test]
    fn no_header_is_ignored() {
        let check = |headers: &[&[u8]], of_body: Option<&str>| {
            let mut map = HeaderMap::new();
            for header in headers {
                map.append(HEADER, HeaderValue::from_bytes(header).expect("a header"));
            }
            name_of(&map, of_body.map(str::to_owned)).map_err(|problem| problem.errors[0].detail.clone())
        };
        let name = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(check(&[], None), Ok(None));
        assert_eq!(check(&[], Some("o-1")), name("o-1"));
        assert_eq!(check(&[b"k-1"], None), name("k-1"));
        assert_eq!(check(&["bestellung-ü-42".as_bytes()], None), name("bestellung-ü-42"));
        assert_eq!(check(&[b"o-1"], Some("o-1")), name("o-1"));
        assert_eq!(check(&[b"k-1"], Some("o-1")), Err("contradicts notificationId".to_owned()));
        assert_eq!(check(&[b"k-1", b"k-1"], None), Err("must be given once".to_owned()));
        assert_eq!(check(&[b"bestellung-\xfc-42"], None), Err("must be UTF-8".to_owned()));
        // An empty name is refused where names are checked.
        assert_eq!(check(&[b""], None), name(""));
    }
}
