//! Who may ask the control API: programs of this machine, with the viewer's key if there is one. Never a page in a browser that came
//! from somewhere else.
//!
//! | threat | what keeps it out |
//! |---|---|
//! | a name that a stranger lets mean 127.0.0.1 (DNS rebinding) | `Host` has to name this machine |
//! | a page that posts a form or text here | `Origin` and `Sec-Fetch-Site`; changes are JSON, which no page sends to strangers unasked |
//! | another user of this machine | the key, which is in a file of its owner |
//!
//! What must never happen: an answer about messages, or a change, for a request that was not looked at here.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use hyper::http::request::Parts;
use hyper::http::{HeaderMap, Method, StatusCode, header};

/// Why a request is not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuardRefusal {
    ForeignHost,
    ForeignPage,
    NoKey,
    NotJson,
}

impl GuardRefusal {
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::ForeignHost => StatusCode::MISDIRECTED_REQUEST,
            Self::ForeignPage => StatusCode::FORBIDDEN,
            Self::NoKey => StatusCode::UNAUTHORIZED,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::ForeignHost => "ask for localhost, 127.0.0.1 or [::1]",
            Self::ForeignPage => "pages of other sites are not answered",
            Self::NoKey => "send the key of the viewer as `Authorization: Bearer` followed by the key",
            Self::NotJson => "send `Content-Type: application/json`",
        }
    }
}

/// `Ok` for a request that may be answered. `key`: the one of the viewer, if it has one.
pub fn check(head: &Parts, key: Option<&str>) -> Result<(), GuardRefusal> {
    let host = one(&head.headers, header::HOST).flatten().filter(|host| is_this_machine(host));
    let host = host.ok_or(GuardRefusal::ForeignHost)?;
    let is_own = |origin: &str| origin.eq_ignore_ascii_case(&format!("http://{host}"));
    if one(&head.headers, header::ORIGIN).is_none_or(|origin| origin.is_some_and(|origin| !is_own(origin))) {
        return Err(GuardRefusal::ForeignPage);
    }
    let is_near = |site: &str| matches!(site, "same-origin" | "none");
    let site = one(&head.headers, header::HeaderName::from_static("sec-fetch-site"));
    if site.is_none_or(|site| site.is_some_and(|site| !is_near(site))) {
        return Err(GuardRefusal::ForeignPage);
    }
    if head.uri.path() == "/ca.pem" {
        // A certificate is no secret.
        return Ok(());
    }
    if key.is_some_and(|key| !has_key(&head.headers, key)) {
        return Err(GuardRefusal::NoKey);
    }
    let is_look = matches!(head.method, Method::GET | Method::HEAD);
    // A page can have a form posted without asking first, but nothing deleted.
    if is_look || head.method == Method::DELETE || is_json(&head.headers) {
        Ok(())
    } else {
        Err(GuardRefusal::NotJson)
    }
}

/// `None` for a header that comes twice or is no text, `Some(None)` for one that is not there.
fn one(headers: &HeaderMap, name: header::HeaderName) -> Option<Option<&str>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Some(None),
        (Some(value), None) => value.to_str().ok().map(Some),
        (Some(_), Some(_)) => None,
    }
}

/// Any port will do: it may be forwarded from elsewhere.
fn is_this_machine(host: &str) -> bool {
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

fn has_key(headers: &HeaderMap, key: &str) -> bool {
    let value = one(headers, header::AUTHORIZATION).flatten().unwrap_or_default();
    let given = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    given.is_some_and(|(_, given)| verify_slices_are_equal(given.trim().as_bytes(), key.as_bytes()).is_ok())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = one(headers, header::CONTENT_TYPE).flatten().unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::http::Request;

    fn verdict(
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        key: Option<&str>,
    ) -> Option<GuardRefusal> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).expect("a request").into_parts().0, key).err()
    }

    const LOCAL: (&str, &str) = ("host", "127.0.0.1:7071");
    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

    // fixes: security M4, proved M4
    #[test]
    fn only_names_of_this_machine_are_answered() {
        for (host, is_answered) in [
            ("localhost", true),
            ("LocalHost:7071", true),
            ("127.0.0.1:7071", true),
            ("[::1]:7071", true),
            ("[::1]", true),
            ("evil.example", false),
            ("evil.example:7071", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:7071", false),
            ("localhost:7071@evil.example", false),
            ("0.0.0.0:7071", false),
            ("", false),
        ] {
            let expected = (!is_answered).then_some(GuardRefusal::ForeignHost);
            assert_eq!(verdict("GET", "/messages", &[("host", host)], None), expected, "{host}");
            assert_eq!(verdict("GET", "/ca.pem", &[("host", host)], None), expected, "{host}");
        }
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(verdict("GET", "/", &twice, None), Some(GuardRefusal::ForeignHost));
        assert_eq!(verdict("GET", "/", &[], None), Some(GuardRefusal::ForeignHost));
    }

    // fixes: security M4, proved M4
    #[test]
    fn pages_of_other_sites_are_not_answered() {
        use GuardRefusal::{ForeignPage, NotJson};
        for (method, header, expected) in [
            ("GET", ("origin", "http://127.0.0.1:7071"), None),
            ("GET", ("origin", "http://127.0.0.1:8080"), Some(ForeignPage)),
            ("GET", ("origin", "https://evil.example"), Some(ForeignPage)),
            ("GET", ("origin", "null"), Some(ForeignPage)),
            ("GET", ("sec-fetch-site", "none"), None),
            ("GET", ("sec-fetch-site", "same-origin"), None),
            ("GET", ("sec-fetch-site", "same-site"), Some(ForeignPage)),
            ("GET", ("sec-fetch-site", "cross-site"), Some(ForeignPage)),
            ("DELETE", ("origin", "https://evil.example"), Some(ForeignPage)),
            ("DELETE", ("accept", "*/*"), None),
            ("POST", JSON, None),
            ("PUT", JSON, None),
            ("POST", ("accept", "*/*"), Some(NotJson)),
            ("POST", ("content-type", "text/plain"), Some(NotJson)),
            ("POST", ("content-type", "application/x-www-form-urlencoded"), Some(NotJson)),
            ("PUT", ("content-type", "multipart/form-data"), Some(NotJson)),
            ("PATCH", ("content-type", "text/json"), Some(NotJson)),
        ] {
            assert_eq!(verdict(method, "/messages", &[LOCAL, header], None), expected, "{method} {header:?}");
        }
    }

    // fixes: security M4, proved M4
    #[test]
    fn messages_are_for_the_holder_of_the_key() {
        for (path, header, is_answered) in [
            ("/messages", ("authorization", "Bearer abc"), true),
            ("/messages", ("authorization", "bearer  abc "), true),
            ("/messages", ("authorization", "Bearer abd"), false),
            ("/messages", ("authorization", "Bearer ab"), false),
            ("/messages", ("authorization", "Basic abc"), false),
            ("/messages", ("authorization", "abc"), false),
            ("/messages", ("accept", "*/*"), false),
            ("/", ("accept", "*/*"), false),
            ("/ca.pem", ("accept", "*/*"), true),
        ] {
            let expected = (!is_answered).then_some(GuardRefusal::NoKey);
            assert_eq!(verdict("GET", path, &[LOCAL, header], Some("abc")), expected, "{path} {header:?}");
        }
        assert_eq!(verdict("POST", "/clock", &[LOCAL, JSON], Some("abc")), Some(GuardRefusal::NoKey));
    }
}
