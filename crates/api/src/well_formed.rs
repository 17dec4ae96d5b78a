//! What HTTP and URLs demand of every request, beyond what the transport checks.

use crate::problem::Problem;
use axum::http::request::Parts;
use axum::http::{Version, header};
use fantail_wire::code::Code;

/// The request said twice how long it is, with a length and with chunks; told by the listener, which saw its bytes.
#[derive(Clone, Copy, Debug)]
pub struct TwoLengths;

/// Refuses a request that breaks RFC 9112 or RFC 3986, before any route looks at it.
pub fn require(parts: &Parts) -> Result<(), Problem> {
    if parts.extensions.get::<TwoLengths>().is_some() {
        return Err(malformed("send Content-Length or Transfer-Encoding, not both"));
    }
    let hosts = parts.headers.get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && parts.version == Version::HTTP_11) {
        return Err(malformed("send exactly one Host header"));
    }
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    if !is_percent_encoded(target) {
        return Err(malformed("a % in the path or the query must be followed by two hexadecimal digits"));
    }
    Ok(())
}

fn malformed(detail: &'static str) -> Problem {
    Problem::new(Code::MalformedRequest, detail)
}

fn is_percent_encoded(text: &str) -> bool {
    let mut after = text.split('%').skip(1);
    after.all(|part| {
        let mut digits = part.bytes();
        (0..2).all(|_| digits.next().is_some_and(|digit| digit.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn code(version: Version, path: &str, hosts: &[&str]) -> Option<Code> {
        let mut request = Request::builder().version(version).uri(path);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        require(&parts).err().map(|problem| problem.code)
    }

    // fixes: usability C6
    #[test]
    fn http_1_1_names_one_host() {
        let refused = Some(Code::MalformedRequest);
        assert_eq!(code(Version::HTTP_11, "/livez", &["a"]), None);
        assert_eq!(code(Version::HTTP_11, "/livez", &[]), refused);
        assert_eq!(code(Version::HTTP_10, "/livez", &[]), None);
        assert_eq!(code(Version::HTTP_2, "/livez", &[]), None);
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            assert_eq!(code(version, "/livez", &["a", "a"]), refused);
        }
    }

    // fixes: usability C14
    #[test]
    fn broken_percent_encoding_is_refused() {
        for good in ["/u/%7a", "/u/%7A%25zz", "/u/a?b=%20", "/u"] {
            assert_eq!(code(Version::HTTP_11, good, &["a"]), None, "{good}");
        }
        for bad in ["/u/%zz", "/u/%", "/u/%7", "/u/a?b=%", "/u/a?b=%2x", "/u/%+1"] {
            assert_eq!(code(Version::HTTP_11, bad, &["a"]), Some(Code::MalformedRequest), "{bad}");
        }
    }
}
