//! Which URLs may stand in a message: an image comes over the web, a link may also open an app, nothing may run.

use crate::limits::URL_BYTES_MAX;

/// Schemes that run or reveal something on the reader's side.
const REFUSED: &[&str] = &["javascript", "data", "vbscript", "file", "blob", "about", "view-source", "jar"];

/// An image: fetched by clients, so only over the web.
pub fn image_fault(url: &str) -> Option<String> {
    match scheme(url).as_deref() {
        Some("http" | "https") => shape_fault(url),
        _ => Some("must be an http or https URL".to_owned()),
    }
}

/// A link: the web, or an app's own scheme.
pub fn link_fault(url: &str) -> Option<String> {
    match scheme(url) {
        None => Some("must be an absolute URL".to_owned()),
        Some(scheme) if REFUSED.contains(&scheme.as_str()) => {
            Some(format!("the scheme {scheme} is not allowed"))
        }
        Some(_) => shape_fault(url),
    }
}

/// An attribute of HTML that names a place. Relative places and anchors are the author's business; of schemes, only
/// those that cannot run. Browsers skip spaces and control characters before and inside a scheme, so it is read without.
pub fn attribute_fault(value: &str) -> Option<String> {
    let bare: String = value.chars().filter(|c| !c.is_control() && !c.is_whitespace()).take(64).collect();
    let scheme = scheme(&bare)?;
    REFUSED.contains(&scheme.as_str()).then(|| format!("the scheme {scheme} is not allowed"))
}

fn shape_fault(url: &str) -> Option<String> {
    if url.len() > URL_BYTES_MAX {
        return Some(format!("must have at most {URL_BYTES_MAX} bytes"));
    }
    let blank = url.chars().any(|letter| letter.is_control() || letter.is_whitespace());
    blank.then(|| "must not contain white space".to_owned())
}

fn scheme(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once(':')?;
    let word = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let is_scheme = word && !rest.is_empty() && scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    is_scheme.then(|| scheme.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: PSH-11
    #[test]
    fn nothing_that_runs_is_a_link() {
        for (url, image, link) in [
            ("https://example.com/a.png", true, true),
            ("HTTP://example.com", true, true),
            ("myapp://orders/1", false, true),
            ("tel:+491234", false, true),
            ("javascript:alert(1)", false, false),
            ("JaVaScRiPt:alert(1)", false, false),
            ("data:text/html,x", false, false),
            ("/relative", false, false),
            ("https://a b", false, false),
            ("https:", false, false),
            ("", false, false),
            ("1a:b", false, false),
        ] {
            assert_eq!(image_fault(url).is_none(), image, "{url}");
            assert_eq!(link_fault(url).is_none(), link, "{url}");
        }
        assert!(link_fault(&format!("https://{}", "a".repeat(URL_BYTES_MAX))).is_some());
        for (value, allowed) in [
            ("#top", true),
            ("/a:b", true),
            ("cid:logo", true),
            ("mailto:a@b.c", true),
            (" java\nscript:alert(1)", false),
            ("\u{1}javascript:x", false),
            ("data:image/png;base64,xx", false),
        ] {
            assert_eq!(attribute_fault(value).is_none(), allowed, "{value:?}");
        }
    }
}
