//! What a well-formed value is. Faults are collected, so that a caller sees all of them at once.

use crate::pointer::Pointer;
use crate::problem::{FIELD_ERRORS_MAX, Problem};
use fantail_channels::webhook::Secret;
use fantail_rules::limits::NAME_BYTES_MAX;
use fantail_rules::name::{self, NameFault};
use fantail_wire::code::Code;
use fantail_wire::problem::FieldError;

pub const URL_BYTES_MAX: usize = 2_048;
/// Schemes that run or reveal something on the reader's side.
const SCHEMES_REFUSED: &[&str] = &["javascript", "data", "vbscript", "file", "blob", "about"];

/// The faults of one request.
#[derive(Debug, Default)]
pub struct Faults(Vec<FieldError>);

impl Faults {
    pub fn add(&mut self, at: Pointer<'_>, detail: impl Into<String>) {
        if self.0.len() < FIELD_ERRORS_MAX {
            self.0.push(FieldError::new(at.to_string(), detail));
        }
    }

    pub fn add_some(&mut self, at: Pointer<'_>, fault: Option<String>) {
        if let Some(fault) = fault {
            self.add(at, fault);
        }
    }

    pub fn name(&mut self, at: Pointer<'_>, value: &str) {
        self.add_some(at, name_fault(value));
    }

    /// As `name`, of something that this creates unless it `is_taken`: what exists keeps its name.
    pub fn new_name(&mut self, at: Pointer<'_>, value: &str, is_taken: impl FnOnce() -> bool) {
        // Lookups end with the faults that are shown.
        if self.0.len() < FIELD_ERRORS_MAX {
            self.add_some(at, new_name_fault(value, is_taken));
        }
    }

    pub fn text(&mut self, at: Pointer<'_>, value: &str, bytes_max: usize) {
        self.add_some(at, text_fault(value, bytes_max));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_result(self) -> Result<(), Problem> {
        if self.0.is_empty() {
            return Ok(());
        }
        let detail = format!("{} invalid", if self.0.len() == 1 { "a field is" } else { "fields are" });
        Err(Problem::new(Code::InvalidRequest, detail).with_errors(self.0))
    }
}

/// A tenant's name for something that there may be: not empty, not too long for a key, printable.
pub fn name_fault(value: &str) -> Option<String> {
    if value.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if value.len() > NAME_BYTES_MAX {
        return Some(format!("must have at most {NAME_BYTES_MAX} bytes"));
    }
    let printable = !value.chars().any(char::is_control);
    (!printable).then(|| "must not contain control characters".to_owned())
}

/// A name for something that is created now: people can see all of it, see `rules::name`. What exists may have another one, and
/// only then it is asked whether there is such a thing.
pub fn new_name_fault(value: &str, is_taken: impl FnOnce() -> bool) -> Option<String> {
    if let Some(fault) = name_fault(value) {
        return Some(fault);
    }
    let fault = name::fault(value)?;
    (!is_taken()).then(|| match fault {
        NameFault::Control => "must not contain control characters".to_owned(),
        NameFault::Dots => "must not be . or .., which are steps in a path".to_owned(),
        NameFault::Blank => "must not begin or end with white space".to_owned(),
        NameFault::Invisible(letter) => {
            let code = u32::from(letter);
            format!("must not contain U+{code:04X}, which is invisible or changes how the rest is shown")
        }
    })
}

/// What something is called beside its id. It is text in any language, so joiners, variation selectors and wide blanks are part of
/// it; only what turns the text around it is not.
pub fn display_name_fault(value: &str) -> Option<String> {
    let turns = |letter: &char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    name_fault(value).or_else(|| {
        let code = u32::from(value.chars().find(turns)?);
        Some(format!("must not contain U+{code:04X}, which turns the text around it"))
    })
}

/// Text for people: line breaks are fine.
pub fn text_fault(value: &str, bytes_max: usize) -> Option<String> {
    if value.is_empty() {
        return Some("must not be empty".to_owned());
    }
    (value.len() > bytes_max).then(|| format!("must have at most {bytes_max} bytes"))
}

/// The secret of a webhook, as Standard Webhooks writes it.
pub fn secret_fault(secret: &str) -> Option<String> {
    Secret::parse(secret).err().map(|error| error.to_string())
}

/// An image: fetched by clients, so only over the web.
pub fn image_url_fault(url: &str) -> Option<String> {
    let web = matches!(scheme_of(url).as_deref(), Some("http" | "https"));
    if !web {
        return Some("must be an http or https URL".to_owned());
    }
    url_fault(url)
}

/// A link: the web, or an app's own scheme, but nothing that runs.
pub fn url_fault(url: &str) -> Option<String> {
    if url.len() > URL_BYTES_MAX {
        return Some(format!("must have at most {URL_BYTES_MAX} bytes"));
    }
    if url.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Some("must not contain white space".to_owned());
    }
    match scheme_of(url) {
        None => Some("must be an absolute URL".to_owned()),
        Some(scheme) if SCHEMES_REFUSED.contains(&scheme.as_str()) => {
            Some(format!("the scheme {scheme} is not allowed"))
        }
        Some(_) => None,
    }
}

fn scheme_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once(':')?;
    let letters = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let good = letters && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && !rest.is_empty();
    good.then(|| scheme.to_ascii_lowercase())
}

/// A tenant's slug: it stands in paths, headers and metric labels.
pub fn slug_fault(slug: &str) -> Option<String> {
    let letters = slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let good = letters && (1..=63).contains(&slug.len()) && !slug.starts_with('-') && !slug.ends_with('-');
    (!good).then(|| "must be 1 to 63 lower-case letters, digits and inner hyphens".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        for good in ["a", "urn:user:1", "Ånn & co / 7", longest.as_str()] {
            assert_eq!(name_fault(good), None, "{good}");
        }
        let too_long = "x".repeat(NAME_BYTES_MAX + 1);
        let too_many_bytes = "é".repeat(NAME_BYTES_MAX / 2 + 1);
        for bad in ["", "a\nb", "a\0", "\u{7f}", "\u{85}", too_long.as_str(), too_many_bytes.as_str()] {
            assert!(name_fault(bad).is_some(), "{bad:?}");
        }
    }

    // fixes: usability C14
    #[test]
    fn new_names_can_be_seen_and_old_ones_are_found() {
        for (bad, says) in [
            ("", "empty"),
            ("a\nb", "control"),
            ("..", "steps in a path"),
            (" ", "white space"),
            ("a\u{202e}b", "U+202E"),
            ("a\u{200b}", "U+200B"),
        ] {
            let fault = new_name_fault(bad, || false);
            assert!(fault.is_some_and(|fault| fault.contains(says)), "{bad:?}");
        }
        for known in ["..", " ", "a\u{202e}b", "a\u{200b}"] {
            assert_eq!(name_fault(known), None, "{known:?} may exist");
            assert_eq!(new_name_fault(known, || true), None, "{known:?} exists");
        }
        for never in ["", "a\nb"] {
            assert!(new_name_fault(never, || true).is_some(), "{never:?} was always refused");
        }
        let good = new_name_fault("Ånn & co / 7", || panic!("nothing is looked up for a good name"));
        assert_eq!(good, None);
    }

    #[test]
    fn display_names_are_in_any_language() {
        for good in ["Acme", "می\u{200c}خواهم", "🏳\u{fe0f}\u{200d}🌈", "東京\u{3000}支店", "a\u{200f}b", " "]
        {
            assert_eq!(display_name_fault(good), None, "{good:?}");
        }
        for bad in ["", "a\nb", "a\u{202e}b", "a\u{2066}b", "a\u{202a}"] {
            assert!(display_name_fault(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn urls() {
        for good in ["https://a.b/c?d", "HTTP://a", "myapp://open/7", "mailto:a@b.c", "tel:+41"] {
            assert_eq!(url_fault(good), None, "{good}");
        }
        for bad in
            ["", "a", "/relative", "javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,x", "a b:c", ":x"]
        {
            assert!(url_fault(bad).is_some(), "{bad}");
        }
        assert_eq!(image_url_fault("https://a/b.png"), None);
        for bad in ["ftp://a/b", "myapp://x", "data:image/png;base64,x"] {
            assert!(image_url_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn slugs() {
        for good in ["a", "acme-shop", "7", "x1"] {
            assert_eq!(slug_fault(good), None, "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "é", "a b", &"x".repeat(64)] {
            assert!(slug_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn faults_are_bounded() {
        let mut faults = Faults::default();
        for index in 0..100 {
            faults.add(Pointer::ROOT.index(index), "wrong");
        }
        let problem = faults.into_result().expect_err("faults");
        assert_eq!(problem.errors.len(), FIELD_ERRORS_MAX);
        assert!(Faults::default().into_result().is_ok());
    }
}
